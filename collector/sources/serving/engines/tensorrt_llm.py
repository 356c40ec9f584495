"""TensorRT-LLM, 1.2 and 1.3: `/prometheus/metrics` of `trtllm-serve`, port 8000.

Source: `tensorrt_llm/metrics/collector.py` of NVIDIA/TensorRT-LLM. Names have the prefix `trtllm_` from 1.3
on, and none before; old workers of NVIDIA Dynamo pass them on with `trtllm:` (facts on serving engines, §1).
`/metrics` of the same server is JSON, and reading empties it.
"""

from __future__ import annotations

from collector.sources.serving.engines.spec import (
    Buckets,
    Combine,
    Distribution,
    NameMap,
    Quantity,
    catalogued,
    named,
)

_PREFIXES = ("trtllm_", "trtllm:", "")


def _prefixed(name: str) -> tuple[str, ...]:
    return tuple(prefix + name for prefix in _PREFIXES)


def _buckets(name: str) -> tuple[Buckets, ...]:
    return tuple(Buckets(name=each, once_a_request=True) for each in _prefixed(name))


TENSORRT_LLM = NameMap(
    engine=catalogued("tensorrt_llm"),
    # The histograms of 1.2 are called as those of NVIDIA NIM, so only the KV cache tells 1.2 by itself.
    marks=(
        "trtllm_",
        "trtllm:",
        "kv_cache_utilization",
        "kv_cache_hit_rate",
        "kv_cache_reused_blocks",
    ),
    model_labels=("model_name", "model"),
    quantities=(
        # Up to 1.2 there is no counter of tokens at all. Without a prefix these names are NIM's.
        Quantity(
            metric="llm_tokens_total",
            value="prompt",
            alternatives=named("trtllm_prompt_tokens_total", "trtllm:prompt_tokens_total"),
        ),
        Quantity(
            metric="llm_tokens_total",
            value="generation",
            alternatives=named(
                "trtllm_generation_tokens_total", "trtllm:generation_tokens_total", at_finish=True
            ),
        ),
        Quantity(metric="llm_requests_running", alternatives=named(*_prefixed("num_requests_running"))),
        Quantity(metric="llm_requests_waiting", alternatives=named(*_prefixed("num_requests_waiting"))),
        Quantity(
            metric="llm_kv_cache_usage_ratio",
            alternatives=named(*_prefixed("kv_cache_utilization")),
            combine=Combine.FULLEST,
        ),
        # Hits by token are counted later than 1.3.0; reused and missed blocks are no tokens.
        Quantity(
            metric="llm_prefix_cache_query_tokens_total", alternatives=named("trtllm_prompt_tokens_total")
        ),
        Quantity(
            metric="llm_prefix_cache_hit_tokens_total",
            alternatives=named("trtllm_prompt_cached_tokens_total"),
        ),
    ),
    distributions=(
        Distribution(
            metric="llm_time_to_first_token_seconds", alternatives=_buckets("time_to_first_token_seconds")
        ),
        Distribution(
            metric="llm_inter_token_latency_seconds", alternatives=_buckets("time_per_output_token_seconds")
        ),
        Distribution(
            metric="llm_request_duration_seconds", alternatives=_buckets("e2e_request_latency_seconds")
        ),
    ),
)

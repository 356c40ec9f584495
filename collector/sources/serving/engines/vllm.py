"""vLLM, 0.8 to 0.33: `/metrics` of the API server, port 8000.

Sources: `vllm/v1/metrics/loggers.py` and `vllm/v1/metrics/stats.py` of vllm-project/vllm; versions of renames
from the published wheels (facts on serving engines, §1).
"""

from __future__ import annotations

from collector.sources.serving.engines.spec import (
    Alternative,
    Buckets,
    Combine,
    Distribution,
    NameMap,
    Quantity,
    catalogued,
    named,
)

VLLM = NameMap(
    engine=catalogued("vllm"),
    # Not the bare prefix: the router of vLLM's production stack has `vllm:num_requests_running`, too.
    marks=("vllm:generation_tokens", "vllm:prompt_tokens"),
    model_labels=("model_name", "model"),
    # `engine` is the data-parallel rank: ranks add. Tensor-parallel ranks have no series.
    quantities=(
        Quantity(
            metric="llm_tokens_total",
            value="prompt",
            alternatives=(
                # 0.16 on. Without `external_kv_transfer`: a decode engine that is handed a prompt's KV cache
                # counts the whole prompt again (vllm issue 33289). `ALL_SOURCES` in stats.py has these three.
                Alternative(
                    names=("vllm:prompt_tokens_by_source_total",),
                    label="source",
                    values=("local_compute", "local_cache_hit"),
                ),
                *named("vllm:prompt_tokens_total"),
            ),
        ),
        Quantity(
            metric="llm_tokens_total",
            value="generation",
            alternatives=named("vllm:generation_tokens_total"),
        ),
        Quantity(metric="llm_requests_running", alternatives=named("vllm:num_requests_running")),
        Quantity(metric="llm_requests_waiting", alternatives=named("vllm:num_requests_waiting")),
        Quantity(
            metric="llm_kv_cache_usage_ratio",
            # New from 0.9.2 on; the old name is hidden in 0.11 and gone in 0.12.
            alternatives=named("vllm:kv_cache_usage_perc", "vllm:gpu_cache_usage_perc"),
            combine=Combine.FULLEST,
        ),
        # Renamed with the usage. The old names count blocks up to 0.8 and tokens from 0.9 on (vllm pull
        # request 18003); only the HELP line tells which.
        Quantity(
            metric="llm_prefix_cache_query_tokens_total",
            alternatives=(
                *named("vllm:prefix_cache_queries_total"),
                Alternative(names=("vllm:gpu_prefix_cache_queries_total",), help_word="tokens"),
            ),
        ),
        Quantity(
            metric="llm_prefix_cache_hit_tokens_total",
            alternatives=(
                *named("vllm:prefix_cache_hits_total"),
                Alternative(names=("vllm:gpu_prefix_cache_hits_total",), help_word="tokens"),
            ),
        ),
    ),
    distributions=(
        Distribution(
            metric="llm_time_to_first_token_seconds",
            alternatives=(Buckets(name="vllm:time_to_first_token_seconds", once_a_request=True),),
        ),
        Distribution(
            metric="llm_inter_token_latency_seconds",
            # New from 0.10.2 on; the old name is gone in 0.15. Both observe each token.
            alternatives=(
                Buckets(name="vllm:inter_token_latency_seconds", once_a_request=False),
                Buckets(name="vllm:time_per_output_token_seconds", once_a_request=False),
            ),
        ),
        Distribution(
            metric="llm_request_duration_seconds",
            alternatives=(Buckets(name="vllm:e2e_request_latency_seconds", once_a_request=True),),
        ),
    ),
)

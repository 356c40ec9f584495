"""SGLang, 0.4 to 0.5: `/metrics`, port 30000, with `--enable-metrics`.

Sources: `python/sglang/srt/observability/metrics_collector.py` of sgl-project/sglang, and before it
`srt/metrics/collector.py`; versions from the published wheels (facts on serving engines, §1).
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

_REALTIME = "sglang:realtime_tokens_total"
"""From 0.5.7 on: counts as the scheduler works, where the other counters wait for a request's end."""


def _realtime(*modes: str) -> Alternative:
    return Alternative(names=(_REALTIME,), label="mode", values=modes)


def _all_priorities(name: str) -> tuple[Alternative, ...]:
    """With priority scheduling the series of empty `priority` is the total, and the others are its parts."""
    return (Alternative(names=(name,), label="priority", values=("",)),)


SGLANG = NameMap(
    engine=catalogued("sglang"),
    # SGLang's own router calls its metrics `sgl_router_…` and `smg_…`.
    marks=("sglang:",),
    model_labels=("model_name", "model"),
    # Every pipeline stage tells the scheduler's numbers, and every tensor-parallel rank as well with
    # `--enable-metrics-for-all-schedulers`. `dp_rank` adds, and so does `is_streaming`.
    repeating_labels=("tp_rank", "pp_rank", "moe_ep_rank"),
    quantities=(
        Quantity(
            metric="llm_tokens_total",
            value="prompt",
            # A decode engine has no prefill of its own, so it does not count the prompt again here.
            alternatives=(
                _realtime("prefill_compute", "prefill_cache"),
                *named("sglang:prompt_tokens_total"),
            ),
        ),
        Quantity(
            metric="llm_tokens_total",
            value="generation",
            alternatives=(_realtime("decode"), *named("sglang:generation_tokens_total", at_finish=True)),
        ),
        Quantity(metric="llm_requests_running", alternatives=_all_priorities("sglang:num_running_reqs")),
        Quantity(metric="llm_requests_waiting", alternatives=_all_priorities("sglang:num_queue_reqs")),
        Quantity(
            metric="llm_kv_cache_usage_ratio",
            alternatives=named("sglang:token_usage"),
            combine=Combine.FULLEST,
        ),
        # SGLang counts no queries; every prompt token is looked up in its radix cache.
        Quantity(
            metric="llm_prefix_cache_query_tokens_total",
            alternatives=(
                _realtime("prefill_compute", "prefill_cache"),
                *named("sglang:prompt_tokens_total"),
            ),
        ),
        Quantity(
            metric="llm_prefix_cache_hit_tokens_total",
            # By `cache_source`: device, host, storage; or `total` alone.
            alternatives=(_realtime("prefill_cache"), *named("sglang:cached_tokens_total")),
        ),
    ),
    distributions=(
        Distribution(
            metric="llm_time_to_first_token_seconds",
            alternatives=(Buckets(name="sglang:time_to_first_token_seconds", once_a_request=True),),
        ),
        Distribution(
            metric="llm_inter_token_latency_seconds",
            # Renamed between 0.4.3 and 0.4.6. The old one is a request's duration by its tokens.
            alternatives=(
                Buckets(name="sglang:inter_token_latency_seconds", once_a_request=False),
                Buckets(name="sglang:time_per_output_token_seconds", once_a_request=True),
            ),
        ),
        Distribution(
            metric="llm_request_duration_seconds",
            alternatives=(Buckets(name="sglang:e2e_request_latency_seconds", once_a_request=True),),
        ),
    ),
)

"""NVIDIA Dynamo, 0.7 to 1.6: `/metrics` of the frontend, port 8000, which routes requests to engines.

Sources: `lib/runtime/src/metrics/prometheus_names.rs` and `lib/llm/src/http/service/metrics.rs` of
ai-dynamo/dynamo; versions from the published wheels (facts on serving engines, §1). Its workers pass on the
metrics of their engine and are recognized as that.
"""

from __future__ import annotations

from collector.sources.serving.engines.spec import Buckets, Distribution, NameMap, Quantity, catalogued, named

DYNAMO = NameMap(
    engine=catalogued("dynamo"),
    marks=("dynamo_frontend_",),
    model_labels=("model",),
    quantities=(
        # The length of each request's input is observed in a histogram, whose sum is the tokens.
        Quantity(
            metric="llm_tokens_total",
            value="prompt",
            alternatives=named("dynamo_frontend_input_sequence_tokens_sum"),
        ),
        Quantity(
            metric="llm_tokens_total",
            value="generation",
            # Live, from 0.7 on; before, the sum of what finished.
            alternatives=(
                *named("dynamo_frontend_output_tokens_total"),
                *named("dynamo_frontend_output_sequence_tokens_sum", at_finish=True),
            ),
        ),
        # `active_requests` is there from 1.2 on; both hold the queued ones, too.
        Quantity(
            metric="llm_requests_running",
            alternatives=named("dynamo_frontend_inflight_requests", "dynamo_frontend_active_requests"),
        ),
        Quantity(metric="llm_requests_waiting", alternatives=named("dynamo_frontend_queued_requests")),
        Quantity(
            metric="llm_prefix_cache_query_tokens_total",
            alternatives=named("dynamo_frontend_input_sequence_tokens_sum"),
        ),
        Quantity(
            metric="llm_prefix_cache_hit_tokens_total",
            alternatives=named("dynamo_frontend_cached_tokens_sum"),
        ),
    ),
    distributions=(
        Distribution(
            metric="llm_time_to_first_token_seconds",
            alternatives=(Buckets(name="dynamo_frontend_time_to_first_token_seconds", once_a_request=True),),
        ),
        Distribution(
            metric="llm_inter_token_latency_seconds",
            alternatives=(Buckets(name="dynamo_frontend_inter_token_latency_seconds", once_a_request=False),),
        ),
        Distribution(
            metric="llm_request_duration_seconds",
            alternatives=(Buckets(name="dynamo_frontend_request_duration_seconds", once_a_request=True),),
        ),
    ),
)

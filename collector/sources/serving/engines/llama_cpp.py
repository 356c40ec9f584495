"""llama.cpp: `/metrics` of `llama-server`, port 8080, with `--metrics`.

Source: `tools/server` of ggml-org/llama.cpp (facts on serving engines, §1). It has no histograms and names no
model. Its `*_seconds` gauges are averages already and are not read.
"""

from __future__ import annotations

from collector.sources.serving.engines.spec import Alternative, Combine, NameMap, Quantity, catalogued, named

# What was computed, and what the cache gave; that is counted from commit decaf508b (August 2026) on.
_ALL_PROMPT_TOKENS = Alternative(
    names=("llamacpp:prompt_tokens_total", "llamacpp:prompt_tokens_cached_total")
)

LLAMA_CPP = NameMap(
    engine=catalogued("llama_cpp"),
    marks=("llamacpp:",),
    model_labels=(),
    quantities=(
        Quantity(
            metric="llm_tokens_total",
            value="prompt",
            alternatives=(_ALL_PROMPT_TOKENS, *named("llamacpp:prompt_tokens_total")),
        ),
        Quantity(
            metric="llm_tokens_total",
            value="generation",
            alternatives=named("llamacpp:tokens_predicted_total"),
        ),
        Quantity(metric="llm_requests_running", alternatives=named("llamacpp:requests_processing")),
        Quantity(metric="llm_requests_waiting", alternatives=named("llamacpp:requests_deferred")),
        # Old builds only: llama.cpp pull request 13660 took it away.
        Quantity(
            metric="llm_kv_cache_usage_ratio",
            alternatives=named("llamacpp:kv_cache_usage_ratio"),
            combine=Combine.FULLEST,
        ),
        Quantity(metric="llm_prefix_cache_query_tokens_total", alternatives=(_ALL_PROMPT_TOKENS,)),
        Quantity(
            metric="llm_prefix_cache_hit_tokens_total",
            alternatives=named("llamacpp:prompt_tokens_cached_total"),
        ),
    ),
    distributions=(),
)

"""What SGLang shows. Names, texts and bounds: python/sglang/srt/metrics/collector.py at 00ae9c1 (0.5.8).

Its tokenizer counts a request's tokens when it has ended; its scheduler counts them as they are made. A
counter or histogram is there only after its first observation, as the client library has it with labels.
"""

from __future__ import annotations

from collector.simulator.serving.exposition import (
    Families,
    Family,
    Labels,
    Read,
    counter,
    counter_by,
    gauge,
    histogram,
)
from collector.simulator.serving.progress import CACHED_PROMPT_SHARE, FIRST_TOKEN_SECONDS, Pace, Tally
from collector.simulator.serving.spread import FIRST_TOKEN_SIGMA, REQUEST_SIGMA, Spread

_FIRST_TOKEN_BOUNDS = (0.1, 0.2, 0.4, 0.6, 0.8, 1, 2, 4, 6, 8, 10, 20, 40, 60, 80, 100, 200, 400)
_REQUEST_BOUNDS = (*_FIRST_TOKEN_BOUNDS, 600, 1200, 1800, 2400)
_TOKEN_BOUNDS = (
    *(0.002, 0.004, 0.006, 0.008, 0.010, 0.015, 0.020, 0.025, 0.030, 0.035, 0.040, 0.060, 0.080, 0.100),
    *(0.200, 0.400, 0.600, 0.800, 1.000, 2.000, 4.000, 6.000, 8.000),
)
_POOL_TOKENS = 2_000_000
"""Tokens that the KV cache holds: chosen."""


def families_0_5(pace: Pace, rank: int) -> tuple[Family, ...]:
    """Describe SGLang 0.5.8.

    Args:
        pace: What the rank does.
        rank: Its number.
    """
    labels: Labels = (("model_name", pace.serving.model),)
    scheduler: Labels = (
        *labels,
        ("engine_type", "unified"),
        ("tp_rank", str(rank)),
        ("pp_rank", "0"),
        ("moe_ep_rank", "0"),
    )
    return (*_scheduler(pace, scheduler), *_tokenizer(pace, labels))


VERSIONS: dict[str, Families] = {"0.5.8": families_0_5}


def _once(read: Read) -> Read:
    """Show a series from its first observation on."""
    return lambda tally: read(tally) or None


def _scheduler(pace: Pace, labels: Labels) -> tuple[Family, ...]:
    tokens_per_second = 1 / pace.serving.seconds_per_output_token
    return (
        gauge(
            "sglang:num_running_reqs",
            "The number of running requests.",
            labels,
            lambda tally: tally.running,
        ),
        gauge(
            "sglang:num_used_tokens",
            "The number of used tokens.",
            labels,
            lambda tally: int(tally.kv_usage * _POOL_TOKENS),
        ),
        gauge("sglang:token_usage", "The token usage.", labels, lambda tally: tally.kv_usage),
        # An average of the engine's own, which is not to be averaged again.
        gauge(
            "sglang:gen_throughput",
            "The generation throughput (token/s).",
            labels,
            lambda tally: tally.running * tokens_per_second if tally.working else 0,
        ),
        gauge(
            "sglang:num_queue_reqs",
            "The number of requests in the waiting queue.",
            labels,
            lambda tally: tally.waiting,
        ),
        gauge(
            "sglang:cache_hit_rate",
            "The prefix cache hit rate.",
            labels,
            lambda tally: CACHED_PROMPT_SHARE if tally.working else 0,
        ),
        gauge(
            "sglang:max_total_num_tokens",
            "Maximum total number of tokens in the KV cache pool.",
            labels,
            lambda _: _POOL_TOKENS,
        ),
        counter_by(
            "sglang:realtime_tokens_total",
            "Total number of tokens processed (updated on each log interval). "
            "mode: prefill_compute, prefill_cache, decode.",
            labels,
            "mode",
            {
                "prefill_compute": _once(lambda tally: tally.computed_tokens),
                "prefill_cache": _once(lambda tally: tally.cached_tokens),
                # A request's first token comes with its prompt.
                "decode": _once(lambda tally: tally.decode_tokens),
            },
        ),
    )


def _tokenizer(pace: Pace, labels: Labels) -> tuple[Family, ...]:
    serving = pace.serving
    finished: Read = _once(lambda tally: tally.finished)
    return (
        counter(
            "sglang:prompt_tokens_total",
            "Number of prefill tokens processed.",
            labels,
            _once(lambda tally: tally.finished * serving.prompt_tokens),
        ),
        counter(
            "sglang:generation_tokens_total",
            "Number of generation tokens processed.",
            labels,
            _once(lambda tally: tally.finished * serving.generation_tokens),
        ),
        counter(
            "sglang:cached_tokens_total",
            "Number of cached prompt tokens.",
            labels,
            _once(lambda tally: int(tally.finished * serving.prompt_tokens * CACHED_PROMPT_SHARE)),
        ),
        counter("sglang:num_requests_total", "Number of requests processed.", labels, finished),
        histogram(
            "sglang:time_to_first_token_seconds",
            "Histogram of time to first token in seconds.",
            labels,
            _FIRST_TOKEN_BOUNDS,
            Spread(FIRST_TOKEN_SECONDS, FIRST_TOKEN_SIGMA),
            _once(_count_started),
        ),
        histogram(
            "sglang:inter_token_latency_seconds",
            "Histogram of inter-token latency in seconds.",
            labels,
            _TOKEN_BOUNDS,
            Spread(serving.seconds_per_output_token),
            _once(lambda tally: tally.decode_tokens),
        ),
        histogram(
            "sglang:e2e_request_latency_seconds",
            "Histogram of End-to-end request latency in seconds",
            labels,
            _REQUEST_BOUNDS,
            Spread(FIRST_TOKEN_SECONDS + pace.decode_seconds, REQUEST_SIGMA),
            finished,
        ),
    )


def _count_started(tally: Tally) -> float:
    return tally.started

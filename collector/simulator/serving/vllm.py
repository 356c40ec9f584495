"""What vLLM shows, in two of its versions. Names, texts and bounds: vllm/v1/metrics/loggers.py of each."""

from __future__ import annotations

from collections.abc import Callable

from collector.simulator.serving.exposition import (
    Families,
    Family,
    Labels,
    counter,
    counter_by,
    gauge,
    histogram,
)
from collector.simulator.serving.progress import FIRST_TOKEN_SECONDS, QUEUE_SHARE, Pace, Tally
from collector.simulator.serving.spread import FIRST_TOKEN_SIGMA, REQUEST_SIGMA, Spread

_FIRST_TOKEN_BOUNDS = (
    *(0.001, 0.005, 0.01, 0.02, 0.04, 0.06, 0.08, 0.1, 0.25, 0.5, 0.75, 1.0, 2.5, 5.0, 7.5, 10.0, 20.0, 40.0),
    *(80.0, 160.0, 640.0, 2560.0),
)
_TOKEN_BOUNDS = (
    *(0.01, 0.025, 0.05, 0.075, 0.1, 0.15, 0.2, 0.3, 0.4, 0.5, 0.75, 1.0, 2.5, 5.0, 7.5, 10.0, 20.0, 40.0),
    80.0,
)
_REQUEST_BOUNDS = (
    *(0.3, 0.5, 0.8, 1.0, 1.5, 2.0, 2.5, 5.0, 10.0, 15.0, 20.0, 30.0, 40.0, 50.0, 60.0, 120.0, 240.0, 480.0),
    *(960.0, 1920.0, 7680.0),
)
_STEP_BOUNDS = (1, 8, 16, 32, 64, 128, 256, 512, 1024, 2048, 4096, 8192, 16384)
# build_1_2_5_buckets of a longest sequence of 16,384 tokens: chosen, enough for 8k/1k.
_LENGTH_BOUNDS = (1, 2, 5, 10, 20, 50, 100, 200, 500, 1000, 2000, 5000, 10000)

_REASONS = ("stop", "length", "abort")
"""FinishReason of vllm/v1/engine/__init__.py; a load generator lets every request end by its length."""


def families_0_9(pace: Pace, rank: int) -> tuple[Family, ...]:
    """Describe vLLM 0.9.1, the last with the old names alone.

    Args:
        pace: What the rank does.
        rank: Its number.
    """
    labels = _labels(pace, rank)
    return (
        *_scheduler(labels),
        gauge(
            "vllm:gpu_cache_usage_perc",
            "GPU KV-cache usage. 1 means 100 percent usage.",
            labels,
            lambda tally: tally.kv_usage,
        ),
        *_prefix_cache(labels, "gpu_prefix_cache", "GPU prefix cache"),
        *_tokens(labels),
        _finished(labels),
        *_lengths(pace, labels),
        *_times(pace, labels),
        _between_tokens(
            pace,
            labels,
            "vllm:time_per_output_token_seconds",
            "Histogram of time per output token in seconds.",
        ),
        _cache_configuration(rank),
    )


def families_0_16(pace: Pace, rank: int) -> tuple[Family, ...]:
    """Describe vLLM 0.16, which says where prompt tokens came from.

    Args:
        pace: What the rank does.
        rank: Its number.
    """
    labels = _labels(pace, rank)
    serving = pace.serving
    return (
        *_scheduler(labels),
        gauge(
            "vllm:kv_cache_usage_perc",
            "KV-cache usage. 1 means 100 percent usage.",
            labels,
            lambda tally: tally.kv_usage,
        ),
        *_prefix_cache(labels, "prefix_cache", "Prefix cache"),
        *_tokens(labels),
        counter_by(
            "vllm:prompt_tokens_by_source_total",
            "Number of prompt tokens by source.",
            labels,
            "source",
            {
                "local_compute": lambda tally: tally.computed_tokens,
                "local_cache_hit": lambda tally: tally.cached_tokens,
                "external_kv_transfer": lambda _: 0,
            },
        ),
        counter(
            "vllm:prompt_tokens_cached_total",
            "Number of cached prompt tokens (local + external).",
            labels,
            lambda tally: tally.cached_tokens,
        ),
        _finished(labels),
        *_lengths(pace, labels),
        *_times(pace, labels),
        _between_tokens(
            pace, labels, "vllm:inter_token_latency_seconds", "Histogram of inter-token latency in seconds."
        ),
        histogram(
            "vllm:request_time_per_output_token_seconds",
            "Histogram of time_per_output_token_seconds per request.",
            labels,
            _TOKEN_BOUNDS,
            Spread(serving.seconds_per_output_token),
            _count_finished,
        ),
        _cache_configuration(rank),
    )


VERSIONS: dict[str, Families] = {"0.9.1": families_0_9, "0.16.0": families_0_16}


def _count_finished(tally: Tally) -> float:
    return tally.finished


def _labels(pace: Pace, rank: int) -> Labels:
    return (("engine", str(rank)), ("model_name", pace.serving.model))


def _scheduler(labels: Labels) -> tuple[Family, ...]:
    return (
        gauge(
            "vllm:num_requests_running",
            "Number of requests in model execution batches.",
            labels,
            lambda tally: tally.running,
        ),
        gauge(
            "vllm:num_requests_waiting",
            "Number of requests waiting to be processed.",
            labels,
            lambda tally: tally.waiting,
        ),
    )


def _prefix_cache(labels: Labels, name: str, words: str) -> tuple[Family, ...]:
    """Count in tokens: before 0.9.0 these were blocks (vLLM pull request 18003)."""
    return (
        counter(
            f"vllm:{name}_queries_total",
            f"{words} queries, in terms of number of queried tokens.",
            labels,
            lambda tally: tally.prompt_tokens,
        ),
        counter(
            f"vllm:{name}_hits_total",
            f"{words} hits, in terms of number of cached tokens.",
            labels,
            lambda tally: tally.cached_tokens,
        ),
    )


def _tokens(labels: Labels) -> tuple[Family, ...]:
    return (
        counter(
            "vllm:num_preemptions_total",
            "Cumulative number of preemption from the engine.",
            labels,
            lambda _: 0,
        ),
        counter(
            "vllm:prompt_tokens_total",
            "Number of prefill tokens processed.",
            labels,
            lambda tally: tally.prompt_tokens,
        ),
        counter(
            "vllm:generation_tokens_total",
            "Number of generation tokens processed.",
            labels,
            lambda tally: tally.generation_tokens,
        ),
    )


def _finished(labels: Labels) -> Family:
    reads: dict[str, Callable[[Tally], float]] = dict.fromkeys(_REASONS, lambda _: 0)
    reads["length"] = _count_finished
    return counter_by(
        "vllm:request_success_total",
        "Count of successfully processed requests.",
        labels,
        "finished_reason",
        reads,
    )


def _lengths(pace: Pace, labels: Labels) -> tuple[Family, ...]:
    serving = pace.serving
    # A step makes one token of each running request, and reads prompts at the rate at which they come.
    tokens = pace.places * (serving.prompt_tokens + serving.generation_tokens) / serving.generation_tokens
    return (
        histogram(
            "vllm:request_prompt_tokens",
            "Number of prefill tokens processed.",
            labels,
            _LENGTH_BOUNDS,
            Spread(serving.prompt_tokens, sigma=0),
            _count_finished,
        ),
        histogram(
            "vllm:request_generation_tokens",
            "Number of generation tokens processed.",
            labels,
            _LENGTH_BOUNDS,
            Spread(serving.generation_tokens, sigma=0),
            _count_finished,
        ),
        # A histogram, whatever its name says.
        histogram(
            "vllm:iteration_tokens_total",
            "Histogram of number of tokens per engine_step.",
            labels,
            _STEP_BOUNDS,
            Spread(tokens),
            lambda tally: tally.generation_tokens // tally.pace.places,
        ),
    )


def _times(pace: Pace, labels: Labels) -> tuple[Family, ...]:
    prefill_seconds = FIRST_TOKEN_SECONDS * (1 - QUEUE_SHARE)
    rows = (
        ("e2e_request_latency", "e2e request latency in seconds", FIRST_TOKEN_SECONDS + pace.decode_seconds),
        ("request_queue_time", "time spent in WAITING phase for request", FIRST_TOKEN_SECONDS * QUEUE_SHARE),
        (
            "request_inference_time",
            "time spent in RUNNING phase for request",
            prefill_seconds + pace.decode_seconds,
        ),
        ("request_prefill_time", "time spent in PREFILL phase for request", prefill_seconds),
        ("request_decode_time", "time spent in DECODE phase for request", pace.decode_seconds),
    )
    return (
        histogram(
            "vllm:time_to_first_token_seconds",
            "Histogram of time to first token in seconds.",
            labels,
            _FIRST_TOKEN_BOUNDS,
            Spread(FIRST_TOKEN_SECONDS, FIRST_TOKEN_SIGMA),
            lambda tally: tally.started,
        ),
        *(
            histogram(
                f"vllm:{name}_seconds",
                f"Histogram of {words}.",
                labels,
                _REQUEST_BOUNDS,
                Spread(seconds, REQUEST_SIGMA),
                _count_finished,
            )
            for name, words, seconds in rows
        ),
    )


def _between_tokens(pace: Pace, labels: Labels, name: str, text: str) -> Family:
    return histogram(
        name,
        text,
        labels,
        _TOKEN_BOUNDS,
        Spread(pace.serving.seconds_per_output_token),
        lambda tally: tally.decode_tokens,
    )


def _cache_configuration(rank: int) -> Family:
    labels = (
        ("block_size", "16"),
        ("cache_dtype", "auto"),
        ("enable_prefix_caching", "True"),
        ("engine", str(rank)),
        ("gpu_memory_utilization", "0.9"),
    )
    return gauge("vllm:cache_config_info", "Information of the LLMEngine CacheConfig", labels, lambda _: 1)

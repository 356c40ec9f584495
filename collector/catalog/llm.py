"""What serving engines say of themselves, under one name each (CONTRACTS §2).

How each engine calls it stands with its source, in `collector.sources.serving`.
"""

from __future__ import annotations

from collector.catalog.spec import Cadence, Entity, Kind, Level, Metric, Unit, ValueType, derived

SCRAPE_ERRORS = (
    "connection",
    "drained_json",
    "malformed",
    "status",
    "timeout",
    "too_large",
    "unrecognized",
)
"""Closed set of `llm_scrape_errors_total{error}`: nobody answers; the answer is the JSON of TensorRT-LLM,
which reading empties; it is no exposition; its HTTP status is not 200; it took too long; it has too many
bytes or series; no engine that is known has such metrics."""

PHASES = ("prompt", "generation")


def _llm(
    name: str,
    text: str,
    kind: Kind,
    *,
    entity: Entity = Entity.LLM,
    unit: Unit = Unit.NONE,
    value_type: ValueType = ValueType.FLOAT,
    level: Level = Level.CORE,
    maximum: float = float(2**63),
    label: str | None = None,
    labels: tuple[str, ...] = (),
    values: tuple[str, ...] = (),
) -> Metric:
    return Metric(
        name=f"llm_{name}",
        kind=kind,
        unit=unit,
        value_type=value_type,
        entity=entity,
        level=level,
        cadence=Cadence.SERVING,
        help=text,
        maximum=maximum,
        label=label,
        info_labels=labels,
        parts=derived(*values),
    )


def _seconds(name: str, text: str) -> Metric:
    return _llm(f"{name}_seconds", text, Kind.HISTOGRAM, unit=Unit.SECONDS, level=Level.STANDARD)


LLM = (
    _llm(
        "up",
        "1 while the endpoint's metrics are read and fresh, 0 while not; then its other series are absent.",
        Kind.GAUGE,
        entity=Entity.LLM_ENDPOINT,
        value_type=ValueType.INT,
        maximum=1,
    ),
    _llm(
        "gpu_info",
        "1 for each GPU, by index, that the configuration says the endpoint computes on.",
        Kind.INFO,
        entity=Entity.LLM_ENDPOINT,
        value_type=ValueType.INT,
        maximum=1,
        labels=("gpu",),
    ),
    _llm(
        "scrape_seconds",
        "Time that the last scrape of the endpoint took.",
        Kind.GAUGE,
        entity=Entity.LLM_ENDPOINT,
        unit=Unit.SECONDS,
    ),
    _llm(
        "scrape_errors_total",
        "Scrapes of the endpoint that brought nothing, by what was wrong.",
        Kind.COUNTER,
        entity=Entity.LLM_ENDPOINT,
        value_type=ValueType.INT,
        label="error",
        values=SCRAPE_ERRORS,
    ),
    _llm(
        "tokens_at_finish",
        "1 where the endpoint counts generated tokens when their request ends, 0 where as they are made; "
        "absent where it counts none.",
        Kind.GAUGE,
        entity=Entity.LLM_ENDPOINT,
        value_type=ValueType.INT,
        maximum=1,
    ),
    _llm(
        "tokens_total",
        "Tokens by phase, as the engine counts them; sum one role only: a router and its engines count the "
        "same tokens.",
        Kind.COUNTER,
        label="phase",
        values=PHASES,
    ),
    _llm("requests_running", "Requests that are being computed, as the engine counts them.", Kind.GAUGE),
    _llm("requests_waiting", "Requests that wait for their turn.", Kind.GAUGE),
    _llm(
        "kv_cache_usage_ratio",
        "Share of the KV cache in use; of several ranks the fullest.",
        Kind.GAUGE,
        unit=Unit.RATIO,
        maximum=1,
    ),
    _llm(
        "prefix_cache_query_tokens_total",
        "Prompt tokens that were looked up in the prefix cache.",
        Kind.COUNTER,
    ),
    _llm("prefix_cache_hit_tokens_total", "Prompt tokens that were found in the prefix cache.", Kind.COUNTER),
    _seconds("time_to_first_token", "Time from a request to its first token, in the engine's own buckets."),
    _seconds(
        "inter_token_latency",
        "Time from one token to the next, in the engine's own buckets; of an engine that observes once a "
        "request, the request's mean.",
    ),
    _seconds("request_duration", "Time from a request to its last token, in the engine's own buckets."),
)

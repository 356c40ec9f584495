"""The agent's account of what it writes to InfluxDB; no series unless it is configured."""

from __future__ import annotations

from collector.catalog.spec import Cadence, Entity, Kind, Level, Metric, Unit, ValueType, derived

SENDER_STATES = ("idle", "sending", "backing_off", "held")
"""Nothing waits; what waits is sent; the server fails or cannot be reached; it will not take anything until a
person acts."""

DROP_CAUSES = ("age", "disk", "size")
"""Why points are given up unsent: older than allowed, the disk refused them, the spool was full."""

REJECT_CAUSES = ("refused", "server_error", "too_large")
"""Why points are set aside: the server refuses the line, fails whenever it gets the batch, or finds even the
single line too large."""

WRITE_ERRORS = (
    "certificate",
    "forbidden",
    "not_found",
    "other",
    "overloaded",
    "redirected",
    "refused_lines",
    "server_error",
    "timeout",
    "too_large",
    "unauthorized",
    "unreachable",
)
"""Why requests failed."""


def _row(
    name: str,
    text: str,
    kind: Kind,
    *,
    unit: Unit = Unit.NONE,
    label: str | None = None,
    values: tuple[str, ...] = (),
) -> Metric:
    return Metric(
        name=f"agent_influxdb_{name}",
        kind=kind,
        unit=unit,
        value_type=ValueType.FLOAT if unit is Unit.SECONDS else ValueType.INT,
        entity=Entity.AGENT,
        level=Level.CORE,
        cadence=Cadence.AGENT,
        help=text,
        maximum=1 if kind is Kind.STATE else float(2**63),
        label=label,
        parts=derived(*values),
    )


INFLUXDB = (
    _row(
        "sender_state",
        "1 for what the writer to InfluxDB does now, 0 for the others; `held` waits for a person.",
        Kind.STATE,
        label="state",
        values=SENDER_STATES,
    ),
    _row("spool_records", "Records that wait on the way to InfluxDB, one a Snapshot.", Kind.GAUGE),
    _row("spool_points", "Points in the records that wait.", Kind.GAUGE),
    _row(
        "spool_bytes",
        "Size of the spool's files, compressed; parts of them may be written already.",
        Kind.GAUGE,
        unit=Unit.BYTES,
    ),
    _row(
        "spool_age_seconds",
        "Age of the oldest record that waits; 0 where none does.",
        Kind.GAUGE,
        unit=Unit.SECONDS,
    ),
    _row("points_written_total", "Points that the server acknowledged, each once.", Kind.COUNTER),
    _row(
        "points_rejected_total",
        "Points that were set aside because the server never takes them, by cause; they are kept.",
        Kind.COUNTER,
        label="cause",
        values=REJECT_CAUSES,
    ),
    _row(
        "points_dropped_total",
        "Points that were given up unsent, the oldest first, by cause; they are lost.",
        Kind.COUNTER,
        label="cause",
        values=DROP_CAUSES,
    ),
    _row("points_damaged_total", "Points lost to damage of the spool's files.", Kind.COUNTER),
    _row("requests_total", "Requests that the server answered with success.", Kind.COUNTER),
    _row(
        "request_errors_total",
        "Requests that failed, by error.",
        Kind.COUNTER,
        label="error",
        values=WRITE_ERRORS,
    ),
    _row(
        "spool_write_errors_total",
        "Times that the disk refused what was to be kept.",
        Kind.COUNTER,
    ),
    _row(
        "last_success_timestamp_seconds",
        "When the server acknowledged points last, as Unix time; absent until it did.",
        Kind.GAUGE,
        unit=Unit.SECONDS,
    ),
)

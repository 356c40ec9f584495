"""The agent's account of what it writes to InfluxDB; no series unless it is configured."""

from __future__ import annotations

from collector.catalog.node import agent_row
from collector.catalog.spec import Kind, Unit

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


INFLUXDB = (
    agent_row(
        "influxdb_sender_state",
        "1 for what the writer to InfluxDB does now, 0 for the others; `held` waits for a person.",
        Kind.STATE,
        label="state",
        values=SENDER_STATES,
    ),
    agent_row(
        "influxdb_spool_records", "Records that wait on the way to InfluxDB, one a Snapshot.", Kind.GAUGE
    ),
    agent_row("influxdb_spool_points", "Points in the records that wait.", Kind.GAUGE),
    agent_row(
        "influxdb_spool_bytes",
        "Size of the spool's files, compressed; parts of them may be written already.",
        Kind.GAUGE,
        unit=Unit.BYTES,
    ),
    agent_row(
        "influxdb_spool_age_seconds",
        "Age of the oldest record that waits; 0 where none does.",
        Kind.GAUGE,
        unit=Unit.SECONDS,
    ),
    agent_row(
        "influxdb_points_written_total", "Points that the server acknowledged, each once.", Kind.COUNTER
    ),
    agent_row(
        "influxdb_points_rejected_total",
        "Points that were set aside because the server never takes them, by cause; they are kept.",
        Kind.COUNTER,
        label="cause",
        values=REJECT_CAUSES,
    ),
    agent_row(
        "influxdb_points_dropped_total",
        "Points that were given up unsent, the oldest first, by cause; they are lost.",
        Kind.COUNTER,
        label="cause",
        values=DROP_CAUSES,
    ),
    agent_row("influxdb_points_damaged_total", "Points lost to damage of the spool's files.", Kind.COUNTER),
    agent_row("influxdb_requests_total", "Requests that the server answered with success.", Kind.COUNTER),
    agent_row(
        "influxdb_request_errors_total",
        "Requests that failed, by error.",
        Kind.COUNTER,
        label="error",
        values=WRITE_ERRORS,
    ),
    agent_row(
        "influxdb_spool_write_errors_total",
        "Times that the disk refused what was to be kept.",
        Kind.COUNTER,
    ),
    agent_row(
        "influxdb_last_success_timestamp_seconds",
        "When the server acknowledged points last, as Unix time; absent until it did.",
        Kind.GAUGE,
        unit=Unit.SECONDS,
    ),
)

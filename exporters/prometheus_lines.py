"""The lines of Prometheus text 0.0.4 and OpenMetrics 1.0.0, up to their values.

Formats: https://prometheus.io/docs/instrumenting/exposition_formats/ (0.0.4) and
https://prometheus.io/docs/specs/om/open_metrics_spec/ (OpenMetrics 1.0.0).
"""

from __future__ import annotations

import enum

from collector.catalog.spec import Kind, Metric, Unit


class TextFormat(enum.Enum):
    """A format of the exposition; the value is its Content-Type, as the specifications give it."""

    PLAIN = "text/plain; version=0.0.4; charset=utf-8"
    OPENMETRICS = "application/openmetrics-text; version=1.0.0; charset=utf-8"


def line(
    metric: Metric,
    labels: tuple[str, ...],
    node: tuple[str, str],
    *,
    suffix: str = "",
    more: tuple[tuple[str, str], ...] = (),
) -> bytes:
    """Write the line of one series, with `%a` for its value.

    Args:
        metric: Its catalogue row.
        labels: Values of `metric.label_names`.
        node: Rack and node, for a metric that carries them.
        suffix: What follows the name of the metric.
        more: Further labels with their values.
    """
    implied = metric.entity.implied_keys
    names = implied + metric.label_names
    own = zip(names, (node if implied else ()) + labels, strict=True)
    pairs = ",".join(f'{name}="{_escape(value)}"' for name, value in (*own, *more))
    return _literal(f"{metric.exposed_name}{suffix}{{{pairs}}} ") + b"%a\n"


def _literal(text: str) -> bytes:
    """Encode text for a template: lone surrogates become `?`, and `%` stands for itself."""
    return text.encode("utf-8", errors="replace").replace(b"%", b"%%")


def _escape(text: str) -> str:
    """Escape a label value, in both formats, or OpenMetrics help."""
    return text.replace("\\", r"\\").replace('"', r"\"").replace("\n", r"\n")


def _escape_plain_help(text: str) -> str:
    """Escape help in 0.0.4, where a quote has no meaning."""
    return text.replace("\\", r"\\").replace("\n", r"\n")


_PLAIN_TYPES = {
    Kind.GAUGE: "gauge",
    Kind.COUNTER: "counter",
    Kind.STATE: "gauge",
    Kind.INFO: "gauge",
    Kind.HISTOGRAM: "histogram",
}
_OPENMETRICS_TYPES = {
    Kind.GAUGE: "gauge",
    Kind.COUNTER: "counter",
    Kind.STATE: "gauge",  # A stateset's label must be called after the metric; ours is called by its meaning.
    Kind.INFO: "info",
    Kind.HISTOGRAM: "histogram",
}
_OPENMETRICS_SUFFIXES = {Kind.COUNTER: "_total", Kind.INFO: "_info"}
"""What samples carry after the name of their family (OpenMetrics 1.0.0, "Suffixes")."""


def header(metric: Metric, form: TextFormat) -> bytes:
    """Write what stands above the lines of a metric, for a template."""
    lines = _plain_header(metric) if form is TextFormat.PLAIN else _openmetrics_header(metric)
    return _literal("".join(f"{each}\n" for each in lines))


def _plain_header(metric: Metric) -> tuple[str, ...]:
    name = metric.exposed_name
    return (
        f"# HELP {name} {_escape_plain_help(metric.help)}",
        f"# TYPE {name} {_PLAIN_TYPES[metric.kind]}",
    )


def _openmetrics_header(metric: Metric) -> tuple[str, ...]:
    family = metric.exposed_name.removesuffix(_OPENMETRICS_SUFFIXES.get(metric.kind, ""))
    unit = metric.unit.value
    has_unit = metric.unit is not Unit.NONE and family.endswith("_" + unit)
    return (
        f"# TYPE {family} {_OPENMETRICS_TYPES[metric.kind]}",
        *((f"# UNIT {family} {unit}",) if has_unit else ()),
        f"# HELP {family} {_escape(metric.help)}",
    )

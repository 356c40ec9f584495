"""The table of docs/influxdb.md: what is written to InfluxDB, by the schema that the lines follow."""

from __future__ import annotations

from collector.catalog import ALL
from collector.catalog.rack import RACK
from exporters.influxdb.schema import Form, Rule, rule_of

MARKER = "influxdb"

_TYPES = {
    Form.INTEGER: "integer",
    Form.FLOAT: "float",
    Form.FLAG: "boolean",
    Form.WORD: "string",
    Form.TEXTS: "string",
    Form.HISTOGRAM: "float",
}


def render() -> str:
    """Write the table: a row for the fields of each measurement that have the same tags and type."""
    found: dict[tuple[str, tuple[str, ...], str], list[str]] = {}
    for metric in (*ALL, *RACK):
        rule = rule_of(metric)
        found.setdefault((rule.measurement, rule.tags, _TYPES[rule.form]), []).extend(_fields(rule))
    lines = ["| Measurement | Tags | Type | Fields |", "|---|---|---|---|"]
    for (measurement, tags, kind), fields in found.items():
        lines.append(f"| `{measurement}` | {_listed(tags)} | {kind} | {_listed(fields)} |")
    return "\n".join(lines)


def _fields(rule: Rule) -> tuple[str, ...]:
    if rule.form is Form.TEXTS:
        return tuple(f"{rule.field}_{name}" for name in rule.texts)
    if rule.form is Form.HISTOGRAM:
        return tuple(f"{rule.field}_{part}" for part in ("le_BOUND", "sum", "count"))
    return ("_".join((rule.field, *(name.upper() for name in rule.suffixes))),)


def _listed(names: tuple[str, ...] | list[str]) -> str:
    return ", ".join(f"`{name}`" for name in names)

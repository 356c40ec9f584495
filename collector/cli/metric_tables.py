"""Renders the catalogue as text, JSON and Markdown."""

from __future__ import annotations

import json
import textwrap
from collections.abc import Callable, Iterator, Sequence

from collector.catalog.spec import (
    Binding,
    DriverRange,
    Entity,
    FieldBinding,
    GetterBinding,
    GpmBinding,
    Kind,
    LinkSum,
    Metric,
    Scope,
)

_WIDTH = 110

_SCOPES = {
    Scope.GPU: "",
    Scope.EACH_LINK: ", each link",
    Scope.ALL_LINKS: ", all links",
    Scope.MODULE: ", module",
    Scope.MEMORY: ", memory",
}

_HEADINGS = {
    Entity.GPU: "Of each GPU",
    Entity.NVLINK: "Of each NVLink",
    Entity.MODULE: "Of each module",
    Entity.CPU: "Of each CPU socket",
    Entity.LLM_ENDPOINT: "Of each serving endpoint",
    Entity.LLM: "Of each model of a serving endpoint",
    Entity.NODE: "Of the node",
    Entity.AGENT: "Of the agent itself",
    Entity.RACK: "Of each rack, by the rack service",
}


def describe_binding(binding: Binding) -> str:
    """Say where a binding reads: the name of NVML's field, function or metric, and its scope."""
    if isinstance(binding, FieldBinding):
        field = binding.field if isinstance(binding.field, str) else f"field {binding.field}"
        return f"{field}{_SCOPES[binding.scope]}{_drivers(binding.drivers)}"
    if isinstance(binding, GetterBinding):
        return f"{binding.function}: {binding.attribute}"
    if isinstance(binding, GpmBinding):
        return binding.metric
    return f"sum over links of {' + '.join(str(each.field) for each in binding.fields)}"


def _drivers(drivers: DriverRange | None) -> str:
    if drivers is None:
        return ""
    since = ".".join(map(str, drivers.since))
    before = f" and before {'.'.join(map(str, drivers.before))}" if drivers.before else ""
    return f" (drivers from {since}{before})"


def read_from(metric: Metric) -> dict[str, list[str]]:
    """Say where a metric is read.

    Args:
        metric: A catalogue row.

    Returns:
        For each value of its own label, or the empty string where all are read alike, the places in
        order of preference. Nothing for what is derived.
    """
    if metric.codes is not None:
        return {"": [describe_binding(binding) for binding in metric.codes.bindings]}
    return {
        part.value: [describe_binding(binding) for binding in part.bindings]
        for part in metric.parts
        if part.bindings
    }


_DERIVED = "derived"
_ORIGINS = {Entity.CPU: "Linux hwmon", Entity.LLM: "the serving engine"}
"""Where what NVML has no name for is read; the rest is derived."""

_MOST_ORIGINS = 3
"""Origins that a cell of the Markdown table names; the text form names all."""


def _origin_lines(metric: Metric) -> list[str]:
    """Say in full where a metric is read: one line a label value."""
    places = read_from(metric)
    if not places:
        return [_ORIGINS.get(metric.entity, _DERIVED)]
    return [
        f"{value}: {', else '.join(each)}" if value else ", else ".join(each)
        for value, each in places.items()
    ]


def _origin_names(binding: Binding) -> tuple[str, ...]:
    """Name only what is asked, for a table: fields by their constant, functions without what they return."""
    if isinstance(binding, LinkSum):
        return tuple(name for each in binding.fields for name in _origin_names(each))
    if isinstance(binding, FieldBinding):
        return (str(binding.field),) if isinstance(binding.field, str) else ()
    return (binding.function,) if isinstance(binding, GetterBinding) else (binding.metric,)


def _origin_cell(metric: Metric) -> str:
    bindings = (
        metric.codes.bindings if metric.codes else [each for part in metric.parts for each in part.bindings]
    )
    names = list(dict.fromkeys(name for binding in bindings for name in _origin_names(binding)))
    shown = [f"`{name}`" for name in names[:_MOST_ORIGINS]]
    more = [f"and {len(names) - _MOST_ORIGINS} more"] if len(names) > _MOST_ORIGINS else []
    return "<br>".join([*shown, *more]) or _ORIGINS.get(metric.entity, _DERIVED)


def _name_with_label(metric: Metric) -> str:
    names = metric.info_labels if metric.kind is not Kind.INFO else ()
    own = ",".join([metric.label] if metric.label else names)
    return f"{metric.exposed_name}{{{own}}}" if own else metric.exposed_name


def render_table(rows: Sequence[Metric]) -> str:
    """Render for a terminal: a line with the facts, the meaning and the origin below it."""
    width = max((len(row.exposed_name) for row in rows), default=0)
    lines = [f"{'METRIC':<{width}}  {'KIND':<9}  {'UNIT':<16}  {'LEVEL':<8}  {'CADENCE':<7}  LABELS"]
    for row in rows:
        facts = f"{row.kind.value:<9}  {row.unit.value or '-':<16}  {row.level.name.lower():<8}"
        labels = ", ".join(row.label_names) or "-"
        lines += _wrapped(
            f"{row.exposed_name:<{width}}  {facts}  {row.cadence.value:<7}  {labels}", " " * (width + 2)
        )
        lines += _wrapped(f"    {row.help}", "    ")
        for place in _origin_lines(row):
            lines += _wrapped(f"    <- {place}", "       ")
    return "\n".join(lines) + "\n"


def _wrapped(text: str, indent: str) -> list[str]:
    return textwrap.wrap(
        text, _WIDTH, subsequent_indent=indent, replace_whitespace=False, break_long_words=False
    )


def render_json(rows: Sequence[Metric]) -> str:
    """Render for programs: an object with a list `metrics`."""
    metrics = [
        {
            "name": row.exposed_name,
            "kind": row.kind.value,
            "unit": row.unit.value,
            "value_type": row.value_type.value,
            "entity": row.entity.value,
            "labels": [*row.entity.implied_keys, *row.label_names],
            "level": row.level.name.lower(),
            "cadence": row.cadence.value,
            "help": row.help,
            "read_from": read_from(row),
        }
        for row in rows
    ]
    return json.dumps({"metrics": metrics}, indent=2) + "\n"


def render_markdown(rows: Sequence[Metric]) -> str:
    """Render for a README: one table for each kind of thing that is measured."""
    return "\n".join(_markdown_lines(rows)) + "\n"


def _markdown_lines(rows: Sequence[Metric]) -> Iterator[str]:
    for entity, heading in _HEADINGS.items():
        own = [row for row in rows if row.entity is entity]
        if not own:
            continue
        labels = ", ".join(f"`{name}`" for name in (*entity.implied_keys, *entity.keys))
        yield from ("", f"**{heading}** ({labels})", "")
        yield "| Metric | Kind | Unit | Level | Cadence | Meaning | Read from |"
        yield "|---|---|---|---|---|---|---|"
        for row in own:
            cells = (
                f"`{_name_with_label(row)}`",
                row.kind.value,
                row.unit.value.replace("_", " ") or "-",
                row.level.name.lower(),
                row.cadence.value,
                _cell(row.help),
                _origin_cell(row),
            )
            yield f"| {' | '.join(cells)} |"


def _cell(text: str) -> str:
    return text.replace("|", r"\|")


RENDERERS: dict[str, Callable[[Sequence[Metric]], str]] = {
    "table": render_table,
    "json": render_json,
    "markdown": render_markdown,
}

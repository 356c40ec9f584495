"""What a catalogue row is in InfluxDB: measurement, tags, field and type, all derived (CONTRACTS §7)."""

from __future__ import annotations

import enum
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from functools import cache

from collector.catalog.spec import NODE_KEYS, Entity, Kind, Metric, ValueType
from exporters.influxdb.escaping import tag_text

_MEASUREMENTS = {
    Entity.NODE: "node",
    Entity.AGENT: "agent",
    Entity.GPU: "gpu",
    Entity.NVLINK: "nvlink",
    Entity.MODULE: "module",
    Entity.CPU: "cpu",
    Entity.LLM_ENDPOINT: "llm",
    Entity.LLM: "llm",
    Entity.RACK: "rack",
}

EVENT_MEASUREMENT = "event"

_DOMAIN_KEYS = ("cluster_uuid", "clique")
_TAGS = frozenset((*NODE_KEYS, *_DOMAIN_KEYS, *(key for entity in Entity for key in entity.keys)))
"""Labels that identify something (CONTRACTS §1): they are tags wherever they stand, except among the texts of
an INFO row, which change and would begin new series."""

_IMPLIED = frozenset({"impact"})
"""Labels that another one implies: a check has one impact."""

_EXCLUSIVE = frozenset({"action", "state", "verdict"})
"""Labels of a STATE of which one value holds at a time; of the others, several may."""


class Form(enum.Enum):
    """How the series of a row become fields; the value is the type that InfluxDB shows."""

    INTEGER = "integer"
    FLOAT = "float"
    FLAG = "boolean"
    WORD = "string"
    TEXTS = "strings"
    HISTOGRAM = "floats"


@dataclass(frozen=True, slots=True)
class Rule:
    """What becomes of the series of one catalogue row.

    Attributes:
        measurement: Where they stand.
        tags: Labels that are tags, sorted, rack and node among them.
        field: Name of the field; what `suffixes` have is appended.
        form: How values are written.
        suffixes: Labels whose values are appended to the field's name.
        word: Of a WORD, the label whose value is written, in upper case.
        texts: Of TEXTS, the labels that each are a field, appended to `field`.
    """

    measurement: str
    tags: tuple[str, ...]
    field: str
    form: Form
    suffixes: tuple[str, ...] = ()
    word: str = ""
    texts: tuple[str, ...] = ()


def measurement_of(metric: Metric) -> str:
    """Return the measurement that a row belongs to."""
    return _MEASUREMENTS[metric.entity]


@cache
def rule_of(metric: Metric) -> Rule:
    """Derive what becomes of a row."""
    measurement = measurement_of(metric)
    field = metric.name.removeprefix(f"{measurement}_").removesuffix("_total")
    own = metric.label_names[len(metric.entity.keys) :]
    form = _form(metric, own)
    if form is Form.TEXTS:
        return Rule(measurement, _tags(metric, ()), field, form, texts=own)
    tags = _tags(metric, tuple(label for label in own if label in _TAGS))
    rest = tuple(label for label in own if label not in _TAGS | _IMPLIED)
    if form is Form.WORD:
        return Rule(measurement, tags, field, form, word=rest[-1], suffixes=rest[:-1])
    return Rule(measurement, tags, field, form, suffixes=rest)


def _tags(metric: Metric, more: tuple[str, ...]) -> tuple[str, ...]:
    """Sort the tags, as InfluxDB stores them; a server need not sort them again."""
    return tuple(sorted((*metric.entity.implied_keys, *metric.entity.keys, *more)))


def _form(metric: Metric, own: tuple[str, ...]) -> Form:
    if metric.kind is Kind.HISTOGRAM:
        return Form.HISTOGRAM
    if metric.kind is Kind.INFO and not _TAGS.issuperset(own):
        return Form.TEXTS
    if metric.kind is Kind.STATE:
        return Form.WORD if _EXCLUSIVE.intersection(own) else Form.FLAG
    return Form.INTEGER if metric.value_type is ValueType.INT else Form.FLOAT


def prefix(rule: Rule, labels: Mapping[str, str]) -> str:
    """Write what a line begins with: measurement and tags. A tag without a text is left out.

    Args:
        rule: What becomes of the row.
        labels: The labels of the series by name, rack and node among them.
    """
    return point_prefix(rule.measurement, ((name, labels[name]) for name in rule.tags))


def point_prefix(measurement: str, tags: Iterable[tuple[str, str]]) -> str:
    """Write measurement and tags; line protocol has no empty tag, so that one is left out.

    Args:
        measurement: One of ours; it needs no escaping, nor do the names of tags.
        tags: Names and texts.
    """
    return measurement + "".join(f",{name}={tag_text(text)}" for name, text in tags if text)


def field_key(rule: Rule, labels: Mapping[str, str]) -> str:
    """Name the field of a series, not yet escaped."""
    return "_".join((rule.field, *(labels[name] for name in rule.suffixes)))

"""The newest Snapshot as Prometheus text 0.0.4 and OpenMetrics 1.0.0.

Everything but the values is prepared once a series table. As long as the same series have values, a
Snapshot is rendered by one `%` over one bytes template: `%a` writes ints and floats as `repr` does,
which is the shortest text that reads back as the same number.

Formats: https://prometheus.io/docs/instrumenting/exposition_formats/ (0.0.4) and
https://prometheus.io/docs/specs/om/open_metrics_spec/ (OpenMetrics 1.0.0).
"""

from __future__ import annotations

import enum
import math
import zlib
from collections.abc import Callable
from dataclasses import dataclass
from itertools import compress, groupby

from collector.catalog.spec import Kind, Metric, Unit
from collector.model import Series, SeriesTable, Snapshot
from exporters.negotiation import Offer, choose

GZIP_LEVEL = 3
"""Of zlib's levels 1 to 6, over 1,773 series in 241 kB: level 1 takes 0.37 ms for 15.0 kB, level 3 0.40 ms
for 14.6 kB, level 6 1.04 ms for 12.9 kB (measured on 2 cores of an AMD EPYC, zlib 1.2.13)."""

_GZIP_WBITS = 31
"""zlib.compress: 15 bits of window plus 16 for a gzip header, whose time stays 0: equal in, equal out."""


class TextFormat(enum.Enum):
    """A format of the exposition; the value is its Content-Type, as the specifications give it."""

    PLAIN = "text/plain; version=0.0.4; charset=utf-8"
    OPENMETRICS = "application/openmetrics-text; version=1.0.0; charset=utf-8"


_FORMATS = (TextFormat.PLAIN, TextFormat.OPENMETRICS)
_OFFERS = (
    Offer(("text/plain",), ("0.0.4",)),
    Offer(("application/openmetrics-text",), ("1.0.0",)),
)


def negotiate(accept: str) -> TextFormat:
    """Choose the format for an Accept header; 0.0.4 unless the client prefers OpenMetrics 1.0.0."""
    return _FORMATS[choose(accept, _OFFERS)]


@dataclass(frozen=True, slots=True)
class _Family:
    """The series of one metric: their place in the table, and what stands above them in each format."""

    start: int
    stop: int
    headers: dict[TextFormat, bytes]


@dataclass(frozen=True, slots=True)
class _Prepared:
    """What stays the same for all Snapshots of one table: a line with `%a` for each series, and headers."""

    lines: tuple[bytes, ...]
    families: tuple[_Family, ...]

    def template(self, mask: bytes, form: TextFormat) -> bytes:
        """Put together the lines of the series that `mask` marks; a family without any is left out."""
        pieces: list[bytes] = []
        for family in self.families:
            extent = slice(family.start, family.stop)
            kept = tuple(compress(self.lines[extent], mask[extent]))
            if kept:
                pieces.append(family.headers[form])
                pieces.extend(kept)
        if form is TextFormat.OPENMETRICS:
            pieces.append(b"# EOF\n")
        return b"".join(pieces)


class Renderer:
    """Renders Snapshots, and keeps what the next one will need again."""

    def __init__(self) -> None:
        self._key = ("", "", "")
        self._prepared = _Prepared((), ())
        self._mask = b""
        self._templates: dict[TextFormat, bytes] = {}

    def render(self, snapshot: Snapshot, form: TextFormat) -> bytes:
        """Write all values that are present, in the order of the table.

        A value that is not finite is left out like an absent one.
        """
        self._prepare(snapshot)
        values = snapshot.values
        mask = bytes([value is not None for value in values])
        present = tuple(value for value in values if value is not None)
        if not all(map(math.isfinite, present)):
            mask = bytes([value is not None and math.isfinite(value) for value in values])
            present = tuple(filter(math.isfinite, present))
        if mask != self._mask:
            self._mask = mask
            self._templates = {}
        if form not in self._templates:
            self._templates[form] = self._prepared.template(mask, form)
        return self._templates[form] % present

    def _prepare(self, snapshot: Snapshot) -> None:
        key = (snapshot.table.digest, snapshot.rack, snapshot.node)
        if key != self._key:
            self._prepared = _prepare(snapshot.table, (snapshot.rack, snapshot.node))
            self._key = key
            self._mask = b""
            self._templates = {}


class Exposition:
    """The newest Snapshot in each format, rendered and compressed when first asked for, once at most.

    Not thread-safe: it belongs to one event loop.
    """

    def __init__(self, render: Callable[[Snapshot, TextFormat], bytes] | None = None) -> None:
        """Begin without a Snapshot.

        Args:
            render: What renders; a `Renderer` of its own unless a test counts.
        """
        self._render = render or Renderer().render
        self._snapshot: Snapshot | None = None
        self._bodies: dict[tuple[TextFormat, bool], bytes] = {}

    def publish(self, snapshot: Snapshot) -> None:
        """Take the newest Snapshot."""
        self._snapshot = snapshot
        self._bodies = {}

    def body(self, form: TextFormat, *, gzip: bool = False) -> bytes:
        """Give the exposition of the newest Snapshot.

        Raises:
            LookupError: There is no Snapshot yet.
        """
        if self._snapshot is None:
            raise LookupError("no Snapshot has been published yet")
        body = self._bodies.get((form, gzip))
        if body is None:
            if gzip:
                body = zlib.compress(self.body(form), GZIP_LEVEL, _GZIP_WBITS)
            else:
                body = self._render(self._snapshot, form)
            self._bodies[form, gzip] = body
        return body


def _prepare(table: SeriesTable, node: tuple[str, str]) -> _Prepared:
    families: list[_Family] = []
    start = 0
    for metric, members in groupby(table.series, key=lambda entry: entry.metric):
        stop = start + sum(1 for _ in members)
        families.append(_Family(start, stop, {form: _header(metric, form) for form in TextFormat}))
        start = stop
    return _Prepared(tuple(_line(entry, node) for entry in table.series), tuple(families))


def _line(entry: Series, node: tuple[str, str]) -> bytes:
    implied = entry.metric.entity.implied_keys
    names = implied + entry.metric.label_names
    labels = zip(names, (node if implied else ()) + entry.labels, strict=True)
    pairs = ",".join(f'{name}="{_escape(value)}"' for name, value in labels)
    return _literal(f"{entry.metric.exposed_name}{{{pairs}}} ") + b"%a\n"


def _literal(text: str) -> bytes:
    """Encode text for a template: lone surrogates become `?`, and `%` stands for itself."""
    return text.encode("utf-8", errors="replace").replace(b"%", b"%%")


def _escape(text: str) -> str:
    """Escape a label value, in both formats, or OpenMetrics help."""
    return text.replace("\\", r"\\").replace('"', r"\"").replace("\n", r"\n")


def _escape_plain_help(text: str) -> str:
    """Escape help in 0.0.4, where a quote has no meaning."""
    return text.replace("\\", r"\\").replace("\n", r"\n")


_PLAIN_TYPES = {Kind.GAUGE: "gauge", Kind.COUNTER: "counter", Kind.STATE: "gauge", Kind.INFO: "gauge"}
_OPENMETRICS_TYPES = {
    Kind.GAUGE: "gauge",
    Kind.COUNTER: "counter",
    Kind.STATE: "gauge",  # A stateset's label must be called after the metric; ours is called by its meaning.
    Kind.INFO: "info",
}
_OPENMETRICS_SUFFIXES = {Kind.COUNTER: "_total", Kind.INFO: "_info"}
"""What samples carry after the name of their family (OpenMetrics 1.0.0, "Suffixes")."""


def _header(metric: Metric, form: TextFormat) -> bytes:
    lines = _plain_header(metric) if form is TextFormat.PLAIN else _openmetrics_header(metric)
    return _literal("".join(line + "\n" for line in lines))


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

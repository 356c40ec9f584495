"""The table of racks: one row a rack, worst first, each leading to its boards."""

from __future__ import annotations

from collections.abc import Iterator

from dashboards import links, units
from dashboards.boards.recordings import (
    SILENT,
    SILENT_CODE,
    VERDICT_CODES,
    Recordings,
    code_texts,
    describe,
)
from dashboards.boards.rows import Column, columns_table
from dashboards.identities import BoardId
from dashboards.panels import CellKind, Step, Table, Thresholds, ValueText, palette
from dashboards.queries import CLUSTER, Regexp

KNOWN_FOR = "1d"
"""For how long a rack keeps its row after its rack service fell silent (chosen)."""

_STALE_SECONDS = 2
OLD_SECONDS = 5
"""Data is stale from 2 s on, and no longer served from 5 s on (DESIGN §3)."""

AGE = Thresholds(
    base=palette.NEUTRAL, steps=(Step(_STALE_SECONDS, palette.DEGRADED), Step(OLD_SECONDS, palette.UNKNOWN))
)
SOME = Thresholds(steps=(Step(1, palette.DEGRADED),))
"""Colours of a count that should be zero."""

_CLASSES = (
    ValueText("0", "whole", palette.OK),
    ValueText("1", "enough", palette.DEGRADED),
    ValueText("2", "short", palette.FAILED),
)
_POINT, _LOW, _HIGH = (f"rack:availability_{bound}:ratio30d" for bound in ("point", "low", "high"))


def known_racks(recordings: Recordings) -> str:
    """Return the racks that were heard of within `KNOWN_FOR`, whatever their value."""
    selector = recordings.selector("rack:nodes_expected:max")
    return f"max by ({CLUSTER}, rack) (last_over_time({selector}[{KNOWN_FOR}]))"


def _verdict(recordings: Recordings) -> str:
    """Return the verdict's code, and another one for a rack that has fallen silent."""
    coded = recordings.coded("rack_verdict:verdict:max", VERDICT_CODES, label="verdict")
    return f"{coded} or {known_racks(recordings)} * 0 + {SILENT_CODE}"


def _use(recordings: Recordings) -> Iterator[Column]:
    expected, schedulable, largest, minimum = (
        recordings.by(f"rack:{name}:max", "rack")
        for name in ("nodes_expected", "nodes_schedulable", "largest_block_nodes", "min_block_nodes")
    )
    yield Column(
        "Class",
        f"({largest} < bool {expected}) + ({largest} < bool {minimum})",
        cell=CellKind.COLOURED_TEXT,
        mappings=_CLASSES,
    )
    yield Column("Largest block", largest)
    yield Column("Minimum", minimum)
    yield Column("Schedulable", schedulable)
    yield Column("Nodes", expected)


def _columns(recordings: Recordings) -> Iterator[Column]:
    to_rack = (links.to_rack(source=links.cell("rack")),)
    to_efficiency = (links.to_rack(BoardId.EFFICIENCY, source=links.cell("rack")),)
    gpus = recordings.by("rack:gpus_expected:max", "rack")
    good = recordings.by("rack_state:gpus:max", "rack", state="OK")
    bad = recordings.selector("rack_impact:checks_failed:sum", impact=Regexp("avoid|fail"))
    yield Column(
        "Verdict",
        _verdict(recordings),
        cell=CellKind.COLOURED_BACKGROUND,
        mappings=(*code_texts(VERDICT_CODES), ValueText(str(SILENT_CODE), SILENT, palette.UNKNOWN)),
        links=to_rack,
        width=130,
    )
    yield from _use(recordings)
    yield Column("GPUs out", f"{gpus} - {good}", cell=CellKind.COLOURED_TEXT, thresholds=SOME, links=to_rack)
    yield Column(
        "Failed checks",
        f"sum by ({CLUSTER}, rack) ({bad})",
        cell=CellKind.COLOURED_TEXT,
        thresholds=SOME,
        links=to_rack,
    )
    yield Column(
        "GPU power",
        recordings.by("rack_domain:power_watts:max", "rack", domain="gpu"),
        unit=units.WATTS,
        links=to_efficiency,
    )
    for heading, name in (("Availability 30 d", _POINT), ("Low", _LOW), ("High", _HIGH)):
        yield Column(heading, recordings.by(name, "rack"), unit=units.RATIO, decimals=2)
    yield Column(
        "Data age",
        recordings.by("rack:agent_sample_age_seconds:max", "rack"),
        unit=units.SECONDS,
        cell=CellKind.COLOURED_TEXT,
        thresholds=AGE,
    )


def rack_table(recordings: Recordings) -> Table:
    """List the racks, worst first."""
    return columns_table(
        key="racks-table",
        title="Racks, worst first",
        description=describe(
            "rack_verdict:verdict:max",
            "rack:nodes_schedulable:max",
            "rack:nodes_expected:max",
            "rack:largest_block_nodes:max",
            "rack:min_block_nodes:max",
            "rack_state:gpus:max",
            "rack_impact:checks_failed:sum",
            "rack_domain:power_watts:max",
            _POINT,
            _LOW,
            _HIGH,
            "rack:agent_sample_age_seconds:max",
            note=f"A rack whose rack service has fallen silent keeps its row for {KNOWN_FOR}, as {SILENT}. "
            "GPUs out are those expected that are not OK. Failed checks are those that keep jobs away.",
        ),
        width=24,
        height=9,
        labels=(("rack", "Rack"),),
        columns=tuple(_columns(recordings)),
        sort_by="Verdict",
        links={"Rack": (links.to_rack(source=links.cell("rack")),)},
    )

"""The fleet: which rack is in trouble, in five seconds, and one click to it."""

from __future__ import annotations

from collector.catalog.rack import GPU_STATES, NODE_STATES, VERDICTS
from dashboards import links, queries, units, variables
from dashboards.boards.fleet_health import silent_racks, telemetry
from dashboards.boards.fleet_racks import KNOWN_FOR, rack_table
from dashboards.boards.recordings import (
    RACK_LEGEND,
    SILENT,
    VERDICT_CODES,
    Recordings,
    code_texts,
    describe,
)
from dashboards.boards.troubles import firing_alerts
from dashboards.dashboard import Annotation, Board
from dashboards.identities import BoardId
from dashboards.layout import Section
from dashboards.panels import (
    ByName,
    FieldOptions,
    Fixed,
    Override,
    Shades,
    Show,
    Stacking,
    Stat,
    StateTimeline,
    StatText,
    Step,
    Thresholds,
    Timeseries,
    instant,
    palette,
)
from dashboards.panels.targets import Target

_VARIABLES = variables.down_to(variables.RACK)
_SCOPE = queries.Scope.of(_VARIABLES)
_RECORDED = Recordings(_SCOPE)


def _coloured(words: tuple[str, ...]) -> tuple[Override, ...]:
    """Colour a count by what it counts, as soon as there is one."""
    return tuple(
        Override(fields=ByName(word), thresholds=Thresholds(steps=(Step(1, palette.STATE_COLOURS[word]),)))
        for word in words
    )


_VERDICTS = Stat(
    key="racks",
    title="Racks by verdict",
    description=describe(
        "rack_verdict:verdict:max",
        note=f"Racks under each verdict; {SILENT}: heard of within {KNOWN_FOR}, and not now.",
    ),
    width=5,
    height=4,
    targets=(
        instant(_RECORDED.total("rack_verdict:verdict:max", "verdict"), legend="{{verdict}}"),
        instant(silent_racks(_RECORDED), legend=SILENT),
    ),
    fields=FieldOptions(unit=units.NUMBER),
    overrides=(
        *_coloured(VERDICTS),
        Override(fields=ByName(SILENT), thresholds=Thresholds(steps=(Step(1, palette.UNKNOWN),))),
    ),
    text=StatText.VALUE_AND_NAME,
)

_NODES = Stat(
    key="nodes",
    title="Nodes by state",
    description=describe("rack_state:nodes:max"),
    width=6,
    height=4,
    targets=(instant(_RECORDED.total("rack_state:nodes:max", "state"), legend="{{state}}"),),
    fields=FieldOptions(unit=units.NUMBER),
    overrides=_coloured(NODE_STATES),
    text=StatText.VALUE_AND_NAME,
)

_GPUS = Stat(
    key="gpus",
    title="GPUs expected, and by state",
    description=describe("rack:gpus_expected:max", "rack_state:gpus:max"),
    width=6,
    height=4,
    targets=(
        instant(_RECORDED.total("rack:gpus_expected:max"), legend="expected"),
        instant(_RECORDED.total("rack_state:gpus:max", "state"), legend="{{state}}"),
    ),
    fields=FieldOptions(unit=units.NUMBER),
    overrides=_coloured(GPU_STATES),
    text=StatText.VALUE_AND_NAME,
)

_COVERAGE = _RECORDED.by("rack_domain:energy_coverage:avg5m", "rack", domain="gpu")
_EXPECTED = _RECORDED.by("rack:gpus_expected:max", "rack")

_POWER = Stat(
    key="power",
    title="GPU power",
    description=describe(
        "rack_domain:energy_joules:rate5m",
        "rack_domain:energy_coverage:avg5m",
        note="Power of all GPUs, a mean over 5 minutes, and the share of the expected GPUs that tell theirs.",
    ),
    width=3,
    height=4,
    targets=(
        instant(_RECORDED.total("rack_domain:energy_joules:rate5m", domain="gpu"), legend="power"),
        instant(f"sum({_COVERAGE} * {_EXPECTED}) / (sum({_EXPECTED}) > 0)", legend="measured"),
    ),
    fields=FieldOptions(unit=units.WATTS),
    overrides=(
        Override(fields=ByName("power"), colouring=Fixed(palette.POWER)),
        Override(fields=ByName("measured"), unit=units.RATIO),
    ),
    text=StatText.VALUE_AND_NAME,
)

_TOKENS = Stat(
    key="tokens",
    title="Tokens",
    description=describe(
        "rack:llm_generation_tokens:rate5m",
        "rack:llm_total_tokens:rate5m",
        note="Tokens a second of all racks: those generated, and those with the tokens of prompts.",
    ),
    width=4,
    height=4,
    targets=(
        instant(_RECORDED.total("rack:llm_generation_tokens:rate5m"), legend="generated"),
        instant(_RECORDED.total("rack:llm_total_tokens:rate5m"), legend="with prompts"),
    ),
    fields=FieldOptions(unit=units.TOKENS_PER_SECOND, colouring=Fixed(palette.TOKENS)),
    text=StatText.VALUE_AND_NAME,
)

_TIMELINE = StateTimeline(
    key="verdicts",
    title="Verdict on each rack",
    description=describe(
        "rack_verdict:verdict:max", note="Nothing is drawn while the rack service says nothing."
    ),
    width=12,
    height=9,
    targets=(
        Target(
            expr=_RECORDED.coded("rack_verdict:verdict:max", VERDICT_CODES, label="verdict"),
            legend=RACK_LEGEND,
        ),
    ),
    fields=FieldOptions(unit=units.NONE, mappings=code_texts(VERDICT_CODES), links=(links.to_rack(),)),
    show_values=Show.AUTO,
)

_LARGEST, _NODES_EXPECTED, _MINIMUM = (
    _RECORDED.by(f"rack:{name}:max", "rack")
    for name in ("largest_block_nodes", "nodes_expected", "min_block_nodes")
)

_CLASSES = Timeseries(
    key="racks-by-class",
    title="Racks by class",
    description=describe(
        "rack:largest_block_nodes:max",
        "rack:min_block_nodes:max",
        "rack:nodes_expected:max",
        note="Whole: every expected node is in one schedulable block. Enough: some are missing, and the "
        "block has its minimum. Short: it has not, whatever the reason.",
    ),
    width=12,
    height=8,
    targets=(
        Target(expr=f"sum({_LARGEST} < bool {_MINIMUM})", legend="short"),
        Target(
            expr=f"sum(({_LARGEST} < bool {_NODES_EXPECTED}) * ({_LARGEST} >= bool {_MINIMUM}))",
            legend="enough",
        ),
        Target(expr=f"sum({_LARGEST} >= bool {_NODES_EXPECTED})", legend="whole"),
    ),
    fields=FieldOptions(unit=units.NUMBER, decimals=0, minimum=0),
    overrides=(
        Override(fields=ByName("short"), colouring=Fixed(palette.FAILED)),
        Override(fields=ByName("enough"), colouring=Fixed(palette.DEGRADED)),
        Override(fields=ByName("whole"), colouring=Fixed(palette.OK)),
    ),
    fill=60,
    stepped=True,
    stacking=Stacking.NORMAL,
)

_POWER_OF_RACKS = Timeseries(
    key="power-of-racks",
    title="GPU power of each rack",
    description=describe("rack_domain:energy_joules:rate5m"),
    width=12,
    height=8,
    targets=(
        Target(
            expr=_RECORDED.by("rack_domain:energy_joules:rate5m", "rack", domain="gpu"), legend=RACK_LEGEND
        ),
    ),
    fields=FieldOptions(
        unit=units.WATTS,
        minimum=0,
        colouring=Shades(palette.POWER),
        links=(links.to_rack(), links.to_rack(BoardId.EFFICIENCY)),
    ),
)

BOARD = Board(
    identity=BoardId.FLEET,
    description="Which rack is in trouble: each with its verdict, its largest block and its availability.",
    variables=_VARIABLES,
    sections=(
        Section(panels=(_VERDICTS, _NODES, _GPUS, _POWER, _TOKENS, rack_table(_RECORDED))),
        Section(panels=(_TIMELINE, firing_alerts(_SCOPE, width=12, height=9))),
        Section(key="history", title="Over time", panels=(_CLASSES, _POWER_OF_RACKS)),
        Section(
            key="telemetry", title="Telemetry: is there anything to believe", panels=telemetry(_RECORDED)
        ),
    ),
    annotations=(
        Annotation(
            name="Rack unavailable",
            expr=f"{_RECORDED.selector('rack_verdict:verdict:max', verdict='UNAVAILABLE')} == 1",
            title="{{rack}} unavailable",
            colour=palette.FAILED,
        ),
    ),
    time_from="now-6h",
)

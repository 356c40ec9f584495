"""Whether there is anything to believe: rack services, agents, NVML and the age of what they say."""

from __future__ import annotations

from dashboards import links, units
from dashboards.boards.fleet_racks import AGE, KNOWN_FOR, OLD_SECONDS, known_racks
from dashboards.boards.recordings import RACK_LEGEND, Recordings, describe
from dashboards.panels import (
    DataPanel,
    FieldOptions,
    Shades,
    Stat,
    StatText,
    Step,
    ThresholdLines,
    Thresholds,
    Timeseries,
    instant,
    palette,
)
from dashboards.panels.targets import Target
from dashboards.queries import CLUSTER
from dashboards.rules.parameters import DEFAULTS

_SOME_MISSING = Thresholds(steps=(Step(1, palette.UNKNOWN),))


def _counts(recordings: Recordings) -> Stat:
    expected, agents, nvml = (
        recordings.total("rack:nodes_expected:max"),
        recordings.total("rack:agents_up:sum"),
        recordings.total("rack_node:agent_nvml_up:max"),
    )
    return Stat(
        key="agents",
        title="Agents",
        description=describe(
            "rack:nodes_expected:max",
            "rack:agents_up:sum",
            "rack_node:agent_nvml_up:max",
            note="Nodes that there should be, agents that Prometheus reaches, agents that read their GPUs.",
        ),
        width=6,
        height=4,
        targets=(
            instant(expected, legend="nodes"),
            instant(agents, legend="reached"),
            instant(nvml, legend="reading GPUs"),
        ),
        fields=FieldOptions(unit=units.NUMBER),
        text=StatText.VALUE_AND_NAME,
    )


def silent_racks(recordings: Recordings) -> str:
    """Count the racks that were heard of and are not heard of now."""
    known, now = known_racks(recordings), recordings.by("rack:nodes_expected:max", "rack")
    return f"count({known} unless {now}) or count({known}) * 0"


def _silent(recordings: Recordings) -> Stat:
    return Stat(
        key="silent-racks",
        title="Racks that fell silent",
        description=describe(
            "rack:nodes_expected:max",
            note=f"Racks that a rack service told of within {KNOWN_FOR}, and of which none tells now.",
        ),
        width=6,
        height=4,
        targets=(instant(silent_racks(recordings), legend="silent"),),
        fields=FieldOptions(unit=units.NUMBER, thresholds=_SOME_MISSING),
        text=StatText.VALUE,
    )


def _services() -> Stat:
    up = f'up{{{CLUSTER}=~"${CLUSTER}",job=~"{DEFAULTS.rack_job}"}}'
    return Stat(
        key="rack-services",
        title="Rack services",
        description="Rack services that Prometheus scrapes, and those that it reaches: `up` of the job "
        f"`{DEFAULTS.rack_job}`.",
        width=6,
        height=4,
        targets=(instant(f"count({up})", legend="scraped"), instant(f"sum({up})", legend="reached")),
        fields=FieldOptions(unit=units.NUMBER),
        text=StatText.VALUE_AND_NAME,
    )


def _oldest(recordings: Recordings) -> Stat:
    return Stat(
        key="oldest-data",
        title="Oldest data",
        description=describe("rack:agent_sample_age_seconds:max", note="Over all racks."),
        width=6,
        height=4,
        targets=(
            instant(f"max({recordings.selector('rack:agent_sample_age_seconds:max')})", legend="oldest"),
        ),
        fields=FieldOptions(unit=units.SECONDS, thresholds=AGE),
        text=StatText.VALUE,
    )


def _ages(recordings: Recordings) -> Timeseries:
    return Timeseries(
        key="data-age",
        title="Age of the data of each rack's stalest node",
        description=describe("rack:agent_sample_age_seconds:max"),
        width=12,
        height=7,
        targets=(
            Target(expr=recordings.by("rack:agent_sample_age_seconds:max", "rack"), legend=RACK_LEGEND),
        ),
        fields=FieldOptions(
            unit=units.SECONDS,
            minimum=0,
            colouring=Shades(palette.CLOCK),
            thresholds=AGE,
            links=(links.to_rack(),),
        ),
        soft_maximum=OLD_SECONDS,
        threshold_lines=ThresholdLines.DASHED,
    )


def _reached(recordings: Recordings) -> Timeseries:
    missing = (
        f"{recordings.by('rack:nodes_expected:max', 'rack')} - {recordings.by('rack:agents_up:sum', 'rack')}"
    )
    return Timeseries(
        key="agents-missing",
        title="Agents that are not reached, by rack",
        description=describe("rack:nodes_expected:max", "rack:agents_up:sum"),
        width=12,
        height=7,
        targets=(Target(expr=missing, legend=RACK_LEGEND),),
        fields=FieldOptions(
            unit=units.NUMBER,
            decimals=0,
            minimum=0,
            colouring=Shades(palette.CLOCK),
            links=(links.to_rack(),),
        ),
        stepped=True,
    )


def telemetry(recordings: Recordings) -> tuple[DataPanel, ...]:
    """Return the panels about telemetry."""
    return (
        _silent(recordings),
        _services(),
        _counts(recordings),
        _oldest(recordings),
        _ages(recordings),
        _reached(recordings),
    )

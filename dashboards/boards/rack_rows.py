"""What else a rack has: availability and its budget, heat and clocks."""

from __future__ import annotations

from dashboards import units
from dashboards.boards.recordings import (
    RACK_LEGEND,
    Recordings,
    describe,
    recorded,
)
from dashboards.boards.rows import Column, columns_table
from dashboards.panels import (
    BarGauge,
    ByRegexp,
    FieldOptions,
    Fixed,
    Override,
    Scale,
    Shades,
    Stat,
    StatText,
    Step,
    Table,
    ThresholdLines,
    Thresholds,
    Timeseries,
    instant,
    palette,
)
from dashboards.panels.targets import Target
from dashboards.rules.alerting import Severity
from dashboards.rules.alerts_rack import BURNS
from dashboards.rules.record_availability import WINDOWS

_LINE_COLOURS = {Severity.CRITICAL: palette.FAILED, Severity.WARNING: palette.DEGRADED}
_SECONDS = "rack_verdict:verdict_seconds:increase7d"
_THERMAL = "rack_reason:clock_event_seconds_per_gpu:ratio_rate5m"


def _by_window(recordings: Recordings, bound: str) -> str:
    """Give one row a window; the windows are series of their own."""
    return " or ".join(
        f"label_replace({recordings.by(f'rack:availability_{bound}:ratio{window}', 'rack')}, "
        f'"window", "{window}", "", "")'
        for window in WINDOWS
    )


def windows(recordings: Recordings) -> Table:
    """List availability with its bounds and coverage, by window."""
    bounds = (("Point", "point"), ("Low", "low"), ("High", "high"), ("Coverage", "coverage"))
    return columns_table(
        key="availability-windows",
        title="Availability by window",
        description=describe(*(f"rack:availability_{bound}:ratio30d" for _, bound in bounds)),
        width=12,
        height=7,
        labels=(("rack", "Rack"), ("window", "Window")),
        columns=tuple(
            Column(heading, _by_window(recordings, bound), unit=units.RATIO, decimals=3)
            for heading, bound in bounds
        ),
    )


def time_by_verdict(recordings: Recordings) -> BarGauge:
    """Draw for how long the rack was under each verdict."""
    return BarGauge(
        key="time-by-verdict",
        title="Time under each verdict, 7 days",
        description=describe(_SECONDS),
        width=6,
        height=7,
        targets=(instant(recordings.by(_SECONDS, "rack", "verdict"), legend="{{rack}} {{verdict}}"),),
        fields=FieldOptions(unit=units.SECONDS, minimum=0),
        overrides=tuple(
            # Names end in the verdict, and UNAVAILABLE ends in AVAILABLE.
            Override(fields=ByRegexp(f"/ {verdict}$/"), colouring=Fixed(palette.STATE_COLOURS[verdict]))
            for verdict in ("AVAILABLE", "UNAVAILABLE", "MAINTENANCE", "UNKNOWN")
        ),
    )


def failures(recordings: Recordings) -> Stat:
    """Show incidents, and the mean times between failures and to repair."""
    month = (
        ("incidents", "rack:incidents:increase30d"),
        ("between failures", "rack:node_operating_seconds_per_incident:ratio30d"),
        ("to repair", "rack:node_down_seconds_per_incident:ratio30d"),
    )
    return Stat(
        key="failures",
        title="Failures of nodes, 30 days",
        description=describe(*(name for _, name in month)),
        width=6,
        height=7,
        targets=tuple(
            instant(recordings.by(name, "rack"), legend=f"{{{{rack}}}} {words}") for words, name in month
        ),
        fields=FieldOptions(unit=units.NUMBER),
        overrides=(
            Override(fields=ByRegexp("/between failures$/"), unit=units.SECONDS),
            Override(fields=ByRegexp("/to repair$/"), unit=units.SECONDS),
        ),
        text=StatText.VALUE_AND_NAME,
    )


def burn(recordings: Recordings) -> Timeseries:
    """Draw how fast the budget of downtime is used up."""
    names = {windows[0]: f"rack:availability_burn:ratio{windows[0]}" for _, _, _, windows, _, _ in BURNS}
    lines = sorted((factor, _LINE_COLOURS[severity]) for _, severity, factor, _, _, _ in BURNS)
    said = ", ".join(f"above {factor:g} over {windows[0]}" for _, _, factor, windows, _, _ in BURNS)
    return Timeseries(
        key="burn",
        title="Burn of the error budget",
        description=describe(
            *names.values(),
            note=f"1 uses just what is allowed. Alerts fire {said}.",
        ),
        width=18,
        height=7,
        targets=tuple(
            Target(expr=recordings.by(name, "rack"), legend=f"{{{{rack}}}} {window}")
            for window, name in names.items()
        ),
        fields=FieldOptions(
            unit=units.NUMBER,
            minimum=0,
            colouring=Shades(palette.CLOCK),
            thresholds=Thresholds(steps=tuple(Step(factor, colour) for factor, colour in lines)),
        ),
        threshold_lines=ThresholdLines.DASHED,
        scale=Scale.LINEAR,
        soft_maximum=lines[-1][0],
    )


def margins(recordings: Recordings) -> Timeseries:
    """Draw the lowest thermal margin."""
    name = "rack:temperature_margin_celsius:min"
    return Timeseries(
        key="margin",
        title="Lowest temperature margin",
        description=describe(name),
        width=12,
        height=7,
        targets=(Target(expr=recordings.by(name, "rack"), legend=RACK_LEGEND),),
        fields=FieldOptions(unit=units.CELSIUS, colouring=Shades(palette.TEMPERATURE)),
        soft_minimum=0,
    )


def clock_events(recordings: Recordings) -> Timeseries:
    """Draw which share of GPU time clocks were held down, by reason."""
    labels = (*recorded(_THERMAL).labels,)
    return Timeseries(
        key="clock-events",
        title="GPU time with clocks held down, by reason",
        description=describe(_THERMAL),
        width=12,
        height=7,
        targets=(Target(expr=recordings.by(_THERMAL, *labels), legend="{{rack}} {{reason}}"),),
        fields=FieldOptions(unit=units.RATIO, minimum=0, colouring=Shades(palette.CLOCK)),
    )

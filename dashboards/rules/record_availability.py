"""Recorded: availability as CONTRACTS §3 defines it, burn rates of its budget, and what MTBF and MTTR need.

Everything is a difference of seconds that the ledger counted. Prometheus reads the two ends of a window at
its scrapes, so a figure can be off by one scrape interval, and nothing is clamped for that.
"""

from __future__ import annotations

from collections.abc import Iterator

from collector.health.availability import SUFFICIENT_COVERAGE
from dashboards.rules.parameters import Parameters
from dashboards.rules.promql import RACK_ONLY, difference, highest, select, series
from dashboards.rules.recording import Measure, Recorded

SECONDS_OF: dict[str, int] = {
    "5m": 300,
    "30m": 1_800,
    "1h": 3_600,
    "6h": 21_600,
    "1d": 86_400,
    "3d": 259_200,
    "7d": 604_800,
    "30d": 2_592_000,
}
"""Windows by how PromQL writes them."""

WINDOWS = ("1d", "7d", "30d")
"""Windows of availability."""

BURN_WINDOWS = tuple(SECONDS_OF)
"""Windows of burn rates: the pairs of the alerts, and those of availability."""

MONTH = "30d"

_TARGET = "rack:availability_target:ratio"


def _rule(metric: str, window: str, expression: str, text: str, unit: Measure = Measure.RATIO) -> Recorded:
    return Recorded(
        of=RACK_ONLY,
        metric=metric,
        operation=f"ratio{window}",
        expression=expression,
        unit=unit,
        help=text,
    )


def _seconds(window: str) -> Recorded:
    of = (*RACK_ONLY, "verdict")
    return Recorded(
        of=of,
        metric="verdict_seconds",
        operation=f"increase{window}",
        expression=difference(of, series("rack_verdict_seconds_total"), window),
        unit=Measure.SECONDS,
        help=f"Time of the last {window} that the rack spent under the verdict. "
        f"Absent while its counter is younger than {window}, or began anew.",
    )


def _time(window: str, verdict: str) -> str:
    return select(f"rack_verdict:verdict_seconds:increase{window}", verdict=verdict)


def _not_excused(window: str) -> str:
    """Return the window without the time under MAINTENANCE: W of CONTRACTS §3."""
    return f"(({SECONDS_OF[window]} - {_time(window, 'MAINTENANCE')}) > 0)"


def _known(window: str) -> str:
    return f"({_time(window, 'AVAILABLE')} + ignoring (verdict) {_time(window, 'UNAVAILABLE')})"


def _availability(window: str) -> Iterator[Recorded]:
    whole, known = _not_excused(window), _known(window)
    up, down = _time(window, "AVAILABLE"), _time(window, "UNAVAILABLE")
    yield _rule(
        "availability_low",
        window,
        f"{up} / ignoring (verdict) {whole}",
        f"Share of the last {window} for which the rack was surely available: what is unknown counts as "
        "down. Excused time is no part of the window.",
    )
    yield _rule(
        "availability_high",
        window,
        f"1 - {down} / ignoring (verdict) {whole}",
        f"Share of the last {window} for which the rack may have been available: what is unknown counts as "
        "up.",
    )
    yield _rule(
        "availability_coverage",
        window,
        f"{known} / ignoring (verdict) {whole}",
        f"Share of the last {window}, excused time removed, for which it is known whether the rack was "
        "available.",
    )
    yield _rule(
        "availability_point",
        window,
        f"{up} / ignoring (verdict) ({known} > 0)\n"
        f"and rack:availability_coverage:ratio{window} >= {SUFFICIENT_COVERAGE:g}",
        f"Availability of the rack over the last {window}, of the time that is known. Absent while less than "
        f"{SUFFICIENT_COVERAGE:g} of it is known.",
    )


def _burn(window: str) -> Recorded:
    return _rule(
        "availability_burn",
        window,
        f"{_time(window, 'UNAVAILABLE')} / ignoring (verdict) {_not_excused(window)}\n"
        f"/ ((1 - {_TARGET}) > 0)",
        f"Proven downtime of the last {window} as a multiple of what the rack's SLO allows in it; at 1 the "
        "budget is used up. What is unknown does not count.",
    )


def _target(slo: float) -> Recorded:
    own, expected = (highest(RACK_ONLY, series(f"rack_{name}")) for name in ("slo_ratio", "nodes_expected"))
    return Recorded(
        of=RACK_ONLY,
        metric="availability_target",
        operation="ratio",
        expression=f"{own}\nor {expected} * 0 + {slo:g}",
        unit=Measure.RATIO,
        help="Share of time for which the rack should be available: its SLO, or "
        f"{slo:g} where its rack service does not tell it.",
    )


def _per_incident(metric: str, name: str, what: str) -> Recorded:
    return _rule(
        f"{metric}_per_incident",
        MONTH,
        f"rack:{metric}:increase{MONTH} / (rack:incidents:increase{MONTH} > 0)",
        f"{name} over {MONTH}: {what} an incident that began in it. Absent without an incident.",
        Measure.SECONDS,
    )


def _month(metric: str, text: str, unit: Measure) -> Recorded:
    return Recorded(
        of=RACK_ONLY,
        metric=metric,
        operation=f"increase{MONTH}",
        expression=difference(RACK_ONLY, series(f"rack_{metric}_total"), MONTH),
        unit=unit,
        help=text,
    )


def availability_rules(parameters: Parameters) -> tuple[Recorded, ...]:
    """Return the rules about availability."""
    return (
        *map(_seconds, BURN_WINDOWS),
        *(rule for window in WINDOWS for rule in _availability(window)),
        _target(parameters.slo),
        *map(_burn, BURN_WINDOWS),
        _month(
            "node_operating_seconds",
            f"Time of the last {MONTH} that nodes of the rack were READY or DEGRADED, summed over nodes.",
            Measure.SECONDS,
        ),
        _month(
            "node_down_seconds",
            f"Time of the last {MONTH} that nodes of the rack were FAILED, summed over nodes.",
            Measure.SECONDS,
        ),
        _month("incidents", f"Incidents of the rack's nodes that began in the last {MONTH}.", Measure.COUNT),
        _per_incident("node_operating_seconds", "Mean time between failures", "operating node time"),
        _per_incident("node_down_seconds", "Mean time to repair", "time of nodes down"),
    )

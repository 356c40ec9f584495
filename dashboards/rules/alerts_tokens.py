"""Alerts on serving endpoints, energy and efficiency."""

from __future__ import annotations

from collections.abc import Iterator

from collector.catalog.engines import Role
from collector.efficiency.answer import FIGURE_DOMAINS
from collector.efficiency.guards import SUFFICIENT_RATIO
from dashboards.identities import BoardId
from dashboards.rules.alerting import Alert, Case, Severity, Show, given, steady
from dashboards.rules.parameters import Parameters
from dashboards.rules.promql import (
    RACK_ONLY,
    highest,
    on,
    select,
    series,
    unless_any_maintained,
    unless_maintained,
)
from dashboards.rules.record_tokens import ENOUGH_DAYS, MEDIAN_DAYS

DROP = 0.8
"""Share of the usual tokens for each joule below which it is a drop (chosen)."""
SAME_POWER = 0.9
"""Share of the usual power from which on the rack is as busy as usual (chosen). With less traffic power
falls, and tokens fall faster: that is no fault."""

_INPUT = "rack_input"
_R01 = {"rack": "r01"}
_EFFICIENCY = "`curl 'http://rack:10073/v1/racks/r01/efficiency?window=1h'`: each blank figure says why"


def _endpoints() -> Iterator[Alert]:
    of = ("rack", "node", "endpoint", "role")
    labels = {"rack": "r01", "node": "n03", "endpoint": "decode-0", "role": "engine"}
    up = given("llm_up", engine="vllm", **labels)
    yield Alert(
        name="RackwattEndpointDown",
        severity=Severity.WARNING,
        expression=unless_maintained(f"{highest(of, series('llm_up'))} == 0"),
        of=of,
        wait="5m",
        summary="The serving endpoint {endpoint} on {node} in {rack} cannot be read",
        description="The metrics of {endpoint} ({role}) on {node} in {rack} have not been read for five "
        "minutes.",
        meaning="The engine is down, or its metrics are. Its tokens are not counted, so the rack's "
        "efficiency is blank. Five minutes (chosen): loading a model may take longer; silence it then.",
        look=(
            "Tokens dashboard: endpoints expected and up.",
            "`rackwatt check` on the node says what is wrong",
        ),
        act=(
            "Look whether the engine serves: its own health page, its log.",
            "If it does, look at `url` and `engine` under `serving` in the agent's configuration.",
        ),
        board=BoardId.EFFICIENCY,
        fires=Case(given={up: steady(0)}, at="10m", labels=labels),
        rests=Case(given={up: "0+0x3 1+0x60"}, at="10m"),
    )
    expected, there = (given(f"rack_llm_endpoints_{what}", **_R01) for what in ("expected", "up"))
    down = "\n  or ".join(
        f"sum by (cluster, rack) ({highest(of, series('llm_up', role=role.value))} == bool 0)"
        for role in (Role.ENGINE, Role.ROUTER)
    )
    yield Alert(
        name="RackwattEndpointsMissing",
        severity=Severity.WARNING,
        expression=unless_any_maintained(
            f"{highest(RACK_ONLY, series('rack_llm_endpoints_expected'))}\n"
            f"- {highest(RACK_ONLY, series('rack_llm_endpoints_up'))}\n"
            f"- ({down}\n  or {highest(RACK_ONLY, series('rack_llm_endpoints_expected'))} * 0) > 0"
        ),
        of=RACK_ONLY,
        wait="10m",
        summary="Serving endpoints of rack {rack} are missing",
        description="{value} serving endpoints that {rack} should have are told of by nobody.",
        meaning="The twin of [RackwattEndpointDown](#rackwattendpointdown), whose endpoints are not counted "
        "here: an endpoint whose node is silent has no series, and the rack service remembers it. Efficiency "
        "is blank meanwhile. Silent while a node of the rack is in maintenance; a node that falls silent "
        "then has an alert of its own.",
        look=("Tokens dashboard: endpoints expected and up.", _EFFICIENCY),
        act=(
            "Look for a silent agent first: [RackwattAgentDown](#rackwattagentdown).",
            "An endpoint that was taken away on purpose is forgotten when its agent no longer lists it.",
        ),
        board=BoardId.EFFICIENCY,
        fires=Case(given={expected: steady(4), there: steady(3)}, at="15m", labels=_R01, value="1"),
        rests=Case(given={expected: steady(4), there: "3+0x5 4+0x60"}, at="15m"),
    )


def _energy() -> Alert:
    labels = {"rack": "r01", "domain": "rack_input"}
    coverage = given("rack_energy_coverage_ratio", **labels)
    name = "rack_domain:energy_coverage:avg5m"
    return Alert(
        name="RackwattEnergyUncovered",
        severity=Severity.WARNING,
        expression=f"{select(name, domain=_INPUT)} < {SUFFICIENT_RATIO:g}\nor ("
        + unless_any_maintained(f"{select(name, domain=f'!={_INPUT}')} < {SUFFICIENT_RATIO:g}")
        + ")",
        of=("rack", "domain"),
        wait="15m",
        summary="Energy of rack {rack} is missing: {domain}",
        description="Only {value} of what measures the domain {domain} of {rack} reports.",
        meaning="A power shelf, a module or a GPU that is missing makes a rack look better than it is, so "
        f"that efficiency is blank below {SUFFICIENT_RATIO:.0%}. What agents read is missing with a tray in "
        "maintenance: only power shelves count then.",
        look=("Tokens dashboard: coverage of power and token sources.", _EFFICIENCY),
        act=(
            "`rack_input`: look at the power shelves; `rackwatt check` asks each and says what is wrong.",
            "`gpu`, `module`, `cpu`: look for silent agents and lost GPUs.",
        ),
        board=BoardId.EFFICIENCY,
        show=Show.PERCENTAGE,
        fires=Case(given={coverage: steady(0.875)}, at="25m", labels=labels, value="87.5%"),
        rests=Case(given={coverage: steady(0.96)}, at="25m"),
    )


def _widest(name: str) -> str:
    """Return a series of the widest domain in which a rack has it."""
    domains = [select(name, domain=domain) for domain in reversed(FIGURE_DOMAINS)]
    return f"\n  or {on(RACK_ONLY)} ".join(domains)


def _drop() -> Alert:
    figure, power = "rack_domain:llm_generation_tokens_per_joule", "rack_domain:energy_joules"
    usual = f"ratio_rate1h_median{MEDIAN_DAYS}d"
    labels = {"rack": "r01", "domain": "rack_input"}

    def recorded(name: str, values: str) -> dict[str, str]:
        return {select(name, **labels): values}

    # Steps of an hour: eight days at 0.05 tokens/J and 100 kW, and what comes then.
    days = 24 * 8
    busy = recorded(f"{power}:rate1h", steady(100_000, days + 12))
    return Alert(
        name="RackwattEfficiencyDrop",
        severity=Severity.WARNING,
        expression=f"({_widest(f'{figure}:ratio_rate1h')})\n"
        f"< {DROP:g} * {figure}:{usual}\n"
        f"and {power}:rate1h >= {SAME_POWER:g} * {power}:rate1h_median{MEDIAN_DAYS}d",
        of=("rack", "domain"),
        wait="30m",
        keep="30m",
        summary="Rack {rack} generates fewer tokens for each joule than usual",
        description="{rack} generates {value} tokens for each joule of {domain}, less than "
        f"{DROP:.0%} of the median of this hour of the last {MEDIAN_DAYS} days, while it draws as much "
        "power as then.",
        meaning=f"Chosen: the median of the same hour of {MEDIAN_DAYS} days, of which {ENOUGH_DAYS} must be "
        "known, moves neither with the time of day nor with one odd day. Only while the rack's power is at "
        f"least {SAME_POWER:.0%} of the usual: with less traffic power falls, and tokens fall faster.",
        look=("Tokens dashboard: tokens, power and their ratio on one time axis.", _EFFICIENCY),
        act=(
            "Look for clock events and a low thermal margin: GPUs that are held down make fewer tokens.",
            "Compare prompt and answer lengths, batch sizes and model versions with last week's.",
            "Look for engines that wait for one another: NVLink errors, a slow node.",
        ),
        board=BoardId.EFFICIENCY,
        fires=Case(
            given={**recorded(f"{figure}:ratio_rate1h", f"0.05+0x{days} 0.03+0x10"), **busy},
            at=f"{days + 4}h",
            labels=labels,
            value="30m",  # 0.03 as `humanize` writes it: 30 thousandths
            step="1h",
        ),
        rests=Case(
            given={**recorded(f"{figure}:ratio_rate1h", f"0.05+0x{days} 0.045+0x10"), **busy},
            at=f"{days + 4}h",
            step="1h",
        ),
    )


def token_alerts(_: Parameters) -> tuple[Alert, ...]:
    """Return the alerts on endpoints, energy and efficiency."""
    return (*_endpoints(), _energy(), _drop())

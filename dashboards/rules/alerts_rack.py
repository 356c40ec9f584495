"""Alerts on a rack as a whole: verdict, NVLink domains, nodes, availability."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from collector.health.availability import SUFFICIENT_COVERAGE
from dashboards.identities import BoardId
from dashboards.rules.alerting import Alert, Case, Severity, Show, given, steady
from dashboards.rules.parameters import Parameters
from dashboards.rules.promql import NODE, RACK_ONLY, on, select
from dashboards.rules.record_state import STALE_SECONDS

_R01: Mapping[str, str] = {"rack": "r01"}
_HEALTH = "`curl http://rack:10073/v1/racks/r01/health`: the sentence, and `reasons` with an action each"
_AVAILABILITY = "`curl 'http://rack:10073/v1/racks/r01/availability?window=30d'`: budget, incidents, coverage"


def _verdict_case(verdict: str, at: str, *, fires: bool) -> Case:
    series = {given("rack_verdict", verdict=verdict, **_R01): steady(1)}
    return Case(given=series, at=at, labels={**_R01, "verdict": verdict} if fires else None)


def _verdicts() -> Iterator[Alert]:
    yield Alert(
        name="RackwattRackUnavailable",
        severity=Severity.CRITICAL,
        expression='rack_verdict:verdict:max{verdict="UNAVAILABLE"} == 1',
        of=("rack", "verdict"),
        wait="2m",
        summary="Rack {rack} is unavailable",
        description="No NVLink domain of {rack} can offer the block of nodes that jobs need, even if every "
        "node whose state is unknown or in maintenance were good.",
        meaning="The largest block of schedulable nodes in one clique is below the minimum, and nothing "
        "unknown or declared can make up for it. Two minutes, as a verdict moves only on hard evidence.",
        look=("Rack dashboard: verdict, largest block against the minimum, state of each tray.", _HEALTH),
        act=(
            "Read `reasons`: they are in order of impact, with node and action.",
            "Keep jobs off the rack, or give the scheduler a smaller `min_block`.",
            "Mend the nodes that need least; a reset or a reboot first, service then.",
            "What is planned belongs into `POST /v1/maintenance`, before it begins.",
        ),
        board=BoardId.RACK,
        fires=_verdict_case("UNAVAILABLE", "5m", fires=True),
        rests=_verdict_case("UNKNOWN", "5m", fires=False),
    )
    yield Alert(
        name="RackwattRackUnknown",
        severity=Severity.WARNING,
        expression='rack_verdict:verdict:max{verdict="UNKNOWN"} == 1',
        of=("rack", "verdict"),
        wait="15m",
        summary="Nobody knows whether rack {rack} is available",
        description="Too many nodes of {rack} are UNKNOWN for a verdict. This is neither up nor down.",
        meaning="Telemetry is missing, so that the rack may or may not have the block. It counts in no "
        "figure of availability but the coverage. 15 minutes (chosen) are longer than a restart of all "
        "agents.",
        look=("Rack dashboard: nodes by state, age of the data.", _HEALTH),
        act=(
            "Look whether the agents answer: `curl http://NODE:10072/v1/health`.",
            "If none does, look at the network between rack service and nodes.",
            "If NVML is what fails, see [RackwattNvmlDown](#rackwattnvmldown).",
        ),
        board=BoardId.RACK,
        fires=_verdict_case("UNKNOWN", "20m", fires=True),
        rests=_verdict_case("UNKNOWN", "10m", fires=False),
    )
    yield _silent()


def _silent() -> Alert:
    def given_up(*nodes: tuple[str, int]) -> dict[str, str]:
        return {
            given("rack_verdict", verdict="UNKNOWN", **_R01): steady(1),
            **{f'up{{job="rackwatt-agents",rack="r01",node="{node}"}}': steady(up) for node, up in nodes},
        }

    return Alert(
        name="RackwattRackSilent",
        severity=Severity.CRITICAL,
        expression=f"rack:agents_up:sum == 0\nand {on(RACK_ONLY)} "
        'rack_verdict:verdict:max{verdict="UNKNOWN"} == 1',
        of=RACK_ONLY,
        wait="10m",
        summary="No node of rack {rack} can be heard",
        description="Neither Prometheus nor the rack service has reached an agent of {rack} for ten minutes.",
        meaning="A rack without power or network looks like this: nothing is proven, so that its verdict is "
        "UNKNOWN and never UNAVAILABLE, but two that listen by themselves hear nothing. Ten minutes (chosen) "
        "are longer than an upgrade of all agents of a rack.",
        look=("Rack dashboard: state of each tray, agents reached.", _HEALTH),
        act=(
            "Reach one of its hosts, or a BMC, by another way.",
            "If none answers: power and network of the rack.",
            "If hosts answer and agents do not: what was rolled out to all of them?",
        ),
        board=BoardId.RACK,
        fires=Case(given=given_up(("n01", 0), ("n02", 0)), at="15m", labels=_R01),
        rests=Case(given=given_up(("n01", 0), ("n02", 1)), at="15m"),
    )


_DOMAIN = {"rack": "r01", "cluster_uuid": "u-1", "clique": "1"}
_DOMAIN_LABELS = ("rack", "cluster_uuid", "clique", "state")


def _domain(state: str, summary: str, description: str, meaning: str, act: tuple[str, ...]) -> Alert:
    name = "rack_cluster_uuid_clique_state:domain_state:max"
    return Alert(
        name=f"RackwattDomain{state.capitalize()}",
        severity=Severity.WARNING,
        # A node without a fabric over the rack is a domain by itself, without a UUID.
        expression=f"{select(name, state=state, cluster_uuid='!=')} == 1",
        of=_DOMAIN_LABELS,
        wait="5m",
        summary=summary,
        description=description,
        meaning=meaning,
        look=("NVLink dashboard: table of domains and cliques.", "`curl http://rack:10073/v1/domains`"),
        act=act,
        board=BoardId.NVLINK,
        fires=Case(
            given={given("rack_domain_state", state=state, **_DOMAIN): steady(1)},
            at="10m",
            labels={**_DOMAIN, "state": state},
        ),
        rests=Case(given={given("rack_domain_state", state="DEGRADED", **_DOMAIN): steady(1)}, at="10m"),
    )


def _domains() -> Iterator[Alert]:
    yield _domain(
        "SPLIT",
        "NVLink domain of {rack} is split",
        "A declared clique of {rack} is found in several: clique {clique} of domain {cluster_uuid} has a "
        "part of it.",
        "Nodes that should reach one another over NVLink do not. Five minutes, as a fabric manager may "
        "renumber cliques over a minute.",
        (
            "Look at the partitions of the fabric manager on the NVLink switches.",
            "If the split is wanted, declare the cliques in the rack's configuration.",
        ),
    )
    yield _domain(
        "UNHEALTHY",
        "NVLink domain of {rack} is unhealthy",
        "No node of clique {clique} of domain {cluster_uuid} in {rack} has a healthy route, or none is "
        "schedulable.",
        "The fabric itself is at fault, not a tray. If the rack has no other block, its verdict wakes "
        "people. Five minutes, as a fabric that comes up takes some.",
        (
            "Look at the NVLink switch trays: power, NVOS, their links.",
            "Look at fabric manager and IMEX.",
            "Reset the GPUs of the trays when the fabric is whole again.",
        ),
    )


_NODE = {"rack": "r01", "node": "n03"}

_UNAVAILABLE_FIRING = 'ALERTS{alertname="RackwattRackUnavailable",alertstate="firing"}'
"""Whoever evaluates the rules writes it; where nobody does, burn rates wake people a second time."""


def _node_state(
    state: str,
    other: str,
    wait: str,
    at: str,
    summary: str,
    description: str,
    meaning: str,
    act: tuple[str, ...],
    but: tuple[str, ...] = (),
) -> Alert:
    each = "".join(f"\nunless {on(NODE)} {condition}" for condition in but)
    return Alert(
        name=f"RackwattNode{state.capitalize()}",
        severity=Severity.WARNING,
        expression=f"{select('rack_node_state:node_state:max', state=state)} == 1{each}",
        of=("rack", "node", "state"),
        wait=wait,
        summary=summary,
        description=description,
        meaning=meaning,
        look=(
            "Rack dashboard: state of each tray over time; a click leads to the node.",
            "`curl http://rack:10073/v1/nodes/n03`: state, since when, reasons, GPUs",
        ),
        act=act,
        board=BoardId.NODE,
        fires=Case(
            given={given("rack_node_state", state=state, **_NODE): steady(1)},
            at=at,
            labels={**_NODE, "state": state},
        ),
        rests=Case(
            given={
                given("rack_node_state", state=state, **_NODE): steady(0),
                given("rack_node_state", state=other, **_NODE): steady(1),
            },
            at=at,
        ),
    )


def _nodes() -> Iterator[Alert]:
    yield _node_state(
        "FAILED",
        "MAINTENANCE",
        "10m",
        "15m",
        "Node {node} of {rack} has failed",
        "{node} of {rack} is FAILED: a check of impact `fail`, or a witness says that it is gone.",
        "No job can run on the node. Ten minutes, as the rack can spare a node or two: the verdict says if "
        "not.",
        (
            "Do what the first reason's action says.",
            "Declare maintenance before you take the node out for longer.",
            "A node that failed again and again is held out (`latched` in the events) until maintenance "
            "ends.",
        ),
    )
    yield _node_state(
        "UNKNOWN",
        "READY",
        "5m",
        "10m",
        "Nothing is known of node {node} of {rack}",
        "{node} of {rack} is UNKNOWN: its agent is silent, NVML is down, or a check has no answer.",
        "No job may be placed, but nothing is proven. A silent agent, NVML that is down and a reader that "
        "hangs have alerts of their own: [RackwattAgentDown](#rackwattagentdown), "
        "[RackwattNvmlDown](#rackwattnvmldown), [RackwattTelemetryStale](#rackwatttelemetrystale). What is "
        "left is a check without an answer, an agent that Prometheus reaches and the rack service does not, "
        "or one that goes by another name. Five minutes are longer than a restart of agent or driver.",
        (
            "Read the node's first reason: a check without an answer names the metric that was not read.",
            "If it says that no poll was good: can the rack service reach the agent's address?",
            "If the fabric is in progress, wait: after five minutes it counts as failed.",
        ),
        but=(
            "rack_node:agent_up:max == 0",
            "rack_node:agent_nvml_up:max == 0",
            f"rack_node:agent_sample_age_seconds:min > {STALE_SECONDS}",
        ),
    )


def _burn(
    name: str, severity: Severity, factor: float, windows: tuple[str, str], wait: str, words: str, slo: float
) -> Alert:
    long, short = windows
    first, second = (f"rack:availability_burn:ratio{window} > {factor:g}" for window in (long, short))
    paged = f"\nunless {on(RACK_ONLY)} max_over_time({_UNAVAILABLE_FIRING}[{short}])"
    pages = severity is Severity.CRITICAL
    told = (
        " An outage of two minutes wakes people by [RackwattRackUnavailable](#rackwattrackunavailable); this "
        f"alert is silent until {short} after that, so that nobody is woken twice."
    )
    # Steps as coarse as the longest window allows: an hour where it has days.
    step, unit = ("1h", 3600) if long == "3d" else ("1m", 60)
    times = {"3d": 80, "6h": 375, "1h": 75}[long]

    def counted(down: float) -> dict[str, str]:
        """Return counters that rise by a share of the time each."""
        return {
            given("rack_slo_ratio", **_R01): steady(slo, times),
            **{
                given("rack_verdict_seconds_total", verdict=verdict, **_R01): f"0+{share * unit:g}x{times}"
                for verdict, share in (
                    ("AVAILABLE", 1 - down),
                    ("UNAVAILABLE", down),
                    ("MAINTENANCE", 0.0),
                    ("UNKNOWN", 0.0),
                )
            },
        }

    return Alert(
        name=name,
        severity=severity,
        expression=f"{first}\nand {second}{paged if pages else ''}",
        of=("rack",),
        wait=wait,
        summary="Rack {rack} uses up its budget of downtime " + words,
        description=f"For {long} and for {short} {{rack}} has been unavailable at more than {factor:g} "
        "times the rate that its SLO allows.",
        meaning=f"Proven downtime over {long} is at least {factor:g} times what the SLO allows, and it goes "
        f"on: the window of {short} says so, too. What is unknown or excused does not count. Factors and "
        f"windows are those of Google's SRE Workbook, chapter 5.{told if pages else ''}",
        look=("Rack dashboard: availability with its bounds, burn of the budget.", _AVAILABILITY),
        act=(
            "See what holds the verdict: [RackwattRackUnavailable](#rackwattrackunavailable).",
            "If it comes and goes, look for the node that flaps in `/v1/events?rack=r01`.",
        ),
        board=BoardId.RACK,
        fires=Case(
            given=counted(min(1.0, 2 * factor * (1 - slo))), at=f"{times}{step[1:]}", labels=_R01, step=step
        ),
        rests=Case(given=counted(0.5 * factor * (1 - slo)), at=f"{times}{step[1:]}", step=step),
    )


BURNS = (
    ("Fast", Severity.CRITICAL, 14.4, ("1h", "5m"), "2m", "fast"),
    ("Medium", Severity.CRITICAL, 6.0, ("6h", "30m"), "15m", "within days"),
    ("Slow", Severity.WARNING, 1.0, ("3d", "6h"), "1h", "within the month"),
)
"""Factor, long and short window of each burn rate (Google, The Site Reliability Workbook, chapter 5)."""


def _availability(slo: float) -> Iterator[Alert]:
    yield from (
        _burn(f"RackwattAvailabilityBurn{name}", severity, factor, windows, wait, words, slo)
        for name, severity, factor, windows, wait, words in BURNS
    )
    yield Alert(
        name="RackwattAvailabilityUncovered",
        severity=Severity.INFO,
        expression=f"rack:availability_coverage:ratio1d < {SUFFICIENT_COVERAGE:g}",
        of=("rack",),
        wait="1h",
        summary="The availability of rack {rack} cannot be said",
        description="Only {value} of the last day, excused time removed, is known of {rack}.",
        meaning=f"Below {SUFFICIENT_COVERAGE:.0%} coverage availability is `insufficient_data`, and the "
        "panels are blank (CONTRACTS §3). Time is lost while the rack service does not run, and while the "
        "verdict is UNKNOWN.",
        look=("Rack dashboard: coverage; verdict over time.", _AVAILABILITY),
        act=(
            "Find out whether the rack service was down, or agents were silent.",
            "Nothing brings lost time back; the figure comes back by itself within a day.",
        ),
        board=BoardId.RACK,
        show=Show.PERCENTAGE,
        fires=_coverage_case(available=2700, unknown=900, fires=True),
        rests=_coverage_case(available=3492, unknown=108, fires=False),
    )


def _coverage_case(*, available: int, unknown: int, fires: bool) -> Case:
    """Make a day and a half in which each hour has so many seconds available and unknown."""
    seconds = {"AVAILABLE": available, "UNAVAILABLE": 0, "MAINTENANCE": 0, "UNKNOWN": unknown}
    return Case(
        given={
            given("rack_verdict_seconds_total", verdict=verdict, **_R01): f"0+{each}x36"
            for verdict, each in seconds.items()
        },
        at="30h",
        labels=_R01 if fires else None,
        value="75%",  # 2700 of 3600 seconds
        step="1h",
    )


def rack_alerts(_: Parameters) -> tuple[Alert, ...]:
    """Return the alerts on racks, their domains and nodes."""
    return (*_verdicts(), *_domains(), *_nodes())


def availability_alerts(parameters: Parameters) -> tuple[Alert, ...]:
    """Return the alerts on the availability of racks."""
    return tuple(_availability(parameters.slo))

"""Alerts on telemetry: agents, rack services, and how they do. What is lost is never taken for healthy."""

from __future__ import annotations

from collections.abc import Iterator

from dashboards.identities import BoardId
from dashboards.rules.alerting import Alert, Case, Severity, Show, given, steady
from dashboards.rules.parameters import Parameters
from dashboards.rules.promql import NODE, RACK_ONLY, highest, on, select, series, unless_maintained
from dashboards.rules.record_state import STALE_SECONDS

RESTARTS = 3
READ_ERRORS = 10
"""Restarts of a reader in an hour, and errors of one kind in ten minutes, that are too many (chosen)."""

GONE_WINDOW = "1h"
"""For how long a rack is missed that has vanished (chosen)."""

_NODE = {"rack": "r01", "node": "n03"}
_R01 = {"rack": "r01"}
_UP = 'up{{job="{job}",rack="r01",node="{node}",instance="{node}:10072"}}'
_AGENT = (
    "On the node: `systemctl status` of the agent, its log, `rackwatt check`.",
    "From the Prometheus host: `curl http://NODE:10072/-/healthy`.",
)


def _agents(parameters: Parameters) -> Iterator[Alert]:
    job = parameters.agent_job
    up = _UP.format(job=job, node="n03")
    yield Alert(
        name="RackwattAgentDown",
        severity=Severity.WARNING,
        expression=unless_maintained("rack_node:agent_up:max == 0"),
        of=NODE,
        wait="5m",
        summary="The agent of {node} in {rack} does not answer",
        description="Prometheus has not reached the agent of {node} in {rack} for five minutes.",
        meaning="All series of the node end, and no alert about it can fire. Five minutes are longer than "
        "an upgrade of the agent takes.",
        look=("Rack dashboard: age of the data, trays without data in grey.", "Prometheus: Status, Targets"),
        act=_AGENT,
        board=BoardId.RACK,
        fires=Case(given={up: steady(0)}, at="10m", labels=_NODE),
        rests=Case(given={up: "0+0x3 1+0x60"}, at="10m"),
    )
    yield Alert(
        name="RackwattAgentsAbsent",
        severity=Severity.CRITICAL,
        expression=f"absent({select('up', job=f'~{job}')})",
        of=(),
        wait="5m",
        summary="Prometheus scrapes no agent",
        description="No target of the scrape job of the agents is there at all.",
        meaning="The twin of [RackwattAgentDown](#rackwattagentdown): a target that left discovery is not "
        f"down, but gone. The job is expected to be called `{job}` "
        "([another site](rules.md#another-site)).",
        look=("Prometheus: Status, Service discovery.", "`curl http://rack:10073/sd/prometheus`"),
        act=(
            "Look at the scrape configuration, and at the rack service from which it takes its targets.",
            "If the job has another name, build the rules with that name.",
        ),
        board=BoardId.FLEET,
        fires=Case(given={}, at="10m", labels={}),
        rests=Case(given={up: steady(0)}, at="10m"),
    )
    expected = given("rack_nodes_expected", **_R01)
    yield Alert(
        name="RackwattAgentsMissing",
        severity=Severity.WARNING,
        expression=f"rack:nodes_expected:max - {on(RACK_ONLY)} (count by (cluster, rack) "
        f"(rack_node:agent_up:max)) > 0\nor rack:nodes_expected:max unless {on(RACK_ONLY)} "
        "rack:agents_up:sum",
        of=RACK_ONLY,
        wait="15m",
        summary="Prometheus does not know all agents of rack {rack}",
        description="{value} of the nodes that {rack} should have are no targets of Prometheus.",
        meaning="The rack service expects more nodes than Prometheus scrapes. Those that are missing have "
        "no series, and no alerts.",
        look=("Fleet dashboard: nodes expected and agents reached.", "Prometheus: Status, Service discovery"),
        act=("Compare the targets with `curl http://rack:10073/sd/prometheus`.",),
        board=BoardId.FLEET,
        fires=Case(given={expected: steady(18), up: steady(1)}, at="20m", labels=_R01, value="17"),
        rests=Case(given={expected: steady(1), up: steady(1)}, at="20m"),
    )


def _freshness() -> Iterator[Alert]:
    age = given("agent_sample_age_seconds", cadence="fast", **_NODE)
    yield Alert(
        name="RackwattTelemetryStale",
        severity=Severity.WARNING,
        expression=unless_maintained(f"rack_node:agent_sample_age_seconds:min > {STALE_SECONDS}"),
        of=NODE,
        wait="2m",
        summary="The data of {node} in {rack} are stale",
        description="The agent of {node} in {rack} answers, but its newest fast values are {value} old.",
        meaning="The agent's reader is silent: NVML hangs, or the machine is overloaded. From 5 s on values "
        "are not served any more (CONTRACTS §3), and the node is UNKNOWN.",
        look=("Node dashboard: age of the data, time of a sweep.", "`curl http://NODE:10072/-/ready`"),
        act=(
            "The agent starts a silent reader anew after 10 s: see "
            "[RackwattReaderRestarts](#rackwattreaderrestarts).",
            "Look for a GPU that hangs: `dmesg`, `nvidia-smi` with a timeout.",
        ),
        board=BoardId.NODE,
        show=Show.DURATION,
        fires=Case(given={age: steady(42)}, at="5m", labels=_NODE, value="42s"),
        rests=Case(given={age: steady(1)}, at="5m"),
    )
    nvml = given("agent_nvml_up", **_NODE)
    yield Alert(
        name="RackwattNvmlDown",
        severity=Severity.WARNING,
        expression=unless_maintained("rack_node:agent_nvml_up:max == 0"),
        of=NODE,
        wait="5m",
        summary="The agent of {node} in {rack} cannot read its GPUs",
        description="NVML is absent, unloaded, of another version, or released on {node} in {rack}.",
        meaning="The node is UNKNOWN, and GPUs are not missing: nobody can tell. Five minutes are longer "
        "than an upgrade of the driver, before which `rackwatt release` lets go of it.",
        look=("Node dashboard: agent.", "`curl http://NODE:10072/v1/health`: why"),
        act=(
            "Run `rackwatt check` on the node: it says what is missing.",
            "After an upgrade: `rackwatt resume`, or restart the agent.",
        ),
        board=BoardId.NODE,
        fires=Case(given={nvml: steady(0)}, at="10m", labels=_NODE),
        rests=Case(given={nvml: "0+0x3 1+0x60"}, at="10m"),
    )


def _increase(of: tuple[str, ...], name: str, window: str) -> str:
    return highest(of, f"increase({series(name)}[{window}])")


def _health() -> Iterator[Alert]:
    restarts = given("agent_reader_restarts_total", **_NODE)
    yield Alert(
        name="RackwattReaderRestarts",
        severity=Severity.WARNING,
        # An increase is extrapolated: of 3 it is a little more than 3.
        expression=unless_maintained(
            f"{_increase(NODE, 'agent_reader_restarts_total', '1h')} >= {RESTARTS + 1}"
        ),
        of=NODE,
        wait="",
        summary="The reader of {node} in {rack} is started again and again",
        description="The agent of {node} in {rack} has started its reader {value} times within an hour.",
        meaning=f"NVML calls hang, or the reader ends. More than {RESTARTS} an hour (chosen): one is what a "
        "hang costs.",
        look=("Node dashboard: agent.", "The agent's log says which call hung, and for how long"),
        act=(
            "Look for a GPU that hangs: `dmesg`, Xids.",
            "Reboot the node if the driver does not come back.",
        ),
        board=BoardId.NODE,
        # 1 each 10 minutes is 6 an hour.
        fires=Case(given={restarts: "0+0.1x120"}, at="90m", labels=_NODE, value="6"),
        rests=Case(given={restarts: "0+0x60 1+0x60"}, at="90m"),
    )
    of = (*NODE, "error")
    errors = given("agent_read_errors_total", error="unknown", **_NODE)
    yield Alert(
        name="RackwattReadErrors",
        severity=Severity.INFO,
        expression=unless_maintained(f"{_increase(of, 'agent_read_errors_total', '10m')} > {READ_ERRORS}"),
        of=of,
        wait="30m",
        summary="Values of {node} in {rack} cannot be read: {error}",
        description="The agent of {node} in {rack} counted {value} errors of the kind {error} within 10 "
        "minutes.",
        meaning=f"A failing field costs that field alone, so something is absent. More than {READ_ERRORS} "
        "in ten minutes, for half an hour (chosen): single ones happen.",
        look=("Node dashboard: agent, errors by kind.", "The agent's log names the call"),
        act=(
            "`out_of_range`: a value that cannot be; report it with driver and board.",
            "`no_permission`: run the agent as docs/operations.md says.",
            "Others: look whether an Xid came with them.",
        ),
        board=BoardId.NODE,
        fires=Case(given={errors: "0+6x90"}, at="60m", labels={**_NODE, "error": "unknown"}, value="60"),
        rests=Case(given={errors: "0+0.5x90"}, at="60m"),
    )


def _rack_services(parameters: Parameters) -> Iterator[Alert]:
    job = parameters.rack_job
    up = f'up{{job="{job}",instance="rack:10073"}}'
    yield Alert(
        name="RackwattRackServiceDown",
        severity=Severity.CRITICAL,
        expression=f"max by (cluster, instance) ({select('up', job=f'~{job}')}) == 0",
        of=("instance",),
        wait="2m",
        summary="The rack service {instance} does not answer",
        description="Prometheus has not reached the rack service {instance} for two minutes.",
        meaning="No verdict, no availability, no efficiency: their series end, and their alerts cannot "
        "fire. The time is missing from the coverage of its racks.",
        look=("Fleet dashboard: racks without data in grey.", "Prometheus: Status, Targets"),
        act=(
            "On its host: status and log of `rackwatt rack`.",
            "`curl http://rack:10073/-/ready` says what it waits for.",
        ),
        board=BoardId.FLEET,
        fires=Case(given={up: steady(0)}, at="5m", labels={"instance": "rack:10073"}),
        rests=Case(given={up: steady(1)}, at="5m"),
    )
    yield Alert(
        name="RackwattRackServiceAbsent",
        severity=Severity.CRITICAL,
        expression=f"absent({select('up', job=f'~{job}')})",
        of=(),
        wait="5m",
        summary="Prometheus scrapes no rack service",
        description="No target of the scrape job of the rack services is there at all.",
        meaning="The twin of [RackwattRackServiceDown](#rackwattrackservicedown). The job is expected to be "
        f"called `{job}` ([another site](rules.md#another-site)).",
        look=("Prometheus: Status, Service discovery.",),
        act=(
            "Look at the scrape configuration.",
            "If the job has another name, build the rules with that name.",
        ),
        board=BoardId.FLEET,
        fires=Case(given={}, at="10m", labels={}),
        rests=Case(given={up: steady(0)}, at="10m"),
    )
    expected = given("rack_nodes_expected", **_R01)
    yield Alert(
        name="RackwattRackVanished",
        severity=Severity.WARNING,
        expression=highest(
            RACK_ONLY,
            f"{series('rack_nodes_expected')} offset {GONE_WINDOW} unless on (cluster, instance) "
            f"{select('up', job=f'~{job}')} == 0",
        )
        + "\nunless rack:nodes_expected:max",
        of=RACK_ONLY,
        wait="5m",
        summary="Rack {rack} has vanished",
        description=f"{GONE_WINDOW} ago {{rack}} had {{value}} nodes; now no rack service speaks of it.",
        meaning="A rack whose every series is gone raises no other alert. Those of a rack service that does "
        "not answer are not among them: [RackwattRackServiceDown](#rackwattrackservicedown) speaks for all "
        "of its racks. It stops after an hour, when the rack is not remembered any more.",
        look=("Fleet dashboard: racks over time.", "`curl http://rack:10073/v1/racks`"),
        act=(
            "If it was taken out of the configuration on purpose: silence this alert for an hour.",
            "If not: did its rack service leave the scrape configuration, or start with another file?",
        ),
        board=BoardId.FLEET,
        fires=Case(given={expected: "18+0x60 _x60"}, at="100m", labels=_R01, value="18"),
        rests=Case(given={expected: "18+0x120"}, at="100m"),
    )


def telemetry_alerts(parameters: Parameters) -> tuple[Alert, ...]:
    """Return the alerts on agents and their data."""
    return (*_agents(parameters), *_freshness(), *_health())


def service_alerts(parameters: Parameters) -> tuple[Alert, ...]:
    """Return the alerts on rack services."""
    return tuple(_rack_services(parameters))

"""Alerts on the checks of the catalogue: what REST says of a node, alerts say in the same words."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from collector.catalog.checks import CHECK_BY_ID, CHECKS, GPU_CHECKS, NODE_CHECKS, Check
from dashboards.identities import BoardId
from dashboards.rules.alerting import Alert, Case, Severity, given, steady
from dashboards.rules.parameters import Parameters
from dashboards.rules.promql import GPU, NODE, highest, select, series, unless_maintained

_GPU = {"rack": "r01", "node": "n03", "gpu": "2", "gpu_uuid": "GPU-2"}
_NODE = {"rack": "r01", "node": "n03"}
_ON_GPU = (*GPU, "check", "impact")
_ON_NODE = (*NODE, "check", "impact")
_HEALTH = "`curl http://NODE:10072/v1/health`: value, threshold, reason and action of each failed check"


@dataclass(frozen=True, slots=True, kw_only=True)
class _Own:
    """A check, or two that say the same, with an alert of its own.

    Attributes:
        name: End of the alert's name.
        checks: Ids of the checks, all of one impact.
        severity: How soon somebody must look.
        wait: For how long it must hold.
        board: Dashboard that shows it.
        look: Which panel shows it.
        act: What to do beyond the check's action.
    """

    name: str
    checks: tuple[str, ...]
    severity: Severity
    wait: str
    board: BoardId
    look: str
    act: tuple[str, ...] = ()


_OWN = (
    _Own(
        name="RowRemapPending",
        checks=("gpu_row_remap_pending",),
        severity=Severity.INFO,
        wait="10m",
        board=BoardId.NODE,
        look="Node dashboard: rows remapped, pending, failed.",
        act=("The GPU works on meanwhile; only further errors in the same bank would hurt.",),
    ),
    _Own(
        name="RowRemapFailure",
        checks=("gpu_row_remap_failure",),
        severity=Severity.WARNING,
        wait="2m",
        board=BoardId.NODE,
        look="Node dashboard: rows remapped, pending, failed.",
        act=("A reset does not cure it.",),
    ),
    _Own(
        name="EccUncorrected",
        checks=("gpu_ecc_uncorrected",),
        severity=Severity.WARNING,
        wait="",
        board=BoardId.NODE,
        look="Node dashboard: ECC errors; Xid 48, 94 and 95 beside them.",
    ),
    _Own(
        name="ThermalMarginLow",
        checks=("gpu_temperature_margin",),
        severity=Severity.WARNING,
        wait="5m",
        board=BoardId.NODE,
        look="Node dashboard: temperature margin; rack dashboard: the lowest margin of the rack.",
        act=(
            "If neighbours are warm, too, look at the coolant's flow and temperature, or at the fans.",
            "If one GPU alone is warm, its cold plate or its sensor is the suspect.",
        ),
    ),
    _Own(
        name="MemoryTemperatureHigh",
        checks=("gpu_memory_temperature",),
        severity=Severity.WARNING,
        wait="5m",
        board=BoardId.NODE,
        look="Node dashboard: memory temperature.",
    ),
    _Own(
        name="HardwareSlowdown",
        checks=("gpu_clock_events",),
        severity=Severity.WARNING,
        wait="5m",
        board=BoardId.NODE,
        look="Node dashboard: clock events by reason; rack dashboard: share of GPU time by reason.",
        act=(
            "`hw_thermal_slowdown`: cooling. `hw_power_brake`: the power supply asks for less. "
            "`hw_slowdown` alone: either.",
            "Jobs that wait for the slowest GPU lose most: place none that span this node.",
        ),
    ),
    _Own(
        name="NvlinkRecoveryFailed",
        checks=("nvlink_recovery_failed",),
        severity=Severity.WARNING,
        wait="",
        board=BoardId.NVLINK,
        look="NVLink dashboard: recoveries by outcome; node by link.",
        act=("Look whether the GPU at the other end, or many at once, have it: then it is the switch.",),
    ),
    _Own(
        name="NvlinkErrorRatioHigh",
        checks=("nvlink_effective_ber", "nvlink_symbol_ber"),
        severity=Severity.WARNING,
        wait="10m",
        board=BoardId.NVLINK,
        look="NVLink dashboard: worst bit error ratios.",
    ),
    _Own(
        name="NvlinkErrors",
        checks=("nvlink_errors",),
        severity=Severity.INFO,
        wait="30m",
        board=BoardId.NVLINK,
        look="NVLink dashboard: errors by GPU.",
    ),
    _Own(
        name="XidRepeated",
        checks=("gpu_xid_repeated",),
        severity=Severity.WARNING,
        wait="",
        board=BoardId.NODE,
        look="Node dashboard: Xids; `curl 'http://rack:10073/v1/events?kind=xid'`.",
    ),
)
"""Order of the runbooks. Severities and waits are chosen: `warn` and `avoid` never wake anybody."""

_LATER = {"": "2m", "2m": "5m", "5m": "8m", "10m": "13m", "30m": "33m"}
"""When a case is looked at: three minutes after the alert may fire."""

OWN_CHECKS = frozenset(check for own in _OWN for check in own.checks)


def _failed(**matchers: str) -> str:
    return unless_maintained(f"{highest(_ON_GPU, series('gpu_check_failed', **matchers))} == 1")


def _threshold(check: Check) -> str:
    least = "" if check.threshold is None else f", from {check.threshold:g} {check.unit}"
    return f"`{check.id}`: {check.help}{least} ({check.source})."


def _own_alert(own: _Own) -> Alert:
    checks = [CHECK_BY_ID[check] for check in own.checks]
    first = checks[0]
    labels = {**_GPU, "check": first.id, "impact": first.impact}
    failing = given("gpu_check_failed", **labels)
    return Alert(
        name=f"Rackwatt{own.name}",
        severity=own.severity,
        expression=_failed(check=own.checks[0] if len(checks) == 1 else f"~{'|'.join(own.checks)}"),
        of=_ON_GPU,
        wait=own.wait,
        summary=f"GPU {{gpu}} of {{node}} in {{rack}}: {first.help}",
        description="The check {check} of GPU {gpu} ({gpu_uuid}) on {node} in {rack} fails: "
        f"{first.action}.",
        meaning=" ".join(map(_threshold, checks))
        + f" Impact `{first.impact}`; thresholds can be changed under `checks` in the agent's configuration.",
        look=(own.look, _HEALTH),
        act=tuple(dict.fromkeys([*(_sentence(check.action) for check in checks), *own.act])),
        board=own.board,
        checks=own.checks,
        fires=Case(given={failing: steady(1)}, at=_LATER[own.wait], labels=labels),
        rests=Case(given={failing: steady(0)}, at=_LATER[own.wait]),
    )


def _sentence(text: str) -> str:
    return f"{text[0].upper()}{text[1:]}."


def _rest(impact: str) -> dict[str, str]:
    """Return matchers for the GPU checks of an impact that have no alert of their own."""
    own = [check.id for check in GPU_CHECKS if check.id in OWN_CHECKS and check.impact == impact]
    return {"impact": impact, **({"check": f"!~{'|'.join(own)}"} if own else {})}


def _listed(checks: tuple[Check, ...], impact: str) -> str:
    named = [f"`{check.id}`" for check in checks if check.impact == impact and check.id not in OWN_CHECKS]
    return ", ".join(named)


def _by_impact(impact: str, severity: Severity, summary: str, meaning: str) -> Alert:
    example = next(check for check in GPU_CHECKS if check.impact == impact and check.id not in OWN_CHECKS)
    labels = {**_GPU, "check": example.id, "impact": impact}
    failing = given("gpu_check_failed", **labels)
    return Alert(
        name=f"RackwattGpuCheck{impact.capitalize()}",
        severity=severity,
        expression=_failed(**_rest(impact)),
        of=_ON_GPU,
        wait="2m",
        summary=summary,
        description="The check {check} of GPU {gpu} ({gpu_uuid}) on {node} in {rack} fails, with impact "
        "{impact}.",
        meaning=f"{meaning} Of the checks {_listed(GPU_CHECKS, impact)} ([checks.md](checks.md)); the "
        "others have an alert of their own. Two minutes (chosen): a check holds by itself for as long as it "
        "should.",
        look=("Node dashboard: failed checks, with what to do.", _HEALTH),
        act=(
            "Do what the check's action says: [checks.md](checks.md), or `/v1/health` of the agent.",
            "Drain the node first where jobs run on it.",
        ),
        board=BoardId.NODE,
        checks=tuple(
            check.id for check in GPU_CHECKS if check.impact == impact and check.id not in OWN_CHECKS
        ),
        fires=Case(given={failing: steady(1)}, at="10m", labels=labels),
        rests=Case(given={failing: steady(0)}, at="10m"),
    )


def _warnings() -> Alert:
    rest = tuple(check for check in CHECKS if check.impact == "warn" and check.id not in OWN_CHECKS)
    labels = {**_NODE, "check": "node_persistence_mode", "impact": "warn"}
    failing = given("node_check_failed", **labels)
    gpus = highest(_ON_NODE, series("gpu_check_failed", check=f"~{'|'.join(_ids(rest, 'gpu_'))}"))
    nodes = highest(_ON_NODE, series("node_check_failed", check=f"~{'|'.join(_ids(rest, 'node_'))}"))
    return Alert(
        name="RackwattCheckWarn",
        severity=Severity.INFO,
        expression=unless_maintained(f"({gpus}\nor {nodes}) == 1"),
        of=_ON_NODE,
        wait="30m",
        summary="The check {check} fails on {node} in {rack}",
        description="The check {check} of {node} in {rack}, or of one of its GPUs, fails, with impact "
        "{impact}.",
        meaning=f"Somebody should look at the next maintenance. Of the checks {_listed(CHECKS, 'warn')} "
        "([checks.md](checks.md)). Half an hour (chosen): nothing of it is urgent.",
        look=("Node dashboard: failed checks, with what to do.", _HEALTH),
        act=("Do what the check's action says: [checks.md](checks.md).",),
        board=BoardId.NODE,
        checks=tuple(check.id for check in rest),
        fires=Case(given={failing: steady(1)}, at="40m", labels=labels),
        rests=Case(given={failing: "1+0x20 0+0x40"}, at="40m"),
    )


def _ids(checks: tuple[Check, ...], start: str) -> list[str]:
    return [check.id for check in checks if check.id.startswith(start)]


def _generic() -> Iterator[Alert]:
    yield _by_impact(
        "fail",
        Severity.WARNING,
        "GPU {gpu} of {node} in {rack} cannot be used: {check}",
        "No job can run on the GPU, and its node is FAILED.",
    )
    yield _by_impact(
        "avoid",
        Severity.WARNING,
        "Place nothing on {node} in {rack}: {check} of GPU {gpu}",
        "Running jobs may end; the node is out of the schedulable set.",
    )
    failing = tuple(check.id for check in NODE_CHECKS if check.impact in ("fail", "avoid"))
    labels = {**_NODE, "check": failing[0], "impact": "fail"}
    own = given("node_check_failed", **labels)
    yield Alert(
        name="RackwattNodeCheckFailed",
        severity=Severity.WARNING,
        expression=unless_maintained(
            f"{highest(_ON_NODE, series('node_check_failed', impact='~fail|avoid'))} == 1"
        ),
        of=_ON_NODE,
        wait="2m",
        summary="Node {node} of {rack} cannot be used: {check}",
        description="The check {check} of {node} in {rack} fails, with impact {impact}.",
        meaning="A check of the node as a whole: "
        + " ".join(_threshold(CHECK_BY_ID[each]) for each in failing),
        look=("Node dashboard: failed checks, GPUs that are missing.", _HEALTH),
        act=tuple(_sentence(CHECK_BY_ID[each].action) for each in failing),
        board=BoardId.NODE,
        checks=failing,
        fires=Case(given={own: steady(1)}, at="10m", labels=labels),
        rests=Case(given={own: steady(0)}, at="10m"),
    )
    yield _warnings()


_SAID_ALREADY = ("poll", "recovering", "split_domain", "witness")
"""What the rack service finds and other alerts say: RackwattNodeUnknown, -NodeFailed and -DomainSplit."""


def _of_rack() -> Iterator[Alert]:
    of = ("rack", "node", "check", "impact")
    name = "rack_node_check_impact:check_failed:max"
    labels = {**_NODE, "check": "duplicate_gpu", "impact": "avoid"}
    own = given("rack_check_failed", **labels)
    yield Alert(
        name="RackwattRackCheckFailed",
        severity=Severity.WARNING,
        expression=unless_maintained(
            f"{select(name, impact='~fail|avoid', check='!~' + '|'.join(_SAID_ALREADY))} == 1"
        ),
        of=of,
        wait="5m",
        summary="The rack service finds in {rack}: {check} {node}",
        description="The check {check} of the rack service fails for {node} in {rack}, with impact {impact}.",
        meaning="What needs several nodes, or time ([checks.md](checks.md)). A node that is silent, that is "
        "gone or that has to stay clean for a while, and a split domain, have alerts of their own. Five "
        "minutes (chosen), as agents are restarted one after another.",
        look=(
            "Rack dashboard: reasons.",
            "`curl http://rack:10073/v1/racks/r01/health`: `reasons` with text and action",
        ),
        act=("Do what the reason's action says.",),
        board=BoardId.RACK,
        fires=Case(given={own: steady(1)}, at="10m", labels=labels),
        rests=Case(given={own: "1+0x3 0+0x60"}, at="10m"),
    )
    skew = {**_NODE, "check": "version_skew", "impact": "warn"}
    yield Alert(
        name="RackwattVersionSkew",
        severity=Severity.INFO,
        expression=unless_maintained(f"{select(name, check='version_skew')} == 1"),
        of=of,
        wait="30m",
        summary="Versions differ in rack {rack}: {node}",
        description="Driver, kernel, VBIOS or InfoROM of {node} in {rack} differ from those of most nodes.",
        meaning="One rack should run one version; it never takes a node out of the schedulable set. Half an "
        "hour, as a rolling upgrade goes through.",
        look=(
            "Rack dashboard: table of nodes with their versions.",
            "`curl http://rack:10073/v1/nodes/n03`: which version, and what most have",
        ),
        act=("Bring the rack to one version, at the next maintenance.",),
        board=BoardId.RACK,
        fires=Case(given={given("rack_check_failed", **skew): steady(1)}, at="40m", labels=skew),
        rests=Case(given={given("rack_check_failed", **skew): "1+0x20 0+0x60"}, at="40m"),
    )


def check_alerts(_: Parameters) -> tuple[Alert, ...]:
    """Return the alerts on checks by impact."""
    return (*_generic(), *_of_rack())


def own_check_alerts(_: Parameters) -> tuple[Alert, ...]:
    """Return the alerts on single checks."""
    return tuple(map(_own_alert, _OWN))

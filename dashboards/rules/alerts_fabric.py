"""Alerts on what no check judges: error ratios that grow, and Xids by class."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from collector.catalog.checks import CHECK_BY_ID
from collector.health.xids import load_catalogue
from dashboards.identities import BoardId
from dashboards.rules.alerting import Alert, Case, Severity, Show, given, steady
from dashboards.rules.parameters import Parameters
from dashboards.rules.promql import GPU, highest, series, unless_maintained
from dashboards.rules.record_gpus import UNLISTED, XID_WINDOW_SECONDS, xid_matchers

_GPU = {"rack": "r01", "node": "n03", "gpu": "2", "gpu_uuid": "GPU-2"}
_ON_XID = (*GPU, "xid")

BER_GROWTH = 10
"""Growth over `BER_WINDOW` that is a trend (chosen): a ratio moves by powers of ten."""
BER_WINDOW = "6h"
BER_FLOOR = float(CHECK_BY_ID["nvlink_effective_ber"].threshold or 0) / 1000
"""Below it nobody looks (chosen): three powers of ten below the threshold of the check."""


def _ber_rising() -> Alert:
    name = "rack_node_gpu:nvlink_effective_ber:max"
    link = given("nvlink_effective_ber_ratio", link="4", **_GPU)
    return Alert(
        name="RackwattNvlinkErrorRatioRising",
        severity=Severity.INFO,
        expression=unless_maintained(
            f"{name} > {BER_FLOOR:g}\nand {name} > {BER_GROWTH} * {name} offset {BER_WINDOW}"
        ),
        of=GPU,
        wait="30m",
        keep="1h",
        summary="Bit errors grow on an NVLink of GPU {gpu} of {node} in {rack}",
        description="The worst effective bit error ratio of GPU {gpu} ({gpu_uuid}) on {node} in {rack} is "
        f"{{value}}, more than {BER_GROWTH} times that of {BER_WINDOW} ago.",
        meaning="A link is getting worse before the check `nvlink_effective_ber` fails. Ten times in "
        f"{BER_WINDOW}, and from {BER_FLOOR:g} on: chosen, as a ratio moves by powers of ten.",
        look=("NVLink dashboard: worst bit error ratios over days.",),
        act=(
            "Look which link it is: `/v1/health` of the agent, or the panel by link.",
            "Plan to look at cable, connector and peer at the next maintenance.",
        ),
        board=BoardId.NVLINK,
        # Seven hours at 1e-16, then 2e-13: two thousand times.
        fires=Case(given={link: "1e-16+0x420 2e-13+0x60"}, at="470m", labels=_GPU, value="200f"),
        rests=Case(given={link: "1e-13+0x420 2e-13+0x60"}, at="470m"),
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class _Class:
    """A class of Xids.

    Attributes:
        name: The class, as in `collector.health.xids`.
        title: End of the alert's name.
        severity: How soon somebody must look.
        words: What an Xid of it is.
        meaning: What it means.
        act: What to do.
        example: An Xid of it.
    """

    name: str
    title: str
    severity: Severity
    words: str
    meaning: str
    act: tuple[str, ...]
    example: str


_CLASSES = (
    _Class(
        name="fatal",
        title="Fatal",
        severity=Severity.WARNING,
        words="a fatal Xid",
        meaning="The GPU cannot be used before it was reset. The check `gpu_xid_fatal` fails until it is "
        "cured.",
        act=(
            "Drain the node.",
            "Do what the Xid's row in [checks.md](checks.md) says: mostly a reset of the GPU, or a reboot.",
            "If it comes again after that, have the GPU serviced.",
        ),
        example="79",
    ),
    _Class(
        name="by_subcode",
        title="Fabric",
        severity=Severity.WARNING,
        words="an Xid of NVLink 5 whose sub-code decides",
        meaning="Only the kernel log tells whether it was fatal. If it was, the check `gpu_xid_fatal` "
        "fails, too.",
        act=(
            "Read sub-code, link and severity in the node's events: `curl "
            "'http://rack:10073/v1/events?kind=xid'`.",
            "Nonfatal and alone: nothing. Again and again: look at link, cable and peer.",
        ),
        example="149",
    ),
    _Class(
        name="warn",
        title="Hardware",
        severity=Severity.INFO,
        words="an Xid of the hardware",
        meaning="Alone it changes nothing; when it repeats, the check `gpu_xid_repeated` fails. Xids that "
        "the catalogue does not have are of this class.",
        act=("Do what the Xid's row in [checks.md](checks.md) says.",),
        example="63",
    ),
)
"""Xids of applications have no alert: they are the job's. If one GPU alone has them, they repeat
(`RackwattXidRepeated`)."""


def _xid(own: _Class) -> Alert:
    matcher = xid_matchers()[own.name]
    seen = series("gpu_xid_last_seen_timestamp_seconds", xid=matcher)
    labels = {**_GPU, "xid": own.example}
    event = given("gpu_xid_last_seen_timestamp_seconds", **labels)
    numbers = ", ".join(
        str(number) for number, row in sorted(load_catalogue().rows.items()) if row.severity == own.name
    )
    others = ", and whatever the catalogue lacks" if own.name == UNLISTED else ""
    return Alert(
        name=f"RackwattXid{own.title}",
        severity=own.severity,
        expression=unless_maintained(f"time() - {highest(_ON_XID, seen)} <= {XID_WINDOW_SECONDS}"),
        of=_ON_XID,
        wait="",
        summary="Xid {xid} on GPU {gpu} of {node} in {rack}",
        description=f"GPU {{gpu}} ({{gpu_uuid}}) of {{node}} in {{rack}} had {own.words}, {{xid}}, "
        "{value} ago.",
        meaning=f"{own.meaning} Numbers: {numbers}{others}. It fires for ten minutes after the last one, by "
        "the time at which it was last seen: the counter of an Xid begins at 1, so that no rate sees the "
        "first.",
        look=(
            "Node dashboard: Xids by class over time.",
            "`curl 'http://rack:10073/v1/events?kind=xid'`: when, which, on which GPU",
        ),
        act=own.act,
        board=BoardId.NODE,
        show=Show.DURATION,
        # promtool begins at 0 s: seen at 60 s, looked at after 5 and after 20 minutes.
        fires=Case(given={event: steady(60)}, at="5m", labels=labels, value="4m 0s"),
        rests=Case(given={event: steady(60)}, at="20m"),
    )


def _xids() -> Iterator[Alert]:
    yield from map(_xid, _CLASSES)


def fabric_alerts(_: Parameters) -> tuple[Alert, ...]:
    """Return the alerts on NVLinks that no check raises."""
    return (_ber_rising(),)


def xid_alerts(_: Parameters) -> tuple[Alert, ...]:
    """Return the alerts on Xids by class."""
    return tuple(_xids())

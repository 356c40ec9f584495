"""Recorded: Xids by class, clock events, thermal margin, and what GPUs of a rack do."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from collector.health.xids import SEVERITIES, load_catalogue
from dashboards.rules.parameters import Parameters
from dashboards.rules.promql import GPU, NODE, RACK_ONLY, aggregate, highest, select, series, total
from dashboards.rules.recording import Measure, Recorded

BY_SUBCODE = "by_subcode"
UNLISTED = "warn"
"""Class of an Xid that the catalogue lacks, as `XidCatalogue.find` has it."""

CLASSES = (*SEVERITIES, BY_SUBCODE)
"""Classes of Xids. What differs by sub-code has a class of its own: the number alone does not tell."""

XID_WINDOW, XID_WINDOW_SECONDS = "10m", 600


def xid_matchers() -> Mapping[str, str]:
    """Return what the label `xid` must be for each class, from the catalogue of Xids."""
    rows = load_catalogue().rows
    numbers = {
        name: [str(number) for number, row in sorted(rows.items()) if row.severity == name]
        for name in CLASSES
    }
    listed = [number for name in CLASSES if name != UNLISTED for number in numbers[name]]
    return {
        name: f"!~{'|'.join(listed)}" if name == UNLISTED else f"~{'|'.join(numbers[name])}"
        for name in CLASSES
    }


def _counted() -> Recorded:
    of = (*GPU, "xid")
    counted, seen = series("gpu_xid_total"), series("gpu_xid_last_seen_timestamp_seconds")
    grown = f"({counted} - {counted} offset {XID_WINDOW} >= 0) or {counted}"
    return Recorded(
        of=of,
        metric="xids",
        operation=f"increase{XID_WINDOW}",
        expression=highest(of, f"({grown})\n  and time() - {seen} <= {XID_WINDOW_SECONDS}"),
        unit=Measure.COUNT,
        help=f"Xids of the number in {XID_WINDOW}, the first one included, which no rate sees; absent "
        "without one.",
    )


def _of_class(name: str, matcher: str, counted: Recorded) -> Iterator[Recorded]:
    fixed = {"class": name}
    own = Recorded(
        of=(*GPU, "class"),
        metric="xids",
        operation=counted.operation,
        expression=total(GPU, select(counted.name, xid=matcher)),
        unit=Measure.COUNT,
        help=f"Xids of the class in {XID_WINDOW}; absent without one.",
        fixed=fixed,
    )
    yield own
    gpus = aggregate("count", RACK_ONLY, highest(GPU, series("gpu_up")))
    yield Recorded(
        of=(*RACK_ONLY, "class"),
        metric="xids",
        operation=counted.operation,
        expression=f"{total(RACK_ONLY, select(own.name, **fixed))}\nor {gpus} * 0",
        unit=Measure.COUNT,
        help=f"Xids of the class in {XID_WINDOW} over the rack; 0 while its GPUs are read and none came.",
        fixed=fixed,
    )


def xid_rules(_: Parameters) -> tuple[Recorded, ...]:
    """Return the rules about Xids."""
    counted = _counted()
    classes = (_of_class(name, matcher, counted) for name, matcher in xid_matchers().items())
    return (counted, *(rule for rules in classes for rule in rules))


def _margins() -> Iterator[Recorded]:
    below = series("gpu_temperature_margin_celsius")
    for of, whose in ((GPU, "GPU"), (NODE, "node's GPUs"), (RACK_ONLY, "rack's GPUs")):
        rule = Recorded(
            of=of,
            metric="temperature_margin_celsius",
            operation="min",
            expression=aggregate("min", of, below),
            unit=Measure.CELSIUS,
            help=f"Fewest degrees that are left until the {whose} slow down; negative beyond that.",
        )
        yield rule
        below = rule.name


def gpu_rules(_: Parameters) -> tuple[Recorded, ...]:
    """Return the rules about temperatures, clocks and use of GPUs."""
    reasons, of_rack = (*GPU, "reason"), (*RACK_ONLY, "reason")
    events = Recorded(
        of=reasons,
        metric="clock_event_seconds",
        operation="rate5m",
        expression=highest(reasons, f"rate({series('gpu_clock_event_seconds_total')}[5m])"),
        unit=Measure.RATIO,
        help="Share of 5m for which the reason held the GPU's clocks down; reasons overlap.",
    )
    power, limit = (highest(GPU, series(name)) for name in ("gpu_power_watts", "gpu_power_limit_watts"))
    return (
        *_margins(),
        events,
        Recorded(
            of=of_rack,
            metric="clock_event_seconds_per_gpu",
            operation="ratio_rate5m",
            expression=f"{total(of_rack, events.name)} / {aggregate('count', of_rack, events.name)}",
            unit=Measure.RATIO,
            help="Share of GPU time of 5m for which the reason held clocks down, of the GPUs that tell.",
        ),
        Recorded(
            of=RACK_ONLY,
            metric="gpu_utilization_ratio",
            operation="avg",
            expression=aggregate("avg", RACK_ONLY, highest(GPU, series("gpu_utilization_ratio"))),
            unit=Measure.RATIO,
            help="Mean utilization of the rack's GPUs that answer.",
        ),
        Recorded(
            of=RACK_ONLY,
            metric="gpu_power_watts_per_limit",
            operation="ratio",
            # Both sides of the same GPUs: one that tells its limit alone would make the others look idle.
            expression=f"{total(RACK_ONLY, f'{power} and {limit}')}\n"
            f"/ ({total(RACK_ONLY, f'{limit} and {power}')} > 0)",
            unit=Measure.RATIO,
            help="Power of the rack's GPUs as a share of their power limits, of those that tell both.",
        ),
    )

"""Recorded: NVLink traffic, links, their errors, recoveries and error ratios."""

from __future__ import annotations

from collections.abc import Iterator

from dashboards.rules.parameters import Parameters
from dashboards.rules.promql import GPU, NODE, RACK_ONLY, highest, series, total
from dashboards.rules.recording import Measure, Recorded

LINK = (*GPU, "link")
LEVELS = (GPU, NODE, RACK_ONLY)
"""From the GPU upwards; each level sums the one before it."""

ERROR_WINDOW = "10m"
"""As the checks of links have it."""

BER_KINDS = ("effective", "symbol")
_ANSWERS = "of the GPUs that answer"


def _upwards(metric: str, operation: str, rules: Recorded) -> Iterator[Recorded]:
    """Yield a rule about GPUs, and its sums over nodes and racks."""
    yield rules
    below = rules
    for of in LEVELS[1:]:
        below = Recorded(
            of=of,
            metric=metric,
            operation=operation,
            expression=total(of, below.name),
            unit=rules.unit,
            help=f"{rules.help} Summed, {_ANSWERS}.",
        )
        yield below


def _traffic(direction: str, words: str) -> Iterator[Recorded]:
    metric, operation = f"nvlink_{direction}_bytes", "rate5m"
    name = f"gpu_nvlink_{direction}_bytes_total"
    yield from _upwards(
        metric,
        operation,
        Recorded(
            of=GPU,
            metric=metric,
            operation=operation,
            expression=highest(GPU, f"rate({series(name)}[5m])"),
            unit=Measure.BYTES_PER_SECOND,
            help=f"Payload a second that the GPU {words} over its NVLinks, over 5m.",
        ),
    )


def _links(what: str, text: str) -> Iterator[Recorded]:
    metric = f"nvlinks_{what}"
    yield from _upwards(
        metric,
        "sum",
        Recorded(
            of=GPU,
            metric=metric,
            operation="sum",
            expression=highest(GPU, series(f"gpu_nvlinks_{what}")),
            unit=Measure.COUNT,
            help=text,
        ),
    )


def _worst(kind: str) -> Iterator[Recorded]:
    metric = f"nvlink_{kind}_ber"
    below = series(f"nvlink_{kind}_ber_ratio")
    for of, whose in zip(LEVELS, ("GPU", "node", "rack"), strict=True):
        rule = Recorded(
            of=of,
            metric=metric,
            operation="max",
            expression=highest(of, below),
            unit=Measure.RATIO,
            help=f"Worst {kind} bit error ratio of the {whose}'s NVLinks; 0 where no errors were seen.",
        )
        yield rule
        below = rule.name


def fabric_rules(_: Parameters) -> tuple[Recorded, ...]:
    """Return the rules about what GPUs say of all their NVLinks together."""
    errors = Recorded(
        of=GPU,
        metric="nvlink_errors",
        operation=f"increase{ERROR_WINDOW}",
        expression=highest(GPU, f"increase({series('gpu_nvlink_errors_total')}[{ERROR_WINDOW}])"),
        unit=Measure.COUNT,
        help=f"Growth in {ERROR_WINDOW} of the error counters of the GPU's links; kinds overlap.",
    )
    return (
        *_traffic("transmitted", "sent"),
        *_traffic("received", "received"),
        *_links("up", "NVLinks of the GPU that can carry traffic."),
        *_links("expected", "NVLinks that the GPU has."),
        *_upwards("nvlink_errors", f"increase{ERROR_WINDOW}", errors),
    )


def link_rules(_: Parameters) -> tuple[Recorded, ...]:
    """Return the rules that read every single NVLink, 1,296 of an NVL72: evaluated less often than others."""
    outcomes = (*GPU, "outcome")
    recoveries = highest((*LINK, "outcome"), f"increase({series('nvlink_recoveries_total')}[{ERROR_WINDOW}])")
    of_rack = (*RACK_ONLY, "outcome")
    recovery = Recorded(
        of=outcomes,
        metric="nvlink_recoveries",
        operation=f"increase{ERROR_WINDOW}",
        expression=total(outcomes, recoveries),
        unit=Measure.COUNT,
        help=f"Times in {ERROR_WINDOW} that links of the GPU went to recovery, by outcome.",
    )
    return (
        recovery,
        Recorded(
            of=of_rack,
            metric="nvlink_recoveries",
            operation=f"increase{ERROR_WINDOW}",
            expression=total(of_rack, recovery.name),
            unit=Measure.COUNT,
            help=f"Times in {ERROR_WINDOW} that links of the rack went to recovery, by outcome, {_ANSWERS}.",
        ),
        *(rule for kind in BER_KINDS for rule in _worst(kind)),
    )

"""Recorded: energy, tokens, and what one buys of the other. From the ledger's counters, as REST does it.

Every figure is a ratio of sums over one window, and blank where a side is not known for enough of it (facts
on tokens, §4 and §6). Two things of REST are missing here: `watched` (a rack service that is down says
nothing, and its series end), and the longer window that engines need which count tokens when a request ends.
"""

from __future__ import annotations

from collections.abc import Iterator

from collector.efficiency.answer import FIGURE_DOMAINS
from collector.efficiency.guards import SUFFICIENT_RATIO
from dashboards.rules.parameters import Parameters
from dashboards.rules.promql import RACK_ONLY, aggregate, highest, on, select, series, total
from dashboards.rules.recording import Measure, Recorded

RATE_WINDOWS = ("5m", "1h")
"""Windows of rates: 5 minutes are enough for shelves read each minute (facts on tokens, §4); an hour is
steady enough to compare with other hours."""

IDLE_WINDOW = "1h"
"""Idle energy is told apart late, when every node has spoken."""

DOMAIN = ("rack", "domain")
KINDS = ("generation", "total")
"""Tokens that were generated, and those together with the prompt's: they differ several times, and every
figure names which it counts."""

_MEGA = "1e6"
_KWH_OF_A_MILLION = "3.6"
"""(J/token) / 3.6 are the kWh of a million tokens (facts on tokens, §4)."""


def _covered(window: str) -> str:
    return f"rack_domain:energy_coverage:avg{window} >= {SUFFICIENT_RATIO:g}"


def _energy(window: str) -> Iterator[Recorded]:
    yield Recorded(
        of=DOMAIN,
        metric="energy_joules",
        operation=f"rate{window}",
        expression=highest(DOMAIN, f"rate({series('rack_energy_joules_total')}[{window}])"),
        unit=Measure.WATTS,
        help=f"Mean power of the rack over {window} by where it is measured, from its energy; one domain is "
        "part of another. What does not report is missing from it: see the coverage.",
    )
    yield Recorded(
        of=DOMAIN,
        metric="energy_coverage",
        operation=f"avg{window}",
        expression=highest(DOMAIN, f"avg_over_time({series('rack_energy_coverage_ratio')}[{window}])"),
        unit=Measure.RATIO,
        help=f"Share of what should report its energy that did, over {window}.",
    )


def _served(window: str) -> Iterator[Recorded]:
    up, expected = (
        highest(RACK_ONLY, f"sum_over_time({series(f'rack_llm_endpoints_{what}')}[{window}])")
        for what in ("up", "expected")
    )
    yield Recorded(
        of=RACK_ONLY,
        metric="llm_endpoints_up_per_expected",
        operation=f"ratio_rate{window}",
        expression=f"{up}\n/ ({expected} > 0)",
        unit=Measure.RATIO,
        help=f"Share of {window} for which the rack's serving endpoints were up and fresh; absent without "
        "any.",
    )
    of = ("rack", "model", "phase")
    yield Recorded(
        of=of,
        metric="llm_tokens",
        operation=f"rate{window}",
        expression=highest(of, f"rate({series('rack_llm_tokens_total')}[{window}])"),
        unit=Measure.TOKENS_PER_SECOND,
        help=f"Tokens a second by model and phase over {window}, of the endpoints that answer.",
    )
    for kind in KINDS:
        phase = {"phase": kind} if kind == "generation" else {}
        for labels in (("rack", "model"), RACK_ONLY):
            yield Recorded(
                of=labels,
                metric=f"llm_{kind}_tokens",
                operation=f"rate{window}",
                expression=total(labels, select(f"rack_model_phase:llm_tokens:rate{window}", **phase)),
                unit=Measure.TOKENS_PER_SECOND,
                help=f"{_words(kind)} a second over {window}, of the endpoints that answer.",
            )


def _words(kind: str) -> str:
    return "Generated tokens" if kind == "generation" else "Tokens, those of prompts included,"


def _counted(kind: str) -> str:
    return "generated ones" if kind == "generation" else "those of prompts included"


def _tokens(kind: str, window: str) -> str:
    """Return the tokens, blank while an expected endpoint is not read."""
    return (
        f"(rack:llm_{kind}_tokens:rate{window} "
        f"and {on(RACK_ONLY)} rack:llm_endpoints_up_per_expected:ratio_rate{window} >= {SUFFICIENT_RATIO:g})"
    )


def _joules(window: str) -> str:
    """Return the energy of the domains that figures are made of, blank where it is not all known."""
    energy = select(f"rack_domain:energy_joules:rate{window}", domain=f"~{'|'.join(FIGURE_DOMAINS)}")
    return f"(({energy} > 0) and {_covered(window)})"


_BLANK = (
    f"Absent while less than {SUFFICIENT_RATIO:g} of the energy, or of the serving endpoints, is known over "
    "the window"
)


def _per_energy(kind: str, window: str) -> Iterator[Recorded]:
    per_joule = f"llm_{kind}_tokens_per_joule"
    yield Recorded(
        of=DOMAIN,
        metric=per_joule,
        operation=f"ratio_rate{window}",
        expression=f"{_tokens(kind, window)}\n/ {on(RACK_ONLY)} group_right () {_joules(window)}",
        unit=Measure.TOKENS_PER_JOULE,
        help=f"{_words(kind)} for each joule of the domain over {window}; the same as tokens/s for each "
        f"watt. {_BLANK}.",
    )
    yield Recorded(
        of=DOMAIN,
        metric=f"llm_{kind}_tokens_per_second_per_megawatt",
        operation=f"ratio_rate{window}",
        expression=f"{_MEGA} * rack_domain:{per_joule}:ratio_rate{window}",
        unit=Measure.TOKENS_PER_SECOND_PER_MEGAWATT,
        help=f"{_words(kind)} a second for each megawatt of the domain over {window}. {_BLANK}.",
    )
    yield Recorded(
        of=DOMAIN,
        metric=f"kwh_per_million_llm_{kind}_tokens",
        operation=f"ratio_rate{window}",
        expression=f"{_joules(window)}\n/ {on(RACK_ONLY)} group_left () ({_tokens(kind, window)} > 0) "
        f"/ {_KWH_OF_A_MILLION}",
        unit=Measure.KILOWATT_HOURS,
        help=f"Energy of the domain, in kWh, for a million tokens over {window} ({_counted(kind)}). "
        f"{_BLANK}, and without traffic.",
    )


def _costs(kind: str, window: str, parameters: Parameters) -> Iterator[Recorded]:
    price, pue = (
        highest(RACK_ONLY, series(name)) for name in ("rack_electricity_usd_per_kwh", "rack_pue_ratio")
    )
    kwh = select(f"rack_domain:kwh_per_million_llm_{kind}_tokens:ratio_rate{window}", domain="rack_input")
    yield Recorded(
        of=RACK_ONLY,
        metric=f"energy_usd_per_million_llm_{kind}_tokens",
        operation=f"ratio_rate{window}",
        expression=f"{total(RACK_ONLY, kwh)}\n* {price}\n* ({pue} or {price} * 0 + 1)",
        unit=Measure.US_DOLLARS,
        help=f"Price of the rack's input energy, times PUE, for a million tokens over {window} "
        f"({_counted(kind)}). {_BLANK}, without traffic, and without a price.",
    )
    gpus, hour = (
        highest(RACK_ONLY, series("rack_gpus_expected")),
        highest(RACK_ONLY, series("rack_gpu_hour_usd")),
    )
    gpu_hours, energy, all_in = (
        f"{what}_usd_per_million_llm_{kind}_tokens" for what in ("gpu_hour", "energy", "all_in")
    )
    operation = f"ratio_rate{window}"
    blank = (
        f"Absent while less than {SUFFICIENT_RATIO:g} of the serving endpoints is known over the window, "
        "without traffic, and without a price."
    )
    yield Recorded(
        of=RACK_ONLY,
        metric=gpu_hours,
        operation=operation,
        expression=f"1e6 / 3600 * {gpus} * {hour}\n/ ({_tokens(kind, window)} > 0)",
        unit=Measure.US_DOLLARS,
        help=f"Price of the rack's GPU-hours for a million tokens over {window} ({_counted(kind)}), whether "
        f"it pays for their energy or not. {blank}",
    )
    own, added = f"rack:{gpu_hours}:{operation}", f"rack:{energy}:{operation}"
    yield Recorded(
        of=RACK_ONLY,
        metric=all_in,
        operation=operation,
        expression=f"({own} {_includes_energy(parameters)})\nor ({own} + {added})",
        unit=Measure.US_DOLLARS,
        help=f"Price of the rack's GPU-hours and of their energy for a million tokens over {window} "
        f"({_counted(kind)}); the energy is added where the price of a GPU-hour does not pay for it. {blank}",
    )


def _includes_energy(parameters: Parameters) -> str:
    """Write the condition that the price of a GPU-hour pays for the energy; what a rack says goes first."""
    said = f"{on(RACK_ONLY)} {highest(RACK_ONLY, series('rack_gpu_hour_includes_energy'))}"
    return f"unless {said} == 0" if parameters.gpu_hour_includes_energy else f"and {said} == 1"


def _idle() -> Iterator[Recorded]:
    idle = highest(DOMAIN, f"rate({series('rack_idle_energy_joules_total')}[{IDLE_WINDOW}])")
    yield Recorded(
        of=DOMAIN,
        metric="idle_energy_joules",
        operation=f"rate{IDLE_WINDOW}",
        expression=idle,
        unit=Measure.WATTS,
        help=f"Mean power over {IDLE_WINDOW} that was spent while no serving endpoint of the rack had a "
        "request.",
    )
    yield Recorded(
        of=DOMAIN,
        metric="idle_energy_joules_per_energy_joules",
        operation=f"ratio_rate{IDLE_WINDOW}",
        expression=f"rack_domain:idle_energy_joules:rate{IDLE_WINDOW}\n"
        f"/ ((rack_domain:energy_joules:rate{IDLE_WINDOW} > 0) and {_covered(IDLE_WINDOW)})",
        unit=Measure.RATIO,
        help=f"Share of the energy of {IDLE_WINDOW} that was spent while no serving endpoint had a request.",
    )


MEDIAN_DAYS = 7
ENOUGH_DAYS = 4
"""Days of which the median is taken, and how many of them must be known (chosen: more than half)."""


def _usual(metric: str, unit: Measure) -> Recorded:
    """Return the median of the same hour of the last days: one odd day, or three, do not move it far."""
    name = f"rack_domain:{metric}"
    days = "\n  or ".join(
        f'label_replace({name} offset {day}d, "day", "{day}", "", "")' for day in range(1, MEDIAN_DAYS + 1)
    )
    metric, _, operation = metric.rpartition(":")
    median = f"quantile by (cluster, rack, domain) (0.5,\n  {days})"
    count = aggregate("count", DOMAIN, f"\n  {days}")
    return Recorded(
        of=DOMAIN,
        metric=metric,
        operation=f"{operation}_median{MEDIAN_DAYS}d",
        expression=f"{median}\nand {count} >= {ENOUGH_DAYS}",
        unit=unit,
        help=f"Median of {name} at this time of the last {MEDIAN_DAYS} days; absent while fewer than "
        f"{ENOUGH_DAYS} are known.",
    )


def token_rules(parameters: Parameters) -> tuple[Recorded, ...]:
    """Return the rules about energy, tokens and efficiency."""
    per_gpu = tuple(
        Recorded(
            of=RACK_ONLY,
            metric=f"llm_{kind}_tokens_per_gpu",
            operation="ratio_rate5m",
            expression=f"{_tokens(kind, '5m')} / ({highest(RACK_ONLY, series('rack_gpus_expected'))} > 0)",
            unit=Measure.TOKENS_PER_SECOND,
            help=f"{_words(kind)} a second for each GPU that the rack should have, over 5m. Absent while "
            f"less than {SUFFICIENT_RATIO:g} of the serving endpoints is known.",
        )
        for kind in KINDS
    )
    power = Recorded(
        of=DOMAIN,
        metric="power_watts",
        operation="max",
        expression=highest(DOMAIN, series("rack_power_watts")),
        unit=Measure.WATTS,
        help="Power of the rack now by where it is measured; absent unless everything that should report "
        "does.",
    )
    return (
        power,
        *(rule for window in RATE_WINDOWS for rule in _energy(window)),
        *(rule for window in RATE_WINDOWS for rule in _served(window)),
        *(rule for window in RATE_WINDOWS for kind in KINDS for rule in _per_energy(kind, window)),
        *(rule for kind in KINDS for rule in _costs(kind, "5m", parameters)),
        *per_gpu,
        *_idle(),
        _usual("llm_generation_tokens_per_joule:ratio_rate1h", Measure.TOKENS_PER_JOULE),
        _usual("energy_joules:rate1h", Measure.WATTS),
    )

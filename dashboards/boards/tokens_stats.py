"""The strip of figures at the head of tokens per watt."""

from __future__ import annotations

from collector.efficiency.guards import SUFFICIENT_RATIO
from collector.profiles.references import TokenKind
from dashboards import queries, units
from dashboards.boards.recordings import describe, unit
from dashboards.boards.tokens_queries import (
    COVERAGE,
    IDLE,
    RACK_INPUT,
    WATTS,
    TokenQueries,
    cost_name,
    per_joule_name,
    tokens_name,
)
from dashboards.panels import (
    ByName,
    FieldOptions,
    Fixed,
    Override,
    Stat,
    StatText,
    Step,
    Thresholds,
    instant,
    palette,
)
from dashboards.panels.palette import Colour
from dashboards.panels.targets import Target

GENERATED, TOTAL = TokenKind.GENERATION, TokenKind.TOTAL

ENOUGH = Thresholds(base=palette.DEGRADED, steps=(Step(SUFFICIENT_RATIO, palette.NEUTRAL),))
"""Below it figures are blank."""

_OF_KNOWN = "Of several racks the sums are divided, over those racks of which both sides are known."


def _stat(
    key: str,
    title: str,
    description: str,
    targets: tuple[Target, ...],
    in_unit: str,
    *,
    colour: Colour = palette.NEUTRAL,
    decimals: int | None = None,
) -> Stat:
    return Stat(
        key=key,
        title=title,
        description=description,
        width=4,
        height=4,
        targets=targets,
        fields=FieldOptions(unit=in_unit, decimals=decimals, colouring=Fixed(colour)),
        text=StatText.VALUE,
    )


def _throughput(own: TokenQueries, kind: TokenKind, title: str) -> Stat:
    name = tokens_name(kind)
    return _stat(
        f"{kind.value}-tokens",
        title,
        describe(name, note="Over the chosen racks."),
        (instant(f"sum({own.tokens(kind)})"),),
        unit(name),
        colour=palette.TOKENS,
    )


def _power(own: TokenQueries) -> Stat:
    return _stat(
        "input-power",
        "Power, rack input",
        describe(
            WATTS,
            COVERAGE,
            note="Over the chosen racks, without those of which less than "
            f"{SUFFICIENT_RATIO:.0%} of the power shelves report.",
        ),
        (instant(f"sum({own.watts()})"),),
        unit(WATTS),
        colour=palette.POWER,
    )


def _per_joule(own: TokenQueries, *, inverse: bool) -> Stat:
    title = "J for each generated token, rack input" if inverse else "Generated tokens/J, rack input"
    return _stat(
        "joules-per-token" if inverse else "tokens-per-joule",
        title,
        describe(per_joule_name(GENERATED), tokens_name(GENERATED), WATTS, note=_OF_KNOWN),
        (instant(own.ratio_of_sums(GENERATED, inverse=inverse)),),
        units.JOULES_PER_TOKEN if inverse else units.TOKENS_PER_JOULE,
        decimals=3,
    )


def _cost(own: TokenQueries, which: str, title: str) -> Stat:
    name = cost_name(which, GENERATED)
    return _stat(
        f"{which}-cost",
        title,
        describe(name, note="Of several racks each counts by its tokens."),
        (instant(own.mean_cost(which, GENERATED)),),
        unit(name),
        decimals=3,
    )


def _coverage(own: TokenQueries) -> Stat:
    lowest = f"min({own.recordings.selector(COVERAGE, domain=RACK_INPUT)})"
    return Stat(
        key="energy-coverage",
        title="Coverage of rack input",
        description=describe(
            COVERAGE,
            note=f"Of the rack with the lowest. Below {SUFFICIENT_RATIO:.0%} its figures are blank.",
        ),
        width=4,
        height=4,
        targets=(instant(lowest),),
        fields=FieldOptions(unit=unit(COVERAGE), thresholds=ENOUGH),
        text=StatText.VALUE,
    )


def _endpoints(own: TokenQueries) -> Stat:
    up, expected = (f"sum({own.scope.series(f'rack_llm_endpoints_{what}')})" for what in ("up", "expected"))
    return Stat(
        key="endpoints",
        title="Serving endpoints, up and expected",
        description=queries.describe(
            "rack_llm_endpoints_up",
            "rack_llm_endpoints_expected",
            note="Over the chosen racks. The table below says which are missing.",
        ),
        width=4,
        height=4,
        targets=(
            instant(up, legend="up"),
            instant(expected, legend="expected"),
            instant(f"{expected} - {up}", legend="missing"),
        ),
        fields=FieldOptions(unit=units.NUMBER),
        overrides=(
            Override(fields=ByName("missing"), thresholds=Thresholds(steps=(Step(1, palette.DEGRADED),))),
        ),
        text=StatText.VALUE_AND_NAME,
    )


def _racks(own: TokenQueries) -> Stat:
    serving = f"{own.scope.series('rack_llm_endpoints_expected')} > 0"
    return Stat(
        key="racks-known",
        title="Racks with a figure",
        description=describe(
            per_joule_name(GENERATED),
            note="Racks whose generated tokens for each joule of rack input are known, and racks that have "
            "serving endpoints. A rack that is missing here is missing from the figures beside.",
        ),
        width=4,
        height=4,
        targets=(
            instant(f"count({own.per_joule(GENERATED)}) or count({serving}) * 0", legend="known"),
            instant(f"count({serving})", legend="that serve"),
        ),
        fields=FieldOptions(unit=units.NUMBER),
        text=StatText.VALUE_AND_NAME,
    )


def _idle(own: TokenQueries) -> Stat:
    share = own.recordings.by(IDLE, "rack", domain=RACK_INPUT)
    watts = own.watts(window="1h")
    return _stat(
        "idle-share",
        "Idle energy of 1 h, rack input",
        describe(IDLE, note="Of several racks each counts by its energy."),
        (instant(f"sum({share} * {watts}) / (sum({watts} and {share}) > 0)"),),
        unit(IDLE),
        colour=palette.POWER,
    )


def _slow(own: TokenQueries) -> Stat:
    name = "rack_model:llm_time_to_first_token_seconds:p90_rate5m"
    return _stat(
        "first-token",
        "Time to first token, slowest model",
        describe(name, note="Of the rack and model with the longest."),
        (instant(f"max({own.recordings.selector(name)})"),),
        unit(name),
        colour=palette.TOKENS,
    )


def stats(own: TokenQueries) -> tuple[Stat, ...]:
    """Return two lines of figures over all chosen racks."""
    return (
        _throughput(own, GENERATED, "Generated tokens/s"),
        _throughput(own, TOTAL, "Total tokens/s, with prompts"),
        _power(own),
        _per_joule(own, inverse=False),
        _per_joule(own, inverse=True),
        _idle(own),
        _cost(own, "energy", "Energy $/M generated, rack input"),
        _cost(own, "all_in", "All-in $/M generated, rack input"),
        _coverage(own),
        _endpoints(own),
        _racks(own),
        _slow(own),
    )

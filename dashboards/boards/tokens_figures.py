"""Tokens, watts and what one buys of the other, over time."""

from __future__ import annotations

from collections.abc import Iterator

from collector.efficiency.answer import FIGURE_DOMAINS
from collector.profiles.references import TokenKind
from dashboards import links
from dashboards.boards.recordings import RACK_LEGEND, describe, unit
from dashboards.boards.tokens_queries import (
    COVERAGE,
    DOMAIN_WORDS,
    IDLE,
    KIND_WORDS,
    RACK_INPUT,
    WATTS,
    TokenQueries,
    cost_name,
    per_joule_name,
    tokens_name,
)
from dashboards.boards.tokens_stats import ENOUGH
from dashboards.panels import (
    ByRegexp,
    DataPanel,
    FieldOptions,
    Legend,
    Override,
    Shades,
    ThresholdLines,
    Timeseries,
    palette,
    reference_line,
)
from dashboards.panels.palette import Colour
from dashboards.panels.targets import Target
from dashboards.queries import Regexp

GENERATED = TokenKind.GENERATION
TO_RACK = (links.to_rack(),)


def _of_racks(
    key: str,
    title: str,
    description: str,
    target: Target,
    in_unit: str,
    colour: Colour,
    *,
    width: int = 24,
    height: int = 6,
    legend: Legend | None = None,
) -> Timeseries:
    return Timeseries(
        key=key,
        title=title,
        description=description,
        width=width,
        height=height,
        targets=(target,),
        fields=FieldOptions(unit=in_unit, minimum=0, colouring=Shades(colour), links=TO_RACK),
        legend=Legend() if legend is None else legend,
    )


def numerator_denominator_ratio(own: TokenQueries) -> tuple[Timeseries, ...]:
    """Return tokens, watts and their ratio below one another, on one time axis."""
    return (
        _of_racks(
            "numerator",
            "Numerator: generated tokens/s of each rack",
            describe(tokens_name(GENERATED)),
            Target(expr=own.tokens(GENERATED), legend=RACK_LEGEND),
            unit(tokens_name(GENERATED)),
            palette.TOKENS,
        ),
        _of_racks(
            "denominator",
            "Denominator: power of each rack, rack input",
            describe(WATTS),
            Target(expr=own.recordings.by(WATTS, "rack", domain=RACK_INPUT), legend=RACK_LEGEND),
            unit(WATTS),
            palette.POWER,
        ),
        _of_racks(
            "ratio",
            "Ratio: generated tokens/J of each rack, rack input",
            describe(per_joule_name(GENERATED), note="A gap where a side is not known well enough."),
            Target(expr=own.per_joule(GENERATED), legend=RACK_LEGEND),
            unit(per_joule_name(GENERATED)),
            palette.TOKENS,
        ),
    )


def by_domain(own: TokenQueries) -> Iterator[Timeseries]:
    """Yield tokens for each joule, one panel a kind of tokens and power domain."""
    for kind in TokenKind:
        for domain in FIGURE_DOMAINS:
            name = per_joule_name(kind)
            yield _of_racks(
                f"per-joule-{kind.value}-{domain}",
                f"{KIND_WORDS[kind]} tokens/J, {DOMAIN_WORDS[domain]}",
                describe(name, note="Domains contain one another: they are compared, never added."),
                Target(expr=own.per_joule(kind, domain), legend=RACK_LEGEND),
                unit(name),
                palette.TOKENS,
                width=8,
                height=7,
            )


def usual(own: TokenQueries) -> Timeseries:
    """Draw the ratio of an hour against what is usual at that time of day."""
    now, median = per_joule_name(GENERATED, "1h"), f"{per_joule_name(GENERATED, '1h')}_median7d"
    return Timeseries(
        key="usual",
        title="Generated tokens/J over 1 h and as usual, rack input",
        description=describe(now, median, note="The alert on a drop of efficiency reads both."),
        width=12,
        height=8,
        targets=(
            Target(expr=own.per_joule(GENERATED, window="1h"), legend=RACK_LEGEND),
            Target(expr=own.recordings.by(median, "rack", domain=RACK_INPUT), legend="{{rack}} as usual"),
        ),
        fields=FieldOptions(unit=unit(now), minimum=0, colouring=Shades(palette.TOKENS), links=TO_RACK),
        overrides=(reference_line(ByRegexp("/ as usual$/")),),
    )


def costs(own: TokenQueries) -> Timeseries:
    """Draw what a million tokens cost."""
    energy, all_in = (cost_name(which, GENERATED) for which in ("energy", "all_in"))
    return Timeseries(
        key="costs",
        title="Cost of a million generated tokens, energy at rack input and all in",
        description=describe(energy, all_in),
        width=12,
        height=8,
        targets=(
            Target(expr=own.recordings.by(energy, "rack"), legend="{{rack}} energy"),
            Target(expr=own.recordings.by(all_in, "rack"), legend="{{rack}} all in"),
        ),
        fields=FieldOptions(unit=unit(energy), minimum=0, colouring=Shades(palette.TOKENS), links=TO_RACK),
        overrides=(Override(fields=ByRegexp("/ energy$/"), colouring=Shades(palette.POWER)),),
    )


def coverage(own: TokenQueries) -> tuple[DataPanel, ...]:
    """Return how far power and endpoints are covered, and what was spent without a request."""
    up = "rack:llm_endpoints_up_per_expected:ratio_rate5m"
    figures = Regexp("|".join(FIGURE_DOMAINS))
    domains = [
        ("coverage", "Coverage of power, by domain", COVERAGE),
        ("idle", "Idle share of the energy of 1 h, by domain", IDLE),
    ]
    power, idle = (
        Timeseries(
            key=key,
            title=title,
            description=describe(name),
            width=8,
            height=7,
            targets=(
                Target(
                    expr=own.recordings.by(name, "rack", "domain", domain=figures),
                    legend="{{rack}} {{domain}}",
                ),
            ),
            fields=FieldOptions(
                unit=unit(name),
                minimum=0,
                maximum=1,
                colouring=Shades(palette.POWER),
                thresholds=ENOUGH,
                links=TO_RACK,
            ),
            threshold_lines=ThresholdLines.DASHED if name == COVERAGE else ThresholdLines.NONE,
        )
        for key, title, name in domains
    )
    endpoints = Timeseries(
        key="endpoints-up",
        title="Serving endpoints up, of those expected",
        description=describe(up),
        width=8,
        height=7,
        targets=(Target(expr=own.recordings.by(up, "rack"), legend=RACK_LEGEND),),
        fields=FieldOptions(
            unit=unit(up),
            minimum=0,
            maximum=1,
            colouring=Shades(palette.TOKENS),
            thresholds=ENOUGH,
            links=TO_RACK,
        ),
        threshold_lines=ThresholdLines.DASHED,
    )
    return power, endpoints, idle

"""What users see, and what engines have to do."""

from __future__ import annotations

from collector.catalog.spec import Entity
from collector.efficiency.interactivity import SLOW_QUANTILE
from collector.profiles.references import TokenKind
from dashboards import links, queries, units
from dashboards.boards.recordings import describe, unit
from dashboards.boards.tokens_queries import (
    INTERACTIVITY,
    SLOW_INTERACTIVITY,
    TokenQueries,
    tokens_name,
)
from dashboards.panels import (
    ByName,
    ByRegexp,
    DataPanel,
    FieldOptions,
    Fixed,
    Format,
    Heatmap,
    Line,
    Merge,
    Organize,
    Override,
    Shades,
    Timeseries,
    XYChart,
    XYSeries,
    palette,
)
from dashboards.panels.palette import Colour
from dashboards.panels.targets import Target
from dashboards.queries import CLUSTER

MODEL_LEGEND = "{{rack}} {{model}}"
MODEL = ("rack", "model")
GENERATED = TokenKind.GENERATION

TO_FIRST_TOKEN = "rack_model:llm_time_to_first_token_seconds:p90_rate5m"  # noqa: S105 - a recorded series
RUNNING, WAITING = (f"rack_model:llm_requests_{what}:sum" for what in ("running", "waiting"))
CACHE = "rack_model:llm_kv_cache_usage_ratio:max"

_SLOW = f"slowest {1 - SLOW_QUANTILE:.0%}"
_LINE = Line(width=1, dash=(6, 4))

_ENDPOINT = ("rack", "node", *Entity.LLM_ENDPOINT.keys)


def _of_models(
    own: TokenQueries,
    key: str,
    title: str,
    names: tuple[tuple[str, str], ...],
    colour: Colour,
    *,
    maximum: float | None = None,
    overrides: tuple[Override, ...] = (),
) -> Timeseries:
    """Draw recorded series of models, each with what its legend adds."""
    return Timeseries(
        key=key,
        title=title,
        description=describe(*(name for name, _ in names)),
        width=8,
        height=7,
        targets=tuple(
            Target(expr=own.recordings.by(name, *MODEL), legend=f"{MODEL_LEGEND} {added}".strip())
            for name, added in names
        ),
        fields=FieldOptions(
            unit=unit(names[0][0]),
            minimum=0,
            maximum=maximum,
            colouring=Shades(colour),
            links=(links.to_rack(),),
        ),
        overrides=overrides,
    )


def _between_tokens(own: TokenQueries) -> Timeseries:
    inverse = f"1 / {own.recordings.by(SLOW_INTERACTIVITY, *MODEL)}"
    return Timeseries(
        key="inter-token",
        title=f"Time between tokens, {SLOW_QUANTILE:g} quantile",
        description=describe(SLOW_INTERACTIVITY, note="One over the recorded figure."),
        width=8,
        height=7,
        targets=(Target(expr=inverse, legend=MODEL_LEGEND),),
        fields=FieldOptions(
            unit=units.SECONDS, minimum=0, colouring=Shades(palette.TOKENS), links=(links.to_rack(),)
        ),
    )


def _hits(own: TokenQueries) -> Timeseries:
    hit, looked_up = (f"llm_prefix_cache_{what}_tokens_total" for what in ("hit", "query"))

    def share(role: str) -> str:
        hits, all_tokens = (
            queries.total(own.scope.rate(name, role=role), *MODEL) for name in (hit, looked_up)
        )
        return f"{hits} / ({all_tokens} > 0)"

    return Timeseries(
        key="prefix-hits",
        title="Prompt tokens found in the prefix cache",
        description=queries.describe(
            looked_up,
            hit,
            note="Share of the tokens that were looked up. Published figures have the cache off.",
        ),
        width=8,
        height=7,
        targets=(Target(expr=own.of_one_role(share), legend=MODEL_LEGEND),),
        fields=FieldOptions(
            unit=units.RATIO,
            minimum=0,
            maximum=1,
            colouring=Shades(palette.MEMORY),
            links=(links.to_rack(),),
        ),
    )


def _lengths(own: TokenQueries) -> Timeseries:
    def mean(phase: str, role: str) -> str:
        tokens = queries.total(own.scope.rate("llm_tokens_total", phase=phase, role=role), *MODEL)
        metric = queries.row("llm_request_duration_seconds")
        ended = own.scope.recorded(f"{metric.exposed_name}_count", (*_ENDPOINT, "model"), role=role)
        return f"{tokens} / ({queries.total(f'rate({ended}[{queries.RATE_INTERVAL}])', *MODEL)} > 0)"

    return Timeseries(
        key="lengths",
        title="Tokens of a request, mean",
        description=queries.describe(
            "llm_tokens_total",
            "llm_request_duration_seconds",
            note="Tokens over requests that ended: long requests that still run make it uneven. Compare it "
            "with the lengths of published figures.",
        ),
        width=8,
        height=7,
        targets=tuple(
            Target(
                expr=own.of_one_role(lambda role, phase=phase: mean(phase, role)),  # type: ignore[misc]
                legend=f"{MODEL_LEGEND} {phase}",
            )
            for phase in ("prompt", "generation")
        ),
        fields=FieldOptions(
            unit=units.NUMBER, minimum=0, colouring=Shades(palette.TOKENS), links=(links.to_rack(),)
        ),
        overrides=(Override(fields=ByRegexp("/ prompt$/"), line=_LINE),),
    )


def experience(own: TokenQueries) -> tuple[DataPanel, ...]:
    """Return interactivity, and what it costs in throughput."""
    mean, slow, throughput = "Mean", _SLOW.capitalize(), "Generated tokens/s"
    names = (INTERACTIVITY, SLOW_INTERACTIVITY, tokens_name(GENERATED, level="rack_model"))
    scatter = XYChart(
        key="interactivity-throughput",
        title="Tokens/s of one user over generated tokens/s of the model",
        description=describe(
            *names,
            note="A point for every rack, model and 5m of the time range. More throughput with the same "
            "interactivity is better; efficiency says nothing without it.",
        ),
        width=8,
        height=7,
        targets=tuple(
            Target(expr=own.recordings.by(name, *MODEL), format=Format.TABLE, interval="5m") for name in names
        ),
        transformations=(
            Merge(),
            Organize(
                (
                    ("Value #A", mean),
                    ("Value #B", slow),
                    ("Value #C", throughput),
                    ("rack", "Rack"),
                    ("model", "Model"),
                    (CLUSTER, "Cluster"),
                    ("Time", "Time"),
                ),
                dropped=(),
            ),
        ),
        series=tuple(XYSeries(name, x=throughput, y=name) for name in (mean, slow)),
        x_label=throughput,
        y_label="tokens/s of one user",
        fields=FieldOptions(unit=unit(INTERACTIVITY), minimum=0, colouring=Fixed(palette.TOKENS)),
        overrides=(Override(fields=ByName(slow), colouring=Fixed(palette.MEMORY)),),
    )
    return (
        _of_models(
            own,
            "interactivity",
            "Interactivity: tokens/s of one user, mean and slowest",
            ((INTERACTIVITY, "mean"), (SLOW_INTERACTIVITY, _SLOW)),
            palette.TOKENS,
            overrides=(Override(fields=ByRegexp(f"/ {_SLOW}$/"), line=_LINE),),
        ),
        scatter,
        _of_models(
            own,
            "time-to-first-token",
            f"Time to first token, {SLOW_QUANTILE:g} quantile",
            ((TO_FIRST_TOKEN, ""),),
            palette.TOKENS,
        ),
        _between_tokens(own),
        _lengths(own),
    )


def load(own: TokenQueries) -> tuple[DataPanel, ...]:
    """Return requests and caches."""
    return (
        _of_models(
            own,
            "requests",
            "Requests running and waiting",
            ((RUNNING, "running"), (WAITING, "waiting")),
            palette.UTILIZATION,
            overrides=(Override(fields=ByRegexp("/ waiting$/"), colouring=Shades(palette.PCIE)),),
        ),
        _of_models(
            own, "kv-cache", "KV cache in use, fullest endpoint", ((CACHE, ""),), palette.MEMORY, maximum=1
        ),
        _hits(own),
    )


def _distribution(own: TokenQueries, key: str, title: str, name: str) -> Heatmap:
    return Heatmap(
        key=key,
        title=title,
        description=queries.describe(name, note="Of all chosen racks and models."),
        width=12,
        height=8,
        targets=(
            Target(
                expr=own.of_one_role(lambda role: own.scope.buckets(name, role=role)),
                legend="{{le}}",
                format=Format.HEATMAP,
            ),
        ),
        bucket_unit=queries.unit(name),
        fields=FieldOptions(unit=units.EVENTS_PER_SECOND),
    )


def distributions(own: TokenQueries) -> tuple[Heatmap, ...]:
    """Return the whole of what quantiles are taken from."""
    return (
        _distribution(own, "first-token-buckets", "Time to first token", "llm_time_to_first_token_seconds"),
        _distribution(own, "inter-token-buckets", "Time between tokens", "llm_inter_token_latency_seconds"),
    )

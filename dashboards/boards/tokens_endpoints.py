"""Each serving endpoint: whether it is read, what it has to do, and what failed."""

from __future__ import annotations

from collections.abc import Iterator

from collector.catalog.spec import Entity
from dashboards import links, queries
from dashboards.boards.recordings import SILENT
from dashboards.boards.rows import Column, columns_table
from dashboards.boards.tokens_queries import TokenQueries
from dashboards.panels import (
    CellKind,
    FieldOptions,
    Shades,
    Step,
    Table,
    Thresholds,
    Timeseries,
    ValueText,
    palette,
)
from dashboards.panels.targets import Target
from dashboards.queries import CLUSTER, Regexp

_ENDPOINT = ("rack", "node", *Entity.LLM_ENDPOINT.keys)
_KNOWN_FOR = "1d"
"""For how long an endpoint keeps its row after its agent fell silent (chosen)."""
_ERROR_WINDOW = "1h"
NOT_READ, UP, SILENT_AGENT = 0, 1, -1
_STATES = (
    ValueText(str(UP), "UP", palette.OK),
    ValueText(str(NOT_READ), "NOT READ", palette.DEGRADED),
    ValueText(str(SILENT_AGENT), SILENT, palette.UNKNOWN),
)


def _endpoint_columns(own: TokenQueries) -> Iterator[Column]:
    by, keys = f"by ({CLUSTER}, {', '.join(_ENDPOINT)})", f"on ({CLUSTER}, {', '.join(_ENDPOINT)})"
    of_model = "|".join(
        queries.row(name).exposed_name for name in ("llm_tokens_total", "llm_requests_running")
    )
    models = own.scope.recorded("", _ENDPOINT, __name__=Regexp(of_model))
    models = f"count by ({CLUSTER}, {', '.join(_ENDPOINT)}, model) ({models})"

    def each_model(expression: str) -> str:
        """Give every model of an endpoint the endpoint's value; without a model, the endpoint alone."""
        return f"({models} * 0 + {keys} group_left () {expression}) or {keys} {expression}"

    def of_models(name: str) -> str:
        return f"max by ({CLUSTER}, {', '.join(_ENDPOINT)}, model) ({own.scope.series(name)})"

    up = own.scope.selector("llm_up")
    state = f"(max {by} ({up}) or max {by} (last_over_time({up}[{_KNOWN_FOR}])) * 0 - 1)"
    errors = f"sum {by} ({own.scope.increase('llm_scrape_errors_total', _ERROR_WINDOW)})"
    yield Column("State", each_model(state), cell=CellKind.COLOURED_BACKGROUND, mappings=_STATES, width=100)
    yield Column("Running", of_models("llm_requests_running"))
    yield Column("Waiting", of_models("llm_requests_waiting"))
    yield Column(
        "KV cache",
        of_models("llm_kv_cache_usage_ratio"),
        unit=queries.unit("llm_kv_cache_usage_ratio"),
        cell=CellKind.GAUGE,
        colour=palette.MEMORY,
        maximum=1,
    )
    yield Column(
        f"Failed scrapes in {_ERROR_WINDOW}",
        each_model(errors),
        decimals=0,
        cell=CellKind.COLOURED_TEXT,
        thresholds=Thresholds(steps=(Step(1, palette.DEGRADED),)),
    )
    yield Column(
        "Scrape takes",
        each_model(f"max {by} ({own.scope.series('llm_scrape_seconds')})"),
        unit=queries.unit("llm_scrape_seconds"),
    )


def endpoints(own: TokenQueries) -> Table:
    """List the serving endpoints."""
    return columns_table(
        key="endpoint-table",
        title="Serving endpoints",
        description=queries.describe(
            "llm_up",
            "llm_requests_running",
            "llm_requests_waiting",
            "llm_kv_cache_usage_ratio",
            "llm_scrape_errors_total",
            "llm_scrape_seconds",
            note=f"NOT READ: its agent cannot read its metrics. {SILENT}: its agent has fallen silent; it "
            f"keeps its row for {_KNOWN_FOR}. An endpoint that serves several models has a row for each.",
        ),
        width=24,
        height=10,
        labels=(
            ("rack", "Rack"),
            ("node", "Node"),
            ("endpoint", "Endpoint"),
            ("engine", "Engine"),
            ("role", "Role"),
            ("model", "Model"),
        ),
        columns=tuple(_endpoint_columns(own)),
        links={
            "Rack": (links.to_rack(source=links.cell("Rack")),),
            "Node": (links.to_node(rack=links.cell("Rack"), node=links.cell("Node")),),
        },
    )


def failed_scrapes(own: TokenQueries) -> Timeseries:
    """Draw what scrapes failed by."""
    name = "llm_scrape_errors_total"
    return Timeseries(
        key="scrape-errors",
        title="Failed scrapes of endpoints, by error",
        description=queries.describe(name),
        width=24,
        height=6,
        targets=(Target(expr=queries.total(own.scope.rate(name), "error"), legend="{{error}}"),),
        fields=FieldOptions(unit=queries.rate_unit(name), minimum=0, colouring=Shades(palette.CLOCK)),
    )

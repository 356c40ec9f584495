"""Recorded: what users of a model see, from the engines' own histograms.

Engines and the router before them see the same requests: where a model has engines, theirs count (CONTRACTS
§2), else the router's.
"""

from __future__ import annotations

from collector.catalog.engines import Role
from collector.efficiency.guards import SUFFICIENT_RATIO
from collector.efficiency.interactivity import SLOW_QUANTILE
from dashboards.rules.parameters import Parameters
from dashboards.rules.promql import RACK_ONLY, aggregate, highest, on, series, total
from dashboards.rules.recording import Measure, Recorded

MODEL = ("rack", "model")
_ENDPOINT = ("rack", "node", "endpoint", "model")
_LATENCY = "llm_inter_token_latency_seconds"
_FIRST_TOKEN = "llm_time_to_first_token_seconds"  # noqa: S105 - the name of a metric
_WINDOW = "5m"
_READ = (
    f"\nand {on(RACK_ONLY)} rack:llm_endpoints_up_per_expected:ratio_rate{_WINDOW} >= {SUFFICIENT_RATIO:g}"
)
_BLANK = f"Absent without requests, and while less than {SUFFICIENT_RATIO:g} of the endpoints is known."
_BOUND = "Where it lies above the engine's highest bucket, that bound is taken."


def _of_one_role(of: tuple[str, ...], name: str, part: str) -> str:
    """Sum the rates of a histogram's part over the endpoints of one role."""
    inner = (*_ENDPOINT, *of[len(MODEL) :])
    each = (
        total(of, highest(inner, f"rate({series(name, part=part, role=role)}[{_WINDOW}])"))
        for role in (Role.ENGINE.value, Role.ROUTER.value)
    )
    return f"({' or '.join(each)})"


def _quantile(name: str) -> str:
    """Take the slow quantile of a model at its slowest endpoint.

    Buckets of several endpoints are not added: engines differ in their bounds, and a bound that some lack
    would have too few observations.
    """
    roles = []
    for role in (Role.ENGINE.value, Role.ROUTER.value):
        rates = highest((*_ENDPOINT, "le"), f"rate({series(name, part='_bucket', role=role)}[{_WINDOW}])")
        roles.append(highest(MODEL, f"histogram_quantile({SLOW_QUANTILE:g}, {rates}) > 0"))
    return f"({' or '.join(roles)})"


def _load(name: str, operation: str, text: str, unit: Measure) -> Recorded:
    each = (
        aggregate(operation, MODEL, highest(_ENDPOINT, series(f"llm_{name}", role=role)))
        for role in (Role.ENGINE.value, Role.ROUTER.value)
    )
    return Recorded(
        of=MODEL,
        metric=f"llm_{name}",
        operation=operation,
        expression=" or ".join(each),
        unit=unit,
        help=text,
    )


def serving_rules(_: Parameters) -> tuple[Recorded, ...]:
    """Return the rules about interactivity and load of models."""
    count, seconds = (_of_one_role(MODEL, _LATENCY, part) for part in ("_count", "_sum"))
    return (
        Recorded(
            of=MODEL,
            metric="llm_tokens_per_second_per_user",
            operation=f"ratio_rate{_WINDOW}",
            expression=f"{count} / ({seconds} > 0){_READ}",
            unit=Measure.TOKENS_PER_SECOND,
            help=f"Mean interactivity over {_WINDOW}: tokens a second that one user sees. {_BLANK}",
        ),
        Recorded(
            of=MODEL,
            metric="llm_slow_tokens_per_second_per_user",
            operation=f"p90_rate{_WINDOW}",
            expression=f"1 / {_quantile(_LATENCY)}{_READ}",
            unit=Measure.TOKENS_PER_SECOND,
            help="Tokens a second and user that nine of ten tokens exceed at the slowest endpoint, "
            f"over {_WINDOW}. {_BLANK} {_BOUND}",
        ),
        Recorded(
            of=MODEL,
            metric="llm_time_to_first_token_seconds",
            operation=f"p90_rate{_WINDOW}",
            expression=f"{_quantile(_FIRST_TOKEN)}{_READ}",
            unit=Measure.SECONDS,
            help="Time to the first token that nine of ten requests stay below at the slowest endpoint, "
            f"over {_WINDOW}. {_BLANK} {_BOUND}",
        ),
        _load("requests_running", "sum", "Requests that are being computed.", Measure.COUNT),
        _load("requests_waiting", "sum", "Requests that wait for their turn.", Measure.COUNT),
        _load(
            "kv_cache_usage_ratio",
            "max",
            "Share of the KV cache in use, of the fullest endpoint of the model.",
            Measure.RATIO,
        ),
    )

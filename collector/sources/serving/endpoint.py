"""What is to be scraped, what a scrape brings, and what can be wrong with it."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass

from collector.catalog.engines import Role
from collector.catalog.llm import SCRAPE_ERRORS
from collector.errors import RackwattError


@dataclass(frozen=True, slots=True, kw_only=True)
class ServingEndpoint:
    """An endpoint as it is configured.

    Attributes:
        name: Value of the label `endpoint`.
        url: Where its metrics are, `http` or `https`.
        engine: Name of its engine (`collector.catalog.engines`); None to recognize it by its metrics.
        role: Whether it is an engine or a router; None for what its engine usually is.
        gpus: Indices of the GPUs that it computes on; none if not said.
        ca_file: Certificate authority for `https`; None for the system's.
        token: Returns the bearer token that it wants; None for none.
    """

    name: str
    url: str
    engine: str | None = None
    role: Role | None = None
    gpus: tuple[int, ...] = ()
    ca_file: str | None = None
    token: Callable[[], str] | None = None


@dataclass(frozen=True, slots=True)
class HistogramReading:
    """A histogram as the engine keeps it.

    Attributes:
        bounds: Finite upper bounds, rising.
        counts: Observations up to each bound, and all of them last: one more than bounds.
        sum: Sum of all observations.
    """

    bounds: tuple[float, ...]
    counts: tuple[float, ...]
    sum: float


@dataclass(frozen=True, slots=True)
class ModelReading:
    """What an endpoint says of one model.

    Attributes:
        model: Value of the label `model`; empty where the engine names none.
        values: Values in base units by metric, without prefix, and value of the metric's own label, which is
            empty where it has none: `("llm_tokens_total", "prompt")`, `("llm_requests_running", "")`.
        histograms: Histograms by metric, without prefix.
    """

    model: str
    values: Mapping[tuple[str, str], float]
    histograms: Mapping[str, HistogramReading]


@dataclass(frozen=True, slots=True)
class EndpointReading:
    """What one scrape brought.

    Attributes:
        engine: Name of the engine.
        role: What the endpoint is.
        models: What it says of each model; `collector.catalog.engines.MAXIMUM_MODELS` at most, and the rest
            summed as `OTHER_MODEL`.
        tokens_at_finish: Whether it counts generated tokens when their request ends and not as they are made,
            so that a rate needs a window as long as most requests last; None where it counts none.
    """

    engine: str
    role: Role
    models: tuple[ModelReading, ...]
    tokens_at_finish: bool | None = None


class ScrapeError(RackwattError):
    """A scrape brought nothing that can be used; the message says what was wrong, and what would be right.

    Attributes:
        error: Which of `SCRAPE_ERRORS` it is.
    """

    def __init__(self, error: str, message: str) -> None:
        """Name the error.

        Args:
            error: One of `SCRAPE_ERRORS`.
            message: What was wrong, in words, without a secret.
        """
        if error not in SCRAPE_ERRORS:
            raise ValueError(f"{error!r} is none of the scrape errors: {', '.join(SCRAPE_ERRORS)}")
        super().__init__(message)
        self.error = error

"""From what a scrape brought to series, values and histograms of the catalogue: pure functions."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from collector.catalog.engines import ENGINES, UNKNOWN_ENGINE, Role
from collector.catalog.llm import LLM, SCRAPE_ERRORS
from collector.catalog.spec import Level, Metric, ValueType
from collector.model import HistogramSample, Series, Value
from collector.sources.serving.endpoint import EndpointReading, ServingEndpoint

Key = tuple[str, tuple[str, ...]]
"""Name of a metric, without prefix, and label values: what tells one series from another."""

METRICS: Mapping[str, Metric] = {metric.name: metric for metric in LLM}
POSITIONS: Mapping[str, int] = {metric.name: position for position, metric in enumerate(LLM)}
"""Where each metric stands in the catalogue."""

_USUAL_ROLES = {engine.name: engine.role for engine in ENGINES}


@dataclass(frozen=True, slots=True)
class Labels:
    """What every series of an endpoint carries."""

    endpoint: str
    engine: str
    role: str

    def of_endpoint(self, *own: str) -> tuple[str, ...]:
        """Return label values of a series of the endpoint itself."""
        return (self.endpoint, self.engine, self.role, *own)

    def of_model(self, model: str, *own: str) -> tuple[str, ...]:
        """Return label values of a series of a model."""
        return (self.endpoint, self.engine, model, self.role, *own)


def labels_of(endpoint: ServingEndpoint, reading: EndpointReading | None) -> Labels:
    """Say what an endpoint is: as configured, else as it was recognized last, else as is usual."""
    recognized = reading.engine if reading is not None else UNKNOWN_ENGINE
    engine = endpoint.engine or recognized
    usual = reading.role if reading is not None else _USUAL_ROLES.get(engine, Role.ENGINE)
    return Labels(endpoint.name, engine, (endpoint.role or usual).value)


def status_keys(endpoint: ServingEndpoint, labels: Labels) -> tuple[Key, ...]:
    """Return the series that an endpoint has whatever it answers, in the order of the catalogue."""
    return (
        ("llm_up", labels.of_endpoint()),
        *(("llm_gpu_info", labels.of_endpoint(str(gpu))) for gpu in endpoint.gpus),
        ("llm_scrape_seconds", labels.of_endpoint()),
        *(("llm_scrape_errors_total", labels.of_endpoint(error)) for error in SCRAPE_ERRORS),
    )


def series_of(keys: tuple[Key, ...]) -> tuple[Series, ...]:
    """Make the series of keys."""
    return tuple(Series(METRICS[name], labels) for name, labels in keys)


def values_of(reading: EndpointReading, labels: Labels, level: Level) -> dict[Key, Value | None]:
    """Return the values of a reading by series, in the order of the catalogue.

    Args:
        reading: What a scrape brought.
        labels: What its series carry.
        level: From which level of detail on nothing is exported.

    Returns:
        Values of the catalogue's type; None for what is out of its range.
    """
    found = {
        (name, labels.of_model(model.model, *((part,) if METRICS[name].label else ()))): _valid(
            METRICS[name], value
        )
        for model in reading.models
        for (name, part), value in model.values.items()
        if METRICS[name].level <= level
    }
    if reading.tokens_at_finish is not None:
        found["llm_tokens_at_finish", labels.of_endpoint()] = int(reading.tokens_at_finish)
    return dict(sorted(found.items(), key=lambda item: (POSITIONS[item[0][0]], item[0][1])))


def _valid(metric: Metric, value: float) -> Value | None:
    if not metric.minimum <= value <= metric.maximum:  # not a number is not, either
        return None
    return int(value) if metric.value_type is ValueType.INT else value


def histograms_of(reading: EndpointReading, labels: Labels, level: Level) -> tuple[HistogramSample, ...]:
    """Return the histograms of a reading, in the order of the catalogue."""
    found = [
        HistogramSample(
            METRICS[name], labels.of_model(model.model), histogram.bounds, histogram.counts, histogram.sum
        )
        for model in reading.models
        for name, histogram in model.histograms.items()
        if METRICS[name].level <= level
    ]
    return tuple(sorted(found, key=lambda sample: (POSITIONS[sample.metric.name], sample.labels)))


def doubtful(values: Mapping[Key, Value | None]) -> set[str]:
    """Return the names of metrics of which a value was left out."""
    return {name for (name, _), value in values.items() if value is None}

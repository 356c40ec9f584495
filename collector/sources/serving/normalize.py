"""From the text of an endpoint to readings under rackwatt's names, by the name map of its engine."""

from __future__ import annotations

import hashlib
import logging
import math
from collections import defaultdict
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

from collector.catalog import BY_NAME
from collector.catalog.engines import MAXIMUM_MODELS, OTHER_MODEL
from collector.catalog.spec import Kind
from collector.sources.serving.distributions import HistogramSum, Part, assemble
from collector.sources.serving.endpoint import (
    EndpointReading,
    HistogramReading,
    ModelReading,
    ServingEndpoint,
)
from collector.sources.serving.engines.spec import Alternative, Buckets, Combine, NameMap, Quantity
from collector.sources.serving.exposition import MAXIMUM_SERIES, Sample, Wanted, helps
from collector.sources.serving.recognition import Recognizer
from collector.sources.serving.sums import Key, RankSum, Vector

_logger = logging.getLogger("rackwatt.serving")

MAXIMUM_LABEL_BYTES = 256
"""Longest name of a model that has series of its own, in UTF-8: chosen. Documents of agents take as many
characters."""

MAXIMUM_REMEMBERED = 2 * MAXIMUM_SERIES
"""Most counts of an endpoint's ranks that are remembered: of two answers. One that invents labels with every
answer would else fill the memory, a thousand ranks for each model and metric (chosen)."""

_GENERATED = ("llm_tokens_total", "generation")

_Named = Mapping[str, list[Sample]]


class Normalizer:
    """Reads the answers of one endpoint, and remembers what sums over its ranks need."""

    def __init__(self, endpoint: ServingEndpoint) -> None:
        """Know nothing of the endpoint's answers yet.

        Args:
            endpoint: The endpoint.

        Raises:
            ValueError: It names an engine that is not known.
        """
        self._endpoint = endpoint
        self._recognizer = Recognizer(endpoint.engine)
        self._models = _Models(endpoint.name)
        self._state: _EngineState | None = None

    def read(self, body: bytes) -> EndpointReading:
        """Normalize one answer.

        Args:
            body: The whole answer, decoded, and bounded in bytes before.

        Returns:
            What it says, in base units. What it does not say is absent, and so is what is no finite number or
            is negative; whether a value can be is not judged.

        Raises:
            ScrapeError: It is of no engine, or no exposition, or too large.
        """
        name_map = self._recognizer.recognize(body)
        if self._state is None or self._state.name_map is not name_map:
            self._state = _EngineState(name_map)
        readings = self._state.read(body, self._models)
        role = self._endpoint.role or name_map.engine.role
        return EndpointReading(name_map.engine.name, role, readings, self._state.tokens_at_finish)


class _Models:
    """Which models have series of their own; those that come beyond the bound share one (CONTRACTS §8)."""

    def __init__(self, endpoint: str) -> None:
        self._endpoint = endpoint
        self._own: set[str] = set()
        self._told = False

    def place(self, model: str) -> str:
        """Return the name under which a model is counted, always the same one."""
        if model in self._own or model == OTHER_MODEL:
            return model
        if _length(model) <= MAXIMUM_LABEL_BYTES and len(self._own) < MAXIMUM_MODELS:
            self._own.add(model)
            return model
        if not self._told:
            self._told = True
            _logger.warning(
                "%s: more than %d models, or one whose name has more than %d bytes; summed as %r",
                self._endpoint,
                MAXIMUM_MODELS,
                MAXIMUM_LABEL_BYTES,
                OTHER_MODEL,
                extra={"endpoint": self._endpoint},
            )
        return OTHER_MODEL


@dataclass(slots=True)
class _Values:
    """Values of one alternative.

    Attributes:
        parts: Good values by model and part.
        matched: Models with a series that is taken, be its value good or not.
        models: Models with any series of its names, in the order of the text.
    """

    parts: dict[str, dict[Key, float]] = field(default_factory=lambda: defaultdict(dict))
    matched: set[str] = field(default_factory=set)
    models: dict[str, None] = field(default_factory=dict)


class _EngineState:
    """What is remembered of an endpoint while it is one engine.

    Attributes:
        name_map: What the engine calls what is read of it.
        tokens_at_finish: Whether its newest answer counts generated tokens when their request ends; None if
            it counts none.
    """

    def __init__(self, name_map: NameMap) -> None:
        self.name_map = name_map
        self.tokens_at_finish: bool | None = None
        self._wanted = Wanted(name_map.names)
        self._not_of_a_part = frozenset((*name_map.repeating_labels, "le"))
        self._helps = {
            alternative: [helps(name, alternative.help_word) for name in alternative.names]
            for quantity in name_map.quantities
            for alternative in quantity.alternatives
            if alternative.help_word
        }
        self._sums: dict[tuple[str, str, tuple[str, ...], str], RankSum] = {}
        self._histograms: dict[tuple[str, str], HistogramSum] = {}

    def read(self, body: bytes, models: _Models) -> tuple[ModelReading, ...]:
        """Return what an answer says of each model, in the order in which they stand there."""
        named: dict[str, list[Sample]] = defaultdict(list)
        for sample in self._wanted.samples(body):
            named[sample.name].append(sample)
        values: dict[str, dict[tuple[str, str], float]] = defaultdict(dict)
        histograms: dict[str, dict[str, HistogramReading]] = defaultdict(dict)
        for quantity in self.name_map.quantities:
            for model, value in self._quantity(quantity, named, body, models):
                values[model][quantity.metric, quantity.value] = value
        for distribution in self.name_map.distributions:
            buckets = next(
                (each for each in distribution.alternatives if f"{each.name}_bucket" in named), None
            )
            if buckets is not None:
                for model, histogram in self._distribution(buckets, named, models):
                    histograms[model][distribution.metric] = histogram
        self._bound()
        return tuple(
            ModelReading(model, values.get(model, {}), histograms.get(model, {}))
            for model in dict.fromkeys((*values, *histograms))
        )

    def _bound(self) -> None:
        """See that what is remembered of ranks stays within its bound."""
        sums = [*self._sums.values(), *(own.ranks for own in self._histograms.values())]
        overfull = sum(own.size for own in sums) > MAXIMUM_REMEMBERED
        for own in sums:
            own.end_round(forget=overfull)

    def _quantity(
        self, quantity: Quantity, named: _Named, body: bytes, models: _Models
    ) -> Iterable[tuple[str, float]]:
        metric = BY_NAME[quantity.metric]
        alternative = self._choose(quantity.alternatives, named, body)
        if (quantity.metric, quantity.value) == _GENERATED:
            self.tokens_at_finish = None if alternative is None else alternative.at_finish
        if alternative is None:
            return
        found = self._values(alternative, named, models)
        for model in found.models:
            parts = found.parts.get(model)
            if metric.kind is Kind.COUNTER:
                value = self._count(quantity, alternative, model, parts, known=model not in found.matched)
            else:
                value = _combined(parts, quantity.combine) if parts else None
            if value is not None:
                yield model, value

    def _choose(
        self, alternatives: tuple[Alternative, ...], named: _Named, body: bytes
    ) -> Alternative | None:
        """Return the first alternative that an answer has."""
        for alternative in alternatives:
            if all(name in named for name in alternative.names) and all(
                pattern.search(body) for pattern in self._helps.get(alternative, ())
            ):
                return alternative
        return None

    def _values(self, alternative: Alternative, named: _Named, models: _Models) -> _Values:
        found = _Values()
        for sample in (sample for name in alternative.names for sample in named[name]):
            model = models.place(self._model(sample))
            found.models[model] = None
            if alternative.label and sample.labels.get(alternative.label, "") not in alternative.values:
                continue
            found.matched.add(model)
            if math.isfinite(sample.value) and sample.value >= 0:
                found.parts[model][self._key(sample, sample.name)] = sample.value
        return found

    def _count(
        self,
        quantity: Quantity,
        alternative: Alternative,
        model: str,
        parts: Mapping[Key, float] | None,
        *,
        known: bool,
    ) -> float | None:
        """Add a counter up.

        Args:
            quantity: What is counted.
            alternative: How the engine tells it.
            model: Where it is counted.
            parts: Good values of ranks.
            known: Whether the model has the counter with other labels only. Such a series is born when it
                first counts, so those that are wanted have counted nothing yet.
        """
        place = (quantity.metric, quantity.value, alternative.names, model)
        if known:
            self._sums.pop(place, None)
            return 0.0
        if not parts:
            return None
        counts: dict[Key, Vector] = {key: (value,) for key, value in parts.items()}
        return self._sums.setdefault(place, RankSum()).update(counts)[0]

    def _distribution(
        self, buckets: Buckets, named: _Named, models: _Models
    ) -> Iterable[tuple[str, HistogramReading]]:
        samples: dict[tuple[str, Key], list[Sample]] = defaultdict(list)
        for suffix in ("_bucket", "_count", "_sum"):
            for sample in named.get(buckets.name + suffix, ()):
                samples[models.place(self._model(sample)), self._key(sample, buckets.name)].append(sample)
        parts: dict[str, dict[Key, Part]] = defaultdict(dict)
        for (model, key), of_a_rank in samples.items():
            part = assemble(of_a_rank, buckets.name)
            if part is not None:
                parts[model][key] = part
        for model, of_a_model in parts.items():
            histogram = self._histograms.setdefault((buckets.name, model), HistogramSum()).update(of_a_model)
            if histogram is not None:
                yield model, histogram

    def _model(self, sample: Sample) -> str:
        labels = self.name_map.model_labels
        return next((sample.labels[label] for label in labels if label in sample.labels), "")

    def _key(self, sample: Sample, family: str) -> Key:
        """Tell which part a sample is; only what tells parts apart is kept, not the texts of others."""
        labels = sample.labels
        own = sorted((name, labels[name]) for name in labels if name not in self._not_of_a_part)
        rank = [labels.get(name, "") for name in self.name_map.repeating_labels]
        return _digest((family, own)), _digest(rank)


def _length(text: str) -> int:
    return len(text.encode(errors="replace"))


def _digest(labels: object) -> bytes:
    return hashlib.blake2b(repr(labels).encode(errors="replace"), digest_size=16).digest()


def _combined(parts: Mapping[Key, float], combine: Combine) -> float:
    """Make one value of a gauge's parts; of ranks that tell the same, the highest counts."""
    groups: dict[bytes, float] = {}
    for (group, _), value in parts.items():
        groups[group] = max(value, groups.get(group, value))
    return sum(groups.values()) if combine is Combine.ADD else max(groups.values())

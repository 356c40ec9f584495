"""Sums over a minute or an hour: all that efficiency is computed from. Sums of sums are sums again.

A roll-up says nothing that cannot be added: no rate, no ratio, no mean (facts on tokens, §4: a ratio of sums,
never a mean of ratios).
"""

from __future__ import annotations

from collections.abc import Iterable

import msgspec

MINUTE_SECONDS = 60
HOUR_SECONDS = 3600


class EnergySum(msgspec.Struct, kw_only=True, omit_defaults=True):
    """Energy of one domain.

    Attributes:
        joules: Energy.
        error_joules: How far it may be off where power was integrated.
        idle_joules: The part spent while no serving endpoint had a request.
        covered_seconds: Time for which the energy is known, summed over units: GPUs, modules, shelves, CPUs.
        expected_seconds: Time that was to be covered, summed over the units that should be there.
    """

    joules: float = 0.0
    error_joules: float = 0.0
    idle_joules: float = 0.0
    covered_seconds: float = 0.0
    expected_seconds: float = 0.0


class HistogramSum(msgspec.Struct, kw_only=True):
    """Observations of a histogram.

    Attributes:
        bounds: Finite upper bounds, rising.
        counts: Observations up to each bound, and all of them last.
        sum: Sum of all observations.
    """

    bounds: tuple[float, ...]
    counts: tuple[float, ...]
    sum: float

    def __post_init__(self) -> None:
        """See that there is a count for each bound, and one more.

        Raises:
            ValueError: There is not.
        """
        if len(self.counts) != len(self.bounds) + 1:
            raise ValueError(f"{len(self.counts)} counts for {len(self.bounds)} bounds; one more is right")


class ModelSum(msgspec.Struct, kw_only=True, omit_defaults=True):
    """What the endpoints of one model did, those of the role that counts.

    Attributes:
        prompt_tokens: Tokens read.
        generation_tokens: Tokens written.
        finished_requests: Requests that ended.
        prefix_query_tokens: Tokens looked up in the prefix cache.
        prefix_hit_tokens: Tokens found there.
        endpoint_seconds: Time of endpoints up, summed over endpoints.
        waiting_seconds: The part of it in which requests waited.
        engine_seconds: The same by engine.
        at_finish_seconds: The part of that in which tokens counted when their request ended.
        gpu_joules: Energy of the GPUs that its endpoints say they compute on.
        gpu_seconds: Time of those GPUs for which that energy is known.
        unplaced_seconds: Time of endpoints that do not say which GPUs they compute on, or share them.
        time_to_first_token: Observations in seconds.
        inter_token_latency: Observations in seconds.
        request_duration: Observations in seconds.
    """

    prompt_tokens: float = 0.0
    generation_tokens: float = 0.0
    finished_requests: float = 0.0
    prefix_query_tokens: float = 0.0
    prefix_hit_tokens: float = 0.0
    endpoint_seconds: float = 0.0
    waiting_seconds: float = 0.0
    engine_seconds: dict[str, float] = {}
    at_finish_seconds: dict[str, float] = {}
    gpu_joules: float = 0.0
    gpu_seconds: float = 0.0
    unplaced_seconds: float = 0.0
    time_to_first_token: HistogramSum | None = None
    inter_token_latency: HistogramSum | None = None
    request_duration: HistogramSum | None = None


class Rollup(msgspec.Struct, kw_only=True, omit_defaults=True):
    """Sums of a rack over a stretch of time.

    Attributes:
        watched_seconds: Time that the rack service watched.
        energy: Energy by domain (`collector.catalog.rack.ENERGY_DOMAINS`).
        role: Role whose tokens are counted; empty where there are no endpoints.
        endpoints_expected_seconds: Time of expected endpoints of that role, summed.
        endpoints_up_seconds: The part of it in which they were up and fresh, and counted tokens.
        models: What was done, by model.
    """

    watched_seconds: float = 0.0
    energy: dict[str, EnergySum] = {}
    role: str = ""
    endpoints_expected_seconds: float = 0.0
    endpoints_up_seconds: float = 0.0
    models: dict[str, ModelSum] = {}


_MODEL_NUMBERS = (
    "prompt_tokens",
    "generation_tokens",
    "finished_requests",
    "prefix_query_tokens",
    "prefix_hit_tokens",
    "endpoint_seconds",
    "waiting_seconds",
    "gpu_joules",
    "gpu_seconds",
    "unplaced_seconds",
)
_BY_ENGINE = ("engine_seconds", "at_finish_seconds")
_MODEL_HISTOGRAMS = ("time_to_first_token", "inter_token_latency", "request_duration")
_DECIMALS = 6
"""Decimals of what is stored (chosen): millionths of a joule, token or second; a float may have 17 digits."""


def add(target: Rollup, other: Rollup, share: float = 1.0) -> None:
    """Add to a roll-up a share of another: everything in it is a sum.

    Args:
        target: What is added to.
        other: What is added; it stays as it is.
        share: Factor, as for an increase of which only a part belongs to the target's time.
    """
    target.watched_seconds += other.watched_seconds * share
    target.endpoints_expected_seconds += other.endpoints_expected_seconds * share
    target.endpoints_up_seconds += other.endpoints_up_seconds * share
    if other.role:
        target.role = other.role
    for domain, energy in other.energy.items():
        _add_energy(target.energy.setdefault(domain, EnergySum()), energy, share)
    for model, own in other.models.items():
        add_model(target.models.setdefault(model, ModelSum()), own, share)


def merge(rollups: Iterable[Rollup]) -> Rollup:
    """Return the sum of roll-ups, in the order of time: the last role that counted is the sum's."""
    total = Rollup()
    for own in rollups:
        add(total, own)
    return total


def encode(rollup: Rollup) -> str:
    """Write a roll-up as JSON, in which it can be stored."""
    return msgspec.json.encode(_short(msgspec.to_builtins(rollup))).decode("utf-8")


def decode(text: str) -> Rollup:
    """Read what `encode` wrote.

    Raises:
        ValueError: The text is none that `encode` wrote.
    """
    try:
        return _DECODER.decode(text)
    except (msgspec.MsgspecError, RecursionError) as error:
        raise ValueError(f"it is no roll-up: {error}") from error


_DECODER = msgspec.json.Decoder(Rollup)


def _add_energy(target: EnergySum, other: EnergySum, share: float) -> None:
    target.joules += other.joules * share
    target.error_joules += other.error_joules * share
    target.idle_joules += other.idle_joules * share
    target.covered_seconds += other.covered_seconds * share
    target.expected_seconds += other.expected_seconds * share


def add_model(target: ModelSum, other: ModelSum, share: float = 1.0) -> None:
    """Add to what was done for a model a share of something else that was done for it."""
    for name in _MODEL_NUMBERS:
        if value := getattr(other, name):
            setattr(target, name, getattr(target, name) + value * share)
    for name in _BY_ENGINE:
        by_engine = getattr(target, name)
        for engine, seconds in getattr(other, name).items():
            by_engine[engine] = by_engine.get(engine, 0.0) + seconds * share
    for name in _MODEL_HISTOGRAMS:
        if (own := getattr(other, name)) is not None:
            setattr(target, name, _add_histograms(getattr(target, name), own, share))


def _add_histograms(one: HistogramSum | None, other: HistogramSum, share: float) -> HistogramSum:
    """Add two histograms; where their bounds differ, the bounds stay that both have.

    Counts are of all observations up to a bound, so that those of common bounds can be added.
    """
    if one is None:
        return HistogramSum(
            bounds=other.bounds, counts=tuple(own * share for own in other.counts), sum=other.sum * share
        )
    if one.bounds != other.bounds:
        common = frozenset(one.bounds) & frozenset(other.bounds)
        one, other = _at_bounds(one, common), _at_bounds(other, common)
    return HistogramSum(
        bounds=one.bounds,
        counts=tuple(own + added * share for own, added in zip(one.counts, other.counts, strict=True)),
        sum=one.sum + other.sum * share,
    )


def _at_bounds(histogram: HistogramSum, bounds: frozenset[float]) -> HistogramSum:
    kept = [place for place, bound in enumerate(histogram.bounds) if bound in bounds]
    return HistogramSum(
        bounds=tuple(histogram.bounds[place] for place in kept),
        counts=(*(histogram.counts[place] for place in kept), histogram.counts[-1]),
        sum=histogram.sum,
    )


def _short(value: object) -> object:
    """Round every number in what JSON is made of, but for bounds, which must stay equal."""
    if isinstance(value, float):
        return round(value, _DECIMALS)
    if isinstance(value, dict):
        return {key: own if key == "bounds" else _short(own) for key, own in value.items()}
    if isinstance(value, (list, tuple)):
        return [_short(own) for own in value]
    return value

"""Sums over a minute or an hour: all that efficiency is computed from. Sums of sums are sums again.

A roll-up says nothing that cannot be added: no rate, no ratio, no mean (facts on tokens, §4: a ratio of sums,
never a mean of ratios).
"""

from __future__ import annotations

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
        endpoints_up_seconds: The part of it in which they were up and fresh.
        models: What was done, by model.
    """

    watched_seconds: float = 0.0
    energy: dict[str, EnergySum] = {}
    role: str = ""
    endpoints_expected_seconds: float = 0.0
    endpoints_up_seconds: float = 0.0
    models: dict[str, ModelSum] = {}

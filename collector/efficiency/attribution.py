"""Whose energy it is: a rack's energy shared out among the models that it serves (facts on tokens, §4).

GPUs that one endpoint has to itself are its model's, directly. What GPUs do not measure, the rack's overhead,
follows in proportion to the GPUs' energy. GPUs that no endpoint names are a share of their own,
`unallocated`, so that all shares add up to the rack.
"""

from __future__ import annotations

import enum
from collections.abc import Mapping
from dataclasses import dataclass

from collector.efficiency.figure import Figure, blank, figure, percent
from collector.efficiency.guards import SUFFICIENT_RATIO
from collector.efficiency.rollup import ModelSum

SHARED_DOMAINS = ("gpu", "module", "rack_input")
"""Domains that are shared out."""

_ROUNDING = 1e-6
"""How far a sum of parts may exceed the whole by rounding alone; chosen."""


class Attribution(enum.Enum):
    """How a share of the energy was found."""

    WHOLE = "whole"
    """The rack serves this model alone, so all of its energy is the model's."""
    GPUS = "gpus"
    """By the GPUs that its endpoints have to themselves."""
    NONE = "none"
    """Not at all: the reason stands in the share."""


@dataclass(frozen=True, slots=True, kw_only=True)
class EnergyShare:
    """A share of a rack's energy.

    Attributes:
        attribution: How it was found.
        ratio: The share of the GPUs' energy.
        joules: Energy by domain, of `SHARED_DOMAINS`.
        gpus: GPUs that it stands for: their time over the window's.
    """

    attribution: Attribution
    ratio: Figure
    joules: Mapping[str, Figure]
    gpus: Figure


def share_out(
    models: Mapping[str, ModelSum], rack: Mapping[str, Figure], gpus: Figure, window_seconds: float
) -> tuple[dict[str, EnergyShare], EnergyShare]:
    """Share a rack's energy out.

    Args:
        models: What the endpoints of each model did.
        rack: The rack's energy by domain; blank where it is not known.
        gpus: GPUs of the rack.
        window_seconds: Length of the window.

    Returns:
        The share of each model, and the share of GPUs that no endpoint names.
    """
    if len(models) == 1:
        name, only = next(iter(models.items()))
        if only.gpu_seconds <= 0 < only.unplaced_seconds:
            return {name: _whole(rack, gpus)}, _by_gpus(
                _named(rack["gpu"], 0.0), figure(0.0), rack, figure(0.0)
            )
    named = sum(own.gpu_joules for own in models.values())
    whole = _named(rack["gpu"], named)
    shares = {}
    for name, own in models.items():
        mine = whole.but(unplaced(name, own))
        own_gpus = figure(own.gpu_seconds / window_seconds).but(mine.reason)
        shares[name] = _by_gpus(mine, figure(own.gpu_joules), rack, own_gpus)
    named_gpus = sum(own.gpu_seconds for own in models.values()) / window_seconds
    # What rounding leaves of GPUs that are all named is nothing.
    rest = whole.map(lambda joules: max(0.0, joules - named))
    return shares, _by_gpus(whole, rest, rack, gpus.map(lambda all_gpus: max(0.0, all_gpus - named_gpus)))


def _named(whole: Figure, named: float) -> Figure:
    """Return the energy of a rack's GPUs; blank where those that models name are said to have used more."""
    if whole.value is None or named <= whole.value * (1 + _ROUNDING):
        return whole
    return blank(
        f"the GPUs of all models are said to have used {named:.0f} J, more than the {whole.value:.0f} J "
        "of all GPUs of the rack"
    )


def _whole(rack: Mapping[str, Figure], gpus: Figure) -> EnergyShare:
    return EnergyShare(
        attribution=Attribution.WHOLE,
        ratio=figure(1.0),
        joules={domain: rack[domain] for domain in SHARED_DOMAINS},
        gpus=gpus,
    )


def _by_gpus(whole: Figure, own: Figure, rack: Mapping[str, Figure], gpus: Figure) -> EnergyShare:
    """Make a share of the energy of the rack's GPUs; blank where that is."""
    ratio = whole.join(own, lambda all_joules, joules: joules / all_joules)
    joules = {domain: ratio.times(rack[domain]) for domain in SHARED_DOMAINS}
    known = Attribution.NONE if ratio.reason else Attribution.GPUS
    return EnergyShare(
        attribution=known,
        ratio=ratio,
        joules=joules | {"gpu": whole.join(own, lambda _, mine: mine)},
        gpus=gpus,
    )


def unplaced(name: str, model: ModelSum) -> str:
    """Say why a model's GPUs are not known; empty if they are."""
    placed = 1 - model.unplaced_seconds / model.endpoint_seconds if model.endpoint_seconds > 0 else 1.0
    if placed < SUFFICIENT_RATIO:
        return (
            f"the endpoints of {name} had GPUs to themselves for {percent(max(0.0, placed))} of their time; "
            f"{percent(SUFFICIENT_RATIO)} is enough: list the `gpus` of each endpoint under `serving`, and "
            "let no two share one"
        )
    return "" if model.gpu_seconds > 0 else f"the energy of the GPUs of {name} is not known"

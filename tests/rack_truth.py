"""What simulated nodes have really used and made: exact integrals, which no code of the way has a part in."""

from __future__ import annotations

from collector.simulator import SimulatedNode
from collector.simulator.serving import SimulatedEngine

NODE_DOMAINS = ("gpu", "module", "cpu")
"""Domains that a node's agent reads; `rack_input` is read from the shelves."""


def node_joules(node: SimulatedNode, now: float) -> dict[str, float]:
    """Return a node's energy by domain, each since some beginning of its own.

    Args:
        node: A node of superchips; its driver must not be reloaded between two readings that are compared.
        now: Reading of its clock; one before the last is answered too, but computed from the start.
    """
    gpu = sum(each.energy_joules(now) for each in node.gpus)
    # One GPU of each module speaks for it.
    module = sum(each.module_energy_joules(now) for each in node.gpus if each.module_gpus[0] is each)
    # A Grace draws what its module draws without the GPUs (collector.simulator.hwmon).
    return {"gpu": gpu, "module": module, "cpu": module - gpu}


def engine_tokens(engine: SimulatedEngine, now: float) -> float:
    """Return the prompt and generation tokens that an engine has processed since it began."""
    return sum(own.prompt_tokens + own.generation_tokens for own in engine.tallies(now))


def elapsed_at(node: SimulatedNode, joules: float, longest_seconds: float) -> float:
    """Return the time since the node's start at which the energy of its first GPU was so.

    Its counter tells time: it rises strictly, by about a kilowatt, and has a resolution of a millijoule.

    Args:
        node: The node, whose clock must have begun at 0.
        joules: Energy that the first GPU's counter showed.
        longest_seconds: A time that is later for sure.
    """
    low, high = 0.0, longest_seconds
    for _ in range(50):
        middle = (low + high) / 2
        low, high = (middle, high) if node.gpus[0].energy_joules(middle) < joules else (low, middle)
    return high

"""The engines that can be simulated: one table."""

from __future__ import annotations

from dataclasses import dataclass

from collector.simulator.serving import sglang, vllm
from collector.simulator.serving.exposition import Families


@dataclass(frozen=True, slots=True)
class Dialect:
    """An engine in one of its versions.

    Attributes:
        name: Name of engine and version.
        families: What one of its ranks shows.
        rank_per_gpu: Whether each GPU is a data-parallel rank with series of its own; else all GPUs are one.
        has_created: Whether counters and histograms have a `_created` series each.
    """

    name: str
    families: Families
    rank_per_gpu: bool
    has_created: bool


# Whether `_created` is there: a page of vLLM 0.10.0 has it (vllm-project/production-stack issue 617), newer
# ones have not; the client library's multiprocess mode, which SGLang uses, never has. Ranks: chosen.
DIALECTS = {
    each.name: each
    for each in (
        Dialect("vllm-0.16.0", vllm.VERSIONS["0.16.0"], rank_per_gpu=True, has_created=False),
        Dialect("vllm-0.9.1", vllm.VERSIONS["0.9.1"], rank_per_gpu=False, has_created=True),
        Dialect("sglang-0.5.8", sglang.VERSIONS["0.5.8"], rank_per_gpu=False, has_created=False),
    )
}


def dialect_of_tray(tray: int) -> Dialect:
    """Return the engine of a tray: they take turns, so that a rack has each.

    Args:
        tray: 0-based index of the compute tray.
    """
    each = tuple(DIALECTS.values())
    return each[tray % len(each)]

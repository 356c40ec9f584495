"""One serving engine of a simulated node: its text, and the truth for tests."""

from __future__ import annotations

import random
from collections.abc import Sequence

from collector.errors import ConfigurationError
from collector.simulator.gpu import SimulatedGpu
from collector.simulator.node import SimulatedNode
from collector.simulator.serving.dialects import Dialect
from collector.simulator.serving.exposition import Family, Page, with_created
from collector.simulator.serving.progress import Pace, Tally, tally
from collector.simulator.timekeeper import TICK_SECONDS
from collector.simulator.workloads import WORKLOADS

# An engine ran for some time before the node's start, so that it is in full work then: chosen.
_UPTIME_SECONDS_RANGE = (3_600.0, 7 * 86_400.0)


class SimulatedEngine:
    """An engine that computes on all GPUs of a node, or on some.

    Its tokens are the integral of the load of its GPUs times a rate: the profile's throughput of a GPU at the
    mean load of the workload `decode`. They fall to zero when it restarts, and at no other time. A GPU that
    is off the bus costs its share. Latencies do not depend on the load.

    Args:
        node: The node; its clock is the engine's.
        dialect: Which engine it is.
        gpus: Indices of its GPUs; None for all.

    Attributes:
        dialect: Which engine it is.
        gpus: Indices of its GPUs.

    Raises:
        ConfigurationError: The node's workload has no engine, or there is no such GPU.
    """

    def __init__(self, node: SimulatedNode, dialect: Dialect, gpus: Sequence[int] | None = None) -> None:
        if not node.workload.has_engine:
            raise ConfigurationError(f"workload {node.workload.name} has no serving engine")
        self.dialect = dialect
        self.gpus = tuple(range(len(node.gpus)) if gpus is None else gpus)
        for index in self.gpus:
            if not 0 <= index < len(node.gpus):
                raise ConfigurationError(f"an engine on GPU {index}: the node has 0 to {len(node.gpus) - 1}")
        own = [node.gpus[index] for index in self.gpus]
        self._ranks = [[gpu] for gpu in own] if dialect.rank_per_gpu else [own]
        serving = node.profile.serving
        self._tokens_per_load_second = serving.tokens_per_second_per_gpu / WORKLOADS["decode"].load_level
        self._paces = [Pace(serving, serving.tokens_per_second_per_gpu * len(rank)) for rank in self._ranks]
        self._timeline = node.timeline
        self._timekeeper = own[0].timekeeper
        self._level = node.workload.load_level
        place = "/".join(gpu.uuid for gpu in own)
        self._uptime_seconds = random.Random(f"{place}/engine").uniform(*_UPTIME_SECONDS_RANGE)
        self._page = Page([_families(dialect, pace, rank) for rank, pace in enumerate(self._paces)])

    def text(self) -> str | None:
        """Return the metrics as of now, as Prometheus text; None while the engine is away."""
        with self._timekeeper.lock:
            self._timekeeper.refresh()
            if self._timeline.engine_away(self._timekeeper.tick):
                return None
            return self._page.text(self._tallies())

    def tallies(self, now: float) -> tuple[Tally, ...]:
        """Return what each rank has counted at a reading of the node's clock: the truth, for tests."""
        with self._timekeeper.lock:
            self._timekeeper.move_to(now)
            return self._tallies()

    def _tallies(self) -> tuple[Tally, ...]:
        restart = self._timeline.engine_began(self._timekeeper.tick)
        before_seconds = self._uptime_seconds if restart is None else 0.0
        began_seconds = -self._uptime_seconds if restart is None else restart * TICK_SECONDS
        return tuple(
            tally(
                pace,
                sum(self._load_seconds(gpu, before_seconds) for gpu in rank) * self._tokens_per_load_second,
                working=self._level > 0,
                began_unix_seconds=self._timekeeper.start_unix_seconds + began_seconds,
            )
            for pace, rank in zip(self._paces, self._ranks, strict=True)
        )

    def _load_seconds(self, gpu: SimulatedGpu, before_seconds: float) -> float:
        gpu.sync()
        return before_seconds * self._level + gpu.engine_load_seconds


def _families(dialect: Dialect, pace: Pace, rank: int) -> tuple[Family, ...]:
    families = dialect.families(pace, rank)
    if not dialect.has_created:
        return families
    return tuple(each for family in families for each in with_created(family))

"""One GPU that answers: what it supports, and its sweeps."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable

from collector.catalog.spec import Cadence, Decode, FieldBinding, Level
from collector.model import Value
from collector.sources.nvml import gpm
from collector.sources.nvml.answers import Answers, Key
from collector.sources.nvml.bindings import Needs, field_id, keys_of
from collector.sources.nvml.fields import FieldBatch
from collector.sources.nvml.library import Handle, NvmlLibrary
from collector.sources.nvml.plan import (
    CADENCES,
    LINK_STATE,
    GpuPlan,
    Identification,
    SeriesPlan,
    make_plan,
    probe_needs,
)
from collector.sources.nvml.sweep import Sweep

_LINK_COUNT = field_id(FieldBinding(field="NVML_FI_DEV_NVLINK_LINK_COUNT"))
_MAXIMUM_LINKS = 36
"""NVML_NVLINK_MAX_LINKS (nvml.h): where enumeration ends, never how many links a GPU has."""

Values = list[Value | None]


class Gpu:
    """A GPU that answers.

    Attributes:
        identification: Labels of its series.
        handle: Its NVML handle.
        links: NVLinks that it has.
    """

    def __init__(
        self,
        library: NvmlLibrary,
        handle: Handle,
        identification: Identification,
        *,
        level: Level,
        driver: tuple[int, ...],
        monotonic: Callable[[], float],
        errors: Counter[str],
    ) -> None:
        """Probe the GPU and prepare its sweeps.

        Raises:
            GpuLostError: It does not answer.
            NvmlUnavailableError: NVML does not.
        """
        self.identification = identification
        self.handle = handle
        self._library = library
        self._level = level
        self._driver = driver
        self._monotonic = monotonic
        self.links = self._count_links()
        self._links_up: frozenset[Key] = frozenset()
        self._plan = self._make_plan(errors)
        self._sweeps = self._make_sweeps()

    def series(self, cadence: Cadence) -> tuple[SeriesPlan, ...]:
        """Return its series of a cadence."""
        return self._plan.series[cadence]

    @property
    def module_series(self) -> tuple[SeriesPlan, ...]:
        """Return the series of its module, all fast; several GPUs may offer the same."""
        return self._plan.module_series

    def read(self, cadence: Cadence, errors: Counter[str]) -> tuple[Values, Values, bool]:
        """Sweep once.

        Args:
            cadence: One of `CADENCES`.
            errors: Counts what could not be read.

        Returns:
            Values of `series(cadence)`; of `module_series` (empty for another cadence than FAST); and whether
            a link came up since the last sweep, so that `prepare_again` may find more.

        Raises:
            GpuLostError: The GPU does not answer any more.
            NvmlUnavailableError: NVML does not.
        """
        answers = Answers(errors)
        self._sweeps[cadence].read(answers)
        links_came_up = False
        if cadence is Cadence.LINKS:
            up = self._up(answers)
            links_came_up = bool(up - self._links_up)
            self._links_up = up
        module = self._plan.module_series if cadence is Cadence.FAST else ()
        return (
            [plan.fill(answers) for plan in self._plan.series[cadence]],
            [plan.fill(answers) for plan in module],
            links_came_up,
        )

    def prepare_again(self, errors: Counter[str]) -> bool:
        """Probe anew.

        Returns:
            Whether the GPU has other series now; if not, nothing changed and sums go on as they were.
        """
        plan = self._make_plan(errors)
        if _keys(plan) == _keys(self._plan):
            return False
        self.close()
        self._plan = plan
        self._sweeps = self._make_sweeps()
        return True

    def close(self) -> None:
        """Give back what the driver allocated."""
        for sweep in self._sweeps.values():
            sweep.close()

    def _count_links(self) -> int:
        """Ask the hardware for the number of links; where it does not tell, count those with a state."""
        answers = Answers(Counter())
        states = Needs()
        states.add(LINK_STATE, _MAXIMUM_LINKS)
        count = (_LINK_COUNT, 0, Decode.UNSIGNED_32)
        FieldBatch(self._library, self.handle, (count, *states.link_fields.values())).read(answers)
        counted = answers.numbers.pop((_LINK_COUNT, 0), None)
        return int(counted) if counted is not None else len(answers.numbers)

    def _make_plan(self, errors: Counter[str]) -> GpuPlan:
        probe = Answers(errors)
        needs = probe_needs(self._level, self._driver, self.links)
        Sweep(self._library, self.handle, needs, self._monotonic).read(probe)
        self._links_up = self._up(probe)
        return make_plan(
            self.identification,
            level=self._level,
            links=self.links,
            driver=self._driver,
            probe=probe,
            has_gpm=gpm.supported(self._library, self.handle),
        )

    def _make_sweeps(self) -> dict[Cadence, Sweep]:
        return {
            cadence: Sweep(self._library, self.handle, self._plan.needs[cadence], self._monotonic)
            for cadence in CADENCES
        }

    def _up(self, answers: Answers) -> frozenset[Key]:
        return frozenset(key for key in keys_of(LINK_STATE, self.links) if answers.numbers.get(key))


def _keys(plan: GpuPlan) -> list[object]:
    return [item.key for cadence in CADENCES for item in plan.series[cadence]]

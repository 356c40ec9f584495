"""One GPU that answers: what it supports, and its sweeps."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator

from collector.catalog.spec import Cadence, Decode, FieldBinding, Level
from collector.model import Value
from collector.readings import SeriesKey
from collector.sources.nvml import gpm
from collector.sources.nvml.answers import Answers, Key
from collector.sources.nvml.bindings import field_id, keys_of, requests_of
from collector.sources.nvml.fields import FieldBatch
from collector.sources.nvml.fills import Remembering
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
_LINK_STATES = tuple((field, link) for field, link, _ in requests_of(LINK_STATE, _MAXIMUM_LINKS))

Values = list[Value | None]


class Gpu:
    """A GPU that answers.

    Attributes:
        identification: Labels of its series.
        handle: Its NVML handle.
        links: NVLinks that it has, as far as it has told.
    """

    def __init__(
        self,
        library: NvmlLibrary,
        handle: Handle,
        identification: Identification,
        *,
        level: Level,
        driver: tuple[int, ...],
        fast_seconds: float,
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
        self._fast_seconds = fast_seconds
        self._monotonic = monotonic
        self.links = 0
        self._links_up: frozenset[Key] = frozenset()
        self._probe_failed = False
        self._remembered: dict[SeriesKey, Remembering] = {}
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
            `prepare_again` may find more: a link came up since the last sweep, or the last probe was not
            answered in full.

        Raises:
            GpuLostError: The GPU does not answer any more.
            NvmlUnavailableError: NVML does not.
        """
        answers = Answers(errors)
        self._sweeps[cadence].read(answers)
        more_to_find = False
        if cadence is Cadence.LINKS:
            up = self._up(answers)
            more_to_find = self._probe_failed or bool(up - self._links_up)
            self._links_up = up
        module = self._plan.module_series if cadence is Cadence.FAST else ()
        return (
            [plan.fill(answers) for plan in self._plan.series[cadence]],
            [plan.fill(answers) for plan in module],
            more_to_find,
        )

    def prepare_again(self) -> bool:
        """Probe anew.

        Returns:
            Whether the GPU is read in another way now; if not, nothing changed.

        Raises:
            GpuLostError: It does not answer.
            NvmlUnavailableError: NVML does not.
        """
        # What fails is counted where values are read; a probe that is repeated would count it twice.
        links = self.links
        plan = self._make_plan(Counter())
        if self._probe_failed and not set(_keys(self._plan)).issubset(_keys(plan)):
            # A probe that failed in part may find more; what it misses says nothing.
            self.links = links
            return False
        if _keys(plan) == _keys(self._plan) and plan.needs == self._plan.needs:
            return False
        self._adopt(plan)
        return True

    def identify(self, identification: Identification) -> None:
        """Take other labels for its series.

        Raises:
            GpuLostError: It does not answer.
            NvmlUnavailableError: NVML does not.
        """
        self.identification = identification
        self._adopt(self._make_plan(Counter()))

    def close(self) -> None:
        """Give back what the driver allocated."""
        for sweep in self._sweeps.values():
            sweep.close()

    def _count_links(self, probe: Answers) -> int:
        """Ask the hardware for the number of links; where it does not tell, count those with a state."""
        FieldBatch(self._library, self.handle, ((_LINK_COUNT, 0, Decode.UNSIGNED_32),)).read(probe)
        counted = probe.numbers.get((_LINK_COUNT, 0))
        if counted is not None and counted <= _MAXIMUM_LINKS:
            return int(counted)
        states = Answers(Counter())
        requests = tuple((field, link, Decode.UNSIGNED_32) for field, link in _LINK_STATES)
        FieldBatch(self._library, self.handle, requests).read(states)
        probe.failed |= states.failed
        return len(states.numbers)

    def _make_plan(self, errors: Counter[str]) -> GpuPlan:
        probe = Answers(errors)
        self.links = self._count_links(probe)
        needs = probe_needs(self._level, self._driver, self.links)
        Sweep(self._library, self.handle, needs, self._monotonic).read(probe)
        has_gpm = gpm.supported(self._library, self.handle, probe)
        self._links_up = self._up(probe)
        self._probe_failed = bool(probe.failed)
        return make_plan(
            self.identification,
            level=self._level,
            links=self.links,
            driver=self._driver,
            probe=probe,
            has_gpm=has_gpm,
            fast_seconds=self._fast_seconds,
        )

    def _adopt(self, plan: GpuPlan) -> None:
        self.close()
        self._plan = plan
        self._sweeps = self._make_sweeps()

    def _make_sweeps(self) -> dict[Cadence, Sweep]:
        """Prepare what the plan needs; its series go on from those of the plans before."""
        for item in _items(self._plan):
            if isinstance(item.fill, Remembering):
                if item.key in self._remembered:
                    item.fill.take_over(self._remembered[item.key])
                self._remembered[item.key] = item.fill
        return {
            cadence: Sweep(self._library, self.handle, self._plan.needs[cadence], self._monotonic)
            for cadence in CADENCES
        }

    def _up(self, answers: Answers) -> frozenset[Key]:
        return frozenset(key for key in keys_of(LINK_STATE, self.links) if answers.numbers.get(key))


def _items(plan: GpuPlan) -> Iterator[SeriesPlan]:
    for cadence in CADENCES:
        yield from plan.series[cadence]
    yield from plan.module_series


def _keys(plan: GpuPlan) -> list[SeriesKey]:
    return [item.key for item in _items(plan)]

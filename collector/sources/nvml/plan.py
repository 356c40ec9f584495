"""Catalogue rows x what one GPU supports = its series, what they need to be read, and how they are filled.

Support is probed, never inferred from a product name: everything that a row could be read from is asked
once, and the first alternative that answers is kept.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass

from collector import catalog
from collector.catalog.spec import (
    Binding,
    Cadence,
    Decode,
    Entity,
    FieldBinding,
    GetterBinding,
    GpmBinding,
    Level,
    LinkSum,
    Metric,
    Scope,
)
from collector.readings import SeriesKey
from collector.sources.nvml.answers import Answers
from collector.sources.nvml.bindings import Needs, bindings_of, keys_of, supported
from collector.sources.nvml.fills import Count, Fill, MonotoneSum, Sum, coded, constant, scaled
from collector.sources.nvml.module_energy import (
    Integral,
    half_difference,
    longest_step_seconds,
    mean,
    power_fill,
)

CADENCES = (Cadence.FAST, Cadence.LINKS)
"""Cadences with values of a GPU; its identity, read slowly, is text."""

LINK_STATE = FieldBinding(
    field="NVML_FI_DEV_NVLINK_GET_STATE", scope=Scope.EACH_LINK, decode=Decode.LINK_STATE
)
_LINK_ERRORS = catalog.BY_NAME["nvlink_errors_total"]
_MODULE_POWER = catalog.BY_NAME["module_power_watts"]
_MODULE_ENERGY = catalog.BY_NAME["module_energy_joules_total"]
_MODULE_ENERGY_ERROR = catalog.BY_NAME["module_energy_error_joules_total"]


@dataclass(frozen=True, slots=True)
class Identification:
    """What a GPU's series are labelled with.

    Attributes:
        index: Index for display.
        uuid: Identity.
        serial: Board serial, which names its module; empty where there is none.
    """

    index: int
    uuid: str
    serial: str


@dataclass(frozen=True, slots=True)
class SeriesPlan:
    """One series: its key and how it gets its value."""

    key: SeriesKey
    fill: Fill


@dataclass(frozen=True, slots=True)
class GpuPlan:
    """What is read of one GPU.

    Attributes:
        series: Its series by cadence.
        module_series: Series of its module, all fast; empty where it has no module to speak of.
        needs: What has to be read, by cadence.
    """

    series: dict[Cadence, tuple[SeriesPlan, ...]]
    module_series: tuple[SeriesPlan, ...]
    needs: dict[Cadence, Needs]


def planned_metrics(level: Level) -> tuple[Metric, ...]:
    """Rows of a level that are read from a GPU."""
    entities = (Entity.GPU, Entity.NVLINK, Entity.MODULE)
    return tuple(metric for metric in catalog.at_level(level) if metric.entity in entities)


def probe_needs(level: Level, driver: tuple[int, ...], links: int) -> Needs:
    """List everything that any row of a level could be read from, performance monitoring apart."""
    needs = Needs()
    needs.add(LINK_STATE, links)
    for metric in (*planned_metrics(level), _LINK_ERRORS):
        for _, alternatives in bindings_of(metric, driver):
            for binding in alternatives:
                if not isinstance(binding, GpmBinding):
                    needs.add(binding, links)
    return needs


class _Planner:
    """Collects the plan of one GPU, row by row."""

    def __init__(
        self,
        identification: Identification,
        links: int,
        driver: tuple[int, ...],
        probe: Answers,
        *,
        has_gpm: bool,
    ) -> None:
        self.identification = identification
        self.links = links
        self.driver = driver
        self.probe = probe
        self.has_gpm = has_gpm
        self.series: dict[Cadence, list[SeriesPlan]] = {cadence: [] for cadence in CADENCES}
        self.module_series: list[SeriesPlan] = []
        self.needs = {cadence: Needs() for cadence in CADENCES}

    def choose(self, alternatives: Iterable[Binding]) -> Binding | None:
        """Return the first alternative that the GPU supports."""
        for binding in alternatives:
            if isinstance(binding, GpmBinding) and not self.has_gpm:
                continue
            usable = supported(binding, self.probe, self.links)
            if usable is not None:
                return usable
        return None

    def key(self, metric: Metric, label_value: str, link: int | None = None) -> SeriesKey:
        """Name a series."""
        who = self.identification
        if metric.entity is Entity.MODULE:
            labels: tuple[str, ...] = (who.serial,)
        else:
            labels = (str(who.index), who.uuid) if link is None else (str(who.index), who.uuid, str(link))
        return metric.name, (*labels, label_value) if metric.label else labels

    def add_row(self, metric: Metric) -> None:
        """Plan a row that is read."""
        for label_value, alternatives in bindings_of(metric, self.driver):
            binding = self.choose(alternatives)
            if binding is None:
                continue
            self.needs[metric.cadence].add(binding, self.links)
            target = self.module_series if metric.entity is Entity.MODULE else self.series[metric.cadence]
            if metric.entity is Entity.NVLINK:
                target.extend(
                    SeriesPlan(self.key(metric, label_value, link), _link_fill(metric, binding, link))
                    for link in range(self.links)
                )
            elif metric.codes is not None:
                (source,) = keys_of(binding, self.links)
                target.extend(
                    SeriesPlan(self.key(metric, value), coded(metric, source, code))
                    for code, value in metric.codes.values
                )
            else:
                target.append(SeriesPlan(self.key(metric, label_value), self._gpu_fill(metric, binding)))

    def _gpu_fill(self, metric: Metric, binding: Binding) -> Fill:
        if isinstance(binding, LinkSum):
            return MonotoneSum(metric, keys_of(binding, self.links), _factor(binding))
        (source,) = keys_of(binding, self.links)
        return scaled(metric, source, binding.multiply, binding.divide)

    def add_derived(self, metric: Metric, fill: Fill) -> None:
        """Plan a row that is computed from what is read of the links."""
        self.series[metric.cadence].append(SeriesPlan(self.key(metric, ""), fill))

    def add_module_energy(self, fast_seconds: float) -> None:
        """Plan the energy of a module that has power but no counter: the power, integrated, and its error."""
        ((_, counters),) = bindings_of(_MODULE_ENERGY, self.driver)
        ((_, powers),) = bindings_of(_MODULE_POWER, self.driver)
        binding = self.choose(powers)
        if self.choose(counters) is not None or not isinstance(binding, FieldBinding):
            return
        (source,) = keys_of(binding, self.links)
        longest_seconds = longest_step_seconds(fast_seconds)
        for metric, over_step in ((_MODULE_ENERGY, mean), (_MODULE_ENERGY_ERROR, half_difference)):
            power = power_fill(_MODULE_POWER, source, binding.multiply, binding.divide)
            fill = Integral(power, over_step, longest_seconds)
            self.module_series.append(SeriesPlan(self.key(metric, ""), fill))


def _factor(binding: LinkSum) -> int:
    """Return the one factor that all fields of a sum share."""
    (factor,) = {part.multiply for part in binding.fields}
    return factor


def _link_fill(metric: Metric, binding: Binding, link: int) -> Fill:
    if isinstance(binding, LinkSum):
        keys = tuple(key for key in keys_of(binding, link + 1) if key[1] == link)
        return Sum(metric, keys, _factor(binding))
    if isinstance(binding, GetterBinding | GpmBinding):
        raise TypeError(f"{metric.name}: a link is read by field values only")
    (source,) = (key for key in keys_of(binding, link + 1) if key[1] == link)
    return scaled(metric, source, binding.multiply, binding.divide)


def _links_up(planner: _Planner) -> Fill:
    planner.needs[Cadence.LINKS].add(LINK_STATE, planner.links)
    return Count(keys_of(LINK_STATE, planner.links))


def _links_expected(planner: _Planner) -> Fill:
    return constant(planner.links)


def _link_errors(planner: _Planner) -> Fill | None:
    ((_, alternatives),) = bindings_of(_LINK_ERRORS, planner.driver)
    binding = planner.choose(alternatives)
    if not isinstance(binding, LinkSum):
        return None
    planner.needs[Cadence.LINKS].add(binding, planner.links)
    metric = catalog.BY_NAME["gpu_nvlink_errors_total"]
    return MonotoneSum(metric, keys_of(binding, planner.links), _factor(binding))


_DERIVED: dict[str, Callable[[_Planner], Fill | None]] = {
    "gpu_nvlinks_up": _links_up,
    "gpu_nvlinks_expected": _links_expected,
    "gpu_nvlink_errors_total": _link_errors,
}
"""Rows computed from readings of the links."""


def make_plan(
    identification: Identification,
    *,
    level: Level,
    links: int,
    driver: tuple[int, ...],
    probe: Answers,
    has_gpm: bool,
    fast_seconds: float,
) -> GpuPlan:
    """Decide what is read of one GPU.

    Args:
        identification: Labels of its series.
        level: Level of detail.
        links: NVLinks that it has.
        driver: Driver version.
        probe: Answers to `probe_needs`.
        has_gpm: Whether it has performance monitoring.
        fast_seconds: Period of the fast sweeps.
    """
    planner = _Planner(identification, links, driver, probe, has_gpm=has_gpm)
    for metric in planned_metrics(level):
        derive = _DERIVED.get(metric.name)
        if derive is None:
            planner.add_row(metric)
        elif links:
            fill = derive(planner)
            if fill is not None:
                planner.add_derived(metric, fill)
    planner.add_module_energy(fast_seconds)
    return GpuPlan(
        series={cadence: tuple(plans) for cadence, plans in planner.series.items()},
        module_series=tuple(planner.module_series) if identification.serial else (),
        needs=planner.needs,
    )

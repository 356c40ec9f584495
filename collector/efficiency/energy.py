"""Energy of GPUs, modules, CPUs and shelves: differences of counters, or power integrated, with its error."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator
from dataclasses import dataclass
from typing import NamedTuple, TypeVar

from collector.efficiency.counting import increase
from collector.efficiency.shelf import ShelfReading
from collector.health.samples import Samples

GPU, MODULE, RACK_INPUT, CPU = "gpu", "module", "rack_input", "cpu"

MAXIMUM_GPU_WATTS = 5_000
"""No GPU takes more (chosen): three times the limit of a GB300's (facts on tokens, §4: 1,400 W)."""
MAXIMUM_MODULE_WATTS = 20_000
"""No module takes more: the range of its catalogue row."""
MAXIMUM_CPU_WATTS = 5_000
"""No CPU socket takes more: the range of its catalogue row."""
MAXIMUM_SHELF_WATTS = 1_000_000
"""No power shelf takes more (chosen): 30 times one of 6 supplies of 5.5 kW (facts on tokens, §4)."""
_SLACK_SECONDS = 5
"""How much older than its Snapshot a value may be: good fast data are at most 5 s old (CONTRACTS §3)."""

_CLOCK_NS = 10 * 1_000_000_000
"""How far the time between two readings by their own clock may be from ours (chosen): polls are not that
late; beyond, a clock was set."""
MAXIMUM_UNITS = 16_384
"""Most GPUs of a rack (chosen): 1,024 nodes, the most that a rack may declare, with 16 each."""
_FORGET_NS = 86_400 * 1_000_000_000
"""After which time a unit is forgotten where there are too many (chosen): a day."""
_SECOND_NS = 1_000_000_000

Base = TypeVar("Base")


class Portion(NamedTuple):
    """Energy of one unit over a stretch of time.

    Attributes:
        domain: Where it is measured.
        gpu: Index of the GPU for display; empty for others.
        starts_ns: Begin, on our clock.
        ends_ns: End.
        joules: Energy.
        error_joules: How far it may be off.
        covered: Whether all energy of that time is in it.
    """

    domain: str
    gpu: str
    starts_ns: int
    ends_ns: int
    joules: float
    error_joules: float
    covered: bool


@dataclass(slots=True)
class Reported:
    """What a node reports now of one domain.

    Attributes:
        units: Its units of which power or energy is known.
        powered: Those of which power is known.
        watts: Power of these.
    """

    units: int = 0
    powered: int = 0
    watts: float = 0.0


class Owners:
    """Which node a unit belongs to, so that one which two nodes report counts once."""

    def __init__(self, hold_ns: int) -> None:
        """Begin without a unit.

        Args:
            hold_ns: How long a unit belongs to the node that reported it last.
        """
        self._hold_ns = hold_ns
        self._owners: dict[str, tuple[str, int]] = {}

    def __len__(self) -> int:
        """Count the units that were seen."""
        return len(self._owners)

    def owns(self, node: str, unit: str, now_ns: int) -> bool:
        """Tell whether a node's word on a unit counts, and note that it gave it.

        It does for the node that gave it last, and for another one when that has been silent for long.
        """
        known = self._owners.get(unit)
        if known is None:
            if len(self._owners) >= MAXIMUM_UNITS and not self._forget(now_ns):
                return False
        elif known[0] != node and now_ns - known[1] <= self._hold_ns:
            return False
        self._owners[unit] = (node, now_ns)
        return True

    def _forget(self, now_ns: int) -> bool:
        """Forget units that were not seen for long; tell whether there is room."""
        self._owners = {unit: own for unit, own in self._owners.items() if now_ns - own[1] < _FORGET_NS}
        return len(self._owners) < MAXIMUM_UNITS


@dataclass(slots=True)
class _Counted:
    joules: float
    error_joules: float
    placed_ns: int


class CounterMeter:
    """Makes energy of counters of energy."""

    def __init__(self, domain: str, maximum_watts: float) -> None:
        """Begin without a reading.

        Args:
            domain: Where they are measured.
            maximum_watts: Power that no unit exceeds.
        """
        self._domain = domain
        self._maximum_watts = maximum_watts
        self._bases: dict[str, _Counted] = {}

    def __contains__(self, unit: object) -> bool:
        """Tell whether a counter of the unit is known."""
        return unit in self._bases

    def forget(self, unit: str) -> None:
        """Begin anew with a unit."""
        self._bases.pop(unit, None)

    def read(
        self, unit: str, joules: float, now_ns: int, *, error_joules: float = 0.0, gpu: str = ""
    ) -> Portion | None:
        """Take in a reading.

        Args:
            unit: Whose it is.
            joules: The counter.
            now_ns: The present.
            error_joules: The counter of its error; 0 where hardware counts.
            gpu: Index of the GPU for display.

        Returns:
            The energy since the reading before; None if it is the first, or the increase is impossible.
        """
        base = self._bases.get(unit)
        if base is None:
            _make_room(self._bases)
            self._bases[unit] = _Counted(joules, error_joules, now_ns)
            return None
        starts = base.placed_ns
        maximum = self._maximum_watts * ((now_ns - starts) / _SECOND_NS + _SLACK_SECONDS)
        risen = increase(base.joules, joules, maximum)
        error = increase(base.error_joules, error_joules, maximum)
        base.joules, base.error_joules, base.placed_ns = joules, error_joules, now_ns
        if risen is None:
            return None
        # An error that cannot be told is as large as what it is about.
        error_risen = risen.amount if error is None else error.amount
        return Portion(self._domain, gpu, starts, now_ns, risen.amount, error_risen, risen.whole)


@dataclass(slots=True)
class _Powered:
    watts: float
    taken_ns: int
    placed_ns: int


class PowerMeter:
    """Makes energy of power: the trapezoid between two readings.

    Its error is the most that a power which went from one to the other without turning back can be off: half
    the difference over the time between.
    """

    def __init__(self, domain: str, maximum_gap_ns: int) -> None:
        """Begin without a reading.

        Args:
            domain: Where it is measured.
            maximum_gap_ns: Longest time between two readings over which power is integrated.
        """
        self._domain = domain
        self._maximum_gap_ns = maximum_gap_ns
        self._bases: dict[str, _Powered] = {}

    def forget(self, unit: str) -> None:
        """Begin anew with a unit."""
        self._bases.pop(unit, None)

    def read(
        self, unit: str, watts: float, taken_ns: int, placed_ns: int, *, gpu: str = ""
    ) -> Portion | None:
        """Take in a reading.

        Args:
            unit: Whose it is.
            watts: Its power.
            taken_ns: When it was read, by the clock of who read it.
            placed_ns: The same on our clock.
            gpu: Index of the GPU for display.

        Returns:
            The energy since the reading before; None if it is the first, or that is too long ago.
        """
        base = self._bases.get(unit)
        if base is None:
            _make_room(self._bases)
        elif base.taken_ns == taken_ns or placed_ns < base.placed_ns:
            # The same word again, or a clock that was set back: time that is accounted for already.
            return None
        self._bases[unit] = _Powered(watts, taken_ns, placed_ns)
        if base is None:
            return None
        taken, placed = taken_ns - base.taken_ns, placed_ns - base.placed_ns
        if not (0 < taken <= self._maximum_gap_ns and abs(taken - placed) <= _CLOCK_NS):
            return None
        seconds = taken / _SECOND_NS
        return Portion(
            self._domain,
            gpu,
            base.placed_ns,
            placed_ns,
            (base.watts + watts) / 2 * seconds,
            abs(watts - base.watts) / 2 * seconds,
            covered=True,
        )


class EnergyMeters:
    """All meters of a rack.

    Attributes:
        gpus: The GPUs that were seen.
        modules: The modules that were seen.
    """

    def __init__(self, starts_ns: int, maximum_gap_ns: int) -> None:
        """Begin without a reading.

        Args:
            starts_ns: The present: a shelf's reading before it is none.
            maximum_gap_ns: Longest time between two readings over which power is integrated, and for which
                a GPU or module belongs to the node that reported it.
        """
        self.gpus = Owners(maximum_gap_ns)
        self.modules = Owners(maximum_gap_ns)
        self._starts_ns = starts_ns
        self._maximum_gap_ns = maximum_gap_ns
        self._gpu = CounterMeter(GPU, MAXIMUM_GPU_WATTS)
        self._gpu_power = PowerMeter(GPU, maximum_gap_ns)
        self._uncounted_ns: dict[str, int] = {}
        self._module = CounterMeter(MODULE, MAXIMUM_MODULE_WATTS)
        self._cpu = PowerMeter(CPU, maximum_gap_ns)
        self._shelf = PowerMeter(RACK_INPUT, maximum_gap_ns)

    def take_node(
        self, node: str, samples: Samples, taken_ns: int, now_ns: int
    ) -> tuple[list[Portion], dict[str, Reported]]:
        """Take in a Snapshot.

        Args:
            node: Whose it is.
            samples: Its values.
            taken_ns: When it was taken, by the agent's clock.
            now_ns: The present.

        Returns:
            Energy since the Snapshot before, and what the node reports by domain.
        """
        reported: defaultdict[str, Reported] = defaultdict(Reported)
        portions = [
            *self._gpus(node, samples, taken_ns, now_ns, reported[GPU]),
            *self._modules(node, samples, now_ns, reported[MODULE]),
            *self._cpus(node, samples, taken_ns, now_ns, reported[CPU]),
        ]
        return portions, dict(reported)

    def take_shelf(self, reading: ShelfReading, now_ns: int) -> Portion | None:
        """Take in what a shelf said last; the same word again says nothing."""
        if reading.read_ns is None or reading.watts is None:
            return None
        if not (self._starts_ns <= reading.read_ns <= now_ns and 0 <= reading.watts <= MAXIMUM_SHELF_WATTS):
            return None
        return self._shelf.read(reading.shelf, reading.watts, reading.read_ns, reading.read_ns)

    def _gpus(
        self, node: str, samples: Samples, taken_ns: int, now_ns: int, reported: Reported
    ) -> Iterator[Portion]:
        powers = _watts(samples, "gpu_power_watts", MAXIMUM_GPU_WATTS)
        counted = _values(samples, "gpu_energy_joules_total")
        for labels in {**counted, **powers}:
            index, uuid = labels
            if not self.gpus.owns(node, uuid, now_ns):
                continue
            joules, watts = counted.get(labels), powers.get(labels)
            reported.units += 1
            if watts is not None:
                reported.powered += 1
                reported.watts += watts
            if joules is not None:
                portion = self._count_gpu(uuid, joules, now_ns, index)
            elif watts is not None and self._is_without_counter(uuid, now_ns):
                portion = self._gpu_power.read(uuid, watts, taken_ns, now_ns, gpu=index)
            else:
                portion = None
            if portion is not None:
                yield portion

    def _count_gpu(self, uuid: str, joules: float, now_ns: int, index: str) -> Portion | None:
        self._gpu_power.forget(uuid)
        self._uncounted_ns.pop(uuid, None)
        return self._gpu.read(uuid, joules, now_ns, gpu=index)

    def _is_without_counter(self, uuid: str, now_ns: int) -> bool:
        """Tell whether a GPU has no counter of energy, rather than one that was not read just now.

        A counter that comes back bridges the time between; what was integrated of it would count twice.
        """
        if uuid not in self._gpu:
            return True
        if now_ns - self._uncounted_ns.setdefault(uuid, now_ns) <= self._maximum_gap_ns:
            return False
        self._gpu.forget(uuid)
        del self._uncounted_ns[uuid]
        return True

    def _modules(self, node: str, samples: Samples, now_ns: int, reported: Reported) -> Iterator[Portion]:
        counted = _values(samples, "module_energy_joules_total")
        errors = _values(samples, "module_energy_error_joules_total")
        powers = _watts(samples, "module_power_watts", MAXIMUM_MODULE_WATTS)
        for labels in {**counted, **powers}:
            (serial,) = labels
            if not self.modules.owns(node, serial, now_ns):
                continue
            reported.units += 1
            if (watts := powers.get(labels)) is not None:
                reported.powered += 1
                reported.watts += watts
            if (joules := counted.get(labels)) is not None:
                error = errors.get(labels, 0.0)
                portion = self._module.read(serial, joules, now_ns, error_joules=error)
                if portion is not None:
                    yield portion

    def _cpus(
        self, node: str, samples: Samples, taken_ns: int, now_ns: int, reported: Reported
    ) -> Iterator[Portion]:
        for (socket,), watts in _watts(samples, "cpu_power_watts", MAXIMUM_CPU_WATTS).items():
            reported.units += 1
            reported.powered += 1
            reported.watts += watts
            portion = self._cpu.read(f"{node}\n{socket}", watts, taken_ns, now_ns)
            if portion is not None:
                yield portion


def _values(samples: Samples, name: str) -> dict[tuple[str, ...], float]:
    return {sample.labels: sample.value for sample in samples.of_metric(name)}


def _watts(samples: Samples, name: str, maximum: float) -> dict[tuple[str, ...], float]:
    """Return power by labels; what no unit can take is no reading."""
    return {labels: watts for labels, watts in _values(samples, name).items() if 0 <= watts <= maximum}


def _make_room(bases: dict[str, Base]) -> None:
    """Forget the oldest unit where there are too many: endless new identities must not take all memory."""
    if len(bases) >= MAXIMUM_UNITS:
        del bases[next(iter(bases))]

"""Meters of energy: counters, power, and to whom a unit belongs."""

from __future__ import annotations

import pytest

from collector.efficiency import energy
from collector.efficiency.energy import CounterMeter, EnergyMeters, Owners, Portion, PowerMeter
from collector.efficiency.shelf import ShelfReading
from collector.model import Value
from tests.rack_builders import SECOND, T0
from tests.usage_builders import Series, samples

GAP = 60 * SECOND


def at(seconds: float) -> int:
    return T0 + round(seconds * SECOND)


def test_a_counter_gives_its_differences() -> None:
    meter = CounterMeter("gpu", 5000.0)
    assert meter.read("G", 1000.0, at(0)) is None
    assert meter.read("G", 6000.0, at(5), gpu="3") == Portion("gpu", "3", at(0), at(5), 5000.0, 0.0, True)
    assert meter.read("H", 7.0, at(5)) is None
    # 10 s at 5 kW are possible, and 5 s more, as values may be older than they say.
    assert meter.read("G", 6000.0 + 75_000, at(15)) is not None
    assert meter.read("G", 81_000.0 + 75_001, at(25)) is None
    assert meter.read("G", 156_002.0, at(30)) == Portion("gpu", "", at(25), at(30), 1.0, 0.0, True)


def test_an_error_that_is_counted_is_handed_on() -> None:
    meter = CounterMeter("module", 20_000.0)
    meter.read("M", 1000.0, at(0), error_joules=10.0)
    portion = meter.read("M", 6000.0, at(5), error_joules=12.5)
    assert portion is not None
    assert portion.error_joules == 2.5
    began_anew = meter.read("M", 300.0, at(10), error_joules=1.5)
    assert began_anew == Portion("module", "", at(5), at(10), 300.0, 1.5, False)
    doubtful = meter.read("M", 400.0, at(15), error_joules=1e9)
    assert doubtful is not None
    assert doubtful.error_joules == 100.0


def test_power_is_integrated_between_two_readings() -> None:
    meter = PowerMeter("cpu", GAP)
    assert meter.read("C", 100.0, 0, at(0)) is None
    assert meter.read("C", 300.0, 4 * SECOND, at(5)) == Portion("cpu", "", at(0), at(5), 800.0, 400.0, True)
    assert meter.read("C", 300.0, 4 * SECOND, at(6)) is None
    assert meter.read("C", 300.0, 64 * SECOND, at(65)) is not None
    assert meter.read("C", 300.0, 125 * SECOND, at(126)) is None  # 61 s
    assert meter.read("C", 300.0, 120 * SECOND, at(130)) is None  # its clock was set back
    assert meter.read("C", 300.0, 140 * SECOND, at(135)) is None  # 20 s passed for it, 5 for us
    assert meter.read("C", 300.0, 145 * SECOND, at(130)) is None  # our clock was set back
    assert meter.read("C", 300.0, 145 * SECOND, at(140)) is not None


def test_a_unit_belongs_to_who_reported_it_last_until_that_one_is_silent() -> None:
    owners = Owners(GAP)
    assert owners.owns("n01", "G", at(0))
    assert not owners.owns("n02", "G", at(60))
    assert owners.owns("n02", "G", at(60.5))
    assert not owners.owns("n01", "G", at(61))
    assert len(owners) == 1


def test_endless_new_identities_do_not_take_all_memory(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(energy, "MAXIMUM_UNITS", 3)
    owners = Owners(GAP)
    meter = CounterMeter("gpu", 5000.0)
    for number in range(10):
        assert owners.owns("n01", f"G{number}", at(0)) is (number < 3)
        meter.read(f"G{number}", 0.0, at(0))
    assert len(owners) == 3
    assert len(meter._bases) == 3
    assert owners.owns("n01", "G9", at(86_400))  # the others were not seen for a day
    assert len(owners) == 1


@pytest.mark.parametrize(
    ("read_ns", "watts"),
    [(None, None), (at(5), None), (at(-1), 100.0), (at(11), 100.0), (at(5), -1.0), (at(5), 1e6 + 1)],
)
def test_what_is_no_reading_of_a_shelf(read_ns: int | None, watts: float | None) -> None:
    meters = EnergyMeters(T0, GAP)
    meters.take_shelf(ShelfReading("s", at(0), 100.0, ""), at(0))
    assert meters.take_shelf(ShelfReading("s", read_ns, watts, ""), at(10)) is None
    portion = meters.take_shelf(ShelfReading("s", at(10), 100.0, ""), at(10))
    assert portion == Portion("rack_input", "", at(0), at(10), 1000.0, 0.0, True)


def test_power_that_no_gpu_can_have_is_not_reported() -> None:
    meters = EnergyMeters(T0, GAP)
    labels = [(str(gpu), f"G{gpu}") for gpu in range(3)]
    watts = (700, -5, 9e9)
    values: dict[Series, Value | None] = {
        ("gpu_power_watts", own): value for own, value in zip(labels, watts, strict=True)
    }
    _, reported = meters.take_node("n01", samples(values), T0, T0)
    assert (reported["gpu"].units, reported["gpu"].powered, reported["gpu"].watts) == (1, 1, 700)

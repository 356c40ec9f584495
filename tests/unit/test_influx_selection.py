"""What is written how often: families, levels, periods, and when they are due."""

from __future__ import annotations

from dataclasses import replace

import pytest

from collector.catalog import BY_NAME
from collector.catalog.spec import Cadence, Entity, Level
from collector.cli.influxdb import make_selection
from collector.config.schema import InfluxdbSetting, Sampling
from collector.errors import ConfigurationError
from collector.model import Snapshot
from exporters.influxdb.lines import LineWriter
from exporters.influxdb.selection import DEFAULT_PERIODS_SECONDS, DueTimes, Selection
from tests.exporter_snapshots import histogram, series, snapshot_of
from tests.influx_snapshots import ROWS
from tests.line_protocol import parse

SECOND = 1_000_000_000
MODEL = ("decode-0", "vllm", "m", "engine")


def names(selection: Selection) -> set[str]:
    return {metric.name for metric in ROWS if selection.includes(metric)}


def test_everything_that_is_read_is_written_by_default() -> None:
    assert names(Selection()) == {metric.name for metric in ROWS}


def test_a_family_is_a_measurement_or_a_pattern() -> None:
    modules = {"module_power_watts", "module_energy_joules_total", "module_energy_error_joules_total"}
    assert names(Selection(families=("module",))) == modules
    assert names(Selection(families=("gpu_power_*",))) == {"gpu_power_watts", "gpu_power_limit_watts"}
    both = {metric.name for metric in ROWS if metric.entity in {Entity.LLM, Entity.LLM_ENDPOINT}}
    assert names(Selection(families=("llm",))) == both
    assert names(
        Selection(families=("gpu_power_*", "module"), excluded=("*_error_*", "gpu_power_limit_watts"))
    ) == {
        "gpu_power_watts",
        "module_power_watts",
        "module_energy_joules_total",
    }


def test_a_level_leaves_out_what_is_above_it() -> None:
    core = names(Selection(level=Level.CORE))
    assert "gpu_power_watts" in core
    assert "nvlink_up" not in core
    assert core == {metric.name for metric in ROWS if metric.level is Level.CORE}


@pytest.mark.parametrize("pattern", ["gpus", "rackwatt_gpu_power_watts", "", "GPU"])
@pytest.mark.parametrize("key", ["families", "excluded", "periods_of"])
def test_a_family_of_nothing_is_refused(key: str, pattern: str) -> None:
    value = ((pattern, 1.0),) if key == "periods_of" else (pattern,)
    with pytest.raises(ConfigurationError, match="names nothing that is measured") as caught:
        Selection(**{key: value})  # type: ignore[arg-type] # the key says which it is
    assert repr(pattern) in str(caught.value)


@pytest.mark.parametrize("seconds", [0.05, 0, -1, 3601, float("nan")])
def test_a_period_out_of_bounds_is_refused(seconds: float) -> None:
    with pytest.raises(ConfigurationError, match="out of bounds"):
        Selection(periods_seconds={Cadence.FAST: seconds})
    with pytest.raises(ConfigurationError, match="out of bounds"):
        Selection(periods_of=(("gpu", seconds),))


def test_periods_by_cadence_and_by_family() -> None:
    # The cadences are those of the agent's configuration: 1 s, 10 s, 60 s; engines and hwmon each 5 s.
    assert DEFAULT_PERIODS_SECONDS == {
        Cadence.FAST: 1,
        Cadence.LINKS: 10,
        Cadence.SLOW: 60,
        Cadence.EVENT: 10,
        Cadence.AGENT: 10,
        Cadence.SERVING: 5,
        Cadence.HOST: 5,
    }
    selection = Selection(
        periods_seconds={Cadence.LINKS: 30.0}, periods_of=(("gpu_power_watts", 2.0), ("gpu", 5.0))
    )
    found = {
        name: selection.period_seconds(BY_NAME[name])
        for name in ("gpu_power_watts", "gpu_up", "nvlink_up", "module_power_watts", "gpu_info")
    }
    assert found == {
        "gpu_power_watts": 2,
        "gpu_up": 5,
        "nvlink_up": 30,
        "module_power_watts": 1,
        "gpu_info": 5,
    }


def at(seconds: float) -> Snapshot:
    snapshot = snapshot_of(
        (series("gpu_up", "0", "GPU-a"), 1),
        (series("nvlink_up", "0", "GPU-a", "0"), 1),
        (series("llm_requests_running", *MODEL), 1.0),
    )
    latency = histogram("llm_request_duration_seconds", *MODEL, bounds=(1.0,), counts=(1, 2), total=3.0)
    return replace(snapshot, time_ns=round(seconds * SECOND), histograms=(latency,))


def test_each_row_is_written_when_its_period_is_due() -> None:
    writer = LineWriter(Selection())
    written: dict[str, list[int]] = {}
    for second in range(21):
        for point in parse(writer.write(at(1000 + second)).payload):
            for field, _ in point.fields:
                written.setdefault(f"{point.measurement} {field}", []).append(second)
    assert written.pop("gpu up") == list(range(21))
    assert written.pop("nvlink up") == [0, 10, 20]
    assert set(map(tuple, written.values())) == {(0, 5, 10, 15, 20)}


def due_at(times: list[float], *periods: float) -> dict[float, list[float]]:
    due = DueTimes()
    found: dict[float, list[float]] = {period: [] for period in periods}
    for now in times:
        for period in due.due(frozenset(periods), round(now * SECOND)):
            found[period].append(now)
    return found


def test_snapshots_that_jitter_miss_nothing_and_write_nothing_twice() -> None:
    jitter = [0.0, 0.01, 0.9, 0.0, -0.02]
    times = [1000 + second + jitter[second % 5] for second in range(101)]
    found = due_at(times, 1.0, 10.0)
    assert found[1.0] == times
    assert found[10.0] == times[::10]


def test_snapshots_between_are_passed_over() -> None:
    times = [1000 + tick / 5 for tick in range(51)]
    assert due_at(times, 1.0)[1.0] == times[::5]


def test_a_period_shorter_than_the_snapshots_is_each_of_them() -> None:
    times = [1000.0, 1002.0, 1004.0, 1006.0]
    assert due_at(times, 1.0)[1.0] == times


def test_after_a_gap_everything_is_due_at_once() -> None:
    times = [*(1000.0 + second for second in range(12)), 1300.0, *(1301.0 + second for second in range(12))]
    assert due_at(times, 10.0)[10.0] == [1000.0, 1010.0, 1300.0, 1310.0]


def test_a_clock_that_was_set_ahead_is_one_gap() -> None:
    month = 30 * 86_400
    times = [*(1000.0 + second for second in range(12)), *(month + 1012.0 + second for second in range(12))]
    assert due_at(times, 1.0, 10.0) == {1.0: times, 10.0: [1000.0, 1010.0, month + 1012.0, month + 1022.0]}


def test_by_default_nothing_is_written_more_often_than_it_is_read() -> None:
    setting = InfluxdbSetting(url="http://h", bucket="b", periods_seconds={"slow": 10.0})
    sampling = Sampling(fast_seconds=5.0, links_seconds=2.0, slow_seconds=300.0, serving_seconds=15.0)
    chosen = make_selection(setting, sampling).periods_seconds
    # The longer of the two, but for what was configured.
    assert chosen == {Cadence.FAST: 5.0, Cadence.LINKS: 10.0, Cadence.SLOW: 10.0, Cadence.SERVING: 15.0}
    assert make_selection(setting).periods_seconds[Cadence.FAST] == 1.0

"""The bench's own arithmetic; what it measures is asserted by the bench itself, never by a test."""

from __future__ import annotations

import json
import os
import sys
import time
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from collector.catalog import BY_NAME
from collector.model import Series, SeriesTable, Snapshot
from exporters.snapshot import DocumentFormat, DocumentWriter
from tests.bench import processes, report
from tests.bench.errors import BenchError
from tests.bench.measuring import Capture, Measurement
from tests.bench.processes import Memory, Program
from tests.bench.rendering import Rendering, compare
from tests.bench.report import BEGIN, END, Results, Serving, put_between_markers
from tests.bench.scraping import count_series, percentile
from tests.bench.serving_engines import Page
from tests.serving_bodies import normalizer, only_model

MIB = 1024 * 1024


def measurement(**changes: object) -> Measurement:
    values: dict[str, object] = {
        "name": "rackwatt",
        "series": 1600,
        "seconds": 60.0,
        "cpu_percent": 0.7,
        "memory": Memory(96 * MIB, 90 * MIB),
        "processes": 2,
        "scrape_seconds": (0.003,) * 59 + (0.015,),
        "scrape_bytes": 20480,
        "exposition_bytes": 204800,
    }
    return Measurement(**(values | changes))  # type: ignore[arg-type] # the tests below give the right types


def results(agent: Measurement, rendering: Rendering | None = None) -> Results:
    # As a peer half as many series, twice the processor time.
    peer = measurement(name="nvitop-exporter 1.7.2", series=800, cpu_percent=1.4)
    serving = measurement(series=1900, cpu_percent=2.2, memory=Memory(120 * MIB, 110 * MIB))
    return Results(
        agent,
        rendering or Rendering(1600, 0.001, 0.010),
        peer,
        "A processor, 2 cores",
        "2026-01-31",
        Serving(serving, endpoints=8, lines=1090),
    )


def test_percentile_is_the_nearest_rank() -> None:
    values = [float(value) for value in range(100, 0, -1)]  # 1 to 100, worst first
    assert percentile(values, 0.50) == 50
    assert percentile(values, 0.99) == 99
    assert percentile(values[:60], 0.99) == 100  # of 60 values the greatest
    assert percentile([7.0], 0.50) == 7


@given(st.lists(st.floats(0, 1e9), min_size=1), st.floats(0.01, 1.0))
def test_percentile_covers_its_share_and_no_smaller_value_does(values: list[float], share: float) -> None:
    found = percentile(values, share)
    assert sum(value <= found for value in values) >= share * len(values)
    assert sum(value < found for value in values) < share * len(values)


def test_results_on_the_bounds_keep_them() -> None:
    assert report.broken_bounds(results(measurement())) == []


@pytest.mark.parametrize(
    ("changes", "line"),
    [
        ({"series": 1599}, "series in a scrape: 1,599, bound 1,600"),
        (
            {"cpu_percent": 0.71},
            "processor, agent and reader together: 0.71 % of a core, bound 0.70 % of a core",
        ),
        ({"memory": Memory(90 * MIB, 97 * MIB)}, "memory, all processes: 97.0 MiB, bound 96.0 MiB"),
        ({"scrape_seconds": (0.004,) * 60}, "scrape after a new Snapshot, p50: 4.00 ms, bound 3.00 ms"),
        (
            {"scrape_seconds": (0.001,) * 59 + (0.016,)},
            "scrape after a new Snapshot, p99: 16.00 ms, bound 15.00 ms",
        ),
    ],
)
def test_each_bound_can_break(changes: dict[str, object], line: str) -> None:
    assert report.broken_bounds(results(measurement(**changes))) == [line]


def test_rendering_must_be_ten_times_as_fast() -> None:
    broken = report.broken_bounds(results(measurement(), Rendering(1600, 0.0011, 0.010)))
    assert broken == ["rendering faster than `generate_latest`: 9.1 times, bound 10.0 times"]


def snapshot_document(power: float) -> dict[str, object]:
    gpus = [(str(index), f"GPU-{index}") for index in range(8)]
    snapshot = Snapshot(
        rack="r",
        node="n",
        agent_id="a",
        boot_id="b",
        sequence=1,
        time_ns=1,
        table=SeriesTable(tuple(Series(BY_NAME["gpu_power_watts"], gpu) for gpu in gpus)),
        values=(*[power] * 7, None),
        ages_seconds={"fast": 0.1},
        nvml_up=True,
    )
    document: dict[str, object] = json.loads(DocumentWriter().write(snapshot, DocumentFormat.JSON))
    return document


def test_both_renderers_get_the_series_that_the_agent_served() -> None:
    rendering = compare(Capture((snapshot_document(412.3), snapshot_document(413.3))))
    assert rendering.series == 7  # the absent value is no series
    assert rendering.ours_seconds > 0 < rendering.theirs_seconds


def test_a_renderer_that_would_have_nothing_to_do_is_not_measured() -> None:
    with pytest.raises(BenchError, match="the same values"):
        compare(Capture((snapshot_document(412.3), snapshot_document(412.3))))


def test_tables_say_what_was_measured_and_where() -> None:
    tables = report.markdown(results(measurement()))
    assert "| series in a scrape | 1,600 | ≥ 1,600 | yes |" in tables
    assert "| series | **2.00** | 1,600 | 800 |" in tables
    assert "| processor, % of a core | **0.50** | 0.70 | 1.40 |" in tables
    assert "A processor, 2 cores" in tables
    assert "2026-01-31" in tables
    assert "A driver's own time is not in these figures" in tables


def test_what_serving_adds_stands_beside_what_it_is_added_to() -> None:
    tables = report.markdown(results(measurement()))
    assert "| Reading 8 vLLM endpoints of 1,090 lines, every 5 s | added | without | with |" in tables
    assert "| series | **300** | 1,600 | 1,900 |" in tables
    assert "| processor, % of a core | **1.50** | 0.70 | 2.20 |" in tables
    assert "| memory, MiB | **24.0** | 96.0 | 120.0 |" in tables


def test_a_played_engine_has_the_size_of_a_real_one_and_goes_on_counting() -> None:
    page = Page()
    assert 1000 <= page.lines <= 1200
    assert page.text(1).count("\n") == page.lines
    reader = normalizer()
    first, second = (only_model(reader.read(page.text(times).encode())) for times in (1, 2))
    # The fixture's: 9,000 tokens of one rank and 4,500 of the other, 40 and 20 requests.
    counted = [model.values["llm_tokens_total", "generation"] for model in (first, second)]
    assert counted == [13500, 27000]
    assert [model.histograms["llm_time_to_first_token_seconds"].counts[-1] for model in (first, second)] == [
        60,
        120,
    ]
    assert (
        first.values["llm_kv_cache_usage_ratio", ""] == second.values["llm_kv_cache_usage_ratio", ""] == 0.75
    )


def test_tables_go_between_the_markers_and_nothing_else_changes() -> None:
    old = f"before\n{BEGIN}\nold\n{END}\nafter\n"
    assert put_between_markers(old, "new\n") == f"before\n{BEGIN}\nnew\n{END}\nafter\n"


@pytest.mark.parametrize("text", ["", BEGIN, f"{END}{BEGIN}", f"{BEGIN}{BEGIN}{END}"])
def test_wrong_markers_are_refused(text: str) -> None:
    with pytest.raises(BenchError, match="must each stand once"):
        put_between_markers(text, "new")


def test_series_are_counted_by_the_parser() -> None:
    assert count_series('# TYPE a gauge\na{b="1"} 1\na{b="2"} 2\n# TYPE c counter\nc_total 3\n') == 3


def test_processor_time_of_another_process_is_read_to_the_nanosecond() -> None:
    mine = processes.cpu_nanoseconds(os.getpid())
    sum(range(200_000))
    assert 0 < processes.cpu_nanoseconds(os.getpid()) - mine < 10_000_000_000
    assert processes.cpu_nanoseconds(os.getpid()) <= time.process_time_ns()


def test_a_missing_process_is_named() -> None:
    with pytest.raises(BenchError, match="process 4194305"):  # above the largest pid that Linux gives
        processes.cpu_nanoseconds(4194305)


def test_memory_alone_is_own_pages_and_shared_ones_once(monkeypatch: pytest.MonkeyPatch) -> None:
    def sizes(pss: int, private: int, shared: int) -> dict[str, int]:
        return {
            "Pss": pss,
            "Private_Clean": 0,
            "Private_Dirty": private,
            "Shared_Clean": shared,
            "Shared_Dirty": 0,
        }

    mappings = {
        1: [("/lib/python", sizes(10, 0, 30)), ("anonymous of 1", sizes(5, 5, 0))],
        2: [("/lib/python", sizes(10, 0, 24)), ("anonymous of 2", sizes(7, 7, 0))],
    }
    monkeypatch.setattr(processes, "_mappings", mappings.__getitem__)
    # PSS: a third of 30 KiB each, because a third process has the file too; alone the file counts once.
    assert processes.memory([1, 2]) == Memory((10 + 5 + 10 + 7) * 1024, (5 + 7 + 30) * 1024)


def test_own_memory_is_found() -> None:
    pss, alone = processes.memory([os.getpid()])
    assert 1 * MIB < pss <= alone < 4096 * MIB


def test_a_program_ends_with_its_children(tmp_path: Path) -> None:
    # The child outlives its parent unless somebody ends it.
    child = "import time; print('child', flush=True); time.sleep(60)"
    parent = f"import subprocess, sys; subprocess.run([sys.executable, '-c', {child!r}])"
    program = Program("sleeper", [sys.executable, "-c", parent], tmp_path / "log", {})
    with program:
        deadline = time.monotonic() + 30
        while "child" not in program.output() and time.monotonic() < deadline:
            time.sleep(0.02)
        pids = program.pids()
        assert len(pids) == 2
        program.check_alive()
    deadline = time.monotonic() + 30
    while any(_runs(pid) for pid in pids) and time.monotonic() < deadline:
        time.sleep(0.02)
    assert not any(_runs(pid) for pid in pids)
    with pytest.raises(BenchError, match=r"(?s)sleeper has ended.*child"):
        program.check_alive()


def _runs(pid: int) -> bool:
    """Whether a process runs; a zombie does not."""
    fields = processes._stat(pid)
    return bool(fields) and fields[0] != "Z"

"""The agent: Snapshots for every exporter, from its first message to its end, whatever breaks on the way."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable, Sequence
from pathlib import Path

import msgspec
import pytest

from collector.agent import Agent, Naming
from collector.deadlines import Deadlines
from collector.errors import ConfigurationError
from collector.model import Snapshot
from collector.protocols import Deliver, Exporter, Feed, Source
from collector.readings import Batch, Incident, Message
from collector.state import AgentState, StateStore
from tests.agent_http_client import Clock, run
from tests.feeds import DURATION, FIRST_TOKEN, ScriptedFeed
from tests.readings import HOST, LAYOUT, down, fed, reading, shown, sourced


class FakeSource:
    """Delivers what a test tells it to."""

    def __init__(self) -> None:
        self.restarts = 0
        self.held_by = ""
        self.closed = 0
        self.on_start: list[Message] = []

    async def start(self, deliver: Deliver) -> None:
        for message in self.on_start:
            deliver(message)

    async def release(self, reason: str) -> None:
        """Nothing is held."""

    async def resume(self) -> None:
        """Nothing is held."""

    async def close(self) -> None:
        self.closed += 1


class FakeExporter:
    """Keeps every Snapshot."""

    def __init__(self) -> None:
        self.snapshots: list[Snapshot] = []
        self.calls: list[str] = []

    def publish(self, snapshot: Snapshot) -> None:
        self.snapshots.append(snapshot)

    async def start(self) -> None:
        self.calls.append("start")

    async def close(self) -> None:
        self.calls.append("close")


class BrokenExporter(FakeExporter):
    """Fails in every way."""

    def publish(self, snapshot: Snapshot) -> None:
        raise ZeroDivisionError("a defect")

    async def close(self) -> None:
        raise ZeroDivisionError("a defect at the end")


def make_agent(
    *exporters: Exporter,
    source: Source | None = None,
    clock: Clock | None = None,
    naming: Naming | None = None,
    store: StateStore | None = None,
    deadlines: Deadlines | None = None,
    feeds: Sequence[Feed] = (),
) -> Agent:
    return Agent(
        source or FakeSource(),
        exporters,
        naming=naming or Naming("r01", "n03"),
        host=HOST,
        store=store or StateStore(None),
        deadlines=deadlines or Deadlines(),
        feeds=feeds,
        monotonic=clock or Clock(),
        wall_ns=lambda: 0,
    )


def test_every_exporter_gets_a_snapshot_a_reading_and_none_a_layout() -> None:
    exporters = FakeExporter(), FakeExporter()
    agent = make_agent(*exporters)
    agent.deliver(LAYOUT)
    assert exporters[0].snapshots == []
    agent.deliver(reading(1000.0))
    agent.deliver(reading(1000.0, [Batch(1, [100.0, 1.0])]))
    for exporter in exporters:
        assert [snapshot.sequence for snapshot in exporter.snapshots] == [1, 2]
        assert sourced(exporter.snapshots[0])["gpu_power_watts", ("0", "GPU-aaaa")] == 412.3
        assert sourced(exporter.snapshots[1])["gpu_power_watts", ("0", "GPU-aaaa")] == 100.0
        assert (exporter.snapshots[0].rack, exporter.snapshots[0].node) == ("r01", "n03")


def test_restarts_of_the_source_are_counted() -> None:
    exporter, source = FakeExporter(), FakeSource()
    agent = make_agent(exporter, source=source)
    agent.deliver(down(1000.0, "gone"))
    source.restarts = 2
    agent.deliver(down(1001.0, "gone"))
    assert [shown(snapshot)["agent_reader_restarts_total", ()] for snapshot in exporter.snapshots] == [0, 2]


def test_a_broken_exporter_costs_the_others_nothing(caplog: pytest.LogCaptureFixture) -> None:
    healthy = FakeExporter()
    agent = make_agent(BrokenExporter(), healthy)
    for second in range(3):
        agent.deliver(down(1000.0 + second, "gone"))
    assert len(healthy.snapshots) == 3
    complaints = [record for record in caplog.records if "BrokenExporter" in record.getMessage()]
    assert len(complaints) == 1, "a lasting defect is said once"
    assert complaints[0].exc_info is not None


def test_names_are_settled_once_and_stay(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO)
    exporter = FakeExporter()
    agent = make_agent(exporter, naming=Naming(None, "n07"))
    agent.deliver(down(1000.0, "no driver yet"))
    agent.deliver(LAYOUT)  # its chassis serial would have been the rack
    agent.deliver(reading(1000.0))
    assert {(each.rack, each.node) for each in exporter.snapshots} == {("unassigned", "n07")}
    assert caplog.text.count("this is node n07 of rack unassigned") == 1


def test_the_rack_is_called_after_the_chassis_where_nothing_else_names_it() -> None:
    exporter = FakeExporter()
    agent = make_agent(exporter, naming=Naming(None, None))
    agent.deliver(LAYOUT)
    agent.deliver(reading(1000.0))
    assert (exporter.snapshots[0].rack, exporter.snapshots[0].node) == ("1820000000001", "host-3")


def test_gpus_of_two_chassis_name_no_rack() -> None:
    first, second = LAYOUT.gpus
    other = msgspec.structs.replace(second, texts={"chassis_serial": "1820000000002"})
    exporter = FakeExporter()
    agent = make_agent(exporter, naming=Naming(None, None))
    agent.deliver(msgspec.structs.replace(LAYOUT, gpus=(first, other)))
    agent.deliver(reading(1000.0))
    assert exporter.snapshots[0].rack == "unassigned"


def test_names_and_gpus_are_remembered_but_not_that_there_is_no_name(tmp_path: Path) -> None:
    agent = make_agent(store=StateStore(tmp_path), naming=Naming("r01", None))
    agent.deliver(LAYOUT)
    assert StateStore(tmp_path).state == AgentState(rack="r01", node="host-3", gpus=LAYOUT.gpus)
    agent = make_agent(store=StateStore(tmp_path / "other"), naming=Naming(None, "n03"))
    agent.deliver(down(1000.0, "no driver yet"))
    agent.deliver(LAYOUT)
    assert StateStore(tmp_path / "other").state == AgentState(rack="", node="n03", gpus=LAYOUT.gpus)


def test_why_nvml_cannot_be_read_is_said_once_and_that_it_can_again(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO)
    agent = make_agent()
    for second in range(5):
        agent.deliver(down(1000.0 + second, "the NVIDIA kernel driver is not loaded"))
    agent.deliver(LAYOUT)
    for second in range(5, 8):
        agent.deliver(reading(1000.0 + second))
    assert caplog.text.count("NVML cannot be read: the NVIDIA kernel driver is not loaded") == 1
    assert caplog.text.count("NVML is read") == 1


def test_incidents_are_said(caplog: pytest.LogCaptureFixture) -> None:
    agent = make_agent()
    agent.deliver(LAYOUT)
    incidents = [Incident(1, "xid", "GPU-aaaa", 79), Incident(1, "gpu_lost", "")]
    agent.deliver(reading(1000.0, incidents=incidents))
    assert "xid on GPU-aaaa: 79" in caplog.text
    assert "gpu_lost on an unknown GPU" in caplog.text


async def until(condition: Callable[[], bool]) -> None:
    """Wait for a condition; `run` bounds it."""
    while not condition():  # noqa: ASYNC110 -- nothing tells of the condition, and the test is bounded
        await asyncio.sleep(0.005)


@pytest.fixture
def _quick_ticks(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("collector.agent._SLOW_TICK_SECONDS", 0.01)


def running(agent: Agent, check: Callable[[], Awaitable[None]]) -> None:
    """Run an agent until a check is through."""

    async def scenario() -> None:
        stop = asyncio.Event()
        task = asyncio.create_task(agent.run(stop))
        await check()
        stop.set()
        await task

    run(scenario)


@pytest.mark.usefixtures("_quick_ticks")
def test_a_silent_source_is_said_once_and_its_age_grows_until_values_go(
    caplog: pytest.LogCaptureFixture,
) -> None:
    clock, source, exporter = Clock(1000.0), FakeSource(), FakeExporter()
    source.on_start = [LAYOUT, reading(1000.0)]
    agent = make_agent(exporter, source=source, clock=clock)

    async def check() -> None:
        await until(lambda: exporter.snapshots != [])
        for seconds, up in ((1001.5, True), (1002.5, True), (1004.0, True), (1005.5, False), (1006.5, False)):
            clock.seconds = seconds
            await until(lambda: exporter.snapshots[-1].ages_seconds["fast"] == clock.seconds - 1000)
            assert exporter.snapshots[-1].nvml_up is up
            assert bool(sourced(exporter.snapshots[-1])) is up
        agent.deliver(reading(1006.5))
        assert exporter.snapshots[-1].nvml_up

    running(agent, check)
    assert caplog.text.count("the reader has been silent for 2.5 s; its data are stale") == 1
    assert caplog.text.count("silent") == 1


@pytest.mark.usefixtures("_quick_ticks")
def test_a_slow_cadence_still_gets_a_snapshot_a_second() -> None:
    # Exporters take an agent without Snapshots for 10 s for stuck, also where the fast cadence is 30 s.
    clock, source, exporter = Clock(1000.0), FakeSource(), FakeExporter()
    source.on_start = [LAYOUT, reading(1000.0)]
    agent = make_agent(exporter, source=source, clock=clock, deadlines=Deadlines.for_period(30.0))

    async def check() -> None:
        await until(lambda: exporter.snapshots != [])
        clock.seconds = 1001.1
        await until(lambda: len(exporter.snapshots) == 2)

    running(agent, check)
    assert exporter.snapshots[-1].nvml_up


@pytest.mark.usefixtures("_quick_ticks")
def test_nothing_is_published_before_the_first_message() -> None:
    exporter, clock = FakeExporter(), Clock()

    async def check() -> None:
        clock.seconds += 60
        await asyncio.sleep(0.05)

    running(make_agent(exporter, clock=clock), check)
    assert exporter.snapshots == []
    assert exporter.calls == ["start", "close"]


def test_an_exporter_that_cannot_start_ends_the_agent_and_the_rest_is_closed() -> None:
    class Unstartable(FakeExporter):
        async def start(self) -> None:
            raise ConfigurationError("listen: taken")

    source, first, last = FakeSource(), FakeExporter(), FakeExporter()
    agent = make_agent(first, Unstartable(), last, source=source)

    async def scenario() -> None:
        with pytest.raises(ConfigurationError, match="taken"):
            await agent.run(asyncio.Event())

    run(scenario)
    assert source.closed == 1
    assert first.calls == ["start", "close"]
    assert last.calls == []


def test_what_fails_or_hangs_while_it_closes_keeps_nobody_from_closing(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr("collector.agent._CLOSE_SECONDS", 0.05)

    class HangingSource(FakeSource):
        async def close(self) -> None:
            await asyncio.Event().wait()

    healthy = FakeExporter()

    async def check() -> None:
        await asyncio.sleep(0)

    running(make_agent(healthy, BrokenExporter(), source=HangingSource()), check)
    assert healthy.calls == ["start", "close"]
    assert "the reader did not close within" in caplog.text
    assert "BrokenExporter could not be closed" in caplog.text


class RecordingFeed(ScriptedFeed):
    """Notes in a list that it shares with others when it is started and closed."""

    def __init__(self, order: list[str]) -> None:
        super().__init__()
        self.order = order

    async def start(self) -> None:
        self.order.append("feed starts")

    async def close(self) -> None:
        self.order.append("feed closes")


class RecordingSource(FakeSource):
    """Notes in a list that it shares with others when it is started and closed."""

    def __init__(self, order: list[str]) -> None:
        super().__init__()
        self.order = order

    async def start(self, deliver: Deliver) -> None:
        self.order.append("source starts")
        await super().start(deliver)

    async def close(self) -> None:
        self.order.append("source closes")


def test_a_feed_lives_within_the_time_of_its_source() -> None:
    order: list[str] = []

    async def check() -> None:
        await asyncio.sleep(0)

    running(make_agent(source=RecordingSource(order), feeds=[RecordingFeed(order)]), check)
    assert order == ["source starts", "feed starts", "feed closes", "source closes"]


def test_exporters_get_what_feeds_have() -> None:
    exporter, feed = FakeExporter(), ScriptedFeed()
    agent = make_agent(exporter, feeds=[feed])
    agent.deliver(LAYOUT)
    agent.deliver(reading(1000.0))
    feed.set(2, 10_300.0)
    agent.deliver(reading(1001.0))
    first, second = exporter.snapshots
    key = ("llm_tokens_total", ("decode-0", "vllm", "deepseek-r1", "engine", "generation"))
    assert (fed(first)[key], fed(second)[key]) == (10_240.0, 10_300.0)
    assert second.histograms == (FIRST_TOKEN, DURATION)


def test_a_feed_that_cannot_start_or_close_keeps_nobody_from_it(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr("collector.agent._CLOSE_SECONDS", 0.05)

    class Unstartable(ScriptedFeed):
        async def start(self) -> None:
            raise ZeroDivisionError("a defect")

    class Hanging(ScriptedFeed):
        async def close(self) -> None:
            await asyncio.Event().wait()

    class Unclosable(ScriptedFeed):
        async def close(self) -> None:
            raise ZeroDivisionError("a defect at the end")

    unstartable, healthy, source = Unstartable(), ScriptedFeed(), FakeSource()

    async def check() -> None:
        await asyncio.sleep(0)

    running(make_agent(source=source, feeds=[unstartable, Hanging(), Unclosable(), healthy]), check)
    assert healthy.calls == ["start", "close"]
    assert unstartable.calls == ["close"]
    assert source.closed == 1
    assert "Unstartable cannot start" in caplog.text
    assert "Hanging did not close within" in caplog.text
    assert "Unclosable could not be closed" in caplog.text

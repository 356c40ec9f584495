"""The kernel log and an agent: a pipe in place of /dev/kmsg, restarts, reboots, writers that go away."""

from __future__ import annotations

import asyncio
import os
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from collector.agent import Agent, Naming
from collector.deadlines import Deadlines
from collector.identity import Host
from collector.model import Event, Snapshot, Value
from collector.protocols import Deliver
from collector.readings import Batch, Block, GpuIdentity, Incident, KernelRecord, Layout, Reading
from collector.sources.host.kmsg import DeviceFile, KernelLog
from collector.state import StateStore

GPU = GpuIdentity("GPU-a", 0, True, {"pci_bus_id": "00000000:3B:00.0"})
LAYOUT = Layout(
    generation=1,
    blocks=(Block("fast", (("gpu_up", ("0", "GPU-a")),)),),
    gpus=(GPU,),
    driver_version="580.1",
    cuda_version="13.0",
    platform="",
    gpus_expected=None,
)
LINE = "NVRM: Xid (PCI:0000:3b:00): 95, pid=1, name=a, Uncontained"


class Source:
    """Delivers nothing by itself."""

    restarts = 0
    held_by = ""

    async def start(self, deliver: Deliver) -> None:
        """Do nothing."""

    async def release(self, reason: str) -> None:
        """Do nothing."""

    async def resume(self) -> None:
        """Do nothing."""

    async def close(self) -> None:
        """Do nothing."""


class Newest:
    """Keeps the newest Snapshot."""

    snapshot: Snapshot | None = None

    def publish(self, snapshot: Snapshot) -> None:
        self.snapshot = snapshot

    async def start(self) -> None:
        """Do nothing."""

    async def close(self) -> None:
        """Do nothing."""


def an_agent(
    state: Path, boot_id: str = "boot-1", kernel_log: KernelLog | None = None
) -> tuple[Agent, Newest]:
    newest = Newest()
    agent = Agent(
        Source(),
        [newest],
        naming=Naming("r01", "n01"),
        host=Host("host", boot_id, "6.1", "0", "agent"),
        store=StateStore(state),
        deadlines=Deadlines(),
        kernel_log=kernel_log,
    )
    return agent, newest


def read(agent: Agent, *incidents: Incident) -> None:
    up = (Batch(0, [1]),)
    agent.deliver(Reading(taken_at=time.monotonic(), generation=1, up=True, batches=up, incidents=incidents))


def events(newest: Newest) -> list[tuple[str, int | None]]:
    assert newest.snapshot is not None
    return [(event.kind, event.code) for event in newest.snapshot.events]


def failed(newest: Newest, check: str) -> Value | None:
    assert newest.snapshot is not None
    pairs = zip(newest.snapshot.table.series, newest.snapshot.values, strict=True)
    return next(value for series, value in pairs if check in series.labels)


def record(sequence: int, text: str = LINE) -> KernelRecord:
    return KernelRecord(sequence, time.time_ns() - 30 * 10**9, text)


def finish(agent: Agent) -> None:
    """Let an agent end as it does when a signal stops it."""

    async def work() -> None:
        stop = asyncio.Event()
        stop.set()
        await agent.run(stop)

    asyncio.run(work())


def test_records_that_come_before_the_gpus_are_known_wait_for_them(tmp_path: Path) -> None:
    agent, newest = an_agent(tmp_path)
    agent.take_record(record(5))
    agent.deliver(LAYOUT)
    read(agent)
    assert events(newest) == [("xid", 95)]
    assert newest.snapshot is not None
    assert newest.snapshot.events[0].gpu_uuid == "GPU-a"
    assert failed(newest, "gpu_xid_fatal") == 1


def test_an_xid_of_the_last_second_is_published_before_the_exporters_close(tmp_path: Path) -> None:
    agent, newest = an_agent(tmp_path)
    agent.deliver(LAYOUT)
    read(agent)
    agent.take_record(record(5))
    assert events(newest) == []
    finish(agent)
    assert events(newest) == [("xid", 95)]


def test_an_xid_from_before_the_agent_has_its_own_time(tmp_path: Path) -> None:
    agent, newest = an_agent(tmp_path)
    agent.deliver(LAYOUT)
    old = KernelRecord(5, 1_764_504_000_000_000_000, LINE)
    agent.take_record(old)
    read(agent)
    assert newest.snapshot is not None
    assert newest.snapshot.events[0].time_ns == 1_764_504_000_000_000_000
    pairs = zip(newest.snapshot.table.series, newest.snapshot.values, strict=True)
    last_seen = next(value for series, value in pairs if "last_seen" in series.metric.name)
    assert last_seen == 1_764_504_000.0


def test_a_restart_within_a_boot_counts_nothing_twice_and_forgets_no_fatal_xid(tmp_path: Path) -> None:
    agent, newest = an_agent(tmp_path)
    agent.deliver(LAYOUT)
    agent.take_record(record(5))
    read(agent)
    finish(agent)

    agent, newest = an_agent(tmp_path)
    agent.deliver(LAYOUT)
    for sequence in (5, 6):  # the log is read from its beginning; one line came while no agent ran
        agent.take_record(record(sequence))
    read(agent)
    assert events(newest) == [("xid", 95)]
    finish(agent)

    agent, newest = an_agent(tmp_path)
    agent.deliver(LAYOUT)
    for sequence in (5, 6):
        agent.take_record(record(sequence))
    read(agent)
    assert events(newest) == []
    assert failed(newest, "gpu_xid_fatal") == 1


def test_after_a_boot_the_log_is_new(tmp_path: Path) -> None:
    agent, newest = an_agent(tmp_path)
    agent.deliver(LAYOUT)
    agent.take_record(record(500))
    read(agent)
    finish(agent)
    agent, newest = an_agent(tmp_path, boot_id="boot-2")
    agent.deliver(LAYOUT)
    read(agent)
    assert failed(newest, "gpu_xid_fatal") == 0
    agent.take_record(record(7))
    read(agent)
    assert events(newest) == [("xid", 95)]
    finish(agent)
    assert StateStore(tmp_path).state.kernel is not None
    agent, newest = an_agent(tmp_path, boot_id="boot-2")
    agent.deliver(LAYOUT)
    agent.take_record(record(7))
    read(agent)
    assert events(newest) == []


def test_the_mark_survives_a_change_of_the_inventory(tmp_path: Path) -> None:
    agent, _ = an_agent(tmp_path)
    agent.deliver(LAYOUT)
    agent.take_record(record(5))
    read(agent)
    finish(agent)
    agent, _ = an_agent(tmp_path)
    agent.deliver(LAYOUT)
    agent.deliver(Layout(2, (), (GPU, GpuIdentity("GPU-b", 1, True, {})), "580.1", "13.0", "", None))
    state = StateStore(tmp_path).state
    assert (len(state.gpus), state.kernel is not None and state.kernel.sequence) == (2, 5)


def test_nvml_and_the_kernel_log_make_one_event(tmp_path: Path) -> None:
    agent, newest = an_agent(tmp_path)
    agent.deliver(LAYOUT)
    now_ns = time.time_ns()
    agent.take_record(KernelRecord(1, now_ns, LINE))
    read(agent, Incident(now_ns + 10**9, "xid", "GPU-a", 95))
    assert events(newest) == [("xid", 95)]
    assert newest.snapshot is not None
    assert newest.snapshot.events[0].detail == "pid=1, name=a, Uncontained"


async def until(condition: Callable[[], bool]) -> None:
    for _ in range(500):
        if condition():
            return
        await asyncio.sleep(0.01)
    raise TimeoutError("it did not come within 5 s")


async def _run_over_a_pipe(tmp_path: Path) -> tuple[list[Event], int]:
    path = tmp_path / "kmsg"
    os.mkfifo(path)
    log = KernelLog(lambda: DeviceFile(path), poll_seconds=0.01)
    agent, newest = an_agent(tmp_path, kernel_log=log)
    stop = asyncio.Event()
    running = asyncio.create_task(agent.run(stop))
    await asyncio.sleep(0.05)  # at its end, as nobody writes
    agent.deliver(LAYOUT)
    uptime_us = time.monotonic_ns() // 1000
    for sequence in (1, 2):
        with path.open("wb", buffering=0) as file:  # a writer that comes and goes
            file.write(f"3,{sequence},{uptime_us},-;{LINE}\n".encode())

        def came(count: int = sequence) -> bool:
            read(agent)
            return newest.snapshot is not None and len(newest.snapshot.events) == count

        await until(came)
    stop.set()
    await running
    assert newest.snapshot is not None
    return list(newest.snapshot.events), log.lost


def test_an_agent_follows_a_pipe_whose_writer_comes_and_goes(tmp_path: Path) -> None:
    found, lost = asyncio.run(_run_over_a_pipe(tmp_path))
    assert [event.code for event in found] == [95, 95]
    assert lost == 0


def test_a_plain_file_is_followed_by_the_clock(tmp_path: Path) -> None:
    path = tmp_path / "kmsg"
    path.write_bytes(f"3,1,5,-;{LINE}\n".encode())
    records: list[KernelRecord] = []

    async def work() -> None:
        log = KernelLog(lambda: DeviceFile(path), poll_seconds=0.01)
        await log.start(records.append)
        await until(lambda: len(records) == 1)
        with path.open("ab") as file:
            file.write(f"3,2,6,-;{LINE}\n".encode())
        await until(lambda: len(records) == 2)
        await log.close()

    asyncio.run(work())
    assert [each.sequence for each in records] == [1, 2]


def test_an_agent_without_the_log_works_and_says_so_once(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    log = KernelLog(lambda: DeviceFile(tmp_path / "nothing"))
    agent, newest = an_agent(tmp_path, kernel_log=log)

    async def work() -> None:
        stop = asyncio.Event()
        running = asyncio.create_task(agent.run(stop))
        await asyncio.sleep(0.05)
        agent.deliver(LAYOUT)
        # Of two seconds ago: an event of NVML's waits 1.5 s for its line in the kernel log.
        read(agent, Incident(time.time_ns() - 2_000_000_000, "xid", "GPU-a", 31))
        stop.set()
        await running

    asyncio.run(work())
    assert events(newest) == [("xid", 31)]
    assert caplog.text.count("Xids come from NVML alone") == 1


def test_records_that_were_lost_are_exported(tmp_path: Path) -> None:
    log = KernelLog(lambda: DeviceFile(tmp_path / "nothing"))
    log.lost = 3
    agent, newest = an_agent(tmp_path, kernel_log=log)
    agent.deliver(LAYOUT)
    read(agent)
    assert failed(newest, "kernel_log_overrun") == 3

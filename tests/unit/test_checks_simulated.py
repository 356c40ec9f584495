"""Checks over whole simulated nodes, from NVML to Snapshot: healthy ones pass, faults are found."""

from __future__ import annotations

import time
from dataclasses import dataclass, field

import pytest

from collector import profiles
from collector.assembly import Assembly
from collector.cli.simulation import Simulation, open_simulated_log
from collector.deadlines import Deadlines
from collector.health.kernel_log import parse_xid
from collector.identity import Host, Names
from collector.model import CheckResult, Snapshot
from collector.readings import KernelRecord, Layout
from collector.simulator import WORKLOADS, SimulatedNode, parse_fault
from collector.sources.host.kmsg import RecordReader
from collector.sources.nvml.library import NvmlLibrary
from collector.sources.nvml.options import ReaderOptions
from collector.sources.nvml.reader import NvmlReader
from tests.nvml_node import HINTS, START, Clock


@dataclass
class Run:
    """A simulated node, its reader and its assembly on one clock."""

    platform: str
    faults: tuple[str, ...] = ()
    workload: str = "decode"
    level: str = "standard"
    clock: Clock = field(default_factory=Clock)

    def __post_init__(self) -> None:
        node = SimulatedNode(
            profiles.load(self.platform),
            workload=self.workload,
            faults=[parse_fault(text) for text in self.faults],
            clock=self.clock,
            sleep=self.clock.advance,
            wall_clock_ns=self.clock.wall_ns,
        )
        options = ReaderOptions(
            fast_seconds=1.0, links_seconds=10.0, slow_seconds=60.0, level=self.level, platforms=HINTS
        )
        self.reader = NvmlReader(
            lambda: NvmlLibrary(node.library), options, monotonic=self.clock, wall_ns=self.clock.wall_ns
        )
        self.assembly = Assembly(
            Names("r01", "n01"),
            Host("host", "boot", "6.1", "0", "agent"),
            Deadlines(),
            monotonic=self.clock,
            wall_ns=self.clock.wall_ns,
        )

    def go(self, seconds: int) -> Snapshot:
        """Let seconds pass, with a reading each."""
        for _ in range(seconds):
            self.clock.advance(1)
            for message in self.reader.step(self.clock()):
                if isinstance(message, Layout):
                    self.assembly.apply_layout(message)
                else:
                    self.assembly.apply_reading(message)
            snapshot = self.assembly.snapshot(0)
        return snapshot


def found(snapshot: Snapshot) -> set[tuple[str, str, bool]]:
    assert snapshot.checks is not None
    return {(check.check, check.gpu, check.failed) for check in snapshot.checks}


def result(snapshot: Snapshot, check: str, gpu: str) -> CheckResult:
    assert snapshot.checks is not None
    return next(each for each in snapshot.checks if (each.check, each.gpu) == (check, gpu))


def absent(snapshot: Snapshot) -> set[str]:
    """Checks of a GPU that have no value."""
    pairs = zip(snapshot.table.series, snapshot.values, strict=True)
    return {
        series.labels[2]
        for series, value in pairs
        if series.metric.name == "gpu_check_failed" and value is None
    }


@pytest.mark.parametrize("workload", WORKLOADS)
@pytest.mark.parametrize("platform", profiles.names())
def test_a_healthy_node_passes_every_check_that_it_supports(platform: str, workload: str) -> None:
    snapshot = Run(platform, workload=workload).go(75)
    assert snapshot.checks == ()
    # NVLink 4 has neither bit error ratios nor recoveries, and its fabric no health (facts/nvml.md).
    nvlink4 = {
        "nvlink_recovery_failed",
        "nvlink_symbol_ber",
        "nvlink_effective_ber",
        "gpu_fabric_unhealthy",
        "gpu_fabric_degraded",
    }
    # B200 reports neither routes nor configuration (its profile's health mask).
    unsupported = {"hgx-h100": nvlink4, "hgx-h200": nvlink4, "hgx-b200": {"gpu_fabric_unhealthy"}}
    assert absent(snapshot) == unsupported.get(platform, set())


def test_at_the_core_level_what_is_not_read_is_not_judged() -> None:
    snapshot = Run("gb300-nvl72", level="core").go(3)
    assert snapshot.checks == ()
    assert absent(snapshot) == {
        "gpu_clock_events",
        "gpu_pcie_link",
        "gpu_pcie_replays",
        "nvlink_recovery_failed",
        "nvlink_symbol_ber",
        "nvlink_effective_ber",
    }


def test_a_gpu_off_the_bus_and_back() -> None:
    run = Run("gb300-nvl72", ("gpu_lost:gpu=2,start=5,duration=20",))
    snapshot = run.go(15)
    assert found(snapshot) == {
        ("gpu_lost", "2", True),
        ("gpu_xid_fatal", "2", True),
        ("node_gpus_missing", "", True),
    }
    assert result(snapshot, "gpu_xid_fatal", "2").action == "reboot the node; then ask NVIDIA's support"
    assert found(run.go(30)) == set()


def test_a_link_that_goes_down() -> None:
    run = Run("gb300-nvl72", ("link_down:gpu=0,link=4,start=5",))
    snapshot = run.go(30)
    assert ("gpu_nvlinks_missing", "0", True) in found(snapshot)
    assert ("gpu_xid_fatal", "0", True) in found(snapshot)
    assert result(snapshot, "gpu_nvlinks_missing", "0").reason == "17 of 18 NVLinks are up: link 4 down"
    assert {gpu for _, gpu, _ in found(snapshot)} == {"0"}


def test_a_link_that_failed_to_recover_is_seen_once_it_is_back() -> None:
    run = Run("gb300-nvl72", ("link_down:gpu=0,link=4,start=5,duration=20",))
    snapshot = run.go(60)
    assert ("nvlink_recovery_failed", "0", True) in found(snapshot)
    assert ("gpu_nvlinks_missing", "0", True) not in found(snapshot)
    assert "link 4" in result(snapshot, "nvlink_recovery_failed", "0").reason


def test_an_uncorrectable_memory_error() -> None:
    snapshot = Run("hgx-h100", ("ecc_uncorrectable:gpu=3,start=5",)).go(30)
    assert found(snapshot) >= {("gpu_ecc_uncorrected", "3", True), ("gpu_row_remap_pending", "3", True)}
    assert {gpu for _, gpu, _ in found(snapshot)} == {"3"}


def test_a_thermal_slowdown_is_a_warning() -> None:
    snapshot = Run("gb300-nvl72", ("thermal_slowdown:gpu=1,start=5",)).go(8 * 60)
    assert snapshot.checks is not None
    assert {("gpu_clock_events", "1", True), ("gpu_temperature_margin", "1", True)} <= found(snapshot)
    assert {check.impact for check in snapshot.checks} == {"warn"}


def test_an_application_s_xid_changes_nothing() -> None:
    run = Run("gb300-nvl72", ("xid:gpu=1,code=43,start=5", "xid:gpu=1,code=13,start=6"))
    snapshot = run.go(20)
    assert [event.code for event in snapshot.events] == [43, 13]
    assert found(snapshot) == set()


def test_a_driver_that_is_away_leaves_every_gpu_unknown_and_none_missing() -> None:
    run = Run("gb300-nvl72", ("driver_unloaded:start=5,duration=30", "xid:gpu=0,code=95,start=3"))
    run.go(4)
    snapshot = run.go(6)
    assert not snapshot.nvml_up
    assert found(snapshot) == {
        ("gpu_lost", "0", False),
        ("gpu_xid_fatal", "0", True),
        ("gpu_lost", "1", False),
        ("gpu_lost", "2", False),
        ("gpu_lost", "3", False),
        ("node_gpus_missing", "", False),
    }
    # Loaded anew, the driver has reset what was wrong.
    assert found(run.go(60)) == set()


def test_the_simulated_kernel_log_tells_what_the_library_does(monkeypatch: pytest.MonkeyPatch) -> None:
    run = Run("gb300-nvl72", ("link_down:gpu=0,link=4,start=5", "gpu_lost:gpu=2,start=6"))
    simulation = Simulation(
        platform="gb300-nvl72", faults=run.faults, started_at=START, started_wall_ns=run.clock.wall_ns()
    )
    monkeypatch.setattr(time, "monotonic", lambda: START + 60)
    log, reader = open_simulated_log(simulation), RecordReader()
    snapshot = run.go(20)
    for raw in (*reader.feed(log.read()), *reader.feed(log.read())):
        line = parse_xid(raw.text.decode())
        assert line is not None
        time_ns = run.clock.wall_ns() - round((run.clock.now * 1e6 - raw.microseconds) * 1000)
        record = KernelRecord(raw.sequence, time_ns, raw.text.decode())
        run.assembly.apply_kernel_xid(line, record, counted=False)
    with pytest.raises(BlockingIOError):
        log.read()
    assert [(event.kind, event.code) for event in snapshot.events if event.kind == "xid"] == [
        ("xid", 149),
        ("xid", 79),
    ]
    joined = [event for event in run.go(1).events if event.kind == "xid"]
    assert [(event.code, event.gpu, event.subcode, event.link) for event in joined] == [
        (149, "0", "NETIR_LINK_EVT", 4),
        (79, "2", "", None),
    ]
    assert [event.time_ns - simulation.started_wall_ns for event in joined] == [5 * 10**9, 6 * 10**9]

"""Sensors of simulated Grace CPUs: in the shape of Linux's files, and never at odds with what NVML tells."""

from __future__ import annotations

import asyncio

import pytest

from collector.model import Value
from collector.simulator import Fault, FaultKind
from collector.simulator.hwmon import SimulatedSensors
from collector.sources.host.sensor_files import PowerSensor, SensorTree, identify, read_watts
from tests.hwmon_feed import FeedWatch
from tests.nvml_node import NodeWatch, watch

GRACE, CORES, SYSIO = "cpu_power_watts", "cpu_cores_power_watts", "cpu_sysio_power_watts"
NVL72 = pytest.mark.parametrize("platform", ["gb300-nvl72", "gb200-nvl72"])
HGX = pytest.mark.parametrize("platform", ["hgx-b200", "hgx-h200", "hgx-h100"])
WORKLOADS = pytest.mark.parametrize("workload", ["idle", "decode", "prefill", "training"])


def sensors(tree: SensorTree) -> list[PowerSensor]:
    found = (identify(tree, directory) for directory in tree.directories())
    return [sensor for sensor in found if sensor is not None]


def watts(node: NodeWatch) -> dict[tuple[str, str], float | None]:
    tree = SimulatedSensors(node.node)
    return {(each.metric.name, each.socket): read_watts(tree, each) for each in sensors(tree)}


@NVL72
def test_a_tray_has_two_sockets_of_three_meters(platform: str) -> None:
    node = watch(platform)
    assert list(watts(node)) == [(name, socket) for socket in "01" for name in (GRACE, CORES, SYSIO)]


@HGX
def test_other_nodes_have_other_sensors(platform: str) -> None:
    tree = SimulatedSensors(watch(platform).node)
    assert list(tree.directories()) == ["hwmon0"]
    assert tree.read("hwmon0", "name", 64) == b"nvme\n"
    assert sensors(tree) == []


def test_files_are_those_of_linux() -> None:
    tree = SimulatedSensors(watch("gb300-nvl72").node)
    # NVIDIA Grace Performance Tuning Guide, "Power and Thermals": hwmonN/device/power1_*.
    assert tree.read("hwmon1", "device/name", 64) == b"power_meter\n"
    assert tree.read("hwmon1", "device/power1_oem_info", 64) == b"Grace Power Socket 0\n"
    assert tree.read("hwmon1", "device/power1_average_interval", 64) == b"1000\n"
    power = tree.read("hwmon1", "device/power1_average", 64)
    assert power.endswith(b"000\n")  # microwatts, from milliwatts
    assert tree.read("hwmon1", "device/power1_average", 5) == power[:5]


@pytest.mark.parametrize(("directory", "file"), [("hwmon1", "name"), ("hwmon99", "name"), ("hwmon0", "x")])
def test_a_file_that_is_not_there_is_not_found(directory: str, file: str) -> None:
    with pytest.raises(FileNotFoundError, match=f"{directory}/{file}"):
        SimulatedSensors(watch("gb300-nvl72").node).read(directory, file, 64)


def nvml_remainder(node: NodeWatch, socket: int) -> float:
    """Return a module's power without its GPUs', as NVML tells both."""
    gpus = [node.gpu("gpu_power_watts", 2 * socket + place) for place in (0, 1)]
    module = node.value("module_power_watts", node.node.gpus[2 * socket].identity.serial)
    assert module is not None
    return module - sum(power for power in gpus if power is not None)


@NVL72
@WORKLOADS
def test_grace_is_the_module_without_its_gpus_as_nvml_tells_both(platform: str, workload: str) -> None:
    node = watch(platform, workload=workload)
    for seconds in (1.0, 1.0, 1.25, 7.5):
        node.step(seconds)
        found = watts(node)
        for socket in (0, 1):
            grace = found[GRACE, str(socket)]
            assert grace == pytest.approx(
                nvml_remainder(node, socket), abs=0.0025
            )  # NVML rounds to 1 mW, thrice


@NVL72
@WORKLOADS
def test_rails_are_parts_of_the_socket(platform: str, workload: str) -> None:
    node = watch(platform, workload=workload)
    node.run(5)
    found = watts(node)
    for socket in "01":
        grace, cores, sysio = (found[name, socket] for name in (GRACE, CORES, SYSIO))
        assert grace is not None
        assert cores is not None
        assert sysio is not None
        # 51 to 56 W and 6.1 to 6.6 W of 98 to 109 W (NVIDIA/srt-slurm pull request 481).
        assert 51 / 109 < cores / grace < 56 / 98
        assert 6.1 / 109 < sysio / grace < 6.6 / 98


def test_a_node_tells_the_same_wherever_it_is_made_and_however_it_is_polled() -> None:
    often, once = watch("gb300-nvl72", workload="prefill"), watch("gb300-nvl72", workload="prefill")
    for _ in range(30):
        often.clock.advance(1.0)
        watts(often)
    once.clock.advance(30.0)
    assert watts(often) == watts(once)


def test_the_host_goes_on_without_its_driver_and_without_a_gpu() -> None:
    faults = [Fault(FaultKind.DRIVER_UNLOADED, 5, 10), Fault(FaultKind.GPU_LOST, 20, 10, gpu=0)]
    node = watch("gb300-nvl72", faults=faults)
    for _ in range(30):
        node.step()
        for value in watts(node).values():
            assert value is not None
            assert 5 < value < 300


def test_the_shipped_feed_reads_them() -> None:
    node = watch("gb300-nvl72", workload="decode")
    node.run(10)
    expected: dict[tuple[str, str], Value | None] = dict(watts(node))

    async def story() -> None:
        feed = FeedWatch(SimulatedSensors(node.node))
        await feed.feed.start()
        await feed.run(lambda: feed.values() == expected)
        await feed.feed.close()

    asyncio.run(story())

"""Power of Grace CPUs from the files of Linux: which sensors, what is believed, how long it is shown."""

from __future__ import annotations

import asyncio
import logging
import os
from collections.abc import Sequence
from pathlib import Path

import pytest

from collector.catalog.spec import Entity, Level
from collector.sources.host.hwmon import HwmonFeed
from collector.sources.host.sensor_files import HwmonTree, PowerSensor, identify, read_watts
from tests.hwmon_feed import FeedWatch, Jobs, eventually, power_meter

GRACE, CORES, SYSIO = "cpu_power_watts", "cpu_cores_power_watts", "cpu_sysio_power_watts"


def sensor_of(root: Path, number: int = 1) -> PowerSensor:
    sensor = identify(HwmonTree(root), f"hwmon{number}")
    assert sensor is not None
    return sensor


# Which sensors there are.


@pytest.mark.parametrize("moved", [False, True], ids=["in device/", "moved"])
@pytest.mark.parametrize(
    ("info", "name", "socket"),
    [
        # NVIDIA Grace Performance Tuning Guide, "Power and Thermals".
        ("Grace Power Socket 0", GRACE, "0"),
        ("CPU Power Socket 1", CORES, "1"),
        ("SysIO Power Socket 3", SYSIO, "3"),
    ],
)
def test_sensors_are_told_by_their_text(
    tmp_path: Path, info: str, name: str, socket: str, moved: bool
) -> None:
    power_meter(tmp_path, 1, info, 104_312_000, moved=moved)
    sensor = sensor_of(tmp_path)
    assert (sensor.metric.name, sensor.socket) == (name, socket)
    assert (sensor.metric.entity, sensor.metric.level) == (Entity.CPU, Level.STANDARD)
    assert read_watts(HwmonTree(tmp_path), sensor) == 104.312


@pytest.mark.parametrize(
    "info",
    [
        "Module Power Socket 0",  # of a Grace Hopper: NVML's to tell
        "Grace Power Socket",
        "Grace Power Socket x",
        "Grace Power Socket 0 and more",
        "grace power socket 0",
        "Grace Power Socket ٣",
        "Grace Power Socket 123456",
        "",
        "x" * 5000,
    ],
)
def test_other_texts_are_no_sensor(tmp_path: Path, info: str) -> None:
    power_meter(tmp_path, 1, info, 1_000_000)
    assert identify(HwmonTree(tmp_path), "hwmon1") is None


def test_bytes_that_are_no_text_are_no_sensor(tmp_path: Path) -> None:
    power_meter(tmp_path, 1, "Grace Power Socket 0", 1_000_000)
    (tmp_path / "hwmon1" / "device" / "power1_oem_info").write_bytes(b"Grace Power Socket 0\xff\x00")
    assert identify(HwmonTree(tmp_path), "hwmon1") is None


def test_devices_of_other_drivers_are_no_sensor(tmp_path: Path) -> None:
    power_meter(tmp_path, 1, "Grace Power Socket 0", 1_000_000)
    (tmp_path / "hwmon1" / "device" / "name").write_text("coretemp\n")
    assert identify(HwmonTree(tmp_path), "hwmon1") is None


def test_a_meter_without_a_text_is_no_sensor(tmp_path: Path) -> None:
    power_meter(tmp_path, 1, "Grace Power Socket 0", 1_000_000)
    (tmp_path / "hwmon1" / "device" / "power1_oem_info").unlink()
    assert identify(HwmonTree(tmp_path), "hwmon1") is None


def test_directories_are_in_the_order_of_their_numbers_and_bounded(tmp_path: Path) -> None:
    for number in range(300):
        (tmp_path / f"hwmon{number}").mkdir()
    for other in ("hwmon", "hwmonx", "thermal0", "hwmon1234567"):
        (tmp_path / other).mkdir()
    assert list(HwmonTree(tmp_path).directories()) == [f"hwmon{number}" for number in range(256)]


def test_sensors_are_links_in_sysfs(tmp_path: Path) -> None:
    power_meter(tmp_path / "devices", 1, "Grace Power Socket 0", 1_000_000)
    (tmp_path / "class").mkdir()
    os.symlink(tmp_path / "devices" / "hwmon1", tmp_path / "class" / "hwmon1")
    assert list(HwmonTree(tmp_path / "class").directories()) == ["hwmon1"]
    assert sensor_of(tmp_path / "class").metric.name == GRACE


# What is believed.


@pytest.mark.parametrize(
    ("content", "watts"),
    [
        ("104312000", 104.312),
        ("1", 0.000001),
        ("5000000000", 5000.0),  # the catalogue's maximum
        ("5000000001", None),
        ("4294967295000", None),  # 0xFFFFFFFF mW: the firmware could not measure (edk2-nvidia)
        ("0", None),  # nothing measured yet (edk2-nvidia)
        ("-1000000", None),
        ("1e6", None),
        ("1000000.5", None),
        ("٣٣", None),
        ("unknown", None),
        ("", None),
        ("12 34", None),
        ("9" * 10_000, None),
    ],
)
def test_only_power_that_can_be_is_believed(tmp_path: Path, content: str, watts: float | None) -> None:
    power_meter(tmp_path, 1, "Grace Power Socket 0", content)
    assert read_watts(HwmonTree(tmp_path), sensor_of(tmp_path)) == watts


class Noting:
    """A tree that notes what it is asked for.

    Attributes:
        limits: Bytes asked for, by file.
    """

    def __init__(self, root: Path) -> None:
        self._tree = HwmonTree(root)
        self.limits: dict[str, int] = {}

    def directories(self) -> Sequence[str]:
        return self._tree.directories()

    def read(self, directory: str, file: str, limit: int) -> bytes:
        self.limits[file] = limit
        return self._tree.read(directory, file, limit)


def test_what_is_read_is_bounded(tmp_path: Path) -> None:
    power_meter(tmp_path, 1, "Grace Power Socket 0", 1_000_000)
    tree = Noting(tmp_path)
    sensor = identify(tree, "hwmon1")
    assert sensor is not None
    read_watts(tree, sensor)
    del tree.limits["name"], tree.limits["power1_oem_info"]  # where they are not
    assert tree.limits == {
        "device/name": 256,
        "device/power1_oem_info": 256,
        "device/power1_average": 64,
    }


# The feed.


def a_node(root: Path) -> dict[str, Path]:
    """Make two sockets, and sensors of others."""
    (root / "hwmon0").mkdir(parents=True)
    (root / "hwmon0" / "name").write_text("nvme\n")
    texts = [
        f"{kind} Power Socket {socket}" for socket in (1, 0) for kind in ("SysIO", "CPU", "Grace", "Module")
    ]
    return {text: power_meter(root, 1 + at, text, (100 + at) * 1_000_000) for at, text in enumerate(texts)}


def test_rows_are_those_of_the_catalogue_in_its_order(tmp_path: Path) -> None:
    a_node(tmp_path)

    async def story() -> None:
        watch = FeedWatch(HwmonTree(tmp_path))
        assert list(watch.feed.rows()) == []
        await watch.feed.start()
        assert [seconds for seconds, _ in watch.jobs.jobs.values()] == [5.0]
        await watch.run(lambda: None not in watch.values().values() and len(watch.values()) == 6)
        assert list(watch.values().items()) == [
            ((GRACE, "0"), 106.0),
            ((GRACE, "1"), 102.0),
            ((CORES, "0"), 105.0),
            ((CORES, "1"), 101.0),
            ((SYSIO, "0"), 104.0),
            ((SYSIO, "1"), 100.0),
        ]
        assert watch.feed.revision == 1
        assert list(watch.feed.histograms()) == []
        await watch.feed.close()
        assert watch.jobs.jobs == {}

    asyncio.run(story())


def test_values_follow_the_files_and_the_series_stay(tmp_path: Path) -> None:
    files = a_node(tmp_path)

    async def story() -> None:
        watch = FeedWatch(HwmonTree(tmp_path))
        await watch.feed.start()
        await watch.run(lambda: watch.values().get((SYSIO, "1")) == 100.0)
        for microwatts, watts in ((7_500_000, 7.5), (8_000_000, 8.0)):
            files["SysIO Power Socket 1"].write_text(f"{microwatts}\n")
            await watch.run(lambda watts=watts: watch.values()[SYSIO, "1"] == watts, 5.0)  # type: ignore[misc] # mypy does not infer a lambda's default
        assert watch.feed.revision == 1

    asyncio.run(story())


def test_what_cannot_be_read_is_unknown_at_once_and_costs_nothing_else(tmp_path: Path) -> None:
    files = a_node(tmp_path)

    async def story() -> None:
        watch = FeedWatch(HwmonTree(tmp_path))
        await watch.feed.start()
        await watch.run(lambda: watch.values().get((SYSIO, "1")) == 100.0)
        files["Grace Power Socket 0"].unlink()
        files["CPU Power Socket 0"].write_text("4294967295000\n")
        files["SysIO Power Socket 1"].write_text("99000000\n")
        await watch.run(lambda: watch.values()[SYSIO, "1"] == 99.0, 5.0)
        assert [key for key, value in watch.values().items() if value is None] == [(GRACE, "0"), (CORES, "0")]

    asyncio.run(story())


def test_values_are_shown_for_three_periods(tmp_path: Path) -> None:
    a_node(tmp_path)

    async def story() -> None:
        watch = FeedWatch(HwmonTree(tmp_path))
        await watch.feed.start()
        await watch.run(lambda: watch.values().get((SYSIO, "1")) == 100.0)
        watch.now += 15.0
        assert watch.values()[SYSIO, "1"] == 100.0
        watch.now += 0.1
        assert set(watch.values().values()) == {None}
        assert len(watch.values()) == 6

    asyncio.run(story())


def test_sensors_are_looked_for_again_each_minute(tmp_path: Path) -> None:
    power_meter(tmp_path, 1, "Grace Power Socket 0", 100_000_000)

    async def story() -> None:
        watch = FeedWatch(HwmonTree(tmp_path))
        await watch.feed.start()
        await watch.run(lambda: watch.values() == {(GRACE, "0"): 100.0})
        power_meter(tmp_path, 2, "Grace Power Socket 1", 200_000_000)
        for _ in range(11):
            await watch.run(lambda: watch.feed._readings[watch.feed._sensors[0]][0] == watch.now, 5.0)
            assert len(watch.values()) == 1
        await watch.run(lambda: watch.values() == {(GRACE, "0"): 100.0, (GRACE, "1"): 200.0}, 5.0)
        assert watch.feed.revision == 2
        # Loaded anew, the driver numbers its devices in another way.
        os.rename(tmp_path / "hwmon1", tmp_path / "hwmon7")
        await watch.run(lambda: watch.values() == {(GRACE, "0"): 100.0, (GRACE, "1"): 200.0}, 60.0)

    asyncio.run(story())


def test_sensors_that_are_gone_have_no_series(tmp_path: Path) -> None:
    power_meter(tmp_path, 1, "Grace Power Socket 0", 100_000_000)

    async def story() -> None:
        watch = FeedWatch(HwmonTree(tmp_path))
        await watch.feed.start()
        await watch.run(lambda: watch.values() == {(GRACE, "0"): 100.0})
        os.rename(tmp_path / "hwmon1", tmp_path / "gone")
        await watch.run(lambda: watch.values() == {(GRACE, "0"): None}, 5.0)
        await watch.run(lambda: watch.values() == {}, 60.0)
        assert watch.feed.revision == 2

    asyncio.run(story())


def test_of_two_meters_of_the_same_the_first_counts(tmp_path: Path) -> None:
    power_meter(tmp_path, 10, "Grace Power Socket 0", 200_000_000)
    power_meter(tmp_path, 9, "Grace Power Socket 0", 100_000_000)

    async def story() -> None:
        watch = FeedWatch(HwmonTree(tmp_path))
        await watch.feed.start()
        await watch.run(lambda: watch.values() == {(GRACE, "0"): 100.0})

    asyncio.run(story())


@pytest.mark.parametrize("exists", [True, False])
def test_without_sensors_there_are_no_rows_and_nothing_is_said(
    tmp_path: Path, exists: bool, caplog: pytest.LogCaptureFixture
) -> None:
    root = tmp_path if exists else tmp_path / "none"
    caplog.set_level(logging.DEBUG, "rackwatt")

    async def story() -> None:
        watch = FeedWatch(HwmonTree(root))
        await watch.feed.start()
        for _ in range(3):
            await watch.run(lambda: watch.feed._discover_at == watch.now + 60, 60.0)
        assert watch.values() == {}
        assert watch.feed.revision == 0

    asyncio.run(story())
    lines = [record for record in caplog.records if record.name.startswith("rackwatt")]
    assert {record.levelno for record in lines} == {logging.DEBUG}
    assert sum("no sensors of a Grace CPU" in record.message for record in lines) == 1


class Forbidden:
    """Sensors whose power may not be read."""

    def __init__(self, root: Path) -> None:
        self._tree = HwmonTree(root)

    def directories(self) -> Sequence[str]:
        return self._tree.directories()

    def read(self, directory: str, file: str, limit: int) -> bytes:
        if file.endswith("power1_average"):
            raise PermissionError(13, "Permission denied", f"/sys/class/hwmon/{directory}/{file}")
        return self._tree.read(directory, file, limit)


def test_a_missing_permission_is_said_once(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    a_node(tmp_path)

    async def story() -> None:
        watch = FeedWatch(Forbidden(tmp_path))
        await watch.feed.start()
        for _ in range(3):
            await watch.run(lambda: len(watch.feed._readings) == 6, 5.0)
        assert set(watch.values().values()) == {None}
        await watch.run(lambda: bool(caplog.records), 5.0)

    asyncio.run(story())
    (record,) = [record for record in caplog.records if record.levelno >= logging.WARNING]
    assert record.message == (
        "/sys/class/hwmon/hwmon7/device/power1_average may not be read: power of the CPU is not known; "
        "let the agent's user read it"
    )


def test_readings_are_spaced(tmp_path: Path) -> None:
    a_node(tmp_path)
    pauses: list[float] = []

    async def story() -> None:
        jobs = Jobs()
        feed = HwmonFeed(jobs, HwmonTree(tmp_path), pause=pauses.append)
        await feed.start()
        await jobs.run()
        await eventually(
            lambda: [value for _, value in feed.rows()] == [106.0, 102.0, 105.0, 101.0, 104.0, 100.0]
        )

    asyncio.run(story())
    # More than 50 ms, within which the firmware repeats itself (edk2-nvidia).
    assert pauses == [0.06] * 6

"""Sensors that hang or are slow cost their own series and a thread each at most, never the event loop."""

from __future__ import annotations

import asyncio
import os
import subprocess
import sys
import threading
import time
from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

import pytest

from collector.schedule import Schedule
from collector.sources.host.hwmon import HwmonFeed
from collector.sources.host.rounds import Rounds
from collector.sources.host.sensor_files import HwmonTree
from tests.hwmon_feed import DEADLINE_SECONDS, FeedWatch, eventually, power_meter

GRACE, CORES, SYSIO = "cpu_power_watts", "cpu_cores_power_watts", "cpu_sysio_power_watts"
THREAD = "rackwatt-host"


def threads() -> int:
    return sum(thread.name == THREAD for thread in threading.enumerate())


class Stubborn:
    """A tree in which some files, or the list of directories, hang until a test lets go.

    Attributes:
        hanging: What hangs: `directory/file`, or `list`.
        asked: How often each was asked for.
    """

    def __init__(self, root: Path) -> None:
        self._tree = HwmonTree(root)
        self._released = threading.Condition()
        self.hanging: set[str] = set()
        self.asked: Counter[str] = Counter()

    def _wait(self, what: str) -> None:
        self.asked[what] += 1
        with self._released:
            released = self._released.wait_for(lambda: what not in self.hanging, DEADLINE_SECONDS)
        assert released, f"{what} was never let go"

    def let_go(self) -> None:
        """Let everything that hangs go on."""
        with self._released:
            self.hanging.clear()
            self._released.notify_all()

    def directories(self) -> Sequence[str]:
        self._wait("list")
        return self._tree.directories()

    def read(self, directory: str, file: str, limit: int) -> bytes:
        self._wait(f"{directory}/{file}")
        return self._tree.read(directory, file, limit)


@pytest.fixture
def tree(tmp_path: Path) -> Iterator[Stubborn]:
    """Make a socket with three sensors; at the end nothing hangs any more."""
    for number, kind in enumerate(("Grace", "CPU", "SysIO"), start=1):
        power_meter(tmp_path, number, f"{kind} Power Socket 0", number * 10_000_000)
    tree = Stubborn(tmp_path)
    yield tree
    tree.let_go()
    deadline = time.monotonic() + DEADLINE_SECONDS
    while threads() and time.monotonic() < deadline:
        time.sleep(0.005)
    assert threads() == 0


ALL = {(GRACE, "0"): 10.0, (CORES, "0"): 20.0, (SYSIO, "0"): 30.0}


def test_a_sensor_that_hangs_costs_its_own_series_and_one_thread(tree: Stubborn) -> None:
    async def story() -> None:
        watch = FeedWatch(tree)
        await watch.feed.start()
        await watch.run(lambda: watch.values() == ALL)
        tree.hanging.add("hwmon1/device/power1_average")
        await watch.run(lambda: tree.asked["hwmon1/device/power1_average"] == 2, 5.0)
        for rounds in range(1, 13):
            await watch.run(lambda: tree.asked["hwmon3/device/power1_average"] == 1 + rounds, 5.0)  # noqa: B023 - waited for within the turn
            await eventually(lambda: threads() == 1)
        assert watch.values() == {(GRACE, "0"): None, (CORES, "0"): 20.0, (SYSIO, "0"): 30.0}
        assert tree.asked["hwmon1/device/power1_average"] == 2
        tree.let_go()
        await eventually(lambda: threads() == 0)
        # What came so late says nothing of now; the next round does.
        assert watch.values()[GRACE, "0"] is None
        await watch.run(lambda: watch.values() == ALL, 5.0)
        await watch.feed.close()

    asyncio.run(story())


def test_three_that_hang_keep_three_threads(tree: Stubborn) -> None:
    async def story() -> None:
        watch = FeedWatch(tree)
        await watch.feed.start()
        await watch.run(lambda: watch.values() == ALL)
        tree.hanging |= {f"hwmon{number}/device/power1_average" for number in (1, 2, 3)}
        for _ in range(20):
            await watch.run(lambda: threads() <= 3, 5.0)
        await eventually(lambda: threads() == 3)
        assert set(watch.values().values()) == {None}
        tree.let_go()
        await eventually(lambda: threads() == 0)
        await watch.run(lambda: watch.values() == ALL, 5.0)

    asyncio.run(story())


def test_a_text_that_hangs_does_not_keep_the_others_from_being_found(tree: Stubborn) -> None:
    tree.hanging.add("hwmon1/name")

    async def story() -> None:
        watch = FeedWatch(tree)
        await watch.feed.start()
        await watch.run(lambda: tree.asked["hwmon1/name"] == 1)
        await watch.run(lambda: watch.values() == {(CORES, "0"): 20.0, (SYSIO, "0"): 30.0}, 5.0)
        tree.let_go()
        await eventually(lambda: threads() == 0)
        await watch.run(lambda: watch.values() == ALL, 60.0)

    asyncio.run(story())


def test_a_text_that_hangs_later_does_not_make_its_sensor_unknown_to_be_there(tree: Stubborn) -> None:
    async def story() -> None:
        watch = FeedWatch(tree)
        await watch.feed.start()
        await watch.run(lambda: watch.values() == ALL)
        tree.hanging.add("hwmon1/name")
        await watch.run(lambda: tree.asked["hwmon1/name"] == 2, 60.0)
        await watch.run(lambda: watch.values() == {**ALL, (GRACE, "0"): None}, 5.0)

    asyncio.run(story())


def test_a_list_that_hangs_leaves_the_sensors_that_are_known(tree: Stubborn) -> None:
    async def story() -> None:
        watch = FeedWatch(tree)
        await watch.feed.start()
        await watch.run(lambda: watch.values() == ALL)
        tree.hanging.add("list")
        await watch.run(lambda: tree.asked["list"] == 2, 60.0)
        for rounds in range(1, 16):
            await watch.run(lambda: tree.asked["hwmon3/device/power1_average"] == 1 + rounds, 5.0)  # noqa: B023 - waited for within the turn
            await eventually(lambda: watch.values() == ALL and threads() == 1)
        assert tree.asked["list"] == 2

    asyncio.run(story())


def test_a_slow_round_is_not_begun_again(tree: Stubborn) -> None:
    async def story() -> None:
        watch = FeedWatch(tree)
        await watch.feed.start()
        tree.hanging.add("hwmon2/device/power1_average")
        await watch.run(lambda: tree.asked["hwmon2/device/power1_average"] == 1)
        for _ in range(5):
            await watch.run(lambda: True, 0.5)  # 2.5 s: it is slow, no more
        assert threads() == 1
        tree.let_go()
        await eventually(lambda: watch.values() == ALL)
        assert tree.asked["hwmon1/device/power1_average"] == 1

    asyncio.run(story())


def test_the_event_loop_goes_on_meanwhile(tree: Stubborn) -> None:
    tree.hanging |= {"list", "hwmon1/device/power1_average"}

    async def story() -> None:
        watch = FeedWatch(tree)
        await watch.feed.start()
        # Each would wait for what hangs, if anything did on this thread.
        await asyncio.wait_for(watch.jobs.run(), DEADLINE_SECONDS / 4)
        assert list(watch.feed.rows()) == []
        await asyncio.wait_for(watch.feed.close(), DEADLINE_SECONDS / 4)

    asyncio.run(story())


def test_what_comes_after_the_end_is_nobodys(tree: Stubborn) -> None:
    tree.hanging.add("hwmon1/device/power1_average")

    async def story() -> FeedWatch:
        watch = FeedWatch(tree)
        await watch.feed.start()
        await watch.run(lambda: tree.asked["hwmon1/device/power1_average"] == 1)
        await watch.feed.close()
        return watch

    watch = asyncio.run(story())
    tree.let_go()
    deadline = time.monotonic() + DEADLINE_SECONDS
    while threads() and time.monotonic() < deadline:
        time.sleep(0.005)
    assert tree.asked["hwmon2/device/power1_average"] == 0
    assert set(watch.values().values()) == {None}


def test_a_round_that_breaks_is_said_and_the_next_is_begun(caplog: pytest.LogCaptureFixture) -> None:
    def broken() -> None:
        raise ZeroDivisionError

    done = threading.Event()
    rounds = Rounds(3.0)
    assert rounds.begin(iter([("broken", broken)]))
    deadline = time.monotonic() + DEADLINE_SECONDS
    while not rounds.begin(iter([("broken", done.set)])) and time.monotonic() < deadline:
        time.sleep(0.005)
    assert done.wait(DEADLINE_SECONDS)
    assert [record.message for record in caplog.records] == [
        "reading the host's sensors failed; it is tried again"
    ]


@contextmanager
def pipe_in_place_of(file: Path) -> Iterator[None]:
    """Put a pipe without a writer where a file is: opening it hangs, as a file whose firmware does."""
    file.unlink()
    os.mkfifo(file)
    try:
        yield
    finally:
        with open(os.open(file, os.O_RDWR | os.O_NONBLOCK), "wb"):
            pass


def test_a_real_file_that_hangs_and_the_real_schedule(tmp_path: Path) -> None:
    power_meter(tmp_path, 2, "CPU Power Socket 0", 20_000_000)
    file = power_meter(tmp_path, 1, "Grace Power Socket 0", 10_000_000)

    async def story() -> None:
        schedule = Schedule()
        feed = HwmonFeed(schedule, HwmonTree(tmp_path), spacing_seconds=0.0)
        await feed.start()
        schedule.start()
        await eventually(lambda: [value for _, value in feed.rows()] == [10.0, 20.0])
        with pipe_in_place_of(file):
            # The next turn, in 5 s, is the first to meet the pipe.
            await eventually(lambda: feed._rounds._busy == {"hwmon1"})
            await feed.close()
            await schedule.close()

    asyncio.run(story())


def test_a_process_ends_while_a_sensor_hangs(tmp_path: Path) -> None:
    file = power_meter(tmp_path, 1, "Grace Power Socket 0", 1)
    file.unlink()
    os.mkfifo(file)
    program = (
        "import asyncio, sys\n"
        "from pathlib import Path\n"
        "from collector.schedule import Schedule\n"
        "from collector.sources.host.hwmon import HwmonFeed\n"
        "from collector.sources.host.sensor_files import HwmonTree\n"
        "async def story():\n"
        "    schedule = Schedule()\n"
        "    feed = HwmonFeed(schedule, HwmonTree(Path(sys.argv[1])), spacing_seconds=0.0)\n"
        "    await feed.start()\n"
        "    schedule.start()\n"
        "    while not feed.revision:\n"
        "        await asyncio.sleep(0.01)\n"
        "    await feed.close()\n"
        "    await schedule.close()\n"
        "asyncio.run(story())\n"
        "print('over')\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", program, str(tmp_path)],
        capture_output=True,
        text=True,
        timeout=60,
        check=True,
    )
    assert (done.stdout, done.stderr) == ("over\n", "")

"""Records of the kernel log: parsing, times, and what the agent remembers of it."""

from __future__ import annotations

import asyncio
import errno
import os
from collections import deque
from pathlib import Path

import pytest

from collector.readings import KernelRecord
from collector.sources.host.kmsg import DeviceFile, KernelLog, RecordReader, why_not

XID = b"NVRM: Xid (PCI:0000:3b:00): 79, pid=1, name=a, GPU has fallen off the bus."
BOOT_WALL_NS = 1_764_500_000_000_000_000


class Script:
    """A log file that gives what it is told: bytes, or an error."""

    def __init__(self, *steps: bytes | OSError) -> None:
        self.steps = deque(steps)
        self.closed = False

    def fileno(self) -> int | None:
        return None

    def read(self) -> bytes:
        if not self.steps:
            raise BlockingIOError
        step = self.steps.popleft()
        if isinstance(step, OSError):
            raise step
        return step

    def close(self) -> None:
        self.closed = True


def follow(*steps: bytes | OSError, uptime_ns: int = 1000 * 10**9) -> tuple[list[KernelRecord], KernelLog]:
    """Follow a scripted log for a moment."""
    records: list[KernelRecord] = []
    script = Script(*steps)
    log = KernelLog(
        lambda: script,
        monotonic_ns=lambda: uptime_ns,
        wall_ns=lambda: BOOT_WALL_NS + uptime_ns,
        poll_seconds=0.001,
    )

    async def work() -> None:
        await log.start(records.append)
        for _ in range(1000):
            if not script.steps:
                break
            await asyncio.sleep(0.001)
        await log.close()

    asyncio.run(work())
    assert script.closed
    return records, log


def test_a_record_of_the_driver_is_delivered_with_its_own_time() -> None:
    records, _ = follow(b"3,77,999000000,-;" + XID + b"\n SUBSYSTEM=pci\n DEVICE=+pci:0000:3b:00.0\n")
    # 999 s after boot, read a second later.
    assert records == [KernelRecord(77, BOOT_WALL_NS + 999 * 10**9, XID.decode())]


@pytest.mark.parametrize(
    "record",
    [
        b"6,1,5,-;usb 1-1: new device\n",
        b"11,1,5,-;" + XID + b"\n",  # facility 1: a process wrote it
        b"3,1,5,-;app: " + XID + b"\n",
        b" " + XID + b"\n",
        b"3,1,-;" + XID + b"\n",
        b"3,x,5,-;" + XID + b"\n",
        b"3,1,5,-" + XID + b"\n",
        b"-3,1,5,-;" + XID + b"\n",
        b"3,1,99999999999999999999999,-;" + XID + b"\n",
        b"\n\n;;;,,,\n",
        b"\xff\xfe\x00\n",
    ],
)
def test_what_is_no_record_of_the_driver_is_passed_over(record: bytes) -> None:
    records, _ = follow(record, b"3,9,5,c,caller=T1;" + XID + b"\n")
    assert [each.sequence for each in records] == [9]


def test_records_may_come_in_pieces_and_several_at_once() -> None:
    whole = b"".join(b"3,%d,5,-;%s %d\n" % (number, XID, number) for number in range(5))
    for size in (1, 7, 100, len(whole)):
        pieces = [whole[start : start + size] for start in range(0, len(whole), size)]
        records, _ = follow(*pieces)
        assert [each.sequence for each in records] == [0, 1, 2, 3, 4]


def test_a_line_without_end_costs_itself_only() -> None:
    reader = RecordReader()
    assert not list(reader.feed(b"3,1,5,-;" + b"x" * 10_000))
    assert not list(reader.feed(b"x" * 10_000_000))
    assert len(reader._rest) <= 16_384
    assert [record.sequence for record in reader.feed(b"xx\n3,2,5,-;" + XID + b"\n")] == [2]


def test_bytes_that_are_no_text_are_replaced() -> None:
    records, _ = follow(b"3,1,5,-;" + XID + b"\xff\xfe\n")
    assert records[0].text == XID.decode() + "\ufffd\ufffd"


def test_records_that_were_overwritten_are_counted_and_the_rest_goes_on() -> None:
    records, log = follow(
        b"3,10,5,-;" + XID + b"\n",
        BrokenPipeError(errno.EPIPE, "overrun"),
        BrokenPipeError(errno.EPIPE, "overrun"),
        b"6,31,6,-;something\n",
        b"3,32,7,-;" + XID + b"\n",
    )
    assert [each.sequence for each in records] == [10, 32]
    assert log.lost == 20  # 11 to 30


def test_an_overrun_before_the_first_record_counts_as_one() -> None:
    _, log = follow(BrokenPipeError(errno.EPIPE, "overrun"), b"3,500,7,-;" + XID + b"\n")
    assert log.lost == 1


def test_a_gap_without_an_overrun_is_none() -> None:
    # The numbers of a filtered or wrapped log need not follow one another.
    _, log = follow(b"3,10,5,-;" + XID + b"\n", b"3,90,5,-;" + XID + b"\n")
    assert log.lost == 0


@pytest.mark.parametrize("number", [errno.EINTR, errno.EINVAL])
def test_an_error_of_one_record_costs_that_record(number: int) -> None:
    records, _ = follow(OSError(number, "no"), b"3,1,5,-;" + XID + b"\n")
    assert len(records) == 1


def test_any_other_error_ends_it_and_is_said_once(caplog: pytest.LogCaptureFixture) -> None:
    records, _ = follow(OSError(errno.EIO, "broken"))
    assert records == []
    assert caplog.text.count("the kernel log cannot be read any more") == 1


def test_a_log_whose_clock_has_drifted_gives_what_has_just_come_the_time_of_now() -> None:
    # The reader has caught up with the log, and its clock is 90 s behind.
    records, _ = follow(
        b"3,1,910000000,-;" + XID + b"\n",
        BlockingIOError(),
        b"3,2,910000000,-;" + XID + b"\n",
        b"3,3,998500000,-;" + XID + b"\n",
        b"3,4,1500000000,-;" + XID + b"\n",  # ahead: never later than now
    )
    ages = [(BOOT_WALL_NS + 1000 * 10**9 - each.time_ns) / 10**9 for each in records]
    assert ages == [90.0, 0.0, 1.5, 0.0]


@pytest.mark.parametrize(
    ("error", "words"),
    [
        (FileNotFoundError(2, "no"), "there is no /dev/kmsg here"),
        (PermissionError(1, "no"), "/dev/kmsg may not be read"),
        (OSError(errno.ENXIO, "no such device"), "/dev/kmsg cannot be read"),
    ],
)
def test_a_log_that_cannot_be_opened_is_said_once(
    error: OSError, words: str, caplog: pytest.LogCaptureFixture
) -> None:
    def opener() -> DeviceFile:
        raise error

    async def work() -> None:
        log = KernelLog(opener)
        await log.start(lambda _: None)
        await log.close()
        assert log.lost == 0

    asyncio.run(work())
    assert [record.getMessage() for record in caplog.records] == [why_not(error)]
    assert words in why_not(error)
    assert "Xids come from NVML alone" in why_not(error)


def test_the_device_is_opened_without_waiting(tmp_path: Path) -> None:
    path = tmp_path / "kmsg"
    os.mkfifo(path)
    file = DeviceFile(path)
    assert file.read() == b""  # nobody writes
    file.close()


def test_a_flood_leaves_the_event_loop_its_turns() -> None:
    async def work() -> int:
        script = Script(*(b"6,%d,5,-;x\n" % number for number in range(1000)))
        log = KernelLog(lambda: script, poll_seconds=3600)
        await log.start(lambda _: None)
        left = len(script.steps)
        await log.close()
        return left

    assert asyncio.run(work()) == 1000 - 128

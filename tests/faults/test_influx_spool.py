"""What must not cost the spool more than it hits: kills and damage; and half an hour without a server."""

from __future__ import annotations

import random
import shutil
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from exporters.influxdb.lines import LineWriter
from exporters.influxdb.selection import Selection
from exporters.influxdb.spool import MINIMUM_BYTES
from exporters.influxdb.spool_types import Loss
from tests.line_protocol import parse
from tests.simulated_snapshots import simulated_snapshots
from tests.soaking import SOAKING, repetitions
from tests.spools import Clocks, Opener, drain, fill, let_die, record_ends, segments

ROOT = Path(__file__).resolve().parents[2]
PATIENCE_SECONDS = 60


@pytest.fixture
def open_spool() -> Iterator[Opener]:
    with Opener() as opener:
        yield opener


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    return tmp_path / "spool"


# --- kills ----------------------------------------------------------------------------------------------


def write_until_killed(folder: Path, first: int, padding: int, seconds: float) -> dict[str, int]:
    """Run the writer, kill it, and return the last number of each of its words."""
    process = subprocess.Popen(
        [sys.executable, "-m", "tests.faults.spool_writer", str(folder), str(first), str(padding)],
        cwd=ROOT,
        stdout=subprocess.PIPE,
        text=True,
    )
    assert process.stdout is not None
    assert process.stdout.readline() == "open\n"
    time.sleep(seconds)
    process.kill()
    said, _ = process.communicate(timeout=PATIENCE_SECONDS)
    last: dict[str, int] = {}
    for line in said.split("\n")[:-1]:  # What follows the last newline was not said to its end.
        word, number = line.split(" ")
        last[word] = int(number)
    return last


def test_a_kill_at_any_moment_loses_nothing_that_was_synced(folder: Path, open_spool: Opener) -> None:
    """`kill -9` at random moments, over and over in one spool: what was synced and not sent is all there."""
    noise = random.Random(0)  # noqa: S311 - moments that repeat themselves, as far as a machine can
    first, sent = 1, 0
    for _ in repetitions(12, 200):
        padding = noise.choice((0, 300, 20_000))
        last = write_until_killed(folder, first, padding, noise.uniform(0.0, 0.3))
        sent = max(sent, last.get("acknowledged", 0))
        begin = time.monotonic()
        spool = open_spool(folder)
        assert time.monotonic() - begin < 3  # Facts on reliability, §5, row 4.
        kept = peek(spool, folder, open_spool)
        synced = last.get("synced", first - 1)
        # One more may have reached the disk before it was said, and one batch may have been sent so.
        assert kept[-1:] in ([], [synced], [synced + 1])
        assert kept == [*range(kept[0], kept[-1] + 1)] if kept else sent >= synced
        assert not kept or kept[0] <= max(sent, last.get("sending", 0)) + 1
        assert not kept or kept[0] > sent
        assert spool.status().damaged.records <= 1
        let_die(spool)
        sent = kept[0] - 1 if kept else synced
        first = (kept[-1] if kept else max(synced, sent)) + 1


def peek(spool: object, folder: Path, open_spool: Opener) -> list[int]:
    """Read what a spool holds, from a copy, so that nothing is acknowledged."""
    copy = folder.with_name("copy")
    shutil.rmtree(copy, ignore_errors=True)
    shutil.copytree(folder, copy)
    other = open_spool(copy)
    found = drain(other)
    let_die(other)
    return found


def test_a_record_that_breaks_off_at_any_byte_costs_itself(folder: Path, open_spool: Opener) -> None:
    spool = open_spool(folder)
    fill(spool, range(1, 5))
    spool.close()
    (path,) = segments(folder)
    content = path.read_bytes()
    ends = record_ends(content)
    for cut in range(len(content)):
        for old in segments(folder):
            old.unlink()
        (folder / "cursor").unlink(missing_ok=True)
        path.write_bytes(content[:cut])
        spool = open_spool(folder)
        whole = sum(1 for end in ends if end <= cut)
        fill(spool, range(90, 92))
        assert drain(spool) == [*range(1, whole + 1), 90, 91]
        assert spool.status().damaged == Loss(int(cut not in (0, *ends)), 0)
        let_die(spool)


# --- damage ---------------------------------------------------------------------------------------------


class Damage:
    """An intact spool, copies of which are damaged by a seed."""

    def __init__(self, folder: Path, open_spool: Opener) -> None:
        self.folder = folder
        spool = open_spool(folder, maximum_bytes=MINIMUM_BYTES)
        for start in range(0, 320, 10):
            fill(spool, range(start, start + 10), padding=1000)
        batch = spool.read(30 * 1100)
        assert batch is not None
        spool.acknowledge(batch.position)
        self.sent = batch.records
        spool.close()
        self.contents = {path.name: path.read_bytes() for path in folder.iterdir() if path.name != "lock"}
        self.segments = sorted(name for name in self.contents if name.endswith(".segment"))
        assert len(self.segments) >= 3
        self.places: list[tuple[str, int, int]] = []
        for name in self.segments:
            begin = 0
            for end in record_ends(self.contents[name]):
                self.places.append((name, begin, end))
                begin = end

    def restore(self) -> None:
        """Put every file back."""
        for path in self.folder.iterdir():
            path.unlink()
        for name, content in self.contents.items():
            (self.folder / name).write_bytes(content)

    def inflict(self, seed: int) -> tuple[set[int], bool]:
        """Damage it; return the records that were hit, and whether the cursor was."""
        noise = random.Random(seed)  # noqa: S311 - a damage that repeats itself
        names = [*self.segments, *self.segments, "cursor"]
        hit: set[int] = set()
        cursor = False
        for _ in range(noise.choice((1, 1, 2, 3))):
            name = noise.choice(names)
            content = bytearray((self.folder / name).read_bytes())
            if not content:
                continue
            begin, end = self._strike(noise, content)
            (self.folder / name).write_bytes(content)
            cursor = cursor or name == "cursor"
            hit |= {
                number
                for number, (where, first, last) in enumerate(self.places)
                if where == name and first < end and last > begin
            }
        return hit, cursor

    @staticmethod
    def _strike(noise: random.Random, content: bytearray) -> tuple[int, int]:
        """Change some bytes; return between which places they differ, to the end of all where it was cut."""
        begin = noise.randrange(len(content))
        match noise.choice(("flip", "flip", "flip", "cut", "zero", "noise")):
            case "flip":
                content[begin] ^= 1 << noise.randrange(8)
                return begin, begin + 1
            case "cut":
                del content[begin:]
                return begin, sys.maxsize
            case "zero":
                end = min(len(content), begin + noise.choice((1, 512, 4096)))
                content[begin:end] = bytes(end - begin)
                return begin, end
            case _:
                end = min(len(content), begin + noise.choice((8, 300, 5000)))
                content[begin:end] = noise.randbytes(end - begin)
                return begin, end


def test_damage_costs_what_it_hits_and_is_counted(folder: Path, open_spool: Opener) -> None:
    damage = Damage(folder, open_spool)
    for seed in repetitions(150, 1000):
        damage.restore()
        hit, cursor_hit = damage.inflict(seed)
        spool = open_spool(folder, maximum_bytes=MINIMUM_BYTES)
        found = drain(spool)
        start = 0 if cursor_hit else damage.sent
        everything = range(start, len(damage.places))
        # Zeros over zeros change nothing, so what was hit may be intact; a hit cursor may be, too.
        intact = [number for number in everything if number not in hit]
        assert [number for number in found if number not in hit] in (intact, intact[damage.sent :]), seed
        assert set(found) <= set(everything), seed
        assert found == sorted(found), seed
        lost = set(range(found[0] if found else start, len(damage.places))) - set(found)
        inner = {number for number in lost if found and number < found[-1]}
        counted = spool.status().damaged.records
        # Whole records that were cut off the end leave no trace; all others do.
        assert len(inner) <= counted <= len(lost) + (min(found) if found else len(damage.places)), seed
        fill(spool, range(900, 903))
        assert drain(spool) == [900, 901, 902], seed
        assert spool.status().records == 0, seed
        let_die(spool)


def test_a_removed_segment_is_counted(folder: Path, open_spool: Opener) -> None:
    damage = Damage(folder, open_spool)
    (folder / damage.segments[1]).unlink()
    gone = {number for number, place in enumerate(damage.places) if place[0] == damage.segments[1]}
    spool = open_spool(folder, maximum_bytes=MINIMUM_BYTES)
    assert drain(spool) == [n for n in range(damage.sent, len(damage.places)) if n not in gone]
    assert spool.status().damaged == Loss(len(gone), 2 * len(gone))


def test_damage_while_it_runs_costs_what_it_hits(folder: Path, open_spool: Opener) -> None:
    spool = open_spool(folder)
    fill(spool, range(10))
    (path,) = segments(folder)
    with path.open("r+b") as file:
        file.seek(path.stat().st_size - 30)
        file.write(b"\xff" * 30)
    assert drain(spool) == [*range(9)]
    assert spool.read(10**9) is None
    assert spool.status().damaged == Loss(1, 2)
    fill(spool, range(10, 12))
    assert drain(spool) == [10, 11]
    assert spool.status().damaged == Loss(1, 2)
    assert spool.status().records == 0


def test_files_that_are_removed_while_it_runs_cost_what_was_in_them(folder: Path, open_spool: Opener) -> None:
    spool = open_spool(folder)
    fill(spool, range(10))
    shutil.rmtree(folder)
    fill(spool, range(10, 12))
    status = spool.status()
    assert status.unsynced_records == 2
    assert not status.durable
    assert "No such file" in status.error
    folder.mkdir()
    spool.sync()
    assert (spool.status().error, spool.status().durable) == ("", True)
    assert drain(spool) == [10, 11]
    assert spool.status().damaged == Loss(10, 20)


def test_a_file_that_is_removed_after_a_restart_is_no_obstacle(folder: Path, open_spool: Opener) -> None:
    spool = open_spool(folder)
    fill(spool, range(10))
    spool.close()
    again = open_spool(folder)
    (path,) = segments(folder)
    path.unlink()
    fill(again, range(10, 12))
    assert (again.status().error, again.status().durable) == ("", True)
    assert drain(again) == [10, 11]
    assert again.status().damaged == Loss(10, 20)


def test_a_segment_that_is_nothing_but_noise_is_passed_over(folder: Path, open_spool: Opener) -> None:
    folder.mkdir()
    (folder / f"{1:020}.segment").write_bytes(random.Random(1).randbytes(100_000))  # noqa: S311 - noise
    spool = open_spool(folder)
    assert spool.read(10**9) is None
    assert spool.status().damaged.records == 1
    fill(spool, range(5))
    assert drain(spool) == [*range(5)]
    assert spool.status().damaged.records == 1


# --- half an hour without a server ----------------------------------------------------------------------


def test_half_an_hour_of_eight_gpus_fits(folder: Path, open_spool: Opener) -> None:
    """14,400 points of GPUs and 25,920 of links in 30 minutes, in at most 12 MB."""
    seconds = 1800 if SOAKING else 120
    writer, clocks = LineWriter(Selection()), Clocks()
    spool = open_spool(folder, clocks)
    sent = []
    for snapshot in simulated_snapshots("hgx-b200", seconds):
        lines = writer.write(snapshot)
        spool.append(lines.payload, points=lines.points, time_ns=lines.time_ns)
        spool.sync()
        clocks.advance(1)
        sent.append(lines.payload)
    spool.close()
    assert sum(path.stat().st_size for path in folder.iterdir()) <= 12_000_000 * seconds / 1800
    again = open_spool(folder, clocks)
    found = []
    while (batch := again.read(500_000)) is not None:
        found.append(batch.payload)
        again.acknowledge(batch.position)
    assert b"".join(found) == b"".join(sent)
    points = parse(b"".join(found))
    unique = {(point.measurement, point.tags, point.time_ns) for point in points}
    assert len(unique) == len(points)
    assert sum(1 for measurement, _, _ in unique if measurement == "gpu") == 8 * seconds
    assert sum(1 for measurement, _, _ in unique if measurement == "nvlink") == 8 * 18 * seconds // 10

"""Records read back whatever surrounds them; a spool does what a list would do, in any order of calls."""

from __future__ import annotations

import shutil
import tempfile
from pathlib import Path

from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule

from exporters.influxdb import records
from exporters.influxdb.cursor import load_cursor, save_cursor
from exporters.influxdb.records import Record, compress, decode, find, tail
from exporters.influxdb.spool import MINIMUM_BYTES
from exporters.influxdb.spool_types import Batch, Loss, Position
from tests.spools import T0, Opener, let_die, numbers_of, payload

RECORDS = st.builds(
    Record,
    number=st.integers(0, 2**64 - 1),
    points=st.integers(0, 2**32 - 1),
    points_before=st.integers(0, 2**64 - 1),
    time_ns=st.integers(-(2**63), 2**63 - 1),
    body=st.binary(max_size=200),
)
NOISE = st.binary(max_size=60) | st.just(records.MARKER) | st.just(records.MARKER[:2])


@given(RECORDS, NOISE, NOISE)
def test_a_record_reads_back_from_between_noise(record: Record, before: bytes, after: bytes) -> None:
    data = before + record.encode() + after
    assert decode(data, len(before)) == record
    assert record.size == len(record.encode())
    found = find(data)
    assert found is not None
    # Noise may itself be the marker of a record, but never an intact one.
    assert found == (len(before), record)


@given(RECORDS, st.integers(0), st.integers(0, 7))
def test_any_flipped_bit_makes_a_record_invalid(record: Record, place: int, bit: int) -> None:
    data = bytearray(record.encode())
    data[place % len(data)] ^= 1 << bit
    assert decode(bytes(data)) is None


@given(st.lists(RECORDS, max_size=4), NOISE)
def test_a_file_ends_where_its_last_record_does(held: list[Record], rest: bytes) -> None:
    whole = b"".join(record.encode() for record in held)
    found = tail(whole + rest)
    assert (found.last, found.end) == (held[-1] if held else None, len(whole))
    assert (found.damaged > 0) == bool(rest)


@given(st.binary(max_size=2000))
def test_lines_are_compressed_and_come_back(lines: bytes) -> None:
    assert Record(1, 1, 0, 0, compress(lines)).payload() == lines


@given(*[st.integers(0, 2**64 - 1)] * 4)
def test_a_cursor_reads_back(sequence: int, points: int, segment: int, offset: int) -> None:
    with tempfile.TemporaryDirectory() as name:
        position = Position(sequence, points, segment, offset)
        save_cursor(Path(name), position)
        assert load_cursor(Path(name)) == position


@given(st.binary(max_size=120))
def test_whatever_a_cursor_file_holds_is_a_cursor_or_none(content: bytes) -> None:
    with tempfile.TemporaryDirectory() as name:
        (Path(name) / "cursor").write_bytes(content)
        assert load_cursor(Path(name)) is None


class SpoolMachine(RuleBasedStateMachine):
    """A spool beside a list of what it must hold."""

    def __init__(self) -> None:
        super().__init__()
        self.folder = Path(tempfile.mkdtemp())
        self.opener = Opener()
        self.spool = self.opener(self.folder, maximum_bytes=MINIMUM_BYTES)
        self.number = 0
        self.in_memory: list[int] = []
        self.on_disk: list[int] = []
        self.batch: Batch | None = None
        self.in_batch: list[int] = []

    @rule(count=st.integers(1, 5), padding=st.sampled_from((0, 40, 30_000)))
    def append(self, count: int, padding: int) -> None:
        for _ in range(count):
            self.spool.append(payload(self.number, padding), points=2, time_ns=T0 + self.number)
            self.in_memory.append(self.number)
            self.number += 1

    @rule()
    def sync(self) -> None:
        self.spool.sync()
        self.on_disk += self.in_memory
        self.in_memory = []
        # What a full spool drops is the oldest.
        self.on_disk = self.on_disk[len(self.on_disk) - self.spool.status().records :]

    @rule(maximum=st.sampled_from((1, 500, 100_000)))
    def read(self, maximum: int) -> None:
        self.batch = self.spool.read(maximum)
        self.in_batch = numbers_of(self.batch.payload) if self.batch else []
        assert self.in_batch == self.on_disk[: len(self.in_batch)]
        assert bool(self.in_batch) == bool(self.on_disk)

    @precondition(lambda self: self.batch is not None)
    @rule()
    def acknowledge(self) -> None:
        assert self.batch is not None
        self.spool.acknowledge(self.batch.position)
        self.on_disk = [number for number in self.on_disk if number > self.in_batch[-1]]

    @rule()
    def restart(self) -> None:
        self.sync()
        self.spool.close()
        self._open()

    @rule()
    def crash(self) -> None:
        let_die(self.spool)
        self.in_memory = []
        self._open()

    def _open(self) -> None:
        self.spool = self.opener(self.folder, maximum_bytes=MINIMUM_BYTES)
        self.batch = None

    @invariant()
    def counts_agree(self) -> None:
        status = self.spool.status()
        assert status.records == len(self.in_memory) + len(self.on_disk)
        assert status.points == 2 * status.records
        assert status.bytes <= MINIMUM_BYTES
        assert status.damaged == status.dropped_for_age == status.dropped_for_disk == Loss()
        assert (status.oldest_age_seconds is None) == (not self.on_disk)

    def teardown(self) -> None:
        self.opener.__exit__()
        shutil.rmtree(self.folder)


TestSpool = SpoolMachine.TestCase
TestSpool.settings = settings(max_examples=60, stateful_step_count=40, deadline=None)

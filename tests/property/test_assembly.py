"""Assembly, whatever the order of layouts and readings: it shows what the newest reading brought, or nothing.

The model beside it is the rule itself: a value a series, and the time that it was read. A feed's series stand
there as it has them, whatever becomes of the source.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from itertools import pairwise

from hypothesis import given, note, settings
from hypothesis import strategies as st

from collector.catalog import BY_NAME
from collector.model import Series, Snapshot, Value
from collector.readings import Batch, Block, Incident, Layout, Message, Reading, SeriesKey
from tests.agent_http_client import Clock
from tests.feeds import ScriptedFeed
from tests.readings import assembly_at, fed, shown, sourced

WITHHOLD_SECONDS = 5.0
"""DESIGN §3."""

POOL: tuple[SeriesKey, ...] = (
    ("node_gpus_present", ()),
    *((name, (index, f"GPU-{index}")) for index in "01" for name in ("gpu_up", "gpu_power_watts")),
    *(("nvlink_up", ("0", "GPU-0", link)) for link in "012"),
    ("module_power_watts", ("1652425000001",)),
    ("gpu_info", ("0", "GPU-0", *(f"text {number}" for number in range(17)))),
)
assert all(len(labels) == len(BY_NAME[name].label_names) for name, labels in POOL)

FEED_POOL: tuple[SeriesKey, ...] = (
    *(("llm_up", (f"endpoint-{number}", "vllm", "engine")) for number in "01"),
    *(("llm_requests_running", (f"endpoint-{number}", "vllm", "a/model", "engine")) for number in "01"),
    ("cpu_power_watts", ("0",)),
)
assert all(len(labels) == len(BY_NAME[name].label_names) for name, labels in FEED_POOL)

values = st.none() | st.integers(0, 2**63) | st.floats(0, 1e9)
small = st.none() | st.integers(0, 1) | st.floats(0, 1)
"""Within the range of every row of the feed."""


@dataclass
class Model:
    """What must be seen.

    Attributes:
        layout: The newest layout.
        held: Values, by series of the layout.
        times: When each block that has values was read.
        up: Whether the source said so last.
    """

    layout: Layout = field(default_factory=lambda: Layout(0, (), (), "", "", "", None))
    held: dict[SeriesKey, Value] = field(default_factory=dict)
    times: dict[Block, float] = field(default_factory=dict)
    up: bool = False

    def take(self, message: Message) -> None:
        if isinstance(message, Layout):
            self.layout = message
            stays = {series for block in message.blocks for series in block.series}
            self.held = {series: value for series, value in self.held.items() if series in stays}
            self.times = {block: at for block, at in self.times.items() if block in message.blocks}
            return
        self.up = message.up
        if not message.up:
            self.held, self.times = {}, {}
        elif message.generation == self.layout.generation:
            for batch in message.batches:
                block = self.layout.blocks[batch.block]
                self.times[block] = message.taken_at
                for series, value in zip(block.series, batch.values, strict=True):
                    self.held.pop(series, None)
                    if value is not None:
                        self.held[series] = value

    def ages(self, now: float) -> dict[str, float | None]:
        read = {
            cadence: [at for block, at in self.times.items() if block.cadence == cadence]
            for cadence in ("fast", "links", "slow")
        }
        return {cadence: now - min(times) if times else None for cadence, times in read.items()}

    def seen(self, now: float) -> dict[SeriesKey, Value]:
        age = self.ages(now)["fast"]
        return self.held if self.up and age is not None and age <= WITHHOLD_SECONDS else {}


@st.composite
def layouts(draw: st.DrawFn, generation: int) -> Layout:
    """Draw some of the series, in any order, cut into blocks."""
    series = draw(st.lists(st.sampled_from(POOL), unique=True, min_size=1))
    cuts = sorted(draw(st.sets(st.integers(1, len(series)), max_size=4)) | {0, len(series)})
    blocks = tuple(
        Block(draw(st.sampled_from(("fast", "fast", "links", "slow"))), tuple(series[start:end]))
        for start, end in pairwise(cuts)
    )
    return Layout(generation, blocks, (), "580.105.08", "13.0", "gb300-nvl72", 4)


@st.composite
def readings(draw: st.DrawFn, layout: Layout, now: float) -> Reading:
    """Draw a reading: of the layout, in part or whole; of an older one; or of a source that is down."""
    kind = draw(st.sampled_from(("whole", "part", "part", "stale", "down")))
    incidents = tuple(
        Incident(1_764_504_000_000_000_000, "xid", f"GPU-{gpu}", 79)
        for gpu in draw(st.lists(st.integers(0, 2), max_size=1))
    )
    if kind == "down":
        return Reading(now, 0, up=False, reason="gone", incidents=incidents)
    blocks = [index for index in range(len(layout.blocks)) if kind == "whole" or draw(st.booleans())]
    batches = tuple(Batch(index, [draw(values) for _ in layout.blocks[index].series]) for index in blocks)
    generation = layout.generation - 1 if kind == "stale" else layout.generation
    return Reading(now, generation, up=True, batches=batches, incidents=incidents)


def change(data: st.DataObject, feed: ScriptedFeed) -> None:
    """Let a feed have other series or values, a defect, or none any more."""
    chosen = data.draw(st.lists(st.sampled_from(FEED_POOL), unique=True))
    feed.become(*((Series(BY_NAME[name], labels), data.draw(small)) for name, labels in chosen))
    feed.defect = ZeroDivisionError("a defect") if data.draw(st.integers(0, 4)) == 0 else None


def expected_of(feed: ScriptedFeed) -> dict[SeriesKey, Value]:
    rows = feed.given if feed.defect is None else ()
    return {(series.metric.name, series.labels): value for series, value in rows if value is not None}


@settings(max_examples=200)
@given(st.data())
def test_a_snapshot_shows_what_the_newest_reading_brought_or_nothing(data: st.DataObject) -> None:
    clock = Clock(1000.0)
    feed, model = ScriptedFeed((), ()), Model()
    assembly = assembly_at(clock, feeds=[feed])
    snapshots: list[Snapshot] = []
    for _ in range(data.draw(st.integers(1, 12))):
        clock.seconds += data.draw(st.sampled_from((0.0, 0.25, 1.0, 3.0, 6.0)))
        if data.draw(st.booleans()):
            change(data, feed)
        message: Message
        if data.draw(st.integers(0, 3)) == 0:
            message = data.draw(layouts(model.layout.generation + 1))
            assembly.apply_layout(message)
        else:
            message = data.draw(readings(model.layout, clock.seconds))
            assembly.apply_reading(message)
        note(f"{clock.seconds}: {message}")
        model.take(message)
        snapshot = assembly.snapshot(0)
        assert len(snapshot.values) == len(snapshot.table)
        assert len(set(snapshot.table.series)) == len(snapshot.table)
        assert sourced(snapshot) == model.seen(clock.seconds)
        assert fed(snapshot) == expected_of(feed)
        assert snapshot.ages_seconds == model.ages(clock.seconds)
        assert snapshot.nvml_up == bool(model.seen(clock.seconds) or not snapshot.reason)
        assert shown(snapshot)["agent_nvml_up", ()] == int(snapshot.nvml_up)
        snapshots.append(snapshot)
    assert [snapshot.sequence for snapshot in snapshots] == list(range(1, len(snapshots) + 1))
    for earlier, later in pairwise(snapshots):
        assert earlier.time_ns < later.time_ns
        same = earlier.table.series == later.table.series
        assert same == (earlier.table.digest == later.table.digest)

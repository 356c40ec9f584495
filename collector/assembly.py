"""Layouts and Readings of the source, what feeds have, and the agent's own account, made into Snapshots."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from itertools import chain

from collector import catalog
from collector.accounts import CADENCES, Accounts, Row
from collector.catalog.spec import Kind
from collector.deadlines import Deadlines
from collector.errors import RackwattError
from collector.event_log import EventLog
from collector.feeds import Feeds
from collector.health.evaluate import Checker, GpuName
from collector.health.kernel_log import XidLine
from collector.identity import Host, Names
from collector.model import Series, SeriesTable, Snapshot, Value
from collector.protocols import Feed
from collector.readings import Batch, Block, KernelRecord, Layout, Reading
from collector.timekeeping import SteadyClock

_ORDER = {metric.name: position for position, metric in enumerate(catalog.ALL)}
_NODE_INFO = catalog.BY_NAME["node_info"]
_GPUS_EXPECTED = catalog.BY_NAME["node_gpus_expected"]


class LayoutError(RackwattError):
    """A Layout names series that the catalogue does not have."""


class Assembly:
    """Holds the newest value of every series of a node."""

    def __init__(
        self,
        names: Names,
        host: Host,
        deadlines: Deadlines,
        *,
        monotonic: Callable[[], float],
        wall_ns: Callable[[], int],
        checker: Checker | None = None,
        feeds: Sequence[Feed] = (),
    ) -> None:
        """Begin with nothing read.

        Args:
            names: Rack and node.
            host: What the operating system says.
            deadlines: How long silence is borne.
            monotonic: Clock in seconds.
            wall_ns: Unix time in nanoseconds.
            checker: Judges the node; one with default thresholds where None.
            feeds: What is read beside the GPUs; somebody else starts and closes them.
        """
        self._names = names
        self._host = host
        self._deadlines = deadlines
        self._monotonic = monotonic
        self._clock = SteadyClock(monotonic, wall_ns)
        self._accounts = Accounts()
        self._sequence = 0
        self._layout: Layout | None = None
        self._source_up = False
        self._reason = "nothing has been read yet"
        self._checker = checker or Checker()
        self._event_log = EventLog(self._accounts, self._checker)
        self._block_times: dict[int, float] = {}
        self._feeds = Feeds(feeds)
        self._targets: list[list[int]] = []
        self._own_targets: list[int] = []
        self._feed_targets: list[list[int]] = []
        self._values: list[Value | None] = []
        self._table = SeriesTable(())
        self._rebuild()

    def apply_layout(self, layout: Layout) -> None:
        """Take over a new set of series.

        What stays keeps its value until the next reading brings a new one, and a block that stays as it was
        its age, so that a change of the inventory is no gap in everything else.

        Raises:
            LayoutError: A series is not of the catalogue; nothing has changed then.
        """
        _check(layout)
        times = dict(self._blocks_read())
        self._layout = layout
        self._block_times = {
            index: times[block] for index, block in enumerate(layout.blocks) if block in times
        }
        self._event_log.know(layout.gpus)
        self._rebuild()

    def apply_reading(self, reading: Reading) -> None:
        """Take over values, incidents, and the account of the reader's work."""
        self._accounts.add(reading)
        for incident in reading.incidents:
            if self._event_log.note(incident):
                self._rebuild()
        self._source_up = reading.up
        self._reason = reading.reason
        if not reading.up:
            self._forget()
        elif self._layout is not None and reading.generation == self._layout.generation:
            for batch in reading.batches:
                self._fill(batch, reading.taken_at)

    def apply_kernel_xid(self, line: XidLine, record: KernelRecord, *, counted: bool) -> None:
        """Take over an Xid of the kernel log.

        Args:
            line: What it says.
            record: Where it stands.
            counted: Whether an agent before this one counted it in the same boot.
        """
        if self._event_log.note_line(line, record, counted=counted):
            self._rebuild()

    def snapshot(self, restarts: int, kernel_records_lost: int = 0) -> Snapshot:
        """Make a Snapshot of what is known now.

        Args:
            restarts: Times that the source was started anew.
            kernel_records_lost: Records of the kernel log that were overwritten before they were read.
        """
        ages = self._ages(self._monotonic())
        reason = self._why_not_up(ages["fast"])
        self._accounts.up = not reason
        self._accounts.restarts = restarts
        self._accounts.kernel_records_lost = kernel_records_lost
        time_ns = self._clock.now_ns()
        self._take_feeds()
        checks = self._checker.evaluate(self._table, self._values, now_ns=time_ns, down=reason)
        self._fill_own(ages)
        self._sequence += 1
        return Snapshot(
            rack=self._names.rack,
            node=self._names.node,
            agent_id=self._host.agent_id,
            boot_id=self._host.boot_id,
            sequence=self._sequence,
            time_ns=time_ns,
            table=self._table,
            values=tuple(self._withheld() if reason else self._values),
            ages_seconds=ages,
            nvml_up=not reason,
            reason=reason,
            identity=self._identity(),
            events=self._event_log.settled(time_ns),
            checks=checks,
            histograms=self._feeds.histograms,
        )

    def _why_not_up(self, fast_age_seconds: float | None) -> str:
        """Say why the node's values cannot be served; empty if they can."""
        if not self._source_up:
            return self._reason
        if fast_age_seconds is None:
            return "the GPUs have not been read yet"
        if fast_age_seconds > self._deadlines.withhold:
            return (
                f"the reader has brought nothing for {fast_age_seconds:.0f} s; "
                "a call to the NVIDIA driver may hang"
            )
        return ""

    def _ages(self, now: float) -> dict[str, float | None]:
        """Return the age of the oldest block of each cadence."""
        oldest: dict[str, float] = {}
        for block, taken_at in self._blocks_read():
            oldest[block.cadence] = min(taken_at, oldest.get(block.cadence, taken_at))
        return {
            cadence: max(0.0, now - oldest[cadence]) if cadence in oldest else None for cadence in CADENCES
        }

    def _blocks_read(self) -> Iterator[tuple[Block, float]]:
        """Yield the blocks that have values, with the time when they were read."""
        blocks = self._layout.blocks if self._layout is not None else ()
        for index, taken_at in self._block_times.items():
            yield blocks[index], taken_at

    def _fill(self, batch: Batch, taken_at: float) -> None:
        values = self._values
        for target, value in zip(self._targets[batch.block], batch.values, strict=True):
            values[target] = value
        self._block_times[batch.block] = taken_at

    def _take_feeds(self) -> None:
        """Take what the feeds have now; a new set of series makes a new table."""
        if self._feeds.take():
            self._rebuild()
        self._accounts.see_out_of_range(self._feeds.doubtful)
        for targets, values in zip(self._feed_targets, self._feeds.values, strict=True):
            # A feed that was refused has no place for its values.
            for target, value in zip(targets, values, strict=False):
                self._values[target] = value

    def _fill_own(self, ages_seconds: dict[str, float | None]) -> None:
        for target, (_, value) in zip(self._own_targets, self._own_rows(ages_seconds), strict=True):
            self._values[target] = value

    def _forget(self) -> None:
        """Forget what the source read: it begins anew."""
        self._block_times.clear()
        self._values = self._withheld()

    def _withheld(self) -> list[Value | None]:
        """Return all values but those of the source, which may be old and are not served."""
        values: list[Value | None] = [None] * len(self._values)
        for target in chain(self._own_targets, *self._feed_targets):
            values[target] = self._values[target]
        return values

    def _identity(self) -> dict[str, str]:
        """Return the labels of `node_info`."""
        layout = self._layout
        return {
            "hostname": self._host.hostname,
            "boot_id": self._host.boot_id,
            "platform": layout.platform if layout else "",
            "driver_version": layout.driver_version if layout else "",
            "cuda_version": layout.cuda_version if layout else "",
            "kernel": self._host.kernel,
            "agent_version": self._host.agent_version,
            "simulated": "true" if self._host.simulated else "false",
        }

    def _own_rows(self, ages_seconds: dict[str, float | None]) -> Iterator[Row]:
        identity = self._identity()
        yield Series(_NODE_INFO, tuple(identity[label] for label in _NODE_INFO.info_labels)), 1
        yield Series(_GPUS_EXPECTED), self._layout.gpus_expected if self._layout is not None else None
        yield from self._checker.rows(self._gpu_names())
        yield from self._accounts.rows(ages_seconds)

    def _gpu_names(self) -> list[GpuName]:
        gpus = self._layout.gpus if self._layout is not None else ()
        return [GpuName(str(gpu.index), gpu.uuid) for gpu in gpus]

    def _rebuild(self) -> None:
        """Make the table anew, in the order of the catalogue; series that stay keep their values."""
        kept = dict(zip(self._table.series, self._values, strict=True))
        blocks = self._layout.blocks if self._layout is not None else ()
        sourced = [
            tuple(Series(catalog.BY_NAME[name], labels) for name, labels in block.series) for block in blocks
        ]
        own = tuple(series for series, _ in self._own_rows({}))
        groups = [*sourced, own, *self._feeds.series(chain(own, *sourced))]
        entries = sorted(
            (
                (series, group, offset)
                for group, members in enumerate(groups)
                for offset, series in enumerate(members)
            ),
            key=lambda entry: _ORDER[entry[0].metric.name],
        )
        targets = [[0] * len(members) for members in groups]
        for position, (_, group, offset) in enumerate(entries):
            targets[group][offset] = position
        self._targets = targets[: len(blocks)]
        self._own_targets = targets[len(blocks)]
        self._feed_targets = targets[len(blocks) + 1 :]
        self._table = SeriesTable(tuple(series for series, _, _ in entries))
        self._values = [kept.get(series) for series in self._table.series]
        self._fill_own({})


def _check(layout: Layout) -> None:
    for block in layout.blocks:
        for name, labels in block.series:
            metric = catalog.BY_NAME.get(name)
            if metric is None or metric.kind is Kind.HISTOGRAM or len(labels) != len(metric.label_names):
                raise LayoutError(
                    f"the reader names a series {name!r} with {len(labels)} labels, which this agent does "
                    "not know: rackwatt was replaced while it ran; restart the agent"
                )

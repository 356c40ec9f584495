"""Layouts and Readings of the source, and the agent's own account, made into Snapshots."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterator

from collector import catalog
from collector.accounts import CADENCES, Accounts, Row
from collector.deadlines import Deadlines
from collector.identity import Host, Names
from collector.model import Event, Series, SeriesTable, Snapshot, Value
from collector.readings import Batch, Incident, Layout, Reading
from collector.timekeeping import SteadyClock

_MAXIMUM_EVENTS = 1000
_ORDER = {metric.name: position for position, metric in enumerate(catalog.ALL)}
_NODE_INFO = catalog.BY_NAME["node_info"]
_GPUS_EXPECTED = catalog.BY_NAME["node_gpus_expected"]


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
    ) -> None:
        """Begin with nothing read."""
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
        self._events: deque[Event] = deque(maxlen=_MAXIMUM_EVENTS)
        self._event_cursor = 0
        self._block_times: dict[int, float] = {}
        self._targets: list[list[int]] = []
        self._own_targets: list[int] = []
        self._values: list[Value | None] = []
        self._table = SeriesTable(())
        self._rebuild()

    def apply_layout(self, layout: Layout) -> None:
        """Take over a new set of series; every value of theirs comes with the next reading."""
        self._layout = layout
        self._block_times.clear()
        self._rebuild()

    def apply_reading(self, reading: Reading) -> None:
        """Take over values, incidents, and the account of the reader's work."""
        self._accounts.add(reading)
        for incident in reading.incidents:
            self._note(incident)
        self._source_up = reading.up
        self._reason = reading.reason
        if not reading.up:
            self._block_times.clear()
        elif self._layout is not None and reading.generation == self._layout.generation:
            for batch in reading.batches:
                self._fill(batch, reading.taken_at)

    def snapshot(self, restarts: int) -> Snapshot:
        """Make a Snapshot of what is known now.

        Args:
            restarts: Times that the source was started anew.
        """
        ages = self._ages(self._monotonic())
        reason = self._why_not_up(ages["fast"])
        self._accounts.up = not reason
        self._accounts.restarts = restarts
        if reason:
            self._withhold()
        for target, (_, value) in zip(self._own_targets, self._own_rows(ages), strict=True):
            self._values[target] = value
        self._sequence += 1
        return Snapshot(
            rack=self._names.rack,
            node=self._names.node,
            agent_id=self._host.agent_id,
            boot_id=self._host.boot_id,
            sequence=self._sequence,
            time_ns=self._clock.now_ns(),
            table=self._table,
            values=tuple(self._values),
            ages_seconds=ages,
            nvml_up=not reason,
            reason=reason,
            identity=self._identity(),
            events=tuple(self._events),
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
        blocks = self._layout.blocks if self._layout is not None else ()
        for index, taken_at in self._block_times.items():
            cadence = blocks[index].cadence
            oldest[cadence] = min(taken_at, oldest.get(cadence, taken_at))
        return {
            cadence: max(0.0, now - oldest[cadence]) if cadence in oldest else None for cadence in CADENCES
        }

    def _fill(self, batch: Batch, taken_at: float) -> None:
        values = self._values
        for target, value in zip(self._targets[batch.block], batch.values, strict=True):
            values[target] = value
        self._block_times[batch.block] = taken_at

    def _withhold(self) -> None:
        """Forget what the source read: values that may be old are not served."""
        for targets in self._targets:
            for target in targets:
                self._values[target] = None

    def _note(self, incident: Incident) -> None:
        gpus = self._layout.gpus if self._layout is not None else ()
        index = next((str(gpu.index) for gpu in gpus if gpu.uuid == incident.gpu_uuid), "")
        self._event_cursor += 1
        self._events.append(
            Event(
                cursor=self._event_cursor,
                time_ns=incident.time_ns,
                kind=incident.kind,
                gpu_uuid=incident.gpu_uuid,
                gpu=index,
                code=incident.code,
            )
        )
        if incident.kind != "xid" or incident.code is None or not incident.gpu_uuid:
            return
        if self._accounts.see_xid(index, incident.gpu_uuid, incident.code, incident.time_ns):
            self._rebuild()

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
        yield from self._accounts.rows(ages_seconds)

    def _rebuild(self) -> None:
        """Make the table anew, by metric in the order of the catalogue; series that stay keep their values."""
        kept = dict(zip(self._table.series, self._values, strict=True))
        sourced = [
            (Series(catalog.BY_NAME[name], labels), block_index, offset)
            for block_index, block in enumerate(self._layout.blocks if self._layout is not None else ())
            for offset, (name, labels) in enumerate(block.series)
        ]
        own = [(series, -1, offset) for offset, (series, _) in enumerate(self._own_rows({}))]
        entries = sorted([*sourced, *own], key=lambda entry: _ORDER[entry[0].metric.name])
        self._own_targets = [0] * len(own)
        self._targets = [[0] * len(block.series) for block in (self._layout.blocks if self._layout else ())]
        for position, (_, block_index, offset) in enumerate(entries):
            targets = self._own_targets if block_index < 0 else self._targets[block_index]
            targets[offset] = position
        self._table = SeriesTable(tuple(series for series, _, _ in entries))
        self._values = [kept.get(series) for series in self._table.series]

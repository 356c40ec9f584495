"""What the agent says of itself and of the node: rows that no source reads."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field

from collector.catalog import BY_NAME
from collector.catalog.node import READ_ERRORS
from collector.model import Series, Value
from collector.readings import Reading

CADENCES = BY_NAME["agent_sample_age_seconds"].label_values
"""Cadences of the reader."""

Row = tuple[Series, Value | None]
_NANOSECONDS = 1_000_000_000


@dataclass(slots=True)
class _Xid:
    """How often an Xid was seen on a GPU, and when last."""

    count: int = 0
    last_ns: int = 0


@dataclass(slots=True)
class Accounts:
    """Sums over all readers that the agent had.

    Attributes:
        up: Whether NVML is read now.
        restarts: Times that the source was started anew.
        kernel_records_lost: Records of the kernel log that were overwritten before they were read.
    """

    up: bool = False
    restarts: int = 0
    kernel_records_lost: int = 0
    _calls: int = 0
    _errors: Counter[str] = field(default_factory=Counter)
    _sweep_seconds: dict[str, float] = field(default_factory=dict)
    _xids: dict[tuple[str, str, str], _Xid] = field(default_factory=dict)

    def add(self, reading: Reading) -> None:
        """Take over what a reading tells of the reader's work."""
        self._calls += reading.calls
        for error, count in reading.errors.items():
            self._errors[error if error in READ_ERRORS else "other"] += count
        self._sweep_seconds.update(reading.sweep_seconds)

    def see_out_of_range(self, count: int) -> None:
        """Count values of feeds that are physically impossible."""
        self._errors["out_of_range"] += count

    def see_xid(self, gpu: str, gpu_uuid: str, code: int, time_ns: int) -> bool:
        """Count an Xid.

        Returns:
            Whether it is the first of its number on that GPU, so that there are new series.
        """
        key = (gpu, gpu_uuid, str(code))
        first = key not in self._xids
        xid = self._xids.setdefault(key, _Xid())
        xid.count += 1
        xid.last_ns = max(xid.last_ns, time_ns)
        return first

    def rows(self, ages_seconds: dict[str, float | None]) -> Iterator[Row]:
        """Yield every row with its present value; always the same series until an Xid is new."""
        yield _row("agent_nvml_up", int(self.up))
        for cadence in CADENCES:
            yield _row("agent_sample_age_seconds", ages_seconds.get(cadence), cadence)
        for cadence in CADENCES:
            yield _row("agent_sweep_seconds", self._sweep_seconds.get(cadence), cadence)
        yield _row("agent_reader_restarts_total", self.restarts)
        lost = {"kernel_log_overrun": self.kernel_records_lost}
        for error in READ_ERRORS:
            yield _row("agent_read_errors_total", self._errors[error] + lost.get(error, 0), error)
        yield _row("agent_nvml_calls_total", self._calls)
        for key, xid in self._xids.items():
            yield _row("gpu_xid_total", xid.count, *key)
        for key, xid in self._xids.items():
            yield _row("gpu_xid_last_seen_timestamp_seconds", xid.last_ns / _NANOSECONDS, *key)


def _row(name: str, value: Value | None, *labels: str) -> Row:
    return Series(BY_NAME[name], labels), value

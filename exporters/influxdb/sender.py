"""Sends what waits in the spool, oldest first, until the server has it: one request a step, in no hurry.

What the server does decides (facts on reliability, §1). It has the lines: they are forgotten. It refuses
them: halves of halves, until the one bad line is found and set aside. They are too many: halves. It wants
another token, or knows no such bucket: they are held, and it is asked once a minute. It fails or is silent:
waits that grow and vary, without end, and batches that become smaller. It fails with one of the least size
while it takes the one behind: that batch is set aside (CONTRACTS §8).
"""

from __future__ import annotations

import enum
import logging
import time
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Protocol

from exporters.influxdb.backoff import Backoff, Pace
from exporters.influxdb.batch_limit import LEAST_BATCH_BYTES, MAXIMUM_BATCH_BYTES, BatchLimit
from exporters.influxdb.failures import ADVICE, Failure
from exporters.influxdb.pieces import Pieces
from exporters.influxdb.spool_types import Batch, Position
from exporters.influxdb.target import Answer, Outcome, Writer

_logger = logging.getLogger("rackwatt.influxdb")

IDLE_SECONDS = 1.0
"""How often is looked for something new (chosen: Snapshots come each second)."""
HELD_SECONDS = 60.0
"""How often a server that takes nothing until a person acts is asked (chosen)."""
TRIES_ALONE = 5
"""How often a batch of the least size may fail before the one behind it is tried (chosen: half a minute)."""
REFUSALS_IN_A_ROW = 16
"""How often a server that never took a line may refuse, halving each time, before it is taken for one that
refuses everything (chosen), as it does where `bucket` is no name for one."""
DOUBTS = 10
"""How often that counts as a wrong configuration, before lines are set aside for it (chosen: ten minutes)."""

_WHOLE_REFUSED = 400
_TOO_MANY = 429
_OF_THE_SERVER = frozenset({_TOO_MANY, 502, 503, 504})
"""What is said of the server, or of a way to it, and not of the batch (RFC 9110 §15.6, RFC 6585 §4)."""
_PARTLY_TAKEN = frozenset({201, 422})
"""Refusals of some lines, by a server that took the others (facts on reliability, §1)."""


class State(enum.Enum):
    """What the sender does; the values are those of the label `state` (collector.catalog.influxdb)."""

    IDLE = "idle"
    SENDING = "sending"
    BACKING_OFF = "backing_off"
    HELD = "held"


@dataclass(frozen=True, slots=True, kw_only=True)
class SenderStatus:
    """An account of the sender. Counts are since its start.

    Attributes:
        state: What it does.
        words: What is wrong, and what to do; empty where nothing is.
        points_written: Points that were acknowledged, each once.
        requests: Requests that were answered with success.
        rejected: Points that were set aside, by cause (`REJECT_CAUSES` of the catalogue).
        errors: Requests that failed, by kind.
        last_success_ns: When points were acknowledged last, nanoseconds of Unix time; None if never.
    """

    state: State = State.IDLE
    words: str = ""
    points_written: int = 0
    requests: int = 0
    rejected: Mapping[str, int] = field(default_factory=dict)
    errors: Mapping[Failure, int] = field(default_factory=dict)
    last_success_ns: int | None = None


class Backlog(Protocol):
    """What the sender needs of a spool."""

    def read(self, maximum_bytes: int) -> Batch | None:
        """Return the oldest records; the same ones until they are acknowledged or dropped."""

    def acknowledge(self, position: Position) -> None:
        """Forget everything before a position."""

    def quarantine(self, lines: Sequence[bytes], reason: str) -> None:
        """Set lines aside."""


class Sender:
    """Sends; `step` by `step`, all of them in one thread. `status` may be read in any."""

    def __init__(
        self,
        spool: Backlog,
        writer: Writer,
        *,
        random: Callable[[], float],
        pace: Pace | None = None,
        wall_ns: Callable[[], int] = time.time_ns,
    ) -> None:
        """Begin with whatever waits.

        Args:
            spool: What waits.
            writer: The server.
            random: Draws a number from 0 to below 1.
            pace: How much may be sent in a time; None for as fast as the server takes it.
            wall_ns: Unix time in nanoseconds.
        """
        self._spool = spool
        self._writer = writer
        self._pace = pace
        self._wall_ns = wall_ns
        self._backoff = Backoff(random)
        self._limit = BatchLimit()
        self._batch: Batch | None = None
        self._pieces = Pieces(b"")
        self._failures = 0
        self._doubts = 0
        self._waited = False
        self._ahead: Batch | None = None
        self._ahead_is_next = False
        self._others_succeed = False
        self._status = SenderStatus()

    @property
    def status(self) -> SenderStatus:
        """Its account."""
        return self._status

    def step(self) -> float:
        """Do one request at most.

        Returns:
            Seconds after which the next step is worth while; 0 for at once.
        """
        if self._batch is not None and self._waited and not self._still_waits(self._batch):
            self._forget()
        self._waited = False
        if self._batch is None:
            if self._pace is not None and self._pace.allowed() < 1:
                return IDLE_SECONDS
            self._begin(self._spool.read(self._next_bytes()))
        if self._batch is None:
            self._say(State.IDLE)
            return IDLE_SECONDS
        if self._ahead_is_next:
            return self._try_ahead(self._batch)
        return self._take(self._writer.write(self._pieces.body()), self._batch)

    def _next_bytes(self) -> int:
        if self._pace is None:
            return self._limit.bytes
        return min(self._limit.bytes, self._pace.allowed())

    def _begin(self, batch: Batch | None) -> None:
        self._batch = batch
        if batch is not None:
            self._pieces = Pieces(batch.payload)
            # The spool gives a record whole, however large it is.
            self._pieces.cut(self._limit.bytes)

    def _still_waits(self, batch: Batch) -> bool:
        """Tell whether the spool still has a batch; what it dropped meanwhile is not sent any more."""
        if self._pieces.begun:
            return True
        again = self._spool.read(len(batch.payload))
        return again is not None and again.payload == batch.payload

    def _forget(self) -> None:
        self._batch = self._ahead = None
        self._failures = 0
        self._ahead_is_next = self._others_succeed = False

    def _take(self, answer: Answer, batch: Batch) -> float:
        """Do what an answer to the foremost piece asks for."""
        self._count(answer)
        match answer.outcome:
            case Outcome.WRITTEN:
                size = len(self._pieces.body())
                self._limit.taken(size)
                self._written(self._pieces.points, size)
                self._pieces.written()
            case Outcome.REFUSED:
                self._pieces.refused(answer.words, "refused")
                if answer.status == _WHOLE_REFUSED and self._doubtful():
                    self._forget()
                    return self._hold(answer)
            case Outcome.TOO_LARGE:
                self._limit.too_large(len(self._pieces.body()))
                self._pieces.refused(answer.words, "too_large")
            case Outcome.HELD:
                return self._hold(answer)
            case Outcome.UNREACHABLE:
                return self._back_off(answer)
            case Outcome.FAILED:
                return self._failed(answer, batch)
        self._failures = 0
        self._others_succeed = False
        self._backoff.reset()
        self._say(State.SENDING)
        self._go_on(batch)
        return 0.0

    def _doubtful(self) -> bool:
        """Tell whether the configuration is the likelier cause of a refusal than the lines."""
        pieces = self._pieces
        if self._status.points_written or pieces.accepted or self._doubts >= DOUBTS:
            return False
        if pieces.left and pieces.refusals < REFUSALS_IN_A_ROW:
            return False
        self._doubts += 1
        return True

    def _go_on(self, batch: Batch) -> None:
        """Finish the batch if nothing of it is left."""
        if self._pieces.left:
            return
        for rejected in self._pieces.rejected:
            self._spool.quarantine(rejected.lines, f"{rejected.cause}: {rejected.words}")
            counts = Counter(self._status.rejected)
            counts[rejected.cause] += len(rejected.lines)
            if self._pace is not None:
                self._pace.take(sum(len(line) + 1 for line in rejected.lines))
            self._status = replace(self._status, rejected=dict(counts))
            _logger.warning("%d points were set aside: %s", len(rejected.lines), rejected.words)
        ahead = self._ahead
        self._spool.acknowledge(batch.position if ahead is None else ahead.position)
        self._forget()

    def _failed(self, answer: Answer, batch: Batch) -> float:
        """Wait, and send less in one go; or, where others succeed, set the piece aside."""
        of_the_batch = answer.status not in _OF_THE_SERVER
        if self._others_succeed and of_the_batch:
            self._pieces.set_aside(answer.words, "server_error")
            self._failures = 0
            self._others_succeed = False
            self._backoff.reset()
            self._say(State.SENDING)
            self._go_on(batch)
            return 0.0
        self._failures += of_the_batch
        if self._is_least():
            self._ahead_is_next = of_the_batch and self._failures >= TRIES_ALONE
        elif answer.status != _TOO_MANY and self._limit.failed(len(self._pieces.body())):
            self._send_less(batch)
        return self._back_off(answer)

    def _is_least(self) -> bool:
        """Tell whether less than the foremost piece is not tried, so that its size is not to blame."""
        return len(self._pieces.body()) <= LEAST_BATCH_BYTES or self._pieces.points == 1

    def _send_less(self, batch: Batch) -> None:
        """Send a batch in smaller ones; what it has already got through is kept."""
        self._failures = 0
        if batch.records > 1 and not self._pieces.begun:
            self._forget()
        else:
            self._pieces.cut(self._limit.bytes)

    def _try_ahead(self, batch: Batch) -> float:
        """Try what stands behind the batch, to tell whether the server fails with this one only."""
        self._ahead_is_next = False
        sent = batch.payload + (self._ahead.payload if self._ahead is not None else b"")
        ahead = self._behind(sent)
        if ahead is None:
            return self._take(self._writer.write(self._pieces.body()), batch)
        answer = self._writer.write(ahead.payload)
        self._count(answer)
        match answer.outcome:
            case Outcome.WRITTEN:
                self._written(ahead.points, len(ahead.payload))
                self._ahead = replace(ahead, payload=(sent + ahead.payload)[len(batch.payload) :])
                self._others_succeed = True
            case Outcome.REFUSED if answer.status in _PARTLY_TAKEN:
                self._others_succeed = True
            case Outcome.HELD:
                return self._hold(answer)
            case _:
                return self._back_off(answer)
        return 0.0

    def _behind(self, sent: bytes) -> Batch | None:
        """Read what stands behind lines at the front of the spool; None where nothing does."""
        size = self._limit.bytes
        while True:
            more = self._spool.read(len(sent) + size)
            if more is None or not more.payload.startswith(sent):
                return None
            if len(more.payload) > len(sent):
                payload = more.payload[len(sent) :]
                return replace(more, payload=payload, points=payload.count(b"\n"))
            if size >= MAXIMUM_BATCH_BYTES:
                return None
            # The record behind is larger.
            size = min(MAXIMUM_BATCH_BYTES, 2 * size)

    def _hold(self, answer: Answer) -> float:
        self._waited = True
        self._others_succeed = False
        self._say(State.HELD, answer)
        return max(HELD_SECONDS, answer.retry_after_seconds or 0.0)

    def _back_off(self, answer: Answer) -> float:
        self._waited = True
        self._others_succeed = False
        self._say(State.BACKING_OFF, answer)
        return self._backoff.next(answer.retry_after_seconds)

    def _written(self, points: int, size: int) -> None:
        if self._pace is not None:
            self._pace.take(size)
        self._status = replace(
            self._status,
            points_written=self._status.points_written + points,
            last_success_ns=self._wall_ns(),
        )

    def _count(self, answer: Answer) -> None:
        if answer.failure is None:
            self._status = replace(self._status, requests=self._status.requests + 1)
            return
        errors = Counter(self._status.errors)
        errors[answer.failure] += 1
        self._status = replace(self._status, errors=dict(errors))

    def _say(self, state: State, answer: Answer | None = None) -> None:
        """Take a state over, and log what changed, once."""
        before = self._status
        words = "" if answer is None or answer.failure is None else _words(answer, answer.failure)
        self._status = replace(before, state=state, words=words)
        was_well, is_well = not before.words, not words
        if state is State.HELD and before.words != words:
            _logger.error("InfluxDB takes no points, which are kept on disk: %s", words)
        elif not is_well and was_well:
            _logger.warning("InfluxDB cannot be written, points are kept on disk: %s", words)
        elif is_well and not was_well:
            _logger.info("InfluxDB is written again")


def _words(answer: Answer, failure: Failure) -> str:
    advice = ADVICE[failure]
    return f"{answer.words}; {advice}" if advice else answer.words

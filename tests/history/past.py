"""The month before a history, as the ledger of a rack service knows it: what windows of days look back upon.

The service is the shipped one, polled each hour, and each half minute where a window of the history ends.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterator, Sequence
from dataclasses import replace

from collector.health.rack_types import Poll
from collector.health.samples import NO_SAMPLES
from collector.health.tracker_rules import TrackerRules
from collector.rack import RackService, RackServiceSettings
from collector.rack.records import Records
from tests.history.plans import HOUR_SECONDS, LEAD_SECONDS, Outage
from tests.history.tray import BEGIN_NS, HistoryTray

POLL_SECONDS = 3600
_DENSE_SECONDS = 30
_DAY_SECONDS = 86_400
WINDOWS_SECONDS = (6 * 3600, _DAY_SECONDS, 3 * _DAY_SECONDS, 7 * _DAY_SECONDS, 30 * _DAY_SECONDS)
"""Windows of the recording rules that are longer than a history."""
_MENDING_POLLS = 40
_SECOND_NS = 10**9


class _PastPolls:
    """Nodes that say what they say at the begin of the history, or are away."""

    def __init__(self, trays: Sequence[HistoryTray], outages: Sequence[Outage]) -> None:
        self.started_at: float | None = None
        self.unpolled = 0
        self.now_ns = 0
        self._outages = outages
        self._good = [tray.peer.poll(None) for tray in trays]
        self._heard: dict[str, Poll] = {}
        self._sequence = 0

    async def start(self) -> None:
        self.started_at = 0.0

    async def close(self) -> None:
        pass

    def polls(self, rack: str, *, with_events: bool = True) -> tuple[Poll, ...]:
        assert rack
        assert with_events in (True, False)
        self._sequence += 1
        return tuple(self._poll(number, poll) for number, poll in enumerate(self._good))

    def _poll(self, number: int, good: Poll) -> Poll:
        away = self._away(number)
        if away is not None:
            last = self._heard[good.node]
            return replace(last, error="connection timed out", witness=True if away.witnessed else None)
        assert good.view is not None
        # Without samples: energy and tokens begin with the history.
        self._heard[good.node] = replace(
            good,
            view=replace(good.view, observed_ns=self.now_ns, sequence=self._sequence),
            last_good_ns=self.now_ns,
            samples=NO_SAMPLES,
            histograms=(),
        )
        return self._heard[good.node]

    def _away(self, number: int) -> Outage | None:
        before = (BEGIN_NS - self.now_ns) // _SECOND_NS
        for outage in self._outages:
            gone = outage.before_seconds - outage.lasts_seconds < before <= outage.before_seconds
            if gone and number >= len(self._good) - outage.nodes:
                return outage
        return None


class _NoShelves:
    async def start(self) -> None:
        pass

    async def close(self) -> None:
        pass

    def readings(self, rack: str) -> tuple[()]:
        assert rack
        return ()


def _moments(outages: Sequence[Outage]) -> Iterator[tuple[int, bool]]:
    """Yield the moments that are judged, in seconds before the history, and whether they are scraped."""
    dense = {
        window - offset
        for window in WINDOWS_SECONDS
        for offset in range(0, LEAD_SECONDS + HOUR_SECONDS + 1, _DENSE_SECONDS)
    }
    hourly = set(range(POLL_SECONDS, WINDOWS_SECONDS[-1] + POLL_SECONDS, POLL_SECONDS))
    # A node that was down is believed after ten minutes of good polls.
    mending = {
        outage.before_seconds - outage.lasts_seconds - _DENSE_SECONDS * number
        for outage in outages
        for number in range(_MENDING_POLLS)
    }
    for before in sorted(dense | hourly | mending | {_DENSE_SECONDS}, reverse=True):
        yield before, before in dense


class Past:
    """A service that has watched a rack for a month."""

    def __init__(
        self,
        settings: RackServiceSettings,
        records: Records,
        trays: Sequence[HistoryTray],
        outages: Sequence[Outage],
    ) -> None:
        """Begin, without having seen anything.

        Args:
            settings: Those of the history's service.
            records: The ledger, which the history's service takes up.
            trays: The rack's trays, which have been polled.
            outages: What happened.
        """
        self._outages = tuple(outages)
        self._polls = _PastPolls(trays, outages)
        self.service = RackService(
            replace(settings, poll_seconds=POLL_SECONDS),
            records,
            poller=self._polls,
            shelves=_NoShelves(),
            # Who does not answer one of these polls is silent.
            rules=TrackerRules(poll_interval_seconds=_DENSE_SECONDS),
            monotonic=lambda: self._polls.now_ns / _SECOND_NS,
            wall_ns=lambda: self._polls.now_ns,
        )

    async def scrapes(self) -> AsyncIterator[int]:
        """Let the month pass; yield the Unix time in nanoseconds of each scrape."""
        started = False
        for before, scraped in _moments(self._outages):
            self._polls.now_ns = BEGIN_NS - before * _SECOND_NS
            if not started:
                await self.service.start()
                started = True
            self.service.evaluate()
            await self.service.incidents(limit=1)
            if scraped:
                yield self._polls.now_ns
        await self.service.close()

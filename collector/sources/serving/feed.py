"""Scrapes every configured endpoint once a period, each by itself, and gives what is known now."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Iterable, Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from typing import Protocol

from collector.catalog.spec import Level
from collector.model import HistogramSample, Series, Value
from collector.schedule import Schedule
from collector.sources.serving.endpoint import EndpointReading, ScrapeError, ServingEndpoint
from collector.sources.serving.rows import POSITIONS
from collector.sources.serving.watched import Reader, Watched

PERIOD_SECONDS = 5.0
"""Time between two scrapes of an endpoint (DESIGN §5)."""

_FRESH_PERIODS = 3
"""Periods for which a good scrape holds where none follows, good or not, as when its job hangs (chosen)."""
_INLINE_BYTES = 64 * 1024
"""Answers up to this size are read on the event loop, larger ones in a thread (chosen: 47 kB in the shape of
vLLM's take 1.7 ms)."""
_THREADS = 4
"""Answers that are read at the same time, so that a monstrous one keeps no other waiting (chosen)."""


class Fetch(Protocol):
    """Reads endpoints over the network."""

    async def fetch(self, endpoint: ServingEndpoint) -> bytes:
        """Return what an endpoint answers, within a bounded time; raises ScrapeError."""

    async def close(self) -> None:
        """End every connection."""


class ServingFeed:
    """The serving engines of a node, as a `collector.protocols.Feed`."""

    def __init__(
        self,
        endpoints: Sequence[ServingEndpoint],
        *,
        fetcher: Fetch,
        make_reader: Callable[[ServingEndpoint], Reader],
        schedule: Schedule,
        period_seconds: float = PERIOD_SECONDS,
        level: Level = Level.STANDARD,
        monotonic: Callable[[], float] = time.monotonic,
    ) -> None:
        """Prepare; nothing is asked before `start`.

        Args:
            endpoints: The endpoints, each with a name of its own.
            fetcher: Reads them; closed with the feed.
            make_reader: Makes what reads the answers of an endpoint.
            schedule: What the scrapes run on.
            period_seconds: Time between two scrapes of an endpoint.
            level: Up to which level of detail metrics are exported.
            monotonic: Clock in seconds.
        """
        self._watched = tuple(
            Watched(
                endpoint, make_reader(endpoint), level=level, fresh_seconds=_FRESH_PERIODS * period_seconds
            )
            for endpoint in endpoints
        )
        self._fetcher = fetcher
        self._schedule = schedule
        self._period_seconds = period_seconds
        self._monotonic = monotonic
        self._threads: ThreadPoolExecutor | None = None

    @property
    def revision(self) -> int:
        """A number that rises whenever the series change."""
        return sum(watched.revision for watched in self._watched)

    def rows(self) -> Iterable[tuple[Series, Value | None]]:
        """Return every series with its value now, grouped by metric in the order of the catalogue."""
        now = self._monotonic()
        rows = [row for watched in self._watched for row in watched.rows(now)]
        return sorted(rows, key=lambda row: POSITIONS[row[0].metric.name])

    def histograms(self) -> Iterable[HistogramSample]:
        """Return the histograms that are known now, grouped by metric in the order of the catalogue."""
        now = self._monotonic()
        known = [sample for watched in self._watched for sample in watched.histograms(now)]
        return sorted(known, key=lambda sample: POSITIONS[sample.metric.name])

    async def start(self) -> None:
        """Begin to scrape, each endpoint at a moment of its own within the period."""
        self._threads = ThreadPoolExecutor(_THREADS, thread_name_prefix="serving")
        for position, watched in enumerate(self._watched):
            self._schedule.every(
                _job_name(watched),
                self._period_seconds,
                partial(self._scrape, watched),
                first_after_seconds=self._period_seconds * position / len(self._watched),
            )

    async def close(self) -> None:
        """Stop scraping, and end every connection."""
        await self._schedule.end(*map(_job_name, self._watched))
        await self._fetcher.close()
        if self._threads is not None:
            self._threads.shutdown(wait=False, cancel_futures=True)
            self._threads = None

    async def _scrape(self, watched: Watched) -> None:
        """Scrape one endpoint; whatever it does, the others are scraped all the same."""
        if watched.drained:
            return
        begin = self._monotonic()
        try:
            body = await self._fetcher.fetch(watched.endpoint)
            reading = await self._read(watched.reader, body)
            watched.scrape_seconds = self._monotonic() - begin
            watched.take(reading, self._monotonic())
        except ScrapeError as error:
            watched.scrape_seconds = self._monotonic() - begin
            watched.fail(error)
        except Exception:
            # What is known is no more to be trusted; the schedule says it, once.
            watched.lose()
            raise

    async def _read(self, reader: Reader, body: bytes) -> EndpointReading:
        if self._threads is None or len(body) <= _INLINE_BYTES:
            return reader.read(body)
        return await asyncio.get_running_loop().run_in_executor(self._threads, reader.read, body)


def _job_name(watched: Watched) -> str:
    return f"scrape of {watched.endpoint.name}"

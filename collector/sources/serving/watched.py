"""What is known of one endpoint, and until when it holds."""

from __future__ import annotations

import logging
from collections.abc import Iterator, Mapping
from typing import Protocol

from collector.catalog.llm import SCRAPE_ERRORS
from collector.catalog.spec import Level
from collector.model import HistogramSample, Series, Value
from collector.sources.serving.endpoint import EndpointReading, ScrapeError, ServingEndpoint
from collector.sources.serving.rows import (
    Key,
    doubtful,
    histograms_of,
    labels_of,
    series_of,
    status_keys,
    values_of,
)

_logger = logging.getLogger("rackwatt.serving")


class Reader(Protocol):
    """Makes of an endpoint's answers what the catalogue calls them; one an endpoint, as it may remember."""

    def read(self, body: bytes) -> EndpointReading:
        """Read an answer; called for one at a time, maybe in another thread.

        Raises:
            ScrapeError: Nothing in it can be used.
        """


class Watched:
    """One endpoint.

    It is up while its last scrape was good and is at most `fresh_seconds` old. Otherwise its values are
    absent at once; their series stay in the table until a newer good scrape brings others.

    Attributes:
        endpoint: As it is configured.
        reader: Reads its answers.
        revision: Rises when its series change.
        drained: Whether it answered with what reading empties; it must not be asked again.
        scrape_seconds: Time that the last scrape took; None before the first.
    """

    def __init__(
        self, endpoint: ServingEndpoint, reader: Reader, *, level: Level, fresh_seconds: float
    ) -> None:
        """Know nothing of it yet.

        Args:
            endpoint: As it is configured.
            reader: Reads its answers.
            level: Up to which level of detail metrics are exported.
            fresh_seconds: How long a good scrape holds.
        """
        self.endpoint = endpoint
        self.reader = reader
        self.revision = 0
        self.drained = False
        self.scrape_seconds: float | None = None
        self._level = level
        self._fresh_seconds = fresh_seconds
        self._errors = dict.fromkeys(SCRAPE_ERRORS, 0)
        self._labels = labels_of(endpoint, None)
        self._values: Mapping[Key, Value | None] = {}
        self._histograms: tuple[HistogramSample, ...] = ()
        self._read_at: float | None = None
        self._ever_read = False
        self._said: set[str] = set()
        self._doubted: set[str] = set()
        self._lay_out()

    def up(self, now: float) -> bool:
        """Tell whether the last scrape was good and is fresh.

        Args:
            now: The present, on the clock of `take`.
        """
        return self._read_at is not None and now - self._read_at <= self._fresh_seconds

    def take(self, reading: EndpointReading, now: float) -> None:
        """Take what a good scrape brought.

        Args:
            reading: What it brought.
            now: The present in seconds.
        """
        labels = labels_of(self.endpoint, reading)
        values = values_of(reading, labels, self._level)
        histograms = histograms_of(reading, labels, self._level)
        changed = labels != self._labels or values.keys() != self._values.keys()
        self._labels, self._values, self._histograms = labels, values, histograms
        self._read_at = now
        if changed:
            self._lay_out()
            self.revision += 1
        self._say_good()
        self._say_doubtful()

    def fail(self, error: ScrapeError) -> None:
        """Note that a scrape brought nothing, and count it."""
        self._errors[error.error] += 1
        self.drained = self.drained or error.error == "drained_json"
        self.lose()
        if error.error not in self._said:
            self._said.add(error.error)
            _logger.warning("%s: %s", self.endpoint.name, error, extra=self._extra)

    def lose(self) -> None:
        """Note that nothing is known any more."""
        self._read_at = None

    def rows(self, now: float) -> Iterator[tuple[Series, Value | None]]:
        """Yield the series with their values.

        Args:
            now: The present in seconds.
        """
        up = self.up(now)
        yield from zip(self._status_series, self._status(up), strict=True)
        for series, value in zip(self._value_series, self._values.values(), strict=True):
            yield series, value if up else None

    def histograms(self, now: float) -> tuple[HistogramSample, ...]:
        """Return the histograms that are known.

        Args:
            now: The present in seconds.
        """
        return self._histograms if self.up(now) else ()

    @property
    def _extra(self) -> dict[str, str]:
        return {"engine": self._labels.engine, "role": self._labels.role}

    def _lay_out(self) -> None:
        self._status_series = series_of(status_keys(self.endpoint, self._labels))
        self._value_series = series_of(tuple(self._values))

    def _status(self, up: bool) -> Iterator[Value | None]:
        """Yield values in the order of `status_keys`."""
        yield int(up)
        yield from (1 for _ in self.endpoint.gpus)
        yield self.scrape_seconds
        yield from self._errors.values()

    def _say_good(self) -> None:
        if self._said or not self._ever_read:
            again = " again" if self._said else ""
            _logger.info("%s: metrics are read%s", self.endpoint.name, again, extra=self._extra)
        self._said.clear()
        self._ever_read = True

    def _say_doubtful(self) -> None:
        for name in sorted(doubtful(self._values) - self._doubted):
            self._doubted.add(name)
            _logger.warning(
                "%s: a value of %s is out of its range and left out",
                self.endpoint.name,
                name,
                extra=self._extra,
            )

"""Which engine an endpoint is, by the names of its metrics."""

from __future__ import annotations

import re

from collector.catalog.engines import ENGINE_NAMES
from collector.sources.serving.endpoint import ScrapeError
from collector.sources.serving.engines import NAME_MAPS
from collector.sources.serving.engines.spec import NameMap
from collector.sources.serving.exposition import check_text, mentions

_SUFFIX = re.compile(r"_(?:bucket|count|sum|total)$")
"""What the name of a series has beyond that of its family in a TYPE line."""


class Recognizer:
    """Finds the name map that fits an endpoint's answers, and keeps it while it does."""

    def __init__(self, engine: str | None, name_maps: tuple[NameMap, ...] = NAME_MAPS) -> None:
        """Know nothing of the endpoint yet.

        Args:
            engine: Name of its engine as it is configured; None to recognize it.
            name_maps: The engines, in the order of recognition.

        Raises:
            ValueError: No map has the name.
        """
        chosen = tuple(entry for entry in name_maps if engine in (None, entry.engine.name))
        if not chosen:
            raise ValueError(f"{engine!r} is no engine: expected {', '.join(ENGINE_NAMES)}")
        self._configured = engine
        self._patterns = tuple((entry, _pattern(entry, engine is not None)) for entry in chosen)
        self._last: NameMap | None = None

    def recognize(self, body: bytes) -> NameMap:
        """Return the name map that fits an answer.

        Args:
            body: The answer, bounded before.

        Returns:
            The map that fitted last while it fits, else the first one that does.

        Raises:
            ScrapeError: `unrecognized`; or what `check_text` raises where the answer is no exposition.
        """
        for entry, pattern in sorted(self._patterns, key=lambda pair: pair[0] is not self._last):
            if pattern.search(body):
                self._last = entry
                return entry
        self._last = None
        check_text(body)
        if self._configured is not None:
            raise ScrapeError(
                "unrecognized",
                f"none of the metrics is one of {self._configured}: is it the address of its metrics, and "
                "are they switched on? `engine: auto` recognizes what it is",
            )
        raise ScrapeError(
            "unrecognized",
            f"the metrics are of no engine that is known ({', '.join(ENGINE_NAMES)}): is it the address of "
            "an engine, or of its worker, with metrics switched on?",
        )


def _pattern(entry: NameMap, configured: bool) -> re.Pattern[bytes]:
    """Make the pattern that finds an engine: by its marks, or if it is configured by any name of it."""
    names = {_SUFFIX.sub("", name) for name in entry.names} if configured else set()
    return mentions(sorted({*entry.marks, *names}))

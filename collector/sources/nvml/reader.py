"""The reader: a step at a time, it opens NVML, reads what is due, and survives what breaks."""

from __future__ import annotations

import time
from collections.abc import Callable

from collector.errors import NvmlUnavailableError
from collector.readings import Message, Reading, SeriesKey
from collector.sources.nvml.fills import Remembering
from collector.sources.nvml.library import NvmlLibrary
from collector.sources.nvml.options import ReaderOptions
from collector.sources.nvml.session import Session

_RETRY_SECONDS = 5.0
"""How long after a failure NVML is tried again; a missing library or driver costs next to nothing to miss."""


class NvmlReader:
    """Reads one node through one NVML library.

    Attributes:
        options: How it reads.
        needs_new_process: True once only a fresh process can load NVML again.
    """

    def __init__(
        self,
        open_library: Callable[[], NvmlLibrary],
        options: ReaderOptions,
        *,
        monotonic: Callable[[], float] = time.monotonic,
        wall_ns: Callable[[], int] = time.time_ns,
    ) -> None:
        """Prepare; nothing is loaded before the first step.

        Args:
            open_library: Loads NVML; raises NvmlUnavailableError where it cannot.
            options: How to read.
            monotonic: Clock in seconds, for what is due.
            wall_ns: Unix time in nanoseconds, for when something happened.
        """
        self.options = options
        self.needs_new_process = False
        self._open_library = open_library
        self._monotonic = monotonic
        self._wall_ns = wall_ns
        self._session: Session | None = None
        self._generation = 0
        self._retry_at = 0.0
        self._reason = ""
        self._module_memory: dict[SeriesKey, Remembering] = {}

    def step(self, now: float) -> list[Message]:
        """Read what is due.

        Args:
            now: Monotonic time in seconds.

        Returns:
            One Reading, with a Layout before it where the series changed. While NVML cannot be used the
            Reading says so, with the reason.
        """
        if self._session is None and now < self._retry_at:
            return [self._unavailable(now)]
        try:
            if self._session is None:
                self._session = self._open()
            layout, reading = self._session.read(now)
        except NvmlUnavailableError as error:
            return [self._break(error, now)]
        self._generation = self._session.generation
        return [reading] if layout is None else [layout, reading]

    def close(self) -> None:
        """Let go of NVML."""
        if self._session is not None:
            self._session.close()
            self._session = None

    def _open(self) -> Session:
        return Session(
            self._open_library(),
            self.options,
            monotonic=self._monotonic,
            wall_ns=self._wall_ns,
            generation=self._generation,
            module_memory=self._module_memory,
        )

    def _unavailable(self, now: float) -> Reading:
        return Reading(taken_at=now, generation=0, up=False, reason=self._reason)

    def _break(self, error: NvmlUnavailableError, now: float) -> Reading:
        self._reason = str(error)
        self._retry_at = now + _RETRY_SECONDS
        self.needs_new_process = self.needs_new_process or error.needs_new_process
        session = self._session
        if session is None:
            return self._unavailable(now)
        self._generation = session.generation
        self.close()
        return session.last_reading(error, now)

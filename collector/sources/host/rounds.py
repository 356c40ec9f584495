"""Reads that may block, done one after another on a thread; one that hangs is left behind with its thread."""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable, Iterator

_logger = logging.getLogger("rackwatt.host")

Errand = tuple[str, Callable[[], None]]
"""What is read, by name, and the call that reads it and may block."""


class Rounds:
    """Does rounds of errands, each round on a thread.

    An errand that hangs keeps its thread, and is passed over until it comes back; the others go on with the
    next round, on another thread. So there are never more threads than errands that hang, and one.
    """

    def __init__(self, patience_seconds: float, monotonic: Callable[[], float] = time.monotonic) -> None:
        """Prepare; there is no thread yet.

        Args:
            patience_seconds: An errand that has taken longer hangs.
            monotonic: Clock in seconds.
        """
        self._patience_seconds = patience_seconds
        self._monotonic = monotonic
        self._lock = threading.Lock()
        self._round = 0
        self._running = False
        self._begun_at = 0.0
        self._busy: set[str] = set()

    def begin(self, errands: Iterator[Errand]) -> bool:
        """Begin a round, and return at once.

        Args:
            errands: The errands; taken one by one on the round's thread.

        Returns:
            False if the round before is still under way and does not hang: then none is begun.
        """
        with self._lock:
            if self._running and self._monotonic() - self._begun_at < self._patience_seconds:
                return False
            self._round += 1
            self._running = True
            self._begun_at = self._monotonic()
            number = self._round
        # A daemon: one that hangs must not keep the process from its end.
        threading.Thread(target=self._work, args=(number, errands), name="rackwatt-host", daemon=True).start()
        return True

    def stop(self) -> None:
        """Let every thread end after what it does now."""
        with self._lock:
            self._round += 1
            self._running = False

    def _work(self, number: int, errands: Iterator[Errand]) -> None:
        try:
            for name, errand in errands:
                with self._lock:
                    if number != self._round:
                        return
                    if name in self._busy:
                        continue
                    self._busy.add(name)
                    self._begun_at = self._monotonic()
                try:
                    errand()
                finally:
                    with self._lock:
                        self._busy.discard(name)
        except Exception:
            _logger.exception("reading the host's sensors failed; it is tried again")
        finally:
            with self._lock:
                if number == self._round:
                    self._running = False

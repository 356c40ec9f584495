"""How long to wait before the next try, and how much may be sent in a time: thousands recover together."""

from __future__ import annotations

import re
import threading
from collections.abc import Callable
from datetime import UTC
from email.utils import parsedate_to_datetime

FIRST_SECONDS = 1.0
LONGEST_SECONDS = 60.0
"""Bounds of the wait after one failure and after many (facts on reliability, §1, as vmagent has them)."""

LONGEST_RETRY_AFTER_SECONDS = 600.0
"""Longest that a server can have us wait (facts on reliability, §1: Telegraf's cap)."""

DRAIN_FACTOR = 5.0
"""How many times the live rate a backlog is sent at most, live data included (facts on reliability, §1)."""

_DELTA = re.compile(r"[0-9]{1,9}")


class Backoff:
    """Waits that grow without end of tries, each drawn between nothing and a bound ("full jitter").

    Source: Amazon Web Services, "Exponential Backoff And Jitter": with it many clients that failed together
    come back spread over the whole time.
    """

    def __init__(self, random: Callable[[], float]) -> None:
        """Begin with the first wait.

        Args:
            random: Draws a number from 0 to below 1.
        """
        self._random = random
        self._bound = FIRST_SECONDS

    def next(self, retry_after_seconds: float | None = None) -> float:
        """Return how long to wait now; the bound of the next wait is twice as long.

        Args:
            retry_after_seconds: What the server asks for; the drawn wait comes after it.
        """
        drawn = self._random() * self._bound
        self._bound = min(LONGEST_SECONDS, 2 * self._bound)
        return drawn + min(retry_after_seconds or 0.0, LONGEST_RETRY_AFTER_SECONDS)

    def reset(self) -> None:
        """Begin anew: something was sent."""
        self._bound = FIRST_SECONDS


def retry_after_seconds(text: str | None, now_ns: int) -> float | None:
    """Read a Retry-After header: seconds, or a date (RFC 9110 §10.2.3).

    Args:
        text: What the server wrote; None for nothing.
        now_ns: The present, nanoseconds of Unix time.

    Returns:
        Seconds to wait, 0 to `LONGEST_RETRY_AFTER_SECONDS`; None where nothing legible was written.
    """
    if text is None:
        return None
    text = text.strip()
    if _DELTA.fullmatch(text):
        return min(float(text), LONGEST_RETRY_AFTER_SECONDS)
    try:
        date = parsedate_to_datetime(text)
        wait = (date if date.tzinfo else date.replace(tzinfo=UTC)).timestamp() - now_ns / 1e9
    except (ValueError, OverflowError):
        return None
    return min(max(0.0, wait), LONGEST_RETRY_AFTER_SECONDS)


class Rate:
    """How many bytes of lines a second are made, averaged over the last minute or so. Any thread."""

    WINDOW_SECONDS = 60.0
    """Chosen: a full round of everything that is written, slow rows included."""
    LEAST_SECONDS = 2.0
    """Chosen: what is shorter says nothing of a rate."""

    def __init__(self, monotonic: Callable[[], float]) -> None:
        """Begin now.

        Args:
            monotonic: Clock in seconds.
        """
        self._monotonic = monotonic
        self._lock = threading.Lock()
        self._since = monotonic()
        self._bytes = 0.0

    def add(self, count: int) -> None:
        """Count bytes that were made just now."""
        with self._lock:
            self._age()
            self._bytes += count

    def per_second(self) -> float | None:
        """Return the rate; None while it is not known."""
        with self._lock:
            self._age()
            seconds = self._monotonic() - self._since
            return self._bytes / seconds if seconds >= self.LEAST_SECONDS and self._bytes else None

    def _age(self) -> None:
        """Let what is older than the window count less and less."""
        now = self._monotonic()
        seconds = now - self._since
        if seconds > self.WINDOW_SECONDS:
            self._bytes *= self.WINDOW_SECONDS / seconds
            self._since = now - self.WINDOW_SECONDS


class Pace:
    """Allows so many bytes in a time: a bucket that fills at a multiple of the live rate."""

    BURST_SECONDS = 2.0
    """How much of the rate may be sent in one go (chosen)."""
    FIRST_BYTES = 256 * 1024
    """What may be sent at the start, before there is a rate (chosen: the Snapshots of some ten seconds)."""
    LEAST_BYTES_PER_SECOND = 2000.0
    """Chosen: some ten lines, little enough for any server. It counts until the live rate is known, and where
    that is less than two lines a second."""

    def __init__(self, monotonic: Callable[[], float], rate: Callable[[], float | None]) -> None:
        """Begin with what may be sent at the start.

        Args:
            monotonic: Clock in seconds.
            rate: Tells the live rate in bytes a second; None while it is not known.
        """
        self._monotonic = monotonic
        self._rate = rate
        self._filled_at = monotonic()
        self._bytes: float = self.FIRST_BYTES

    def allowed(self) -> int:
        """Return how many bytes may be sent now."""
        live = self._rate()
        rate = max(self.LEAST_BYTES_PER_SECOND, DRAIN_FACTOR * (live or 0.0))
        most = self.FIRST_BYTES if live is None else self.BURST_SECONDS * rate
        now = self._monotonic()
        self._bytes = min(self._bytes + rate * (now - self._filled_at), most)
        self._filled_at = now
        return max(0, int(self._bytes))

    def take(self, count: int) -> None:
        """Count bytes that were sent; one batch may be more than was allowed, and is made up for."""
        self._bytes -= count

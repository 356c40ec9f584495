"""Records on their way to the disk: in memory until the next `sync`, so that no event loop waits for it."""

from __future__ import annotations

import threading
from collections import deque
from dataclasses import dataclass

from exporters.influxdb.spool_types import Loss


@dataclass(frozen=True, slots=True)
class Item:
    """What becomes a record.

    Attributes:
        payload: Its lines.
        points: How many.
        time_ns: When they were sampled, nanoseconds of Unix time.
    """

    payload: bytes
    points: int
    time_ns: int


class Intake:
    """A queue of items, bounded in bytes: beyond that the oldest are dropped, and counted.

    An item that is larger than the bound is dropped itself; the others stay.

    Its lock is held for moments only, never while a disk is waited for.
    """

    def __init__(self, maximum_bytes: int) -> None:
        """Begin empty.

        Args:
            maximum_bytes: Most bytes of payloads that wait.
        """
        self._maximum_bytes = maximum_bytes
        self._lock = threading.Lock()
        self._items: deque[Item] = deque()
        self._taken: Item | None = None
        self._bytes = 0
        self._points = 0
        self._lost = Loss()

    def put(self, item: Item) -> None:
        """Add an item; the oldest that wait make room for it."""
        with self._lock:
            if len(item.payload) > self._maximum_bytes:
                self._lost += Loss(1, item.points)
                return
            self._items.append(item)
            self._bytes += len(item.payload)
            self._points += item.points
            while self._bytes > self._maximum_bytes and self._items:
                oldest = self._items.popleft()
                self._forget(oldest)
                self._lost += Loss(1, oldest.points)

    def take(self) -> Item | None:
        """Take the oldest item; it still counts until `done` or `give_back`."""
        with self._lock:
            self._taken = self._items.popleft() if self._items else None
            return self._taken

    def done(self) -> None:
        """Forget the item that was taken."""
        with self._lock:
            if self._taken is not None:
                self._forget(self._taken)
                self._taken = None

    def give_back(self) -> None:
        """Put the item that was taken back to its place."""
        with self._lock:
            if self._taken is not None:
                self._items.appendleft(self._taken)
                self._taken = None

    def account(self) -> tuple[Loss, Loss]:
        """Return what waits, and what was dropped."""
        with self._lock:
            return Loss(len(self._items) + (self._taken is not None), self._points), self._lost

    def _forget(self, item: Item) -> None:
        self._bytes -= len(item.payload)
        self._points -= item.points

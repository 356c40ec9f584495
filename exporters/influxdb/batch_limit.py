"""How large a batch may be: smaller where a server fails with large ones, larger again where it does not."""

from __future__ import annotations

MAXIMUM_BATCH_BYTES = 1_000_000
"""Largest batch: some 5,000 lines, which InfluxDB's documentation calls the best size ("Optimize writes")."""
LEAST_BATCH_BYTES = 16 * 1024
"""What no server is tried to be satisfied below, but by halving what it refuses (chosen)."""
TRIES = 5
"""How often a batch may fail before the next is smaller (chosen: half a minute)."""
SUCCESSES = 8
"""How many batches of about the size are taken before a larger one is tried (chosen): where it fails by a
time limit of 10 s, a backlog still goes on."""


class BatchLimit:
    """A bound that halves with failures and doubles with successes, below a ceiling that the server names.

    Attributes:
        bytes: Most bytes of a batch.
    """

    def __init__(self) -> None:
        """Begin with the largest."""
        self.bytes = MAXIMUM_BATCH_BYTES
        self._ceiling = MAXIMUM_BATCH_BYTES
        self._failures = 0
        self._successes = 0
        self._probing = False

    def taken(self, size: int) -> None:
        """Learn that the server took a batch.

        Args:
            size: Its bytes.
        """
        self._failures = 0
        if 2 * size <= self.bytes:
            return
        self._probing = False
        self._successes += 1
        if self._successes >= SUCCESSES and self.bytes < self._ceiling:
            self._successes = 0
            self._probing = True
            self.bytes = min(self._ceiling, 2 * self.bytes)

    def failed(self, size: int) -> bool:
        """Learn that the server failed with a batch.

        Args:
            size: Its bytes.

        Returns:
            Whether the batch is to be sent in smaller ones now.
        """
        if size <= LEAST_BATCH_BYTES:
            return False
        self._failures += 1
        # What fails right after a larger one was tried is put down to that.
        if self._failures < TRIES and not self._probing:
            return False
        self._start_from(min(self.bytes, size) // 2)
        return True

    def too_large(self, size: int) -> None:
        """Learn that the server does not take so much: half of it is the ceiling from now on.

        Args:
            size: Bytes of what it did not take.
        """
        self._start_from(min(self.bytes, size // 2))
        self._ceiling = self.bytes

    def _start_from(self, size: int) -> None:
        self.bytes = max(LEAST_BATCH_BYTES, size)
        self._failures = self._successes = 0
        self._probing = False

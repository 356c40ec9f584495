"""Lines that a server refuses for good, set aside where people can read them."""

from __future__ import annotations

import os
import re
from collections.abc import Sequence
from datetime import UTC, datetime
from pathlib import Path

_NAME = "quarantine.lines"
_OLDER_NAME = "quarantine.older.lines"
_LEAVING_NAMES = ("quarantine.older.leaving", "quarantine.leaving")
"""What is about to be removed."""

MAXIMUM_BYTES = 1024 * 1024
"""Size of one of the two files; beyond it the older one is replaced by the newer (chosen)."""
_MAXIMUM_REASON = 500
_MAXIMUM_LINE_BYTES = 64 * 1024
_UNPRINTABLE = re.compile(r"[^\x20-\x7e\xa0-\uffff]+")


class Quarantine:
    """Two text files in the spool's folder: lines as they were sent, time and reason above each group."""

    def __init__(self, directory: Path) -> None:
        """Name the files; nothing is opened yet.

        Args:
            directory: Where they lie.
        """
        self._path = directory / _NAME
        self._older = directory / _OLDER_NAME
        self._kept = (self._older, self._path)
        self._leaving = tuple(directory / name for name in _LEAVING_NAMES)

    def add(self, lines: Sequence[bytes], reason: str, now_ns: int) -> None:
        """Set lines aside.

        Args:
            lines: The lines; a very long one is cut.
            reason: Why, in words; what cannot be printed becomes a space.
            now_ns: The present, nanoseconds of Unix time.

        Raises:
            OSError: The disk is full, or fails.
        """
        when = datetime.fromtimestamp(now_ns // 1_000_000_000, UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
        why = _UNPRINTABLE.sub(" ", reason)[:_MAXIMUM_REASON]
        head = f"# {when} {why}\n".encode("utf-8", errors="replace")
        text = bytearray(head)
        for line in lines:
            cut = line.rstrip(b"\n")[:_MAXIMUM_LINE_BYTES] + b"\n"
            if len(text) + len(cut) > MAXIMUM_BYTES:
                self._append(text)
                text = bytearray(head)
            text += cut
        self._append(text)

    def text(self) -> str:
        """Return what was set aside, oldest first.

        Raises:
            OSError: It cannot be read.
        """
        return _text((*self._leaving, *self._kept))

    def lines(self) -> int:
        """Count the lines that were set aside and are still there.

        Raises:
            OSError: They cannot be read.
        """
        return len(lines_of(self.text()))

    def part_with(self) -> str:
        """Put by what was set aside, so that what an agent adds from now on stays when it is removed.

        Returns:
            All that is put by, oldest first; alone what an earlier call put by, if nobody removed it.

        Raises:
            OSError: It cannot be put by, or read.
        """
        if not any(path.exists() for path in self._leaving):
            for path, leaving in zip(self._kept, self._leaving, strict=True):
                if path.exists():
                    path.replace(leaving)
        return _text(self._leaving)

    def remove(self) -> None:
        """Remove what was put by.

        Raises:
            OSError: It cannot be removed.
        """
        for path in self._leaving:
            path.unlink(missing_ok=True)

    def _append(self, text: bytes | bytearray) -> None:
        """Bring text to the disk, for it is acknowledged in the spool next."""
        if self._size() + len(text) > MAXIMUM_BYTES and self._size():
            self._path.replace(self._older)
        flags = os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC | os.O_NOFOLLOW
        with os.fdopen(os.open(self._path, flags, 0o600), "ab") as file:
            file.write(text)
            file.flush()
            os.fsync(file.fileno())

    def _size(self) -> int:
        try:
            return self._path.stat().st_size
        except FileNotFoundError:
            return 0


def lines_of(text: str) -> list[str]:
    """Return the lines of a text that was set aside, without those that say when and why."""
    return [line for line in text.split("\n") if line and not line.startswith("# ")]


def _text(paths: Sequence[Path]) -> str:
    parts = (path.read_bytes() for path in paths if path.exists())
    return b"".join(parts).decode("utf-8", errors="replace")

"""What can befall a ledger's file, and what is said about it."""

from __future__ import annotations

import logging
from pathlib import Path

import pytest

from collector.health.ledger import Ledger


def errors(caplog: pytest.LogCaptureFixture) -> list[str]:
    return [record.getMessage() for record in caplog.records if record.levelno >= logging.ERROR]


def damaged_files(path: Path) -> list[str]:
    return sorted(own.name for own in path.parent.iterdir() if "damaged" in own.name)


def overwrite(path: Path) -> None:
    path.write_bytes(b"this is no database at all " * 1000)


def fill(ledger: Ledger) -> None:
    """Let the file not grow any more, as on a full disk."""
    connection = ledger._store._connection
    (pages,) = connection.execute("PRAGMA page_count").fetchone()
    connection.execute(f"PRAGMA max_page_count = {pages}")


def make_room(ledger: Ledger) -> None:
    ledger._store._connection.execute("PRAGMA max_page_count = 1000000")


def durable(ledger: Ledger) -> bool:
    return ledger.durable

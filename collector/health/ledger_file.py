"""The ledger's file: one writer, opened with care, set aside when it is damaged."""

from __future__ import annotations

import contextlib
import fcntl
import logging
import os
import sqlite3
from datetime import UTC, datetime
from pathlib import Path
from typing import BinaryIO

from collector.errors import ConfigurationError
from collector.health.ledger_schema import prepare

_logger = logging.getLogger("rackwatt.ledger")

_SIDE_FILES = ("", "-wal", "-shm", "-journal")
"""What SQLite keeps of a database (sqlite.org/wal.html, sqlite.org/tempfiles.html)."""
_DAMAGED = (sqlite3.SQLITE_CORRUPT, sqlite3.SQLITE_NOTADB)
_UNUSABLE = (sqlite3.SQLITE_CANTOPEN, sqlite3.SQLITE_READONLY, sqlite3.SQLITE_PERM, sqlite3.SQLITE_AUTH)
_BUSY_SECONDS = 1.0
"""How long to wait for somebody who looks at the file with another program."""


def is_damage(error: sqlite3.Error) -> bool:
    """Return whether an error says that the file is damaged, rather than that it cannot be used now."""
    return _primary_code(error) in _DAMAGED


def _primary_code(error: sqlite3.Error) -> int | None:
    # The low byte is the primary code (sqlite.org/rescode.html).
    code: int | None = getattr(error, "sqlite_errorcode", None)
    return None if code is None else code & 0xFF


def open_database(path: Path | None, now_ns: int) -> sqlite3.Connection:
    """Open a ledger's database; one that is damaged is set aside, and a new one begun.

    Args:
        path: The file; None for one in memory.
        now_ns: The present, for the name of a file that is set aside.

    Raises:
        ConfigurationError: The file cannot be opened, or is not a ledger that this version knows.
        sqlite3.OperationalError: The disk is full or fails.
    """
    if path is None:
        return _open(":memory:")
    try:
        return _open(str(path))
    except ConfigurationError as error:
        raise ConfigurationError(f"ledger {path}: {error}") from error
    except sqlite3.DatabaseError as error:
        if _primary_code(error) in _UNUSABLE:
            raise ConfigurationError(
                f"ledger {path}: {error}; it must be a file that can be read and written, as its folder"
            ) from error
        if not is_damage(error):
            raise
        set_aside(path, now_ns, str(error))
    return _open(str(path))


def _open(name: str) -> sqlite3.Connection:
    # Autocommit: transactions are begun by hand. Whoever uses a ledger sees that its calls do not overlap, so
    # that they may come from a worker thread.
    connection = sqlite3.connect(name, timeout=_BUSY_SECONDS, isolation_level=None, check_same_thread=False)
    try:
        connection.execute("PRAGMA journal_mode = WAL")
        # FULL: what was committed outlives a power failure, so that no exported counter runs back.
        connection.execute("PRAGMA synchronous = FULL")
        connection.execute("PRAGMA journal_size_limit = 16777216")
        _check(connection)
        prepare(connection)
    except UnicodeDecodeError as error:
        # SQLite names what is damaged as it stands there, and Python cannot decode that.
        connection.close()
        raise _damage("its tables have names that are no text") from error
    except BaseException:
        connection.close()
        raise
    return connection


def _check(connection: sqlite3.Connection) -> None:
    (verdict,) = connection.execute("PRAGMA quick_check(1)").fetchone()
    if verdict != "ok":
        raise _damage(str(verdict))


def _damage(what: str) -> sqlite3.DatabaseError:
    error = sqlite3.DatabaseError(what)
    error.sqlite_errorcode = sqlite3.SQLITE_CORRUPT
    return error


def set_aside(path: Path, now_ns: int, why: str) -> Path:
    """Rename a damaged ledger, and say so loudly.

    Returns:
        Its new name.
    """
    stamp = datetime.fromtimestamp(now_ns // 1_000_000_000, UTC).strftime("%Y%m%dT%H%M%SZ")
    target = path.with_name(f"{path.name}.damaged-{stamp}")
    number = 1
    while target.exists():
        number += 1
        target = path.with_name(f"{path.name}.damaged-{stamp}-{number}")
    for suffix in _SIDE_FILES:
        with contextlib.suppress(FileNotFoundError):
            path.with_name(path.name + suffix).rename(target.with_name(target.name + suffix))
    _logger.error(
        "the ledger %s is damaged (%s): it is kept as %s, and a new one is begun; availability and counters "
        "begin anew",
        path,
        why,
        target,
    )
    return target


def lock(path: Path) -> BinaryIO:
    """Become the one writer of a ledger, until the returned file is closed or the process ends.

    Raises:
        ConfigurationError: Another process is, or the folder cannot be written.
    """
    name = path.with_name(path.name + ".lock")
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        file = name.open("a+b")
    except OSError as error:
        raise ConfigurationError(
            f"ledger {path}: {error}; state_dir must be a folder that can be written"
        ) from error
    try:
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError as error:
        file.seek(0)
        holder = file.read(20).decode("ascii", errors="replace").strip() or "unknown"
        file.close()
        raise ConfigurationError(
            f"ledger {path}: another rack service (process {holder}) writes it; stop that one, or give each "
            "its own state_dir: a rack has one writer"
        ) from error
    with contextlib.suppress(OSError):  # On a full disk the number is missing, the lock holds all the same.
        file.truncate(0)
        file.write(f"{os.getpid()}\n".encode("ascii"))
        file.flush()
    return file

"""The ledger's statements on their way to the disk: run at once, committed by flushes, never given up."""

from __future__ import annotations

import contextlib
import logging
import sqlite3
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path

from collector.errors import ConfigurationError
from collector.health.ledger_account import Statement
from collector.health.ledger_file import is_damage, open_database, set_aside
from collector.health.ledger_rows import Row
from collector.health.ledger_schema import CLOSE_AT_HEARTBEAT

_logger = logging.getLogger("rackwatt.ledger")

MAXIMUM_PENDING = 100_000
"""Statements that wait for a disk; beyond, what is open now is kept and the rest becomes a gap."""


class LedgerStore:
    """Runs statements in one long transaction, which `commit` ends.

    So what was run can be read at once, and costs the disk one synchronization a commit. Statements wait in
    memory until they are committed: after an error the transaction is rolled back, and they are run again.
    A file that turns out damaged, or that vanished, is begun anew with `restate`. Where no file can be had,
    the store works in memory and tries for the file at every commit.

    Attributes:
        durable: Whether the last commit reached the disk.
    """

    def __init__(
        self,
        path: Path | None,
        now_ns: int,
        load: Callable[[sqlite3.Connection], None],
        restate: Callable[[Mapping[str, int]], Iterable[Statement]],
    ) -> None:
        """Open the file, and begin a session in it.

        Args:
            path: The file; None to keep everything in memory.
            now_ns: The present, for the name of a file that is set aside.
            load: Reads what the session begins with. It may be called a second time, with a new file.
            restate: Returns statements that say everything that is held in memory again, given until when the
                file accounts for each rack already.

        Raises:
            ConfigurationError: The file cannot be opened, or is not a ledger of ours.
        """
        self._path = path
        self._restate = restate
        self._restating = False
        self._in_step = False
        self._in_memory = path is None
        self._said_failing = False
        self.durable = True
        # What was open when the last session ended held until its heartbeat.
        self._pending: list[Statement] = [(own, ()) for own in CLOSE_AT_HEARTBEAT]
        self._connection = self._open(now_ns)
        self._inode = self._find_inode()
        try:
            load(self._connection)
        except sqlite3.DatabaseError as error:
            self._connection.close()
            if path is None or not is_damage(error):
                raise ConfigurationError(f"ledger {path}: {error}") from error
            set_aside(path, now_ns, str(error))
            self._connection = self._open(now_ns)
            self._inode = self._find_inode()
            load(self._connection)

    def run(self, statements: Iterable[Statement], now_ns: int) -> None:
        """Run statements."""
        new = tuple(statements)
        self._pending.extend(new)
        if self._in_step:
            try:
                self._execute(new)
            except sqlite3.DatabaseError as error:
                self._failed(error, now_ns)
        if len(self._pending) > MAXIMUM_PENDING and not self._in_step:
            self._pending.clear()
            self._restating = True

    def commit(self, totals: Iterable[Statement], now_ns: int) -> bool:
        """Bring everything to the disk; return whether it is there.

        Args:
            totals: Statements to run with it that need not wait if it fails, as they are made anew each time.
            now_ns: The present, for the name of a file that must be set aside.
        """
        totals = tuple(totals)
        self._look_after_file(now_ns)
        try:
            self._commit(totals)
        except sqlite3.DatabaseError as error:
            self._failed(error, now_ns)
            if not is_damage(error):
                return False
            try:
                self._commit(totals)
            except sqlite3.DatabaseError as again:
                self._failed(again, now_ns)
                return False
        if self._in_memory and self._path is not None:
            return False
        if self._said_failing:
            _logger.info("the ledger %s can be written again", self._path)
            self._said_failing = False
        self.durable = True
        return True

    def select(
        self, sql: str, parameters: Mapping[str, str | int | None], totals: Iterable[Statement], now_ns: int
    ) -> list[Row]:
        """Read rows, those included that are not on disk yet; none if the file cannot be read.

        Args:
            sql: The query.
            parameters: Its named parameters.
            totals: Statements to run before it if the transaction can be written, as for `commit`.
            now_ns: The present.
        """
        try:
            self._catch_up()
            self._execute(totals)
        except sqlite3.DatabaseError as error:
            self._failed(error, now_ns)
        try:
            return self._connection.execute(sql, parameters).fetchall()
        except sqlite3.DatabaseError as error:
            self._failed(error, now_ns)
            return []

    def close(self) -> None:
        """Let the file go, without a last commit."""
        with contextlib.suppress(sqlite3.DatabaseError):
            if self._connection.in_transaction:
                self._connection.execute("ROLLBACK")
            self._connection.execute("PRAGMA wal_checkpoint(TRUNCATE)")
        self._connection.close()

    def _open(self, now_ns: int) -> sqlite3.Connection:
        """Open the file; where the disk is full or fails, go on in memory."""
        try:
            return open_database(self._path, now_ns)
        except sqlite3.DatabaseError as error:
            self._say_failing(error)
            self._in_memory, self.durable = True, False
            return open_database(None, now_ns)

    def _execute(self, statements: Iterable[Statement]) -> None:
        if not self._connection.in_transaction:
            self._connection.execute("BEGIN IMMEDIATE")
        for sql, parameters in statements:
            try:
                self._connection.execute(sql, parameters)
            except sqlite3.IntegrityError as error:
                # One record that breaks a rule of the tables must not hold back those after it.
                _logger.warning("a record does not fit into the ledger and is left out: %s", error)

    def _catch_up(self) -> None:
        """Bring what waits into the transaction, if it is not there any more."""
        if self._restating:
            floors = dict(self._connection.execute("SELECT rack, time_ns FROM heartbeats").fetchall())
            self._pending = [*((own, ()) for own in CLOSE_AT_HEARTBEAT), *self._restate(floors)]
            self._restating = False
        if not self._in_step:
            self._execute(self._pending)
            self._in_step = True

    def _commit(self, totals: Iterable[Statement]) -> None:
        self._catch_up()
        self._execute(totals)
        self._connection.execute("COMMIT")
        self._pending.clear()

    def _failed(self, error: sqlite3.DatabaseError, now_ns: int) -> None:
        """Get over an error: set a damaged file aside, else wait for better times."""
        with contextlib.suppress(sqlite3.DatabaseError):
            if self._connection.in_transaction:
                self._connection.execute("ROLLBACK")
        self._in_step = False
        self.durable = False
        if self._path is None or self._in_memory or not is_damage(error):
            self._say_failing(error)
            return
        self._go_to_memory(now_ns)
        try:
            set_aside(self._path, now_ns, str(error))
        except OSError as problem:
            self._say_failing(problem)
            return
        self._return_to_file(now_ns)

    def _go_to_memory(self, now_ns: int) -> None:
        self._connection.close()
        self._connection = open_database(None, now_ns)
        self._in_memory, self._in_step, self._restating = True, False, True

    def _look_after_file(self, now_ns: int) -> None:
        """Begin anew where somebody removed or replaced the file, which SQLite does not notice."""
        if self._path is None:
            return
        if not self._in_memory and self._find_inode() != self._inode:
            _logger.error("the ledger %s was removed or replaced while in use: it is begun anew", self._path)
            self._go_to_memory(now_ns)
        if self._in_memory:
            self._return_to_file(now_ns)

    def _return_to_file(self, now_ns: int) -> None:
        try:
            connection = open_database(self._path, now_ns)
        except (sqlite3.DatabaseError, ConfigurationError) as error:
            self.durable = False
            self._say_failing(error)
            return
        self._connection.close()
        self._connection = connection
        self._inode = self._find_inode()
        self._in_memory, self._in_step, self._restating = False, False, True

    def _find_inode(self) -> int | None:
        if self._path is None:
            return None
        try:
            return self._path.stat().st_ino
        except OSError:
            return None

    def _say_failing(self, error: Exception) -> None:
        if not self._said_failing:
            self._said_failing = True
            _logger.error(
                "the ledger %s cannot be used now: %s; the service goes on and tries again, but what it "
                "records is lost if it ends before",
                self._path,
                error,
            )

"""The tables of the ledger, and what is written into them (SQLite)."""

from __future__ import annotations

import sqlite3

from collector.errors import ConfigurationError
from collector.health.states import NodeState, Verdict

APPLICATION_ID = 0x5257_4C47
"""Marks the file as ours (`PRAGMA application_id`): "RWLG"."""
SCHEMA_VERSION = 2
"""Version of the tables (`PRAGMA user_version`)."""


def _one_of(column: str, words: type[Verdict | NodeState]) -> str:
    quoted = ", ".join(f"'{word.value}'" for word in words)
    return f"{column} IN ({quoted})"


# An interval without an end is open: it is known to hold until its rack's heartbeat. CHECK constraints are
# verified by `PRAGMA quick_check`, so that a damaged row is found when the file is opened.
_INTERVAL = """
    starts_ns INTEGER NOT NULL CHECK (typeof(starts_ns) = 'integer'),
    ends_ns INTEGER CHECK (ends_ns IS NULL OR (typeof(ends_ns) = 'integer' AND ends_ns >= starts_ns))
"""

_TABLES_1 = (
    f"""
    CREATE TABLE verdicts (
        rack TEXT NOT NULL, {_INTERVAL},
        verdict TEXT NOT NULL CHECK ({_one_of("verdict", Verdict)}),
        min_block INTEGER NOT NULL,
        cliques TEXT NOT NULL,
        PRIMARY KEY (rack, starts_ns)
    ) WITHOUT ROWID
    """,
    f"""
    CREATE TABLE node_states (
        rack TEXT NOT NULL, node TEXT NOT NULL, {_INTERVAL},
        state TEXT NOT NULL CHECK ({_one_of("state", NodeState)}),
        PRIMARY KEY (rack, node, starts_ns)
    ) WITHOUT ROWID
    """,
    "CREATE INDEX node_states_ends ON node_states (rack, ends_ns)",
    f"""
    CREATE TABLE incidents (
        rack TEXT NOT NULL, node TEXT NOT NULL, {_INTERVAL},
        check_id TEXT NOT NULL,
        text TEXT NOT NULL,
        PRIMARY KEY (rack, node, starts_ns)
    ) WITHOUT ROWID
    """,
    """
    CREATE TABLE events (
        id INTEGER PRIMARY KEY AUTOINCREMENT,
        rack TEXT NOT NULL, node TEXT NOT NULL,
        time_ns INTEGER NOT NULL CHECK (typeof(time_ns) = 'integer'),
        kind TEXT NOT NULL, gpu_uuid TEXT NOT NULL, gpu TEXT NOT NULL,
        code INTEGER,
        text TEXT NOT NULL
    )
    """,
    "CREATE INDEX events_time ON events (time_ns)",
    # An agent tells its events again to a service that was restarted: each counts once (CONTRACTS §8).
    """
    CREATE UNIQUE INDEX events_once ON events (rack, node, time_ns, kind, gpu_uuid, ifnull(code, -1), text)
    """,
    """
    CREATE TABLE maintenance (
        id TEXT PRIMARY KEY, rack TEXT NOT NULL, nodes TEXT NOT NULL,
        starts_ns INTEGER NOT NULL, ends_ns INTEGER NOT NULL, created_ns INTEGER NOT NULL,
        reason TEXT NOT NULL, created_by TEXT NOT NULL
    ) WITHOUT ROWID
    """,
    """
    CREATE TABLE counters (
        rack TEXT NOT NULL, name TEXT NOT NULL,
        value INTEGER NOT NULL CHECK (typeof(value) = 'integer' AND value >= 0),
        PRIMARY KEY (rack, name)
    ) WITHOUT ROWID
    """,
    "CREATE TABLE heartbeats (rack TEXT PRIMARY KEY, time_ns INTEGER NOT NULL) WITHOUT ROWID",
    "CREATE TABLE memories (rack TEXT PRIMARY KEY, memory TEXT NOT NULL) WITHOUT ROWID",
)
# Rows of one or two kilobytes are too large for WITHOUT ROWID (sqlite.org/withoutrowid.html, §4).
_TABLES_2 = (
    """
    CREATE TABLE rollups (
        rack TEXT NOT NULL,
        length_seconds INTEGER NOT NULL CHECK (length_seconds > 0),
        starts_ns INTEGER NOT NULL CHECK (typeof(starts_ns) = 'integer'),
        data TEXT NOT NULL CHECK (typeof(data) = 'text'),
        PRIMARY KEY (rack, length_seconds, starts_ns)
    )
    """,
    "CREATE INDEX rollups_starts ON rollups (length_seconds, starts_ns)",
    "CREATE TABLE baselines (id TEXT PRIMARY KEY, data TEXT NOT NULL)",
)
TABLES = {1: _TABLES_1, 2: _TABLES_2}
"""The statements by which each version came out of the one before."""

OPEN_VERDICT = """
    INSERT OR REPLACE INTO verdicts (rack, starts_ns, verdict, min_block, cliques) VALUES (?, ?, ?, ?, ?)
"""
CLOSE_VERDICT = "UPDATE verdicts SET ends_ns = max(starts_ns, ?) WHERE rack = ? AND ends_ns IS NULL"
OPEN_NODE_STATE = "INSERT OR REPLACE INTO node_states (rack, node, starts_ns, state) VALUES (?, ?, ?, ?)"
CLOSE_NODE_STATE = """
    UPDATE node_states SET ends_ns = max(starts_ns, ?) WHERE rack = ? AND node = ? AND ends_ns IS NULL
"""
PUT_INCIDENT = """
    INSERT OR REPLACE INTO incidents (rack, node, starts_ns, ends_ns, check_id, text)
    VALUES (?, ?, ?, ?, ?, ?)
"""
ADD_EVENT = """
    INSERT OR IGNORE INTO events (rack, node, time_ns, kind, gpu_uuid, gpu, code, text)
    VALUES (?, ?, ?, ?, ?, ?, ?, ?)
"""
PUT_WINDOW = """
    INSERT OR REPLACE INTO maintenance (id, rack, nodes, starts_ns, ends_ns, created_ns, reason, created_by)
    VALUES (?, ?, ?, ?, ?, ?, ?, ?)
"""
# The greater of the two, so that no counter runs back whatever is written again.
RAISE_COUNTER = """
    INSERT INTO counters (rack, name, value) VALUES (?, ?, ?)
    ON CONFLICT (rack, name) DO UPDATE SET value = max(value, excluded.value)
"""
PUT_HEARTBEAT = "INSERT OR REPLACE INTO heartbeats (rack, time_ns) VALUES (?, ?)"
PUT_MEMORY = "INSERT OR REPLACE INTO memories (rack, memory) VALUES (?, ?)"
PUT_ROLLUP = """
    INSERT INTO rollups (rack, length_seconds, starts_ns, data) VALUES (?, ?, ?, ?)
    ON CONFLICT (rack, length_seconds, starts_ns) DO UPDATE SET data = excluded.data
"""
PUT_BASELINE = "INSERT OR REPLACE INTO baselines (id, data) VALUES (?, ?)"
FORGET_BASELINE = "DELETE FROM baselines WHERE id = ?"

# What was open when a service ended held until its rack's last heartbeat; nothing is known of the time since.
CLOSE_AT_HEARTBEAT = tuple(
    f"""
    UPDATE {table} SET ends_ns = max(starts_ns, coalesce(
        (SELECT time_ns FROM heartbeats WHERE heartbeats.rack = {table}.rack), starts_ns))
    WHERE ends_ns IS NULL
    """  # noqa: S608 - the table names stand on the next line
    for table in ("verdicts", "node_states")
)

PRUNE = (
    "DELETE FROM verdicts WHERE ends_ns < ?",
    "DELETE FROM node_states WHERE ends_ns < ?",
    "DELETE FROM incidents WHERE ends_ns < ?",
    "DELETE FROM events WHERE time_ns < ?",
    "DELETE FROM maintenance WHERE ends_ns < ?",
)
PRUNE_ROLLUPS = "DELETE FROM rollups WHERE length_seconds = ? AND starts_ns < ?"
KEEP_NEWEST_EVENTS = "DELETE FROM events WHERE id <= (SELECT max(id) FROM events) - ?"


def prepare(connection: sqlite3.Connection) -> None:
    """Make the tables in a new file, or bring those of an old one to this version; nothing is lost.

    Raises:
        ConfigurationError: The file is another program's, or a newer rackwatt's.
        sqlite3.DatabaseError: The file is damaged, or cannot be written.
    """
    (application,) = connection.execute("PRAGMA application_id").fetchone()
    (version,) = connection.execute("PRAGMA user_version").fetchone()
    if application == APPLICATION_ID and version == SCHEMA_VERSION:
        return
    if application == APPLICATION_ID and version > SCHEMA_VERSION:
        raise ConfigurationError(
            f"it was written by a newer rackwatt (tables of version {version}; this one knows "
            f"{SCHEMA_VERSION}); update this one, or name another state_dir"
        )
    (tables,) = connection.execute("SELECT count(*) FROM sqlite_master").fetchone()
    ours = application == APPLICATION_ID and version in TABLES
    if not ours and (tables or application):
        raise ConfigurationError("it is the SQLite database of another program; name another state_dir")
    connection.execute("BEGIN IMMEDIATE")
    for number in range(version + 1 if ours else 1, SCHEMA_VERSION + 1):
        for statement in TABLES[number]:
            connection.execute(statement)
    connection.execute(f"PRAGMA application_id = {APPLICATION_ID}")
    connection.execute(f"PRAGMA user_version = {SCHEMA_VERSION}")
    connection.execute("COMMIT")

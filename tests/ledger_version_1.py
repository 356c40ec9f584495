"""A ledger as version 1 of its tables left it: its statements, and what a short session wrote."""

from __future__ import annotations

import sqlite3
from pathlib import Path

# 0x52574C47 is "RWLG"; the times are seconds 5 to 100 of 2026-01-01T00:00:00Z.
VERSION_1 = """
PRAGMA application_id = 1381452871;
PRAGMA user_version = 1;
CREATE TABLE verdicts (
    rack TEXT NOT NULL,
    starts_ns INTEGER NOT NULL CHECK (typeof(starts_ns) = 'integer'),
    ends_ns INTEGER CHECK (ends_ns IS NULL OR (typeof(ends_ns) = 'integer' AND ends_ns >= starts_ns)),
    verdict TEXT NOT NULL CHECK (verdict IN ('AVAILABLE', 'UNAVAILABLE', 'MAINTENANCE', 'UNKNOWN')),
    min_block INTEGER NOT NULL,
    cliques TEXT NOT NULL,
    PRIMARY KEY (rack, starts_ns)
) WITHOUT ROWID;
CREATE TABLE node_states (
    rack TEXT NOT NULL, node TEXT NOT NULL,
    starts_ns INTEGER NOT NULL CHECK (typeof(starts_ns) = 'integer'),
    ends_ns INTEGER CHECK (ends_ns IS NULL OR (typeof(ends_ns) = 'integer' AND ends_ns >= starts_ns)),
    state TEXT NOT NULL CHECK (state IN ('READY', 'DEGRADED', 'FAILED', 'MAINTENANCE', 'UNKNOWN')),
    PRIMARY KEY (rack, node, starts_ns)
) WITHOUT ROWID;
CREATE INDEX node_states_ends ON node_states (rack, ends_ns);
CREATE TABLE incidents (
    rack TEXT NOT NULL, node TEXT NOT NULL,
    starts_ns INTEGER NOT NULL CHECK (typeof(starts_ns) = 'integer'),
    ends_ns INTEGER CHECK (ends_ns IS NULL OR (typeof(ends_ns) = 'integer' AND ends_ns >= starts_ns)),
    check_id TEXT NOT NULL,
    text TEXT NOT NULL,
    PRIMARY KEY (rack, node, starts_ns)
) WITHOUT ROWID;
CREATE TABLE events (
    id INTEGER PRIMARY KEY AUTOINCREMENT,
    rack TEXT NOT NULL, node TEXT NOT NULL,
    time_ns INTEGER NOT NULL CHECK (typeof(time_ns) = 'integer'),
    kind TEXT NOT NULL, gpu_uuid TEXT NOT NULL, gpu TEXT NOT NULL,
    code INTEGER,
    text TEXT NOT NULL
);
CREATE INDEX events_time ON events (time_ns);
CREATE UNIQUE INDEX events_once ON events (rack, node, time_ns, kind, gpu_uuid, ifnull(code, -1), text);
CREATE TABLE maintenance (
    id TEXT PRIMARY KEY, rack TEXT NOT NULL, nodes TEXT NOT NULL,
    starts_ns INTEGER NOT NULL, ends_ns INTEGER NOT NULL, created_ns INTEGER NOT NULL,
    reason TEXT NOT NULL, created_by TEXT NOT NULL
) WITHOUT ROWID;
CREATE TABLE counters (
    rack TEXT NOT NULL, name TEXT NOT NULL,
    value INTEGER NOT NULL CHECK (typeof(value) = 'integer' AND value >= 0),
    PRIMARY KEY (rack, name)
) WITHOUT ROWID;
CREATE TABLE heartbeats (rack TEXT PRIMARY KEY, time_ns INTEGER NOT NULL) WITHOUT ROWID;
CREATE TABLE memories (rack TEXT PRIMARY KEY, memory TEXT NOT NULL) WITHOUT ROWID;

INSERT INTO verdicts (rack, starts_ns, verdict, min_block, cliques)
    VALUES ('r01', 1767225605000000000, 'AVAILABLE', 16, '[[18, 0, 0]]');
INSERT INTO node_states VALUES ('r01', 'n01', 1767225605000000000, 1767225650000000000, 'FAILED');
INSERT INTO node_states VALUES ('r01', 'n01', 1767225650000000000, NULL, 'READY');
INSERT INTO incidents VALUES
    ('r01', 'n01', 1767225605000000000, 1767225650000000000, 'gpu_xid_fatal', 'Xid 79');
INSERT INTO events VALUES (7, 'r01', 'n01', 1767225606000000000, 'xid', 'GPU-1', '0', 79, '');
INSERT INTO maintenance VALUES
    ('m1', 'r01', '["n02"]', 1767225600000000000, 1767229200000000000, 1767225600000000000, 'a fan', 'ops');
INSERT INTO counters VALUES ('r01', 'verdict_AVAILABLE', 95000000000);
INSERT INTO counters VALUES ('r01', 'incidents', 1);
INSERT INTO heartbeats VALUES ('r01', 1767225700000000000);
INSERT INTO memories VALUES ('r01', '{"nodes": {"n01": {}}}');
"""


def write_version_1(path: Path) -> None:
    """Write the file."""
    connection = sqlite3.connect(path, isolation_level=None)
    connection.execute("PRAGMA journal_mode = WAL")
    connection.executescript(VERSION_1)
    connection.close()

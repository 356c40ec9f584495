"""Sends what a stopped agent left in its spool."""

from __future__ import annotations

import random
import time
from collections.abc import Callable
from dataclasses import dataclass

from collector.cli.findings import count
from collector.cli.influxdb import make_target
from collector.cli.spool_place import SpoolPlace
from collector.errors import ConfigurationError
from exporters.influxdb.sender import Sender, State
from exporters.influxdb.spool import Spool
from exporters.influxdb.target import InfluxWriter, Writer

_LONGEST_SLEEP_SECONDS = 1.0


@dataclass(frozen=True, slots=True)
class Drained:
    """How it went.

    Attributes:
        good: Whether nothing waits any more.
        words: The same in words.
    """

    good: bool
    words: str


def drain(
    place: SpoolPlace,
    *,
    patience_seconds: float,
    writer: Writer | None = None,
    monotonic: Callable[[], float] = time.monotonic,
    sleep: Callable[[float], None] = time.sleep,
) -> Drained:
    """Send everything, as fast as the server takes it.

    Args:
        place: The spool.
        patience_seconds: After this time without a point that was taken it is given up.
        writer: The server; None for the configured one.
        monotonic: Clock in seconds.
        sleep: Waits, seconds.

    Raises:
        ConfigurationError: No server is configured, there is no spool, or an agent writes it.
    """
    if place.setting is None:
        raise ConfigurationError("influxdb: no server is configured; name a file with it, --config FILE")
    if not place.path.is_dir():
        raise ConfigurationError(f"spool {place.path}: there is none")
    server = writer or InfluxWriter(make_target(place.setting))
    limits = place.setting.spool
    spool = Spool.open(place.path, maximum_bytes=limits.max_bytes, maximum_age_seconds=limits.max_age_seconds)
    try:
        sender = Sender(spool, server, random=random.random)
        _send(sender, patience_seconds, monotonic, sleep)
        return _result(sender, spool)
    finally:
        spool.close()


def _send(
    sender: Sender, patience_seconds: float, monotonic: Callable[[], float], sleep: Callable[[float], None]
) -> None:
    """Step until nothing waits, the server wants something of a person, or patience is at its end."""
    progress_at, progress = monotonic(), 0
    while monotonic() - progress_at < patience_seconds:
        wait = sender.step()
        status = sender.status
        if status.state in {State.IDLE, State.HELD}:
            return
        done = status.points_written + sum(status.rejected.values())
        if done > progress:
            progress_at, progress = monotonic(), done
        until = monotonic() + wait
        while (left := until - monotonic()) > 0 and monotonic() - progress_at < patience_seconds:
            sleep(min(left, _LONGEST_SLEEP_SECONDS))


def _result(sender: Sender, spool: Spool) -> Drained:
    status, waiting = sender.status, spool.status()
    words = f"{count(status.points_written, 'point')} sent"
    aside = sum(status.rejected.values())
    if aside:
        words += f", {aside} set aside (`rackwatt spool quarantine` shows them)"
    if waiting.damaged.records:
        words += f", {count(waiting.damaged.records, 'record')} damaged"
    if not waiting.records:
        return Drained(good=True, words=f"{words}; nothing waits any more")
    return Drained(good=False, words=f"{words}; {count(waiting.points, 'point')} still wait: {status.words}")

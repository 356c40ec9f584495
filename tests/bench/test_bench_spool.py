"""The arithmetic of the bench's part on InfluxDB: lines, spool, sender, and a backlog."""

from __future__ import annotations

import gzip
import http.client
import json
import math
import threading
from dataclasses import replace

import pytest

from tests.bench.draining import Drain, measure_drain
from tests.bench.errors import BenchError
from tests.bench.influx_sink import Tally, received, server
from tests.bench.measuring import Measurement
from tests.bench.processes import Memory
from tests.bench.sending import Sending, judged
from tests.bench.spool_report import SpoolResults, broken_bounds, markdown
from tests.bench.spooling import Spooling, measure_spool

MIB = 1024 * 1024

MEASURED = Spooling(
    seconds=1800,
    points=42_300,
    raw_bytes=31_725_000,
    disk_bytes=4_230_000,
    writing_seconds=0.5,
    filling_seconds=4.0,
    draining_seconds=0.23,
    processor_seconds=0.9,
    peer_ratio=9.0,
)


def agent(cpu_percent: float, memory_mib: int, series: int) -> Measurement:
    return Measurement(
        name="rackwatt",
        series=series,
        seconds=60.0,
        cpu_percent=cpu_percent,
        memory=Memory(memory_mib * MIB, MIB),
        processes=2,
        scrape_seconds=(0.001,),
        scrape_bytes=20_480,
        exposition_bytes=204_800,
    )


WITHOUT = agent(0.25, 61, 1908)
BESIDE = agent(0.75, 91, 1939)
SENDING = Sending(WITHOUT, BESIDE, lines_per_second=24.0, bytes_per_second=2100.0, requests_per_second=1.0)
DRAIN = Drain(
    outage_seconds=1803,
    points=42_300,
    disk_bytes=4_000_000,
    waited_seconds=60.0,
    seconds=600.0,
    points_sent=56_700,
    requests=900,
)


def results(*, spool: Spooling = MEASURED, sending: Sending = SENDING, drain: Drain = DRAIN) -> SpoolResults:
    return SpoolResults(spool, sending, drain, "a processor", "2026-01-01")


def test_what_follows_from_what_was_measured() -> None:
    assert MEASURED.bytes_per_point == 100
    assert MEASURED.lines_per_second == pytest.approx(10_000)
    assert MEASURED.cpu_percent == pytest.approx(0.05)
    assert replace(MEASURED, seconds=900).half_an_hour_bytes == 8_460_000
    assert SENDING.cpu_percent == 0.5


def test_results_within_the_bounds_keep_them() -> None:
    assert broken_bounds(results()) == []
    table = markdown(results())
    assert "| bytes on the disk | 100 |" in table
    assert "| processor, % of a core | **0.50** | 0.25 | 0.75 |" in table
    assert "| memory, MiB | **30.0** | 61.0 | 91.0 |" in table
    assert "| seconds until nothing waited | 600 |" in table
    assert "**no**" not in table


@pytest.mark.parametrize(
    ("broken", "line"),
    [
        (
            results(spool=replace(MEASURED, processor_seconds=9.9)),
            "lines and spool, processor: 0.550 % of a core, bound 0.500 % of a core",
        ),
        (
            results(spool=replace(MEASURED, disk_bytes=12_500_000)),
            "spool after 30 minutes without a server: 12.5 MB, bound 12.0 MB",
        ),
        (
            results(spool=replace(MEASURED, filling_seconds=60.0)),
            "lines a second through the spool: 702, bound 1,000",
        ),
        (results(spool=replace(MEASURED, seconds=1799)), "too short to judge: needs 1800 s of Snapshots"),
        (
            results(sending=replace(SENDING, beside=agent(0.77, 91, 1939))),
            "lines, spool and sender, processor added: 0.52 % of a core, bound 0.50 % of a core",
        ),
        (
            results(drain=replace(DRAIN, seconds=601.0)),
            "backlog of 30 minutes, gone after the server's return: 601 s, bound 600 s",
        ),
        (
            results(drain=replace(DRAIN, seconds=math.inf)),
            "backlog of 30 minutes, gone after the server's return: inf s, bound 600 s",
        ),
        (
            results(drain=replace(DRAIN, outage_seconds=1799)),
            "too short to judge: needs an outage of 1800 s",
        ),
    ],
)
def test_each_bound_can_break(broken: SpoolResults, line: str) -> None:
    assert broken_bounds(broken) == [line]


def test_it_measures() -> None:
    measured = measure_spool(12)
    assert measured.seconds == 12
    # 8 GPUs and the node each second, and 144 links and the agent in the first and the eleventh.
    assert measured.points == 9 * 12 + 2 * (8 * 18 + 1)
    assert measured.raw_bytes > measured.disk_bytes > 0
    assert min(measured.lines_per_second, measured.cpu_percent, measured.peer_ratio) > 0


def test_a_backlog_is_measured_with_the_longest_waits() -> None:
    drain = measure_drain(120)
    # Waits of 1, 2, 4, 8, 16, 32 and 60 s: tries at 0, 1, 3, 7, 15, 31, 63 and 123 s.
    assert drain.outage_seconds == 123
    assert drain.waited_seconds == 60
    # 124 Snapshots, those of 0 and 123 s included, and 13 rounds of links.
    assert drain.points == 9 * 124 + 13 * (8 * 18 + 1)
    # After that wait 183 s of lines are there. Sent at five times the rate at which new ones come, they are
    # gone in 46 s; a rate is known to some percent, and two seconds' worth may go at once.
    assert 60 + 40 < drain.seconds < 60 + 60
    assert drain.points_sent > drain.points
    assert drain.disk_bytes > 0
    assert drain.requests > 0


def test_what_was_sent_is_a_rate() -> None:
    counts = {"requests": 30, "lines": 720, "sent_bytes": 63_000, "seconds": 30.0}
    assert judged(WITHOUT, BESIDE, counts) == replace(SENDING, requests_per_second=1.0)


@pytest.mark.parametrize("seconds", [0.0, 91.0])
def test_an_agent_that_sent_too_little_is_no_measurement(seconds: float) -> None:
    counts = {"requests": 30, "lines": 720, "sent_bytes": 63_000, "seconds": seconds}
    with pytest.raises(BenchError, match=r"sent \d\.\d lines a second; 8 or more were sampled"):
        judged(WITHOUT, BESIDE, counts)


def test_lines_are_counted_from_the_first_request_on() -> None:
    tally = Tally()
    assert tally.document(5.0) == {"requests": 0, "lines": 0, "sent_bytes": 0, "seconds": 0}
    tally.add(b"a b=1 1\nc d=1 1\n", 10, 7.0)
    tally.add(b"a b=1 2\nc d=1 2", 12, 8.0)
    tally.add(b"", 1, 9.0)
    assert tally.document(10.0) == {"requests": 3, "lines": 4, "sent_bytes": 23, "seconds": 3}


def test_the_stand_in_takes_what_is_packed_and_what_is_not() -> None:
    body = b"a b=1 1\nc d=1 1"
    with server(0) as listening:
        thread = threading.Thread(target=listening.serve_forever, args=(0.02,))
        thread.start()
        port = int(listening.server_address[1])
        connection = http.client.HTTPConnection("127.0.0.1", port, timeout=30)
        for sent, headers in ((body, {}), (gzip.compress(body), {"Content-Encoding": "gzip"})):
            connection.request("POST", "/api/v2/write", body=sent, headers=headers)
            response = connection.getresponse()
            assert (response.status, response.read()) == (204, b"")
        connection.close()
        counts = received(port)
        listening.shutdown()
        thread.join(30)
    assert json.loads(json.dumps(counts)) == counts
    assert (counts["requests"], counts["lines"]) == (2, 4)

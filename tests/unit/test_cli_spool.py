"""`rackwatt spool`: what it says of a spool, and what it does with it."""

from __future__ import annotations

import json
import logging
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

from collector import logs
from collector.cli import main
from collector.cli.spool_drain import drain
from collector.cli.spool_place import SpoolPlace, find_spool
from collector.config.schema import InfluxdbSetting
from collector.errors import ConfigurationError
from exporters.influxdb.failures import Failure
from exporters.influxdb.spool import Spool
from exporters.influxdb.target import WRITTEN, Answer, Outcome
from tests.influx_server import InfluxServer, failing, influx_server, refusing

HOUR_NS = 3_600_000_000_000


@pytest.fixture(autouse=True)
def _level_of_the_log() -> Iterator[None]:
    """`drain` sets it for its process, which here is that of other tests, too."""
    logger = logging.getLogger(logs.ROOT)
    before = logger.level
    yield
    logger.setLevel(before)


@pytest.fixture
def server() -> Iterator[InfluxServer]:
    with influx_server() as running:
        yield running


def fill(folder: Path, *, records: int = 3, time_ns: int = 0) -> None:
    """Leave a spool as an agent does that was stopped: two points a record."""
    spool = Spool.open(folder / "spool", maximum_bytes=2**29, maximum_age_seconds=1e9)
    for number in range(records):
        lines = b"gpu,gpu=0 a=1 %d\ngpu,gpu=1 a=1 %d\n" % (number, number)
        spool.append(lines, points=2, time_ns=time_ns)
    spool.close()


def configured(folder: Path, url: str = "http://127.0.0.1:9") -> list[str]:
    file = folder / "agent.yaml"
    file.write_text(f"state_dir: {folder}\ninfluxdb: {{url: '{url}', bucket: gpu}}\n")
    return ["--config", str(file)]


def test_the_status_of_an_empty_spool(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    fill(tmp_path, records=0)
    assert main(["spool", "status", "--state-dir", str(tmp_path)]) == 0
    assert capsys.readouterr().out.splitlines() == [
        f"spool       {tmp_path}/spool",
        "waits       nothing waits",
        "on disk     0 bytes",
        "set aside   no line",
        "writer      none runs: `rackwatt spool drain` can send what waits",
    ]


def test_the_status_of_a_spool_that_an_agent_left(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("time.time_ns", lambda: 5 * HOUR_NS)
    fill(tmp_path, time_ns=2 * HOUR_NS)
    assert main(["spool", "status", *configured(tmp_path)]) == 0
    said = capsys.readouterr().out
    assert "waits       6 points in 3 records, the oldest 3 h old" in said
    assert re.search(r"on disk     [0-9]+ bytes of 512MiB", said)


def test_the_status_beside_a_writer_neither_disturbs_nor_misses_it(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    spool = Spool.open(tmp_path / "spool", maximum_bytes=2**24, maximum_age_seconds=1e6)
    spool.append(b"a b=1 1\n", points=1, time_ns=1)
    spool.sync()
    for _ in range(3):
        assert main(["spool", "status", "--state-dir", str(tmp_path), "--json"]) == 0
        told = json.loads(capsys.readouterr().out)
        assert (told["records"], told["points"], told["writer_runs"]) == (1, 1, True)
    spool.append(b"a b=1 2\n", points=1, time_ns=1)
    spool.sync()
    batch = spool.read(1000)
    assert batch is not None
    assert batch.points == 2
    spool.close()
    main(["spool", "status", "--state-dir", str(tmp_path), "--json"])
    assert json.loads(capsys.readouterr().out)["writer_runs"] is False


@pytest.mark.parametrize("verb", ["status", "quarantine"])
def test_where_there_is_no_spool_that_is_said(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], verb: str
) -> None:
    status = main(["spool", verb, "--state-dir", str(tmp_path)])
    told = capsys.readouterr()
    assert (status, told.out) == (2, "")
    assert told.err.startswith(f"rackwatt: spool {tmp_path}/spool: ")


def test_draining_sends_everything_and_ends(
    tmp_path: Path, server: InfluxServer, capsys: pytest.CaptureFixture[str]
) -> None:
    fill(tmp_path)
    assert main(["spool", "drain", *configured(tmp_path, server.url)]) == 0
    assert capsys.readouterr().out == "6 points sent; nothing waits any more\n"
    assert len(server.points) == 6
    assert main(["spool", "drain", *configured(tmp_path, server.url)]) == 0
    assert capsys.readouterr().out == "0 points sent; nothing waits any more\n"
    assert server.writes == 6


def test_draining_beside_an_agent_is_refused(
    tmp_path: Path, server: InfluxServer, capsys: pytest.CaptureFixture[str]
) -> None:
    spool = Spool.open(tmp_path / "spool", maximum_bytes=2**24, maximum_age_seconds=1e6)
    assert main(["spool", "drain", *configured(tmp_path, server.url)]) == 2
    assert "another agent" in capsys.readouterr().err
    spool.close()
    assert server.requests == []


def test_draining_ends_where_a_person_must_act(
    tmp_path: Path, server: InfluxServer, capsys: pytest.CaptureFixture[str]
) -> None:
    fill(tmp_path)
    server.answer = lambda _: failing(401, "unauthorized access")
    assert main(["spool", "drain", *configured(tmp_path, server.url)]) == 1
    assert capsys.readouterr().out == (
        "0 points sent; 6 points still wait: HTTP 401: unauthorized access; "
        "see to `token_file`: the server does not know the token\n"
    )
    assert len(server.requests) == 1


def test_draining_has_patience_and_no_more_than_that(tmp_path: Path) -> None:
    fill(tmp_path)
    now = [0.0]

    class Down:
        def write(self, body: bytes) -> Answer:
            return Answer(Outcome.UNREACHABLE, Failure.UNREACHABLE, "no connection")

        def abort(self) -> None:
            """Nothing is under way."""

    def sleep(seconds: float) -> None:
        now[0] += seconds

    place = SpoolPlace(tmp_path / "spool", InfluxdbSetting(url="http://h", bucket="b"))
    result = drain(place, patience_seconds=90.0, writer=Down(), monotonic=lambda: now[0], sleep=sleep)
    assert (result.good, result.words) == (False, "0 points sent; 6 points still wait: no connection")
    assert 90.0 <= now[0] < 92.0


def test_patience_begins_anew_with_every_point_that_is_taken(tmp_path: Path) -> None:
    spool = Spool.open(tmp_path / "spool", maximum_bytes=2**29, maximum_age_seconds=1e9)
    for number in range(5):
        spool.append(b"a,b=%d c=1 1\n" % number * 60_000, points=60_000, time_ns=1)
    spool.close()
    now = [0.0]

    class Slow:
        def write(self, body: bytes) -> Answer:
            now[0] += 50.0
            return WRITTEN

        def abort(self) -> None:
            """Nothing is under way."""

    place = SpoolPlace(tmp_path / "spool", InfluxdbSetting(url="http://h", bucket="b"))
    result = drain(
        place, patience_seconds=60.0, writer=Slow(), monotonic=lambda: now[0], sleep=lambda _: None
    )
    assert (result.good, result.words) == (True, "300000 points sent; nothing waits any more")


def test_what_was_set_aside_is_shown_exported_and_removed(
    tmp_path: Path, server: InfluxServer, capsys: pytest.CaptureFixture[str]
) -> None:
    fill(tmp_path)
    server.answer = refusing(b"gpu=1 a=1 2")
    assert main(["spool", "drain", *configured(tmp_path, server.url)]) == 0
    assert capsys.readouterr().out == (
        "5 points sent, 1 set aside (`rackwatt spool quarantine` shows them); nothing waits any more\n"
    )
    where = ["--state-dir", str(tmp_path)]
    assert main(["spool", "quarantine", *where]) == 0
    head, line = capsys.readouterr().out.splitlines()
    assert re.fullmatch(
        r"# \d{4}-\d\d-\d\dT\d\d:\d\d:\d\dZ refused: HTTP 400: unable to parse gpu,gpu=1.*", head
    )
    assert line == "gpu,gpu=1 a=1 2"
    file = tmp_path / "bad.lp"
    assert main(["spool", "quarantine", *where, "--export", str(file), "--clear"]) == 0
    assert capsys.readouterr().out == f"1 line written to {file}\n1 line removed from {tmp_path}/spool\n"
    assert file.read_text() == "gpu,gpu=1 a=1 2\n"
    assert main(["spool", "quarantine", *where]) == 0
    assert capsys.readouterr().out == "no line was set aside\n"


def test_nothing_is_removed_where_the_export_fails(
    tmp_path: Path, server: InfluxServer, capsys: pytest.CaptureFixture[str]
) -> None:
    fill(tmp_path)
    server.answer = refusing(b"gpu=1")
    main(["spool", "drain", *configured(tmp_path, server.url)])
    file = tmp_path / "there.lp"
    file.touch()
    words = ["spool", "quarantine", "--state-dir", str(tmp_path), "--export", str(file), "--clear"]
    assert main(words) == 1
    assert "File exists; write the name of a new file" in capsys.readouterr().err
    main(["spool", "status", "--state-dir", str(tmp_path)])
    assert "set aside   3 lines" in capsys.readouterr().out


def test_draining_needs_a_server(tmp_path: Path) -> None:
    with pytest.raises(ConfigurationError, match="no server is configured"):
        drain(SpoolPlace(tmp_path, None), patience_seconds=1.0)


@pytest.mark.parametrize(
    ("of_rack", "text", "expected"),
    [
        (False, "state_dir: /s\n", "/s/spool"),
        (False, "state_dir: /s\ninfluxdb: {url: 'http://h', bucket: b}\n", "/s/spool"),
        (False, "state_dir: /s\ninfluxdb: {url: 'http://h', bucket: b, spool: {path: /p}}\n", "/p"),
        (True, "racks: {r01: {platform: hgx-h100, agents: ['n01:1']}}\nstate_dir: /s\n", "/s/rack-spool"),
    ],
)
def test_the_spool_is_found_where_its_writer_has_it(
    tmp_path: Path, of_rack: bool, text: str, expected: str
) -> None:
    file = tmp_path / "f.yaml"
    file.write_text(text)
    assert find_spool(str(file), None, of_rack=of_rack, environ={}).path == Path(expected)
    assert find_spool(str(file), "/o", of_rack=of_rack, environ={}).path.parent == Path("/o")

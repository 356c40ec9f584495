"""`rackwatt check` of InfluxDB: what is tried, and what is said of each way in which it fails."""

from __future__ import annotations

from pathlib import Path

import pytest

from collector.cli.facts import ConfigurationFacts, Facts, InfluxdbFacts
from collector.cli.findings import Mark
from collector.cli.influx_checks import influxdb
from collector.cli.influx_probes import influxdb_facts
from collector.config import AgentConfiguration
from collector.config.schema import InfluxdbSetting, SpoolSetting
from exporters.influxdb.failures import Failure
from tests.influx_server import failing, influx_server

TOKEN = "s3cret-token-of-a-bucket"  # noqa: S105 -- of a server that does not look


def configuration(url: str, folder: Path, **more: object) -> AgentConfiguration:
    token_file = folder / "token"
    token_file.write_text(TOKEN)
    token_file.chmod(0o640)
    setting = {"url": url, "bucket": "gpu", "token_file": str(token_file)} | more
    return AgentConfiguration(
        state_dir=str(folder / "state"),
        influxdb=InfluxdbSetting(**setting),  # type: ignore[arg-type] # literals of the cases below
    )


def findings(chosen: AgentConfiguration) -> dict[str, tuple[Mark, str, str]]:
    facts = Facts(
        settings=ConfigurationFacts(configuration=chosen), influxdb=influxdb_facts(chosen, {"HOME": "/"})
    )
    return {name: (found.mark, found.text, found.action) for name, found in influxdb(facts)}


def test_a_server_that_takes_a_point_is_well_and_has_it(tmp_path: Path) -> None:
    with influx_server() as server:
        found = findings(configuration(server.url, tmp_path))
        assert found == {
            "InfluxDB": (
                Mark.OK,
                f"{server.url} (bucket gpu) took a point of the measurement rackwatt-check",
                "",
            ),
            "spool": (Mark.OK, f"points wait in {tmp_path}/state/spool until the server has them", ""),
        }
        (line,) = server.lines
        assert line.startswith(b"rackwatt-check ok=true ")
        assert server.requests[0].headers["authorization"] == f"Token {TOKEN}"
    assert not (tmp_path / "state").exists()


@pytest.mark.parametrize(
    ("status", "words", "mark", "told", "advice"),
    [
        (401, "unauthorized access", Mark.FAIL, "HTTP 401: unauthorized access", "token_file"),
        (403, "forbidden", Mark.FAIL, "HTTP 403: forbidden", "right to write"),
        (404, 'bucket "gpu" not found'.replace('"', "'"), Mark.FAIL, "bucket 'gpu' not found", "`bucket`"),
        (307, "", Mark.FAIL, "HTTP 307", "redirects are not followed"),
        (
            400,
            "invalid name",
            Mark.FAIL,
            "refuses the point of this check: HTTP 400: invalid name",
            "`bucket`",
        ),
        (413, "", Mark.FAIL, "HTTP 413", "1 MB"),
        (418, "teapot", Mark.FAIL, "HTTP 418: teapot", "see to `url`"),
        (200, "", Mark.FAIL, "HTTP 200: an InfluxDB answers 204 to what it took", "see to `url`"),
        (201, "partial", Mark.FAIL, "refuses the point of this check: HTTP 201: partial", "`bucket`"),
        (500, "oops", Mark.WARN, "HTTP 500: oops", "server's own log"),
        (503, "busy", Mark.WARN, "HTTP 503: busy", "check again later"),
        (401, f"no such token: {TOKEN}", Mark.FAIL, "no such token: [hidden]", "token_file"),
    ],
)
def test_what_a_server_says_is_told_with_what_to_do(
    tmp_path: Path, status: int, words: str, mark: Mark, told: str, advice: str
) -> None:
    with influx_server(lambda _: failing(status, words)) as server:
        found, text, action = findings(configuration(server.url, tmp_path))["InfluxDB"]
        assert len(server.requests) == 1
    assert found is mark
    assert told in text
    assert advice in action
    assert TOKEN not in text + action


def test_a_folder_that_the_agent_would_refuse_is_told(tmp_path: Path) -> None:
    folder = tmp_path / "state" / "spool"
    folder.mkdir(parents=True)
    with influx_server() as server:
        chosen = configuration(server.url, tmp_path)
        assert findings(chosen)["spool"][0] is Mark.OK
        folder.chmod(0o777)
        assert findings(chosen)["spool"] == (
            Mark.FAIL,
            f"spool {folder}: every user of this machine can write it; chmod 0700 it",
            "mend it, or the agent does not start",
        )


def test_nobody_there_is_told(tmp_path: Path) -> None:
    mark, text, action = findings(configuration("http://127.0.0.1:9", tmp_path))["InfluxDB"]
    assert (mark, text) == (Mark.FAIL, "http://127.0.0.1:9 (bucket gpu): no connection: Connection refused")
    assert "no packet filter" in action


@pytest.mark.parametrize(
    ("more", "told"),
    [
        (
            {"token_file": "/nonexistent/token"},
            "/nonexistent/token: cannot be read: No such file or directory",
        ),
        ({"ca_file": "/nonexistent/ca.pem"}, "/nonexistent/ca.pem: No such file or directory"),
        ({"families": ("gpus",)}, "influxdb: family 'gpus' names nothing that is measured"),
    ],
)
def test_settings_that_cannot_be_used_are_told_and_nothing_is_tried(
    tmp_path: Path, more: dict[str, object], told: str
) -> None:
    with influx_server() as server:
        mark, text, _ = findings(configuration(server.url, tmp_path, **more))["InfluxDB"]
        assert server.requests == []
    assert mark is Mark.FAIL
    assert text.startswith(told)


def test_an_authority_that_is_none_is_told(tmp_path: Path) -> None:
    file = tmp_path / "ca.pem"
    file.write_text("hello")
    found = findings(configuration("https://127.0.0.1:9", tmp_path, ca_file=str(file)))["InfluxDB"]
    assert found[:2] == (Mark.FAIL, f"{file}: holds no certificate in PEM")


def test_a_spool_that_cannot_be_written_is_told(tmp_path: Path) -> None:
    file = tmp_path / "file"
    file.touch()
    chosen = configuration("http://127.0.0.1:9", tmp_path, spool=SpoolSetting(path=f"{file}/spool"))
    mark, text, action = findings(chosen)["spool"]
    assert (mark, text) == (Mark.FAIL, f"{file}/spool cannot be written by this user")
    assert "influxdb.spool.path" in action


def test_nothing_is_checked_where_nothing_is_configured() -> None:
    facts = Facts(settings=ConfigurationFacts(configuration=AgentConfiguration()))
    assert [(name, found.mark) for name, found in influxdb(facts)] == [("InfluxDB", Mark.SKIP)]
    wrong = Facts(settings=ConfigurationFacts(mistakes=("f.yaml:1:1: x",)))
    assert [(name, found.mark) for name, found in influxdb(wrong)] == [("InfluxDB", Mark.SKIP)]


@pytest.mark.parametrize("failure", Failure)
def test_there_is_something_to_do_about_every_failure(failure: Failure) -> None:
    from collector.cli.influx_checks import _server
    from exporters.influxdb.target import Answer, Outcome

    setting = InfluxdbSetting(url="http://h", bucket="b")
    finding = _server(InfluxdbFacts(setting=setting, answer=Answer(Outcome.FAILED, failure, "words")))
    assert finding.action

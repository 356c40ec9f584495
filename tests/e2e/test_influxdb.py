"""From a GPU to a time-series database: what was sampled is there, once, whatever came between."""

from __future__ import annotations

import asyncio
import json
import signal
from dataclasses import replace
from pathlib import Path
from urllib.parse import unquote

import pytest

from collector.model import Snapshot
from exporters.influxdb.recovery import recover
from tests.e2e.programs import MODULE, agent, free_port, run_to_end, running, until
from tests.exporter_snapshots import EMPTY, UUIDS, series, snapshot_of
from tests.influx_exporters import exporter_for, settle
from tests.influx_server import HANG, OK, Reply, influx_server
from tests.victoria_metrics import victoria_metrics

pytestmark = pytest.mark.e2e

GPUS = 8
HALF_AN_HOUR = 1800
SECOND_NS = 1_000_000_000
# What VictoriaMetrics makes of a time: milliseconds.
START_MS = EMPTY.time_ns // 1_000_000


def settings(url: str) -> str:
    return f"influxdb: {{url: '{url}', bucket: gpu}}\n"


def of_second(second: int) -> Snapshot:
    power = ((series("gpu_power_watts", str(gpu), f"{UUIDS[0]}-{gpu}"), second + 0.5) for gpu in range(GPUS))
    return replace(snapshot_of(*power), sequence=second + 1, time_ns=EMPTY.time_ns + second * SECOND_NS)


async def write(url: str, folder: Path, seconds: range, *, wait: bool = True) -> None:
    """Publish some seconds, and let them arrive unless there is nobody."""
    exporter = exporter_for(url, folder)
    await exporter.start()
    for second in seconds:
        exporter.publish(of_second(second))
    if wait:
        await asyncio.to_thread(settle, exporter)
    await exporter.close()


@pytest.mark.needs_program("victoria-metrics")
def test_half_an_hour_of_eight_gpus_is_in_the_database_after_outages_and_restarts(tmp_path: Path) -> None:
    # 14,400 points (facts on reliability, §5, row 1).
    port = free_port()
    url = f"http://127.0.0.1:{port}"
    asyncio.run(write(url, tmp_path, range(600), wait=False))
    with victoria_metrics(tmp_path, port) as database:
        asyncio.run(write(url, tmp_path, range(600, 1200)))
        assert len(database.points()) == 1200 * GPUS
    asyncio.run(write(url, tmp_path, range(1200, 1500), wait=False))
    with victoria_metrics(tmp_path, port) as database:
        asyncio.run(write(url, tmp_path, range(1500, HALF_AN_HOUR)))
        stored = database.series("gpu")
    assert [(each.field, len(each.values)) for each in stored] == [("power_watts", HALF_AN_HOUR)] * GPUS
    for each in stored:
        assert each.values == {START_MS + 1000 * second: second + 0.5 for second in range(HALF_AN_HOUR)}


@pytest.mark.needs_program("victoria-metrics")
def test_an_agent_fills_the_database_whatever_happens_to_both(tmp_path: Path) -> None:
    port = free_port()
    spool = tmp_path / "state" / "spool"
    words = ["--simulate", "hgx-h100"]
    configured = settings(f"http://127.0.0.1:{port}")
    with agent(tmp_path, *words, settings=configured) as first:
        first.wait_until_ready()
        until(lambda: first.values.get("rackwatt_agent_influxdb_spool_points", 0) > 50, "points wait")
        state = 'rackwatt_agent_influxdb_sender_state{state="backing_off"}'
        until(lambda: first.values.get(state) == 1, "nobody is there, and it says so")
        first.process.kill()
        first.process.wait(10)
    with victoria_metrics(tmp_path, port) as database:
        with agent(tmp_path, *words, settings=configured) as second:
            second.wait_until_ready()
            until(
                lambda: second.values.get("rackwatt_agent_influxdb_points_written_total", 0) > 100, "they go"
            )
            until(lambda: second.values["rackwatt_agent_influxdb_spool_points"] < 100, "few wait")
            second.process.send_signal(signal.SIGTERM)
            assert second.wait() == 0
        done = run_to_end("spool", "drain", "--config", str(tmp_path / "agent.yaml"))
        assert (done.returncode, done.stderr) == (0, "")
        assert done.stdout.endswith("nothing waits any more\n")
        # Every point that ever went through the spool is there, under one name. What VictoriaMetrics has just
        # acknowledged it may show some seconds later.
        sent = recover(spool).cursor.points
        until(lambda: len(database.points()) >= sent, "all is shown")
        assert len(database.points()) == sent
        power = [each for each in database.series("gpu") if each.field == "power_watts"]
        about_itself = {each.field for each in database.series("agent")}
    assert len(power) == 8
    assert len({tuple(each.values) for each in power}) == 1
    assert {"influxdb_spool_points", "influxdb_points_written", "nvml_up"} <= about_itself
    status = json.loads(
        run_to_end("spool", "status", "--state-dir", str(tmp_path / "state"), "--json").stdout
    )
    assert (status["points"], status["quarantined_lines"], status["writer_runs"]) == (0, 0, False)


@pytest.mark.needs_program("victoria-metrics")
def test_what_outsiders_call_things_comes_back_as_it_was(tmp_path: Path) -> None:
    # Facts on reliability, §5, row 20.
    names = [
        "plain/model-7b",
        "a b,c=d",
        'quote" and \\ and trailing \\',
        "new\nline\r\ttab",
        "100%2C",
        "\N{ROCKET} \N{GREEK SMALL LETTER ALPHA}",
        "x\x00y",
        "rack=r02,node=n99 power_watts=1 1",
    ]
    rows = tuple((series("llm_requests_running", "decode-0", "vllm", name, "engine"), 3) for name in names)

    async def scenario(url: str) -> None:
        exporter = exporter_for(url, tmp_path)
        await exporter.start()
        exporter.publish(snapshot_of(*rows))
        await asyncio.to_thread(settle, exporter)
        assert exporter.sender_status.points_written == len(names)
        await exporter.close()

    with victoria_metrics(tmp_path) as database:
        asyncio.run(scenario(database.url))
        stored = database.series("llm")
    assert {unquote(each.tags["model"]) for each in stored} == set(names)
    assert {(each.tags["rack"], each.tags["node"]) for each in stored} == {("r01", "n03")}


@pytest.mark.parametrize("how", ["up", "down", "hung"])
def test_an_agent_ends_within_five_seconds_and_keeps_what_was_not_taken(tmp_path: Path, how: str) -> None:
    # Facts on reliability, §5, row 7.
    with influx_server((lambda _: Reply(HANG)) if how == "hung" else None) as server:
        url = "http://127.0.0.1:9" if how == "down" else server.url
        with agent(tmp_path, "--simulate", "hgx-h100", settings=settings(url)) as program:
            program.wait_until_ready()
            until(lambda: program.values.get("rackwatt_agent_influxdb_spool_bytes", 0) > 0, "it spools")
            program.process.send_signal(signal.SIGTERM)
            assert program.wait(5.0) == 0
        ever = recover(tmp_path / "state" / "spool")
        assert ever.points - ever.cursor.points + len(server.points) >= ever.points > 0
        server.answer = lambda _: OK
        configuration = tmp_path / "agent.yaml"
        configuration.write_text(configuration.read_text().replace(url, server.url))
        done = run_to_end("spool", "drain", "--config", str(configuration))
        assert (done.returncode, done.stderr) == (0, "")
        assert len(server.points) == ever.points


def test_a_spool_that_is_taken_ends_the_second_agent_with_status_2(tmp_path: Path) -> None:
    with agent(tmp_path, "--simulate", "hgx-h100", settings=settings("http://127.0.0.1:9")) as first:
        first.wait_until_ready()
        # The control socket is taken, too; the spool is opened before it.
        with agent(tmp_path, "--simulate", "hgx-h100", settings=settings("http://127.0.0.1:9")) as second:
            assert second.wait() == 2
            assert f"spool {tmp_path}/state/spool: another agent" in second.output


def test_a_rack_service_writes_its_racks(tmp_path: Path) -> None:
    with influx_server() as server:
        file = tmp_path / "rack.yaml"
        file.write_text(
            f"state_dir: {tmp_path / 'state'}\nlisten: 127.0.0.1:0\n"
            "racks: {r07: {platform: hgx-h100, agents: ['n01=127.0.0.1:9']}}\n" + settings(server.url)
        )
        with running([*MODULE, "rack", "--config", str(file)], tmp_path / "rack.log") as program:
            until(lambda: bool(server.points), "the racks' series arrive")
            program.process.send_signal(signal.SIGTERM)
            assert program.wait() == 0
        (line,) = [
            line for line in server.lines if b" nodes_expected=1i" in line or b",nodes_expected=1i" in line
        ][:1]
        assert line.startswith(b"rack,rack=r07 ")
        said = run_to_end("spool", "status", "--rack", "--config", str(file)).stdout
        assert f"spool       {tmp_path}/state/rack-spool" in said
        assert "waits       nothing waits" in said

"""`rackwatt agent` as a process: it reads, it survives, and it ends when it is told, whatever hangs."""

from __future__ import annotations

import os
import shutil
import signal
import socket
import time
from pathlib import Path

import pytest

from tests.e2e.programs import (
    END_SECONDS,
    SCRIPT,
    AgentProgram,
    agent,
    environment,
    get,
    interrupt,
    run_to_end,
    until,
)

pytestmark = pytest.mark.e2e

GB300 = ("--simulate", "gb300-nvl72")
HANGS = (*GB300, "--fault", "call_hangs:start=1.5")
UP = "rackwatt_agent_nvml_up"
AGE = 'rackwatt_agent_sample_age_seconds{cadence="fast"}'
PRESENT = "rackwatt_node_gpus_present"
RESTARTS = "rackwatt_agent_reader_restarts_total"


def wait_until_it_hangs(program: AgentProgram) -> None:
    """Wait until the reader has been silent for more than a period and a half."""
    until(lambda: program.values.get(AGE, 0) > 1.5, "the reader hangs")


def test_a_simulated_tray_is_served(tmp_path: Path) -> None:
    with agent(tmp_path, *GB300, "--tray", "3", program=SCRIPT) as program:
        program.wait_until_ready()
        values = program.values
        assert values[UP] == 1
        assert values[PRESENT] == 4
        assert sum(series.startswith("rackwatt_nvlink_up") for series in values) == 4 * 18
        assert 'simulated="true"' in next(series for series in values if "rackwatt_node_info" in series)
        assert 'node="n01"' in get(program.port, "/metrics").text  # the configuration goes before --tray


def test_a_call_that_hangs_is_seen_ended_and_recovered_from(tmp_path: Path) -> None:
    with agent(tmp_path, *GB300, "--fault", "call_hangs:start=2.5,duration=12") as program:
        program.wait_until_ready()
        reader = program.reader()
        # DESIGN §3: stale at 2 s (the age is exported), not served after 5 s, ended at 10 s.
        ages_served: list[float] = []

        def withheld() -> bool:
            values = program.values
            if values[UP] == 1:
                assert values[PRESENT] == 4
                ages_served.append(values[AGE])
                return False
            assert PRESENT not in values
            assert not any(series.startswith("rackwatt_gpu_power") for series in values)
            assert values[AGE] > 5
            return True

        until(withheld, "values are withheld")
        assert 2 < max(ages_served) <= 5
        ready = get(program.port, "/-/ready")
        assert ready.status == 503
        assert "the reader has brought nothing for" in ready.text
        assert not reader.ended()
        until(lambda: program.values[RESTARTS] == 1, "the reader is started anew")
        assert reader.ended()
        program.wait_until_ready()
        assert program.values[PRESENT] == 4
        assert program.output.count("silent") == 1
        assert "the reader did not answer for 10 s: a call to the NVIDIA driver hangs" in program.output
        reader.close()


def test_without_a_library_it_runs_and_says_so_once(tmp_path: Path) -> None:
    empty = tmp_path / "empty"
    empty.mkdir()
    with agent(tmp_path, env=environment(LD_LIBRARY_PATH=str(empty))) as program:
        until(lambda: program.values.get(UP) == 0, "the agent says that NVML is not up")
        ready = get(program.port, "/-/ready")
        assert ready.status == 503
        assert "the NVML library libnvidia-ml.so.1 cannot be loaded" in ready.text
        assert get(program.port, "/-/healthy").status == 200
        assert program.values[RESTARTS] == 0
        program.process.send_signal(signal.SIGTERM)
        assert program.wait() == 0


@pytest.mark.needs_program("gcc")
def test_it_begins_when_the_library_appears(tmp_path: Path, double: Path) -> None:
    folder = tmp_path / "lib"
    folder.mkdir()
    env = environment(LD_LIBRARY_PATH=str(folder), RACKWATT_DOUBLE_PLATFORM="h100")
    with agent(tmp_path, env=env) as program:
        until(lambda: program.values.get(UP) == 0, "the agent says that NVML is not up")
        began = time.monotonic()
        until(lambda: time.monotonic() - began > 6, "NVML was tried a second time, after 5 s")
        assert program.output.count("NVML cannot be read") == 1
        shutil.copy(double, folder / "part")
        (folder / "part").rename(folder / double.name)
        program.wait_until_ready()
        assert program.values[PRESENT] == 8
        assert program.values[RESTARTS] == 0
        assert program.output.count("NVML cannot be read") == 1
        assert program.output.count("NVML is read") == 1


def test_sigterm_ends_it_while_it_has_nothing_else_to_do(tmp_path: Path) -> None:
    with agent(tmp_path, *GB300) as program:
        program.wait_until_ready()
        reader = program.reader()
        program.process.send_signal(signal.SIGTERM)
        assert program.wait() == 0
        assert reader.ended(1)
        assert program.output.rstrip().endswith("stopped")
        reader.close()


@pytest.mark.parametrize("how", [signal.SIGTERM, signal.SIGINT])
def test_a_signal_ends_it_while_a_call_hangs(tmp_path: Path, how: signal.Signals) -> None:
    with agent(tmp_path, *HANGS) as program:
        program.wait_until_ready()
        reader = program.reader()
        wait_until_it_hangs(program)
        program.process.send_signal(how)
        assert program.wait() == 0
        assert reader.ended(1)
        reader.close()


def test_sigterm_ends_it_while_the_first_call_hangs(tmp_path: Path) -> None:
    with agent(tmp_path, *GB300, "--fault", "call_hangs:start=0") as program:
        reader = program.reader()
        assert get(program.port, "/-/ready").status == 503
        program.process.send_signal(signal.SIGTERM)
        assert program.wait() == 0
        assert reader.ended(1)
        reader.close()


def test_sigterm_ends_it_while_a_client_does_not_read(tmp_path: Path) -> None:
    with agent(tmp_path, *GB300) as program:
        program.wait_until_ready()
        with socket.socket() as client:
            # Answers of 100 scrapes, some 20 MB, are more than any socket's buffers hold.
            client.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
            client.connect(("127.0.0.1", program.port))
            client.sendall(b"GET /metrics HTTP/1.1\r\nHost: n01\r\n\r\n" * 100)
            assert client.recv(1)
            assert get(program.port, "/-/healthy").status == 200
            program.process.send_signal(signal.SIGTERM)
            assert program.wait() == 0


def test_ctrl_c_ends_agent_and_reader_in_order(tmp_path: Path) -> None:
    with agent(tmp_path, *GB300) as program:
        program.wait_until_ready()
        reader = program.reader()
        interrupt(program)
        assert program.wait() == 0
        assert reader.ended(1)
        assert "Traceback" not in program.output
        assert "the reader was ended by" not in program.output
        reader.close()


def test_a_second_signal_ends_it_on_the_spot(tmp_path: Path) -> None:
    with agent(tmp_path, *HANGS) as program:
        program.wait_until_ready()
        reader = program.reader()
        wait_until_it_hangs(program)
        program.process.send_signal(signal.SIGTERM)
        program.wait_for("stopping")
        program.process.send_signal(signal.SIGTERM)
        assert program.wait() == 128 + signal.SIGTERM
        assert reader.ended(END_SECONDS)
        reader.close()


@pytest.mark.parametrize("words", [GB300, HANGS], ids=["reading", "hanging"])
def test_a_reader_does_not_outlive_an_agent_that_is_killed(tmp_path: Path, words: tuple[str, ...]) -> None:
    with agent(tmp_path, *words) as program:
        program.wait_until_ready()
        reader = program.reader()
        if words is HANGS:
            wait_until_it_hangs(program)
        program.process.kill()
        assert reader.ended(END_SECONDS)
        reader.close()


def test_a_reader_that_is_killed_is_replaced(tmp_path: Path) -> None:
    with agent(tmp_path, *GB300) as program:
        program.wait_until_ready()
        reader = program.reader()
        reader.kill()
        until(lambda: program.values[RESTARTS] == 1 and program.values[UP] == 1, "a new one reads")
        assert "the reader was ended by signal 9 (Killed)" in program.output
        assert program.children() != [reader.pid]
        reader.close()


@pytest.mark.parametrize(
    ("settings", "words", "line"),
    [
        ("lissten: 127.0.0.1:1\n", (), "agent.yaml:1:1: lissten: unknown key"),
        ("sampling: {fast: 1h}\n", (), "agent.yaml:1:"),
        (None, (), "agent.yaml"),
        ("rack: r01\n", ("--tray", "1"), "--tray needs --simulate PLATFORM"),
        ("rack: r01\n", ("--simulate", "gb300"), "gb300-nvl72"),
        ("rack: r01\n", (*GB300, "--fault", "gpu_lots:gpu=1"), "did you mean 'gpu_lost'?"),
    ],
)
def test_what_is_written_wrong_is_one_line_and_status_2(
    tmp_path: Path, settings: str | None, words: tuple[str, ...], line: str
) -> None:
    configuration = tmp_path / "agent.yaml"
    if settings is not None:
        configuration.write_text(settings, "utf-8")
    result = run_to_end("agent", "--config", str(configuration), *words)
    assert result.returncode == 2
    assert result.stdout == ""
    (said,) = result.stderr.splitlines()
    assert said.startswith("rackwatt: ")
    assert line in said


def test_a_second_agent_on_one_port_says_so_and_the_first_goes_on(tmp_path: Path) -> None:
    with agent(tmp_path, *GB300) as first:
        first.wait_until_ready()
        result = run_to_end("agent", *GB300, "--listen", f"127.0.0.1:{first.port}")
        assert result.returncode == 2
        complaints = [line for line in result.stderr.splitlines() if line.startswith("rackwatt: ")]
        assert complaints == [
            f"rackwatt: cannot listen on 127.0.0.1:{first.port}: Address already in use; stop what listens "
            "there, or listen on another port (`listen:` or --listen HOST:PORT)"
        ]
        assert "Traceback" not in result.stderr
        assert get(first.port, "/-/ready").status == 200
        os.kill(first.process.pid, 0)

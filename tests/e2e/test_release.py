"""`rackwatt release` and `rackwatt resume` beside an agent that runs as a process."""

from __future__ import annotations

import json
import os
import re
import signal
from pathlib import Path

import pytest

from tests.e2e.programs import SCRIPT, AgentProgram, agent, get, run_to_end, until

pytestmark = pytest.mark.e2e

GB300 = ("--simulate", "gb300-nvl72")
UP = "rackwatt_agent_nvml_up"
POWER = "rackwatt_gpu_power_watts"
RESTARTS = "rackwatt_agent_reader_restarts_total"
AGE = 'rackwatt_agent_sample_age_seconds{cadence="fast"}'


def order(command: str, folder: Path, *words: str) -> tuple[int, str, str]:
    """Run a command beside the agent of a folder: status, output, errors."""
    done = run_to_end(command, "--config", str(folder / "agent.yaml"), *words, program=SCRIPT)
    assert "Traceback" not in done.stderr
    return done.returncode, done.stdout, done.stderr


def has_power(program: AgentProgram) -> bool:
    return any(series.startswith(POWER) for series in program.values)


def library_files(pid: int) -> list[str]:
    """What a process has of NVML: open devices of the driver, mapped libraries."""
    opened = [os.readlink(entry) for entry in Path(f"/proc/{pid}/fd").iterdir() if entry.is_symlink()]
    mapped = re.findall(r"(/\S+)$", Path(f"/proc/{pid}/maps").read_text("utf-8"), re.MULTILINE)
    return [name for name in {*opened, *mapped} if "nvidia" in name or "libnvidia-ml" in name]


@pytest.mark.parametrize("inline", [(), ("--inline",)], ids=["child", "inline"])
def test_a_release_takes_the_values_and_a_resume_brings_them_back(
    tmp_path: Path, inline: tuple[str, ...]
) -> None:
    with agent(tmp_path, *GB300, *inline) as program:
        program.wait_until_ready()
        assert len(program.children()) == (0 if inline else 1)
        status, said, errors = order("release", tmp_path)
        assert (status, errors) == (0, "")
        assert said.startswith("released: no process of this agent holds the NVIDIA driver now; ")
        # The order was answered: from here on it holds, without any waiting.
        assert program.children() == []
        assert library_files(program.process.pid) == []
        ready = get(program.port, "/-/ready")
        assert ready.status == 503
        assert re.search(
            r"released by `rackwatt release` at \d{4}-\d\d-\d\d \d\d:\d\d:\d\d UTC; "
            r"`rackwatt resume` takes the GPUs again",
            ready.text,
        )
        values = program.values
        assert values[UP] == 0
        assert AGE not in values
        assert "rackwatt_node_gpus_present" not in values
        assert not has_power(program)
        snapshot = json.loads(get(program.port, "/v1/snapshot").text)
        assert snapshot["reason"].startswith("released by `rackwatt release`")
        assert get(program.port, "/-/healthy").status == 200

        assert order("release", tmp_path)[1].startswith("already released, since ")
        assert order("resume", tmp_path) == (
            0,
            "resumed: the agent takes the GPUs again; its /-/ready says when values are there\n",
            "",
        )
        program.wait_until_ready()
        assert has_power(program)
        assert program.values[RESTARTS] == 0
        assert order("resume", tmp_path) == (0, "nothing to resume: the GPUs were not released\n", "")
        program.process.send_signal(signal.SIGTERM)
        assert program.wait() == 0
        assert program.output.count("NVML cannot be read: released by") == 1


def test_a_release_while_a_call_hangs_ends_the_reader(tmp_path: Path) -> None:
    with agent(tmp_path, *GB300, "--fault", "call_hangs:start=1.5") as program:
        program.wait_until_ready()
        reader = program.reader()
        until(lambda: program.values.get(AGE, 0) > 1.5, "the reader hangs")
        assert order("release", tmp_path)[0] == 0
        assert reader.ended()
        assert program.children() == []
        reader.close()


def test_a_release_for_a_time_ends_by_itself(tmp_path: Path) -> None:
    with agent(tmp_path, *GB300) as program:
        program.wait_until_ready()
        status, said, _ = order("release", tmp_path, "--for", "2s")
        assert status == 0
        assert "or the agent itself at " in said
        assert get(program.port, "/-/ready").status == 503
        program.wait_until_ready()
        assert program.values[RESTARTS] == 0


def test_sigterm_ends_an_agent_that_is_released_and_the_next_one_reads(tmp_path: Path) -> None:
    with agent(tmp_path, *GB300) as program:
        program.wait_until_ready()
        order("release", tmp_path)
        program.process.send_signal(signal.SIGTERM)
        assert program.wait() == 0
        assert program.output.rstrip().endswith("stopped")
        assert not (tmp_path / "state" / "agent.sock").exists()
    with agent(tmp_path, *GB300) as program:
        program.wait_until_ready()


def test_a_killed_agent_leaves_a_socket_that_is_said_and_replaced(tmp_path: Path) -> None:
    path = tmp_path / "state" / "agent.sock"
    with agent(tmp_path, *GB300) as program:
        program.wait_until_ready()
        program.process.kill()
        program.wait()
    status, said, errors = order("release", tmp_path)
    assert (status, said) == (1, "")
    assert errors == f"rackwatt: no agent runs here: nobody listens on {path}, which a dead one left\n"
    with agent(tmp_path, *GB300) as program:
        program.wait_until_ready()
        assert order("release", tmp_path)[0] == 0


def test_a_second_agent_with_the_same_state_ends_with_one_line(tmp_path: Path) -> None:
    with agent(tmp_path, *GB300) as program:
        program.wait_until_ready()
        second = run_to_end(
            "agent", "--config", str(tmp_path / "agent.yaml"), "--listen", "127.0.0.1:0", *GB300
        )
        assert second.returncode == 2
        (line,) = [each for each in second.stderr.splitlines() if each.startswith("rackwatt: ")]
        assert "another agent runs with this state_dir" in line
        assert get(program.port, "/-/ready").status == 200

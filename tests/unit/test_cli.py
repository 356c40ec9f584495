"""The command line: parsing, messages, exit statuses."""

from __future__ import annotations

import argparse
import re
import shlex
import subprocess
import sys
from pathlib import Path

import msgspec
import pytest

from collector import profiles
from collector.cli import agent, main, program, reader, simulation
from collector.config import AgentConfiguration
from collector.simulator import WORKLOADS, FaultKind

COMMANDS = (
    "agent",
    "rack",
    "demo",
    "baseline",
    "release",
    "resume",
    "check",
    "metrics",
    "spool",
    "dashboards",
)


def rackwatt(
    *words: str, folder: Path | None = None, environ: dict[str, str] | None = None
) -> subprocess.CompletedProcess[str]:
    """Run the command line as a process of its own, with a clean environment."""
    return subprocess.run(
        [sys.executable, "-P", str(Path(reader.__file__).with_name("__main__.py")), *words],
        cwd=folder,
        env={"PATH": "/usr/bin:/bin", "HOME": "/nonexistent", **(environ or {})},
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )


def test_the_version_is_that_of_the_distribution() -> None:
    done = rackwatt("--version")
    assert done.returncode == 0
    assert re.fullmatch(r"rackwatt \d+\.\d+\.\d+\S*\n", done.stdout)


def test_help_lists_the_commands_for_people_and_no_other() -> None:
    done = rackwatt("--help")
    assert done.returncode == 0
    listed = re.findall(r"^    (\w+)(?:  |$)", done.stdout, re.MULTILINE)
    assert listed == list(COMMANDS) == [command.name for command in program.COMMANDS]


@pytest.mark.parametrize("command", program.COMMANDS, ids=lambda command: command.name)
def test_every_command_explains_itself(command: program.Command, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as ended:
        main([command.name, "--help"])
    assert ended.value.code == 0
    text = capsys.readouterr().out
    assert text.isascii()
    assert command.examples in text
    assert max(len(line) for line in text.splitlines()) <= 110


def example_lines() -> list[str]:
    """Command lines of all examples, those that go on on a next line put together."""
    texts = [program.EXAMPLES, *(command.examples for command in program.COMMANDS)]
    joined = "\n".join(texts).replace("\\\n", " ")
    return [line.strip() for line in joined.splitlines() if line.strip().startswith("rackwatt ")]


@pytest.mark.parametrize("line", example_lines())
def test_every_example_can_be_typed(line: str, capsys: pytest.CaptureFixture[str]) -> None:
    words = shlex.split(line.partition(" | ")[0], comments=True)[1:]
    if words[0] == "COMMAND":
        words[0] = "agent"
    if words[-1] == "--help":
        with pytest.raises(SystemExit) as ended:
            main(words)
        assert ended.value.code == 0
    else:
        assert callable(program.make_parser().parse_args(words).run)


def test_the_examples_are_found() -> None:
    assert len(example_lines()) >= 15


def test_help_names_what_there_is() -> None:
    parser = argparse.ArgumentParser()
    agent.add_arguments(parser)
    text = " ".join(parser.format_help().split())
    # A word that argparse breaks at its hyphen comes apart; nothing else does.
    text = re.sub(r"(?<=\w)- (?=\w)", "-", text)
    for word in (*profiles.names(), *WORKLOADS, *FaultKind):
        assert re.search(rf"\b{word}\b", text), word


MISUSE = {
    "no command": ([], "rackwatt: error: the following arguments are required: COMMAND"),
    "unknown command": (
        ["agnet"],
        "rackwatt: error: argument COMMAND: invalid choice: 'agnet'"
        " (choose from 'agent', 'rack', 'demo', 'baseline', 'release', 'resume', 'check', 'metrics',"
        " 'spool', 'dashboards')",
    ),
    "unknown argument": (["check", "--jason"], "rackwatt: error: unrecognized arguments: --jason"),
    "argument cut short": (["check", "--js"], "rackwatt: error: unrecognized arguments: --js"),
    "address": (
        ["agent", "--listen", "localhost"],
        "rackwatt agent: error: argument --listen: 'localhost' is not an address;"
        " write host:port, such as 0.0.0.0:10072 for every interface",
    ),
    "port": (
        ["demo", "--listen", "localhost:99999"],
        "rackwatt demo: error: argument --listen: 'localhost:99999': '99999' is not a port;"
        " 0 to 65535 is allowed",
    ),
    "tray that is no number": (
        ["agent", "--tray", "x"],
        "rackwatt agent: error: argument --tray: invalid int value: 'x'",
    ),
    "tray without a simulation": (["agent", "--tray", "0"], "rackwatt: --tray needs --simulate PLATFORM"),
    "workload without a simulation": (
        ["agent", "--workload", "idle"],
        "rackwatt: --workload needs --simulate PLATFORM",
    ),
    "fault without a simulation": (
        ["agent", "--fault", "xid:gpu=0,code=79"],
        "rackwatt: --fault needs --simulate PLATFORM",
    ),
    "unknown platform": (
        ["agent", "--simulate", "gb300-nvl27"],
        "rackwatt: unknown platform 'gb300-nvl27': did you mean 'gb300-nvl72'?"
        " known: gb300-nvl72, gb200-nvl72, hgx-b200, hgx-h200, hgx-h100",
    ),
    "missing file": (
        ["agent", "--config", "/nonexistent/agent.yaml"],
        "rackwatt: /nonexistent/agent.yaml: there is no such file",
    ),
    "reader by hand": (
        ["reader", "--help"],
        "rackwatt: `reader` is started by the agent; `rackwatt --help` lists the commands",
    ),
    "reader with a simulation that is none": (
        ["reader", "--simulate", "{}"],
        "rackwatt: reader: Object missing required field `platform`",
    ),
}


@pytest.mark.parametrize(("words", "message"), MISUSE.values(), ids=MISUSE.keys())
def test_misuse_ends_with_status_2_and_one_line(words: list[str], message: str) -> None:
    done = rackwatt(*words)
    assert done.returncode == 2
    assert done.stderr.splitlines()[-1] == message
    assert done.stdout == ""
    assert "Traceback" not in done.stderr


@pytest.mark.parametrize(
    "words",
    [
        ["--tray", "18"],
        ["--tray", "-1"],
        ["--workload", "gaming"],
        ["--fault", "gpu_lots:gpu=1"],
        ["--fault", "gpu_lost:gpu=4"],
    ],
)
def test_a_simulation_that_cannot_be_is_refused_before_anything_starts(words: list[str]) -> None:
    done = rackwatt("agent", "--simulate", "gb300-nvl72", "--listen", "127.0.0.1:0", *words)
    assert done.returncode == 2
    assert re.fullmatch(r"rackwatt: .+\n", done.stderr)


@pytest.mark.parametrize("command", ["agent", "check"])
def test_a_file_with_mistakes_is_told_line_by_line(command: str, tmp_path: Path) -> None:
    file = tmp_path / "agent.yaml"
    file.write_text("sampling:\n  fasst: 1s\nlevel: max\n")
    done = rackwatt(command, "--config", str(file))
    lines = [
        f"{file}:2:3: sampling.fasst: unknown key; did you mean 'fast'?",
        f"{file}:3:8: level: 'max' is unknown; valid are core, standard, full",
    ]
    if command == "agent":
        assert (done.returncode, done.stdout) == (2, "")
        assert done.stderr == "".join(f"rackwatt: {line}\n" for line in lines)
    else:
        assert (done.returncode, done.stderr) == (1, "")
        assert [line for line in lines if line in done.stdout] == lines


def test_the_environment_names_a_configuration_file() -> None:
    done = rackwatt("agent", environ={"RACKWATT_CONFIG": "/nonexistent/x.yaml"})
    assert done.returncode == 2
    assert done.stderr == "rackwatt: /nonexistent/x.yaml: there is no such file\n"


def test_output_that_nobody_reads_ends_quietly() -> None:
    process = subprocess.Popen(
        [sys.executable, "-P", str(Path(reader.__file__).with_name("__main__.py")), "metrics"],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
    )
    assert process.stdout is not None
    process.stdout.close()
    _, errors = process.communicate(timeout=60)
    # 128 + SIGPIPE, as shells have it.
    assert (process.returncode, errors) == (141, b"")


def test_an_interrupt_ends_quietly(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def interrupted(_: argparse.Namespace) -> int:
        raise KeyboardInterrupt

    command = program.Command("check", "x", "x", lambda _: None, interrupted)
    monkeypatch.setattr(program, "COMMANDS", (command,))
    # 128 + SIGINT, as shells have it.
    assert main(["check"]) == 130
    assert capsys.readouterr() == ("", "")


def test_a_terminal_that_shows_less_is_no_error() -> None:
    for words in (["check"], ["metrics"], ["--help"], ["agent", "--help"]):
        done = rackwatt(*words, environ={"PYTHONIOENCODING": "ascii", "LC_ALL": "C", "PYTHONUTF8": "0"})
        assert "Traceback" not in done.stderr
        assert done.stdout.isascii()


def test_a_reader_is_started_so_that_no_folder_takes_its_modules_place(tmp_path: Path) -> None:
    for name in ("collector", "msgspec", "pynvml"):
        (tmp_path / f"{name}.py").write_text("raise SystemExit('hijacked')\n")
    done = subprocess.run(
        reader.command(), cwd=tmp_path, stdin=subprocess.DEVNULL, capture_output=True, timeout=60, check=False
    )
    # Standard input ends before there are options.
    assert done.returncode == 2
    assert b"hijacked" not in done.stderr
    assert b"the agent closed the pipe before it sent the reader's options" in done.stderr


HEAVY = (
    "aiohttp",
    "argparse",
    "asyncio",
    "hashlib",
    "collector.agent",
    "collector.config",
    "collector.profiles",
    "exporters",
    "yaml",
)


def test_a_reader_imports_nothing_of_the_agent() -> None:
    script = (
        "import sys\n"
        "from collector.cli import main\n"
        "main(['reader'])\n"
        f"print([name for name in {HEAVY!r} if name in sys.modules])\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", script],
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=60,
        check=True,
    )
    assert done.stdout == "[]\n"


def test_help_imports_nothing_that_runs() -> None:
    script = (
        "import sys\n"
        "from collector.cli import main\n"
        "try:\n"
        "    main(['--help'])\n"
        "except SystemExit:\n"
        "    sys.stderr.write(repr([name for name in ('aiohttp', 'msgspec', 'pynvml', 'yaml')"
        " if name in sys.modules]))\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", script], capture_output=True, text=True, timeout=60, check=True
    )
    assert done.stderr == "[]"


def test_every_reader_of_a_simulation_gets_the_same_one() -> None:
    begun = simulation.begin(
        "gb300-nvl72", rack="r07", tray=3, workload="idle", faults=("xid:gpu=0,code=79",)
    )
    words = reader.command(begun)
    assert words[-2] == reader.SIMULATE
    assert msgspec.json.decode(words[-1], type=simulation.Simulation) == begun


@pytest.mark.parametrize(
    ("configuration", "rack", "node"),
    [
        (AgentConfiguration(), "r01", "n04"),
        (AgentConfiguration(rack="r09", node="login"), "r09", "login"),
    ],
)
def test_a_simulated_tray_has_a_name(configuration: AgentConfiguration, rack: str, node: str) -> None:
    begun = simulation.begin("gb300-nvl72", rack="r01", tray=3, workload="idle", faults=())
    named = agent.named_after(begun, configuration)
    assert (named.rack, named.node) == (rack, node)

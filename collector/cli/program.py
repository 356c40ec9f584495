"""The parser of the command line, and how every command ends."""

from __future__ import annotations

import argparse
import io
import os
import signal
import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from collector.cli import agent, baseline, check, dashboards, demo, metrics, rack, release, resume, spool
from collector.cli.arguments import Formatter
from collector.errors import ConfigurationError, InstallationError, RackwattError

GOOD = 0
BAD = 1
MISUSE = 2
"""Exit statuses (CONTRACTS §6)."""


@dataclass(frozen=True, slots=True)
class Command:
    """One command.

    Attributes:
        name: The word that people type.
        summary: What it does, in one line.
        examples: Command lines that work, each with a comment behind `#`.
        add_arguments: Adds its arguments to its parser.
        run: Does it; returns the exit status.
    """

    name: str
    summary: str
    examples: str
    add_arguments: Callable[[argparse.ArgumentParser], None]
    run: Callable[[argparse.Namespace], int]


COMMANDS = (
    Command("agent", agent.SUMMARY, agent.EXAMPLES, agent.add_arguments, agent.run),
    Command("rack", rack.SUMMARY, rack.EXAMPLES, rack.add_arguments, rack.run),
    Command("demo", demo.SUMMARY, demo.EXAMPLES, demo.add_arguments, demo.run),
    Command("baseline", baseline.SUMMARY, baseline.EXAMPLES, baseline.add_arguments, baseline.run),
    Command("release", release.SUMMARY, release.EXAMPLES, release.add_arguments, release.run),
    Command("resume", resume.SUMMARY, resume.EXAMPLES, resume.add_arguments, resume.run),
    Command("check", check.SUMMARY, check.EXAMPLES, check.add_arguments, check.run),
    Command("metrics", metrics.SUMMARY, metrics.EXAMPLES, metrics.add_arguments, metrics.run),
    Command("spool", spool.SUMMARY, spool.EXAMPLES, spool.add_arguments, spool.run),
    Command("dashboards", dashboards.SUMMARY, dashboards.EXAMPLES, dashboards.add_arguments, dashboards.run),
)

EXAMPLES = """\
examples:
  rackwatt demo           # a simulated GB300 NVL72 rack and its rack service, without any GPU
  rackwatt check          # what keeps this machine from being watched
  rackwatt agent          # watch the GPUs of this machine: http://HOST:10072/metrics
  rackwatt COMMAND --help # everything about one command
"""


def make_parser() -> argparse.ArgumentParser:
    """Make the parser of all commands."""
    parser = argparse.ArgumentParser(
        prog="rackwatt",
        description="Watches GPU racks: reads the GPUs of this node through NVML and serves what it read.",
        epilog=EXAMPLES,
        formatter_class=Formatter,
        allow_abbrev=False,
    )
    parser.add_argument("--version", action=_Version, help="print the version and exit")
    commands = parser.add_subparsers(title="commands", metavar="COMMAND", dest="command", required=True)
    for command in COMMANDS:
        own = commands.add_parser(
            command.name,
            help=command.summary,
            description=f"{command.summary[0].upper()}{command.summary[1:]}.",
            epilog=f"examples:\n{command.examples}",
            formatter_class=Formatter,
            allow_abbrev=False,
        )
        command.add_arguments(own)
        own.set_defaults(run=command.run)
    return parser


class _Version(argparse.Action):
    """Looks the version up only when it is asked for."""

    def __init__(self, option_strings: Sequence[str], dest: str, help: str | None = None) -> None:
        super().__init__(option_strings, dest, nargs=0, help=help)

    def __call__(self, parser: argparse.ArgumentParser, *_: object) -> None:
        from importlib.metadata import version

        print(f"rackwatt {version('rackwatt')}")
        parser.exit()


def _write_whatever_comes() -> None:
    """Replace what a terminal cannot show instead of failing, as a file's name in another encoding."""
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(errors="backslashreplace")


def run(words: Sequence[str]) -> int:
    """Run a command and turn how it ended into an exit status.

    Args:
        words: What stands behind `rackwatt`.

    Returns:
        Exit status. Interrupts end with 128 and the signal's number, as shells have it.
    """
    _write_whatever_comes()
    try:
        arguments = make_parser().parse_args(words)
        command: Callable[[argparse.Namespace], int] = arguments.run
        status = command(arguments)
        sys.stdout.flush()
    except RackwattError as error:
        for line in str(error).splitlines():
            print(f"rackwatt: {line}", file=sys.stderr)
        return MISUSE if isinstance(error, ConfigurationError | InstallationError) else BAD
    except KeyboardInterrupt:
        return 128 + signal.SIGINT
    except BrokenPipeError:
        # Whoever read the output went away, as `head` does. Python would complain once more at exit,
        # when it flushes what is left (Python's documentation, "Note on SIGPIPE").
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 128 + signal.SIGPIPE
    return status

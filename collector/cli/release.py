"""`rackwatt release`: the agent lets go of the NVIDIA driver."""

from __future__ import annotations

import argparse
from typing import TYPE_CHECKING

from collector.cli.arguments import checked

if TYPE_CHECKING:
    from collector.control import Answer

SUMMARY = "let the agent let go of the NVIDIA driver, for an upgrade or a GPU reset"
EXAMPLES = """\
  rackwatt release                           # the driver can be unloaded now, a GPU reset
  rackwatt release --for 30m                 # the agent takes the GPUs again by itself after 30 minutes
  rackwatt release --socket /run/rackwatt/agent.sock

Then reset the GPU or change the driver, and let `rackwatt resume` end it. Other programs that hold the
driver, such as nvidia-persistenced, have to let go of it, too.

The agent runs on and says on /-/ready and in its Snapshots why there are no values; the rack service takes
the node for UNKNOWN with that reason. An agent that is started anew takes the GPUs again.

exit status: 0 nothing of the agent holds the driver, 1 something does or no agent can be asked, 2 misuse
"""


def duration_argument(text: str) -> float:
    """Read a duration of a second to a day; imports what reads it only where there is one to read."""
    from collector.config import duration_seconds
    from collector.release import MAXIMUM_SECONDS

    return duration_seconds(text, 1, MAXIMUM_SECONDS)


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the arguments of this command."""
    parser.add_argument("--config", metavar="FILE", help="the agent's configuration file, for its state_dir")
    parser.add_argument(
        "--socket", metavar="PATH", help="the agent's control socket (default: agent.sock in its state_dir)"
    )
    parser.add_argument(
        "--for",
        dest="for_seconds",
        metavar="TIME",
        type=checked(duration_argument),
        help="take the GPUs again by itself after this time, such as 30m; 24h at most",
    )


def run(arguments: argparse.Namespace) -> int:
    """Order the release, and say what happened."""
    import os
    import sys

    from collector.cli.orders import ask, find_socket
    from collector.control import Request

    answer = ask(find_socket(arguments, os.environ), Request("release", arguments.for_seconds))
    print(outcome(answer), file=sys.stderr if answer.held_by else sys.stdout)
    return int(bool(answer.held_by))


def outcome(answer: Answer) -> str:
    """Say how it stands after the order."""
    from collector.release import show_time

    if answer.changed or answer.since_ns is None:
        done = "released"
    else:
        done = f"already released, since {show_time(answer.since_ns)}"
    if answer.held_by:
        return f"rackwatt: {done}, but the NVIDIA driver is still held by {answer.held_by}"
    end = f", or the agent itself at {show_time(answer.until_ns)}" if answer.until_ns is not None else ""
    return (
        f"{done}: no process of this agent holds the NVIDIA driver now; `rackwatt resume` takes the GPUs "
        f"again{end}, and so does a restart of the agent"
    )

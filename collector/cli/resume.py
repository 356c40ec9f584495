"""`rackwatt resume`: the agent takes the GPUs again."""

from __future__ import annotations

import argparse
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collector.control import Answer

SUMMARY = "let the agent take the GPUs again after a release"
EXAMPLES = """\
  rackwatt resume
  rackwatt resume --config /etc/rackwatt/agent.yaml
  rackwatt resume --socket /run/rackwatt/agent.sock

It does not wait until values are there: GET /-/ready of the agent answers 200 then.

exit status: 0 the agent reads, or begins to; 1 no agent can be asked; 2 misuse
"""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the arguments of this command."""
    parser.add_argument("--config", metavar="FILE", help="the agent's configuration file, for its state_dir")
    parser.add_argument(
        "--socket", metavar="PATH", help="the agent's control socket (default: agent.sock in its state_dir)"
    )


def run(arguments: argparse.Namespace) -> int:
    """Order the end of the release, and say what happened."""
    import os

    from collector.cli.orders import ask, find_socket
    from collector.control import Request

    print(outcome(ask(find_socket(arguments, os.environ), Request("resume"))))
    return 0


def outcome(answer: Answer) -> str:
    """Say how it stands after the order."""
    if answer.changed:
        return "resumed: the agent takes the GPUs again; its /-/ready says when values are there"
    return "nothing to resume: the GPUs were not released"

"""`rackwatt spool`: looks at what waits for InfluxDB, sends it, shows what InfluxDB refused."""

from __future__ import annotations

import argparse
from typing import TYPE_CHECKING

from collector.cli.arguments import checked

if TYPE_CHECKING:
    from collector.cli.spool_place import SpoolPlace

SUMMARY = "show what waits for InfluxDB, send it without an agent, or show what InfluxDB refused"
EXAMPLES = """\
  rackwatt spool status                          # beside a running agent, too
  rackwatt spool status --json | jq .points
  rackwatt spool drain --config agent.yaml       # send what a stopped agent left
  rackwatt spool quarantine                      # lines that were set aside, with the server's words
  rackwatt spool quarantine --export bad.lp --clear
  rackwatt spool status --rack --config rack.yaml    # the spool of a rack service

exit status: 0 good, 1 something waits that cannot be sent, 2 misuse, no spool, or an agent that runs (drain)
"""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the arguments of this command."""
    verbs = parser.add_subparsers(
        title="what to do", metavar="status|drain|quarantine", dest="verb", required=True
    )
    status = verbs.add_parser("status", help="show what waits; changes nothing", allow_abbrev=False)
    status.add_argument("--json", action="store_true", help="write JSON, for programs")
    status.set_defaults(do=_status)
    drain = verbs.add_parser("drain", help="send what waits, then end", allow_abbrev=False)
    drain.add_argument(
        "--patience",
        metavar="TIME",
        type=checked(_patience),
        default=60.0,
        help="give up after this time in which the server took nothing, 1s to 24h (default: 1m)",
    )
    drain.set_defaults(do=_drain)
    quarantine = verbs.add_parser("quarantine", help="show what was set aside", allow_abbrev=False)
    quarantine.add_argument("--export", metavar="FILE", help="write the lines alone into a new file")
    quarantine.add_argument("--clear", action="store_true", help="then remove them from the spool")
    quarantine.set_defaults(do=_quarantine)
    for verb in (status, drain, quarantine):
        verb.add_argument("--config", metavar="FILE", help="configuration file, for spool and server")
        verb.add_argument(
            "--state-dir", metavar="DIR", help="folder of state that the spool is in; goes before the file"
        )
        verb.add_argument(
            "--rack", action="store_true", help="of the rack service; --config is its file then"
        )


def run(arguments: argparse.Namespace) -> int:
    """Do what was asked for."""
    status: int = arguments.do(arguments)
    return status


def _patience(text: str) -> float:
    from collector.config import duration_seconds

    return duration_seconds(text, 1.0, 86_400.0)


def _place(arguments: argparse.Namespace) -> SpoolPlace:
    import os

    from collector.cli.spool_place import find_spool

    return find_spool(arguments.config, arguments.state_dir, of_rack=arguments.rack, environ=os.environ)


def _status(arguments: argparse.Namespace) -> int:
    from collector.cli.spool_report import describe, describe_json

    place = _place(arguments)
    print(describe_json(place) if arguments.json else describe(place))
    return 0


def _drain(arguments: argparse.Namespace) -> int:
    import logging

    from collector import logs
    from collector.cli.spool_drain import drain

    logs.setup()
    logging.getLogger(logs.ROOT).setLevel(logging.WARNING)
    result = drain(_place(arguments), patience_seconds=arguments.patience)
    print(result.words)
    return int(not result.good)


def _quarantine(arguments: argparse.Namespace) -> int:
    from collector.cli.spool_report import show_quarantine

    print(show_quarantine(_place(arguments), export=arguments.export, clear=arguments.clear))
    return 0

"""`rackwatt baseline`: one-rack baselines, which scaling efficiency is held against."""

from __future__ import annotations

import argparse
import re
from typing import TYPE_CHECKING

from collector.cli.arguments import checked

if TYPE_CHECKING:
    from collector.cli.service_client import Service

SUMMARY = "record what one rack does with a model under full load, or list what was recorded"
EXAMPLES = """\
  rackwatt baseline record r01 --window 10m --token-file /etc/rackwatt/api.token
  rackwatt baseline record r01 --window 1h --model deepseek-ai/DeepSeek-R1-0528 --note "8k/1k" \\
      --url http://rack:10073 --token-file /etc/rackwatt/api.token
  rackwatt baseline list                       # of every rack
  rackwatt baseline list --rack r01 --url http://rack:10073

Load the rack until requests wait, for the whole window, and record then. Scaling efficiency of several racks
is what they do together over what as many racks would do at the newest baseline of the model and platform;
GET /v1/racks/RACK/efficiency tells it.

exit status: 0 good, 1 the rack service cannot be asked or refuses, 2 misuse
"""

_NAME = re.compile(r"[A-Za-z0-9._-]{1,64}")
"""Names of racks (CONTRACTS §5)."""
_DURATION = re.compile(r"[0-9]{1,9}[smhd]")


def rack_argument(text: str) -> str:
    """Check the name of a rack."""
    if _NAME.fullmatch(text) is None:
        raise ValueError(f"{text[:100]!r} is no name of a rack; use 1 to 64 of A-Z a-z 0-9 . _ -")
    return text


def window_argument(text: str) -> str:
    """Check that a window is a duration; the service knows its bounds."""
    if _DURATION.fullmatch(text) is None:
        raise ValueError(f"{text[:100]!r} is no duration; write a whole number and s, m, h or d, such as 10m")
    return text


def service_argument(text: str) -> Service:
    """Read the URL of a rack service; imports what asks it only where it is asked."""
    from collector.cli.service_client import service_at

    return service_at(text)


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the arguments of this command."""
    verbs = parser.add_subparsers(title="what to do", metavar="record|list", dest="verb", required=True)
    record = verbs.add_parser("record", help="record what a rack did until now", allow_abbrev=False)
    record.add_argument("rack", metavar="RACK", type=checked(rack_argument), help="name of the rack")
    record.add_argument(
        "--window",
        required=True,
        type=checked(window_argument),
        metavar="TIME",
        help="how far back from now, such as 10m",
    )
    record.add_argument(
        "--model", metavar="MODEL", help="only this model (default: every one that it serves)"
    )
    record.add_argument("--note", metavar="TEXT", default="", help="what to remember of it")
    record.add_argument("--token-file", metavar="FILE", help="file with the token that writes need")
    record.set_defaults(do=_record)
    listing = verbs.add_parser("list", help="list baselines, newest first", allow_abbrev=False)
    listing.add_argument("--rack", type=checked(rack_argument), metavar="RACK", help="only of this rack")
    listing.set_defaults(do=_list)
    for verb in (record, listing):
        verb.add_argument(
            "--url",
            type=checked(service_argument),
            default="http://127.0.0.1:10073",
            metavar="URL",
            help="the rack service (default: %(default)s)",
        )


def run(arguments: argparse.Namespace) -> int:
    """Do what was asked for."""
    status: int = arguments.do(arguments)
    return status


def _record(arguments: argparse.Namespace) -> int:
    from collector.cli.baseline_table import read_rows, render
    from collector.cli.service_client import ask, write_token

    wanted = {"rack": arguments.rack, "window": arguments.window, "note": arguments.note}
    if arguments.model is not None:
        wanted["model"] = arguments.model
    token = write_token(arguments.token_file)
    answer = ask(arguments.url, "POST", "/v1/baselines", body=wanted, token=token)
    print(render(read_rows(answer, str(arguments.url))))
    return 0


def _list(arguments: argparse.Namespace) -> int:
    from collector.cli.baseline_table import read_rows, render
    from collector.cli.service_client import ask

    query = f"?rack={arguments.rack}" if arguments.rack is not None else ""
    rows = read_rows(ask(arguments.url, "GET", f"/v1/baselines{query}"), str(arguments.url))
    print(render(rows) if rows else "no baseline is recorded: `rackwatt baseline record RACK --window 10m`")
    return 0

"""`rackwatt dashboards`: dashboards and rules, from the catalogue to files and to a Grafana."""

from __future__ import annotations

import argparse
from typing import TYPE_CHECKING

from collector.cli.arguments import checked

if TYPE_CHECKING:
    from dashboards.rules.parameters import Parameters

SUMMARY = "build Grafana's dashboards and Prometheus' rules, check that they are fresh, or push them"
EXAMPLES = """\
  rackwatt dashboards build                         # renew dashboards/generated/
  rackwatt dashboards build --output /tmp/rackwatt  # dashboards/*.json and rules/*.yaml, elsewhere
  rackwatt dashboards build --output /tmp/rackwatt --slo 0.999 \\
      --runbook-url https://runbooks.example.org/rackwatt.html --dashboard-url https://grafana.example.org/d/
  rackwatt dashboards check                         # exit status 1 if a generated file is out of date
  rackwatt dashboards push --url https://grafana.example.org --token-file grafana.token --dry-run
  rackwatt dashboards push --url https://grafana.example.org --token-file grafana.token \\
      --folder rackwatt --ca-file /etc/rackwatt/ca.pem

A push renews dashboards by their uids and leaves everything else in Grafana alone. The token is that of a
service account with the role Editor. Rules are not pushed: Prometheus reads them from files, which its
`rule_files` names.

exit status: 0 good, 1 a file is out of date, or Grafana cannot be asked or refuses, 2 misuse
"""


def url_argument(text: str) -> str:
    """Check the URL of a Grafana; imports what asks it only where it is asked."""
    from dashboards.grafana_api import grafana_url

    return grafana_url(text)


def folder_argument(text: str) -> str:
    """Check the uid of a folder."""
    from dashboards.push import folder_uid

    return folder_uid(text)


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the arguments of this command."""
    verbs = parser.add_subparsers(title="what to do", metavar="build|check|push", dest="verb", required=True)
    build = verbs.add_parser("build", help="write the generated files", allow_abbrev=False)
    build.set_defaults(do=_build)
    check = verbs.add_parser("check", help="tell whether the generated files are fresh", allow_abbrev=False)
    check.set_defaults(do=_check)
    for verb in (build, check):
        verb.add_argument(
            "--output", metavar="DIR", help="folder of the generated files (default: dashboards/generated)"
        )
        verb.add_argument(
            "--runbook-url", metavar="URL", help="where runbooks are served (default: docs/runbooks.md)"
        )
        verb.add_argument(
            "--dashboard-url", metavar="URL", help="what stands before a dashboard's uid (default: /d/)"
        )
        verb.add_argument(
            "--slo", metavar="SHARE", type=float, help="availability that burn rates go by (default: 0.99)"
        )
    push = verbs.add_parser("push", help="bring the dashboards into a Grafana", allow_abbrev=False)
    push.set_defaults(do=_push)
    push.add_argument("--url", required=True, type=checked(url_argument), metavar="URL", help="the Grafana")
    push.add_argument(
        "--token-file", required=True, metavar="FILE", help="file with the token of a service account"
    )
    push.add_argument(
        "--folder",
        default="rackwatt",
        type=checked(folder_argument),
        metavar="UID",
        help="folder, created where there is none (default: %(default)s)",
    )
    push.add_argument("--message", default="rackwatt dashboards push", metavar="TEXT", help="for the history")
    push.add_argument("--ca-file", metavar="FILE", help="certificate authority of an https URL")
    push.add_argument("--dry-run", action="store_true", help="write nothing; show what would change")


def run(arguments: argparse.Namespace) -> int:
    """Do what was asked for."""
    status: int = arguments.do(arguments)
    return status


def _parameters(arguments: argparse.Namespace) -> Parameters | None:
    """Return what a site wants otherwise; None for what is committed."""
    from dashboards.rules.parameters import Parameters

    chosen = {
        name: value
        for name in ("runbook_url", "dashboard_url", "slo")
        if (value := getattr(arguments, name)) is not None
    }
    return Parameters(**chosen) if chosen else None


def _build(arguments: argparse.Namespace) -> int:
    from pathlib import Path

    from dashboards.build import GENERATED, differences, generate, write

    folder = GENERATED if arguments.output is None else Path(arguments.output)
    found = differences(folder, generate(_parameters(arguments)))
    write(folder, found)
    for difference in found:
        print(f"{folder / difference.path}: {'removed' if difference.after is None else 'written'}")
    if not found:
        print(f"{folder}: was up to date")
    return 0


def _check(arguments: argparse.Namespace) -> int:
    from pathlib import Path

    from dashboards.build import GENERATED, differences, generate

    folder = GENERATED if arguments.output is None else Path(arguments.output)
    found = differences(folder, generate(_parameters(arguments)))
    for difference in found:
        print(difference.summary)
        for line in difference.lines():
            print(f"  {line}")
    if found:
        print(
            f"{folder}: {len(found)} files are not as they should be; renew them: rackwatt dashboards build"
        )
        return 1
    print(f"{folder}: up to date")
    return 0


def _push(arguments: argparse.Namespace) -> int:
    import asyncio

    from collector.sources.bounded_http import tls_context
    from collector.token_file import TokenFile
    from dashboards.build import dashboards
    from dashboards.push import Push, push

    wanted = Push(
        url=arguments.url,
        token=TokenFile(arguments.token_file).token(),
        trust=True if arguments.ca_file is None else tls_context(arguments.ca_file),
        folder=arguments.folder,
        message=arguments.message,
        dry_run=arguments.dry_run,
    )
    boards = {
        path.removeprefix("dashboards/").removesuffix(".json"): text for path, text in dashboards().items()
    }

    async def report() -> None:
        async for line in push(wanted, boards):
            print(line, flush=True)

    asyncio.run(report())
    return 0

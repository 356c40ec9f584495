"""`rackwatt metrics`: the catalogue, for people, programs and the README."""

from __future__ import annotations

import argparse
from collections.abc import Callable
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collector.catalog.spec import Level, Metric

SUMMARY = "list every metric: name, kind, unit, labels, level, cadence, meaning, and where it is read"
EXAMPLES = """\
  rackwatt metrics                       # everything, as text
  rackwatt metrics --level core          # what the level `core` exports
  rackwatt metrics --format json | jq -r '.metrics[].name'
  rackwatt metrics --update README.md    # renew the table between the file's markers
  rackwatt metrics --check README.md     # exit status 1 if that table is out of date
"""

MARKER = "metrics"
"""Name of the markers around the table in a Markdown file."""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the arguments of this command."""
    parser.add_argument("--format", choices=("table", "json", "markdown"), help="default: table")
    parser.add_argument(
        "--level", choices=("core", "standard", "full"), default="full", help="default: full, which is all"
    )
    files = parser.add_mutually_exclusive_group()
    files.add_argument("--update", metavar="FILE", help="put the Markdown table between FILE's markers")
    files.add_argument("--check", metavar="FILE", help="tell whether FILE's table is up to date")


def listed(level: Level) -> tuple[Metric, ...]:
    """List the rows of a level: those of agents, then those of rack services."""
    from collector import catalog
    from collector.catalog.rack import RACK

    return (*catalog.at_level(level), *(row for row in RACK if row.level <= level))


def run(arguments: argparse.Namespace) -> int:
    """Print the catalogue, or renew or check it in a file."""
    from collector.catalog.spec import Level
    from collector.cli import metric_tables
    from collector.errors import ConfigurationError

    rows = listed(Level[arguments.level.upper()])
    file_name: str | None = arguments.update or arguments.check
    if file_name is None:
        print(metric_tables.RENDERERS[arguments.format or "table"](rows), end="")
        return 0
    if arguments.format not in {None, "markdown"}:
        raise ConfigurationError(f"--format {arguments.format}: a file takes markdown")
    return _embed(file_name, metric_tables.render_markdown(rows), write=arguments.update is not None)


def _embed(file_name: str, table: str, *, write: bool, report: Callable[[str], None] = print) -> int:
    """Put the table into a file, or tell whether it stands there."""
    from pathlib import Path

    from collector.cli.markers import replace_between_markers
    from collector.errors import ConfigurationError

    path = Path(file_name)
    try:
        before = path.read_text(encoding="utf-8")
        after = replace_between_markers(before, MARKER, table)
        if write and after != before:
            path.write_text(after, encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        reason = error.strerror if isinstance(error, OSError) else "it is not UTF-8"
        raise ConfigurationError(f"{file_name}: {reason}") from None
    except ConfigurationError as error:
        raise ConfigurationError(f"{file_name}: {error}") from None
    if write:
        report(f"{file_name}: {'renewed' if after != before else 'was up to date'}")
        return 0
    if after != before:
        report(
            f"{file_name}: the metric table is out of date; renew it: rackwatt metrics --update {file_name}"
        )
        return 1
    report(f"{file_name}: up to date")
    return 0

"""Every file that is generated and committed, and what generates it."""

from __future__ import annotations

import operator
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path

from collector.catalog.spec import Level
from collector.cli.markers import replace_between_markers
from collector.cli.metric_tables import render_markdown
from collector.cli.metrics import MARKER, listed
from dashboards.rules import documents
from dashboards.rules.inhibitions import render_inhibitions
from tests.golden import check_tables, influx_table, node_metrics, rest_bodies

REPOSITORY = Path(__file__).parents[2]


def _readme() -> str:
    """Renew the metric table in the README."""
    text = (REPOSITORY / "README.md").read_text("utf-8")
    return replace_between_markers(text, MARKER, render_markdown(listed(Level.FULL)))


def _checks() -> str:
    """Renew the tables of checks and Xids."""
    text = (REPOSITORY / "docs/checks.md").read_text("utf-8")
    text = replace_between_markers(text, check_tables.CHECKS_MARKER, check_tables.render_checks())
    return replace_between_markers(text, check_tables.XIDS_MARKER, check_tables.render_xids())


def _runbooks() -> str:
    """Renew the sections of the alerts."""
    text = (REPOSITORY / "docs/runbooks.md").read_text("utf-8")
    return replace_between_markers(text, documents.RUNBOOKS_MARKER, documents.render_runbooks())


def _influxdb() -> str:
    """Renew the table of what is written to InfluxDB."""
    text = (REPOSITORY / "docs/influxdb.md").read_text("utf-8")
    return replace_between_markers(text, influx_table.MARKER, influx_table.render())


def _rules() -> str:
    """Renew the tables of recorded series and alerts."""
    text = (REPOSITORY / "docs/rules.md").read_text("utf-8")
    text = replace_between_markers(text, documents.RECORDED_MARKER, documents.render_recorded())
    text = replace_between_markers(text, documents.ALERTS_MARKER, documents.render_alerts())
    return replace_between_markers(text, documents.INHIBITIONS_MARKER, render_inhibitions())


@dataclass(frozen=True)
class GoldenFile:
    """A generated file.

    Attributes:
        make: Makes its content.
        alike: Tells whether two contents are the same.
    """

    make: Callable[[], str]
    alike: Callable[[str, str], bool] = operator.eq


def _metrics(name: str) -> GoldenFile:
    return GoldenFile(lambda: node_metrics.render(name), node_metrics.alike)


def _rest_body(name: str) -> GoldenFile:
    return GoldenFile(lambda: rest_bodies.render(name))


FILES: Mapping[str, GoldenFile] = {
    "README.md": GoldenFile(_readme),
    "docs/checks.md": GoldenFile(_checks),
    "docs/influxdb.md": GoldenFile(_influxdb),
    "docs/rules.md": GoldenFile(_rules),
    "docs/runbooks.md": GoldenFile(_runbooks),
    **{f"tests/golden/metrics/{name}": _metrics(name) for name in node_metrics.NODES},
    **{f"tests/golden/rest/{name}": _rest_body(name) for name in rest_bodies.BODIES},
}
"""Generated files by their path in the repository."""

FOLDERS = ("tests/golden/metrics", "tests/golden/rest")
"""Folders with nothing but generated files."""


def differing(repository: Path = REPOSITORY) -> dict[str, str]:
    """Return the files that are not as they should be, each with the content that is right."""
    contents = {name: file.make() for name, file in FILES.items()}
    return {
        name: text for name, text in contents.items() if not FILES[name].alike(_read(repository / name), text)
    }


def left_over(repository: Path = REPOSITORY) -> list[str]:
    """Return the files in the generated folders that nothing generates."""
    present = [path for folder in FOLDERS for path in sorted((repository / folder).glob("*"))]
    return [name for path in present if (name := str(path.relative_to(repository))) not in FILES]


def _read(path: Path) -> str:
    """Return a file's content; that of one that does not exist is empty."""
    return path.read_text("utf-8") if path.exists() else ""

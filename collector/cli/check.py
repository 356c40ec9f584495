"""`rackwatt check`: explains in words what is missing before this machine can be watched."""

from __future__ import annotations

import argparse
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collector.cli.findings import Finding, Mark

SUMMARY = "explain what keeps this machine from being watched, and what to do about it"
EXAMPLES = """\
  rackwatt check                             # with the configuration that the agent would find
  rackwatt check --config agent.yaml         # is this file right?
  rackwatt check --json | jq '.findings[] | select(.mark == "FAIL")'

exit status: 0 all is well or can wait, 1 something is bad, 2 misuse
"""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the arguments of this command."""
    parser.add_argument("--config", metavar="FILE", help="the agent's configuration file")
    parser.add_argument("--json", action="store_true", help="write JSON, for programs")


def run(arguments: argparse.Namespace) -> int:
    """Gather the facts, judge them, print the findings."""
    import os
    import sys

    from collector.cli.checks import CHECKS
    from collector.cli.findings import Mark
    from collector.cli.influx_checks import influxdb
    from collector.cli.probes import gather
    from collector.cli.serving_checks import serving

    facts = gather(arguments.config, os.environ)
    findings = [*((check.name, check.judge(facts)) for check in CHECKS), *serving(facts), *influxdb(facts)]
    if arguments.json:
        print(render_json(findings))
    else:
        unicode = (sys.stdout.encoding or "").lower().replace("-", "") == "utf8"
        print(render_text(findings, unicode=unicode))
    return int(any(finding.mark is Mark.FAIL for _, finding in findings))


def render_json(findings: list[tuple[str, Finding]]) -> str:
    """Render for programs."""
    import json

    from collector.cli.findings import Mark, summarize

    return json.dumps(
        {
            "good": all(finding.mark is not Mark.FAIL for _, finding in findings),
            "summary": summarize([finding for _, finding in findings]),
            "findings": [
                {"check": name, "mark": finding.mark.value, "finding": finding.text, "action": finding.action}
                for name, finding in findings
            ],
        },
        indent=2,
    )


def render_text(findings: list[tuple[str, Finding]], *, unicode: bool) -> str:
    """Render for people: mark, what was looked at, the finding; below it what to do.

    Args:
        findings: What was found, with the name of each check.
        unicode: Whether the terminal can show more than ASCII.

    Returns:
        Text of several lines, the last of which says how it stands.
    """
    from collector.cli.findings import summarize

    width = max(len(name) for name, _ in findings)
    lines = []
    for name, finding in findings:
        shape = _shapes(unicode=unicode)[finding.mark]
        indent = " " * (9 + width)
        head, *rest = finding.text.splitlines()
        lines += [
            f"{shape} {finding.mark.value:<4}  {name:<{width}}  {head}",
            *(f"{indent} {line}" for line in rest),
        ]
        if finding.action:
            lines.append(f"{indent} {'→' if unicode else '->'} {finding.action}")
    return "\n".join([*lines, "", summarize([finding for _, finding in findings])])


def _shapes(*, unicode: bool) -> dict[Mark, str]:
    from collector.cli.findings import Mark

    shapes = "✓!✗·" if unicode else "+!x-"
    return dict(zip((Mark.OK, Mark.WARN, Mark.FAIL, Mark.SKIP), shapes, strict=True))

"""What a check of `rackwatt check` is, what it finds, and the sentence that sums all up."""

from __future__ import annotations

import enum
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from collector.cli.facts import Facts


class Mark(enum.Enum):
    """How a finding is marked."""

    OK = "ok"
    WARN = "warn"
    FAIL = "FAIL"
    SKIP = "skip"


@dataclass(frozen=True, slots=True)
class Finding:
    """What a check found.

    Attributes:
        mark: How it is.
        text: What was found.
        action: What to do about it; empty where nothing is to be done.
    """

    mark: Mark
    text: str
    action: str = ""


@dataclass(frozen=True, slots=True)
class Check:
    """One check.

    Attributes:
        name: What is looked at, in one or two words.
        judge: Judges the facts; reads and changes nothing else.
    """

    name: str
    judge: Callable[[Facts], Finding]


def count(number: int, noun: str) -> str:
    """Write a number with its noun in the right form."""
    return f"{number} {noun}" if number == 1 else f"{number} {noun}s"


def summarize(findings: Sequence[Finding]) -> str:
    """Say in one sentence how it stands."""
    bad = sum(finding.mark is Mark.FAIL for finding in findings)
    doubtful = sum(finding.mark is Mark.WARN for finding in findings)
    warnings = count(doubtful, "warning") if doubtful else ""
    if bad:
        also = f" and {warnings}" if warnings else ""
        order = ": begin with the topmost, for those below may follow from it" if bad > 1 else ""
        return f"{count(bad, 'problem')}{also}{order}."
    if warnings:
        return f"The agent can run, with {warnings}: `rackwatt agent` starts it."
    return "All is well: `rackwatt agent` starts the agent."

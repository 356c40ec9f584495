"""The tables of docs/checks.md: every check of an agent, and every Xid, as the code has them."""

from __future__ import annotations

from collections.abc import Iterable

from collector.catalog.checks import CHECK_BY_ID, CHECKS, Check
from collector.health.xids import Subcode, Xid, load_catalogue

CHECKS_MARKER = "checks"
XIDS_MARKER = "xids"

_OF_EVENT = "of each event"


def render_checks() -> str:
    """Render a row a check, in the order of expositions."""
    heads = ("Check", "Of a", "Impact", "Fails when", "Threshold", "Where it comes from", "What to do")
    return _table(heads, map(_check_cells, CHECKS))


def render_xids() -> str:
    """Render a row an Xid, by number."""
    heads = ("Xid", "Name", "Class", "Counts if it comes", "What to do", "Note")
    rows = load_catalogue().rows
    return _table(heads, (_xid_cells(rows[number]) for number in sorted(rows)))


def _check_cells(check: Check) -> tuple[str, ...]:
    threshold = "-" if check.threshold is None else f"{_number(check.threshold)} ({check.unit})"
    return (
        f"`{check.id}`",
        check.subject.value,
        check.impact,
        check.help,
        threshold,
        check.source,
        check.action,
    )


def _xid_cells(xid: Xid) -> tuple[str, ...]:
    severity = _OF_EVENT if xid.severity == "by_subcode" else xid.severity
    return (str(xid.number), xid.name, severity, _repeat(xid), xid.action, _notes(xid))


def _repeat(xid: Xid) -> str:
    """Say from when on an Xid changes its GPU's state: how often within 24 hours it has to come."""
    usual = CHECK_BY_ID["gpu_xid_repeated"].threshold
    needed = usual if xid.repeat is None else xid.repeat
    times = f"{needed} times a day" if needed else "never"
    return {"fatal": "once", "info": "never", "by_subcode": f"once if fatal, else {times}"}.get(
        xid.severity, times
    )


def _notes(xid: Xid) -> str:
    unnamed = f"Class where NVML alone tells of it: {xid.unnamed}." if xid.severity == "by_subcode" else ""
    return "<br>".join(text for text in (xid.note, unnamed, *map(_subcode, xid.subcodes)) if text) or "-"


def _subcode(own: Subcode) -> str:
    """Name a sub-code, with its class where that is fixed."""
    said = "; ".join(text for text in (own.severity or "", own.note.rstrip(".")) if text)
    return f"`{own.name}`: {said}" if said else f"`{own.name}`"


def _number(value: float) -> str:
    return f"{value:,}" if isinstance(value, int) else f"{value:g}"


def _table(heads: tuple[str, ...], rows: Iterable[tuple[str, ...]]) -> str:
    lines = [_line(heads), "|---" * len(heads) + "|", *map(_line, rows)]
    return "\n".join(lines) + "\n"


def _line(cells: tuple[str, ...]) -> str:
    escaped = (cell.replace("|", r"\|") for cell in cells)
    return f"| {' | '.join(escaped)} |"

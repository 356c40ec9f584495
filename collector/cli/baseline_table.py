"""Baselines as a rack service tells them, as a plain table."""

from __future__ import annotations

from collections.abc import Sequence

import msgspec

from collector.cli.service_client import ServiceError, one_line


class BaselineRow(msgspec.Struct):
    """A baseline, as far as the table shows it (docs/rest.md, Baselines)."""

    id: str
    rack: str
    model: str
    recorded_at: str
    generation_tokens_per_second: float
    saturation_ratio: float
    gpus: float | None = None
    tokens_per_joule: float | None = None
    mean_prompt_tokens: float | None = None
    mean_generation_tokens: float | None = None
    tokens_per_second_per_user: float | None = None
    note: str | None = None


class _Answer(msgspec.Struct):
    baselines: list[BaselineRow]


_HEAD = (
    "ID",
    "RACK",
    "MODEL",
    "RECORDED",
    "TOK/S",
    "GPUS",
    "TOK/J",
    "PROMPT",
    "GENERATED",
    "TOK/S/USER",
    "WAITING",
)
_NUMBERS_FROM = 4
"""Columns from here on are numbers, which stand on the right."""
_ABSENT = "-"


def read_rows(answer: bytes, where: str) -> list[BaselineRow]:
    """Read what a rack service answered.

    Args:
        answer: The body.
        where: The service, for the message.

    Raises:
        ServiceError: It is no list of baselines.
    """
    try:
        return msgspec.json.decode(answer, type=_Answer).baselines
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError):
        raise ServiceError(
            f"{where} does not answer with baselines; is it a rack service, and new enough?"
        ) from None


def render(rows: Sequence[BaselineRow]) -> str:
    """Write baselines as lines of columns; a note stands at the end of its line."""
    cells = [_HEAD, *map(_cells, rows)]
    widths = [max(len(row[column]) for row in cells) for column in range(len(_HEAD))]
    notes = ["NOTE", *(one_line(own.note or "") for own in rows)]
    return "\n".join(f"{_line(row, widths)}  {note}".rstrip() for row, note in zip(cells, notes, strict=True))


def _line(row: Sequence[str], widths: Sequence[int]) -> str:
    return "  ".join(
        text.rjust(width) if column >= _NUMBERS_FROM else text.ljust(width)
        for column, (text, width) in enumerate(zip(row, widths, strict=True))
    )


def _cells(own: BaselineRow) -> tuple[str, ...]:
    return (
        one_line(own.id),
        one_line(own.rack),
        one_line(own.model),
        one_line(own.recorded_at),
        f"{own.generation_tokens_per_second:.0f}",
        _number(own.gpus, "g"),
        _number(own.tokens_per_joule, ".4f"),
        _number(own.mean_prompt_tokens, ".0f"),
        _number(own.mean_generation_tokens, ".0f"),
        _number(own.tokens_per_second_per_user, ".1f"),
        f"{own.saturation_ratio:.2f}",
    )


def _number(value: float | None, form: str) -> str:
    return _ABSENT if value is None else format(value, form)

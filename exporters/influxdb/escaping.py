"""Texts in line protocol: what must be escaped, and what it cannot carry.

Syntax: https://docs.influxdata.com/influxdb/v2/reference/syntax/line-protocol/ ("Special characters").
No line of ours holds a newline, so a payload may be split into its lines.
"""

from __future__ import annotations

import re
from urllib.parse import quote

_PLAIN = re.compile(r"[\x20-\x24\x26-\x5b\x5d-\x7e]*")
"""ASCII but for what a tag cannot carry everywhere. A newline ends a line wherever it stands. What two
backslashes mean differs from server to server (InfluxDB 1 and 2 read two, VictoriaMetrics one), and one at
the end hides the separator that follows."""
_SEPARATORS = re.compile("([, =])")
_CONTROLS = re.compile(r"[\x00-\x1f\x7f-\x9f]")
_QUOTED = re.compile(r'(["\\])')
_REPLACEMENT = "\N{REPLACEMENT CHARACTER}"


def tag_text(text: str) -> str:
    r"""Write a text as the value of a tag, or as part of a key.

    Comma, space and equals sign are escaped. Backslashes and what cannot be printed are written as in a URL
    (`%5C`, `%0A`), and so is the percent sign: no two texts become one, and `urllib.parse.unquote` gives the
    text back. So is U+FFFD, which an InfluxDB that validates keys refuses as it does what cannot be printed
    (its `models.ValidKeyToken`). A lone surrogate becomes `?`.
    """
    text = _valid(text)
    if _PLAIN.fullmatch(text) is None:
        text = "".join(map(_carried, text))
    return _SEPARATORS.sub(r"\\\1", text)


def string_field(text: str) -> str:
    r"""Write a text as the value of a string field, in its quotes.

    Quote and backslash are escaped; a control character becomes U+FFFD, for a newline would end the line for
    whoever splits a payload. A lone surrogate becomes `?`.
    """
    return f'"{_QUOTED.sub(_escaped, _CONTROLS.sub(_REPLACEMENT, _valid(text)))}"'


def _valid(text: str) -> str:
    return text.encode("utf-8", errors="replace").decode("utf-8")


def _carried(character: str) -> str:
    if character in {"%", "\\", _REPLACEMENT} or not character.isprintable():
        return quote(character, safe="")
    return character


def _escaped(match: re.Match[str]) -> str:
    return "\\" + match[0]

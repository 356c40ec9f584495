"""The keys `checks` and `xids`: thresholds of checks, and what an Xid means here."""

from __future__ import annotations

import math
import re
from collections.abc import Mapping

import msgspec

from collector.catalog.checks import CHECKS, Check
from collector.config import values
from collector.config.document import MappingNode, Node, Scalar, show
from collector.config.reading import ConflictError, Key, Mistake, Section, Tree, describe, read_section
from collector.config.schema import XID_SEVERITIES, XidSetting

_NUMBER = re.compile(r"-?[0-9]{1,15}")
_DECIMAL = re.compile(r"-?[0-9]{1,15}(\.[0-9]{1,15})?([eE][+-]?[0-9]{1,3})?")
_XID = re.compile(r"[1-9][0-9]{0,3}")
_MOST_REPEATS = 1000


def _threshold(check: Check) -> Key:
    """Make the reader of one check's threshold, within the bounds of its row."""

    def read(text: str) -> int | float:
        if _DECIMAL.fullmatch(text) is None or not math.isfinite(float(text)):
            raise ValueError(f"{show(text)} is not a number such as {check.threshold:g}")
        number = int(text) if _NUMBER.fullmatch(text) else float(text)
        if not check.lowest <= number <= check.highest:
            raise ValueError(
                f"{text} is out of bounds; {check.lowest:g} to {check.highest:g} {check.unit} is allowed"
            )
        return number

    return Key(read, f"a number such as {check.threshold:g}")


def _finish_check(read: Mapping[str, object]) -> object:
    if "threshold" not in read:
        raise ConflictError("threshold", "is missing")
    return read["threshold"]


_CHECKS = Section(
    {
        check.id: Section({"threshold": _threshold(check)}, _finish_check)
        for check in CHECKS
        if check.threshold is not None
    },
    dict,
    refused={
        check.id: "has no threshold that could be changed; remove it"
        for check in CHECKS
        if check.threshold is None
    },
)


def _read_checks(node: Node, path: str) -> tuple[object, list[Mistake]]:
    if not isinstance(node, MappingNode):
        return None, [_instead(node, path, "checks, such as gpu_temperature_margin")]
    return read_section(node, _CHECKS, path)


def _repeat(text: str) -> int:
    if _NUMBER.fullmatch(text) is None or not 0 <= int(text) <= _MOST_REPEATS:
        raise ValueError(f"{show(text)} is not a number of times: 0, which is never, to {_MOST_REPEATS}")
    return int(text)


_XID_KEYS = Section(
    {
        "severity": Key(
            lambda text: values.choice(text, XID_SEVERITIES), f"one of {', '.join(XID_SEVERITIES)}"
        ),
        "repeat": Key(_repeat, "a number of times in 24 hours, such as 3"),
    },
    lambda read: msgspec.convert(read, XidSetting),
)


def _read_xids(node: Node, path: str) -> tuple[object, list[Mistake]]:
    if not isinstance(node, MappingNode):
        return None, [_instead(node, path, "numbers of Xids, such as 94")]
    read: dict[int, object] = {}
    mistakes: list[Mistake] = []
    for key, value in node.entries:
        mistakes += _read_xid(key, value, path, read)
    return (None if mistakes else read), mistakes


def _read_xid(key: Scalar, value: Node, path: str, read: dict[int, object]) -> list[Mistake]:
    if _XID.fullmatch(key.text) is None:
        return [Mistake(key.place, f"{path}{show(key.text)}: not the number of an Xid, such as 94")]
    if not isinstance(value, MappingNode):
        text = f"expected keys ({', '.join(_XID_KEYS.keys)}), found {describe(value)}"
        return [Mistake(value.place, f"{path}{key.text}: {text}")]
    read[int(key.text)], mistakes = read_section(value, _XID_KEYS, f"{path}{key.text}.")
    return mistakes


def _instead(node: Node, path: str, expected: str) -> Mistake:
    return Mistake(node.place, f"{path.removesuffix('.')}: expected {expected}, found {describe(node)}")


CHECK_TREE = Tree(_read_checks)
XID_TREE = Tree(_read_xids)

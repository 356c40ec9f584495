"""Scripted faults: what can go wrong, when, and how it is written on the command line."""

from __future__ import annotations

import difflib
import math
from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum
from typing import Final

from collector.errors import ConfigurationError
from collector.profiles import Profile


class FaultKind(StrEnum):
    """Kinds of faults."""

    GPU_LOST = "gpu_lost"
    """The GPU falls off the bus: Xid 79, then every call answers GPU_IS_LOST."""
    LINK_DOWN = "link_down"
    """An NVLink fails: state inactive, counters not supported, one failed recovery, an Xid."""
    CALL_HANGS = "call_hangs"
    """Calls block: those of one GPU, or all."""
    XID = "xid"
    """An Xid of any code, with no further effect."""
    ECC_UNCORRECTABLE = "ecc_uncorrectable"
    """An uncorrectable memory error: counters, a pending row remap, Xids 94 and 63."""
    THERMAL_SLOWDOWN = "thermal_slowdown"
    """The GPU overheats and the hardware halves its clocks."""
    DRIVER_UNLOADED = "driver_unloaded"
    """The driver goes away; when it is back, its counters begin at zero."""
    ENGINE_RESTART = "engine_restart"
    """The serving engine goes away; when it is back, its counters begin at zero."""


@dataclass(frozen=True, slots=True)
class _Rule:
    """Which parameters a kind needs and takes besides `start`."""

    required: frozenset[str]
    optional: frozenset[str]


_RULES: Final[Mapping[FaultKind, _Rule]] = {
    FaultKind.GPU_LOST: _Rule(frozenset({"gpu"}), frozenset({"duration"})),
    FaultKind.LINK_DOWN: _Rule(frozenset({"gpu", "link"}), frozenset({"duration"})),
    FaultKind.CALL_HANGS: _Rule(frozenset(), frozenset({"gpu", "duration"})),
    FaultKind.XID: _Rule(frozenset({"gpu", "code"}), frozenset()),
    FaultKind.ECC_UNCORRECTABLE: _Rule(frozenset({"gpu"}), frozenset()),
    FaultKind.THERMAL_SLOWDOWN: _Rule(frozenset({"gpu"}), frozenset({"duration"})),
    FaultKind.DRIVER_UNLOADED: _Rule(frozenset(), frozenset({"duration"})),
    FaultKind.ENGINE_RESTART: _Rule(frozenset({"duration"}), frozenset()),
}
_PARAMETERS: Final = ("gpu", "link", "code", "start", "duration")


@dataclass(frozen=True, slots=True)
class Fault:
    """One fault. A kind that does not take a parameter leaves it None.

    Attributes:
        kind: What happens.
        start_seconds: When, after the node's start; rounded to the 0.1 s grid of the simulation.
        duration_seconds: For how long; None is for ever.
        gpu: Index of the GPU.
        link: The NVLink, 0-based.
        code: The Xid.

    Raises:
        ConfigurationError: A parameter is missing, not taken by the kind, or out of range.
    """

    kind: FaultKind
    start_seconds: float = 0.0
    duration_seconds: float | None = None
    gpu: int | None = None
    link: int | None = None
    code: int | None = None

    def __post_init__(self) -> None:
        rule = _RULES[self.kind]
        given = {
            name
            for name, value in (
                ("gpu", self.gpu),
                ("link", self.link),
                ("code", self.code),
                ("duration", self.duration_seconds),
            )
            if value is not None
        }
        if missing := rule.required - given:
            raise ConfigurationError(f"fault {self.kind}: {', '.join(sorted(missing))} missing")
        if surplus := given - rule.required - rule.optional:
            raise ConfigurationError(f"fault {self.kind}: takes no {', '.join(sorted(surplus))}")
        if not (math.isfinite(self.start_seconds) and self.start_seconds >= 0):
            raise ConfigurationError(f"fault {self.kind}: start {self.start_seconds} must be 0 or more")
        if self.duration_seconds is not None and not (
            math.isfinite(self.duration_seconds) and self.duration_seconds > 0
        ):
            raise ConfigurationError(
                f"fault {self.kind}: duration {self.duration_seconds} must be more than 0 seconds"
            )
        for name, value in (("gpu", self.gpu), ("link", self.link), ("code", self.code)):
            if value is not None and value < 0:
                raise ConfigurationError(f"fault {self.kind}: {name} {value} must be 0 or more")

    def check(self, profile: Profile) -> None:
        """Refuse a GPU or link that the platform does not have.

        Args:
            profile: The platform.

        Raises:
            ConfigurationError: The GPU or the link does not exist.
        """
        for name, value, count in (
            ("gpu", self.gpu, profile.gpus_per_node),
            ("link", self.link, profile.nvlink.links_per_gpu),
        ):
            if value is not None and value >= count:
                raise ConfigurationError(
                    f"fault {self.kind}: {name} {value} does not exist: {profile.name} has 0 to {count - 1}"
                )


def parse_fault(text: str) -> Fault:
    """Read a fault as written on the command line.

    Args:
        text: `kind` or `kind:name=value,…` with gpu, link, code, start and duration (seconds),
            such as `gpu_lost:gpu=2,start=30,duration=20`.

    Returns:
        The fault.

    Raises:
        ConfigurationError: The text is not a fault; the message says what would be right.
    """
    kind_text, _, rest = text.strip().partition(":")
    try:
        kind = FaultKind(kind_text)
    except ValueError:
        near = difflib.get_close_matches(kind_text, [each.value for each in FaultKind], n=1)
        hint = f"did you mean {near[0]!r}? " if near else ""
        hint += f"known: {', '.join(FaultKind)}"
        raise ConfigurationError(f"fault {text!r}: unknown kind {kind_text!r}: {hint}") from None
    parameters: dict[str, str] = {}
    for item in rest.split(",") if rest else ():
        name, separator, value = (part.strip() for part in item.partition("="))
        if not separator or name not in _PARAMETERS:
            raise ConfigurationError(
                f"fault {text!r}: {item!r} must be name=value with one of {', '.join(_PARAMETERS)}"
            )
        if name in parameters:
            raise ConfigurationError(f"fault {text!r}: {name} is given twice")
        parameters[name] = value
    return Fault(
        kind,
        start_seconds=_seconds(text, "start", parameters.get("start")) or 0.0,
        duration_seconds=_seconds(text, "duration", parameters.get("duration")),
        gpu=_whole(text, "gpu", parameters.get("gpu")),
        link=_whole(text, "link", parameters.get("link")),
        code=_whole(text, "code", parameters.get("code")),
    )


def _seconds(text: str, name: str, value: str | None) -> float | None:
    if value is None:
        return None
    try:
        return float(value.removesuffix("s"))
    except ValueError:
        raise ConfigurationError(f"fault {text!r}: {name} {value!r} must be seconds, like 2.5") from None


def _whole(text: str, name: str, value: str | None) -> int | None:
    if value is None:
        return None
    if not (value.isascii() and value.isdigit()):
        raise ConfigurationError(f"fault {text!r}: {name} {value!r} must be a whole number")
    return int(value)

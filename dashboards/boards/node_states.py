"""What the driver and the fabric say of each GPU over time: clock events, Xids, registration, recovery."""

from __future__ import annotations

from collections.abc import Mapping

from dashboards import links, queries, units
from dashboards.boards.recordings import GPU_LEGEND, Recordings, describe
from dashboards.identities import BoardId
from dashboards.panels import DataLink, FieldOptions, StateTimeline, Target, ValueText, palette
from dashboards.panels.palette import Colour
from dashboards.queries import CLUSTER, Scope

_KEYS = ", ".join((CLUSTER, "rack", "node", "gpu", "gpu_uuid"))

_CALM, _HELD, _HOT = palette.NEUTRAL, palette.DEGRADED, palette.FAILED

CLOCK_EVENTS: tuple[tuple[str, Colour], ...] = (
    ("gpu_idle", _CALM),
    ("applications_clocks", _CALM),
    ("display_clocks", _CALM),
    ("sync_boost", _CALM),
    ("sw_power_cap", _CALM),
    ("reliability", _CALM),
    ("board_limit", _HELD),
    ("sw_thermal_slowdown", _HELD),
    ("hw_slowdown", _HOT),
    ("hw_power_brake", _HOT),
    ("hw_thermal_slowdown", _HOT),
)
"""Reasons from harmless to grave (chosen): of several at once the last is shown. A power cap is what most
GPUs run into when they work hard."""

XID_CLASSES: tuple[tuple[str, Colour], ...] = (
    ("info", _CALM),
    ("app", _CALM),
    ("warn", _HELD),
    ("by_subcode", _HELD),
    ("fatal", _HOT),
)
FABRIC_STATES: tuple[tuple[str, Colour], ...] = (
    ("not_supported", _CALM),
    ("completed", palette.OK),
    ("in_progress", palette.UNKNOWN),
    ("not_started", palette.FAILED),
)
RECOVERY_ACTIONS: tuple[tuple[str, Colour], ...] = (
    ("none", palette.OK),
    ("drain_p2p", _HELD),
    ("drain_and_reset", _HELD),
    ("gpu_reset", _HOT),
    ("bus_reset", _HOT),
    ("recover_imex_domain", _HOT),
    ("node_reboot", _HOT),
    ("system_reboot", _HOT),
)
"""Words of each state metric, from harmless to grave, with their colours."""

NOTHING = "none"


def _numbered(parts: Mapping[int, str], nothing: str = "") -> str:
    """Take the highest code of what holds; `nothing` is a selector of what gives 0 where none does."""
    coded = [f"({selector}) * {code}" for code, selector in parts.items()]
    return f"max by ({_KEYS}) ({' or '.join([*coded, *([f'{nothing} * 0'] if nothing else [])])})"


def _codes(words: tuple[tuple[str, Colour], ...], first: int) -> tuple[ValueText, ...]:
    return tuple(
        ValueText(str(code), word.replace("_", " "), colour)
        for code, (word, colour) in enumerate(words, first)
    )


def _timeline(
    key: str,
    title: str,
    description: str,
    expression: str,
    mappings: tuple[ValueText, ...],
    *leads: DataLink,
) -> StateTimeline:
    return StateTimeline(
        key=key,
        title=title,
        description=description,
        width=12,
        height=7,
        targets=(Target(expr=expression, legend=GPU_LEGEND),),
        fields=FieldOptions(unit=units.NONE, mappings=mappings, links=leads or (links.to_gpu(),)),
    )


def clock_events(scope: Scope) -> StateTimeline:
    """Draw the gravest reason for which clocks are held down."""
    name = "gpu_clock_event_active"
    parts = {
        code: scope.series(name, reason=reason) for code, (reason, _) in enumerate(CLOCK_EVENTS, start=1)
    }
    return _timeline(
        "clock-events",
        "Clock events: the gravest reason",
        queries.describe(name, note="Nothing is drawn where the GPU says nothing."),
        _numbered(parts),
        (ValueText("0", NOTHING), *_codes(CLOCK_EVENTS, 1)),
    )


def xids(scope: Scope, recordings: Recordings) -> StateTimeline:
    """Draw the gravest class of Xids."""
    name = "rack_node_gpu_class:xids:increase10m"
    parts = {
        code: f"{recordings.selector(name, **{'class': word})} > bool 0"
        for code, (word, _) in enumerate(XID_CLASSES, start=1)
    }
    return _timeline(
        "xid-classes",
        "Xids: the gravest class within 10 minutes",
        describe(name, note="None while the GPU answers and no Xid came."),
        _numbered(parts, scope.series("gpu_up")),
        (ValueText("0", NOTHING), *_codes(XID_CLASSES, 1)),
    )


def fabric(scope: Scope) -> StateTimeline:
    """Draw the state of each GPU's registration with the fabric."""
    return _one_hot(
        scope,
        "gpu_fabric_state",
        "state",
        FABRIC_STATES,
        "fabric-state",
        "Registration with the NVLink fabric",
        links.to_node(BoardId.NVLINK),
    )


def recovery(scope: Scope) -> StateTimeline:
    """Draw what the driver asks for."""
    return _one_hot(
        scope,
        "gpu_recovery_action",
        "action",
        RECOVERY_ACTIONS,
        "recovery-action",
        "What the driver asks for",
    )


def _one_hot(
    scope: Scope,
    name: str,
    label: str,
    words: tuple[tuple[str, Colour], ...],
    key: str,
    title: str,
    *leads: DataLink,
) -> StateTimeline:
    states = tuple(word for word, _ in words)
    return _timeline(
        key,
        title,
        queries.describe(name),
        scope.coded_state(name, states, label=label),
        _codes(words, 0),
        *leads,
    )

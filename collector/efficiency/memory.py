"""What an account of energy and tokens remembers over a restart, read with care."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

from collector.catalog.engines import MAXIMUM_MODELS, ROLES
from collector.efficiency.tokens import Endpoint
from collector.health.ledger_account import storable

_MAXIMUM_TEXT = 256


@dataclass(slots=True)
class Remembered:
    """What is remembered.

    Attributes:
        endpoints: Serving endpoints by node and name.
        sockets: CPU sockets by node.
        models: Models that are summed under their own name.
    """

    endpoints: dict[str, Mapping[str, Endpoint]] = field(default_factory=dict)
    sockets: dict[str, Iterable[str]] = field(default_factory=dict)
    models: tuple[str, ...] = ()

    def export(self) -> dict[str, object]:
        """Return it as JSON can hold it."""
        return {
            "endpoints": {
                node: {
                    _text(name): {"engine": _text(own.engine), "role": own.role}
                    for name, own in sorted(endpoints.items())
                }
                for node, endpoints in self.endpoints.items()
                if endpoints
            },
            "sockets": {
                node: sorted(map(_text, sockets)) for node, sockets in self.sockets.items() if sockets
            },
            "models": list(self.models),
        }


def remember(memory: Mapping[str, object]) -> Remembered:
    """Read what was exported; what cannot be read is not remembered."""
    return Remembered(
        endpoints={
            node: endpoints
            for node, value in _mapping(memory.get("endpoints")).items()
            if (endpoints := _endpoints(value))
        },
        sockets={
            node: sockets
            for node, value in _mapping(memory.get("sockets")).items()
            if (sockets := _texts(value))
        },
        models=tuple(dict.fromkeys(map(_text, _texts(memory.get("models")))))[:MAXIMUM_MODELS],
    )


def _endpoints(value: object) -> dict[str, Endpoint]:
    found = {}
    for name, own in _mapping(value).items():
        texts = _mapping(own)
        engine, role = texts.get("engine"), texts.get("role")
        if isinstance(engine, str) and isinstance(role, str) and role in ROLES:
            found[name] = Endpoint(engine, role)
    return found


def _mapping(value: object) -> dict[str, object]:
    if not isinstance(value, dict):
        return {}
    return {key: own for key, own in value.items() if isinstance(key, str)}


def _texts(value: object) -> tuple[str, ...]:
    return tuple(own for own in value if isinstance(own, str)) if isinstance(value, list) else ()


def _text(value: str) -> str:
    return storable(value, _MAXIMUM_TEXT)

"""Serving engines as the catalogue knows them: their names, and when they count what they made."""

from __future__ import annotations

import enum
from dataclasses import dataclass

UNKNOWN_ENGINE = "unknown"
"""Value of the label `engine` until an endpoint that is to be recognized was."""

OTHER_MODEL = "other"
"""Value of the label `model` under which the models beyond the bound are summed (CONTRACTS §8)."""

MAXIMUM_MODELS = 100
"""Models of one endpoint that have series of their own (CONTRACTS §8)."""


class Role(enum.Enum):
    """Which side of a request an endpoint counts; tokens of one role only are ever summed."""

    ENGINE = "engine"
    ROUTER = "router"


@dataclass(frozen=True, slots=True, kw_only=True)
class Engine:
    """A serving engine.

    Attributes:
        name: Value of the label `engine`, and of `engine:` in the configuration.
        title: Name for people.
        role: What its endpoints are unless the configuration says otherwise.
        counts_at_finish: Whether generated tokens are counted when a request ends and not as they are made,
            so that a rate needs a window as long as most requests last.
    """

    name: str
    title: str
    role: Role
    counts_at_finish: bool


# When tokens are counted: facts on serving engines, §1, read from the published wheels of each.
ENGINES = (
    Engine(name="vllm", title="vLLM", role=Role.ENGINE, counts_at_finish=False),
    Engine(name="sglang", title="SGLang", role=Role.ENGINE, counts_at_finish=True),
    Engine(name="tensorrt_llm", title="TensorRT-LLM", role=Role.ENGINE, counts_at_finish=True),
    Engine(name="dynamo", title="NVIDIA Dynamo frontend", role=Role.ROUTER, counts_at_finish=False),
    Engine(name="llama_cpp", title="llama.cpp", role=Role.ENGINE, counts_at_finish=False),
)

ENGINE_NAMES = tuple(engine.name for engine in ENGINES)
ROLES = tuple(role.value for role in Role)

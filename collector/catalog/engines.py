"""Serving engines as the catalogue knows them."""

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
    """

    name: str
    title: str
    role: Role


ENGINES = (
    Engine(name="vllm", title="vLLM", role=Role.ENGINE),
    Engine(name="sglang", title="SGLang", role=Role.ENGINE),
    Engine(name="tensorrt_llm", title="TensorRT-LLM", role=Role.ENGINE),
    Engine(name="dynamo", title="NVIDIA Dynamo frontend", role=Role.ROUTER),
    Engine(name="llama_cpp", title="llama.cpp", role=Role.ENGINE),
)

ENGINE_NAMES = tuple(engine.name for engine in ENGINES)
ROLES = tuple(role.value for role in Role)

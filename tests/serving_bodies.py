"""Answers of serving engines for tests: the fixtures, and small ones made of lines."""

from __future__ import annotations

from pathlib import Path

from collector.catalog.engines import Role
from collector.sources.serving.endpoint import EndpointReading, ModelReading, ServingEndpoint
from collector.sources.serving.normalize import Normalizer

FIXTURES = Path(__file__).parent / "serving_fixtures"
NAMES = sorted(path.stem for path in FIXTURES.glob("*.prom"))


def fixture(name: str) -> bytes:
    return (FIXTURES / f"{name}.prom").read_bytes()


def normalizer(engine: str | None = None, role: Role | None = None) -> Normalizer:
    return Normalizer(ServingEndpoint(name="e0", url="http://127.0.0.1:1/metrics", engine=engine, role=role))


def only_model(reading: EndpointReading) -> ModelReading:
    (model,) = reading.models
    return model


def tokens(generation: dict[str, object], model: str = "m") -> bytes:
    """An answer of vLLM: generated tokens by data-parallel rank."""
    lines = [
        f'vllm:generation_tokens_total{{engine="{rank}",model_name="{model}"}} {count}'
        for rank, count in generation.items()
    ]
    return "\n".join(["# TYPE vllm:generation_tokens_total counter", *lines, ""]).encode()


def generated(reading: EndpointReading, model: str = "m") -> float | None:
    """Return a model's generated tokens; None where they are absent."""
    return {each.model: each.values.get(("llm_tokens_total", "generation")) for each in reading.models}.get(
        model
    )


def histogram(name: str, rank: str, buckets: dict[str, object], count: object, total: object) -> bytes:
    """A histogram of one data-parallel rank of vLLM."""
    labels = f'engine="{rank}",model_name="m"'
    lines = [f'{name}_bucket{{{labels},le="{bound}"}} {value}' for bound, value in buckets.items()]
    return "\n".join(
        [*lines, f"{name}_count{{{labels}}} {count}", f"{name}_sum{{{labels}}} {total}", ""]
    ).encode()

"""Who imports the REST interface, and whether the real rack service fits it."""

from __future__ import annotations

import subprocess
import sys

import pytest

from collector.rack.service import RackService
from exporters.rest.protocol import RackAnswers
from tests.rest_double import ServiceDouble

HEAVY = ("fastapi", "pydantic", "starlette", "uvicorn", "exporters.rest")


@pytest.mark.parametrize("start", ["collector.cli.compose", "collector.cli.agent", "collector.cli.reader"])
def test_an_agent_does_not_load_what_serves_a_rack(start: str) -> None:
    code = f"import sys, {start}; print(*sorted({set(HEAVY)!r} & set(sys.modules)))"
    loaded = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, timeout=60, check=True
    )
    assert loaded.stdout.split() == []


def as_answers(service: RackService | ServiceDouble) -> RackAnswers:
    """Compile only while both fit: mypy compares every method."""
    return service


def test_the_rack_service_answers_what_is_asked() -> None:
    asked = {name for name in dir(RackAnswers) if not name.startswith("_")}
    assert {name for name in asked if not hasattr(RackService, name)} == set()
    assert as_answers(ServiceDouble()).generation == 42

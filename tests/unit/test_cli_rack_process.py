"""What a rack service asks of its process."""

from __future__ import annotations

import asyncio
import gc
import logging
import resource
from collections.abc import Iterator

import pytest

from collector.cli import rack_process
from collector.cli.rack_process import allow_open_files, spare_what_lasts
from tests.agent_http_client import run

INFINITE = resource.RLIM_INFINITY


@pytest.fixture
def limits(monkeypatch: pytest.MonkeyPatch) -> list[tuple[int, int]]:
    """The process's limits, newest last."""
    held = [(1024, 524_288)]
    monkeypatch.setattr(resource, "getrlimit", lambda _: held[-1])
    monkeypatch.setattr(resource, "setrlimit", lambda _, new: held.append(new))
    return held


@pytest.mark.parametrize(
    ("agents", "before", "after"),
    [
        (18, (1024, 524_288), (1060, 524_288)),  # two an agent, and 1024
        (1000, (1024, 524_288), (3024, 524_288)),
        (1000, (1024, INFINITE), (3024, INFINITE)),
        (1000, (3024, 524_288), (3024, 524_288)),
        (1000, (INFINITE, INFINITE), (INFINITE, INFINITE)),
        (1000, (1024, 2048), (2048, 2048)),
    ],
)
def test_it_may_open_as_many_files_as_it_needs(
    limits: list[tuple[int, int]], agents: int, before: tuple[int, int], after: tuple[int, int]
) -> None:
    limits[:] = [before]
    allow_open_files(agents)
    assert limits[-1] == after


def test_a_limit_that_is_too_low_is_said(
    limits: list[tuple[int, int]], caplog: pytest.LogCaptureFixture
) -> None:
    limits[:] = [(1024, 2048)]
    with caplog.at_level(logging.WARNING, logger="rackwatt.rack"):
        allow_open_files(1000)
    assert "3024 open files, and 2048 are allowed" in caplog.text


@pytest.fixture
def frozen() -> Iterator[None]:
    gc.unfreeze()
    yield
    gc.unfreeze()


@pytest.mark.usefixtures("frozen")
def test_what_lasts_is_spared_once_everything_is_known(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(rack_process, "_LOOK_SECONDS", 0.001)
    missing = ["agents"]

    async def scenario() -> None:
        sparing = asyncio.create_task(spare_what_lasts(lambda: missing[0]))
        await asyncio.sleep(0.01)
        assert not sparing.done()
        assert gc.get_freeze_count() == 0
        missing[0] = ""
        await sparing
        assert gc.get_freeze_count() > 1000

    run(scenario)

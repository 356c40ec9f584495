"""What end-to-end tests share: the NVML double, and the hours of the dashboards, each made once."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.abi.double import build
from tests.history.hours import Hour
from tests.history.hours import hours as made_hours


@pytest.fixture(scope="session")
def double(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The NVML double, alone in a folder for LD_LIBRARY_PATH; needs gcc."""
    return build.build(tmp_path_factory.mktemp("double"))


@pytest.fixture(scope="session")
def hours(tmp_path_factory: pytest.TempPathFactory) -> Iterator[dict[str, Hour]]:
    """A normal hour and one with the demo's faults, each in a Prometheus; needs prometheus and promtool."""
    with made_hours(tmp_path_factory.mktemp("hours")) as made:
        yield made

"""What end-to-end tests share: the NVML double, built once."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.abi.double import build


@pytest.fixture(scope="session")
def double(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The NVML double, alone in a folder for LD_LIBRARY_PATH; needs gcc."""
    return build.build(tmp_path_factory.mktemp("double"))

"""What fault tests share."""

from __future__ import annotations

import pytest


@pytest.fixture
def _short_pauses(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let a ReaderProcess start readers anew at once, and give them little time to end by themselves."""
    monkeypatch.setattr("collector.sources.process._BACKOFF_SECONDS", (0.01,))
    monkeypatch.setattr("collector.sources.process._GRACE_SECONDS", 0.2)

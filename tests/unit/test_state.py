"""The agent's state: kept whole or not at all, and never a reason not to run."""

from __future__ import annotations

import logging
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from collector.readings import GpuIdentity
from collector.state import AgentState, StateStore

STATE = AgentState(
    rack="r01",
    node="n03",
    gpus=(GpuIdentity(uuid="GPU-aaaa", index=0, present=True, texts={"serial": "1652425000001"}),),
)


def files(folder: Path) -> list[str]:
    return sorted(entry.name for entry in folder.iterdir())


def test_what_is_saved_is_there_after_a_restart(tmp_path: Path) -> None:
    StateStore(tmp_path / "made" / "when needed").save(STATE)
    assert StateStore(tmp_path / "made" / "when needed").state == STATE


def test_nothing_was_kept_yet(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    assert StateStore(tmp_path).state == AgentState()
    assert not caplog.records


def test_without_a_folder_it_lives_as_long_as_the_process() -> None:
    store = StateStore(None)
    store.save(STATE)
    assert store.state == STATE
    assert StateStore(None).state == AgentState()


def test_only_a_change_is_written(tmp_path: Path) -> None:
    store = StateStore(tmp_path)
    store.save(STATE)
    (tmp_path / "agent.json").unlink()
    store.save(STATE)
    assert files(tmp_path) == []


def test_a_write_that_fails_half_way_leaves_the_old_file(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    store = StateStore(tmp_path)
    store.save(STATE)

    def full(_descriptor: int) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr("collector.state.os.fsync", full)
    store.save(AgentState(rack="r02"))
    assert "No space left on device" in caplog.text
    assert store.state == AgentState(rack="r02")
    assert files(tmp_path) == ["agent.json"]
    assert StateStore(tmp_path).state == STATE


def test_a_damaged_file_is_set_aside_and_said(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    file = tmp_path / "agent.json"
    file.write_bytes(b'{"rack": "r01", "node": ')
    store = StateStore(tmp_path)
    assert store.state == AgentState()
    (record,) = caplog.records
    assert record.levelno == logging.WARNING
    assert f"{file} is damaged" in record.getMessage()
    assert f"set aside as {tmp_path / 'agent.damaged'}" in record.getMessage()
    store.save(STATE)
    assert files(tmp_path) == ["agent.damaged", "agent.json"]
    assert (tmp_path / "agent.damaged").read_bytes() == b'{"rack": "r01", "node": '
    assert StateStore(tmp_path).state == STATE


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(st.binary() | st.sampled_from([b'{"x":' + b"[" * 100_000, b'{"rack": "\xff"}', b'{"gpus": 1}']))
def test_no_content_of_the_file_keeps_an_agent_from_starting(tmp_path: Path, content: bytes) -> None:
    (tmp_path / "agent.json").write_bytes(content)
    assert StateStore(tmp_path).state == AgentState()


def test_a_file_that_cannot_be_read_stays_where_it_is(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    (tmp_path / "agent.json").mkdir()  # root can read every file, but no folder as a file
    assert StateStore(tmp_path).state == AgentState()
    assert "cannot be read and is begun anew" in caplog.text
    assert files(tmp_path) == ["agent.json"]


def test_a_folder_that_cannot_be_written_costs_a_warning(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    (tmp_path / "file").touch()
    store = StateStore(tmp_path / "file" / "state")
    caplog.clear()
    store.save(STATE)
    store.save(STATE)
    (record,) = caplog.records
    assert record.levelno == logging.WARNING
    assert f"the state cannot be kept in {tmp_path / 'file' / 'state'}" in record.getMessage()
    assert store.state == STATE

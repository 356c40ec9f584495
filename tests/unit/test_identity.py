"""Names of the node: who goes before whom (CONTRACTS §6), and what a name may be."""

from __future__ import annotations

import re
from importlib.metadata import version
from pathlib import Path
from typing import Final

import pytest
from hypothesis import given
from hypothesis import strategies as st

from collector import identity
from collector.identity import Names, describe_host, settle_names
from collector.state import AgentState

EVERYTHING: Final[dict[str, object]] = {
    "rack": "configured-rack",
    "node": "configured-node",
    "state": AgentState(rack="kept-rack", node="kept-node"),
    "chassis_serial": "1820000000001",
    "hostname": "host.example",
}


def settle(**without: object) -> Names:
    """Settle with everything known, apart from what is given."""
    return settle_names(**{**EVERYTHING, **without})  # type: ignore[arg-type]  # a table of arguments


UNCONFIGURED: Final[dict[str, object]] = {"rack": None, "node": None}


@pytest.mark.parametrize(
    ("without", "rack", "node"),
    [
        ({}, "configured-rack", "configured-node"),
        (UNCONFIGURED, "kept-rack", "kept-node"),
        (UNCONFIGURED | {"state": AgentState()}, "1820000000001", "host.example"),
        (
            UNCONFIGURED | {"state": AgentState(), "chassis_serial": "", "hostname": ""},
            "unassigned",
            "unassigned",
        ),
    ],
    ids=["configuration", "kept", "hardware", "nothing"],
)
def test_who_goes_before_whom(without: dict[str, object], rack: str, node: str) -> None:
    assert settle(**without) == Names(rack, node)


def test_what_others_chose_is_made_to_fit() -> None:
    names = settle(**UNCONFIGURED | {"state": AgentState(), "chassis_serial": " 18/2 0 ", "hostname": "ä"})
    assert names == Names("18-2-0", "unassigned")


@given(serial=st.text(), hostname=st.text())
def test_names_are_always_names(serial: str, hostname: str) -> None:
    names = settle(**UNCONFIGURED | {"state": AgentState(), "chassis_serial": serial, "hostname": hostname})
    for name in (names.rack, names.node):
        assert re.fullmatch(r"[A-Za-z0-9._-]{1,64}", name)


def test_the_host_describes_itself() -> None:
    host = describe_host()
    assert host.hostname
    assert host.kernel
    assert host.agent_version == version("rackwatt")
    assert not host.simulated
    assert describe_host(simulated=True).simulated
    assert host.agent_id != describe_host().agent_id


def test_a_kernel_without_a_boot_id_is_borne(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(identity, "_BOOT_ID", tmp_path / "missing")
    assert describe_host().boot_id == ""

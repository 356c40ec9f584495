"""deploy/systemd: systemd takes the units without complaint, and finds them as closed as they are meant."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from tests.packaging.repository import ROOT

UNITS = sorted((ROOT / "deploy" / "systemd").glob("*.service"))
INSTALLED = "/opt/rackwatt/bin/rackwatt"

# Exposure by systemd 252's own measure, times ten; a unit without any of this has 92.
# Measured: 20 and 12. The agent needs GPUs, the kernel log and the whole of /proc.
EXPOSURE = {"rackwatt-agent": 21, "rackwatt-rack": 13}

each_unit = pytest.mark.parametrize("unit", UNITS, ids=lambda unit: unit.stem)


def settings(unit: Path) -> dict[str, list[str]]:
    found: dict[str, list[str]] = {}
    for line in unit.read_text(encoding="utf-8").splitlines():
        if "=" in line and not line.startswith("#"):
            name, _, value = line.partition("=")
            found.setdefault(name, []).append(value)
    return found


def analyze(*words: str) -> tuple[int, str]:
    result = subprocess.run(
        ["systemd-analyze", *words], capture_output=True, text=True, timeout=60, check=False
    )
    return result.returncode, result.stdout + result.stderr


def as_if_installed(unit: Path, folder: Path) -> Path:
    """Let it start this environment's program, since systemd looks whether there is one."""
    copy = folder / unit.name
    program = Path(sys.executable).with_name("rackwatt")
    copy.write_text(unit.read_text(encoding="utf-8").replace(INSTALLED, str(program)), encoding="utf-8")
    return copy


def test_there_is_a_unit_for_each_daemon() -> None:
    assert {unit.stem for unit in UNITS} == set(EXPOSURE)


@each_unit
@pytest.mark.needs_program("systemd-analyze")
def test_systemd_takes_it(unit: Path, tmp_path: Path) -> None:
    assert analyze("verify", "--man=no", str(as_if_installed(unit, tmp_path))) == (0, "")


@pytest.mark.needs_program("systemd-analyze")
def test_systemd_would_complain(tmp_path: Path) -> None:
    wrong = tmp_path / "wrong.service"
    wrong.write_text("[Service]\nExecStart=/bin/true\nProtectSistem=strict\n", encoding="utf-8")
    _, output = analyze("verify", "--man=no", str(wrong))
    assert "ProtectSistem" in output


@each_unit
@pytest.mark.needs_program("systemd-analyze")
def test_it_is_closed(unit: Path, tmp_path: Path) -> None:
    path = str(as_if_installed(unit, tmp_path))
    status, output = analyze(
        "security", "--offline=true", "--no-pager", f"--threshold={EXPOSURE[unit.stem]}", path
    )
    assert status == 0, output


@each_unit
def test_it_runs_as_a_user_and_is_not_restarted_over_a_mistake(unit: Path) -> None:
    found = settings(unit)
    assert found["User"] == ["rackwatt"]
    assert found["ExecStart"] == [f"{INSTALLED} {unit.stem.removeprefix('rackwatt-')} --log-format json"]
    assert found["NoNewPrivileges"] == ["yes"]
    assert found["RestartPreventExitStatus"] == ["2"]  # ConfigurationError


def test_the_agent_can_see_its_gpus() -> None:
    (unit,) = (unit for unit in UNITS if unit.stem == "rackwatt-agent")
    found = settings(unit)
    # PrivateDevices hides the GPUs, ProtectKernelLogs the Xids; an allow-list must name both
    # (systemd.exec(5), systemd.resource-control(5)).
    assert not {"PrivateDevices", "ProtectKernelLogs", "PrivateUsers", "ProtectProc"} & set(found)
    assert found["DeviceAllow"] == ["char-nvidia* rw", "/dev/kmsg r"]
    assert found["CapabilityBoundingSet"] == found["AmbientCapabilities"] == ["CAP_SYSLOG"]
    assert found["KillMode"] == ["mixed"]

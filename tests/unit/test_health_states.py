"""State of a GPU or node from its checks: the table of CONTRACTS §3."""

from __future__ import annotations

import pytest

from collector.health.states import GpuState, state_of_checks
from collector.model import CheckResult


def result(impact: str, *, failed: bool) -> CheckResult:
    return CheckResult(
        check="c",
        impact=impact,
        failed=failed,
        gpu_uuid="GPU-1",
        gpu="0",
        metric="gpu_up",
        value=None,
        threshold=None,
        since_ns=1,
        reason="r",
        action="a",
    )


FAILED = {name: result(name, failed=True) for name in ("info", "warn", "avoid", "fail", "newer")}
UNKNOWN = {name: result(name, failed=False) for name in ("info", "warn", "avoid", "fail", "newer")}


@pytest.mark.parametrize(
    ("checks", "state"),
    [
        ([], GpuState.OK),
        ([FAILED["info"]], GpuState.OK),
        ([FAILED["warn"]], GpuState.DEGRADED),
        ([FAILED["avoid"]], GpuState.DEGRADED),
        ([FAILED["fail"]], GpuState.FAILED),
        ([FAILED["newer"]], GpuState.DEGRADED),
        ([UNKNOWN["info"]], GpuState.OK),
        ([UNKNOWN["warn"]], GpuState.DEGRADED),
        ([UNKNOWN["avoid"]], GpuState.UNKNOWN),
        ([UNKNOWN["fail"]], GpuState.UNKNOWN),
        ([UNKNOWN["newer"]], GpuState.UNKNOWN),
        ([UNKNOWN["fail"], FAILED["warn"]], GpuState.UNKNOWN),
        ([UNKNOWN["avoid"], FAILED["fail"]], GpuState.FAILED),
    ],
)
def test_state(checks: list[CheckResult], state: GpuState) -> None:
    assert state_of_checks(checks) is state

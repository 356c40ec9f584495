"""How the checks of Xids judge. Application Xids never change a state by themselves; repetition does."""

from __future__ import annotations

from collections.abc import Mapping

from collector.health.check_spec import PASSED, Finding, GpuEvidence, GpuJudge, NodeEvidence, Rule, Status
from collector.health.xid_memory import SeenXid
from collector.health.xids import Xid


def _fatal(rule: Rule, gpu: GpuEvidence, node: NodeEvidence) -> Finding:
    xid = gpu.xids.fatal
    if xid is None:
        return PASSED
    row = node.catalogue.find(xid.code)
    return Finding(
        Status.FAILED,
        value=xid.code,
        reason=describe(xid, row),
        action=row.action,
        since_ns=gpu.xids.fatal_since_ns,
    )


def describe(xid: SeenXid, row: Xid) -> str:
    """Describe an Xid: number, meaning, and where the kernel log told them, sub-code and link."""
    subcode = f" {xid.subcode}" if xid.subcode else ""
    link = f" on link {xid.link}" if xid.link is not None else ""
    return f"Xid {xid.code}{subcode}{link}: {row.name}"


def _repeated(rule: Rule, gpu: GpuEvidence, node: NodeEvidence) -> Finding:
    for code in gpu.xids.codes():
        row = node.catalogue.find(code)
        needed = rule.threshold if row.repeat is None else row.repeat
        severity = gpu.xids.severity_of(code)
        if severity == "info" or needed == 0:
            continue
        times = gpu.xids.times(code, node.now_ns)
        if times < needed or (severity == "app" and _on_others(code, gpu, node)):
            continue
        alone = " on this GPU alone" if severity == "app" else ""
        return Finding(
            Status.FAILED,
            value=times,
            threshold=needed,
            reason=f"Xid {code} ({row.name}) came {times} times within 24 hours{alone}",
        )
    return PASSED


def _on_others(code: int, gpu: GpuEvidence, node: NodeEvidence) -> bool:
    """Tell whether another GPU had the Xid too, so that a program rather than the GPU is at fault."""
    return any(other.xids.times(code, node.now_ns) for other in node.gpus if other is not gpu)


XID_JUDGES: Mapping[str, GpuJudge] = {"gpu_xid_fatal": _fatal, "gpu_xid_repeated": _repeated}
"""How each check of Xids judges."""

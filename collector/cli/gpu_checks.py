"""Checks of what NVML shows: the GPUs, their links, and what this user may read."""

from __future__ import annotations

from collector.cli.facts import Facts
from collector.cli.findings import Finding, Mark, count
from collector.readings import GpuIdentity

_SEE_DMESG = "see `dmesg` for errors of the driver"
_NVML_DOWN = Finding(Mark.SKIP, "not checked, because NVML does not answer")

_NVML_REASONS = {
    "driver_not_loaded": (
        "NVML finds no loaded kernel driver",
        "load it with `modprobe nvidia`; see the line on the kernel driver",
    ),
    "version_mismatch": (
        "the NVML library and the running kernel driver have different versions, as after a driver upgrade",
        "end all GPU processes and reload the driver (`rmmod`, `modprobe nvidia`), or reboot",
    ),
    "library_too_old": (
        "libnvidia-ml.so.1 is there but is no usable NVML library",
        "install a driver of branch 570 or later",
    ),
    "no_answer": ("", "look for Xid 119 or a hung task in `dmesg`; a GPU reset or a reboot clears it"),
}
"""Finding (empty for the words of NVML's error) and action, by `NvmlUnavailableError.reason`."""


def nvml(facts: Facts) -> Finding:
    """NVML initializes and answers."""
    reason, layout = facts.nvml.reason, facts.nvml.layout
    if reason == "library_not_found":
        return Finding(Mark.SKIP, "not checked, because its library is not found")
    if reason == "no_permission" or (reason and facts.driver.closed_devices):
        closed = ", ".join(facts.driver.closed_devices) or "the NVIDIA device files"
        return Finding(
            Mark.FAIL,
            f"this user may not open {closed}",
            "run as a user that may read and write them, by their group or mode 0666; in a container, pass"
            " them in",
        )
    if reason:
        text, action = _NVML_REASONS.get(reason, ("", _SEE_DMESG))
        return Finding(Mark.FAIL, text or facts.nvml.message, action)
    if layout is None:
        return Finding(Mark.FAIL, "NVML answers but says nothing of GPUs", _SEE_DMESG)
    driver, cuda = layout.driver_version or "unknown", layout.cuda_version or "unknown"
    return Finding(Mark.OK, f"NVML answers (driver {driver}, CUDA {cuda})")


def gpus(facts: Facts) -> Finding:
    """As many GPUs answer as the platform has."""
    layout = facts.nvml.layout
    if layout is None:
        return _NVML_DOWN
    present = [gpu for gpu in layout.gpus if gpu.present]
    if not present:
        return Finding(
            Mark.FAIL,
            "NVML lists no GPU",
            "in a container, pass GPUs in (`--gpus all`); on the host, see `nvidia-smi` and `dmesg`",
        )
    products = ", ".join(sorted({gpu.texts.get("name", "") or "unknown product" for gpu in present}))
    found = f"{count(len(present), 'GPU')} ({products})"
    if layout.gpus_expected is None:
        return Finding(
            Mark.WARN,
            f"{found}; no platform profile has this product, so how many there should be is not known",
            "name the platform in the configuration (`platform:`), if there is one that fits",
        )
    if len(present) < layout.gpus_expected:
        return Finding(
            Mark.FAIL,
            f"{found}, but a node of {layout.platform} has {layout.gpus_expected}",
            "look for Xid 79 (GPU off the bus) in `dmesg`; in a container, pass all GPUs in (`--gpus all`)",
        )
    return Finding(Mark.OK, f"{found}, as a node of {layout.platform} has")


def nvlink(facts: Facts) -> Finding:
    """Every NVLink is up."""
    layout = facts.nvml.layout
    if layout is None:
        return _NVML_DOWN
    known: list[tuple[int, int, int]] = []
    for gpu in layout.gpus:
        up, expected = _of_gpu(facts, "gpu_nvlinks_up", gpu), _of_gpu(facts, "gpu_nvlinks_expected", gpu)
        if gpu.present and up is not None and expected:
            known.append((gpu.index, up, expected))
    if not known:
        return Finding(Mark.OK, "these GPUs have no NVLink, or do not show it")
    down = [f"GPU {index}: {up} of {expected} up" for index, up, expected in known if up < expected]
    if down:
        return Finding(
            Mark.WARN,
            f"NVLinks are down ({'; '.join(down)})",
            "see `nvidia-smi nvlink --status`; on HGX, see whether Fabric Manager runs; on NVL72, the switch"
            " trays",
        )
    total = sum(expected for _, _, expected in known)
    return Finding(Mark.OK, f"all {count(total, 'NVLink')} of {count(len(known), 'GPU')} are up")


_FABRIC_ACTIONS = {
    "not_started": "start Fabric Manager on HGX (`systemctl start nvidia-fabricmanager`), the control plane"
    " of the fabric (NMX-C) on NVL72",
    "in_progress": "wait five minutes; if it stays, see the log of Fabric Manager (HGX) or NMX-C (NVL72)",
}
"""What to do in a state of the fabric that is not the last, by `gpu_fabric_state{state}`."""


def fabric(facts: Facts) -> Finding:
    """Every GPU is registered with its NVLink fabric, where it has one."""
    if facts.nvml.layout is None:
        return _NVML_DOWN
    faults = _labels_at_one(facts, "gpu_fabric_condition")
    if faults:
        return Finding(
            Mark.FAIL,
            f"the NVLink fabric reports {', '.join(faults)}",
            "see `nvidia-smi -q` (Fabric), and the log of Fabric Manager (HGX) or NMX-C (NVL72)",
        )
    states = _labels_at_one(facts, "gpu_fabric_state")
    for state, action in _FABRIC_ACTIONS.items():
        if state in states:
            return Finding(Mark.WARN, f"the NVLink fabric of a GPU is in the state {state}", action)
    if "completed" in states:
        return Finding(Mark.OK, "the GPUs are registered with the NVLink fabric")
    return Finding(Mark.OK, "no NVLink fabric is supported here")


def activity(facts: Facts) -> Finding:
    """Activity counters can be read; they need more rights on some drivers."""
    if facts.nvml.layout is None:
        return _NVML_DOWN
    if any(name == "gpu_sm_active_ratio" for name, _ in facts.nvml.values):
        return Finding(Mark.OK, "activity of SMs, tensor cores and memory can be read")
    if facts.is_root:
        return Finding(Mark.OK, "these GPUs do not tell their activity, as before Hopper or under MIG")
    # NVIDIA, "ERR_NVGPUCTRPERM: Permission issue with Performance Counters".
    return Finding(
        Mark.WARN,
        "activity of SMs, tensor cores and memory cannot be read; these values will be absent",
        "run the agent as root or with CAP_SYS_ADMIN (CAP_PERFMON from driver 565 on), or open it to all"
        " users with the driver option NVreg_RestrictProfilingToAdminUsers=0",
    )


def permissions(facts: Facts) -> Finding:
    """Nothing that is read was refused to this user."""
    if facts.nvml.layout is None:
        return _NVML_DOWN
    refused = facts.nvml.errors.get("no_permission", 0)
    if not refused:
        return Finding(Mark.OK, "nothing that is read asks for more rights")
    return Finding(
        Mark.WARN,
        f"NVML refused {count(refused, 'value')} to this user; they will be absent",
        "run the agent as root to have them; all else is read without",
    )


def _of_gpu(facts: Facts, name: str, gpu: GpuIdentity) -> int | None:
    value = facts.nvml.values.get((name, (str(gpu.index), gpu.uuid)))
    return None if value is None else int(value)


def _labels_at_one(facts: Facts, name: str) -> list[str]:
    """List the values of a metric's own label for which some GPU's series is 1."""
    return sorted(
        {labels[-1] for (metric, labels), value in facts.nvml.values.items() if metric == name and value == 1}
    )

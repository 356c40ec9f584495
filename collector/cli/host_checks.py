"""Checks of what surrounds the agent: installation, configuration, driver, library, state, address."""

from __future__ import annotations

from collector.cli.facts import Facts
from collector.cli.findings import Finding, Mark, count

_NO_SETTINGS = Finding(Mark.SKIP, "not checked, because the configuration is wrong")


def installation(facts: Facts) -> Finding:
    """Nobody else's files stand among rackwatt's packages."""
    if facts.installation_error:
        return Finding(Mark.FAIL, facts.installation_error)
    return Finding(Mark.OK, "no other distribution owns rackwatt's packages")


def configuration(facts: Facts) -> Finding:
    """The configuration can be used."""
    settings = facts.settings
    if settings.mistakes:
        return Finding(Mark.FAIL, "\n".join(settings.mistakes), "correct the configuration and check again")
    if settings.origin == "defaults":
        return Finding(Mark.OK, "no file is given, so defaults apply")
    return Finding(Mark.OK, f"{settings.origin} is valid")


def gpus_on_bus(facts: Facts) -> Finding:
    """There is a GPU at all."""
    found = facts.driver.pci_gpus
    if found is None:
        return Finding(Mark.SKIP, "not checked, because the PCI bus cannot be read here")
    if found:
        return Finding(Mark.OK, f"{count(found, 'NVIDIA GPU')} on the PCI bus")
    if facts.gpus_answer:
        return Finding(Mark.OK, "none on the PCI bus, yet NVML shows GPUs, as where they are virtual")
    return Finding(
        Mark.FAIL,
        "no NVIDIA GPU is on the PCI bus of this machine",
        "check this on a GPU node; without one, `rackwatt demo` shows a simulated tray",
    )


def kernel_driver(facts: Facts) -> Finding:
    """The kernel driver is loaded."""
    driver = facts.driver
    if driver.kernel_version:
        return Finding(Mark.OK, f"the NVIDIA kernel driver {driver.kernel_version} is loaded")
    if facts.gpus_answer:
        return Finding(Mark.OK, "not visible here, yet NVML answers")
    if driver.pci_gpus == 0:
        return Finding(Mark.SKIP, "not loaded, and not needed without a GPU")
    where = " on the host, not in this container" if driver.container else ""
    return Finding(
        Mark.FAIL,
        "the NVIDIA kernel driver is not loaded",
        f"load it{where}: `modprobe nvidia`; if that fails, `dmesg` says why (driver not installed, module"
        " not signed for secure boot, built for another kernel)",
    )


def nvml_library(facts: Facts) -> Finding:
    """The loader finds NVML."""
    if facts.nvml.reason != "library_not_found":
        return Finding(Mark.OK, "the loader finds libnvidia-ml.so.1")
    if facts.driver.library_files:
        file = facts.driver.library_files[0]
        folder = file.rpartition("/")[0]
        return Finding(
            Mark.FAIL,
            f"the loader does not find libnvidia-ml.so.1, but {file} exists",
            f"name its folder to the loader: `echo {folder} > /etc/ld.so.conf.d/nvidia.conf && ldconfig`,"
            f" or start the agent with LD_LIBRARY_PATH={folder}",
        )
    if facts.driver.pci_gpus == 0:
        return Finding(Mark.SKIP, "libnvidia-ml.so.1 is not installed, and not needed without a GPU")
    return Finding(Mark.FAIL, "the loader does not find libnvidia-ml.so.1", _how_to_get_library(facts))


def _how_to_get_library(facts: Facts) -> str:
    driver = facts.driver
    if not driver.container:
        # Package names: packages.debian.org, packages.ubuntu.com, NVIDIA's repository for RHEL.
        return (
            "install the driver's libraries, of the kernel driver's version: Debian libnvidia-ml1,"
            " Ubuntu libnvidia-compute-BRANCH, RHEL nvidia-driver-cuda-libs"
        )
    if driver.capabilities is not None and not {"utility", "all"} & set(driver.capabilities.split(",")):
        # NVIDIA Container Toolkit, "Driver capabilities": utility brings nvidia-smi and NVML.
        return (
            f"NVIDIA_DRIVER_CAPABILITIES is {driver.capabilities!r} and lacks utility: start the container"
            " with NVIDIA_DRIVER_CAPABILITIES=utility"
        )
    return (
        "start the container with the NVIDIA container toolkit: `docker run --gpus all"
        " -e NVIDIA_DRIVER_CAPABILITIES=utility`, or runtimeClassName: nvidia in Kubernetes"
    )


def kernel_log(facts: Facts) -> Finding:
    """The kernel log can be read, which tells more of an Xid than NVML does."""
    error = facts.driver.kernel_log_error
    if not error:
        return Finding(Mark.OK, "Xids are read from the kernel log, too")
    reason, _, advice = error.rpartition("; ")
    return Finding(Mark.WARN, reason or error, advice if reason else "")


def state(facts: Facts) -> Finding:
    """The agent can keep its state."""
    places = facts.places
    if places is None:
        return _NO_SETTINGS
    if not places.state_dir:
        return Finding(Mark.FAIL, places.state_reason, "give `state_dir` in the configuration")
    if not places.state_writable:
        return Finding(
            Mark.FAIL,
            f"{places.state_dir} cannot be written by this user",
            f"create it for the agent's user, `install -d -o USER {places.state_dir}`, or give another"
            " `state_dir`",
        )
    return Finding(Mark.OK, f"state is kept in {places.state_dir} ({places.state_reason})")


def address(facts: Facts) -> Finding:
    """The agent can listen where it is to."""
    places = facts.places
    if places is None:
        return _NO_SETTINGS
    if places.agent_listens:
        return Finding(Mark.OK, f"a rackwatt agent already answers on {places.listen}")
    if places.listen_error:
        return Finding(
            Mark.FAIL,
            f"{places.listen} cannot be listened on: {places.listen_error}",
            "stop what uses it (`ss -ltnp` names it), or give another address: `listen:` or --listen",
        )
    return Finding(Mark.OK, f"{places.listen} is free")

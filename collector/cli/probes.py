"""Gathers the facts of this machine for `rackwatt check`: judges nothing, and changes nothing here."""

from __future__ import annotations

import http.client
import os
import socket
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from collector.cli.facts import ConfigurationFacts, DriverFacts, Facts, NvmlFacts, PlaceFacts
from collector.cli.influx_probes import influxdb_facts
from collector.cli.serving_probes import serving_facts
from collector.config import (
    AgentConfiguration,
    Listen,
    can_create_directory,
    choose_state_directory,
    load_agent,
    reachable_address,
)
from collector.errors import ConfigurationError, InstallationError, NvmlUnavailableError
from collector.model import Value
from collector.readings import Layout, Reading, SeriesKey

if TYPE_CHECKING:
    from collector.sources.nvml.library import NvmlLibrary

LIBRARY_NAME = "libnvidia-ml.so.1"

_LIBRARY_FOLDERS = (
    "/usr/lib/x86_64-linux-gnu",  # Debian, Ubuntu
    "/usr/lib/aarch64-linux-gnu",  # the same on Grace
    "/usr/lib/x86_64-linux-gnu/nvidia/current",  # Debian, before its alternatives link it
    "/usr/lib/aarch64-linux-gnu/nvidia/current",
    "/usr/lib64",  # RHEL, Fedora, SUSE
    "/usr/lib",  # Arch
    "/usr/local/nvidia/lib64",  # GKE's device plugin, in containers
    "/home/kubernetes/bin/nvidia/lib64",  # GKE's nodes (Container-Optimized OS)
    "/run/nvidia/driver/usr/lib/x86_64-linux-gnu",  # the GPU operator's driver container
    "/run/nvidia/driver/usr/lib/aarch64-linux-gnu",
    "/run/opengl-driver/lib",  # NixOS
    "/usr/lib/wsl/lib",  # Windows Subsystem for Linux
)
"""Where drivers and platforms put the library."""

_NVIDIA_VENDOR = "0x10de"
_DISPLAY_CLASS = "0x03"
"""PCI vendor of NVIDIA, and base class of display and 3D controllers (PCI Code and ID Assignment)."""

_NVML_SECONDS = 20.0
"""How long NVML may take. A healthy node answers within 2 s; a GPU that hangs blocks about 45 s a call."""

_BETWEEN_READINGS_SECONDS = 0.2
"""Time between the two samples that activity needs: more than 100 ms (nvml.h, nvmlGpmSampleGet)."""

_AGENT_SECONDS = 2.0
_AGENT_BYTES = 4 * 1024 * 1024
"""How long, and how much, a server on the agent's address may answer."""


def gather(config: str | None, environ: Mapping[str, str], root: Path = Path("/")) -> Facts:
    """Gather everything.

    Args:
        config: The configuration file that was named, or None.
        environ: The environment.
        root: Root of the file system that is looked at.

    Returns:
        The facts.
    """
    settings = configuration_facts(config, environ)
    configuration = settings.configuration
    return Facts(
        installation_error=installation_error(),
        settings=settings,
        driver=driver_facts(environ, root),
        nvml=within(_NVML_SECONDS, lambda: nvml_facts(configuration or AgentConfiguration())),
        places=place_facts(configuration, environ) if configuration else None,
        serving=serving_facts(configuration) if configuration else (),
        influxdb=influxdb_facts(configuration, environ) if configuration else None,
        is_root=os.geteuid() == 0,
    )


def installation_error() -> str:
    """Say why the installation is broken; empty if it is not."""
    from collector.startup import check_package_ownership

    try:
        check_package_ownership()
    except InstallationError as error:
        return str(error)
    return ""


def configuration_facts(config: str | None, environ: Mapping[str, str]) -> ConfigurationFacts:
    """Load the configuration as the agent would."""
    from collector import profiles

    try:
        loaded = load_agent(config, environ, profiles.names())
    except ConfigurationError as error:
        return ConfigurationFacts(mistakes=tuple(str(error).splitlines()))
    return ConfigurationFacts(configuration=loaded.configuration, origin=loaded.origin)


def may_open(file: Path) -> bool:
    """Tell whether this user may read and write a file."""
    return os.access(file, os.R_OK | os.W_OK)


def driver_facts(
    environ: Mapping[str, str], root: Path, may_open: Callable[[Path], bool] = may_open
) -> DriverFacts:
    """Look at PCI bus, kernel driver, device files and libraries.

    Args:
        environ: The environment.
        root: Root of the file system that is looked at.
        may_open: Tells whether this user may read and write a file.

    Returns:
        What there is.
    """
    folders = [root / folder.lstrip("/") for folder in _LIBRARY_FOLDERS]
    return DriverFacts(
        pci_gpus=_pci_gpus(root / "sys/bus/pci/devices"),
        kernel_version=_first_line(root / "sys/module/nvidia/version"),
        library_files=tuple(
            str(folder / LIBRARY_NAME) for folder in folders if (folder / LIBRARY_NAME).exists()
        ),
        closed_devices=tuple(
            str(device)
            for device in sorted((root / "dev").glob("nvidia[0-9c]*"))
            if device.is_char_device() and not may_open(device)
        ),
        kernel_log_error=_kernel_log_error(root / "dev/kmsg"),
        container=_in_container(environ, root),
        capabilities=environ.get("NVIDIA_DRIVER_CAPABILITIES"),
    )


def _kernel_log_error(device: Path) -> str:
    from collector.sources.host.kmsg import DeviceFile, why_not

    try:
        DeviceFile(device).close()
    except OSError as error:
        return why_not(error)
    return ""


def _pci_gpus(devices: Path) -> int | None:
    if not devices.is_dir():
        return None
    return sum(
        _first_line(device / "vendor") == _NVIDIA_VENDOR
        and _first_line(device / "class").startswith(_DISPLAY_CLASS)
        for device in devices.iterdir()
    )


def _first_line(file: Path) -> str:
    try:
        with file.open("rb") as stream:
            return stream.readline(256).decode("utf-8", errors="replace").strip()
    except OSError:
        return ""


def _in_container(environ: Mapping[str, str], root: Path) -> bool:
    marks = ("/.dockerenv", "/run/.containerenv")  # written by Docker, by Podman
    return (
        any((root / mark.lstrip("/")).exists() for mark in marks)
        or "KUBERNETES_SERVICE_HOST" in environ
        or "container" in environ  # systemd's container interface
    )


def within(seconds: float, read: Callable[[], NvmlFacts]) -> NvmlFacts:
    """Read NVML on a thread of its own: a call into a driver that hangs does not come back.

    Args:
        seconds: How long to wait.
        read: Reads.

    Returns:
        What was read, or that there was no answer.
    """
    results: list[NvmlFacts] = []
    thread = threading.Thread(target=lambda: results.append(read()), name="rackwatt-check", daemon=True)
    thread.start()
    thread.join(seconds)
    if results:
        return results[0]
    return NvmlFacts(reason="no_answer", message=f"NVML did not answer for {seconds:g} s: a call hangs")


def nvml_facts(
    configuration: AgentConfiguration, opener: Callable[[], NvmlLibrary] | None = None
) -> NvmlFacts:
    """Read the GPUs twice, just as the agent's reader does.

    Args:
        configuration: The agent's settings.
        opener: Loads NVML; the driver's library if None.

    Returns:
        What NVML answered.
    """
    from collector.cli.compose import reader_options
    from collector.sources.nvml.library import open_library
    from collector.sources.nvml.session import Session

    try:
        session = Session(
            (opener or open_library)(),
            reader_options(configuration),
            monotonic=time.monotonic,
            wall_ns=time.time_ns,
            generation=0,
        )
    except NvmlUnavailableError as error:
        return NvmlFacts(reason=error.reason, message=str(error))
    try:
        first = session.read(time.monotonic())
        time.sleep(_BETWEEN_READINGS_SECONDS)
        second = session.read(time.monotonic())
    except NvmlUnavailableError as error:
        return NvmlFacts(reason=error.reason, message=str(error))
    finally:
        session.close()
    return facts_of([first, second])


def facts_of(readings: Sequence[tuple[Layout | None, Reading]]) -> NvmlFacts:
    """Put what a session delivered into facts.

    Args:
        readings: The readings, each with the layout that it brought.

    Returns:
        The last layout, and the newest value of each series.
    """
    layout: Layout | None = None
    values: dict[SeriesKey, Value] = {}
    errors: dict[str, int] = {}
    for changed, reading in readings:
        layout = changed or layout
        for error, count in reading.errors.items():
            errors[error] = max(errors.get(error, 0), count)
        if layout is not None:
            for batch in reading.batches:
                series = layout.blocks[batch.block].series
                pairs = zip(series, batch.values, strict=True)
                values.update((key, value) for key, value in pairs if value is not None)
    return NvmlFacts(layout=layout, values=values, errors=errors)


def place_facts(configuration: AgentConfiguration, environ: Mapping[str, str]) -> PlaceFacts:
    """Look where the agent would keep its state, and whether it could listen."""
    listen = configuration.listen
    listen_error = why_not_listen(listen)
    agent_listens = bool(listen_error) and agent_answers(listen)
    try:
        state = choose_state_directory(configuration, environ)
    except ConfigurationError as error:
        path, reason, writable = "", str(error), False
    else:
        path, reason, writable = state.path, state.reason, can_create_directory(state.path)
    return PlaceFacts(
        state_dir=path,
        state_reason=reason,
        state_writable=writable,
        listen=str(listen),
        listen_error=listen_error,
        agent_listens=agent_listens,
    )


def why_not_listen(listen: Listen) -> str:
    """Try to listen on an address; say why it cannot be done, or nothing if it can."""
    try:
        addresses = socket.getaddrinfo(
            listen.host, listen.port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE
        )
        for family, kind, protocol, _, address in addresses:
            with socket.socket(family, kind, protocol) as trial:
                # As servers do it: an address that is only waiting for its last packets is free.
                trial.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
                if family == socket.AF_INET6:
                    trial.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_V6ONLY, 1)
                trial.bind(address)
                trial.listen(1)
    except (OSError, UnicodeError) as error:
        return (error.strerror if isinstance(error, OSError) else None) or str(error)
    return ""


def agent_answers(listen: Listen) -> bool:
    """Tell whether a rackwatt agent answers on an address of this machine."""
    address = reachable_address(listen)
    connection = http.client.HTTPConnection(address.host, address.port, timeout=_AGENT_SECONDS)
    try:
        connection.request("GET", "/metrics")
        return b"rackwatt_agent_nvml_up" in connection.getresponse().read(_AGENT_BYTES)
    except (OSError, http.client.HTTPException, UnicodeError):
        return False
    finally:
        connection.close()

"""What `rackwatt check` knows about a machine: plain data, gathered by `probes`, judged by `findings`."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from collector.config import AgentConfiguration
from collector.config.schema import InfluxdbSetting, ServingSetting
from collector.model import Value
from collector.readings import Layout, SeriesKey
from collector.sources.serving.endpoint import EndpointReading
from exporters.influxdb.target import Answer


@dataclass(frozen=True, slots=True, kw_only=True)
class ConfigurationFacts:
    """The settings.

    Attributes:
        configuration: What the agent would run with; None if there is something wrong.
        origin: The file, or `defaults`.
        mistakes: What is wrong, one line each.
    """

    configuration: AgentConfiguration | None = None
    origin: str = "defaults"
    mistakes: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class DriverFacts:
    """What the operating system shows of GPUs and their driver, without NVML.

    Attributes:
        pci_gpus: NVIDIA GPUs on the PCI bus; None if the bus cannot be read.
        kernel_version: Version of the loaded kernel driver, or empty.
        library_files: Files called libnvidia-ml.so.1 in the places where they usually are.
        closed_devices: NVIDIA device files that exist and that this user may not open.
        kernel_log_error: Why the kernel log cannot be read; empty if it can.
        container: Whether this is a container.
        capabilities: NVIDIA_DRIVER_CAPABILITIES of the environment; None if it is not set.
    """

    pci_gpus: int | None = None
    kernel_version: str = ""
    library_files: tuple[str, ...] = ()
    closed_devices: tuple[str, ...] = ()
    kernel_log_error: str = ""
    container: bool = False
    capabilities: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class NvmlFacts:
    """What NVML answered.

    Attributes:
        reason: Why it cannot be used, as `NvmlUnavailableError.reason`; empty if it can.
        message: The same in words.
        layout: The GPUs; None if NVML cannot be used.
        values: What was read.
        errors: Values that could not be read, by error.
    """

    reason: str = ""
    message: str = ""
    layout: Layout | None = None
    values: Mapping[SeriesKey, Value] = field(default_factory=dict)
    errors: Mapping[str, int] = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class PlaceFacts:
    """Where the agent would keep its state and listen.

    Attributes:
        state_dir: The directory; empty if there is none to be had.
        state_reason: Why it is this one, or why there is none.
        state_writable: Whether this user can write there.
        listen: The address.
        listen_error: Why it cannot be listened on; empty if it can.
        agent_listens: Whether a rackwatt agent answers there already.
    """

    state_dir: str = ""
    state_reason: str = ""
    state_writable: bool = False
    listen: str = ""
    listen_error: str = ""
    agent_listens: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class EndpointFacts:
    """What a serving endpoint answered.

    Attributes:
        setting: How it is configured.
        error: Why nothing of it can be used: a `ScrapeError.error`, or `token_file`; empty if something can.
        message: The same in words.
        status: The HTTP status, where that is what was wrong.
        families: Names of metrics that the answer declares, whether they have series or not.
        reading: What was read of it; None if nothing can be used.
    """

    setting: ServingSetting
    error: str = ""
    message: str = ""
    status: int | None = None
    families: frozenset[str] = frozenset()
    reading: EndpointReading | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class InfluxdbFacts:
    """What came of writing one point.

    Attributes:
        setting: How it is configured.
        mistake: Why nothing was tried, in words; empty if something was.
        answer: What the server made of the point; None if nothing was tried.
        spool_path: Folder where points would wait; empty if there is none to be had.
        spool_writable: Whether this user can write there.
        spool_mistake: Why an agent of this user refuses the folder, in words; empty if it does not.
    """

    setting: InfluxdbSetting
    mistake: str = ""
    answer: Answer | None = None
    spool_path: str = ""
    spool_writable: bool = False
    spool_mistake: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Facts:
    """Everything that the checks look at.

    Attributes:
        installation_error: Why the installation is broken, or empty.
        settings: The settings.
        driver: GPUs and driver as the operating system shows them.
        nvml: What NVML answered.
        places: Where the agent would keep its state and listen; None without settings.
        serving: What each configured serving endpoint answered.
        influxdb: What came of writing a point; None where no InfluxDB is configured.
        is_root: Whether this user is root.
    """

    installation_error: str = ""
    settings: ConfigurationFacts = field(default_factory=ConfigurationFacts)
    driver: DriverFacts = field(default_factory=DriverFacts)
    nvml: NvmlFacts = field(default_factory=NvmlFacts)
    places: PlaceFacts | None = None
    serving: tuple[EndpointFacts, ...] = ()
    influxdb: InfluxdbFacts | None = None
    is_root: bool = False

    @property
    def gpus_answer(self) -> bool:
        """Whether NVML shows a GPU."""
        return self.nvml.layout is not None and any(gpu.present for gpu in self.nvml.layout.gpus)

"""What a platform profile holds.

Every figure is what real hardware was seen to report; each TOML value names its source. A figure that
nobody has published is left out of the file and reads as `None`: missing is not zero, and not a guess.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum

from collector.errors import ConfigurationError


class PlatformInfoSupport(StrEnum):
    """How much of `nvmlDeviceGetPlatformInfo` a platform fills."""

    FULL = "full"
    """Chassis serial, slot, tray, host, peer type and module."""
    PARTIAL = "partial"
    """Host, peer type and module; the chassis serial is empty, slot and tray are not set."""
    NONE = "none"
    """The call is not supported."""


@dataclass(frozen=True, slots=True)
class BurnFigures:
    """What one GPU reported under a sustained full load.

    Attributes:
        watts: Power of the GPU, middle of the published range.
        celsius: Temperature of the GPU.
        memory_watts: Average power of its memory.
        memory_celsius: Temperature of its memory.
    """

    watts: float
    celsius: float
    memory_watts: float
    memory_celsius: float


@dataclass(frozen=True, slots=True)
class GpuProfile:
    """One GPU of the platform: its identity strings, limits and idle figures.

    Attributes:
        product_name: The exact string of `nvmlDeviceGetName`.
        architecture: NVML architecture enum, `NVML_DEVICE_ARCH_*` of nvml.h.
        compute_capability: CUDA compute capability, major and minor.
        memory_total_bytes: Frame buffer, as NVML's `total`.
        memory_reserved_bytes: What the driver keeps for itself, NVML's `reserved`.
        bar1_bytes: Size of the BAR1 window.
        power_default_watts: Power limit that the board boots with.
        power_min_watts: Lowest limit that can be set.
        power_max_watts: Highest limit that can be set.
        idle_watts: Power at idle, middle of the captured range.
        memory_idle_watts: Average memory power at idle, middle of the captured range.
        max_sm_clock_mhz: Highest SM clock.
        max_memory_clock_mhz: Highest memory clock; it stays there at idle.
        idle_sm_clock_mhz: SM clock at idle.
        idle_celsius: GPU temperature at idle.
        memory_idle_celsius: Memory temperature at idle.
        temperature_limit_sum_celsius: GPU temperature plus T.limit margin, constant on a board.
        shutdown_margin_celsius: T.limit margin below which the GPU shuts down, signed.
        slowdown_margin_celsius: T.limit margin below which hardware slows it down, signed.
        memory_max_margin_celsius: T.limit margin for memory slowdown, signed.
        max_operating_margin_celsius: T.limit margin for software slowdown, signed.
        pcie_generation: PCIe generation in use; it does not drop at idle.
        pcie_width_lanes: PCIe lanes in use.
        pci_device_id: PCI device id, 16 bits; the vendor is always 0x10DE.
        pci_subsystem_id: PCI subsystem id, 16 bits.
        board_part_number: As `nvmlDeviceGetBoardPartNumber`.
        gpu_part_number: As nvidia-smi prints it.
        vbios_version: As `nvmlDeviceGetVbiosVersion`.
        inforom_version: As `nvmlDeviceGetInforomImageVersion`.
        row_remap_banks: Banks of the row remapper.
        module_ids: NVML module id by GPU index, where the order was captured.
        pci_bus_ids: PCI bus id by GPU index, where it was captured.
        burn: Figures under full load, where published.
    """

    product_name: str
    architecture: int
    compute_capability: tuple[int, ...]
    memory_total_bytes: int
    memory_reserved_bytes: int
    bar1_bytes: int
    power_default_watts: float
    power_min_watts: float
    power_max_watts: float
    idle_watts: float
    memory_idle_watts: float
    max_sm_clock_mhz: int
    max_memory_clock_mhz: int
    idle_sm_clock_mhz: int
    idle_celsius: float
    memory_idle_celsius: float
    temperature_limit_sum_celsius: int
    shutdown_margin_celsius: int
    slowdown_margin_celsius: int
    memory_max_margin_celsius: int
    max_operating_margin_celsius: int
    pcie_generation: int
    pcie_width_lanes: int
    pci_device_id: int
    pci_subsystem_id: int
    board_part_number: str
    gpu_part_number: str
    vbios_version: str
    inforom_version: str
    row_remap_banks: int
    module_ids: tuple[int, ...] | None = None
    pci_bus_ids: tuple[str, ...] | None = None
    burn: BurnFigures | None = None


@dataclass(frozen=True, slots=True)
class NvLinkProfile:
    """NVLink of one GPU.

    Attributes:
        generation: NVLink generation, 4 or 5.
        version: NVML version enum, `NVML_NVLINK_VERSION_*` of nvml.h.
        links_per_gpu: Links that a GPU has.
        speed_mb_per_second: Signalling rate of one link in one direction, as field 164 reports it.
        nominal_bytes_per_second: Data rate of one link in one direction.
    """

    generation: int
    version: int
    links_per_gpu: int
    speed_mb_per_second: int
    nominal_bytes_per_second: int


@dataclass(frozen=True, slots=True)
class ModuleProfile:
    """A superchip: GPUs and a CPU on one board, with one board serial and one power reading.

    Attributes:
        gpus: GPUs on a module.
        power_limit_watts: Power limit of the module.
        power_min_watts: Lowest limit that can be set.
        power_max_watts: Highest limit that can be set.
        idle_watts: Power of the module at idle, middle of the captured range.
    """

    gpus: int
    power_limit_watts: float
    power_min_watts: float
    power_max_watts: float
    idle_watts: float


@dataclass(frozen=True, slots=True)
class RackProfile:
    """A rack that is one NVLink domain.

    Attributes:
        compute_trays: Compute trays in a rack, one node each.
        compute_trays_below_switches: Compute trays below the switch trays.
        switch_trays: NVLink switch trays.
        switch_asics_per_tray: Switch chips in a switch tray.
        power_shelves: Power shelves.
        power_kilowatts: Power of a rack, where published.
        host_id: NVML host id of the only node in a slot.
    """

    compute_trays: int
    compute_trays_below_switches: int
    switch_trays: int
    switch_asics_per_tray: int
    power_shelves: int
    host_id: int
    power_kilowatts: float | None = None

    def slot_of_tray(self, tray: int) -> int:
        """Return the 1-based slot of a 0-based compute tray.

        Slots count compute and switch trays together, bottom to top; tray indices count compute trays
        only: tray 4 is slot 5, tray 12 is slot 22, tray 15 is slot 25 (NVIDIA/topograph's NetQ inventory
        and the GB300 capture of NVIDIA/k8s-test-infra).

        Args:
            tray: 0-based index of the compute tray.

        Returns:
            The slot number.

        Raises:
            ConfigurationError: The rack has no such compute tray.
        """
        if not 0 <= tray < self.compute_trays:
            raise ConfigurationError(
                f"compute tray {tray} does not exist: this rack has trays 0 to {self.compute_trays - 1}"
            )
        switches_below = self.switch_trays if tray >= self.compute_trays_below_switches else 0
        return tray + 1 + switches_below


@dataclass(frozen=True, slots=True)
class FabricProfile:
    """What `nvmlDeviceGetGpuFabricInfoV` reports on a healthy node.

    Attributes:
        cluster_wide: The NVLink domain spans nodes, so that the cluster UUID is set.
        clique_id: Clique of a healthy GPU; 0 where the domain is the node.
        health_mask: Health mask of a healthy GPU, `NVML_GPU_FABRIC_HEALTH_MASK_*` of nvml.h.
        health_summary: Health summary, `NVML_GPU_FABRIC_HEALTH_SUMMARY_*`; 0 not supported, 1 healthy.
    """

    cluster_wide: bool
    clique_id: int
    health_mask: int
    health_summary: int


@dataclass(frozen=True, slots=True)
class ServingProfile:
    """What a GPU of the platform does in serving: one published measurement, and its conditions.

    Attributes:
        model: Model that was served, as its publisher names it.
        prompt_tokens: Length of a prompt.
        generation_tokens: Length of a generation.
        tokens_per_second_per_gpu: Throughput of one GPU, prompt and generation tokens together.
        seconds_per_output_token: Mean time from one token of a request to the next at that throughput.
        provisioned_watts_per_gpu: Power that is built for each GPU, with CPU, network and facility.
    """

    model: str
    prompt_tokens: int
    generation_tokens: int
    tokens_per_second_per_gpu: float
    seconds_per_output_token: float
    provisioned_watts_per_gpu: float


@dataclass(frozen=True, slots=True)
class Capabilities:
    """What the platform reports at all.

    Attributes:
        platform_info: How much of `nvmlDeviceGetPlatformInfo` is filled.
        module_power: Power of the module (scope 1 of fields 185 to 192).
        fabric_health: The fabric health mask is filled.
        nvlink5_counters: NVLink 5 fields 201 to 222 and 235 to 250.
        nvlink4_error_counters: Fields 161 to 163, unsupported from Blackwell on.
        c2c: NVLink-C2C to a Grace CPU.
        power_smoothing: Power smoothing fields exist; unprivileged callers are refused.
        gpm: GPU performance monitoring.
    """

    platform_info: PlatformInfoSupport
    module_power: bool
    fabric_health: bool
    nvlink5_counters: bool
    nvlink4_error_counters: bool
    c2c: bool
    power_smoothing: bool
    gpm: bool


@dataclass(frozen=True, slots=True)
class Profile:
    """One platform.

    Attributes:
        name: Name in configuration, such as `gb300-nvl72`.
        title: Name for people.
        driver_version: Driver of the capture; the simulator's default.
        gpus_per_node: GPUs in a node.
        gpu: One GPU.
        nvlink: NVLink of one GPU.
        fabric: The fabric as NVML shows it.
        capabilities: What the platform reports at all.
        serving: What it does in serving.
        module: The superchip module, absent on HGX.
        rack: The rack, absent where a node is its own NVLink domain.
    """

    name: str
    title: str
    driver_version: str
    gpus_per_node: int
    gpu: GpuProfile
    nvlink: NvLinkProfile
    fabric: FabricProfile
    capabilities: Capabilities
    serving: ServingProfile
    module: ModuleProfile | None = None
    rack: RackProfile | None = None

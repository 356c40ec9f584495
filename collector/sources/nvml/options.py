"""What the agent tells its reader at the start."""

from __future__ import annotations

import msgspec

from collector.readings import GpuIdentity


class PlatformHint(msgspec.Struct, frozen=True):
    """A platform that the reader may recognize by its GPUs' product name.

    Attributes:
        platform: Name of the profile.
        gpus_per_node: GPUs that a node of it has.
    """

    platform: str
    gpus_per_node: int


class ReaderOptions(msgspec.Struct, frozen=True):
    """How to read.

    Attributes:
        fast_seconds: Period of utilization, power, clocks and traffic sums.
        links_seconds: Period of links, errors and fabric; spread over the GPUs.
        slow_seconds: Period of identity and modes; spread over the GPUs.
        level: `core`, `standard` or `full`: which catalogue rows are read.
        known_gpus: GPUs seen before, so that one lost over a reboot is noticed.
        platforms: Product name to platform.
        platform: Platform named by the configuration; empty to recognize it.
        gpus_expected: GPUs of that platform's node; None to take the recognized platform's.
    """

    fast_seconds: float = 1.0
    links_seconds: float = 10.0
    slow_seconds: float = 60.0
    level: str = "standard"
    known_gpus: tuple[GpuIdentity, ...] = ()
    platforms: dict[str, PlatformHint] = {}
    platform: str = ""
    gpus_expected: int | None = None

"""The times and counts by which a node changes its state (CONTRACTS §3, facts/rack.md §6)."""

from __future__ import annotations

from dataclasses import dataclass

from collector.errors import ConfigurationError

SECOND_NS = 1_000_000_000


@dataclass(frozen=True, slots=True)
class TrackerRules:
    """Rules of a node's state. Durations are seconds.

    Attributes:
        poll_interval_seconds: How often a node is polled (CONTRACTS §6, `poll: 5s`).
        missed_polls: Poll intervals without a good poll that make a node UNKNOWN (CONTRACTS §3: three).
        fast_age_limit_seconds: Oldest fast data of a good poll (CONTRACTS §3: 5 s).
        samples_to_fail: Good polls that must agree where no `fail` check is hard evidence (facts/rack.md §6).
        clean_seconds: How long a node must be clean to leave FAILED (facts/rack.md §6: 10 minutes).
        flap_entries: Entries into FAILED within the flap window that latch a node (facts/rack.md §6: three).
        flap_window_seconds: Length of the flap window (facts/rack.md §6: 12 hours).
        fabric_grace_seconds: How long a fabric may be in progress (CONTRACTS §3: 5 minutes).
        fabric_required: Whether the platform has a fabric over the rack, in which a node must be complete.
        gpus_expected: GPUs of a node, where its Snapshot does not say.
        not_cured_by_reboot: Checks whose FAILED is held for the clean time even over a reboot: what is
            written into the board (InfoROM) does not heal by one.
    """

    poll_interval_seconds: float = 5.0
    missed_polls: int = 3
    fast_age_limit_seconds: float = 5.0
    samples_to_fail: int = 2
    clean_seconds: float = 600.0
    flap_entries: int = 3
    flap_window_seconds: float = 12 * 3600.0
    fabric_grace_seconds: float = 300.0
    fabric_required: bool = False
    gpus_expected: int | None = None
    not_cured_by_reboot: frozenset[str] = frozenset({"gpu_row_remap_failure"})

    def __post_init__(self) -> None:
        """Refuse rules that cannot be followed.

        Raises:
            ConfigurationError: A count or duration is not positive.
        """
        for name in (
            "poll_interval_seconds",
            "missed_polls",
            "fast_age_limit_seconds",
            "samples_to_fail",
            "clean_seconds",
            "flap_entries",
            "flap_window_seconds",
            "fabric_grace_seconds",
        ):
            value: float = getattr(self, name)
            if not value > 0:
                raise ConfigurationError(f"{name}: {value!r} is not a positive number")

    @property
    def silence_ns(self) -> int:
        """How long the last good poll is believed."""
        return int(self.missed_polls * self.poll_interval_seconds * SECOND_NS)

    @property
    def clean_ns(self) -> int:
        """Clean time in nanoseconds."""
        return int(self.clean_seconds * SECOND_NS)

    @property
    def flap_window_ns(self) -> int:
        """Flap window in nanoseconds."""
        return int(self.flap_window_seconds * SECOND_NS)

    @property
    def fabric_grace_ns(self) -> int:
        """Fabric grace in nanoseconds."""
        return int(self.fabric_grace_seconds * SECOND_NS)

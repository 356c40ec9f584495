"""What a recording rule is."""

from __future__ import annotations

import enum
from collections.abc import Mapping
from dataclasses import dataclass, field

_UNNAMED = frozenset({"gpu_uuid"})
"""Labels that identify but do not name a level: `rack_node_gpu`, not `rack_node_gpu_gpu_uuid`."""


class Measure(enum.Enum):
    """What a recorded value is counted in. Values that the catalogue has, too, are those of its units."""

    NONE = ""
    BYTES_PER_SECOND = "bytes_per_second"
    CELSIUS = "celsius"
    COUNT = "count"
    KILOWATT_HOURS = "kilowatt_hours"
    RATIO = "ratio"
    SECONDS = "seconds"
    STATE = "state"
    TOKENS_PER_JOULE = "tokens_per_joule"
    TOKENS_PER_SECOND = "tokens_per_second"
    TOKENS_PER_SECOND_PER_MEGAWATT = "tokens_per_second_per_megawatt"
    US_DOLLARS = "us_dollars"
    WATTS = "watts"


@dataclass(frozen=True, slots=True, kw_only=True)
class Recorded:
    """A recorded series, named `level:metric:operations`.

    Attributes:
        of: Labels that tell its series apart, beside `cluster` where there is one; they make the level.
        metric: What is recorded, without prefix and `_total`.
        operation: What was done to it, such as `max` or `rate5m`.
        expression: The PromQL expression.
        unit: What its values are counted in; a state is 1 or 0.
        help: One sentence for people: what it means, and when it is absent.
        fixed: Labels that the rule itself sets; several rules then record under one name.
    """

    of: tuple[str, ...]
    metric: str
    operation: str
    expression: str
    unit: Measure
    help: str
    fixed: Mapping[str, str] = field(default_factory=dict)

    @property
    def name(self) -> str:
        """Name of the series."""
        level = "_".join(label for label in self.of if label not in _UNNAMED) or "cluster"
        return f"{level}:{self.metric}:{self.operation}"

    @property
    def labels(self) -> tuple[str, ...]:
        """Labels of its series beside `cluster`."""
        return self.of


@dataclass(frozen=True, slots=True, kw_only=True)
class RecordingGroup:
    """Recording rules that are evaluated one after another.

    Attributes:
        name: Name of the group.
        interval: How often, such as `30s`.
        rules: Its rules; one may read what another above it records.
    """

    name: str
    interval: str
    rules: tuple[Recorded, ...]

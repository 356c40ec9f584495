"""What a catalogue row is: the types every other table and every exporter derives from.

Only the standard library is imported here, and nothing in this package performs I/O.
"""

from __future__ import annotations

import enum
from dataclasses import dataclass

PREFIX = "rackwatt_"
"""Prefix of every exposed metric name (CONTRACTS §2)."""


class Kind(enum.Enum):
    """How a metric behaves over time; fixes the exposition type and name suffix."""

    GAUGE = "gauge"
    COUNTER = "counter"
    STATE = "state"
    INFO = "info"
    HISTOGRAM = "histogram"


class Unit(enum.Enum):
    """Base unit of a metric. The value is the suffix that its name ends in; empty for pure numbers."""

    NONE = ""
    BYTES = "bytes"
    BYTES_PER_SECOND = "bytes_per_second"
    CELSIUS = "celsius"
    HERTZ = "hertz"
    JOULES = "joules"
    LANES = "lanes"
    RATIO = "ratio"
    SECONDS = "seconds"
    WATTS = "watts"


class ValueType(enum.Enum):
    """Type of a metric's values, fixed for ever: InfluxDB refuses a field that changes its type."""

    INT = "int"
    FLOAT = "float"


class Level(enum.IntEnum):
    """From which level of detail on a metric is exported."""

    CORE = 0
    STANDARD = 1
    FULL = 2


class Cadence(enum.Enum):
    """How often a metric is read; the periods themselves are configuration."""

    FAST = "fast"
    LINKS = "links"
    SLOW = "slow"
    EVENT = "event"
    AGENT = "agent"
    SERVING = "serving"
    HOST = "host"


class Entity(enum.Enum):
    """What a metric describes; fixes the labels that identify one series (CONTRACTS §1)."""

    NODE = "node"
    AGENT = "agent"
    GPU = "gpu"
    NVLINK = "nvlink"
    MODULE = "module"
    CPU = "cpu"
    LLM_ENDPOINT = "llm_endpoint"
    LLM = "llm"
    RACK = "rack"

    @property
    def implied_keys(self) -> tuple[str, ...]:
        """Labels that the node of a Snapshot gives every series; a rack service speaks of several racks."""
        return () if self is Entity.RACK else NODE_KEYS

    @property
    def keys(self) -> tuple[str, ...]:
        """Names of the identifying labels beyond the implied ones, in order."""
        return _ENTITY_KEYS[self]


_ENTITY_KEYS = {
    Entity.NODE: (),
    Entity.AGENT: (),
    Entity.GPU: ("gpu", "gpu_uuid"),
    Entity.NVLINK: ("gpu", "gpu_uuid", "link"),
    Entity.MODULE: ("module",),
    Entity.CPU: ("socket",),
    Entity.LLM_ENDPOINT: ("endpoint", "engine", "role"),
    Entity.LLM: ("endpoint", "engine", "model", "role"),
    Entity.RACK: ("rack",),
}

NODE_KEYS = ("rack", "node")
"""Labels that every series of a node carries (CONTRACTS §1)."""


class Decode(enum.Enum):
    """How the eight bytes of an NVML field value are read.

    The driver's own `valueType` can be wrong or unset (facts: NVML bugs 2009232, 2032468), so the type
    expected by the catalogue decides.
    """

    UNSIGNED_32 = "unsigned_32"
    UNSIGNED_64 = "unsigned_64"
    SIGNED_32 = "signed_32"
    BIT_ERROR_RATIO = "bit_error_ratio"
    LINK_STATE = "link_state"


class Scope(enum.IntEnum):
    """Meaning of `scopeId` in an NVML field request (nvml.h, `nvmlFieldValue_t`).

    Non-negative members are sent as they are. `EACH_LINK` stands for one request a link.
    """

    EACH_LINK = -1
    GPU = 0
    MODULE = 1
    MEMORY = 2
    ALL_LINKS = 0xFFFFFFFF


@dataclass(frozen=True, slots=True, kw_only=True)
class DriverRange:
    """Driver versions in which a field id has the meaning that a binding gives it.

    Attributes:
        since: First version, inclusive, as numbers: `(580, 82)`.
        before: First version out of the range, or None for no upper end.
    """

    since: tuple[int, ...]
    before: tuple[int, ...] | None = None

    def contains(self, version: tuple[int, ...]) -> bool:
        """Tell whether a driver version lies in the range."""
        return version >= self.since and (self.before is None or version < self.before)


@dataclass(frozen=True, slots=True, kw_only=True)
class FieldBinding:
    """A value read by `nvmlDeviceGetFieldValues`, which batches many fields in one call.

    Attributes:
        field: Name of the constant in pynvml, or the id itself where the constant of that
            name has another value in the driver range of this binding.
        scope: What the request is scoped to.
        decode: How the value's bytes are read.
        multiply: Factor to the metric's unit.
        divide: Divisor to the metric's unit; division keeps decimal values exact.
        drivers: Driver versions for which the binding holds; None for all.
    """

    field: str | int
    scope: Scope = Scope.GPU
    decode: Decode = Decode.UNSIGNED_64
    multiply: int = 1
    divide: int = 1
    drivers: DriverRange | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class GetterBinding:
    """A value read by an NVML function of its own.

    Attributes:
        function: Name of the NVML function, as in nvml.h.
        attribute: Which of the function's results is meant.
        multiply: Factor to the metric's unit.
        divide: Divisor to the metric's unit.
    """

    function: str
    attribute: str
    multiply: int = 1
    divide: int = 1


@dataclass(frozen=True, slots=True, kw_only=True)
class GpmBinding:
    """A value that NVML's GPU performance monitoring computes between two samples.

    Attributes:
        metric: Name of the `NVML_GPM_METRIC_*` constant in pynvml.
        multiply: Factor to the metric's unit.
        divide: Divisor to the metric's unit.
    """

    metric: str
    multiply: int = 1
    divide: int = 1


@dataclass(frozen=True, slots=True, kw_only=True)
class LinkSum:
    """A GPU's value that is the sum of readings of its links.

    Attributes:
        fields: The field bindings, scope `EACH_LINK`, whose values are added up over all links.
    """

    fields: tuple[FieldBinding, ...]


Binding = FieldBinding | GetterBinding | GpmBinding | LinkSum


@dataclass(frozen=True, slots=True, kw_only=True)
class Part:
    """How one label value of a metric is read.

    Attributes:
        value: The label's value; empty for a metric without a label of its own.
        bindings: Alternatives in order of preference: the first that the hardware supports is read.
            Empty for what the agent itself derives.
    """

    value: str = ""
    bindings: tuple[Binding, ...] = ()


class Encoding(enum.Enum):
    """How one number read becomes the series of a labelled metric."""

    ONE_HOT = "one_hot"
    BITS = "bits"


@dataclass(frozen=True, slots=True, kw_only=True)
class Codes:
    """A number whose values, or bits, are told apart by a label: one series a label value.

    Attributes:
        encoding: ONE_HOT: the series whose code equals the number is 1, the others are 0.
            BITS: each series is 1 where its mask is set in the number.
        values: Pairs of code (or mask) and label value.
        bindings: Where the number comes from, in order of preference.
        source: Where the codes are defined.
    """

    encoding: Encoding
    values: tuple[tuple[int, str], ...]
    bindings: tuple[Binding, ...]
    source: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Metric:
    """One row of the catalogue.

    Attributes:
        name: Name without the prefix.
        kind: Behaviour over time.
        unit: Base unit; the name ends in it.
        value_type: Type of the values.
        entity: What it describes.
        level: From which level on it is exported.
        cadence: How often it is read.
        help: One sentence for people: what it means, and its traps.
        minimum: Smallest physically possible value; a reading below is not exported.
        maximum: Largest physically possible value; a reading above is not exported.
        label: Name of the label beyond the entity's, if it has one.
        open_label: True where the label's values are found at run time (an Xid number).
        info_labels: For kind INFO, the labels that carry the text; for other kinds, labels that name a series
            together; of a STATE the first is the part's value.
        parts: How it is read, one part a label value; empty for derived rows and coded rows.
        codes: For rows that decode one number into several series.
    """

    name: str
    kind: Kind
    unit: Unit = Unit.NONE
    value_type: ValueType
    entity: Entity
    level: Level
    cadence: Cadence
    help: str
    minimum: float = 0
    maximum: float = float(2**63)
    label: str | None = None
    info_labels: tuple[str, ...] = ()
    parts: tuple[Part, ...] = ()
    codes: Codes | None = None
    open_label: bool = False

    @property
    def exposed_name(self) -> str:
        """Name in Prometheus, prefix included."""
        return PREFIX + self.name

    @property
    def label_names(self) -> tuple[str, ...]:
        """Names of the labels beyond the implied ones, in the order of a series' label values."""
        own = (self.label,) if self.label else self.info_labels
        return self.entity.keys + own

    @property
    def label_values(self) -> tuple[str, ...]:
        """Closed set of values of `label`; one empty string for a metric without one."""
        if self.codes is not None:
            return tuple(value for _, value in self.codes.values)
        return tuple(part.value for part in self.parts) if self.parts else ("",)


def reads(*bindings: Binding) -> tuple[Part, ...]:
    """Make the single part of a metric without a label, from alternatives in order of preference."""
    return (Part(bindings=bindings),)


def derived(*values: str) -> tuple[Part, ...]:
    """Make parts that nothing in NVML answers directly: the reader or the agent computes them."""
    return tuple(Part(value=value) for value in values) if values else (Part(),)

"""Published figures to hold measured ones against, as data with their sources and conditions."""

from __future__ import annotations

import functools
import tomllib
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from enum import StrEnum
from importlib import resources

from collector import profiles
from collector.errors import ConfigurationError
from collector.profiles.toml_reader import parse_record

_FILE = "references.toml"


class TokenKind(StrEnum):
    """Which tokens a figure counts."""

    GENERATION = "generation"
    TOTAL = "total"
    """Prompt and generation together."""


class PowerBasis(StrEnum):
    """Which power a figure is divided by."""

    PROVISIONED = "provisioned"
    """What was built for each GPU: with CPU, network and facility; not measured."""
    NONE = "none"
    """No power enters the figure."""


class ReferenceKind(StrEnum):
    """What a figure says."""

    THROUGHPUT = "throughput"
    """Tokens a second and GPU of one rack or less."""
    SCALING = "scaling"
    """Throughput of several racks to that of one."""
    CLAIM = "claim"
    """A ratio between two generations of hardware or software."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Reference:
    """One published figure.

    Attributes:
        id: Name, unique.
        kind: What it says.
        title: One line for people.
        source: Document and place where it stands.
        conditions: What it holds for, in words: scenario, software, what is not stated.
        platform: Profile of the hardware; empty for hardware without one.
        hardware: The hardware in words.
        model: Model that was served; empty where it is not about one.
        precision: Number format of the weights; empty if not stated.
        prompt_tokens: Length of a prompt; None if not stated.
        generation_tokens: Length of a generation; None if not stated.
        token_kind: Which tokens are counted.
        power_basis: Which power it is divided by.
        tokens_per_second_per_gpu: Throughput of one GPU; None for other kinds.
        seconds_per_output_token: Mean time between tokens at that throughput; None if not stated.
        provisioned_watts_per_gpu: Power that is built for each GPU; None where no power enters.
        usd_per_million_tokens: Cost as published; None if not stated.
        racks: Racks that it is about, for `SCALING`; None otherwise.
        ratio: The ratio of `SCALING` and `CLAIM`; None for `THROUGHPUT`.
    """

    id: str
    kind: ReferenceKind
    title: str
    source: str
    conditions: str
    platform: str = ""
    hardware: str
    model: str = ""
    precision: str = ""
    prompt_tokens: int | None = None
    generation_tokens: int | None = None
    token_kind: TokenKind
    power_basis: PowerBasis
    tokens_per_second_per_gpu: float | None = None
    seconds_per_output_token: float | None = None
    provisioned_watts_per_gpu: float | None = None
    usd_per_million_tokens: float | None = None
    racks: int | None = None
    ratio: float | None = None

    @property
    def tokens_per_second_per_megawatt(self) -> float | None:
        """Tokens a second for each provisioned megawatt; None where no power enters."""
        if self.tokens_per_second_per_gpu is None or self.provisioned_watts_per_gpu is None:
            return None
        return self.tokens_per_second_per_gpu / self.provisioned_watts_per_gpu * 1e6

    @property
    def tokens_per_second_per_user(self) -> float | None:
        """Interactivity: the reciprocal of the time between tokens; None if not stated."""
        return None if self.seconds_per_output_token is None else 1 / self.seconds_per_output_token


@functools.cache
def load() -> tuple[Reference, ...]:
    """Read the published figures.

    Returns:
        The figures in the order of the file; the same object each time.

    Raises:
        ConfigurationError: The file is damaged.
    """
    text = resources.files("collector.profiles").joinpath(_FILE).read_text(encoding="utf-8")
    return parse_references(tomllib.loads(text), _FILE)


def by_id(reference_id: str) -> Reference | None:
    """Find a published figure; None if there is none of this id."""
    return next((each for each in load() if each.id == reference_id), None)


def provisioned_watts_per_gpu(platform: str, references: Iterable[Reference]) -> float | None:
    """Return the power that is published as built for each GPU of a platform; None if none is."""
    found = (each.provisioned_watts_per_gpu for each in references if platform and each.platform == platform)
    return next((watts for watts in found if watts is not None), None)


def parse_references(document: Mapping[str, object], where: str) -> tuple[Reference, ...]:
    """Turn a parsed TOML document into figures.

    Args:
        document: The document: a list of tables named `reference`.
        where: Name of the file, for messages.

    Returns:
        The figures.

    Raises:
        ConfigurationError: A key is unknown or missing, a value cannot be right, or an id stands twice.
    """
    tables = document.get("reference")
    if list(document) != ["reference"] or not isinstance(tables, list):
        raise ConfigurationError(f"{where}: it must hold tables [[reference]] and nothing else")
    found: dict[str, Reference] = {}
    for index, table in enumerate(tables):
        if not isinstance(table, dict):
            raise ConfigurationError(f"{where}: reference {index}: {table!r} must be a table")
        own = parse_record(Reference, table, f"{where}: reference {index}")
        mistake = "its id stands twice" if own.id in found else _mistake(own)
        if mistake:
            raise ConfigurationError(f"{where}: reference {own.id!r}: {mistake}")
        found[own.id] = own
    return tuple(found.values())


def _mistake(own: Reference) -> str:
    """Say what of a figure cannot be right; empty if nothing."""
    if own.platform and own.platform not in profiles.names():
        return f"platform {own.platform!r} is none of {', '.join(profiles.names())}"
    throughput = own.kind is ReferenceKind.THROUGHPUT
    if (own.tokens_per_second_per_gpu is not None) != throughput or (own.ratio is not None) == throughput:
        return f"{own.kind.value} needs {'tokens_per_second_per_gpu' if throughput else 'ratio'} alone"
    if (own.racks is not None) != (own.kind is ReferenceKind.SCALING):
        return "`racks` belongs to scaling, and scaling needs it"
    provisioned = own.power_basis is PowerBasis.PROVISIONED
    if throughput and (own.provisioned_watts_per_gpu is not None) != provisioned:
        return "`provisioned_watts_per_gpu` belongs to the power basis `provisioned`, which needs it"
    if (own.prompt_tokens is None) != (own.generation_tokens is None):
        return "prompt_tokens and generation_tokens are stated together"
    return ""

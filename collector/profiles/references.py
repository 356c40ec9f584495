"""Published figures to hold measured ones against, as data with their sources and conditions."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum


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

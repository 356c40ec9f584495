"""What bodies share: the envelope, times, names, reasons."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import BaseModel, BeforeValidator, ConfigDict, Field

NAME_PATTERN = "^[A-Za-z0-9._-]{1,64}$"
"""What a rack, node, GPU or window may be called (CONTRACTS §5)."""


def _printable(value: object) -> object:
    """Replace what UTF-8 cannot hold, so that no text from elsewhere breaks a body (CONTRACTS §8)."""
    if isinstance(value, str) and not value.isascii():
        return value.encode("utf-8", errors="replace").decode("utf-8")
    return value


Text = Annotated[str, BeforeValidator(_printable)]
"""Text that may come from hardware, drivers or users."""

Moment = Annotated[str, Field(json_schema_extra={"format": "date-time"})]
"""A time: RFC 3339, UTC, milliseconds."""

NodeStateWord = Literal["READY", "DEGRADED", "FAILED", "MAINTENANCE", "UNKNOWN"]
GpuStateWord = Literal["OK", "DEGRADED", "FAILED", "UNKNOWN"]
DomainStateWord = Literal["HEALTHY", "DEGRADED", "SPLIT", "UNHEALTHY", "UNKNOWN"]
VerdictWord = Literal["AVAILABLE", "UNAVAILABLE", "MAINTENANCE", "UNKNOWN"]
ImpactWord = Literal["info", "warn", "avoid", "fail"]


class Part(BaseModel):
    """A part of a body: immutable, and exactly what is described."""

    model_config = ConfigDict(frozen=True, extra="forbid")


class Envelope(Part):
    """What every body begins with."""

    observed_at: Annotated[
        Moment | None,
        Field(description="When the state was evaluated that this is about; null before the first time."),
    ]
    stale_after_s: Annotated[
        float, Field(description="Age in seconds from which `observed_at` is too old to act upon.", gt=0)
    ]
    generation: Annotated[
        int,
        Field(
            description="Rises with every change of anything but times and values: of the rack that this is"
            " about, else of the service.",
            ge=0,
        ),
    ]


class ReasonBody(Part):
    """Why something is in its state."""

    check: Annotated[Text, Field(description="Id of the check, or of the rack service's rule.")]
    impact: ImpactWord
    text: Annotated[Text, Field(description="What, where, which value, what would be right.")]
    action: Annotated[Text, Field(description="What to do.")]
    node: Annotated[Text | None, Field(description="Node concerned.")]
    gpu_uuid: Annotated[Text | None, Field(description="GPU concerned.")]
    metric: Annotated[Text | None, Field(description="Metric that was judged, as Prometheus calls it.")]
    value: Annotated[int | float | None, Field(description="What was read, in the metric's base unit.")]
    threshold: Annotated[int | float | None, Field(description="What it was compared with.")]
    since: Annotated[Moment | None, Field(description="Since when it holds.")]

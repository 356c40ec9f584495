"""Bodies about declared maintenance."""

from __future__ import annotations

from typing import Annotated

from pydantic import BaseModel, ConfigDict, Field, model_validator

from exporters.rest.models.common import Envelope, Moment, Part, Text
from exporters.rest.parameters import Duration, Name, Time


class WindowPart(Part):
    """A declared maintenance of a rack, or of some of its nodes."""

    id: Text
    rack: Text
    nodes: Annotated[list[Text], Field(description="Nodes concerned; empty for the whole rack.")]
    starts_at: Moment
    ends_at: Annotated[Moment, Field(description="End; what is out beyond it is out without excuse.")]
    declared_at: Annotated[Moment, Field(description="Only what is declared before it starts excuses.")]
    reason: Annotated[Text | None, Field(description="Why, in words.")]
    created_by: Annotated[Text | None, Field(description="Who declared it, as they said.")]
    active: Annotated[bool, Field(description="Whether it holds now.")]


class WindowsBody(Envelope):
    """Declared maintenance."""

    windows: list[WindowPart]


class WindowBody(WindowPart, Envelope):
    """One declared maintenance."""


class WindowRequest(BaseModel):
    """Declares maintenance: from now on, unless `starts_at` says otherwise; the end must be given."""

    model_config = ConfigDict(
        extra="forbid",
        json_schema_extra={
            "examples": [
                {"rack": "r01", "nodes": ["n07"], "duration": "2h", "reason": "exchange GPU 2"},
                {
                    "rack": "r01",
                    "starts_at": "2026-12-01T08:00:00Z",
                    "ends_at": "2026-12-01T12:00:00Z",
                    "reason": "firmware of the NVLink switches",
                    "created_by": "dc-operations",
                },
            ]
        },
    )

    rack: Annotated[Name, Field(description="The rack.")]
    nodes: Annotated[
        list[Name], Field(description="Its nodes concerned; none for the whole rack.", max_length=1024)
    ] = []
    starts_at: Annotated[Time | None, Field(description="Begin; now if left out.")] = None
    ends_at: Annotated[Time | None, Field(description="End; give this or `duration`.")] = None
    duration: Annotated[
        Duration | None, Field(description="Length, such as `30m`, `2h` or `1d`; give this or `ends_at`.")
    ] = None
    reason: Annotated[str, Field(description="Why, in words.", max_length=1024)] = ""
    created_by: Annotated[str, Field(description="Who declares it.", max_length=1024)] = ""

    @model_validator(mode="after")
    def _has_one_end(self) -> WindowRequest:
        if (self.ends_at is None) == (self.duration is None):
            raise ValueError("give either ends_at or duration: maintenance must be bounded to be excused")
        return self

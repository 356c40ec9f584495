"""Bodies about baselines."""

from __future__ import annotations

from typing import Annotated

from pydantic import BaseModel, ConfigDict, Field

from exporters.rest.models.common import Envelope, Moment, Part, Text
from exporters.rest.parameters import Name, Window


class BaselinePart(Part):
    """What one rack did with a model under full load, with its conditions; null is what was not known."""

    id: Text
    rack: Text
    platform: Text
    model: Text
    starts_at: Moment
    ends_at: Moment
    recorded_at: Moment
    racks: Annotated[float, Field(description="Part of the rack that served the model.", gt=0)]
    gpus: Annotated[float | None, Field(description="GPUs of that part.")]
    generation_tokens_per_second: float
    total_tokens_per_second: float
    saturation_ratio: Annotated[float, Field(description="Share of the time in which requests waited.")]
    tokens_per_joule: Annotated[
        float | None, Field(description="Generated tokens for each joule of the rack's input.")
    ]
    mean_prompt_tokens: float | None
    mean_generation_tokens: float | None
    tokens_per_second_per_user: Annotated[float | None, Field(description="Mean interactivity.")]
    note: Text | None
    created_by: Annotated[Text | None, Field(description="Who recorded it, as they said.")]


class BaselinesBody(Envelope):
    """One-rack baselines, newest first."""

    baselines: list[BaselinePart]


class BaselineBody(BaselinePart, Envelope):
    """One baseline."""


class BaselineRequest(BaseModel):
    """Records what a rack did over the window until now as the baseline of its models."""

    model_config = ConfigDict(
        extra="forbid",
        json_schema_extra={
            "examples": [
                {"rack": "r01", "window": "10m"},
                {
                    "rack": "r01",
                    "window": "1h",
                    "model": "deepseek-ai/DeepSeek-R1-0528",
                    "note": "Offline, 8k/1k, vLLM 0.33",
                    "created_by": "dc-operations",
                },
            ]
        },
    )

    rack: Annotated[Name, Field(description="The rack.")]
    window: Annotated[Window, Field(description="How far back from now, such as `10m`; 1m to 400d.")]
    model: Annotated[
        str | None,
        Field(description="Only this model; every one if left out.", min_length=1, max_length=1024),
    ] = None
    note: Annotated[str, Field(description="What to remember of it.", max_length=1024)] = ""
    created_by: Annotated[str, Field(description="Who records it.", max_length=1024)] = ""

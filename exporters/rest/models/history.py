"""Bodies about what was: events and availability."""

from __future__ import annotations

from typing import Annotated

from pydantic import Field

from exporters.rest.models.common import Envelope, Moment, Part, Text


class AvailabilityBody(Envelope):
    """Availability over a window, with maintenance taken out (CONTRACTS §3)."""

    rack: Text
    window: Annotated[Text, Field(description="The window that was asked for.")]
    starts_at: Annotated[Moment, Field(description="Its begin.")]
    ends_at: Annotated[Moment, Field(description="Its end: now.")]
    min_block: Annotated[
        int | None,
        Field(description="Block that the past was judged for; null for the rack's own at each time.", ge=1),
    ]
    slo: Annotated[float, Field(description="Share of time for which the rack should be available.")]
    low: Annotated[float | None, Field(description="available / W: what is not known counts as down.")]
    point: Annotated[float | None, Field(description="available / (available + unavailable).")]
    high: Annotated[float | None, Field(description="1 - unavailable / W: what is not known counts as up.")]
    coverage: Annotated[float | None, Field(description="(available + unavailable) / W.")]
    insufficient_data: Annotated[
        bool, Field(description="True below 95 % coverage: then `point` is no figure to report.")
    ]
    available_s: Annotated[float, Field(description="Seconds AVAILABLE.")]
    unavailable_s: Annotated[float, Field(description="Seconds UNAVAILABLE.")]
    unknown_s: Annotated[float, Field(description="Seconds UNKNOWN.")]
    uncovered_s: Annotated[float, Field(description="Seconds of which nothing is recorded.")]
    excused_s: Annotated[float, Field(description="Seconds MAINTENANCE, which are no part of W.")]
    budget_s: Annotated[float, Field(description="Seconds that the rack may be down: (1 - slo) * W.")]
    budget_used: Annotated[
        float | None, Field(description="Share of it that is used, above 1 overdrawn; null without a budget.")
    ]
    incidents: Annotated[int, Field(description="Times in the window that a node failed.", ge=0)]
    open_incidents: Annotated[int, Field(description="Those that go on.", ge=0)]
    mtbf_h: Annotated[float | None, Field(description="Operating node-hours an incident; null without one.")]
    mttr_h: Annotated[float | None, Field(description="Down node-hours a closed incident; null without one.")]


class EventBody(Part):
    """Something that happened."""

    id: Annotated[Text, Field(description="Number in the order of recording.")]
    at: Annotated[Moment, Field(description="When it happened.")]
    rack: Text
    node: Annotated[Text | None, Field(description="Node concerned; null for the rack as a whole.")]
    gpu_uuid: Annotated[Text | None, Field(description="GPU concerned.")]
    gpu: Annotated[Text | None, Field(description="Index of that GPU, for display.")]
    kind: Annotated[
        Text, Field(description="An agent's (`xid`, `gpu_lost` …), or `verdict`, `node_state`, `latched`.")
    ]
    code: Annotated[int | None, Field(description="Number of an Xid.")]
    text: Annotated[Text | None, Field(description="In words.")]


class EventsBody(Envelope):
    """A page of events, newest first."""

    events: list[EventBody]
    next: Annotated[
        Text | None, Field(description="What to send as `cursor` for the next page; null on the last one.")
    ]

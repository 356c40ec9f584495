"""What one rack did with a model under full load, kept to hold several racks against."""

from __future__ import annotations

import msgspec


class Baseline(msgspec.Struct, frozen=True, kw_only=True):
    """Throughput of one rack with one model, and the conditions under which it was measured.

    Attributes:
        id: Identity.
        rack: The rack.
        platform: Profile of its hardware.
        model: The model.
        starts_ns: Begin of the window, Unix nanoseconds.
        ends_ns: Its end.
        recorded_ns: When it was recorded.
        racks: Part of the rack that served the model: 1 where it served no other.
        gpus: GPUs of that part.
        generation_tokens_per_second: Tokens written a second.
        total_tokens_per_second: Tokens read and written a second.
        saturation_ratio: Share of its endpoints' time in which requests waited.
        tokens_per_joule: Generated tokens for each joule of the rack's input; None if it was not known.
        mean_prompt_tokens: Mean length of a prompt; None if it was not known.
        mean_generation_tokens: Mean length of a generation; None if it was not known.
        tokens_per_second_per_user: Mean interactivity; None if it was not known.
        note: What its maker wrote.
        created_by: Who recorded it, as they said.
    """

    id: str
    rack: str
    platform: str
    model: str
    starts_ns: int
    ends_ns: int
    recorded_ns: int
    racks: float
    gpus: float | None
    generation_tokens_per_second: float
    total_tokens_per_second: float
    saturation_ratio: float
    tokens_per_joule: float | None = None
    mean_prompt_tokens: float | None = None
    mean_generation_tokens: float | None = None
    tokens_per_second_per_user: float | None = None
    note: str = ""
    created_by: str = ""

"""How far an engine has come: everything it counts is a function of the tokens that it has processed.

Requests of one length go through a fixed number of places, one after the other, as a load generator of
fixed concurrency sends them. Request k has its prompt read, and its first token made, when `started`
reaches k; its other tokens follow evenly, and the last is made when `started` reaches k + places. Then the
next request has its place.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

from collector.profiles import ServingProfile

# Prompts begin alike, so that part of each is in the prefix cache: chosen.
CACHED_PROMPT_SHARE = 1 / 16
# From a request to its first token, on average: chosen, half of the 2 s that MLPerf allows 99 % of the
# requests of DeepSeek-R1 in its Server scenario (inference_policies).
FIRST_TOKEN_SECONDS = 1.0
# Share of that time that a request waits for its turn: chosen.
QUEUE_SHARE = 0.7
# Share of the KV cache in use while every place is taken: chosen.
FULL_KV_USAGE = 0.85


@dataclass(frozen=True, slots=True)
class Pace:
    """What one rank of an engine does at the mean load of the workload `decode`.

    Attributes:
        serving: Lengths of a request and time between tokens, from the profile.
        tokens_per_second: Prompt and generation tokens of the rank.
    """

    serving: ServingProfile
    tokens_per_second: float

    @property
    def requests_per_second(self) -> float:
        """Requests that end in a second."""
        return self.tokens_per_second / (self.serving.prompt_tokens + self.serving.generation_tokens)

    @property
    def decode_seconds(self) -> float:
        """Time from the first token of a request to its last."""
        return (self.serving.generation_tokens - 1) * self.serving.seconds_per_output_token

    @property
    def places(self) -> int:
        """Requests that are computed at a time: Little's law, as the time of each is known."""
        return max(1, round(self.requests_per_second * self.decode_seconds))

    @property
    def waiting(self) -> int:
        """Requests that wait: Little's law once more; one at least, as the engine is saturated."""
        return max(1, round(self.requests_per_second * FIRST_TOKEN_SECONDS * QUEUE_SHARE))


@dataclass(frozen=True, slots=True)
class Tally:
    """What one rank has counted, and what it has at the moment. Whole, so that sums are exact.

    Attributes:
        pace: What the rank does.
        started: Requests that have their first token.
        finished: Requests that have their last.
        prompt_tokens: Prompt tokens read.
        decode_tokens: Tokens generated after the first of each request.
        working: Whether there is anything to do.
        began_unix_seconds: When the engine began.
    """

    pace: Pace
    started: int
    finished: int
    prompt_tokens: int
    decode_tokens: int
    working: bool
    began_unix_seconds: float

    @property
    def generation_tokens(self) -> int:
        """Tokens generated."""
        return self.started + self.decode_tokens

    @property
    def cached_tokens(self) -> int:
        """Prompt tokens that were found in the prefix cache."""
        return int(self.prompt_tokens * CACHED_PROMPT_SHARE)

    @property
    def computed_tokens(self) -> int:
        """Prompt tokens that were not."""
        return self.prompt_tokens - self.cached_tokens

    @property
    def running(self) -> int:
        """Requests that are being computed."""
        return self.started - self.finished

    @property
    def waiting(self) -> int:
        """Requests that wait for their turn."""
        return self.pace.waiting if self.working else 0

    @property
    def kv_usage(self) -> float:
        """Share of the KV cache in use."""
        return FULL_KV_USAGE * self.running / self.pace.places


def tally(pace: Pace, tokens: float, *, working: bool, began_unix_seconds: float) -> Tally:
    """Count what a rank has done.

    With P tokens of a prompt, G of a generation, C places and s requests started, the tokens processed are
    (P + 1) s + (G - 1) d: the tokens d that follow grow with s² / 2C while places fill, and with s - C / 2
    from then on. Solved for s, everything else follows.

    Args:
        pace: What the rank does.
        tokens: Tokens processed since the engine began.
        working: Whether there is anything to do.
        began_unix_seconds: When the engine began.
    """
    read = pace.serving.prompt_tokens + 1
    follow = pace.serving.generation_tokens - 1
    places = pace.places
    if tokens <= read * places + follow * places / 2:
        started = 2 * tokens / (read + math.sqrt(read * read + 2 * follow * tokens / places))
        started = min(started, places)
        followed = started * started / (2 * places)
    else:
        started = max((tokens + follow * places / 2) / (read + follow), places)
        followed = started - places / 2
    return Tally(
        pace=pace,
        started=int(started),
        finished=int(max(0.0, started - places)),
        prompt_tokens=int(pace.serving.prompt_tokens * started),
        decode_tokens=int(follow * followed),
        working=working,
        began_unix_seconds=began_unix_seconds,
    )

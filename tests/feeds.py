"""A feed that a test scripts, and what a serving engine may bring."""

from __future__ import annotations

from collections.abc import Sequence

from collector.catalog import BY_NAME
from collector.model import HistogramSample, Series, Value

ENDPOINT = ("decode-0", "vllm", "engine")
MODEL = ("decode-0", "vllm", "deepseek-r1", "engine")

LLM_ROWS: tuple[tuple[Series, Value | None], ...] = (
    (Series(BY_NAME["llm_up"], ENDPOINT), 1),
    (Series(BY_NAME["llm_tokens_total"], (*MODEL, "prompt")), 81_920.0),
    (Series(BY_NAME["llm_tokens_total"], (*MODEL, "generation")), 10_240.0),
    (Series(BY_NAME["llm_requests_running"], MODEL), 3.0),
    (Series(BY_NAME["llm_kv_cache_usage_ratio"], MODEL), 0.25),
)
FIRST_TOKEN = HistogramSample(
    BY_NAME["llm_time_to_first_token_seconds"], MODEL, (0.25, 0.5, 1.0), (2.0, 7.0, 9.0, 10.0), 4.75
)
DURATION = HistogramSample(
    BY_NAME["llm_request_duration_seconds"], MODEL, (1.0, 10.0), (0.0, 8.0, 10.0), 66.5
)


class ScriptedFeed:
    """A feed that has what a test gives it.

    Attributes:
        revision: As the protocol has it; a test changes it with the series.
        given: What `rows` returns.
        given_histograms: What `histograms` returns.
        defect: What `rows` raises, if anything.
        calls: `start` and `close`, in order.
    """

    def __init__(
        self,
        rows: Sequence[tuple[Series, Value | None]] = LLM_ROWS,
        histograms: Sequence[HistogramSample] = (FIRST_TOKEN, DURATION),
    ) -> None:
        self.revision = 1
        self.given = tuple(rows)
        self.given_histograms = tuple(histograms)
        self.defect: Exception | None = None
        self.calls: list[str] = []

    def rows(self) -> tuple[tuple[Series, Value | None], ...]:
        if self.defect is not None:
            raise self.defect
        return self.given

    def histograms(self) -> tuple[HistogramSample, ...]:
        return self.given_histograms

    async def start(self) -> None:
        self.calls.append("start")

    async def close(self) -> None:
        self.calls.append("close")

    def become(self, *rows: tuple[Series, Value | None]) -> None:
        """Have other series from now on."""
        self.given = rows
        self.revision += 1

    def set(self, place: int, value: Value | None) -> None:
        """Give one series another value."""
        rows = list(self.given)
        rows[place] = (rows[place][0], value)
        self.given = tuple(rows)

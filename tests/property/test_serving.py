"""Serving: sums that are exact and never fall while a rank goes on, and text that is anything."""

from __future__ import annotations

import contextlib

from hypothesis import example, given
from hypothesis import strategies as st

from collector.catalog.engines import MAXIMUM_MODELS
from collector.sources.serving.endpoint import ScrapeError
from collector.sources.serving.sums import RankSum
from tests.serving_bodies import NAMES, fixture, generated, histogram, normalizer, only_model, tokens

RANKS = ("0", "1", "2", "3")
COUNT = st.integers(min_value=0, max_value=2**50)
SCRAPES = st.lists(st.dictionaries(st.sampled_from(RANKS), COUNT, min_size=1), max_size=20)
STEP = st.integers(min_value=0, max_value=50)
# A rank's growth, whether it restarts before it, and whether it answers.
RANK = st.tuples(STEP, st.booleans(), st.booleans())


def key(rank: str) -> tuple[bytes, bytes]:
    return rank.encode(), b""


@given(st.lists(COUNT, min_size=1, max_size=64))
def test_however_ranks_divide_the_tokens_the_sum_is_all_of_them(counts: list[int]) -> None:
    ranks: dict[str, object] = {str(rank): count for rank, count in enumerate(counts)}
    assert generated(normalizer().read(tokens(ranks))) == sum(counts)


@given(SCRAPES)
def test_a_sum_falls_only_when_every_rank_that_counted_fell(scrapes: list[dict[str, int]]) -> None:
    reader = normalizer()
    last: dict[str, int] = {}
    before = 0.0
    for counts in scrapes:
        total = generated(reader.read(tokens(dict(counts))))
        assert total is not None
        restarted = any(last.values()) and all(
            counts.get(rank, count) < count for rank, count in last.items() if count
        )
        if restarted:
            last = {}
            assert total == sum(counts.values())
        else:
            assert total >= before
        last |= counts
        before = total


@given(st.lists(st.tuples(*[RANK] * len(RANKS)), min_size=1, max_size=30))
def test_a_sum_misses_what_no_scrape_saw_and_nothing_else(
    scrapes: list[tuple[tuple[int, bool, bool], ...]],
) -> None:
    """Ranks restart at zero and fall silent beside one that goes on; what was seen counts exactly once."""
    total = RankSum()
    counters = [0] * len(RANKS)
    seen = [0] * len(RANKS)
    expected = 0
    steady = 1
    for ranks in scrapes:
        steady += 1
        counts = {key("steady"): (float(steady),)}
        for place, (growth, restarts, answers) in enumerate(ranks):
            # A restart shows only where the counter stands lower than it was seen.
            if restarts and growth < seen[place]:
                counters[place] = growth
            else:
                counters[place] += growth
            if answers:
                grown = counters[place] - seen[place]
                expected += counters[place] if grown < 0 else grown
                seen[place] = counters[place]
                counts[key(RANKS[place])] = (float(counters[place]),)
        assert total.update(counts) == (expected + steady,)


@given(st.lists(st.tuples(STEP, STEP), min_size=1, max_size=20), st.integers(min_value=1, max_value=4))
def test_ranks_that_repeat_count_once_however_many_there_are(
    scrapes: list[tuple[int, int]], repeats: int
) -> None:
    reader = normalizer()
    first = second = 0
    for grown in scrapes:
        first, second = first + grown[0], second + grown[1]
        body = "\n".join(
            f'sglang:realtime_tokens_total{{dp_rank="{place}",mode="decode",tp_rank="{rank}"}} {count}'
            for place, count in enumerate((first, second))
            for rank in range(place * repeats, (place + 1) * repeats)
        )
        assert generated(reader.read(body.encode()), "") == first + second


MODEL = st.text(st.characters(codec="ascii", exclude_characters='\\"\n'), max_size=300)


@given(st.dictionaries(MODEL, st.integers(min_value=0, max_value=10**9), min_size=1, max_size=150))
@example({f"m{number}": number for number in range(500)})
@example({"": 1, "other": 2, "x" * 257: 4, "y" * 257: 8})
def test_the_bound_on_models_keeps_the_sum(models: dict[str, int]) -> None:
    reading = normalizer().read(b"".join(tokens({"0": count}, model) for model, count in models.items()))
    assert len(reading.models) <= MAXIMUM_MODELS + 1
    assert len({each.model for each in reading.models}) == len(reading.models)
    assert sum(generated(reading, each.model) or 0 for each in reading.models) == sum(models.values())
    assert all(len(each.model) <= 256 for each in reading.models)


OBSERVED = st.lists(STEP, min_size=3, max_size=3)


@given(st.lists(st.lists(OBSERVED, min_size=2, max_size=2), min_size=1, max_size=10))
def test_a_histogram_over_ranks_is_always_one(scrapes: list[list[list[int]]]) -> None:
    """Its counts rise over its bounds and, as one rank goes on, over time, whatever the others answer."""
    reader = normalizer()
    before = (0.0, 0.0, 0.0)
    for steady, scrape in enumerate(scrapes, start=1):
        ranks = [[steady, 0, 0], *scrape]
        body = b"# TYPE vllm:generation_tokens_total counter\n" + b"".join(
            histogram(
                "vllm:e2e_request_latency_seconds",
                str(rank),
                {"1": low, "2": low + middle, "+Inf": low + middle + high},
                low + middle + high,
                1.0,
            )
            for rank, (low, middle, high) in enumerate(ranks)
        )
        counts = only_model(reader.read(body)).histograms["llm_request_duration_seconds"].counts
        assert list(counts) == sorted(counts)
        assert all(later >= earlier for earlier, later in zip(before, counts, strict=True))
        assert counts[-1] >= sum(map(sum, ranks))
        before = (counts[0], counts[1], counts[2])


# Text.

_NAMES = st.sampled_from(
    [
        *("vllm:generation_tokens_total", "vllm:e2e_request_latency_seconds_bucket", "sglang:token_usage"),
        *("llamacpp:prompt_tokens_total", "trtllm_kv_cache_utilization", "# HELP vllm:prompt_tokens_total"),
        *("dynamo_frontend_input_sequence_tokens_sum", "other"),
    ]
)
_PIECES = st.sampled_from(
    [
        *("{", "}", '"', "=", ",", "\\", "\n", " ", "\t", "\r", "#", "1", "-", "e", ".", "_", "NaN", "+Inf"),
        *('engine="0"', 'le="1"', 'model_name="', "{}", " 5\n", "# {", "\x00", "é", "\ufffd"),
    ]
)
LINES = st.lists(st.tuples(_NAMES, st.lists(_PIECES, max_size=12).map("".join)), max_size=8).map(
    lambda lines: "".join(name + rest for name, rest in lines).encode()
)


@given(st.binary(max_size=300) | LINES | st.text(max_size=200).map(str.encode))
def test_whatever_an_endpoint_answers_is_read_or_refused(body: bytes) -> None:
    for engine in (None, "vllm"):
        with contextlib.suppress(ScrapeError):
            for model in normalizer(engine).read(body).models:
                assert all(value >= 0 for value in model.values.values())


@given(st.sampled_from(NAMES), st.data())
def test_an_answer_that_was_cut_or_damaged_is_read_or_refused(name: str, data: st.DataObject) -> None:
    body = fixture(name)
    start = data.draw(st.integers(min_value=0, max_value=len(body)))
    length = data.draw(st.integers(min_value=0, max_value=200))
    damage = data.draw(st.binary(max_size=20))
    reader = normalizer()
    for text in (body[:start], body[:start] + damage + body[start + length :], body):
        with contextlib.suppress(ScrapeError):
            reader.read(text)

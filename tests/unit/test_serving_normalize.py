"""Normalizing: ranks, restarts, models beyond the bound, and what is broken."""

from __future__ import annotations

import logging

import pytest

from collector.sources.serving import normalize
from collector.sources.serving.endpoint import HistogramReading, ScrapeError
from collector.sources.serving.sums import MAXIMUM_PARTS, RankSum
from tests.serving_bodies import fixture, generated, histogram, normalizer, only_model, tokens

FIRST = "llm_time_to_first_token_seconds"
VLLM_FIRST = "vllm:time_to_first_token_seconds"
PROMPT = ("llm_tokens_total", "prompt")
GENERATION = ("llm_tokens_total", "generation")
RUNNING = ("llm_requests_running", "")

MARK = b"# TYPE vllm:generation_tokens_total counter\n"


# Ranks.


def test_data_parallel_ranks_add() -> None:
    """Facts on serving engines, §1, trap 4: who keeps the last series counts too little."""
    assert generated(normalizer().read(tokens({"0": 100, "1": 20, "2": 3}))) == 123


def test_a_rank_that_restarts_goes_on_from_what_it_had() -> None:
    reader = normalizer()
    assert generated(reader.read(tokens({"0": 100, "1": 1000}))) == 1100
    assert generated(reader.read(tokens({"0": 5, "1": 1010}))) == 1115
    assert generated(reader.read(tokens({"0": 10, "1": 1020}))) == 1130
    assert generated(reader.read(tokens({"0": 2, "1": 1030}))) == 1142


def test_when_every_rank_fell_the_engine_has_restarted() -> None:
    reader = normalizer()
    reader.read(tokens({"0": 100, "1": 1000, "2": 0}))
    reader.read(tokens({"0": 5, "1": 1010, "2": 0}))
    assert generated(reader.read(tokens({"0": 1, "1": 7, "2": 0}))) == 8
    assert generated(reader.read(tokens({"0": 2, "1": 9, "2": 1}))) == 12


def test_a_single_counter_falls_with_its_engine() -> None:
    reader = normalizer()
    assert [generated(reader.read(tokens({"0": count}))) for count in (900, 1000, 40, 60)] == [
        900,
        1000,
        40,
        60,
    ]


@pytest.mark.parametrize("broken", [None, "NaN", "+Inf", "-5"])
def test_a_rank_that_is_missing_or_senseless_keeps_its_last_count(broken: str | None) -> None:
    reader = normalizer()
    reader.read(tokens({"0": 100, "1": 1000}))
    second = {} if broken is None else {"1": broken}
    assert generated(reader.read(tokens({"0": 110, **second}))) == 1110
    assert generated(reader.read(tokens({"0": 120, "1": 1005}))) == 1125


def test_a_rank_that_restarts_while_another_is_missing_is_no_restart_of_the_engine() -> None:
    reader = normalizer()
    reader.read(tokens({"0": 100, "1": 1000}))
    assert generated(reader.read(tokens({"0": 5}))) == 1105


@pytest.mark.parametrize("broken", ["NaN", "-1", "Inf"])
def test_a_value_that_makes_no_sense_is_absent_and_costs_only_itself(broken: str) -> None:
    body = tokens({"0": broken}) + b'vllm:num_requests_running{engine="0",model_name="m"} 3\n'
    assert dict(only_model(normalizer().read(body)).values) == {RUNNING: 3}
    gauge = tokens({"0": 7}) + f'vllm:num_requests_running{{engine="0",model_name="m"}} {broken}\n'.encode()
    assert dict(only_model(normalizer().read(gauge)).values) == {GENERATION: 7}


def test_ranks_that_repeat_count_once_by_the_furthest_of_them() -> None:
    """Facts on serving engines, §1, trap 7; the second rank is read a moment later."""

    def body(first: int, second: int | None, other: int) -> bytes:
        ranks = {"0": first, "1": second}
        lines = [
            f'sglang:realtime_tokens_total{{dp_rank="0",mode="decode",tp_rank="{rank}"}} {count}'
            for rank, count in ranks.items()
            if count is not None
        ]
        lines.append(f'sglang:realtime_tokens_total{{dp_rank="1",mode="decode",tp_rank="2"}} {other}')
        return "\n".join(lines).encode()

    reader = normalizer()
    assert generated(reader.read(body(100, 101, 1000)), "") == 1101
    assert generated(reader.read(body(110, None, 1000)), "") == 1110
    assert generated(reader.read(body(110, 109, 1001)), "") == 1111
    # The first data-parallel rank restarts with both.
    assert generated(reader.read(body(4, 5, 1002)), "") == 1116


def test_pipeline_stages_of_sglang_count_once() -> None:
    body = b"".join(
        b'sglang:num_running_reqs{model_name="m",pp_rank="%d",tp_rank="0"} 6\n' % stage for stage in range(4)
    )
    assert only_model(normalizer().read(body)).values[RUNNING] == 6


# Names.


def test_a_decode_engine_of_sglang_has_no_prompts_of_its_own() -> None:
    """It counts the whole prompt when a request ends, and prefills nothing."""
    body = (
        b'sglang:realtime_tokens_total{engine_type="decode",mode="decode",model_name="m"} 900\n'
        b'sglang:prompt_tokens_total{model_name="m"} 5000\n'
    )
    values = only_model(normalizer().read(body)).values
    assert (values[PROMPT], values[GENERATION]) == (0, 900)


def test_a_newer_name_is_taken_as_soon_as_it_is_there() -> None:
    reader = normalizer()
    old = b'vllm:prompt_tokens_total{engine="0",model_name="m"} 5000\n'
    assert only_model(reader.read(old)).values[PROMPT] == 5000
    new = old.replace(b"5000", b"70") + (
        b'vllm:prompt_tokens_by_source_total{engine="0",model_name="m",source="local_compute"} 10\n'
        b'vllm:prompt_tokens_by_source_total{engine="0",model_name="m",source="external_kv_transfer"} 60\n'
    )
    assert only_model(reader.read(new)).values[PROMPT] == 10


def test_sources_of_prompt_tokens_that_are_not_known_are_not_counted() -> None:
    body = b'vllm:prompt_tokens_by_source_total{engine="0",model_name="m",source="from_the_moon"} 10\n'
    assert only_model(normalizer().read(body)).values[PROMPT] == 0


def test_a_series_of_a_source_that_makes_no_sense_is_absent_not_zero() -> None:
    body = b'vllm:prompt_tokens_by_source_total{engine="0",model_name="m",source="local_compute"} NaN\n'
    assert normalizer().read(body).models == ()


def test_another_engine_begins_anew() -> None:
    reader = normalizer()
    reader.read(b'sglang:generation_tokens_total{model_name="m"} 50\n')
    assert generated(reader.read(tokens({"0": 7}))) == 7


def test_nothing_is_kept_for_an_answer_that_does_not_say_it() -> None:
    reader = normalizer()
    reader.read(fixture("vllm-0.16"))
    assert generated(reader.read(MARK)) is None
    assert reader.read(MARK).models == ()


def test_a_scrape_that_failed_changes_nothing() -> None:
    reader = normalizer()
    reader.read(tokens({"0": 100, "1": 1000}))
    for body in (b"", b"<html>", b"vllm:generation_tokens_total x\n"):
        with pytest.raises(ScrapeError):
            reader.read(body)
    assert generated(reader.read(tokens({"0": 5, "1": 1010}))) == 1115


# Models.


def test_models_beyond_the_bound_are_summed_and_said_once(caplog: pytest.LogCaptureFixture) -> None:
    reader = normalizer()
    with caplog.at_level(logging.WARNING, "rackwatt.serving"):
        body = b"".join(tokens({"0": number}, f"m{number}") for number in range(1, 131))
        reading = reader.read(body)
        reader.read(body)
    assert len(reading.models) == 101
    assert [generated(reading, model) for model in ("m1", "m100", "m101", "other")] == [1, 100, None, 3465]
    assert sum(generated(reading, each.model) or 0 for each in reading.models) == 8515  # 130 * 131 / 2
    assert [record.message for record in caplog.records] == [
        "e0: more than 100 models, or one whose name has more than 256 bytes; summed as 'other'"
    ]


def test_a_model_keeps_the_series_that_it_had() -> None:
    reader = normalizer()
    reader.read(b"".join(tokens({"0": 1}, f"m{number}") for number in range(100)))
    reading = reader.read(tokens({"0": 7}, "new") + tokens({"0": 2}, "m99"))
    assert (generated(reading, "m99"), generated(reading, "other"), len(reading.models)) == (2, 7, 2)


def test_models_with_overlong_names_and_one_called_other_share_a_series() -> None:
    body = tokens({"0": 1}, "x" * 257) + tokens({"0": 2}, "y" * 300) + tokens({"0": 4}, "other")
    reading = normalizer().read(body + tokens({"0": 8}, "z" * 256))
    assert (generated(reading, "other"), generated(reading, "z" * 256)) == (7, 8)


def test_a_model_in_the_sum_that_restarts_does_not_make_it_fall() -> None:
    reader = normalizer()
    reader.read(b"".join(tokens({"0": 1}, f"m{number}") for number in range(100)))
    reader.read(tokens({"0": 50}, "a") + tokens({"0": 60}, "b"))
    assert generated(reader.read(tokens({"0": 3}, "a") + tokens({"0": 61}, "b")), "other") == 114


def test_parts_that_come_and_go_do_not_grow_without_bound() -> None:
    total = RankSum()
    for number in range(3 * MAXIMUM_PARTS):
        assert total.update({(str(number).encode(), b""): (1.0,)}) == (number + 1,)
    assert len(total._parts) <= MAXIMUM_PARTS + 1


def test_labels_that_are_invented_do_not_fill_the_memory(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(normalize, "MAXIMUM_REMEMBERED", 40)
    reader = normalizer()
    for number in range(50):
        model = f"m{number % 10}"
        labels = f'model_name="{model}",engine="{number}"'
        buckets = "".join(f'{VLLM_FIRST}_bucket{{{labels},le="{bound}"}} 1\n' for bound in ("1", "+Inf"))
        total = f"{VLLM_FIRST}_sum{{{labels}}} 0.5\n"
        reading = reader.read(tokens({str(number): 1}, model) + (buckets + total).encode())
        # What is forgotten stays in the sums.
        assert generated(reading, model) == number // 10 + 1
        assert reading.models[0].histograms[FIRST].counts == (number // 10 + 1,) * 2
    state = reader._state
    assert state is not None
    sums = [*state._sums.values(), *(own.ranks for own in state._histograms.values())]
    assert sum(own.size for own in sums) <= 44


# Histograms.


def test_histograms_of_ranks_add() -> None:
    body = (
        MARK
        + histogram(VLLM_FIRST, "0", {"0.1": 1, "1.0": 3, "+Inf": 4}, 4, 5.5)
        + histogram(VLLM_FIRST, "1", {"1": 20, "+Inf": 20, "1e-1": 10}, 20, 0.25)
    )
    assert only_model(normalizer().read(body)).histograms == {
        FIRST: HistogramReading((0.1, 1.0), (11, 23, 24), 5.75)
    }


def test_a_histogram_of_ranks_with_different_bounds_is_absent() -> None:
    body = (
        tokens({"0": 1})
        + histogram(VLLM_FIRST, "0", {"0.1": 1, "+Inf": 4}, 4, 5.5)
        + histogram(VLLM_FIRST, "1", {"0.2": 1, "+Inf": 4}, 4, 5.5)
    )
    model = only_model(normalizer().read(body))
    assert (model.histograms, dict(model.values)) == ({}, {GENERATION: 1})


@pytest.mark.parametrize(
    ("buckets", "count", "total"),
    [
        ({"0.1": 5, "1.0": 3, "+Inf": 6}, 6, 1.0),  # falls
        ({"0.1": 5, "+Inf": 4}, 4, 1.0),
        ({"0.1": 1, "+Inf": 4}, 5, 1.0),  # two counts of all
        ({"0.1": 1, "1e-1": 2, "+Inf": 4}, 4, 1.0),  # two counts of one bound
        ({"0.1": 1, "low": 2, "+Inf": 4}, 4, 1.0),
        ({"0.1": 1, "NaN": 2, "+Inf": 4}, 4, 1.0),
        ({"-Inf": 1, "0.1": 1, "+Inf": 4}, 4, 1.0),
        ({"0.1": "NaN", "+Inf": 4}, 4, 1.0),
        ({"0.1": -1, "+Inf": 4}, 4, 1.0),
        ({"0.1": 1, "+Inf": 4}, 4, "NaN"),
        ({"0.1": 1, "+Inf": 4}, 4, -1.0),
        ({"+Inf": 4}, 4, 1.0),
        ({f"{number}": 1 for number in range(513)}, 4, 1.0),
    ],
)
def test_a_histogram_that_contradicts_itself_costs_only_itself(
    buckets: dict[str, object], count: object, total: object
) -> None:
    body = tokens({"0": 1}) + histogram(VLLM_FIRST, "0", buckets, count, total)
    good = histogram("vllm:e2e_request_latency_seconds", "0", {"1.0": 1, "+Inf": 2}, 2, 3.5)
    model = only_model(normalizer().read(body + good))
    assert dict(model.values) == {GENERATION: 1}
    assert model.histograms == {"llm_request_duration_seconds": HistogramReading((1.0,), (1, 2), 3.5)}


def test_a_histogram_whose_last_bucket_is_missing_takes_its_count() -> None:
    body = MARK + histogram(VLLM_FIRST, "0", {"0.1": 1}, 4, 5.5)
    assert only_model(normalizer().read(body)).histograms[FIRST] == HistogramReading((0.1,), (1, 4), 5.5)


def test_a_histogram_without_a_sum_is_absent() -> None:
    body = MARK + b'vllm:time_to_first_token_seconds_bucket{engine="0",le="0.1"} 1\n'
    body += b'vllm:time_to_first_token_seconds_bucket{engine="0",le="+Inf"} 1\n'
    assert normalizer().read(body).models == ()


def test_a_histogram_goes_on_when_one_rank_restarts_and_begins_anew_when_all_do() -> None:
    def body(first: int, second: int) -> bytes:
        return MARK + b"".join(
            histogram(VLLM_FIRST, rank, {"1.0": count, "+Inf": count}, count, count / 2)
            for rank, count in (("0", first), ("1", second))
        )

    def read(first: int, second: int) -> tuple[float, float]:
        reading = only_model(reader.read(body(first, second))).histograms[FIRST]
        return reading.counts[0], reading.sum

    reader = normalizer()
    assert read(10, 100) == (110, 55.0)
    assert read(2, 104) == (116, 58.0)
    assert read(1, 3) == (4, 2.0)


def test_a_histogram_with_new_bounds_begins_anew() -> None:
    reader = normalizer()
    reader.read(MARK + histogram(VLLM_FIRST, "0", {"0.1": 1, "+Inf": 4}, 4, 5.5))
    reading = reader.read(MARK + histogram(VLLM_FIRST, "0", {"0.2": 7, "+Inf": 9}, 9, 1.5))
    assert only_model(reading).histograms[FIRST] == HistogramReading((0.2,), (7, 9), 1.5)


def test_the_newer_name_of_a_histogram_is_read_where_both_are_there() -> None:
    body = MARK + b"".join(
        histogram(name, "0", {"1.0": count, "+Inf": count}, count, 1.0)
        for name, count in (
            ("vllm:time_per_output_token_seconds", 5),
            ("vllm:inter_token_latency_seconds", 6),
        )
    )
    assert only_model(normalizer().read(body)).histograms["llm_inter_token_latency_seconds"].counts == (6, 6)

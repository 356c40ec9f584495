"""Every engine and every renamed version: what rackwatt reads of it, and what it leaves alone."""

from __future__ import annotations

import pytest

from collector.catalog import BY_NAME
from collector.catalog.engines import ENGINES, Role
from collector.catalog.spec import Entity, Kind
from collector.sources.serving.endpoint import HistogramReading, ScrapeError
from collector.sources.serving.engines import NAME_MAPS
from collector.sources.serving.engines.spec import Combine, NameMap
from tests.serving_bodies import NAMES, fixture, normalizer, only_model

PROMPT = ("llm_tokens_total", "prompt")
GENERATION = ("llm_tokens_total", "generation")
RUNNING = ("llm_requests_running", "")
WAITING = ("llm_requests_waiting", "")
KV = ("llm_kv_cache_usage_ratio", "")
QUERIES = ("llm_prefix_cache_query_tokens_total", "")
HITS = ("llm_prefix_cache_hit_tokens_total", "")

FIRST = "llm_time_to_first_token_seconds"
BETWEEN = "llm_inter_token_latency_seconds"
WHOLE = "llm_request_duration_seconds"

Values = dict[tuple[str, str], float]
Observed = dict[str, tuple[float, float]]

# One rank of vLLM, as tests/serving_fixtures has it in every version.
VLLM: Values = {PROMPT: 32000, GENERATION: 9000, RUNNING: 8, WAITING: 2, KV: 0.25, QUERIES: 32000, HITS: 8000}
VLLM_HISTOGRAMS: Observed = {FIRST: (40, 21.5), BETWEEN: (8960, 215.25), WHOLE: (40, 480.5)}

# Ranks 0 and 1: 24000 + 8000 and 15000 + 1000 prompt tokens, 9000 and 4500 generated; KV cache 0.25 and 0.75.
TWO_RANKS: Values = {
    PROMPT: 48000,
    GENERATION: 13500,
    RUNNING: 12,
    WAITING: 2,
    KV: 0.75,
    QUERIES: 48000,
    HITS: 9000,
}
TWO_RANKS_HISTOGRAMS: Observed = {FIRST: (60, 35.75), BETWEEN: (13440, 325.75), WHOLE: (60, 630.75)}

TENSORRT_LLM_HISTOGRAMS: Observed = {FIRST: (40, 21.5), BETWEEN: (40, 1.25), WHOLE: (40, 480.5)}
DYNAMO: Values = {PROMPT: 48000, GENERATION: 13500, RUNNING: 11, WAITING: 4, QUERIES: 48000}
DYNAMO_HISTOGRAMS: Observed = {FIRST: (40, 12.25), BETWEEN: (13460, 310.5), WHOLE: (38, 420.75)}

# Engine, role, values, and of each histogram the observations and their sum; numbers from the fixtures.
EXPECTED: dict[str, tuple[str, Role, Values, Observed]] = {
    # Blocks of the prefix cache are no tokens.
    "vllm-0.8": (
        "vllm",
        Role.ENGINE,
        {key: value for key, value in VLLM.items() if key not in (QUERIES, HITS)},
        VLLM_HISTOGRAMS,
    ),
    "vllm-0.9.0": ("vllm", Role.ENGINE, VLLM, VLLM_HISTOGRAMS),
    "vllm-0.9.2": ("vllm", Role.ENGINE, VLLM, VLLM_HISTOGRAMS),
    "vllm-0.10.2": ("vllm", Role.ENGINE, VLLM, VLLM_HISTOGRAMS),
    "vllm-0.12": ("vllm", Role.ENGINE, VLLM, VLLM_HISTOGRAMS),
    "vllm-0.15": ("vllm", Role.ENGINE, VLLM, VLLM_HISTOGRAMS),
    "vllm-0.16": ("vllm", Role.ENGINE, TWO_RANKS, TWO_RANKS_HISTOGRAMS),
    "vllm-0.16.openmetrics": ("vllm", Role.ENGINE, TWO_RANKS, TWO_RANKS_HISTOGRAMS),
    # `vllm:prompt_tokens_total` is 32000 here; all but one token a request were another engine's work.
    "vllm-0.16-decode": (
        "vllm",
        Role.ENGINE,
        {**VLLM, PROMPT: 40, QUERIES: 32040, HITS: 0},
        VLLM_HISTOGRAMS,
    ),
    "sglang-0.4.3": (
        "sglang",
        Role.ENGINE,
        {PROMPT: 52000, GENERATION: 13000, RUNNING: 6, WAITING: 1, KV: 0.31, QUERIES: 52000},
        {FIRST: (40, 12.5), BETWEEN: (40, 0.9), WHOLE: (40, 500.5)},
    ),
    "sglang-0.4.6": (
        "sglang",
        Role.ENGINE,
        {PROMPT: 52000, GENERATION: 13000, RUNNING: 6, WAITING: 1, KV: 0.31, QUERIES: 52000, HITS: 20000},
        {FIRST: (40, 25.5), BETWEEN: (12960, 320.5), WHOLE: (40, 500.5)},
    ),
    # Two data-parallel ranks: 32000 + 20000 and 15000 + 1000 prompt tokens, 14500 and 7250 generated. Each
    # tells it once more for its second tensor-parallel rank, and its requests once more by priority. The
    # counters of finished requests, 64000 and 20000, lag and are not read.
    "sglang-0.5.7": (
        "sglang",
        Role.ENGINE,
        {PROMPT: 68000, GENERATION: 21750, RUNNING: 9, WAITING: 1, KV: 0.62, QUERIES: 68000, HITS: 21000},
        {FIRST: (44, 32.0), BETWEEN: (12960, 320.5), WHOLE: (44, 620.75)},
    ),
    # It counts no tokens: they are absent, not zero.
    "tensorrt_llm-1.2": ("tensorrt_llm", Role.ENGINE, {KV: 0.5}, TENSORRT_LLM_HISTOGRAMS),
    "tensorrt_llm-1.3": (
        "tensorrt_llm",
        Role.ENGINE,
        {PROMPT: 32000, GENERATION: 9000, RUNNING: 8, WAITING: 2, KV: 0.5, QUERIES: 32000, HITS: 8000},
        TENSORRT_LLM_HISTOGRAMS,
    ),
    "dynamo-0.7-frontend": ("dynamo", Role.ROUTER, DYNAMO, DYNAMO_HISTOGRAMS),
    "dynamo-1.2-frontend": ("dynamo", Role.ROUTER, {**DYNAMO, HITS: 9000}, DYNAMO_HISTOGRAMS),
    # Workers are the engine whose metrics they pass on.
    "dynamo-0.7-worker": ("vllm", Role.ENGINE, VLLM, VLLM_HISTOGRAMS),
    "dynamo-1.2-worker": (
        "sglang",
        Role.ENGINE,
        {PROMPT: 52000, GENERATION: 14500, RUNNING: 6, WAITING: 1, KV: 0.31, QUERIES: 52000, HITS: 20000},
        {},
    ),
    "llama_cpp-2025": (
        "llama_cpp",
        Role.ENGINE,
        {PROMPT: 33065, GENERATION: 7801, RUNNING: 3, WAITING: 1, KV: 0.125},
        {},
    ),
    # 33065 computed and 12000 from the cache.
    "llama_cpp-2026-09": (
        "llama_cpp",
        Role.ENGINE,
        {PROMPT: 45065, GENERATION: 7801, RUNNING: 3, WAITING: 1, QUERIES: 45065, HITS: 12000},
        {},
    ),
}

AT_FINISH = {
    **dict.fromkeys(EXPECTED, False),
    **dict.fromkeys(("sglang-0.4.3", "sglang-0.4.6", "tensorrt_llm-1.3"), True),
    "tensorrt_llm-1.2": None,
}
"""Which answers count generated tokens when their request ends (facts on serving engines, §1, trap 3)."""

MODELS = {
    "vllm": "deepseek-ai/DeepSeek-R1-0528",
    "sglang": "Qwen/Qwen3-235B-A22B",
    "tensorrt_llm": "nvidia/Llama-3.3-70B-FP4",
    "dynamo": "qwen/qwen3-0.6b",
    "llama_cpp": "",
}

# Bounds from `loggers.py` and, for Dynamo, from what its `generate_log_buckets` makes of its defaults.
VLLM_BETWEEN: tuple[float, ...] = (
    *(0.01, 0.025, 0.05, 0.075, 0.1, 0.15, 0.2, 0.3, 0.4, 0.5, 0.75),
    *(1.0, 2.5, 5.0, 7.5, 10.0, 20.0, 40.0, 80.0),
)
DYNAMO_WHOLE: tuple[float, ...] = (0, 2, 4, 8, 16, 32, 64, 130, 260, 510)

every_map = pytest.mark.parametrize("name_map", NAME_MAPS, ids=lambda entry: entry.engine.name)
every_fixture = pytest.mark.parametrize("name", NAMES)


def test_every_fixture_is_expected_something_of() -> None:
    assert set(EXPECTED) == set(NAMES)


@every_fixture
def test_an_answer_is_read_under_one_name_each(name: str) -> None:
    engine, role, values, histograms = EXPECTED[name]
    reading = normalizer().read(fixture(name))
    assert (reading.engine, reading.role) == (engine, role)
    assert reading.tokens_at_finish is AT_FINISH[name]
    model = only_model(reading)
    assert model.model == MODELS[engine]
    assert dict(model.values) == values
    assert {key: (each.counts[-1], each.sum) for key, each in model.histograms.items()} == histograms


def test_a_frontend_of_before_0_7_counts_what_finished() -> None:
    newer = fixture("dynamo-0.7-frontend")
    older = b"\n".join(line for line in newer.split(b"\n") if b"frontend_output_tokens_total" not in line)
    assert normalizer().read(older).tokens_at_finish is True


@every_fixture
def test_an_engine_that_is_configured_reads_as_one_that_is_recognized(name: str) -> None:
    engine = EXPECTED[name][0]
    assert normalizer(engine).read(fixture(name)) == normalizer().read(fixture(name))


@every_fixture
def test_an_engine_that_is_configured_wrongly_is_refused(name: str) -> None:
    right = EXPECTED[name][0]
    beside = "dynamo" if right != "dynamo" else "vllm"
    with pytest.raises(ScrapeError, match=f"none of the metrics is one of {beside}") as caught:
        normalizer(beside).read(fixture(name))
    assert caught.value.error == "unrecognized"


def test_the_configured_role_goes_before_the_usual_one() -> None:
    assert normalizer(role=Role.ENGINE).read(fixture("dynamo-1.2-frontend")).role is Role.ENGINE


def test_buckets_are_those_of_the_engine() -> None:
    vllm = only_model(normalizer().read(fixture("vllm-0.16"))).histograms[BETWEEN]
    # Rank 0 observed 8000 in the second bucket and 960 in the third, rank 1 4000 and 480 in the fourth.
    assert vllm == HistogramReading(VLLM_BETWEEN, (0, 12000, 12960, *(13440,) * 17), 325.75)
    dynamo = only_model(normalizer().read(fixture("dynamo-0.7-frontend"))).histograms[WHOLE]
    assert dynamo == HistogramReading(DYNAMO_WHOLE, (0, 0, 0, 0, *(38,) * 7), 420.75)


def test_there_is_a_map_for_every_engine_of_the_catalogue() -> None:
    assert sorted(entry.engine.name for entry in NAME_MAPS) == sorted(engine.name for engine in ENGINES)


@every_map
def test_a_map_speaks_of_rows_of_the_catalogue(name_map: NameMap) -> None:
    for quantity in name_map.quantities:
        metric = BY_NAME[quantity.metric]
        assert metric.entity is Entity.LLM
        assert metric.kind in (Kind.COUNTER, Kind.GAUGE)
        assert quantity.value in metric.label_values
        assert (quantity.combine is Combine.FULLEST) == (quantity.metric == "llm_kv_cache_usage_ratio")
    for distribution in name_map.distributions:
        metric = BY_NAME[distribution.metric]
        assert (metric.entity, metric.kind) == (Entity.LLM, Kind.HISTOGRAM)
    places = [(quantity.metric, quantity.value) for quantity in name_map.quantities]
    assert len(places) == len(set(places))


@every_map
def test_what_is_an_average_already_is_not_read(name_map: NameMap) -> None:
    """Facts on serving engines, §1, trap 1; and histograms that are called as counters are."""
    averages = ("throughput", "tokens_seconds", "hit_rate", "n_busy_slots", "iteration_tokens", "_avg")
    assert [name for name in name_map.names if any(part in name for part in averages)] == []


def test_versions_that_observe_once_a_request_are_known() -> None:
    once = {
        buckets.name: buckets.once_a_request
        for name_map in NAME_MAPS
        for distribution in name_map.distributions
        if distribution.metric == BETWEEN
        for buckets in distribution.alternatives
    }
    assert once == {
        "vllm:inter_token_latency_seconds": False,
        "vllm:time_per_output_token_seconds": False,
        "sglang:inter_token_latency_seconds": False,
        "sglang:time_per_output_token_seconds": True,
        "trtllm_time_per_output_token_seconds": True,
        "trtllm:time_per_output_token_seconds": True,
        "time_per_output_token_seconds": True,
        "dynamo_frontend_inter_token_latency_seconds": False,
    }


# Recognition.


@pytest.mark.parametrize(
    "body",
    [
        b"",
        b"# EOF\n",
        b"go_goroutines 12\n",
        # The router of vLLM's production stack, SGLang's router, a worker that passes nothing on, NVIDIA NIM.
        b'vllm:num_requests_running{server="http://a"} 3\nvllm:current_qps{server="http://a"} 2\n',
        b'sgl_router_requests_total{route="/v1"} 4\nsmg_http_requests_total 4\n',
        b"dynamo_component_requests_total 4\n",
        b'prompt_tokens_total{model_name="m"} 4\ngpu_cache_usage_perc{model_name="m"} 0.5\n',
        b'DCGM_FI_DEV_POWER_USAGE{gpu="0"} 700\n',
    ],
)
def test_what_is_no_engine_is_refused_with_those_that_are_known(body: bytes) -> None:
    with pytest.raises(ScrapeError, match="vllm, sglang, tensorrt_llm, dynamo, llama_cpp") as caught:
        normalizer().read(body)
    assert caught.value.error == "unrecognized"


def test_an_engine_without_a_first_request_is_recognized_by_what_it_declares() -> None:
    body = b"# HELP trtllm_prompt_tokens_total Prompt tokens.\n# TYPE trtllm_prompt_tokens_total counter\n"
    reading = normalizer().read(body)
    assert (reading.engine, reading.models) == ("tensorrt_llm", ())


def test_the_old_prefix_of_dynamos_workers_is_that_of_tensorrt_llm() -> None:
    reading = normalizer().read(b'trtllm:kv_cache_utilization{model_name="m"} 0.5\n')
    assert (reading.engine, dict(only_model(reading).values)) == ("tensorrt_llm", {KV: 0.5})


def test_an_engine_stays_what_it_was_recognized_as_while_that_fits() -> None:
    reader = normalizer()
    sglang = b'sglang:num_running_reqs{model_name="m"} 3\n'
    vllm = b'vllm:generation_tokens_total{model_name="m"} 5\n'
    assert reader.read(sglang).engine == "sglang"
    assert reader.read(vllm + sglang).engine == "sglang"
    assert reader.read(vllm).engine == "vllm"
    assert reader.read(vllm + sglang).engine == "vllm"


def test_an_engine_that_nobody_knows_is_a_mistake_of_the_program() -> None:
    with pytest.raises(ValueError, match="'tgi' is no engine: expected vllm, sglang"):
        normalizer("tgi")

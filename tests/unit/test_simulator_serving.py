"""Simulated serving engines: what they count follows the load, and they show it as the real ones do."""

from __future__ import annotations

import asyncio
import math
import subprocess
import sys
import time
from collections.abc import Awaitable, Callable, Iterator

import aiohttp
import pytest
from prometheus_client import Metric
from prometheus_client.parser import text_string_to_metric_families

from collector import profiles
from collector.cli.simulated_serving import ENDPOINT_NAME, simulated_endpoints
from collector.cli.simulation import Simulation
from collector.errors import ConfigurationError
from collector.simulator import ManualClock, SimulatedNode, parse_fault
from collector.simulator.serving import DIALECTS, SimulatedEngine, dialect_of_tray
from collector.simulator.serving.exposition import write_number
from collector.simulator.serving.server import PROMETHEUS_PATH, SimulatedEngineServer
from collector.sources.serving.endpoint import ServingEndpoint
from collector.sources.serving.normalize import Normalizer

NEW_VLLM, OLD_VLLM, SGLANG = "vllm-0.16.0", "vllm-0.9.1", "sglang-0.5.8"
MODEL = "deepseek-ai/DeepSeek-R1-0528"


class Stand:
    """An engine on a clock that the test drives."""

    def __init__(
        self, dialect: str, *faults: str, platform: str = "gb300-nvl72", workload: str = "decode"
    ) -> None:
        self.clock = ManualClock()
        self.node = SimulatedNode(
            profiles.load(platform),
            workload=workload,
            faults=map(parse_fault, faults),
            clock=self.clock,
            sleep=self.clock.sleep,
            # 2026-01-01T00:00:00Z.
            wall_clock_ns=lambda: 1_767_225_600_000_000_000,
        )
        self.engine = SimulatedEngine(self.node, DIALECTS[dialect])

    def tokens(self, now: float) -> int:
        """Count prompt and generation tokens of all ranks."""
        return sum(each.prompt_tokens + each.generation_tokens for each in self.engine.tallies(now))

    def read(self, now: float) -> dict[str, float]:
        """Read every series of the text by name and labels, as Prometheus would."""
        self.clock.set(now)
        return {
            f"{sample.name}{dict(sorted(sample.labels.items()))}": sample.value
            for family in self.families()
            for sample in family.samples
        }

    def families(self) -> Iterator[Metric]:
        """Parse the text of this moment."""
        text = self.engine.text()
        assert text is not None
        return iter(text_string_to_metric_families(text))

    def series(self, name: str, now: float) -> list[float]:
        """Read the values of a name."""
        return [value for key, value in self.read(now).items() if key.startswith(f"{name}{{")]

    def total(self, name: str, now: float) -> float:
        """Read the sum of a name over its series."""
        return sum(self.series(name, now))


# What is counted.


def test_tokens_are_the_integral_of_the_load_over_an_hour() -> None:
    stand = Stand(OLD_VLLM)
    before = stand.tokens(0)
    after = stand.tokens(3600)
    # Load is constant within a tick of 0.1 s: the middle of each stands for all of it.
    load_seconds = math.fsum(
        gpu.load_ratio((tick + 0.5) / 10) * 0.1 for gpu in stand.node.gpus for tick in range(36_000)
    )
    # 18,131.6 tokens a second and GPU (InferenceX, GB300 FP4, 8k/1k) at the mean load of 0.80 of `decode`.
    expected = load_seconds * 18_131.6 / 0.80
    # Each of three counts is rounded down, before and after.
    assert abs((after - before) - expected) <= 3
    # 4 GPUs for an hour at a load of 0.80: 261 million tokens; the load's noise is far below 1 % of that.
    assert after - before == pytest.approx(261_095_040, rel=0.01)


REFERENCE = [
    # Platform, compute trays or nodes, millions of total tokens a second and provisioned MW of the reference
    # row (InferenceX, DeepSeek-R1-0528 at 8k/1k), and provisioned watts a GPU.
    ("gb300-nvl72", 18, 8.63, 2100),
    ("gb200-nvl72", 18, 7.12, 2100),
    ("hgx-b200", 4, 6.19, 2170),
    ("hgx-h200", 4, 1.42, 1730),
    ("hgx-h100", 4, 0.491, 1730),
]


@pytest.mark.parametrize(("platform", "nodes", "reference", "watts"), REFERENCE)
def test_a_rack_is_within_a_fifth_of_its_reference_row(
    platform: str, nodes: int, reference: float, watts: int
) -> None:
    seconds = 300
    tokens = gpus = 0
    for tray in range(nodes):
        clock = ManualClock()
        node = SimulatedNode(profiles.load(platform), tray=tray, clock=clock, sleep=clock.sleep)
        engine = SimulatedEngine(node, dialect_of_tray(tray))
        begin, end = (
            sum(each.prompt_tokens + each.generation_tokens for each in engine.tallies(now))
            for now in (0, seconds)
        )
        tokens += end - begin
        gpus += len(node.gpus)
    millions = tokens / seconds / (gpus * watts)
    assert 0.8 * reference <= millions <= 1.2 * reference


@pytest.mark.parametrize("dialect", DIALECTS)
def test_requests_make_the_tokens(dialect: str) -> None:
    stand = Stand(dialect)
    for tally in stand.engine.tallies(100):
        # 1,024 tokens of a request, of which the first comes with its prompt of 8,192.
        assert tally.generation_tokens == tally.started + tally.decode_tokens
        in_flight = tally.generation_tokens - 1024 * tally.finished
        assert 0 < in_flight < 1024 * tally.running
        assert 0 <= tally.prompt_tokens - 8192 * tally.started < 8192
        assert tally.running == tally.started - tally.finished > 0


def test_as_many_requests_run_as_little_says() -> None:
    # 4 * 18,131.6 / 9,216 = 7.870 requests a second, each 1,023 * 0.0336 = 34.37 s long: 270.5 at a time.
    (tally,) = Stand(OLD_VLLM).engine.tallies(100)
    assert tally.running == 271
    # And 7.87 * 0.7 s of waiting.
    assert tally.waiting == 6
    assert tally.kv_usage == 0.85


@pytest.mark.parametrize("dialect", DIALECTS)
def test_an_idle_engine_makes_no_tokens(dialect: str) -> None:
    stand = Stand(dialect, workload="idle")
    assert stand.tokens(0) == stand.tokens(1000) == 0
    running = "sglang:num_running_reqs" if dialect == SGLANG else "vllm:num_requests_running"
    waiting = "sglang:num_queue_reqs" if dialect == SGLANG else "vllm:num_requests_waiting"
    assert stand.total(running, 1000) == stand.total(waiting, 1000) == 0


@pytest.mark.parametrize("workload", ["training", "prefill"])
def test_other_work_has_no_engine(workload: str) -> None:
    with pytest.raises(ConfigurationError, match=f"workload {workload} has no serving engine"):
        Stand(OLD_VLLM, workload=workload)


def test_an_engine_may_have_some_of_the_gpus() -> None:
    stand = Stand(OLD_VLLM)
    both = [SimulatedEngine(stand.node, DIALECTS[OLD_VLLM], gpus) for gpus in ((0, 1), (2, 3))]
    made = [
        sum(each.prompt_tokens for each in engine.tallies(100))
        - sum(each.prompt_tokens for each in engine.tallies(50))
        for engine in both
    ]
    whole = stand.engine
    (begin,), (end,) = whole.tallies(50), whole.tallies(100)
    assert sum(made) == pytest.approx(end.prompt_tokens - begin.prompt_tokens, abs=2)
    with pytest.raises(ConfigurationError, match="an engine on GPU 4: the node has 0 to 3"):
        SimulatedEngine(stand.node, DIALECTS[OLD_VLLM], (4,))


# What goes wrong.


@pytest.mark.parametrize("dialect", DIALECTS)
def test_a_restart_takes_tokens_to_zero_and_nothing_else_does(dialect: str) -> None:
    stand = Stand(dialect, "engine_restart:start=30,duration=20")
    assert stand.tokens(29.9) > stand.tokens(0) > 1_000_000
    stand.clock.set(30)
    assert stand.engine.text() is None
    assert stand.tokens(49.9) == 0
    stand.clock.set(50)
    assert stand.engine.text() is not None
    # From nothing: 10 s of the load of 4 GPUs, and nobody has finished yet.
    assert stand.tokens(60) == pytest.approx(4 * 10 * 18_131.6, rel=0.1)
    assert all(each.finished == 0 for each in stand.engine.tallies(60))
    # All is as before once every place is taken and left again.
    assert all(each.finished > 0 for each in stand.engine.tallies(120))


def test_while_an_engine_is_away_its_gpus_do_nothing() -> None:
    stand = Stand(OLD_VLLM, "engine_restart:start=30,duration=20")
    gpu = stand.node.gpus[0]
    assert gpu.load_ratio(40) == 0
    # 178 W idle, and 813 W at the mean load of 0.80 (profile and workload): no more than idle while away.
    assert gpu.power_watts(40) < 180 < 700 < gpu.power_watts(20)
    assert gpu.load_ratio(51) > 0


def test_a_driver_that_goes_takes_the_engine_along() -> None:
    stand = Stand(OLD_VLLM, "driver_unloaded:start=30,duration=20")
    stand.clock.set(40)
    assert stand.engine.text() is None
    assert 0 < stand.tokens(55) < 1_000_000


def test_a_lost_gpu_costs_its_share() -> None:
    stand = Stand(NEW_VLLM, "gpu_lost:gpu=2,start=30")
    before, after = stand.engine.tallies(40), stand.engine.tallies(100)
    moved = [then.prompt_tokens > now.prompt_tokens for now, then in zip(before, after, strict=True)]
    assert moved == [True, True, False, True]


def test_a_restart_needs_a_duration_and_an_engine() -> None:
    with pytest.raises(ConfigurationError, match="fault engine_restart: duration missing"):
        parse_fault("engine_restart:start=3")
    with pytest.raises(ConfigurationError, match="engine_restart: takes no gpu"):
        parse_fault("engine_restart:gpu=1,duration=3")
    with pytest.raises(
        ConfigurationError,
        match="workload training has no serving engine; it needs idle or decode",
    ):
        Stand(OLD_VLLM, "engine_restart:duration=3", workload="training")


# What is shown.

SHAPES = {
    # Names: vllm/v1/metrics/loggers.py, sglang/srt/metrics/collector.py. Values of the label that tells
    # ranks apart. `iteration_tokens_total` is a histogram (facts on serving engines, §1, trap 1).
    NEW_VLLM: (
        {
            "vllm:kv_cache_usage_perc": "gauge",
            "vllm:inter_token_latency_seconds": "histogram",
            "vllm:request_time_per_output_token_seconds": "histogram",
            "vllm:prompt_tokens_by_source": "counter",
            "vllm:prefix_cache_queries": "counter",
            "vllm:prompt_tokens": "counter",
            "vllm:generation_tokens": "counter",
            "vllm:request_success": "counter",
            "vllm:iteration_tokens_total": "histogram",
        },
        {"vllm:gpu_cache_usage_perc", "vllm:time_per_output_token_seconds", "vllm:prompt_tokens_created"},
        ("engine", {"0", "1", "2", "3"}),
    ),
    OLD_VLLM: (
        {
            "vllm:gpu_cache_usage_perc": "gauge",
            "vllm:gpu_prefix_cache_hits": "counter",
            "vllm:time_per_output_token_seconds": "histogram",
            "vllm:prompt_tokens": "counter",
            "vllm:prompt_tokens_created": "gauge",
            "vllm:time_to_first_token_seconds_created": "gauge",
        },
        {"vllm:kv_cache_usage_perc", "vllm:inter_token_latency_seconds", "vllm:prompt_tokens_by_source"},
        ("engine", {"0"}),
    ),
    SGLANG: (
        {
            "sglang:num_running_reqs": "gauge",
            "sglang:token_usage": "gauge",
            "sglang:gen_throughput": "gauge",
            "sglang:realtime_tokens": "counter",
            "sglang:prompt_tokens": "counter",
            "sglang:generation_tokens": "counter",
            "sglang:inter_token_latency_seconds": "histogram",
            "sglang:e2e_request_latency_seconds": "histogram",
        },
        {"sglang:time_per_output_token_seconds", "sglang:prompt_tokens_created"},
        ("tp_rank", {"0"}),
    ),
}


@pytest.mark.parametrize("dialect", DIALECTS)
def test_the_text_is_what_prometheus_reads(dialect: str) -> None:
    there, absent, (rank_label, ranks) = SHAPES[dialect]
    stand = Stand(dialect)
    stand.clock.set(10)
    families = {family.name: family for family in stand.families()}
    assert {name: families[name].type for name in there} == there
    assert not absent & families.keys()
    samples = [sample for family in families.values() for sample in family.samples]
    assert {sample.labels[rank_label] for sample in samples if rank_label in sample.labels} == ranks
    assert {sample.labels["model_name"] for sample in samples if "model_name" in sample.labels} == {MODEL}
    text = stand.engine.text() or ""
    assert text.endswith("\n")
    comments = [line for line in text.splitlines() if line.startswith("# TYPE")]
    assert len(set(comments)) == len(comments) == len(families)
    # Labels stand in alphabetical order, and large numbers as Go writes them.
    assert f'prompt_tokens_total{{engine="0",model_name="{MODEL}"}} ' in text or dialect == SGLANG
    assert "e+0" in text


BOUNDS = {
    # vllm/v1/metrics/loggers.py; python/sglang/srt/metrics/collector.py.
    (
        NEW_VLLM,
        "vllm:time_to_first_token_seconds",
    ): "0.001 0.005 0.01 0.02 0.04 0.06 0.08 0.1 0.25 0.5 0.75 1.0"
    " 2.5 5.0 7.5 10.0 20.0 40.0 80.0 160.0 640.0 2560.0 +Inf",
    (NEW_VLLM, "vllm:e2e_request_latency_seconds"): "0.3 0.5 0.8 1.0 1.5 2.0 2.5 5.0 10.0 15.0 20.0 30.0 40.0"
    " 50.0 60.0 120.0 240.0 480.0 960.0 1920.0 7680.0 +Inf",
    (
        OLD_VLLM,
        "vllm:time_per_output_token_seconds",
    ): "0.01 0.025 0.05 0.075 0.1 0.15 0.2 0.3 0.4 0.5 0.75 1.0 2.5 5.0 7.5 10.0 20.0 40.0 80.0 +Inf",
    (
        SGLANG,
        "sglang:time_to_first_token_seconds",
    ): "0.1 0.2 0.4 0.6 0.8 1.0 2.0 4.0 6.0 8.0 10.0 20.0 40.0 60.0 80.0 100.0 200.0 400.0 +Inf",
    (SGLANG, "sglang:inter_token_latency_seconds"): "0.002 0.004 0.006 0.008 0.01 0.015 0.02 0.025 0.03 0.035"
    " 0.04 0.06 0.08 0.1 0.2 0.4 0.6 0.8 1.0 2.0 4.0 6.0 8.0 +Inf",
}


@pytest.mark.parametrize(("dialect", "name"), BOUNDS)
def test_buckets_have_the_bounds_of_the_engine(dialect: str, name: str) -> None:
    stand = Stand(dialect)
    (family,) = [family for family in stand.families() if family.name == name]
    rank = family.samples[0].labels.get("engine")
    buckets = [
        sample
        for sample in family.samples
        if sample.name == f"{name}_bucket" and sample.labels.get("engine") == rank
    ]
    assert " ".join(sample.labels["le"] for sample in buckets) == BOUNDS[dialect, name]
    assert [sample.value for sample in buckets] == sorted(sample.value for sample in buckets)


HISTOGRAMS = [
    # Mean: 33.6 ms a token (InferenceX, GB300 FP4), 1 s to the first (chosen), 1 + 1,023 * 0.0336 s in all.
    (NEW_VLLM, "vllm:inter_token_latency_seconds", 0.0336),
    (NEW_VLLM, "vllm:time_to_first_token_seconds", 1.0),
    (NEW_VLLM, "vllm:e2e_request_latency_seconds", 35.3728),
    (NEW_VLLM, "vllm:request_prompt_tokens", 8192),
    (NEW_VLLM, "vllm:request_generation_tokens", 1024),
    (OLD_VLLM, "vllm:time_per_output_token_seconds", 0.0336),
    (SGLANG, "sglang:inter_token_latency_seconds", 0.0336),
    (SGLANG, "sglang:e2e_request_latency_seconds", 35.3728),
]


@pytest.mark.parametrize(("dialect", "name", "mean"), HISTOGRAMS)
def test_sums_follow_from_counts(dialect: str, name: str, mean: float) -> None:
    stand = Stand(dialect)
    count = stand.total(f"{name}_count", 50)
    assert count > 0
    assert stand.total(f"{name}_sum", 50) / count == pytest.approx(mean, rel=1e-9)


def test_vllm_counts_each_token_once() -> None:
    stand = Stand(NEW_VLLM)
    prompt, generation = (stand.total(f"vllm:{name}_tokens_total", 70) for name in ("prompt", "generation"))
    assert prompt + generation == stand.tokens(70)
    # An interval between two tokens for each but the first of a request.
    first = stand.total("vllm:time_to_first_token_seconds_count", 70)
    assert stand.total("vllm:inter_token_latency_seconds_count", 70) == generation - first
    assert stand.total("vllm:prompt_tokens_by_source_total", 70) == prompt
    assert stand.total("vllm:prefix_cache_queries_total", 70) == prompt
    # A sixteenth of each prompt is cached: chosen.
    assert stand.total("vllm:prefix_cache_hits_total", 70) == pytest.approx(prompt / 16, abs=4)
    assert stand.total("vllm:request_prompt_tokens_sum", 70) == 8192 * stand.total(
        "vllm:request_success_total", 70
    )


def test_sglang_counts_at_the_end_and_meanwhile() -> None:
    stand = Stand(SGLANG, "engine_restart:start=1,duration=1")
    # 20 s after its start nobody has finished: the counters of what ended are not there, the live ones are.
    assert stand.series("sglang:prompt_tokens_total", 22) == []
    assert stand.series("sglang:generation_tokens_total", 22) == []
    assert len(stand.series("sglang:realtime_tokens_total", 22)) == 3
    (tally,) = stand.engine.tallies(100)
    assert stand.series("sglang:prompt_tokens_total", 100) == [8192 * tally.finished]
    assert stand.series("sglang:generation_tokens_total", 100) == [1024 * tally.finished]
    live = stand.read(100)
    modes = {
        mode: value
        for mode in ("prefill_compute", "prefill_cache", "decode")
        for key, value in live.items()
        if f"'mode': '{mode}'" in key
    }
    assert modes["prefill_compute"] + modes["prefill_cache"] == tally.prompt_tokens
    assert modes["decode"] == tally.decode_tokens


def test_older_clients_say_when_a_counter_began() -> None:
    stand = Stand(OLD_VLLM, "engine_restart:start=30,duration=20")
    (before,) = stand.series("vllm:prompt_tokens_created", 10)
    assert 1_767_225_600 - 7 * 86_400 <= before <= 1_767_225_600 - 3600
    # 50 s after 2026-01-01T00:00:00Z.
    assert stand.series("vllm:prompt_tokens_created", 60) == [1_767_225_650]


@pytest.mark.parametrize(
    ("value", "text"),
    [
        # What prometheus_client 0.22 writes for these.
        (0, "0.0"),
        (3, "3.0"),
        (0.85, "0.85"),
        (999_999, "999999.0"),
        (1_000_000, "1e+06"),
        (12_345_678, "1.2345678e+07"),
        (1_767_225_650.25, "1.76722565025e+09"),
        (12_345_678_901_234, "1.2345678901234e+13"),
    ],
)
def test_numbers_are_written_as_the_client_library_does(value: float, text: str) -> None:
    assert write_number(value) == text


@pytest.mark.parametrize(("dialect", "engine"), [(NEW_VLLM, "vllm"), (OLD_VLLM, "vllm"), (SGLANG, "sglang")])
def test_the_shipped_reader_reads_the_truth(dialect: str, engine: str) -> None:
    stand = Stand(dialect)
    stand.clock.set(80)
    reader = Normalizer(ServingEndpoint(name="decode-0", url="http://127.0.0.1:1/metrics"))
    reading = reader.read((stand.engine.text() or "").encode())
    assert reading.engine == engine
    (model,) = reading.models
    tallies = stand.engine.tallies(80)
    first = sum(each.started for each in tallies) if dialect == SGLANG else 0
    assert model.model == MODEL
    assert model.values["llm_tokens_total", "prompt"] == sum(each.prompt_tokens for each in tallies)
    # SGLang's live counter leaves out the first token of each request, which comes with its prompt.
    generated = sum(each.generation_tokens for each in tallies) - first
    assert model.values["llm_tokens_total", "generation"] == generated
    assert model.values["llm_requests_running", ""] == sum(each.running for each in tallies)


# How it is served.


async def ask(url: str, method: str = "GET") -> tuple[int, str, str]:
    async with (
        aiohttp.ClientSession(timeout=aiohttp.ClientTimeout(total=20)) as session,
        session.request(method, url) as response,
    ):
        return response.status, response.headers["Content-Type"], await response.text()


def served(stand: Stand, check: Callable[[SimulatedEngineServer], Awaitable[None]]) -> None:
    async def run() -> None:
        server = SimulatedEngineServer({"": stand.engine, "/r01/n03": stand.engine})
        await server.start()
        try:
            await check(server)
        finally:
            await server.close()

    asyncio.run(run())


def test_an_engine_is_served_at_its_paths() -> None:
    stand = Stand(SGLANG)

    async def check(server: SimulatedEngineServer) -> None:
        urls = [server.url(), server.url("/r01/n03"), server.url(path=PROMETHEUS_PATH)]
        assert [url.rpartition(":")[2].partition("/")[2] for url in urls] == [
            "metrics",
            "r01/n03/metrics",
            "prometheus/metrics",
        ]
        for url in urls:
            status, kind, text = await ask(url)
            assert (status, kind, text) == (
                200,
                "text/plain; version=0.0.4; charset=utf-8",
                stand.engine.text(),
            )
        assert (await ask(server.url("/r01/n04")))[0] == 404
        assert (await ask(server.url(), "POST"))[0] == 405

    served(stand, check)


def test_an_engine_that_is_away_answers_nothing() -> None:
    stand = Stand(SGLANG, "engine_restart:start=30,duration=20")

    async def check(server: SimulatedEngineServer) -> None:
        stand.clock.set(40)
        with pytest.raises(aiohttp.ClientConnectionError):
            await ask(server.url())
        stand.clock.set(50)
        assert (await ask(server.url()))[0] == 200

    served(stand, check)


def test_a_server_that_is_not_open_has_no_address() -> None:
    with pytest.raises(RuntimeError, match="not been started"):
        SimulatedEngineServer({}).url()


def test_an_address_of_another_machine_is_refused() -> None:
    # 192.0.2.0/24 is for documentation and nobody's (RFC 5737).
    with pytest.raises(ConfigurationError, match=r"192\.0\.2\.1:1: cannot be listened on"):
        asyncio.run(SimulatedEngineServer({}).start("192.0.2.1", 1))


def simulation(workload: str, tray: int = 0) -> Simulation:
    return Simulation(
        platform="gb300-nvl72",
        workload=workload,
        tray=tray,
        started_at=time.monotonic(),
        started_wall_ns=time.time_ns(),
    )


def test_a_simulated_agent_has_an_endpoint_that_answers() -> None:
    async def run() -> None:
        async with simulated_endpoints(simulation("decode", tray=2)) as endpoints:
            (endpoint,) = endpoints
            assert (endpoint.name, endpoint.gpus, endpoint.engine) == (ENDPOINT_NAME, (0, 1, 2, 3), None)
            assert endpoint.url.startswith("http://127.0.0.1:")
            _, _, text = await ask(endpoint.url)
            # Trays take turns: the third has SGLang.
            assert "sglang:realtime_tokens_total{" in text
        with pytest.raises(aiohttp.ClientConnectionError):
            await ask(endpoint.url)

    asyncio.run(run())


@pytest.mark.parametrize("node", [None, simulation("training")])
def test_hardware_and_other_work_have_none(node: Simulation | None) -> None:
    async def run() -> None:
        async with simulated_endpoints(node) as endpoints:
            assert endpoints == ()

    asyncio.run(run())


def test_a_rack_has_each_engine() -> None:
    assert {dialect_of_tray(tray).name for tray in range(18)} == {NEW_VLLM, OLD_VLLM, SGLANG}


def test_who_reads_only_nvml_imports_no_server() -> None:
    code = (
        "import sys, collector.simulator, collector.simulator.serving;"
        "print({'aiohttp', 'prometheus_client', 'collector.sources', 'collector.catalog'} & set(sys.modules))"
    )
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=True, timeout=60
    )
    assert done.stdout.strip() == "set()"

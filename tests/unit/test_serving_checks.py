"""`rackwatt check` of serving endpoints: real servers with the answers of engines, and its exact words."""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine, Sequence
from pathlib import Path
from typing import Any, TypeVar

import pytest
from aiohttp import web

from collector.catalog.engines import Role
from collector.cli.check import render_text
from collector.cli.facts import ConfigurationFacts, EndpointFacts, Facts, NvmlFacts
from collector.cli.findings import Finding, Mark
from collector.cli.serving_checks import serving
from collector.cli.serving_probes import serving_facts
from collector.config import AgentConfiguration
from collector.config.schema import ServingSetting
from collector.readings import GpuIdentity, Layout
from collector.sources.serving.endpoint import EndpointReading, ModelReading
from tests.agent_http_client import PATIENCE_SECONDS
from tests.serving_bodies import fixture
from tests.serving_endpoints import Answer, FakeEngine, answered, listening

# The models of the fixtures.
DEEPSEEK = "deepseek-ai/DeepSeek-R1-0528"
QWEN = "Qwen/Qwen3-235B-A22B"
LLAMA = "nvidia/Llama-3.3-70B-FP4"

EIGHT_GPUS = Layout(
    1, (), tuple(GpuIdentity(f"GPU-{index}", index, True, {}) for index in range(8)), "580", "13.0", "", None
)

Result = TypeVar("Result")


def run(scenario: Coroutine[Any, Any, Result]) -> Result:  # Any: as `asyncio.wait_for` has it
    return asyncio.run(asyncio.wait_for(scenario, PATIENCE_SECONDS))


def setting(
    name: str = "e0",
    url: str = "http://127.0.0.1:1/metrics",
    *,
    engine: str | None = None,
    gpus: Sequence[int] = (),
    token_file: str | None = None,
) -> ServingSetting:
    return ServingSetting(name=name, url=url, engine=engine, gpus=tuple(gpus), token_file=token_file)


def facts(*endpoints: EndpointFacts, layout: Layout | None = EIGHT_GPUS) -> Facts:
    settings = tuple(each.setting for each in endpoints)
    return Facts(
        settings=ConfigurationFacts(configuration=AgentConfiguration(serving=settings)),
        nvml=NvmlFacts(layout=layout),
        serving=endpoints,
    )


async def gathered(configuration: AgentConfiguration) -> tuple[EndpointFacts, ...]:
    """Gather as the command does, which has no event loop of its own around it."""
    return await asyncio.to_thread(serving_facts, configuration)


async def judged(
    answer: Answer | bytes,
    *,
    path: str = "/metrics",
    engine: str | None = None,
    token_file: str | None = None,
) -> tuple[list[Finding], FakeEngine]:
    server = FakeEngine(answered(answer) if isinstance(answer, bytes) else answer)
    async with listening(server):
        url = f"http://127.0.0.1:{server.port}{path}"
        own = setting(url=url, engine=engine, token_file=token_file)
        read = await gathered(AgentConfiguration(serving=(own,)))
    return [finding for _, finding in serving(facts(*read))], server


def only(answer: Answer | bytes, *, path: str = "/metrics", engine: str | None = None) -> Finding:
    """Return the one finding about an endpoint, with its port left out of the text."""
    (finding,), server = run(judged(answer, path=path, engine=engine))
    assert len(server.requests) == 1
    return Finding(finding.mark, finding.text.replace(str(server.port), "PORT"), finding.action)


def status(code: int) -> Answer:
    async def answer(_: web.BaseRequest) -> web.StreamResponse:
        return web.Response(status=code, headers={"Location": "/elsewhere"} if 300 <= code < 400 else {})

    return answer


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("vllm-0.16", f"vLLM (engine) counts the tokens of 1 model: {DEEPSEEK}"),
        ("vllm-0.16.openmetrics", f"vLLM (engine) counts the tokens of 1 model: {DEEPSEEK}"),
        ("sglang-0.5.7", f"SGLang (engine) counts the tokens of 1 model: {QWEN}"),
        ("tensorrt_llm-1.3", f"TensorRT-LLM (engine) counts the tokens of 1 model: {LLAMA}"),
        (
            "dynamo-1.2-frontend",
            "NVIDIA Dynamo frontend (router) counts the tokens of 1 model: qwen/qwen3-0.6b",
        ),
        (
            "dynamo-0.7-frontend",
            "NVIDIA Dynamo frontend (router) counts the tokens of 1 model: qwen/qwen3-0.6b"
            "; not told: prefix cache hits",
        ),
        ("dynamo-0.7-worker", f"vLLM (engine) counts the tokens of 1 model: {DEEPSEEK}"),
        (
            "dynamo-1.2-worker",
            f"SGLang (engine) counts the tokens of 1 model: {QWEN}"
            "; not told: time to first token, inter-token latency, request duration",
        ),
        # Its KV cache usage is gone for good, and is not asked for.
        (
            "llama_cpp-2026-09",
            "llama.cpp (engine) counts the tokens of 1 model, which it does not name",
        ),
    ],
)
def test_an_engine_that_tells_all_it_can_is_good(name: str, text: str) -> None:
    assert only(fixture(name)) == Finding(Mark.OK, text)


@pytest.mark.parametrize(
    ("name", "text", "action"),
    [
        (
            "vllm-0.8",
            "vLLM (engine) does not count prefix cache queries, prefix cache hits: before 0.9 vLLM counts"
            " them in blocks, which are no tokens",
            "upgrade vLLM to 0.9 or later",
        ),
        (
            "sglang-0.4.3",
            "SGLang (engine) does not count prefix cache hits: old versions of SGLang do not count them",
            "upgrade SGLang to 0.4.6 or later",
        ),
        (
            "llama_cpp-2025",
            "llama.cpp (engine) does not count prefix cache queries, prefix cache hits:"
            " llama.cpp counts them from August 2026 on",
            "take a newer build of llama.cpp",
        ),
    ],
)
def test_what_an_old_version_does_not_count_is_a_warning_beside(name: str, text: str, action: str) -> None:
    (good, warning), _ = run(judged(fixture(name)))
    assert good.mark is Mark.OK
    assert warning == Finding(Mark.WARN, text, action)


def test_an_engine_without_counters_of_tokens_is_a_warning() -> None:
    # TensorRT-LLM 1.2 has none (facts on serving engines, §1).
    assert only(fixture("tensorrt_llm-1.2"), path="/prometheus/metrics") == Finding(
        Mark.WARN,
        "TensorRT-LLM (engine) does not count prompt tokens, generated tokens, so that its efficiency stays"
        " blank: TensorRT-LLM has counters of tokens from 1.3 on; not told: running requests, waiting"
        " requests, prefix cache queries, prefix cache hits",
        "upgrade TensorRT-LLM to 1.3 or later",
    )


ROUTER = b'# TYPE vllm:num_requests_running gauge\nvllm:num_requests_running{server="x"} 3.0\n'


def test_a_router_of_vllm_is_told_whether_an_engine_is_configured_or_not() -> None:
    recognized = only(ROUTER)
    assert (recognized.mark, recognized.text) == (
        Mark.FAIL,
        "http://127.0.0.1:PORT/metrics answers, but it is a router of vLLM, or a vLLM that counts no tokens",
    )
    assert recognized.action == "list the engines behind it, each with an address of its own"
    configured = only(ROUTER, engine="vllm")
    assert configured.mark is Mark.WARN
    assert configured.text.startswith("vLLM (engine) does not count prompt tokens, generated tokens, so that")
    assert "write the address of each engine behind a router" in configured.action


BEFORE_A_REQUEST = b"""\
# TYPE sglang:num_running_reqs gauge
sglang:num_running_reqs{model_name="m",tp_rank="0"} 0.0
"""


def test_counters_that_are_born_with_the_first_request_are_waited_for() -> None:
    finding = only(BEFORE_A_REQUEST)
    assert finding.mark is Mark.WARN
    assert finding.text.startswith(
        "SGLang (engine) has 1 model: m; not told yet: prompt tokens, generated tokens, waiting requests,"
    )
    assert finding.action == ("send it a request and check again: its series are born with the first one")


def test_a_frontend_before_its_first_request_has_no_model() -> None:
    assert only(b"# TYPE dynamo_frontend_output_tokens_total counter\n") == Finding(
        Mark.WARN,
        "NVIDIA Dynamo frontend (router) answers, and tells of no model yet",
        "send it a request and check again: its series are born with the first one",
    )


@pytest.mark.parametrize(
    ("body", "text", "action"),
    [
        (b"# TYPE sgl_router_requests_total counter\n", "it is a router of SGLang", "list the engines"),
        (
            b"# TYPE dynamo_component_requests_total counter\n",
            "it is a part of NVIDIA Dynamo that shows no metrics of an engine",
            "SGLang with `--enable-metrics`",
        ),
        (b"# TYPE tgi_request_count counter\n", "it is TGI", "not read yet"),
        (b"# TYPE nv_inference_count counter\n", "it is Triton", "not read yet"),
        (b"# TYPE DCGM_FI_DEV_GPU_UTIL gauge\n", "it is the DCGM exporter", "the address of the engine"),
        (b"# TYPE rackwatt_gpu_up gauge\n", "it is rackwatt itself", "the address of the engine"),
        # What vLLM shows with `--disable-log-stats`: its server alone (vllm issue 11987).
        (b"# TYPE http_requests_total counter\n", "it has no metrics of an engine", "--disable-log-stats"),
        (b"", "it has no metrics of an engine", "DYN_SYSTEM_PORT"),
    ],
)
def test_what_is_no_engine_is_named(body: bytes, text: str, action: str) -> None:
    finding = only(body)
    assert (finding.mark, finding.text) == (
        Mark.FAIL,
        f"http://127.0.0.1:PORT/metrics answers, but {text}",
    )
    assert action in finding.action


def test_an_engine_that_is_another_one_is_named() -> None:
    finding = only(fixture("vllm-0.16"), engine="sglang")
    assert finding.text == "http://127.0.0.1:PORT/metrics answers, but its metrics are those of vLLM"
    assert finding.action == "write `engine: vllm` or `engine: auto`"


def test_an_engine_that_shows_nothing_of_its_own_is_told_how() -> None:
    finding = only(b"# TYPE python_info gauge\n", engine="vllm")
    assert finding.text == "http://127.0.0.1:PORT/metrics answers, but none of its metrics is one of vllm"
    assert finding.action == "start vLLM without `--disable-log-stats`; or write `engine: auto`"


@pytest.mark.parametrize(
    ("code", "engine", "mark", "action"),
    [
        (401, None, Mark.FAIL, "token_file"),
        (403, None, Mark.FAIL, "token_file"),
        (307, None, Mark.FAIL, "write the address to which it redirects"),
        (400, None, Mark.FAIL, "/metrics?model=NAME"),
        (404, "sglang", Mark.FAIL, "SGLang with `--enable-metrics`"),
        (404, "tensorrt_llm", Mark.FAIL, "`return_perf_metrics: true`, at /prometheus/metrics"),
        (404, None, Mark.FAIL, "DYN_SYSTEM_PORT"),
        (501, "llama_cpp", Mark.FAIL, "llama.cpp with `--metrics`"),
        (503, None, Mark.WARN, "see the log of the engine"),
    ],
)
def test_a_status_says_what_to_do(code: int, engine: str | None, mark: Mark, action: str) -> None:
    finding = only(status(code), engine=engine)
    assert (finding.mark, finding.text) == (
        mark,
        f"http://127.0.0.1:PORT/metrics: the status is {code} instead of 200",
    )
    assert action in finding.action


def test_an_engine_that_does_not_run_can_wait() -> None:
    # Port 1 of TCP is reserved (tcpmux), and nobody listens on it here.
    read = serving_facts(AgentConfiguration(serving=(setting(),)))
    assert serving(facts(*read)) == [
        (
            "serving e0",
            Finding(
                Mark.WARN,
                "http://127.0.0.1:1/metrics: the connection was refused",
                "see that the engine runs and listens there; a worker of Dynamo does with DYN_SYSTEM_PORT set"
                " only",
            ),
        )
    ]


def test_json_that_reading_empties_is_read_once_whoever_names_it() -> None:
    async def scenario() -> tuple[list[tuple[str, Finding]], FakeEngine]:
        engine = FakeEngine(answered(b'[{"iter": 1}]', Content_Type="application/json"))
        async with listening(engine):
            url = f"http://127.0.0.1:{engine.port}/metrics"
            settings = (setting("a", url), setting("b", url))
            return serving(facts(*await gathered(AgentConfiguration(serving=settings)))), engine

    findings, engine = run(scenario())
    assert len(engine.requests) == 1
    port = engine.port
    drained = Finding(
        Mark.FAIL,
        f"http://127.0.0.1:{port}/metrics answers with JSON, as TensorRT-LLM's /metrics, which every reading"
        " empties; it was read once and is not read again",
        f"write http://127.0.0.1:{port}/prometheus/metrics in `url`, and start TensorRT-LLM with"
        " `return_perf_metrics: true`, at /prometheus/metrics",
    )
    assert findings == [("serving a", drained), ("serving b", drained)]


def test_text_that_is_no_exposition_is_told_and_harms_no_terminal() -> None:
    finding = only(b"<html>\x1b[2J\xff</html>")
    assert finding.mark is Mark.FAIL
    assert finding.text.isascii()
    assert finding.text.isprintable()
    assert "begins with" in finding.text
    assert "an engine's metrics" in finding.action


def test_names_of_models_harm_no_terminal() -> None:
    body = (
        '# TYPE vllm:generation_tokens_total counter\nvllm:generation_tokens_total{model_name="\x1b[2Jé"} 1\n'
    )
    findings, _ = run(judged(body.encode()))
    assert all(finding.text.isascii() and finding.text.isprintable() for finding in findings)


def test_a_token_goes_out_and_stands_in_no_finding(tmp_path: Path) -> None:
    file = tmp_path / "token"
    file.write_text("hunter2")
    file.chmod(0o600)
    (finding,), engine = run(judged(status(403), path="/metrics?key=hunter3", token_file=str(file)))
    assert [request["authorization"] for request in engine.requests] == ["Bearer hunter2"]
    assert "hunter" not in finding.text + finding.action


def test_a_token_file_that_cannot_be_used_costs_its_endpoint_only(tmp_path: Path) -> None:
    async def scenario() -> list[tuple[str, Finding]]:
        engine = FakeEngine(answered(fixture("vllm-0.16")))
        async with listening(engine):
            url = f"http://127.0.0.1:{engine.port}/metrics"
            settings = (setting("a", token_file=str(tmp_path / "none")), setting("b", url))
            return serving(facts(*await gathered(AgentConfiguration(serving=settings))))

    (_, refused), (name, good) = run(scenario())
    assert refused == Finding(
        Mark.FAIL,
        f"{tmp_path}/none: cannot be read: No such file or directory",
        "let the agent's user read a file with the token in one line",
    )
    assert (name, good.mark) == ("serving b", Mark.OK)


# What endpoints say together, on readings that are made up.


def answering(
    name: str, *models: str, gpus: Sequence[int] = (), role: Role = Role.ENGINE, port: int = 1
) -> EndpointFacts:
    tokens = (("llm_tokens_total", "prompt"), ("llm_tokens_total", "generation"))
    values = dict.fromkeys(tokens, 1.0)
    reading = EndpointReading("vllm", role, tuple(ModelReading(model, values, {}) for model in models))
    return EndpointFacts(
        setting=setting(name, f"http://127.0.0.1:{port}/metrics", gpus=gpus), reading=reading
    )


def together(*endpoints: EndpointFacts, layout: Layout | None = EIGHT_GPUS) -> list[Finding]:
    return [
        finding
        for name, finding in serving(facts(*endpoints, layout=layout))
        if name == "serving" or "`gpus`" in finding.text
    ]


def test_gpus_that_the_node_does_not_have_are_named() -> None:
    endpoint = answering("e0", "m", gpus=(6, 7, 8, 9))
    assert together(endpoint) == [
        Finding(
            Mark.FAIL,
            "`gpus` names 8, 9, which NVML does not show on this node: it has 0, 1, 2, 3, 4, 5, 6, 7",
            "write the indices of `nvidia-smi -L`: those within CUDA_VISIBLE_DEVICES begin anew at 0",
        )
    ]
    assert together(endpoint, layout=None) == []


def test_a_gpu_that_two_engines_name_is_named() -> None:
    first, second = answering("a", "m", gpus=(0, 1), port=1), answering("b", "m", gpus=(1, 2), port=2)
    assert together(first, second) == [
        Finding(
            Mark.WARN,
            "several engines name the same GPU, so that the energy of their models is not known"
            " (GPU 1: a, b)",
            "let no two endpoints list one GPU in `gpus`",
        )
    ]
    # A router computes nothing, whatever it names.
    router = answering("b", "m", gpus=(1, 2), role=Role.ROUTER, port=2)
    assert together(first, router) == []


def test_engines_of_several_models_must_name_their_gpus() -> None:
    first, second = answering("a", "m", gpus=(0,), port=1), answering("b", "n", port=2)
    assert together(first, second) == [
        Finding(
            Mark.WARN,
            "this node serves 2 models, and b names no GPUs, so that the energy of its model is not known",
            "list under `gpus` what each endpoint computes on",
        )
    ]
    # Of one model, or of engines that all name theirs, everything is known.
    assert together(answering("a", "m", port=1), answering("b", "m", port=2)) == []
    assert together(first, answering("b", "n", gpus=(1,), port=2)) == []


def test_many_models_are_counted_and_a_few_are_named() -> None:
    (_, finding), *_ = serving(facts(answering("e0", "a", "b", "c", "d" * 100, "e")))
    assert finding.text.startswith("vLLM (engine) counts the tokens of 5 models: a, b, c and 2 more")
    (_, finding), *_ = serving(facts(answering("e0", "d" * 100)))
    assert f"1 model: {'d' * 57}...;" in finding.text


def test_without_endpoints_that_is_said() -> None:
    none = Facts(settings=ConfigurationFacts(configuration=AgentConfiguration()))
    assert serving(none) == [
        ("serving", Finding(Mark.SKIP, "no serving endpoint is configured, so no tokens are counted"))
    ]
    assert serving(Facts()) == [
        ("serving", Finding(Mark.SKIP, "not checked, because the configuration is wrong"))
    ]
    assert serving_facts(AgentConfiguration()) == ()


def test_it_reads_as_text() -> None:
    text = render_text(serving(facts(answering("decode-0", "m", gpus=(8,)))), unicode=False)
    assert text.splitlines()[0].startswith(
        "+ ok    serving decode-0  vLLM (engine) counts the tokens of 1 model: m"
    )
    assert text.splitlines()[-1].startswith("1 problem and 1 warning")

"""What to do where a serving endpoint told nothing, by what was wrong and which engine it is."""

from __future__ import annotations

from collections.abc import Mapping
from http import HTTPStatus

from collector.cli.facts import EndpointFacts
from collector.cli.findings import Finding, Mark
from collector.config.urls import split
from collector.sources.serving.engines import NAME_MAPS

_PASSING = frozenset({"connection", "timeout"})
"""Errors that an engine has that does not run at the moment."""

_PASSING_STATUSES = frozenset(set(range(500, 600)) - {HTTPStatus.NOT_IMPLEMENTED})
"""The same of HTTP; with 501 llama.cpp says that its metrics are off (facts on tokens, §1)."""

_SWITCHES: Mapping[str, str] = {
    "vllm": "vLLM without `--disable-log-stats`",
    "sglang": "SGLang with `--enable-metrics`",
    "tensorrt_llm": "TensorRT-LLM with `return_perf_metrics: true`, at /prometheus/metrics",
    # Releases before 0.7 want DYN_SYSTEM_ENABLED=true as well (NVIDIA Dynamo, "Metrics", of each version).
    "dynamo": "a worker of Dynamo with DYN_SYSTEM_PORT set, and DYN_SYSTEM_ENABLED=true before 0.7",
    "llama_cpp": "llama.cpp with `--metrics`",
}
"""How each engine is made to show its metrics (docs/serving.md)."""

_OWN_SWITCHES = {
    **_SWITCHES,
    "dynamo": "the frontend of Dynamo without DYN_METRICS_PREFIX; its metrics need no switch",
}
"""The same where the engine is configured: `dynamo` is the frontend, not a worker."""

_NOT_READ = "leave it out of `serving`: this engine is not read yet"
_BEHIND = "list the engines behind it, each with an address of its own"

_STRANGERS: tuple[tuple[tuple[str, ...], str, str], ...] = (
    (("sgl_router_", "smg_"), "it is a router of SGLang", _BEHIND),
    (("vllm:",), "it is a router of vLLM, or a vLLM that counts no tokens", _BEHIND),
    (
        ("dynamo_",),
        "it is a part of NVIDIA Dynamo that shows no metrics of an engine",
        "write the address of the frontend, or of a worker whose engine has its metrics switched on"
        f" ({_SWITCHES['sglang']}; {_SWITCHES['vllm']})",
    ),
    (("tgi_",), "it is TGI", _NOT_READ),
    (("nv_inference_", "nv_trt_llm_"), "it is Triton", _NOT_READ),
    (("lmdeploy:",), "it is LMDeploy", _NOT_READ),
    (("DCGM_FI_",), "it is the DCGM exporter", "write the address of the engine"),
    (("rackwatt_",), "it is rackwatt itself", "write the address of the engine"),
    (("node_",), "it is the node exporter", "write the address of the engine"),
)
"""Beginnings of metric names, what has them, and what to do (facts on tokens, §1)."""

_UNKNOWN = (
    "it has no metrics of an engine",
    f"see that it is an engine's address, and switch its metrics on: {'; '.join(_SWITCHES.values())}",
)


def unread(endpoint: EndpointFacts) -> Finding:
    """Judge an endpoint of which nothing could be used."""
    passing = endpoint.error in _PASSING or endpoint.status in _PASSING_STATUSES
    mark = Mark.WARN if passing else Mark.FAIL
    if endpoint.error == "unrecognized":
        what, action = _stranger(endpoint)
        return Finding(mark, f"{address(endpoint)} answers, but {what}", action)
    if endpoint.error == "drained_json":
        return Finding(
            Mark.FAIL,
            f"{address(endpoint)} answers with JSON, as TensorRT-LLM's /metrics, which every reading empties;"
            " it was read once and is not read again",
            f"write {_prometheus(endpoint)} in `url`, and start {_SWITCHES['tensorrt_llm']}",
        )
    if endpoint.error == "token_file":
        return Finding(mark, endpoint.message, "let the agent's user read a file with the token in one line")
    # What follows is advice in general; here it is known better.
    reason = endpoint.message.partition("; ")[0]
    return Finding(mark, f"{address(endpoint)}: {ascii(reason)[1:-1]}", _action(endpoint))


def address(endpoint: EndpointFacts) -> str:
    """Return the address of an endpoint without its query, which may hold a key."""
    parts = split(endpoint.setting.url)
    return f"{parts.scheme}://{parts.netloc}{parts.path}"


def _prometheus(endpoint: EndpointFacts) -> str:
    parts = split(endpoint.setting.url)
    return f"{parts.scheme}://{parts.netloc}/prometheus/metrics"


def _stranger(endpoint: EndpointFacts) -> tuple[str, str]:
    """Say what has other metrics than the engine's, and what to do."""
    for name_map in NAME_MAPS:
        if any(name.startswith(name_map.marks) for name in endpoint.families):
            engine = name_map.engine
            return (
                f"its metrics are those of {engine.title}",
                f"write `engine: {engine.name}` or `engine: auto`",
            )
    for beginnings, what, action in _STRANGERS:
        if any(name.startswith(beginnings) for name in endpoint.families):
            return what, action
    if endpoint.setting.engine is not None:
        return (
            f"none of its metrics is one of {endpoint.setting.engine}",
            f"start {_OWN_SWITCHES[endpoint.setting.engine]}; or write `engine: auto`",
        )
    return _UNKNOWN


def _action(endpoint: EndpointFacts) -> str:
    if endpoint.error == "status":
        return _by_status(endpoint)
    if endpoint.error == "connection":
        secure = split(endpoint.setting.url).scheme == "https"
        authority = ", and that `ca_file` is the authority of its certificate" if secure else ""
        worker = "" if endpoint.setting.engine else "; a worker of Dynamo does with DYN_SYSTEM_PORT set only"
        return f"see that the engine runs and listens there{authority}{worker}"
    if endpoint.error == "timeout":
        return "see whether the engine hangs, or a firewall stands before it"
    return "see that this is the address of an engine's metrics, in the text format of Prometheus"


def _by_status(endpoint: EndpointFacts) -> str:
    status = endpoint.status or 0
    if status in (HTTPStatus.UNAUTHORIZED, HTTPStatus.FORBIDDEN):
        return "give the token that it wants in `token_file`"
    if 300 <= status < 400:
        return "write the address to which it redirects"
    if status == HTTPStatus.BAD_REQUEST and endpoint.setting.engine in (None, "llama_cpp"):
        # llama.cpp in router mode (facts on tokens, §1).
        return "llama.cpp with several models wants one in the address: /metrics?model=NAME"
    if status in (HTTPStatus.NOT_FOUND, HTTPStatus.METHOD_NOT_ALLOWED, HTTPStatus.NOT_IMPLEMENTED):
        own = _OWN_SWITCHES.get(endpoint.setting.engine or "")
        return f"see that the path is right, and start {own or '; or '.join(_SWITCHES.values())}"
    return "see the log of the engine"

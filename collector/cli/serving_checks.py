"""Checks of serving endpoints: what each answers, what it does not tell, and how to switch that on."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from collector.catalog.engines import ENGINES, Role
from collector.cli.facts import EndpointFacts, Facts
from collector.cli.findings import Finding, Mark, count
from collector.cli.serving_failures import unread
from collector.sources.serving.endpoint import EndpointReading
from collector.sources.serving.engines import NAME_MAPS
from collector.sources.serving.engines.spec import NameMap

_Told = tuple[str, str]
"""Name of a metric, and value of its own label, as in `ModelReading.values`."""

_TITLES = {engine.name: engine.title for engine in ENGINES}
_NAME_MAPS = {name_map.engine.name: name_map for name_map in NAME_MAPS}

_WORDS: Mapping[_Told, str] = {
    ("llm_tokens_total", "prompt"): "prompt tokens",
    ("llm_tokens_total", "generation"): "generated tokens",
    ("llm_requests_running", ""): "running requests",
    ("llm_requests_waiting", ""): "waiting requests",
    ("llm_kv_cache_usage_ratio", ""): "KV cache usage",
    ("llm_prefix_cache_query_tokens_total", ""): "prefix cache queries",
    ("llm_prefix_cache_hit_tokens_total", ""): "prefix cache hits",
    ("llm_time_to_first_token_seconds", ""): "time to first token",
    ("llm_inter_token_latency_seconds", ""): "inter-token latency",
    ("llm_request_duration_seconds", ""): "request duration",
}
"""What is read of an engine, in words."""

_TOKENS = "llm_tokens_total"

_TOLD_FROM_THE_START = frozenset({"vllm", "llama_cpp"})
"""Engines that tell everything at zero; of others a series may be born with the first request (facts on
tokens, §1; SGLang and TensorRT-LLM gather from files that a metric gets when it first counts)."""

_NEVER_MISSED: frozenset[tuple[str, str]] = frozenset({("llama_cpp", "llm_kv_cache_usage_ratio")})
"""Engine and metric that newer versions took away (llama.cpp pull request 13660)."""

_SHOWN_MODELS = 3
_SHOWN_CHARACTERS = 60


@dataclass(frozen=True, slots=True)
class _Advice:
    """Why an engine does not tell something, and what to do about it.

    Attributes:
        engine: Name of the engine.
        metrics: What is missing.
        reason: Why, in words.
        action: What to do.
    """

    engine: str
    metrics: frozenset[str]
    reason: str
    action: str


# Versions: facts on tokens, §1, and docs/serving.md.
_ADVICE = (
    _Advice(
        "vllm",
        frozenset({_TOKENS}),
        "a router of vLLM, or an engine with `--disable-log-stats`, has none",
        "write the address of each engine behind a router; start vLLM without `--disable-log-stats`",
    ),
    _Advice(
        "vllm",
        frozenset({"llm_prefix_cache_query_tokens_total", "llm_prefix_cache_hit_tokens_total"}),
        "before 0.9 vLLM counts them in blocks, which are no tokens",
        "upgrade vLLM to 0.9 or later",
    ),
    _Advice(
        "sglang",
        frozenset({"llm_prefix_cache_hit_tokens_total"}),
        "old versions of SGLang do not count them",
        "upgrade SGLang to 0.4.6 or later",
    ),
    _Advice(
        "tensorrt_llm",
        frozenset({_TOKENS}),
        "TensorRT-LLM has counters of tokens from 1.3 on",
        "upgrade TensorRT-LLM to 1.3 or later",
    ),
    _Advice(
        "llama_cpp",
        frozenset({"llm_prefix_cache_query_tokens_total", "llm_prefix_cache_hit_tokens_total"}),
        "llama.cpp counts them from August 2026 on",
        "take a newer build of llama.cpp",
    ),
)


_NO_ADVICE = _Advice("", frozenset({_TOKENS}), "it tells none", "use a version that does")

_SEND_A_REQUEST = "send it a request and check again: its series are born with the first one"


def serving(facts: Facts) -> list[tuple[str, Finding]]:
    """Judge every configured serving endpoint.

    Args:
        facts: What is known of the machine.

    Returns:
        Findings, each with the name of what was looked at; at least one.
    """
    configuration = facts.settings.configuration
    if configuration is None and not facts.serving:
        return [("serving", Finding(Mark.SKIP, "not checked, because the configuration is wrong"))]
    if not facts.serving:
        return [
            ("serving", Finding(Mark.SKIP, "no serving endpoint is configured, so no tokens are counted"))
        ]
    findings: list[tuple[str, Finding]] = []
    for endpoint in facts.serving:
        name = f"serving {endpoint.setting.name}"
        findings += ((name, finding) for finding in _told(endpoint))
        findings += ((name, finding) for finding in _absent_gpus(endpoint, facts))
    return [*findings, *(("serving", finding) for finding in _together(facts.serving))]


def _told(endpoint: EndpointFacts) -> Iterator[Finding]:
    """Judge what an endpoint answered."""
    reading = endpoint.reading
    if reading is None:
        yield unread(endpoint)
        return
    who = f"{_TITLES[reading.engine]} ({reading.role.value})"
    if not reading.models:
        yield Finding(Mark.WARN, f"{who} answers, and tells of no model yet", _SEND_A_REQUEST)
        return
    absent = _absent(_NAME_MAPS[reading.engine], reading)
    tokens = [told for told in absent if told[0] == _TOKENS]
    others = [told for told in absent if told[0] != _TOKENS]
    known = [advice for advice in _ADVICE if advice.engine == reading.engine]
    if absent and reading.engine not in _TOLD_FROM_THE_START and not _has_served(reading):
        text = f"{who} has {_models(reading)}{_not_told(absent, ' yet')}"
        yield Finding(Mark.WARN, text, _SEND_A_REQUEST) if tokens else Finding(Mark.OK, text)
        return
    if tokens:
        advice = next((each for each in known if _TOKENS in each.metrics), _NO_ADVICE)
        yield Finding(
            Mark.WARN,
            f"{who} does not count {_listed(tokens)}, so that its efficiency stays blank:"
            f" {advice.reason}{_not_told(others)}",
            advice.action,
        )
        return
    explained = {metric for advice in known for metric in advice.metrics}
    rest = [told for told in others if told[0] not in explained]
    yield Finding(Mark.OK, f"{who} counts the tokens of {_models(reading)}{_not_told(rest)}")
    for advice in known:
        theirs = [told for told in others if told[0] in advice.metrics]
        if theirs:
            yield Finding(
                Mark.WARN, f"{who} does not count {_listed(theirs)}: {advice.reason}", advice.action
            )


def _not_told(absent: Sequence[_Told], until: str = "") -> str:
    return f"; not told{until}: {_listed(absent)}" if absent else ""


def _absent(name_map: NameMap, reading: EndpointReading) -> list[_Told]:
    """Return what the engine could tell, and tells of no model, in the order of `_WORDS`."""
    told = {key for model in reading.models for key in model.values}
    told |= {(name, "") for model in reading.models for name in model.histograms}
    could = {(quantity.metric, quantity.value) for quantity in name_map.quantities}
    could |= {(distribution.metric, "") for distribution in name_map.distributions}
    return [
        key for key in _WORDS if key in could - told and (name_map.engine.name, key[0]) not in _NEVER_MISSED
    ]


def _has_served(reading: EndpointReading) -> bool:
    """Tell whether any token or request was counted."""
    return any(
        any(value > 0 for (metric, _), value in model.values.items() if metric == _TOKENS)
        or any(histogram.counts[-1] > 0 for histogram in model.histograms.values())
        for model in reading.models
    )


def _models(reading: EndpointReading) -> str:
    names = [model.model for model in reading.models]
    if names == [""]:
        return "1 model, which it does not name"
    shown = ", ".join(_printable(name) or "one without a name" for name in names[:_SHOWN_MODELS])
    more = f" and {len(names) - _SHOWN_MODELS} more" if len(names) > _SHOWN_MODELS else ""
    return f"{count(len(names), 'model')}: {shown}{more}"


def _printable(name: str) -> str:
    """Write a name that a stranger chose, so that no terminal obeys it."""
    text = ascii(name)[1:-1]
    return text if len(text) <= _SHOWN_CHARACTERS else text[: _SHOWN_CHARACTERS - 3] + "..."


def _listed(absent: Sequence[_Told]) -> str:
    return ", ".join(_WORDS[told] for told in absent)


def _absent_gpus(endpoint: EndpointFacts, facts: Facts) -> Iterator[Finding]:
    """Judge the GPUs that an endpoint names; nothing can be said while NVML does not answer."""
    layout = facts.nvml.layout
    if layout is None:
        return
    present = sorted(gpu.index for gpu in layout.gpus if gpu.present)
    absent = [gpu for gpu in endpoint.setting.gpus if gpu not in present]
    if absent:
        has = f"it has {', '.join(map(str, present))}" if present else "it has none"
        yield Finding(
            Mark.FAIL,
            f"`gpus` names {', '.join(map(str, absent))}, which NVML does not show on this node: {has}",
            "write the indices of `nvidia-smi -L`: those within CUDA_VISIBLE_DEVICES begin anew at 0",
        )


def _together(endpoints: Sequence[EndpointFacts]) -> Iterator[Finding]:
    """Judge what endpoints have in common that they should not."""
    engines = [each for each in endpoints if _role(each) is Role.ENGINE]
    owners: dict[int, list[str]] = defaultdict(list)
    for each in engines:
        for gpu in each.setting.gpus:
            owners[gpu].append(each.setting.name)
    shared = {gpu: names for gpu, names in sorted(owners.items()) if len(names) > 1}
    if shared:
        told = "; ".join(f"GPU {gpu}: {', '.join(names)}" for gpu, names in shared.items())
        yield Finding(
            Mark.WARN,
            f"several engines name the same GPU, so that the energy of their models is not known ({told})",
            "let no two endpoints list one GPU in `gpus`",
        )
    models = {model.model for each in engines if each.reading is not None for model in each.reading.models}
    placeless = [each.setting.name for each in engines if not each.setting.gpus]
    if len(models) > 1 and placeless:
        yield Finding(
            Mark.WARN,
            f"this node serves {len(models)} models, and {', '.join(placeless)} names no GPUs, so that the"
            " energy of its model is not known",
            "list under `gpus` what each endpoint computes on",
        )


def _role(endpoint: EndpointFacts) -> Role:
    """Return what an endpoint is: as configured, else as recognized, else what most are."""
    if endpoint.setting.role is not None:
        return endpoint.setting.role
    return endpoint.reading.role if endpoint.reading is not None else Role.ENGINE

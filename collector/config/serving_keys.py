"""The key `serving`: endpoints of serving engines on this node."""

from __future__ import annotations

import difflib
import re
from collections import Counter
from collections.abc import Mapping

import msgspec

from collector.catalog.engines import ENGINE_NAMES, ROLES, Role
from collector.config import values
from collector.config.document import ListNode, Node, Scalar, show
from collector.config.lists import section_list
from collector.config.reading import ConflictError, Key, Mistake, Section, Tree, describe, unexpected
from collector.config.schema import ServingSetting
from collector.config.urls import host_and_port, http_url, split

AUTOMATIC_ENGINE = "auto"

_MAXIMUM_ENDPOINTS = 64
"""Chosen: eight times the GPUs of a node with most of them in use today."""
_LARGEST_GPU = 255
_GPU = re.compile(r"[0-9]{1,3}")

USUAL_PATHS = {
    "vllm": "/metrics",
    "sglang": "/metrics",
    "tensorrt_llm": "/prometheus/metrics",
    "dynamo": "/metrics",
    "llama_cpp": "/metrics",
}
"""Where each engine serves its metrics (docs/serving.md)."""


def _engine(text: str) -> str | None:
    if text == AUTOMATIC_ENGINE:
        return None
    if text not in ENGINE_NAMES:
        near = difflib.get_close_matches(text.lower().replace("-", "_").replace(".", "_"), ENGINE_NAMES, n=1)
        hint = f"did you mean {near[0]!r}?" if near else f"valid are auto, {', '.join(ENGINE_NAMES)}"
        raise ValueError(f"{show(text)} is unknown; {hint}")
    return text


def _read_gpus(node: Node, path: str) -> tuple[object, list[Mistake]]:
    if not isinstance(node, ListNode):
        raise unexpected("indices of GPUs such as [0, 1]", node)
    gpus: list[int] = []
    for item in node.items:
        text = item.text if isinstance(item, Scalar) else ""
        if _GPU.fullmatch(text) is None or int(text) > _LARGEST_GPU:
            found = show(text) if text else describe(item)
            return None, [
                Mistake(item.place, f"{path.rstrip('.')}: {found} is no index of a GPU, 0 to {_LARGEST_GPU}")
            ]
        if int(text) in gpus:
            return None, [Mistake(item.place, f"{path.rstrip('.')}: {text} stands twice; once is right")]
        gpus.append(int(text))
    return tuple(gpus), []


def _finish(read: Mapping[str, object]) -> ServingSetting:
    url = read.get("url")
    if not isinstance(url, str):
        raise ConflictError("url", "is missing; write where the metrics are: http://127.0.0.1:8000/metrics")
    setting = msgspec.convert({"name": host_and_port(url), **read}, ServingSetting)
    _check_path(url, setting.engine)
    return setting


def _check_path(url: str, engine: str | None) -> None:
    path = split(url).path
    if path in {"", "/"}:
        usual = USUAL_PATHS.get(engine or "", "/metrics")
        also = "" if engine else ", of TensorRT-LLM /prometheus/metrics"
        raise ConflictError("url", f"{show(url)} has no path; that of the metrics is usually {usual}{also}")
    if engine == "tensorrt_llm" and path.rstrip("/") == "/metrics":
        raise ConflictError(
            "url",
            "/metrics of TensorRT-LLM is JSON that every reader empties for the others; "
            "write /prometheus/metrics",
        )


_ENDPOINT = Section(
    {
        "name": Key(values.endpoint_name, "a name such as decode-0"),
        "url": Key(http_url, "an address such as http://127.0.0.1:8000/metrics"),
        "engine": Key(_engine, f"one of {AUTOMATIC_ENGINE}, {', '.join(ENGINE_NAMES)}"),
        "role": Key(lambda text: Role(values.choice(text, ROLES)), f"one of {', '.join(ROLES)}"),
        "gpus": Tree(_read_gpus),
        "ca_file": Key(values.absolute_path, "a path such as /etc/rackwatt/ca.pem"),
        "token_file": Key(values.absolute_path, "a path such as /etc/rackwatt/engine.token"),
    },
    _finish,
)

SERVING_TREE = section_list(
    _ENDPOINT,
    ServingSetting,
    maximum=_MAXIMUM_ENDPOINTS,
    expects='a list such as [{name: decode-0, url: "http://127.0.0.1:8000/metrics"}]',
)


def check_endpoints(endpoints: tuple[ServingSetting, ...]) -> None:
    """See that every endpoint has a name and an address of its own; one that stands twice would count twice.

    Raises:
        ConflictError: Two have the same.
    """
    name, count = max(Counter(each.name for each in endpoints).items(), key=lambda own: own[1])
    if count > 1:
        raise ConflictError("serving", f"{count} endpoints are called {show(name)}; give each its `name`")
    address, count = max(Counter(_address(each.url) for each in endpoints).items(), key=lambda own: own[1])
    if count > 1:
        raise ConflictError(
            "serving",
            f"{show(address.partition('?')[0])} stands {count} times; once is right, as its tokens count each"
            " time",
        )


def _address(url: str) -> str:
    """Write an address in the one way in which all of its spellings are equal."""
    parts = split(url)
    return f"{parts.scheme}://{host_and_port(url)}{parts.path}{parts.query and '?'}{parts.query}"

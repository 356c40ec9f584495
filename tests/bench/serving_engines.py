"""``python -m tests.bench.serving_engines``: a process that plays vLLM engines, each at its own address.

An answer is a page of the size that vLLM has, packed as its server packs it, and its counters have grown
since the last.
"""

from __future__ import annotations

import argparse
import asyncio
import re
import sys
from collections.abc import Sequence
from typing import Final

from aiohttp import web

from tests.serving_bodies import fixture
from tests.serving_endpoints import FakeEngine, listening

_FIXTURE: Final = "vllm-0.16"

_UNREAD: Final = (
    *("request_inference_time_seconds", "request_prefill_time_seconds", "request_decode_time_seconds"),
    *("request_generation_tokens", "request_max_num_generation_tokens", "request_params_n"),
    *("request_params_max_tokens", "request_prefill_kv_computed_tokens"),
)
"""Histograms of `vllm/v1/metrics/loggers.py` that rackwatt does not read and the fixture leaves out."""

_UNREAD_OF_HTTP: Final = (
    *("http_request_duration_seconds", "http_request_duration_highr_seconds"),
    *("http_request_size_bytes", "http_response_size_bytes"),
)
"""The same of prometheus-fastapi-instrumentator, in which vLLM serves."""

_LIKE: Final = "vllm:e2e_request_latency_seconds"
"""The histogram that stands for those: most of them have its buckets."""

_TYPE: Final = re.compile(r"# TYPE (\S+) (\S+)")


class Page:
    """What an engine shows.

    Attributes:
        lines: How many lines it has.
    """

    def __init__(self) -> None:
        text = fixture(_FIXTURE).decode()
        like = "".join(line for line in text.splitlines(keepends=True) if _LIKE in line)
        names = (*(f"vllm:{name}" for name in _UNREAD), *_UNREAD_OF_HTTP)
        text += "".join(like.replace(_LIKE, name) for name in names)
        self.lines = text.count("\n")
        self._parts: list[tuple[str, float | None]] = []
        grows = False
        for line in text.splitlines():
            declared = _TYPE.match(line)
            grows = declared[2] in ("counter", "histogram") if declared else grows
            before, _, number = line.rpartition(" ")
            self._parts.append((f"{before} ", float(number)) if grows and line[0] != "#" else (line, None))

    def text(self, times: int) -> str:
        """Return the page after so many times as much work as the fixture's."""
        return "".join(
            f"{before}\n" if number is None else f"{before}{number * times!r}\n"
            for before, number in self._parts
        )


async def _serve(ports: Sequence[int]) -> None:
    page = Page()
    scrapes = dict.fromkeys(ports, 0)

    def engine(port: int) -> FakeEngine:
        async def answer(_: web.BaseRequest) -> web.StreamResponse:
            scrapes[port] += 1
            response = web.Response(text=page.text(scrapes[port]), content_type="text/plain")
            response.enable_compression()
            return response

        return FakeEngine(answer, port=port)

    async with listening(*map(engine, ports)):
        await asyncio.Event().wait()


def main(argv: Sequence[str] | None = None) -> int:
    """Play engines until a signal ends it."""
    parser = argparse.ArgumentParser(prog="python -m tests.bench.serving_engines", description=main.__doc__)
    parser.add_argument("ports", nargs="+", type=int, help="where each engine listens, on 127.0.0.1")
    asyncio.run(_serve(parser.parse_args(argv).ports))
    return 0


if __name__ == "__main__":
    sys.exit(main())

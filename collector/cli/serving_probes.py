"""Asks the serving endpoints of the configuration for `rackwatt check`: each address once, and no more."""

from __future__ import annotations

import asyncio
import re
from collections.abc import Mapping, Sequence
from itertools import islice

from collector.cli.facts import EndpointFacts
from collector.cli.feeds import serving_endpoint
from collector.config import AgentConfiguration
from collector.config.schema import ServingSetting
from collector.errors import ConfigurationError
from collector.sources.serving.endpoint import ScrapeError, ServingEndpoint

_FAMILY = re.compile(rb"^[ \t]*#[ \t]+TYPE[ \t]+([A-Za-z_:][A-Za-z0-9_:]{0,127})[ \t]", re.MULTILINE)
_MAXIMUM_FAMILIES = 2000
"""Metrics whose names are looked at to tell what an answer is; chosen: an engine has some hundred."""

_STATUS = re.compile(r"the status is (\d{3}) ")

_Answer = bytes | ScrapeError


def serving_facts(configuration: AgentConfiguration) -> tuple[EndpointFacts, ...]:
    """Read every configured endpoint, all at the same time.

    Two endpoints with one address share an answer: what TensorRT-LLM has at `/metrics` is emptied by reading,
    so that it is never read twice.

    Args:
        configuration: The agent's settings.

    Returns:
        What each answered, in the order of the configuration.
    """
    if not configuration.serving:
        return ()
    endpoints: dict[str, ServingEndpoint] = {}
    refused: dict[str, str] = {}
    for setting in configuration.serving:
        try:
            endpoints[setting.name] = serving_endpoint(setting)
        except ConfigurationError as error:
            refused[setting.name] = str(error)
    answers = asyncio.run(_fetch({each.url: each for each in reversed(endpoints.values())}))
    return tuple(
        EndpointFacts(setting=setting, error="token_file", message=refused[setting.name])
        if setting.name in refused
        else _read(setting, endpoints[setting.name], answers[setting.url])
        for setting in configuration.serving
    )


async def _fetch(by_url: Mapping[str, ServingEndpoint]) -> dict[str, _Answer]:
    # Here, as aiohttp costs time that a check without engines need not take.
    from collector.sources.serving.fetch import Fetcher

    fetcher = Fetcher()

    async def fetch(endpoint: ServingEndpoint) -> _Answer:
        try:
            return await fetcher.fetch(endpoint)
        except ScrapeError as error:
            return error

    try:
        answers: Sequence[_Answer] = await asyncio.gather(*map(fetch, by_url.values()))
    finally:
        await fetcher.close()
    return dict(zip(by_url, answers, strict=True))


def _read(setting: ServingSetting, endpoint: ServingEndpoint, answer: _Answer) -> EndpointFacts:
    from collector.sources.serving.normalize import Normalizer

    if isinstance(answer, ScrapeError):
        return _failed(setting, answer)
    try:
        reading = Normalizer(endpoint).read(answer)
    except ScrapeError as error:
        return _failed(setting, error, _families(answer))
    return EndpointFacts(setting=setting, reading=reading, families=_families(answer))


def _failed(
    setting: ServingSetting, error: ScrapeError, families: frozenset[str] = frozenset()
) -> EndpointFacts:
    status = _STATUS.match(str(error)) if error.error == "status" else None
    return EndpointFacts(
        setting=setting,
        error=error.error,
        message=str(error),
        status=int(status[1]) if status is not None else None,
        families=families,
    )


def _families(body: bytes) -> frozenset[str]:
    found = islice(_FAMILY.finditer(body), _MAXIMUM_FAMILIES)
    return frozenset(match[1].decode("ascii") for match in found)

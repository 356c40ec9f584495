"""Agents that are good, slow, lying, hostile or gone, over real sockets."""

from __future__ import annotations

import asyncio
import gzip
import logging
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import asynccontextmanager

import pytest
from aiohttp import web

from collector.sources.peers import Peer, PeerAddress, Poller, PollerSettings
from collector.sources.peers.document import MAXIMUM_BYTES
from collector.sources.peers.witness import Heard
from tests.agent_http_client import run
from tests.peer_agents import (
    Answer,
    FakeAgent,
    address,
    document_response,
    event,
    fields,
    packed,
    serving,
    until,
)

PERIOD_SECONDS = 0.4
"""Agents have 0.24 s of it, witnesses 0.12 s."""


def wall_ns() -> int:
    """The present of `fields()`."""
    return int(fields()["time_ns"])


@asynccontextmanager
async def poller_of(
    *agents: FakeAgent | PeerAddress,
    token: Callable[[], str] | None = None,
    answers: Callable[[str], Heard] | None = None,
    period_seconds: float = PERIOD_SECONDS,
) -> AsyncIterator[Poller]:
    """Poll agents, the first called n01; `answers` plays the hosts' witness port."""

    async def ask(host: str, port: int) -> Heard:
        return answers(host) if answers is not None else Heard.NOTHING

    addresses = [
        agent if isinstance(agent, PeerAddress) else address(f"n{number:02d}", port=agent.port)
        for number, agent in enumerate(agents, start=1)
    ]
    witness_port = 22 if answers is not None else None
    settings = PollerSettings(period_seconds=period_seconds, token=token, witness_port=witness_port)
    poller = Poller(addresses, settings, wall_ns=wall_ns, ask=ask)
    await poller.start()
    try:
        yield poller
    finally:
        await poller.close()


@asynccontextmanager
async def polling(
    *agents: FakeAgent | PeerAddress,
    token: Callable[[], str] | None = None,
    period_seconds: float = PERIOD_SECONDS,
) -> AsyncIterator[Sequence[Peer]]:
    """Poll agents and give what is known of each."""
    async with poller_of(*agents, token=token, period_seconds=period_seconds) as poller:
        yield poller.peers


def second(**changes: object) -> FakeAgent:
    """A good agent of node n02."""
    return FakeAgent(fields(node="n02", agent_id="agent-2", **changes))


def answered(body: bytes, **headers: str) -> Answer:
    async def answer(_: web.BaseRequest) -> web.StreamResponse:
        return document_response(body, **headers)

    return answer


async def never(_: web.BaseRequest) -> web.StreamResponse:
    """Accept the request, and say nothing."""
    await asyncio.sleep(3600)
    raise AssertionError


async def drip(request: web.BaseRequest) -> web.StreamResponse:
    """Answer a byte at a time, for ever."""
    response = web.StreamResponse(headers={"Content-Type": "application/msgpack"})
    await response.prepare(request)
    while True:
        await response.write(b"\x00")
        await asyncio.sleep(0.02)


async def flood(request: web.BaseRequest) -> web.StreamResponse:
    """Answer without an end, in chunks."""
    response = web.StreamResponse(headers={"Content-Type": "application/msgpack"})
    await response.prepare(request)
    while True:
        await response.write(bytes(256 * 1024))


async def hang_up(request: web.BaseRequest) -> web.StreamResponse:
    """End the connection without a word."""
    assert request.transport is not None
    request.transport.abort()
    await asyncio.sleep(1)
    raise AssertionError


async def redirect(_: web.BaseRequest) -> web.StreamResponse:
    return web.Response(status=302, headers={"Location": "http://127.0.0.1:1/elsewhere"})


async def forbid(_: web.BaseRequest) -> web.StreamResponse:
    return web.Response(status=401)


async def fail(_: web.BaseRequest) -> web.StreamResponse:
    return web.Response(status=503)


BOMB = gzip.compress(bytes(64 * 1024 * 1024))

BAD: dict[str, tuple[Answer, str]] = {
    "silent": (never, "the agent did not answer within 0.24 s"),
    "slow-loris": (drip, "the agent did not answer within 0.24 s"),
    "endless": (flood, "the answer is larger than 4 MiB; no Snapshot is"),
    "large by its own account": (
        answered(b"", Content_Length=str(MAXIMUM_BYTES + 1)),
        "the answer is larger than 4 MiB; no Snapshot is",
    ),
    "a bomb": (
        answered(BOMB, Content_Encoding="gzip"),
        "the answer is encoded as 'gzip' although nothing but identity is accepted",
    ),
    "another encoding": (answered(b"x", Content_Encoding="br, br"), "the answer is encoded as 'br, br'"),
    "hangs up": (hang_up, "the agent ended the connection unanswered"),
    "redirects": (redirect, "the agent answers with status 302 instead of 200"),
    "forbids": (forbid, "the agent refuses this rack service with status 401; give the agent's token"),
    "fails": (fail, "the agent answers with status 503 instead of 200"),
    "another page": (
        answered(b"<html>", Content_Type="text/html"),
        "the answer is 'text/html' instead of application/msgpack",
    ),
    "garbage": (answered(b"\xc1\xc1"), "the answer is no Snapshot of schema 1"),
    "a newer schema": (
        answered(packed(fields(schema=2))),
        "the agent speaks schema 2 of the Snapshot, not 1",
    ),
    "another node": (answered(packed(fields(node="n99"))), "the agent says that its node is 'n99'"),
    "another rack": (answered(packed(fields(rack="r99"))), "the agent says that its rack is 'r99'"),
    "too few values": (answered(packed(fields(values=[1]))), "the Snapshot has 1 values for 15 series"),
    "not finite": (answered(packed(fields(values=[float("nan")]))), "a value of the Snapshot is not finite"),
    "1970": (answered(packed(fields(time_ns=1))), "the agent's clock says 1970-01-01"),
}


@pytest.mark.parametrize("name", BAD)
def test_a_bad_agent_is_told_and_costs_the_others_nothing(name: str) -> None:
    answer, reason = BAD[name]

    async def scenario() -> None:
        bad, good = FakeAgent(answer=answer), second()
        async with serving(bad, good), polling(bad, good) as (first, other):
            await until(lambda: first.polled and len(good.requests) >= 2)
            assert first.error.startswith(reason)
            assert (first.view, first.last_good_ns) == (None, None)
            assert other.error == ""
            assert other.last_good_ns == wall_ns()

    run(scenario)


def test_a_bad_agent_that_becomes_good_is_believed_again() -> None:
    async def scenario() -> None:
        agent = FakeAgent(answer=fail)
        async with serving(agent), polling(agent) as (peer,):
            await until(lambda: peer.polled)
            agent.answer = None
            await until(lambda: peer.error == "")
            assert peer.view is not None

    run(scenario)


def test_a_slow_agent_is_asked_no_more_often_than_it_answers() -> None:
    at_once = 0

    async def count(request: web.BaseRequest) -> web.StreamResponse:
        nonlocal at_once
        at_once += 1
        try:
            return await never(request)
        finally:
            at_once -= 1

    async def scenario() -> None:
        agent = FakeAgent(answer=count)
        async with serving(agent), polling(agent):
            for _ in range(20):
                await asyncio.sleep(0.05)
                assert at_once <= 1

    run(scenario)


def test_an_agent_that_comes_goes_and_comes_back_restarted() -> None:
    async def scenario() -> None:
        agent = FakeAgent()
        async with serving(agent):
            port = agent.port
        later = FakeAgent(port=port)
        async with polling(later) as (peer,):
            await until(lambda: peer.polled)
            assert peer.error == "the connection was refused; no agent listens there"
            async with serving(later):
                await until(lambda: peer.error == "")
            await until(lambda: peer.error != "")
            # The view stays; by its age others judge whether it is still to be believed.
            assert peer.view is not None
            again = FakeAgent(fields(agent_id="agent-9"), port=port)
            async with serving(again):
                await until(lambda: peer.view is not None and peer.view.agent_id == "agent-9")
                assert peer.error == ""

    run(scenario)


def test_after_the_first_answer_only_values_travel() -> None:
    async def scenario() -> None:
        agent = FakeAgent(fields(events={"next": 4, "items": [event(4)]}))
        async with serving(agent), polling(agent) as (peer,):
            await until(lambda: len(agent.requests) >= 3)
            assert agent.requests[:2] == ["after=0", "after=4&slots=00112233445566aa"]
            assert [each.cursor for each in peer.poll(None).events] == [4]
            # The inventory changes: the next answer brings its table unasked.
            agent.document.update(slots_hash="ee", slots=[["gpu_up", "0", "GPU-new"]], values=[1])
            await until(lambda: peer.view is not None and peer.view.gpus[0].uuid == "GPU-new")
            assert peer.error == ""

    run(scenario)


def test_an_agent_that_never_sends_its_table_is_refused() -> None:
    async def scenario() -> None:
        bare = {name: value for name, value in fields().items() if name != "slots"}
        agent = FakeAgent(answer=answered(packed(bare)))
        async with serving(agent), polling(agent) as (peer,):
            await until(lambda: peer.polled)
            assert peer.error.startswith("the agent leaves out its series table or its events")
            assert len(agent.requests) <= 6  # bounded within a poll

    run(scenario)


def test_one_agent_at_two_addresses_counts_at_one() -> None:
    async def scenario() -> None:
        agent = FakeAgent()
        twin = FakeAgent(fields(node="n02"))  # the same agent_id
        async with serving(agent, twin), polling(agent, twin) as (first, other):
            await until(lambda: first.polled and other.polled)
            errors = sorted((first.error, other.error))
            assert errors[0] == ""
            assert errors[1].startswith("the same agent answers at 127.0.0.1:")

    run(scenario)


def test_the_token_is_sent_and_read_anew_and_never_logged(caplog: pytest.LogCaptureFixture) -> None:
    tokens = ["first-secret", "second-secret"]

    async def scenario() -> None:
        agent = FakeAgent()
        bad = FakeAgent(answer=forbid)
        async with serving(agent, bad), polling(agent, bad, token=lambda: tokens[0]) as peers:
            await until(lambda: all(peer.polled for peer in peers))
            assert agent.headers["authorization"] == "Bearer first-secret"
            tokens.pop(0)
            await until(lambda: agent.headers["authorization"] == "Bearer second-secret")

    with caplog.at_level(logging.DEBUG):
        run(scenario)
    assert "secret" not in caplog.text


def test_without_a_token_none_is_sent_and_nothing_compressed_is_asked_for() -> None:
    async def scenario() -> None:
        agent = FakeAgent()
        async with serving(agent), polling(agent) as (peer,):
            await until(lambda: peer.polled)
            assert "authorization" not in agent.headers
            assert agent.headers["accept"] == "application/msgpack"
            assert agent.headers["accept-encoding"] == "identity"

    run(scenario)


def test_a_silent_agent_has_its_host_asked_and_one_that_answers_badly_has_not() -> None:
    asked: list[str] = []

    def answers(host: str) -> Heard:
        asked.append(host)
        return Heard.SILENCE

    async def scenario() -> None:
        silent, broken, good = FakeAgent(answer=never), FakeAgent(answer=fail), FakeAgent(fields(node="n03"))
        async with serving(silent, broken, good), serving_at("127.0.0.2") as elsewhere:
            places = (silent, broken, good, address("n04", host="127.0.0.2", port=elsewhere.port))
            async with poller_of(*places, answers=answers) as poller:
                await until(lambda: poller.polls("r01")[0].witness is True)
                assert set(asked) == {"127.0.0.1"}
                assert poller.polls("r01")[1].witness is False
                assert poller.polls("r01")[2].witness is None

    run(scenario)


@asynccontextmanager
async def serving_at(host: str) -> AsyncIterator[FakeAgent]:
    agent = FakeAgent(fields(node="n04", agent_id="agent-4"))
    async with serving(agent, host=host):
        yield agent


@pytest.mark.parametrize(
    "lines",
    [
        b"SSH-2.0-OpenSSH_9.2\r\n",
        b"HTTP/1.1 200 OK\r\n" + b"".join(b"X-%d: y\r\n" % number for number in range(2000)),
        b"HTTP/1.1 200 OK\r\nX: " + b"y" * 100_000 + b"\r\n",
    ],
    ids=["no HTTP", "too many headers", "a header too long"],
)
def test_what_is_not_http_as_it_should_be_is_refused(lines: bytes) -> None:
    async def answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.readuntil(b"\r\n\r\n")
        writer.write(lines + b"\r\n")
        writer.close()

    async def scenario() -> None:
        async with await asyncio.start_server(answer, "127.0.0.1", 0) as server:
            port = server.sockets[0].getsockname()[1]
            async with polling(address(port=port)) as (peer,):
                await until(lambda: peer.polled)
                assert peer.error.startswith("the answer is not HTTP as it should be: ")

    run(scenario)


def test_closing_ends_polls_under_way() -> None:
    async def scenario() -> None:
        agent = FakeAgent(answer=never)
        async with serving(agent):
            async with polling(agent, period_seconds=60.0):
                await until(lambda: agent.requests)
            assert [task for task in asyncio.all_tasks() if task.get_name().startswith("poll ")] == []

    run(scenario)


def test_a_host_that_has_no_address_is_told() -> None:
    async def scenario() -> None:
        async with polling(address(host="no-such-host.invalid"), period_seconds=5.0) as (peer,):
            await until(lambda: peer.polled)
            assert peer.error.startswith("the host name cannot be resolved: ")

    run(scenario)

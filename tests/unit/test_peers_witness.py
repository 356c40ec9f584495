"""The second witness: when a silent host counts as gone, and when not."""

from __future__ import annotations

import asyncio
import errno
import socket
from collections.abc import Mapping

import pytest

from collector.sources.peers.peer import PeerAddress
from collector.sources.peers.witness import Heard, Witness, connect
from tests.agent_http_client import Clock
from tests.peer_agents import address

N01, N02 = address("n01", host="10.0.0.1"), address("n02", host="10.0.0.2")
OTHER_RACK = address("n01", host="10.1.0.1", rack="r02")


class Hosts:
    """A network in which every host's answer is scripted; one without a script never answers."""

    def __init__(self, answers: Mapping[str, Heard]) -> None:
        self.answers = dict(answers)
        self.asked: list[tuple[str, int]] = []

    async def ask(self, host: str, port: int) -> Heard:
        self.asked.append((host, port))
        if host not in self.answers:
            await asyncio.sleep(3600)
        return self.answers[host]


def witness(hosts: Hosts, clock: Clock, *, port: int | None = 22) -> Witness:
    return Witness(port, 0.01, monotonic=clock, ask=hosts.ask)


def question(own: Witness, *addresses: PeerAddress) -> None:
    async def ask_all() -> None:
        for each in addresses:
            await own.question(each)

    asyncio.run(ask_all())


def test_nothing_is_said_of_a_host_that_was_not_asked() -> None:
    assert witness(Hosts({}), Clock()).says(N01) is None


def test_a_host_that_answers_is_not_gone() -> None:
    hosts = Hosts({"10.0.0.1": Heard.ANSWER})
    own = witness(hosts, Clock())
    question(own, N01)
    assert own.says(N01) is False
    assert hosts.asked == [("10.0.0.1", 22)]


@pytest.mark.parametrize("answers", [{}, {"10.0.0.1": Heard.SILENCE}])
def test_silence_counts_only_after_another_host_of_the_rack_was_heard(
    answers: Mapping[str, Heard],
) -> None:
    clock = Clock()
    own = witness(Hosts(answers), clock)
    own.hear(N02)
    clock.seconds += 1
    question(own, N01)
    # n02 was heard before the question: the network may have failed in between.
    assert own.says(N01) is None
    clock.seconds += 1
    own.hear(OTHER_RACK)
    assert own.says(N01) is None
    own.hear(N02)
    assert own.says(N01) is True


def test_the_silence_of_a_whole_rack_says_nothing() -> None:
    clock = Clock()
    own = witness(Hosts({}), clock)
    for each in (N01, N02):
        own.hear(each)
    clock.seconds += 1
    question(own, N01, N02)
    assert (own.says(N01), own.says(N02)) == (None, None)


def test_another_agent_on_the_same_host_is_no_other_host() -> None:
    clock = Clock()
    own = witness(Hosts({}), clock)
    question(own, N01)
    clock.seconds += 1
    own.hear(address("n09", host="10.0.0.1", port=10073))
    assert own.says(N01) is None


def test_a_question_that_never_left_says_nothing() -> None:
    clock = Clock()
    own = witness(Hosts({"10.0.0.1": Heard.NOTHING}), clock)
    question(own, N01)
    clock.seconds += 1
    own.hear(N02)
    assert own.says(N01) is None


def test_a_new_question_replaces_the_old_one() -> None:
    clock = Clock()
    hosts = Hosts({})
    own = witness(hosts, clock)
    question(own, N01)
    clock.seconds += 1
    own.hear(N02)
    assert own.says(N01) is True
    clock.seconds += 1
    question(own, N01)
    assert own.says(N01) is None
    hosts.answers["10.0.0.1"] = Heard.ANSWER
    question(own, N01)
    assert own.says(N01) is False


def test_an_agent_that_answers_needs_no_witness() -> None:
    own = witness(Hosts({"10.0.0.1": Heard.ANSWER}), Clock())
    question(own, N01)
    own.forget(N01)
    assert own.says(N01) is None


def test_an_agent_port_that_refuses_is_a_host_that_answers() -> None:
    own = witness(Hosts({}), Clock())
    own.note_answer(N01)
    assert own.says(N01) is False


def test_without_a_witness_nobody_is_asked_and_nothing_said() -> None:
    hosts = Hosts({"10.0.0.1": Heard.ANSWER})
    own = witness(hosts, Clock(), port=None)
    question(own, N01)
    own.note_answer(N01)
    assert own.says(N01) is None
    assert hosts.asked == []


def test_a_port_that_accepts_or_refuses_is_an_answer() -> None:
    with socket.create_server(("127.0.0.1", 0)) as listener:
        port = listener.getsockname()[1]
        assert asyncio.run(connect("127.0.0.1", port)) is Heard.ANSWER
    assert asyncio.run(connect("127.0.0.1", port)) is Heard.ANSWER


@pytest.mark.parametrize(
    ("code", "heard"),
    [
        (errno.EHOSTUNREACH, Heard.SILENCE),
        (errno.ETIMEDOUT, Heard.SILENCE),
        (errno.ECONNRESET, Heard.ANSWER),
        (errno.ENETUNREACH, Heard.NOTHING),
        (socket.EAI_NONAME, Heard.NOTHING),
    ],
)
def test_errors_are_told_apart(code: int, heard: Heard, monkeypatch: pytest.MonkeyPatch) -> None:
    async def refuse(*_: object) -> None:
        raise OSError(code, "scripted")

    monkeypatch.setattr(asyncio, "open_connection", refuse)
    assert asyncio.run(connect("10.0.0.1", 22)) is heard

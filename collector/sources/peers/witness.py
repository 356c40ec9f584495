"""The second witness: whether the host of a silent agent answers at all (CONTRACTS §3).

A host that lets its witness port time out counts as gone only while another host of its rack is heard after
the question was put. Without that, a cut cable or a failed switch would look like a rack full of dead hosts.
"""

from __future__ import annotations

import asyncio
import enum
import errno
import time
from collections import OrderedDict, defaultdict
from collections.abc import Awaitable, Callable

from collector.sources.peers.peer import PeerAddress

_SILENT_ERRORS = frozenset({errno.EHOSTUNREACH, errno.EHOSTDOWN, errno.ETIMEDOUT})
"""Errors that stand for a host's silence: nobody answers for its address on the link, or none at all. A
network that is unreachable, or a name that cannot be resolved, says nothing about the host."""


class Heard(enum.Enum):
    """What came of a question to a host."""

    ANSWER = "answer"
    SILENCE = "silence"
    NOTHING = "nothing"
    """The question never reached the host's network, so that its silence means nothing."""


Ask = Callable[[str, int], Awaitable[Heard]]
"""Asks a host at a port; takes as long as it takes."""


async def connect(host: str, port: int) -> Heard:
    """Ask by a TCP connection: accepted or refused is an answer."""
    try:
        _, writer = await asyncio.open_connection(host, port)
    except ConnectionError:
        return Heard.ANSWER
    except OSError as error:
        return Heard.SILENCE if error.errno in _SILENT_ERRORS else Heard.NOTHING
    writer.transport.abort()
    return Heard.ANSWER


class Witness:
    """Remembers which hosts were heard, and asks those that were not."""

    def __init__(
        self,
        port: int | None,
        deadline_seconds: float,
        *,
        monotonic: Callable[[], float] = time.monotonic,
        ask: Ask = connect,
    ) -> None:
        """Begin without having heard anything.

        Args:
            port: TCP port that every host answers at; None to ask nothing.
            deadline_seconds: How long an answer may take.
            monotonic: Clock in seconds.
            ask: Asks a host.
        """
        self._port = port
        self._deadline_seconds = deadline_seconds
        self._monotonic = monotonic
        self._ask = ask
        self._heard: dict[str, OrderedDict[str, float]] = defaultdict(OrderedDict)
        self._answers: set[PeerAddress] = set()
        self._asked_at: dict[PeerAddress, float] = {}

    def hear(self, address: PeerAddress) -> None:
        """Note that a host gave a sign of life."""
        hosts = self._heard[address.rack]
        hosts[address.host] = self._monotonic()
        hosts.move_to_end(address.host)

    def forget(self, address: PeerAddress) -> None:
        """Forget what was said about a host, because its agent answers."""
        self._answers.discard(address)
        self._asked_at.pop(address, None)

    async def question(self, address: PeerAddress) -> None:
        """Ask the host of an agent that did not answer."""
        if self._port is None:
            return
        asked_at = self._monotonic()
        try:
            async with asyncio.timeout(self._deadline_seconds):
                heard = await self._ask(address.host, self._port)
        except TimeoutError:
            heard = Heard.SILENCE
        self.forget(address)
        if heard is Heard.ANSWER:
            self.hear(address)
            self._answers.add(address)
        elif heard is Heard.SILENCE:
            self._asked_at[address] = asked_at

    def note_answer(self, address: PeerAddress) -> None:
        """Note that the host answered although its agent did not: it refused the connection."""
        self.forget(address)
        self.hear(address)
        if self._port is not None:
            self._answers.add(address)

    def says(self, address: PeerAddress) -> bool | None:
        """Tell whether a host is gone (True), answers (False), or nothing is known (None)."""
        if address in self._answers:
            return False
        asked_at = self._asked_at.get(address)
        if asked_at is None:
            return None
        return True if self._another_was_heard(address, asked_at) else None

    def _another_was_heard(self, address: PeerAddress, since: float) -> bool:
        """Tell whether another host of the rack was heard after a moment."""
        for host, heard_at in reversed(self._heard[address.rack].items()):
            if host != address.host:
                return heard_at > since
        return False

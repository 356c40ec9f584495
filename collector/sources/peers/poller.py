"""Polls every agent once a period, spread over the period, each within a deadline of its own."""

from __future__ import annotations

import asyncio
import logging
import re
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial

from collector.health.rack_types import Poll
from collector.sources.peers.client import AgentClient, UnreachableError
from collector.sources.peers.document import PeerError, decode
from collector.sources.peers.peer import Answered, Peer, PeerAddress
from collector.sources.peers.witness import Ask, Witness, connect
from collector.sources.redfish.power_states import PowerStates

_logger = logging.getLogger("rackwatt.peers")

_AGENT_SHARE = 0.6
_WITNESS_SHARE = 0.3
"""Parts of the period that an agent, and then the witness, have to answer: together less than the period, so
that a silent node is asked as often as any other."""

_NUMBER = re.compile(r"[0-9.]+")

_CLAIM_PERIODS = 3
"""Periods for which an agent's id stays with the address at which it was heard last."""


@dataclass(frozen=True, slots=True, kw_only=True)
class PollerSettings:
    """How to poll.

    Attributes:
        period_seconds: Time between two polls of one agent.
        witness_port: TCP port that hosts answer at; None for no witness.
        token: Returns the bearer token that agents expect; None for none.
    """

    period_seconds: float = 5.0
    witness_port: int | None = None
    token: Callable[[], str] | None = None


class Poller:
    """The agents of a rack service.

    Attributes:
        peers: One an expected node, in the order of the addresses.
        started_at: When polling began, on the monotonic clock; None before.
        overruns: Polls that fell out because the poll before was not over.
    """

    def __init__(
        self,
        addresses: Sequence[PeerAddress],
        settings: PollerSettings,
        *,
        monotonic: Callable[[], float] = time.monotonic,
        wall_ns: Callable[[], int] = time.time_ns,
        ask: Ask = connect,
        power_states: PowerStates | None = None,
    ) -> None:
        """Prepare to poll; nothing is sent before `start`.

        Args:
            addresses: The agents.
            settings: How to poll.
            monotonic: Clock in seconds.
            wall_ns: Unix time in nanoseconds.
            ask: Asks a host as a second witness.
            power_states: Asks BMCs as another second witness; closed with the poller. None for none.
        """
        self.peers = tuple(Peer(address) for address in addresses)
        self._by_rack: dict[str, list[Peer]] = {}
        for peer in self.peers:
            self._by_rack.setdefault(peer.address.rack, []).append(peer)
        self.started_at: float | None = None
        self.overruns = 0
        self._settings = settings
        self._monotonic = monotonic
        self._wall_ns = wall_ns
        self._deadline_seconds = settings.period_seconds * _AGENT_SHARE
        self._witness = Witness(
            settings.witness_port, settings.period_seconds * _WITNESS_SHARE, monotonic=monotonic, ask=ask
        )
        self._power_states = power_states or PowerStates(())
        self._claims: dict[str, tuple[Peer, float]] = {}
        self._claimed: dict[Peer, str] = {}
        self._client: AgentClient | None = None
        self._schedule: asyncio.Task[None] | None = None
        self._running: dict[Peer, asyncio.Task[None]] = {}
        self._said: dict[Peer, str] = {}

    @property
    def unpolled(self) -> int:
        """Agents of which no poll has ended since the start, good or not."""
        return sum(not peer.polled for peer in self.peers)

    async def start(self) -> None:
        """Begin to poll, and return at once."""
        period = self._settings.period_seconds
        self._client = AgentClient(keepalive_seconds=3 * period, token=self._settings.token)
        self.started_at = self._monotonic()
        self._schedule = asyncio.create_task(self._poll_on(self._client), name="poll agents")

    async def close(self) -> None:
        """Stop polling and end every connection."""
        tasks = [*self._running.values(), *([self._schedule] if self._schedule is not None else [])]
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        await self._power_states.close()
        if self._client is not None:
            await self._client.close()

    def polls(self, rack: str, *, with_events: bool = True) -> tuple[Poll, ...]:
        """Return what is known of the nodes of a rack.

        Args:
            rack: Name of the rack.
            with_events: Whether to hand over new events, each once; else they stay for the next time.
        """
        return tuple(
            peer.poll(self._witness_says(peer.address), with_events=with_events)
            for peer in self._by_rack.get(rack, ())
        )

    def _witness_says(self, address: PeerAddress) -> bool | None:
        """Join the witnesses: a host that answers is not gone, and one without power is."""
        says = self._witness.says(address)
        if says is False:
            return False
        return self._power_states.says(address.rack, address.node) or says

    async def _poll_on(self, client: AgentClient) -> None:
        """Begin a poll of every agent once a period, at a moment of its own within it."""
        period = self._settings.period_seconds
        begin = self._monotonic()
        while True:
            for position, peer in enumerate(self.peers):
                due = begin + period * position / len(self.peers)
                await asyncio.sleep(max(0.0, due - self._monotonic()))
                self._begin(peer, client)
            # After a pause, as of a suspended machine, what was missed is not made up for.
            begin = max(begin + period, self._monotonic() - period)
            await asyncio.sleep(max(0.0, begin - self._monotonic()))

    def _begin(self, peer: Peer, client: AgentClient) -> None:
        if peer in self._running:
            self.overruns += 1
            return
        task = asyncio.create_task(self._poll(peer, client), name=f"poll {peer.address.authority}")
        self._running[peer] = task
        task.add_done_callback(lambda _: self._running.pop(peer, None))

    async def _poll(self, peer: Peer, client: AgentClient) -> None:
        """Poll one agent; whatever it does, the others are polled all the same."""
        try:
            silent = await self._ask_agent(peer, client)
            if silent:
                # BMCs take their time: they answer for the next poll rather than within this one.
                self._power_states.ask(peer.address.rack, peer.address.node)
                await self._witness.question(peer.address)
            else:
                self._power_states.forget(peer.address.rack, peer.address.node)
        except Exception:
            _logger.exception("polling %s failed; this is a defect", peer.address.authority)
            peer.fail("the rack service failed to poll the agent; its log says why")
        peer.polled = True
        self._say(peer)

    async def _ask_agent(self, peer: Peer, client: AgentClient) -> bool:
        """Ask an agent for what is new.

        Returns:
            Whether nothing was heard of its host.
        """
        try:
            async with asyncio.timeout(self._deadline_seconds):
                await self._fetch(peer, client)
        except TimeoutError:
            peer.fail(f"the agent did not answer within {self._deadline_seconds:g} s")
            return True
        except UnreachableError as error:
            peer.fail(str(error))
            if error.host_answers:
                self._witness.note_answer(peer.address)
            return not error.host_answers
        except PeerError as error:
            peer.fail(str(error))
            self._witness.note_answer(peer.address)
            return False
        self._witness.forget(peer.address)
        self._witness.hear(peer.address)
        return False

    async def _fetch(self, peer: Peer, client: AgentClient) -> None:
        for _ in range(3):
            document = decode(await client.get(peer.address.authority, peer.query()))
            answered = peer.take(
                document,
                monotonic=self._monotonic(),
                wall_ns=self._wall_ns(),
                claim=partial(self._claim, peer),
            )
            if answered is Answered.TAKEN:
                return
        raise PeerError("the agent leaves out its series table or its events, although it was asked for them")

    def _claim(self, peer: Peer, agent_id: str) -> str:
        """Note at which address an agent is heard; return the other one if it is heard at two."""
        now = self._monotonic()
        holder, heard_at = self._claims.get(agent_id, (peer, now))
        if holder is not peer and now - heard_at < _CLAIM_PERIODS * self._settings.period_seconds:
            return holder.address.authority
        before = self._claimed.get(peer)
        if before is not None and before != agent_id and self._claims.get(before, (None,))[0] is peer:
            del self._claims[before]
        self._claims[agent_id] = (peer, now)
        self._claimed[peer] = agent_id
        return ""

    def _say(self, peer: Peer) -> None:
        """Log what changed, once; a number in it, such as an age, is no change."""
        said = self._said.get(peer)
        says = _NUMBER.sub("0", peer.error)
        if says == said:
            return
        self._said[peer] = says
        extra = {"rack": peer.address.rack, "node": peer.address.node}
        if peer.error:
            _logger.warning("%s: %s", peer.address.authority, peer.error, extra=extra)
        elif said is not None:
            _logger.info("%s answers well again", peer.address.authority, extra=extra)

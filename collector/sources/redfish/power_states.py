"""The power state of hosts, by their BMC: a second witness for a silent node (CONTRACTS §3).

Off is a proof: a host without power is gone, whatever else is heard or not. Every other answer says nothing.
On says that there is power, not that the host lives: one that hangs in firmware or in a panic is On, too.
PoweringOn, PoweringOff and Paused are on their way to somewhere else.
"""

from __future__ import annotations

import asyncio
import logging
import re
import time
from collections.abc import Callable, Iterable
from dataclasses import dataclass

from collector.sources.redfish.client import SERVICE_ROOT, RedfishClient, RedfishLimits
from collector.sources.redfish.documents import ComputerSystem, ServiceRoot
from collector.sources.redfish.target import RedfishError, RedfishTarget

_logger = logging.getLogger("rackwatt.redfish")

REMEMBERED_SECONDS = 60.0
"""Longest that an answer counts; chosen: a host boots in minutes, so that Off a minute ago may be over."""

_OFF = "Off"
_BASEBOARD = re.compile(r"HGX_Baseboard_\d+")
"""System of a GPU baseboard beside the host's, on NVIDIA's BMCs (facts on tokens, §4; NVIDIA DPS, "Redfish
API"). It has a power state of its own."""


@dataclass(frozen=True, slots=True, kw_only=True)
class BmcTarget:
    """The BMC of a node.

    Attributes:
        rack: Rack of the node.
        node: Name of the node.
        redfish: Its Redfish service.
        system: Id of the host's ComputerSystem; empty for the only one.
    """

    rack: str
    node: str
    redfish: RedfishTarget
    system: str = ""


class PowerStates:
    """Asks BMCs of silent nodes, and remembers what they said. Belongs to one event loop."""

    def __init__(
        self,
        targets: Iterable[BmcTarget],
        *,
        limits: RedfishLimits | None = None,
        monotonic: Callable[[], float] = time.monotonic,
    ) -> None:
        """Prepare to ask; nothing is asked before `ask`.

        Args:
            targets: The BMCs, one a node at most.
            limits: How long a BMC may take; None for the usual times.
            monotonic: Clock in seconds.

        Raises:
            ConfigurationError: A file with certificates cannot be used.
        """
        self._monotonic = monotonic
        self._bmcs = {
            (target.rack, target.node): _Bmc(target, RedfishClient(target.redfish, limits))
            for target in targets
        }

    def ask(self, rack: str, node: str) -> None:
        """Begin to ask the BMC of a silent node, and return at once.

        Nothing happens for a node without a BMC, or while a question runs.
        """
        bmc = self._bmcs.get((rack, node))
        if bmc is None or bmc.is_running:
            return
        bmc.question = asyncio.create_task(self._question(bmc), name=f"ask {bmc.target.redfish.name}")

    def forget(self, rack: str, node: str) -> None:
        """Forget what was said, or is being said, about a node, because its host answers."""
        bmc = self._bmcs.get((rack, node))
        if bmc is not None:
            bmc.forget()

    def says(self, rack: str, node: str) -> bool | None:
        """Tell whether a node's host is without power (True); None for everything else."""
        bmc = self._bmcs.get((rack, node))
        if bmc is None or bmc.state != _OFF or self._monotonic() - bmc.heard_at > REMEMBERED_SECONDS:
            return None
        return True

    async def close(self) -> None:
        """End every question and connection."""
        questions = [bmc.question for bmc in self._bmcs.values() if bmc.question is not None]
        for question in questions:
            question.cancel()
        await asyncio.gather(*questions, return_exceptions=True)
        await asyncio.gather(*(bmc.client.close() for bmc in self._bmcs.values()))

    async def _question(self, bmc: _Bmc) -> None:
        """Ask one BMC; whatever it does, it costs nobody else anything."""
        asked_at = self._monotonic()
        try:
            state = await bmc.read()
        except RedfishError as error:
            bmc.say(str(error))
        except Exception:
            _logger.exception("asking %s failed; this is a defect", bmc.target.redfish.name)
        else:
            bmc.say("")
            # What was true is known for the moment of the question only.
            bmc.state, bmc.heard_at = state, asked_at


class _Bmc:
    """One BMC: where its host's system is, and what it said last."""

    def __init__(self, target: BmcTarget, client: RedfishClient) -> None:
        self.target = target
        self.client = client
        self.heard_at = float("-inf")
        self.state: str | None = None
        self.question: asyncio.Task[None] | None = None
        self._path: str | None = None
        self._said = ""

    @property
    def is_running(self) -> bool:
        return self.question is not None and not self.question.done()

    def forget(self) -> None:
        if self.is_running and self.question is not None:
            self.question.cancel()
        self.state = None

    async def read(self) -> str | None:
        """Return `ComputerSystem.PowerState`."""
        limit = self.client.limits.reading_seconds
        path, self._path = self._path, None
        try:
            async with asyncio.timeout(limit):
                if path is None:
                    path = await self._find_system()
                state = (await self.client.get(path, ComputerSystem)).power_state
        except TimeoutError:
            raise RedfishError(f"the BMC did not tell the power state within {limit:g} s") from None
        self._path = path
        return state

    def say(self, error: str) -> None:
        """Log what changed, once."""
        if error == self._said:
            return
        self._said = error
        name = self.target.redfish.name
        extra = {"rack": self.target.rack, "node": self.target.node}
        if error:
            _logger.warning("BMC %s: %s", name, error, extra=extra)
        else:
            _logger.info("BMC %s tells the power state again", name, extra=extra)

    async def _find_system(self) -> str:
        root = await self.client.get(SERVICE_ROOT, ServiceRoot)
        if root.systems is None:
            raise RedfishError(f"{SERVICE_ROOT}: the service has no systems; this is no BMC of a host")
        by_id = {
            path.rstrip("/").rpartition("/")[2]: path for path in await self.client.members(root.systems.path)
        }
        wanted = self.target.system
        if wanted:
            if wanted not in by_id:
                raise RedfishError(f"there is no system {wanted!r}; {_known(by_id)}")
            return by_id[wanted]
        hosts = [path for name, path in by_id.items() if _BASEBOARD.fullmatch(name) is None]
        if len(hosts) != 1:
            raise RedfishError(
                f"it is not clear which system is the host; {_known(by_id)}; name one in `system`"
            )
        return hosts[0]


def _known(names: Iterable[str]) -> str:
    shown = [name[:64] for name in names]
    text = ", ".join(shown[:8]) + (" …" if len(shown) > 8 else "")
    return f"known: {text}" if shown else "the BMC knows none"

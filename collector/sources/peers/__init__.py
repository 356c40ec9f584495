"""The agents of a rack as a source: polls them, believes nothing unchecked, keeps the newest of each."""

from __future__ import annotations

from collector.sources.peers.document import PeerError
from collector.sources.peers.peer import Peer, PeerAddress
from collector.sources.peers.poller import Poller, PollerSettings

__all__ = ["Peer", "PeerAddress", "PeerError", "Poller", "PollerSettings"]

"""Every board, by its uid: what `rackwatt dashboards` builds, checks and pushes."""

from __future__ import annotations

from dashboards.boards import fleet, node, nvlink, rack, tokens
from dashboards.dashboard import Board

BOARDS: tuple[Board, ...] = (fleet.BOARD, rack.BOARD, tokens.BOARD, nvlink.BOARD, node.BOARD)

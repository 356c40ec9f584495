"""Every colour of the dashboards.

People with any colour vision can tell them apart: status colours are those of Okabe and Ito ("Color Universal
Design", 2008), hues of series are theirs and those of Paul Tol ("Colour Schemes", SRON/EPS/TN/09-002, 3.2).
Colour never speaks alone: every state has its word beside it.
"""

from __future__ import annotations

from typing import Final, NewType

Colour = NewType("Colour", str)
"""A colour as Grafana takes it: `#RRGGBB`, or a word that follows the theme."""

# Status: said of states only, never of a series that is merely one of several.
OK: Final = Colour("#009E73")
DEGRADED: Final = Colour("#E69F00")
FAILED: Final = Colour("#D55E00")
MAINTENANCE: Final = Colour("#0072B2")
UNKNOWN: Final = Colour("#808080")
"""Missing and unknown are grey, never green (DESIGN §6); which grey is chosen: it reads on both themes."""

# Hues: one a family of metrics, so that power has the same colour on every board.
POWER: Final = Colour("#F0E442")
TOKENS: Final = Colour("#56B4E9")
TEMPERATURE: Final = Colour("#CC79A7")
NVLINK: Final = Colour("#AA4499")
MEMORY: Final = Colour("#4477AA")
CLOCK: Final = Colour("#999933")
UTILIZATION: Final = Colour("#88CCEE")
PCIE: Final = Colour("#DDCC77")

NEUTRAL: Final = Colour("text")
"""The theme's own colour of text: for values that are neither good nor bad."""

STATE_COLOURS: Final = {
    "OK": OK,
    "READY": OK,
    "HEALTHY": OK,
    "AVAILABLE": OK,
    "DEGRADED": DEGRADED,
    "FAILED": FAILED,
    "SPLIT": FAILED,
    "UNHEALTHY": FAILED,
    "UNAVAILABLE": FAILED,
    "MAINTENANCE": MAINTENANCE,
    "UNKNOWN": UNKNOWN,
}
"""Colour of every word for a state or verdict (CONTRACTS §3)."""

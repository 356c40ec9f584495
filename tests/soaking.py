"""How much of a long test is run: a part each time, all of it by `make soak`."""

from __future__ import annotations

import os

SOAKING = bool(os.environ.get("RACKWATT_SOAK"))
"""Whether long tests run at full length."""


def repetitions(usual: int, soaking: int) -> range:
    """Number the repetitions of a test.

    Args:
        usual: How many each time.
        soaking: How many in `make soak`.
    """
    return range(soaking if SOAKING else usual)

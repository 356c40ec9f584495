"""Deadlines: the literals of DESIGN §3, and what a slower cadence makes of them."""

from __future__ import annotations

import pytest

from collector.deadlines import Deadlines


def test_the_usual_limits_are_those_of_the_design() -> None:
    # DESIGN §3: stale at 2 s, not served after 5 s, killed at 10 s, start-up 60 s.
    assert Deadlines() == Deadlines(stale=2.0, withhold=5.0, restart=10.0, startup=60.0)


@pytest.mark.parametrize(
    ("fast_seconds", "expected"),
    [
        (0.2, Deadlines(stale=2.0, withhold=5.0, restart=10.0, startup=60.2)),
        (1.0, Deadlines(stale=2.0, withhold=5.0, restart=10.0, startup=61.0)),
        (30.0, Deadlines(stale=60.0, withhold=150.0, restart=300.0, startup=90.0)),
    ],
)
def test_a_slower_cadence_stretches_them_and_a_faster_one_does_not(
    fast_seconds: float, expected: Deadlines
) -> None:
    assert Deadlines.for_period(fast_seconds) == expected

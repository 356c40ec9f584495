"""How large a batch may be, and how one is cut into pieces."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from exporters.influxdb.batch_limit import BatchLimit
from exporters.influxdb.pieces import Pieces

LEAST = 16 * 1024


def test_five_failures_halve_and_eight_successes_double() -> None:
    limit = BatchLimit()
    assert [limit.failed(800_000) for _ in range(5)] == [False] * 4 + [True]
    assert limit.bytes == 400_000
    for _ in range(7):
        limit.taken(390_000)
    assert limit.bytes == 400_000
    limit.taken(390_000)
    assert limit.bytes == 800_000
    assert limit.failed(700_000)  # the first one after that
    assert limit.bytes == 350_000


def test_a_success_in_between_forgets_failures() -> None:
    limit = BatchLimit()
    for _ in range(10):
        assert not any(limit.failed(500_000) for _ in range(4))
        limit.taken(100)
    assert limit.bytes == 1_000_000


def test_small_batches_prove_nothing_of_large_ones() -> None:
    limit = BatchLimit()
    for _ in range(5):
        limit.failed(1_000_000)
    for _ in range(100):
        limit.taken(1000)
        assert not limit.failed(1000)
    assert limit.bytes == 500_000


def test_what_is_too_large_is_a_ceiling() -> None:
    limit = BatchLimit()
    limit.too_large(600_000)
    for _ in range(100):
        limit.taken(limit.bytes)
    assert limit.bytes == 300_000


@given(st.lists(st.tuples(st.sampled_from(["taken", "failed", "too_large"]), st.integers(1, 2_000_000))))
def test_a_limit_stays_within_its_bounds(steps: list[tuple[str, int]]) -> None:
    limit = BatchLimit()
    for what, size in steps:
        getattr(limit, what)(size)
        assert LEAST <= limit.bytes <= 1_000_000


@given(st.lists(st.text("abc", min_size=1, max_size=40), min_size=1, max_size=40), st.integers(1, 100))
def test_what_is_cut_is_the_same_lines_in_order(texts: list[str], maximum_bytes: int) -> None:
    payload = b"".join(text.encode() + b"\n" for text in texts)
    pieces = Pieces(payload)
    pieces.cut(maximum_bytes)
    bodies = []
    while pieces.left:
        bodies.append(pieces.body())
        assert len(bodies[-1]) <= maximum_bytes or pieces.points == 1
        pieces.written()
    assert b"".join(bodies) == payload
    assert pieces.accepted == len(texts)
    assert pieces.rejected == []

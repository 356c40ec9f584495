"""The verdict: the table of CONTRACTS §3 row by row, and the default block."""

from __future__ import annotations

import pytest

from collector.errors import ConfigurationError
from collector.health.states import Verdict
from collector.health.verdict import (
    CliqueCount,
    check_min_block,
    default_min_block,
    judge_rack,
    largest_block,
)

# CONTRACTS §3, table "N=18, K=16, one clique: schedulable / out / unknown / maintenance".
TABLE = [
    ((16, 2, 0, 0), "AVAILABLE"),
    ((15, 3, 0, 0), "UNAVAILABLE"),
    ((14, 3, 0, 1), "UNAVAILABLE"),
    ((15, 0, 3, 0), "UNKNOWN"),
    ((15, 2, 1, 0), "UNKNOWN"),
    ((14, 2, 1, 1), "UNKNOWN"),
    ((13, 0, 3, 2), "UNKNOWN"),
    ((0, 0, 18, 0), "UNKNOWN"),
    ((15, 0, 0, 3), "MAINTENANCE"),
    ((15, 2, 0, 1), "MAINTENANCE"),
    ((15, 1, 1, 1), "MAINTENANCE"),
    ((14, 0, 2, 2), "MAINTENANCE"),
    ((0, 0, 0, 18), "MAINTENANCE"),
]


@pytest.mark.parametrize(("counts", "verdict"), TABLE)
def test_one_clique_of_eighteen(counts: tuple[int, int, int, int], verdict: str) -> None:
    schedulable, out, unknown, maintenance = counts
    assert schedulable + out + unknown + maintenance == 18
    assert judge_rack({"q": CliqueCount(schedulable, unknown, maintenance)}, 16) is Verdict(verdict)


def test_two_declared_cliques_of_nine_are_available_with_a_block_of_eight() -> None:
    assert judge_rack({"a": CliqueCount(9), "b": CliqueCount(9)}, 8) is Verdict.AVAILABLE


def test_a_clique_split_ten_and_eight_is_unavailable() -> None:
    assert judge_rack({"a": CliqueCount(10), "b": CliqueCount(8)}, 16) is Verdict.UNAVAILABLE


def test_blocks_of_two_cliques_do_not_add_up() -> None:
    cliques = {"a": CliqueCount(9), "b": CliqueCount(7, unknown=2)}
    assert largest_block(cliques) == 9
    assert judge_rack(cliques, 10) is Verdict.UNAVAILABLE


def test_nothing_offers_no_block() -> None:
    assert largest_block({}) == 0
    assert judge_rack({}, 1) is Verdict.UNAVAILABLE


@pytest.mark.parametrize(
    ("nodes", "clique", "fabric", "block"),
    [
        (18, 18, True, 16),  # CONTRACTS §3: "16 of 18"
        (18, 9, True, 8),  # CONTRACTS §3: "8 of 9"
        (8, 8, True, 8),
        (1, 1, True, 1),
        (8, 8, False, 7),  # HGX: max(1, 8 - max(1, 0))
        (18, 1, False, 16),
        (1, 1, False, 1),  # HGX: max(1, 0)
    ],
)
def test_the_default_block(nodes: int, clique: int, fabric: bool, block: int) -> None:
    assert default_min_block(nodes=nodes, largest_clique=clique, rack_wide_fabric=fabric) == block


@pytest.mark.parametrize("block", [0, -1, 19])
def test_a_block_that_cannot_be_had_is_refused(block: int) -> None:
    with pytest.raises(ConfigurationError, match="between 1 and 18"):
        check_min_block(block, 18)


def test_a_block_that_can_be_had_is_taken() -> None:
    assert (check_min_block(1, 18), check_min_block(18, 18)) == (1, 18)

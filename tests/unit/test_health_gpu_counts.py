"""How many GPUs a rack should have: what is declared goes first (CONTRACTS §3)."""

from __future__ import annotations

import pytest

from collector.health.gpu_counts import expected_gpus, expected_gpus_of
from collector.health.rack_types import NodeStatus, Poll
from collector.health.states import NodeState
from tests.rack_builders import make_view


def node(said: int | None, *, heard: bool = True) -> NodeStatus:
    view = make_view(gpus_expected=said) if heard else None
    return NodeStatus("n01", NodeState.READY, True, 0, (), "", False, Poll("n01", "n01:10072", view))


@pytest.mark.parametrize(
    ("said", "heard", "declared", "expected"),
    [
        (8, True, 4, 4),
        (8, True, None, 8),
        (None, True, 4, 4),
        (None, True, None, None),
        (None, False, 4, 4),
        (None, False, None, None),
    ],
)
def test_what_is_declared_goes_first(
    said: int | None, heard: bool, declared: int | None, expected: int | None
) -> None:
    assert expected_gpus_of(node(said, heard=heard), declared) == expected


def test_one_node_that_is_not_known_leaves_the_sum_unknown() -> None:
    assert expected_gpus([node(4), node(8)], None) == 12
    assert expected_gpus([node(4), node(None)], None) is None
    assert expected_gpus([node(8), node(None, heard=False)], 4) == 8

"""Links that keep what the reader has chosen: variables and time."""

from __future__ import annotations

from dashboards.identities import BoardId
from dashboards.panels.fields import DataLink

_KEPT = ("datasource", "cluster")


def label(name: str) -> str:
    """Return what stands for a label of the series that was clicked on."""
    return f"${{__field.labels.{name}}}"


def cell(column: str) -> str:
    """Return what stands for another column of the table row that was clicked on."""
    return f'${{__data.fields["{column}"]}}'


def to_board(
    board: BoardId, title: str, *, kept: tuple[str, ...] = (), new_tab: bool = False, **set_to: str
) -> DataLink:
    """Link to a board, with the time range and with variables.

    Args:
        board: Where it leads.
        title: What the menu shows.
        kept: Variables, beyond datasource and cluster, that go along as they are; this board must have them.
        new_tab: Whether it opens beside this one.
        **set_to: Variables that are set: `rack=label("rack")`, `node=cell("node")`.

    Raises:
        ValueError: A variable is both kept and set.
    """
    if both := set(kept) & set(set_to):
        raise ValueError(f"kept and set: {sorted(both)}")
    parts = [
        "${__url_time_range}",
        *(f"${{{name}:queryparam}}" for name in (*_KEPT, *kept) if name not in set_to),
        *(f"var-{name}={value}" for name, value in set_to.items()),
    ]
    return DataLink(title, f"/d/{board.uid}?{'&'.join(parts)}", new_tab)


def to_rack(board: BoardId = BoardId.RACK, *, source: str = label("rack")) -> DataLink:
    """Link a value of a rack to a board about it."""
    return to_board(board, _opens(board, "this rack"), rack=source)


def to_node(
    board: BoardId = BoardId.NODE, *, rack: str = label("rack"), node: str = label("node")
) -> DataLink:
    """Link a value of a node to a board about it."""
    return to_board(board, _opens(board, "this node"), rack=rack, node=node)


def to_gpu(
    board: BoardId = BoardId.NODE,
    *,
    rack: str = label("rack"),
    node: str = label("node"),
    gpu: str = label("gpu"),
) -> DataLink:
    """Link a value of a GPU to a board about it."""
    return to_board(board, _opens(board, "this GPU"), rack=rack, node=node, gpu=gpu)


def _opens(board: BoardId, what: str) -> str:
    return f"{board.title.removeprefix('rackwatt: ')} of {what}"

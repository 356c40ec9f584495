"""`python -m tests.gallery`: draws every dashboard, in the hour of the demo's faults, for docs/gallery.md."""

from __future__ import annotations

import argparse
import subprocess
import sys
import tempfile
from collections.abc import Mapping
from pathlib import Path

from dashboards.catalogue import BOARDS
from dashboards.identities import BoardId
from tests.gallery.page import draw
from tests.history import plans
from tests.history.__main__ import data_of
from tests.history.asking import View
from tests.history.prometheus import serving

REPOSITORY = Path(__file__).parents[2]
PICTURES = REPOSITORY / "docs/images/dashboards"
LARGEST_BYTES = 300_000
"""Largest picture that the repository takes (chosen)."""

VIEWS: Mapping[BoardId, View] = {
    BoardId.FLEET: View(),
    BoardId.RACK: View(chosen={"rack": "r01"}),
    BoardId.EFFICIENCY: View(),
    BoardId.NVLINK: View(chosen={"rack": "r01"}),
    BoardId.NODE: View(chosen={"rack": "r01", "node": "n03"}),
}
"""What of each board is shown: the way that someone on call takes."""


def main() -> int:
    """Draw.

    Returns:
        1 if a picture is too large, else 0.
    """
    parser = argparse.ArgumentParser(prog="python -m tests.gallery", description=__doc__)
    parser.add_argument("--data", type=Path, help="a folder in which `python -m tests.history demo` has been")
    parser.add_argument("--output", type=Path, default=PICTURES, help="where the pictures go")
    parser.add_argument("--board", choices=[board.value for board in BoardId], help="one only")
    given = parser.parse_args()
    if given.data is not None:
        return _draw_all(given.data, given.output, given.board)
    with tempfile.TemporaryDirectory(prefix="rackwatt-gallery-") as folder:
        command = [sys.executable, "-m", "tests.history", plans.DEMO.name, folder]
        subprocess.run(command, check=True, cwd=REPOSITORY, stdin=subprocess.DEVNULL)
        return _draw_all(Path(folder), given.output, given.board)


def _draw_all(folder: Path, output: Path, only: str | None) -> int:
    output.mkdir(parents=True, exist_ok=True)
    too_large = 0
    with serving(data_of(plans.DEMO.name, folder)) as prometheus:
        for board in BOARDS:
            if only is not None and board.identity.value != only:
                continue
            path = output / f"{board.identity.value}.png"
            draw(board, VIEWS[board.identity], prometheus).save(path)
            size = path.stat().st_size
            print(f"{path.name}: {size / 1000:.0f} kB")
            too_large += size > LARGEST_BYTES
    return 1 if too_large else 0


if __name__ == "__main__":
    sys.exit(main())

"""`python -m tests.history PLAN FOLDER`: a history, and the blocks of a Prometheus that lived through it."""

from __future__ import annotations

import argparse
import json
import sys
from pathlib import Path

from tests.history import blocks, plans
from tests.history.simulate import BEGIN_SECONDS, END_SECONDS, simulate

PLANS = {plan.name: plan for plan in (plans.NORMAL, plans.FAULTS, plans.DEMO)}


def data_of(name: str, folder: Path) -> Path:
    """Return where the blocks of a plan are."""
    return folder / f"{name}-data"


def answers_of(name: str, folder: Path) -> Path:
    """Return where the answers of the REST interface at the end are, as one JSON object by path."""
    return folder / f"{name}-rest.json"


def main() -> int:
    """Make a history."""
    parser = argparse.ArgumentParser(prog="python -m tests.history", description=__doc__)
    parser.add_argument("plan", choices=sorted(PLANS), help="what happens")
    parser.add_argument("folder", type=Path, help="where everything is written; it exists")
    given = parser.parse_args()
    history = simulate(PLANS[given.plan], given.folder)
    answers_of(given.plan, given.folder).write_text(json.dumps(history.rest), "utf-8")
    blocks.fill(history.file, data_of(given.plan, given.folder), BEGIN_SECONDS, END_SECONDS)
    history.file.unlink()
    return 0


if __name__ == "__main__":
    sys.exit(main())

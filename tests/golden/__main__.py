"""`python -m tests.golden [--check]`: write the generated files anew, or say which are out of date."""

from __future__ import annotations

import argparse
import difflib
import sys
from collections.abc import Iterator, Sequence

from tests.golden.files import REPOSITORY, differing, left_over

_SHOWN_LINES = 20


def main(argv: Sequence[str] | None = None) -> int:
    """Do it.

    Returns:
        Exit status: with `--check` 1 if a file is not as it should be, else 0.
    """
    parser = argparse.ArgumentParser(prog="python -m tests.golden", description=__doc__)
    parser.add_argument("--check", action="store_true", help="write nothing; exit status 1 if it would")
    arguments = parser.parse_args(argv)
    wrong, surplus = differing(), left_over()
    for name, text in wrong.items():
        print(f"{name}: {'out of date; renew it: make golden' if arguments.check else 'renewed'}")
        if arguments.check:
            print("\n".join(_difference(name, text)))
        else:
            path = REPOSITORY / name
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(text, encoding="utf-8")
    for name in surplus:
        print(f"{name}: {'nothing generates it; remove it: make golden' if arguments.check else 'removed'}")
        if not arguments.check:
            (REPOSITORY / name).unlink()
    return int(arguments.check and bool(wrong or surplus))


def _difference(name: str, text: str) -> Iterator[str]:
    """Yield the first lines of the difference between a file and what it should be."""
    path = REPOSITORY / name
    before = path.read_text("utf-8").splitlines() if path.exists() else []
    lines = list(difflib.unified_diff(before, text.splitlines(), "committed", "generated", n=0, lineterm=""))
    yield from lines[:_SHOWN_LINES]
    if len(lines) > _SHOWN_LINES:
        yield f"… and {len(lines) - _SHOWN_LINES} lines more"


if __name__ == "__main__":
    sys.exit(main())

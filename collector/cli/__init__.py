"""The command line: `rackwatt COMMAND`. One file a command; each imports what it needs when it runs."""

from __future__ import annotations

import sys
from collections.abc import Sequence


def main(argv: Sequence[str] | None = None) -> int:
    """Run the command line.

    Args:
        argv: Words after the program's name; those of the process if None.

    Returns:
        Exit status: 0 good, 1 the thing checked is bad, 2 misuse or bad configuration.
    """
    words = sys.argv[1:] if argv is None else list(argv)
    # The reader is a process of its own, started by the agent only: it goes round the parser, whose
    # import it would carry for its whole life.
    if words[:1] == ["reader"]:
        from collector.cli import reader

        return reader.run(words[1:])
    from collector.cli import program

    return program.run(words)

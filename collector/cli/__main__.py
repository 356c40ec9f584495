"""The command line by `python -m collector.cli`, or by this file's path, as the agent starts its reader."""

from __future__ import annotations

import os
import sys

if not __package__:
    # Started by its path: the folder that holds the package need not be among those that are searched.
    _root = __file__.rsplit(os.sep, 3)[0]
    if _root not in sys.path:
        sys.path.insert(0, _root)

from collector.cli import main

if __name__ == "__main__":
    sys.exit(main())

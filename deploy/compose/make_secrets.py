"""Make the secrets of docker-compose.yml: one random line in each file that is named and not there yet.

Arguments: paths of the files. They belong to the image's user and can be read by its group alone.
"""

from __future__ import annotations

import os
import secrets
import sys
from pathlib import Path

BYTES = 32
"""As many as no search finds; in hexadecimal, with `PREFIX`, 65 characters of the 72 that a password of
InfluxDB can have (influxdata/influxdb, pull request 24890)."""
PREFIX = "R"
"""InfluxDB can be told to want three kinds of characters, of which this is one (the same)."""
MODE = 0o640


def make_secret(path: Path) -> bool:
    """Write a new secret, whole or not at all, unless the file is there; tell whether it was written."""
    if path.exists():
        return False
    write_secret(path, PREFIX + secrets.token_hex(BYTES))
    return True


def write_secret(path: Path, secret: str) -> None:
    """Put a secret into a file in one step."""
    draft = path.with_name(f".{path.name}.new")
    draft.unlink(missing_ok=True)
    descriptor = os.open(draft, os.O_WRONLY | os.O_CREAT | os.O_EXCL, MODE)
    with os.fdopen(descriptor, "w", encoding="ascii") as file:
        file.write(f"{secret}\n")
        os.fchmod(descriptor, MODE)  # whatever the umask is
        file.flush()
        os.fsync(descriptor)
    draft.replace(path)


def main(arguments: list[str]) -> int:
    """Make what is missing, and say what was done, without the secrets."""
    for argument in arguments:
        path = Path(argument)
        print(f"{path}: {'made' if make_secret(path) else 'is there already'}", flush=True)
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))

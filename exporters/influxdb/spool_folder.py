"""The folder of a spool: private, and with one writer."""

from __future__ import annotations

import contextlib
import fcntl
import os
import stat
from pathlib import Path
from typing import BinaryIO

from collector.errors import ConfigurationError

_LOCK_NAME = "lock"


def prepare(directory: Path) -> None:
    """Make the folder, for this user only.

    Raises:
        ConfigurationError: It cannot be made, or written; everybody can write it; or this is root, whose
            files the user that it belongs to could not read any more.
    """
    try:
        directory.mkdir(mode=0o700, parents=True, exist_ok=True)
        status = directory.stat()
        writable = os.access(directory, os.W_OK | os.X_OK)
    except OSError as error:
        raise _unusable(directory, str(error)) from error
    if not writable:
        raise _unusable(directory, "it cannot be written")
    if status.st_mode & stat.S_IWOTH:
        raise ConfigurationError(f"spool {directory}: every user of this machine can write it; chmod 0700 it")
    if os.geteuid() == 0 and status.st_uid != 0:
        raise ConfigurationError(
            f"spool {directory}: it belongs to user {status.st_uid}; run this as that user, as root's files"
            " would keep its agent from starting"
        )


def lock(directory: Path) -> BinaryIO:
    """Become the one writer of a spool, until the returned file is closed or the process ends.

    Raises:
        ConfigurationError: Another process is, or the folder cannot be written.
    """
    flags = os.O_RDWR | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW
    try:
        file = os.fdopen(os.open(directory / _LOCK_NAME, flags, 0o600), "r+b")
    except OSError as error:
        raise _unusable(directory, str(error)) from error
    try:
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError as error:
        holder = file.read(20).decode("ascii", errors="replace").strip() or "unknown"
        file.close()
        raise ConfigurationError(
            f"spool {directory}: another agent (process {holder}) writes it; stop that one, or give each its "
            "own spool path"
        ) from error
    with contextlib.suppress(OSError):  # On a full disk the number is missing, the lock holds all the same.
        file.truncate(0)
        file.write(f"{os.getpid()}\n".encode("ascii"))
        file.flush()
    return file


def _unusable(directory: Path, why: str) -> ConfigurationError:
    return ConfigurationError(f"spool {directory}: {why}; it must be a folder that can be written")

"""The folder of a spool: private, and with one writer."""

from __future__ import annotations

import contextlib
import errno
import fcntl
import os
import stat
from pathlib import Path
from typing import BinaryIO

from collector.errors import ConfigurationError

_LOCK_NAME = "lock"

_OF_THE_DISK = frozenset(
    {
        errno.EIO,
        errno.EROFS,
        errno.ENOSPC,
        errno.EDQUOT,
        errno.ENODEV,
        errno.ENXIO,
        errno.ESTALE,
        errno.ETIMEDOUT,
        errno.EMFILE,
        errno.ENFILE,
        errno.ENOMEM,
    }
)
"""What a disk, or the machine, says that fails or is full, read-only or away (errno(3)); it may heal."""


_WANTED = "it must be a folder that can be written, with files that can be read and written"


class SpoolDiskError(ConfigurationError):
    """The disk does not let a spool be opened now; nothing that is configured is to blame."""


def prepare(directory: Path) -> None:
    """Make the folder, for this user only.

    Raises:
        ConfigurationError: It cannot be made, or written; everybody can write it; or this is root, whose
            files the user that it belongs to could not read any more.
        SpoolDiskError: The disk fails, or is full or read-only.
    """
    try:
        directory.mkdir(mode=0o700, parents=True, exist_ok=True)
        status = directory.stat()
        writable = os.access(directory, os.W_OK | os.X_OK)
        if not writable and os.statvfs(directory).f_flag & os.ST_RDONLY:
            raise OSError(errno.EROFS, os.strerror(errno.EROFS))  # noqa: TRY301 -- as `mkdir` says it
    except OSError as error:
        raise unusable(directory, error) from error
    if not writable:
        raise ConfigurationError(f"spool {directory}: it cannot be written; {_WANTED}")
    check_owner(directory, status)


def check_owner(directory: Path, status: os.stat_result) -> None:
    """Look at whose a folder is, and who can write it.

    Raises:
        ConfigurationError: Everybody can write it; or this is root, and it is another user's.
    """
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
        SpoolDiskError: The disk fails, or is full or read-only.
    """
    flags = os.O_RDWR | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW
    try:
        file = os.fdopen(os.open(directory / _LOCK_NAME, flags, 0o600), "r+b")
    except OSError as error:
        raise unusable(directory, error) from error
    try:
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError as error:
        holder = file.read(20).decode("ascii", errors="replace").strip() or "unknown"
        file.close()
        raise ConfigurationError(
            f"spool {directory}: another agent (process {holder}) writes it; stop that one, or give each its "
            "own spool path"
        ) from error
    except OSError as error:
        file.close()
        raise unusable(directory, error) from error
    with contextlib.suppress(OSError):  # On a full disk the number is missing, the lock holds all the same.
        file.truncate(0)
        file.write(f"{os.getpid()}\n".encode("ascii"))
        file.flush()
    return file


def unusable(directory: Path, error: OSError) -> ConfigurationError:
    """Say that a spool cannot be opened: a `SpoolDiskError` where the disk is to blame."""
    if error.errno in _OF_THE_DISK:
        return SpoolDiskError(f"spool {directory}: {error}; the disk must work, be writable and have room")
    return ConfigurationError(f"spool {directory}: {error}; {_WANTED}")

"""A secret in a file, read anew when the file changes; never logged, never part of a message."""

from __future__ import annotations

import logging
import os
import re
import stat
from pathlib import Path

from collector.errors import ConfigurationError

_logger = logging.getLogger("rackwatt.token")

_MAXIMUM_BYTES = 4096
"""Largest file that is read; a token has some dozens of bytes."""

_TOKEN = re.compile(rb"[\x21-\x7e]+")
"""What may stand in an Authorization header without quoting (RFC 9110 §5.5, visible ASCII)."""

_Version = tuple[int, int, int]


class TokenFile:
    """Gives the token that a file holds.

    A file that cannot be read any more costs nothing but a warning: the token known last is kept, as it is
    while a file is being replaced.
    """

    def __init__(self, path: str) -> None:
        """Read the file.

        Args:
            path: The file; surrounding white space in it is not part of the token.

        Raises:
            ConfigurationError: The file cannot be read, or holds no token.
        """
        self._path = Path(path)
        self._complained = ""
        self._version, self._token = self._read()

    def __repr__(self) -> str:
        """Name the file, not the token."""
        return f"TokenFile({str(self._path)!r})"

    def token(self) -> str:
        """Return the token as the file has it now."""
        try:
            if _version(self._path.stat()) != self._version:
                self._version, self._token = self._read()
                _logger.info("the token in %s was replaced", self._path)
        except OSError as error:
            self._complain(f"{self._path}: cannot be read: {error.strerror}")
        except ConfigurationError as error:
            self._complain(str(error))
        else:
            self._complained = ""
        return self._token

    def _complain(self, text: str) -> None:
        if text != self._complained:
            self._complained = text
            _logger.warning("%s; the token known last is kept", text)

    def _read(self) -> tuple[_Version, str]:
        try:
            with self._path.open("rb") as file:
                status = os.fstat(file.fileno())
                content = file.read(_MAXIMUM_BYTES + 1)
        except (OSError, ValueError) as error:
            reason = error.strerror if isinstance(error, OSError) and error.strerror else str(error)
            raise ConfigurationError(f"{self._path}: cannot be read: {reason}") from None
        if status.st_mode & stat.S_IROTH:
            _logger.warning("every user of this machine can read %s; chmod 0640 it", self._path)
        token = content.strip()
        if len(content) > _MAXIMUM_BYTES or _TOKEN.fullmatch(token) is None:
            raise ConfigurationError(
                f"{self._path}: holds no token: one line of visible ASCII characters without spaces is right"
            )
        return _version(status), token.decode("ascii")


def _version(status: os.stat_result) -> _Version:
    return status.st_ino, status.st_mtime_ns, status.st_size

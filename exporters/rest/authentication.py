"""Who may write: whoever brings the token of the configured file (CONTRACTS §5: writes need one always)."""

from __future__ import annotations

import hashlib
import hmac
from http import HTTPStatus
from typing import Annotated

from fastapi import Depends, FastAPI, Request
from fastapi.security import HTTPBearer
from fastapi.security.http import HTTPAuthorizationCredentials

from collector.token_file import TokenFile
from exporters.rest.problems import ProblemError

_CHALLENGE = 'Bearer realm="rackwatt"'

NOT_CONFIGURED = (
    "Writes are refused, because no token is configured: put one into a file, set `api_token_file` in the"
    " configuration of the rack service to its path, and restart the service."
)

_bearer = HTTPBearer(
    auto_error=False,
    scheme_name="token",
    description="The token in the file that `api_token_file` of the configuration names.",
)


class WriteGuard:
    """Lets through who knows the token. The file is read anew when it changes."""

    def __init__(self, path: str | None) -> None:
        """Read the file.

        Args:
            path: The file; None lets nobody through.

        Raises:
            ConfigurationError: The file cannot be read, or holds no token.
        """
        self._file = None if path is None else TokenFile(path)

    def admit(self, presented: str | None) -> None:
        """Return if the presented token is the right one.

        Args:
            presented: What stands behind `Bearer` in the request; None for nothing.

        Raises:
            ProblemError: 403 if none is configured, 401 if none or a wrong one is presented (RFC 6750 §3).
        """
        if self._file is None:
            raise ProblemError(HTTPStatus.FORBIDDEN, NOT_CONFIGURED)
        if presented is None:
            raise ProblemError(
                HTTPStatus.UNAUTHORIZED,
                "Writes need the token: send the header `Authorization: Bearer TOKEN`.",
                headers={"WWW-Authenticate": _CHALLENGE},
            )
        # Digests are equally long, so the comparison tells neither content nor length of the token.
        if not hmac.compare_digest(_digest(presented), _digest(self._file.token())):
            raise ProblemError(
                HTTPStatus.UNAUTHORIZED,
                "The token is not the one in the file that `api_token_file` names.",
                headers={"WWW-Authenticate": f'{_CHALLENGE}, error="invalid_token"'},
            )


def install(app: FastAPI, path: str | None) -> None:
    """Give an application its guard.

    Raises:
        ConfigurationError: The token file cannot be used.
    """
    app.state.write_guard = WriteGuard(path)


async def admitted(
    request: Request, credentials: Annotated[HTTPAuthorizationCredentials | None, Depends(_bearer)]
) -> None:
    """Be a dependency of every route that writes."""
    guard: WriteGuard = request.app.state.write_guard
    guard.admit(credentials.credentials if credentials else None)


def _digest(token: str) -> bytes:
    return hashlib.sha256(token.encode("utf-8", errors="replace")).digest()

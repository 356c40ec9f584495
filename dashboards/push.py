"""Brings the boards into a Grafana: what differs is written, or shown by a dry run."""

from __future__ import annotations

import json
import re
import ssl
from collections.abc import AsyncIterator, Mapping
from dataclasses import dataclass

from dashboards.build import dump, first_lines, unified
from dashboards.grafana_api import Grafana, StoredBoard

_FOLDER = re.compile(r"[A-Za-z0-9_-]{1,40}")
"""Uids of folders (Grafana's documentation, "Folder API": at most 40 characters; the letters are those that
need no quoting in a path)."""

_GIVEN_BY_GRAFANA = ("id", "version")
"""What Grafana numbers itself when it stores a board."""

_SHOWN_LINES = 200
"""Lines of a difference that a dry run shows for each board (chosen)."""


def folder_uid(text: str) -> str:
    """Check the uid of a folder.

    Raises:
        ValueError: Grafana would not take it.
    """
    if _FOLDER.fullmatch(text) is None:
        raise ValueError(f"{text[:100]!r} is no uid of a folder; use 1 to 40 of A-Z a-z 0-9 _ -")
    return text


@dataclass(frozen=True, slots=True, kw_only=True)
class Push:
    """What is to be brought where.

    Attributes:
        url: What `grafana_url` returns.
        token: Token of a service account.
        trust: Whose certificates are believed; True for the system's authorities.
        folder: Uid of the folder, and its title where it has to be created.
        message: What the history of each dashboard says.
        dry_run: True writes nothing, and shows differences instead.
    """

    url: str
    token: str
    trust: ssl.SSLContext | bool
    folder: str
    message: str
    dry_run: bool

    def __repr__(self) -> str:
        """Name the URL, not the token."""
        return f"Push({self.url!r}, folder={self.folder!r}, dry_run={self.dry_run})"


async def push(wanted: Push, boards: Mapping[str, str]) -> AsyncIterator[str]:
    """Bring boards into a Grafana.

    Args:
        wanted: Where, and how.
        boards: JSON texts of the boards by uid.

    Yields:
        What was done, or would be, line by line.

    Raises:
        GrafanaError: Grafana cannot be asked, or refuses. Boards before the one that failed are written.
    """
    async with Grafana(wanted.url, wanted.token, wanted.trust) as grafana:
        if not await grafana.has_folder(wanted.folder):
            yield f"folder {wanted.folder}: {'would be created' if wanted.dry_run else 'created'}"
            if not wanted.dry_run:
                await grafana.create_folder(wanted.folder, wanted.folder)
        for uid, text in boards.items():
            stored = await grafana.board(uid)
            if stored is not None and stored.folder == wanted.folder and _plain(stored) == text:
                yield f"{uid}: up to date"
                continue
            if wanted.dry_run:
                for line in _would_change(uid, stored, text, wanted.folder):
                    yield line
                continue
            await grafana.save(uid, json.loads(text), wanted.folder, wanted.message)
            yield f"{uid}: {'created' if stored is None else 'renewed'}"


def _plain(stored: StoredBoard) -> str:
    """Write a stored board as it would be committed."""
    return dump({name: value for name, value in stored.json.items() if name not in _GIVEN_BY_GRAFANA})


def _would_change(uid: str, stored: StoredBoard | None, text: str, folder: str) -> list[str]:
    if stored is None:
        return [f"{uid}: would be created, with {len(text.splitlines())} lines"]
    lines = [f"{uid}: would be renewed"]
    if stored.folder != folder:
        lines.append(f"{uid}: would move from folder {stored.folder[:40] or 'General'!r} to {folder!r}")
    return [*lines, *first_lines(unified(uid, _plain(stored), text, context=3), _SHOWN_LINES)]

"""What is generated, as texts by path: deterministic, sorted, one newline at the end.

`GENERATORS` lists who gives what. Paths are relative to `dashboards/generated/`, or to where
`rackwatt dashboards build --output` says.
"""

from __future__ import annotations

import difflib
import json
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from functools import partial
from pathlib import Path

from collector.errors import ConfigurationError
from dashboards.catalogue import BOARDS
from dashboards.rules.files import rule_files, rule_test_files
from dashboards.rules.parameters import DEFAULTS, Parameters

GENERATED = Path(__file__).parent / "generated"
"""Where the generated files are committed."""

_SHOWN_LINES = 20
"""Lines of a difference that are shown for each file (chosen)."""


@dataclass(frozen=True, slots=True)
class Generator:
    """One source of generated files.

    Attributes:
        folder: Folder that holds nothing but its files, and every file of which is its own.
        make: Gives texts by path, each beginning with the folder.
    """

    folder: str
    make: Callable[[], Mapping[str, str]]


def dump(value: object) -> str:
    """Write JSON as it is committed."""
    return json.dumps(value, indent=2, sort_keys=True, ensure_ascii=False, allow_nan=False) + "\n"


def dashboards() -> dict[str, str]:
    """Write every board."""
    # Imports grafanalib, which nothing but rendering needs.
    from dashboards.panels.board_json import board_json

    return {f"dashboards/{board.identity.uid}.json": dump(board_json(board)) for board in BOARDS}


def generators(parameters: Parameters) -> tuple[Generator, ...]:
    """Return every generator, with what a site wants otherwise."""
    return (
        Generator("dashboards", dashboards),
        Generator("rules", partial(rule_files, parameters)),
        Generator("rule_tests", partial(rule_test_files, parameters)),
    )


GENERATORS: tuple[Generator, ...] = generators(DEFAULTS)
"""Every generator of what is committed."""


def generate(parameters: Parameters | None = None) -> dict[str, str]:
    """Return every generated text by its path, in order.

    Args:
        parameters: What a site wants otherwise; None for what is committed.

    Raises:
        ValueError: Two generators give the same path, or one writes outside its folder.
    """
    texts: dict[str, str] = {}
    for generator in GENERATORS if parameters is None else generators(parameters):
        for path, text in generator.make().items():
            if not path.startswith(f"{generator.folder}/") or path in texts:
                raise ValueError(f"{path}: given twice, or outside of {generator.folder}/")
            texts[path] = text
    return dict(sorted(texts.items()))


@dataclass(frozen=True, slots=True)
class Difference:
    """A file that is not as it should be.

    Attributes:
        path: Its path below the folder.
        before: What it holds; None if there is no such file.
        after: What it should hold; None if nothing generates it.
    """

    path: str
    before: str | None
    after: str | None

    @property
    def summary(self) -> str:
        """Say in one line what is wrong."""
        if self.before is None:
            return f"{self.path}: missing"
        if self.after is None:
            return f"{self.path}: nothing generates it"
        return f"{self.path}: out of date"

    def lines(self, limit: int = _SHOWN_LINES) -> Iterator[str]:
        """Yield the first lines of the difference."""
        yield from first_lines(unified(self.path, self.before or "", self.after or ""), limit)


def unified(name: str, before: str, after: str, *, context: int = 0) -> list[str]:
    """Compare two texts line by line, the older first."""
    return list(
        difflib.unified_diff(
            before.splitlines(),
            after.splitlines(),
            f"{name} (as it is)",
            f"{name} (as it would be)",
            n=context,
            lineterm="",
        )
    )


def first_lines(lines: list[str], limit: int) -> Iterator[str]:
    """Yield at most so many lines, and say how many were left out."""
    yield from lines[:limit]
    if len(lines) > limit:
        yield f"… and {len(lines) - limit} lines more"


def differences(folder: Path, texts: Mapping[str, str]) -> list[Difference]:
    """Compare what should be in a folder with what is there.

    Args:
        folder: The folder with the generated files.
        texts: What `generate` returns.

    Raises:
        ConfigurationError: A file cannot be read.
    """
    present = {str(path.relative_to(folder)): path for path in _files(folder)}
    found = []
    for path in sorted({*texts, *present}):
        before = _read(present[path]) if path in present else None
        if before != texts.get(path):
            found.append(Difference(path, before, texts.get(path)))
    return found


def write(folder: Path, found: list[Difference]) -> None:
    """Make a folder as it should be: write what differs, remove what nothing generates.

    Raises:
        ConfigurationError: A file cannot be written.
    """
    for difference in found:
        path = folder / difference.path
        try:
            if difference.after is None:
                path.unlink()
                continue
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(difference.after, encoding="utf-8", newline="\n")
        except OSError as error:
            raise ConfigurationError(f"{path}: cannot be written: {error.strerror}") from None


def _files(folder: Path) -> Iterator[Path]:
    for generator in GENERATORS:
        yield from (path for path in (folder / generator.folder).rglob("*") if path.is_file())


def _read(path: Path) -> str:
    try:
        return path.read_bytes().decode("utf-8", errors="replace")
    except OSError as error:
        raise ConfigurationError(f"{path}: cannot be read: {error.strerror}") from None

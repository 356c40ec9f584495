"""What the parsers of several commands share."""

from __future__ import annotations

import argparse
from collections.abc import Callable
from typing import TYPE_CHECKING, TypeVar

if TYPE_CHECKING:
    from collector.config import Listen

Value = TypeVar("Value")


class Formatter(argparse.RawDescriptionHelpFormatter):
    """Help as it was written, with arguments close to what they mean."""

    def __init__(self, prog: str) -> None:
        """Leave room for option names."""
        super().__init__(prog, max_help_position=28, width=96)


def checked(read: Callable[[str], Value]) -> Callable[[str], Value]:
    """Let argparse print what a reader of values says when it raises ValueError.

    Args:
        read: Makes a value from text.

    Returns:
        The same, raising what argparse prints as it is.
    """

    def read_argument(text: str) -> Value:
        try:
            return read(text)
        except ValueError as error:
            raise argparse.ArgumentTypeError(str(error)) from None

    return read_argument


def listen_argument(text: str) -> Listen:
    """Read an address; the configuration's reader is imported only where there is one to read."""
    from collector.config import listen_address

    return listen_address(text)

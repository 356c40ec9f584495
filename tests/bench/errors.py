"""What can go wrong with a measurement."""

from __future__ import annotations


class BenchError(Exception):
    """A measurement could not be made; the message is one clear line."""

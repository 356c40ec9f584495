"""HTTP content negotiation: which of the representations on offer a client would rather have.

Follows RFC 9110 §12.4.2 (weights), §12.5.1 (Accept) and §12.5.3 (Accept-Encoding). What cannot be
understood is passed over, so garbage gets the default.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field

_WEIGHT = re.compile(r"0(\.[0-9]*)?|1(\.0*)?")
"""A weight, with more digits allowed than RFC 9110's three."""


@dataclass(frozen=True, slots=True)
class Offer:
    """A representation that the server can send.

    Attributes:
        names: The media types that ask for it, lower case.
        versions: Values of the `version` parameter that ask for it; a client that names none accepts any.
    """

    names: tuple[str, ...]
    versions: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class _Range:
    """One element of a header: a name with weight and parameters."""

    name: str
    weight: float
    parameters: dict[str, str] = field(default_factory=dict)


def choose(accept: str, offers: Sequence[Offer]) -> int:
    """Find the offer that a client prefers.

    Args:
        accept: Value of the Accept header, empty for none.
        offers: What can be sent; the first is the default.

    Returns:
        Index of the offer with the highest weight. Of equal weights the one that was asked for more
        specifically wins, then the earlier one. The default if the client accepts none.
    """
    ranges = tuple(_ranges(accept))
    scores = [_score(offer, ranges) for offer in offers]
    best = max(range(len(offers)), key=lambda index: (scores[index], -index))
    return best if scores[best][0] > 0 else 0


def accepts_gzip(accept_encoding: str) -> bool:
    """Tell whether a client accepts gzip, and does not prefer an answer without encoding."""
    weights = {entry.name: entry.weight for entry in _ranges(accept_encoding)}
    gzip = weights.get("gzip", weights.get("*", 0.0))
    return gzip > 0 and gzip >= weights.get("identity", 0.0)


def _ranges(header: str) -> Iterator[_Range]:
    for element in header.lower().split(","):
        name, *rest = (part.strip() for part in element.split(";"))
        parameters = {key.strip(): value.strip(' "') for key, _, value in (p.partition("=") for p in rest)}
        weight = parameters.pop("q", "1")
        if name and _WEIGHT.fullmatch(weight):
            yield _Range(name, float(weight), parameters)


def _score(offer: Offer, ranges: tuple[_Range, ...]) -> tuple[float, int]:
    """Weight of an offer, by the most specific range that matches it, and how specific that is."""
    matches = [(specificity, entry.weight) for entry in ranges if (specificity := _match(offer, entry))]
    specificity, weight = max(matches, default=(0, 0.0))
    return weight, specificity


def _match(offer: Offer, entry: _Range) -> int:
    """How specifically a range names an offer, 1 to 4; 0 if it does not."""
    if entry.name == "*/*":
        return 1
    if entry.name in {name.partition("/")[0] + "/*" for name in offer.names}:
        return 2
    version = entry.parameters.get("version")
    if entry.name not in offer.names or (version is not None and version not in offer.versions):
        return 0
    return 3 if version is None else 4

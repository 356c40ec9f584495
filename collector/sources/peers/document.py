"""The Snapshot document as a rack service reads it: schema 1 of `GET /v1/snapshot`, MessagePack.

An agent may be newer, broken or hostile. Types and bounds are checked while decoding, by msgspec; fields of
a newer minor version are passed over. What is refused is refused as a whole, with a reason.
"""

from __future__ import annotations

import math
import operator
from collections.abc import Iterable
from typing import Annotated

import msgspec
from msgspec import Meta, UnsetType

from collector.errors import RackwattError

SCHEMA = 1
"""Major version that is understood."""

MAXIMUM_BYTES = 4 * 1024 * 1024
"""Largest document. A node of 8 GPUs at level `full`, with its table, has well below 1 MiB."""

_MAXIMUM_SERIES = 50_000
"""Most series. Eight GPUs with 18 links have about 2,000 at level `standard` (CONTRACTS §2)."""

MAXIMUM_HISTOGRAMS = 2_000
"""Most histograms. Eight endpoints with one model have 24."""

MAXIMUM_BOUNDS = 200
"""Most bounds of a histogram; the engines' own have about 20."""

_LARGEST = 2**63 - 1

Text = Annotated[str, Meta(max_length=256)]
"""A name or label. The longest that NVML hands out have 96 bytes (nvml.h, `*_BUFFER_SIZE`)."""
Sentence = Annotated[str, Meta(max_length=2000)]
Digest = Annotated[str, Meta(pattern=r"\A[0-9A-Za-z]{1,64}\Z")]
"""Stands in the address of the next request, so it must not hold what means something there."""
Count = Annotated[int, Meta(ge=0, le=_LARGEST)]
Number = int | float | None


class PeerError(RackwattError):
    """What an agent answers cannot be used; the message says why."""


class EventItem(msgspec.Struct, frozen=True, gc=False):
    """An event; fields as in `collector.model.Event`."""

    cursor: Count
    time_ns: int
    kind: Text
    gpu: Text = ""
    gpu_uuid: Text = ""
    code: int | None = None
    severity: Text = ""
    subcode: Text = ""
    link: int | None = None
    detail: Sentence = ""


class Events(msgspec.Struct, frozen=True):
    """Events after the cursor that was asked for, oldest first; `next` is the newest one known."""

    next: Count = 0
    items: Annotated[tuple[EventItem, ...], Meta(max_length=10_000)] = ()


class CheckItem(msgspec.Struct, frozen=True, gc=False):
    """A check that failed or could not be evaluated; fields as in `collector.model.CheckResult`."""

    check: Text
    impact: Text
    failed: bool
    gpu_uuid: Text = ""
    gpu: Text = ""
    metric: Text = ""
    value: Number = None
    threshold: Number = None
    since_ns: Count = 0
    reason: Sentence = ""
    action: Sentence = ""


class HistogramItem(msgspec.Struct, frozen=True, array_like=True, gc=False):
    """A histogram, an array in the document; fields as in `collector.model.HistogramSample`."""

    metric: Text
    labels: Annotated[tuple[Text, ...], Meta(max_length=64)]
    bounds: Annotated[tuple[float, ...], Meta(max_length=MAXIMUM_BOUNDS)]
    counts: Annotated[tuple[int | float, ...], Meta(max_length=MAXIMUM_BOUNDS + 1)]
    sum: int | float


class Document(msgspec.Struct, frozen=True):
    """Schema 1, as far as a rack service needs it; fields as the agent's exporter describes them."""

    schema: int
    rack: Text
    node: Text
    agent_id: Annotated[str, Meta(min_length=1, max_length=256)]
    boot_id: Text
    seq: Count
    time_ns: Count
    nvml_up: bool
    slots_hash: Digest
    # A tuple of numbers is none of the garbage collector's business; a list would be walked in every round.
    values: Annotated[tuple[Number, ...], Meta(max_length=_MAXIMUM_SERIES)]
    reason: Sentence = ""
    age_seconds: Annotated[dict[Text, float | None], Meta(max_length=64)] = {}
    identity: Annotated[dict[Text, Text], Meta(max_length=64)] = {}
    slots: (
        Annotated[
            list[Annotated[list[Text], Meta(min_length=1, max_length=64)]], Meta(max_length=_MAXIMUM_SERIES)
        ]
        | UnsetType
    ) = msgspec.UNSET
    histograms: Annotated[tuple[HistogramItem, ...], Meta(max_length=MAXIMUM_HISTOGRAMS)] = ()
    checks: Annotated[tuple[CheckItem, ...], Meta(max_length=10_000)] | None = None
    events: Events = Events()


class _Head(msgspec.Struct, frozen=True):
    schema: int


_DECODER = msgspec.msgpack.Decoder(Document)
_HEAD_DECODER = msgspec.msgpack.Decoder(_Head)


def decode(body: bytes | bytearray) -> Document:
    """Decode and check a document.

    Args:
        body: MessagePack, `MAXIMUM_BYTES` at most.

    Returns:
        The document, of the schema that is understood and with finite numbers only.

    Raises:
        PeerError: It is none, is of another schema, or breaks a bound.
    """
    try:
        document = _DECODER.decode(body)
    except (ValueError, RecursionError) as error:
        _check_schema(_schema_of(body))
        raise PeerError(f"the answer is no Snapshot of schema {SCHEMA}: {_short(error)}") from None
    _check_schema(document.schema)
    if not all_finite(document.values):
        raise PeerError("a value of the Snapshot is not finite; values must be numbers or null")
    if not all_finite(document.age_seconds.values()) or any(
        age is not None and age < 0 for age in document.age_seconds.values()
    ):
        raise PeerError("an age in `age_seconds` is negative or not finite")
    for check in document.checks or ():
        if not all_finite((check.value, check.threshold)):
            raise PeerError(f"value or threshold of the check {check.check!r} is not finite")
    for histogram in document.histograms:
        _check_histogram(histogram)
    return document


def all_finite(numbers: Iterable[Number]) -> bool:
    """Tell whether every number that is present is finite."""
    # A NaN or infinity survives a sum, which takes half the time of testing each. Zeros add nothing.
    present = tuple(filter(None, numbers))
    return math.isfinite(sum(present)) or all(map(math.isfinite, present))


def _check_histogram(item: HistogramItem) -> None:
    """Refuse what is no histogram; there may be thousands a second, so each test is one pass in C."""
    bounds, counts = item.bounds, item.counts
    if len(counts) != len(bounds) + 1:
        raise PeerError(
            f"a histogram {item.metric!r} has {len(counts)} counts for {len(bounds)} bounds, not one more"
        )
    if not all_finite((*bounds, *counts, item.sum)):
        raise PeerError(f"a number of a histogram {item.metric!r} is not finite")
    if not all(map(operator.lt, bounds, bounds[1:])):
        raise PeerError(f"the bounds of a histogram {item.metric!r} do not rise")
    if counts[0] < 0 or not all(map(operator.le, counts, counts[1:])):
        raise PeerError(f"the counts of a histogram {item.metric!r} fall, or begin below zero")


def _schema_of(body: bytes | bytearray) -> int:
    """Read the schema of a document that is otherwise not understood; ours if it has none."""
    try:
        return _HEAD_DECODER.decode(body).schema
    except (ValueError, RecursionError):
        return SCHEMA


def _check_schema(schema: int) -> None:
    if schema != SCHEMA:
        advice = "update the rack service" if schema > SCHEMA else "update the agent"
        raise PeerError(f"the agent speaks schema {schema} of the Snapshot, not {SCHEMA}; {advice}")


def _short(error: Exception) -> str:
    text = str(error)
    return text if len(text) <= 200 else text[:197] + "..."

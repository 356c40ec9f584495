"""What routes share: the service, the bodies of its newest evaluation, envelopes."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine, Hashable
from http import HTTPStatus
from typing import Annotated, Any, TypeVar

from fastapi import Depends, Request
from pydantic import BaseModel
from starlette.responses import Response

from collector.health.rack_types import RackStatus
from collector.model import Snapshot
from exporters.prometheus import Exposition
from exporters.rest.models.common import Envelope
from exporters.rest.problems import ProblemError, shown
from exporters.rest.protocol import RackAnswers
from exporters.rest.representation import Cache, answer, represent
from exporters.rest.views.common import moment

LEDGER_SECONDS = 8.0
"""Longest that a request waits for the ledger: shorter than a connection waits for its answer."""

_LEDGER_QUESTIONS = 4
"""Questions to the ledger at a time, so that readers cannot keep it from writing."""

_NAMED_RACKS = 20

Answer = TypeVar("Answer")


class Context:
    """What one application answers from.

    Attributes:
        service: The rack service.
        wall_ns: Unix time in nanoseconds.
    """

    def __init__(self, service: RackAnswers, wall_ns: Callable[[], int]) -> None:
        """Begin with nothing encoded."""
        self.service = service
        self.wall_ns = wall_ns
        self._cache = Cache()
        self._exposition = Exposition()
        self._published: Snapshot | None = None
        self._ledger_turns = asyncio.Semaphore(_LEDGER_QUESTIONS)

    def envelope(self, status: RackStatus | None = None) -> Envelope:
        """Make the envelope of a body.

        Args:
            status: The rack that the body is about; None if it is about the service.
        """
        about = self.service if status is None else status
        return Envelope(
            observed_at=moment(about.observed_ns),
            stale_after_s=self.service.stale_after_seconds,
            generation=about.generation,
        )

    def exposition(self) -> Exposition:
        """Give the rack series of the newest evaluation, rendered when first asked for."""
        snapshot = self.service.snapshot()
        if snapshot is not self._published:
            self._published = snapshot
            self._exposition.publish(snapshot)
        return self._exposition

    async def ledger(self, question: Coroutine[Any, Any, Answer], *, hint: str = "") -> Answer:
        """Wait for what the ledger answers, a few questions at a time, for a bounded time.

        Args:
            question: Asks the ledger, or writes into it.
            hint: What to know in case that it does not answer in time.

        Raises:
            ProblemError: 503: the disk does not answer in time.
        """
        try:
            async with asyncio.timeout(LEDGER_SECONDS), self._ledger_turns:
                return await question
        except TimeoutError:
            question.close()  # It may not have had its turn.
            detail = f"The ledger has not answered within {LEDGER_SECONDS:g} s; its disk may be slow.{hint}"
            raise ProblemError(HTTPStatus.SERVICE_UNAVAILABLE, detail, headers={"Retry-After": "5"}) from None

    def rack(self, name: str) -> RackStatus:
        """Find a rack.

        Raises:
            ProblemError: 404: there is none of this name.
        """
        status = self.service.rack(name)
        if status is None:
            racks = [each.rack for each in self.service.racks()]
            watched = ", ".join(racks[:_NAMED_RACKS]) + (" …" if len(racks) > _NAMED_RACKS else "")
            detail = f"There is no rack {shown(name)}; these are watched: {watched or 'none yet'}."
            raise ProblemError(HTTPStatus.NOT_FOUND, detail)
        return status

    def send(
        self,
        request: Request,
        key: Hashable,
        status: RackStatus | None,
        make: Callable[[Envelope], BaseModel],
    ) -> Response:
        """Answer with a body that is encoded once an evaluation at most.

        Args:
            request: What is answered.
            key: What tells the body from others.
            status: The rack that it is about; None if it is about the service.
            make: Makes the body.
        """
        envelope = self.envelope(status)
        # Racks are evaluated one after another; what is about one rack holds until its own next turn.
        about = self.service if status is None else status
        evaluation = (about.generation, about.observed_ns)
        representation = self._cache.get(
            evaluation, key, lambda: represent(make(envelope), envelope.observed_at)
        )
        return answer(request, representation)

    def send_new(self, request: Request, body: Envelope, *, status: int = 200) -> Response:
        """Answer with a body that is made for this request."""
        return answer(request, represent(body, body.observed_at), status=status)


def _of(request: Request) -> Context:
    context: Context = request.app.state.context
    return context


Own = Annotated[Context, Depends(_of)]
"""The application's context, for a route."""

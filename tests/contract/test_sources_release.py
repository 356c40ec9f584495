"""What every Source promises of its release and the end of it (collector.protocols.Source)."""

from __future__ import annotations

import asyncio
import threading
import time

from collector.protocols import Source
from collector.readings import Layout, Reading
from tests.agent_http_client import run
from tests.contract.test_sources import CLOSE_SECONDS, Case, Delivered, closed, every_source

REASON = "released for a test of the contract"


async def released(source: Source, reason: str = REASON) -> None:
    """Release within the bound of closing."""
    async with asyncio.timeout(CLOSE_SECONDS):
        await source.release(reason)


@every_source
def test_a_release_ends_the_values_and_says_why_each_second(case: Case) -> None:
    async def scenario() -> None:
        source, delivered = case.make(), Delivered()
        await source.start(delivered)
        await delivered.readings_of(2)
        await released(source)
        assert source.held_by == ""
        before = len(delivered.messages)
        begin_seconds = time.monotonic()
        await delivered.until(lambda: len(delivered.messages) >= before + 3)
        assert time.monotonic() - begin_seconds < 3.5, "at once, then each second"
        for message in delivered.messages[before:]:
            assert isinstance(message, Reading)
            assert (message.up, message.reason, message.generation, message.batches) == (False, REASON, 0, ())
        assert source.restarts == 0
        assert delivered.threads == {threading.get_ident()}
        await closed(source)
        count = len(delivered.messages)
        await asyncio.sleep(1.1)
        assert len(delivered.messages) == count

    run(scenario)


@every_source
def test_a_resume_begins_with_a_layout_and_is_no_restart(case: Case) -> None:
    async def scenario() -> None:
        source, delivered = case.make(), Delivered()
        await source.start(delivered)
        await delivered.readings_of(2)
        for _ in range(2):
            await released(source)
            await delivered.until(lambda: not delivered.readings[-1].up)
            before = len(delivered.messages)
            await source.resume()
            layouts = sum(isinstance(message, Layout) for message in delivered.messages[:before])
            await delivered.readings_of(len(delivered.readings) + 2)
            assert isinstance(delivered.messages[before], Layout)
            assert layouts + 1 == sum(isinstance(message, Layout) for message in delivered.messages)
            assert all(reading.up for reading in delivered.readings[-2:])
        times = [reading.taken_at for reading in delivered.readings]
        assert times == sorted(times)
        assert source.restarts == 0
        await closed(source)

    run(scenario)


@every_source
def test_releases_and_resumes_may_be_repeated(case: Case) -> None:
    async def scenario() -> None:
        source, delivered = case.make(), Delivered()
        await source.start(delivered)
        await source.resume()  # nothing is released
        await delivered.readings_of(1)
        await released(source)
        await released(source, "for another reason")
        await delivered.until(lambda: delivered.readings[-1].reason == "for another reason")
        await source.resume()
        await source.resume()
        await delivered.until(lambda: delivered.readings[-1].up)
        assert sum(isinstance(message, Layout) for message in delivered.messages) == 2
        assert source.restarts == 0
        await closed(source)

    run(scenario)


@every_source
def test_released_before_its_start_it_begins_so(case: Case) -> None:
    async def scenario() -> None:
        source, delivered = case.make(), Delivered()
        await released(source)
        await source.start(delivered)
        await delivered.readings_of(1)
        assert [(message.up, message.reason) for message in delivered.readings] == [(False, REASON)]
        assert len(delivered.messages) == 1
        await source.resume()
        await delivered.until(lambda: delivered.readings[-1].up)
        await closed(source)

    run(scenario)


@every_source
def test_a_release_is_bounded_while_a_reading_hangs_and_its_reason_is_delivered(case: Case) -> None:
    async def scenario() -> None:
        made, delivered = case.make_hung(), Delivered()
        await made.source.start(delivered)
        await delivered.until(made.hangs)
        try:
            await released(made.source)
            await delivered.readings_of(1)
            # What cannot be ended is said, to whom releases and in the reason.
            held = f"; held by {made.source.held_by}" if made.source.held_by else ""
            assert [(each.up, each.reason) for each in delivered.readings] == [(False, REASON + held)]
            await closed(made.source)
        finally:
            made.release()

    run(scenario)


@every_source
def test_nothing_takes_the_hardware_again_after_the_end(case: Case) -> None:
    async def scenario() -> None:
        source, delivered = case.make(), Delivered()
        await source.start(delivered)
        await released(source)
        await closed(source)
        count = len(delivered.messages)
        await source.resume()
        await released(source)
        await source.resume()
        await asyncio.sleep(0.2)
        assert len(delivered.messages) == count

    run(scenario)


@every_source
def test_of_a_release_and_a_resume_at_once_the_last_one_stands(case: Case) -> None:
    async def scenario() -> None:
        source, delivered = case.make(), Delivered()
        await source.start(delivered)
        await delivered.readings_of(1)
        for _ in range(3):
            await asyncio.gather(source.release(REASON), source.resume())
        before = len(delivered.messages)
        await delivered.until(lambda: len(delivered.messages) > before + 5)
        assert delivered.readings[-1].up
        await asyncio.gather(source.resume(), source.release(REASON))
        await delivered.until(lambda: not delivered.readings[-1].up)
        assert source.held_by == ""
        await closed(source)

    run(scenario)

"""What a rack service asks its ledger for efficiency, and what it makes of what cannot be read."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import replace
from typing import TypeVar

import msgspec
import pytest

from collector.efficiency.baseline import Baseline
from collector.efficiency.rollup import encode
from collector.health.ledger import Ledger
from collector.health.ledger_usage import StoredRollup, UsageUpdate
from collector.health.rack_types import ExpectedRack
from collector.rack import RackServiceSettings
from collector.rack.efficiency import EfficiencyDesk
from collector.rack.records import Records
from collector.timekeeping import SteadyClock
from tests.agent_http_client import run
from tests.efficiency_literals import ENDS_NS, MODEL, STARTS_NS, model, rollup
from tests.rack_builders import SECOND, nvl72

Answer = TypeVar("Answer")

MINUTE = 60 * SECOND
BASELINE = Baseline(
    id="b-1",
    rack="r01",
    platform="gb300-nvl72",
    model=MODEL,
    starts_ns=STARTS_NS,
    ends_ns=ENDS_NS,
    recorded_ns=ENDS_NS,
    racks=1.0,
    gpus=72.0,
    generation_tokens_per_second=10_100.0,
    total_tokens_per_second=90_100.0,
    saturation_ratio=0.9,
)


def declared(name: str, platform: str = "gb300-nvl72") -> ExpectedRack:
    return replace(nvl72(), rack=name, platform=platform)


class CountingRecords(Records):
    """A ledger in memory that counts questions."""

    def __init__(self) -> None:
        super().__init__(None, poll_seconds=5.0)
        self.questions = 0

    async def ask(self, question: Callable[[Ledger], Answer]) -> Answer:
        self.questions += 1
        return await super().ask(question)


@asynccontextmanager
async def desk(*racks: ExpectedRack) -> AsyncIterator[tuple[EfficiencyDesk, CountingRecords]]:
    """Racks that did the same in each of the five minutes of the literals, half a minute ago."""
    records = CountingRecords()
    now_ns = ENDS_NS + 30 * SECOND
    await records.open([rack.rack for rack in racks], now_ns)
    # The sums of five minutes as those of one: what is asked for adds all of them up.
    data = encode(rollup({MODEL: model()}))
    for rack in racks:
        await put(records, rack.rack, STARTS_NS, data)
    clock = SteadyClock(lambda: 1000.0, lambda: now_ns)
    try:
        yield EfficiencyDesk(RackServiceSettings(racks=racks, agents=()), {}, records, clock), records
    finally:
        await records.close(now_ns)


async def put(records: Records, rack: str, starts_ns: int, data: str) -> None:
    update = UsageUpdate(rollups=(StoredRollup(60, starts_ns, data),))
    await records.ask(lambda ledger: ledger.add_usage(rack, update, ENDS_NS))


async def keep(records: Records, identity: str, text: str) -> None:
    await records.ask(lambda ledger: ledger.keep_baseline(identity, text, ENDS_NS))


def written(baseline: Baseline) -> str:
    return msgspec.json.encode(baseline).decode()


def test_only_racks_of_the_baselines_platform_are_held_against_it() -> None:
    """Two racks at 10,000 tokens/s, baseline 10,100: 0.99; a rack of other hardware is no third of them."""

    async def scenario() -> None:
        async with desk(declared("r01"), declared("r02"), declared("h01", "hgx-h100")) as (own, records):
            await keep(records, "b-1", written(BASELINE))
            found = await own.efficiency("r01", 300)
            assert found is not None
            (served,) = found.models
            assert served.scaling.racks.value == 2
            assert served.scaling.ratio.value == pytest.approx(10_000 / 10_100)
            other = await own.efficiency("h01", 300)
            assert other is not None
            assert other.models[0].scaling.ratio.reason.startswith(f"no baseline of {MODEL} on hgx-h100")

    run(scenario)


def test_racks_are_asked_for_one_after_the_other() -> None:
    """A question holds the ledger's one thread: 400 days of a hundred racks in one would hold it for long."""

    async def scenario() -> None:
        async with desk(*(declared(f"r{number}") for number in range(5))) as (own, records):
            await keep(records, "b-1", written(BASELINE))
            records.questions = 0
            assert await own.efficiency("r1", 300) is not None
            assert records.questions == 1 + 5

    run(scenario)


def test_a_minute_that_cannot_be_read_counts_as_not_recorded(caplog: pytest.LogCaptureFixture) -> None:
    async def scenario() -> None:
        async with desk(declared("r01")) as (own, records):
            await put(records, "r01", STARTS_NS + MINUTE, '{"models": 5}')
            found = await own.efficiency("r01", 300)
            assert found is not None
            assert found.watched_ratio.value == 1
            assert "cannot be read and counts as not recorded" in caplog.text

    run(scenario)


def test_a_baseline_that_cannot_be_read_costs_itself(caplog: pytest.LogCaptureFixture) -> None:
    async def scenario() -> None:
        async with desk(declared("r01")) as (own, records):
            await keep(records, "b-0", '{"id": "b-0"}')
            await keep(records, "b-1", written(BASELINE))
            assert await own.baselines() == (BASELINE,)
            assert "b-0" not in [each.id for each in await own.baselines("r01")]
            assert "cannot be read" in caplog.text

    run(scenario)

"""The REST interface over the real rack service, with scripted agents and a clock that is turned by hand."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from starlette.types import ASGIApp

from exporters.rest.app import create_app
from exporters.rest.settings import RestSettings
from tests.agent_http_client import run
from tests.rack_builders import hgx, nvl72
from tests.rack_services import Scene, scene
from tests.rest_client import Answer, call
from tests.rest_literals import TOKEN

BEARER = {"Authorization": f"Bearer {TOKEN}", "Content-Type": "application/json"}


@pytest.fixture
def settings(tmp_path: Path) -> RestSettings:
    file = tmp_path / "api.token"
    file.write_text(TOKEN)
    file.chmod(0o600)
    return RestSettings(api_token_file=str(file))


def make_app(own: Scene, settings: RestSettings) -> ASGIApp:
    return create_app(own.service, settings, wall_ns=own.clock.wall_ns)


async def get(app: ASGIApp, path: str) -> dict[str, Any]:
    answer = await call(app, path)
    assert answer.status == 200, answer.body
    return answer.json()


async def declare(app: ASGIApp, **wanted: object) -> Answer:
    return await call(app, "/v1/maintenance", "POST", headers=BEARER, body=json.dumps(wanted).encode())


def test_every_path_answers_over_two_racks(settings: RestSettings) -> None:
    async def scenario() -> None:
        async with scene(nvl72(), hgx()) as own:
            own.step()
            app = make_app(own, settings)
            racks = (await get(app, "/v1/racks"))["racks"]
            assert [(rack["rack"], rack["verdict"]) for rack in racks] == [
                ("r01", "AVAILABLE"),
                ("h01", "AVAILABLE"),
            ]
            for rack in ("r01", "h01"):
                for rest in ("", "/health", "/health?min_block=1", "/nodes", "/availability?window=1h"):
                    await get(app, f"/v1/racks/{rack}{rest}")
            for path in ("/v1/nodes/n18", "/v1/nodes/n01?rack=h01", "/v1/gpus/GPU-n18-3", "/v1/domains"):
                await get(app, path)
            for path in ("/v1/events", "/v1/maintenance"):
                await get(app, path)
            for path in ("/metrics", "/sd/prometheus", "/-/ready", "/-/healthy", "/"):
                assert (await call(app, path)).status == 200

    run(scenario)


def test_a_whole_rack_gives_its_whole_block(settings: RestSettings) -> None:
    async def scenario() -> None:
        async with scene(nvl72()) as own:
            own.step()
            health = await get(make_app(own, settings), "/v1/racks/r01/health")
            # Of 18 nodes 16 are needed (CONTRACTS §3): two may be drained.
            assert (health["verdict"], health["min_block"]) == ("AVAILABLE", 16)
            assert health["largest_block"]["nodes"] == 18
            assert (health["largest_block"]["domain"], health["largest_block"]["clique"]) == ("cafe", "1")
            assert health["drain_budget"] == {"max_unavailable": 2, "used": 0, "allow": True}
            assert (health["avoid"], health["reasons"]) == ([], [])

    run(scenario)


def test_three_nodes_that_are_gone_take_the_rack(settings: RestSettings) -> None:
    async def scenario() -> None:
        async with scene(nvl72()) as own:
            own.step()
            app = make_app(own, settings)
            for name in ("n03", "n04", "n05"):
                own.node(name).answers = False
                own.node(name).witness = True
            own.steps(5)
            health = await get(app, "/v1/racks/r01/health")
            assert (health["verdict"], health["counts"]["failed"]) == ("UNAVAILABLE", 3)
            assert [(each["node"], each["drain"]) for each in health["avoid"]] == [
                ("n03", "immediate"),
                ("n04", "immediate"),
                ("n05", "immediate"),
            ]
            assert health["drain_budget"]["allow"] is False
            assert (await get(app, "/v1/racks/r01/health?min_block=15"))["verdict"] == "AVAILABLE"

    run(scenario)


def test_maintenance_excuses_from_the_next_evaluation_until_it_is_ended(settings: RestSettings) -> None:
    async def scenario() -> None:
        async with scene(nvl72()) as own:
            own.step()
            app = make_app(own, settings)
            declared = await declare(app, rack="r01", nodes=["n01", "n02", "n03"], duration="1h")
            assert declared.status == 201, declared.body
            own.step()
            health = await get(app, "/v1/racks/r01/health")
            assert (health["verdict"], health["counts"]["maintenance"]) == ("MAINTENANCE", 3)
            ended = await call(app, declared.headers["location"], "DELETE", headers=BEARER)
            assert (ended.status, ended.json()["active"]) == (200, False)
            own.step()
            assert (await get(app, "/v1/racks/r01/health"))["verdict"] == "AVAILABLE"

    run(scenario)


@pytest.mark.parametrize("limit", [1, 2, 7, 1000])
def test_pages_of_the_ledger_have_every_event_once(settings: RestSettings, limit: int) -> None:
    async def scenario() -> None:
        async with scene(nvl72()) as own:
            app = make_app(own, settings)
            own.step()
            for number in range(3, 11):
                own.node(f"n{number:02d}").answers = False
                own.steps(5)
            everything = [event["id"] for event in (await get(app, "/v1/events?limit=1000"))["events"]]
            assert len(everything) > 7
            seen: list[str] = []
            following: str | None = ""
            while following is not None:
                query = f"limit={limit}" + (f"&cursor={following}" if following else "")
                page = await get(app, f"/v1/events?{query}")
                seen.extend(event["id"] for event in page["events"])
                following = page["next"]
            assert seen == everything
            assert len(set(seen)) == len(seen)

    run(scenario)


def test_availability_counts_what_the_ledger_has(settings: RestSettings) -> None:
    async def scenario() -> None:
        async with scene(nvl72()) as own:
            app = make_app(own, settings)
            own.steps(24)  # Two minutes, AVAILABLE from the first evaluation on.
            found = await get(app, "/v1/racks/r01/availability?window=1m")
            # The present is a nanosecond after the last record.
            assert [found[name] for name in ("low", "point", "high")] == pytest.approx([1.0, 1.0, 1.0])
            assert found["insufficient_data"] is False
            month = await get(app, "/v1/racks/r01/availability")
            assert (month["point"], month["insufficient_data"]) == (1.0, True)

    run(scenario)


def test_a_quiet_service_answers_304_whatever_time_passes(settings: RestSettings) -> None:
    async def scenario() -> None:
        async with scene(nvl72()) as own:
            own.steps(3)
            app = make_app(own, settings)
            paths = (
                "/v1/racks",
                "/v1/racks/r01",
                "/v1/racks/r01/health",
                "/v1/racks/r01/nodes",
                "/v1/nodes/n01",
            )
            tags = {path: (await call(app, path)).headers["etag"] for path in paths}
            own.steps(3)
            for path, tag in tags.items():
                assert (await call(app, path, headers={"If-None-Match": tag})).status == 304, path
            own.node("n01").answers = False
            own.steps(5)
            for path, tag in tags.items():
                assert (await call(app, path, headers={"If-None-Match": tag})).status == 200, path

    run(scenario)

"""Finding racks, nodes, GPUs, events and availability by name, whatever the name is."""

from __future__ import annotations

from typing import Any
from urllib.parse import quote

import pytest
from hypothesis import given
from hypothesis import strategies as st
from starlette.types import ASGIApp

from collector.health.ledger_rows import LedgerEvent
from exporters.rest.app import create_app
from exporters.rest.settings import RestSettings
from tests.rest_client import Answer, ask
from tests.rest_double import ServiceDouble
from tests.rest_literals import NOW_NS, SECOND_NS

APP = create_app(ServiceDouble(), RestSettings())


def get(path: str, app: ASGIApp = APP) -> Answer:
    return ask(app, path)


def body(path: str, app: ASGIApp = APP) -> dict[str, Any]:
    answer = get(path, app)
    assert answer.status == 200, answer.body
    return answer.json()


@pytest.mark.parametrize(
    "path",
    [
        "/v1/racks/r02",
        "/v1/racks/r02/health",
        "/v1/racks/r02/nodes",
        "/v1/racks/r02/availability",
        "/v1/racks/r02/verification",
        "/v1/racks/r02/efficiency",
        "/v1/maintenance?rack=r02",
    ],
)
def test_a_rack_that_is_not_there_is_said_beside_those_that_are(path: str) -> None:
    answer = get(path)
    assert answer.status == 404
    assert answer.json()["detail"] == "There is no rack 'r02'; these are watched: r01, h01."


@pytest.mark.parametrize(
    ("path", "what"),
    [
        ("/v1/racks/r01/verification", "Verification"),
        ("/v1/topology?format=slurm-yaml", "The topology"),
    ],
)
def test_what_comes_later_says_so(path: str, what: str) -> None:
    answer = get(path)
    assert answer.status == 404
    assert str(answer.json()["detail"]).startswith(what)


def test_a_node_of_one_rack_needs_no_rack() -> None:
    assert body("/v1/nodes/n07")["rack"] == "r01"


def test_a_node_of_several_racks_asks_for_one() -> None:
    answer = get("/v1/nodes/n01")
    assert answer.status == 409
    assert answer.json()["racks"] == ["r01", "h01"]
    assert body("/v1/nodes/n01?rack=h01")["rack"] == "h01"


def test_a_node_that_is_not_in_the_named_rack() -> None:
    assert get("/v1/nodes/n07?rack=h01").json()["detail"] == "There is no node 'n07' in rack 'h01'."
    assert get("/v1/nodes/x").json()["detail"] == "There is no node 'x'."


def test_a_silent_node_says_since_when_and_why() -> None:
    node = body("/v1/nodes/n02?rack=h01")
    assert (node["answers"], node["silent_since"]) == (False, "2026-11-30T09:59:15.000Z")
    assert node["error"] == "connection timed out"
    assert body("/v1/nodes/n07")["silent_since"] is None


def test_a_gpu_says_what_the_driver_wants_and_how_its_links_are() -> None:
    gpu = body("/v1/gpus/GPU-n05-0")
    assert (gpu["rack"], gpu["node"], gpu["node_state"], gpu["state"]) == ("r01", "n05", "DEGRADED", "OK")
    assert (gpu["recovery_action"], gpu["fabric_state"]) == ("none", "completed")
    assert gpu["nvlinks"] == {"up": 18, "expected": 18}


def test_what_a_gpu_does_not_say_is_null() -> None:
    gpu = body("/v1/gpus/GPU-n07-2")
    assert (gpu["up"], gpu["state"], gpu["info"]) == (False, "FAILED", {})
    assert (gpu["recovery_action"], gpu["fabric_state"]) == (None, None)
    assert gpu["nvlinks"] == {"up": None, "expected": None}
    assert [check["check"] for check in gpu["checks"]] == ["gpu_lost"]


def test_availability_in_hours_where_people_think_in_hours() -> None:
    # The double's 3,240,000 s of operation an incident are 900 h.
    found = body("/v1/racks/r01/availability?window=100h&min_block=16")
    assert (found["mtbf_h"], found["mttr_h"], found["min_block"]) == (900.0, None, 16)
    assert (found["starts_at"], found["ends_at"]) == ("2026-11-26T06:00:00.000Z", "2026-11-30T10:00:00.000Z")


@pytest.mark.parametrize("window", ["1m", "60s", "12h", "30d", "400d"])
def test_windows_that_are_allowed(window: str) -> None:
    assert body(f"/v1/racks/r01/availability?window={window}")["window"] == window


@pytest.mark.parametrize(
    "window", ["59s", "401d", "0d", "30", "d", "-1d", "1w", "1.5h", "", "9999999999s", "٣d"]
)
def test_windows_that_are_not(window: str) -> None:
    answer = get(f"/v1/racks/r01/availability?window={quote(window)}")
    assert answer.status == 422
    assert "query.window" in str(answer.json()["detail"])


def test_a_parameter_that_is_misspelt_is_told() -> None:
    answer = get("/v1/racks/r01/health?minblock=17")
    assert answer.status == 422
    assert "query.minblock" in str(answer.json()["detail"])


@pytest.mark.parametrize(
    ("query", "ids"),
    [
        ("", ["5", "4", "3", "2", "1"]),
        ("?rack=h01", ["5"]),
        ("?node=n07", ["4", "3", "2"]),
        ("?kind=xid", ["2"]),
        ("?gpu_uuid=GPU-n07-2", ["3", "2"]),
        ("?since=2026-11-30T09:00:00Z", ["5", "4", "3"]),
        ("?until=2026-11-30T09:00:00Z", ["2", "1"]),
        ("?since=2026-11-30T10:00:00%2B01:00", ["5", "4", "3"]),
        ("?rack=r01&kind=node_state&limit=1", ["4"]),
    ],
)
def test_events_by_what_they_are(query: str, ids: list[str]) -> None:
    assert [event["id"] for event in body(f"/v1/events{query}")["events"]] == ids


@pytest.mark.parametrize(
    "query",
    [
        "limit=0",
        "limit=1001",
        "cursor=-1",
        "cursor=9223372036854775808",
        "since=yesterday",
        "since=1796032800",
        "since=2026-11-30",
        "since=2026-11-31T10:00:00Z",
        "since=2026-11-30T10:00:00",
        "since=1969-12-31T23:59:59Z",
        "until=9999-12-31T00:00:00Z",
        "rack=a/b",
        "after=3",
    ],
)
def test_events_cannot_be_asked_for_like_this(query: str) -> None:
    assert get(f"/v1/events?{query}").status == 422


PAGED = ServiceDouble()
PAGED_APP = create_app(PAGED, RestSettings())


@given(count=st.integers(0, 25), limit=st.integers(1, 30))
def test_pages_have_every_event_once(count: int, limit: int) -> None:
    events = tuple(
        LedgerEvent(number, "r01", "n01", NOW_NS - number * SECOND_NS, "xid", "", "", 13, "")
        for number in range(count, 0, -1)
    )
    PAGED.known_events = events
    seen: list[str] = []
    pages, path = 0, f"/v1/events?limit={limit}"
    following: object = ""
    while following is not None:
        page = body(path, PAGED_APP)
        seen.extend(event["id"] for event in page["events"])
        # What happens meanwhile does not shift the pages.
        newer = LedgerEvent(1000 + pages, "r01", "n01", NOW_NS, "xid", "", "", 13, "")
        PAGED.known_events = (newer, *PAGED.known_events)
        pages, following = pages + 1, page["next"]
        path = f"/v1/events?limit={limit}&cursor={following}"
    assert seen == [str(number) for number in range(count, 0, -1)]
    assert pages == max(1, -(-count // limit))


HOSTILE = st.text(min_size=1, max_size=80).filter(lambda text: "/" not in text and text not in (".", ".."))


@given(name=HOSTILE, kind=st.sampled_from(["racks", "nodes", "gpus", "maintenance"]))
def test_a_hostile_name_finds_nothing_and_breaks_nothing(name: str, kind: str) -> None:
    answer = get(f"/v1/{kind}/{name}".partition("?")[0])
    assert answer.status in (200, 404, 409, 422)
    if answer.status != 200:
        assert answer.headers["content-type"] == "application/problem+json"
        assert len(answer.body) < 1000


@pytest.mark.parametrize("name", ["n01%0a", "n01\n", "a" * 65, "n 1", "ñ01", "n01;", "\udcff", "%00"])
def test_a_name_that_cannot_be_one_is_refused(name: str) -> None:
    assert get(f"/v1/nodes/{name}").status == 422

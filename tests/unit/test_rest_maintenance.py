"""Maintenance: who may write, and what can be declared."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from starlette.types import ASGIApp

from collector.errors import ConfigurationError
from exporters.rest.app import create_app
from exporters.rest.settings import MAX_BODY_BYTES, RestSettings
from tests.rest_client import Answer, ask
from tests.rest_double import ServiceDouble
from tests.rest_literals import NOW_NS, TOKEN

PATH = "/v1/maintenance"
GOOD: dict[str, object] = {"rack": "r01", "nodes": ["n07"], "duration": "2h", "reason": "exchange GPU 2"}
BEARER = f"Bearer {TOKEN}"


def make_app(tmp_path: Path, service: ServiceDouble | None = None) -> ASGIApp:
    file = tmp_path / "api.token"
    file.write_text(f"{TOKEN}\n")
    file.chmod(0o600)
    settings = RestSettings(api_token_file=str(file))
    return create_app(service or ServiceDouble(), settings, wall_ns=lambda: NOW_NS)


def declare(app: ASGIApp, wanted: object = GOOD, authorization: str | None = BEARER) -> Answer:
    headers = {"Content-Type": "application/json"}
    if authorization is not None:
        headers["Authorization"] = authorization
    return ask(app, PATH, "POST", headers=headers, body=json.dumps(wanted).encode())


WRONG = (
    (None, 401),
    ("", 401),
    (TOKEN, 401),
    ("Bearer", 401),
    ("Bearer ", 401),
    (f"Basic {TOKEN}", 401),
    (f"Bearer {TOKEN[:-1]}", 401),
    (f"Bearer {TOKEN}x", 401),
    (f"Bearer {TOKEN.upper()}", 401),
    ("Bearer wrong", 401),
    ("Bearer ü", 401),
)


@pytest.mark.parametrize(("authorization", "status"), WRONG)
def test_who_does_not_bring_the_token_cannot_write(
    tmp_path: Path, authorization: str | None, status: int
) -> None:
    service = ServiceDouble()
    app = make_app(tmp_path, service)
    answers = [declare(app, authorization=authorization)]
    headers = {} if authorization is None else {"Authorization": authorization}
    answers.append(ask(app, f"{PATH}/m-1", "DELETE", headers=headers))
    for answer in answers:
        assert answer.status == status
        assert answer.headers["www-authenticate"].startswith('Bearer realm="rackwatt"')
        assert answer.headers["content-type"] == "application/problem+json"
        assert TOKEN.encode() not in answer.body
    assert [window.id for window in service.maintenance_windows()] == ["m-1"]
    assert service.maintenance_windows()[0].ends_ns > NOW_NS


@pytest.mark.parametrize("authorization", [None, BEARER, "Bearer "])
def test_without_a_configured_token_nobody_writes_and_everybody_learns_how(authorization: str | None) -> None:
    app = create_app(ServiceDouble(), RestSettings())
    answer = declare(app, authorization=authorization)
    assert answer.status == 403
    assert "api_token_file" in str(answer.json()["detail"])
    headers = {} if authorization is None else {"Authorization": authorization}
    assert ask(app, f"{PATH}/m-1", "DELETE", headers=headers).status == 403


@pytest.mark.parametrize("authorization", [BEARER, f"bearer {TOKEN}"])
def test_who_brings_it_can(tmp_path: Path, authorization: str) -> None:
    answer = declare(make_app(tmp_path), authorization=authorization)
    assert answer.status == 201
    assert answer.headers["location"] == "/v1/maintenance/m-new1"


def test_reading_needs_no_token(tmp_path: Path) -> None:
    assert ask(make_app(tmp_path), PATH).status == 200


def test_a_token_that_is_replaced_counts_at_once(tmp_path: Path) -> None:
    app = make_app(tmp_path)
    (tmp_path / "next").write_text("another-token-of-another-length")
    (tmp_path / "next").rename(tmp_path / "api.token")
    assert declare(app).status == 401
    assert declare(app, authorization="Bearer another-token-of-another-length").status == 201


def test_a_token_file_that_cannot_be_used_is_said_at_the_start(tmp_path: Path) -> None:
    with pytest.raises(ConfigurationError, match="no-such"):
        create_app(ServiceDouble(), RestSettings(api_token_file=str(tmp_path / "no-such")))
    (tmp_path / "empty").touch()
    with pytest.raises(ConfigurationError, match="holds no token"):
        create_app(ServiceDouble(), RestSettings(api_token_file=str(tmp_path / "empty")))


def test_a_window_begins_now_unless_it_says_otherwise(tmp_path: Path) -> None:
    app = make_app(tmp_path)
    window = declare(app).json()
    assert (window["starts_at"], window["ends_at"]) == (
        "2026-11-30T10:00:00.000Z",
        "2026-11-30T12:00:00.000Z",
    )
    assert (window["active"], window["nodes"], window["reason"]) == (True, ["n07"], "exchange GPU 2")
    assert ask(app, f"{PATH}/m-new1").json()["id"] == "m-new1"


def test_a_window_in_force_is_active_though_another_rack_was_evaluated_before_it(tmp_path: Path) -> None:
    service = ServiceDouble()
    service.statuses["h01"] = replace(service.statuses["h01"], observed_ns=NOW_NS - 1_000_000_000)
    app = make_app(tmp_path, service)
    assert declare(app).json()["active"] is True
    windows: Any = ask(app, PATH).json()["windows"]
    listed = {window["id"]: window["active"] for window in windows}
    assert listed["m-new1"] is True


def test_a_window_in_the_future(tmp_path: Path) -> None:
    wanted = {"rack": "h01", "starts_at": "2026-12-01T08:00:00+01:00", "duration": "30m"}
    window = declare(make_app(tmp_path), wanted).json()
    assert (window["starts_at"], window["ends_at"]) == (
        "2026-12-01T07:00:00.000Z",
        "2026-12-01T07:30:00.000Z",
    )
    assert (window["active"], window["nodes"], window["reason"], window["created_by"]) == (
        False,
        [],
        None,
        None,
    )


@pytest.mark.parametrize(
    ("changes", "status", "says"),
    [
        ({"rack": "r09"}, 404, "There is no rack 'r09'"),
        ({"rack": "r/1"}, 422, "body.rack"),
        ({"rack": None}, 422, "body.rack"),
        ({"nodes": ["n99"]}, 422, "has no node n99"),
        ({"nodes": ["n\n"]}, 422, "body.nodes.0"),
        ({"nodes": "n07"}, 422, "body.nodes"),
        ({"duration": None}, 422, "either ends_at or duration"),
        ({"ends_at": "2026-11-30T12:00:00Z"}, 422, "either ends_at or duration"),
        ({"duration": "0s"}, 422, "ends before it starts"),
        ({"duration": "32d"}, 422, "longer than 31 days"),
        ({"duration": "999999999d"}, 422, "longer than 31 days"),
        ({"duration": "soon"}, 422, "not a duration"),
        ({"starts_at": "2026-11-30T09:59:59Z"}, 422, "starts before it is declared"),
        ({"starts_at": "2026-11-30T10:00:01"}, 422, "body.starts_at"),
        ({"starts_at": "9999-12-31T23:59:59Z"}, 422, "outside of 1970 to 2199"),
        ({"reason": "x" * 1025}, 422, "body.reason"),
        ({"reason": "\ud800"}, 422, "body.reason"),
        ({"until": "never"}, 422, "body.until"),
    ],
)
def test_what_cannot_be_declared_is_said(
    tmp_path: Path, changes: dict[str, object], status: int, says: str
) -> None:
    answer = declare(make_app(tmp_path), {**GOOD, **changes})
    assert answer.status == status, answer.body
    assert says in str(answer.json()["detail"])


@pytest.mark.parametrize(
    ("body", "content_type", "status"),
    [
        (b"", "application/json", 422),
        (b"{", "application/json", 422),
        (b"[]", "application/json", 422),
        (b"\xff\xfe", "application/json", 422),
        (b'{"rack": "r01"}', "text/plain", 422),
        (b"[" * 20_000, "application/json", 400),
        (b" " * (MAX_BODY_BYTES + 1), "application/json", 413),
    ],
)
def test_a_body_that_is_none(tmp_path: Path, body: bytes, content_type: str, status: int) -> None:
    headers = {"Authorization": BEARER, "Content-Type": content_type}
    answer = ask(make_app(tmp_path), PATH, "POST", headers=headers, body=body)
    assert answer.status == status
    assert answer.headers["content-type"] == "application/problem+json"


def test_a_window_that_is_ended_stays_listed(tmp_path: Path) -> None:
    app = make_app(tmp_path)
    ended = ask(app, f"{PATH}/m-1", "DELETE", headers={"Authorization": BEARER})
    assert (ended.status, ended.json()["ends_at"], ended.json()["active"]) == (
        200,
        "2026-11-30T10:00:00.000Z",
        False,
    )
    windows: Any = ask(app, f"{PATH}?rack=r01").json()["windows"]
    assert [(window["id"], window["active"]) for window in windows] == [("m-1", False)]
    assert ask(app, f"{PATH}?rack=h01").json()["windows"] == []


def test_a_window_that_is_not_there(tmp_path: Path) -> None:
    app = make_app(tmp_path)
    assert ask(app, f"{PATH}/m-9").status == 404
    assert ask(app, f"{PATH}/m-9", "DELETE", headers={"Authorization": BEARER}).status == 404

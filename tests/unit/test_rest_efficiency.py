"""Efficiency and baselines over REST: shapes, blanks, windows, who may write."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from starlette.types import ASGIApp

from exporters.rest import context
from exporters.rest.app import create_app
from exporters.rest.settings import RestSettings
from tests.efficiency_literals import MODEL, baseline, model, rollup
from tests.rest_client import Answer, ask
from tests.rest_double import ServiceDouble
from tests.rest_figures import nulls
from tests.rest_literals import NOW_NS, TOKEN

EFFICIENCY = "/v1/racks/r01/efficiency"
BASELINES = "/v1/baselines"
BEARER = f"Bearer {TOKEN}"


def make_app(tmp_path: Path, service: ServiceDouble | None = None) -> ASGIApp:
    file = tmp_path / "api.token"
    file.write_text(f"{TOKEN}\n")
    file.chmod(0o600)
    settings = RestSettings(api_token_file=str(file))
    return create_app(service or ServiceDouble(), settings, wall_ns=lambda: NOW_NS)


def body(path: str = EFFICIENCY, service: ServiceDouble | None = None) -> dict[str, Any]:
    answer = ask(create_app(service or ServiceDouble(), RestSettings()), path)
    assert answer.status == 200, answer.body
    return answer.json()


def record(app: ASGIApp, authorization: str | None = BEARER, /, **changes: object) -> Answer:
    headers = {"Content-Type": "application/json"}
    if authorization is not None:
        headers["Authorization"] = authorization
    wanted = {"rack": "r01", "window": "10m"} | changes
    return ask(app, BASELINES, "POST", headers=headers, body=json.dumps(wanted).encode())


def test_the_case_of_the_table() -> None:
    # facts on tokens, §6: 10,000 tok/s at 120 kW with PUE 1.2, $0.08 and 72 x $2.652
    found = body()
    (own,) = [
        each for each in found["domains"] if (each["tokens"], each["domain"]) == ("generation", "rack_input")
    ]
    assert own["tokens_per_joule"] == pytest.approx(0.0833, abs=5e-5)
    assert own["tokens_per_second_per_megawatt"] == pytest.approx(83_333, abs=0.5)
    assert own["kwh_per_million_tokens"] == pytest.approx(3.333, abs=5e-4)
    assert found["tokens"][0]["energy_usd_per_million_tokens"] == pytest.approx(0.32)
    assert found["tokens"][0]["all_in_usd_per_million_tokens"] == pytest.approx(5.304)
    assert found["models"][0]["scaling"]["ratio"] == pytest.approx(0.495, abs=5e-4)
    assert found["models"][0]["scaling"]["baseline"]["id"] == "b-1"
    assert (found["window"], found["starts_at"], found["ends_at"]) == (
        "5m",
        "2026-11-30T09:55:00.000Z",
        "2026-11-30T10:00:00.000Z",
    )


def test_shares_add_up_to_the_rack() -> None:
    found = body()
    # 64 of 72 GPUs
    assert [found["models"][0]["share"]["ratio"], found["unallocated"]["ratio"]] == pytest.approx(
        [8 / 9, 1 / 9]
    )
    whole = {own["domain"]: own["joules"] for own in found["energy"]}
    for name in ("gpu", "module", "rack_input"):
        parts = [own[f"{name}_joules"] for own in (found["models"][0]["share"], found["unallocated"])]
        assert sum(parts) == pytest.approx(whole[name])


@pytest.mark.parametrize("path", [EFFICIENCY, "/v1/racks/h01/efficiency"])
def test_whatever_is_null_has_its_reason(path: str) -> None:
    found = body(path)
    assert nulls(found) == []
    assert nulls({"value": None, "blank": {}}) == [".value"]


def test_a_rack_that_nobody_watched_is_blank_and_200() -> None:
    found = body("/v1/racks/h01/efficiency?window=1h")
    assert (found["role"], found["models"], found["window"]) == (None, [], "1h")
    assert found["price"] == {
        "gpu_hour_usd": None,
        "kwh_usd": None,
        "pue": None,
        "gpu_hour_includes_energy": True,
    }
    own = found["domains"][0]
    assert own["tokens_per_joule"] is None
    assert own["blank"]["tokens_per_joule"].startswith("nothing of the window was watched")


@pytest.mark.parametrize(
    ("window", "status"),
    [("1m", 200), ("400d", 200), ("59s", 422), ("401d", 422), ("5", 422), ("", 422), ("soon", 422)],
)
def test_windows(window: str, status: int) -> None:
    app = create_app(ServiceDouble(), RestSettings())
    answer = ask(app, f"{EFFICIENCY}?window={window}")
    assert answer.status == status
    if status == 422:
        assert "query.window" in str(answer.json()["detail"])


def test_a_rack_that_is_not_there_and_one_of_which_nothing_is_known() -> None:
    service = ServiceDouble()
    del service.rollups["h01"]
    app = create_app(service, RestSettings())
    assert "There is no rack 'r09'" in str(ask(app, "/v1/racks/r09/efficiency").json()["detail"])
    answer = ask(app, "/v1/racks/h01/efficiency")
    assert (answer.status, answer.json()["detail"]) == (404, "Nothing is recorded of rack h01.")
    assert ask(app, f"{EFFICIENCY}?windw=5m").status == 422


def test_a_ledger_that_hangs_is_503(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(context, "LEDGER_SECONDS", 0.05)
    app = create_app(ServiceDouble(ledger_seconds=30), RestSettings())
    for path in (EFFICIENCY, BASELINES):
        answer = ask(app, path)
        assert (answer.status, answer.headers["retry-after"]) == (503, "5")


def test_baselines_are_listed_newest_first_of_one_rack_or_all() -> None:
    service = ServiceDouble()
    service.known_baselines["b-2"] = baseline(
        id="b-2", rack="h01", recorded_ns=NOW_NS, note="", created_by=""
    )
    assert [own["id"] for own in body(BASELINES, service)["baselines"]] == ["b-2", "b-1"]
    (own,) = body(f"{BASELINES}?rack=h01", service)["baselines"]
    assert (own["id"], own["note"], own["created_by"], own["recorded_at"]) == (
        "b-2",
        None,
        None,
        "2026-11-30T10:00:00.000Z",
    )
    assert ask(create_app(service, RestSettings()), f"{BASELINES}?rack=r09").status == 404


def test_recording_a_baseline(tmp_path: Path) -> None:
    app = make_app(tmp_path)
    answer = record(app, note="8k/1k", created_by="dc-operations")
    assert answer.status == 201
    listed: Any = answer.json()["baselines"]
    assert [
        (own["id"], own["model"], own["generation_tokens_per_second"], own["note"]) for own in listed
    ] == [("b-new1", MODEL, 10_000.0, "8k/1k")]
    newest: Any = ask(app, BASELINES).json()["baselines"]
    assert [own["id"] for own in newest] == ["b-new1", "b-1"]


@pytest.mark.parametrize("authorization", [None, "", "Bearer wrong", f"Basic {TOKEN}"])
def test_writes_need_the_token(tmp_path: Path, authorization: str | None) -> None:
    service = ServiceDouble()
    app = make_app(tmp_path, service)
    headers = {} if authorization is None else {"Authorization": authorization}
    assert record(app, authorization).status == 401
    assert ask(app, f"{BASELINES}/b-1", "DELETE", headers=headers).status == 401
    assert list(service.known_baselines) == ["b-1"]
    assert record(create_app(service, RestSettings())).status == 403


@pytest.mark.parametrize(
    ("changes", "status", "says"),
    [
        ({"rack": "r09"}, 404, "There is no rack 'r09'"),
        ({"rack": "h01"}, 422, "baseline of rack h01: nothing of the window was watched"),
        ({"model": "gpt"}, 422, f"it does not serve 'gpt'; it serves {MODEL}."),
        ({"model": ""}, 422, "body.model"),
        ({"window": "59s"}, 422, "59s is out of bounds"),
        ({"window": 600}, 422, "body.window"),
        ({"note": "x" * 1025}, 422, "body.note"),
        ({"until": "never"}, 422, "body.until"),
    ],
)
def test_what_cannot_be_recorded_is_said(
    tmp_path: Path, changes: dict[str, object], status: int, says: str
) -> None:
    answer = record(make_app(tmp_path), BEARER, **changes)
    assert answer.status == status, answer.body
    assert says in str(answer.json()["detail"])


def test_a_rack_that_is_not_saturated_makes_no_baseline(tmp_path: Path) -> None:
    service = ServiceDouble(rollups={"r01": rollup({MODEL: model(waiting=0.1)})})
    answer = record(make_app(tmp_path, service))
    assert answer.status == 422
    assert "requests waited for 10 % of the endpoints' time; 50 % is enough." in str(answer.json()["detail"])


def test_forgetting_a_baseline(tmp_path: Path) -> None:
    app = make_app(tmp_path)
    gone = ask(app, f"{BASELINES}/b-1", "DELETE", headers={"Authorization": BEARER})
    assert (gone.status, gone.json()["id"]) == (200, "b-1")
    again = ask(app, f"{BASELINES}/b-1", "DELETE", headers={"Authorization": BEARER})
    assert again.status == 404
    assert "There is no baseline 'b-1'" in str(again.json()["detail"])
    assert ask(app, BASELINES).json()["baselines"] == []
    found: Any = ask(app, EFFICIENCY).json()["models"]
    assert found[0]["scaling"]["blank"]["ratio"].startswith(f"no baseline of {MODEL}")

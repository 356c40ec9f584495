"""What all answers have in common: tags, headers, encodings, methods, errors; and the page and probes."""

from __future__ import annotations

import asyncio
import json
import zlib
from dataclasses import replace
from functools import partial

import pytest
from starlette.types import ASGIApp

from collector.catalog.rack import RACK
from collector.health.rack_types import DomainStatus
from collector.health.states import Verdict
from collector.model import Series
from exporters.prometheus import Renderer, TextFormat
from exporters.rest import context
from exporters.rest.app import create_app
from exporters.rest.representation import Cache, Representation, names
from exporters.rest.settings import RestSettings
from tests.exporter_snapshots import snapshot_of
from tests.rest_client import ask, call
from tests.rest_double import ServiceDouble
from tests.rest_literals import GPU_LOST, make_r01

STATE = (
    *("/v1/racks", "/v1/racks/r01", "/v1/racks/r01/health", "/v1/racks/r01/health?min_block=3"),
    *("/v1/racks/r01/nodes", "/v1/nodes/n07", "/v1/gpus/GPU-n07-2", "/v1/domains"),
)
JSON = (
    *STATE,
    *("/v1/racks/r01/availability", "/v1/racks/r01/efficiency", "/v1/baselines"),
    *("/v1/events", "/v1/maintenance", "/v1/maintenance/m-1"),
)
ALL = (*JSON, "/sd/prometheus", "/metrics", "/-/healthy", "/-/ready", "/", "/openapi.json")


def make_app(service: ServiceDouble | None = None) -> ASGIApp:
    return create_app(service or ServiceDouble(), RestSettings())


@pytest.mark.parametrize("path", JSON)
def test_every_body_begins_with_the_envelope(path: str) -> None:
    body = ask(make_app(), path).json()
    assert list(body)[:3] == ["observed_at", "stale_after_s", "generation"]
    assert (body["observed_at"], body["stale_after_s"]) == ("2026-11-30T10:00:00.000Z", 15.0)


def test_the_generation_is_the_racks_own_where_the_body_is_about_one() -> None:
    app = make_app()
    assert ask(app, "/v1/racks/r01/health").json()["generation"] == 41
    assert ask(app, "/v1/racks").json()["generation"] == 42


def test_before_the_first_evaluation_nothing_is_invented() -> None:
    body = ask(make_app(ServiceDouble(statuses={})), "/v1/racks").json()
    assert (body["observed_at"], body["racks"]) == (None, [])


# Tags.


@pytest.mark.parametrize("path", [*JSON, "/sd/prometheus"])
def test_who_has_the_body_gets_304_without_it(path: str) -> None:
    app = make_app()
    first = ask(app, path)
    again = ask(app, path, headers={"If-None-Match": first.headers["etag"]})
    assert (again.status, again.body) == (304, b"")
    assert again.headers["etag"] == first.headers["etag"]
    assert again.headers["cache-control"] == "no-store"
    assert "content-type" not in again.headers


@pytest.mark.parametrize("path", STATE)
def test_an_evaluation_without_news_keeps_the_tag_and_says_how_fresh_it_is(path: str) -> None:
    service = ServiceDouble()
    app = make_app(service)
    first = ask(app, path)
    service.evaluate_again()
    again = ask(app, path, headers={"If-None-Match": first.headers["etag"]})
    assert again.status == 304
    assert again.headers["rackwatt-observed-at"] == "2026-11-30T10:00:01.000Z"
    assert ask(app, path).json()["observed_at"] == "2026-11-30T10:00:01.000Z"


@pytest.mark.parametrize("path", [path for path in STATE if path != "/v1/gpus/GPU-n07-2"])
def test_news_change_the_tag(path: str) -> None:
    service = ServiceDouble()
    app = make_app(service)
    first = ask(app, path)
    nodes = tuple(
        replace(node, reasons=(replace(GPU_LOST, text="GPUs 1 and 2 do not answer"),))
        if node.node == "n07"
        else node
        for node in make_r01().nodes
    )
    service.evaluate_again(
        generation=42,
        nodes=nodes,
        verdict=Verdict.UNKNOWN,
        domains=(replace(make_r01().domains[0], schedulable=()),),
    )
    again = ask(app, path, headers={"If-None-Match": first.headers["etag"]})
    assert again.status == 200
    assert again.headers["etag"] != first.headers["etag"]


def test_a_value_that_moves_changes_the_tag_although_the_generation_stays() -> None:
    service = ServiceDouble()
    app = make_app(service)
    first = ask(app, "/v1/racks/r01/health")
    service.evaluate_again(reasons=(replace(GPU_LOST, value=0.5),))
    assert ask(app, "/v1/racks/r01/health").headers["etag"] != first.headers["etag"]


def test_tags_are_weak_because_the_time_of_evaluation_moves_on() -> None:
    assert ask(make_app(), "/v1/racks").headers["etag"].startswith('W/"')


@pytest.mark.parametrize(
    ("header", "matches"),
    [
        ('W/"a"', True),
        ('"a"', True),
        ('"b", W/"a"', True),
        ("*", True),
        ('"b"', False),
        ("", False),
        ("a", False),
        ('W/"aa"', False),
    ],
)
def test_tags_are_compared_weakly(header: str, matches: bool) -> None:
    assert names(header, 'W/"a"') is matches


def test_a_body_is_made_once_an_evaluation() -> None:
    class Counting(ServiceDouble):
        asked = 0

        def domains(self) -> tuple[tuple[str, DomainStatus], ...]:
            self.asked += 1
            return super().domains()

    service = Counting()
    app = make_app(service)
    for _ in range(3):
        ask(app, "/v1/domains")
    assert service.asked == 1
    service.evaluate_again()
    ask(app, "/v1/domains")
    assert service.asked == 2


def test_the_cache_is_bounded() -> None:
    cache = Cache(maximum=2)
    made: list[int] = []

    def make(key: int) -> Representation:
        made.append(key)
        return Representation(b"", "", "")

    for key in (1, 2, 3, 3, 2, 1):
        cache.get("evaluation", key, partial(make, key))
    assert made == [1, 2, 3, 1]


def test_a_body_is_made_anew_for_its_own_next_evaluation_only() -> None:
    cache = Cache()
    made: list[str] = []

    def make(body: str) -> Representation:
        made.append(body)
        return Representation(body.encode(), "", "")

    for evaluation, key in ((1, "r01"), (1, "r02"), (2, "r01"), (1, "r02"), (2, "r01")):
        body = f"{key} {evaluation}"
        assert cache.get(evaluation, key, partial(make, body)).body == body.encode()
    assert made == ["r01 1", "r02 1", "r01 2"]


# Encodings.


def test_large_bodies_are_compressed_for_who_asks() -> None:
    app = make_app()
    plain = ask(app, "/v1/racks/r01/nodes")
    packed = ask(app, "/v1/racks/r01/nodes", headers={"Accept-Encoding": "gzip"})
    assert "content-encoding" not in plain.headers
    assert packed.headers["content-encoding"] == "gzip"
    assert packed.headers["vary"] == plain.headers["vary"] == "Accept-Encoding"
    assert zlib.decompress(packed.body, wbits=31) == plain.body


def test_small_bodies_are_not() -> None:
    answer = ask(make_app(), "/sd/prometheus", headers={"Accept-Encoding": "gzip"})
    assert "content-encoding" not in answer.headers


def test_targets_are_what_prometheus_reads() -> None:
    assert json.loads(ask(make_app(), "/sd/prometheus").body) == [
        {"targets": ["n01:10072"], "labels": {"rack": "r01", "node": "n01"}},
        {"targets": ["[fd00::7]:10072"], "labels": {"rack": "r01", "node": "n07"}},
    ]


def test_metrics_in_both_formats_rendered_once_a_snapshot(monkeypatch: pytest.MonkeyPatch) -> None:
    expected = Series(next(row for row in RACK if row.name == "rack_nodes_expected"), ("r01",))
    service = ServiceDouble(newest=snapshot_of((expected, 18)))
    rendered: list[TextFormat] = []
    real = Renderer.render

    def render(self: Renderer, snapshot: object, form: TextFormat) -> bytes:
        rendered.append(form)
        return real(self, service.newest, form)

    monkeypatch.setattr(Renderer, "render", render)
    app = make_app(service)
    plain = ask(app, "/metrics")
    assert plain.headers["content-type"] == "text/plain; version=0.0.4; charset=utf-8"
    assert plain.body.endswith(b'\nrackwatt_rack_nodes_expected{rack="r01"} 18\n')
    opened = ask(app, "/metrics", headers={"Accept": "application/openmetrics-text; version=1.0.0"})
    assert opened.body.endswith(b"# EOF\n")
    packed = ask(app, "/metrics", headers={"Accept-Encoding": "gzip"})
    assert zlib.decompress(packed.body, wbits=31) == plain.body
    assert rendered == [TextFormat.PLAIN, TextFormat.OPENMETRICS]
    service.newest = snapshot_of((expected, 17))
    assert ask(app, "/metrics").body.endswith(b" 17\n")


# Headers, methods, errors.


@pytest.mark.parametrize("path", [*ALL, "/nope", "/v1/racks/r09", "/v1/events?limit=0"])
def test_every_answer_is_safe_to_open(path: str) -> None:
    headers = ask(make_app(), path).headers
    assert headers["server"] == "rackwatt"
    assert headers["cache-control"] == "no-store"
    assert headers["x-content-type-options"] == "nosniff"
    assert headers["referrer-policy"] == "no-referrer"
    assert headers["content-security-policy"].startswith("default-src 'none'")
    assert "frame-ancestors 'none'" in headers["content-security-policy"]


@pytest.mark.parametrize("path", ALL)
def test_head_is_get_without_the_body(path: str) -> None:
    app = make_app()
    got, head = ask(app, path), ask(app, path, "HEAD")
    assert (head.status, head.headers, head.body) == (200, got.headers, b"")


@pytest.mark.parametrize(
    "path", ["/nope", "/v1/racks/", "/v1/racks/r01/health/", "/docs", "/redoc", "//", "/v1"]
)
def test_a_path_that_is_not_served(path: str) -> None:
    answer = ask(make_app(), path)
    assert answer.status == 404
    assert answer.headers["content-type"] == "application/problem+json"
    assert answer.json() == {
        "type": "about:blank",
        "title": "Not Found",
        "status": 404,
        "detail": "Nothing is served at this path; /openapi.json describes what is.",
    }


@pytest.mark.parametrize("method", ["POST", "PUT", "DELETE", "PATCH", "OPTIONS", "TRACE", "BREW"])
def test_a_method_that_is_not_answered(method: str) -> None:
    answer = ask(make_app(), "/v1/racks", method)
    assert answer.status == 405
    assert answer.headers["allow"] == "GET, HEAD"
    assert answer.headers["content-type"] == "application/problem+json"


@pytest.mark.parametrize(
    ("path", "allow"),
    [
        ("/v1/maintenance", "GET, HEAD, POST"),
        ("/v1/maintenance/m-1", "DELETE, GET, HEAD"),
        ("/v1/racks/r01/health", "GET, HEAD"),
        ("/", "GET, HEAD"),
        ("/openapi.json", "GET, HEAD"),
    ],
)
def test_allow_names_every_method_of_the_path(path: str, allow: str) -> None:
    assert ask(make_app(), path, "PUT").headers["allow"] == allow


def test_a_defect_is_a_problem_without_a_stack_trace(caplog: pytest.LogCaptureFixture) -> None:
    class Broken(ServiceDouble):
        def domains(self) -> tuple[()]:
            raise RuntimeError("secret of the inside")

    answer = ask(make_app(Broken()), "/v1/domains")
    assert answer.status == 500
    assert answer.headers["content-type"] == "application/problem+json"
    assert answer.json()["detail"] == "The rack service failed to answer; its log says why."
    assert b"secret" not in answer.body
    assert "secret of the inside" in caplog.text


def test_a_ledger_that_does_not_answer_is_503(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(context, "LEDGER_SECONDS", 0.01)
    answer = ask(make_app(ServiceDouble(ledger_seconds=5)), "/v1/events")
    assert answer.status == 503
    assert answer.headers["retry-after"] == "5"


def test_so_it_is_for_those_who_never_had_their_turn(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(context, "LEDGER_SECONDS", 0.02)
    app = make_app(ServiceDouble(ledger_seconds=5))

    async def scenario() -> list[int]:
        return [
            answer.status for answer in await asyncio.gather(*(call(app, "/v1/events") for _ in range(9)))
        ]

    assert asyncio.run(scenario()) == [503] * 9


def test_a_slow_ledger_does_not_delay_the_present() -> None:
    app = make_app(ServiceDouble(ledger_seconds=0.2))

    async def scenario() -> list[str]:
        done: list[str] = []

        async def ask_for(path: str) -> None:
            await call(app, path)
            done.append(path)

        slow = [asyncio.create_task(ask_for("/v1/events")) for _ in range(3)]
        await asyncio.sleep(0)
        await ask_for("/v1/racks/r01/health")
        await asyncio.gather(*slow)
        return done

    assert asyncio.run(scenario())[0] == "/v1/racks/r01/health"


# Probes and the page.


def test_an_unhealthy_rack_does_not_make_the_service_unready() -> None:
    service = ServiceDouble()
    service.evaluate_again(verdict=Verdict.UNAVAILABLE)
    assert ask(make_app(service), "/-/ready").status == 200


def test_unready_says_why() -> None:
    answer = ask(make_app(ServiceDouble(not_ready="3 of 18 agents were polled since the start.")), "/-/ready")
    assert answer.status == 503
    assert answer.body == b"Not ready: 3 of 18 agents were polled since the start.\n"


def page(service: ServiceDouble, host: str = "rack:10073") -> str:
    answer = ask(make_app(service), "/", headers={"Host": host})
    assert answer.headers["content-type"] == "text/html; charset=utf-8"
    return answer.body.decode()


def test_the_page_gives_each_verdict_in_a_sentence_and_leads_on() -> None:
    html = page(ServiceDouble())
    assert "● Every rack is available." in html
    assert "r01 is available: the largest block has 16 of 18 nodes and must have 16." in html
    assert '<a href="/v1/racks/h01/health">h01</a>' in html
    assert '<a href="/v1/racks/r01/availability?window=30d">' in html


def test_the_page_says_what_is_wrong() -> None:
    service = ServiceDouble()
    service.evaluate_again(verdict=Verdict.UNAVAILABLE)
    html = page(service)
    assert "▲ 1 of 2 racks are available." in html
    assert "✕ UNAVAILABLE" in html


def test_the_page_loads_and_repeats_nothing_foreign() -> None:
    html = page(ServiceDouble(), host="evil\"><script>alert('x')</script>")
    assert "evil" not in html
    assert "<script" not in html
    assert "src=" not in html


def test_the_page_of_a_service_that_knows_nothing_yet() -> None:
    html = page(ServiceDouble(statuses={}, not_ready="0 of 18 agents were polled since the start."))
    assert "0 of 18 agents were polled" in html
    assert "Not evaluated yet." in html

"""A real Prometheus loads the rules and evaluates all of them over every series there is, scraped twice.

What the simulator makes of them over hours is asked elsewhere; here no rule may fail on labels that do not
match, nor on two scrapers of one rack.
"""

from __future__ import annotations

import json
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from itertools import product
from pathlib import Path
from urllib.parse import quote

import pytest

from collector.catalog.rack import RACK
from collector.catalog.spec import Kind, Metric
from dashboards.build import GENERATED
from dashboards.recorded import RECORDED
from dashboards.rules.alerts import ALERTS
from tests.e2e.programs import REPOSITORY, free_port, get, running, until

pytestmark = [pytest.mark.e2e, pytest.mark.needs_program("prometheus")]

NODE = REPOSITORY / "tests/golden/metrics/gb300-nvl72.txt"
"""What a simulated agent of 4 GPUs and 72 links exposes."""


def rack_exposition() -> str:
    """Write every row of a rack, each label value once."""
    return "".join(line for metric in RACK for line in rack_lines(metric))


def rack_lines(metric: Metric) -> Iterator[str]:
    kind = {Kind.COUNTER: "counter"}.get(metric.kind, "gauge")
    yield f"# TYPE {metric.exposed_name} {kind}\n"
    names = [label for label in metric.label_names if label != "rack"]
    first = metric.label_values if metric.label_values != ("",) else ("A", "B")
    for values in product(*((first if name == metric.label else ("A", "B")) for name in names)):
        labels = ",".join(
            f'{name}="{value}"' for name, value in [("rack", "r01"), *zip(names, values, strict=True)]
        )
        yield f"{metric.exposed_name}{{{labels}}} 1\n"


@contextmanager
def serving(body: str) -> Iterator[int]:
    """Serve an exposition on loopback."""
    content = body.encode()

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            self.send_response(200)
            self.send_header("Content-Type", "text/plain; version=0.0.4")
            self.send_header("Content-Length", str(len(content)))
            self.end_headers()
            self.wfile.write(content)

        def log_message(self, format: str, *arguments: object) -> None:
            """Say nothing."""

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    thread = threading.Thread(target=server.serve_forever, daemon=True)
    thread.start()
    try:
        yield server.server_port
    finally:
        server.shutdown()
        server.server_close()
        thread.join()


def configuration(folder: Path, agent: int, rack: int) -> str:
    """Write a configuration in which each target is scraped by two jobs; rules are evaluated each second."""
    rules = folder / "rules"
    rules.mkdir()
    for path in (GENERATED / "rules").glob("*.yaml"):
        text = path.read_text("utf-8")
        (rules / path.name).write_text(
            text.replace("interval: 30s", "interval: 1s").replace("interval: 1m", "interval: 1s")
        )
    jobs = {"rackwatt-agents": agent, "agents-again": agent, "rackwatt-racks": rack, "racks-again": rack}
    document = {
        "global": {"scrape_interval": "1s", "scrape_timeout": "1s", "evaluation_interval": "1s"},
        "rule_files": [f"{rules}/*.yaml"],
        "scrape_configs": [
            {"job_name": job, "honor_labels": True, "static_configs": [{"targets": [f"127.0.0.1:{port}"]}]}
            for job, port in jobs.items()
        ],
    }
    return json.dumps(document)  # JSON is YAML


@pytest.fixture(scope="module")
def port(tmp_path_factory: pytest.TempPathFactory) -> Iterator[int]:
    """Run a Prometheus with the rules."""
    folder = tmp_path_factory.mktemp("prometheus")
    with serving(NODE.read_text("utf-8")) as agent, serving(rack_exposition()) as rack:
        (folder / "prometheus.yaml").write_text(configuration(folder, agent, rack), "utf-8")
        port = free_port()
        command = [
            "prometheus",
            f"--config.file={folder / 'prometheus.yaml'}",
            f"--storage.tsdb.path={folder / 'data'}",
            f"--web.listen-address=127.0.0.1:{port}",
        ]
        with running(command, folder / "prometheus.log") as program:
            program.wait_for("Server is ready to receive web requests")
            yield port


def rules_of(port: int) -> list[dict[str, str]]:
    document = json.loads(get(port, "/api/v1/rules").text)
    return [rule for group in document["data"]["groups"] for rule in group["rules"]]


def query(port: int, expression: str) -> list[tuple[dict[str, str], float]]:
    document = json.loads(get(port, f"/api/v1/query?query={quote(expression)}").text)
    assert document["status"] == "success", document
    return [(each["metric"], float(each["value"][1])) for each in document["data"]["result"]]


def test_every_rule_is_evaluated_without_an_error(port: int) -> None:
    until(lambda: query(port, "count_over_time(rack:nodes_expected:max[1m]) > 3"), "rules are evaluated")
    rules = rules_of(port)
    assert len(rules) == len(RECORDED) + len(ALERTS)
    assert {(rule["name"], rule.get("lastError", "")) for rule in rules if rule["health"] != "ok"} == set()


def test_two_scrapes_of_one_rack_count_once(port: int) -> None:
    until(lambda: query(port, "rack:nvlinks_up:sum"), "rules are evaluated")
    assert query(port, "count(rackwatt_gpu_up)") == [({}, 8.0)]
    # A GB300 tray: 4 GPUs of 18 links each.
    assert [value for _, value in query(port, "rack:nvlinks_expected:sum")] == [72.0]
    assert query(port, "count(rack_node_gpu:temperature_margin_celsius:min)") == [({}, 4.0)]
    assert query(port, "rack:nodes_expected:max")[0] == (
        {"__name__": "rack:nodes_expected:max", "rack": "r01"},
        1.0,
    )

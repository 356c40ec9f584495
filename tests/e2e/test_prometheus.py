"""A real Prometheus over running agents: rates and energies come out as the hardware made them.

The hardware is the NVML double in C, whose counters run at rates that are written down in
tests/abi/double/nvml_double.c and that no code of rackwatt has a part in.
"""

from __future__ import annotations

import json
import signal
import subprocess
import threading
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from urllib.parse import quote
from urllib.request import Request, urlopen

import pytest

from tests.e2e.programs import AgentProgram, Program, agent, environment, free_port, get, running, until

pytestmark = [pytest.mark.e2e, pytest.mark.needs_program("gcc", "prometheus", "promtool")]

WINDOW_SECONDS = 25
"""Window of the queries below."""
TOLERANCE = 0.01
"""Readings are 0.2 s apart, so the ends of a window can make a rate 0.8 % wrong; a machine that is busy with
other things adds to that at times, so a query may be asked again for a while."""

# Joules a second of GPU i: 412.3 W + 1 W x i. Payload of link l of GPU i: 1000000 + 10000 i + 100 l KiB/s,
# received twice 1000000 of it, so over 18 links 18 x (1000000 + 10000 i) + 15300 KiB/s. Module m of a GB300:
# 1030 W + 10 W x m, its serial ends in m + 1. All from the table in tests/abi/double/nvml_double.c; a KiB is
# 1024 bytes.
EXPECTED = {
    'rate(rackwatt_gpu_energy_joules_total{node="gb300",gpu="2"}[25s])': 414.3,
    'rate(rackwatt_gpu_energy_joules_total{node="h100",gpu="7"}[25s])': 419.3,
    'rate(rackwatt_module_energy_joules_total{node="gb300",module="1650000000002"}[25s])': 1040.0,
    'increase(rackwatt_gpu_energy_joules_total{node="h100",gpu="0"}[25s])': 412.3 * 25,
    'increase(rackwatt_module_energy_joules_total{node="gb300",module="1650000000001"}[25s])': 1030.0 * 25,
    'rate(rackwatt_gpu_nvlink_transmitted_bytes_total{node="gb300",gpu="2"}[25s])': 18_375_300 * 1024,
    'rate(rackwatt_gpu_nvlink_received_bytes_total{node="gb300",gpu="2"}[25s])': 36_375_300 * 1024,
    'rate(rackwatt_gpu_nvlink_transmitted_bytes_total{node="h100",gpu="7"}[25s])': 19_275_300 * 1024,
    'rate(rackwatt_gpu_nvlink_received_bytes_total{node="h100",gpu="7"}[25s])': 37_275_300 * 1024,
    'rackwatt_gpu_power_watts{node="h100",gpu="7"}': 419.3,
}
"""Queries and what they must give. The same is asked of what was scraped in either format."""


class _PlainText(BaseHTTPRequestHandler):
    """Passes a scrape on to an agent, and asks for the text format whatever the scraper would prefer."""

    agent_port: int

    def do_GET(self) -> None:
        answer = get(self.agent_port, self.path, Accept="text/plain;version=0.0.4")
        body = answer.text.encode()
        self.send_response(answer.status)
        self.send_header("Content-Type", "text/plain; version=0.0.4; charset=utf-8")
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, format: str, *arguments: object) -> None:
        """Say nothing."""


@contextmanager
def plain_text(agent_port: int) -> Iterator[int]:
    """Serve an agent's text format on a port of its own."""
    handler = type("Handler", (_PlainText,), {"agent_port": agent_port})
    with ThreadingHTTPServer(("127.0.0.1", 0), handler) as server:
        thread = threading.Thread(target=server.serve_forever, args=(0.05,), daemon=True)
        thread.start()
        try:
            yield server.server_port
        finally:
            server.shutdown()
            thread.join(5)


@dataclass
class Prometheus:
    """A Prometheus that runs, and the agents that it scrapes."""

    program: Program
    port: int
    agents: dict[str, AgentProgram]

    def query(self, expression: str) -> list[tuple[dict[str, str], float]]:
        """Evaluate an instant query: labels and values."""
        url = f"http://127.0.0.1:{self.port}/api/v1/query?query={quote(expression)}"
        with urlopen(Request(url), timeout=10) as response:
            document = json.load(response)
        assert document["status"] == "success", document
        return [(each["metric"], float(each["value"][1])) for each in document["data"]["result"]]

    def targets(self) -> list[dict[str, str]]:
        """List its targets with their health."""
        document = json.loads(get(self.port, "/api/v1/targets").text)
        return [
            {"job": each["labels"]["job"], "health": each["health"], "error": each["lastError"]}
            for each in document["data"]["activeTargets"]
        ]

    def scraped_for(self, seconds: int) -> bool:
        """Tell whether every agent has been scraped for some seconds in both formats."""
        counts = self.query(f'min_over_time(up{{job=~".*"}}[{seconds}s]) == 1')
        oldest = self.query(f"count_over_time(up[{seconds}s]) >= {seconds}")
        return len(counts) == len(oldest) == 4


def configuration(ports: dict[str, int]) -> str:
    """Write a configuration: one job an agent and format, scraped each second."""
    # A second is less than the usual timeout; `node` and `rack` are the agent's own (CONTRACTS §1).
    document = {
        "global": {"scrape_interval": "1s", "scrape_timeout": "1s"},
        "scrape_configs": [
            {"job_name": job, "honor_labels": True, "static_configs": [{"targets": [f"127.0.0.1:{port}"]}]}
            for job, port in ports.items()
        ],
    }
    return json.dumps(document)  # JSON is YAML


@pytest.fixture(scope="module")
def prometheus(double: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Prometheus]:
    """Run a GB300 and an H100 agent over the double, and a Prometheus that scrapes both in both formats."""
    with ExitStack() as stack:
        agents: dict[str, AgentProgram] = {}
        ports: dict[str, int] = {}
        for platform in ("gb300", "h100"):
            folder = tmp_path_factory.mktemp(platform)
            env = environment(LD_LIBRARY_PATH=str(double.parent), RACKWATT_DOUBLE_PLATFORM=platform)
            started = stack.enter_context(
                agent(folder, settings="sampling: {fast: 200ms}\n", node=platform, env=env)
            )
            agents[platform] = started
            ports[platform] = started.port
            ports[f"{platform}-text"] = stack.enter_context(plain_text(started.port))
        for started in agents.values():
            started.wait_until_ready()
        folder = tmp_path_factory.mktemp("prometheus")
        (folder / "prometheus.yaml").write_text(configuration(ports), "utf-8")
        port = free_port()
        command = [
            "prometheus",
            f"--config.file={folder / 'prometheus.yaml'}",
            f"--storage.tsdb.path={folder / 'data'}",
            f"--web.listen-address=127.0.0.1:{port}",
            "--log.level=info",
        ]
        program = stack.enter_context(running(command, folder / "prometheus.log"))
        program.wait_for("Server is ready to receive web requests")
        yield Prometheus(program, port, agents)
        program.process.send_signal(signal.SIGTERM)
        assert program.wait() == 0


def test_every_target_is_up_in_both_formats(prometheus: Prometheus) -> None:
    until(lambda: {each["health"] for each in prometheus.targets()} == {"up"}, "every target is up")
    assert {each["job"] for each in prometheus.targets()} == {"gb300", "gb300-text", "h100", "h100-text"}
    assert {each["error"] for each in prometheus.targets()} == {""}
    for metric, value in prometheus.query("rackwatt_node_gpus_present"):
        assert value == {"gb300": 4, "h100": 8}[metric["node"]]
    types = json.loads(get(prometheus.port, "/api/v1/metadata?metric=rackwatt_gpu_energy_joules_total").text)
    assert {each["type"] for each in types["data"]["rackwatt_gpu_energy_joules_total"]} == {"counter"}


@pytest.mark.parametrize(("query", "expected"), EXPECTED.items())
def test_rates_and_energies_are_those_of_the_hardware(
    prometheus: Prometheus, query: str, expected: float
) -> None:
    until(lambda: prometheus.scraped_for(WINDOW_SECONDS), f"{WINDOW_SECONDS} s of scrapes", 40)
    seen: list[float] = []

    def is_right() -> bool:
        results = prometheus.query(query)
        jobs = sorted(metric["job"] for metric, _ in results)
        assert jobs in (["gb300", "gb300-text"], ["h100", "h100-text"])
        seen[:] = [value for _, value in results]
        return seen == pytest.approx([expected] * 2, rel=TOLERANCE)

    try:
        until(is_right, query, 15)
    except AssertionError:
        pytest.fail(f"{query} gives {seen}, expected {expected}")


def test_nothing_of_a_scrape_is_complained_of(prometheus: Prometheus) -> None:
    until(lambda: prometheus.scraped_for(5), "5 s of scrapes")
    complaints = [line for line in prometheus.program.output.splitlines() if "level=info" not in line.lower()]
    assert complaints == []


@pytest.mark.parametrize("platform", ["gb300-nvl72", "hgx-h100"])
def test_promtool_finds_nothing_in_the_text_of_a_simulated_agent(tmp_path: Path, platform: str) -> None:
    with agent(tmp_path, "--simulate", platform, "--fault", "xid:gpu=1,code=63,start=0.5") as program:
        program.wait_until_ready()
        until(lambda: "rackwatt_gpu_xid_total" in get(program.port, "/metrics").text, "an Xid is told")
        assert_promtool_is_silent(get(program.port, "/metrics").text)


@pytest.mark.parametrize("platform", ["gb300", "h100"])
def test_promtool_finds_nothing_in_the_text_of_an_agent(prometheus: Prometheus, platform: str) -> None:
    assert_promtool_is_silent(get(prometheus.agents[platform].port, "/metrics").text)


def assert_promtool_is_silent(text: str) -> None:
    """Run `promtool check metrics`, which has an opinion on names, help and types."""
    result = subprocess.run(
        ["promtool", "check", "metrics"], input=text, capture_output=True, text=True, timeout=30, check=False
    )
    assert (result.returncode, result.stdout, result.stderr) == (0, "", "")

"""What docker-compose.yml configures, run without containers: the same commands and the same files.

Names of services become addresses on the loopback, paths of containers those of a temporary folder; nothing
else is changed. Prometheus is Debian's. In InfluxDB's place stands a small server that knows tokens; Grafana
does not run.
"""

from __future__ import annotations

import json
import re
import socket
import subprocess
import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from urllib.parse import quote

import pytest

from tests import compose_stack
from tests.compose_stack import Document, file_of, mounts, readdress, services
from tests.e2e.programs import MODULE, Program, environment, get, running, until
from tests.influxdb_api import InfluxdbApi, influxdb_api

pytestmark = [pytest.mark.e2e, pytest.mark.needs_program("prometheus", "promtool")]

NODES = ["n01", "n02", "n03", "n04", "n05", "n06"]
EVALUATED_SECONDS = 100.0
"""A group is evaluated within its interval, 1 min at most, after the start (Prometheus' documentation)."""


def free_ports(number: int) -> list[int]:
    """Find ports of 127.0.0.1 that nobody listens on at this moment, all different."""
    with ExitStack() as stack:
        listeners = [stack.enter_context(socket.socket()) for _ in range(number)]
        for listener in listeners:
            listener.bind(("127.0.0.1", 0))
        return [listener.getsockname()[1] for listener in listeners]


class Stack:
    """The stack while it runs.

    Attributes:
        folder: For secrets, state and logs.
        addresses: `host:port` by name and port of the service.
        influxdb: The server in InfluxDB's place.
        programs: The programs by the name of their service.
    """

    influxdb: InfluxdbApi

    def __init__(self, folder: Path) -> None:
        """Choose addresses, and make the volumes."""
        self.folder = folder
        self.programs: dict[str, Program] = {}
        wanted = [
            *((name, 10072) for name in compose_stack.trays()),
            ("rack", 10073),
            ("prometheus", 9090),
            ("influxdb", 8086),
        ]
        self.addresses = {
            each: f"127.0.0.1:{port}" for each, port in zip(wanted, free_ports(len(wanted)), strict=True)
        }
        for volume in compose_stack.stack()["volumes"]:
            (folder / "volumes" / volume).mkdir(parents=True, mode=0o750)

    def port(self, name: str) -> int:
        """Where a service listens."""
        (address,) = (text for (service, _), text in self.addresses.items() if service == name)
        return int(address.rpartition(":")[2])

    def paths(self, name: str) -> dict[str, str]:
        """Where what a service mounts lies, by its path in the container."""
        service = services()[name]
        found = {
            mount.target: str(self.folder / "volumes" / mount.source if mount.is_volume else mount.path)
            for mount in mounts(service)
        }
        for text in service.get("tmpfs", []):
            target = text.partition(":")[0]
            place = self.folder / "memory" / name / target.strip("/").replace("/", "-")
            place.mkdir(parents=True, exist_ok=True)
            found[target] = str(place)
        return found

    def file(self, name: str, target: str) -> Path:
        """Write the file that a service finds at a path, with the addresses of this run."""
        source = file_of(services()[name], target)
        own = self.folder / f"{name}-{source.name}"
        text = source.read_text(encoding="utf-8")
        own.write_text(readdress(text, self.addresses, self.paths(name)), encoding="utf-8")
        return own

    def words(self, name: str) -> list[str]:
        """Return the command of a service, with the addresses of this run."""
        return [readdress(word, self.addresses, self.paths(name)) for word in services()[name]["command"]]

    def once(self, name: str) -> None:
        """Run a service that ends by itself."""
        service: Document = services()[name]
        assert service["entrypoint"] == ["python"]
        result = subprocess.run(
            [sys.executable, *self.words(name)],
            capture_output=True,
            text=True,
            timeout=60,
            check=False,
            env=environment(),
        )
        assert result.returncode == 0, result.stderr

    def start(self, stack: ExitStack, name: str, command: Sequence[str]) -> None:
        """Start a program that runs until the end."""
        log = self.folder / f"{name}.log"
        temporary = self.folder / "temporary" / name
        temporary.mkdir(parents=True)
        env = environment(TMPDIR=str(temporary))
        self.programs[name] = stack.enter_context(running(command, log, env=env))

    def rackwatt(self, stack: ExitStack, name: str, configuration: str) -> None:
        """Start the image's own program, as the service does."""
        listen = f"127.0.0.1:{self.port(name)}"
        words = [*self.words(name), "--config", str(self.file(name, configuration)), "--listen", listen]
        self.start(stack, name, [*MODULE, *words])

    def ask(self, name: str, path: str) -> Any:
        """Read a JSON document."""
        answer = get(self.port(name), path)
        assert answer.status == 200, answer
        return json.loads(answer.text)

    def query(self, expression: str) -> list[tuple[dict[str, str], float]]:
        """Evaluate an instant query: labels and values."""
        document = self.ask("prometheus", f"/api/v1/query?query={quote(expression)}")
        return [(each["metric"], float(each["value"][1])) for each in document["data"]["result"]]


def is_ready(stack: Stack, name: str) -> Callable[[], bool]:
    def ready() -> bool:
        program = stack.programs[name]
        assert program.process.poll() is None, f"{name} has ended:\n{program.output}"
        try:
            return get(stack.port(name), "/-/ready").status == 200
        except ConnectionError:
            return False

    return ready


@pytest.fixture(scope="module")
def stack(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Stack]:
    """Start the services in the order in which Compose would."""
    own = Stack(tmp_path_factory.mktemp("stack"))
    with ExitStack() as exits:
        own.once("secrets")
        setup = services()["influxdb"]["environment"]
        token_file = readdress(
            setup["DOCKER_INFLUXDB_INIT_ADMIN_TOKEN_FILE"], own.addresses, own.paths("influxdb")
        )
        own.influxdb = exits.enter_context(
            influxdb_api(
                Path(token_file).read_text("ascii").strip(),
                organization=setup["DOCKER_INFLUXDB_INIT_ORG"],
                bucket=setup["DOCKER_INFLUXDB_INIT_BUCKET"],
                port=own.port("influxdb"),
            )
        )
        own.once("influxdb-tokens")
        for name in NODES:
            own.rackwatt(exits, name, "/etc/rackwatt/agent.yaml")
        own.rackwatt(exits, "rack", "/etc/rackwatt/rack.yaml")
        # Prometheus takes its file at the path where it is mounted, and everything else by its command.
        configuration = own.file("prometheus", "/etc/prometheus/prometheus.yml")
        words = [
            f"--config.file={configuration}" if word.startswith("--config.file=") else word
            for word in own.words("prometheus")
        ]
        listen = f"--web.listen-address=127.0.0.1:{own.port('prometheus')}"
        own.start(exits, "prometheus", ["prometheus", *words, listen])
        for name in [*NODES, "rack", "prometheus"]:
            until(is_ready(own, name), f"{name} is ready", 60)
        yield own


@dataclass(frozen=True)
class Target:
    """A target of Prometheus."""

    job: str
    node: str
    health: str
    error: str
    found_by: str


def targets(stack: Stack) -> list[Target]:
    return [
        Target(
            each["labels"]["job"],
            each["labels"].get("node", ""),
            each["health"],
            each["lastError"],
            each["discoveredLabels"].get("__meta_url", ""),
        )
        for each in stack.ask("prometheus", "/api/v1/targets")["data"]["activeTargets"]
    ]


def test_the_addresses_are_those_of_the_trays() -> None:
    assert list(compose_stack.trays()) == NODES


def test_the_rack_is_available(stack: Stack) -> None:
    def is_available() -> Any:
        rack = stack.ask("rack", "/v1/racks/r01")
        return rack if rack["verdict"] == "AVAILABLE" else None

    rack = until(is_available, "r01 is available", 60)
    assert {node["node"]: node["state"] for node in rack["nodes"]} == dict.fromkeys(NODES, "READY")


def test_prometheus_finds_every_agent_by_the_rack_service(stack: Stack) -> None:
    def all_up() -> bool:
        found = targets(stack)
        return len(found) == len(NODES) + 1 and {each.health for each in found} == {"up"}

    until(all_up, "every target is up", 60)
    by_job: dict[str, list[Target]] = {}
    for target in targets(stack):
        assert target.error == ""
        by_job.setdefault(target.job, []).append(target)
    assert sorted(target.node for target in by_job["rackwatt-agents"]) == NODES
    address = stack.addresses["rack", 10073]
    assert {target.found_by for target in by_job["rackwatt-agents"]} == {f"http://{address}/sd/prometheus"}
    assert len(by_job["rackwatt-racks"]) == 1


def test_series_of_every_tray_are_there_under_their_own_names(stack: Stack) -> None:
    def counted() -> dict[str, float]:
        found = stack.query("count by (node) (rackwatt_gpu_power_watts)")
        return {metric["node"]: count for metric, count in found} if len(found) == len(NODES) else {}

    assert until(counted, "power of every tray", 60) == dict.fromkeys(NODES, 4.0)  # 4 GPUs a tray
    assert stack.query('count({exported_node!=""} or {exported_rack!=""})') == []
    assert {metric["simulated"] for metric, _ in stack.query("rackwatt_node_info")} == {"true"}
    assert {metric["rack"] for metric, _ in stack.query("rackwatt_rack_nodes_expected")} == {"r01"}


def test_every_rule_is_loaded_and_evaluated(stack: Stack) -> None:
    folder = file_of(services()["prometheus"], "/etc/prometheus/rules")
    written = [
        rule.get("record") or rule["alert"]
        for path in sorted(folder.iterdir())
        for group in compose_stack.read_yaml(path)["groups"]
        for rule in group["rules"]
    ]
    assert len(written) > 100

    def rules() -> list[dict[str, Any]]:
        groups = stack.ask("prometheus", "/api/v1/rules")["data"]["groups"]
        return [rule for group in groups for rule in group["rules"]]

    assert sorted(rule["name"] for rule in rules()) == sorted(written)
    until(
        lambda: {rule["health"] for rule in rules()} == {"ok"}, "every rule was evaluated", EVALUATED_SECONDS
    )
    verdicts = until(lambda: stack.query("rack_verdict:verdict:max == 1"), "the verdict is recorded", 60)
    assert [metric["verdict"] for metric, _ in verdicts] == ["AVAILABLE"]


def test_promtool_takes_the_configuration(stack: Stack) -> None:
    configuration = stack.file("prometheus", "/etc/prometheus/prometheus.yml")
    result = subprocess.run(
        ["promtool", "check", "config", str(configuration)],
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert result.returncode == 0, result.stderr
    assert "SUCCESS" in result.stdout


def test_points_come_to_influxdb_with_the_token_that_writes(stack: Stack) -> None:
    token = (stack.folder / "volumes" / "influxdb-write" / "token").read_text("ascii").strip()

    def writers() -> set[str]:
        lines = [line.decode() for write in stack.influxdb.writes for line in write.lines]
        return {found[1] for line in lines if (found := re.search(r"^gpu,.*\bnode=(n\d\d)", line))}

    until(lambda: writers() == set(NODES), "points of every tray", 60)
    assert {write.token for write in stack.influxdb.writes} == {token}
    measurements = {line.split(b",")[0] for write in stack.influxdb.writes for line in write.lines}
    assert {b"gpu", b"rack"} <= measurements


def test_no_secret_is_told(stack: Stack) -> None:
    volumes = stack.folder / "volumes"
    secrets = [
        path.read_text("ascii").strip() for path in volumes.glob("*/*") if path.name in {"token", "password"}
    ]
    assert len(secrets) == 6
    for name, program in stack.programs.items():
        assert [secret for secret in secrets if secret in program.output] == [], name


def test_nobody_complains(stack: Stack) -> None:
    # Prometheus may ask the rack service before it listens, and asks again.
    complaints = [
        line
        for line in stack.programs["prometheus"].output.splitlines()
        if "level=info" not in line and "discovery=http" not in line
    ]
    assert complaints == []
    for name in [*NODES, "rack"]:
        lines = [json.loads(line) for line in stack.programs[name].output.splitlines()]
        assert {line["level"] for line in lines} == {"info"}, name

"""docker-compose.yml: two generations of Compose can read it, and it keeps the rules of this project.

Nothing here runs a container; tests/e2e/test_compose_stack.py runs what it configures.
"""

from __future__ import annotations

import json
import re
import subprocess
from importlib.resources import files

import jsonschema_rs
import pytest
import yaml

from collector import profiles
from collector.config import AgentConfiguration, parse_agent
from collector.config.rack_load import parse_rack_service
from collector.config.rack_schema import RackConfiguration
from tests import compose_stack
from tests.compose_stack import COMPOSE_FILE, ROOT, Document, file_of, mounts, ports, runs_once, services

each_service = pytest.mark.parametrize("name", services())
each_server = pytest.mark.parametrize(
    "name", [name for name, each in services().items() if not runs_once(each)]
)

# What docker-compose 1.29, Debian 12's, does not know (its compose_spec.json): each is an error there.
UNKNOWN_TO_1_29 = {"name", "include", "gpus", "start_interval", "required", "content", "develop", "attach"}


def keys_within(value: object) -> set[str]:
    if isinstance(value, dict):
        return set(value).union(*map(keys_within, value.values()))
    if isinstance(value, list):
        return set().union(*map(keys_within, value)) if value else set()
    return set()


# What reads it.


@pytest.mark.needs_program("docker-compose")
def test_docker_compose_reads_it_as_it_is_meant() -> None:
    result = subprocess.run(
        ["docker-compose", "--file", str(COMPOSE_FILE), "--profile", "gpu", "config"],
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert (result.returncode, result.stderr) == (0, "")
    read = yaml.safe_load(result.stdout)["services"]
    assert set(read) == set(services())
    for name, service in services().items():
        for key in ("image", "command", "user", "read_only", "cap_drop", "pids_limit", "restart"):
            assert read[name].get(key) == service.get(key), f"{name}: {key}"
        assert set(read[name].get("depends_on", {})) == set(service.get("depends_on", {}))


def test_the_schema_of_the_compose_specification_takes_it() -> None:
    schema = files("check_jsonschema") / "builtin_schemas" / "vendor" / "compose-spec.json"
    validator = jsonschema_rs.validator_for(json.loads(schema.read_text(encoding="utf-8")))
    assert [
        f"{error.instance_path}: {error.message}" for error in validator.iter_errors(compose_stack.stack())
    ] == []
    wrong = compose_stack.stack()
    wrong["services"]["rack"]["read_onyl"] = True
    assert not validator.is_valid(wrong)


def test_nothing_is_used_that_docker_compose_1_29_lacks() -> None:
    assert keys_within(compose_stack.stack()) & UNKNOWN_TO_1_29 == set()


# Rules of this project.


@each_service
def test_images_are_pinned(name: str) -> None:
    service = services()[name]
    image, _, tag = service["image"].partition(":")
    if compose_stack.is_ours(service):
        assert (image, tag) == ("rackwatt", "local")
        assert service["build"] == {"context": ".", "dockerfile": "deploy/Dockerfile"}
    else:
        assert re.fullmatch(r"v?\d+\.\d+\.\d+", tag), service["image"]


@each_service
def test_containers_can_do_little(name: str) -> None:
    service = services()[name]
    assert service["read_only"] is True
    assert service["cap_drop"] == ["ALL"]
    assert "cap_add" not in service
    assert service["security_opt"] == ["no-new-privileges:true"]
    assert 0 < service["pids_limit"] <= 4096
    assert (
        keys_within(service) & {"privileged", "network_mode", "pid", "ipc", "devices_cgroup_rules"} == set()
    )
    user, _, _ = service["user"].partition(":")
    assert int(user) > 0


def test_our_containers_run_as_the_user_of_the_image() -> None:
    dockerfile = (ROOT / "deploy" / "Dockerfile").read_text(encoding="utf-8")
    (user,) = re.findall(r"^USER (.+)$", dockerfile, re.MULTILINE)
    assert {each["user"] for each in services().values() if compose_stack.is_ours(each)} == {user}


@each_service
def test_ports_are_published_on_the_loopback_alone(name: str) -> None:
    assert {port.address for port in ports(services()[name])} <= {"127.0.0.1"}


@each_server
def test_servers_are_started_again_and_looked_after(name: str) -> None:
    service = services()[name]
    assert service["restart"] == "unless-stopped"
    health = service["healthcheck"]
    assert health["test"][0] == "CMD"
    assert "127.0.0.1" in health["test"][-1]
    assert {"interval", "timeout", "retries", "start_period"} <= set(health)


@each_service
def test_what_is_mounted_exists_and_cannot_be_changed(name: str) -> None:
    volumes = compose_stack.stack()["volumes"]
    for mount in mounts(services()[name]):
        if mount.is_volume:
            assert mount.source in volumes
        else:
            assert mount.path.exists(), mount
            assert mount.read_only, mount


def test_every_volume_is_used() -> None:
    used = {mount.source for each in services().values() for mount in mounts(each) if mount.is_volume}
    assert used == set(compose_stack.stack()["volumes"])


# Secrets.


def test_no_secret_stands_in_the_environment() -> None:
    for name, service in services().items():
        for key, value in service.get("environment", {}).items():
            if re.search(r"PASSWORD|TOKEN|SECRET", key):
                assert key.endswith("_FILE"), f"{name}: {key}"
                assert value.startswith("/secrets/"), f"{name}: {key}"


def test_each_secret_goes_where_it_is_needed() -> None:
    readers: dict[str, set[str]] = {}
    writers: dict[str, set[str]] = {}
    for name, service in services().items():
        for mount in mounts(service):
            if mount.target.startswith("/secrets/"):
                assert mount.target == f"/secrets/{mount.source}"
                (readers if mount.read_only else writers).setdefault(mount.source, set()).add(name)
    agents = {*compose_stack.trays(), "gpu-agent"}
    assert readers == {
        "grafana-admin": {"grafana"},
        "influxdb-admin": {"influxdb", "influxdb-tokens"},
        "influxdb-read": {"grafana"},
        "influxdb-write": {*agents, "rack"},
        "rack-api": {"rack"},
    }
    assert writers == {
        "grafana-admin": {"secrets"},
        "influxdb-admin": {"secrets"},
        "influxdb-read": {"influxdb-tokens"},
        "influxdb-write": {"influxdb-tokens"},
        "rack-api": {"secrets"},
    }


def test_the_image_has_a_folder_for_each_secret() -> None:
    # A volume takes owner and mode of the folder that it is first mounted on (Docker's docs, "Volumes").
    dockerfile = (ROOT / "deploy" / "Dockerfile").read_text(encoding="utf-8")
    folders = set(re.findall(r"/secrets/([\w-]+)", dockerfile))
    written = {
        mount.source
        for each in services().values()
        for mount in mounts(each)
        if mount.target[:9] == "/secrets/"
    }
    assert folders == written


def secret_paths() -> set[str]:
    words = [word for name in ("secrets", "influxdb-tokens") for word in services()[name]["command"]]
    return {path for word in words for path in re.findall(r"/secrets/\S+", word)}


def test_every_secret_that_is_read_is_made() -> None:
    sources = [COMPOSE_FILE, *(path for path in (ROOT / "deploy" / "compose").rglob("*.y*ml"))]
    read = {
        path
        for source in sources
        for path in re.findall(r"/secrets/[\w-]+/[\w-]+", source.read_text(encoding="utf-8"))
    }
    assert read == secret_paths()


# The parts fit together.


def agent_settings() -> AgentConfiguration:
    agents = [*compose_stack.trays().values(), services()["gpu-agent"]]
    (path,) = {file_of(each, "/etc/rackwatt/agent.yaml") for each in agents}
    return parse_agent(path.read_bytes(), path.name, profiles.names())


def rack_settings() -> RackConfiguration:
    path = file_of(services()["rack"], "/etc/rackwatt/rack.yaml")
    return parse_rack_service(path.read_bytes(), path.name)


def test_the_rack_is_that_of_the_simulated_agents() -> None:
    (rack,) = rack_settings().racks.values()
    assert [(entry.node, str(entry.address)) for entry in rack.agents] == [
        (name, f"{name}:{agent_settings().listen.port}") for name in compose_stack.trays()
    ]
    assert rack.min_block == 5
    for number, (name, service) in enumerate(compose_stack.trays().items()):
        words = service["command"]
        assert words[:5] == ["agent", "--simulate", rack.platform, "--tray", str(number)]
        assert name == f"n{number + 1:02d}"


def test_everybody_means_the_same_influxdb() -> None:
    influxdb = services()["influxdb"]["environment"]
    organization = influxdb["DOCKER_INFLUXDB_INIT_ORG"]
    bucket = influxdb["DOCKER_INFLUXDB_INIT_BUCKET"]
    for settings in (agent_settings().influxdb, rack_settings().influxdb):
        assert settings is not None
        assert (settings.url, settings.org, settings.bucket) == ("http://influxdb:8086", organization, bucket)
        assert settings.token_file == "/secrets/influxdb-write/token"  # noqa: S105 - a path
        # It lies in 96 MiB of memory, with what else is kept.
        assert settings.spool.max_bytes == 64 * 2**20
    words = services()["influxdb-tokens"]["command"]
    assert {f"--org={organization}", f"--bucket={bucket}", "--url=http://influxdb:8086"} <= set(words)


def test_a_gpu_node_gives_its_agent_nvml_and_nothing_else() -> None:
    service: Document = services()["gpu-agent"]
    assert service["profiles"] == ["gpu"]
    assert "--simulate" not in service["command"]
    # `utility` is NVML (NVIDIA container toolkit, "Docker Specialized": driver capabilities).
    assert service["deploy"]["resources"]["reservations"]["devices"] == [
        {"driver": "nvidia", "count": "all", "capabilities": ["gpu", "utility"]}
    ]
    dockerfile = (ROOT / "deploy" / "Dockerfile").read_text(encoding="utf-8")
    assert "NVIDIA_DRIVER_CAPABILITIES=utility" in dockerfile
    assert [name for name, each in services().items() if "profiles" in each] == ["gpu-agent"]

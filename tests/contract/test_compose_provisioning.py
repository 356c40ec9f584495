"""What Grafana and InfluxDB 2 are given, field by field against their documentation.

Neither is in Debian 12 or on PyPI, so no server reads these files here. The names below are copied from the
pages that stand beside them; a field that no page has is refused.
"""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import pytest

from tests import compose_stack
from tests.compose_stack import Document, file_of, mounts, read_yaml, services

GRAFANA = services()["grafana"]
PROVISIONING = file_of(GRAFANA, "/etc/grafana/provisioning")

# grafana.com/docs/grafana/latest/administration/provisioning, "Example data source configuration file".
DATASOURCE_FILE = {"apiVersion": int, "prune": bool, "deleteDatasources": list, "datasources": list}
DATASOURCE = {
    "name": str,
    "type": str,
    "access": str,
    "orgId": int,
    "uid": str,
    "url": str,
    "user": str,
    "database": str,
    "basicAuth": bool,
    "basicAuthUser": str,
    "withCredentials": bool,
    "isDefault": bool,
    "jsonData": dict,
    "secureJsonData": dict,
    "version": int,
    "editable": bool,
}
# The same page, "JSON Data"; and for InfluxDB grafana.com/docs/grafana/latest/datasources/influxdb/configure,
# "Provision the InfluxDB data source", the example for Flux.
JSON_DATA: dict[str, dict[str, tuple[str, ...] | None]] = {
    "prometheus": {
        "httpMethod": ("GET", "POST"),
        "prometheusType": ("Prometheus", "Cortex", "Mimir", "Thanos"),
        "timeInterval": None,
    },
    "influxdb": {
        "version": ("Flux", "InfluxQL", "SQL"),
        "organization": None,
        "defaultBucket": None,
        "timeInterval": None,
    },
}
SECURE_JSON_DATA: dict[str, set[str]] = {"prometheus": set(), "influxdb": {"token"}}
# The same page, "Dashboards".
DASHBOARD_FILE = {"apiVersion": int, "providers": list}
PROVIDER = {
    "name": str,
    "orgId": int,
    "folder": str,
    "folderUid": str,
    "type": str,
    "disableDeletion": bool,
    "updateIntervalSeconds": int,
    "allowUiUpdates": bool,
    "options": dict,
}
PROVIDER_OPTIONS = {"path": str, "foldersFromFilesStructure": bool}

# grafana.com/docs/grafana/latest/setup-grafana/configure-grafana: options by section. An option is
# GF_<SECTION>_<OPTION>; with __FILE behind it, it is read from a file (…/setup-grafana/configure-docker).
GRAFANA_OPTIONS = {
    ("analytics", "check_for_plugin_updates"),
    ("analytics", "check_for_updates"),
    ("analytics", "reporting_enabled"),
    ("auth.anonymous", "enabled"),
    ("auth.anonymous", "org_role"),
    ("dashboards", "default_home_dashboard_path"),
    ("news", "news_feed_enabled"),
    ("plugins", "preinstall_disabled"),
    ("security", "admin_password"),
    ("users", "allow_sign_up"),
}

# docs.influxdata.com/influxdb/v2/install/use-docker-compose; the entry point of the image reads these
# (influxdata/influxdata-docker, influxdb/2.9/entrypoint.sh).
INFLUXDB_SETUP = {
    "DOCKER_INFLUXDB_INIT_MODE",
    "DOCKER_INFLUXDB_INIT_USERNAME",
    "DOCKER_INFLUXDB_INIT_USERNAME_FILE",
    "DOCKER_INFLUXDB_INIT_PASSWORD",
    "DOCKER_INFLUXDB_INIT_PASSWORD_FILE",
    "DOCKER_INFLUXDB_INIT_ADMIN_TOKEN",
    "DOCKER_INFLUXDB_INIT_ADMIN_TOKEN_FILE",
    "DOCKER_INFLUXDB_INIT_ORG",
    "DOCKER_INFLUXDB_INIT_BUCKET",
    "DOCKER_INFLUXDB_INIT_RETENTION",
}
# docs.influxdata.com/influxdb/v2/reference/config-options, "reporting-disabled".
INFLUXDB_OPTIONS = {"INFLUXD_REPORTING_DISABLED"}


def assert_fields(document: Document, fields: dict[str, type]) -> None:
    assert {
        name: type(value) for name, value in document.items() if type(value) is not fields.get(name)
    } == {}


def only_file(folder: str) -> Document:
    (path,) = (PROVISIONING / folder).iterdir()
    assert path.suffix == ".yaml"
    return read_yaml(path)


def datasources() -> dict[str, Any]:
    return {each["type"]: each for each in only_file("datasources")["datasources"]}


def test_the_folders_are_those_that_grafana_looks_into() -> None:
    # The same page: provisioning/datasources, dashboards, plugins, alerting, access-control.
    assert {path.name for path in PROVISIONING.iterdir()} == {"datasources", "dashboards"}


def test_the_file_of_data_sources() -> None:
    document = only_file("datasources")
    assert_fields(document, DATASOURCE_FILE)
    assert (document["apiVersion"], document["prune"]) == (1, True)


@pytest.mark.parametrize("kind", JSON_DATA)
def test_a_data_source(kind: str) -> None:
    source = datasources()[kind]
    assert_fields(source, DATASOURCE)
    assert {"name", "type", "access"} <= set(source)  # required
    assert source["access"] == "proxy"
    assert source["editable"] is False
    # Letters, digits, dashes and underscores, 40 at most (…/developer-resources/api-reference, "Identifier").
    assert re.fullmatch(r"[A-Za-z0-9_-]{1,40}", source["uid"])
    for name, value in source["jsonData"].items():
        choice = JSON_DATA[kind][name]
        assert isinstance(value, str) if choice is None else value in choice
    assert set(source.get("secureJsonData", {})) == SECURE_JSON_DATA[kind]


def test_data_sources_lead_to_the_servers_of_this_stack() -> None:
    for kind, source in datasources().items():
        name, port = re.fullmatch(r"http://([\w-]+):(\d+)", source["url"]).groups()  # type: ignore[union-attr] # fails
        assert name == kind
        assert {each.target for each in compose_stack.ports(services()[name])} == {int(port)}


def test_the_default_is_the_one_that_the_dashboards_ask_for() -> None:
    assert [kind for kind, source in datasources().items() if source.get("isDefault")] == ["prometheus"]
    for path in dashboards():
        variables = json.loads(path.read_text(encoding="utf-8"))["templating"]["list"]
        assert [each["query"] for each in variables if each["type"] == "datasource"] == ["prometheus"], (
            path.name
        )


def test_grafana_asks_no_finer_than_prometheus_scrapes() -> None:
    path = file_of(services()["prometheus"], "/etc/prometheus/prometheus.yml")
    assert (
        datasources()["prometheus"]["jsonData"]["timeInterval"]
        == read_yaml(path)["global"]["scrape_interval"]
    )


def test_influxdb_is_read_with_the_token_that_reads() -> None:
    environment = services()["influxdb"]["environment"]
    source = datasources()["influxdb"]
    assert source["jsonData"]["organization"] == environment["DOCKER_INFLUXDB_INIT_ORG"]
    assert source["jsonData"]["defaultBucket"] == environment["DOCKER_INFLUXDB_INIT_BUCKET"]
    # Grafana expands $__file in provisioned values, too (grafana/grafana,
    # pkg/services/provisioning/values/values.go, interpolateValue).
    assert source["secureJsonData"]["token"] == "$__file{/secrets/influxdb-read/token}"  # noqa: S105 - a path


def test_the_file_of_dashboards() -> None:
    document = only_file("dashboards")
    assert_fields(document, DASHBOARD_FILE)
    assert document["apiVersion"] == 1
    (provider,) = document["providers"]
    assert_fields(provider, PROVIDER)
    assert_fields(provider["options"], PROVIDER_OPTIONS)
    assert (provider["type"], provider["allowUiUpdates"]) == ("file", False)
    # "folder and folderUid options should be empty or missing to make foldersFromFilesStructure work".
    assert provider["options"]["foldersFromFilesStructure"] is True
    assert not {"folder", "folderUid"} & set(provider)


def provided() -> tuple[str, Path]:
    """Return the folder in Grafana, and where its dashboards lie here."""
    (provider,) = only_file("dashboards")["providers"]
    root = provider["options"]["path"]
    (mount,) = (mount for mount in mounts(GRAFANA) if mount.target.startswith(f"{root}/"))
    return mount.target.removeprefix(f"{root}/"), mount.path


def dashboards() -> list[Path]:
    return sorted(provided()[1].iterdir())


def test_the_generated_dashboards_are_provided_in_one_folder() -> None:
    folder, path = provided()
    assert folder == "rackwatt"
    assert path == compose_stack.ROOT / "dashboards" / "generated" / "dashboards"
    assert dashboards()
    assert {each.suffix for each in dashboards()} == {".json"}


def test_grafana_begins_with_the_fleet() -> None:
    (mount,) = (mount for mount in mounts(GRAFANA) if mount.target.endswith("/rackwatt"))
    home = GRAFANA["environment"]["GF_DASHBOARDS_DEFAULT_HOME_DASHBOARD_PATH"]
    assert (mount.path / Path(home).relative_to(mount.target)).is_file()


def test_options_of_grafana() -> None:
    known = {
        f"GF_{section.upper().replace('.', '_')}_{option.upper()}": (section, option)
        for section, option in GRAFANA_OPTIONS
    }
    environment = {name.removesuffix("__FILE"): value for name, value in GRAFANA["environment"].items()}
    assert set(environment) == set(known)
    assert all(isinstance(value, str) for value in environment.values())
    assert environment["GF_AUTH_ANONYMOUS_ENABLED"] == "true"
    assert environment["GF_AUTH_ANONYMOUS_ORG_ROLE"] == "Viewer"
    # Whoever is anonymous sees everything: from this machine alone.
    assert [port.address for port in compose_stack.ports(GRAFANA)] == ["127.0.0.1"]


def test_setup_of_influxdb() -> None:
    environment = services()["influxdb"]["environment"]
    assert set(environment) <= INFLUXDB_SETUP | INFLUXDB_OPTIONS
    assert environment["DOCKER_INFLUXDB_INIT_MODE"] == "setup"
    # Required for it, by value or by file (the entry point's REQUIRED_INIT_VARS).
    for name in ("USERNAME", "PASSWORD", "ORG", "BUCKET"):
        wanted = f"DOCKER_INFLUXDB_INIT_{name}"
        assert len({wanted, f"{wanted}_FILE"} & set(environment)) == 1
    assert re.fullmatch(r"\d+d", environment["DOCKER_INFLUXDB_INIT_RETENTION"])


def test_influxdb_writes_where_it_can() -> None:
    # VOLUME and owner in the image's Dockerfile (influxdata/influxdata-docker, influxdb/2.9); the entry point
    # writes /tmp/config.json, and the client its configuration to /etc/influxdb2.
    influxdb = services()["influxdb"]
    assert [mount.target for mount in mounts(influxdb) if not mount.read_only] == ["/var/lib/influxdb2"]
    memory = {text.partition(":")[0]: text.partition(":")[2] for text in influxdb["tmpfs"]}
    assert set(memory) == {"/tmp", "/etc/influxdb2"}  # noqa: S108 - of the container
    uid, gid = influxdb["user"].split(":")
    assert {f"uid={uid}", f"gid={gid}"} <= set(memory["/etc/influxdb2"].split(","))

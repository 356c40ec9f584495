"""Configuration: what a file, the environment and nothing at all come to."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from collector import profiles
from collector.catalog.engines import Role
from collector.catalog.spec import Level
from collector.config import (
    AgentConfiguration,
    Listen,
    Loaded,
    LogSettings,
    PrometheusSettings,
    Sampling,
    StateDirectory,
    choose_state_directory,
    listen_address,
    load_agent,
    parse_agent,
    show_duration,
)
from collector.config.document import parse_document
from collector.config.load import can_write_directory
from collector.config.schema import ServingSetting, XidSetting
from collector.config.sections import Section, agent_section
from collector.config.values import duration_seconds
from collector.errors import ConfigurationError

PLATFORMS = ("gb300-nvl72", "hgx-h100")
NOWHERE = "/nonexistent/agent.yaml"


def test_every_key_is_read() -> None:
    text = b"""\
# An agent of rack 07.
rack: 07
node: "n03"
platform: hgx-h100
listen: "[::]:9100"
state_dir: /srv/rackwatt
sampling: {fast: 500ms, links: 2s, slow: 1m, serving: 2s}
level: full
checks:
  gpu_temperature_margin: {threshold: 7}
  nvlink_effective_ber: {threshold: 1e-11}
xids:
  94: {severity: fatal, repeat: 2}
  31: {repeat: 0}
prometheus:
  enabled: false
serving:
  - {name: decode-0, url: "http://127.0.0.1:8000/metrics", engine: vllm, role: engine, gpus: [0, 1]}
  - url: https://[::1]:8443/metrics
    engine: auto
    ca_file: /etc/rackwatt/ca.pem
    token_file: /etc/rackwatt/engine.token
log:
  format: json
  level: debug
"""
    assert parse_agent(text, "f.yaml", PLATFORMS) == AgentConfiguration(
        rack="07",
        node="n03",
        platform="hgx-h100",
        listen=Listen("::", 9100),
        state_dir="/srv/rackwatt",
        sampling=Sampling(fast_seconds=0.5, links_seconds=2.0, slow_seconds=60.0, serving_seconds=2.0),
        level=Level.FULL,
        checks={"gpu_temperature_margin": 7, "nvlink_effective_ber": 1e-11},
        xids={94: XidSetting(severity="fatal", repeat=2), 31: XidSetting(repeat=0)},
        prometheus=PrometheusSettings(enabled=False),
        serving=(
            ServingSetting(
                name="decode-0",
                url="http://127.0.0.1:8000/metrics",
                engine="vllm",
                role=Role.ENGINE,
                gpus=(0, 1),
            ),
            ServingSetting(
                name="[::1]:8443",
                url="https://[::1]:8443/metrics",
                ca_file="/etc/rackwatt/ca.pem",
                token_file="/etc/rackwatt/engine.token",  # noqa: S106 -- a path
            ),
        ),
        log=LogSettings(format="json", level="debug"),
    )


def test_defaults_are_those_of_the_contract() -> None:
    # CONTRACTS §6: what an agent does without any configuration.
    default = AgentConfiguration()
    assert (default.rack, default.node, default.platform) == (None, None, "auto")
    assert str(default.listen) == "0.0.0.0:10072"
    assert default.sampling == Sampling(fast_seconds=1.0, links_seconds=10.0, slow_seconds=60.0)
    assert default.level is Level.STANDARD
    assert default.prometheus.enabled


@pytest.mark.parametrize("text", [b"", b"# nothing\n", b"---\n", b"~\n", b"\xef\xbb\xbf", b"{}\n"])
def test_a_file_that_says_nothing_means_defaults(text: bytes) -> None:
    assert parse_agent(text, "f.yaml", PLATFORMS) == AgentConfiguration()


def test_words_that_yaml_would_change_stay_as_they_are_written() -> None:
    # YAML 1.1 reads 0x10 as 16, 1_000 as 1000, and no as false.
    assert parse_agent(b"rack: 0x10\nnode: no\n", "f.yaml", PLATFORMS) == AgentConfiguration(
        rack="0x10", node="no"
    )


def test_a_slower_cadence_that_is_not_written_follows_the_faster_one() -> None:
    configuration = parse_agent(b"sampling: {fast: 30s, links: 5m}\n", "f.yaml", PLATFORMS)
    assert configuration.sampling == Sampling(fast_seconds=30.0, links_seconds=300.0, slow_seconds=300.0)


@pytest.mark.parametrize(
    ("text", "host", "port"),
    [
        ("192.0.2.7:10072", "192.0.2.7", 10072),
        ("localhost:0", "localhost", 0),
        ("node-3.rack_1.example:65535", "node-3.rack_1.example", 65535),
        ("[::1]:80", "::1", 80),
        ("[fe80::1%eth0]:80", "fe80::1%eth0", 80),
    ],
)
def test_an_address_is_read_and_written_alike(text: str, host: str, port: int) -> None:
    assert listen_address(text) == Listen(host, port)
    assert str(Listen(host, port)) == text


@pytest.mark.parametrize(
    "text",
    ["", ":", "host:", "host:-1", "host:+1", "host:\u0661", "host: 1", "[]:1", "[::1]x:1", "[fe80::1%\n]:1"],
)
def test_what_is_no_address_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match=r"is not a|brackets"):
        listen_address(text)


@pytest.mark.parametrize(
    ("text", "seconds"), [("200ms", 0.2), ("1s", 1.0), ("90s", 90.0), ("2m", 120.0), ("1h", 3600.0)]
)
def test_a_duration_is_read_in_its_unit(text: str, seconds: float) -> None:
    assert duration_seconds(text, 0.0, 3600.0) == seconds


@pytest.mark.parametrize(
    "text", ["", "1", "s", "-1s", "1.5s", "1 s", "1S", "1w", "1s1s", "\u0663s", "9999999999s"]
)
def test_what_is_no_duration_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match="is not a duration"):
        duration_seconds(text, 0.0, 3600.0)


@pytest.mark.parametrize(
    ("seconds", "text"),
    [
        (0.2, "200ms"),
        (1.0, "1s"),
        (1.5, "1500ms"),
        (90.0, "90s"),
        (120.0, "2m"),
        (7200.0, "2h"),
        (604800.0, "7d"),
    ],
)
def test_a_duration_is_written_with_the_largest_unit_that_fits(seconds: float, text: str) -> None:
    assert show_duration(seconds) == text


def test_without_a_file_there_are_defaults() -> None:
    assert load_agent(None, {}, PLATFORMS, NOWHERE) == Loaded(AgentConfiguration(), "defaults")


def test_the_default_file_is_read_if_it_exists(tmp_path: Path) -> None:
    file = tmp_path / "agent.yaml"
    file.write_text("rack: r01\n")
    expected = Loaded(AgentConfiguration(rack="r01"), str(file))
    assert load_agent(None, {}, PLATFORMS, str(file)) == expected


def test_the_environment_names_a_file_and_an_argument_goes_before_it(tmp_path: Path) -> None:
    named, argument = tmp_path / "named.yaml", tmp_path / "argument.yaml"
    named.write_text("rack: named\n")
    argument.write_text("rack: argument\n")
    environ = {"RACKWATT_CONFIG": str(named)}
    assert load_agent(None, environ, PLATFORMS, NOWHERE).configuration.rack == "named"
    assert load_agent(str(argument), environ, PLATFORMS, NOWHERE).configuration.rack == "argument"


def test_a_file_that_the_environment_names_must_exist() -> None:
    with pytest.raises(ConfigurationError, match=r"^/nonexistent/x\.yaml: there is no such file$"):
        load_agent(None, {"RACKWATT_CONFIG": "/nonexistent/x.yaml"}, PLATFORMS, NOWHERE)


def test_a_default_file_that_is_a_dangling_link_is_not_passed_over(tmp_path: Path) -> None:
    link = tmp_path / "agent.yaml"
    link.symlink_to(tmp_path / "gone.yaml")
    with pytest.raises(ConfigurationError, match="there is no such file"):
        load_agent(None, {}, PLATFORMS, str(link))


@pytest.mark.parametrize(
    ("environ", "rack", "node"),
    [
        ({"RACKWATT_RACK": "r02", "RACKWATT_NODE": "n02"}, "r02", "n02"),
        ({"NODE_NAME": "k8s-7.example"}, None, "k8s-7.example"),
        ({"RACKWATT_NODE": "n02", "NODE_NAME": "k8s-7"}, None, "n02"),
        ({"RACKWATT_RACK": "", "NODE_NAME": ""}, None, None),
    ],
)
def test_the_environment_names_rack_and_node(
    environ: dict[str, str], rack: str | None, node: str | None
) -> None:
    configuration = load_agent(None, environ, PLATFORMS, NOWHERE).configuration
    assert (configuration.rack, configuration.node) == (rack, node)


def test_the_file_goes_before_the_environment(tmp_path: Path) -> None:
    file = tmp_path / "agent.yaml"
    file.write_text("rack: r01\n")
    configuration = load_agent(
        str(file), {"RACKWATT_RACK": "r 2", "RACKWATT_NODE": "n02"}, PLATFORMS
    ).configuration
    assert (configuration.rack, configuration.node) == ("r01", "n02")


def test_a_bad_name_in_the_environment_is_named_with_its_variable() -> None:
    with pytest.raises(ConfigurationError) as caught:
        load_agent(None, {"NODE_NAME": "n 1"}, PLATFORMS, NOWHERE)
    assert str(caught.value) == (
        "environment variable NODE_NAME: 'n 1' is not a name: 1 to 64 letters, digits, '.', '_' or '-'"
    )


HOME = {"HOME": "/srv/operator"}


@pytest.mark.parametrize(
    ("configured", "environ", "writable", "expected"),
    [
        ("/srv/x", HOME, False, StateDirectory("/srv/x", "as configured")),
        (None, HOME, True, StateDirectory("/var/lib/rackwatt", "the default")),
        (
            None,
            HOME,
            False,
            StateDirectory("/srv/operator/.local/state/rackwatt", "/var/lib/rackwatt cannot be written"),
        ),
        (
            None,
            {"XDG_STATE_HOME": "/srv/operator/state/", **HOME},
            False,
            StateDirectory("/srv/operator/state/rackwatt", "/var/lib/rackwatt cannot be written"),
        ),
        (
            None,
            {"XDG_STATE_HOME": "state", **HOME},
            False,
            StateDirectory("/srv/operator/.local/state/rackwatt", "/var/lib/rackwatt cannot be written"),
        ),
    ],
)
def test_where_state_is_kept(
    configured: str | None, environ: dict[str, str], writable: bool, expected: StateDirectory
) -> None:
    configuration = AgentConfiguration(state_dir=configured)
    assert choose_state_directory(configuration, environ, lambda _: writable) == expected


def test_without_any_place_for_state_the_way_out_is_named() -> None:
    with pytest.raises(ConfigurationError) as caught:
        choose_state_directory(AgentConfiguration(), {}, lambda _: False)
    assert str(caught.value) == (
        "state_dir: /var/lib/rackwatt cannot be written and HOME is not set;"
        " give state_dir in the configuration"
    )


def test_a_directory_can_be_written_if_it_or_its_parent_can(tmp_path: Path) -> None:
    file = tmp_path / "file"
    file.write_text("")
    assert can_write_directory(str(tmp_path))
    assert can_write_directory(str(tmp_path / "new"))
    assert not can_write_directory(str(tmp_path / "new" / "newer"))
    assert not can_write_directory(str(file))


DOCUMENTATION = Path(__file__).parents[2] / "docs/configuration.md"


def keys_of(section: Section, path: str = "") -> list[str]:
    """List the keys of a table as they are written in the documentation."""
    found: list[str] = []
    for name, entry in section.keys.items():
        found += keys_of(entry, f"{path}{name}.") if isinstance(entry, Section) else [f"{path}{name}"]
    return found


def test_the_documentation_has_every_key_and_no_other() -> None:
    text = DOCUMENTATION.read_text()
    documented = re.findall(r"^\| `([a-z_.]+)` \|", text, re.MULTILINE)
    assert documented == keys_of(agent_section(profiles.names()))


def test_the_example_of_the_documentation_is_right_and_has_every_key() -> None:
    (example,) = re.findall(r"```yaml\n(.+?)```", DOCUMENTATION.read_text(), re.DOTALL)
    parse_agent(example.encode(), "example", profiles.names())
    written = [key.text for key, _ in parse_document(example.encode(), "example").entries]
    assert written == list(agent_section(profiles.names()).keys)

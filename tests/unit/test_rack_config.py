"""The configuration of a rack service: what is understood, and what each mistake says."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from collector import profiles
from collector.cli.rack_compose import service_settings
from collector.config import Listen, RackConfiguration, RackEntry, load_rack_service, parse_rack_service
from collector.config.rack_schema import AgentAuthentication, AgentEntry, PriceSetting, RedfishSetting
from collector.config.rack_sections import rack_service_section
from collector.efficiency.price import Price
from collector.errors import ConfigurationError
from collector.health.rack_types import ExpectedRack
from collector.sources.peers import PeerAddress

AGENT_TOKEN, API_TOKEN = "/etc/rackwatt/agent.token", "/etc/rackwatt/api.token"
WHOLE = """
listen: 127.0.0.1:10073
state_dir: /var/lib/rackwatt
poll: 2s
witness: tcp:22
agent_auth: {bearer_token_file: /etc/rackwatt/agent.token}
api_token_file: /etc/rackwatt/api.token
log: {format: json}
price: {gpu_hour_usd: 3.30, kwh_usd: 0.08, pue: 1.2}
redfish_poll: 10s
racks:
  r01:
    platform: gb300-nvl72
    agents:
      - n01:10072
      - tray-2=10.0.0.2:10072
      - node: n03
        address: "[fd00::3]:10072"
        bmc: {url: "https://bmc-3", user: monitor, password_file: /bmc.password, system: System_0}
      - {address: "n04:9"}
    min_block: 3
    slo: 0.995
    cliques: {a: [n01, tray-2], b: [n03, n04]}
    price: {kwh_usd: 0.1, gpu_hour_includes_energy: false}
    redfish:
      - {url: "https://shelf-1", user: monitor, password_file: /p, ca_file: /etc/rackwatt/ca.pem}
      - {url: "http://127.0.0.1:8080"}
  h01:
    platform: hgx-h100
    agents: ["hgx-1.example.com:10072"]
"""


BMC = RedfishSetting(
    url="https://bmc-3",
    user="monitor",
    password_file="/bmc.password",  # noqa: S106 -- a path
    system="System_0",
)


def parse(text: str) -> RackConfiguration:
    return parse_rack_service(text.encode(), "f.yaml")


def without_secrets(text: str) -> str:
    """The same file without what names a file with a secret."""
    text = text.replace("agent_auth: {bearer_token_file: /etc/rackwatt/agent.token}\n", "")
    return re.sub(r"user: monitor, password_file: /[a-z.]+(, )?", "", text)


def rack(*lines: str) -> str:
    """A file with one rack of two nodes, and further lines in it."""
    return "\n".join(
        ["racks:", "  r01:", "    platform: gb300-nvl72", '    agents: ["n01:1", "n02:1"]', *lines]
    )


def mistakes(text: str) -> list[str]:
    with pytest.raises(ConfigurationError) as caught:
        parse(text)
    return str(caught.value).splitlines()


def test_everything_that_can_be_written() -> None:
    assert parse(WHOLE) == RackConfiguration(
        listen=Listen("127.0.0.1", 10073),
        state_dir="/var/lib/rackwatt",
        poll_seconds=2.0,
        witness_port=22,
        agent_auth=AgentAuthentication(bearer_token_file=AGENT_TOKEN),
        api_token_file=API_TOKEN,
        price=PriceSetting(gpu_hour_usd=3.3, kwh_usd=0.08, pue=1.2),
        redfish_poll_seconds=10.0,
        log=parse(WHOLE).log,
        racks={
            "r01": RackEntry(
                platform="gb300-nvl72",
                agents=(
                    AgentEntry("n01", Listen("n01", 10072)),
                    AgentEntry("tray-2", Listen("10.0.0.2", 10072)),
                    AgentEntry("n03", Listen("fd00::3", 10072), BMC),
                    AgentEntry("n04", Listen("n04", 9)),
                ),
                min_block=3,
                slo=0.995,
                cliques={"a": ("n01", "tray-2"), "b": ("n03", "n04")},
                price=PriceSetting(kwh_usd=0.1, gpu_hour_includes_energy=False),
                redfish=(
                    RedfishSetting(
                        url="https://shelf-1",
                        user="monitor",
                        password_file="/p",  # noqa: S106 -- a path
                        ca_file="/etc/rackwatt/ca.pem",
                    ),
                    RedfishSetting(url="http://127.0.0.1:8080"),
                ),
            ),
            "h01": RackEntry(
                platform="hgx-h100",
                agents=(AgentEntry("hgx-1.example.com", Listen("hgx-1.example.com", 10072)),),
            ),
        },
    )
    assert parse(WHOLE).log.format == "json"


def test_defaults() -> None:
    own = parse(rack())
    assert (str(own.listen), own.state_dir, own.poll_seconds) == ("0.0.0.0:10073", None, 5.0)
    assert (own.witness_port, own.api_token_file, own.agent_auth.bearer_token_file) == (None, None, None)
    assert (own.racks["r01"].min_block, own.racks["r01"].slo, own.racks["r01"].cliques) == (None, 0.99, {})


def test_the_witness_can_be_none() -> None:
    assert parse(f"witness: none\n{rack()}").witness_port is None


MISTAKES = {
    "nothing": ("", "f.yaml:1:1: racks: there is none; declare one such as 'racks: {r01: {platform: ...}}'"),
    "no racks": ("racks: {}", "f.yaml:1:8: racks: there is none; declare one such as"),
    "racks as a list": ("racks: [r01]", "f.yaml:1:8: racks: expected racks by name, found a list"),
    "a name that is none": ("racks: {'r 01': {}}", "f.yaml:1:9: racks: 'r 01' is not a name: 1 to 64"),
    "a rack that is text": (
        "racks: {r01: x}",
        "f.yaml:1:14: racks.r01: expected keys (platform, agents, min_block, slo, cliques, price, redfish),",
    ),
    "an empty rack": ("racks: {r01: {}}", "f.yaml:1:14: racks.r01.platform: is missing or empty; write one"),
    "no agents": (
        "racks: {r01: {platform: hgx-h100}}",
        'f.yaml:1:14: racks.r01.agents: is missing or empty; write one such as agents: ["n01:10072"]',
    ),
    "an unknown platform": (
        'racks: {r01: {platform: gb300, agents: ["n:1"]}}',
        "f.yaml:1:25: racks.r01.platform: 'gb300' is unknown; did you mean",
    ),
    "an unknown key": (
        rack("    minblock: 2"),
        "f.yaml:5:5: racks.r01.minblock: unknown key; did you mean 'min_block'?",
    ),
    "agents as text": (
        "racks: {r01: {agents: n01}}",
        'f.yaml:1:23: racks.r01.agents: expected a list such as ["n01:10072", "n02:10072"], found \'n01\'',
    ),
    "an agent without a port": (
        'racks: {r01: {agents: ["n01"]}}',
        "f.yaml:1:24: racks.r01.agents: 'n01' is not an address; write host:port",
    ),
    "an agent without a name": (
        'racks: {r01: {agents: ["10.0.0.1:1"]}}',
        "f.yaml:1:24: racks.r01.agents: 10.0.0.1:1 does not name the node; write NODE=10.0.0.1:1",
    ),
    "an agent at port 0": (
        'racks: {r01: {agents: ["n01:0"]}}',
        "f.yaml:1:24: racks.r01.agents: 'n01:0': an agent does not",
    ),
    "an agent that is nothing": (
        "racks: {r01: {agents: [~]}}",
        "f.yaml:1:24: racks.r01.agents: expected an address",
    ),
    "a bmc that is text": (
        "racks: {r01: {agents: [{address: 'n01:1', bmc: x}]}}",
        "f.yaml:1:48: racks.r01.agents.bmc: expected keys (url, user, password_file, ca_file, system),",
    ),
    "a bmc without an address": (
        "racks: {r01: {agents: [{address: 'n01:1', bmc: {}}]}}",
        "f.yaml:1:48: racks.r01.agents.bmc.url: is missing; write one such as https://shelf-1",
    ),
    "a user without a password": (
        "racks: {r01: {agents: [{address: 'n01:1', bmc: {url: 'https://b', user: u}}]}}",
        "f.yaml:1:73: racks.r01.agents.bmc.user: stands without password_file; both are needed to log in",
    ),
    "a password without a user": (
        rack("    redfish: [{url: 'https://b', password_file: /p}]"),
        "f.yaml:5:49: racks.r01.redfish.password_file: stands without user; both are needed to log in",
    ),
    "a user that is none": (
        rack("    redfish: [{url: 'https://b', user: 'a:b', password_file: /p}]"),
        "f.yaml:5:40: racks.r01.redfish.user: not a user's name: 1 to 128 characters",
    ),
    "an agent without an address": (
        "racks: {r01: {agents: [{node: n01}]}}",
        "f.yaml:1:24: racks.r01.agents.address: is missing; write where the agent listens, such as n01:10072",
    ),
    "a node twice": (
        'racks: {r01: {platform: hgx-h100, agents: ["n01:1", "n01:2"]}}',
        "f.yaml:1:43: racks.r01.agents: node n01 stands 2 times; once is right",
    ),
    "an address twice": (
        'racks: {a: {platform: hgx-h100, agents: ["n01=h:1"]}, b: {platform: hgx-h100, agents: ["n02=h:1"]}}',
        "f.yaml:1:8: racks: h:1 stands for 2 nodes; every node has an agent of its own",
    ),
    "more nodes than trays": (
        "racks: {r01: {platform: gb300-nvl72, agents: [" + ", ".join(f'"n{n}:1"' for n in range(19)) + "]}}",
        "f.yaml:1:46: racks.r01.agents: 19 nodes, but a rack of gb300-nvl72 has 18 compute trays",
    ),
    "a block of nothing": (
        rack("    min_block: 0"),
        "f.yaml:5:16: racks.r01.min_block: 0 is not between 1 and 2",
    ),
    "a block too large": (
        rack("    min_block: 3"),
        "f.yaml:5:16: racks.r01.min_block: 3 is not between 1 and 2",
    ),
    "a block that is none": (
        rack("    min_block: two"),
        "f.yaml:5:16: racks.r01.min_block: 'two' is not a whole number",
    ),
    "a huge block": (
        rack("    min_block: 99999999999"),
        "f.yaml:5:16: racks.r01.min_block: '99999999999' is not a whole",
    ),
    "an slo in percent": (
        rack("    slo: 99"),
        "f.yaml:5:10: racks.r01.slo: '99' is not a share of time between 0 and 1",
    ),
    "an slo of 1": (rack("    slo: 1"), "f.yaml:5:10: racks.r01.slo: '1' is not a share"),
    "an slo that is none": (rack("    slo: nan"), "f.yaml:5:10: racks.r01.slo: 'nan' is not a share"),
    "cliques as a list": (
        rack("    cliques: [n01]"),
        "f.yaml:5:14: racks.r01.cliques: expected cliques by name",
    ),
    "a clique that is text": (
        rack("    cliques: {a: n01}"),
        "f.yaml:5:18: racks.r01.cliques.'a': expected a list of nodes",
    ),
    "a clique of a stranger": (
        rack("    cliques: {a: [n01, n02, n9]}"),
        "f.yaml:5:14: racks.r01.cliques: n9 is no node of the rack; ",
    ),
    "a node in two cliques": (
        rack("    cliques: {a: [n01, n02], b: [n01]}"),
        "f.yaml:5:14: racks.r01.cliques: n01 stands in several cliques; a node is in one",
    ),
    "a node in no clique": (
        rack("    cliques: {a: [n01]}"),
        "f.yaml:5:14: racks.r01.cliques: n02 is in none",
    ),
    "redfish that is none": (
        rack("    redfish: https://shelf-1"),
        'f.yaml:5:14: racks.r01.redfish: expected a list such as [{url: "https://shelf-1"}], found',
    ),
    "a shelf with a path": (
        rack("    redfish: [{url: 'https://b/redfish/v1'}]"),
        "f.yaml:5:21: racks.r01.redfish.url: 'https://b/redfish/v1': Redfish begins at",
    ),
    "a shelf twice": (
        rack("    redfish: [{url: 'https://b'}, {url: 'https://b/'}]"),
        "f.yaml:2:3: racks: the power shelf 'https://b' stands 2 times; once is right",
    ),
    "a shelf twice, in other letters": (
        rack("    redfish: [{url: 'https://b'}, {url: 'https://B:443/'}]"),
        "f.yaml:2:3: racks: the power shelf 'https://b' stands 2 times; once is right",
    ),
    "a slow shelf": (
        "redfish_poll: 2m",
        "f.yaml:1:15: redfish_poll: 2m is out of bounds; 5s to 1m is allowed",
    ),
    "a fast poll": ("poll: 500ms", "f.yaml:1:7: poll: 500ms is out of bounds; 1s to 1m is allowed"),
    "a witness that is none": ("witness: ping", "f.yaml:1:10: witness: 'ping' is no witness; write tcp:PORT"),
    "a witness at port 0": (
        "witness: tcp:0",
        "f.yaml:1:10: witness: 'tcp:0': a host does not answer at port 0",
    ),
    "a witness far up": ("witness: tcp:70000", "f.yaml:1:10: witness: "),
    "prometheus_url": (
        "prometheus_url: http://p",
        "f.yaml:1:1: prometheus_url: is not supported by this version",
    ),
    "a pue in percent": (
        "price: {pue: 120}",
        "f.yaml:1:14: price.pue: 120 is out of bounds; 1 to 5 (a ratio) is allowed",
    ),
    "a price in words": (
        "price: {kwh_usd: cheap}",
        "f.yaml:1:18: price.kwh_usd: 'cheap' is not a number such as 10",
    ),
    "a negative price": (
        "price: {gpu_hour_usd: -1}",
        "f.yaml:1:23: price.gpu_hour_usd: '-1' is not a number such as 100",
    ),
    "a price of a rack that is none": (
        rack("    price: {pue: 0.5}"),
        "f.yaml:5:18: racks.r01.price.pue: 0.5 is out of bounds; 1 to 5 (a ratio) is allowed",
    ),
    "web_config": ("web_config: /x", "f.yaml:1:1: web_config: is not supported by this version of rackwatt"),
    "a file of an agent": (
        "sampling: {fast: 1s}",
        "f.yaml:1:1: sampling: belongs to an agent, `rackwatt agent`; remove it",
    ),
    "a relative token file": (
        "agent_auth: {bearer_token_file: token}",
        "f.yaml:1:33: agent_auth.bearer_token_file: 'token' is not an absolute path",
    ),
}


@pytest.mark.parametrize("name", MISTAKES)
def test_each_mistake_says_where_it_is_and_what_would_be_right(name: str) -> None:
    text, expected = MISTAKES[name]
    assert mistakes(text)[0].startswith(expected), mistakes(text)


def test_all_mistakes_are_told_at_once() -> None:
    told = mistakes("poll: 1ms\nwitness: x\nracks: {a: {platform: b, agents: [x, y]}, 'c d': {}}\n")
    assert [line.split(": ")[1] for line in told] == [
        "poll",
        "witness",
        "racks.a.platform",
        "racks.a.agents",
        "racks.a.agents",
        "racks",
    ]


def test_the_configuration_that_the_documentation_shows_can_be_used() -> None:
    text = (Path(__file__).parents[2] / "docs/rack-service.md").read_text(encoding="utf-8")
    (block,) = re.findall(r"```yaml\n(# /etc/rackwatt/rack\.yaml\n.*?)```", text, re.DOTALL)
    assert list(parse(block).racks) == ["r01"]
    section = rack_service_section(profiles.names(), lambda _: None)
    assert {key for key in section.keys if f"`{key}" not in text} == set()


def test_a_missing_file_is_told() -> None:
    with pytest.raises(ConfigurationError, match="there is no such file"):
        load_rack_service("/nonexistent/rack.yaml")


def test_platforms_add_what_they_know() -> None:
    settings = service_settings(parse(without_secrets(WHOLE)))
    assert settings.racks == (
        ExpectedRack(
            rack="r01",
            platform="gb300-nvl72",
            nodes=("n01", "tray-2", "n03", "n04"),
            cliques={"a": ("n01", "tray-2"), "b": ("n03", "n04")},
            min_block=3,
            slo=0.995,
            gpus_per_node=4,
            modules_per_node=2,
            rack_wide_fabric=True,
        ),
        ExpectedRack(
            rack="h01",
            platform="hgx-h100",
            nodes=("hgx-1.example.com",),
            gpus_per_node=8,
            modules_per_node=0,
            rack_wide_fabric=False,
        ),
    )
    assert settings.agents[1] == PeerAddress("r01", "tray-2", "10.0.0.2", 10072)
    assert (settings.poll_seconds, settings.witness_port, settings.token) == (2.0, 22, None)


def test_prices_of_a_rack_go_before_those_of_all() -> None:
    prices = service_settings(parse(without_secrets(WHOLE))).prices
    assert prices["r01"] == Price(gpu_hour_usd=3.3, kwh_usd=0.1, pue=1.2, gpu_hour_includes_energy=False)
    assert prices["h01"] == Price(gpu_hour_usd=3.3, kwh_usd=0.08, pue=1.2, gpu_hour_includes_energy=True)


def test_shelves_and_bmcs_are_asked_as_somebody(tmp_path: Path) -> None:
    path = tmp_path / "password"
    path.write_text("shelves-only\n")
    path.chmod(0o600)
    text = re.sub(r"agent_auth: .*\n", "", WHOLE).replace("/bmc.password", str(path))
    settings = service_settings(parse(text.replace("password_file: /p", f"password_file: {path}")))
    first, second = settings.shelves["r01"]
    assert (first.name, first.user, first.ca_file) == ("shelf-1", "monitor", "/etc/rackwatt/ca.pem")
    assert first.password is not None
    assert first.password() == "shelves-only"
    assert (second.name, second.user, second.password) == ("127.0.0.1:8080", "", None)
    assert settings.shelves["h01"] == ()
    assert settings.redfish_seconds == 10.0
    (bmc,) = settings.bmcs
    assert (bmc.rack, bmc.node, bmc.system, bmc.redfish.url) == ("r01", "n03", "System_0", "https://bmc-3")
    assert "shelves-only" not in repr(settings)


def test_the_token_for_agents_comes_from_its_file(tmp_path: Path) -> None:
    path = tmp_path / "agent.token"
    path.write_text("agents-only\n")
    path.chmod(0o600)
    text = re.sub(r"user: monitor, password_file: /[a-z.]+(, )?", "", WHOLE)
    settings = service_settings(parse(text.replace("/etc/rackwatt/agent.token", str(path))))
    assert settings.token is not None
    assert settings.token() == "agents-only"

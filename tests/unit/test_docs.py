"""The documents say what the code says: keys, commands, metrics, faults, files and links."""

from __future__ import annotations

import re
import tomllib
from collections.abc import Iterator
from pathlib import Path

import pytest
from fastapi.routing import APIRoute

from collector import catalog, profiles
from collector.catalog.rack import RACK, RACK_CHECKS
from collector.catalog.spec import PREFIX
from collector.cli.program import COMMANDS, Command, make_parser
from collector.config import AgentConfiguration, Listen, parse_agent
from collector.config.load import DEFAULT_STATE_DIR
from collector.config.rack_load import parse_rack_service
from collector.config.rack_sections import rack_service_section
from collector.config.sections import NOT_YET, Section, agent_section
from collector.errors import ConfigurationError
from collector.simulator import WORKLOADS, FaultKind
from exporters.rest.app import ROUTERS

ROOT = Path(__file__).resolve().parents[2]
DOCUMENTS = (ROOT / "README.md", ROOT / "CHANGELOG.md", *sorted((ROOT / "docs").rglob("*.md")))
DECISIONS = sorted((ROOT / "docs" / "decisions").iterdir())

every_document = pytest.mark.parametrize(
    "document", DOCUMENTS, ids=lambda path: path.relative_to(ROOT).as_posix()
)

_FENCE = re.compile(r"^```(\w*)\n(.*?)^```$", re.MULTILINE | re.DOTALL)
_LINK = re.compile(r"\]\(([^)\s]+)\)")
_HEADING = re.compile(r"^#+ (.+)$", re.MULTILINE)
_METRIC = re.compile(rf"\b{PREFIX}[a-z0-9_]+")
_REPOSITORY_PATH = re.compile(r"`((?:collector|dashboards|deploy|docs|exporters|tests)/[\w./*-]*)`")


def text(name: str) -> str:
    return (ROOT / name).read_text(encoding="utf-8")


def prose(document: Path) -> str:
    """Return a document without its blocks of code."""
    return _FENCE.sub("", document.read_text(encoding="utf-8"))


def anchors(document: Path) -> set[str]:
    """Return what links into a document may name, as forges make it from headings."""
    headings = _HEADING.findall(prose(document))
    return {re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-") for heading in headings}


def rows(name: str) -> dict[str, list[str]]:
    """Return the table rows of a document whose first cell is one word of code, by that word."""
    lines = re.findall(r"^\| `([^`|]+)` \|(.*)\|$", text(name), re.MULTILINE)
    return {first: [cell.strip() for cell in rest.split("|")] for first, rest in lines}


def keys(section: Section, path: str = "") -> Iterator[str]:
    for name, entry in section.keys.items():
        yield from keys(entry, f"{path}{name}.") if isinstance(entry, Section) else (path + name,)


def read_setting(key: str, value: str) -> AgentConfiguration:
    """Read a configuration that holds one key."""
    section, _, name = key.rpartition(".")
    line = f"{section}: {{{name}: {value}}}" if section else f"{name}: {value}"
    return parse_agent(line.encode(), "table", profiles.names())


def test_the_documents_are_found() -> None:
    assert len(DOCUMENTS) > 10


# Configuration.


def test_every_key_has_a_row_and_no_row_is_left_over() -> None:
    assert list(rows("docs/configuration.md")) == list(keys(agent_section(profiles.names())))


def test_defaults_are_those_of_the_code() -> None:
    written = {
        key: cells[1].strip("`")
        for key, cells in rows("docs/configuration.md").items()
        if not key.startswith("influxdb.")
    }
    assert (written.pop("rack"), written.pop("node")) == ("found out", "found out")
    assert written.pop("state_dir") == DEFAULT_STATE_DIR
    assert {key: read_setting(key, value) for key, value in written.items()} == dict.fromkeys(
        written, AgentConfiguration()
    )


def test_defaults_of_influxdb_are_those_of_the_code() -> None:
    required = "url: 'http://h', bucket: b"
    usual = parse_agent(f"influxdb: {{{required}}}".encode(), "table", ()).influxdb
    written = {
        key.removeprefix("influxdb."): cells[1].strip("`")
        for key, cells in rows("docs/configuration.md").items()
        if key.startswith("influxdb.") and cells[1].startswith("`") and cells[1].endswith("`")
    }
    # The place of the spool depends on the folder of state.
    assert written.pop("spool.path") == "spool` in `state_dir"
    assert set(written) == {"level", "families", "periods", "events", "spool.max_bytes", "spool.max_age"}
    for key, value in written.items():
        section, _, name = key.rpartition(".")
        line = f"{section}: {{{name}: {value}}}" if section else f"{key}: {value}"
        read = parse_agent(f"influxdb: {{{required}, {line}}}".encode(), "table", ()).influxdb
        assert read == usual, key


@pytest.mark.parametrize("key", ["sampling.fast", "sampling.links", "sampling.slow"])
def test_bounds_are_those_of_the_code(key: str) -> None:
    lowest, highest = re.findall(r"`(\d+)(ms|s|m|h)`", rows("docs/configuration.md")[key][2])[:2]
    shortest = "".join(lowest)
    parse_agent(f"sampling: {{fast: {shortest}, links: {shortest}, slow: {shortest}}}".encode(), "table", ())
    read_setting(key, "".join(highest))
    for (number, unit), step in ((lowest, -1), (highest, 1)):
        with pytest.raises(ConfigurationError, match="out of bounds"):
            read_setting(key, f"{int(number) + step}{unit}")


def test_keys_that_are_refused_are_named() -> None:
    refused = agent_section(profiles.names()).refused
    assert {key for key in refused if f"`{key}`" not in text("docs/configuration.md")} == set()


def test_platforms_are_named_where_one_chooses() -> None:
    for name in ("docs/configuration.md", "docs/simulator.md"):
        assert [each for each in profiles.names() if f"`{each}`" not in text(name)] == []


@every_document
def test_a_configuration_that_is_shown_can_be_used(document: Path) -> None:
    blocks = [body for kind, body in _FENCE.findall(document.read_text(encoding="utf-8")) if kind == "yaml"]
    for block in blocks:
        if block.startswith("# /etc/rackwatt/agent.yaml"):
            settings = parse_agent(block.encode(), document.name, profiles.names())
            assert (settings.rack, settings.node) == ("r01", "n03")
            assert settings.listen == Listen("0.0.0.0", 10072)  # noqa: S104 - compared, not bound
        if block.startswith("# /etc/rackwatt/rack.yaml"):
            racks = parse_rack_service(block.encode(), document.name).racks
            assert [entry.platform for entry in racks.values()] == ["gb300-nvl72"]


# Configuration of the rack service.

ONE_RACK = b'racks: {r01: {platform: gb300-nvl72, agents: ["n01:10072"]}}'


def keys_of_a_rack() -> list[str]:
    with pytest.raises(ConfigurationError, match="expected keys") as caught:
        parse_rack_service(b"racks: {r01: 5}", "table")
    return re.findall(r"\w+", str(caught.value).partition("expected keys (")[2].partition(")")[0])


def test_every_key_of_the_rack_service_has_a_row_and_no_row_is_left_over() -> None:
    known = set(keys(rack_service_section(profiles.names(), lambda _: None)))
    known.remove("racks")
    # Those of `influxdb` are the agent's, and stand with them.
    known = {key for key in known if not key.startswith("influxdb.")} | {"influxdb"}
    assert set(rows("docs/rack-service.md")) == known | {f"racks.NAME.{key}" for key in keys_of_a_rack()}


@pytest.mark.parametrize("key", ["listen", "poll", "witness", "log.format", "log.level"])
def test_defaults_of_the_rack_service_are_those_of_the_code(key: str) -> None:
    value = rows("docs/rack-service.md")[key][0].strip("`")
    section, _, name = key.rpartition(".")
    line = f"{section}: {{{name}: {value}}}" if section else f"{name}: {value}"
    written = parse_rack_service(line.encode() + b"\n" + ONE_RACK, "table")
    assert written == parse_rack_service(ONE_RACK, "table")


def test_keys_that_the_rack_service_refuses_are_named() -> None:
    refused = rack_service_section(profiles.names(), lambda _: None).refused
    later = {key for key, why in refused.items() if why == NOT_YET}
    assert later
    assert {key for key in later if f"`{key}`" not in text("docs/rack-service.md")} == set()


# Commands.


every_command = pytest.mark.parametrize("command", COMMANDS, ids=lambda command: command.name)


@every_command
def test_every_command_has_a_row(command: Command) -> None:
    assert f"rackwatt {command.name}" in rows("docs/operations.md")


@every_command
def test_every_option_is_described(command: Command, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit):
        make_parser().parse_args([command.name, "--help"])
    usage, _, _ = capsys.readouterr().out.partition("\n\n")
    options = set(re.findall(r"--[a-z][a-z-]*", usage))
    described = set(re.findall(r"--[a-z][a-z-]*", text("docs/operations.md")))
    assert options - described == set()


def test_every_target_of_make_that_is_named_exists() -> None:
    targets = set(re.findall(r"^([a-z]+):", text("Makefile"), re.MULTILINE))
    named = {name for document in DOCUMENTS for name in re.findall(r"`make ([a-z]+)`", prose(document))}
    assert named
    assert named - targets == set()


# Metrics.


@every_document
def test_every_metric_that_is_named_exists(document: Path) -> None:
    exposed = {metric.exposed_name for metric in (*catalog.ALL, *RACK)}
    assert set(_METRIC.findall(document.read_text(encoding="utf-8"))) - exposed == set()


# Checks and REST.


def test_every_rule_over_a_rack_is_described() -> None:
    assert [check for check in RACK_CHECKS if f"`{check}`" not in text("docs/checks.md")] == []


def test_every_path_of_rest_is_described() -> None:
    paths = {route.path for router in ROUTERS for route in router.routes if isinstance(route, APIRoute)}
    assert "/v1/racks/{rack}/health" in paths
    written = text("docs/rest.md").replace("…", "/v1/racks/{rack}")
    assert {path for path in paths if f"`{path}`" not in written} == set()


# The agreement that comments refer to.


SOURCES = [
    path
    for folder in ("collector", "dashboards", "exporters", "tests")
    for path in sorted((ROOT / folder).rglob("*.py"))
]


def test_every_section_that_a_comment_refers_to_exists() -> None:
    agreement = text("docs/agreement.md")
    parts = dict(re.findall(r"^## (.+?)\n(.*?)(?=^## |\Z)", agreement, re.MULTILINE | re.DOTALL))
    referred = {
        found
        for path in SOURCES
        for found in re.findall(r"(CONTRACTS|DESIGN|facts/rack\.md) §(\d)", path.read_text(encoding="utf-8"))
    }
    assert len(referred) > 10
    assert {(part, number) for part, number in referred if f"§{number}" not in parts[part]} == set()


def test_layers_are_those_that_are_kept() -> None:
    contracts = tomllib.loads(text("pyproject.toml"))["tool"]["importlinter"]["contracts"]
    kept = []
    for layer in contracts[0]["layers"]:
        rooms = re.split(r" ([|:]) ", re.sub(r"[()]", "", layer))
        there = [
            (sign, room)
            for sign, room in zip(["", *rooms[1::2]], rooms[::2], strict=True)
            if list(ROOT.glob(f"{room.replace('.', '/')}*"))
        ]
        kept.append(" ".join(f"{sign} {room}" for sign, room in there).removeprefix(" "))
    assert "\n".join(kept) in text("docs/architecture.md")


# The simulator.


def test_every_workload_and_fault_has_a_row() -> None:
    described = set(rows("docs/simulator.md"))
    assert described == {*profiles.names(), *WORKLOADS, *FaultKind}


# Files, links, decisions.


@every_document
def test_every_relative_link_leads_somewhere(document: Path) -> None:
    dead = []
    for target in _LINK.findall(prose(document)):
        if target.startswith(("http://", "https://")):
            continue
        name, _, anchor = target.partition("#")
        path = (document.parent / name).resolve() if name else document
        if not path.exists() or (anchor and anchor not in anchors(path)):
            dead.append(target)
    assert dead == []


@every_document
def test_every_file_that_is_named_exists(document: Path) -> None:
    named = _REPOSITORY_PATH.findall(document.read_text(encoding="utf-8"))
    assert [name for name in named if not list(ROOT.glob(name.rstrip("/")))] == []


def test_every_test_that_is_named_stands_in_the_file_before_it() -> None:
    named = re.findall(r"\]\(\.\./(tests/[\w/]+\.py)\)|`(test_\w+)`", text("docs/nvml.md"))
    assert len(named) > 20
    file = ""
    for path, test in named:
        file = path or file
        assert not test or f"def {test}(" in text(file), f"{test} in {file}"


def test_decisions_are_numbered_and_listed() -> None:
    numbers = [path.name[:4] for path in DECISIONS]
    assert numbers == [f"{number:04d}" for number in range(1, len(DECISIONS) + 1)]
    listed = re.findall(r"\]\(decisions/([^)]+)\)", text("docs/architecture.md"))
    assert listed == [path.name for path in DECISIONS]


@pytest.mark.parametrize("decision", DECISIONS, ids=lambda path: path.stem)
def test_a_decision_has_context_choice_and_consequence(decision: Path) -> None:
    content = decision.read_text(encoding="utf-8")
    assert content.startswith(f"# {decision.name[:4]}: ")
    assert re.findall(r"^## (.+)$", content, re.MULTILINE) == ["Context", "Choice", "Consequence"]

"""Configuration from any bytes: a setting or a ConfigurationError, and nothing else, within a bound."""

from __future__ import annotations

import msgspec
import yaml
from hypothesis import example, given
from hypothesis import strategies as st

from collector.catalog.spec import Level
from collector.config import (
    AgentConfiguration,
    Listen,
    LogSettings,
    PrometheusSettings,
    Sampling,
    listen_address,
    parse_agent,
    show_duration,
)
from collector.config.values import duration_seconds
from collector.errors import ConfigurationError

PLATFORMS = ("gb300-nvl72", "hgx-h100")

names = st.text("abcXYZ019._-", min_size=1, max_size=64)
hosts = st.one_of(
    st.ip_addresses().map(str), st.from_regex(r"[a-z]([a-z0-9.-]{0,20}[a-z0-9])?", fullmatch=True)
)
listens = st.builds(Listen, hosts, st.integers(0, 65535))


@st.composite
def samplings(draw: st.DrawFn) -> Sampling:
    """Periods of whole milliseconds within their bounds, in order."""
    fast = draw(st.integers(200, 60_000))
    links = draw(st.integers(fast, 600_000))
    slow = draw(st.integers(links, 3_600_000))
    return Sampling(fast_seconds=fast / 1000, links_seconds=links / 1000, slow_seconds=slow / 1000)


configurations = st.builds(
    AgentConfiguration,
    rack=st.none() | names,
    node=st.none() | names,
    platform=st.sampled_from(["auto", *PLATFORMS]),
    listen=listens,
    state_dir=st.none() | st.text(st.characters(categories=["L", "N"])).map(lambda text: f"/{text}"),
    sampling=samplings(),
    level=st.sampled_from(Level),
    prometheus=st.builds(PrometheusSettings, enabled=st.booleans()),
    log=st.builds(
        LogSettings,
        format=st.sampled_from(["human", "json"]),
        level=st.sampled_from(["debug", "info", "warning", "error"]),
    ),
)


def write(configuration: AgentConfiguration) -> dict[str, object]:
    """Put settings into the words of the file."""
    sampling = configuration.sampling
    written: dict[str, object] = {
        "rack": configuration.rack,
        "node": configuration.node,
        "platform": configuration.platform,
        "listen": str(configuration.listen),
        "state_dir": configuration.state_dir,
        "sampling": {
            "fast": show_duration(sampling.fast_seconds),
            "links": show_duration(sampling.links_seconds),
            "slow": show_duration(sampling.slow_seconds),
        },
        "level": configuration.level.name.lower(),
        "prometheus": {"enabled": configuration.prometheus.enabled},
        "log": msgspec.to_builtins(configuration.log),
    }
    return {key: value for key, value in written.items() if value is not None}


@given(configurations, st.sampled_from([False, True, None]))
def test_any_valid_configuration_is_read_as_it_was_written(
    configuration: AgentConfiguration, flow: bool | None
) -> None:
    text = yaml.safe_dump(write(configuration), default_flow_style=flow, allow_unicode=True)
    assert parse_agent(text.encode(), "f.yaml", PLATFORMS) == configuration


def parse_or_refuse(data: bytes) -> None:
    """Parse; what is wrong must come as lines that each begin with the name of the file."""
    try:
        parse_agent(data, "f.yaml", PLATFORMS)
    except ConfigurationError as error:
        lines = str(error).split("\n")
    else:
        return
    assert all(line.startswith("f.yaml:") and line.isprintable() for line in lines)


@given(st.binary(max_size=200))
def test_any_bytes_are_a_configuration_or_a_configuration_error(data: bytes) -> None:
    parse_or_refuse(data)


# Pieces that YAML gives a meaning, and names of keys, so that the parser gets far.
PIECES = [
    *"[]{},:?-|>&*!%@`\"'#\\~ \n\t",
    *("\r", "\x85", "\u2028", "\ufeff", "\ud7ff", "é", "  ", "\n  ", "---", "...", "<<", "!!", "%YAML 1.1\n"),
    *("&a", "*a", "\\U", "\\x", "FFFFFFFF", "0", "1e9", "null", "true", "a: ", "- ", "? "),
    *("rack", "listen", "sampling", "fast", "prometheus", "enabled", "level", "1s", "[::]:1", ": "),
]


@given(st.lists(st.sampled_from(PIECES), max_size=40).map("".join))
@example('rack: "\\UD800"')
@example('"\\ud800": 1')
@example("%YAML 1." + "9" * 5000 + "\n---\nrack: r01")
@example("rack: !<%ff> r01")
@example("[" * 5000)
@example("{a: " * 5000)
@example("? " * 5000)
@example("".join(" " * depth + "a:\n" for depth in range(200)))
@example("rack: |9\n         x")
def test_any_yaml_is_a_configuration_or_a_configuration_error(text: str) -> None:
    parse_or_refuse(text.encode())


@given(st.text(max_size=40))
def test_any_text_is_an_address_or_a_value_error(text: str) -> None:
    try:
        address = listen_address(text)
    except ValueError as error:
        message = str(error)
    else:
        message = ""
        assert listen_address(str(address)) == address
        assert 0 <= address.port <= 65535
    assert message.isprintable()


@given(st.integers(1, 3_600_000))
def test_any_duration_of_whole_milliseconds_is_read_as_it_was_written(milliseconds: int) -> None:
    seconds = milliseconds / 1000
    assert duration_seconds(show_duration(seconds), 0.0, 3600.0) == seconds

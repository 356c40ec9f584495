"""Whatever stands in a rack service's file: settings, or mistakes with their places."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from collector.config import RackConfiguration, parse_rack_service
from collector.errors import ConfigurationError

WORDS = st.sampled_from(
    [
        *(
            "racks:",
            "r01:",
            "platform: gb300-nvl72",
            'agents: ["n01:1"]',
            "agents:",
            "- n01:1",
            "min_block: 1",
        ),
        *("cliques:", "a: [n01]", "slo: 0.9", "poll: 5s", "witness: tcp:22", "witness: x", "{}", "[]", "~"),
        *("- {node: n02, address: n02:1}", "agent_auth: {bearer_token_file: /x}", "listen: :", "redfish: x"),
    ]
)
LINES = st.tuples(st.integers(0, 3), WORDS).map(lambda own: "  " * own[0] + own[1])


def understand_or_refuse(data: bytes) -> None:
    try:
        settings = parse_rack_service(data, "f.yaml")
    except ConfigurationError as error:
        refused = str(error).splitlines()
        assert refused
        assert all(line.startswith("f.yaml:") for line in refused)
    else:
        assert isinstance(settings, RackConfiguration)
        assert all(rack.agents for rack in settings.racks.values())


@given(st.lists(LINES, max_size=10))
def test_lines_in_any_order_are_understood_or_refused(lines: list[str]) -> None:
    understand_or_refuse("\n".join(lines).encode())


@given(st.binary(max_size=100))
def test_any_bytes_are_understood_or_refused(data: bytes) -> None:
    understand_or_refuse(data)

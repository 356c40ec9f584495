"""Tokens per watt: what every joule buys, and what the figures are held against."""

from __future__ import annotations

import itertools
import re

import pytest

from collector.efficiency.answer import FIGURE_DOMAINS
from collector.profiles import references
from collector.profiles.references import TokenKind
from dashboards import queries
from dashboards.boards import platforms, tokens_references
from dashboards.boards.tokens import BOARD
from dashboards.boards.tokens_endpoints import NOT_READ, SILENT_AGENT, UP
from dashboards.boards.tokens_queries import DOMAIN_WORDS, KIND_WORDS, TokenQueries
from dashboards.recorded import RECORDED_BY_NAME
from tests import board_contents as contents

PANELS = contents.panels(BOARD)
SCOPE = queries.Scope(("cluster", "rack"))
OWN = TokenQueries(SCOPE)
ENDPOINTS = PANELS["Serving endpoints"]
PUBLISHED = PANELS["Total tokens/s for each provisioned MW, measured and published"]


def test_it_begins_with_figures_over_all_racks() -> None:
    assert list(PANELS)[:12] == [
        "Generated tokens/s",
        "Total tokens/s, with prompts",
        "Power, rack input",
        "Generated tokens/J, rack input",
        "J for each generated token, rack input",
        "Idle energy of 1 h, rack input",
        "Energy $/M generated, rack input",
        "All-in $/M generated, rack input",
        "Coverage of rack input",
        "Serving endpoints, up and expected",
        "Racks with a figure",
        "Time to first token, slowest model",
    ]


def test_its_sections() -> None:
    assert contents.sections(BOARD) == [
        ("Tokens, watts, and their ratio", False),
        ("Coverage of power and token sources", False),
        ("Rack against rack", False),
        ("Against published figures, the usual, and the price", False),
        ("By power domain", False),
        ("What users see", False),
        ("Requests and caches", False),
        ("Endpoints", False),
        ("Latencies, all of them", True),
    ]


def test_numerator_denominator_and_ratio_share_one_axis() -> None:
    three = [panel for title, panel in PANELS.items() if re.match("Numerator|Denominator|Ratio", title)]
    assert [contents.metrics(panel) for panel in three] == [
        {"rack:llm_generation_tokens:rate5m"},
        {"rack_domain:energy_joules:rate5m"},
        {"rack_domain:llm_generation_tokens_per_joule:ratio_rate5m"},
    ]
    places = [panel["gridPos"] for panel in three]
    assert [(place["x"], place["w"]) for place in places] == [(0, 24)] * 3
    assert all(low["y"] + low["h"] == high["y"] for low, high in itertools.pairwise(places))


def test_several_racks_are_a_ratio_of_sums_over_the_racks_that_are_known() -> None:
    tokens = 'max by (cluster, rack) (rack:llm_generation_tokens:rate5m{cluster=~"$cluster",rack=~"$rack"})'
    watts = (
        "max by (cluster, rack) (rack_domain:energy_joules:rate5m"
        '{cluster=~"$cluster",rack=~"$rack",domain="rack_input"})'
    )
    known = (
        "max by (cluster, rack) (rack_domain:llm_generation_tokens_per_joule:ratio_rate5m"
        '{cluster=~"$cluster",rack=~"$rack",domain="rack_input"})'
    )
    assert OWN.ratio_of_sums(TokenKind.GENERATION) == (
        f"sum({tokens} and {known}) / (sum({watts} and {known}) > 0)"
    )
    assert OWN.ratio_of_sums(TokenKind.GENERATION, inverse=True) == (
        f"sum({watts} and {known}) / (sum({tokens} and {known}) > 0)"
    )


def test_power_that_is_not_covered_is_blank() -> None:
    # 95 % is enough: docs/efficiency.md, "When a figure is blank"
    assert OWN.watts().endswith('domain="rack_input"}) >= 0.95)')


def test_every_domain_and_kind_of_tokens_has_a_panel_of_its_own() -> None:
    assert set(DOMAIN_WORDS) == set(FIGURE_DOMAINS)
    for kind, domain in itertools.product(TokenKind, FIGURE_DOMAINS):
        panel = PANELS[f"{KIND_WORDS[kind]} tokens/J, {DOMAIN_WORDS[domain]}"]
        (target,) = panel["targets"]
        assert f'domain="{domain}"' in target["expr"]
        assert contents.metrics(panel) == {f"rack_domain:llm_{kind.value}_tokens_per_joule:ratio_rate5m"}


def test_domains_are_never_added() -> None:
    for panel in PANELS.values():
        for target in panel["targets"]:
            for selected in re.findall(r"rack_domain:[\w:]+\{[^}]*\}", target["expr"]):
                assert 'domain="' in selected or "{{domain}}" in target["legendFormat"], panel["title"]


def test_a_model_gets_the_energy_of_racks_that_serve_it_alone() -> None:
    expression = PANELS["Models by generated tokens/J of 1 h, rack input"]["targets"][0]["expr"]
    assert "count by (cluster, rack) (" in expression
    assert ") == 1" in expression


def test_only_published_figures_of_the_same_basis_are_drawn() -> None:
    drawn = tokens_references.comparable()
    assert {each.platform for each in drawn} == {
        "gb300-nvl72",
        "gb200-nvl72",
        "hgx-b200",
        "hgx-h200",
        "hgx-h100",
    }
    assert {(each.token_kind.value, each.power_basis.value) for each in drawn} == {("total", "provisioned")}
    legends = [target["legendFormat"] for target in PUBLISHED["targets"]]
    assert legends == ["{{rack}} measured", *(each.title for each in drawn)]


def test_a_published_figure_stands_while_its_platform_serves_its_model() -> None:
    line = next(
        target["expr"]
        for target in PUBLISHED["targets"]
        if target["legendFormat"] == "InferenceX, DeepSeek-R1, 8k/1k, GB300 FP4"
    )
    # 18,131.6 tokens/s a GPU over 2.1 kW: facts on tokens, §2
    assert line == (
        "max(max by (cluster, rack) "
        '(rackwatt_node_info{cluster=~"$cluster",rack=~"$rack",platform=~"gb300-nvl72"} * 8634095.2381) '
        "and on (cluster, rack) "
        'rack_model:llm_total_tokens:rate5m{cluster=~"$cluster",rack=~"$rack",'
        'model=~"(?i:(.*/)?DeepSeek-R1-0528/*)"})'
    )


def test_published_figures_name_their_source_and_conditions() -> None:
    for each in tokens_references.comparable():
        assert each.title in PUBLISHED["description"]
        assert each.source in PUBLISHED["description"]
        assert each.conditions in PUBLISHED["description"]


@pytest.mark.parametrize(
    ("served", "same"),
    [
        ("deepseek-ai/DeepSeek-R1-0528", True),
        ("deepseek-r1-0528", True),
        ("a/b/DeepSeek-R1-0528/", True),
        ("DeepSeek-R1", False),
        ("DeepSeek-R1-0528-FP4", False),
        ("NotDeepSeek-R1-0528", False),
    ],
)
def test_a_model_is_the_same_apart_from_capitals_and_organization(served: str, *, same: bool) -> None:
    assert (re.fullmatch(tokens_references.model_pattern("DeepSeek-R1-0528"), served) is not None) is same


def test_provisioned_power_is_what_is_published() -> None:
    # facts on tokens, §2: kW for each GPU
    assert tokens_references.provisioned_watts() == {
        "gb300-nvl72": 2100,
        "gb200-nvl72": 2100,
        "hgx-b200": 2170,
        "hgx-h200": 1730,
        "hgx-h100": 1730,
    }


def test_a_rack_has_the_figure_of_its_platform() -> None:
    info = 'rackwatt_node_info{cluster=~"$cluster",rack=~"$rack",platform=~'
    assert platforms.of_racks(SCOPE, {"gb300-nvl72": 2100, "hgx-b200": 2170, "gb200-nvl72": 2100}) == (
        f'max by (cluster, rack) ({info}"gb300-nvl72|gb200-nvl72"}} * 2100 or {info}"hgx-b200"}} * 2170)'
    )


def test_no_reference_stands_on_a_panel_of_another_basis() -> None:
    titles = {each.title for each in references.load()}
    for title, panel in PANELS.items():
        if panel is not PUBLISHED:
            assert not titles & {target["legendFormat"] for target in panel["targets"]}, title


def test_interactivity_has_a_mean_and_a_slow_tail() -> None:
    expected = {
        "rack_model:llm_tokens_per_second_per_user:ratio_rate5m",
        "rack_model:llm_slow_tokens_per_second_per_user:p90_rate5m",
    }
    assert contents.metrics(PANELS["Interactivity: tokens/s of one user, mean and slowest"]) == expected
    scatter = PANELS["Tokens/s of one user over generated tokens/s of the model"]
    assert contents.metrics(scatter) == {*expected, "rack_model:llm_generation_tokens:rate5m"}
    assert [series["name"]["fixed"] for series in scatter["options"]["series"]] == ["Mean", "Slowest 10%"]


def test_a_scatter_takes_both_axes_from_one_row() -> None:
    panel = PANELS["Generated tokens/s over power, rack input"]
    (series,) = panel["options"]["series"]
    named = {series[axis]["matcher"]["options"] for axis in "xy"}
    assert named <= set(contents.headings(panel))
    assert [step["id"] for step in panel["transformations"]] == ["merge", "organize"]
    assert {target["format"] for target in panel["targets"]} == {"table"}


def test_engines_and_their_router_are_never_added() -> None:
    expression = PANELS["Prompt tokens found in the prefix cache"]["targets"][0]["expr"]
    engine, router = expression.split(") or (")
    assert 'role="engine"' in engine
    assert 'role="router"' not in engine
    assert 'role="router"' in router
    assert 'role="engine"' not in router


def test_endpoints_have_what_an_operator_needs() -> None:
    assert contents.headings(ENDPOINTS) == [
        "Rack",
        "Node",
        "Endpoint",
        "Engine",
        "Role",
        "Model",
        "State",
        "Running",
        "Waiting",
        "KV cache",
        "Failed scrapes in 1h",
        "Scrape takes",
        "Cluster",
    ]
    assert contents.targets_of(ENDPOINTS) == {"rackwatt-rack", "rackwatt-node"}


def test_an_endpoint_that_is_not_read_is_neither_up_nor_silent() -> None:
    mappings = contents.override(ENDPOINTS, "State")["mappings"]
    assert contents.texts(mappings) == {
        str(UP): "UP",
        str(NOT_READ): "NOT READ",
        str(SILENT_AGENT): "NO DATA",
    }
    colours = contents.colours(mappings)
    assert colours["NO DATA"] == colours["no data"] == "#808080"
    assert len({colours["UP"], colours["NOT READ"], colours["NO DATA"]}) == 3


def test_what_is_recorded_is_not_computed_anew() -> None:
    raw = {name for panel in PANELS.values() for name in contents.metrics(panel) if ":" not in name}
    assert raw == {
        "rackwatt_llm_inter_token_latency_seconds_bucket",
        "rackwatt_llm_kv_cache_usage_ratio",
        "rackwatt_llm_prefix_cache_hit_tokens_total",
        "rackwatt_llm_prefix_cache_query_tokens_total",
        "rackwatt_llm_request_duration_seconds_count",
        "rackwatt_llm_requests_running",
        "rackwatt_llm_requests_waiting",
        "rackwatt_llm_scrape_errors_total",
        "rackwatt_llm_scrape_seconds",
        "rackwatt_llm_time_to_first_token_seconds_bucket",
        "rackwatt_llm_tokens_total",
        "rackwatt_llm_up",
        "rackwatt_node_info",
        "rackwatt_rack_llm_endpoints_expected",
        "rackwatt_rack_llm_endpoints_up",
    }
    recorded = {name for panel in PANELS.values() for name in contents.metrics(panel) if ":" in name}
    assert recorded <= set(RECORDED_BY_NAME)


def test_it_leads_to_fleet_rack_and_node() -> None:
    led = set().union(*(contents.targets_of(panel) for panel in PANELS.values()))
    led |= {
        link["url"].partition("?")[0].removeprefix("/d/")
        for panel in PANELS.values()
        for link in panel.get("links", [])
    }
    assert led == {"rackwatt-fleet", "rackwatt-rack", "rackwatt-node"}

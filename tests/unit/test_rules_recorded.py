"""Recorded series: their names, what they read, and that nothing is copied by hand that the catalogue has."""

from __future__ import annotations

import re
from dataclasses import replace

import promql_parser
import pytest

from collector.catalog import ALL
from collector.catalog.rack import RACK
from collector.catalog.spec import PREFIX, Kind
from collector.errors import ConfigurationError
from collector.health.xids import load_catalogue
from dashboards.recorded import RECORDED, RECORDED_BY_NAME, recording_groups
from dashboards.rules.alerts import ALERTS
from dashboards.rules.parameters import DEFAULTS, Parameters
from dashboards.rules.promql import HISTOGRAM_SUFFIXES, select, series
from dashboards.rules.record_gpus import CLASSES, xid_matchers
from dashboards.rules.recording import Recorded

EXPRESSIONS = {
    **{f"{rule.name} {dict(rule.fixed)}": rule.expression for rule in RECORDED},
    **{alert.name: alert.expression for alert in ALERTS},
}
NAME = re.compile(r"\b[a-z_]+:[a-z_0-9]+:[a-z_0-9]+\b")
EXPOSED = {
    metric.exposed_name + suffix
    for metric in (*ALL, *RACK)
    for suffix in (HISTOGRAM_SUFFIXES if metric.kind is Kind.HISTOGRAM else ("",))
}

each_expression = pytest.mark.parametrize("expression", EXPRESSIONS.values(), ids=EXPRESSIONS)


@each_expression
def test_an_expression_can_be_parsed(expression: str) -> None:
    promql_parser.parse(expression)


@each_expression
def test_an_expression_reads_what_is_exposed_or_recorded(expression: str) -> None:
    assert set(re.findall(rf"\b{PREFIX}\w+", expression)) - EXPOSED == set()
    assert set(NAME.findall(expression)) - set(RECORDED_BY_NAME) == set()
    assert re.search(rf"\b{PREFIX}|:|\bup\b", expression)


@pytest.mark.parametrize("rule", RECORDED, ids=lambda rule: rule.name)
def test_a_name_has_level_metric_and_operation(rule: Recorded) -> None:
    level, metric, operation = rule.name.split(":")
    assert re.fullmatch(r"[a-z][a-z_]*", level)
    assert re.fullmatch(r"[a-z][a-z_]*[a-z]", metric)
    assert not metric.endswith("_total")
    assert re.fullmatch(r"[a-z][a-z0-9_]*", operation)
    assert not operation.startswith("ratio") or "_per_" in metric or metric.startswith("availability")
    assert rule.help.endswith(".")


def test_examples_of_names() -> None:
    names = {
        "rack_verdict:verdict:max": ("rack", "verdict"),
        "rack:availability_point:ratio30d": ("rack",),
        "rack_domain:llm_generation_tokens_per_joule:ratio_rate5m": ("rack", "domain"),
        "rack_node_gpu:nvlink_received_bytes:rate5m": ("rack", "node", "gpu", "gpu_uuid"),
        "verdict:racks:sum": ("verdict",),
        "cluster:racks_short:sum": (),
    }
    assert {name: RECORDED_BY_NAME[name].labels for name in names} == names


def test_a_name_is_recorded_once_or_with_labels_that_differ() -> None:
    keys = [(rule.name, tuple(sorted(rule.fixed.items()))) for rule in RECORDED]
    assert len(keys) == len(set(keys))
    assert {rule.name for rule in RECORDED if rule.fixed} == {
        "rack_node_gpu_class:xids:increase10m",
        "rack_class:xids:increase10m",
    }


def test_within_a_group_a_rule_reads_only_what_stands_above_it() -> None:
    for group in recording_groups():
        own = {rule.name for rule in group.rules}
        above: set[str] = set()
        for rule in group.rules:
            assert set(NAME.findall(rule.expression)) & own <= above, rule.name
            above.add(rule.name)


def test_what_is_summed_is_summed_by_the_labels_of_the_series() -> None:
    for rule in RECORDED:
        outermost = re.match(r"(?:max|min|sum|avg|count) by \(([\w, ]+)\)", rule.expression)
        if outermost and not re.search(r"\n|[-+*/] ", rule.expression):
            labels = tuple(label for label in rule.of if label not in rule.fixed)
            assert outermost[1] == ", ".join(("cluster", *labels)), rule.name


@pytest.mark.parametrize("expression", EXPRESSIONS.values(), ids=EXPRESSIONS)
def test_every_raw_series_loses_what_a_second_scrape_adds(expression: str) -> None:
    if re.search(rf"\b{PREFIX}", expression):
        assert re.search(r"(?:max|min) by \(cluster, ", expression)
    assert "without" not in expression


def test_names_units_and_labels_do_not_depend_on_parameters() -> None:
    other = Parameters(slo=0.999, agent_job="a", rack_job="b", gpu_hour_includes_energy=False)
    rules = [rule for group in recording_groups(other) for rule in group.rules]
    assert [(rule.name, rule.unit, rule.labels) for rule in rules] == [
        (rule.name, rule.unit, rule.labels) for rule in RECORDED
    ]
    # What a rack says of itself goes before the parameters.
    changed = {
        rule.name for rule, own in zip(rules, RECORDED, strict=True) if rule.expression != own.expression
    }
    assert changed == {
        "rack_node:agent_up:max",
        "rack:availability_target:ratio",
        *(f"rack:all_in_usd_per_million_llm_{each}_tokens:ratio_rate5m" for each in ("generation", "total")),
    }


# Xids.


@pytest.mark.parametrize(
    ("number", "found"),
    [
        ("79", ["fatal"]),
        ("63", ["warn"]),
        ("31", ["app"]),
        ("154", ["info"]),
        ("149", ["by_subcode"]),
        ("7", ["warn"]),  # not in the catalogue
        ("9999", ["warn"]),
    ],
)
def test_a_class_matches_its_xids(number: str, found: list[str]) -> None:
    assert classes_of(number) == found


def test_every_xid_is_of_the_class_that_the_catalogue_says() -> None:
    rows = load_catalogue().rows
    assert {number: classes_of(str(number)) for number in rows} == {
        number: [row.severity] for number, row in rows.items()
    }
    assert set(xid_matchers()) == set(CLASSES)


def classes_of(number: str) -> list[str]:
    """Return the classes whose matcher takes a number, as Prometheus anchors it."""
    found = []
    for name, matcher in xid_matchers().items():
        matched = re.fullmatch(matcher.lstrip("!~"), number) is not None
        if matched is not matcher.startswith("!"):
            found.append(name)
    return found


# Selectors and parameters.


def test_a_selector_is_written() -> None:
    assert series("rack_verdict", verdict="UNKNOWN") == 'rackwatt_rack_verdict{verdict="UNKNOWN"}'
    assert series("gpu_up", gpu="~0|1", node="!~n0.*", rack="!=r01") == (
        'rackwatt_gpu_up{gpu=~"0|1",node!~"n0.*",rack!="r01"}'
    )
    assert series("llm_inter_token_latency_seconds", part="_bucket", role="engine") == (
        'rackwatt_llm_inter_token_latency_seconds_bucket{role="engine"}'
    )
    assert select("up", job='a"b\\c') == 'up{job="a\\"b\\\\c"}'


@pytest.mark.parametrize(
    ("name", "part", "matchers", "complaint"),
    [
        ("gpu_upp", "", {}, "no row of the catalogue is called 'gpu_upp'"),
        ("rack_verdict", "", {"node": "n01"}, "rack_verdict has no label node"),
        ("gpu_up", "_bucket", {}, "'_bucket' is no part of a gauge"),
        ("llm_inter_token_latency_seconds", "", {}, "'' is no part of a histogram"),
    ],
)
def test_what_the_catalogue_lacks_is_refused(
    name: str, part: str, matchers: dict[str, str], complaint: str
) -> None:
    with pytest.raises(ConfigurationError, match=re.escape(complaint)):
        series(name, part=part, **matchers)


@pytest.mark.parametrize("slo", [0.0, 0.5, 0.949, 1.0, 1.5, float("nan")])
def test_an_slo_that_no_burn_rate_fits_is_refused(slo: float) -> None:
    with pytest.raises(ConfigurationError, match=r"is not a share of time from 0\.95 to below 1"):
        replace(DEFAULTS, slo=slo)


@pytest.mark.parametrize("text", ["", 'a"b', "a{b", "a\nb", "a#b"])
def test_a_parameter_that_would_break_a_rule_is_refused(text: str) -> None:
    with pytest.raises(ConfigurationError, match="cannot stand in a rule"):
        Parameters(runbook_url=text)

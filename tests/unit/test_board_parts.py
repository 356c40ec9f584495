"""What boards are made of: recorded series, tables of columns, tables of what is wrong."""

from __future__ import annotations

import pytest

from collector.catalog.rack import DOMAIN_STATES, NODE_STATES, RACK_CHECKS, VERDICTS
from dashboards.boards import failed_checks, recordings, row_texts, troubles
from dashboards.boards.recordings import Recordings, code_texts, describe, recorded, unit
from dashboards.boards.rows import Column, columns_table
from dashboards.panels import ByName, Organize, ValueText
from dashboards.queries import Scope
from dashboards.recorded import RECORDED

SCOPE = Scope(("cluster", "rack"))
RECORDED_OF = Recordings(SCOPE)


def test_values_by_rack_leave_the_name_behind() -> None:
    assert RECORDED_OF.by("rack:nodes_expected:max", "rack") == (
        'max by (cluster, rack) (rack:nodes_expected:max{cluster=~"$cluster",rack=~"$rack"})'
    )


def test_a_sum_over_all_has_no_labels() -> None:
    assert RECORDED_OF.total("rack:agents_up:sum") == (
        'sum(rack:agents_up:sum{cluster=~"$cluster",rack=~"$rack"})'
    )
    assert RECORDED_OF.total("rack_state:nodes:max", "state") == (
        'sum by (state) (rack_state:nodes:max{cluster=~"$cluster",rack=~"$rack"})'
    )


def test_states_are_numbered_by_their_codes() -> None:
    assert RECORDED_OF.coded(
        "rack_verdict:verdict:max", {"AVAILABLE": 0, "UNAVAILABLE": 4}, label="verdict"
    ) == (
        "max by (cluster, rack) ("
        '(rack_verdict:verdict:max{cluster=~"$cluster",rack=~"$rack",verdict="AVAILABLE"} == 1) * 0 or '
        '(rack_verdict:verdict:max{cluster=~"$cluster",rack=~"$rack",verdict="UNAVAILABLE"} == 1) * 4)'
    )


@pytest.mark.parametrize(
    ("codes", "words"),
    [
        (recordings.VERDICT_CODES, VERDICTS),
        (recordings.NODE_STATE_CODES, NODE_STATES),
        (recordings.DOMAIN_STATE_CODES, DOMAIN_STATES),
    ],
)
def test_every_word_of_the_agreement_has_a_code_of_its_own(
    codes: dict[str, int], words: tuple[str, ...]
) -> None:
    assert set(codes) == set(words)
    assert len(set(codes.values())) == len(words)
    assert {mapping.text for mapping in code_texts(codes)} == set(words)


def test_the_code_of_silence_is_no_verdicts() -> None:
    assert recordings.SILENT_CODE not in recordings.VERDICT_CODES.values()


def test_what_nothing_records_is_refused() -> None:
    with pytest.raises(ValueError, match="no rule records 'rack:nodes:sum'"):
        recorded("rack:nodes:sum")


def test_a_unit_that_is_not_shown_is_refused() -> None:
    name = next(rule.name for rule in RECORDED if rule.unit.value == "kilowatt_hours")
    with pytest.raises(ValueError, match="kilowatt_hours"):
        unit(name)
    assert unit("rack_domain:power_watts:max") == "watt"
    assert unit("rack:temperature_margin_celsius:min") == "celsius"


def test_a_description_names_what_it_reads() -> None:
    text = describe("rack:agents_up:sum", note="Mine.")
    assert text == "Mine.\n\nAgents of the rack that Prometheus reaches.\n\nRecorded: `rack:agents_up:sum`."


def test_every_check_of_the_rack_service_says_what_to_do() -> None:
    assert set(failed_checks.RACK_ACTIONS) == set(RACK_CHECKS)


@pytest.mark.parametrize(
    ("served_at", "urls"),
    [
        ("docs/runbooks.md", []),
        ("https://example.org/runbooks", ['https://example.org/runbooks#${__data.fields["runbook"]}']),
        ("/runbooks", ['/runbooks#${__data.fields["runbook"]}']),
    ],
)
def test_runbooks_are_links_only_where_a_browser_can_go(served_at: str, urls: list[str]) -> None:
    assert [link.url for link in row_texts.runbook_links(served_at)] == urls


def _columns(count: int) -> tuple[Column, ...]:
    return tuple(Column(f"Column {place}", "up") for place in range(count))


def _organized(count: int) -> Organize:
    made = columns_table(
        key="key",
        title="Title",
        description="Text.",
        width=24,
        height=8,
        labels=(("rack", "Rack"),),
        columns=_columns(count),
    )
    organize = made.transformations[-1]
    assert isinstance(organize, Organize)
    return organize


def test_columns_follow_the_labels_in_order() -> None:
    assert _organized(2).columns == (
        ("rack", "Rack"),
        ("Value #A", "Column 0"),
        ("Value", "Column 0"),
        ("Value #B", "Column 1"),
        ("cluster", "Cluster"),
    )


def test_more_columns_than_letters_are_refused() -> None:
    with pytest.raises(ValueError, match="27 columns"):
        _organized(27)


def test_an_empty_list_does_not_say_that_all_is_well() -> None:
    table = failed_checks.failed_checks(SCOPE)
    assert table.fields.no_value == "none known"


def test_the_gravest_alert_stands_first() -> None:
    # By its word, `info` would stand before `warning`.
    panel = troubles.firing_alerts(SCOPE)
    ranks = {
        mapping.value: mapping.text
        for override in panel.overrides
        if override.fields == ByName("Severity")
        for mapping in override.mappings or ()
        if isinstance(mapping, ValueText)
    }
    assert (panel.sort_by, panel.descending) == ("Severity", False)
    assert ranks == {"1": "critical", "2": "warning", "3": "info"}
    for rank, word in ranks.items():
        assert f'"rank", "{rank}", "severity", "{word}"' in panel.targets[0].expr


def test_since_when_stands_for_failing_checks_only() -> None:
    failing, since = failed_checks.failed_checks(SCOPE).targets
    assert " * 1000 and max by (cluster, rack, node, gpu, check) " in since.expr
    assert since.expr.split(" and ", 1)[1] in failing.expr

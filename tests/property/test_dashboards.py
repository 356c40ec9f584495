"""Whatever panels there are, they flow without overlap; whatever a label holds, its matcher parses."""

from __future__ import annotations

import itertools

import promql_parser
from hypothesis import given
from hypothesis import strategies as st

from dashboards.layout import COLUMNS, Section, lay_out
from dashboards.panels import Text
from dashboards.queries import Scope
from tests.dashboard_lint import selectors

sizes = st.lists(st.tuples(st.integers(1, COLUMNS), st.integers(1, 30)), max_size=20)


def section(number: int, panels: list[tuple[int, int]], *, folded: bool) -> Section:
    made = tuple(
        Text(key=f"{number}-{index}", title="x", width=width, height=height, content="")
        for index, (width, height) in enumerate(panels)
    )
    return Section(key=str(number), title=f"S{number}", panels=made, collapsed=folded)


@given(st.lists(st.tuples(sizes, st.booleans()), max_size=4))
def test_panels_never_overlap_and_keep_their_order(parts: list[tuple[list[tuple[int, int]], bool]]) -> None:
    placed = lay_out(
        [section(number, panels, folded=folded) for number, (panels, folded) in enumerate(parts)]
    )
    shown = [part.heading for part in placed if part.heading is not None]
    shown += [panel.place for part in placed if not part.section.collapsed for panel in part.panels]
    assert not any(one.overlaps(other) for one, other in itertools.combinations(shown, 2))
    for part in placed:
        places = [panel.place for panel in part.panels]
        assert all(place.x >= 0 and place.x + place.width <= COLUMNS for place in places)
        assert [(place.y, place.x) for place in places] == sorted((place.y, place.x) for place in places)
        assert not any(one.overlaps(other) for one, other in itertools.combinations(places, 2))


@given(st.text(st.characters(codec="utf-8", exclude_characters="\x00"), max_size=40))
def test_a_matcher_holds_any_text(text: str) -> None:
    selector = Scope(("cluster",)).selector("gpu_xid_total", xid=text)
    (found,) = selectors(promql_parser.parse(selector))
    (matcher,) = [each for each in found.matchers.matchers if each.name == "xid"]
    assert matcher.value == text

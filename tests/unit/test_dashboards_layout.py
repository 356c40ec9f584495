"""Panels flow over 24 columns, and keep their ids."""

from __future__ import annotations

import dataclasses

import pytest

from dashboards.layout import Place, Section, lay_out, panel_id
from dashboards.panels import Text


def text(key: str, width: int = 8, height: int = 4) -> Text:
    return Text(key=key, title=key, width=width, height=height, content=key)


def places(*sections: Section) -> dict[str, Place]:
    return {placed.panel.key: placed.place for section in lay_out(sections) for placed in section.panels}


def test_panels_wrap_as_words_do() -> None:
    found = places(Section(panels=(text("a", 8, 4), text("b", 12, 6), text("c", 8, 4), text("d", 24, 2))))
    assert found == {
        "a": Place(0, 0, 8, 4),
        "b": Place(8, 0, 12, 6),
        "c": Place(0, 6, 8, 4),
        "d": Place(0, 10, 24, 2),
    }


def test_sections_follow_one_another_below_their_headings() -> None:
    first = Section(panels=(text("a", 24, 4),))
    second = Section(key="two", title="Two", panels=(text("b", 24, 5),))
    third = Section(key="three", title="Three", panels=(text("c", 24, 6),), collapsed=True)
    fourth = Section(key="four", title="Four", panels=(text("d", 24, 7),))
    placed = lay_out((first, second, third, fourth))
    assert [section.heading for section in placed] == [
        None,
        Place(0, 4, 24, 1),
        Place(0, 10, 24, 1),
        # What is folded takes no room.
        Place(0, 11, 24, 1),
    ]
    assert [section.panels[0].place.y for section in placed] == [0, 5, 11, 12]


def test_ids_derive_from_keys_alone() -> None:
    # The CRC-32 of "gpu-power", as gzip computes it, is 445740682; 445740682 modulo 999983, plus 1.
    assert panel_id("gpu-power") == 748248
    before = lay_out((Section(panels=(text("a"), text("b"))),))
    after = lay_out((Section(panels=(text("new"), text("b"), text("a"))),))
    ids = [{placed.panel.key: placed.id for placed in section.panels} for section in (*before, *after)]
    assert ids[0] == {key: ids[1][key] for key in ids[0]}


@pytest.mark.parametrize(
    ("sections", "said"),
    [
        ((Section(panels=(text("a"), text("a"))),), "the same id"),
        ((Section(panels=(text("a"),)), Section(panels=(text("a"),))), "the same id"),
        ((Section(key="s", title="S", panels=()), Section(key="s", title="T", panels=())), "the same id"),
        ((Section(panels=(text(""),)),), "no key"),
        ((Section(title="S", panels=()),), "no key"),
        ((Section(panels=(text("a", 25),)),), "does not fit"),
        ((Section(panels=(text("a", 0),)),), "does not fit"),
        ((Section(panels=(text("a", 1, 0),)),), "does not fit"),
        ((Section(panels=(text("a"),), collapsed=True),), "without a heading"),
        ((Section(panels=(text("a"),), repeat="rack"),), "without a heading"),
    ],
)
def test_what_cannot_be_laid_out_is_refused(sections: tuple[Section, ...], said: str) -> None:
    with pytest.raises(ValueError, match=said):
        lay_out(sections)


@pytest.mark.parametrize(
    ("other", "overlaps"),
    [
        (Place(0, 0, 8, 4), True),
        (Place(7, 3, 1, 1), True),
        (Place(8, 0, 8, 4), False),
        (Place(0, 4, 8, 4), False),
    ],
)
def test_overlap(other: Place, *, overlaps: bool) -> None:
    assert Place(0, 0, 8, 4).overlaps(other) is overlaps
    assert other.overlaps(Place(0, 0, 8, 4)) is overlaps


def test_a_panel_cannot_be_changed() -> None:
    with pytest.raises(dataclasses.FrozenInstanceError):
        text("a").width = 3  # type: ignore[misc]  # that it is refused is what is shown

"""The pictures of the dashboards: values and tables as Grafana makes them, and that each board has one."""

from __future__ import annotations

import re

import pytest

from dashboards.catalogue import BOARDS
from dashboards.panels import (
    ByName,
    ByRegexp,
    CellKind,
    DataPanel,
    FieldOptions,
    Fixed,
    GroupingToMatrix,
    Merge,
    Organize,
    Override,
    SortBy,
    Step,
    Table,
    Thresholds,
    ValueText,
    palette,
    table,
)
from tests.gallery.__main__ import LARGEST_BYTES, PICTURES, REPOSITORY, VIEWS
from tests.gallery.frames import Rows, sorted_by, transformed
from tests.gallery.looks import TEXT, look_of, shown
from tests.gallery.sheet import cut, width_of
from tests.gallery.values import written

NOW = 1_764_509_100


@pytest.mark.parametrize(
    ("value", "unit", "decimals", "text"),
    [
        # Grafana's valueFormats: three digits that count, prefixes of its units.
        (0, "short", None, "0"),
        (821.629, "watt", None, "822 W"),
        (6499.27, "watt", None, "6.50 kW"),
        (76_637, "watt", 1, "76.6 kW"),
        (1277, "short", None, "1.28 K"),
        (1277, "none", None, "1277"),
        (2_500_000, "short", None, "2.50 Mil"),
        (0.99704, "percentunit", None, "99.7%"),
        (1, "percentunit", 2, "100.00%"),
        (36, "celsius", None, "36 °C"),
        (1.29e14, "Bps", None, "129 TB/s"),
        (288 * 2**30, "bytes", None, "288 GiB"),
        (143_030, "si:tokens/s", None, "143 ktokens/s"),
        (1.6887, "suffix:tokens/J", 3, "1.689 tokens/J"),
        (0.0021, "s", None, "2.10 ms"),
        (87, "s", None, "1.45 mins"),
        (5199, "s", None, "1.44 hours"),
        (1.5e-237, "sci", None, "1.50e-237"),
        (0, "sci", None, "0"),
        (3.5e9, "hertz", None, "3.50 GHz"),
        ((NOW - 2400) * 1000, "dateTimeFromNow", None, "40 minutes ago"),
        ((NOW - 1) * 1000, "dateTimeFromNow", None, "1 second ago"),
    ],
)
def test_values_are_written_as_grafana_does(value: float, unit: str, decimals: int | None, text: str) -> None:
    assert written(value, unit, decimals, now_seconds=NOW) == text


def test_every_unit_of_every_board_can_be_written() -> None:
    for board in BOARDS:
        for section in board.sections:
            for panel in section.panels:
                if isinstance(panel, DataPanel):
                    own = [each.unit for each in panel.overrides if each.unit is not None]
                    units = [panel.fields.unit, *own]
                    assert all(written(1.5, unit, now_seconds=NOW) for unit in units)


STATES = Rows(("Time", "node", "Value #A"), ({"Time": 1.0, "node": "n01", "Value #A": 2.0},))
POWERS = Rows(
    ("Time", "node", "slot", "Value #B"),
    (
        {"Time": 1.0, "node": "n01", "slot": "3", "Value #B": 800.0},
        {"Time": 1.0, "node": "n02", "slot": "4", "Value #B": 700.0},
    ),
)


def test_a_table_is_merged_named_and_ordered() -> None:
    steps = (
        Merge(),
        Organize((("node", "Node"), ("slot", "Slot"), ("Value #A", "State"), ("Value #B", "Power"))),
    )
    merged = transformed([STATES, POWERS], steps)
    assert merged.columns == ("Node", "Slot", "State", "Power")
    assert [tuple(row.values()) for row in merged.rows] == [
        ("n01", "3", 2.0, 800.0),
        ("n02", "4", None, 700.0),
    ]
    # What has no value comes last, whichever way.
    assert [row["Node"] for row in sorted_by(merged, "State", descending=True).rows] == ["n01", "n02"]
    assert [row["Node"] for row in sorted_by(merged, "Power", descending=False).rows] == ["n02", "n01"]


def test_a_matrix_leaves_blank_what_is_missing() -> None:
    rows = (("n01", "10"), ("n01", "09"), ("n02", "09"))
    given = Rows(
        ("node", "link", "Value"),
        tuple({"node": node, "link": link, "Value": float(place)} for place, (node, link) in enumerate(rows)),
    )
    made = transformed([given], (SortBy("link"), GroupingToMatrix(across="link", down="node", value="Value")))
    assert made.columns == ("node\\link", "09", "10")
    assert [tuple(row.values()) for row in made.rows] == [("n01", 1.0, 0.0), ("n02", 2.0, None)]


PANEL = Table(
    key="x",
    title="X",
    width=12,
    height=8,
    targets=(table("up"),),
    fields=FieldOptions(unit="short", thresholds=Thresholds(steps=(Step(1, palette.FAILED),))),
    overrides=(
        Override(
            fields=ByName("State"), mappings=(ValueText("2", "FAILED", palette.FAILED),), cell=CellKind.PILL
        ),
        Override(fields=ByRegexp("/ W$/"), unit="watt", colouring=Fixed(palette.POWER)),
    ),
)


def test_a_field_looks_as_its_overrides_say() -> None:
    state = look_of(PANEL, "State", "")
    assert state.cell is CellKind.PILL
    assert shown(2.0, state, now_seconds=NOW).text == "FAILED"
    assert shown(2.0, state, now_seconds=NOW).colour == palette.FAILED
    power = shown(1500.0, look_of(PANEL, "gpu W", ""), now_seconds=NOW)
    assert (power.text, power.colour) == ("1.50 kW", palette.POWER)
    plain = look_of(PANEL, "Links", "")
    assert shown(0.0, plain, now_seconds=NOW).colour is None
    assert shown(1.0, plain, now_seconds=NOW).colour == palette.FAILED != TEXT


def test_what_is_missing_is_grey_and_blank() -> None:
    missing = shown(None, look_of(PANEL, "State", ""), now_seconds=NOW)
    assert (missing.text, missing.colour) == ("", palette.UNKNOWN)


def test_long_lines_are_cut() -> None:
    words = "reboot the node; if the GPU stays away, have it serviced"
    shorter = cut(words, 9, 100)
    assert shorter.endswith("…")
    assert width_of(shorter, 9) <= 100 < width_of(words, 9)
    assert cut("short", 9, 100) == "short"


def test_every_board_has_its_picture_in_the_gallery() -> None:
    text = (REPOSITORY / "docs/gallery.md").read_text("utf-8")
    pictures = re.findall(r"!\[[^\]]+\]\(images/dashboards/([a-z]+)\.png\)", text)
    assert pictures == [board.identity.value for board in BOARDS]
    assert VIEWS.keys() == {board.identity for board in BOARDS}
    for picture in pictures:
        content = (PICTURES / f"{picture}.png").read_bytes()
        assert content.startswith(b"\x89PNG")
        assert len(content) <= LARGEST_BYTES
    assert {path.stem for path in PICTURES.glob("*")} == set(pictures)

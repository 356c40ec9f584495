"""The landing page: what it says, and that nothing foreign gets into it."""

from __future__ import annotations

import base64
import hashlib
from dataclasses import replace
from html.parser import HTMLParser

import pytest

from collector.model import Snapshot
from exporters.landing import LandingPage
from tests.exporter_snapshots import EMPTY, series, snapshot_of, whole_catalogue

INFO_REST = ("",) * 16
"""Labels of `gpu_info` after `gpu`, `gpu_uuid` and `name`."""

TRAY = snapshot_of(
    (series("gpu_up", "10", "GPU-c"), None),
    (series("gpu_up", "0", "GPU-a"), 1),
    (series("gpu_up", "2", "GPU-b"), 0),
    (series("gpu_info", "0", "GPU-a", "NVIDIA GB300", *INFO_REST), 1),
    (series("gpu_utilization_ratio", "0", "GPU-a"), 0.87),
    (series("gpu_power_watts", "0", "GPU-a"), 412.34),
    (series("gpu_temperature_celsius", "0", "GPU-a"), None),
    (series("gpu_nvlinks_up", "0", "GPU-a"), 17),
    (series("gpu_nvlinks_expected", "0", "GPU-a"), 18),
    (series("node_gpus_expected"), 4),
    (series("node_gpus_present"), 1),
)


class Text(HTMLParser):
    """Collects a page's tags, the texts of its table cells by row, and all texts."""

    def __init__(self, page: str) -> None:
        super().__init__()
        self.tags: list[str] = []
        self.rows: list[list[str]] = []
        self.words: list[str] = []
        self._in_cell = False
        self.feed(page)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append(tag)
        if tag == "tr":
            self.rows.append([])
        elif tag in {"td", "th"}:
            self.rows[-1].append("")
            self._in_cell = True

    def handle_endtag(self, tag: str) -> None:
        self._in_cell = self._in_cell and tag not in {"td", "th"}

    def handle_data(self, data: str) -> None:
        self.words.append(data)
        if self._in_cell:
            self.rows[-1][-1] += data


def page_of(
    snapshot: Snapshot | None,
    *,
    not_ready: str = "",
    elapsed_seconds: float = 0.0,
    address: str = "n03:10072",
) -> str:
    page = LandingPage().render(
        snapshot, not_ready=not_ready, elapsed_seconds=elapsed_seconds, address=address
    )
    return page.decode("utf-8")


def test_gpus_stand_in_a_table_by_index() -> None:
    # U+2013 stands for what is missing, U+202F between number and unit.
    assert Text(page_of(TRAY)).rows[:4] == [
        ["GPU", "State", "Product", "Utilization", "Power", "Temperature", "NVLinks"],
        ["0", "● up", "NVIDIA GB300", "87\u202f%", "412.3\u202fW", "\u2013", "▲ 17/18"],
        ["2", "✕ lost", *["\u2013"] * 5],
        ["10", "◌ unknown", *["\u2013"] * 5],
    ]
    assert "1 present, 4 expected" in page_of(TRAY)


def test_links_that_are_all_up_carry_no_mark() -> None:
    rows = ((series("gpu_nvlinks_up", "0", "a"), 18), (series("gpu_nvlinks_expected", "0", "a"), 18))
    assert Text(page_of(snapshot_of(*rows))).rows[1][-1] == "18/18"
    assert Text(page_of(snapshot_of((series("gpu_up", "0", "a"), 1)))).rows[1][-1] == "\u2013"
    assert Text(page_of(snapshot_of((rows[0][0], None), rows[1]))).rows[1][-1] == "\u2013/18"


def test_identity_and_badge() -> None:
    words = Text(page_of(TRAY)).words
    assert "SIMULATED" in words
    assert "gb300-nvl72" in words
    assert "SIMULATED" not in Text(page_of(replace(TRAY, identity={"simulated": "false"}))).words


@pytest.mark.parametrize(
    ("ages", "elapsed_seconds", "text"),
    [
        ({"fast": 0.25, "links": None}, 0.0, "Age of values: fast 0.2\u202fs, links never read."),
        ({"fast": 0.0}, 12.0, "Age of values: fast 12\u202fs."),
        ({"fast": 300.0}, 0.0, "Age of values: fast 5\u202fmin."),
        ({"fast": 86400.0}, 0.0, "Age of values: fast 24\u202fh."),
    ],
)
def test_ages(ages: dict[str, float | None], elapsed_seconds: float, text: str) -> None:
    assert text in page_of(replace(TRAY, ages_seconds=ages), elapsed_seconds=elapsed_seconds)


def test_state_in_words() -> None:
    assert "● NVML is up and its data are fresh." in page_of(TRAY)
    down = page_of(TRAY, not_ready="the driver <580> is not loaded.")
    assert '<span class="signal">▲ Not ready</span> The driver &lt;580&gt; is not loaded.' in down


def test_before_the_first_snapshot_the_page_stands() -> None:
    page = page_of(None, not_ready="the agent has taken no Snapshot yet.")
    assert "The agent has taken no Snapshot yet." in page
    assert "curl --compressed http://n03:10072/metrics" in page


@pytest.mark.parametrize("snapshot", [EMPTY, whole_catalogue()])
def test_any_snapshot_has_a_page(snapshot: Snapshot) -> None:
    assert page_of(snapshot).endswith("</html>\n")


def test_foreign_text_stays_text() -> None:
    evil = "<script>alert(1)</script>\"'&$title\udcff"
    snapshot = replace(
        snapshot_of((series("gpu_up", evil, evil), 1), (series("gpu_info", evil, evil, evil, *INFO_REST), 1)),
        rack=evil,
        node=evil,
        identity=dict.fromkeys(("platform", "hostname", "kernel"), evil),
        ages_seconds={evil: 1.0},
    )
    page = Text(page_of(snapshot, not_ready=evil, address=evil))
    assert "script" not in page.tags
    assert "curl http://localhost/v1/snapshot" in page.words


def test_the_policy_allows_this_style_and_nothing_else() -> None:
    style = page_of(EMPTY).partition("<style>")[2].partition("</style>")[0]
    digest = base64.b64encode(hashlib.sha256(style.encode()).digest()).decode()
    assert LandingPage().headers["Content-Security-Policy"] == (
        f"default-src 'none'; style-src 'sha256-{digest}'; base-uri 'none'; form-action 'none'; "
        "frame-ancestors 'none'"
    )
    tags = set(Text(page_of(TRAY)).tags)
    assert tags.isdisjoint({"script", "link", "img", "iframe", "form", "object", "base"})
    assert "style=" not in page_of(TRAY)

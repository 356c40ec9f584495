"""`rackwatt metrics`: the catalogue as text, JSON and Markdown, and the README's table."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from collector.catalog import ALL, BY_NAME, at_level
from collector.catalog.rack import RACK
from collector.catalog.spec import Level
from collector.cli import main
from collector.cli.markers import replace_between_markers
from collector.cli.metric_tables import read_from, render_json, render_markdown, render_table
from collector.errors import ConfigurationError


def test_a_metric_as_text() -> None:
    rows = [BY_NAME["gpu_power_watts"], BY_NAME["node_gpus_present"]]
    assert (
        render_table(rows)
        == """\
METRIC                      KIND       UNIT              LEVEL     CADENCE  LABELS
rackwatt_gpu_power_watts    gauge      watts             core      fast     gpu, gpu_uuid
    Power of the GPU: average of the last second; instantaneous where the board has no average.
    <- NVML_FI_DEV_POWER_AVERAGE, else NVML_FI_DEV_POWER_INSTANT
rackwatt_node_gpus_present  gauge      -                 core      fast     -
    GPUs that answer now.
    <- derived
"""
    )


def test_a_metric_as_json() -> None:
    (metric,) = json.loads(render_json([BY_NAME["gpu_rows_remapped_total"]]))["metrics"]
    assert metric == {
        "name": "rackwatt_gpu_rows_remapped_total",
        "kind": "counter",
        "unit": "",
        "value_type": "int",
        "entity": "gpu",
        "labels": ["rack", "node", "gpu", "gpu_uuid", "cause"],
        "level": "core",
        "cadence": "links",
        "help": "Memory rows remapped over the GPU's life, by the kind of error that caused it.",
        "read_from": {
            "correctable": ["NVML_FI_DEV_REMAPPED_COR"],
            "uncorrectable": ["NVML_FI_DEV_REMAPPED_UNC"],
        },
    }


def test_metrics_as_markdown() -> None:
    rows = [BY_NAME["gpu_recovery_action"], BY_NAME["module_power_watts"]]
    assert (
        render_markdown(rows)
        == """\

**Of each GPU** (`rack`, `node`, `gpu`, `gpu_uuid`)

| Metric | Kind | Unit | Level | Cadence | Meaning | Read from |
|---|---|---|---|---|---|---|
| `rackwatt_gpu_recovery_action{action}` | state | - | core | fast |\
 1 for the action that the driver asks for to make the GPU usable again. |\
 `NVML_FI_DEV_GET_GPU_RECOVERY_ACTION` |

**Of each module** (`rack`, `node`, `module`)

| Metric | Kind | Unit | Level | Cadence | Meaning | Read from |
|---|---|---|---|---|---|---|
| `rackwatt_module_power_watts` | gauge | watts | core | fast |\
 Power of a superchip module, its GPUs and CPU together: average of the last second. |\
 `NVML_FI_DEV_POWER_AVERAGE`<br>`NVML_FI_DEV_POWER_INSTANT` |
"""
    )


def test_what_an_engine_says_is_not_called_derived() -> None:
    rows = [BY_NAME["llm_time_to_first_token_seconds"], BY_NAME["llm_up"], BY_NAME["cpu_power_watts"]]
    table, markdown = render_table(rows), render_markdown(rows)
    assert (
        """\
rackwatt_llm_time_to_first_token_seconds  histogram  seconds           standard  serving  endpoint, engine,
                                          model, role
    Time from a request to its first token, in the engine's own buckets.
    <- the serving engine
"""
        in table
    )
    assert [line.strip() for line in table.splitlines() if "<-" in line] == [
        "<- the serving engine",
        "<- derived",
        "<- Linux hwmon",
    ]
    assert (
        """\
**Of each model of a serving endpoint** (`rack`, `node`, `endpoint`, `engine`, `model`, `role`)

| Metric | Kind | Unit | Level | Cadence | Meaning | Read from |
|---|---|---|---|---|---|---|
| `rackwatt_llm_time_to_first_token_seconds` | histogram | seconds | standard | serving |\
 Time from a request to its first token, in the engine's own buckets. | the serving engine |
"""
        in markdown
    )


@pytest.mark.parametrize(
    ("name", "places"),
    [
        ("gpu_utilization_ratio", {"": ["nvmlDeviceGetUtilizationRates: gpu"]}),
        ("gpu_sm_active_ratio", {"": ["NVML_GPM_METRIC_SM_UTIL"]}),
        ("gpu_memory_power_watts", {"": ["NVML_FI_DEV_POWER_AVERAGE, memory"]}),
        ("gpu_fabric_state", {"": ["nvmlDeviceGetGpuFabricInfoV: state"]}),
        ("nvlink_up", {"": ["NVML_FI_DEV_NVLINK_GET_STATE, each link"]}),
        (
            "gpu_nvlink_transmitted_bytes_total",
            {
                "": [
                    "NVML_FI_DEV_NVLINK_THROUGHPUT_DATA_TX, all links",
                    "sum over links of NVML_FI_DEV_NVLINK_COUNT_XMIT_BYTES",
                    "sum over links of NVML_FI_DEV_NVLINK_THROUGHPUT_DATA_TX",
                ]
            },
        ),
        ("gpu_up", {}),
        ("llm_tokens_total", {}),
        ("agent_read_errors_total", {}),
    ],
)
def test_where_a_metric_is_read(name: str, places: dict[str, list[str]]) -> None:
    assert read_from(BY_NAME[name]) == places


def test_field_ids_that_moved_are_told_with_their_drivers() -> None:
    # facts: 251 to 253 from 575.51 to 580.65, 269 to 271 since 580.82.
    assert read_from(BY_NAME["gpu_clock_event_seconds_total"])["hw_power_brake"] == [
        "NVML_FI_DEV_CLOCKS_EVENT_REASON_HW_POWER_BRAKE_SLOWDOWN (drivers from 580.82)",
        "field 253 (drivers from 575.51 and before 580.82)",
    ]


def test_markdown_names_three_origins_at_most() -> None:
    line = next(
        line for line in render_markdown(ALL).splitlines() if "`rackwatt_nvlink_errors_total`" in line
    )
    assert line.endswith(
        "| `NVML_FI_DEV_NVLINK_COUNT_MALFORMED_PACKET_ERRORS`"
        "<br>`NVML_FI_DEV_NVLINK_COUNT_BUFFER_OVERRUN_ERRORS`"
        "<br>`NVML_FI_DEV_NVLINK_COUNT_RCV_ERRORS`<br>and 7 more |"
    )


def test_every_row_stands_in_every_form() -> None:
    markdown, table = render_markdown(ALL), render_table(ALL)
    assert [metric["name"] for metric in json.loads(render_json(ALL))["metrics"]] == [
        row.exposed_name for row in ALL
    ]
    for row in ALL:
        name = row.exposed_name
        assert f"\n| `{name}` | " in markdown or f"\n| `{name}{{" in markdown
        assert f"\n{name} " in table
    assert all(line.count(" | ") == 6 for line in markdown.splitlines() if line.startswith("| "))


def test_no_line_of_the_text_is_wider_than_a_terminal() -> None:
    assert max(len(line) for line in render_table(ALL).splitlines()) <= 110


@pytest.mark.parametrize("level", list(Level))
def test_a_level_selects_its_rows(level: Level, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["metrics", "--format", "json", "--level", level.name.lower()]) == 0
    names = [metric["name"] for metric in json.loads(capsys.readouterr().out)["metrics"]]
    assert names == [
        row.exposed_name for row in (*at_level(level), *(row for row in RACK if row.level <= level))
    ]


README = "# Title\n<!-- metrics:begin -->\nold\n<!-- metrics:end -->\nrest\n"


def test_a_file_is_checked_and_renewed(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file = tmp_path / "README.md"
    file.write_text(README)
    assert main(["metrics", "--check", str(file)]) == 1
    assert file.read_text() == README
    assert main(["metrics", "--format", "markdown", "--update", str(file)]) == 0
    table = render_markdown((*ALL, *RACK)).strip()
    expected = f"# Title\n<!-- metrics:begin -->\n{table}\n<!-- metrics:end -->\nrest\n"
    assert file.read_text() == expected
    assert main(["metrics", "--check", str(file)]) == 0
    assert main(["metrics", "--update", str(file)]) == 0
    assert capsys.readouterr().out.splitlines() == [
        f"{file}: the metric table is out of date; renew it: rackwatt metrics --update {file}",
        f"{file}: renewed",
        f"{file}: up to date",
        f"{file}: was up to date",
    ]


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (None, "No such file or directory"),
        (b"\xff", "it is not UTF-8"),
        (
            b"# no markers\n",
            "expected <!-- metrics:begin --> once, and <!-- metrics:end --> once below it",
        ),
    ],
)
def test_a_file_that_cannot_be_renewed_is_told(
    content: bytes | None, message: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file = tmp_path / "README.md"
    if content is not None:
        file.write_bytes(content)
    assert main(["metrics", "--update", str(file)]) == 2
    assert capsys.readouterr().err == f"rackwatt: {file}: {message}\n"


def test_a_file_takes_markdown_only(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["metrics", "--format", "json", "--check", "README.md"]) == 2
    assert capsys.readouterr().err == "rackwatt: --format json: a file takes markdown\n"


@pytest.mark.parametrize(
    "text",
    [
        "",
        "<!-- a:begin -->",
        "<!-- a:end --><!-- a:begin -->",
        "<!-- a:begin --><!-- a:begin --><!-- a:end -->",
        "<!-- a:begin --><!-- a:end --><!-- a:end -->",
        "<!-- b:begin --><!-- b:end -->",
    ],
)
def test_each_marker_must_stand_once_and_in_order(text: str) -> None:
    with pytest.raises(ConfigurationError, match="expected <!-- a:begin --> once"):
        replace_between_markers(text, "a", "x")


def test_only_what_stands_between_the_markers_is_replaced() -> None:
    text = "<!-- b:begin -->1<!-- b:end -->\n<!-- a:begin -->\n2\n<!-- a:end --> tail"
    assert replace_between_markers(text, "a", "\nx\ny\n\n") == (
        "<!-- b:begin -->1<!-- b:end -->\n<!-- a:begin -->\nx\ny\n<!-- a:end --> tail"
    )

"""Text 0.0.4 and OpenMetrics 1.0.0, by literals after the two specifications."""

from __future__ import annotations

import subprocess
import zlib
from dataclasses import replace

import pytest
from prometheus_client.openmetrics.parser import text_string_to_metric_families

from collector.catalog.spec import Cadence, Entity, Kind, Level, Metric, ValueType
from collector.model import Series, Snapshot
from exporters.prometheus import Exposition, Renderer, TextFormat
from exporters.prometheus_histograms import bound_text
from tests.exporter_snapshots import EMPTY, histogram, series, snapshot_of, whole_catalogue

POWER = series("gpu_power_watts", "2", "GPU-c0ffee")
ENERGY = series("gpu_energy_joules_total", "2", "GPU-c0ffee")
ACTION = tuple(series("gpu_recovery_action", "2", "GPU-c0ffee", action) for action in ("none", "gpu_reset"))
XIDS = series("gpu_xid_total", "2", "GPU-c0ffee", "79")
ONE_OF_EACH_KIND = snapshot_of((POWER, 412.3), (ENERGY, 1000.5), (ACTION[0], 0), (ACTION[1], 1), (XIDS, 3))

PLAIN = """\
# HELP rackwatt_gpu_power_watts Power of the GPU: average of the last second; instantaneous where the board \
has no average.
# TYPE rackwatt_gpu_power_watts gauge
rackwatt_gpu_power_watts{rack="r01",node="n03",gpu="2",gpu_uuid="GPU-c0ffee"} 412.3
# HELP rackwatt_gpu_energy_joules_total Energy of the GPU since the driver was loaded, from the hardware's \
own counter.
# TYPE rackwatt_gpu_energy_joules_total counter
rackwatt_gpu_energy_joules_total{rack="r01",node="n03",gpu="2",gpu_uuid="GPU-c0ffee"} 1000.5
# HELP rackwatt_gpu_recovery_action 1 for the action that the driver asks for to make the GPU usable again.
# TYPE rackwatt_gpu_recovery_action gauge
rackwatt_gpu_recovery_action{rack="r01",node="n03",gpu="2",gpu_uuid="GPU-c0ffee",action="none"} 0
rackwatt_gpu_recovery_action{rack="r01",node="n03",gpu="2",gpu_uuid="GPU-c0ffee",action="gpu_reset"} 1
# HELP rackwatt_gpu_xid_total Xid events seen by this agent, by number; a series begins at 1: alert on the \
last-seen time.
# TYPE rackwatt_gpu_xid_total counter
rackwatt_gpu_xid_total{rack="r01",node="n03",gpu="2",gpu_uuid="GPU-c0ffee",xid="79"} 3
"""

OPENMETRICS = """\
# TYPE rackwatt_gpu_power_watts gauge
# UNIT rackwatt_gpu_power_watts watts
# HELP rackwatt_gpu_power_watts Power of the GPU: average of the last second; instantaneous where the board \
has no average.
rackwatt_gpu_power_watts{rack="r01",node="n03",gpu="2",gpu_uuid="GPU-c0ffee"} 412.3
# TYPE rackwatt_gpu_energy_joules counter
# UNIT rackwatt_gpu_energy_joules joules
# HELP rackwatt_gpu_energy_joules Energy of the GPU since the driver was loaded, from the hardware's own \
counter.
rackwatt_gpu_energy_joules_total{rack="r01",node="n03",gpu="2",gpu_uuid="GPU-c0ffee"} 1000.5
# TYPE rackwatt_gpu_recovery_action gauge
# HELP rackwatt_gpu_recovery_action 1 for the action that the driver asks for to make the GPU usable again.
rackwatt_gpu_recovery_action{rack="r01",node="n03",gpu="2",gpu_uuid="GPU-c0ffee",action="none"} 0
rackwatt_gpu_recovery_action{rack="r01",node="n03",gpu="2",gpu_uuid="GPU-c0ffee",action="gpu_reset"} 1
# TYPE rackwatt_gpu_xid counter
# HELP rackwatt_gpu_xid Xid events seen by this agent, by number; a series begins at 1: alert on the \
last-seen time.
rackwatt_gpu_xid_total{rack="r01",node="n03",gpu="2",gpu_uuid="GPU-c0ffee",xid="79"} 3
# EOF
"""


FIRST_TOKEN = histogram(
    "llm_time_to_first_token_seconds",
    "decode-0",
    "vllm",
    'a "model"',
    "engine",
    bounds=(0.5, 1),
    counts=(3.0, 4.0, 6.0),
    total=4.75,
)
LABELS = 'rack="r01",node="n03",endpoint="decode-0",engine="vllm",model="a \\"model\\"",role="engine"'
HISTOGRAM_LINES = f"""\
rackwatt_llm_time_to_first_token_seconds_bucket{{{LABELS},le="0.5"}} 3.0
rackwatt_llm_time_to_first_token_seconds_bucket{{{LABELS},le="1.0"}} 4.0
rackwatt_llm_time_to_first_token_seconds_bucket{{{LABELS},le="+Inf"}} 6.0
rackwatt_llm_time_to_first_token_seconds_sum{{{LABELS}}} 4.75
rackwatt_llm_time_to_first_token_seconds_count{{{LABELS}}} 6.0
"""
HISTOGRAM_HELP = (
    "# HELP rackwatt_llm_time_to_first_token_seconds Time from a request to its first token, in the engine's "
    "own buckets.\n"
)
HISTOGRAM_TYPE = "# TYPE rackwatt_llm_time_to_first_token_seconds histogram\n"
HISTOGRAM_UNIT = "# UNIT rackwatt_llm_time_to_first_token_seconds seconds\n"


def render(snapshot: Snapshot, form: TextFormat = TextFormat.PLAIN) -> str:
    return Renderer().render(snapshot, form).decode("utf-8")


def sample_lines(snapshot: Snapshot) -> list[str]:
    return [line for line in render(snapshot).splitlines() if not line.startswith("#")]


@pytest.mark.parametrize(
    ("form", "expected"), [(TextFormat.PLAIN, PLAIN), (TextFormat.OPENMETRICS, OPENMETRICS)]
)
def test_each_kind_in_each_format(form: TextFormat, expected: str) -> None:
    assert render(ONE_OF_EACH_KIND, form) == expected


def test_info_is_a_gauge_in_plain_text_and_loses_its_suffix_in_openmetrics() -> None:
    texts = ("host", "boot", "hgx-h100", "580.95.05", "13.0", "6.8.0", "0.1.0", "false")
    snapshot = snapshot_of((series("node_info", *texts), 1))
    sample = (
        'rackwatt_node_info{rack="r01",node="n03",hostname="host",boot_id="boot",platform="hgx-h100",'
        'driver_version="580.95.05",cuda_version="13.0",kernel="6.8.0",agent_version="0.1.0",'
        'simulated="false"} 1\n'
    )
    text = "Identity of the node: host, boot, platform, driver, agent; whether it is simulated.\n"
    assert render(snapshot) == (f"# HELP rackwatt_node_info {text}# TYPE rackwatt_node_info gauge\n{sample}")
    assert render(snapshot, TextFormat.OPENMETRICS) == (
        f"# TYPE rackwatt_node info\n# HELP rackwatt_node {text}{sample}# EOF\n"
    )


def test_content_types_are_those_of_the_specifications() -> None:
    assert TextFormat.PLAIN.value == "text/plain; version=0.0.4; charset=utf-8"
    assert TextFormat.OPENMETRICS.value == "application/openmetrics-text; version=1.0.0; charset=utf-8"


def test_a_family_without_a_value_writes_nothing() -> None:
    snapshot = snapshot_of((POWER, None), (ENERGY, 1.0))
    assert "gpu_power_watts" not in render(snapshot)
    assert "gpu_energy_joules_total" in render(snapshot)


def test_a_snapshot_without_series_is_an_empty_exposition() -> None:
    assert render(EMPTY) == ""
    assert render(EMPTY, TextFormat.OPENMETRICS) == "# EOF\n"


def test_label_values_are_escaped() -> None:
    snapshot = snapshot_of((series("gpu_up", "0", 'a"b\\c\nd%a\re\udc80é'), 1))
    # A lone surrogate has no UTF-8; `%` and carriage return have no meaning in the formats.
    assert render(snapshot).partition("gauge\n")[2] == (
        'rackwatt_gpu_up{rack="r01",node="n03",gpu="0",gpu_uuid="a\\"b\\\\c\\nd%a\re?é"} 1\n'
    )


def test_rack_and_node_are_escaped_too() -> None:
    snapshot = replace(snapshot_of((series("node_gpus_present"), 4)), rack='r"1', node="n\\1")
    assert sample_lines(snapshot) == ['rackwatt_node_gpus_present{rack="r\\"1",node="n\\\\1"} 4']


def test_help_is_escaped_as_each_format_has_it() -> None:
    metric = Metric(
        name="gpu_up",
        kind=Kind.GAUGE,
        value_type=ValueType.INT,
        entity=Entity.NODE,
        level=Level.CORE,
        cadence=Cadence.FAST,
        help='100 % "so\\called"\nup',
    )
    snapshot = snapshot_of((Series(metric), 1))
    assert render(snapshot).startswith('# HELP rackwatt_gpu_up 100 % "so\\\\called"\\nup\n')
    assert '# HELP rackwatt_gpu_up 100 % \\"so\\\\called\\"\\nup\n' in render(
        snapshot, TextFormat.OPENMETRICS
    )


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (0, "0"),
        (2**63, "9223372036854775808"),
        (-4, "-4"),
        (0.1, "0.1"),
        (1.5e-254, "1.5e-254"),  # the smallest BER that NVML's 8-bit exponent can say is near 1e-255
        (1764505200.123, "1764505200.123"),
        (12345678901234.5, "12345678901234.5"),
        (1e16, "1e+16"),
    ],
)
def test_values_are_written_so_that_they_read_back_equal(value: float, text: str) -> None:
    assert sample_lines(snapshot_of((POWER, value))) == [
        f'rackwatt_gpu_power_watts{{rack="r01",node="n03",gpu="2",gpu_uuid="GPU-c0ffee"}} {text}'
    ]


@pytest.mark.parametrize("value", [float("nan"), float("inf"), float("-inf")])
def test_what_is_not_finite_is_left_out(value: float) -> None:
    assert sample_lines(snapshot_of((POWER, value), (XIDS, 3))) == [
        'rackwatt_gpu_xid_total{rack="r01",node="n03",gpu="2",gpu_uuid="GPU-c0ffee",xid="79"} 3'
    ]


def test_a_histogram_stands_after_the_series_in_each_format() -> None:
    snapshot = replace(ONE_OF_EACH_KIND, histograms=(FIRST_TOKEN,))
    assert render(snapshot) == PLAIN + HISTOGRAM_HELP + HISTOGRAM_TYPE + HISTOGRAM_LINES
    assert render(snapshot, TextFormat.OPENMETRICS) == (
        OPENMETRICS.removesuffix("# EOF\n")
        + HISTOGRAM_TYPE
        + HISTOGRAM_UNIT
        + HISTOGRAM_HELP
        + HISTOGRAM_LINES
        + "# EOF\n"
    )


def test_histograms_of_one_metric_stand_under_one_header() -> None:
    other = replace(FIRST_TOKEN, labels=("decode-1", *FIRST_TOKEN.labels[1:]))
    text = render(replace(EMPTY, histograms=(FIRST_TOKEN, other)))
    assert text.count("# TYPE") == text.count("# HELP") == 1
    assert text == HISTOGRAM_HELP + HISTOGRAM_TYPE + HISTOGRAM_LINES + HISTOGRAM_LINES.replace(
        "decode-0", "decode-1"
    )


def test_a_histogram_without_bounds_has_the_infinite_bucket() -> None:
    bare = replace(FIRST_TOKEN, bounds=(), counts=(6,))
    lines = sample_lines(replace(EMPTY, histograms=(bare,)))
    assert [line.rpartition(" ")[2] for line in lines] == ["6", "4.75", "6"]
    assert 'le="+Inf"' in lines[0]


@pytest.mark.parametrize(
    ("bound", "text"),
    [
        # OpenMetrics 1.0.0, "Considerations: Canonical Numbers".
        (0, "0.0"),
        (-0.0, "0.0"),
        (1e-10, "1e-10"),
        (1e-05, "1e-05"),
        (0.0001, "0.0001"),
        (0.1, "0.1"),
        (1, "1.0"),
        (100000, "100000.0"),
        (1e6, "1e+06"),
        (1e7, "1e+07"),
        (1e10, "1e+10"),
        # The same rule, on other numbers: the text that Go's strconv writes, with ".0" after a whole number.
        (0.005, "0.005"),
        (640.0, "640.0"),
        (123456.5, "123456.5"),
        (1234567.5, "1.2345675e+06"),
        (2560000.0, "2.56e+06"),
        (-2560000.0, "-2.56e+06"),
        (1e16, "1e+16"),
        (1.5e300, "1.5e+300"),
    ],
)
def test_bounds_have_one_spelling(bound: float, text: str) -> None:
    assert bound_text(bound) == text


@pytest.mark.parametrize("value", [float("nan"), float("inf")])
def test_a_histogram_that_is_not_finite_is_left_out_whole(value: float) -> None:
    for broken in (
        replace(FIRST_TOKEN, sum=value),
        replace(FIRST_TOKEN, counts=(3, 4, value)),
        replace(FIRST_TOKEN, bounds=(0.5, value)),
    ):
        assert render(replace(EMPTY, histograms=(broken,))) == ""
        whole = (FIRST_TOKEN, replace(broken, labels=("decode-1", *FIRST_TOKEN.labels[1:])))
        assert render(replace(EMPTY, histograms=whole)) == HISTOGRAM_HELP + HISTOGRAM_TYPE + HISTOGRAM_LINES


def test_one_renderer_follows_values_presence_table_and_names() -> None:
    renderer = Renderer()
    first = snapshot_of((POWER, 1.0), (ENERGY, 2.0))
    followers = (
        first,
        replace(first, values=(3.0, 4.0)),
        replace(first, values=(None, 5.0)),
        replace(first, values=(6.0, None)),
        replace(first, values=(7.0, 8.0)),
        replace(first, node="n04"),
        replace(first, rack="r02"),
        snapshot_of((ENERGY, 9.0), (XIDS, 1)),
        replace(first, histograms=(FIRST_TOKEN,)),
        replace(first, histograms=(replace(FIRST_TOKEN, counts=(3, 4, 7)),)),
        replace(first, histograms=(replace(FIRST_TOKEN, bounds=(0.5, 2)),)),
        replace(first, histograms=(replace(FIRST_TOKEN, labels=("b", "c", "d", "e")), FIRST_TOKEN)),
        replace(first, histograms=(FIRST_TOKEN,), node="n04"),
        replace(first, histograms=(FIRST_TOKEN,), values=(None, 8.0)),
        replace(first, values=(7.0, 8.0)),
    )
    for snapshot in followers:
        for form in TextFormat:
            assert renderer.render(snapshot, form) == Renderer().render(snapshot, form)


def test_each_body_is_rendered_at_most_once_a_snapshot() -> None:
    rendered: list[tuple[int, TextFormat]] = []

    def render_and_count(snapshot: Snapshot, form: TextFormat) -> bytes:
        rendered.append((snapshot.sequence, form))
        return Renderer().render(snapshot, form)

    exposition = Exposition(render_and_count)
    exposition.publish(ONE_OF_EACH_KIND)
    exposition.publish(replace(ONE_OF_EACH_KIND, sequence=8))
    assert rendered == []
    for _ in range(3):
        assert exposition.body(TextFormat.PLAIN) is exposition.body(TextFormat.PLAIN)
        assert exposition.body(TextFormat.PLAIN, gzip=True) is exposition.body(TextFormat.PLAIN, gzip=True)
    assert rendered == [(8, TextFormat.PLAIN)]
    assert exposition.body(TextFormat.OPENMETRICS, gzip=True)
    assert exposition.body(TextFormat.OPENMETRICS)
    exposition.publish(replace(ONE_OF_EACH_KIND, sequence=9))
    assert exposition.body(TextFormat.PLAIN)
    assert rendered == [(8, TextFormat.PLAIN), (8, TextFormat.OPENMETRICS), (9, TextFormat.PLAIN)]


def test_gzip_is_the_same_body_and_deterministic() -> None:
    exposition = Exposition()
    exposition.publish(ONE_OF_EACH_KIND)
    packed = exposition.body(TextFormat.PLAIN, gzip=True)
    assert zlib.decompress(packed, wbits=31).decode() == PLAIN
    assert packed[:2] == b"\x1f\x8b"  # RFC 1952 §2.3.1: magic
    assert packed[4:8] == b"\0\0\0\0"  # RFC 1952 §2.3.1: MTIME 0, no time stamp


def test_without_a_snapshot_there_is_no_body() -> None:
    with pytest.raises(LookupError, match="no Snapshot"):
        Exposition().body(TextFormat.PLAIN)


@pytest.mark.needs_program("promtool")
def test_promtool_finds_nothing_in_the_whole_catalogue() -> None:
    body = Renderer().render(whole_catalogue(), TextFormat.PLAIN)
    done = subprocess.run(
        ["promtool", "check", "metrics"], input=body, capture_output=True, timeout=60, check=False
    )
    assert (done.returncode, done.stdout, done.stderr) == (0, b"", b"")


def test_openmetrics_of_the_whole_catalogue_obeys_the_specification() -> None:
    # The parser refuses clashing family names, misplaced units, and samples that do not fit their type.
    text = render(whole_catalogue(), TextFormat.OPENMETRICS)
    parsed = text_string_to_metric_families(text)  # type: ignore[no-untyped-call]  # it declares no types
    families = {family.name: family for family in parsed}
    assert families["rackwatt_gpu"].type == "info"
    assert families["rackwatt_llm_gpu"].type == "info"
    assert families["rackwatt_llm_request_duration_seconds"].type == "histogram"
    assert families["rackwatt_llm_request_duration_seconds"].unit == "seconds"
    assert families["rackwatt_gpu_clock_event_seconds"].unit == "seconds"
    assert families["rackwatt_gpu_pcie_transmitted_bytes_per_second"].unit == "bytes_per_second"

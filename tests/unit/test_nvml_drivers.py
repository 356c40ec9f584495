"""What depends on the driver: field ids, structure versions, missing functions; and how a node is named."""

from __future__ import annotations

import pytest

from collector.sources.nvml.options import ReaderOptions
from tests.nvml_node import HINTS, NodeWatch, watch


def read(platform: str, **arguments: object) -> NodeWatch:
    """Return a watched node after two sweeps."""
    node = watch(platform, **arguments)  # type: ignore[arg-type]  # passed on as they are
    node.run(2)
    return node


def test_place_in_the_rack() -> None:
    # GB300 as captured: slot 25 is tray 15, host 1, clique 32766.
    gb300 = read("gb300-nvl72", tray=15).texts(0)
    assert (gb300["slot"], gb300["tray"], gb300["host"], gb300["clique"]) == ("25", "15", "1", "32766")
    assert len(gb300["chassis_serial"]) == 13
    assert gb300["cluster_uuid"].count("-") == 4
    for platform in ("hgx-b200", "hgx-h100"):
        texts = read(platform).texts(0)
        places = ("slot", "tray", "host", "chassis_serial", "cluster_uuid", "clique")
        assert [texts[label] for label in places] == [""] * 6


def test_identity_is_the_slow_cadence_and_its_series_says_one() -> None:
    node = read("hgx-h100")
    found = node.named("gpu_info")
    assert len(found) == 8
    assert set(found.values()) == {1}
    # name … persistence_mode, in the order of the catalogue; as captured.
    (first,) = [labels for labels in found if labels[0] == "0"]
    assert first[2] == "NVIDIA H100 80GB HBM3"
    assert first[4:8] == ("692-2G520-0200-000", "96.00.99.00.01", "G520.0200.00.05", "00000000:53:00.0")
    assert first[8] == "7"
    assert first[15:] == ("Hopper", "enabled", "disabled", "enabled")


@pytest.mark.parametrize(
    ("platform", "gpus", "driver", "cuda"),
    [("gb300-nvl72", 4, "580.173.02", "13.0"), ("hgx-h200", 8, "590.48.01", "13.1")],
)
def test_layout_names_platform_and_driver(platform: str, gpus: int, driver: str, cuda: str) -> None:
    layout = read(platform).layout
    assert (layout.platform, layout.gpus_expected) == (platform, gpus)
    assert (layout.driver_version, layout.cuda_version) == (driver, cuda)
    assert layout.generation == 1


def test_an_unknown_platform_has_no_expected_count() -> None:
    layout = read("hgx-h100", options=ReaderOptions()).layout
    assert (layout.platform, layout.gpus_expected) == ("", None)


def test_a_configured_platform_wins_over_the_product_name() -> None:
    options = ReaderOptions(platforms=HINTS, platform="gb200-nvl72", gpus_expected=9)
    layout = read("hgx-h100", options=options).layout
    assert (layout.platform, layout.gpus_expected) == ("gb200-nvl72", 9)


@pytest.mark.parametrize(
    ("driver", "asked", "not_asked", "old_getter"),
    [
        # nvidia-ml-py: 251 to 253 from 575.51 to 580.65, 269 to 271 from 580.82 on; on 580.65 the id 269 is
        # the "active preset profile", a small number and no error.
        ("580.173.02", {269, 270, 271}, {251, 252, 253}, False),
        ("580.105.08", {269, 270, 271}, {251, 252, 253}, False),
        ("580.65.06", {251, 252, 253}, {269, 270, 271}, False),
        ("575.57.08", {251, 252, 253}, {269, 270, 271}, False),
        ("570.133.20", set(), {251, 252, 253, 269, 270, 271}, True),
    ],
)
def test_thermal_times_by_driver(driver: str, asked: set[int], not_asked: set[int], old_getter: bool) -> None:
    node = watch("hgx-h100", driver=driver)
    gpu = node.node.gpus[2]
    for position, field in enumerate(sorted(asked)):
        gpu.pin_field(field, 0, (position + 1) * 250_000_000)  # 0.25, 0.5, 0.75 s
    node.run(2)
    fields = {field for call in node.field_calls() for field, _ in call}
    assert asked <= fields
    assert not not_asked & fields
    software = node.gpu("gpu_clock_event_seconds_total", 2, "sw_thermal_slowdown")
    assert software == (0.0 if old_getter else 0.25)
    if old_getter:
        # nvmlDeviceGetViolationStatus tells the software's alone.
        assert not node.has("gpu_clock_event_seconds_total", *node.labels(2), "hw_thermal_slowdown")
        assert not node.has("gpu_clock_event_seconds_total", *node.labels(2), "hw_power_brake")
    else:
        assert node.gpu("gpu_clock_event_seconds_total", 2, "hw_thermal_slowdown") == 0.5
        assert node.gpu("gpu_clock_event_seconds_total", 2, "hw_power_brake") == 0.75
    # Once the choice is made, the older function is asked by the older driver only.
    node.recorder.calls.clear()
    node.run(5)
    policies = [call.arguments[1] for call in node.recorder.named("nvmlDeviceGetViolationStatus")]
    assert policies == ([1] * 8 * 5 if old_getter else [])  # NVML_PERF_POLICY_THERMAL


@pytest.mark.parametrize("driver", ["560.35.05", "570.133.20", "575.57.08", "580.65.06"])
def test_older_drivers_tell_place_fabric_and_temperature(driver: str) -> None:
    node = read("gb200-nvl72", driver=driver, tray=3)
    assert node.active("gpu_fabric_state", 0) == ["completed"]
    assert len([labels for labels in node.named("gpu_fabric_condition") if labels[0] == "0"]) == 4
    assert node.texts(0)["clique"] == "2"
    known = (
        driver != "560.35.05"
    )  # nvmlDeviceGetPlatformInfo, MarginTemperature and TemperatureV came with 570
    assert node.texts(0)["tray"] == ("3" if known else "")
    assert node.has("gpu_temperature_margin_celsius") is known
    assert node.gpu("gpu_temperature_celsius", 0) in (26.0, 27.0, 28.0)

"""Platform profiles: literals are from the captures named in each TOML file."""

from __future__ import annotations

import tomllib
from importlib import resources

import pytest

from collector import profiles
from collector.errors import ConfigurationError

# nvidia-smi -q -x captures in NVIDIA/k8s-test-infra (H100, B200, GB200, GB300) and
# utkuozdemir/nvidia_gpu_exporter (H200): product, MiB total and reserved, W limit, GPUs a node.
CAPTURED = [
    ("gb300-nvl72", "NVIDIA GB300", 284208, 947, 1400.0, 4),
    ("gb200-nvl72", "NVIDIA GB200", 189471, 742, 1200.0, 4),
    ("hgx-b200", "NVIDIA B200", 183359, 728, 1000.0, 8),
    ("hgx-h200", "NVIDIA H200", 143771, 614, 700.0, 8),
    ("hgx-h100", "NVIDIA H100 80GB HBM3", 81559, 480, 700.0, 8),
]


def document(name: str = "hgx-h100") -> dict[str, object]:
    text = resources.files("collector.profiles").joinpath(f"{name}.toml").read_text(encoding="utf-8")
    return tomllib.loads(text)


def test_the_names_are_the_files() -> None:
    files = {each.name for each in resources.files("collector.profiles").iterdir()}
    found = {each for each in files if each.endswith(".toml")}
    assert {f"{name}.toml" for name in profiles.names()} == found - {"references.toml"}


@pytest.mark.parametrize(("name", "product", "total", "reserved", "watts", "gpus"), CAPTURED)
def test_a_profile_has_what_its_capture_shows(
    name: str, product: str, total: int, reserved: int, watts: float, gpus: int
) -> None:
    profile = profiles.load(name)
    assert profile.gpu.product_name == product
    assert profile.gpu.memory_total_bytes == total * 1024 * 1024
    assert profile.gpu.memory_reserved_bytes == reserved * 1024 * 1024
    assert profile.gpu.power_default_watts == watts
    assert profile.gpus_per_node == gpus
    assert profile.nvlink.links_per_gpu == 18


def test_gb300_as_captured() -> None:
    profile = profiles.load("gb300-nvl72")
    assert profile.driver_version == "580.173.02"
    assert profile.gpu.module_ids == (2, 1, 4, 3)
    assert profile.gpu.pci_bus_ids is not None
    assert profile.gpu.pci_bus_ids[2] == "00000018:06:00.0"
    assert profile.fabric.clique_id == 32766
    assert profile.fabric.health_mask == 0x1AA
    assert profile.module is not None
    assert (profile.module.power_limit_watts, profile.module.gpus) == (2900.0, 2)


def test_what_is_unknown_is_none() -> None:
    assert profiles.load("gb200-nvl72").gpu.pci_bus_ids is None
    assert profiles.load("hgx-b200").gpu.module_ids is None
    assert profiles.load("gb300-nvl72").gpu.burn is None
    assert profiles.load("hgx-h100").module is None
    assert profiles.load("hgx-h100").rack is None


@pytest.mark.parametrize("name", profiles.names())
def test_figures_agree_with_each_other(name: str) -> None:
    profile = profiles.load(name)
    gpu = profile.gpu
    assert 0 < gpu.idle_watts < gpu.power_default_watts <= gpu.power_max_watts
    assert gpu.idle_celsius < gpu.temperature_limit_sum_celsius
    # The signalling rate is a sixteenth above the data rate: 53125 over 50000 MB/s.
    assert profile.nvlink.speed_mb_per_second / (
        profile.nvlink.nominal_bytes_per_second / 1e6
    ) == pytest.approx(1.0625, abs=1e-4)
    assert profile.capabilities.module_power == (profile.module is not None)
    assert profile.fabric.cluster_wide == (profile.rack is not None)
    for ids in (gpu.module_ids, gpu.pci_bus_ids):
        assert ids is None or len(set(ids)) == profile.gpus_per_node
    if profile.module:
        assert profile.module.idle_watts > profile.module.gpus * gpu.idle_watts


@pytest.mark.parametrize(
    ("tray", "slot"),
    # NVIDIA/topograph's NetQ inventory (5/4, 22/12), the GB300 capture (25/15), the ends by derivation.
    [(0, 1), (4, 5), (7, 8), (8, 18), (12, 22), (15, 25), (17, 27)],
)
def test_slots_count_switch_trays(tray: int, slot: int) -> None:
    rack = profiles.load("gb300-nvl72").rack
    assert rack is not None
    assert rack.slot_of_tray(tray) == slot


@pytest.mark.parametrize("tray", [-1, 18])
def test_a_tray_that_does_not_exist_is_refused(tray: int) -> None:
    rack = profiles.load("gb300-nvl72").rack
    assert rack is not None
    with pytest.raises(ConfigurationError, match="0 to 17"):
        rack.slot_of_tray(tray)


def test_an_unknown_name_gets_the_nearest() -> None:
    with pytest.raises(ConfigurationError, match="did you mean 'gb300-nvl72'"):
        profiles.load("gb300")


@pytest.mark.parametrize("name", ["", "nothing-like-it", "../hgx-h100", "hgx-h100.toml"])
def test_an_unknown_name_gets_the_list(name: str) -> None:
    with pytest.raises(ConfigurationError, match="known: gb300-nvl72, gb200-nvl72, hgx-b200"):
        profiles.load(name)


@pytest.mark.parametrize("name", profiles.names())
def test_a_product_leads_to_its_profile(name: str) -> None:
    profile = profiles.load(name)
    assert profiles.for_product_name(profile.gpu.product_name) is profile


@pytest.mark.parametrize("product", ["NVIDIA B200 SXM6", "B200", "NVIDIA GB300 NVL", "nvidia gb300", ""])
def test_a_part_of_a_product_leads_nowhere(product: str) -> None:
    assert profiles.for_product_name(product) is None


def test_an_unknown_key_is_refused_with_the_nearest() -> None:
    table = document()
    table["gpu_per_node"] = 8
    with pytest.raises(
        ConfigurationError, match=r"x\.toml: unknown key 'gpu_per_node'; did you mean 'gpus_p"
    ):
        profiles.parse_profile(table, "x.toml")


def test_an_unknown_key_below_is_refused_with_its_place() -> None:
    table = document()
    table["nvlink"] = {**dict.fromkeys(["generation"], 4), "colour": "green"}
    with pytest.raises(ConfigurationError, match=r"x\.toml: nvlink: unknown key 'colour'"):
        profiles.parse_profile(table, "x.toml")


def test_a_missing_key_is_named() -> None:
    table = document()
    del table["gpus_per_node"]
    with pytest.raises(ConfigurationError, match="'gpus_per_node' is missing"):
        profiles.parse_profile(table, "x.toml")


@pytest.mark.parametrize(
    ("key", "value", "message"),
    [
        ("gpus_per_node", True, "True must be of type int"),
        ("gpus_per_node", 8.0, "8.0 must be of type int"),
        ("title", 3, "3 must be of type str"),
        ("gpu", "H100", "'H100' must be a table"),
        ("rack", 5, "5 must be a table"),
    ],
)
def test_a_value_of_the_wrong_type_is_refused(key: str, value: object, message: str) -> None:
    table = document()
    table[key] = value
    with pytest.raises(ConfigurationError, match=message):
        profiles.parse_profile(table, "x.toml")


@pytest.mark.parametrize(
    ("section", "key", "value", "message"),
    [
        ("capabilities", "platform_info", "some", "'some' must be one of full, partial, none"),
        ("gpu", "module_ids", 7, "7 must be a list"),
        ("gpu", "module_ids", [1, "2"], r"module_ids\[1\]: '2' must be of type int"),
        ("gpu", "idle_watts", "69", "'69' must be of type float"),
    ],
)
def test_a_wrong_value_in_a_section_is_refused(section: str, key: str, value: object, message: str) -> None:
    table = document()
    values = table[section]
    assert isinstance(values, dict)
    values[key] = value
    with pytest.raises(ConfigurationError, match=message):
        profiles.parse_profile(table, "x.toml")


def test_a_profile_cannot_be_changed() -> None:
    with pytest.raises(AttributeError):
        profiles.load("hgx-h100").gpus_per_node = 4  # type: ignore[misc]  # what the test is about

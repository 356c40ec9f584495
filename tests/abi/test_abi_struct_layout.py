"""The structures that pynvml declares in ctypes have the layout of NVIDIA's nvml.h, as gcc lays them out."""

from __future__ import annotations

import ctypes
import json
import subprocess
from pathlib import Path
from typing import Final, NamedTuple

import pynvml
import pytest

from tests.abi.double.build import compile_c

pytestmark = pytest.mark.needs_program("gcc")

# C name → pynvml's name. All that rackwatt reads through.
STRUCTURES: Final = {
    "nvmlFieldValue_t": "c_nvmlFieldValue_t",
    "nvmlMemory_t": "c_nvmlMemory_t",
    "nvmlMemory_v2_t": "c_nvmlMemory_v2_t",
    "nvmlUtilization_t": "c_nvmlUtilization_t",
    "nvmlEventData_t": "c_nvmlEventData_t",
    "nvmlGpuFabricInfo_v2_t": "c_nvmlGpuFabricInfo_v2_t",
    "nvmlGpuFabricInfo_v3_t": "c_nvmlGpuFabricInfo_v3_t",
    "nvmlPlatformInfo_v1_t": "c_nvmlPlatformInfo_v1_t",
    "nvmlPlatformInfo_v2_t": "c_nvmlPlatformInfo_v2_t",
    "nvmlTemperature_v1_t": "c_nvmlTemperature_v1_t",
    "nvmlMarginTemperature_v1_t": "c_nvmlMarginTemperature_v1_t",
    "nvmlPciInfo_t": "nvmlPciInfo_t",
    "nvmlGpmMetric_t": "c_nvmlGpmMetric_t",
    "nvmlGpmMetricsGet_t": "c_nvmlGpmMetricsGet_t",
    "nvmlGpmSupport_t": "c_nvmlGpmSupport_t",
    "nvmlProcessInfo_v2_t": "c_nvmlProcessInfo_v2_t",
    "nvmlProcessInfo_t": "c_nvmlProcessInfo_v3_t",
    "nvmlViolationTime_t": "c_nvmlViolationTime_t",
    "nvmlEccSramErrorStatus_v1_t": "c_nvmlEccSramErrorStatus_v1_t",
    "nvmlRowRemapperHistogramValues_t": "c_nvmlRowRemapperHistogramValues",
}

# Where pynvml differs from nvml.h, and why a reader may live with it: (C size, ctypes size) of the member.
# The state is one byte in C (`typedef unsigned char nvmlGpuFabricState_t`) and c_uint in pynvml, which takes
# in three bytes of padding: mask with 0xFF.
KNOWN_MEMBER_SIZES: Final = {
    ("nvmlGpuFabricInfo_v2_t", "state"): (1, 4),
    ("nvmlGpuFabricInfo_v3_t", "state"): (1, 4),
}

# Members that C has as unsigned bytes and pynvml as c_char: .value stops at a zero, a byte from 0x80 up does
# not decode. Read them from bytes(structure).
CHARACTERS_FOR_BYTES: Final = {
    ("nvmlPlatformInfo_v1_t", name)
    for name in (
        "ibGuid",
        "rackGuid",
        "chassisPhysicalSlotNumber",
        "computeSlotIndex",
        "nodeIndex",
        "peerType",
        "moduleId",
    )
} | {
    ("nvmlPlatformInfo_v2_t", name)
    for name in ("ibGuid", "chassisSerialNumber", "slotNumber", "trayIndex", "hostId", "peerType", "moduleId")
}


class Member(NamedTuple):
    """Where a member of a structure lies."""

    offset: int
    size: int


class Layout(NamedTuple):
    """Size of a structure and place of its members, in bytes, by name."""

    size: int
    members: dict[str, Member]


def ctypes_structure(c_name: str) -> type[ctypes.Structure]:
    structure: type[ctypes.Structure] = getattr(pynvml, STRUCTURES[c_name])
    assert issubclass(structure, ctypes.Structure)
    return structure


def ctypes_layout(structure: type[ctypes.Structure]) -> Layout:
    members = {}
    for declared in structure._fields_:
        descriptor = getattr(structure, declared[0])
        members[declared[0]] = Member(descriptor.offset, descriptor.size)
    return Layout(ctypes.sizeof(structure), members)


def c_program() -> str:
    """A program that prints as JSON what gcc makes of nvml.h; a member that C does not have stops gcc."""
    lines = ["#include <nvml.h>", "#include <stddef.h>", "#include <stdio.h>", 'int main(void) { puts("{");']
    for index, c_name in enumerate(STRUCTURES):
        comma = "," if index else ""
        lines.append(f'printf("{comma}\\"{c_name}\\": [%zu, {{", sizeof({c_name}));')
        for place, declared in enumerate(ctypes_structure(c_name)._fields_):
            member = declared[0]
            lines.append(
                f'printf("{"," if place else ""}\\"{member}\\": [%zu, %zu]", '
                f"offsetof({c_name}, {member}), sizeof((({c_name} *)0)->{member}));"
            )
        lines.append('puts("}]");')
    lines += ['puts("}");', "return 0; }"]
    return "\n".join(lines)


@pytest.fixture(scope="module")
def c_layouts(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Layout]:
    folder: Path = tmp_path_factory.mktemp("layout")
    source = folder / "layout.c"
    source.write_text(c_program(), encoding="ascii")
    program = compile_c([source], folder / "layout")
    printed = subprocess.run([program], capture_output=True, check=True, timeout=30).stdout
    return {
        c_name: Layout(size, {name: Member(*place) for name, place in members.items()})
        for c_name, (size, members) in json.loads(printed).items()
    }


@pytest.mark.parametrize("c_name", STRUCTURES)
def test_sizes_and_offsets_are_those_of_the_header(c_name: str, c_layouts: dict[str, Layout]) -> None:
    real = c_layouts[c_name]
    ours = ctypes_layout(ctypes_structure(c_name))
    assert ours.size == real.size
    for name, member in ours.members.items():
        assert member.offset == real.members[name].offset, name
        expected = KNOWN_MEMBER_SIZES.get((c_name, name), (real.members[name].size,) * 2)
        assert (real.members[name].size, member.size) == expected, name


@pytest.mark.parametrize(
    ("c_name", "size"),
    [  # nvml.h 13.5.37 on 64-bit Linux; literals, because header and binding could drift together
        ("nvmlFieldValue_t", 40),
        ("nvmlMemory_v2_t", 40),
        ("nvmlEventData_t", 32),
        ("nvmlGpuFabricInfo_v2_t", 36),
        ("nvmlGpuFabricInfo_v3_t", 40),
        ("nvmlPlatformInfo_v2_t", 44),
        ("nvmlGpmMetric_t", 40),
        ("nvmlProcessInfo_t", 24),
        ("nvmlViolationTime_t", 16),
    ],
)
def test_sizes_are_the_known_ones(c_name: str, size: int, c_layouts: dict[str, Layout]) -> None:
    assert c_layouts[c_name].size == size


def test_a_field_value_is_four_words_two_timestamps_and_a_union(c_layouts: dict[str, Layout]) -> None:
    # The source decodes whole arrays by this shape rather than by attributes: "IIqqiI8s" in struct's words.
    assert c_layouts["nvmlFieldValue_t"] == Layout(
        40,
        {
            "fieldId": Member(0, 4),
            "scopeId": Member(4, 4),
            "timestamp": Member(8, 8),
            "latencyUsec": Member(16, 8),
            "valueType": Member(24, 4),
            "nvmlReturn": Member(28, 4),
            "value": Member(32, 8),
        },
    )


def is_character(declared: object) -> bool:
    return declared is ctypes.c_char or getattr(declared, "_type_", None) is ctypes.c_char


def test_platform_bytes_are_characters_in_the_binding() -> None:
    found = {
        (c_name, declared[0])
        for c_name in ("nvmlPlatformInfo_v1_t", "nvmlPlatformInfo_v2_t")
        for declared in ctypes_structure(c_name)._fields_
        if is_character(declared[1])
    }
    assert found == CHARACTERS_FOR_BYTES


def test_version_words_of_the_binding_are_those_of_the_header(tmp_path: Path) -> None:
    # NVML_STRUCT_VERSION: size in the low bits, version in the top byte; the driver refuses a wrong word.
    words = {
        "nvmlMemory_v2": pynvml.nvmlMemory_v2,
        "nvmlTemperature_v1": pynvml.nvmlTemperature_v1,
        "nvmlMarginTemperature_v1": pynvml.nvmlMarginTemperature_v1,
        "nvmlPlatformInfo_v2": pynvml.nvmlPlatformInfo_v2,
        "nvmlGpuFabricInfo_v3": pynvml.nvmlGpuFabricInfo_v3,
        "nvmlEccSramErrorStatus_v1": pynvml.nvmlEccSramErrorStatus_v1,
    }
    source = tmp_path / "versions.c"
    source.write_text(
        "#include <nvml.h>\n#include <stdio.h>\nint main(void) {\n"
        + "".join(f'printf("{name} %u\\n", {name});\n' for name in words)
        + "return 0; }\n",
        encoding="ascii",
    )
    program = compile_c([source], tmp_path / "versions")
    printed = subprocess.run([program], capture_output=True, text=True, check=True, timeout=30).stdout
    assert {name: int(word) for name, word in (line.split() for line in printed.splitlines())} == words

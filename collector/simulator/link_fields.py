"""Fields of single NVLinks: state, traffic, errors, bit error ratios.

`scopeId` is the link. Links that the GPU does not have answer INVALID_ARGUMENT although
`NVML_NVLINK_MAX_LINKS` is 36 (TensorRT-LLM issue 17060); a link that is down answers NOT_SUPPORTED for
everything but its state (datadog-agent issue 55945). Units are those of nvml.h 13.5.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Final

from collector.profiles import Profile
from collector.simulator.codes import ALL_LINKS, BER_ZERO, ValueType
from collector.simulator.field_values import INVALID_ARGUMENT, NOT_SUPPORTED, Answer, Field, Reader
from collector.simulator.gpu import SimulatedGpu

_UINT: Final = ValueType.UNSIGNED_INT
_ULL: Final = ValueType.UNSIGNED_LONG_LONG
_KIBIBYTE: Final = 1024

# Payload of an NVLink packet on average: chosen, below the 256 bytes that a packet can carry.
_PACKET_BYTES: Final = 192
# Bytes that one count of the first FEC bin stands for: chosen.
_FEC_BLOCK_BYTES: Final = 34

LinkValue = Callable[[SimulatedGpu, int], int]


def link_fields(profile: Profile) -> dict[int, Field]:
    """Return the NVLink fields of a platform.

    Args:
        profile: The platform.

    Returns:
        Fields by id; what is not among them is not supported.
    """
    nvlink = profile.nvlink
    overhead = nvlink.speed_mb_per_second * 1e6 / nvlink.nominal_bytes_per_second
    fields = {
        138: Field(_ULL, _throughput(SimulatedGpu.transmitted_bytes, 1.0)),
        139: Field(_ULL, _throughput(SimulatedGpu.received_bytes, 1.0)),
        140: Field(_ULL, _throughput(SimulatedGpu.transmitted_bytes, overhead)),
        141: Field(_ULL, _throughput(SimulatedGpu.received_bytes, overhead)),
        164: Field(_UINT, _while_up(lambda gpu, _link: gpu.profile.nvlink.speed_mb_per_second)),
        165: Field(_UINT, _state),
        166: Field(_UINT, _while_up(lambda gpu, _link: gpu.profile.nvlink.version)),
        167: Field(_UINT, _while_up(_zero)),  # high speed
    }
    if profile.capabilities.nvlink4_error_counters:
        fields |= _NVLINK4
    if profile.capabilities.nvlink5_counters:
        fields |= _NVLINK5
    return fields


def _zero(_gpu: SimulatedGpu, _link: int) -> int:
    return 0


def _while_up(value: LinkValue) -> Reader:
    def read(gpu: SimulatedGpu, scope: int) -> Answer:
        if scope in gpu.physics.down_links:
            return NOT_SUPPORTED
        return value(gpu, scope) if scope < gpu.profile.nvlink.links_per_gpu else INVALID_ARGUMENT

    return read


def _throughput(link_bytes: LinkValue, factor: float) -> Reader:
    """Read bytes in KiB, of one link or, with UINT_MAX, of all."""
    one = _while_up(lambda gpu, link: int(link_bytes(gpu, link) * factor) // _KIBIBYTE)

    def read(gpu: SimulatedGpu, scope: int) -> Answer:
        if scope == ALL_LINKS:
            total = sum(link_bytes(gpu, link) for link in range(gpu.profile.nvlink.links_per_gpu))
            return int(total * factor) // _KIBIBYTE
        return one(gpu, scope)

    return read


def _state(gpu: SimulatedGpu, scope: int) -> Answer:
    if scope >= gpu.profile.nvlink.links_per_gpu:
        return INVALID_ARGUMENT
    return int(scope not in gpu.physics.down_links)


def _packets(link_bytes: LinkValue) -> LinkValue:
    return lambda gpu, link: link_bytes(gpu, link) // _PACKET_BYTES


def _fec_bin(position: int) -> LinkValue:
    """Each bin, one more corrected symbol, is 1000 times rarer than the last: chosen."""
    return lambda gpu, link: gpu.received_bytes(link) // (_FEC_BLOCK_BYTES * 1000**position)


# The totals over lanes of older generations succeed with 0 on Hopper (datadog-agent issue 55966).
_NVLINK4: Final[Mapping[int, Field]] = {
    **{field_id: Field(_ULL, _zero) for field_id in (38, 45, 52, 59)},
    90: Field(_UINT, lambda gpu, _scope: gpu.profile.nvlink.speed_mb_per_second),
    161: Field(_ULL, _while_up(_zero)),  # replays
    162: Field(_ULL, _while_up(SimulatedGpu.link_failures)),  # recoveries
    163: Field(_ULL, _while_up(_zero)),  # CRC errors
}
_NVLINK5: Final[Mapping[int, Field]] = {
    201: Field(_ULL, _while_up(_packets(SimulatedGpu.transmitted_bytes))),
    202: Field(_ULL, _while_up(SimulatedGpu.transmitted_bytes)),
    203: Field(_ULL, _while_up(_packets(SimulatedGpu.received_bytes))),
    204: Field(_ULL, _while_up(SimulatedGpu.received_bytes)),
    **{field_id: Field(_ULL, _while_up(_zero)) for field_id in range(206, 213)},  # errors by kind
    213: Field(_ULL, _while_up(_zero)),  # recoveries that succeeded
    214: Field(_ULL, _while_up(SimulatedGpu.link_failures)),  # that failed
    215: Field(_ULL, _while_up(SimulatedGpu.link_failures)),  # all
    219: Field(_ULL, _while_up(_zero)),  # effective errors
    220: Field(_ULL, _while_up(lambda _gpu, _link: BER_ZERO)),
    221: Field(_ULL, _while_up(_zero)),  # symbol errors
    # DCGM fails a Blackwell link whose symbol ratio is above 15e-238, so that a healthy one has none.
    222: Field(_ULL, _while_up(lambda _gpu, _link: BER_ZERO)),
    **{235 + position: Field(_ULL, _while_up(_fec_bin(position))) for position in range(16)},
}

"""NVLink and its fabric: a GPU's sums, its place in the domain, and each link."""

from __future__ import annotations

from collector.catalog.spec import (
    Cadence,
    Codes,
    Decode,
    Encoding,
    Entity,
    FieldBinding,
    GetterBinding,
    Kind,
    Level,
    LinkSum,
    Metric,
    Part,
    Scope,
    Unit,
    ValueType,
    derived,
    reads,
)

_KIB = 1024

_FABRIC_CONDITIONS = (
    "degraded_bandwidth",
    "route_recovery",
    "route_unhealthy",
    "access_timeout",
    "incorrect_configuration",
)
"""Groups of `healthMask` (nvml.h, `NVML_GPU_FABRIC_HEALTH_MASK_*`)."""

FABRIC = (
    Metric(
        name="gpu_fabric_state",
        kind=Kind.STATE,
        value_type=ValueType.INT,
        entity=Entity.GPU,
        level=Level.CORE,
        cadence=Cadence.LINKS,
        help="1 for the state of the GPU's registration with the NVLink fabric.",
        maximum=1,
        label="state",
        codes=Codes(
            encoding=Encoding.ONE_HOT,
            values=((0, "not_supported"), (1, "not_started"), (2, "in_progress"), (3, "completed")),
            bindings=(GetterBinding(function="nvmlDeviceGetGpuFabricInfoV", attribute="state"),),
            source="nvml.h, NVML_GPU_FABRIC_STATE_*",
        ),
    ),
    Metric(
        name="gpu_fabric_condition",
        kind=Kind.GAUGE,
        value_type=ValueType.INT,
        entity=Entity.GPU,
        level=Level.CORE,
        cadence=Cadence.LINKS,
        help="1 while the fabric reports the fault for the GPU, 0 while it denies it.",
        maximum=1,
        label="condition",
        parts=tuple(
            Part(
                value=condition,
                bindings=(GetterBinding(function="nvmlDeviceGetGpuFabricInfoV", attribute=condition),),
            )
            for condition in _FABRIC_CONDITIONS
        ),
    ),
)


def _per_link(field: str, *, multiply: int = 1) -> FieldBinding:
    return FieldBinding(field=field, scope=Scope.EACH_LINK, multiply=multiply)


_LINK_TRANSMITTED = (
    _per_link("NVML_FI_DEV_NVLINK_COUNT_XMIT_BYTES"),
    _per_link("NVML_FI_DEV_NVLINK_THROUGHPUT_DATA_TX", multiply=_KIB),
)
_LINK_RECEIVED = (
    _per_link("NVML_FI_DEV_NVLINK_COUNT_RCV_BYTES"),
    _per_link("NVML_FI_DEV_NVLINK_THROUGHPUT_DATA_RX", multiply=_KIB),
)
"""NVLink 5 counts bytes, NVLink 4 KiB (nvml.h, fields 138, 139, 202, 204)."""

_LINK_ERRORS = tuple(
    _per_link(f"NVML_FI_DEV_NVLINK_{name}")
    for name in (
        "COUNT_MALFORMED_PACKET_ERRORS",
        "COUNT_BUFFER_OVERRUN_ERRORS",
        "COUNT_RCV_ERRORS",
        "COUNT_RCV_REMOTE_ERRORS",
        "COUNT_RCV_GENERAL_ERRORS",
        "COUNT_LOCAL_LINK_INTEGRITY_ERRORS",
        "COUNT_XMIT_DISCARDS",
        "ERROR_DL_REPLAY",
        "ERROR_DL_RECOVERY",
        "ERROR_DL_CRC",
    )
)
"""Error counters of NVLink 5 (206 to 212) and of NVLink 4 (161 to 163); a link has one set or the other."""


def _traffic_sum(name: str, field: str, per_link: tuple[FieldBinding, ...], text: str) -> Metric:
    """Describe a GPU's traffic counter: the driver's own sum, else the sum of its links."""
    return Metric(
        name=f"gpu_nvlink_{name}_bytes_total",
        kind=Kind.COUNTER,
        unit=Unit.BYTES,
        value_type=ValueType.INT,
        entity=Entity.GPU,
        level=Level.CORE,
        cadence=Cadence.FAST,
        help=text,
        parts=reads(
            FieldBinding(field=field, scope=Scope.ALL_LINKS, multiply=_KIB),
            *(LinkSum(fields=(binding,)) for binding in per_link),
        ),
    )


GPU_NVLINK = (
    Metric(
        name="gpu_nvlinks_up",
        kind=Kind.GAUGE,
        value_type=ValueType.INT,
        entity=Entity.GPU,
        level=Level.CORE,
        cadence=Cadence.LINKS,
        help="Links of the GPU that can carry traffic.",
        maximum=64,
        parts=derived(),
    ),
    Metric(
        name="gpu_nvlinks_expected",
        kind=Kind.GAUGE,
        value_type=ValueType.INT,
        entity=Entity.GPU,
        level=Level.CORE,
        cadence=Cadence.LINKS,
        help="Links that the GPU has, as the hardware counts them.",
        maximum=64,
        parts=derived(),
    ),
    _traffic_sum(
        "transmitted",
        "NVML_FI_DEV_NVLINK_THROUGHPUT_DATA_TX",
        _LINK_TRANSMITTED,
        "Payload that the GPU sent over all its links.",
    ),
    _traffic_sum(
        "received",
        "NVML_FI_DEV_NVLINK_THROUGHPUT_DATA_RX",
        _LINK_RECEIVED,
        "Payload that the GPU received over all its links.",
    ),
    Metric(
        name="gpu_nvlink_errors_total",
        kind=Kind.COUNTER,
        value_type=ValueType.INT,
        entity=Entity.GPU,
        level=Level.CORE,
        cadence=Cadence.LINKS,
        help="Sum of the error counters of the GPU's links, as counted in nvlink_errors_total.",
        parts=derived(),
    ),
)


def _link_metric(
    name: str,
    text: str,
    kind: Kind,
    parts: tuple[Part, ...],
    *,
    unit: Unit = Unit.NONE,
    value_type: ValueType = ValueType.INT,
    label: str | None = None,
    maximum: float = float(2**63),
) -> Metric:
    return Metric(
        name=f"nvlink_{name}",
        kind=kind,
        unit=unit,
        value_type=value_type,
        entity=Entity.NVLINK,
        level=Level.STANDARD,
        cadence=Cadence.LINKS,
        help=text,
        label=label,
        parts=parts,
        maximum=maximum,
    )


def _ber(kind: str, field: str) -> Metric:
    return _link_metric(
        f"{kind}_ber_ratio",
        f"Bit error ratio of the link by its {kind} errors; 0 where none were seen.",
        Kind.GAUGE,
        reads(FieldBinding(field=field, scope=Scope.EACH_LINK, decode=Decode.BIT_ERROR_RATIO)),
        unit=Unit.RATIO,
        value_type=ValueType.FLOAT,
        maximum=1,
    )


LINKS = (
    _link_metric(
        "up",
        "1 while the link is active or asleep, 0 while it is inactive or may carry no traffic.",
        Kind.GAUGE,
        reads(
            FieldBinding(
                field="NVML_FI_DEV_NVLINK_GET_STATE", scope=Scope.EACH_LINK, decode=Decode.LINK_STATE
            )
        ),
        maximum=1,
    ),
    _link_metric(
        "transmitted_bytes_total",
        "Payload sent over the link.",
        Kind.COUNTER,
        reads(*_LINK_TRANSMITTED),
        unit=Unit.BYTES,
    ),
    _link_metric(
        "received_bytes_total",
        "Payload received over the link.",
        Kind.COUNTER,
        reads(*_LINK_RECEIVED),
        unit=Unit.BYTES,
    ),
    _link_metric(
        "errors_total",
        "Sum of the link's error counters; their kinds overlap, so growth matters, not the figure.",
        Kind.COUNTER,
        reads(LinkSum(fields=_LINK_ERRORS)),
    ),
    _link_metric(
        "recoveries_total",
        "Times that the link went from up to recovery, by outcome; a failed one took the link down.",
        Kind.COUNTER,
        (
            Part(
                value="succeeded",
                bindings=(_per_link("NVML_FI_DEV_NVLINK_COUNT_LINK_RECOVERY_SUCCESSFUL_EVENTS"),),
            ),
            Part(
                value="failed",
                bindings=(_per_link("NVML_FI_DEV_NVLINK_COUNT_LINK_RECOVERY_FAILED_EVENTS"),),
            ),
        ),
        label="outcome",
    ),
    _ber("effective", "NVML_FI_DEV_NVLINK_COUNT_EFFECTIVE_BER"),
    _ber("symbol", "NVML_FI_DEV_NVLINK_COUNT_SYMBOL_BER"),
)

NVLINK = (*FABRIC, *GPU_NVLINK, *LINKS)

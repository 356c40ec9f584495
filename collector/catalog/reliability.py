"""Errors of a GPU, row remapping, Xids and what the driver asks for."""

from __future__ import annotations

from collector.catalog.spec import (
    Cadence,
    Codes,
    Decode,
    Encoding,
    Entity,
    FieldBinding,
    Kind,
    Level,
    Metric,
    Part,
    Unit,
    ValueType,
    derived,
    reads,
)


def _ecc(name: str, field: str, text: str) -> Metric:
    return Metric(
        name=f"gpu_ecc_{name}_total",
        kind=Kind.COUNTER,
        value_type=ValueType.INT,
        entity=Entity.GPU,
        level=Level.CORE,
        cadence=Cadence.LINKS,
        help=text,
        parts=reads(FieldBinding(field=field)),
    )


def _remap_flag(name: str, field: str, text: str) -> Metric:
    return Metric(
        name=f"gpu_row_remap_{name}",
        kind=Kind.GAUGE,
        value_type=ValueType.INT,
        entity=Entity.GPU,
        level=Level.CORE,
        cadence=Cadence.LINKS,
        help=text,
        maximum=1,
        parts=reads(FieldBinding(field=field, decode=Decode.UNSIGNED_32)),
    )


RELIABILITY = (
    _ecc(
        "corrected",
        "NVML_FI_DEV_ECC_SBE_VOL_TOTAL",
        "Memory errors that ECC corrected, since the driver was loaded.",
    ),
    _ecc(
        "uncorrected",
        "NVML_FI_DEV_ECC_DBE_VOL_TOTAL",
        "Memory errors that ECC could not correct, since the driver was loaded.",
    ),
    _remap_flag(
        "pending",
        "NVML_FI_DEV_REMAPPED_PENDING",
        "1 while memory rows wait for a GPU reset to be remapped.",
    ),
    _remap_flag(
        "failure",
        "NVML_FI_DEV_REMAPPED_FAILURE",
        "1 once a memory row could not be remapped: the GPU needs replacing.",
    ),
    Metric(
        name="gpu_rows_remapped_total",
        kind=Kind.COUNTER,
        value_type=ValueType.INT,
        entity=Entity.GPU,
        level=Level.CORE,
        cadence=Cadence.LINKS,
        help="Memory rows remapped over the GPU's life, by the kind of error that caused it.",
        label="cause",
        parts=(
            Part(
                value="correctable",
                bindings=(FieldBinding(field="NVML_FI_DEV_REMAPPED_COR", decode=Decode.UNSIGNED_32),),
            ),
            Part(
                value="uncorrectable",
                bindings=(FieldBinding(field="NVML_FI_DEV_REMAPPED_UNC", decode=Decode.UNSIGNED_32),),
            ),
        ),
    ),
    Metric(
        name="gpu_recovery_action",
        kind=Kind.STATE,
        value_type=ValueType.INT,
        entity=Entity.GPU,
        level=Level.CORE,
        cadence=Cadence.FAST,
        help="1 for the action that the driver asks for to make the GPU usable again.",
        maximum=1,
        label="action",
        codes=Codes(
            encoding=Encoding.ONE_HOT,
            values=(
                (0, "none"),
                (1, "gpu_reset"),
                (2, "node_reboot"),
                (3, "drain_p2p"),
                (4, "drain_and_reset"),
                (5, "recover_imex_domain"),
                (6, "bus_reset"),
                (7, "system_reboot"),
            ),
            bindings=(FieldBinding(field="NVML_FI_DEV_GET_GPU_RECOVERY_ACTION", decode=Decode.UNSIGNED_32),),
            source="nvml.h, nvmlDeviceGpuRecoveryAction_t",
        ),
    ),
    Metric(
        name="gpu_xid_total",
        kind=Kind.COUNTER,
        value_type=ValueType.INT,
        entity=Entity.GPU,
        level=Level.CORE,
        cadence=Cadence.EVENT,
        help="Xid events seen by this agent, by number; a series begins at 1: alert on the last-seen time.",
        label="xid",
        open_label=True,
        parts=derived(),
    ),
    Metric(
        name="gpu_xid_last_seen_timestamp_seconds",
        kind=Kind.GAUGE,
        unit=Unit.SECONDS,
        value_type=ValueType.FLOAT,
        entity=Entity.GPU,
        level=Level.CORE,
        cadence=Cadence.EVENT,
        help="Unix time at which the Xid was last seen.",
        label="xid",
        open_label=True,
        parts=derived(),
    ),
)

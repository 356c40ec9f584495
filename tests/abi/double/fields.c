/*
 * nvmlDeviceGetFieldValues: one row a field, and a few functions for the fields whose scope or platform decides.
 */
#include "double.h"

#include <limits.h>
#include <string.h>

enum scope { WHOLE_GPU, ONE_LINK, ONE_LINK_OR_SUM };

/* value(i, l) = start + start_per_gpu * i + start_per_link * l
 *             + (rate + rate_per_gpu * i + rate_per_link * l) * t */
struct field {
    unsigned int families; /* 0: no GPU here supports it */
    enum scope scope;
    nvmlValueType_t type;
    unsigned long long start, start_per_gpu, start_per_link;
    unsigned long long rate, rate_per_gpu, rate_per_link;
};

#define U32 NVML_VALUE_TYPE_UNSIGNED_INT
#define U64 NVML_VALUE_TYPE_UNSIGNED_LONG_LONG
#define GPU_COUNT(begin, each) {EVERY_FAMILY, WHOLE_GPU, U64, (begin), (each), 0, 0, 0, 0}
#define GPU_VALUE(begin, each) {EVERY_FAMILY, WHOLE_GPU, U32, (begin), (each), 0, 0, 0, 0}
#define GPU_TIME(rate) {EVERY_FAMILY, WHOLE_GPU, U64, 0, 0, 0, (rate), 0, 0}
#define C2C(value) {BLACKWELL_GRACE, WHOLE_GPU, U32, (value), 0, 0, 0, 0, 0}
#define LINK_VALUE(value) {EVERY_FAMILY, ONE_LINK, U32, (value), 0, 0, 0, 0, 0}
#define LINK_SUM(begin, rate, each_gpu, each_link) \
    {EVERY_FAMILY, ONE_LINK_OR_SUM, U64, (begin), 0, (begin), (rate), (each_gpu), (each_link)}
#define LINK4(begin, each) {HOPPER, ONE_LINK, U64, (begin), 0, (each), 0, 0, 0}
#define LINK5(begin, each) {BLACKWELL, ONE_LINK, U64, (begin), 0, (each), 0, 0, 0}
#define LINK5_FLOW(begin, rate, each_gpu, each_link) \
    {BLACKWELL, ONE_LINK, U64, (begin), 0, (begin), (rate), (each_gpu), (each_link)}

static const struct field FIELDS[NVML_FI_MAX] = {
    [NVML_FI_DEV_ECC_CURRENT] = GPU_VALUE(1, 0),
    [NVML_FI_DEV_ECC_PENDING] = GPU_VALUE(1, 0),
    [NVML_FI_DEV_ECC_SBE_VOL_TOTAL] = GPU_COUNT(12, 1),
    [NVML_FI_DEV_ECC_DBE_VOL_TOTAL] = GPU_COUNT(0, 0),
    [NVML_FI_DEV_ECC_SBE_AGG_TOTAL] = GPU_COUNT(40, 1),
    [NVML_FI_DEV_ECC_DBE_AGG_TOTAL] = GPU_COUNT(1, 0),
    /* On Hopper the totals of the NVLink generations before it are a success that says nothing. */
    [NVML_FI_DEV_NVLINK_CRC_FLIT_ERROR_COUNT_TOTAL] = {HOPPER, WHOLE_GPU, U64, 0, 0, 0, 0, 0, 0},
    [NVML_FI_DEV_NVLINK_CRC_DATA_ERROR_COUNT_TOTAL] = {HOPPER, WHOLE_GPU, U64, 0, 0, 0, 0, 0, 0},
    [NVML_FI_DEV_NVLINK_REPLAY_ERROR_COUNT_TOTAL] = {HOPPER, WHOLE_GPU, U64, 0, 0, 0, 0, 0, 0},
    [NVML_FI_DEV_NVLINK_RECOVERY_ERROR_COUNT_TOTAL] = {HOPPER, WHOLE_GPU, U64, 0, 0, 0, 0, 0, 0},
    [NVML_FI_DEV_PERF_POLICY_POWER] = GPU_TIME(SOFTWARE_POWER_NS_PER_SECOND),
    [NVML_FI_DEV_PERF_POLICY_SYNC_BOOST] = GPU_TIME(0),
    [NVML_FI_DEV_PERF_POLICY_BOARD_LIMIT] = GPU_TIME(BOARD_LIMIT_NS_PER_SECOND),
    [NVML_FI_DEV_PERF_POLICY_RELIABILITY] = GPU_TIME(0),
    [NVML_FI_DEV_MEMORY_TEMP] = GPU_VALUE(48, 1),
    [NVML_FI_DEV_NVLINK_SPEED_MBPS_COMMON] = {HOPPER, WHOLE_GPU, U32, 26562, 0, 0, 0, 0, 0},
    [NVML_FI_DEV_NVLINK_LINK_COUNT] = GPU_VALUE(LINK_COUNT, 0),
    [NVML_FI_DEV_PCIE_REPLAY_COUNTER] = {EVERY_FAMILY, WHOLE_GPU, U32, 150, 1, 0, 1, 0, 0},
    [NVML_FI_DEV_PCIE_REPLAY_ROLLOVER_COUNTER] = GPU_VALUE(0, 0),
    [NVML_FI_DEV_NVLINK_THROUGHPUT_DATA_TX] = LINK_SUM(1000, TRANSMIT, EACH_GPU, EACH_LINK),
    [NVML_FI_DEV_NVLINK_THROUGHPUT_DATA_RX] = LINK_SUM(2000, RECEIVE, EACH_GPU, EACH_LINK),
    [NVML_FI_DEV_NVLINK_THROUGHPUT_RAW_TX] = LINK_SUM(1000, TRANSMIT * 5 / 4, EACH_GPU * 5 / 4, EACH_LINK * 5 / 4),
    [NVML_FI_DEV_NVLINK_THROUGHPUT_RAW_RX] = LINK_SUM(2000, RECEIVE * 5 / 4, EACH_GPU * 5 / 4, EACH_LINK * 5 / 4),
    [NVML_FI_DEV_REMAPPED_COR] = GPU_VALUE(2, 1),
    [NVML_FI_DEV_REMAPPED_UNC] = GPU_VALUE(1, 0),
    [NVML_FI_DEV_REMAPPED_PENDING] = GPU_VALUE(0, 0),
    [NVML_FI_DEV_REMAPPED_FAILURE] = GPU_VALUE(0, 0),
    [NVML_FI_DEV_NVLINK_REMOTE_NVLINK_ID] = {EVERY_FAMILY, ONE_LINK, U32, 0, 4, 1, 0, 0, 0},
    [NVML_FI_DEV_NVSWITCH_CONNECTED_LINK_COUNT] = GPU_VALUE(LINK_COUNT, 0),
    [NVML_FI_DEV_NVLINK_ERROR_DL_REPLAY] = LINK4(3, 1),
    [NVML_FI_DEV_NVLINK_ERROR_DL_RECOVERY] = LINK4(1, 0),
    [NVML_FI_DEV_NVLINK_ERROR_DL_CRC] = LINK4(5, 1),
    [NVML_FI_DEV_NVLINK_GET_STATE] = LINK_VALUE(NVML_NVLINK_STATE_ACTIVE),
    [NVML_FI_DEV_NVLINK_GET_POWER_STATE] = LINK_VALUE(NVML_NVLINK_POWER_STATE_HIGH_SPEED),
    [NVML_FI_DEV_PCIE_L0_TO_RECOVERY_COUNTER] = GPU_VALUE(6, 1),
    [NVML_FI_DEV_C2C_LINK_COUNT] = C2C(10), /* ten links of 44712 MB/s: GH200; nobody published GB300's */
    [NVML_FI_DEV_C2C_LINK_GET_STATUS] = C2C(1),
    [NVML_FI_DEV_C2C_LINK_GET_MAX_BW] = C2C(44712),
    [NVML_FI_DEV_PCIE_COUNT_CORRECTABLE_ERRORS] = GPU_VALUE(21, 0),
    [NVML_FI_DEV_PCIE_COUNT_NAKS_RECEIVED] = GPU_VALUE(22, 0),
    [NVML_FI_DEV_PCIE_COUNT_RECEIVER_ERROR] = GPU_VALUE(23, 0),
    [NVML_FI_DEV_PCIE_COUNT_BAD_TLP] = GPU_VALUE(24, 0),
    [NVML_FI_DEV_PCIE_COUNT_NAKS_SENT] = GPU_VALUE(25, 0),
    [NVML_FI_DEV_PCIE_COUNT_BAD_DLLP] = GPU_VALUE(26, 0),
    [NVML_FI_DEV_PCIE_COUNT_NON_FATAL_ERROR] = GPU_VALUE(27, 0),
    [NVML_FI_DEV_PCIE_COUNT_FATAL_ERROR] = GPU_VALUE(28, 0),
    [NVML_FI_DEV_PCIE_COUNT_UNSUPPORTED_REQ] = GPU_VALUE(29, 0),
    [NVML_FI_DEV_PCIE_COUNT_LCRC_ERROR] = GPU_VALUE(30, 0),
    [NVML_FI_DEV_PCIE_COUNT_LANE_ERROR] = GPU_VALUE(31, 0),
    [NVML_FI_DEV_PCIE_COUNT_TX_BYTES] = {EVERY_FAMILY, WHOLE_GPU, U32, 0, 0, 0, 1000000000, 0, 0},
    [NVML_FI_DEV_PCIE_COUNT_RX_BYTES] = {EVERY_FAMILY, WHOLE_GPU, U32, 0, 0, 0, 2000000000, 0, 0},
    [NVML_FI_DEV_NVLINK_COUNT_XMIT_PACKETS] = LINK5_FLOW(0, 4000000, 40000, 400),
    [NVML_FI_DEV_NVLINK_COUNT_XMIT_BYTES] =
        LINK5_FLOW(1000ULL * 1024, TRANSMIT * 1024ULL, EACH_GPU * 1024ULL, EACH_LINK * 1024ULL),
    [NVML_FI_DEV_NVLINK_COUNT_RCV_PACKETS] = LINK5_FLOW(0, 8000000, 80000, 800),
    [NVML_FI_DEV_NVLINK_COUNT_RCV_BYTES] =
        LINK5_FLOW(2000ULL * 1024, RECEIVE * 1024ULL, EACH_GPU * 1024ULL, EACH_LINK * 1024ULL),
    [NVML_FI_DEV_NVLINK_COUNT_MALFORMED_PACKET_ERRORS] = LINK5(1, 0),
    [NVML_FI_DEV_NVLINK_COUNT_BUFFER_OVERRUN_ERRORS] = LINK5(2, 0),
    [NVML_FI_DEV_NVLINK_COUNT_RCV_ERRORS] = LINK5(3, 0),
    [NVML_FI_DEV_NVLINK_COUNT_RCV_REMOTE_ERRORS] = LINK5(4, 0),
    [NVML_FI_DEV_NVLINK_COUNT_RCV_GENERAL_ERRORS] = LINK5(5, 0),
    [NVML_FI_DEV_NVLINK_COUNT_LOCAL_LINK_INTEGRITY_ERRORS] = LINK5(6, 0),
    [NVML_FI_DEV_NVLINK_COUNT_XMIT_DISCARDS] = LINK5(7, 0),
    [NVML_FI_DEV_NVLINK_COUNT_LINK_RECOVERY_SUCCESSFUL_EVENTS] = LINK5(2, 1),
    [NVML_FI_DEV_NVLINK_COUNT_LINK_RECOVERY_FAILED_EVENTS] = LINK5(1, 0),
    [NVML_FI_DEV_NVLINK_COUNT_LINK_RECOVERY_EVENTS] = LINK5(3, 1),
    [NVML_FI_DEV_NVLINK_COUNT_EFFECTIVE_ERRORS] = LINK5(11, 1),
    [NVML_FI_DEV_NVLINK_COUNT_EFFECTIVE_BER] = LINK5(0xFFF, 0),
    [NVML_FI_DEV_NVLINK_COUNT_SYMBOL_ERRORS] = LINK5(13, 1),
    [NVML_FI_DEV_NVLINK_COUNT_SYMBOL_BER] = LINK5(0x30C, 0),
    [NVML_FI_DEV_GET_GPU_RECOVERY_ACTION] = GPU_VALUE(NVML_GPU_RECOVERY_ACTION_NONE, 0),
    [NVML_FI_DEV_C2C_LINK_ERROR_INTR] = C2C(0),
    [NVML_FI_DEV_C2C_LINK_ERROR_REPLAY] = C2C(0),
    [NVML_FI_DEV_C2C_LINK_ERROR_REPLAY_B2B] = C2C(0),
    [NVML_FI_DEV_C2C_LINK_POWER_STATE] = C2C(NVML_C2C_POWER_STATE_FULL_POWER),
    [NVML_FI_DEV_NVLINK_COUNT_FEC_HISTORY_0] = LINK5(16, 0),
    [NVML_FI_DEV_NVLINK_COUNT_FEC_HISTORY_1] = LINK5(15, 0),
    [NVML_FI_DEV_NVLINK_COUNT_FEC_HISTORY_2] = LINK5(14, 0),
    [NVML_FI_DEV_NVLINK_COUNT_FEC_HISTORY_3] = LINK5(13, 0),
    [NVML_FI_DEV_NVLINK_COUNT_FEC_HISTORY_4] = LINK5(12, 0),
    [NVML_FI_DEV_NVLINK_COUNT_FEC_HISTORY_5] = LINK5(11, 0),
    [NVML_FI_DEV_NVLINK_COUNT_FEC_HISTORY_6] = LINK5(10, 0),
    [NVML_FI_DEV_NVLINK_COUNT_FEC_HISTORY_7] = LINK5(9, 0),
    [NVML_FI_DEV_NVLINK_COUNT_FEC_HISTORY_8] = LINK5(8, 0),
    [NVML_FI_DEV_NVLINK_COUNT_FEC_HISTORY_9] = LINK5(7, 0),
    [NVML_FI_DEV_NVLINK_COUNT_FEC_HISTORY_10] = LINK5(6, 0),
    [NVML_FI_DEV_NVLINK_COUNT_FEC_HISTORY_11] = LINK5(5, 0),
    [NVML_FI_DEV_NVLINK_COUNT_FEC_HISTORY_12] = LINK5(4, 0),
    [NVML_FI_DEV_NVLINK_COUNT_FEC_HISTORY_13] = LINK5(3, 0),
    [NVML_FI_DEV_NVLINK_COUNT_FEC_HISTORY_14] = LINK5(2, 0),
    [NVML_FI_DEV_NVLINK_COUNT_FEC_HISTORY_15] = LINK5(1, 0),
    [NVML_FI_DEV_CLOCKS_EVENT_REASON_SW_THERM_SLOWDOWN] = GPU_TIME(SOFTWARE_THERMAL_NS_PER_SECOND),
    [NVML_FI_DEV_CLOCKS_EVENT_REASON_HW_THERM_SLOWDOWN] = GPU_TIME(0),
    [NVML_FI_DEV_CLOCKS_EVENT_REASON_HW_POWER_BRAKE_SLOWDOWN] = GPU_TIME(POWER_BRAKE_NS_PER_SECOND),
};

static unsigned long long field_at(const struct field *field, const struct nvmlDevice_st *gpu, unsigned int link,
                                   struct instant at)
{
    unsigned long long rate = field->rate + field->rate_per_gpu * gpu->index + field->rate_per_link * link;
    return field->start + field->start_per_gpu * gpu->index + field->start_per_link * link + elapsed(at, rate);
}

static nvmlReturn_t table_field(const struct nvmlDevice_st *gpu, nvmlFieldValue_t *value, struct instant at)
{
    const struct field *field = &FIELDS[value->fieldId];
    if ((field->families & node.platform->family) == 0) {
        return NVML_ERROR_NOT_SUPPORTED;
    }
    unsigned int link = field->scope == WHOLE_GPU ? 0 : value->scopeId;
    unsigned long long number = 0;
    if (field->scope == ONE_LINK_OR_SUM && link == UINT_MAX) {
        for (unsigned int l = 0; l < LINK_COUNT; l++) {
            number += field_at(field, gpu, l, at);
        }
    } else if (link >= LINK_COUNT) {
        return NVML_ERROR_INVALID_ARGUMENT;
    } else {
        number = field_at(field, gpu, link, at);
    }
    value->valueType = field->type;
    if (field->type == NVML_VALUE_TYPE_UNSIGNED_INT) {
        value->value.uiVal = (unsigned int)number; /* the PCIe byte counters wrap here */
    } else {
        value->value.ullVal = number;
    }
    return NVML_SUCCESS;
}

static nvmlReturn_t answer_u32(nvmlFieldValue_t *value, unsigned int number)
{
    value->valueType = NVML_VALUE_TYPE_UNSIGNED_INT;
    value->value.uiVal = number;
    return NVML_SUCCESS;
}

static nvmlReturn_t answer_signed(nvmlFieldValue_t *value, int number)
{
    value->valueType = NVML_VALUE_TYPE_SIGNED_INT;
    value->value.siVal = number;
    return NVML_SUCCESS;
}

static nvmlReturn_t energy_field(nvmlFieldValue_t *value, unsigned int milliwatts, struct instant at)
{
    value->valueType = NVML_VALUE_TYPE_UNSIGNED_LONG_LONG;
    value->value.ullVal = elapsed(at, milliwatts); /* 1 mW for 1 s is 1 mJ */
    return NVML_SUCCESS;
}

/* Power, limits and energy: nvml.h calls scope 2 "GPU base" in a comment and memory in its constants; hardware
 * answers the memory's average there and nothing else. */
static nvmlReturn_t power_field(const struct nvmlDevice_st *gpu, nvmlFieldValue_t *value, struct instant at)
{
    const struct platform *platform = node.platform;
    int module = value->scopeId == NVML_POWER_SCOPE_MODULE;
    if (value->scopeId >= NVML_POWER_SCOPE_COUNT) {
        return NVML_ERROR_INVALID_ARGUMENT;
    }
    if (module && platform->family != BLACKWELL_GRACE) {
        return NVML_ERROR_NOT_SUPPORTED;
    }
    if (value->scopeId == NVML_POWER_SCOPE_MEMORY && value->fieldId == NVML_FI_DEV_POWER_AVERAGE) {
        return answer_u32(value, 86000 + 100 * gpu->index);
    }
    if (value->scopeId > NVML_POWER_SCOPE_MODULE) {
        return NVML_ERROR_NOT_SUPPORTED;
    }
    unsigned int average = module ? module_power_milliwatts(gpu) : gpu_power_milliwatts(gpu);
    switch (value->fieldId) {
    case NVML_FI_DEV_POWER_AVERAGE:
        return answer_u32(value, average);
    case NVML_FI_DEV_POWER_INSTANT:
        return answer_u32(value, average + (module ? 500 : 250));
    case NVML_FI_DEV_ENERGY:
        return energy_field(value, average, at);
    case NVML_FI_DEV_POWER_MIN_LIMIT:
        return answer_u32(value, module ? platform->module_power_min_limit_mw : platform->power_min_limit_mw);
    default:
        return answer_u32(value, module ? platform->module_power_limit_mw : platform->power_limit_mw);
    }
}

static int is_power_smoothing(unsigned int id)
{
    return (id >= NVML_FI_PWR_SMOOTHING_ENABLED && id <= NVML_FI_PWR_SMOOTHING_ADMIN_OVERRIDE_RAMP_DOWN_HYST_VAL) ||
           (id >= NVML_FI_PWR_SMOOTHING_PRIMARY_POWER_FLOOR &&
            id <= NVML_FI_PWR_SMOOTHING_ADMIN_OVERRIDE_PRIMARY_FLOOR_ACT_OFFSET);
}

static nvmlReturn_t answer(const struct nvmlDevice_st *gpu, nvmlFieldValue_t *value, struct instant at)
{
    if (value->fieldId == 0 || value->fieldId >= NVML_FI_MAX) {
        return NVML_ERROR_INVALID_ARGUMENT;
    }
    if (is_power_smoothing(value->fieldId)) {
        return node.platform->family == HOPPER ? NVML_ERROR_NOT_SUPPORTED : NVML_ERROR_NO_PERMISSION;
    }
    switch (value->fieldId) {
    case NVML_FI_DEV_TOTAL_ENERGY_CONSUMPTION:
        return energy_field(value, gpu_power_milliwatts(gpu), at);
    case NVML_FI_DEV_POWER_AVERAGE:
    case NVML_FI_DEV_POWER_INSTANT:
    case NVML_FI_DEV_POWER_MIN_LIMIT:
    case NVML_FI_DEV_POWER_MAX_LIMIT:
    case NVML_FI_DEV_POWER_DEFAULT_LIMIT:
    case NVML_FI_DEV_POWER_CURRENT_LIMIT:
    case NVML_FI_DEV_POWER_REQUESTED_LIMIT:
    case NVML_FI_DEV_ENERGY:
        return power_field(gpu, value, at);
    case NVML_FI_DEV_TEMPERATURE_SHUTDOWN_TLIMIT:
        return answer_signed(value, node.platform->shutdown_margin_celsius);
    case NVML_FI_DEV_TEMPERATURE_SLOWDOWN_TLIMIT:
        return answer_signed(value, node.platform->slowdown_margin_celsius);
    case NVML_FI_DEV_TEMPERATURE_MEM_MAX_TLIMIT:
    case NVML_FI_DEV_TEMPERATURE_GPU_MAX_TLIMIT:
        return answer_signed(value, 0);
    case NVML_FI_DEV_NVLINK_GET_SPEED:
        return value->scopeId < LINK_COUNT ? answer_u32(value, node.platform->nvlink_speed_mbps)
                                           : NVML_ERROR_INVALID_ARGUMENT;
    case NVML_FI_DEV_NVLINK_GET_VERSION:
        return value->scopeId < LINK_COUNT ? answer_u32(value, node.platform->nvlink_version)
                                           : NVML_ERROR_INVALID_ARGUMENT;
    default:
        return table_field(gpu, value, at);
    }
}

nvmlReturn_t nvmlDeviceGetFieldValues(nvmlDevice_t device, int valuesCount, nvmlFieldValue_t *values)
{
    nvmlReturn_t state = check(device, values);
    if (state != NVML_SUCCESS || valuesCount < 1) {
        return state != NVML_SUCCESS ? state : NVML_ERROR_INVALID_ARGUMENT;
    }
    struct instant at = instant_now();
    long long timestamp = (long long)wall_clock_microseconds();
    for (int i = 0; i < valuesCount; i++) {
        nvmlFieldValue_t *value = &values[i];
        value->timestamp = timestamp;
        value->latencyUsec = 1;
        value->nvmlReturn = answer(device, value, at);
        if (value->nvmlReturn != NVML_SUCCESS) {
            memset(&value->value, 0xDE, sizeof value->value);
        }
    }
    return NVML_SUCCESS;
}

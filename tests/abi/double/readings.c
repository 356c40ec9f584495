/*
 * What a GPU does: power, memory, clocks, temperatures and health, by functions of their own.
 */
#include "double.h"

#include <string.h>
#include <unistd.h>

unsigned int gpu_power_milliwatts(const struct nvmlDevice_st *gpu)
{
    return 412300 + 1000 * gpu->index;
}

unsigned int module_power_milliwatts(const struct nvmlDevice_st *gpu)
{
    return 1030000 + 10000 * gpu->module;
}

unsigned int gpu_temperature_celsius(const struct nvmlDevice_st *gpu)
{
    return 58 + gpu->index;
}

static unsigned long long memory_used(const struct nvmlDevice_st *gpu)
{
    return (65536ULL + gpu->index) * MIB;
}

VALUE_GETTER(nvmlDeviceGetPowerUsage, unsigned int, gpu_power_milliwatts(device))
VALUE_GETTER(nvmlDeviceGetPowerManagementLimit, unsigned int, node.platform->power_limit_mw)
VALUE_GETTER(nvmlDeviceGetEnforcedPowerLimit, unsigned int, node.platform->power_limit_mw)
VALUE_GETTER(nvmlDeviceGetCurrentClocksEventReasons, unsigned long long,
             device->index % 2 ? nvmlClocksEventReasonSwPowerCap : nvmlClocksEventReasonNone)
VALUE_GETTER(nvmlDeviceGetPerformanceState, nvmlPstates_t, NVML_PSTATE_0)
VALUE_GETTER(nvmlDeviceGetCurrPcieLinkGeneration, unsigned int, node.platform->pcie_generation)
VALUE_GETTER(nvmlDeviceGetCurrPcieLinkWidth, unsigned int, 16)
VALUE_GETTER(nvmlDeviceGetUtilizationRates, nvmlUtilization_t,
             ((nvmlUtilization_t){80 + device->index, 40 + device->index}))

nvmlReturn_t nvmlDeviceGetFanSpeed(nvmlDevice_t device, unsigned int *speed)
{
    nvmlReturn_t state = check(device, speed);
    return state == NVML_SUCCESS ? NVML_ERROR_NOT_SUPPORTED : state; /* these modules have no fan: N/A */
}

/* Encoder and decoder, idle. */
static nvmlReturn_t idle_engine(nvmlDevice_t device, unsigned int *utilization, unsigned int *samplingPeriodUs)
{
    nvmlReturn_t state = check(device, utilization);
    if (state != NVML_SUCCESS || samplingPeriodUs == NULL) {
        return state != NVML_SUCCESS ? state : NVML_ERROR_INVALID_ARGUMENT;
    }
    *utilization = 0;
    *samplingPeriodUs = 167000;
    return NVML_SUCCESS;
}

nvmlReturn_t nvmlDeviceGetEncoderUtilization(nvmlDevice_t device, unsigned int *utilization,
                                             unsigned int *samplingPeriodUs)
{
    return idle_engine(device, utilization, samplingPeriodUs);
}

nvmlReturn_t nvmlDeviceGetDecoderUtilization(nvmlDevice_t device, unsigned int *utilization,
                                             unsigned int *samplingPeriodUs)
{
    return idle_engine(device, utilization, samplingPeriodUs);
}

/* A real driver blocks 20 ms here; the double answers at once, to the advantage of whoever calls it. */
nvmlReturn_t nvmlDeviceGetPcieThroughput(nvmlDevice_t device, nvmlPcieUtilCounter_t counter, unsigned int *value)
{
    nvmlReturn_t state = check(device, value);
    if (state != NVML_SUCCESS || counter >= NVML_PCIE_UTIL_COUNT) {
        return state != NVML_SUCCESS ? state : NVML_ERROR_INVALID_ARGUMENT;
    }
    *value = counter == NVML_PCIE_UTIL_TX_BYTES ? 976562 : 1953125; /* KB/s: 1e9 and 2e9 bytes a second */
    return NVML_SUCCESS;
}

nvmlReturn_t nvmlDeviceGetMemoryInfo_v2(nvmlDevice_t device, nvmlMemory_v2_t *memory)
{
    nvmlReturn_t state = check(device, memory);
    if (state != NVML_SUCCESS) {
        return state;
    }
    if (memory->version != nvmlMemory_v2) {
        return NVML_ERROR_ARGUMENT_VERSION_MISMATCH;
    }
    memory->total = node.platform->memory_total_mib * MIB;
    memory->reserved = node.platform->memory_reserved_mib * MIB;
    memory->used = memory_used(device);
    memory->free = memory->total - memory->reserved - memory->used;
    return NVML_SUCCESS;
}

/* The first version counts what is reserved as used. */
nvmlReturn_t nvmlDeviceGetMemoryInfo(nvmlDevice_t device, nvmlMemory_t *memory)
{
    nvmlReturn_t state = check(device, memory);
    if (state == NVML_SUCCESS) {
        memory->total = node.platform->memory_total_mib * MIB;
        memory->used = memory_used(device) + node.platform->memory_reserved_mib * MIB;
        memory->free = memory->total - memory->used;
    }
    return state;
}

nvmlReturn_t nvmlDeviceGetBAR1MemoryInfo(nvmlDevice_t device, nvmlBAR1Memory_t *bar1Memory)
{
    nvmlReturn_t state = check(device, bar1Memory);
    if (state == NVML_SUCCESS) {
        bar1Memory->bar1Total = node.platform->bar1_mib * MIB;
        bar1Memory->bar1Used = MIB;
        bar1Memory->bar1Free = bar1Memory->bar1Total - bar1Memory->bar1Used;
    }
    return state;
}

nvmlReturn_t nvmlDeviceGetMaxClockInfo(nvmlDevice_t device, nvmlClockType_t type, unsigned int *clock)
{
    nvmlReturn_t state = check(device, clock);
    if (state != NVML_SUCCESS || type >= NVML_CLOCK_COUNT) {
        return state != NVML_SUCCESS ? state : NVML_ERROR_INVALID_ARGUMENT;
    }
    *clock = type == NVML_CLOCK_MEM     ? node.platform->memory_clock_mhz
             : type == NVML_CLOCK_VIDEO ? node.platform->video_clock_max_mhz
                                        : node.platform->sm_clock_max_mhz;
    return NVML_SUCCESS;
}

nvmlReturn_t nvmlDeviceGetClockInfo(nvmlDevice_t device, nvmlClockType_t type, unsigned int *clock)
{
    nvmlReturn_t state = check(device, clock);
    if (state != NVML_SUCCESS || type >= NVML_CLOCK_COUNT) {
        return state != NVML_SUCCESS ? state : NVML_ERROR_INVALID_ARGUMENT;
    }
    *clock = type == NVML_CLOCK_MEM     ? node.platform->memory_clock_mhz
             : type == NVML_CLOCK_VIDEO ? 1200
                                        : 1500 + 15 * device->index;
    return NVML_SUCCESS;
}

nvmlReturn_t nvmlDeviceGetTemperatureV(nvmlDevice_t device, nvmlTemperature_t *temperature)
{
    nvmlReturn_t state = check(device, temperature);
    if (state != NVML_SUCCESS) {
        return state;
    }
    if (temperature->version != nvmlTemperature_v1) {
        return NVML_ERROR_ARGUMENT_VERSION_MISMATCH;
    }
    if (temperature->sensorType != NVML_TEMPERATURE_GPU) {
        return NVML_ERROR_INVALID_ARGUMENT;
    }
    temperature->temperature = (int)gpu_temperature_celsius(device);
    return NVML_SUCCESS;
}

nvmlReturn_t nvmlDeviceGetTemperature(nvmlDevice_t device, nvmlTemperatureSensors_t sensorType, unsigned int *temp)
{
    nvmlReturn_t state = check(device, temp);
    if (state != NVML_SUCCESS || sensorType != NVML_TEMPERATURE_GPU) {
        return state != NVML_SUCCESS ? state : NVML_ERROR_INVALID_ARGUMENT;
    }
    *temp = gpu_temperature_celsius(device);
    return NVML_SUCCESS;
}

nvmlReturn_t nvmlDeviceGetMarginTemperature(nvmlDevice_t device, nvmlMarginTemperature_t *marginTempInfo)
{
    nvmlReturn_t state = check(device, marginTempInfo);
    if (state != NVML_SUCCESS) {
        return state;
    }
    if (marginTempInfo->version != nvmlMarginTemperature_v1) {
        return NVML_ERROR_ARGUMENT_VERSION_MISMATCH;
    }
    marginTempInfo->marginTemperature = 87 - (int)gpu_temperature_celsius(device); /* the sum is 87 in captures */
    return NVML_SUCCESS;
}

nvmlReturn_t nvmlDeviceGetViolationStatus(nvmlDevice_t device, nvmlPerfPolicyType_t perfPolicyType,
                                          nvmlViolationTime_t *violTime)
{
    nvmlReturn_t state = check(device, violTime);
    if (state != NVML_SUCCESS) {
        return state;
    }
    unsigned long long rate = perfPolicyType == NVML_PERF_POLICY_POWER         ? SOFTWARE_POWER_NS_PER_SECOND
                              : perfPolicyType == NVML_PERF_POLICY_THERMAL     ? SOFTWARE_THERMAL_NS_PER_SECOND
                              : perfPolicyType == NVML_PERF_POLICY_BOARD_LIMIT ? BOARD_LIMIT_NS_PER_SECOND
                                                                               : 0;
    violTime->referenceTime = wall_clock_microseconds();
    violTime->violationTime = elapsed(instant_now(), rate);
    return NVML_SUCCESS;
}

nvmlReturn_t nvmlDeviceGetEccMode(nvmlDevice_t device, nvmlEnableState_t *current, nvmlEnableState_t *pending)
{
    nvmlReturn_t state = check(device, current);
    if (state != NVML_SUCCESS || pending == NULL) {
        return state != NVML_SUCCESS ? state : NVML_ERROR_INVALID_ARGUMENT;
    }
    *current = *pending = NVML_FEATURE_ENABLED;
    return NVML_SUCCESS;
}

nvmlReturn_t nvmlDeviceGetTotalEccErrors(nvmlDevice_t device, nvmlMemoryErrorType_t errorType,
                                         nvmlEccCounterType_t counterType, unsigned long long *eccCounts)
{
    nvmlReturn_t state = check(device, eccCounts);
    if (state != NVML_SUCCESS) {
        return state;
    }
    int is_volatile = counterType == NVML_VOLATILE_ECC;
    *eccCounts = errorType == NVML_MEMORY_ERROR_TYPE_CORRECTED ? (is_volatile ? 12U : 40U) + device->index
                                                               : (is_volatile ? 0U : 1U);
    return NVML_SUCCESS;
}

nvmlReturn_t nvmlDeviceGetSramEccErrorStatus(nvmlDevice_t device, nvmlEccSramErrorStatus_t *status)
{
    nvmlReturn_t state = check(device, status);
    if (state != NVML_SUCCESS) {
        return state;
    }
    if (status->version != nvmlEccSramErrorStatus_v1) {
        return NVML_ERROR_ARGUMENT_VERSION_MISMATCH;
    }
    if (geteuid() != 0) {
        return NVML_ERROR_NO_PERMISSION;
    }
    memset(status, 0, sizeof *status);
    status->version = nvmlEccSramErrorStatus_v1;
    status->aggregateCor = 9;
    status->volatileCor = 4;
    return NVML_SUCCESS;
}

nvmlReturn_t nvmlDeviceGetRemappedRows(nvmlDevice_t device, unsigned int *corrRows, unsigned int *uncRows,
                                       unsigned int *isPending, unsigned int *failureOccurred)
{
    nvmlReturn_t state = check(device, corrRows);
    if (state != NVML_SUCCESS) {
        return state;
    }
    if (uncRows == NULL || isPending == NULL || failureOccurred == NULL) {
        return NVML_ERROR_INVALID_ARGUMENT;
    }
    *corrRows = 2 + device->index;
    *uncRows = 1;
    *isPending = *failureOccurred = 0;
    return NVML_SUCCESS;
}

VALUE_GETTER(nvmlDeviceGetRemappedRows_v2, nvmlRemappedRowsInfo_v2_t,
             ((nvmlRemappedRowsInfo_v2_t){.corrActiveRemaps = 2 + device->index, .uncActiveRemaps = 1}))
VALUE_GETTER(nvmlDeviceGetRowRemapperHistogram, nvmlRowRemapperHistogramValues_t,
             ((nvmlRowRemapperHistogramValues_t){.max = node.platform->row_remap_banks - 3, .high = 3}))

nvmlReturn_t nvmlDeviceGetRepairStatus(nvmlDevice_t device, nvmlRepairStatus_t *repairStatus)
{
    nvmlReturn_t state = check(device, repairStatus);
    if (state != NVML_SUCCESS) {
        return state;
    }
    if (repairStatus->version != nvmlRepairStatus_v1) {
        return NVML_ERROR_ARGUMENT_VERSION_MISMATCH;
    }
    repairStatus->bChannelRepairPending = repairStatus->bTpcRepairPending = 0;
    return NVML_SUCCESS;
}

nvmlReturn_t nvmlDeviceGetUnrepairableMemoryFlag_v1(nvmlDevice_t device,
                                                    nvmlUnrepairableMemoryStatus_v1_t *unrepairableMemoryStatus)
{
    nvmlReturn_t state = check(device, unrepairableMemoryStatus);
    if (state != NVML_SUCCESS) {
        return state;
    }
    if (node.platform->family != BLACKWELL_GRACE) {
        return NVML_ERROR_NOT_SUPPORTED; /* missing in the captures of driver 580.105.08 */
    }
    unrepairableMemoryStatus->bUnrepairableMemory = 0;
    return NVML_SUCCESS;
}

nvmlReturn_t nvmlDeviceWorkloadPowerProfileGetCurrentProfiles(
    nvmlDevice_t device, nvmlWorkloadPowerProfileCurrentProfiles_t *currentProfiles)
{
    nvmlReturn_t state = check(device, currentProfiles);
    return state == NVML_SUCCESS ? NVML_ERROR_NOT_SUPPORTED : state; /* N/A in every capture */
}

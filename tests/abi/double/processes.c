/*
 * Processes: one compute process on each GPU, the caller itself, so that it lives and may be looked at.
 */
#include "double.h"

#include <unistd.h>

static nvmlProcessInfo_t own_process(const struct nvmlDevice_st *gpu)
{
    return (nvmlProcessInfo_t){
        .pid = (unsigned int)getpid(),
        .usedGpuMemory = (1024ULL + gpu->index) * MIB,
        .gpuInstanceId = 0xFFFFFFFF,
        .computeInstanceId = 0xFFFFFFFF,
    };
}

nvmlReturn_t nvmlDeviceGetComputeRunningProcesses_v3(nvmlDevice_t device, unsigned int *infoCount,
                                                     nvmlProcessInfo_t *infos)
{
    nvmlReturn_t state = check(device, infoCount);
    if (state != NVML_SUCCESS) {
        return state;
    }
    unsigned int room = *infoCount;
    *infoCount = 1;
    if (room < 1 || infos == NULL) {
        return NVML_ERROR_INSUFFICIENT_SIZE;
    }
    infos[0] = own_process(device);
    return NVML_SUCCESS;
}

static nvmlReturn_t no_processes(nvmlDevice_t device, unsigned int *infoCount)
{
    nvmlReturn_t state = check(device, infoCount);
    if (state == NVML_SUCCESS) {
        *infoCount = 0;
    }
    return state;
}

nvmlReturn_t nvmlDeviceGetGraphicsRunningProcesses_v3(nvmlDevice_t device, unsigned int *infoCount,
                                                      nvmlProcessInfo_t *infos)
{
    (void)infos;
    return no_processes(device, infoCount);
}

nvmlReturn_t nvmlDeviceGetMPSComputeRunningProcesses_v3(nvmlDevice_t device, unsigned int *infoCount,
                                                        nvmlProcessInfo_t *infos)
{
    (void)infos;
    return no_processes(device, infoCount);
}

nvmlReturn_t nvmlDeviceGetProcessUtilization(nvmlDevice_t device, nvmlProcessUtilizationSample_t *utilization,
                                             unsigned int *processSamplesCount, unsigned long long lastSeenTimeStamp)
{
    (void)lastSeenTimeStamp;
    nvmlReturn_t state = check(device, processSamplesCount);
    if (state != NVML_SUCCESS) {
        return state;
    }
    unsigned int room = *processSamplesCount;
    *processSamplesCount = 1;
    if (room < 1 || utilization == NULL) {
        return NVML_ERROR_INSUFFICIENT_SIZE;
    }
    utilization[0] = (nvmlProcessUtilizationSample_t){
        .pid = (unsigned int)getpid(),
        .timeStamp = wall_clock_microseconds(),
        .smUtil = 80 + device->index,
        .memUtil = 40 + device->index,
    };
    return NVML_SUCCESS;
}

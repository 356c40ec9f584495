/*
 * GPM: two samples at least 100 ms apart, and the metrics between them.
 *
 *   metric                                value                                          unit
 *   1 graphics, 2 SM, 3 occupancy         85.5, 72.25 + i, 31.5                          %
 *   5 any tensor, 7 HMMA, 10 DRAM         44.125, 40.5, 52.5                             %
 *   4, 6, 8, 9, 11, 12, 13 pipes          0.25 times the id                              %
 *   20 / 21 PCIe TX / RX                  100.5 + i / 200.25 + i                         MiB/s
 *   60 / 61 NVLink RX / TX                the rates of fields 139 / 138, summed          MiB/s
 *   62 + 2 l / 63 + 2 l link RX / TX      the same of link l                             MiB/s
 *   100 ... 103 C2C                       gb300 only: 1000 + id                          MiB/s
 *
 * Everything else is not supported; its value is NaN, which must not pass for a reading either.
 */
#include "double.h"

#include <math.h>
#include <stdlib.h>

struct nvmlGpmSample_st {
    nvmlDevice_t device; /* NULL until the first sample */
    struct instant at;
};

enum { REFRESH_NS = 100000000 }; /* nvml.h: samples should be more than 100 ms apart */

nvmlReturn_t nvmlGpmQueryDeviceSupport(nvmlDevice_t device, nvmlGpmSupport_t *gpmSupport)
{
    nvmlReturn_t state = check(device, gpmSupport);
    if (state != NVML_SUCCESS) {
        return state;
    }
    if (gpmSupport->version != NVML_GPM_SUPPORT_VERSION) {
        return NVML_ERROR_ARGUMENT_VERSION_MISMATCH;
    }
    gpmSupport->isSupportedDevice = 1;
    return NVML_SUCCESS;
}

nvmlReturn_t nvmlGpmSampleAlloc(nvmlGpmSample_t *gpmSample)
{
    if (node.users == 0 || gpmSample == NULL) {
        return node.users == 0 ? NVML_ERROR_UNINITIALIZED : NVML_ERROR_INVALID_ARGUMENT;
    }
    *gpmSample = calloc(1, sizeof **gpmSample);
    return *gpmSample == NULL ? NVML_ERROR_MEMORY : NVML_SUCCESS;
}

nvmlReturn_t nvmlGpmSampleFree(nvmlGpmSample_t gpmSample)
{
    if (node.users == 0 || gpmSample == NULL) {
        return node.users == 0 ? NVML_ERROR_UNINITIALIZED : NVML_ERROR_INVALID_ARGUMENT;
    }
    free(gpmSample);
    return NVML_SUCCESS;
}

nvmlReturn_t nvmlGpmSampleGet(nvmlDevice_t device, nvmlGpmSample_t gpmSample)
{
    nvmlReturn_t state = check(device, gpmSample);
    if (state == NVML_SUCCESS) {
        gpmSample->device = device;
        gpmSample->at = instant_now();
    }
    return state;
}

nvmlReturn_t nvmlGpmMigSampleGet(nvmlDevice_t device, unsigned int gpuInstanceId, nvmlGpmSample_t gpmSample)
{
    (void)gpuInstanceId;
    nvmlReturn_t state = check(device, gpmSample);
    return state == NVML_SUCCESS ? NVML_ERROR_NOT_SUPPORTED : state; /* MIG is off */
}

static double link_mib_per_second(const struct nvmlDevice_st *gpu, unsigned int link, int base)
{
    return (double)(base + EACH_GPU * (int)gpu->index + EACH_LINK * (int)link) / 1024;
}

static double links_mib_per_second(const struct nvmlDevice_st *gpu, int base)
{
    double sum = 0;
    for (unsigned int link = 0; link < LINK_COUNT; link++) {
        sum += link_mib_per_second(gpu, link, base);
    }
    return sum;
}

static double metric_value(const struct nvmlDevice_st *gpu, unsigned int id)
{
    switch (id) {
    case NVML_GPM_METRIC_GRAPHICS_UTIL:
        return 85.5;
    case NVML_GPM_METRIC_SM_UTIL:
        return 72.25 + gpu->index;
    case NVML_GPM_METRIC_SM_OCCUPANCY:
        return 31.5;
    case NVML_GPM_METRIC_ANY_TENSOR_UTIL:
        return 44.125;
    case NVML_GPM_METRIC_HMMA_TENSOR_UTIL:
        return 40.5;
    case NVML_GPM_METRIC_DRAM_BW_UTIL:
        return 52.5;
    case NVML_GPM_METRIC_INTEGER_UTIL:
    case NVML_GPM_METRIC_DFMA_TENSOR_UTIL:
    case NVML_GPM_METRIC_DMMA_TENSOR_UTIL:
    case NVML_GPM_METRIC_IMMA_TENSOR_UTIL:
    case NVML_GPM_METRIC_FP64_UTIL:
    case NVML_GPM_METRIC_FP32_UTIL:
    case NVML_GPM_METRIC_FP16_UTIL:
        return 0.25 * id;
    case NVML_GPM_METRIC_PCIE_TX_PER_SEC:
        return 100.5 + gpu->index;
    case NVML_GPM_METRIC_PCIE_RX_PER_SEC:
        return 200.25 + gpu->index;
    case NVML_GPM_METRIC_NVLINK_TOTAL_RX_PER_SEC:
        return links_mib_per_second(gpu, RECEIVE);
    case NVML_GPM_METRIC_NVLINK_TOTAL_TX_PER_SEC:
        return links_mib_per_second(gpu, TRANSMIT);
    default:
        break;
    }
    if (id >= NVML_GPM_METRIC_NVLINK_L0_RX_PER_SEC && id <= NVML_GPM_METRIC_NVLINK_L17_TX_PER_SEC) {
        unsigned int place = id - NVML_GPM_METRIC_NVLINK_L0_RX_PER_SEC; /* RX and TX take turns */
        return link_mib_per_second(gpu, place / 2, place % 2 == 0 ? RECEIVE : TRANSMIT);
    }
    if (node.platform->family == BLACKWELL_GRACE && id >= NVML_GPM_METRIC_C2C_TOTAL_TX_PER_SEC &&
        id <= NVML_GPM_METRIC_C2C_DATA_RX_PER_SEC) {
        return 1000.0 + id;
    }
    return NAN;
}

static int far_enough(struct instant earlier, struct instant later)
{
    unsigned long long from = earlier.seconds * 1000000000ULL + earlier.nanoseconds;
    unsigned long long to = later.seconds * 1000000000ULL + later.nanoseconds;
    return to > from && to - from > REFRESH_NS;
}

nvmlReturn_t nvmlGpmMetricsGet(nvmlGpmMetricsGet_t *metricsGet)
{
    if (node.users == 0) {
        return NVML_ERROR_UNINITIALIZED;
    }
    if (metricsGet == NULL || metricsGet->sample1 == NULL || metricsGet->sample2 == NULL ||
        metricsGet->numMetrics < 1 || metricsGet->numMetrics > NVML_GPM_METRIC_MAX) {
        return NVML_ERROR_INVALID_ARGUMENT;
    }
    if (metricsGet->version != NVML_GPM_METRICS_GET_VERSION) {
        return NVML_ERROR_ARGUMENT_VERSION_MISMATCH;
    }
    const struct nvmlGpmSample_st *first = metricsGet->sample1, *second = metricsGet->sample2;
    if (first->device == NULL || first->device != second->device || !far_enough(first->at, second->at)) {
        return NVML_ERROR_INVALID_ARGUMENT;
    }
    for (unsigned int i = 0; i < metricsGet->numMetrics; i++) {
        nvmlGpmMetric_t *metric = &metricsGet->metrics[i];
        metric->value = metric_value(first->device, metric->metricId);
        metric->nvmlReturn = isnan(metric->value) ? NVML_ERROR_NOT_SUPPORTED : NVML_SUCCESS;
        metric->metricInfo.shortName = metric->metricInfo.longName = metric->metricInfo.unit = NULL;
    }
    return NVML_SUCCESS;
}

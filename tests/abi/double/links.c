/*
 * The links, by functions of their own rather than by fields.
 */
#include "double.h"

#include <string.h>

static nvmlReturn_t check_link(nvmlDevice_t device, unsigned int link, const void *out)
{
    nvmlReturn_t state = check(device, out);
    return state == NVML_SUCCESS && link >= LINK_COUNT ? NVML_ERROR_INVALID_ARGUMENT : state;
}

#define LINK_GETTER(function, type, value)                                    \
    nvmlReturn_t function(nvmlDevice_t device, unsigned int link, type *out)  \
    {                                                                         \
        nvmlReturn_t state = check_link(device, link, out);                   \
        if (state == NVML_SUCCESS) {                                          \
            *out = (value);                                                   \
        }                                                                     \
        return state;                                                         \
    }

LINK_GETTER(nvmlDeviceGetNvLinkState, nvmlEnableState_t, NVML_FEATURE_ENABLED)
LINK_GETTER(nvmlDeviceGetNvLinkVersion, unsigned int, node.platform->nvlink_version)
LINK_GETTER(nvmlDeviceGetNvLinkRemoteDeviceType, nvmlIntNvLinkDeviceType_t, NVML_NVLINK_DEVICE_TYPE_SWITCH)

nvmlReturn_t nvmlDeviceGetNvLinkErrorCounter(nvmlDevice_t device, unsigned int link, nvmlNvLinkErrorCounter_t counter,
                                             unsigned long long *counterValue)
{
    nvmlReturn_t state = check_link(device, link, counterValue);
    if (state != NVML_SUCCESS || counter >= NVML_NVLINK_ERROR_COUNT) {
        return state != NVML_SUCCESS ? state : NVML_ERROR_INVALID_ARGUMENT;
    }
    if (node.platform->family != HOPPER) {
        return NVML_ERROR_NOT_SUPPORTED;
    }
    *counterValue = 0;
    return NVML_SUCCESS;
}

nvmlReturn_t nvmlDeviceGetNvLinkInfo(nvmlDevice_t device, nvmlNvLinkInfo_t *info)
{
    nvmlReturn_t state = check(device, info);
    if (state != NVML_SUCCESS) {
        return state;
    }
    if (info->version != nvmlNvLinkInfo_v1 && info->version != nvmlNvLinkInfo_v2) {
        return NVML_ERROR_ARGUMENT_VERSION_MISMATCH;
    }
    info->isNvleEnabled = 0;
    if (info->version == nvmlNvLinkInfo_v2) {
        memset(&info->firmwareInfo, 0, sizeof info->firmwareInfo);
    }
    return NVML_SUCCESS;
}

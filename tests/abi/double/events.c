/*
 * Events: sets that stay silent, but for the one Xid that RACKWATT_DOUBLE_XID asks for.
 */
#include "double.h"

#include <errno.h>
#include <stdlib.h>
#include <time.h>

struct nvmlEventSet_st {
    unsigned long long types[MAX_GPUS];
};

struct nvmlSystemEventSet_st {
    unsigned long long types;
};

enum { SUPPORTED_EVENTS = 0x801F }; /* ECC single and double, PState, Xid, clock, recovery action (nvml.h) */

static nvmlReturn_t wait_in_vain(unsigned int milliseconds)
{
    struct timespec left = {milliseconds / 1000, (long)(milliseconds % 1000) * 1000000L};
    while (milliseconds > 0 && nanosleep(&left, &left) != 0 && errno == EINTR) {
    }
    return NVML_ERROR_TIMEOUT;
}

nvmlReturn_t nvmlDeviceGetSupportedEventTypes(nvmlDevice_t device, unsigned long long *eventTypes)
{
    nvmlReturn_t state = check(device, eventTypes);
    if (state == NVML_SUCCESS) {
        *eventTypes = SUPPORTED_EVENTS;
    }
    return state;
}

nvmlReturn_t nvmlEventSetCreate(nvmlEventSet_t *set)
{
    if (node.users == 0 || set == NULL) {
        return node.users == 0 ? NVML_ERROR_UNINITIALIZED : NVML_ERROR_INVALID_ARGUMENT;
    }
    *set = calloc(1, sizeof **set);
    return *set == NULL ? NVML_ERROR_MEMORY : NVML_SUCCESS;
}

nvmlReturn_t nvmlDeviceRegisterEvents(nvmlDevice_t device, unsigned long long eventTypes, nvmlEventSet_t set)
{
    nvmlReturn_t state = check(device, set);
    if (state != NVML_SUCCESS) {
        return state;
    }
    if ((eventTypes & ~(unsigned long long)SUPPORTED_EVENTS) != 0) {
        return NVML_ERROR_NOT_SUPPORTED;
    }
    set->types[device->index] |= eventTypes;
    return NVML_SUCCESS;
}

nvmlReturn_t nvmlEventSetWait_v2(nvmlEventSet_t set, nvmlEventData_t *data, unsigned int timeoutms)
{
    if (node.users == 0 || set == NULL || data == NULL) {
        return node.users == 0 ? NVML_ERROR_UNINITIALIZED : NVML_ERROR_INVALID_ARGUMENT;
    }
    if (node.pending_xid == 0 || (set->types[0] & nvmlEventTypeXidCriticalError) == 0) {
        return wait_in_vain(timeoutms);
    }
    *data = (nvmlEventData_t){
        .device = &node.gpus[0],
        .eventType = nvmlEventTypeXidCriticalError,
        .eventData = node.pending_xid,
        .gpuInstanceId = 0xFFFFFFFF,
        .computeInstanceId = 0xFFFFFFFF,
    };
    node.pending_xid = 0;
    return NVML_SUCCESS;
}

nvmlReturn_t nvmlEventSetFree(nvmlEventSet_t set)
{
    if (node.users == 0 || set == NULL) {
        return node.users == 0 ? NVML_ERROR_UNINITIALIZED : NVML_ERROR_INVALID_ARGUMENT;
    }
    free(set);
    return NVML_SUCCESS;
}

/* System events: binding and unbinding of GPUs, which never happens here. */

static nvmlReturn_t check_request(const void *request, unsigned int version, unsigned int right_version)
{
    if (node.users == 0) {
        return NVML_ERROR_UNINITIALIZED;
    }
    if (request == NULL) {
        return NVML_ERROR_INVALID_ARGUMENT;
    }
    return version == right_version ? NVML_SUCCESS : NVML_ERROR_ARGUMENT_VERSION_MISMATCH;
}

nvmlReturn_t nvmlSystemEventSetCreate(nvmlSystemEventSetCreateRequest_t *request)
{
    nvmlReturn_t state =
        check_request(request, request == NULL ? 0 : request->version, nvmlSystemEventSetCreateRequest_v1);
    if (state != NVML_SUCCESS) {
        return state;
    }
    request->set = calloc(1, sizeof *request->set);
    return request->set == NULL ? NVML_ERROR_MEMORY : NVML_SUCCESS;
}

nvmlReturn_t nvmlSystemRegisterEvents(nvmlSystemRegisterEventRequest_t *request)
{
    nvmlReturn_t state =
        check_request(request, request == NULL ? 0 : request->version, nvmlSystemRegisterEventRequest_v1);
    if (state != NVML_SUCCESS || request->set == NULL) {
        return state != NVML_SUCCESS ? state : NVML_ERROR_INVALID_ARGUMENT;
    }
    request->set->types |= request->eventTypes;
    return NVML_SUCCESS;
}

nvmlReturn_t nvmlSystemEventSetWait(nvmlSystemEventSetWaitRequest_t *request)
{
    nvmlReturn_t state =
        check_request(request, request == NULL ? 0 : request->version, nvmlSystemEventSetWaitRequest_v1);
    if (state != NVML_SUCCESS || request->set == NULL) {
        return state != NVML_SUCCESS ? state : NVML_ERROR_INVALID_ARGUMENT;
    }
    request->numEvent = 0;
    return wait_in_vain(request->timeoutms);
}

nvmlReturn_t nvmlSystemEventSetFree(nvmlSystemEventSetFreeRequest_t *request)
{
    nvmlReturn_t state =
        check_request(request, request == NULL ? 0 : request->version, nvmlSystemEventSetFreeRequest_v1);
    if (state != NVML_SUCCESS || request->set == NULL) {
        return state != NVML_SUCCESS ? state : NVML_ERROR_INVALID_ARGUMENT;
    }
    free(request->set);
    request->set = NULL;
    return NVML_SUCCESS;
}

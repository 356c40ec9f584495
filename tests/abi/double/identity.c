/*
 * What a GPU is: enumeration, names, versions, place in the node and in the rack, fabric membership, MIG.
 */
#include "double.h"

#include <stddef.h>
#include <string.h>

nvmlReturn_t nvmlDeviceGetCount_v2(unsigned int *deviceCount)
{
    if (node.users == 0) {
        return NVML_ERROR_UNINITIALIZED;
    }
    if (deviceCount == NULL) {
        return NVML_ERROR_INVALID_ARGUMENT;
    }
    *deviceCount = node.gpu_count;
    return NVML_SUCCESS;
}

nvmlReturn_t nvmlDeviceGetHandleByIndex_v2(unsigned int index, nvmlDevice_t *device)
{
    if (node.users == 0) {
        return NVML_ERROR_UNINITIALIZED;
    }
    if (device == NULL || index >= node.gpu_count) {
        return NVML_ERROR_INVALID_ARGUMENT;
    }
    *device = &node.gpus[index];
    return NVML_SUCCESS;
}

static nvmlReturn_t find_by_text(const char *text, size_t offset, nvmlDevice_t *device)
{
    if (node.users == 0) {
        return NVML_ERROR_UNINITIALIZED;
    }
    if (text == NULL || device == NULL) {
        return NVML_ERROR_INVALID_ARGUMENT;
    }
    for (unsigned int i = 0; i < node.gpu_count; i++) {
        if (strcmp((const char *)&node.gpus[i] + offset, text) == 0) {
            *device = &node.gpus[i];
            return NVML_SUCCESS;
        }
    }
    return NVML_ERROR_NOT_FOUND;
}

nvmlReturn_t nvmlDeviceGetHandleByUUID(const char *uuid, nvmlDevice_t *device)
{
    return find_by_text(uuid, offsetof(struct nvmlDevice_st, uuid), device);
}

nvmlReturn_t nvmlDeviceGetHandleByPciBusId_v2(const char *pciBusId, nvmlDevice_t *device)
{
    return find_by_text(pciBusId, offsetof(struct nvmlDevice_st, pci.busId), device);
}

/* A getter of one text that fits the caller's buffer. */
#define TEXT_GETTER(function, text)                                                \
    nvmlReturn_t function(nvmlDevice_t device, char *buffer, unsigned int length)  \
    {                                                                              \
        nvmlReturn_t state = check(device, buffer);                                \
        return state == NVML_SUCCESS ? copy_text(buffer, length, (text)) : state;  \
    }

TEXT_GETTER(nvmlDeviceGetName, node.platform->name)
TEXT_GETTER(nvmlDeviceGetUUID, device->uuid)
TEXT_GETTER(nvmlDeviceGetSerial, device->serial)
TEXT_GETTER(nvmlDeviceGetBoardPartNumber, node.platform->board_part_number)
TEXT_GETTER(nvmlDeviceGetVbiosVersion, node.platform->vbios_version)
TEXT_GETTER(nvmlDeviceGetInforomImageVersion, node.platform->inforom_image)

VALUE_GETTER(nvmlDeviceGetIndex, unsigned int, device->index)
VALUE_GETTER(nvmlDeviceGetMinorNumber, unsigned int, device->index)
VALUE_GETTER(nvmlDeviceGetArchitecture, nvmlDeviceArchitecture_t, node.platform->architecture)
VALUE_GETTER(nvmlDeviceGetModuleId, unsigned int, node.platform->module_id[device->index % 8] + device->index / 8 * 8)
VALUE_GETTER(nvmlDeviceGetPciInfo_v3, nvmlPciInfo_t, device->pci)
VALUE_GETTER(nvmlDeviceGetMaxPcieLinkGeneration, unsigned int, node.platform->pcie_generation)
VALUE_GETTER(nvmlDeviceGetMaxPcieLinkWidth, unsigned int, 16)
VALUE_GETTER(nvmlDeviceGetMaxMigDeviceCount, unsigned int, 7)
VALUE_GETTER(nvmlDeviceIsMigDeviceHandle, unsigned int, 0)
VALUE_GETTER(nvmlDeviceGetPersistenceMode, nvmlEnableState_t, NVML_FEATURE_ENABLED)
VALUE_GETTER(nvmlDeviceGetComputeMode, nvmlComputeMode_t, NVML_COMPUTEMODE_DEFAULT)
VALUE_GETTER(nvmlDeviceGetDisplayActive, nvmlEnableState_t, NVML_FEATURE_DISABLED)
VALUE_GETTER(nvmlDeviceGetDisplayMode, nvmlEnableState_t, NVML_FEATURE_DISABLED)

nvmlReturn_t nvmlDeviceGetInforomVersion(nvmlDevice_t device, nvmlInforomObject_t object, char *version,
                                         unsigned int length)
{
    nvmlReturn_t state = check(device, version);
    if (state != NVML_SUCCESS) {
        return state;
    }
    switch (object) {
    case NVML_INFOROM_OEM:
        return copy_text(version, length, "2.1");
    case NVML_INFOROM_ECC:
        return copy_text(version, length, "7.16");
    default:
        return NVML_ERROR_NOT_SUPPORTED; /* the power object is N/A in every capture */
    }
}

nvmlReturn_t nvmlDeviceGetGspFirmwareVersion(nvmlDevice_t device, char *version)
{
    nvmlReturn_t state = check(device, version);
    return state == NVML_SUCCESS
               ? copy_text(version, NVML_GSP_FIRMWARE_VERSION_BUF_SIZE, node.platform->driver_version)
               : state;
}

nvmlReturn_t nvmlDeviceGetCudaComputeCapability(nvmlDevice_t device, int *major, int *minor)
{
    nvmlReturn_t state = check(device, major);
    if (state != NVML_SUCCESS || minor == NULL) {
        return state != NVML_SUCCESS ? state : NVML_ERROR_INVALID_ARGUMENT;
    }
    *major = (int)node.platform->cuda_major;
    *minor = (int)node.platform->cuda_minor;
    return NVML_SUCCESS;
}

nvmlReturn_t nvmlDeviceGetPdi(nvmlDevice_t device, nvmlPdi_t *pdi)
{
    nvmlReturn_t state = check(device, pdi);
    if (state != NVML_SUCCESS) {
        return state;
    }
    if (pdi->version != nvmlPdi_v1) {
        return NVML_ERROR_ARGUMENT_VERSION_MISMATCH;
    }
    pdi->value = 0x5A00000000000001ULL + device->index;
    return NVML_SUCCESS;
}

nvmlReturn_t nvmlDeviceGetC2cModeInfoV(nvmlDevice_t device, nvmlC2cModeInfo_v1_t *c2cModeInfo)
{
    nvmlReturn_t state = check(device, c2cModeInfo);
    if (state == NVML_SUCCESS) {
        c2cModeInfo->isC2cEnabled = node.platform->family == BLACKWELL_GRACE;
    }
    return state;
}

nvmlReturn_t nvmlDeviceGetPlatformInfo(nvmlDevice_t device, nvmlPlatformInfo_t *platformInfo)
{
    nvmlReturn_t state = check(device, platformInfo);
    if (state != NVML_SUCCESS) {
        return state;
    }
    if (node.platform->family == HOPPER) {
        return NVML_ERROR_NOT_SUPPORTED;
    }
    /* v1 and v2 differ in names and version only, byte for byte (nvml.h). */
    if (platformInfo->version != nvmlPlatformInfo_v1 && platformInfo->version != nvmlPlatformInfo_v2) {
        return NVML_ERROR_ARGUMENT_VERSION_MISMATCH;
    }
    int on_rack = node.platform->family == BLACKWELL_GRACE;
    /* Binary, with bytes from 0x80 up and no terminator to rely on. */
    static const unsigned char GUID[8] = {0xB0, 0xCF, 0x0E, 0x03, 0x00, 0xFE, 0x80, 0xC0};
    memset(platformInfo->ibGuid, 0, sizeof platformInfo->ibGuid);
    memcpy(platformInfo->ibGuid, GUID, sizeof GUID);
    platformInfo->ibGuid[7] = (unsigned char)(GUID[7] + device->index);
    memset(platformInfo->chassisSerialNumber, 0, sizeof platformInfo->chassisSerialNumber);
    if (on_rack) {
        memcpy(platformInfo->chassisSerialNumber, "1820000000001", 13);
    }
    platformInfo->slotNumber = on_rack ? 25 : 0xFF; /* 0xFF is shown as N/A */
    platformInfo->trayIndex = on_rack ? 15 : 0xFF;
    platformInfo->hostId = 1;
    platformInfo->peerType = 1; /* switch connected */
    platformInfo->moduleId = (unsigned char)node.platform->module_id[device->index % 8];
    return NVML_SUCCESS;
}

nvmlReturn_t nvmlDeviceGetGpuFabricInfoV(nvmlDevice_t device, nvmlGpuFabricInfoV_t *gpuFabricInfo)
{
    nvmlReturn_t state = check(device, gpuFabricInfo);
    if (state != NVML_SUCCESS) {
        return state;
    }
    if (gpuFabricInfo->version != nvmlGpuFabricInfo_v2 && gpuFabricInfo->version != nvmlGpuFabricInfo_v3) {
        return NVML_ERROR_ARGUMENT_VERSION_MISMATCH;
    }
    memcpy(gpuFabricInfo->clusterUuid, node.platform->cluster_uuid, NVML_GPU_FABRIC_UUID_LEN);
    gpuFabricInfo->status = NVML_SUCCESS;
    gpuFabricInfo->cliqueId = node.platform->fabric_clique;
    /* The state is one byte; what stands in the three behind it is nobody's promise. */
    memset(&gpuFabricInfo->state, 0xA5, offsetof(nvmlGpuFabricInfo_v3_t, healthMask) -
                                            offsetof(nvmlGpuFabricInfo_v3_t, state));
    gpuFabricInfo->state = NVML_GPU_FABRIC_STATE_COMPLETED;
    gpuFabricInfo->healthMask = node.platform->fabric_health_mask;
    if (gpuFabricInfo->version == nvmlGpuFabricInfo_v3) {
        gpuFabricInfo->healthSummary = node.platform->fabric_health_summary;
    }
    return NVML_SUCCESS;
}

nvmlReturn_t nvmlDeviceGetGpuFabricInfo(nvmlDevice_t device, nvmlGpuFabricInfo_t *gpuFabricInfo)
{
    nvmlReturn_t state = check(device, gpuFabricInfo);
    if (state != NVML_SUCCESS) {
        return state;
    }
    memcpy(gpuFabricInfo->clusterUuid, node.platform->cluster_uuid, NVML_GPU_FABRIC_UUID_LEN);
    gpuFabricInfo->status = NVML_SUCCESS;
    gpuFabricInfo->cliqueId = node.platform->fabric_clique;
    gpuFabricInfo->state = NVML_GPU_FABRIC_STATE_COMPLETED;
    return NVML_SUCCESS;
}

nvmlReturn_t nvmlDeviceGetMigMode(nvmlDevice_t device, unsigned int *currentMode, unsigned int *pendingMode)
{
    nvmlReturn_t state = check(device, currentMode);
    if (state != NVML_SUCCESS || pendingMode == NULL) {
        return state != NVML_SUCCESS ? state : NVML_ERROR_INVALID_ARGUMENT;
    }
    *currentMode = *pendingMode = NVML_DEVICE_MIG_DISABLE;
    return NVML_SUCCESS;
}

nvmlReturn_t nvmlDeviceGetMigDeviceHandleByIndex(nvmlDevice_t device, unsigned int index, nvmlDevice_t *migDevice)
{
    (void)index;
    nvmlReturn_t state = check(device, migDevice);
    return state == NVML_SUCCESS ? NVML_ERROR_NOT_FOUND : state;
}

nvmlReturn_t nvmlDeviceGetGpuInstanceId(nvmlDevice_t device, unsigned int *id)
{
    nvmlReturn_t state = check(device, id);
    return state == NVML_SUCCESS ? NVML_ERROR_NOT_SUPPORTED : state;
}

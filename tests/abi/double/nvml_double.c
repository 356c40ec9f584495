/*
 * A double of NVIDIA's management library: libnvidia-ml.so.1, compiled against NVIDIA's own nvml.h, that answers at
 * once with known values. It is there to prove layouts and units against C rather than against Python's idea of C,
 * and to measure what a reader costs when the driver costs nothing.
 *
 * Environment, read by the first nvmlInit:
 *   RACKWATT_DOUBLE_PLATFORM  h100 (default), b200 or gb300
 *   RACKWATT_DOUBLE_GPUS      1 to 16; default: what a node of the platform has (8, 8, 4)
 *   RACKWATT_DOUBLE_XID       if set, one Xid event with this code on GPU 0, then time-outs
 *
 * What it answers for GPU i, link l, module m (m = i, on gb300 i / 2), t seconds on CLOCK_MONOTONIC. Counters are
 * floor(start + rate * t): two processes, or one that restarts, see one course.
 *
 *   reading                                 value or rate                                     unit
 *   power average (185 scope 0, PowerUsage) 412300 + 1000 i                                   mW
 *   power instant (186 scope 0)             average + 250                                     mW
 *   power memory (185 scope 2)              86000 + 100 i       186 scope 2: not supported    mW
 *   power module (185 / 186 scope 1)        gb300 only: 1030000 + 10000 m; instant + 500      mW
 *   energy (83, 191 scope 0)                the average power a second                        mJ
 *   energy module (191 scope 1)             gb300 only: the module power a second             mJ
 *   NVLink data TX (138 scope l)            start 1000 (l + 1), 1000000 + 10000 i + 100 l /s  KiB
 *   NVLink data RX (139 scope l)            start 2000 (l + 1), 2000000 + 10000 i + 100 l /s  KiB
 *   NVLink raw TX / RX (140 / 141)          data rates + 25 %, same start                     KiB
 *     scope UINT_MAX of the four: the sum over the 18 links
 *   NVLink5 bytes TX / RX (202 / 204)       start and rate of 138 / 139 times 1024            bytes
 *   NVLink5 packets TX / RX (201 / 203)     4000000 + 40000 i + 400 l, twice that for RX /s   packets
 *   NVLink4 errors (161 / 162 / 163)        3 + l / 1 / 5 + l                                 count
 *   NVLink5 errors (206 ... 212)            1 ... 7                                           count
 *   NVLink5 recoveries (213 / 214 / 215)    2 + l / 1 / 3 + l                                 count
 *   NVLink5 effective / symbol errors       11 + l / 13 + l                  (219 / 221)      count
 *   NVLink5 effective BER (220)             0xFFF: m = 15, e = 255, which means zero          packed
 *   NVLink5 symbol BER (222)                0x30C: m = 3, e = 12, so 3e-12                    packed
 *   NVLink5 FEC bins (235 ... 250)          bin b: 16 - b                                     count
 *   clock-event time (74/269/77/271)        1000000 / 500000 / 250000 / 125000 a second       ns
 *     (76, 79, 270: 0 and staying there; 251-253 are power smoothing with this driver)
 *   ECC (3 / 4 / 5 / 6)                     12 + i / 0 / 40 + i / 1                           count
 *   rows (142 / 143 / 144 / 145)            2 + i / 1 / 0 / 0                                 rows, flags
 *   PCIe replays (94)                       start 150 + i, 1 a second                         count
 *   PCIe bytes TX / RX (197 / 198)          1e9 / 2e9 a second, wrapping at 32 bits           bytes
 *   temperature GPU / memory / margin       58 + i / 48 + i / 29 - i                          degrees C
 *   T.Limit thresholds (193-196)            the platform's, negative or zero                  degrees C
 *   utilization GPU / memory                80 + i / 40 + i                                   %
 *   memory used                             65536 + i MiB; free = total - reserved - used     bytes
 *   clocks SM, graphics / memory / video    1500 + 15 i / the platform's / 1200               MHz
 *   clock events                            0x4 (software power cap) on odd i, else 0         bits
 *   GPM                                     see gpm.c                                         %, MiB/s
 *   processes                               one: the caller's own pid, 1 GiB + i MiB          bytes
 *   recovery action (230)                   0                                                 enum
 *
 * As on hardware: links from 18 up give INVALID_ARGUMENT, an unsupported field sets its own nvmlReturn and leaves
 * value undefined (filled with 0xDE here, so that an unchecked read shows), SRAM ECC needs root, power
 * smoothing gives NO_PERMISSION on Blackwell, the bytes behind the one-byte fabric state are not zero.
 */
#include "double.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

struct node node;

struct instant instant_now(void)
{
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (struct instant){(unsigned long long)now.tv_sec, (unsigned long long)now.tv_nsec};
}

unsigned long long wall_clock_microseconds(void)
{
    struct timespec now;
    clock_gettime(CLOCK_REALTIME, &now);
    return (unsigned long long)now.tv_sec * 1000000ULL + (unsigned long long)now.tv_nsec / 1000ULL;
}

unsigned long long elapsed(struct instant at, unsigned long long rate_per_second)
{
    return rate_per_second * at.seconds + rate_per_second * at.nanoseconds / 1000000000ULL;
}

nvmlReturn_t check(nvmlDevice_t device, const void *out)
{
    if (node.users == 0) {
        return NVML_ERROR_UNINITIALIZED;
    }
    const char *handle = (const char *)device;
    const char *first = (const char *)node.gpus;
    if (handle < first || handle >= (const char *)(node.gpus + node.gpu_count)) {
        return NVML_ERROR_INVALID_ARGUMENT;
    }
    if ((size_t)(handle - first) % sizeof *node.gpus != 0 || out == NULL) {
        return NVML_ERROR_INVALID_ARGUMENT;
    }
    return NVML_SUCCESS;
}

nvmlReturn_t copy_text(char *destination, unsigned int length, const char *text)
{
    size_t size = strlen(text) + 1;
    if (length < size) {
        return NVML_ERROR_INSUFFICIENT_SIZE;
    }
    memcpy(destination, text, size);
    return NVML_SUCCESS;
}

static void make_gpu(struct nvmlDevice_st *gpu, const struct platform *platform, unsigned int index)
{
    unsigned int place = index % 8, lap = index / 8;
    gpu->index = index;
    gpu->module = platform->family == BLACKWELL_GRACE ? index / 2 : index;
    snprintf(gpu->uuid, sizeof gpu->uuid, "GPU-%08x-d0b1-4e00-8000-%012x", 0xA0000000U + index, index + 1);
    snprintf(gpu->serial, sizeof gpu->serial, "16500000000%02u", gpu->module + 1);
    gpu->pci.domain = platform->pci_domain[place] + 0x100 * lap;
    gpu->pci.bus = platform->pci_bus[place];
    gpu->pci.pciDeviceId = platform->pci_device_id;
    gpu->pci.pciSubSystemId = platform->pci_subsystem_id;
    snprintf(gpu->pci.busIdLegacy, sizeof gpu->pci.busIdLegacy, "%04X:%02X:00.0", gpu->pci.domain & 0xFFFF,
             gpu->pci.bus & 0xFF);
    snprintf(gpu->pci.busId, sizeof gpu->pci.busId, "%08X:%02X:00.0", gpu->pci.domain, gpu->pci.bus & 0xFF);
}

/* 0 if the variable is unset; refuses, with a line that names it, what is not a whole number in 1 to maximum. */
static int read_number(const char *name, unsigned long maximum, unsigned int *number)
{
    const char *text = getenv(name);
    *number = 0;
    if (text == NULL || *text == '\0') {
        return 1;
    }
    char *end;
    unsigned long value = strtoul(text, &end, 10);
    if (*end != '\0' || value < 1 || value > maximum) {
        fprintf(stderr, "NVML double: %s=%s is not a whole number from 1 to %lu\n", name, text, maximum);
        return 0;
    }
    *number = (unsigned int)value;
    return 1;
}

static nvmlReturn_t make_node(void)
{
    const char *key = getenv("RACKWATT_DOUBLE_PLATFORM");
    node.platform = find_platform(key == NULL || *key == '\0' ? "h100" : key);
    if (node.platform == NULL) {
        fprintf(stderr, "NVML double: RACKWATT_DOUBLE_PLATFORM=%s is not h100, b200 or gb300\n", key);
        return NVML_ERROR_INVALID_ARGUMENT;
    }
    if (!read_number("RACKWATT_DOUBLE_GPUS", MAX_GPUS, &node.gpu_count) ||
        !read_number("RACKWATT_DOUBLE_XID", 998, &node.pending_xid)) { /* 999 is NVML's "unknown" */
        return NVML_ERROR_INVALID_ARGUMENT;
    }
    if (node.gpu_count == 0) {
        node.gpu_count = node.platform->gpus;
    }
    for (unsigned int i = 0; i < node.gpu_count; i++) {
        make_gpu(&node.gpus[i], node.platform, i);
    }
    return NVML_SUCCESS;
}

nvmlReturn_t nvmlInitWithFlags(unsigned int flags)
{
    (void)flags;
    if (node.platform == NULL) {
        nvmlReturn_t made = make_node();
        if (made != NVML_SUCCESS) {
            node.platform = NULL;
            return made;
        }
    }
    node.users++;
    return NVML_SUCCESS;
}

nvmlReturn_t nvmlInit_v2(void)
{
    return nvmlInitWithFlags(0);
}

nvmlReturn_t nvmlShutdown(void)
{
    if (node.users == 0) {
        return NVML_ERROR_UNINITIALIZED;
    }
    node.users--;
    return NVML_SUCCESS;
}

const char *nvmlErrorString(nvmlReturn_t result)
{
    static const struct {
        nvmlReturn_t result;
        const char *text;
    } TEXTS[] = {
        {NVML_SUCCESS, "Success"},
        {NVML_ERROR_UNINITIALIZED, "Uninitialized"},
        {NVML_ERROR_INVALID_ARGUMENT, "Invalid Argument"},
        {NVML_ERROR_NOT_SUPPORTED, "Not Supported"},
        {NVML_ERROR_NO_PERMISSION, "Insufficient Permissions"},
        {NVML_ERROR_NOT_FOUND, "Not Found"},
        {NVML_ERROR_INSUFFICIENT_SIZE, "Insufficient Size"},
        {NVML_ERROR_TIMEOUT, "Timeout"},
        {NVML_ERROR_GPU_IS_LOST, "GPU is lost"},
        {NVML_ERROR_MEMORY, "Insufficient Memory"},
        {NVML_ERROR_ARGUMENT_VERSION_MISMATCH, "Argument version mismatch"},
    };
    for (size_t i = 0; i < sizeof TEXTS / sizeof *TEXTS; i++) {
        if (TEXTS[i].result == result) {
            return TEXTS[i].text;
        }
    }
    return "Unknown Error";
}

static nvmlReturn_t check_system(const void *out)
{
    if (node.users == 0) {
        return NVML_ERROR_UNINITIALIZED;
    }
    return out == NULL ? NVML_ERROR_INVALID_ARGUMENT : NVML_SUCCESS;
}

nvmlReturn_t nvmlSystemGetDriverVersion(char *version, unsigned int length)
{
    nvmlReturn_t state = check_system(version);
    return state == NVML_SUCCESS ? copy_text(version, length, node.platform->driver_version) : state;
}

nvmlReturn_t nvmlSystemGetNVMLVersion(char *version, unsigned int length)
{
    nvmlReturn_t state = check_system(version);
    if (state != NVML_SUCCESS) {
        return state;
    }
    char text[NVML_SYSTEM_NVML_VERSION_BUFFER_SIZE];
    snprintf(text, sizeof text, "13.%s", node.platform->driver_version);
    return copy_text(version, length, text);
}

nvmlReturn_t nvmlSystemGetCudaDriverVersion(int *cudaDriverVersion)
{
    nvmlReturn_t state = check_system(cudaDriverVersion);
    if (state == NVML_SUCCESS) {
        *cudaDriverVersion = 13000; /* CUDA 13.0 */
    }
    return state;
}

nvmlReturn_t nvmlSystemGetCudaDriverVersion_v2(int *cudaDriverVersion)
{
    return nvmlSystemGetCudaDriverVersion(cudaDriverVersion);
}

nvmlReturn_t nvmlSystemGetConfComputeState(nvmlConfComputeSystemState_t *state)
{
    nvmlReturn_t result = check_system(state);
    if (result == NVML_SUCCESS) {
        memset(state, 0, sizeof *state); /* off, as in every capture */
    }
    return result;
}

nvmlReturn_t nvmlSystemGetConfComputeSettings(nvmlSystemConfComputeSettings_t *settings)
{
    nvmlReturn_t result = check_system(settings);
    if (result != NVML_SUCCESS) {
        return result;
    }
    if (settings->version != nvmlSystemConfComputeSettings_v1) {
        return NVML_ERROR_ARGUMENT_VERSION_MISMATCH;
    }
    memset(settings, 0, sizeof *settings);
    settings->version = nvmlSystemConfComputeSettings_v1;
    return NVML_SUCCESS;
}

nvmlReturn_t nvmlSystemGetProcessName(unsigned int pid, char *name, unsigned int length)
{
    (void)pid;
    nvmlReturn_t state = check_system(name);
    return state == NVML_SUCCESS ? copy_text(name, length, "/usr/bin/serving-engine") : state;
}

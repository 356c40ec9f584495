/*
 * Shared by the parts of the NVML double: the simulated node, its GPUs and the clock of its counters.
 * What the double answers is described at the top of nvml_double.c.
 */
#ifndef RACKWATT_NVML_DOUBLE_H
#define RACKWATT_NVML_DOUBLE_H

#include <nvml.h>

/* Everything that is not NVML stays inside the library. */
#define INTERNAL __attribute__((visibility("hidden")))

enum { MIB = 1024 * 1024 };
enum { MAX_GPUS = 16, LINK_COUNT = 18 }; /* 18: NVLink 4 and 5, H100 to GB300; never NVML_NVLINK_MAX_LINKS */

/* Bits, so that a set of families is their sum. */
enum { HOPPER = 1U, BLACKWELL_HGX = 2U, BLACKWELL_GRACE = 4U, BLACKWELL = 6U, EVERY_FAMILY = 7U };

/* One platform: constants of its hardware, from nvidia-smi captures of real nodes (see platforms.c). */
struct platform {
    const char *key;
    unsigned int family;
    const char *name;
    const char *driver_version;
    const char *board_part_number;
    const char *vbios_version;
    const char *inforom_image;
    unsigned int gpus;
    unsigned int architecture, cuda_major, cuda_minor;
    unsigned int pci_device_id, pci_subsystem_id;
    unsigned long long memory_total_mib, memory_reserved_mib, bar1_mib;
    unsigned int power_limit_mw, power_min_limit_mw, module_power_limit_mw, module_power_min_limit_mw;
    unsigned int sm_clock_max_mhz, memory_clock_mhz, video_clock_max_mhz;
    unsigned int pcie_generation;
    unsigned int nvlink_version, nvlink_speed_mbps;
    unsigned int row_remap_banks;
    int shutdown_margin_celsius, slowdown_margin_celsius;
    unsigned int fabric_clique, fabric_health_mask;
    unsigned char fabric_health_summary;
    unsigned char cluster_uuid[NVML_GPU_FABRIC_UUID_LEN];
    unsigned int pci_domain[8], pci_bus[8], module_id[8];
};

struct nvmlDevice_st {
    unsigned int index;
    unsigned int module; /* GPUs that share a superchip share it, and its serial */
    char uuid[NVML_DEVICE_UUID_BUFFER_SIZE];
    char serial[NVML_DEVICE_SERIAL_BUFFER_SIZE];
    nvmlPciInfo_t pci;
};

struct node {
    int users; /* nvmlInit less nvmlShutdown; 0 is uninitialized */
    const struct platform *platform;
    unsigned int gpu_count;
    struct nvmlDevice_st gpus[MAX_GPUS];
    unsigned int pending_xid; /* RACKWATT_DOUBLE_XID, until it has been delivered */
};

extern INTERNAL struct node node;

INTERNAL const struct platform *find_platform(const char *key);

/* NVML_SUCCESS for a handle of this library while it is initialized, with the out-parameter present. */
INTERNAL nvmlReturn_t check(nvmlDevice_t device, const void *out);

INTERNAL nvmlReturn_t copy_text(char *destination, unsigned int length, const char *text);

/* An instant of the clock that every counter follows: CLOCK_MONOTONIC, so that, as with a real driver, a reader
 * that restarts finds the counters further on and never back at their start. */
struct instant {
    unsigned long long seconds, nanoseconds;
};
INTERNAL struct instant instant_now(void);
INTERNAL unsigned long long wall_clock_microseconds(void);

/* floor(rate * seconds since the clock's zero). A rate up to 1.8e10 a second does not overflow. */
INTERNAL unsigned long long elapsed(struct instant at, unsigned long long rate_per_second);

/* A getter of one value through a pointer. */
#define VALUE_GETTER(function, type, value)                \
    nvmlReturn_t function(nvmlDevice_t device, type *out)  \
    {                                                      \
        nvmlReturn_t state = check(device, out);           \
        if (state == NVML_SUCCESS) {                       \
            *out = (value);                                \
        }                                                  \
        return state;                                      \
    }

/* Literals that several parts answer with; the table in nvml_double.c explains them. */
INTERNAL unsigned int gpu_power_milliwatts(const struct nvmlDevice_st *gpu);
INTERNAL unsigned int module_power_milliwatts(const struct nvmlDevice_st *gpu);
INTERNAL unsigned int gpu_temperature_celsius(const struct nvmlDevice_st *gpu);

/* NVLink data, KiB a second: TRANSMIT or RECEIVE, and so much more for each GPU and each link. */
enum { TRANSMIT = 1000000, RECEIVE = 2000000, EACH_GPU = 10000, EACH_LINK = 100 };

/* Nanoseconds a second spent under each clock-event policy (fields 74, 269, 270, 271, 77; violation status). */
enum {
    SOFTWARE_POWER_NS_PER_SECOND = 1000000,
    SOFTWARE_THERMAL_NS_PER_SECOND = 500000,
    BOARD_LIMIT_NS_PER_SECOND = 250000,
    POWER_BRAKE_NS_PER_SECOND = 125000,
};

#endif

/*
 * The platforms of the double. Figures: `nvidia-smi -q -x` of physical nodes in NVIDIA/k8s-test-infra,
 * tests/e2e/go/assertions/nvidiasmi/testdata/hardware/ (H100 and B200: driver 580.105.08, GB300: 580.173.02).
 * NVLink speed: H100 from utkuozdemir/nvidia_gpu_exporter's capture, Blackwell from NVIDIA/k8s-test-infra issue 371.
 * Made up: the B200's PCI addresses, module ids and video clock, the GB300's cluster and its GPUs beyond the fourth.
 */
#include "double.h"

#include <string.h>

static const struct platform PLATFORMS[] = {
    {
        .key = "h100",
        .family = HOPPER,
        .name = "NVIDIA H100 80GB HBM3",
        .driver_version = "580.105.08",
        .board_part_number = "692-2G520-0200-000",
        .vbios_version = "96.00.99.00.01",
        .inforom_image = "G520.0200.00.05",
        .gpus = 8,
        .architecture = NVML_DEVICE_ARCH_HOPPER,
        .cuda_major = 9,
        .cuda_minor = 0,
        .pci_device_id = 0x233010DE,
        .pci_subsystem_id = 0x16C110DE,
        .memory_total_mib = 81559,
        .memory_reserved_mib = 480,
        .bar1_mib = 131072,
        .power_limit_mw = 700000,
        .power_min_limit_mw = 200000,
        .sm_clock_max_mhz = 1980,
        .memory_clock_mhz = 2619,
        .video_clock_max_mhz = 1545,
        .pcie_generation = 5,
        .nvlink_version = NVML_NVLINK_VERSION_4_0,
        .nvlink_speed_mbps = 26562,
        .row_remap_banks = 2560,
        .shutdown_margin_celsius = -8,
        .slowdown_margin_celsius = -2,
        .fabric_health_summary = NVML_GPU_FABRIC_HEALTH_SUMMARY_NOT_SUPPORTED,
        .pci_domain = {0, 0, 0, 0, 0, 0, 0, 0},
        .pci_bus = {0x53, 0x64, 0x75, 0x86, 0x97, 0xA8, 0xB9, 0xCA},
        .module_id = {7, 5, 6, 8, 1, 3, 4, 2},
    },
    {
        .key = "b200",
        .family = BLACKWELL_HGX,
        .name = "NVIDIA B200",
        .driver_version = "580.105.08",
        .board_part_number = "692-2G525-0220-500",
        .vbios_version = "97.00.FA.00.09",
        .inforom_image = "G525.0220.00.03",
        .gpus = 8,
        .architecture = NVML_DEVICE_ARCH_BLACKWELL,
        .cuda_major = 10,
        .cuda_minor = 0,
        .pci_device_id = 0x290110DE,
        .pci_subsystem_id = 0x199910DE,
        .memory_total_mib = 183359,
        .memory_reserved_mib = 728,
        .bar1_mib = 262144,
        .power_limit_mw = 1000000,
        .power_min_limit_mw = 200000,
        .sm_clock_max_mhz = 1965,
        .memory_clock_mhz = 3996,
        .video_clock_max_mhz = 1912,
        .pcie_generation = 5,
        .nvlink_version = NVML_NVLINK_VERSION_5_0,
        .nvlink_speed_mbps = 53125,
        .row_remap_banks = 3840,
        .shutdown_margin_celsius = -5,
        .slowdown_margin_celsius = -3,
        .fabric_health_mask = 0x080, /* only access timeout is filled: false */
        .fabric_health_summary = NVML_GPU_FABRIC_HEALTH_SUMMARY_HEALTHY,
        .pci_domain = {0, 0, 0, 0, 0, 0, 0, 0},
        .pci_bus = {0x1B, 0x43, 0x52, 0x61, 0x9D, 0xC3, 0xD1, 0xDF},
        .module_id = {7, 5, 6, 8, 1, 3, 4, 2},
    },
    {
        .key = "gb300",
        .family = BLACKWELL_GRACE,
        .name = "NVIDIA GB300",
        .driver_version = "580.173.02",
        .board_part_number = "900-2G548-0081-000",
        .vbios_version = "97.10.4A.00.1A",
        .inforom_image = "G548.0301.00.03",
        .gpus = 4,
        .architecture = NVML_DEVICE_ARCH_BLACKWELL,
        .cuda_major = 10,
        .cuda_minor = 3,
        .pci_device_id = 0x31C210DE,
        .pci_subsystem_id = 0x21F110DE,
        .memory_total_mib = 284208,
        .memory_reserved_mib = 947,
        .bar1_mib = 524288,
        .power_limit_mw = 1400000,
        .power_min_limit_mw = 200000,
        .module_power_limit_mw = 2900000,
        .module_power_min_limit_mw = 500000,
        .sm_clock_max_mhz = 2070,
        .memory_clock_mhz = 3996,
        .video_clock_max_mhz = 1912,
        .pcie_generation = 6,
        .nvlink_version = NVML_NVLINK_VERSION_5_0,
        .nvlink_speed_mbps = 53125,
        .row_remap_banks = 5952,
        .shutdown_margin_celsius = -5,
        .slowdown_margin_celsius = -2,
        .fabric_clique = 32766,
        .fabric_health_mask = 0x1AA, /* full bandwidth, three times false, configuration none */
        .fabric_health_summary = NVML_GPU_FABRIC_HEALTH_SUMMARY_HEALTHY,
        .cluster_uuid = {0xA1, 0xB2, 0xC3, 0xD4, 0, 1, 0x40, 2, 0x80, 3, 0, 0, 0, 0, 0, 4},
        .pci_domain = {0x08, 0x09, 0x18, 0x19, 0x28, 0x29, 0x38, 0x39},
        .pci_bus = {6, 6, 6, 6, 6, 6, 6, 6},
        .module_id = {2, 1, 4, 3, 6, 5, 8, 7},
    },
};

const struct platform *find_platform(const char *key)
{
    for (size_t i = 0; i < sizeof PLATFORMS / sizeof *PLATFORMS; i++) {
        if (strcmp(PLATFORMS[i].key, key) == 0) {
            return &PLATFORMS[i];
        }
    }
    return NULL;
}

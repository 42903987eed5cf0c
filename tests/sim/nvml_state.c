/* Simulated NVML: memory, modes, links to the host, temperature, power and clocks, and setting them. */
#define _GNU_SOURCE
#include "reading.h"
#include "settings.h"

#include <stdio.h>
#include <string.h>
#include <unistd.h>

/* ---- Memory ---- */

EXPORT nvmlReturn_t nvmlDeviceGetMemoryInfo_v2(nvmlDevice_t device, nvmlMemory_v2_t *memory)
{
    uint64_t total, reserved, used;
    if (memory->version != VERSION(nvmlMemory_v2_t, 2))
        return ARGUMENT_VERSION_MISMATCH;
    nvmlReturn_t status = read_u64(device, "memory_mib", &total);
    if (!status)
        status = read_u64(device, "memory_reserved_mib", &reserved);
    if (!status)
        status = read_u64(device, "memory_used_mib", &used);
    if (status)
        return status;
    memory->total = total << 20;
    memory->reserved = reserved << 20;
    memory->used = used << 20;
    memory->free = (total - reserved - used) << 20;
    return SUCCESS;
}

EXPORT nvmlReturn_t nvmlDeviceGetMemoryInfo(nvmlDevice_t device, nvmlMemory_t *memory)
{
    nvmlMemory_v2_t detailed = {.version = VERSION(nvmlMemory_v2_t, 2)};
    nvmlReturn_t status = nvmlDeviceGetMemoryInfo_v2(device, &detailed);
    if (!status)
        *memory = (nvmlMemory_t){detailed.total, detailed.free, detailed.used + detailed.reserved};
    return status;
}

EXPORT nvmlReturn_t nvmlDeviceGetBAR1MemoryInfo(nvmlDevice_t device, nvmlBAR1Memory_t *memory)
{
    uint64_t total;
    nvmlReturn_t status = read_u64(device, "bar1_mib", &total);
    if (!status)
        *memory = (nvmlBAR1Memory_t){total << 20, (total - 1) << 20, 1 << 20};
    return status;
}

/* ---- Modes ---- */

READ_U32(nvmlDeviceGetPersistenceMode, "persistence")
READ_U32(nvmlDeviceGetComputeMode, "compute_mode")
READ_U32(nvmlDeviceGetAccountingMode, "accounting")
READ_U32(nvmlDeviceGetDisplayMode, "display")
READ_U32(nvmlDeviceGetDisplayActive, "display_active")
READ_U32(nvmlDeviceGetVirtualizationMode, "virtualization")
READ_U32(nvmlDeviceGetDefaultEccMode, "ecc_default")
READ_U32(nvmlDeviceGetMaxMigDeviceCount, "mig_max_devices")
READ_TWO_U32(nvmlDeviceGetEccMode, "ecc", "ecc_pending")
READ_TWO_U32(nvmlDeviceGetMigMode, "mig", "mig_pending")

/* ---- PCIe ---- */

READ_U32(nvmlDeviceGetCurrPcieLinkGeneration, "pcie_gen")
READ_U32(nvmlDeviceGetMaxPcieLinkGeneration, "pcie_gen_max")
READ_U32(nvmlDeviceGetGpuMaxPcieLinkGeneration, "pcie_gen_gpu_max")
READ_U32(nvmlDeviceGetCurrPcieLinkWidth, "pcie_width")
READ_U32(nvmlDeviceGetMaxPcieLinkWidth, "pcie_width_max")
READ_U32(nvmlDeviceGetPcieReplayCounter, "pcie_replay")
READ_U32(nvmlDeviceGetC2cModeInfoV, "c2c") /* its structure is one number */

/* In Mbit/s per lane, as the generation of the link has it. */
EXPORT nvmlReturn_t nvmlDeviceGetPcieSpeed(nvmlDevice_t device, unsigned *speed)
{
    static const unsigned SPEEDS[] = {0, 2500, 5000, 8000, 16000, 32000, 64000};
    unsigned generation;
    nvmlReturn_t status = read_u32(device, "pcie_gen", &generation);
    if (!status && generation >= sizeof SPEEDS / sizeof *SPEEDS)
        return UNKNOWN;
    if (!status)
        *speed = SPEEDS[generation];
    return status;
}

EXPORT nvmlReturn_t nvmlDeviceGetPcieThroughput(nvmlDevice_t device, unsigned counter, unsigned *kib_per_second)
{
    (void)counter;
    return read_u32(device, "pcie_throughput", kib_per_second);
}

/* ---- Temperature, power, clocks ---- */

EXPORT nvmlReturn_t nvmlDeviceGetTemperature(nvmlDevice_t device, unsigned sensor, unsigned *celsius)
{
    return sensor ? INVALID_ARGUMENT : read_u32(device, "temp", celsius);
}

EXPORT nvmlReturn_t nvmlDeviceGetTemperatureV(nvmlDevice_t device, nvmlTemperature_t *temperature)
{
    double celsius;
    if (lacks(__func__))
        return FUNCTION_NOT_FOUND;
    if (temperature->version != VERSION(nvmlTemperature_t, 1))
        return ARGUMENT_VERSION_MISMATCH;
    if (temperature->sensor)
        return INVALID_ARGUMENT;
    nvmlReturn_t status = read_number(device, "temp", &celsius);
    if (!status)
        temperature->temperature = (int)celsius;
    return status;
}

EXPORT nvmlReturn_t nvmlDeviceGetMarginTemperature(nvmlDevice_t device, nvmlMarginTemperature_t *margin)
{
    double celsius;
    if (lacks(__func__))
        return FUNCTION_NOT_FOUND;
    if (margin->version != VERSION(nvmlMarginTemperature_t, 1))
        return ARGUMENT_VERSION_MISMATCH;
    nvmlReturn_t status = read_number(device, "temp_margin", &celsius);
    if (!status)
        margin->margin = (int)celsius;
    return status;
}

EXPORT nvmlReturn_t nvmlDeviceGetTemperatureThreshold(nvmlDevice_t device, unsigned threshold, unsigned *celsius)
{
    static const char *const KEYS[] = {"temp_shutdown", "temp_slowdown", "temp_memory_max", "temp_gpu_max"};
    return threshold < sizeof KEYS / sizeof *KEYS ? read_u32(device, KEYS[threshold], celsius) : NOT_SUPPORTED;
}

READ_MILLIWATTS(nvmlDeviceGetPowerUsage, "power_w")
READ_MILLIWATTS(nvmlDeviceGetEnforcedPowerLimit, "power_limit_w")
READ_MILLIWATTS(nvmlDeviceGetPowerManagementLimit, "power_limit_w")
READ_MILLIWATTS(nvmlDeviceGetPowerManagementDefaultLimit, "power_default_w")
READ_U32(nvmlDeviceGetPowerManagementMode, "power_management")
READ_U64(nvmlDeviceGetTotalEnergyConsumption, "energy_mj")
READ_U32(nvmlDeviceGetPerformanceState, "pstate")
READ_U32(nvmlDeviceGetPowerState, "pstate")
READ_U64(nvmlDeviceGetCurrentClocksEventReasons, "clock_event_reasons")
READ_U64(nvmlDeviceGetCurrentClocksThrottleReasons, "clock_event_reasons")
READ_U64(nvmlDeviceGetSupportedClocksEventReasons, "clock_event_reasons_supported")
READ_U64(nvmlDeviceGetSupportedClocksThrottleReasons, "clock_event_reasons_supported")
READ_U32(nvmlDeviceGetFanSpeed, "fan")
READ_U32(nvmlDeviceGetNumFans, "fans")

EXPORT nvmlReturn_t nvmlDeviceGetUtilizationRates(nvmlDevice_t device, nvmlUtilization_t *utilization)
{
    nvmlReturn_t status = read_u32(device, "utilization", &utilization->gpu);
    if (!status && in_instances(device))
        return NOT_SUPPORTED;
    return status ? status : read_u32(device, "utilization_memory", &utilization->memory);
}

EXPORT nvmlReturn_t nvmlDeviceGetPowerManagementLimitConstraints(nvmlDevice_t device, unsigned *low, unsigned *high)
{
    nvmlReturn_t status = read_milliwatts(device, "power_min_w", low);
    return status ? status : read_milliwatts(device, "power_max_w", high);
}

/* Clock types: graphics, SM, memory, video. */
static nvmlReturn_t read_clock(nvmlDevice_t device, const char *prefix, unsigned type, unsigned *mhz)
{
    static const char *const TYPES[] = {"graphics", "sm", "memory", "video"};
    char key[64];
    if (type >= sizeof TYPES / sizeof *TYPES)
        return INVALID_ARGUMENT;
    snprintf(key, sizeof key, "%s_%s", prefix, TYPES[type]);
    return read_u32(device, key, mhz);
}

enum { GRAPHICS = 0, SM = 1 };

/* Locked clocks hold graphics and SM alike; "clock_locked_max = 0" stands for free ones. */
static unsigned within_lock(nvmlDevice_t device, unsigned type, unsigned mhz)
{
    unsigned low = (unsigned)gpu_number(device->index, "clock_locked_min", 0);
    unsigned high = (unsigned)gpu_number(device->index, "clock_locked_max", 0);
    if (!high || (type != GRAPHICS && type != SM))
        return mhz;
    return mhz < low ? low : mhz > high ? high : mhz;
}

EXPORT nvmlReturn_t nvmlDeviceGetClockInfo(nvmlDevice_t device, unsigned type, unsigned *mhz)
{
    nvmlReturn_t status = read_clock(device, "clock", type, mhz);
    if (!status)
        *mhz = within_lock(device, type, *mhz);
    return status;
}

EXPORT nvmlReturn_t nvmlDeviceGetMaxClockInfo(nvmlDevice_t device, unsigned type, unsigned *mhz)
{
    return read_clock(device, "clock_max", type, mhz);
}

EXPORT nvmlReturn_t nvmlDeviceGetApplicationsClock(nvmlDevice_t device, unsigned type, unsigned *mhz)
{
    return read_clock(device, "clock_application", type, mhz);
}

EXPORT nvmlReturn_t nvmlDeviceGetDefaultApplicationsClock(nvmlDevice_t device, unsigned type, unsigned *mhz)
{
    return read_clock(device, "clock_application_default", type, mhz);
}

/* ---- Setting ---- */

nvmlReturn_t store_text(nvmlDevice_t device, const char *key, const char *text)
{
    const char *refusal;
    char name[64];
    nvmlReturn_t status = read_text(device, key, &refusal); /* what cannot be read cannot be set */
    if (status)
        return status;
    snprintf(name, sizeof name, "set_%s", key);
    refusal = gpu_setting(device->index, name);
    if (refusal && !strcmp(refusal, "HANG"))
        simulate_hang();
    if (refusal && meaning(refusal))
        return meaning(refusal);
    if (geteuid())
        return NO_PERMISSION;
    if (refusal && !strcmp(refusal, "KEPT"))
        return SUCCESS;
    return settings_store(device->index, key, text) ? UNKNOWN : SUCCESS;
}

static nvmlReturn_t store(nvmlDevice_t device, const char *key, double number)
{
    char text[64];
    snprintf(text, sizeof text, "%g", number);
    return store_text(device, key, text);
}

EXPORT nvmlReturn_t nvmlDeviceSetPersistenceMode(nvmlDevice_t device, unsigned mode)
{
    return store(device, "persistence", mode);
}

EXPORT nvmlReturn_t nvmlDeviceSetComputeMode(nvmlDevice_t device, unsigned mode)
{
    return store(device, "compute_mode", mode);
}

EXPORT nvmlReturn_t nvmlDeviceSetAccountingMode(nvmlDevice_t device, unsigned mode)
{
    return store(device, "accounting", mode);
}

/* A program with a context on the GPU keeps it from changing over, as the driver says it. */
int in_use(nvmlDevice_t device)
{
    const char *processes = gpu_setting(device->index, "processes");
    return processes && *processes;
}

EXPORT nvmlReturn_t nvmlDeviceSetEccMode(nvmlDevice_t device, unsigned mode)
{
    return store(device, "ecc_pending", mode);
}

EXPORT nvmlReturn_t nvmlDeviceSetMigMode(nvmlDevice_t device, unsigned mode, nvmlReturn_t *activation)
{
    nvmlReturn_t status = check_device(device);
    if (status)
        return status;
    const char *instances = gpu_setting(device->index, "mig_instances");
    if (in_use(device) || (!mode && in_instances(device) && instances && *instances))
        return IN_USE;
    *activation = SUCCESS;
    status = store(device, "mig_pending", mode);
    if (!status && gpu_number(device->index, "mig_at_once", 0) != 0)
        status = store(device, "mig", gpu_number(device->index, "mig_pending", 0));
    return status;
}

EXPORT nvmlReturn_t nvmlDeviceSetPowerManagementLimit(nvmlDevice_t device, unsigned milliwatts)
{
    unsigned low, high;
    nvmlReturn_t status = nvmlDeviceGetPowerManagementLimitConstraints(device, &low, &high);
    if (status)
        return status;
    if (milliwatts < low || milliwatts > high)
        return INVALID_ARGUMENT;
    return store(device, "power_limit_w", milliwatts / 1000.0);
}

static nvmlReturn_t lock_clocks(nvmlDevice_t device, unsigned low, unsigned high)
{
    nvmlReturn_t status = store(device, "clock_locked_min", low);
    return status ? status : store(device, "clock_locked_max", high);
}

EXPORT nvmlReturn_t nvmlDeviceSetGpuLockedClocks(nvmlDevice_t device, unsigned low, unsigned high)
{
    return !high || low > high ? INVALID_ARGUMENT : lock_clocks(device, low, high);
}

EXPORT nvmlReturn_t nvmlDeviceResetGpuLockedClocks(nvmlDevice_t device)
{
    return lock_clocks(device, 0, 0);
}

/* Simulated NVML: errors, NVLink and its fabric, field values and processes. */
#include "reading.h"
#include "settings.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* ---- Errors of the memory ---- */

enum { MEMORY_LOCATION_DRAM = 2, MEMORY_LOCATION_SRAM = 7 };

/* where: "", "dram_" or "sram_". Counters are not supported while ECC is off; volatile ones, of a GPU with MIG on. */
static nvmlReturn_t read_ecc(nvmlDevice_t device, const char *where, unsigned type, unsigned counter, uint64_t *count)
{
    static const char *const TYPES[] = {"corrected", "uncorrected"}, *const COUNTERS[] = {"volatile", "aggregate"};
    unsigned enabled;
    char key[64];
    nvmlReturn_t status = read_u32(device, "ecc", &enabled);
    if (status)
        return status;
    if (type > 1 || counter > 1)
        return INVALID_ARGUMENT;
    if (!enabled || (!counter && in_instances(device)))
        return NOT_SUPPORTED;
    snprintf(key, sizeof key, "ecc_%s%s_%s", where, COUNTERS[counter], TYPES[type]);
    return read_u64(device, key, count);
}

EXPORT nvmlReturn_t nvmlDeviceGetTotalEccErrors(nvmlDevice_t device, unsigned type, unsigned counter, uint64_t *count)
{
    return read_ecc(device, "", type, counter, count);
}

EXPORT nvmlReturn_t nvmlDeviceGetMemoryErrorCounter(nvmlDevice_t device, unsigned type, unsigned counter,
                                                    unsigned location, uint64_t *count)
{
    if (location == MEMORY_LOCATION_DRAM)
        return read_ecc(device, "dram_", type, counter, count);
    if (location == MEMORY_LOCATION_SRAM)
        return read_ecc(device, "sram_", type, counter, count);
    return NOT_SUPPORTED;
}

EXPORT nvmlReturn_t nvmlDeviceGetSramEccErrorStatus(nvmlDevice_t device, nvmlEccSramErrorStatus_t *sram)
{
    if (sram->version != VERSION(nvmlEccSramErrorStatus_t, 1))
        return ARGUMENT_VERSION_MISMATCH;
    nvmlReturn_t status = read_u32(device, "sram_threshold_exceeded", &sram->thresholdExceeded);
    if (!status)
        status = read_ecc(device, "sram_", 1, 1, &sram->aggregateUncSecDed);
    if (!status)
        status = read_ecc(device, "sram_", 0, 1, &sram->aggregateCor);
    sram->volatileUncSecDed = sram->volatileCor = 0;
    if (!status && !in_instances(device))
        status = read_ecc(device, "sram_", 1, 0, &sram->volatileUncSecDed);
    if (!status && !in_instances(device))
        status = read_ecc(device, "sram_", 0, 0, &sram->volatileCor);
    sram->aggregateUncParity = sram->volatileUncParity = 0;
    sram->bucketL2 = sram->aggregateUncSecDed;
    sram->bucketSm = sram->bucketPcie = sram->bucketMcu = sram->bucketOther = 0;
    return status;
}

EXPORT nvmlReturn_t nvmlDeviceGetRemappedRows(nvmlDevice_t device, unsigned *corrected, unsigned *uncorrected,
                                              unsigned *pending, unsigned *failure)
{
    if (in_instances(device))
        return NOT_SUPPORTED;
    nvmlReturn_t status = read_u32(device, "remapped_corrected", corrected);
    if (!status)
        status = read_u32(device, "remapped_uncorrected", uncorrected);
    if (!status)
        status = read_u32(device, "remapped_pending", pending);
    return status ? status : read_u32(device, "remapped_failure", failure);
}

EXPORT nvmlReturn_t nvmlDeviceGetRowRemapperHistogram(nvmlDevice_t device, nvmlRowRemapperHistogramValues_t *banks)
{
    const char *value;
    nvmlReturn_t status = read_text(device, "remap_histogram", &value);
    if (status)
        return status;
    int read = sscanf(value, "%u %u %u %u %u", &banks->max, &banks->high, &banks->partial, &banks->low, &banks->none);
    return read == 5 ? SUCCESS : UNKNOWN;
}

EXPORT nvmlReturn_t nvmlDeviceGetRetiredPages_v2(nvmlDevice_t device, unsigned cause, unsigned *count,
                                                 uint64_t *addresses, uint64_t *times)
{
    unsigned retired, room = *count;
    nvmlReturn_t status = read_u32(device, cause ? "retired_double_bit" : "retired_single_bit", &retired);
    if (status)
        return status;
    *count = retired;
    if (retired > room || (retired && !addresses))
        return INSUFFICIENT_SIZE;
    for (unsigned i = 0; i < retired; i++) {
        addresses[i] = 0x1000u * (i + 1);
        if (times)
            times[i] = 0;
    }
    return SUCCESS;
}

EXPORT nvmlReturn_t nvmlDeviceGetRetiredPages(nvmlDevice_t device, unsigned cause, unsigned *count,
                                              uint64_t *addresses)
{
    return nvmlDeviceGetRetiredPages_v2(device, cause, count, addresses, NULL);
}

READ_U32(nvmlDeviceGetRetiredPagesPendingStatus, "retired_pending")

/* ---- NVLink, fabric, topology ---- */

/* Whether a list such as "3 7" holds the number. */
static int list_holds(const char *list, unsigned wanted)
{
    char *end;
    for (const char *at = list; at && *at; at = end) {
        unsigned long number = strtoul(at, &end, 0);
        if (end == at)
            return 0;
        if (number == wanted)
            return 1;
    }
    return 0;
}

static nvmlReturn_t check_link(nvmlDevice_t device, unsigned link)
{
    unsigned links;
    nvmlReturn_t status = read_u32(device, "nvlinks", &links);
    if (status)
        return status;
    return !links ? NOT_SUPPORTED : link >= links ? INVALID_ARGUMENT : SUCCESS;
}

EXPORT nvmlReturn_t nvmlDeviceGetNvLinkState(nvmlDevice_t device, unsigned link, unsigned *active)
{
    nvmlReturn_t status = check_link(device, link);
    if (!status)
        *active = !list_holds(gpu_setting(device->index, "nvlinks_down"), link);
    return status;
}

EXPORT nvmlReturn_t nvmlDeviceGetNvLinkVersion(nvmlDevice_t device, unsigned link, unsigned *version)
{
    nvmlReturn_t status = check_link(device, link);
    return status ? status : read_u32(device, "nvlink_version", version);
}

EXPORT nvmlReturn_t nvmlDeviceGetNvLinkErrorCounter(nvmlDevice_t device, unsigned link, unsigned counter,
                                                    uint64_t *errors)
{
    (void)counter;
    nvmlReturn_t status = check_link(device, link);
    return status ? status : read_u64(device, "nvlink_errors", errors);
}

EXPORT nvmlReturn_t nvmlDeviceGetNvLinkCapability(nvmlDevice_t device, unsigned link, unsigned capability,
                                                  unsigned *has)
{
    (void)capability;
    nvmlReturn_t status = check_link(device, link);
    if (!status)
        *has = 1;
    return status;
}

/* 0 a GPU, 2 a switch. */
EXPORT nvmlReturn_t nvmlDeviceGetNvLinkRemoteDeviceType(nvmlDevice_t device, unsigned link, unsigned *type)
{
    nvmlReturn_t status = check_link(device, link);
    return status ? status : read_u32(device, "nvlink_remote", type);
}

static nvmlReturn_t read_fabric(nvmlDevice_t device, nvmlGpuFabricInfo_v3_t *fabric)
{
    unsigned state = 0, health = 0, summary = 0, registered = 0;
    nvmlReturn_t status = read_u32(device, "fabric_state", &state);
    if (!status)
        status = read_u32(device, "fabric_status", &registered);
    if (!status)
        status = read_u32(device, "fabric_clique", &fabric->cliqueId);
    if (!status)
        status = read_u32(device, "fabric_health", &health);
    if (!status)
        status = read_u32(device, "fabric_health_summary", &summary);
    memset(fabric->clusterUuid, 0, sizeof fabric->clusterUuid);
    fabric->state = (unsigned char)state;
    fabric->status = (nvmlReturn_t)registered;
    fabric->healthMask = health;
    fabric->healthSummary = (unsigned char)summary;
    return status;
}

EXPORT nvmlReturn_t nvmlDeviceGetGpuFabricInfo(nvmlDevice_t device, nvmlGpuFabricInfo_t *fabric)
{
    nvmlGpuFabricInfo_v3_t detailed = {0};
    nvmlReturn_t status = read_fabric(device, &detailed);
    if (!status)
        *fabric = (nvmlGpuFabricInfo_t){{0}, detailed.status, detailed.cliqueId, detailed.state};
    return status;
}

/* Takes version 2 or 3. */
EXPORT nvmlReturn_t nvmlDeviceGetGpuFabricInfoV(nvmlDevice_t device, nvmlGpuFabricInfo_v2_t *fabric)
{
    nvmlGpuFabricInfo_v3_t detailed = {.version = fabric->version};
    if (lacks(__func__))
        return FUNCTION_NOT_FOUND;
    nvmlReturn_t status = read_fabric(device, &detailed);
    if (status)
        return status;
    if (fabric->version == VERSION(nvmlGpuFabricInfo_v3_t, 3))
        memcpy(fabric, &detailed, sizeof detailed);
    else if (fabric->version == VERSION(nvmlGpuFabricInfo_v2_t, 2))
        memcpy(fabric, &detailed, sizeof *fabric);
    else
        return ARGUMENT_VERSION_MISMATCH;
    return SUCCESS;
}

EXPORT nvmlReturn_t nvmlDeviceGetP2PStatus(nvmlDevice_t device, nvmlDevice_t peer, unsigned capability, unsigned *p2p)
{
    enum { CAPABILITY_NVLINK = 2, P2P_NOT_SUPPORTED = 5 };
    nvmlReturn_t status = check_device(peer);
    if (!status)
        status = read_u32(device, capability == CAPABILITY_NVLINK ? "p2p_nvlink" : "p2p", p2p);
    if (!status && (in_instances(device) || in_instances(peer)))
        *p2p = P2P_NOT_SUPPORTED;
    return status;
}

/* topology is the level between GPUs of one NUMA node. */
EXPORT nvmlReturn_t nvmlDeviceGetTopologyCommonAncestor(nvmlDevice_t device, nvmlDevice_t peer, unsigned *level)
{
    enum { LEVEL_SYSTEM = 50 };
    nvmlReturn_t status = check_device(peer);
    if (!status)
        status = read_u32(device, "topology", level);
    if (!status && gpu_number(device->index, "numa_node", 0) != gpu_number(peer->index, "numa_node", 0))
        *level = LEVEL_SYSTEM;
    return status;
}

/* ---- Field values ---- */

enum { VALUE_UNSIGNED = 1, VALUE_UNSIGNED_LONG_LONG = 3, VALUE_SIGNED = 5 };

static const struct field {
    unsigned id;
    const char *key;
} FIELDS[] = {
    {1, "ecc"},
    {2, "ecc_pending"},
    {3, "ecc_volatile_corrected"},
    {4, "ecc_volatile_uncorrected"},
    {5, "ecc_aggregate_corrected"},
    {6, "ecc_aggregate_uncorrected"},
    {29, "retired_single_bit"},
    {30, "retired_double_bit"},
    {31, "retired_pending"},
    {82, "temp_memory"},
    {90, "nvlink_mbps"},
    {91, "nvlinks"},
    {94, "pcie_replay"},
    {142, "remapped_corrected"},
    {143, "remapped_uncorrected"},
    {144, "remapped_pending"},
    {145, "remapped_failure"},
    {230, "recovery_action"},
};
static const struct field SIGNED_FIELDS[] = {
    {193, "tlimit_shutdown"},
    {194, "tlimit_slowdown"},
    {195, "tlimit_memory_max"},
    {196, "tlimit_gpu_max"},
};
static const struct field POWER_FIELDS[] = {
    {185, "power_w"}, {186, "power_w"}, {187, "power_min_w"}, {188, "power_max_w"},
    {189, "power_default_w"}, {190, "power_limit_w"}, {192, "power_limit_w"},
};
enum { FIELD_ENERGY = 83, FIELD_LINK_SPEED = 164, FIELD_LINK_STATE = 165 };

static const char *field_key(const struct field *fields, size_t count, unsigned id)
{
    for (size_t i = 0; i < count; i++)
        if (fields[i].id == id)
            return fields[i].key;
    return NULL;
}
#define FIELD_KEY(fields, id) field_key(fields, sizeof(fields) / sizeof *(fields), id)

static nvmlReturn_t read_field(nvmlDevice_t device, nvmlFieldValue_t *field)
{
    const char *power = FIELD_KEY(POWER_FIELDS, field->fieldId);
    const char *is_signed = FIELD_KEY(SIGNED_FIELDS, field->fieldId);
    const char *key = FIELD_KEY(FIELDS, field->fieldId);
    double number = 0;
    nvmlReturn_t status;
    field->valueType = VALUE_UNSIGNED;
    if (power)
        return read_milliwatts(device, power, &field->value.uiVal);
    if (is_signed) {
        field->valueType = VALUE_SIGNED;
        status = read_number(device, is_signed, &number);
        field->value.siVal = (int)number;
        return status;
    }
    if (field->fieldId == FIELD_LINK_STATE)
        return nvmlDeviceGetNvLinkState(device, field->scopeId, &field->value.uiVal);
    if (field->fieldId == FIELD_LINK_SPEED) {
        status = check_link(device, field->scopeId);
        return status ? status : read_u32(device, "nvlink_mbps", &field->value.uiVal);
    }
    if (field->fieldId == FIELD_ENERGY) {
        field->valueType = VALUE_UNSIGNED_LONG_LONG;
        return read_u64(device, "energy_mj", &field->value.ullVal);
    }
    return key ? read_u32(device, key, &field->value.uiVal) : NOT_SUPPORTED;
}

EXPORT nvmlReturn_t nvmlDeviceGetFieldValues(nvmlDevice_t device, int count, nvmlFieldValue_t *fields)
{
    nvmlReturn_t status = check_device(device);
    for (int i = 0; !status && i < count; i++) {
        fields[i].timestamp = fields[i].latencyUsec = 0;
        fields[i].value.ullVal = 0;
        fields[i].nvmlReturn = read_field(device, &fields[i]);
    }
    return status;
}

/* ---- Processes: "4242:1024 4243:512" is pid:MiB ---- */

EXPORT nvmlReturn_t nvmlDeviceGetComputeRunningProcesses_v3(nvmlDevice_t device, unsigned *count,
                                                            nvmlProcessInfo_t *processes)
{
    const char *value;
    unsigned room = *count, found = 0, pid, mib;
    int length;
    nvmlReturn_t status = read_text(device, "processes", &value);
    if (status)
        return status;
    for (; sscanf(value, " %u:%u%n", &pid, &mib, &length) == 2; value += length, found++)
        if (processes && found < room)
            processes[found] = (nvmlProcessInfo_t){pid, (uint64_t)mib << 20, ~0u, ~0u};
    *count = found;
    return found > room ? INSUFFICIENT_SIZE : SUCCESS;
}

EXPORT nvmlReturn_t nvmlDeviceGetComputeRunningProcesses_v2(nvmlDevice_t device, unsigned *count,
                                                            nvmlProcessInfo_t *processes)
{
    return nvmlDeviceGetComputeRunningProcesses_v3(device, count, processes);
}

static nvmlReturn_t no_processes(nvmlDevice_t device, unsigned *count)
{
    nvmlReturn_t status = check_device(device);
    if (!status)
        *count = 0;
    return status;
}

EXPORT nvmlReturn_t nvmlDeviceGetGraphicsRunningProcesses_v3(nvmlDevice_t device, unsigned *count, void *processes)
{
    (void)processes;
    return no_processes(device, count);
}

EXPORT nvmlReturn_t nvmlDeviceGetMPSComputeRunningProcesses_v3(nvmlDevice_t device, unsigned *count, void *processes)
{
    (void)processes;
    return no_processes(device, count);
}

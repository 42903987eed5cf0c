/* Simulated NVML: the library, the system, handles and what a GPU is. */
#define _GNU_SOURCE
#include "reading.h"
#include "settings.h"

#include <glob.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

/* ---- Library and system ---- */

/* The user space of the driver that is installed now against the module loaded at boot. */
static nvmlReturn_t compare_installed_library(void)
{
    const char *pattern = node_setting("installed_library"), *loaded = node_setting("driver_version");
    glob_t found;
    nvmlReturn_t status;
    if (!pattern || !loaded)
        return SUCCESS;
    if (glob(pattern, GLOB_BRACE, NULL, &found))
        return LIBRARY_NOT_FOUND;
    status = LIB_RM_VERSION_MISMATCH;
    for (size_t i = 0; i < found.gl_pathc; i++) {
        const char *version = strstr(found.gl_pathv[i], ".so.");
        if (version && !strcmp(version + 4, loaded))
            status = SUCCESS;
    }
    globfree(&found);
    return status;
}

EXPORT nvmlReturn_t nvmlInitWithFlags(unsigned flags)
{
    (void)flags;
    settings_read();
    simulate_wait(-1);
    nvmlReturn_t status = (nvmlReturn_t)node_number("init", SUCCESS);
    if (!status)
        status = compare_installed_library();
    if (status)
        return status;
    for (int i = 0; i < MAX_GPUS; i++)
        nvml_devices[i].index = i;
    nvml_initialized++;
    return SUCCESS;
}

EXPORT nvmlReturn_t nvmlInit_v2(void)
{
    return nvmlInitWithFlags(0);
}

EXPORT nvmlReturn_t nvmlInit(void)
{
    return nvmlInitWithFlags(0);
}

EXPORT nvmlReturn_t nvmlShutdown(void)
{
    if (!nvml_initialized)
        return UNINITIALIZED;
    nvml_initialized--;
    return SUCCESS;
}

EXPORT const char *nvmlErrorString(nvmlReturn_t status)
{
    static const char *const TEXTS[] = {
        "Success", "Uninitialized", "Invalid Argument", "Not Supported", "Insufficient Permissions",
        "Already Initialized", "Not Found", "Insufficient Size", "Insufficient External Power",
        "Driver Not Loaded", "Timeout", "Interrupt Request Issue", "NVML Shared Library Not Found",
        "Function Not Found", "Corrupted infoROM", "GPU is lost", "GPU requires reset",
        "The operating system has blocked the request", "RM has detected an NVML/RM version mismatch",
        "In use by another client", "Insufficient Memory", "No data", "vGPU ECC not supported",
        "Insufficient Resources", "Frequency not supported", "Argument version mismatch", "Deprecated",
        "Not Ready", "GPU not found", "Invalid State"};
    if (status < 0 || status >= (nvmlReturn_t)(sizeof TEXTS / sizeof *TEXTS))
        return "Unknown Error";
    return TEXTS[status];
}

static nvmlReturn_t system_text(const char *key, char *buffer, unsigned size)
{
    const char *value = node_setting(key);
    if (!nvml_initialized)
        return UNINITIALIZED;
    nvmlReturn_t status = meaning(value);
    return status ? status : copy_text(value, buffer, size);
}

EXPORT nvmlReturn_t nvmlSystemGetDriverVersion(char *buffer, unsigned size)
{
    return system_text("driver_version", buffer, size);
}

EXPORT nvmlReturn_t nvmlSystemGetCudaDriverVersion_v2(int *version)
{
    if (!nvml_initialized)
        return UNINITIALIZED;
    nvmlReturn_t status = meaning(node_setting("cuda_version"));
    if (!status)
        *version = (int)node_number("cuda_version", 0);
    return status;
}

EXPORT nvmlReturn_t nvmlSystemGetCudaDriverVersion(int *version)
{
    return nvmlSystemGetCudaDriverVersion_v2(version);
}

/* NVML's own version is the driver's, behind the major version of CUDA. */
EXPORT nvmlReturn_t nvmlSystemGetNVMLVersion(char *buffer, unsigned size)
{
    char version[MAX_VALUE + 32];
    if (node_setting("nvml_version"))
        return system_text("nvml_version", buffer, size);
    const char *driver = node_setting("driver_version");
    snprintf(version, sizeof version, "%ld.%s", node_number("cuda_version", 0) / 1000, driver ? driver : "");
    return nvml_initialized ? copy_text(version, buffer, size) : UNINITIALIZED;
}

/* ---- Handles and identity ---- */

EXPORT nvmlReturn_t nvmlDeviceGetCount_v2(unsigned *count)
{
    if (!nvml_initialized)
        return UNINITIALIZED;
    *count = (unsigned)gpu_count();
    return SUCCESS;
}

EXPORT nvmlReturn_t nvmlDeviceGetCount(unsigned *count)
{
    return nvmlDeviceGetCount_v2(count);
}

EXPORT nvmlReturn_t nvmlDeviceGetHandleByIndex_v2(unsigned index, nvmlDevice_t *device)
{
    if (!nvml_initialized)
        return UNINITIALIZED;
    if (index >= (unsigned)gpu_count())
        return INVALID_ARGUMENT;
    *device = &nvml_devices[index];
    return check_device(*device);
}

EXPORT nvmlReturn_t nvmlDeviceGetHandleByIndex(unsigned index, nvmlDevice_t *device)
{
    return nvmlDeviceGetHandleByIndex_v2(index, device);
}

void uuid_of(int gpu, char *text)
{
    const char *set = gpu_setting(gpu, "uuid");
    if (set)
        snprintf(text, MAX_VALUE, "%s", set);
    else
        snprintf(text, MAX_VALUE, "GPU-51301a7e-0000-4000-8000-%012x", gpu);
}

static nvmlReturn_t find_device(int (*fits)(int gpu, const char *wanted), const char *wanted, nvmlDevice_t *device)
{
    if (!nvml_initialized)
        return UNINITIALIZED;
    for (int gpu = 0; gpu < gpu_count(); gpu++)
        if (fits(gpu, wanted)) {
            *device = &nvml_devices[gpu];
            return check_device(*device);
        }
    return NOT_FOUND;
}

static int uuid_fits(int gpu, const char *wanted)
{
    char uuid[MAX_VALUE];
    uuid_of(gpu, uuid);
    return !strcasecmp(uuid, wanted);
}

static int serial_fits(int gpu, const char *wanted)
{
    const char *serial = gpu_setting(gpu, "serial");
    return !meaning(serial) && !strcmp(serial, wanted);
}

static int address_fits(int gpu, const char *wanted)
{
    unsigned domain = 0, bus, slot, set_domain = 0, set_bus, set_slot;
    const char *set = gpu_setting(gpu, "address");
    return set && sscanf(set, "%x:%x:%x", &set_domain, &set_bus, &set_slot) == 3
        && sscanf(wanted, "%x:%x:%x", &domain, &bus, &slot) == 3
        && domain == set_domain && bus == set_bus && slot == set_slot;
}

EXPORT nvmlReturn_t nvmlDeviceGetHandleByUUID(const char *uuid, nvmlDevice_t *device)
{
    return find_device(uuid_fits, uuid, device);
}

EXPORT nvmlReturn_t nvmlDeviceGetHandleBySerial(const char *serial, nvmlDevice_t *device)
{
    return find_device(serial_fits, serial, device);
}

EXPORT nvmlReturn_t nvmlDeviceGetHandleByPciBusId_v2(const char *address, nvmlDevice_t *device)
{
    return find_device(address_fits, address, device);
}

EXPORT nvmlReturn_t nvmlDeviceGetIndex(nvmlDevice_t device, unsigned *index)
{
    nvmlReturn_t status = check_device(device);
    if (!status)
        *index = (unsigned)device->index;
    return status;
}

EXPORT nvmlReturn_t nvmlDeviceGetMinorNumber(nvmlDevice_t device, unsigned *minor)
{
    return nvmlDeviceGetIndex(device, minor);
}

EXPORT nvmlReturn_t nvmlDeviceGetUUID(nvmlDevice_t device, char *buffer, unsigned size)
{
    char uuid[MAX_VALUE];
    if (is_mig_device(device))
        return mig_device_uuid(device, buffer, size);
    nvmlReturn_t status = check_device(device);
    if (status)
        return status;
    uuid_of(device->index, uuid);
    status = meaning(uuid);
    return status ? status : copy_text(uuid, buffer, size);
}

EXPORT nvmlReturn_t nvmlDeviceGetName(nvmlDevice_t device, char *buffer, unsigned size)
{
    const char *name;
    if (is_mig_device(device))
        return mig_device_name(device, buffer, size);
    nvmlReturn_t status = read_text(device, "name", &name);
    return status ? status : copy_text(name, buffer, size);
}

READ_TEXT(nvmlDeviceGetSerial, "serial")
READ_TEXT(nvmlDeviceGetBoardPartNumber, "board_part_number")
READ_TEXT(nvmlDeviceGetVbiosVersion, "vbios")
READ_TEXT(nvmlDeviceGetInforomImageVersion, "inforom")
READ_U32(nvmlDeviceGetBoardId, "board_id")
READ_U32(nvmlDeviceGetModuleId, "module_id")
READ_U32(nvmlDeviceGetBrand, "brand")
READ_U32(nvmlDeviceGetArchitecture, "architecture")
READ_U32(nvmlDeviceGetNumGpuCores, "cores")
READ_U32(nvmlDeviceGetMemoryBusWidth, "memory_bus_width")

EXPORT nvmlReturn_t nvmlDeviceGetNumaNodeId(nvmlDevice_t device, unsigned *node)
{
    return lacks(__func__) ? FUNCTION_NOT_FOUND : read_u32(device, "numa_node", node);
}

EXPORT nvmlReturn_t nvmlDeviceValidateInforom(nvmlDevice_t device)
{
    const char *value;
    return read_text(device, "inforom_valid", &value);
}

EXPORT nvmlReturn_t nvmlDeviceGetCudaComputeCapability(nvmlDevice_t device, int *major, int *minor)
{
    const char *value;
    nvmlReturn_t status = read_text(device, "compute_capability", &value);
    if (!status && sscanf(value, "%d.%d", major, minor) != 2)
        return UNKNOWN;
    return status;
}

/* A "vvvv:dddd" setting as NVML's one number: the device in the high half, the vendor in the low. */
static nvmlReturn_t read_pci_id(nvmlDevice_t device, const char *key, unsigned *id)
{
    unsigned vendor, product;
    const char *value;
    nvmlReturn_t status = read_text(device, key, &value);
    if (!status && sscanf(value, "%x:%x", &vendor, &product) != 2)
        return UNKNOWN;
    if (!status)
        *id = product << 16 | vendor;
    return status;
}

EXPORT nvmlReturn_t nvmlDeviceGetPciInfo_v3(nvmlDevice_t device, nvmlPciInfo_t *pci)
{
    const char *address;
    nvmlReturn_t status = read_text(device, "address", &address);
    if (status)
        return status;
    memset(pci, 0, sizeof *pci);
    if (sscanf(address, "%x:%x:%x", &pci->domain, &pci->bus, &pci->device) != 3)
        return UNKNOWN;
    snprintf(pci->busId, sizeof pci->busId, "%08X:%02X:%02X.0", pci->domain, pci->bus & 0xff, pci->device & 0xff);
    snprintf(pci->busIdLegacy, sizeof pci->busIdLegacy, "%04X:%02X:%02X.0", pci->domain & 0xffff, pci->bus & 0xff,
             pci->device & 0xff);
    status = read_pci_id(device, "device", &pci->pciDeviceId);
    return status ? status : read_pci_id(device, "subsystem", &pci->pciSubSystemId);
}

EXPORT nvmlReturn_t nvmlDeviceGetPciInfo_v2(nvmlDevice_t device, nvmlPciInfo_t *pci)
{
    return nvmlDeviceGetPciInfo_v3(device, pci);
}

EXPORT nvmlReturn_t nvmlDeviceGetPciInfoExt(nvmlDevice_t device, nvmlPciInfoExt_t *pci)
{
    nvmlPciInfo_t plain;
    if (lacks(__func__))
        return FUNCTION_NOT_FOUND;
    if (pci->version != VERSION(nvmlPciInfoExt_t, 1))
        return ARGUMENT_VERSION_MISMATCH;
    nvmlReturn_t status = nvmlDeviceGetPciInfo_v3(device, &plain);
    if (status)
        return status;
    *pci = (nvmlPciInfoExt_t){pci->version, plain.domain, plain.bus, plain.device, plain.pciDeviceId,
                              plain.pciSubSystemId, 3, (unsigned)gpu_number(device->index, "display", 0) ? 0 : 2, ""};
    memcpy(pci->busId, plain.busId, sizeof pci->busId);
    return SUCCESS;
}

/* The GSP runs the driver's own firmware unless a setting says otherwise. */
EXPORT nvmlReturn_t nvmlDeviceGetGspFirmwareMode(nvmlDevice_t device, unsigned *enabled, unsigned *by_default)
{
    nvmlReturn_t status = read_u32(device, "gsp", enabled);
    if (!status)
        *by_default = 1;
    return status;
}

EXPORT nvmlReturn_t nvmlDeviceGetGspFirmwareVersion(nvmlDevice_t device, char *version)
{
    const char *value;
    unsigned enabled = 0;
    nvmlReturn_t status = read_u32(device, "gsp", &enabled);
    if (status || !enabled)
        return status ? status : NOT_SUPPORTED;
    value = gpu_setting(device->index, "gsp_firmware");
    if (!value)
        return system_text("driver_version", version, 64);
    status = meaning(value);
    return status ? status : copy_text(value, version, 64);
}

/* Reads one setting as an NVML function returns it; see reading.h. */
#include "reading.h"

#include "settings.h"

#include <stdlib.h>
#include <string.h>

struct nvmlDevice_st nvml_devices[MAX_GPUS];
int nvml_initialized;

nvmlReturn_t meaning(const char *value)
{
    if (!value || !strcmp(value, "N/A"))
        return NOT_SUPPORTED;
    if (!strcmp(value, "ABSENT"))
        return FUNCTION_NOT_FOUND;
    if (!strncmp(value, "ERR:", 4))
        return atoi(value + 4);
    return SUCCESS;
}

int lacks(const char *function)
{
    const char *list = node_setting("absent_functions"), *at = list ? strstr(list, function) : NULL;
    return at && strchr(" ", at[strlen(function)]);
}

nvmlReturn_t check_device(nvmlDevice_t device)
{
    if (!nvml_initialized)
        return UNINITIALIZED;
    if (device < nvml_devices || device >= nvml_devices + gpu_count())
        return INVALID_ARGUMENT;
    simulate_wait(device->index);
    return (nvmlReturn_t)gpu_number(device->index, "lost", SUCCESS);
}

nvmlReturn_t read_text(nvmlDevice_t device, const char *key, const char **value)
{
    nvmlReturn_t status = check_device(device);
    if (status)
        return status;
    *value = gpu_setting(device->index, key);
    return meaning(*value);
}

nvmlReturn_t read_number(nvmlDevice_t device, const char *key, double *number)
{
    const char *value;
    nvmlReturn_t status = read_text(device, key, &value);
    if (!status)
        *number = strtod(value, NULL);
    return status;
}

nvmlReturn_t read_u64(nvmlDevice_t device, const char *key, uint64_t *number)
{
    const char *value;
    nvmlReturn_t status = read_text(device, key, &value);
    if (!status && !number)
        return INVALID_ARGUMENT;
    if (!status)
        *number = strtoull(value, NULL, 0);
    return status;
}

nvmlReturn_t read_u32(nvmlDevice_t device, const char *key, unsigned *number)
{
    uint64_t wide = 0;
    nvmlReturn_t status = read_u64(device, key, &wide);
    if (!status && !number)
        return INVALID_ARGUMENT;
    if (!status)
        *number = (unsigned)wide;
    return status;
}

nvmlReturn_t read_milliwatts(nvmlDevice_t device, const char *key, unsigned *milliwatts)
{
    double watts;
    nvmlReturn_t status = read_number(device, key, &watts);
    if (!status)
        *milliwatts = (unsigned)(watts * 1000 + 0.5);
    return status;
}

nvmlReturn_t copy_text(const char *value, char *buffer, unsigned size)
{
    if (!buffer)
        return INVALID_ARGUMENT;
    if (strlen(value) >= size)
        return INSUFFICIENT_SIZE;
    strcpy(buffer, value);
    return SUCCESS;
}

/* Simulated NVML: Multi-Instance GPU. What a GPU can be cut into is mig_profile.N of its model, N being NVML's number of
 * the profile; what it is cut into is its setting mig_instances, as "1/9/0/0.2 2/9/4/0.2": of each GPU instance its id,
 * profile id, first slice, and compute instances (id.profile,id.profile, or - for none).
 * mig_refuse = 14 lets the creation of that profile fail, mig_refuse_compute = 2 that of a compute instance. */
#define _GNU_SOURCE
#include "reading.h"
#include "settings.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { PROFILES = 18, COMPUTE_PROFILES = 9, MAX_INSTANCES = 8, NONE = -1 };

struct nvmlGpuInstance_st {
    int gpu;
    unsigned id;
};

struct nvmlComputeInstance_st {
    int gpu;
    unsigned instance, id;
};

struct profile {
    unsigned id, slices, count, mib, multiprocessors, size, starts[MAX_INSTANCES], start_count;
    char name[32];
};

struct instance {
    unsigned id, start;
    struct profile profile;
    int compute[MAX_INSTANCES]; /* a compute instance's profile by its id, or NONE */
};

static struct nvmlGpuInstance_st gpu_handles[MAX_GPUS][MAX_INSTANCES + 1];
static struct nvmlComputeInstance_st compute_handles[MAX_GPUS][MAX_INSTANCES + 1][MAX_INSTANCES];
static struct nvmlDevice_st mig_handles[MAX_GPUS][MAX_INSTANCES + 1][MAX_INSTANCES];

/* ---- What there can be, and what there is ---- */

static int read_profile(int gpu, unsigned number, struct profile *profile)
{
    char key[32], starts[64];
    snprintf(key, sizeof key, "mig_profile.%u", number);
    const char *value = gpu_setting(gpu, key);
    memset(profile, 0, sizeof *profile);
    if (!value || sscanf(value, "%u %u %u %u %u %u %63s %31s", &profile->id, &profile->slices, &profile->count,
                         &profile->mib, &profile->multiprocessors, &profile->size, starts, profile->name) != 8)
        return 0;
    for (char *at = starts; *at && profile->start_count < MAX_INSTANCES; at += *at == ',')
        profile->starts[profile->start_count++] = (unsigned)strtoul(at, &at, 10);
    return 1;
}

static int profile_by_id(int gpu, unsigned id, struct profile *profile)
{
    for (unsigned number = 0; number < PROFILES; number++)
        if (read_profile(gpu, number, profile) && profile->id == id)
            return 1;
    return 0;
}

/* 1, 2, 3, 4, 8, 6 and 7 slices by the number of the compute profile; those that GPUs here have. */
static unsigned compute_slices(unsigned profile)
{
    static const unsigned SLICES[COMPUTE_PROFILES] = {1, 2, 3, 4, 7};
    return profile < COMPUTE_PROFILES ? SLICES[profile] : 0;
}

static unsigned read_instances(int gpu, struct instance found[MAX_INSTANCES])
{
    const char *value = gpu_setting(gpu, "mig_instances");
    char text[MAX_VALUE], *rest = NULL, compute[128];
    unsigned count = 0, profile;
    snprintf(text, sizeof text, "%s", value ? value : "");
    for (char *one = strtok_r(text, " ", &rest); one && count < MAX_INSTANCES; one = strtok_r(NULL, " ", &rest)) {
        struct instance *instance = &found[count];
        if (sscanf(one, "%u/%u/%u/%127s", &instance->id, &profile, &instance->start, compute) != 4
            || instance->id > MAX_INSTANCES || !profile_by_id(gpu, profile, &instance->profile))
            continue;
        for (int id = 0; id < MAX_INSTANCES; id++)
            instance->compute[id] = NONE;
        unsigned id, kind;
        int length;
        for (const char *at = compute; sscanf(at, "%u.%u%n", &id, &kind, &length) == 2; at += at[length] ? length + 1 : length)
            if (id < MAX_INSTANCES)
                instance->compute[id] = (int)kind;
        count++;
    }
    return count;
}

static nvmlReturn_t keep_instances(int gpu, const struct instance *instances, unsigned count)
{
    char text[MAX_VALUE] = "";
    size_t length = 0;
    for (unsigned i = 0; i < count && length < sizeof text; i++) {
        const char *mark = "";
        length += (size_t)snprintf(text + length, sizeof text - length, "%s%u/%u/%u/", i ? " " : "", instances[i].id,
                                   instances[i].profile.id, instances[i].start);
        for (int id = 0; id < MAX_INSTANCES && length < sizeof text; id++)
            if (instances[i].compute[id] != NONE) {
                length += (size_t)snprintf(text + length, sizeof text - length, "%s%d.%d", mark, id,
                                           instances[i].compute[id]);
                mark = ",";
            }
        if (!*mark && length < sizeof text)
            length += (size_t)snprintf(text + length, sizeof text - length, "-");
    }
    return length < sizeof text ? store_text(&nvml_devices[gpu], "mig_instances", text) : UNKNOWN;
}

int in_instances(nvmlDevice_t device)
{
    return gpu_number(device->index, "mig", 0) != 0;
}

static nvmlReturn_t check_cut(nvmlDevice_t device)
{
    const char *value;
    nvmlReturn_t status = read_text(device, "mig_instances", &value);
    return status ? status : in_instances(device) ? SUCCESS : NOT_SUPPORTED;
}

/* ---- GPU instances ---- */

EXPORT nvmlReturn_t nvmlDeviceGetGpuInstanceProfileInfoV(nvmlDevice_t device, unsigned number,
                                                         nvmlGpuInstanceProfileInfo_v2_t *info)
{
    struct profile profile;
    nvmlReturn_t status = check_device(device);
    if (status)
        return status;
    if (lacks(__func__))
        return FUNCTION_NOT_FOUND;
    if (info->version != VERSION(nvmlGpuInstanceProfileInfo_v2_t, 2))
        return ARGUMENT_VERSION_MISMATCH;
    if (number >= PROFILES)
        return INVALID_ARGUMENT;
    if (!read_profile(device->index, number, &profile))
        return NOT_SUPPORTED;
    *info = (nvmlGpuInstanceProfileInfo_v2_t){.version = info->version,
                                              .id = profile.id,
                                              .sliceCount = profile.slices,
                                              .instanceCount = profile.count,
                                              .multiprocessorCount = profile.multiprocessors,
                                              .copyEngineCount = profile.slices,
                                              .memorySizeMB = profile.mib};
    snprintf(info->name, sizeof info->name, "MIG %s", profile.name);
    return SUCCESS;
}

EXPORT nvmlReturn_t nvmlDeviceGetGpuInstancePossiblePlacements_v2(nvmlDevice_t device, unsigned id,
                                                                  nvmlGpuInstancePlacement_t *placements,
                                                                  unsigned *count)
{
    struct profile profile;
    nvmlReturn_t status = check_device(device);
    if (status)
        return status;
    if (!profile_by_id(device->index, id, &profile))
        return NOT_SUPPORTED;
    if (placements && *count < profile.start_count)
        return INSUFFICIENT_SIZE;
    for (unsigned i = 0; placements && i < profile.start_count; i++)
        placements[i] = (nvmlGpuInstancePlacement_t){profile.starts[i], profile.size};
    *count = profile.start_count;
    return SUCCESS;
}

EXPORT nvmlReturn_t nvmlDeviceGetGpuInstances(nvmlDevice_t device, unsigned id, nvmlGpuInstance_t *found,
                                              unsigned *count)
{
    struct instance instances[MAX_INSTANCES];
    nvmlReturn_t status = check_cut(device);
    if (status)
        return status;
    unsigned all = read_instances(device->index, instances);
    *count = 0;
    for (unsigned i = 0; i < all; i++)
        if (instances[i].profile.id == id) {
            struct nvmlGpuInstance_st *handle = &gpu_handles[device->index][instances[i].id];
            *handle = (struct nvmlGpuInstance_st){device->index, instances[i].id};
            found[(*count)++] = handle;
        }
    return SUCCESS;
}

/* Each slice of memory is in one instance, and so is each slice of the multiprocessors. */
static int fits(int gpu, const struct instance *instances, unsigned count, const struct profile *profile, unsigned start)
{
    struct profile whole;
    unsigned slices = profile->slices, same = 0, most = 0, possible = 0;
    for (unsigned i = 0; i < count; i++) {
        if (start < instances[i].start + instances[i].profile.size && instances[i].start < start + profile->size)
            return 0;
        slices += instances[i].profile.slices;
        same += instances[i].profile.id == profile->id;
    }
    for (unsigned number = 0; number < PROFILES; number++)
        if (read_profile(gpu, number, &whole) && whole.slices > most)
            most = whole.slices;
    for (unsigned i = 0; i < profile->start_count; i++)
        possible |= profile->starts[i] == start;
    return possible && slices <= most && same < profile->count;
}

static nvmlReturn_t create(nvmlDevice_t device, unsigned id, const nvmlGpuInstancePlacement_t *wanted,
                           nvmlGpuInstance_t *created)
{
    struct instance instances[MAX_INSTANCES + 1] = {0};
    struct profile profile;
    nvmlReturn_t status = check_cut(device);
    if (status)
        return status;
    if (!profile_by_id(device->index, id, &profile))
        return NOT_SUPPORTED;
    unsigned count = read_instances(device->index, instances), free_id = 1;
    for (unsigned i = 0; i < count; i++)
        if (instances[i].id == free_id) {
            free_id++;
            i = NONE; /* from the first again */
        }
    for (unsigned i = 0; i < profile.start_count; i++) {
        struct instance *instance = &instances[count];
        if ((wanted && (wanted->start != profile.starts[i] || wanted->size != profile.size))
            || !fits(device->index, instances, count, &profile, profile.starts[i])
            || gpu_number(device->index, "mig_refuse", NONE) == id)
            continue;
        *instance = (struct instance){.id = free_id, .start = profile.starts[i], .profile = profile};
        for (int compute = 0; compute < MAX_INSTANCES; compute++)
            instance->compute[compute] = NONE;
        status = keep_instances(device->index, instances, count + 1);
        *created = &gpu_handles[device->index][free_id];
        **created = (struct nvmlGpuInstance_st){device->index, free_id};
        return status;
    }
    return INSUFFICIENT_RESOURCES;
}

EXPORT nvmlReturn_t nvmlDeviceCreateGpuInstance(nvmlDevice_t device, unsigned id, nvmlGpuInstance_t *created)
{
    return create(device, id, NULL, created);
}

EXPORT nvmlReturn_t nvmlDeviceCreateGpuInstanceWithPlacement(nvmlDevice_t device, unsigned id,
                                                             const nvmlGpuInstancePlacement_t *placement,
                                                             nvmlGpuInstance_t *created)
{
    return create(device, id, placement, created);
}

/* Find the instance behind a handle; the place of it, or NONE where it is gone. */
static int find(nvmlGpuInstance_t handle, struct instance instances[MAX_INSTANCES], unsigned *count)
{
    *count = handle ? read_instances(handle->gpu, instances) : 0;
    for (unsigned i = 0; i < *count; i++)
        if (instances[i].id == handle->id)
            return (int)i;
    return NONE;
}

static int has_compute(const struct instance *instance)
{
    for (int id = 0; id < MAX_INSTANCES; id++)
        if (instance->compute[id] != NONE)
            return 1;
    return 0;
}

EXPORT nvmlReturn_t nvmlGpuInstanceGetInfo(nvmlGpuInstance_t handle, nvmlGpuInstanceInfo_t *info)
{
    struct instance instances[MAX_INSTANCES];
    unsigned count;
    int at = find(handle, instances, &count);
    if (at == NONE)
        return INVALID_ARGUMENT;
    *info = (nvmlGpuInstanceInfo_t){&nvml_devices[handle->gpu], instances[at].id, instances[at].profile.id,
                                    {instances[at].start, instances[at].profile.size}};
    return SUCCESS;
}

EXPORT nvmlReturn_t nvmlGpuInstanceDestroy(nvmlGpuInstance_t handle)
{
    struct instance instances[MAX_INSTANCES];
    unsigned count;
    int at = find(handle, instances, &count);
    if (at == NONE)
        return INVALID_ARGUMENT;
    if (has_compute(&instances[at]) || in_use(&nvml_devices[handle->gpu]))
        return IN_USE;
    memmove(&instances[at], &instances[at + 1], (count - (unsigned)at - 1) * sizeof *instances);
    return keep_instances(handle->gpu, instances, count - 1);
}

/* ---- Compute instances ---- */

EXPORT nvmlReturn_t nvmlGpuInstanceGetComputeInstanceProfileInfoV(nvmlGpuInstance_t handle, unsigned number,
                                                                  unsigned engine,
                                                                  nvmlComputeInstanceProfileInfo_v2_t *info)
{
    struct instance instances[MAX_INSTANCES];
    unsigned count, slices = compute_slices(number);
    int at = find(handle, instances, &count);
    if (at == NONE || number >= COMPUTE_PROFILES || engine)
        return INVALID_ARGUMENT;
    if (info->version != VERSION(nvmlComputeInstanceProfileInfo_v2_t, 2))
        return ARGUMENT_VERSION_MISMATCH;
    if (!slices || slices > instances[at].profile.slices)
        return NOT_SUPPORTED;
    *info = (nvmlComputeInstanceProfileInfo_v2_t){.version = info->version,
                                                  .id = number,
                                                  .sliceCount = slices,
                                                  .instanceCount = instances[at].profile.slices / slices};
    snprintf(info->name, sizeof info->name, "MIG %uc.%s", slices, instances[at].profile.name);
    return SUCCESS;
}

EXPORT nvmlReturn_t nvmlGpuInstanceCreateComputeInstance(nvmlGpuInstance_t handle, unsigned profile,
                                                         nvmlComputeInstance_t *created)
{
    struct instance instances[MAX_INSTANCES];
    unsigned count, taken = 0, slices = compute_slices(profile);
    int at = find(handle, instances, &count), id = NONE;
    if (at == NONE)
        return INVALID_ARGUMENT;
    for (int each = MAX_INSTANCES - 1; each >= 0; each--) {
        taken += instances[at].compute[each] == NONE ? 0 : compute_slices((unsigned)instances[at].compute[each]);
        id = instances[at].compute[each] == NONE ? each : id;
    }
    if (!slices)
        return NOT_SUPPORTED;
    if (id == NONE || taken + slices > instances[at].profile.slices
        || gpu_number(handle->gpu, "mig_refuse_compute", NONE) == profile)
        return INSUFFICIENT_RESOURCES;
    instances[at].compute[id] = (int)profile;
    *created = &compute_handles[handle->gpu][handle->id][id];
    **created = (struct nvmlComputeInstance_st){handle->gpu, handle->id, (unsigned)id};
    return keep_instances(handle->gpu, instances, count);
}

EXPORT nvmlReturn_t nvmlGpuInstanceGetComputeInstances(nvmlGpuInstance_t handle, unsigned profile,
                                                       nvmlComputeInstance_t *found, unsigned *number)
{
    struct instance instances[MAX_INSTANCES];
    unsigned count;
    int at = find(handle, instances, &count);
    if (at == NONE)
        return INVALID_ARGUMENT;
    *number = 0;
    for (unsigned id = 0; id < MAX_INSTANCES; id++)
        if (instances[at].compute[id] == (int)profile) {
            struct nvmlComputeInstance_st *compute = &compute_handles[handle->gpu][handle->id][id];
            *compute = (struct nvmlComputeInstance_st){handle->gpu, handle->id, id};
            found[(*number)++] = compute;
        }
    return SUCCESS;
}

static int find_compute(nvmlComputeInstance_t handle, struct instance instances[MAX_INSTANCES], unsigned *count)
{
    int at = handle ? find(&gpu_handles[handle->gpu][handle->instance], instances, count) : NONE;
    return at != NONE && instances[at].compute[handle->id] != NONE ? at : NONE;
}

EXPORT nvmlReturn_t nvmlComputeInstanceGetInfo_v2(nvmlComputeInstance_t handle, nvmlComputeInstanceInfo_t *info)
{
    struct instance instances[MAX_INSTANCES];
    unsigned count, profile;
    int at = find_compute(handle, instances, &count);
    if (at == NONE)
        return INVALID_ARGUMENT;
    profile = (unsigned)instances[at].compute[handle->id];
    *info = (nvmlComputeInstanceInfo_t){&nvml_devices[handle->gpu], &gpu_handles[handle->gpu][handle->instance],
                                        handle->id, profile, {0, compute_slices(profile)}};
    return SUCCESS;
}

EXPORT nvmlReturn_t nvmlComputeInstanceDestroy(nvmlComputeInstance_t handle)
{
    struct instance instances[MAX_INSTANCES];
    unsigned count;
    int at = find_compute(handle, instances, &count);
    if (at == NONE)
        return INVALID_ARGUMENT;
    if (in_use(&nvml_devices[handle->gpu]))
        return IN_USE;
    instances[at].compute[handle->id] = NONE;
    return keep_instances(handle->gpu, instances, count);
}

/* ---- MIG devices: one for each compute instance ---- */

int is_mig_device(nvmlDevice_t device)
{
    return device >= &mig_handles[0][0][0] && device < &mig_handles[MAX_GPUS][0][0];
}

static unsigned instance_of(nvmlDevice_t device)
{
    return (unsigned)(device - &mig_handles[0][0][0]) / MAX_INSTANCES % (MAX_INSTANCES + 1);
}

static unsigned compute_of(nvmlDevice_t device)
{
    return (unsigned)(device - &mig_handles[0][0][0]) % MAX_INSTANCES;
}

EXPORT nvmlReturn_t nvmlDeviceGetMigDeviceHandleByIndex(nvmlDevice_t device, unsigned index, nvmlDevice_t *found)
{
    struct instance instances[MAX_INSTANCES];
    nvmlReturn_t status = check_cut(device);
    if (status)
        return status;
    unsigned count = read_instances(device->index, instances);
    for (unsigned i = 0; i < count; i++)
        for (unsigned id = 0; id < MAX_INSTANCES; id++)
            if (instances[i].compute[id] != NONE && !index--) {
                *found = &mig_handles[device->index][instances[i].id][id];
                (*found)->index = device->index;
                return SUCCESS;
            }
    return NOT_FOUND;
}

EXPORT nvmlReturn_t nvmlDeviceIsMigDeviceHandle(nvmlDevice_t device, unsigned *is_mig)
{
    nvmlReturn_t status = is_mig_device(device) ? SUCCESS : check_device(device);
    if (!status)
        *is_mig = (unsigned)is_mig_device(device);
    return status;
}

EXPORT nvmlReturn_t nvmlDeviceGetGpuInstanceId(nvmlDevice_t device, unsigned *id)
{
    if (!is_mig_device(device))
        return INVALID_ARGUMENT;
    *id = instance_of(device);
    return SUCCESS;
}

EXPORT nvmlReturn_t nvmlDeviceGetComputeInstanceId(nvmlDevice_t device, unsigned *id)
{
    if (!is_mig_device(device))
        return INVALID_ARGUMENT;
    *id = compute_of(device);
    return SUCCESS;
}

EXPORT nvmlReturn_t nvmlDeviceGetDeviceHandleFromMigDeviceHandle(nvmlDevice_t device, nvmlDevice_t *whole)
{
    if (!is_mig_device(device))
        return INVALID_ARGUMENT;
    *whole = &nvml_devices[device->index];
    return SUCCESS;
}

/* The GPU's, with the ids of both instances in its third group. */
nvmlReturn_t mig_device_uuid(nvmlDevice_t device, char *buffer, unsigned size)
{
    char whole[MAX_VALUE], text[MAX_VALUE];
    uuid_of(device->index, whole);
    snprintf(text, sizeof text, "MIG-%.14s%02x%02x%s", whole + 4, instance_of(device), compute_of(device), whole + 22);
    return copy_text(text, buffer, size);
}

nvmlReturn_t mig_device_name(nvmlDevice_t device, char *buffer, unsigned size)
{
    struct nvmlGpuInstance_st handle = {device->index, instance_of(device)};
    struct instance instances[MAX_INSTANCES];
    unsigned count;
    char text[MAX_VALUE];
    const char *name;
    int at = find(&handle, instances, &count);
    if (at == NONE)
        return INVALID_ARGUMENT;
    nvmlReturn_t status = read_text(&nvml_devices[device->index], "name", &name);
    snprintf(text, sizeof text, "%.200s MIG %s", name, instances[at].profile.name);
    return status ? status : copy_text(text, buffer, size);
}

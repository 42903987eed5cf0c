"""Use the simulated MIG through NVIDIA's own nvidia-ml-py; prints JSON: nvml_mig.py STEP... (see main)."""

import ctypes
import json
import sys

import pynvml as nvml


def profile(handle, number):
    """Read a profile by NVML's number, None where the GPU does not have it."""
    try:
        return nvml.nvmlDeviceGetGpuInstanceProfileInfoV(handle, number)
    except nvml.NVMLError as error:
        if error.value != nvml.NVML_ERROR_NOT_SUPPORTED:
            raise
    return None


def profiles(handle):
    """Read the profiles that the GPU has, by name."""
    found = (profile(handle, number) for number in range(nvml.NVML_GPU_INSTANCE_PROFILE_COUNT))
    return {info.name: info for info in found if info}


def placements(handle, profile_id):
    """Read where instances of a profile can lie, as (start, size)."""
    count = ctypes.c_uint()
    nvml.nvmlDeviceGetGpuInstancePossiblePlacements(handle, profile_id, None, ctypes.byref(count))
    found = (nvml.c_nvmlGpuInstancePlacement_t * count.value)()
    nvml.nvmlDeviceGetGpuInstancePossiblePlacements(handle, profile_id, found, ctypes.byref(count))
    return [(place.start, place.size) for place in found]


def compute_instances(instance):
    """List the compute instances of a GPU instance."""
    found = []
    for number in range(nvml.NVML_COMPUTE_INSTANCE_PROFILE_COUNT):
        handles, count = (nvml.c_nvmlComputeInstance_t * 8)(), ctypes.c_uint()
        nvml.nvmlGpuInstanceGetComputeInstances(instance, number, handles, ctypes.byref(count))
        found += handles[: count.value]
    return found


def instances(handle):
    """List the GPU instances."""
    found = []
    for info in profiles(handle).values():
        handles, count = (nvml.c_nvmlGpuInstance_t * 8)(), ctypes.c_uint()
        nvml.nvmlDeviceGetGpuInstances(handle, info.id, handles, ctypes.byref(count))
        found += handles[: count.value]
    if not found:  # as in MIG's own absence
        nvml.nvmlDeviceGetGpuInstances(handle, 0, (nvml.c_nvmlGpuInstance_t * 8)(), ctypes.byref(ctypes.c_uint()))
    return found


def written(instance):
    """Write a GPU instance as the simulation's settings do."""
    info = nvml.nvmlGpuInstanceGetInfo(instance)
    compute = [nvml.nvmlComputeInstanceGetInfo_v2(each) for each in compute_instances(instance)]
    parts = ",".join(f"{each.id}.{each.profileId}" for each in compute) or "-"
    return f"{info.id}/{info.profileId}/{info.placement.start}/{parts}"


def mig_device(handle, index):
    """Return a MIG device by its index, None behind the last."""
    try:
        return nvml.nvmlDeviceGetMigDeviceHandleByIndex(handle, index)
    except nvml.NVMLError as error:
        if error.value != nvml.NVML_ERROR_NOT_FOUND:
            raise
    return None


def devices(handle):
    """List the MIG devices: uuid, name, index of the GPU, ids of both instances."""
    count = nvml.nvmlDeviceGetMaxMigDeviceCount(handle)
    found = [device for device in (mig_device(handle, index) for index in range(count)) if device]
    assert all(map(nvml.nvmlDeviceIsMigDeviceHandle, found))
    return [
        [
            nvml.nvmlDeviceGetUUID(device),
            nvml.nvmlDeviceGetName(device),
            nvml.nvmlDeviceGetIndex(nvml.nvmlDeviceGetDeviceHandleFromMigDeviceHandle(device)),
            nvml.nvmlDeviceGetGpuInstanceId(device),
            nvml.nvmlDeviceGetComputeInstanceId(device),
        ]
        for device in found
    ]


def make(handle, name, compute):
    """Make a GPU instance, with one compute instance of that profile's number where it is given."""
    instance = nvml.nvmlDeviceCreateGpuInstance(handle, profiles(handle)[f"MIG {name}"].id)
    if compute:
        info = nvml.nvmlGpuInstanceGetComputeInstanceProfileInfoV(instance, int(compute), 0)
        nvml.nvmlGpuInstanceCreateComputeInstance(instance, info.id)


def destroy(handle, *, compute):
    """Destroy all, first the compute instances, if so."""
    for instance in instances(handle):
        for each in compute_instances(instance) if compute else []:
            nvml.nvmlComputeInstanceDestroy(each)
        nvml.nvmlGpuInstanceDestroy(instance)


def step(handle, word):
    """Do one step; return its error, or None."""
    verb, _colon, rest = word.partition(":")
    try:
        if verb == "mode":
            nvml.nvmlDeviceSetMigMode(handle, int(rest))
        elif verb == "make":
            name, _slash, compute = rest.partition("/")
            make(handle, name, compute)
        else:
            destroy(handle, compute=rest == "all")
    except nvml.NVMLError as error:
        return error.value
    return None


def main():
    """Do the steps on GPU 0 (mode:1, make:3g.20gb/2, destroy:all); tell each error and what is there then."""
    nvml.nvmlInit()
    handle = nvml.nvmlDeviceGetHandleByIndex(0)
    errors = [step(handle, word) for word in sys.argv[1:]]
    found = profiles(handle)
    on = nvml.nvmlDeviceGetMigMode(handle)[0]
    return {
        "errors": errors,
        "profiles": {
            name: [info.id, info.sliceCount, info.instanceCount, info.memorySizeMB, info.multiprocessorCount]
            for name, info in found.items()
        },
        "placements": {name: placements(handle, info.id) for name, info in found.items()},
        "instances": list(map(written, instances(handle))) if on else None,
        "devices": devices(handle) if on else None,
    }


if __name__ == "__main__":
    json.dump(main(), sys.stdout)

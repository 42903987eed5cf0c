"""Use the simulated NVML in other ways than reading: set, time, announce, peers. Prints JSON."""

import ctypes
import json
import sys
import time

import pynvml as nvml


def attempt(call, *arguments):
    """Return the error of a call, None for success."""
    try:
        call(*arguments)
    except nvml.NVMLError as error:
        return f"error {error.value}"
    return None


def change():
    """Set what an operator may set."""
    handle = nvml.nvmlDeviceGetHandleByIndex(0)
    return {
        "persistence": attempt(nvml.nvmlDeviceSetPersistenceMode, handle, 1),
        "power_limit": attempt(nvml.nvmlDeviceSetPowerManagementLimit, handle, 200_000),
        "power_limit_too_high": attempt(nvml.nvmlDeviceSetPowerManagementLimit, handle, 251_000),
        "ecc": attempt(nvml.nvmlDeviceSetEccMode, handle, 0),
    }


def measure():
    """Time one call."""
    start = time.monotonic()
    nvml.nvmlDeviceGetHandleByIndex(0)
    return {"seconds": time.monotonic() - start}


def announce():
    """Read the simulator's own line."""
    library = ctypes.CDLL("libnvidia-ml.so.1")
    library.gpulab_simulation.restype = ctypes.c_char_p
    return {"simulation": library.gpulab_simulation().decode()}


def peers():
    """Read the level between GPU 0 and each other."""
    first, *others = (nvml.nvmlDeviceGetHandleByIndex(index) for index in range(nvml.nvmlDeviceGetCount()))
    return {"levels": [nvml.nvmlDeviceGetTopologyCommonAncestor(first, other) for other in others]}


nvml.nvmlInit()
json.dump({"set": change, "time": measure, "announce": announce, "peers": peers}[sys.argv[1]](), sys.stdout)

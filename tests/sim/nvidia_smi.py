#!/usr/bin/python3
"""A stand-in for nvidia-smi on a simulated GPU node: it asks the simulated library, and says so.

NVIDIA's own program asks the library for private tables, which no simulation can have. Where the simulated library is
not what programs load, as before the driver is there, it runs instead, or there is none.
"""

from __future__ import annotations

import ctypes
import os
import sys
import time
from pathlib import Path

LIBRARY = "libnvidia-ml.so.1"
N_A = "[N/A]"
USAGE = "SIMULATED nvidia-smi: it knows no option, -L, -q and --query-gpu=FIELDS --format=csv[,noheader][,nounits]"
WIDTH = 91


class Memory(ctypes.Structure):
    """nvmlMemory_t."""

    _fields_ = [(name, ctypes.c_ulonglong) for name in ("total", "free", "used")]


class Utilization(ctypes.Structure):
    """nvmlUtilization_t."""

    _fields_ = [(name, ctypes.c_uint) for name in ("gpu", "memory")]


class PciInfo(ctypes.Structure):
    """nvmlPciInfo_t."""

    _fields_ = [
        ("legacy", ctypes.c_char * 16),
        *((name, ctypes.c_uint) for name in ("domain", "bus", "device", "device_id", "subsystem_id")),
        ("bus_id", ctypes.c_char * 32),
    ]


def main(arguments):
    """Print what is asked for; return the exit status."""
    library = load()
    if library is None:
        return run_real(arguments)
    status = library.nvmlInit_v2()
    if status:
        print(f"SIMULATED: NVIDIA-SMI has failed: {said(library, status)}")
        return status & 255
    gpus = [gpu(library, index) for index in range(number(library.nvmlDeviceGetCount_v2) or 0)]
    if arguments in ([], ["-L"], ["--list-gpus"], ["-q"], ["--query"]):
        show = {"": table, "-L": listed, "--list-gpus": listed, "-q": queried, "--query": queried}
        print("\n".join(show["".join(arguments)](library, gpus)))
        return 0
    options = dict(argument.partition("=")[::2] for argument in arguments)
    if set(options) == {"--query-gpu", "--format"} and options["--format"].split(",")[0] == "csv":
        return columns(gpus, options["--query-gpu"].split(","), options["--format"].split(",")[1:])
    print(USAGE, file=sys.stderr)
    return 2


def load():
    """Return the library that programs load; None where it is not the simulated one."""
    try:
        library = ctypes.CDLL(LIBRARY)
        library.gpulab_simulation.restype = library.nvmlErrorString.restype = ctypes.c_char_p
    except (OSError, AttributeError):
        return None
    return library


def run_real(arguments):
    """Become the nvidia-smi of the packages, where there is one."""
    own = Path(__file__).resolve()
    for path in (Path(directory, "nvidia-smi") for directory in os.environ.get("PATH", os.defpath).split(":")):
        if os.access(path, os.X_OK) and path.resolve() != own:
            os.execv(path, [str(path), *arguments])  # noqa: S606 - the same arguments
    print("nvidia-smi: command not found", file=sys.stderr)
    return 127


def said(library, status):
    """Return what the library says of a status."""
    return library.nvmlErrorString(status).decode()


def number(function, *arguments, kind=ctypes.c_uint):
    """Return a number or a structure; None where the board has none."""
    value = kind()
    status = function(*arguments, ctypes.byref(value))
    return None if status else getattr(value, "value", value)


def text(function, *arguments):
    """Return a text; None where the board has none."""
    buffer = ctypes.create_string_buffer(96)
    return None if function(*arguments, buffer, len(buffer)) else buffer.value.decode()


def gpu(library, index):
    """Return what is shown of a GPU, by the names that --query-gpu has; its status where it gives no handle."""
    handle = ctypes.c_void_p()
    status = library.nvmlDeviceGetHandleByIndex_v2(index, ctypes.byref(handle))
    if status:
        return {"index": index, "status": said(library, status)}
    memory = number(library.nvmlDeviceGetMemoryInfo, handle, kind=Memory)
    busy = number(library.nvmlDeviceGetUtilizationRates, handle, kind=Utilization)
    pci = number(library.nvmlDeviceGetPciInfo_v3, handle, kind=PciInfo)
    current, pending = ctypes.c_uint(), ctypes.c_uint()
    known = not library.nvmlDeviceGetEccMode(handle, ctypes.byref(current), ctypes.byref(pending))
    modes = ("Disabled", "Enabled")
    persistence = number(library.nvmlDeviceGetPersistenceMode, handle)
    return {
        "index": index,
        "name": text(library.nvmlDeviceGetName, handle),
        "uuid": text(library.nvmlDeviceGetUUID, handle),
        "serial": text(library.nvmlDeviceGetSerial, handle),
        "pci.bus_id": pci and pci.bus_id.decode().upper(),
        "driver_version": text(library.nvmlSystemGetDriverVersion),
        "vbios_version": text(library.nvmlDeviceGetVbiosVersion, handle),
        "persistence_mode": None if persistence is None else modes[persistence],
        "ecc.mode.current": modes[current.value] if known else None,
        "memory.total": memory and f"{memory.total >> 20} MiB",
        "memory.used": memory and f"{memory.used >> 20} MiB",
        "memory.free": memory and f"{memory.free >> 20} MiB",
        "utilization.gpu": busy and f"{busy.gpu} %",
        "temperature.gpu": number(library.nvmlDeviceGetTemperature, handle, 0),
        "power.draw": watts(number(library.nvmlDeviceGetPowerUsage, handle)),
        "power.limit": watts(number(library.nvmlDeviceGetEnforcedPowerLimit, handle)),
    }


def watts(milliwatts):
    """Return a power as nvidia-smi writes it."""
    return None if milliwatts is None else f"{milliwatts / 1000:.2f} W"


def listed(library, gpus):
    """Yield a line for each GPU, as nvidia-smi -L does; what says that they are simulated goes to people only."""
    print(f"SIMULATED: {library.gpulab_simulation().decode()}", file=sys.stderr)
    for one in gpus:
        yield f"GPU {one['index']}: " + (f"{one['name']} (UUID: {one['uuid']})" if "uuid" in one else one["status"])


def table(library, gpus):
    """Yield the table of nvidia-smi without options, with what it says of each GPU in two lines."""
    cuda = number(library.nvmlSystemGetCudaDriverVersion_v2) or 0
    driver = text(library.nvmlSystemGetDriverVersion)
    rule = f"+{'-' * (WIDTH - 2)}+"
    version = f"{cuda // 1000}.{cuda % 1000 // 10}"
    yield time.strftime("%a %b %d %H:%M:%S %Y")
    yield rule
    yield f"| {f'SIMULATED nvidia-smi    Driver Version: {driver}    CUDA Version: {version}':<{WIDTH - 4}} |"
    yield f"| {library.gpulab_simulation().decode():<{WIDTH - 4}} |"
    yield rule
    for one in gpus:
        if "uuid" not in one:
            yield f"| {one['index']:>3}  {one['status']:<{WIDTH - 9}} |"
            continue
        shown = {name: N_A if value is None else value for name, value in one.items()}
        place, persistence = shown["pci.bus_id"], shown["persistence_mode"]
        first = f"{shown['index']:>3}  {shown['name']:<32} {place}   persistence {persistence}"
        power = f"{shown['power.draw']} / {shown['power.limit']}"
        memory = f"{shown['memory.used']} / {shown['memory.total']}"
        busy, ecc = shown["utilization.gpu"], shown["ecc.mode.current"]
        second = f"     {shown['temperature.gpu']} C   {power}   {memory}   {busy}   ECC {ecc}"
        yield f"| {first:<{WIDTH - 4}} |"
        yield f"| {second:<{WIDTH - 4}} |"
        yield rule


def queried(library, gpus):
    """Yield what is known of each GPU, a name and a value a line."""
    yield f"==============NVSMI LOG (SIMULATED: {library.gpulab_simulation().decode()})=============="
    yield ""
    yield f"{'Attached GPUs':<40}: {len(gpus)}"
    for one in gpus:
        yield f"GPU {one.get('pci.bus_id') or one['index']}"
        yield from (f"    {name:<36}: {N_A if value is None else value}" for name, value in one.items())


def columns(gpus, names, form):
    """Print the fields that are asked for as CSV; return 2 where one is not known."""
    unknown = [name for name in names if any("uuid" in one and name not in one for one in gpus)]
    if unknown:
        print(f'Field "{unknown[0]}" is not a valid field to query.  ({USAGE})', file=sys.stderr)
        return 2
    if "noheader" not in form:
        print(", ".join(names))
    for one in gpus:
        values = [N_A if one.get(name) is None else str(one[name]) for name in names]
        print(
            ", ".join(value.split(" ")[0] if "nounits" in form and value[:1].isdigit() else value for value in values)
        )
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))

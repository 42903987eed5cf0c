# Copyright (c) 2026 The gpulab founders
# GNU General Public License v3.0+ (see https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""NVML, the library behind nvidia-smi, through ctypes: public functions only, no package needed on the node.

Numbers and layouts follow NVIDIA's nvml.h; a unit test compares each with NVIDIA's own nvidia-ml-py.
Calls may hang in a wedged driver: make them from a child process (see core/child.py).
"""

from __future__ import annotations

import ctypes
from ctypes import POINTER, byref, c_char, c_char_p, c_int, c_int64, c_ubyte, c_uint, c_ulonglong, c_void_p
from typing import Any

LIBRARY = "libnvidia-ml.so.1"

ERRORS = {
    1: "UNINITIALIZED",
    2: "INVALID_ARGUMENT",
    3: "NOT_SUPPORTED",
    4: "NO_PERMISSION",
    5: "ALREADY_INITIALIZED",
    6: "NOT_FOUND",
    7: "INSUFFICIENT_SIZE",
    8: "INSUFFICIENT_POWER",
    9: "DRIVER_NOT_LOADED",
    10: "TIMEOUT",
    11: "IRQ_ISSUE",
    12: "LIBRARY_NOT_FOUND",
    13: "FUNCTION_NOT_FOUND",
    14: "CORRUPTED_INFOROM",
    15: "GPU_IS_LOST",
    16: "RESET_REQUIRED",
    17: "OPERATING_SYSTEM",
    18: "LIB_RM_VERSION_MISMATCH",
    19: "IN_USE",
    20: "MEMORY",
    21: "NO_DATA",
    22: "VGPU_ECC_NOT_SUPPORTED",
    23: "INSUFFICIENT_RESOURCES",
    24: "FREQ_NOT_SUPPORTED",
    25: "ARGUMENT_VERSION_MISMATCH",
    26: "DEPRECATED",
    27: "NOT_READY",
    28: "GPU_NOT_FOUND",
    29: "INVALID_STATE",
    30: "RESET_TYPE_NOT_SUPPORTED",
    999: "UNKNOWN",
}
INVALID_ARGUMENT = 2
NOT_SUPPORTED = 3
NOT_FOUND = 6
INSUFFICIENT_SIZE = 7
DRIVER_NOT_LOADED = 9
FUNCTION_NOT_FOUND = 13
CORRUPTED_INFOROM = 14
LIB_RM_VERSION_MISMATCH = 18
INSUFFICIENT_RESOURCES = 23

# The board, the driver or the library lacks the thing asked for: there is nothing to judge.
UNSUPPORTED = frozenset({NOT_SUPPORTED, FUNCTION_NOT_FOUND, 22, 25, 26})


class NvmlError(Exception):
    """A call that returned anything but success."""

    def __init__(self, code: int) -> None:
        """Keep the return code and its name in nvml.h, less the prefix."""
        super().__init__(code)
        self.code = code
        self.name = ERRORS.get(code, f"CODE_{code}")


class PciInfo(ctypes.Structure):
    """nvmlPciInfo_t."""

    _fields_ = (
        ("busIdLegacy", c_char * 16),
        ("domain", c_uint),
        ("bus", c_uint),
        ("device", c_uint),
        ("pciDeviceId", c_uint),
        ("pciSubSystemId", c_uint),
        ("busId", c_char * 32),
    )


class NvmlMemory(ctypes.Structure):
    """nvmlMemory_t, in bytes; ``used`` includes what the driver reserves."""

    _fields_ = (("total", c_ulonglong), ("free", c_ulonglong), ("used", c_ulonglong))


class Bar1Memory(ctypes.Structure):
    """nvmlBAR1Memory_t, in bytes."""

    _fields_ = (("bar1Total", c_ulonglong), ("bar1Free", c_ulonglong), ("bar1Used", c_ulonglong))


class Utilization(ctypes.Structure):
    """nvmlUtilization_t, in percent."""

    _fields_ = (("gpu", c_uint), ("memory", c_uint))


class ProcessInfo(ctypes.Structure):
    """nvmlProcessInfo_v2_t, which is also version 3."""

    _fields_ = (
        ("pid", c_uint),
        ("usedGpuMemory", c_ulonglong),
        ("gpuInstanceId", c_uint),
        ("computeInstanceId", c_uint),
    )


class Value(ctypes.Union):
    """nvmlValue_t."""

    _fields_ = (
        ("dVal", ctypes.c_double),
        ("uiVal", c_uint),
        ("ulVal", ctypes.c_ulong),
        ("ullVal", c_ulonglong),
        ("sllVal", ctypes.c_longlong),
        ("siVal", c_int),
        ("usVal", ctypes.c_ushort),
    )


VALUE_MEMBERS = ("dVal", "uiVal", "ulVal", "ullVal", "sllVal", "siVal", "usVal")  # by nvmlValueType_t


class FieldValue(ctypes.Structure):
    """nvmlFieldValue_t."""

    _fields_ = (
        ("fieldId", c_uint),
        ("scopeId", c_uint),
        ("timestamp", c_int64),
        ("latencyUsec", c_int64),
        ("valueType", c_uint),
        ("nvmlReturn", c_uint),
        ("value", Value),
    )


class MarginTemperature(ctypes.Structure):
    """nvmlMarginTemperature_v1_t, in degrees Celsius."""

    VERSION = 1
    _fields_ = (("version", c_uint), ("marginTemperature", c_int))


class SramEccStatus(ctypes.Structure):
    """nvmlEccSramErrorStatus_v1_t."""

    VERSION = 1
    _fields_ = (
        ("version", c_uint),
        ("aggregateUncParity", c_ulonglong),
        ("aggregateUncSecDed", c_ulonglong),
        ("aggregateCor", c_ulonglong),
        ("volatileUncParity", c_ulonglong),
        ("volatileUncSecDed", c_ulonglong),
        ("volatileCor", c_ulonglong),
        ("aggregateUncBucketL2", c_ulonglong),
        ("aggregateUncBucketSm", c_ulonglong),
        ("aggregateUncBucketPcie", c_ulonglong),
        ("aggregateUncBucketMcu", c_ulonglong),
        ("aggregateUncBucketOther", c_ulonglong),
        ("bThresholdExceeded", c_uint),
    )


class RowRemapperHistogram(ctypes.Structure):
    """nvmlRowRemapperHistogramValues_t: banks by the spare rows they have left."""

    _fields_ = (("max", c_uint), ("high", c_uint), ("partial", c_uint), ("low", c_uint), ("none", c_uint))


class FabricInfo(ctypes.Structure):
    """nvmlGpuFabricInfo_t, the call of drivers before 550."""

    _fields_ = (("clusterUuid", c_ubyte * 16), ("status", c_uint), ("cliqueId", c_uint), ("state", c_ubyte))


class FabricInfo2(ctypes.Structure):
    """nvmlGpuFabricInfo_v2_t."""

    VERSION = 2
    _fields_ = (
        ("version", c_uint),
        ("clusterUuid", c_ubyte * 16),
        ("status", c_uint),
        ("cliqueId", c_uint),
        ("state", c_ubyte),
        ("healthMask", c_uint),
    )


class FabricInfo3(ctypes.Structure):
    """nvmlGpuFabricInfo_v3_t."""

    VERSION = 3
    _fields_ = (*FabricInfo2._fields_, ("healthSummary", c_ubyte))


class LicenceExpiry(ctypes.Structure):
    """nvmlGridLicenseExpiry_t."""

    _fields_ = (
        ("year", ctypes.c_uint32),
        *((name, ctypes.c_uint16) for name in ("month", "day", "hour", "min", "sec")),
        ("status", ctypes.c_uint8),
    )


class Licensable(ctypes.Structure):
    """nvmlGridLicensableFeature_t: a product that a vGPU may be licensed for."""

    _fields_ = (
        ("featureCode", c_uint),
        ("featureState", c_uint),
        ("licenseInfo", c_char * 128),
        ("productName", c_char * 128),
        ("featureEnabled", c_uint),
        ("licenseExpiry", LicenceExpiry),
    )


class Licences(ctypes.Structure):
    """nvmlGridLicensableFeatures_t, of nvmlDeviceGetGridLicensableFeatures_v4."""

    _fields_ = (
        ("isGridLicenseSupported", c_int),
        ("licensableFeaturesCount", c_uint),
        ("gridLicensableFeatures", Licensable * 3),
    )


class InstancePlacement(ctypes.Structure):
    """nvmlGpuInstancePlacement_t and nvmlComputeInstancePlacement_t, in slices."""

    _fields_ = (("start", c_uint), ("size", c_uint))


class GpuInstanceProfile(ctypes.Structure):
    """nvmlGpuInstanceProfileInfo_v2_t."""

    VERSION = 2
    _fields_ = (
        ("version", c_uint),
        ("id", c_uint),
        ("isP2pSupported", c_uint),
        ("sliceCount", c_uint),
        ("instanceCount", c_uint),
        ("multiprocessorCount", c_uint),
        ("copyEngineCount", c_uint),
        ("decoderCount", c_uint),
        ("encoderCount", c_uint),
        ("jpegCount", c_uint),
        ("ofaCount", c_uint),
        ("memorySizeMB", c_ulonglong),
        ("name", c_char * 96),
    )


class GpuInstanceInfo(ctypes.Structure):
    """nvmlGpuInstanceInfo_t."""

    _fields_ = (("device", c_void_p), ("id", c_uint), ("profileId", c_uint), ("placement", InstancePlacement))


class ComputeInstanceProfile(ctypes.Structure):
    """nvmlComputeInstanceProfileInfo_v2_t."""

    VERSION = 2
    _fields_ = (
        ("version", c_uint),
        ("id", c_uint),
        ("sliceCount", c_uint),
        ("instanceCount", c_uint),
        ("multiprocessorCount", c_uint),
        ("sharedCopyEngineCount", c_uint),
        ("sharedDecoderCount", c_uint),
        ("sharedEncoderCount", c_uint),
        ("sharedJpegCount", c_uint),
        ("sharedOfaCount", c_uint),
        ("name", c_char * 96),
    )


def versioned(layout: type[Any]) -> Any:
    """Return an empty structure that carries its size and version, as NVML asks of newer calls."""
    return layout(version=ctypes.sizeof(layout) | layout.VERSION << 24)


class NvmlLibrary:
    """An initialised NVML. ``handle`` is what nvmlDeviceGetHandleByIndex gave; failures raise NvmlError."""

    def __init__(self, library: str = LIBRARY) -> None:
        """Load the library and start it. Raises OSError where it is absent, NvmlError where it refuses."""
        self._library = ctypes.CDLL(library)
        self.call("nvmlInit_v2")

    def call(self, function: str, *arguments: Any) -> None:
        """Call an NVML function by name."""
        try:
            entry = getattr(self._library, function)
        except AttributeError:
            raise NvmlError(FUNCTION_NOT_FOUND) from None
        code = entry(*arguments)
        if code:
            raise NvmlError(code)

    def simulation(self) -> str | None:
        """Return the simulator's line where this is gpulab's simulated NVML, None for NVIDIA's own."""
        try:
            announce = self._library.gpulab_simulation
        except AttributeError:
            return None
        announce.restype = c_char_p
        return _text(announce())

    def handle(self, index: int) -> c_void_p:
        """Return the handle of one GPU; a GPU that fell off the bus fails here already."""
        handle = c_void_p()
        self.call("nvmlDeviceGetHandleByIndex_v2", c_uint(index), byref(handle))
        return handle

    def number(self, function: str, *arguments: Any, kind: type[Any] = c_uint) -> int:
        """Read one number."""
        result = kind()
        self.call(function, *arguments, byref(result))
        return int(result.value)

    def numbers(self, function: str, count: int, *arguments: Any) -> list[int]:
        """Read several unsigned numbers that the function stores through one pointer each."""
        results = [c_uint() for _index in range(count)]
        self.call(function, *arguments, *map(byref, results))
        return [result.value for result in results]

    def text(self, function: str, *arguments: Any, sized: bool = True) -> str:
        """Read a string; ``sized`` where the function takes the buffer's length."""
        buffer = ctypes.create_string_buffer(96)  # the longest in nvml.h: NVML_DEVICE_UUID_V2_BUFFER_SIZE
        self.call(function, *arguments, buffer, *([c_uint(len(buffer))] if sized else []))
        return _text(buffer.value)

    def structure(self, function: str, handle: c_void_p, result: Any) -> Any:
        """Let the function fill a structure, and return it."""
        self.call(function, handle, byref(result))
        return result

    def fields(self, handle: c_void_p, wanted: list[tuple[int, int]]) -> list[int | float | NvmlError]:
        """Read field values by (field id, scope id); each has its own success or failure."""
        values = (FieldValue * len(wanted))()
        for value, (field, scope) in zip(values, wanted):
            value.fieldId, value.scopeId = field, scope
        self.call("nvmlDeviceGetFieldValues", handle, c_int(len(wanted)), values)
        return [_field_value(value) for value in values]

    def retired_pages(self, handle: c_void_p, cause: int) -> int:
        """Count the memory pages retired for a cause (0 several single-bit errors, 1 a double-bit error)."""
        count = c_uint(0)
        try:
            self.call("nvmlDeviceGetRetiredPages", handle, c_uint(cause), byref(count), POINTER(c_ulonglong)())
        except NvmlError as error:
            if error.code != INSUFFICIENT_SIZE:
                raise
        return count.value

    def processes(self, handle: c_void_p, function: str) -> list[ProcessInfo]:
        """List the processes with a context on the GPU."""
        count = c_uint(64)
        while True:
            found = (ProcessInfo * count.value)()
            try:
                self.call(function, handle, byref(count), found)
            except NvmlError as error:
                if error.code != INSUFFICIENT_SIZE or count.value <= len(found):
                    raise
                count.value += 16  # more may start meanwhile
            else:
                return list(found[: count.value])


def _text(data: bytes) -> str:
    return data.decode("utf-8", "replace").strip()


def _field_value(value: FieldValue) -> int | float | NvmlError:
    if value.nvmlReturn:
        return NvmlError(value.nvmlReturn)
    if value.valueType >= len(VALUE_MEMBERS):
        return NvmlError(NOT_SUPPORTED)
    result: int | float = getattr(value.value, VALUE_MEMBERS[value.valueType])
    return result

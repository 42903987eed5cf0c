"""Add two vectors on every GPU with the driver API alone, and time copies; prints JSON per GPU."""

import ctypes
import json
import sys

PTX = b""".version 7.0
.target sm_70
.address_size 64
.visible .entry add(.param .u64 a, .param .u64 b, .param .u64 out, .param .u32 n) { ret; }
"""
COUNT = 1000
COPY_BYTES = 64 << 20


class CudaError(Exception):
    """A failed call."""

    def __init__(self, name, code):
        """Keep the function's name and the name of its CUresult."""
        text = ctypes.c_char_p()
        LIBRARY.cuGetErrorName(code, ctypes.byref(text))
        super().__init__(f"{name}: {code} {(text.value or b'').decode()}")


def cuda(name, *arguments):
    """Call the driver."""
    code = getattr(LIBRARY, name)(*arguments)
    if code:
        raise CudaError(name, code)


def new(kind, name, *arguments):
    """Call a function that gives something through its first parameter, and return that."""
    result = kind()
    cuda(name, ctypes.byref(result), *arguments)
    return result


def upload(values):
    """Copy floats to the device."""
    pointer = new(ctypes.c_uint64, "cuMemAlloc_v2", ctypes.c_size_t(4 * len(values)))
    cuda("cuMemcpyHtoD_v2", pointer, (ctypes.c_float * len(values))(*values), ctypes.c_size_t(4 * len(values)))
    return pointer


def copy_rate():
    """Return the host-to-device rate in GB/s."""
    host = new(ctypes.c_void_p, "cuMemHostAlloc", ctypes.c_size_t(COPY_BYTES), 0)
    device = new(ctypes.c_uint64, "cuMemAlloc_v2", ctypes.c_size_t(COPY_BYTES))
    start, end = (new(ctypes.c_void_p, "cuEventCreate", 0) for _ in range(2))
    cuda("cuEventRecord", start, None)
    cuda("cuMemcpyHtoDAsync_v2", device, host, ctypes.c_size_t(COPY_BYTES), None)
    cuda("cuEventRecord", end, None)
    milliseconds = new(ctypes.c_float, "cuEventElapsedTime", start, end).value
    return round(COPY_BYTES / milliseconds / 1e6, 1)


def add(device):
    """Run the kernel on a GPU and return how many sums are wrong."""
    new(ctypes.c_void_p, "cuCtxCreate_v2", 0, device)
    module = new(ctypes.c_void_p, "cuModuleLoadData", PTX)
    function = new(ctypes.c_void_p, "cuModuleGetFunction", module, b"add")
    vectors = [upload([value] * COUNT) for value in (1.5, 2.25, 0.0)]
    arguments = [*vectors, ctypes.c_uint32(COUNT)]
    pointers = (ctypes.c_void_p * 4)(*[ctypes.cast(ctypes.byref(each), ctypes.c_void_p) for each in arguments])
    cuda("cuLaunchKernel", function, 4, 1, 1, 256, 1, 1, 0, None, pointers, None)
    sums = (ctypes.c_float * COUNT)()
    cuda("cuMemcpyDtoH_v2", sums, vectors[2], ctypes.c_size_t(4 * COUNT))
    return sum(1 for value in sums if value != 3.75)


def test(device):
    """Test one GPU."""
    try:
        major, minor = (new(ctypes.c_int, "cuDeviceGetAttribute", number, device).value for number in (75, 76))
        name = ctypes.create_string_buffer(96)
        cuda("cuDeviceGetName", name, len(name), device)
        return {"name": name.value.decode(), "cc": f"{major}.{minor}", "wrong": add(device), "gbs": copy_rate()}
    except CudaError as error:
        return str(error)


LIBRARY = ctypes.CDLL("libcuda.so.1")
try:
    cuda("cuInit", 0)
    result = [test(device) for device in range(new(ctypes.c_int, "cuDeviceGetCount").value)]
except CudaError as failure:
    result = str(failure)
json.dump(result, sys.stdout)

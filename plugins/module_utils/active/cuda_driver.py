# Copyright (c) 2026 The gpulab founders
# GNU General Public License v3.0+ (see https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The CUDA driver API, libcuda.so.1, through ctypes: no toolkit and no package needed on the node.

Calls may hang in a wedged driver: make them from a child process (core/child.py); its end frees what it took.
Numbers and names follow NVIDIA's cuda.h.
"""

from __future__ import annotations

import ctypes
import functools
from ctypes import byref, c_char_p, c_float, c_int, c_size_t, c_uint, c_uint64, c_void_p
from typing import TYPE_CHECKING, Any, Callable

from ansible_collections.gpulab.node.plugins.module_utils.active.kernels import PER_THREAD, PTX, THREADS

if TYPE_CHECKING:
    from ansible_collections.gpulab.node.plugins.module_utils.active.shapes import Simulation

LIBRARY = "libcuda.so.1"
L2_CACHE_SIZE = 38  # CU_DEVICE_ATTRIBUTE_L2_CACHE_SIZE, in bytes
PEER_ACCESS_ALREADY_ENABLED = 704  # CUresult


class CudaError(Exception):
    """A call that returned anything but success: the function, the code and the code's name in cuda.h."""

    def __init__(self, function: str, code: int | None, name: str) -> None:
        """Keep all three; code is None where the library lacks the function."""
        super().__init__(f"{function}: {name}")
        self.function = function
        self.code = code
        self.name = name


class Cuda:
    """The initialised library. Raises OSError where there is none, CudaError where it does not start."""

    def __init__(self, library: str = LIBRARY) -> None:
        """Load it and initialise the driver."""
        self._library = ctypes.CDLL(library)
        self.call("cuInit", c_uint(0))

    def call(self, function: str, *arguments: Any) -> None:
        """Call a function by name."""
        try:
            entry = getattr(self._library, function)
        except AttributeError:
            raise CudaError(function, None, "the driver's library lacks this function") from None
        code = entry(*arguments)
        if code:
            raise CudaError(function, code, self._name(code))

    def new(self, kind: Any, function: str, *arguments: Any) -> Any:
        """Call a function that stores something through its first parameter, and return that."""
        result = kind()
        self.call(function, byref(result), *arguments)
        return result

    def simulation(self) -> Simulation | None:
        """Return the simulator's line, and whether its rates are meant; None for NVIDIA's own library."""
        try:
            announce = self._library.gpulab_simulation
        except AttributeError:
            return None
        announce.restype = c_char_p
        return {"line": announce().decode(), "rates_declared": bool(self._library.gpulab_rates_declared())}

    def _name(self, code: int) -> str:
        name = c_char_p()
        self._library.cuGetErrorName(c_int(code), byref(name))
        return (name.value or f"CUDA error {code}".encode()).decode()


class Gpu:
    """One GPU, its primary context current in this thread; kernels.py's kernels are loaded for the first launch."""

    def __init__(self, cuda: Cuda, bus_id: str) -> None:
        """Take the GPU at a PCI address such as 0000:19:00.0."""
        self._cuda = cuda
        self._device = cuda.new(c_int, "cuDeviceGetByPCIBusId", c_char_p(bus_id.encode()))
        self._context = cuda.new(c_void_p, "cuDevicePrimaryCtxRetain", self._device)
        self.enter()

    def enter(self) -> None:
        """Make this GPU the one that the calls of this thread are about."""
        self._cuda.call("cuCtxSetCurrent", self._context)

    def l2_bytes(self) -> int:
        """Return the size of the L2 cache; 0 where the driver does not say."""
        size: int = self._cuda.new(c_int, "cuDeviceGetAttribute", c_int(L2_CACHE_SIZE), self._device).value
        return size

    def free_bytes(self) -> int:
        """Return how much memory is free."""
        free, total = c_size_t(), c_size_t()
        self._cuda.call("cuMemGetInfo_v2", byref(free), byref(total))
        return free.value

    def allocate(self, size: int) -> Any:
        """Allocate bytes on the GPU and return the pointer."""
        return self._cuda.new(c_uint64, "cuMemAlloc_v2", c_size_t(size))

    def allocate_pinned(self, size: int) -> Any:
        """Allocate bytes on the host that the GPU can read without a detour, and return the pointer."""
        return self._cuda.new(c_void_p, "cuMemHostAlloc", c_size_t(size), c_uint(0))

    def fill(self, pointer: Any, word: int, count: int) -> None:
        """Store a 32-bit word so many times."""
        self._cuda.call("cuMemsetD32_v2", pointer, c_uint(word), c_size_t(count))

    def to_device(self, target: Any, source: Any, size: int) -> None:
        """Start a copy from the host to the GPU."""
        self._cuda.call("cuMemcpyHtoDAsync_v2", target, source, c_size_t(size), None)

    def to_host(self, target: Any, source: Any, size: int) -> None:
        """Start a copy from the GPU to the host."""
        self._cuda.call("cuMemcpyDtoHAsync_v2", target, source, c_size_t(size), None)

    def on_device(self, target: Any, source: Any, size: int) -> None:
        """Start a copy within the GPU's memory."""
        self._cuda.call("cuMemcpyDtoDAsync_v2", target, source, c_size_t(size), None)

    def reaches(self, peer: Gpu) -> bool:
        """Tell whether the driver says that this GPU can reach the memory of another one by itself."""
        return bool(self._cuda.new(c_int, "cuDeviceCanAccessPeer", self._device, peer._device).value)

    def open(self, peer: Gpu) -> None:
        """Let this GPU, the current one, reach the memory of another one."""
        try:
            self._cuda.call("cuCtxEnablePeerAccess", peer._context, c_uint(0))
        except CudaError as error:
            if error.code != PEER_ACCESS_ALREADY_ENABLED:
                raise

    def close(self, peer: Gpu) -> None:
        """Take that back; a GPU may have a few peers at a time only."""
        self._cuda.call("cuCtxDisablePeerAccess", peer._context)

    def to_peer(self, peer: Gpu, target: Any, source: Any, size: int) -> None:
        """Start a copy to another GPU's memory: straight where this GPU is open to it, else through the host."""
        self._cuda.call("cuMemcpyPeerAsync", target, peer._context, source, self._context, c_size_t(size), None)

    def triad(self, out: Any, a: Any, b: Any, scale: float, count: int) -> None:
        """Start out[i] = a[i] + scale * b[i] over so many floats, a multiple of four."""
        self._launch(b"triad", count, out, a, b, c_float(scale), c_uint(count))

    def differing(self, data: Any, word: int, count: int) -> int:
        """Return how many of so many 32-bit words, a multiple of four, are not this one."""
        total, result = self.allocate(4), c_uint()
        self.fill(total, 0, 1)
        self._launch(b"differing", count, total, data, c_uint(word), c_uint(count))
        self._cuda.call("cuMemcpyDtoH_v2", byref(result), total, c_size_t(4))
        self._cuda.call("cuMemFree_v2", total)
        return result.value

    def synchronize(self) -> None:
        """Wait for all that was started; what failed in it fails here."""
        self._cuda.call("cuCtxSynchronize")

    def milliseconds(self, start_work: Callable[[], None]) -> float:
        """Return how long the GPU takes for what a function starts."""
        begin, end = (self._cuda.new(c_void_p, "cuEventCreate", c_uint(0)) for _event in range(2))
        self._cuda.call("cuEventRecord", begin, None)
        start_work()
        self._cuda.call("cuEventRecord", end, None)
        self._cuda.call("cuEventSynchronize", end)
        elapsed: float = self._cuda.new(c_float, "cuEventElapsedTime", begin, end).value
        for event in (begin, end):
            self._cuda.call("cuEventDestroy_v2", event)
        return elapsed

    @functools.cached_property
    def _module(self) -> Any:
        return self._cuda.new(c_void_p, "cuModuleLoadData", c_char_p(PTX))

    def _launch(self, kernel: bytes, count: int, *arguments: Any) -> None:
        function = self._cuda.new(c_void_p, "cuModuleGetFunction", self._module, c_char_p(kernel))
        pointers = (c_void_p * len(arguments))(*(ctypes.addressof(argument) for argument in arguments))
        blocks = c_uint(-(-count // (THREADS * PER_THREAD)))
        one = c_uint(1)
        self._cuda.call(
            "cuLaunchKernel", function, blocks, one, one, c_uint(THREADS), one, one, c_uint(0), None, pointers, None
        )

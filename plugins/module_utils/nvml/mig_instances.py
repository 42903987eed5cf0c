# Copyright (c) 2026 The gpulab founders
# GNU General Public License v3.0+ (see https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Multi-Instance GPU through NVML: what a GPU can be cut into, what it is cut into, and cutting it."""

from __future__ import annotations

from ctypes import byref, c_uint, c_void_p
from typing import TYPE_CHECKING, Any

from ansible_collections.gpulab.node.plugins.module_utils.nvml import library as nvml
from ansible_collections.gpulab.node.plugins.module_utils.nvml import mig_profiles
from ansible_collections.gpulab.node.plugins.module_utils.nvml.library import NvmlError, NvmlLibrary
from ansible_collections.gpulab.node.plugins.module_utils.nvml.mig_profiles import Instance

if TYPE_CHECKING:
    from collections.abc import Iterator

# More than nvml.h numbers: a newer driver may have more, and says of the others that it has them not
PROFILES, COMPUTE_PROFILES = 32, 16
SHARED_ENGINES = 0  # NVML_COMPUTE_INSTANCE_ENGINE_PROFILE_SHARED, the only one
ROOM = 16  # for handles; no GPU has more instances than slices
LACKING = frozenset({*nvml.UNSUPPORTED, nvml.INVALID_ARGUMENT})


class MigGpu:
    """One GPU and its instances. All but the profiles take root, and MIG that is on."""

    def __init__(self, library: NvmlLibrary, handle: c_void_p) -> None:
        """Keep the library and the GPU's handle."""
        self._nvml = library
        self._handle = handle

    def profiles(self) -> list[mig_profiles.Profile]:
        """Read the profiles of GPU instances that this GPU has, each with how many fit and where."""
        found = []
        for number in range(PROFILES):
            info = self._profile(number)
            if info:
                found.append(
                    {
                        "name": info.name.decode("utf-8", "replace").removeprefix("MIG "),
                        "id": info.id,
                        "slices": info.sliceCount,
                        "count": info.instanceCount,
                        "memory_mib": info.memorySizeMB,
                        "placements": [[place.start, place.size] for place in self._placements(info.id)],
                    }
                )
        return found

    def _profile(self, number: int) -> Any:
        info = nvml.versioned(nvml.GpuInstanceProfile)
        try:
            self._nvml.call("nvmlDeviceGetGpuInstanceProfileInfoV", self._handle, c_uint(number), byref(info))
        except NvmlError as error:
            if error.code == nvml.FUNCTION_NOT_FOUND or error.code not in LACKING:
                raise
            return None
        return info

    def _placements(self, profile: int) -> list[Any]:
        count = c_uint()
        function = "nvmlDeviceGetGpuInstancePossiblePlacements_v2"
        self._nvml.call(function, self._handle, c_uint(profile), None, byref(count))
        places = (nvml.InstancePlacement * count.value)()
        self._nvml.call(function, self._handle, c_uint(profile), places, byref(count))
        return list(places)[: count.value]

    def instances(self, profiles: list[mig_profiles.Profile]) -> list[dict[str, Any]]:
        """Read the GPU instances, in the order of their place.

        Each has its name (mig_profiles), profile, id, placement, slices of its compute instances, and its MIG devices.
        """
        by_id = {profile["id"]: profile for profile in profiles}
        devices = list(self._devices())
        found = []
        for handle, one in self._found(by_id):
            number = self._info(handle).id
            found.append(
                {
                    "name": mig_profiles.named(by_id[one.profile], one.compute),
                    "profile": by_id[one.profile]["name"],
                    "id": number,
                    "placement": [one.start, one.size],
                    "compute_slices": list(one.compute),
                    "devices": [{"index": index, "uuid": uuid} for index, of, uuid in devices if of == number],
                }
            )
        return sorted(found, key=lambda instance: instance["placement"])

    def _found(self, profiles: dict[int, mig_profiles.Profile]) -> list[tuple[c_void_p, Instance]]:
        found = []
        for profile in profiles:
            for handle in self._handles("nvmlDeviceGetGpuInstances", self._handle, profile):
                info = self._info(handle)
                compute = [count for _handle, count in self._compute(handle)]
                placement = info.placement
                found.append((handle, Instance(profile, placement.start, placement.size, tuple(sorted(compute)))))
        return found

    def _handles(self, function: str, parent: c_void_p, profile: int) -> list[c_void_p]:
        handles, count = (c_void_p * ROOM)(), c_uint()
        self._nvml.call(function, parent, c_uint(profile), handles, byref(count))
        return [c_void_p(handle) for handle in handles[: count.value]]

    def _info(self, instance: c_void_p) -> Any:
        return self._nvml.structure("nvmlGpuInstanceGetInfo", instance, nvml.GpuInstanceInfo())

    def _compute_profiles(self, instance: c_void_p) -> Iterator[tuple[int, int]]:
        """Yield id and slices of each profile of compute instances that a GPU instance has."""
        for number in range(COMPUTE_PROFILES):
            info = nvml.versioned(nvml.ComputeInstanceProfile)
            arguments = (instance, c_uint(number), c_uint(SHARED_ENGINES), byref(info))
            try:
                self._nvml.call("nvmlGpuInstanceGetComputeInstanceProfileInfoV", *arguments)
            except NvmlError as error:
                if error.code not in LACKING:
                    raise
            else:
                yield info.id, info.sliceCount

    def _compute(self, instance: c_void_p) -> list[tuple[c_void_p, int]]:
        """List the compute instances of a GPU instance, each with its slices."""
        return [
            (handle, slices)
            for profile, slices in self._compute_profiles(instance)
            for handle in self._handles("nvmlGpuInstanceGetComputeInstances", instance, profile)
        ]

    def _devices(self) -> Iterator[tuple[int, int, str]]:
        """Yield index, GPU instance's id and UUID of each MIG device."""
        for index in range(self._nvml.number("nvmlDeviceGetMaxMigDeviceCount", self._handle)):
            device = c_void_p()
            try:
                self._nvml.call("nvmlDeviceGetMigDeviceHandleByIndex", self._handle, c_uint(index), byref(device))
            except NvmlError as error:
                if error.code not in {nvml.NOT_FOUND, nvml.INVALID_ARGUMENT}:
                    raise
            else:
                number = self._nvml.number("nvmlDeviceGetGpuInstanceId", device)
                yield index, number, self._nvml.text("nvmlDeviceGetUUID", device)

    def cut(self, names: list[str]) -> None:
        """Cut the GPU into these instances; what lies where it is wanted is left alone.

        Where that fails the former ones are made again, and NvmlError is raised; StrandedError where that fails, too.
        """
        profiles = self.profiles()
        wanted = mig_profiles.lay_out(names, profiles)
        if wanted is None:  # it was checked before, and what lay there then may not be what lies there now
            raise NvmlError(nvml.INSUFFICIENT_RESOURCES)
        former = [one for _handle, one in self._found({profile["id"]: profile for profile in profiles})]
        try:
            self._bring(wanted, profiles)
        except NvmlError as error:
            try:
                self._bring(former, profiles)
            except NvmlError as again:
                raise StrandedError(error, again) from again
            raise

    def _bring(self, wanted: list[Instance], profiles: list[mig_profiles.Profile]) -> None:
        there = self._found({profile["id"]: profile for profile in profiles})
        for handle, one in there:
            if one not in wanted:
                for compute, _slices in self._compute(handle):
                    self._nvml.call("nvmlComputeInstanceDestroy", compute)
                self._nvml.call("nvmlGpuInstanceDestroy", handle)
        for one in wanted:
            if one not in [known for _handle, known in there]:
                self._make(one)

    def _make(self, wanted: Instance) -> None:
        handle, place = c_void_p(), nvml.InstancePlacement(wanted.start, wanted.size)
        function = "nvmlDeviceCreateGpuInstanceWithPlacement"
        self._nvml.call(function, self._handle, c_uint(wanted.profile), byref(place), byref(handle))
        ids: dict[int, int] = {}
        for profile, slices in self._compute_profiles(handle):
            ids.setdefault(slices, profile)
        for slices in wanted.compute:
            if slices not in ids:
                raise NvmlError(nvml.NOT_SUPPORTED)
            made = c_void_p()
            self._nvml.call("nvmlGpuInstanceCreateComputeInstance", handle, c_uint(ids[slices]), byref(made))


class StrandedError(NvmlError):
    """Instances could be made neither as wanted nor as they were."""

    def __init__(self, error: NvmlError, again: NvmlError) -> None:
        """Keep both errors: the first is this one's."""
        super().__init__(error.code)
        self.again = again

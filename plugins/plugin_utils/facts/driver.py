# Copyright (c) 2026 The gpulab founders
# GNU General Public License v3.0+ (see https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The facts of the driver and of what needs it: kernels, CUDA, libraries, NVML, and who uses the GPUs."""

from __future__ import annotations

from typing import Any, TypedDict


class Kernel(TypedDict):
    """A kernel, the program that compiled it, and the NVIDIA driver's module that is built for it."""

    version: str
    running: bool
    installed: bool
    next_boot: bool
    headers: str | None
    markers: list[str]
    compiler: str | None
    dkms: list[DkmsModule]
    nvidia_module: str | None
    nvidia_module_file: str | None
    nvidia_module_flavour: str | None
    nvidia_module_signer: str | None
    nvidia_module_accepted: bool | None
    initramfs: Initramfs | None


class DkmsModule(TypedDict):
    """A version of a module in DKMS' tree; error is that of a build that failed."""

    module: str
    version: str
    state: str
    source: bool
    error: str | None


class Initramfs(TypedDict):
    """What the initramfs of the next boot loads and forbids; error says why it could not be read.

    nvidia tells whether it brings NVIDIA's driver, which the root's cannot replace then, and nvidia_version which.
    """

    path: str | None
    nouveau: bool | None
    blacklist: bool | None
    nova: bool | None
    nova_blacklist: bool | None
    nvidia: bool | None
    nvidia_version: str | None
    error: str | None


class Module(TypedDict):
    """A kernel module."""

    loaded: bool
    version: str | None


class Nouveau(TypedDict):
    """The kernel's own drivers of NVIDIA's GPUs, nouveau and Nova."""

    blacklisted: bool
    nova_blacklisted: bool
    files: list[str]
    bound: list[str]
    unused: bool


class Forbidden(TypedDict):
    """What prevents the driver's modules from being loaded."""

    now: list[ForbiddenModule]
    next_boot: list[ForbiddenModule]


class ForbiddenModule(TypedDict):
    """A line of a file, or an argument of the kernel, that forbids a module."""

    module: str
    by: str
    line: str
    how: str


class ModuleOptions(TypedDict):
    """Options of the driver's modules by "module.option": those on disk, and those in effect."""

    wanted: dict[str, str]
    running: dict[str, str]
    new: bool


class Driver(TypedDict):
    """The NVIDIA driver on disk; display has the versions of what draws a display, by file.

    in_container: whether a container of the GPU Operator has loaded the driver.
    """

    packages: list[DriverPackage]
    holds: list[str]
    holds_foreign: list[str]
    runfile: str | None
    runfile_own: bool
    in_container: bool
    library: str | None
    library_path: str | None
    module_on_disk: str | None
    display: dict[str, str | None]
    former: dict[str, str]


class DriverPackage(TypedDict):
    """A package of the driver, and who made it: distribution, nvidia or other."""

    name: str
    version: str
    source: str


class Cuda(TypedDict):
    """The CUDA toolkits, and the compatibility packages."""

    toolkits: list[CudaToolkit]
    default: str | None
    compat: list[str]


class CudaToolkit(TypedDict):
    """A CUDA toolkit."""

    prefix: str
    version: str | None


class Libraries(TypedDict):
    """The versions of CUDA's libraries that the linker finds."""

    cudnn: list[str]
    nccl: list[str]
    tensorrt: list[str]


class Nvml(TypedDict):
    """What NVML says. A GPU that is lost has only its index and an error."""

    state: str
    error: dict[str, Any] | None
    simulated: str | None
    driver_version: str | None
    nvml_version: str | None
    cuda_version: str | None
    gpus: list[dict[str, Any]]
    peers: list[dict[str, Any]]


class UsersOfGpus(TypedDict):
    """Who uses the GPUs, and who works on the node."""

    state: str
    who: list[User]
    sessions: list[Person]


class User(TypedDict):
    """A process that uses a GPU, or that stands for those that may."""

    pid: int
    user: str | None
    command: str | None
    since: str | None
    device: str | None
    kind: str
    service: bool


class Person(TypedDict):
    """A person, job or machine at work on the node; place tells where, and is empty for sessions."""

    user: str
    since: str | None
    desktop: bool
    logged_in: bool
    commands: list[str]
    place: str


class Imex(TypedDict):
    """NVIDIA's IMEX daemon."""

    nodes: list[str]
    own: bool
    state: str | None
    channel: bool


class NcclSetting(TypedDict):
    """A setting that every NCCL program on the node gets."""

    name: str
    value: str
    file: str


class NcclFile(TypedDict):
    """The GPUs that a file of NCCL's describes: their PCI addresses in a topology, their numbers in a graph."""

    gpus: list[str]
    devices: list[int]

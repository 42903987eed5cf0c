# Copyright (c) 2026 The gpulab founders
# GNU General Public License v3.0+ (see https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The plan of a node, as gpulab.node.plan returns it; ``make docs`` writes docs/plan.schema.json from it.

Packages are named as the package manager takes them, with a version where it matters. because has one sentence for
each decision.
"""

from __future__ import annotations

from typing import Any, TypedDict


class _Due(TypedDict, total=False):
    due: dict[str, list[str]]
    drift: list[str]


class Plan(_Due):
    """What gpulab brings a node to; disk is the room that this takes, in MiB by mount point.

    due says for each role that has something to do why, and drift what changed since the last run, not by gpulab.
    bundle is the host's part of the bundle that all comes from (plugin_utils/bundle/use.py); empty without.
    """

    schema: int
    host_types: HostTypes
    driver: Driver
    secure_boot: SecureBoot
    cuda: Cuda
    libraries: Libraries
    container_toolkit: ContainerToolkit
    environments: list[Environment]
    uv: Uv
    conda: Conda
    fabric_manager: FabricManager
    imex: Imex
    tuning: Tuning
    gpu_settings: GpuSettings
    nccl: Nccl
    monitoring: Monitoring
    reboot: Reboot
    disk: dict[str, int]
    bundle: dict[str, Any]
    warnings: list[str]


class HostTypes(TypedDict):
    """The node's host types, and the options that they set, which the inventory does not."""

    names: list[str]
    options: list[HostTypeOption]
    because: list[str]


class HostTypeOption(TypedDict):
    """An option that a host type sets, why, and where that is written."""

    option: str
    value: Any
    host_type: str
    because: str
    source: list[str]


class _Runfile(TypedDict, total=False):
    runfile: Runfile


class Driver(_Runfile):
    """The driver's source, branch, version, packages, and the kernels that its modules are built for."""

    source: str
    branch: str
    version: str | None
    newest_known: str
    upgrade: bool
    kernel_modules: str | None
    packages: list[str]
    kernel_package: str | None
    dkms_module: str | None
    build_packages: list[str]
    remove_packages: list[str]
    pin_package: str | None
    module_stream: str | None
    apt_components: list[str]
    release_packages: list[str]
    repository: Repository | None
    conflicting_packages: list[str]
    hold: list[str]
    kernels: list[str]
    header_packages: list[str]
    headers_decide: bool
    persistence: bool
    display: bool
    because: list[str]
    change: DriverChange | None


class Runfile(TypedDict):
    """NVIDIA's installer."""

    url: str
    sha256: str


_From = TypedDict("_From", {"from": str})  # a keyword of Python


class DriverChange(_From):
    """The driver of the node, and the planned one, in words."""

    to: str


class Repository(TypedDict):
    """A vendor's repository, and the packages that are taken from it."""

    id: str
    format: str
    url: str
    suite: str | None
    key_url: str
    key_file: str | None
    key_fingerprint: str | None
    keyring_package_sha256: str | None
    packages: list[str]


class SecureBoot(TypedDict):
    """Whether the key that signs the modules is enrolled."""

    enrol: bool
    because: list[str]


class Cuda(TypedDict):
    """The CUDA toolkits; home is the CUDA_HOME of login sessions."""

    source: str
    toolkits: list[CudaToolkit]
    default: str | None
    home: str | None
    compute_capabilities: list[str]
    apt_components: list[str]
    repository: Repository | None
    retire_packages: list[str]
    because: list[str]


class CudaToolkit(TypedDict):
    """A toolkit; compat is its package of forward compatibility, wheels what it is made of where no package has it."""

    version: str
    packages: list[str]
    prefix: str
    full_features: bool
    compat: str | None
    host_compiler: str | None
    wheels: list[Wheel]


class Wheel(TypedDict):
    """A wheel for the node's architecture."""

    name: str
    version: str
    sha256: str


class Libraries(TypedDict):
    """CUDA's libraries."""

    cudnn: Library | None
    nccl: Library | None
    tensorrt: Library | None
    retire_packages: list[str]
    because: list[str]


class Library(TypedDict):
    """A library, and the CUDA that it was built for."""

    version: str
    cuda: str
    packages: list[str]


class ContainerToolkit(TypedDict):
    """The container engines that get the GPUs, and what is installed for that."""

    engines: list[str]
    version: str | None
    packages: list[str]
    retire_packages: list[str]
    packages_change: bool
    engine_packages: list[str]
    engine_repository: EngineRepository | None
    docker: Docker | None
    floor: str
    repository: Repository
    because: list[str]


class EngineRepository(TypedDict):
    """docker.com's repository."""

    url: str
    suite: str | None
    components: list[str]
    key_url: str
    key_fingerprint: str


class Docker(TypedDict):
    """Keys of daemon.json: those that GPUs need, and all that are set."""

    required: dict[str, Any]
    settings: dict[str, Any]
    start: bool


class Environment(TypedDict):
    """A Python environment by pip."""

    name: str
    framework: str | None
    version: str | None
    python: str
    cuda: str | None
    index_url: str | None
    index_packages: list[str]
    requirements: list[str]
    lock: str | None
    lock_text: str | None
    constraints: list[str]
    overrides: list[str]
    compile: list[str]
    prereleases: bool
    jupyter: bool
    group: str | None
    variables: dict[str, str]
    because: list[str]


class Uv(TypedDict):
    """The wheel of uv, and the system's packages that fetch it and that PyTorch compiles with."""

    version: str
    sha256: str
    packages: list[str]


class Conda(TypedDict):
    """micromamba, and the newest CUDA that driver and GPUs have in full."""

    version: str
    url: str
    sha256: str
    architecture: str
    cuda: str


class _Service(TypedDict, total=False):
    service: str


class FabricManager(_Service):
    """NVIDIA's Fabric Manager, for NVSwitches."""

    needed: bool
    packages: list[str]
    version: str | None
    modules: list[str]
    because: list[str]


class Imex(TypedDict):
    """NVIDIA's IMEX, for memory over NVLink between nodes."""

    needed: bool
    packages: list[str]
    version: str | None
    service: str
    nodes: list[str]
    restart: bool
    because: list[str]


class Tuning(TypedDict):
    """Settings of the kernel and of limits, and the files that keep them; boot_files take effect at a boot."""

    host_type: str | None
    settings: list[TuningSetting]
    files: dict[str, str]
    boot_files: dict[str, str]
    values: dict[str, str]
    limits: dict[str, str]
    kernel_arguments: list[str]
    services: dict[str, bool]
    swap: Swap
    because: list[str]


class Swap(TypedDict):
    """Where the node shall have swap, and how much of it where it is made; no place means none of gpulab's."""

    place: str | None
    mib: int


class TuningSetting(TypedDict):
    """A setting, why it is made, and where that is written."""

    kind: str
    name: str
    value: str
    because: str
    source: list[str]


class GpuSettings(TypedDict):
    """Settings of the GPUs: of all, of single ones, and the budget of power in watts."""

    settings: dict[str, Any]
    because: list[str]


class Nccl(TypedDict):
    """The content of /etc/nccl.conf, the kernel modules and packages that it needs, and nccl-tests."""

    settings: list[NcclSetting]
    file: str
    modules: list[str]
    packages: list[str]
    retired: list[str]
    tests: NcclTests | None
    because: list[str]


class NcclSetting(TypedDict):
    """A variable of NCCL."""

    name: str
    value: str
    because: str


class NcclTests(TypedDict):
    """The source of nccl-tests, and how it is built."""

    url: str
    sha256: str
    directory: str
    cuda_home: str
    gencode: str
    compiler: str | None


class Monitoring(TypedDict):
    """The address that answers Prometheus."""

    address: str | None
    dcgm_packages: list[str]
    because: list[str]


class Reboot(TypedDict):
    """Whether the planned driver needs a reboot."""

    needed: bool
    because: list[str]

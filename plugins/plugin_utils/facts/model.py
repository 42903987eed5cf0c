# Copyright (c) 2026 The gpulab founders
# GNU General Public License v3.0+ (see https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The facts of a node, as the module gpu_facts returns them; ``make docs`` writes docs/facts.schema.json from it.

None is what the node does not tell. Units are in the names: mib (1,048,576 bytes), mw (milliwatts), gts (gigatransfers
per second), mbps and gbps (a million and a billion bits per second). Temperatures are in degrees Celsius, clocks in
MHz, utilization in percent.
"""

from __future__ import annotations

from typing import Any, TypedDict

from ansible_collections.gpulab.node.plugins.plugin_utils.facts.driver import (
    Cuda,
    Driver,
    Forbidden,
    Imex,
    Kernel,
    Libraries,
    Module,
    ModuleOptions,
    NcclFile,
    NcclSetting,
    Nouveau,
    Nvml,
    UsersOfGpus,
)
from ansible_collections.gpulab.node.plugins.plugin_utils.facts.machine import (
    Filesystem,
    Hardware,
    InfinibandPort,
    Interface,
    Pci,
    System,
    Tier,
)
from ansible_collections.gpulab.node.plugins.plugin_utils.facts.services import (
    Containers,
    Engines,
    Group,
    KernelLog,
    Limits,
    Monitoring,
    Service,
    Tuning,
)


class _Receipts(TypedDict, total=False):
    receipts: dict[str, Receipt]


class ReadFacts(TypedDict):
    """What module_utils/facts/collect.py reads."""

    schema: int
    simulated: bool | str  # the simulator's own line where GPUs are simulated
    system: System
    pci: Pci
    hardware: Hardware
    kernels: list[Kernel]
    modules: dict[str, Module]
    nouveau: Nouveau
    forbidden: Forbidden
    module_options: ModuleOptions
    driver: Driver
    cuda: Cuda
    libraries: Libraries
    nvml: Nvml
    users_of_gpus: UsersOfGpus
    filesystems: list[Filesystem]
    engines: Engines
    containers: Containers
    network: list[Interface]
    infiniband: list[InfinibandPort]
    ofed: bool
    imex: Imex
    nccl: list[NcclSetting]
    nccl_files: dict[str, NcclFile]
    nccl_own: dict[str, str]
    group: Group
    monitoring: Monitoring
    limits: Limits
    services: dict[str, Service] | None
    long_steps: list[str]
    fence: Fence | None
    slurm: Slurm | None
    accounts: GivenPeople | None
    directory: Directory | None
    model_store: ModelStore | None
    work_images: WorkImages | None
    kernel_log: KernelLog
    storage: list[Tier]
    own_files: list[str]
    gpu_settings: dict[str, Any]
    tuning: Tuning
    data_loading: DataLoading | None


class Facts(_Receipts, ReadFacts):
    """Everything that gpulab reads of a node.

    checks/reboot.py judges what was read, and the module gpu_facts adds the receipts.
    """

    reboot: Reboot


class Receipt(TypedDict):
    """What a role left at its last run: digests of what it worked from, and how the node differs from it now.

    plan is what it carried out, with which a proof compares; none from an earlier gpulab. problem says why the receipt
    does not count. drift is what somebody else changed of that which the role keeps.
    """

    inputs: dict[str, str]
    plan: dict[str, Any]
    problem: str
    differs: list[str]
    drift: list[str]


class Fence(TypedDict):
    """A node that gpulab has taken out of service: the run, since when and until when (UTC), by whom, and why.

    held: it failed, and waits for somebody to mend it. overdue: it should be back by now. before is what Slurm said.
    """

    run: str
    since: str
    by: str
    reason: str
    until: str | None
    engine: str
    held: bool
    before: dict[str, Any]
    overdue: bool


class Slurm(TypedDict):
    """What Slurm says where its daemon is installed: whether MUNGE works, the controller and its accounting answer."""

    munge: bool
    answers: bool
    node: SlurmNode | None
    accounting: bool | None
    door: SlurmDoor | None


class SlurmDoor(TypedDict):
    """Whether somebody without a job opens a GPU, None where that could not be tried; why; and the ways round."""

    opens: bool | None
    why: str
    beside: list[str]
    as_root: list[str]


class SlurmNode(TypedDict):
    """The node as the controller sees it: its state and flags in capitals, why it is drained, and its GPUs."""

    name: str
    states: list[str]
    reason: str
    gpus: int


class GivenPeople(TypedDict):
    """How many people the inventory gave the node, and by name of each in what that differs now.

    unlisted are the numbers of accounts in the range of people's that are in no list. limits are those of sessions.
    """

    people: int
    differs: dict[str, list[str]]
    unlisted: list[int]
    limits: SessionLimits | None
    quotas: Quotas | None


class Quotas(TypedDict):
    """How many quotas there are, and who has used one up."""

    set: int
    full: list[FullQuota]


class FullQuota(TypedDict):
    """What somebody has of what there may be at most, in KiB or files, and where."""

    name: str
    place: str
    what: str
    used: int
    most: int


class Directory(TypedDict):
    """The groups of the directory whose members may log in, and those of them that the node does not find.

    missing is None where no answer came in time. clashes are accounts of the directory with the number of a local one,
    as "NAME (NUMBER)". pam tells whether logins ask SSSD.
    """

    groups: list[str]
    missing: list[str] | None
    clashes: list[str]
    pam: bool


class ModelStore(TypedDict):
    """The store of models: whether its disk answered in time, and how many days ago a blob was read whole at least."""

    directory: str
    answers: bool
    repositories: list[StoredRepository]
    unread_days: int | None


class WorkImages(TypedDict):
    """The images of work, and whether their disk answered in time."""

    directory: str
    answers: bool
    images: list[StoredImage]


class StoredImage(TypedDict):
    """An image that the node is to hold: the least driver that it needs, and why it is not there or does not start."""

    name: str
    digest: str
    driver: str
    problem: str
    architecture: str


class StoredRepository(TypedDict):
    """A repository that the store is to hold: files of its snapshot whose blobs are gone, or other ones."""

    name: str
    revision: str
    is_there: bool
    bytes: int
    missing: list[str]
    damaged: list[str]


class SessionLimits(TypedDict):
    """Of how many people systemd told the limits of sessions, and which of these are other ones."""

    slices: int
    differs: list[LimitDiffers]


class LimitDiffers(TypedDict):
    """Whose limit it is, systemd's name for it, what the inventory sets, and what holds."""

    user: str
    property: str
    wanted: str
    found: str


class DataLoading(TypedDict):
    """How many workers pay to load data for one GPU, as the proof has measured it."""

    workers: int


class Reboot(TypedDict):
    """Why a reboot is due, and whether modprobe alone brings the driver."""

    reasons: list[str]
    loadable: bool

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


class System(TypedDict):
    """Distribution, kernel, firmware, processors, memory, package manager, clock."""

    id: str
    version: str
    codename: str | None
    name: str
    family: str
    architecture: str
    hostname: str
    kernel: str
    virtualization: str
    container: bool
    python: str
    secure_boot: str
    mok_enrolled: bool | None
    mok_pending: bool | None
    cpu_cores: int | None
    numa_nodes: int
    memory_mib: int | None
    boot_id: str
    package_state: str
    packages_unfinished: list[str]
    clock_synchronized: bool | None
    clock_services: list[str]
    initramfs_programs: list[str]


class Pci(TypedDict):
    """NVIDIA's GPUs that the node may use, GPUs of virtual machines, GPUs of other makers, NVSwitches."""

    gpus: list[PciGpu]
    lent: list[LentGpu]
    other_gpus: list[OtherGpu]
    nvswitches: list[NvSwitch]


class Device(TypedDict):
    """A PCI device: its address, and vendor and model as 10de:2330."""

    address: str
    device: str


_Class = TypedDict("_Class", {"class": str})  # a keyword of Python


class Display(TypedDict):
    """Whether the firmware showed its screen on a GPU, and its connectors that have a monitor, as DP-1."""

    boot_vga: bool | None
    monitors: list[str]


class PciGpu(Device, Display, _Class):
    """A GPU on the bus, the link to it and from the port above it, and the errors counted since boot."""

    subsystem: str
    driver: str | None
    vgpu: bool | None
    numa_node: int | None
    link: Link
    bridge_link: Link | None
    redirecting_bridges: list[str] | None
    iommu: str | None
    errors: dict[str, int | None]


class Link(TypedDict):
    """The lanes and the speed of a PCI Express link, now and at most."""

    width: int | None
    max_width: int | None
    speed_gts: float | None
    max_speed_gts: float | None


class LentGpu(Device):
    """A GPU that belongs to virtual machines."""

    driver: str


class OtherGpu(Device, Display):
    """A GPU of another maker, and the kernel driver that has it."""

    maker: str
    driver: str | None


class NvSwitch(Device):
    """An NVSwitch."""

    driver: str | None


class Hardware(TypedDict):
    """The machine around the GPUs; pcie4_lanes are those of the processors' ports, kernel_mib what one has in /boot."""

    cpu: Processor
    memory: Memory
    pcie4_lanes: int | None
    disks: list[Disk]
    kernel_mib: int | None


class Processor(TypedDict):
    """The processors' cache of level 3, and clocks; boosts is false where the boost is switched off."""

    l3_mib: int | None
    base_mhz: int | None
    boost_mhz: int | None
    boosts: bool | None


class Memory(TypedDict):
    """The modules of memory, whether they correct errors, and the errors counted since boot."""

    modules: list[MemoryModule]
    ecc: bool | None
    errors: list[MemoryErrors] | None


class MemoryModule(TypedDict):
    """A module of memory, and the megatransfers a second that it runs at and is made for."""

    slot: str | None
    mib: int
    type: str | None
    mts: int | None
    rated_mts: int | None


class MemoryErrors(TypedDict):
    """Errors of a module of memory, or those of a controller that belong to no module."""

    module: str
    corrected: int
    uncorrected: int


class Disk(_Class):
    """A disk, its size in 10^9 bytes, and the links of an NVMe disk and of the port above it."""

    name: str
    model: str | None
    gb: int
    link: Link | None
    port_link: Link | None


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
    """The NVIDIA driver on disk; display has the versions of what draws a display, by file."""

    packages: list[DriverPackage]
    holds: list[str]
    holds_foreign: list[str]
    runfile: str | None
    runfile_own: bool
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


class Filesystem(TypedDict):
    """A mounted file system; its sizes are None where it does not answer."""

    mount: str
    type: str
    source: str
    read_only: bool
    responsive: bool
    size_mib: int | None
    free_mib: int | None
    free_inodes: int | None
    rotational: bool | None
    nvme: bool | None


class Engines(TypedDict):
    """Versions of the container engines, and the packages that docker.com's conflict with."""

    docker: str | None
    podman: str | None
    containerd: str | None
    nvidia_container_toolkit: str | None
    docker_rivals: list[str]


class Containers(TypedDict):
    """How container engines get the GPUs.

    toolkit_root is where the toolkit's settings look for the driver (None: the host), toolkit_root_there whether one is
    there.
    """

    docker: Docker | None
    containerd: Containerd | None
    cdi: list[Cdi]
    toolkit_ldconfig: str | None
    toolkit_no_cgroups: bool
    toolkit_root: str | None
    toolkit_root_there: bool
    selinux: Selinux | None


class Docker(TypedDict):
    """The settings of Docker's daemon; invalid says why it will not start with them.

    file is the one that the daemon reads; missing_programs are those of runtimes that are not there, by runtime.
    """

    invalid: str | None
    runtimes: list[str]
    default_runtime: str | None
    cdi: bool | None
    cdi_directories: list[str] | None
    selinux: bool
    file: str
    missing_programs: dict[str, str]


class Containerd(TypedDict):
    """The settings of containerd: whether Kubernetes' plugin takes CDI, and whether it has a runtime nvidia."""

    cdi: bool | None
    nvidia_runtime: bool


class Selinux(TypedDict):
    """Whether SELinux enforces its policy, and whether that lets containers use the host's devices."""

    enforcing: bool
    devices: bool | None


class Cdi(TypedDict):
    """One of NVIDIA's CDI specifications; library is the driver that it was made for."""

    path: str
    kind: str
    library: str | None
    missing: list[str]
    devices: list[str]
    mig_devices: list[str]


class Interface(TypedDict):
    """A network interface."""

    name: str
    kind: str
    link_layer: str | None
    driver: str | None
    speed_gbps: float | None
    mtu: int | None
    up: bool
    default_route: bool
    ipv4: str | None


class InfinibandPort(TypedDict):
    """A port of an InfiniBand or RoCE adapter."""

    device: str
    port: int
    link_layer: str
    state: str
    physical_state: str
    rate_gbps: float | None


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


class Group(TypedDict):
    """What the node knows of the other nodes of its group, and its firewall."""

    hosts: list[GroupHost]
    ephemeral_ports: list[int] | None
    ssh_ports: list[int]
    firewalls: list[str]
    firewall: str | None
    own_firewall: OwnFirewall


class GroupHost(TypedDict):
    """A line of /etc/hosts; leads has the address that each name really leads to."""

    address: str
    own: bool
    names: list[str]
    leads: dict[str, str | None]


class OwnFirewall(TypedDict):
    """gpulab's own firewall."""

    wanted: bool
    loaded: bool | None


class Monitoring(TypedDict):
    """How the node is monitored."""

    addresses: list[str]
    routed_address: str | None
    exporter: Exporter
    dcgm_exporter: DcgmExporter
    collector: Collector | None


class DcgmExporter(TypedDict):
    """A service that exports metrics."""

    installed: bool
    listen: str | None
    answers: bool | None
    serves_gpus: bool | None


class Exporter(DcgmExporter):
    """Node exporter, and the arguments that it runs with."""

    arguments: list[str]


class Collector(TypedDict):
    """gpulab's reader of GPU metrics."""

    interval_seconds: int | None
    age_seconds: int | None


class Limits(TypedDict):
    """What programs are granted; a number, or "unlimited"."""

    services: dict[str, int | str | None]
    sessions: dict[str, int | str | None]
    shared_memory_mib: int | None


class Service(TypedDict):
    """A unit, in systemd's words."""

    load: str
    active: str
    sub: str
    enabled: str


class KernelLog(TypedDict):
    """Errors of GPUs, NVSwitches and network adapters in the kernel log since boot."""

    readable: bool
    events: list[KernelEvent]


class KernelEvent(TypedDict):
    """Equal errors as one; time is that of the last."""

    kind: str
    xid: int | None
    bus_id: str | None
    time: str | None
    text: str
    count: int


class Tier(TypedDict):
    """A tier of storage: the device that /etc/fstab names, the one that is mounted, and how they differ."""

    mount: str
    source: str
    declared: str | None
    mounted: str | None
    waits: bool
    there: bool
    options: list[str]
    exports: list[Export]


class Export(TypedDict):
    """A client that may mount a tier; missing are the options that the server does not grant it now."""

    client: str
    live: bool
    missing: list[str]


class Tuning(TypedDict):
    """Live values of the kernel, limits, arguments of the kernel, and the active swap with its other names."""

    values: dict[str, str | None]
    asked: dict[str, KernelValue]
    later: dict[str, LaterSetting]
    limits: dict[str, dict[str, str | None]]
    kernel_arguments: KernelArguments
    grub: bool
    boot_entries: dict[str, list[str]]
    tuned_profile: str | None
    swaps: dict[str, list[str]]


class KernelValue(TypedDict):
    """What the kernel says of a value that the inventory sets; words are all that it takes, where it lists them."""

    there: bool
    writable: bool
    value: str
    words: list[str]
    near: str | None


class DataLoading(TypedDict):
    """How many workers pay to load data for one GPU, as the proof has measured it."""

    workers: int


class LaterSetting(TypedDict):
    """A sysctl that another file sets after gpulab's."""

    value: str
    file: str
    line: int


class KernelArguments(TypedDict):
    """gpulab's arguments for the kernel, whether the boot menu has them, and those of the running kernel."""

    wanted: list[str]
    in_menu: bool
    running: list[str]


class Reboot(TypedDict):
    """Why a reboot is due, and whether modprobe alone brings the driver."""

    reasons: list[str]
    loadable: bool

# Copyright (c) 2026 The gpulab founders
# GNU General Public License v3.0+ (see https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What is asked of a diagnosis on the node, and the evidence that comes back. None is what could not be read.

The classes from Stands to Dump are a part of the diagnosis that people get (docs/diagnosis.schema.json).
"""

from __future__ import annotations

from dataclasses import dataclass, field

from ansible_collections.gpulab.node.plugins.module_utils.core.records import LATER


@dataclass(frozen=True)
class DiagnosisQuestion:
    """What to look at; seconds are those between the two readings."""

    pid: int | None = None
    user: str | None = None
    error: str | None = None
    environment: str | None = None
    address: str | None = None
    dumps: str | None = None
    seconds: float = 0.0


@dataclass(frozen=True)
class SharedMemory:
    """The shared memory that a process sees."""

    size_mib: int
    free_mib: int


@dataclass(frozen=True)
class ProcessLimits:
    """The soft limits of a process, in bytes and files; "unlimited" for none."""

    memlock: int | str | None
    nofile: int | str | None


@dataclass(frozen=True)
class ExaminedProcess:
    """A process that was looked into; what its last reading brings is at the end.

    Reading what stands from arguments on may hang with the process; until it was read, nobody knows whose it is.
    group is its control group, throttled the share of periods in which that had used up its processors, keeper who owns
    the process. cores is how many processors it kept busy between the readings.
    """

    pid: int
    parent: int
    user: str
    command: str
    state: str
    since: str | None
    waits: str | None
    ticks: int
    rss_mib: int
    swap_mib: int
    cpus: int
    container: str | None
    group: str
    throttled: float | None
    files: int
    limits: ProcessLimits
    shared_memory: SharedMemory | None
    executable: str | None
    keeper: str | None
    arguments: str = ""
    environment: dict[str, str] = field(default_factory=dict)
    connected: bool = True
    libraries: list[str] = field(default_factory=list)
    sites: list[str] = field(default_factory=list)
    remote: list[str] = field(default_factory=list)
    sockets: list[int] = field(default_factory=list)
    terminal: str | None = None
    cores: float = 0.0
    later_mib: int = 0
    stack: list[str] = field(default_factory=list)
    ended: bool = False


@dataclass(frozen=True)
class Holding:
    """The memory of a GPU that a process holds, at both readings."""

    pid: int
    memory_mib: int | None
    later_mib: int | None


@dataclass(frozen=True)
class GpuAtWork:
    """The memory and the load of a GPU."""

    index: int
    bus_id: str | None
    total_mib: int | None
    used_mib: int | None
    later_mib: int | None
    utilization: int | None
    power_mw: int | None
    limit_mw: int | None
    holders: list[Holding]


@dataclass(frozen=True)
class Busy:
    """A process that kept processors busy."""

    pid: int
    user: str | None
    command: str
    cores: float
    keeper: str | None


@dataclass(frozen=True)
class ExtensionLock:
    """The lock of an extension that PyTorch compiles, who has it open, and whether other nodes see it."""

    path: str
    held_by: list[int]
    age_seconds: int
    shared: bool


@dataclass(frozen=True)
class Killed:
    """A process that the kernel ended for want of memory."""

    pid: int
    command: str


@dataclass(frozen=True)
class MachineNow:
    """The machine as programs meet it.

    governors counts processors by governor, pressure has percentages of the last ten seconds, compilers the path of
    each, devices whether every user may open each.
    """

    load: float = 0.0
    governors: dict[str, int] = field(default_factory=dict)
    pressure: dict[str, float | None] = field(default_factory=dict)
    compilers: dict[str, str | None] = field(default_factory=dict)
    devices: dict[str, bool] = field(default_factory=dict)
    killed: list[Killed] = field(default_factory=list)
    tmp_noexec: bool = False
    shared_memory: SharedMemory | None = None


@dataclass(frozen=True)
class NetworkMount:
    """A network file system, and the milliseconds that it takes to answer; None where it does not."""

    mount: str
    type: str
    source: str
    milliseconds: float | None


@dataclass(frozen=True)
class Setting:
    """Where sessions get a variable from: the line of a file."""

    name: str
    value: str
    file: str
    line: int


@dataclass(frozen=True)
class Toolkit:
    """A CUDA toolkit; own says that a .run file brought it, settings are files for it alone."""

    prefix: str
    version: str | None
    own: bool
    settings: list[str]


@dataclass(frozen=True)
class CudaLibrary:
    """A library of CUDA, cuDNN or NCCL."""

    library: str
    major: str
    path: str
    version: str | None


@dataclass(frozen=True)
class Linked(CudaLibrary):
    """A library that the linker finds; files are all of it beside one in /usr/local, where packages put none."""

    files: list[str]


@dataclass(frozen=True)
class SearchedDirectory:
    """A directory of somebody's LD_LIBRARY_PATH, and the libraries in it."""

    path: str
    there: bool
    found: list[CudaLibrary]


@dataclass(frozen=True)
class PythonEnvironment:
    """A Python environment; torch_cuda is "None" where its PyTorch was built without CUDA.

    packages are versions by name. user_site is the user's own directory of packages for the same Python, which goes
    before a system's or conda's packages.
    """

    prefix: str
    python: str | None
    conda: bool
    packages: dict[str, str]
    torch_cuda: str | None
    libraries: list[CudaLibrary]
    user_site: str | None
    user_packages: dict[str, str]
    headers: bool


@dataclass(frozen=True)
class Name:
    """A name, and what the resolver says of it."""

    name: str
    addresses: list[str]
    problem: str | None


@dataclass(frozen=True)
class Certificate:
    """What is wrong with a server's certificate, and from when until when it holds, in UTC."""

    problem: str
    starts: str | None
    ends: str | None


@dataclass(frozen=True)
class TriedServer:
    """How a server answers; certificate is None where it is good, or not TLS."""

    host: str
    port: int
    state: str
    certificate: Certificate | None = None


@dataclass(frozen=True)
class Listener:
    """Who listens on a port; pid None where the process is in another namespace or out of sight."""

    port: int
    pid: int | None
    user: str | None
    command: str | None


@dataclass(frozen=True)
class Socket:
    """A TCP socket that listens or still connects."""

    state: str
    port: int
    peer: str
    peer_port: int
    inode: int


@dataclass(frozen=True)
class Proxy:
    """A proxy that a variable names."""

    variable: str
    host: str
    port: int


@dataclass(frozen=True)
class NcclLog:
    """The last warnings in a log of NCCL that a process writes."""

    pid: int
    path: str
    warnings: list[str]


@dataclass(frozen=True)
class Stands:
    """The operation that a rank awaits: the sizes and types of what it gives, and the line that called it."""

    number: int
    operation: str
    sizes: list[list[int]]
    types: list[str]
    place: str | None
    created: str | None


@dataclass(frozen=True)
class Group:
    """How far a rank has come in a process group: its last operation, and the first that has not ended."""

    name: str
    ranks: list[int]
    last: int
    stands: Stands | None


@dataclass(frozen=True)
class Dump:
    """What a rank wrote by PyTorch's flight recorder; files is the beginning of the name, which all ranks share."""

    files: str
    rank: int
    written: str
    problem: str | None
    groups: list[Group]


@dataclass(frozen=True)
class Noted:
    """What the watch of Slurm's controller noted of a job: when, what it saw, the class and cause that it gave.

    nodes is how many nodes the finding concerns, evidence what else this node showed.
    """

    time: str
    job: int
    seen: str
    kind: str
    cause: str
    nodes: int
    evidence: list[str]


@dataclass(frozen=True)
class Evidence:
    """All that is known of the node beside its facts.

    seconds are those between the two readings, late the parts that could not be read in time. stuck is the process
    whose reading did not end. waiting has pairs: who waits for a file's lock, and who holds it, 0 where that is unseen.
    """

    seconds: float
    late: list[str]
    stuck: int | None
    gpus: list[GpuAtWork]
    processes: list[ExaminedProcess]
    busy: list[Busy]
    waiting: list[list[int]]
    locks: list[ExtensionLock]
    machine: MachineNow
    mounts: list[NetworkMount]
    settings: list[Setting]
    toolkits: list[Toolkit]
    directories: list[SearchedDirectory]
    linker: list[Linked]
    environments: list[PythonEnvironment]
    hostname: Name | None
    names: list[Name]
    servers: list[TriedServer]
    listeners: list[Listener]
    connecting: list[Socket]
    dumps: list[Dump]
    nccl_logs: list[NcclLog]
    proxies: list[Proxy]
    noted: list[Noted] = field(default_factory=list, metadata=LATER)  # by the action, which asks the controller

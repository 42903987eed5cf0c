# Copyright (c) 2026 The gpulab founders
# GNU General Public License v3.0+ (see https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Read a node's block devices, mounts and mount points. Nothing is written, and no device is opened for writing."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Callable

from ansible_collections.gpulab.node.plugins.module_utils.core import mount_table
from ansible_collections.gpulab.node.plugins.module_utils.storage import devices, exports, plan
from ansible_collections.gpulab.node.plugins.module_utils.storage.devices import OTHERS, STABLE, Devices
from ansible_collections.gpulab.node.plugins.module_utils.storage.exports import Server
from ansible_collections.gpulab.node.plugins.module_utils.storage.plan import Place, State, Tier

if TYPE_CHECKING:
    from ansible_collections.gpulab.node.plugins.module_utils.core.node import Node

Call = Callable[[list[str]], tuple[int, str, str]]  # a command: exit status, output, errors

# without NAME lsblk does not tell what is made of which device
COLUMNS = "NAME,KNAME,TYPE,SIZE,SERIAL,MAJ:MIN,WWN,TRAN,MODEL,ROTA"
LSBLK = ["lsblk", "--json", "--bytes", "--output", COLUMNS]
BLKID = ["blkid", "--probe", "--output", "export"]
WIPEFS = ["wipefs", "--no-act", "--json"]
LVS = ["lvs", "--reportformat", "json", "--options", "vg_name,lv_name,lv_active"]
UNITS = "/etc/systemd/system"
CLIENTS = "/proc/fs/nfsd/clients"
SECONDS = "20"  # for one of these; a disk that does not answer is unknown
MIB = 1 << 20
ENDS = 16 * MIB  # read at either end of a device that shall be blank
SAMPLES, SAMPLE = 256, 1 << 16  # and between them


class Reader:
    """Reads a node; call runs a command there."""

    def __init__(self, node: Node, call: Call) -> None:
        """Read nothing yet."""
        self._node = node
        self._call = call

    def state(self, tiers: list[Tier]) -> State:
        """Return the node as it is now, with a closer look at the devices of these tiers."""
        fstab = (self._node.data(plan.FSTAB) or b"").decode("utf-8", "surrogateescape")
        server = server_of(self._node)
        if not tiers and not plan.entries(fstab) and exports.FILE not in server.files:
            return State(Devices({}), fstab, server=server)  # nothing is gpulab's affair
        known = self.devices()
        for path in plan.devices_of(tiers, known):
            known.closer[path] = self.closer(path)
        places = [tier.mount for tier in tiers]
        former = {entry.mount for entry in plan.entries(fstab)} - set(places)
        return State(
            known,
            fstab,
            {place: self._place(place) for place in places if not devices.at(place, known.mounts)},
            {place: self._users(place, known) for place in former},
            server,
            {path: self._node.text(path) for path in self._units()},
        )

    def _units(self) -> list[str]:
        return [f"{UNITS}/{name}" for name in self._node.names(UNITS) if name.endswith(".mount")]

    def devices(self) -> Devices:
        """Return all devices of the node, with what is on them and where it is mounted."""
        found = devices.block_devices(self.output(LSBLK))
        volumes = devices.volumes(self.output(LVS))
        return Devices(
            found,
            self._links([name for name, active in volumes.items() if active]),
            {path: devices.content(*self._timed([*BLKID, path])) for path in found if found[path].size},
            {},
            devices.mounts(self._node.text("/proc/self/mountinfo"), self._node.resolve),
            tuple(mount_table.swaps(self._node.text("/proc/swaps"))),
            volumes,
            self._links_in(OTHERS),
        )

    def _links(self, volumes: list[str]) -> dict[str, str]:
        return {**self._links_in(STABLE), **{name: self._node.resolve(name) for name in volumes}}

    def _links_in(self, directories: tuple[str, ...]) -> dict[str, str]:
        names = [f"{directory}{name}" for directory in directories for name in self._node.names(directory)]
        return {name: self._node.resolve(name) for name in names}

    def closer(self, path: str) -> list[str]:
        """Return all signatures on a device, or else what makes it not blank all the same."""
        found = devices.signatures(*self._timed([*WIPEFS, path]))
        return found or bytes_found(str(self._node.path(path)))

    def _place(self, path: str) -> Place:
        place = self._node.path(path)
        if not os.path.lexists(place):
            return Place()
        real = os.path.realpath(place)
        return Place(
            exists=True,
            directory=place.is_dir(),
            real=path if real == os.path.realpath(self._node.root) + path else real,
            entries=tuple(self._node.names(path)),
        )

    def _users(self, place: str, known: Devices) -> list[str]:
        """Return what keeps a mount from being let go: what is mounted below it, and processes."""
        below = [f"the mount {mount.place}" for mount in known.mounts if mount.place.startswith(f"{place}/")]
        return [
            *below,
            *(f"process {pid}" for pid in self._node.names("/proc") if pid.isdigit() and self._uses(pid, place)),
        ]

    def _uses(self, pid: str, place: str) -> bool:
        descriptors = [f"fd/{number}" for number in self._node.names(f"/proc/{pid}/fd")]
        links = (self._node.link(f"/proc/{pid}/{name}") for name in ("cwd", "root", "exe", *descriptors))
        return any(link == place or (link or "").startswith(f"{place}/") for link in links)

    def output(self, argv: list[str]) -> str:
        """Return what a command prints; nothing where it fails, or does not answer."""
        rc, output, _errors = self._timed(argv)
        return output if rc == 0 else ""

    def _timed(self, argv: list[str]) -> tuple[int, str, str]:
        return self._call(["timeout", "--signal=KILL", SECONDS, *argv])


def server_of(node: Node) -> Server:
    """Return what the node has of an NFS server."""
    more = [f"/etc/exports.d/{name}" for name in node.names("/etc/exports.d") if name.endswith(".exports")]
    there = [path for path in (exports.OTHERS, *more) if node.exists(path)]
    return Server(
        {path: (node.data(path) or b"").decode("utf-8", "replace") for path in there},
        node.text(exports.TABLE),
        runs=bool(node.number("/proc/fs/nfsd/threads")),
        at_boot=node.link(exports.WANTED) is not None,
        enabled=node.exists(exports.ENABLED),
        hosts=node.text("/etc/hosts"),
        unable=_unable(node),
        holders=exports.holders(
            (node.text(f"{CLIENTS}/{one}/info"), node.text(f"{CLIENTS}/{one}/states")) for one in node.names(CLIENTS)
        ),
    )


def _unable(node: Node) -> str:
    """Say why the node cannot have an NFS server of its own; empty where it can."""
    if node.container() is not None:
        return "this node is a container, which cannot run the kernel's NFS server"
    modules = f"/lib/modules/{node.text('/proc/sys/kernel/osrelease')}"
    listed = "\n".join(node.text(f"{modules}/{name}") for name in ("modules.dep", "modules.builtin"))
    if "nfsd" in node.text("/proc/filesystems").split() or "/nfsd.ko" in listed:
        return ""
    return "the running kernel has no NFS server (module nfsd)"


def bytes_found(path: str) -> list[str]:
    """Say what is on a device that no signature tells of: it must be free, and read as nothing but zeros.

    It is read at both ends, and at places between. The kernel lets a device be opened like this only while nothing
    holds it, in whatever container or namespace.
    """
    try:
        handle = os.open(path, os.O_RDONLY | os.O_EXCL | os.O_CLOEXEC)
    except OSError as error:
        return [f"it cannot be opened exclusively: {error.strerror}"]
    try:
        size = os.lseek(handle, 0, os.SEEK_END)
        for start, length in _stretches(size):
            if _read(handle, start, length).strip(b"\0"):
                return [f"unknown data near byte {start} of {size}"]
    except OSError as error:
        return [f"unknown data: it cannot be read: {error.strerror}"]
    finally:
        os.close(handle)
    return []


def _stretches(size: int) -> list[tuple[int, int]]:
    ends = [(start, MIB) for start in [*range(0, min(ENDS, size), MIB), *range(max(0, size - ENDS), size, MIB)]]
    return ends + [(size // SAMPLES * number, SAMPLE) for number in range(SAMPLES)]


def _read(handle: int, start: int, length: int) -> bytes:
    """Read a stretch whole, but for what lies beyond the end. Raises OSError."""
    data = b""
    while len(data) < length:
        chunk = os.pread(handle, length - len(data), start + len(data))
        if not chunk:
            break
        data += chunk
    return data

# Copyright (c) 2026 The gpulab founders
# GNU General Public License v3.0+ (see https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Read a node's block devices, mounts and mount points. Nothing is written, and no device is opened for writing."""

from __future__ import annotations

import os
from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING, Callable

from ansible_collections.gpulab.node.plugins.module_utils.core import lsblk, mount_table
from ansible_collections.gpulab.node.plugins.module_utils.core.child import LATE, Child
from ansible_collections.gpulab.node.plugins.module_utils.storage import blank, devices, exports, plan, targets
from ansible_collections.gpulab.node.plugins.module_utils.storage.blank import Look
from ansible_collections.gpulab.node.plugins.module_utils.storage.devices import OTHERS, STABLE, Devices
from ansible_collections.gpulab.node.plugins.module_utils.storage.exports import Server
from ansible_collections.gpulab.node.plugins.module_utils.storage.plan import Place, State

if TYPE_CHECKING:
    from ansible_collections.gpulab.node.plugins.module_utils.core.lsblk import Device
    from ansible_collections.gpulab.node.plugins.module_utils.core.node import Node
    from ansible_collections.gpulab.node.plugins.module_utils.storage.tiers import Tier

Call = Callable[[list[str]], tuple[int, str, str]]  # a command: exit status, output, errors

BLKID = ["blkid", "--probe", "--output", "export"]
WIPEFS = ["wipefs", "--no-act", "--json"]
LVS = ["lvs", "--reportformat", "json", "--options", "vg_name,lv_name,lv_active"]
AT_ONCE = 16  # disks that are read at the same time
UNITS = "/etc/systemd/system"
CLIENTS = "/proc/fs/nfsd/clients"
ANSWERS = 10.0  # seconds in which a file server has to answer
SECONDS = "20"  # for one of these; a disk that does not answer is unknown


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
        known.closer.update(self.closer(targets.devices_of(tiers, known)))
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
        found = lsblk.parse(self.output([*lsblk.COMMAND]))
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

    def closer(self, paths: list[str], whole: int = blank.WHOLE) -> dict[str, Look]:
        """Look at devices: for all signatures, or else for what makes one not blank all the same, many at a time."""
        signed = {path: tuple(devices.signatures(*self._timed([*WIPEFS, path]))) for path in paths}
        unsigned = [path for path in paths if not signed[path]]
        with ThreadPoolExecutor(AT_ONCE) as pool:
            looks = pool.map(lambda path: blank.look(str(self._node.path(path)), whole=whole), unsigned)
            return {**{path: Look(found) for path, found in signed.items()}, **dict(zip(unsigned, looks))}

    def again(self, name: str, device: Device | None) -> tuple[str, ...]:
        """Look once more at a device that was judged, by the name by which it is now written to: what is against it."""
        path = self._node.resolve(name)
        now = lsblk.parse(self.output([*lsblk.COMMAND, path])).get(path)
        if device is None or now != device:
            return (f"another device than was examined: {now or 'none'}, not {device or 'one that is still to come'}",)
        return blank.look(str(self._node.path(name)), device.number, samples=blank.GLANCE).found

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
        at = devices.at(place, known.mounts)
        if (
            at
            and at.type not in mount_table.LOCAL
            and Child(lambda emit: emit(os.statvfs(place)), ANSWERS).wait() == LATE
        ):
            return [f"{at.source}, which does not answer: umount would wait for ever"]
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

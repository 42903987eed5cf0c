# Copyright (c) 2026 The gpulab founders
# GNU General Public License v3.0+ (see https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Who uses the GPUs, or may at any time, and who works on the node: the people whose work a reboot would end."""

from __future__ import annotations

import os
import re
from typing import TYPE_CHECKING, Any

from ansible_collections.gpulab.node.plugins.module_utils.core import mount_table
from ansible_collections.gpulab.node.plugins.module_utils.facts import pci
from ansible_collections.gpulab.node.plugins.module_utils.facts.logins import draw_login_screen
from ansible_collections.gpulab.node.plugins.module_utils.facts.people import at_work, people
from ansible_collections.gpulab.node.plugins.module_utils.facts.processes import (
    boot_time,
    owner,
    process_fields,
    timestamp,
    user_name,
)

if TYPE_CHECKING:
    from collections.abc import Iterable

    from ansible_collections.gpulab.node.plugins.module_utils.core.node import Node
    from ansible_collections.gpulab.node.plugins.plugin_utils.facts.driver import User, UsersOfGpus

# Daemons that hold the devices and no work of anybody's; the last line has those of Kubernetes
# (github:NVIDIA/k8s-device-plugin, cmd; github:NVIDIA/k8s-dra-driver-gpu, cmd)
SERVICES = frozenset(
    {"nvidia-persistenced", "nv-fabricmanager", "nvidia-imex", "nv-hostengine", "dcgm-exporter", "gpulab-metrics"}
    | {"nvidia-device-plugin", "gpu-feature-discovery", "gpu-kubelet-plugin"}
)
SLURM_STEP = "slurmstepd"
PROCESS, CONTAINER, SLURM, MACHINE = "process", "container", "slurm", "virtual_machine"
_ROLES = {
    CONTAINER: ", a container with a GPU",
    SLURM: ", a job of Slurm",
    MACHINE: ", a virtual machine with a GPU",
}
_COMM = 15  # the kernel keeps this much of a command's name
_STEP = re.compile(r"slurmstepd: \[[^\]]+\]")  # its title; others of its name are there without a job
_GPU = re.compile(r"nvidia\d+\Z")
_DEVICE = re.compile(r"/dev/nvidia(?:\d+|ctl|-uvm|-caps/.*)\Z")


def holders(node: Node, own: int, vfio: Iterable[re.Pattern[str]] = ()) -> tuple[dict[int, str], bool]:
    """Find who has a device file of a GPU open: {pid: device}; and whether every process could be looked into.

    A virtual machine has its GPU by a file of VFIO; these patterns match those of GPUs.

    Children of ``own`` do not count: one may be left from a reading that the driver never answered.

    Reads links only: /proc/PID/cmdline of a hung process can hang its reader.
    """
    found: dict[int, str] = {}
    complete = True
    files = (_DEVICE, *vfio)
    for name in node.names("/proc"):
        if not name.isdigit():
            continue
        try:
            descriptors = [entry.name for entry in node.path(f"/proc/{name}/fd").iterdir()]
        except PermissionError:
            complete = False
            continue
        except OSError:  # it is gone
            continue
        for descriptor in descriptors:
            device = node.link(f"/proc/{name}/fd/{descriptor}")
            if (
                device
                and any(file.match(device) for file in files)
                and process_fields(node.text(f"/proc/{name}/stat"))[0] != own
            ):
                found[int(name)] = device
                break
    return found, complete


def containers(node: Node, held: dict[int, str]) -> dict[int, str]:
    """Find the containers that have a GPU, and in which no process of ``held`` has it open: {first process: device}.

    They are told by device files of their own: a file system on /dev that is not the node's. One that has /dev/mem was
    given all of the node's devices, and counts when it opens a GPU's.
    """
    first: dict[str, int] = {}
    for pid in sorted(int(name) for name in node.names("/proc") if name.isdigit()):
        first.setdefault(node.link(f"/proc/{pid}/ns/mnt") or "", pid)
    using = {node.link(f"/proc/{pid}/ns/mnt") for pid in held}
    own, found = _file_system_on_dev(node, 1), {}
    for namespace, pid in first.items():
        if namespace and namespace not in using and _file_system_on_dev(node, pid) not in {own, None}:
            names = node.names(f"/proc/{pid}/root/dev")
            device = next(filter(_GPU.match, names), None)
            if device and "mem" not in names:
                found[pid] = f"/dev/{device}"
    return found


def _file_system_on_dev(node: Node, pid: int) -> str | None:
    table = mount_table.mounts(node.text(f"/proc/{pid}/mountinfo"))
    return next((mount.device for mount in table if mount.place == "/dev"), None)


def steps_of_jobs(node: Node) -> dict[int, str]:
    """Find the steps of Slurm's jobs, which may open a GPU at any time: {process that watches over it: its title}.

    See https://slurm.schedmd.com/cgroup_v2.html.
    """
    named_so = [
        name for name in node.names("/proc") if name.isdigit() and node.text(f"/proc/{name}/comm") == SLURM_STEP
    ]
    titles = {int(name): _STEP.match(node.text(f"/proc/{name}/cmdline")) for name in named_so}
    return {pid: title[0] for pid, title in titles.items() if title}


def process(node: Node, pid: int, kind: str, device: str | None, booted: int) -> User:
    """Describe one process that uses a GPU, or stands for those that may."""
    ticks = process_fields(node.text(f"/proc/{pid}/stat"))[1]
    uid = owner(node, pid)
    command = node.text(f"/proc/{pid}/comm") or None
    return {
        "pid": pid,
        "user": None if uid is None else user_name(uid),
        "command": command,
        "since": timestamp(booted + ticks / os.sysconf("SC_CLK_TCK")) if ticks else None,
        "device": device,
        "kind": kind,
        "service": command in {name[:_COMM] for name in SERVICES} or draw_login_screen(node, pid),
    }


def workers(users: UsersOfGpus) -> list[User]:
    """Return those of the fact who do somebody's work, which the driver's own daemons do not."""
    return [user for user in users["who"] if not user["service"]]


def named(user: User) -> str:
    """Say in a few words who somebody of the fact is."""
    role = _ROLES.get(user["kind"], "")
    return f"{user['command'] or 'a process'} (PID {user['pid']}, user {user['user'] or 'unknown'}{role})"


def in_use(users: UsersOfGpus, *, people: bool = True) -> str:
    """Say who would lose work by a reboot, or that not all could be looked into; nothing where nobody would.

    Without ``people``, only users of the GPUs are named. What counts as use is decided only here.
    """
    said = [named(user) + (f" since {user['since']}" if user["since"] else "") for user in workers(users)]
    said += [at_work(person) for person in users["sessions"]] if people else []
    return ", ".join(said) or ("" if users["state"] == "idle" else "some processes could not be inspected")


def read(node: Node, nvml_gpus: list[dict[str, Any]], own: int) -> UsersOfGpus:
    """Return the facts ``users_of_gpus``: open device files, processes that NVML names, containers, jobs of Slurm.

    ``sessions`` are the people at work on the node, whether they use a GPU or not.
    """
    vfio = pci.vfio_files(node)
    found, complete = holders(node, own, vfio)
    for gpu in nvml_gpus:
        processes = gpu.get("processes", [])
        for entry in processes if isinstance(processes, list) else []:
            found.setdefault(entry["pid"], f"/dev/nvidia{gpu.get('minor', '')}")
    booted = boot_time(node.text("/proc/stat"))
    kinds = {pid: MACHINE if vfio[0].match(device) else PROCESS for pid, device in found.items()}
    who = [process(node, pid, kinds[pid], device, booted) for pid, device in sorted(found.items())]
    who += [process(node, pid, CONTAINER, device, booted) for pid, device in containers(node, found).items()]
    for pid, title in steps_of_jobs(node).items():
        who.append({**process(node, pid, SLURM, None, booted), "command": title})
    busy = any(not entry["service"] for entry in who)
    return {
        "state": "busy" if busy else "idle" if complete else "unknown",
        "who": who,
        "sessions": people(node, own),
    }

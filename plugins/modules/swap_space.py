#!/usr/bin/python
# Copyright (c) 2026 The gpulab founders
# GNU General Public License v3.0+ (see https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Give a node the swap that is declared, and take it away."""

from __future__ import annotations

DOCUMENTATION = r"""
module: swap_space
short_description: Give a node swap on a file or partition that is declared
version_added: 1.0.0
description:
  - Makes a swap file where there is no file, or swap on a partition that is blank, and switches it on. The partition is
    read whole before, and must be zeros; one that takes longer than 20 minutes is refused.
    Swap that is there already is only switched on, and keeps its size.
  - Nothing is made over anything else. A place that holds a file, a file system or unknown data is refused.
  - Swap that gpulab has switched on and that is no longer named is switched off, where what is in it fits in the
    memory, and its file is removed if gpulab has made it.
  - It holds until the next boot. The line in C(/etc/fstab) is not this module's affair.
extends_documentation_fragment: gpulab.node.attributes.diff
attributes:
  diff_mode:
    description: Shows each step.
options:
  place:
    description:
      - Path of a file on ext4 or XFS, V(UUID=...), or a path in C(/dev/disk/by-id), C(/dev/disk/by-partuuid) or
        C(/dev/disk/by-uuid). Unset means that gpulab's swap shall go.
    type: str
  mib:
    description: Size of a file that is made, in MiB.
    type: int
    default: 16384
"""

EXAMPLES = r"""
- name: Give the node a swap file
  gpulab.node.swap_space:
    place: /swapfile
    mib: 16384
"""

RETURN = r"""
changes:
  description: What changed, or would change in check mode, as M(gpulab.node.preview) shows it.
  returned: success
  type: list
  elements: dict
  sample: [{action: write, what: /swapfile (16384 MiB of swap)}]
refusal:
  description: Code, cause and remedy when the task is refused.
  returned: when refused
  type: dict
"""

import os
import re
import stat
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING

from ansible.module_utils.basic import AnsibleModule
from ansible_collections.gpulab.node.plugins.module_utils.core import mount_table, records
from ansible_collections.gpulab.node.plugins.module_utils.core.changes import Changes, changes
from ansible_collections.gpulab.node.plugins.module_utils.core.module import run
from ansible_collections.gpulab.node.plugins.module_utils.core.node import Node
from ansible_collections.gpulab.node.plugins.module_utils.core.refusals.storage import refuse
from ansible_collections.gpulab.node.plugins.module_utils.storage.host import Reader
from ansible_collections.gpulab.node.plugins.module_utils.system import swap

if TYPE_CHECKING:
    from ansible_collections.gpulab.node.plugins.module_utils.core.lsblk import Device

MEMORY = Path("/var/lib/gpulab/swap.json")
Running = dict[str, mount_table.Swap]  # the active swaps, by all their names


def remembered() -> dict[str, str]:
    """Return what gpulab did for each swap of its own: make, format or on."""
    lost = "Without it, gpulab does not know which swap is its own; switch it off and remove it by hand."
    return records.read(MEMORY, dict[str, str], {}, lost)


def look(module: AnsibleModule, node: Node, declared: str, running: Running) -> swap.Place:
    """Return what lies in the declared place."""
    path = swap.link(declared)
    if path.startswith("/dev/"):
        return _partition(module, node, path, active=path in running)
    try:
        status = os.lstat(path)
    except FileNotFoundError:
        return _room(node, path)
    if not stat.S_ISREG(status.st_mode):
        return swap.Place(path, holds="something that is not a file")
    with Path(path).open("rb") as file:
        known = swap.is_swap(file.read(max(swap.PAGES)))
    return swap.Place(path, swap=known, active=path in running, holds="" if known else "another file")


def _room(node: Node, path: str) -> swap.Place:
    directory = Path(path).parent
    if not directory.is_dir():
        return swap.Place(path, holds="nothing, not even its directory")
    mount = mount_table.holding(os.path.realpath(directory), mount_table.mounts(node.text("/proc/self/mountinfo")))
    sizes = os.statvfs(directory)
    return swap.Place(
        path,
        mount=mount.place if mount else "/",
        filesystem=mount.type if mount else "",
        size_mib=sizes.f_blocks * sizes.f_frsize // swap.MIB,
        free_mib=sizes.f_bavail * sizes.f_frsize // swap.MIB,
    )


def _partition(module: AnsibleModule, node: Node, link: str, *, active: bool) -> swap.Place:
    """Look at a device, which is always spoken of by the name that lasts: another disk may get its kernel name."""
    if not link.startswith(swap.STABLE):
        return swap.Place(link, partition=True, holds="a name that may be another disk after the next boot")
    path, reader = node.resolve(link), Reader(node, module.run_command)
    known = reader.devices()
    if path not in known.devices:
        return swap.Place(link, partition=True, holds="no device")
    content = known.content(path)
    if content.type == "swap" and not content.trouble:
        return swap.Place(link, partition=True, swap=True, active=active)
    device = known.devices[path]
    look = reader.closer([path], whole=device.size)[path]
    found = [content.trouble or content.type or content.partitions, *known.descendants(path), *look.found]
    return swap.Place(link, partition=True, holds=", ".join(filter(None, found)), device=device)


def carry_out(module: AnsibleModule, step: swap.Step, mib: int, running: Running, device: Device | None = None) -> None:
    """Carry out a step; a file that cannot be made swap does not stay. device is as it was judged. Raises Refusal."""
    if step.action == swap.MAKE:
        _make(module, Path(step.path), mib)
    elif step.action == swap.FORMAT:
        found = Reader(Node(), module.run_command).again(step.path, device)  # right before it is written to
        if found:
            raise refuse("H098", place=step.path, found=", ".join(found))
        _call(module, "mkswap", step.path)
    elif step.action == swap.DELETE:
        with suppress(FileNotFoundError), Path(step.path).open("rb") as file:
            start = file.read(max(swap.PAGES))
            if swap.is_swap(start) or not any(start):  # else somebody has put something else there
                Path(step.path).unlink()
    elif step.action == swap.OFF:
        used, available = running[step.path].used_mib, _available_mib()
        if swap.too_much(used, available):
            raise refuse("H101", place=step.path, used=used, free=available)
        _call(module, "swapoff", step.path)
    else:
        _call(module, "swapon", step.path)


def _make(module: AnsibleModule, path: Path, mib: int) -> None:
    handle = os.open(path, os.O_CREAT | os.O_EXCL | os.O_WRONLY | os.O_NOFOLLOW | os.O_CLOEXEC, 0o600)
    try:
        try:
            os.posix_fallocate(handle, 0, mib * swap.MIB)
        finally:
            os.close(handle)
        _call(module, "mkswap", str(path))
    except BaseException:
        path.unlink()
        raise


def _call(module: AnsibleModule, program: str, path: str) -> None:
    rc, output, errors = module.run_command([program, path])
    if rc:
        detail = (errors or output).strip().replace("\n", "; ")
        raise refuse("H102", command=f"{program} {path}", detail=detail)


def _available_mib() -> int:
    match = re.search(r"^MemAvailable:\s+(\d+) kB", Path("/proc/meminfo").read_text(encoding="ascii"), re.MULTILINE)
    return int(match.group(1)) // 1024 if match else 0


def main() -> None:
    """Read, plan, carry out."""
    module = AnsibleModule(
        argument_spec={"place": {"type": "str"}, "mib": {"type": "int", "default": 16384}}, supports_check_mode=True
    )
    run(module, operate)


def operate(module: AnsibleModule) -> dict[str, object]:
    """Bring the node's swap to what is declared. Raises Refusal."""
    node, declared, mib = Node(), module.params["place"], module.params["mib"]
    former = remembered()
    sizes, names = mount_table.swaps(node.text("/proc/swaps")), swap.names(node)
    running = {name: sizes[path] for path in sizes for name in names[path]}
    place = look(module, node, declared, running) if declared else None
    steps = swap.plan(place, mib, former, running)
    for step in [] if module.check_mode else steps:
        if step.action in (swap.MAKE, swap.FORMAT, swap.ON):  # noted first: what a power cut leaves is gpulab's
            former.setdefault(step.path, step.action)
            records.keep(MEMORY, former)
        carry_out(module, step, mib, running, place.device if place else None)
    if not module.check_mode:
        records.keep(MEMORY, {path: done for path, done in former.items() if place and path == place.path})
    return {
        "changed": bool(steps),
        "changes": _told(steps, mib),
        "diff": {"before": "", "after": "".join(f"{step.action} {step.path}\n" for step in steps)},
    }


def _told(steps: list[swap.Step], mib: int) -> Changes:
    def of(action: str) -> list[str]:
        return [step.path for step in steps if step.action == action]

    return changes(
        write=[f"{path} ({mib} MiB of swap)" for path in of(swap.MAKE)]
        + [f"{path} (swap)" for path in of(swap.FORMAT)],
        set=[f"swap {path} on" for path in of(swap.ON)] + [f"swap {path} off" for path in of(swap.OFF)],
        delete=of(swap.DELETE),
    )


if __name__ == "__main__":
    main()

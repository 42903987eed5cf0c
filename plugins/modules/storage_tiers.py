#!/usr/bin/python
# Copyright (c) 2026 The gpulab founders
# GNU General Public License v3.0+ (see https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Mount tiers of storage, and never lose what is on a disk."""

from __future__ import annotations

DOCUMENTATION = r"""
module: storage_tiers
short_description: Mount disks, arrays, volumes and NFS exports by names that stay, and never lose what is on one
version_added: 1.0.0
description:
  - Mounts each tier now and at every boot, by lines in a block of its own in C(/etc/fstab). Lines of others stay as
    they are. A boot does not wait for a disk that is lost.
  - A disk on which anything is found is never written to. A filesystem, or an array of RAID 0, is made only where the
    tier says O(tiers[].format=true), on devices that nothing holds, that carry no signature that blkid or wipefs knows,
    and that read as zeros. What cannot be read counts as not blank. There is no force.
  - A device of at most 16 GiB is read whole. Of a larger one are read 64 MiB at both ends, the places where ext4, XFS,
    Btrfs and others keep copies of their superblocks, and 65,536 pieces of 4 KiB, one by chance in each of as many
    equal parts. That takes seconds, or some eight minutes on a disk that rotates; after 20 minutes it is refused.
    Whatever fills two of these parts, which are 128 MiB each on a disk of 8 TiB, is found; something smaller may not
    be. So a person has to say that such a device was checked, by O(tiers[].blank_checked).
  - Arrays and logical volumes that are there are assembled or activated, and never made again.
  - All tiers are judged before the first change; a refusal (GPULAB-H150 to H177) names the device, its serial number,
    what was found on it, and the remedy. After the last change the node is read again.
  - A tier that is no longer listed is unmounted when nothing uses it; what is on it stays.
  - A tier with O(tiers[].export_to) is exported over NFS, now and at every boot, by a file of gpulab's own; exports of
    others stay. Where nothing is mounted, nothing is exported.
extends_documentation_fragment: gpulab.node.attributes.diff
attributes:
  check_mode:
    description: Reports what would change, or why it would be refused. What an array holds, assembling it tells.
  diff_mode:
    description: Shows C(/etc/fstab) before and after, and each other step.
options:
  tiers:
    description: The tiers. An empty list takes all of gpulab's mounts away.
    type: list
    elements: dict
    required: true
    suboptions:
      name:
        description: Name of the tier.
        type: str
        required: true
      purpose:
        description: V(scratch) may be lost, V(datasets) may not.
        type: str
        choices: [scratch, datasets]
        required: true
      mount:
        description: Where it is mounted, an empty directory or none yet.
        type: str
        required: true
      devices:
        description:
          - Disks, each by its serial number, a path or a name in C(/dev/disk/by-id), a path in C(/dev/disk/by-uuid) or
            C(/dev/disk/by-partuuid), V(UUID=...) of a filesystem, or C(/dev/GROUP/VOLUME). A name of the kernel's, as
            C(/dev/nvme0n1), is refused.
          - Several are the disks of one array, or blank disks for a RAID 0, which is made for V(scratch) only.
        type: list
        elements: str
      nfs:
        description: Export of an NFS server, as V(server:/path), in place of devices.
        type: str
      filesystem:
        description: >-
          Filesystem that is expected; unset takes what is there. Of V(format=true) V(ext4), the default, or V(xfs).
        type: str
      options:
        description:
          - Options of the mount. C(nofail) and a time limit for the device are always added.
          - With C(x-systemd.automount), what a boot leaves unmounted until somebody enters the place counts as mounted.
        type: list
        elements: str
        default: [noatime]
      format:
        description: Whether a filesystem may be made on blank devices.
        type: bool
        default: false
      blank_checked:
        description:
          - Devices of which a person knows that nothing on them is needed, by their serial numbers. It is asked for
            where a device is too large to be read whole, in the words of the refusal GPULAB-H177. What is found on one
            is refused all the same.
        type: list
        elements: str
      export_to:
        description: >-
          Who may mount the tier over NFS: addresses, networks, names of hosts, patterns of names, netgroups.
        type: list
        elements: str
      export_options:
        description:
          - Options of the export, in the place of those of V(rw), V(sync), V(no_subtree_check) and V(root_squash) that
            they contradict.
        type: list
        elements: str
      export_to_everybody:
        description: Whether O(tiers[].export_to) may name everybody, as V(*) does.
        type: bool
        default: false
"""

EXAMPLES = r"""
- name: Mount scratch space and datasets
  gpulab.node.storage_tiers:
    tiers:
      - name: scratch
        purpose: scratch
        mount: /scratch
        devices: [S7KGNX0W100001, S7KGNX0W100002]
        filesystem: xfs
        format: true
      - name: datasets
        purpose: datasets
        mount: /mnt/data
        devices: ["UUID=2f3c0a6b-7d0e-42f4-8d0c-9a551f2f3c0a"]
        export_to: [10.1.2.0/24]
"""

RETURN = r"""
changes:
  description: What changed, or would change in check mode, as M(gpulab.node.preview) shows it.
  returned: success
  type: list
  elements: dict
  sample: [{action: arrange, what: write gpulab's lines in /etc/fstab}]
steps:
  description: What was done, or would be, in words.
  returned: success
  type: list
  elements: str
  sample: [write gpulab's lines in /etc/fstab, mount UUID=2f3c0a6b-7d0e-42f4-8d0c-9a551f2f3c0a at /mnt/data]
packages:
  description: Packages that the steps need and that are not installed.
  returned: success
  type: list
  elements: str
  sample: [xfsprogs]
needless:
  description: Packages of an NFS server that neither the tiers nor anybody else needs any more.
  returned: success
  type: list
  elements: str
  sample: [nfs-kernel-server]
refusal:
  description: Code, cause and remedy when the task is refused.
  returned: when refused
  type: dict
"""

import os
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ansible.module_utils.basic import AnsibleModule
from ansible_collections.gpulab.node.plugins.module_utils.core import evidence, files, records
from ansible_collections.gpulab.node.plugins.module_utils.core.changes import changes
from ansible_collections.gpulab.node.plugins.module_utils.core.child import KILLED
from ansible_collections.gpulab.node.plugins.module_utils.core.module import run
from ansible_collections.gpulab.node.plugins.module_utils.core.node import Node
from ansible_collections.gpulab.node.plugins.module_utils.core.refusals.storage import refuse
from ansible_collections.gpulab.node.plugins.module_utils.storage import exports as storage_exports
from ansible_collections.gpulab.node.plugins.module_utils.storage import plan
from ansible_collections.gpulab.node.plugins.module_utils.storage import tiers as declared
from ansible_collections.gpulab.node.plugins.module_utils.storage.host import Reader
from ansible_collections.gpulab.node.plugins.module_utils.storage.plan import FSTAB, State

if TYPE_CHECKING:
    from ansible_collections.gpulab.node.plugins.module_utils.storage.steps import Step
    from ansible_collections.gpulab.node.plugins.module_utils.storage.tiers import Tier

RECORD = Path("/var/lib/gpulab/storage-directories.json")
BY_TABLE = ("export", "withdraw")  # exportfs fails, too, where it only lacks a file that it would read; its table tells
LOOKS = 5  # at the node: an array shows what it holds only once it is assembled
TIER = {
    "name": {"type": "str", "required": True},
    "purpose": {"type": "str", "choices": ["scratch", "datasets"], "required": True},
    "mount": {"type": "str", "required": True},
    "devices": {"type": "list", "elements": "str"},
    "nfs": {"type": "str"},
    "filesystem": {"type": "str"},
    "options": {"type": "list", "elements": "str", "default": ["noatime"]},
    "format": {"type": "bool", "default": False},
    "blank_checked": {"type": "list", "elements": "str"},
    "export_to": {"type": "list", "elements": "str"},
    "export_options": {"type": "list", "elements": "str"},
    "export_to_everybody": {"type": "bool", "default": False},
}


def main() -> None:
    """Read, judge, carry out, read again."""
    module = AnsibleModule(
        argument_spec={"tiers": {"type": "list", "elements": "dict", "required": True, "options": TIER}},
        supports_check_mode=True,
    )
    run(module, operate)


def operate(module: AnsibleModule) -> dict[str, Any]:
    """Bring the node to what the tiers say. Raises Refusal."""
    tiers = declared.read(module.params["tiers"])
    work = TierWork(module)
    before = state = work.reader.state(tiers)
    done = steps = plan.plan(tiers, state)
    packages = work.packages(tiers, steps)
    if not module.check_mode:
        done = []
        for _look in range(LOOKS):
            for step in steps:
                work.carry_out(step)
                done.append(step)
                if step.kind in ("assemble", "array"):
                    break
            state = work.reader.state(tiers)
            steps = plan.plan(tiers, state)
            if not steps:
                break
        if steps:
            left = f"left to do is: {'; '.join(step.what for step in steps)}"
            raise refuse("H162", detail="; ".join([left, *work.told]))
        work.tidy(tiers)
    evidence.note(module, mount=[tier.mount for tier in tiers])
    told = [step.what for step in done]
    exports = before.server.files.get(storage_exports.FILE, "")
    return {
        "changed": bool(done),
        "changes": changes(arrange=told),
        "steps": told,
        "packages": packages,
        "needless": work.needless(tiers, state),
        "diff": [
            files.diff(FSTAB, before.fstab, _text(done, "fstab", before.fstab)),
            files.diff(storage_exports.FILE, exports, _text(done, "exports", exports)),
            {"prepared": "".join(f"{line}\n" for line in told)},
        ],
    }


def _text(done: list[Step], kind: str, before: str) -> str:
    return next((step.text for step in reversed(done) if step.kind == kind), before)


def remembered() -> list[str]:
    """Return the directories that gpulab made for mounts. Raises Refusal H220."""
    lost = "Without it, gpulab does not know which mount points it made, and leaves them."
    return records.read(RECORD, list[str], [], lost)


class TierWork:
    """Carries steps out."""

    def __init__(self, module: AnsibleModule) -> None:
        """Take the module, which runs the commands."""
        self._module = module
        self.reader = Reader(Node(), self._run)
        self.told: list[str] = []

    def packages(self, tiers: list[Tier], steps: list[Step]) -> list[str]:
        """Return the packages that are missing for these steps."""
        missing = [name for name in plan.programs(tiers, steps) if not self._module.get_bin_path(name)]
        return list(dict.fromkeys(self._package(name) for name in missing))

    def needless(self, tiers: list[Tier], state: State) -> list[str]:
        """Return the packages of an NFS server that nobody needs."""
        there = self._module.get_bin_path("exportfs") and plan.server_is_needless(tiers, state)
        return [self._package("exportfs")] if there else []

    def _package(self, program: str) -> str:
        return plan.PACKAGES[program]["apt" if self._module.get_bin_path("apt-get") else "dnf"]

    def carry_out(self, step: Step) -> None:
        """Do one thing. Raises Refusal H162 where it does not succeed, or where a device is not blank any more."""
        for one in step.devices:
            found = self.reader.again(one.name, one.device)
            if found:
                raise refuse("H162", detail=f"{one.name} was blank a moment ago, and now there is {'; '.join(found)}")
        if step.kind == "fstab":
            files.put(self._module, Path(FSTAB), step.text or None, files.mode_of(Path(FSTAB)))
        elif step.kind == "exports":
            files.put(self._module, Path(storage_exports.FILE), step.text or None)
        elif step.kind == "directory":
            self._make(step.place)
        else:
            rc, output, errors = self._run(list(step.argv))
            if rc != 0:
                ended = "no answer in time" if rc in KILLED else f"exit status {rc}"
                told = " ".join((errors.strip() or output.strip() or ended).split())
                if step.kind not in BY_TABLE:
                    raise refuse("H162", detail=f"{' '.join(step.argv)}: {told}")
                self.told = [f"{' '.join(step.argv)}: {told}"]
        self._note(step)
        if step.kind in ("assemble", "array", "format") and self._module.get_bin_path("udevadm"):
            self._run(["udevadm", "settle", "--timeout=30"])

    def _note(self, step: Step) -> None:
        """Remember that the NFS server was enabled by gpulab, for the day when it is needed no more."""
        if step.kind in ("enable", "disable"):
            text = f"The role storage enabled {storage_exports.UNIT}.\n" if step.kind == "enable" else None
            files.put(self._module, Path(storage_exports.ENABLED), text, 0o600)

    def tidy(self, tiers: list[Tier]) -> None:
        """Remove the directories that were made for places which no tier has any more, as far as they are empty."""
        made = remembered()
        kept = [path for path in made if any(f"{tier.mount}/".startswith(f"{path}/") for tier in tiers)]
        for path in sorted(set(made) - set(kept), reverse=True):
            if Path(path).is_dir() and not os.path.ismount(path) and not any(Path(path).iterdir()):
                Path(path).rmdir()
        records.keep(RECORD, kept, 0o600)

    def _make(self, place: str) -> None:
        above = [str(path) for path in (Path(place), *Path(place).parents) if path.exists()]
        new = plan.parents(place, above)
        records.keep(RECORD, [*remembered(), *new], 0o600)
        for path in new:
            files.make_directory(Path(path))

    def _run(self, argv: list[str]) -> tuple[int, str, str]:
        rc, output, errors = self._module.run_command(argv, environ_update={"LC_ALL": "C"})
        return rc, output, errors


if __name__ == "__main__":
    main()

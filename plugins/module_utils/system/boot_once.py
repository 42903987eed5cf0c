# Copyright (c) 2026 The gpulab founders
# GNU General Public License v3.0+ (see https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Let GRUB start something else once, at the next boot, and the usual system at all later ones.

GRUB clears next_entry in its environment before it starts that entry, so what fails there is not started again. It can
write only to a plain partition: on LVM, an array, Btrfs or ZFS, next_entry would stay. The environment is set by
grub-editenv and not by grub-reboot, which changes the saved entry, too.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import TYPE_CHECKING

from ansible_collections.gpulab.node.plugins.module_utils.core.mount_table import Mount, holding, mounts

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from ansible_collections.gpulab.node.plugins.module_utils.core.node import Node

OWNER = "reinstall"  # of the block in custom.cfg
ENTRY = "gpulab-reinstall"  # the entry's id, and the name of the directory with its files
NEXT = "next_entry"
CHOSEN = "boot_once"  # a variable that GRUB's menu sets for the one boot that next_entry chose
DIRECTORIES = ("/boot/grub", "/boot/grub2")  # Debian and Ubuntu; RHEL and its kin
EDITORS = ("grub-editenv", "grub2-editenv")
PLACES = (f"/boot/{ENTRY}", f"/{ENTRY}")  # where the files may lie: the root, where /boot is small
LOADER = "/sys/firmware/efi/efivars/LoaderInfo-4a67b082-0a4c-41cf-b6c7-440b29bb8c4f"
OTHER_LOADER = "systemd-boot"
ENVIRONMENT_SIZE = 1024
PART, LVM, ARRAY = "partition", "logical volume", "array"
# GRUB's module for a file system that keeps permissions, by its name in the kernel.
MODULES = {"ext2": "ext2", "ext3": "ext2", "ext4": "ext2", "xfs": "xfs"}
WRITABLE = {*MODULES, "vfat"}  # the environment of some systems is on the EFI system partition
_ONCE = (
    re.compile(r"^\s*(?:el)?if \[ \"\$\{next_entry\}\" \]", re.MULTILINE),
    re.compile(r"^\s*save_env next_entry\s*$", re.MULTILINE),
    re.compile(r"^\s*load_env\b", re.MULTILINE),
    re.compile(rf"^\s*set {CHOSEN}=true\s*$", re.MULTILINE),
)
_FOR_EVER = re.compile(r"^\s*set timeout=-1\s*$", re.MULTILINE)
_BOOTED_BY_GRUB = re.compile(r"(?<!\S)BOOT_IMAGE=")


@dataclass(frozen=True)
class Place:
    """A directory that GRUB can read files from.

    within is the directory's path in its file system, uuid that file system's; modules are GRUB's, to read it.
    """

    path: str
    within: str
    uuid: str
    modules: tuple[str, ...]


def directory(node: Node) -> str | None:
    """Return GRUB's directory on a node: the one with its menu."""
    return next((path for path in DIRECTORIES if node.text(f"{path}/grub.cfg")), None)


def environment(node: Node, of_grub: str) -> str:
    """Return where GRUB's environment lies: the file, or what it is a link to."""
    return node.resolve(f"{of_grub}/grubenv")


def variables(text: str) -> dict[str, str]:
    """Return the variables in an environment of GRUB."""
    pairs = (line.partition("=") for line in text.splitlines() if not line.startswith("#"))
    return {name: value for name, equals, value in pairs if equals}


def obstacle(node: Node) -> str:
    """Say why GRUB cannot start an entry exactly once; nothing where it can."""
    loader = (node.data(LOADER) or b"").decode("utf-16-le", "replace")
    if OTHER_LOADER in loader:
        return f"it was started by {OTHER_LOADER}"
    of_grub = directory(node)
    if of_grub is None:
        return f"it has no menu of GRUB in {' or '.join(DIRECTORIES)}"
    if not _BOOTED_BY_GRUB.search(node.text("/proc/cmdline")):
        return "it was not started by GRUB"
    menu = node.text(f"{of_grub}/grub.cfg")
    reasons = [*_of_menu(menu, of_grub), *_of_environment(node, environment(node, of_grub))]
    return "; ".join(reasons)


def _of_menu(menu: str, of_grub: str) -> Iterator[str]:
    if not all(pattern.search(menu) for pattern in _ONCE):
        yield f"{of_grub}/grub.cfg does not know an entry for the next boot only (next_entry)"
    if "/custom.cfg" not in menu:
        yield f"{of_grub}/grub.cfg does not read custom.cfg"
    if _FOR_EVER.search(menu):
        yield "GRUB's menu waits for a key, without end (GRUB_TIMEOUT=-1)"


def _of_environment(node: Node, path: str) -> Iterator[str]:
    kind, mount = device_of(node, path)
    if kind != PART or mount.type not in WRITABLE:
        article = "an" if kind == ARRAY else "a"
        where = f"{mount.type} on {article} {kind}" if kind else mount.type or "nothing"
        yield f"{path} is on {where}, and GRUB cannot write there"
    size = node.size(path)
    if size not in (None, ENVIRONMENT_SIZE):
        yield f"{path} has {size} bytes and not {ENVIRONMENT_SIZE}"
    other = variables(node.text(path)).get(NEXT)
    if other and other != ENTRY:
        yield f"another entry is chosen for the next boot: {other}"


def device_of(node: Node, path: str) -> tuple[str, Mount]:
    """Return what the file system of a path lies on, PART, LVM or another word, and its mount.

    The mount's fields are empty where none is known. The kind is empty where the device is none of a disk, as with
    Btrfs.
    """
    mount = holding(path, mounts(node.text("/proc/self/mountinfo"))) or Mount("", "", "", "")
    block = f"/sys/dev/block/{mount.device}"
    if not mount.device or not node.exists(block):
        return "", mount
    if node.exists(f"{block}/partition"):
        return PART, mount
    if node.exists(f"{block}/md"):
        return ARRAY, mount
    mapped = node.text(f"{block}/dm/uuid").partition("-")[0].lower()
    if mapped == "lvm" and not _of_volumes_alone(node, block):
        return f"{LVM} on LUKS or an array", mount
    return {"lvm": LVM, "": "whole disk"}.get(mapped, f"device of {mapped}"), mount


def _of_volumes_alone(node: Node, block: str) -> bool:
    """Tell whether a volume is made of partitions, disks and volumes: one with a snapshot is made of another one."""
    for below in (f"{block}/slaves/{name}" for name in node.names(f"{block}/slaves")):
        mapped = node.text(f"{below}/dm/uuid")
        if node.exists(f"{below}/md") or (mapped and not mapped.startswith("LVM-")):
            return False
        if not _of_volumes_alone(node, below):
            return False
    return True


def places(node: Node, uuids: dict[str, str]) -> list[Place]:
    """Return the directories for the files that GRUB can read, the best first; uuids are by device, as "259:2"."""
    found: list[Place] = []
    for path in PLACES:
        kind, mount = device_of(node, path)
        uuid = uuids.get(mount.device)
        if kind in (PART, LVM) and mount.type in MODULES and uuid:
            modules = ("part_gpt", "part_msdos", *(("lvm",) if kind == LVM else ()), MODULES[mount.type])
            within = f"{mount.root.rstrip('/')}/{path[len(mount.place) :].lstrip('/')}"
            if all(one.uuid != uuid for one in found):
                found.append(Place(path, within, uuid, modules))
    return found


def entry(place: Place, title: str, kernel: str, initrds: Iterable[str], arguments: Iterable[str]) -> str:
    """Return the menu's entry. What cannot be loaded leads to the next boot, which is the usual system's.

    kernel and initrds are names in the directory. --unrestricted lets it start where the menu has a password. Somebody
    who chooses it on the console, later, does not start the installer: its plan is of another day.
    """
    words = " ".join(arguments)
    files = " ".join(f"{place.within}/{name}" for name in initrds)
    shown = re.sub(r"[^\w .,:()-]", "", title, flags=re.ASCII)
    lines = [
        f"menuentry '{shown}' --unrestricted --id {ENTRY} {{",
        f'  if [ "${{{CHOSEN}}}" != true ]; then',
        "    echo 'gpulab: only a run of gpulab can start the installer.'",
        "  else",
        *(f"    insmod {module}" for module in place.modules),
        f"    search --no-floppy --fs-uuid --set=root {place.uuid}",
        f"    if linux {place.within}/{kernel} {words}; then",
        f"      if initrd {files}; then",
        "        boot",
        "      fi",
        "    fi",
        "    echo 'gpulab: the installer cannot be loaded.'",
        "  fi",
        "  echo 'The usual system starts in 10 seconds.'",
        "  sleep 10",
        "  reboot",
        "}",
    ]
    return "\n".join(lines)

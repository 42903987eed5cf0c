# Copyright (c) 2026 The gpulab founders
# GNU General Public License v3.0+ (see https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What must not be in the answers for a distribution's installer, whoever wrote them: each function yields faults.

The disk is named by the guard, by serial number or WWN, and by nothing else; nothing chooses "the first" or "the
largest"; the guard runs before anything partitions; there is no swap, no RAID, LVM or encryption; nothing looks for
other systems; GRUB goes to the planned disk only; no command runs in the background, for which debconf would wait
for ever.
"""

from __future__ import annotations

import re
import shlex
from typing import TYPE_CHECKING, Any

from ansible_collections.gpulab.node.plugins.plugin_utils.installer import autoinstall, kickstart, preseed, scripts

if TYPE_CHECKING:
    from collections.abc import Iterator

_KERNEL_NAME = re.compile(r"(?:/dev/|\b)(?:[shv]d[a-z]{1,2}|xvd[a-z]|nvme\d+n\d+|mmcblk\d+|md\d+|dm-\d+)(?:p?\d+)?\b")
_CHOICE = re.compile(
    r"\b(?:list-devices|lsblk|parted_devices|largest|smallest|first)\b|\b(?:head|tail)\s+-(?:n\s*)?1\b"
)
_BACKGROUND = re.compile(r"(?<![&>|])&(?![&>])")
_PRESEED_GUARD = f"sh {preseed.PLACE}/{scripts.GUARD}"
_PRESEED_MUST = {
    "partman-auto/method": "regular",
    "partman-basicfilesystems/no_swap": "false",
    "grub-installer/only_debian": "true",
    "grub-installer/with_other_os": "false",
    "grub-installer/enable_os_prober_otheros_yes": "false",
    "grub-installer/enable_os_prober_otheros_no": "false",
}
_PRESEED_GUARDS_OWN = ("partman-auto/disk", "grub-installer/bootdev")


def of_preseed(text: str) -> Iterator[str]:
    """Yield what is wrong with a preseed file of Debian."""
    answers = dict(re.findall(r"^[^#\s]\S*\s+(\S+)\s+\S+[ \t]*(.*)$", text, re.MULTILINE))
    if answers.get("partman/early_command") != _PRESEED_GUARD:
        yield "the guard does not run before partman"
    early = (question for question in _PRESEED_GUARDS_OWN if question in answers)
    yield from (f"{question} is answered before the guard has seen the disks" for question in early)
    for question, answer in _PRESEED_MUST.items():
        if answers.get(question) != answer:
            yield f"{question} is {answers.get(question, 'not answered')!a}"
    yield from _faults_of_recipe(answers.get("partman-auto/expert_recipe"))
    for question, answer in answers.items():
        yield from (f"{question} {fault}" for fault in _faults_of_text(answer))
        if question.endswith("_command") and _BACKGROUND.search(answer):
            yield f"{question} starts a process in the background"


def _faults_of_recipe(recipe: str | None) -> Iterator[str]:
    if recipe is None:
        yield "there is no recipe: partman would make swap"
    elif re.search(r"\bswap\b|method\{ (?:lvm|raid|crypto) \}", recipe):
        yield "the recipe makes swap, LVM, RAID or encryption"


def of_autoinstall(document: dict[str, Any]) -> Iterator[str]:
    """Yield what is wrong with the content of autoinstall, as its file says it."""
    storage = document.get("storage")
    if not isinstance(storage, dict):
        yield "there is no storage: the installer would choose the largest disk"
        return
    if "layout" in storage:
        yield "storage has a layout, which chooses a disk"
    if storage.get("swap") != {"size": 0}:
        yield "swap is not switched off"
    if storage.get("grub") != {"probe_additional_os": False}:
        yield "grub may look for other systems, or goes to disks of its own"
    yield from _faults_of_actions(storage.get("config", []))
    early = document.get("early-commands", [])
    if not early or early[-1] != ["sh", f"{autoinstall.PLACE}/{scripts.GUARD}"]:
        yield "the guard is not the last of early-commands"
    for name in ("early-commands", "late-commands", "error-commands"):
        for command in document.get(name, []):
            text = " ".join(command) if isinstance(command, list) else command
            yield from (f"{name} {fault}" for fault in _faults_of_text(_without_archive(text)))
    if "os-prober" in document.get("packages", []):
        yield "os-prober is installed"


def _faults_of_actions(actions: list[dict[str, Any]]) -> Iterator[str]:
    disks = [one for one in actions if one.get("type") == "disk"]
    if len(disks) != 1:
        yield f"{len(disks)} disks are named"
    for one in disks:
        if one.get("match") != {"serial": autoinstall.PLANNED} or {"path", "serial", "wwn"} & one.keys():
            yield "a disk is found by something else than what the guard puts in"
    for one in actions:
        yield from _faults_of_action(one, {disk.get("id") for disk in disks})


def _faults_of_action(action: dict[str, Any], disks: set[Any]) -> Iterator[str]:
    kind = action.get("type")
    if kind not in {"disk", "partition", "format", "mount"}:
        yield f"there is a {kind}"
    if kind == "partition" and action.get("device") not in disks:
        yield f"partition {action.get('id')} is on no planned disk"
    if action.get("fstype") == "swap" or action.get("flag") == "swap":
        yield "there is swap"


_PARTITION = {"part", "partition"}
_KS_DISKS = {
    "ignoredisk": "--only-use",
    "clearpart": "--drives",
    "bootloader": "--boot-drive",
    "part": "--ondisk",
    "partition": "--ondisk",
}
_KS_ONCE = ("ignoredisk", "clearpart", "bootloader")
_KS_NEVER = ("autopart", "raid", "volgroup", "logvol", "btrfs", "reqpart", "mount", "driverdisk", "harddrive")


def of_kickstart(text: str) -> Iterator[str]:
    """Yield what is wrong with a kickstart file of RHEL."""
    plain = _without_archive(text)
    commands = [shlex.split(line, comments=True) for line in plain.splitlines() if _is_command(line)]
    names = [words[0] for words in commands]
    yield from (f"{name} is there {names.count(name)} times" for name in _KS_ONCE if names.count(name) != 1)
    yield from (f"{name} is there" for name in _KS_NEVER if name in names)
    if not _PARTITION & set(names):
        yield "nothing is partitioned"
    for words in commands:
        yield from _faults_of_command(*words)
    before = re.findall(r"^%pre --erroronfail$(.*?)^%end$", plain, re.MULTILINE | re.DOTALL)
    if not any(f"\nsh {kickstart.PLACE}/{scripts.GUARD}\n" in script for script in before):
        yield "the guard does not run before the installer"
    lines = plain.splitlines()
    if "-os-prober" not in lines or "os-prober" in lines:
        yield "os-prober is not left out"
    yield from _faults_of_text(plain)


def _faults_of_command(name: str, *words: str) -> Iterator[str]:
    option = _KS_DISKS.get(name)
    if option and [word for word in words if word.partition("=")[0] == option] != [f"{option}={kickstart.DISK}"]:
        yield f"{name} does not say {option}={kickstart.DISK}"
    if name in _PARTITION and {"swap", "--fstype=swap"} & set(words):
        yield "there is swap"


def _is_command(line: str) -> bool:
    return bool(re.match(rf"(?:{'|'.join((*_KS_DISKS, *_KS_NEVER))})\b", line))


def _faults_of_text(text: str) -> Iterator[str]:
    name = _KERNEL_NAME.search(text)
    if name:
        yield f"names a disk as the kernel does: {name[0]}"
    choice = _CHOICE.search(text)
    if choice:
        yield f"chooses among disks: {choice[0]}"


def _without_archive(text: str) -> str:
    return re.sub(r"(<<'GPULAB_ARCHIVE'.*\n)(?:.*\n)*?(GPULAB_ARCHIVE\n)", r"\1\2", text)

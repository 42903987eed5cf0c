# Copyright (c) 2026 The gpulab founders
# GNU General Public License v3.0+ (see https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What the installer writes: partition table, boot menus, accounts, /etc/fstab. No I/O happens here."""

from __future__ import annotations

import json
import re
from dataclasses import dataclass
from typing import TYPE_CHECKING

from ansible_collections.gpulab.node.plugins.module_utils.core import account_files
from ansible_collections.gpulab.node.plugins.module_utils.core.processors import AMD64, ARM64
from ansible_collections.gpulab.node.plugins.module_utils.installer import plan as plans

if TYPE_CHECKING:
    from collections.abc import Iterator

    from ansible_collections.gpulab.node.plugins.module_utils.installer.plan import Plan

# https://uapi-group.org/specifications/specs/discoverable_partitions_specification/
_TYPES = {
    plans.BIOS_PARTITION: "21686148-6449-6E6F-744E-656564454649",
    plans.ESP_PARTITION: "C12A7328-F81F-11D2-BA4B-00C93EC93B3B",
    AMD64: "4F68BCE3-E8CD-4DB1-96E7-FBCAF984B709",
    ARM64: "B921B045-1DF0-41C3-AF44-4C6F280D3FAE",
}
ESP_MIB, BIOS_MIB = 512, 2
_SERIAL = re.compile(r"console=ttyS(\d+)(?:,(\d+))?.*")
_SPEED = "115200"
ENDS = ("reboot", "poweroff")


@dataclass(frozen=True)
class Start:
    """How the installer was started: what a refusal ends with ("reboot" or "poweroff"), and from "disk" or "media"."""

    refused: str
    origin: str


def start(command_line: str) -> Start:
    """Return how the kernel's arguments say the installer was started; in doubt a refusal powers off."""
    given = dict(word.partition("=")[::2] for word in command_line.split())
    refused = given.get("gpulab.refused", "")
    return Start(refused if refused in ENDS else "poweroff", given.get("gpulab.from", "media"))


def arguments(plan: Plan, started: Start) -> str:
    """Return the kernel's arguments with which this installer starts again."""
    own = ["rdinit=/gpulab/init", "panic=60", f"gpulab.refused={started.refused}", f"gpulab.from={started.origin}"]
    return " ".join([*own, *plan["kernel_arguments"]])


def partitions(plan: Plan, machine: str) -> str:
    """Return the script for sfdisk: what the firmware boots from, then the root file system in all the rest.

    machine is the kernel's name of the processor.
    """
    first, size = (plans.ESP_PARTITION, ESP_MIB) if plan["firmware"] == plans.UEFI else (plans.BIOS_PARTITION, BIOS_MIB)
    lines = ["label: gpt", f"label-id: {plans.guid(plan)}"]
    lines += [f"size={size}MiB, {_partition(plan, first, first)}", _partition(plan, plans.ROOT_PARTITION, machine)]
    return "\n".join(lines) + "\n"


def _partition(plan: Plan, name: str, kind: str) -> str:
    return f"type={_TYPES[kind]}, uuid={plans.guid(plan, name)}, name={name}"


def esp_serial(plan: Plan) -> str:
    """Return the serial number of the ESP's FAT, 8 hex digits, as mkfs.vfat takes it."""
    return plans.guid(plan, "esp-fs")[:8]


def fstab(plan: Plan) -> str:
    """Return /etc/fstab of the installed system."""
    lines = [
        "# Written by the installer of gpulab.",
        f"UUID={plans.guid(plan, plans.ROOT_FILESYSTEM)} / ext4 errors=remount-ro 0 1",
    ]
    if plan["firmware"] == plans.UEFI:
        serial = esp_serial(plan).upper()
        lines.append(f"UUID={serial[:4]}-{serial[4:]} /boot/efi vfat umask=0077 0 2")
    return "\n".join(lines) + "\n"


def second_menu(plan: Plan, started: Start) -> str:
    """Return GRUB's configuration that starts the installer from the disk, until the system is whole."""
    return "\n".join(
        [
            *_terminal(plan),
            "set timeout=0",
            f"search --no-floppy --fs-uuid --set=root {plans.guid(plan, plans.ROOT_FILESYSTEM)}",
            "menuentry 'gpulab: go on with the installation' {",
            f"  linux /boot/gpulab/vmlinuz {arguments(plan, started)}",
            "  initrd /boot/gpulab/initrd",
            "}",
            "",
        ]
    )


def _terminal(plan: Plan) -> list[str]:
    serial = _serial(plan)
    if not serial:
        return []
    return [f"serial {serial}", "terminal_input console serial", "terminal_output console serial"]


def _serial(plan: Plan) -> str:
    """Return GRUB's options for the serial port that is a console of the kernel; empty where none is."""
    for argument in plan["kernel_arguments"]:
        match = _SERIAL.fullmatch(argument)
        if match:
            return f"--unit={match[1]} --speed={match[2] or _SPEED}"
    return ""


def grub_defaults(plan: Plan) -> str:
    """Return lines for /etc/default/grub: the kernel's arguments, and a serial console where they name one.

    A machine without a screen shows nothing where GRUB draws.
    """
    lines = ["# Written by the installer of gpulab.", f'GRUB_CMDLINE_LINUX="{" ".join(plan["kernel_arguments"])}"']
    lines += ["GRUB_DISABLE_OS_PROBER=true"]
    serial = _serial(plan)
    if serial:
        lines += ['GRUB_TERMINAL="console serial"', f'GRUB_SERIAL_COMMAND="serial {serial}"']
    return "\n".join(lines) + "\n"


def marker(plan: Plan, installed: str) -> str:
    """Return /etc/gpulab-installed-by; installed is the time."""
    fields = {"plan": plan["id"], "capture": plan["capture"], "host": plan["host"], "installed": installed}
    return json.dumps(fields, indent=1, sort_keys=True) + "\n"


def accounts(plan: Plan, files: dict[str, str], shell: str) -> dict[str, str]:
    """Return passwd, group, shadow and gshadow, by their names, with the plan's user; those of the tree are given.

    shell is one that the tree has. Without a password, keys alone let the user in.
    """
    user = plan["user"]
    if user["name"] == plans.ROOT:
        return files
    lines = {
        "passwd": ":".join([user["name"], "x", str(user["uid"]), str(user["gid"]), user["gecos"], user["home"], shell]),
        "shadow": f"{user['name']}:{user['password'] or '*'}:20000:0:99999:7:::",
    }
    if user["group"] not in {group.name for group in account_files.groups(files["group"])}:
        lines["group"] = f"{user['group']}:x:{user['gid']}:"
        lines["gshadow"] = f"{user['group']}:!::"
    return {name: text + (f"{lines[name]}\n" if name in lines else "") for name, text in files.items()}


def hindrances(plan: Plan, files: dict[str, str]) -> Iterator[str]:
    """Yield why the plan's user cannot be made in a tree with these files, passwd and group."""
    user = plan["user"]
    if user["name"] == plans.ROOT:
        return
    for each in account_files.users(files["passwd"]):
        if each.name == user["name"] or each.uid == user["uid"]:
            yield (
                f"The user {user['name']} ({user['uid']}) cannot be made: the new system has {each.name} ({each.uid})."
            )
    for group in account_files.groups(files["group"]):
        if (group.name == user["group"]) != (group.gid == user["gid"]):
            yield (
                f"The group {user['group']} ({user['gid']}) cannot be made: the new system has {group.name}"
                f" ({group.gid})."
            )

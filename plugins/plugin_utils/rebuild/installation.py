# Copyright (c) 2026 The gpulab founders
# GNU General Public License v3.0+ (see https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The installation of a captured node: the installer's plan, and what the new system gets, or refusals. No I/O here."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import TYPE_CHECKING

from ansible_collections.gpulab.node.plugins.module_utils.core import account_files
from ansible_collections.gpulab.node.plugins.module_utils.core.shown import one_line
from ansible_collections.gpulab.node.plugins.module_utils.installer import plan as plans
from ansible_collections.gpulab.node.plugins.plugin_utils.capture import reinstall
from ansible_collections.gpulab.node.plugins.plugin_utils.rebuild import new_system, obstacles
from ansible_collections.gpulab.node.plugins.plugin_utils.rebuild.case import SECURITY, Case, system_name
from ansible_collections.gpulab.node.plugins.plugin_utils.refusals import refuse

if TYPE_CHECKING:
    from collections.abc import Iterator

    from ansible_collections.gpulab.node.plugins.module_utils.capture.sections.disks import Device
    from ansible_collections.gpulab.node.plugins.module_utils.core.refusal import Refusal
    from ansible_collections.gpulab.node.plugins.plugin_utils.capture.manifest import Manifest
    from ansible_collections.gpulab.node.plugins.plugin_utils.rebuild.case import Captured, Found, Installer, Wishes
    from ansible_collections.gpulab.node.plugins.plugin_utils.rebuild.new_system import NewFile

SHADOW = "/etc/shadow"
SHELL = "/bin/bash"
SHELLS = (SHELL, "/bin/sh", "/bin/dash", "/usr/bin/bash", "/usr/bin/sh")  # which the new system has from the start
CONSOLE = "tty0"
# Firmware of network cards, without which the new system would not be reached; these packages have the same names in
# all releases that have an installer.
FIRMWARE = {
    "debian": {
        "firmware-bnx2",
        "firmware-bnx2x",
        "firmware-misc-nonfree",
        "firmware-myricom",
        "firmware-netronome",
        "firmware-netxen",
        "firmware-qlogic",
        "firmware-realtek",
    },
    "ubuntu": {"linux-firmware"},
}


@dataclass(frozen=True)
class Image:
    """The options of gpulab.node.installer_image.

    A mirror is None where the node has none that others can use, sbat_level where its firmware does not ask for it.
    """

    system: str
    architecture: str
    firmware: str
    mirror: str | None
    security_mirror: str | None
    packages: list[str]
    sbat_level: str | None


@dataclass(frozen=True)
class Installation:
    """How a node would be installed.

    plan is the installer's (/gpulab/plan.json), None where a blocker leaves it without an answer; files are those of
    the new system, by path. lines say KEEP and WIPE, lost what does not come back.
    """

    plan: plans.Plan | None
    files: dict[str, NewFile]
    image: Image | None
    lines: tuple[str, ...]
    lost: tuple[str, ...]
    blockers: tuple[Refusal, ...]


def plan(captured: Captured, found: Found, wishes: Wishes, installers: list[Installer]) -> Installation:
    """Plan the installation of a captured node; installers are those that there are."""
    base = reinstall.plan(captured.manifest, wishes.allow)
    installer, no_system = _installer(captured.manifest, wishes, installers)
    case = Case(captured, found, wishes, installer)
    user, lines, lost = _user(case), tuple(base.lines()), tuple(_lost(case))
    blockers = (*base.blockers, *obstacles.of(case, no_system))
    if not base.disk or not installer or not user:
        return Installation(None, {}, None, lines, lost, blockers)
    made = _plan(case, installer, user)
    return Installation(made, new_system.files(case, user), _image(case, installer), lines, lost, blockers)


def _plan(case: Case, installer: Installer, user: plans.User) -> plans.Plan:
    manifest, sections = case.manifest, case.sections
    disks = sections.disks.disks
    return plans.identified(
        {
            "schema": plans.SCHEMA,
            "host": manifest.host,
            "capture": case.captured.name or re.sub(r"[-:]", "", manifest.made),
            "made": manifest.made,
            "machine": {"dmi_uuid": manifest.machine.dmi_uuid.lower()},
            "disk": next(_disk(one, disks) for one in disks if one.root),
            "kept": [_disk(one, disks) for one in disks if not one.root],
            "firmware": sections.boot.firmware,
            "hostname": case.hostname,
            "user": user,
            "kernel_arguments": _consoles(sections.boot.command_line),
            "minutes": case.wishes.minutes,
            "least": {
                "memory": installer.least_memory_mib * obstacles.MIB,
                "disk": installer.least_disk_mib * obstacles.MIB,
            },
        }
    )


def _image(case: Case, installer: Installer) -> Image:
    wishes, boot = case.wishes, case.sections.boot
    return Image(
        installer.system,
        case.manifest.machine.system.architecture,
        boot.firmware,
        wishes.mirror or case.mirror(),
        wishes.security_mirror or (None if wishes.mirror else case.mirror(SECURITY)),
        sorted({*wishes.packages, *_firmware(case, installer)}),
        boot.sbat_level if boot.secure_boot == "enabled" else None,
    )


def _disk(device: Device, disks: list[Device]) -> plans.Kept:
    kind, value = reinstall.identity(device, disks) or (None, None)
    return {"kind": kind, "value": value, "size": device.size, "holds": obstacles.holds(device)}


def _installer(
    manifest: Manifest, wishes: Wishes, installers: list[Installer]
) -> tuple[Installer | None, list[Refusal]]:
    """Return the installer of the system to install, and R010 where there is none for this machine."""
    machine = manifest.machine.system.architecture, manifest.sections.boot.firmware
    usable = {one.system: one for one in installers if one.starts_on(*machine)}
    name = wishes.system or system_name(manifest)
    if name not in usable:
        system = f"{name} on {machine[0]} with {machine[1].upper()}"
        way = f"Set reinstall_system to one of these: {', '.join(usable)}. Or install" if usable else "Install"
        return None, [refuse("R010", host=manifest.host, system=system, way=way)]
    return usable[name], []


def _firmware(case: Case, installer: Installer) -> set[str]:
    """Return the node's packages with firmware of network cards, as far as the new system has them."""
    if case.manifest.machine.system.id != installer.distribution:
        return set()
    return FIRMWARE[installer.distribution] & {one.name for one in case.sections.packages or ()}


def _user(case: Case) -> plans.User | None:
    """Return the plan's user; None where the node's own files do not have the account."""
    groups = {one.gid: one.name for one in case.sections.groups}
    account = case.captured.user(case.found.user)
    if account is None or account.gid not in groups:
        return None
    secret = account_files.secrets(case.captured.data(SHADOW).decode("utf-8", "surrogateescape")).get(account.name)
    return {
        "name": account.name,
        "uid": account.uid,
        "gid": account.gid,
        "group": groups[account.gid],
        "gecos": account.gecos,
        "home": account.home,
        "shell": account.shell if account.shell in SHELLS else SHELL,
        "password": (secret.hash or None) if secret else None,
    }


def _consoles(command_line: str) -> list[str]:
    """Return the console arguments of the old kernel, after one for the screen; the last is where init speaks."""
    consoles = re.findall(r"(?<!\S)console=\S+", command_line)
    screen = f"console={CONSOLE}"
    return list(dict.fromkeys(consoles if screen in consoles else [screen, *consoles]))


def _lost(case: Case) -> Iterator[str]:
    """Yield what does not come back, as far as a capture tells."""
    for one in case.manifest.acknowledged:
        yield f"{one_line(one.path)}: {one_line(one.reason)}"
    for deleted in case.manifest.open_deleted:
        writer = f"{deleted.program} (process {deleted.process})"
        yield f"{one_line(deleted.path)}, deleted, but {writer} writes to it"
    encrypted = reinstall.encrypted(case.sections.disks)
    if encrypted:
        yield f"the encryption of {', '.join(encrypted)}"
    if case.installer and case.installer.system != case.former_system:
        yield f"the versions of packages of {case.former_system}: {case.installer.system} has its own"

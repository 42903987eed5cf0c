# Copyright (c) 2026 The gpulab founders
# GNU General Public License v3.0+ (see https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What stands in the way of an installation, beside what the plan of the reinstall names. No I/O here."""

from __future__ import annotations

import json
import re
from typing import TYPE_CHECKING

from ansible_collections.gpulab.node.plugins.module_utils.core.host_name import is_host_name
from ansible_collections.gpulab.node.plugins.module_utils.core.shown import first, one_line
from ansible_collections.gpulab.node.plugins.module_utils.installer.plan import ROOT
from ansible_collections.gpulab.node.plugins.module_utils.rebuild import storage
from ansible_collections.gpulab.node.plugins.plugin_utils.capture import reinstall
from ansible_collections.gpulab.node.plugins.plugin_utils.rebuild import bootstrap_network
from ansible_collections.gpulab.node.plugins.plugin_utils.refusals import refuse

if TYPE_CHECKING:
    from collections.abc import Iterator

    from ansible_collections.gpulab.node.plugins.module_utils.capture.sections.disks import Device
    from ansible_collections.gpulab.node.plugins.module_utils.core.refusal import Refusal
    from ansible_collections.gpulab.node.plugins.plugin_utils.capture.manifest import Manifest
    from ansible_collections.gpulab.node.plugins.plugin_utils.rebuild.case import Case

MIB = 1 << 20
# What firmware says where nobody gave the board a UUID; boards of several makers share the last one.
NO_UUIDS = ("0" * 32, "f" * 32, "03000200040005000006000700080009")
_UUID = re.compile(r"[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}", re.IGNORECASE)


def of(case: Case, no_system: list[Refusal]) -> Iterator[Refusal]:
    """Yield R003, R004, R023 to R027, R076, R079 and H226; among them why there is no system to install."""
    yield from _other_machine(case)
    yield from _clones(case)
    yield from _no_name(case)
    yield from _system_elsewhere(case)
    yield from no_system
    yield from _too_small(case)
    yield from _no_mirror(case)
    yield from _exports(case)
    yield from _network(case)
    yield from _no_account(case)
    yield from _no_way_in(case)


def unconfirmed(host: str, confirmed: object, hosts: list[str]) -> list[Refusal]:
    """Return R008 unless the hosts of this run, and no others, were confirmed by name.

    confirmed is a name or a list of names; hosts are those of the run.
    """
    named = (
        [confirmed] if isinstance(confirmed, str) else list(confirmed) if isinstance(confirmed, (list, tuple)) else []
    )
    named = [one for one in named if isinstance(one, str) and one]
    others, missing = sorted(set(named) - set(hosts)), sorted(set(hosts) - set(named))
    if not others and not missing:
        return []
    if not named:
        detail = "nobody has confirmed it by name"
    elif others:
        detail = f"reinstall_confirm names {first(others, reinstall.MOST_NAMED)}, which this run does not reinstall"
    else:
        rest = first(missing, reinstall.MOST_NAMED)
        detail = f"this run would reinstall {rest}, too, which reinstall_confirm does not name"
    given = host if len(hosts) == 1 else json.dumps({"reinstall_confirm": sorted(hosts)})
    way = f"-e reinstall_confirm={given}" if len(hosts) == 1 else f"-e '{given}'"
    return [refuse("R008", host=host, detail=detail, way=way)]


def holds(device: Device) -> list[str]:
    """Return the UUIDs of partitions, file systems and all else on a device."""
    return list(dict.fromkeys(uuid for each in device.whole() for uuid in (each.part_uuid, each.uuid) if uuid))


def foreign_kernel(manifest: Manifest, system: str) -> str:
    """Say why a node's own boot loader does not start the kernel of a system to install; nothing where it does.

    Under Secure Boot, it starts those of its own distribution alone. Media have another boot loader.
    """
    now = manifest.machine.system.id
    if manifest.sections.boot.secure_boot != "enabled" or system.partition("-")[0] == now:
        return ""
    return f"Secure Boot is on, and the boot loader of {now} does not start the kernel of {system}"


def _other_machine(case: Case) -> Iterator[Refusal]:
    """Yield R003: the installer knows the machine by its DMI UUID alone."""
    host, captured, now = case.manifest.host, case.manifest.machine.dmi_uuid.lower(), case.found.dmi_uuid.lower()
    if case.sections.disks.container:
        return  # R004 says it better
    if not _UUID.fullmatch(captured) or captured.replace("-", "") in NO_UUIDS:
        yield refuse("R003", host=host, detail=f"its firmware has no UUID of its own, but {captured or 'none at all'}")
    elif captured != now:
        detail = f"the capture is of the machine {captured}, and this is {now or 'one without a UUID'}"
        yield refuse("R003", host=host, detail=detail)


def _clones(case: Case) -> Iterator[Refusal]:
    """Yield R004 where a disk that stays has the same UUIDs as the one that is wiped, as after a copy with dd."""
    disks = case.sections.disks.disks
    wiped = {uuid for one in disks if one.root for uuid in holds(one)}
    grouped = {path for group in case.sections.disks.groups for path in group.disks}
    for one in disks:
        same = sorted(wiped & set(holds(one)))
        if same and not one.root and one.path not in grouped:  # of a group R005 tells
            detail = f"{one.path} has the same UUIDs as the root disk ({first(same, 1)}), like a copy of it"
            yield refuse("R004", host=case.manifest.host, detail=detail)


def _no_name(case: Case) -> Iterator[Refusal]:
    """Yield H226 where the captured hostname is none: it becomes lines of the installer's files."""
    if not is_host_name(case.hostname):
        what = f'its captured hostname is "{one_line(case.hostname)}"'
        yield refuse("H226", host=case.manifest.host, what=what)


def _system_elsewhere(case: Case) -> Iterator[Refusal]:
    """Yield R079 for parts of the system on other disks: no system could use what another one left there."""
    for one in case.sections.disks.filesystems:
        if one.mount in storage.SYSTEM and one.disks and not one.on_root_disk:
            yield refuse("R079", host=case.manifest.host, detail=f"{one.mount} on {', '.join(one.disks)}")


def _too_small(case: Case) -> Iterator[Refusal]:
    """Yield R025 where the memory does not hold the installer, or the disk not the new system."""
    installer = case.installer
    if installer is None or case.sections.disks.container:
        return
    sizes = [("memory", case.found.memory, installer.least_memory_mib)]
    sizes += [("root disk", one.size, installer.least_disk_mib) for one in case.sections.disks.disks if one.root]
    for what, size, least in sizes:
        if size is not None and size < least * MIB:
            detail = f"its {what} has {size // MIB} MiB, and {installer.system} needs {least} MiB"
            yield refuse("R025", host=case.manifest.host, detail=detail)


def _no_mirror(case: Case) -> Iterator[Refusal]:
    """Yield R076 where nobody says from where the new system's packages come."""
    if case.installer and not case.wishes.mirror and not case.mirror():
        yield refuse("R076", host=case.manifest.host, system=case.installer.system)


def _exports(case: Case) -> Iterator[Refusal]:
    """Yield R026 for exports of other disks that are in use: their users would wait until the rebuild is done."""
    for one in case.sections.disks.exports:
        if one.users and not one.on_root_disk:
            yield refuse("R026", host=case.manifest.host, path=one.path, users=", ".join(one.users))


def _network(case: Case) -> Iterator[Refusal]:
    if case.wishes.network or case.sections.disks.container:
        return
    needed = bootstrap_network.needed(case.sections.network, case.found.server, case.found.client)
    detail = bootstrap_network.obstacle(needed)
    if detail:
        yield refuse("R023", host=case.manifest.host, detail=detail)


def _no_account(case: Case) -> Iterator[Refusal]:
    """Yield R027 where the node's own files do not have the account."""
    name, account = case.found.user, case.captured.user(case.found.user)
    if account is None or account.gid not in {one.gid for one in case.sections.groups}:
        where = "is not in its /etc/passwd" if account is None else "has a group that is not in its /etc/group"
        yield refuse("R027", host=case.manifest.host, detail=f"{name}, who Ansible connects as, {where}")


def _no_way_in(case: Case) -> Iterator[Refusal]:
    """Yield R027 where the new system would not answer as the old one did, or would let nobody in."""
    host, keys = case.manifest.host, case.sections.ssh.host_keys
    lost = [one.path for one in keys if one.path not in case.captured.paths]
    if not keys:
        yield refuse("R027", host=host, detail="it has no host key of SSH")
    elif lost:
        detail = f"the capture does not have the private key of {first(lost, 1)}"
        yield refuse("R027", host=host, detail=detail)
    user = case.captured.user(case.found.user) if not list(_no_account(case)) else None
    if user and not case.found.authorized_keys.strip() and (user.password != "set" or user.name == ROOT):  # noqa: S105
        detail = f"{user.name}, who Ansible connects as, has no authorized key that the new system could take"
        yield refuse("R027", host=host, detail=detail)

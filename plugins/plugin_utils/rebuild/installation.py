# Copyright (c) 2026 The gpulab founders
# GNU General Public License v3.0+ (see https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The installation of a captured node: the installer's plan and the files of the new system, or refusals. No I/O here.

Nothing is known by a name that another boot may give to something else: the machine by its DMI UUID, the disk by its
serial number or WWN and by UUIDs on it, the interfaces by their hardware addresses.
"""

from __future__ import annotations

import json
import posixpath
import re
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any

from ansible_collections.gpulab.node.plugins.module_utils.core import account_files
from ansible_collections.gpulab.node.plugins.module_utils.core.host_name import is_host_name
from ansible_collections.gpulab.node.plugins.module_utils.core.shown import HIDDEN, first, one_line
from ansible_collections.gpulab.node.plugins.module_utils.installer import plan as plans
from ansible_collections.gpulab.node.plugins.module_utils.rebuild import storage
from ansible_collections.gpulab.node.plugins.plugin_utils.capture import reinstall
from ansible_collections.gpulab.node.plugins.plugin_utils.rebuild import bootstrap_network
from ansible_collections.gpulab.node.plugins.plugin_utils.refusals import refuse

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping

    from ansible_collections.gpulab.node.plugins.module_utils.core.refusal import Refusal

SCHEMA = 1
ROOT = "root"
SHADOW, AUTHORIZED_KEYS = "/etc/shadow", ".ssh/authorized_keys"
SUDOERS, SSHD = "/etc/sudoers.d/gpulab-reinstall", "/etc/ssh/sshd_config.d/00-gpulab-reinstall.conf"
SHELL = "/bin/bash"
SHELLS = (SHELL, "/bin/sh", "/bin/dash", "/usr/bin/bash", "/usr/bin/sh")  # which the new system has from the start
CONSOLE = "tty0"
ARCHITECTURE = "x86_64"  # of the installers
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
SECURITY = "-security"  # what the suite with updates for security is called
_MIB = 1 << 20
USUAL_PORT, USUAL_KEYS = "22", ".ssh/authorized_keys .ssh/authorized_keys2"
# What firmware says where nobody gave the board a UUID; boards of several makers share the last one.
NO_UUIDS = ("0" * 32, "f" * 32, "03000200040005000006000700080009")
_UUID = re.compile(r"[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}", re.IGNORECASE)
_MIRROR = re.compile(r"https?://\S+")


@dataclass(frozen=True)
class Wishes:
    """What the inventory says of a reinstall.

    system is one of catalog/installers.yml, None for the one that the node has; mirror an address, None for that of the
    captured sources, and security_mirror that of updates for security. packages come with the new system. network are
    files of systemd-networkd by name, instead of those made of the captured addresses.
    """

    system: str | None = None
    mirror: str | None = None
    security_mirror: str | None = None
    packages: tuple[str, ...] = ()
    minutes: int = 15
    network: Mapping[str, str] | None = None


@dataclass(frozen=True)
class Installation:
    """How a node would be installed.

    plan is the installer's (/gpulab/plan.json), None where a blocker leaves it without an answer; files are those of
    the new system, {path: {content (bytes), mode, uid, gid}}. image has the options of gpulab.node.installer_image;
    the mirrors are None where the node has none that another machine can use. lines say KEEP and WIPE, lost what does
    not come back.
    """

    plan: dict[str, Any] | None
    files: dict[str, dict[str, Any]]
    image: dict[str, Any] | None
    lines: tuple[str, ...]
    lost: tuple[str, ...]
    blockers: tuple[Refusal, ...]


@dataclass(frozen=True)
class Captured:
    """A manifest, and the way to the contents of its files.

    content returns that of a path, None where this run cannot read it (secrets in check mode). name is that of the
    capture, None for one that is not on the disk.
    """

    manifest: dict[str, Any]
    content: Callable[[str], bytes | None]
    name: str | None = None

    @cached_property
    def paths(self) -> frozenset[str]:
        """The paths of all files."""
        return frozenset(one["path"] for one in self.manifest["files"])

    def data(self, path: str) -> bytes:
        """Return the content of a file; empty where this run cannot read it."""
        return self.content(path) or b""


def plan(captured: Captured, found: dict[str, Any], wishes: Wishes, installers: list[dict[str, Any]]) -> Installation:
    """Plan the installation of a captured node.

    found is what the node says now: {dmi_uuid, memory (bytes, None where nobody knows it), user (who Ansible connects
    as), authorized_keys (text), server, client (ends of its connection)}; see modules/installer_boot.py. installers are
    the records of catalog/installers.yml.
    """
    manifest, host = captured.manifest, captured.manifest["host"]
    sections, base = manifest["sections"], reinstall.plan(manifest)
    system, no_system = _system(manifest, wishes, installers)
    user, no_user = _user(captured, found)
    blockers = [
        *base.blockers,
        *_other_machine(manifest, found),
        *_clones(manifest),
        *_no_name(manifest),
        *_system_elsewhere(manifest),
        *no_system,
        *_too_small(manifest, found, system),
        *_secure_boot(manifest, system),
        *_no_mirror(manifest, wishes, system),
        *_exports(manifest),
        *_network(manifest, found, wishes),
        *no_user,
        *_no_way_in(captured, found, user),
    ]
    lost = tuple(_lost(manifest, system))
    if not base.disk or not system or not user:
        return Installation(None, {}, None, tuple(base.lines()), lost, tuple(blockers))
    disks = sections["disks"]["disks"]
    rest = {
        "schema": SCHEMA,
        "host": host,
        "capture": captured.name or re.sub(r"[-:]", "", manifest["made"]),
        "made": manifest["made"],
        "machine": {"dmi_uuid": manifest["machine"]["dmi_uuid"].lower()},
        "disk": next(_disk(one, disks) for one in disks if one["root"]),
        "kept": [_disk(one, disks) for one in disks if not one["root"]],
        "firmware": sections["boot"]["firmware"],
        "hostname": _hostname(sections["identity"]),
        "user": user,
        "kernel_arguments": _consoles(sections["boot"]["command_line"]),
        "minutes": wishes.minutes,
        "least": {"memory": system["least_memory_mib"] * _MIB, "disk": system["least_disk_mib"] * _MIB},
    }
    image = {
        "system": system["system"],
        "firmware": rest["firmware"],
        "mirror": wishes.mirror or _mirror(manifest, system),
        "security_mirror": wishes.security_mirror or (None if wishes.mirror else _mirror(manifest, system, SECURITY)),
        "packages": sorted({*wishes.packages, *_firmware(manifest, system)}),
    }
    files = _files(captured, found, wishes, user)
    return Installation(plans.identified(rest), files, image, tuple(base.lines()), lost, tuple(blockers))


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


# Which machine and which disk


def _other_machine(manifest: dict[str, Any], found: dict[str, Any]) -> Iterator[Refusal]:
    """Yield R003: the installer knows the machine by its DMI UUID alone."""
    captured, now = manifest["machine"]["dmi_uuid"].lower(), found["dmi_uuid"].lower()
    if manifest["sections"]["disks"]["container"]:
        return  # R004 says it better
    if not _UUID.fullmatch(captured) or captured.replace("-", "") in NO_UUIDS:
        detail = f"its firmware has no UUID of its own, but {captured or 'none at all'}"
        yield refuse("R003", host=manifest["host"], detail=detail)
    elif captured != now:
        detail = f"the capture is of the machine {captured}, and this is {now or 'one without a UUID'}"
        yield refuse("R003", host=manifest["host"], detail=detail)


def authorized_keys(manifest: dict[str, Any], name: str) -> list[str]:
    """Return the files with the keys of an account, as sshd reads them; none for an account that is not known."""
    user = next((one for one in manifest["sections"]["users"] if one["name"] == name), None)
    named = manifest["sections"]["ssh"]["options"].get("AuthorizedKeysFile") or [USUAL_KEYS]
    found = [] if user is None else [word for words in named for word in words.split() if word != "none"]
    tokens = {"%%": "%", "%h": user["home"], "%u": name} if user else {}
    filled = [re.sub(r"%[%hu]", lambda match: tokens[match[0]], word) for word in found]
    return [posixpath.join(user["home"], path) for path in dict.fromkeys(filled)] if user else []


def _clones(manifest: dict[str, Any]) -> Iterator[Refusal]:
    """Yield R004 where a disk that stays has the same UUIDs as the one that is wiped, as after a copy with dd."""
    disks = manifest["sections"]["disks"]["disks"]
    wiped = {uuid for one in disks if one["root"] for uuid in holds(one)}
    grouped = {path for group in manifest["sections"]["disks"]["groups"] for path in group["disks"]}
    for one in disks:
        same = sorted(wiped & set(holds(one)))
        if same and not one["root"] and one["path"] not in grouped:  # of a group R005 tells
            detail = f"{one['path']} has the same UUIDs as the root disk ({first(same, 1)}), like a copy of it"
            yield refuse("R004", host=manifest["host"], detail=detail)


def _no_name(manifest: dict[str, Any]) -> Iterator[Refusal]:
    """Yield H226 where the captured hostname is none: it becomes lines of the installer's files."""
    hostname = _hostname(manifest["sections"]["identity"])
    if not is_host_name(hostname):
        yield refuse("H226", host=manifest["host"], what=f'its captured hostname is "{one_line(hostname)}"')


def _system_elsewhere(manifest: dict[str, Any]) -> Iterator[Refusal]:
    """Yield R079 for parts of the system on other disks: no system could use what another one left there."""
    section = manifest["sections"]["disks"]
    for one in section["filesystems"]:
        if one["mount"] in storage.SYSTEM and one["disks"] and not one["on_root_disk"]:
            detail = f"{one['mount']} on {', '.join(one['disks'])}"
            yield refuse("R079", host=manifest["host"], detail=detail)


def holds(device: dict[str, Any]) -> list[str]:
    """Return the UUIDs of partitions, file systems and all else on a device, as the section ``disks`` has them."""
    own = [device["part_uuid"], device["uuid"]]
    return list(dict.fromkeys([*filter(None, own), *(uuid for each in device["below"] for uuid in holds(each))]))


def _disk(device: dict[str, Any], disks: list[dict[str, Any]]) -> dict[str, Any]:
    kind, value = reinstall.identity(device, disks) or (None, None)
    return {"kind": kind, "value": value, "size": device["size"], "holds": holds(device)}


# The system


def _system(
    manifest: dict[str, Any], wishes: Wishes, installers: list[dict[str, Any]]
) -> tuple[dict[str, Any] | None, list[Refusal]]:
    """Return the record of the system to install, and R010 where there is none for this machine."""
    known, architecture = {one["system"]: one for one in installers}, manifest["machine"]["system"]["architecture"]
    name = wishes.system or _name(manifest)
    if architecture != ARCHITECTURE:
        return None, [refuse("R010", host=manifest["host"], system=f"{name} on {architecture}", known="none")]
    if name not in known:
        return None, [refuse("R010", host=manifest["host"], system=name, known=", ".join(known))]
    return known[name], []


def _name(manifest: dict[str, Any]) -> str:
    """Return the name of the node's system as the catalog has it."""
    now = manifest["machine"]["system"]
    return f"{now['id']}-{now['version']}"


def _firmware(manifest: dict[str, Any], system: dict[str, Any]) -> set[str]:
    """Return the node's packages with firmware of network cards, as far as the new system has them."""
    distribution = system["system"].partition("-")[0]
    if manifest["machine"]["system"]["id"] != distribution:
        return set()
    return FIRMWARE[distribution] & {one["name"] for one in manifest["sections"].get("packages") or ()}


def _mirror(manifest: dict[str, Any], system: dict[str, Any], kind: str = "") -> str | None:
    """Return the mirror that the node's own packages come from, where it has those of the new system, too."""
    now = manifest["machine"]["system"]
    if system["system"].partition("-")[0] != now["id"]:
        return None
    for source in manifest["sections"].get("sources", ()):
        if source["suite"] == f"{now['codename']}{kind}" and "main" in (source["components"] or ()):
            for uri in source["uris"]:
                if _MIRROR.fullmatch(uri) and HIDDEN not in uri:
                    return str(uri)
    return None


# What stands in the way


def _too_small(manifest: dict[str, Any], found: dict[str, Any], system: dict[str, Any] | None) -> Iterator[Refusal]:
    """Yield R025 where the memory does not hold the installer, or the disk not the new system."""
    if system is None or manifest["sections"]["disks"]["container"]:
        return
    disks = [one["size"] for one in manifest["sections"]["disks"]["disks"] if one["root"]]
    sizes = [("memory", found["memory"], system["least_memory_mib"])]
    sizes += [("root disk", size, system["least_disk_mib"]) for size in disks]
    for what, size, least in sizes:
        if size is not None and size < least * _MIB:
            detail = f"its {what} has {size // _MIB} MiB, and {system['system']} needs {least} MiB"
            yield refuse("R025", host=manifest["host"], detail=detail)


def _secure_boot(manifest: dict[str, Any], system: dict[str, Any] | None) -> Iterator[Refusal]:
    """Yield R024 for a kernel of another distribution: with Secure Boot, this node's boot loader does not start it."""
    now = manifest["machine"]["system"]["id"]
    if (
        system
        and manifest["sections"]["boot"]["secure_boot"] == "enabled"
        and system["system"].partition("-")[0] != now
    ):
        detail = f"Secure Boot is on, and the boot loader of {now} does not start the kernel of {system['system']}"
        yield refuse("R024", host=manifest["host"], detail=detail)


def _no_mirror(manifest: dict[str, Any], wishes: Wishes, system: dict[str, Any] | None) -> Iterator[Refusal]:
    """Yield R076 where nobody says from where the new system's packages come."""
    if system and not wishes.mirror and not _mirror(manifest, system):
        yield refuse("R076", host=manifest["host"], system=system["system"])


def _exports(manifest: dict[str, Any]) -> Iterator[Refusal]:
    """Yield R026 for exports of other disks that are in use: their users would wait until the rebuild is done."""
    used = [one for one in manifest["sections"]["disks"]["exports"] if one["users"] and not one["on_root_disk"]]
    for one in used:
        yield refuse("R026", host=manifest["host"], path=one["path"], users=", ".join(one["users"]))


def _network(manifest: dict[str, Any], found: dict[str, Any], wishes: Wishes) -> Iterator[Refusal]:
    network = manifest["sections"]["network"]
    if wishes.network or manifest["sections"]["disks"]["container"]:
        return
    detail = bootstrap_network.obstacle(bootstrap_network.needed(network, found["server"], found["client"]))
    if detail:
        yield refuse("R023", host=manifest["host"], detail=detail)


def _user(captured: Captured, found: dict[str, Any]) -> tuple[dict[str, Any] | None, list[Refusal]]:
    """Return the plan's user, and R027 where the node's own files do not have the account."""
    manifest = captured.manifest
    name, groups = found["user"], {one["gid"]: one["name"] for one in manifest["sections"]["groups"]}
    known = next((one for one in manifest["sections"]["users"] if one["name"] == name), None)
    if known is None or known["gid"] not in groups:
        where = "is not in its /etc/passwd" if known is None else "has a group that is not in its /etc/group"
        detail = f"{name}, who Ansible connects as, {where}"
        return None, [refuse("R027", host=manifest["host"], detail=detail)]
    secret = account_files.secrets(captured.data(SHADOW).decode("utf-8", "surrogateescape")).get(name)
    return {
        "name": name,
        "uid": known["uid"],
        "gid": known["gid"],
        "group": groups[known["gid"]],
        "gecos": known["gecos"],
        "home": known["home"],
        "shell": known["shell"] if known["shell"] in SHELLS else SHELL,
        "password": secret.hash or None if secret else None,
    }, []


def _no_way_in(captured: Captured, found: dict[str, Any], user: dict[str, Any] | None) -> Iterator[Refusal]:
    """Yield R027 where the new system would not answer as the old one did, or would let nobody in."""
    manifest = captured.manifest
    host, ssh = manifest["host"], manifest["sections"]["ssh"]
    lost = [one["path"] for one in ssh["host_keys"] if one["path"] not in captured.paths]
    if not ssh["host_keys"]:
        yield refuse("R027", host=host, detail="it has no host key of SSH")
    elif lost:
        detail = f"the capture does not have the private key of {first(lost, 1)}"
        yield refuse("R027", host=host, detail=detail)
    record = next((one for one in manifest["sections"]["users"] if user and one["name"] == user["name"]), None)
    if record and not found["authorized_keys"].strip() and (record["password"] != "set" or record["name"] == ROOT):  # noqa: S105
        detail = f"{record['name']}, who Ansible connects as, has no authorized key that the new system could take"
        yield refuse("R027", host=host, detail=detail)


# What the new system gets


def _files(
    captured: Captured, found: dict[str, Any], wishes: Wishes, user: dict[str, Any]
) -> dict[str, dict[str, Any]]:
    sections = captured.manifest["sections"]
    identity, network = sections["identity"], sections["network"]
    wanted = bootstrap_network.needed(network, found["server"], found["client"])
    texts = {f"{bootstrap_network.DIRECTORY}/{name}": text for name, text in (wishes.network or {}).items()}
    texts = {**texts, **bootstrap_network.resolv(network["dns"])} if texts else bootstrap_network.files(network, wanted)
    hostname = _hostname(identity)
    texts["/etc/hostname"] = f"{hostname}\n"
    hosts = captured.data("/etc/hosts") or f"127.0.0.1 localhost\n127.0.1.1 {hostname}\n::1 localhost\n".encode()
    files = {path: _file(text.encode()) for path, text in texts.items()}
    files["/etc/hosts"] = _file(hosts)
    if identity["machine_id"]:
        files["/etc/machine-id"] = _file(f"{identity['machine_id']}\n".encode(), 0o444)
    for key in sections["ssh"]["host_keys"]:
        for path, mode in ((key["path"], 0o600), (f"{key['path']}.pub", 0o644)):
            if path in captured.paths:
                files[path] = _file(captured.data(path), mode)
    sshd = "".join(_sshd(sections["ssh"]))
    if sshd:
        files[SSHD] = _file(f"# Written by gpulab for the time until the rebuild\n{sshd}".encode())
    if found["authorized_keys"].strip():
        keys = found["authorized_keys"].rstrip("\n").encode("utf-8", "surrogateescape") + b"\n"
        files[posixpath.join(user["home"], AUTHORIZED_KEYS)] = _file(keys, 0o600, user["uid"], user["gid"])
    if user["name"] != ROOT:
        rule = f"# Written by gpulab for the time until the rebuild\n{user['name']} ALL=(ALL:ALL) NOPASSWD: ALL\n"
        files[SUDOERS] = _file(rule.encode(), 0o440)
    return files


def _file(content: bytes, mode: int = 0o644, uid: int = 0, gid: int = 0) -> dict[str, Any]:
    return {"content": content, "mode": mode, "uid": uid, "gid": gid}


def _sshd(ssh: dict[str, Any]) -> Iterator[str]:
    """Yield the lines by which the new sshd answers where the old one did, and with its keys."""
    ports = [port for port in ssh["options"].get("Port", ()) if port.isdigit()]
    if ports and ports != [USUAL_PORT]:
        yield from (f"Port {port}\n" for port in dict.fromkeys(ports))
    paths = [one["path"] for one in ssh["host_keys"]]
    if any(posixpath.dirname(path) != "/etc/ssh" for path in paths):
        yield from (f"HostKey {path}\n" for path in paths)


def _hostname(identity: dict[str, Any]) -> str:
    return str(identity["static_hostname"] or identity["hostname"])


def _consoles(command_line: str) -> list[str]:
    """Return the console arguments of the old kernel, after one for the screen; the last is where init speaks."""
    consoles = re.findall(r"(?<!\S)console=\S+", command_line)
    first_one = f"console={CONSOLE}"
    return list(dict.fromkeys([first_one, *consoles])) if first_one not in consoles else list(dict.fromkeys(consoles))


def _lost(manifest: dict[str, Any], system: dict[str, Any] | None) -> Iterator[str]:
    """Yield what does not come back, as far as a capture tells."""
    for one in manifest["acknowledged"]:
        yield f"{one_line(one['path'])}: {one_line(one['reason'])}"
    for one in manifest.get("open_deleted", ()):
        yield f"{one_line(one['path'])}, deleted, but {one['program']} (process {one['process']}) writes to it"
    if system and system["system"] != _name(manifest):
        yield f"the versions of packages of {_name(manifest)}: {system['system']} has its own"

# Copyright (c) 2026 The gpulab founders
# GNU General Public License v3.0+ (see https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What has to happen so that each tier of storage is mounted, or why nothing may. No I/O happens here.

Every refusal is raised before the first step.
"""

from __future__ import annotations

import posixpath
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING

from ansible_collections.gpulab.node.plugins.module_utils.core import fstab, owned_block
from ansible_collections.gpulab.node.plugins.module_utils.core.refusals.storage import refuse
from ansible_collections.gpulab.node.plugins.module_utils.core.shown import first
from ansible_collections.gpulab.node.plugins.module_utils.storage import devices as storage_devices
from ansible_collections.gpulab.node.plugins.module_utils.storage import exports as storage_exports
from ansible_collections.gpulab.node.plugins.module_utils.storage import targets as storage_targets
from ansible_collections.gpulab.node.plugins.module_utils.storage.devices import Content, Devices
from ansible_collections.gpulab.node.plugins.module_utils.storage.exports import Server
from ansible_collections.gpulab.node.plugins.module_utils.storage.steps import Step, Written
from ansible_collections.gpulab.node.plugins.module_utils.storage.targets import Target, judged, new_uuid
from ansible_collections.gpulab.node.plugins.module_utils.storage.tiers import (
    DEFAULT_FILESYSTEM,
    FORMATS,
    QUOTA_FEATURES,
    QUOTA_OPTIONS,
    export_of,
    exported,
)

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from ansible_collections.gpulab.node.plugins.module_utils.core.mount_table import Mount
    from ansible_collections.gpulab.node.plugins.module_utils.storage.tiers import Tier

OWNER = "storage"
FSTAB = "/etc/fstab"
LOCAL_ALWAYS = ("nofail", "x-systemd.device-timeout=90s")
NFS_ALWAYS = ("_netdev", "nofail", "x-systemd.mount-timeout=30s")
DEADLINE = ("timeout", "--signal=KILL", "60")
AUTOMOUNT = "x-systemd.automount"
LIVE = frozenset({"ro", "noatime", "nodiratime", "relatime", "nosuid", "nodev", "noexec"})  # can be told of a mount
PACKAGES = {
    "mkfs.ext4": {"apt": "e2fsprogs", "dnf": "e2fsprogs"},
    "mkfs.xfs": {"apt": "xfsprogs", "dnf": "xfsprogs"},
    "mdadm": {"apt": "mdadm", "dnf": "mdadm"},
    "lvchange": {"apt": "lvm2", "dnf": "lvm2"},
    "mount.nfs": {"apt": "nfs-common", "dnf": "nfs-utils"},
    "exportfs": {"apt": "nfs-kernel-server", "dnf": "nfs-utils"},
}


@dataclass(frozen=True)
class Place:
    """A mount point as it is: real is what its path leads to, entries are what lies in it."""

    exists: bool = False
    directory: bool = False
    real: str = ""
    entries: tuple[str, ...] = ()


@dataclass(frozen=True)
class State:
    """The node: its devices, the text of /etc/fstab, mount points by path, who uses what is there, its NFS server.

    units are the mount units of its administrator, by path: systemd takes them before the lines of /etc/fstab.
    """

    known: Devices
    fstab: str = ""
    places: dict[str, Place] = field(default_factory=dict)
    users: dict[str, list[str]] = field(default_factory=dict)
    server: Server = field(default_factory=Server)
    units: dict[str, str] = field(default_factory=dict)


@dataclass(frozen=True)
class Entry:
    """A line of gpulab's block in /etc/fstab."""

    source: str
    mount: str
    type: str
    options: tuple[str, ...]

    def line(self) -> str:
        """Return it; ext4 is checked at boot, after the root, but not where nothing shall write: the check does."""
        check = 2 if self.type == "ext4" and "ro" not in self.options else 0
        return f"{self.source} {self.mount} {self.type} {','.join(self.options)} 0 {check}"


def entries(text: str) -> list[Entry]:
    """Return the lines of gpulab's block in /etc/fstab."""
    return _lines(owned_block.inside(text, OWNER))


def _lines(text: str) -> list[Entry]:
    return [Entry(line.source, line.mount, line.type, line.options or ("defaults",)) for line in fstab.parse(text)]


def _unit(text: str) -> Entry:
    """Parse a mount unit of systemd."""
    found = {key.strip(): value.strip() for key, _equals, value in (line.partition("=") for line in text.splitlines())}
    return Entry(found.get("What", ""), posixpath.normpath(found.get("Where", "")), found.get("Type", ""), ())


def plan(wanted: list[Tier], state: State) -> list[Step]:
    """Return what has to happen so that these tiers, and none of gpulab's former ones, are mounted and exported.

    Raises Refusal.
    """
    exports = exported(wanted)
    storage_exports.check(exports, {tier.mount: tier.name for tier in wanted}, state.server)
    numbers = {mount.place: mount.device for mount in state.known.mounts}
    withdrawn = list(storage_exports.withdrawals(exports, state.server, numbers))
    former = list(_unmount(wanted, state))
    first = [step for step in former if _is_nfs(step.place, state)]  # the node may be its own server
    left = {step.place for step in former}
    known = replace(state.known, mounts=tuple(mount for mount in state.known.mounts if mount.place not in left))
    state = replace(state, known=known)
    targets = [storage_targets.of(tier, known) if tier.devices else Target(tier.nfs, tier.nfs) for tier in wanted]
    _check_shared(wanted, targets, known)
    lines = [_entry(tier, target, known) for tier, target in zip(wanted, targets)]
    _check_fstab(lines, targets, state)
    before = [step for tier, target in zip(wanted, targets) for step in (*target.steps, *_format(tier, target, known))]
    after = [step for tier, target, line in zip(wanted, targets, lines) for step in _mount(tier, target, line, state)]
    given = storage_exports.additions(exports, state.server)
    then = [step for step in former if step not in first]
    return [*first, *withdrawn, *then, *before, *_fstab(lines, state), *after, *given]


def _check_shared(wanted: list[Tier], targets: list[Target], known: Devices) -> None:
    """Raise Refusal H165 where two tiers come to the same device."""
    owners: dict[str, str] = {}
    for tier, target in zip(wanted, targets):
        for path in target.devices:
            if path in owners:
                raise refuse("H165", one=owners[path], other=tier.name, device=known.label(path))
        owners.update(dict.fromkeys(target.devices, tier.name))


def _entry(tier: Tier, target: Target, known: Devices) -> Entry:
    if tier.nfs:
        return Entry(tier.nfs, tier.mount, "nfs", _options(tier, NFS_ALWAYS))
    kind = DEFAULT_FILESYSTEM if target.blank else "auto"  # of an array that is not assembled yet, nobody knows it
    content = known.contents.get(target.path, Content())
    return Entry(target.source, tier.mount, tier.filesystem or content.type or kind, _options(tier, LOCAL_ALWAYS))


def _options(tier: Tier, always: tuple[str, ...]) -> tuple[str, ...]:
    return tuple(dict.fromkeys([*tier.options, *always]))


def _check_fstab(lines: list[Entry], targets: list[Target], state: State) -> None:
    """Raise Refusal H160 where somebody else's line or mount unit has a place or a device of a tier."""
    listed = [(FSTAB, other) for other in _lines(owned_block.outside(state.fstab, OWNER))]
    for file, other in [*listed, *((path, _unit(text)) for path, text in state.units.items())]:
        named = storage_devices.meant_by(export_of(other.source), state.known)
        for line, target in zip(lines, targets):
            paths = {target.path, *storage_devices.meant_by(export_of(line.source), state.known)}
            if other.mount == line.mount or other.source == line.source or named & paths:
                raise refuse("H160", file=file, line=f"{other.source} {other.mount}", mount=line.mount)


def _format(tier: Tier, target: Target, known: Devices) -> Iterator[Step]:
    if not target.blank:
        return
    kind = tier.filesystem or DEFAULT_FILESYSTEM
    new = target.source[5:] if target.source.startswith("UUID=") else new_uuid(tier, [target.source], known)
    name = known.stable(target.path)
    features = QUOTA_FEATURES if kind == "ext4" and QUOTA_OPTIONS.intersection(tier.options) else []
    program, *flags = FORMATS[kind]
    yield Step(
        "format",
        f"create an {kind} filesystem on {judged(target.path, known)} for tier {tier.name}",
        (program, *features, *flags, f"uuid={new}" if kind == "xfs" else new, name),
        (Written(name, known.devices.get(target.path)),),
    )


def _fstab(lines: list[Entry], state: State) -> Iterator[Step]:
    after = owned_block.merged(state.fstab, "\n".join(line.line() for line in lines), OWNER) or ""
    if after != state.fstab:
        yield Step("fstab", f"write gpulab's lines in {FSTAB}", text=after)


def _unmount(wanted: list[Tier], state: State) -> Iterator[Step]:
    """Let go of places that gpulab mounted and no tier has any more. Raises Refusal H161 where one is in use."""
    kept = {tier.mount for tier in wanted}
    for entry in sorted(entries(state.fstab), key=lambda one: one.mount, reverse=True):
        mount = storage_devices.at(entry.mount, state.known.mounts)
        if entry.mount in kept or mount is None or not _is_entrys(entry, mount, state.known):
            continue
        users = state.users.get(entry.mount, [])
        if users:
            raise refuse("H161", mount=entry.mount, users=", ".join(users))
        argv = _in_time(entry, "umount", entry.mount)
        yield Step("unmount", f"unmount {entry.mount}; its data stays", argv, place=entry.mount)


def _in_time(line: Entry, *argv: str) -> tuple[str, ...]:
    """Return a command with a deadline where it asks a server, which may be gone: mount and umount then never end."""
    return (*DEADLINE, *argv) if line.type == "nfs" else argv


def _is_nfs(place: str, state: State) -> bool:
    return any(entry.mount == place and entry.type == "nfs" for entry in entries(state.fstab))


def _is_entrys(entry: Entry, mount: Mount, known: Devices) -> bool:
    if entry.type == "nfs":
        return export_of(mount.source) == export_of(entry.source)
    path = source_path(entry.source, known)
    return path is not None and known.is_mounted(path, mount)


def source_path(source: str, known: Devices) -> str | None:
    """Return the path of the device that a line of /etc/fstab names."""
    if source.startswith("UUID="):
        return next((path for path, one in known.contents.items() if one.uuid == source[5:] and one.filesystem), None)
    return known.links.get(source)


def _mount(tier: Tier, target: Target, line: Entry, state: State) -> Iterator[Step]:
    mount = storage_devices.at(tier.mount, state.known.mounts)
    if mount is None:
        yield from _directory(tier, state)
        yield Step("mount", f"mount {line.source} at {tier.mount}", _in_time(line, "mount", tier.mount))
        return
    if _is_awaited(line, mount, state):
        return
    ours = export_of(mount.source) == export_of(tier.nfs) if tier.nfs else state.known.is_mounted(target.path, mount)
    if not ours:
        raise refuse("H159", mount=tier.mount, tier=tier.name, wrong=f"has {mount.source} mounted on it")
    differing = sorted(different_options(line.options, mount.options))
    if differing:
        argv = _in_time(line, "mount", "-o", f"remount,{','.join(_plain(line.options))}", tier.mount)
        yield Step("remount", f"remount {tier.mount} with {', '.join(differing)}", argv)


def _is_awaited(line: Entry, mount: Mount, state: State) -> bool:
    """Tell whether systemd mounts this line when somebody enters its place: the one that /etc/fstab had at the boot."""
    known = [one.source for one in entries(state.fstab) if one.mount == line.mount and automounted(one, mount)]
    return automounted(line, mount) and line.source in known


def automounted(entry: Entry, mount: Mount | None) -> bool:
    """Tell whether nothing is mounted for an entry yet, as it wants, but an automount."""
    return mount is not None and mount.waits and AUTOMOUNT in entry.options


def _directory(tier: Tier, state: State) -> Iterator[Step]:
    """See that something can be mounted there. Raises Refusal H159."""
    place, wrong = state.places.get(tier.mount, Place()), ""
    if place.real and place.real != tier.mount:
        wrong = f"is a link to {place.real}"
    elif place.exists and not place.directory:
        wrong = "is not a directory"
    elif place.entries:
        wrong = f"is not empty, and the mount would hide {first(place.entries, 3)}"
    if wrong:
        raise refuse("H159", mount=tier.mount, tier=tier.name, wrong=wrong)
    if not place.exists:
        yield Step("directory", f"create the directory {tier.mount}", place=tier.mount)


def different_options(declared: Iterable[str], live: Iterable[str]) -> set[str]:
    """Return the declared options that a mount has not, of those that it tells; what is not ro is rw."""
    wanted = set(declared) & LIVE
    return {*(wanted - set(live)), *(() if "ro" in wanted or "ro" not in live else ("rw",))}


def _plain(options: Iterable[str]) -> list[str]:
    """Return what mount(8) itself understands, ro or rw among it."""
    told = [option for option in options if not option.startswith("x-") and option not in ("nofail", "_netdev")]
    return told if "ro" in told else ["rw", *told]


def parents(place: str, exists: Iterable[str]) -> list[str]:
    """Return the directories that have to be made for a place, the outermost first."""
    there, missing = set(exists), []
    while place not in there and place != "/":
        missing.append(place)
        place = posixpath.dirname(place)
    return missing[::-1]


def server_is_needless(wanted: Iterable[Tier], state: State) -> bool:
    """Tell whether nobody needs the packages of NFS: nothing is exported, by whomever, and nothing is mounted by it."""
    mounted = any(mount.type in ("nfs", "nfs4") for mount in state.known.mounts)
    declared = any(tier.nfs or tier.export_to for tier in wanted)
    return not mounted and not declared and not storage_exports.elsewhere(state.server)


def programs(wanted: Iterable[Tier], steps: Iterable[Step]) -> list[str]:
    """Return the programs that these steps take, as far as a package brings them."""
    named = [step.argv[0] for step in steps if step.argv and step.kind != "withdraw"]
    named += ["mount.nfs" for tier in wanted if tier.nfs]
    return [name for name in dict.fromkeys(named) if name in PACKAGES]

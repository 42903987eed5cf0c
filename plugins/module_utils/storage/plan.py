# Copyright (c) 2026 The gpulab founders
# GNU General Public License v3.0+ (see https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Tiers of storage: what has to happen so that each is mounted, or why nothing may. No I/O happens here.

A tier is a place with a purpose: scratch, which may be lost, or datasets, which may not. Every refusal is raised before
the first step. The steps that write to a device without a filesystem, array and format, are planned for devices on
which blkid, wipefs and a look at their bytes find nothing at all, and only where the tier says so. Where the look did
not read a device whole, the tier must also say that a person has checked it.
"""

from __future__ import annotations

import posixpath
import re
import uuid
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

from ansible_collections.gpulab.node.plugins.module_utils.core import fstab, owned_block
from ansible_collections.gpulab.node.plugins.module_utils.core.refusal import Refusal
from ansible_collections.gpulab.node.plugins.module_utils.core.refusals.storage import refuse
from ansible_collections.gpulab.node.plugins.module_utils.core.shown import first
from ansible_collections.gpulab.node.plugins.module_utils.storage import devices as storage_devices
from ansible_collections.gpulab.node.plugins.module_utils.storage import exports as storage_exports
from ansible_collections.gpulab.node.plugins.module_utils.storage.devices import BY_ID, VOLUME, Content, Devices
from ansible_collections.gpulab.node.plugins.module_utils.storage.exports import Export, Server
from ansible_collections.gpulab.node.plugins.module_utils.storage.steps import Step, Written

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from ansible_collections.gpulab.node.plugins.module_utils.core.mount_table import Mount

OWNER = "storage"
FSTAB = "/etc/fstab"
SCRATCH, DATASETS = "scratch", "datasets"
DEFAULT_FILESYSTEM = "ext4"
FORMATS = {"ext4": ["mkfs.ext4", "-q", "-U"], "xfs": ["mkfs.xfs", "-q", "-m"]}
LOCAL_ALWAYS = ("nofail", "x-systemd.device-timeout=90s")
NFS_ALWAYS = ("_netdev", "nofail", "x-systemd.mount-timeout=30s")
AUTOMOUNT = "x-systemd.automount"
LIVE = frozenset({"ro", "noatime", "nodiratime", "relatime", "nosuid", "nodev", "noexec"})  # can be told of a mount
NAMESPACE = uuid.UUID("7d0e42f4-8d0c-5c1a-9a55-1f2f3c0a6b11")  # of the UUIDs that new filesystems and arrays get
PACKAGES = {
    "mkfs.ext4": {"apt": "e2fsprogs", "dnf": "e2fsprogs"},
    "mkfs.xfs": {"apt": "xfsprogs", "dnf": "xfsprogs"},
    "mdadm": {"apt": "mdadm", "dnf": "mdadm"},
    "lvchange": {"apt": "lvm2", "dnf": "lvm2"},
    "mount.nfs": {"apt": "nfs-common", "dnf": "nfs-utils"},
    "exportfs": {"apt": "nfs-kernel-server", "dnf": "nfs-utils"},
}
_PLACE = re.compile(r"(/[A-Za-z0-9_][A-Za-z0-9_.-]*)+")
_SERVER = re.compile(r"[A-Za-z0-9_\[][A-Za-z0-9.:_\[\]-]*:/[^\s\\\"]*")
_OPTION = re.compile(r"[^\s,#\\\"]+")


@dataclass(frozen=True)
class Tier:
    """One tier, as the inventory declares it: devices or an export of an NFS server; and who may mount it from here."""

    name: str
    purpose: str
    mount: str
    devices: tuple[str, ...] = ()
    nfs: str = ""
    filesystem: str = ""
    options: tuple[str, ...] = ("noatime",)
    format: bool = False
    blank_checked: tuple[str, ...] = ()
    export_to: tuple[str, ...] = ()
    export_options: tuple[str, ...] = ()


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


@dataclass(frozen=True)
class _Target:
    """What a tier's devices come to: the path that holds, or shall hold, the filesystem; and the steps to get there.

    source is its name in /etc/fstab; devices are all that the tier takes; blank is true where it is to be formatted.
    """

    path: str
    source: str = ""
    devices: tuple[str, ...] = ()
    steps: tuple[Step, ...] = ()
    blank: bool = False


def tiers(records: Iterable[dict[str, Any]]) -> list[Tier]:
    """Read the tiers of an inventory. Raises Refusal H150 for one that cannot be meant, H166 for one open to all."""
    declared = list(records)
    found = [
        Tier(
            record["name"],
            record["purpose"],
            record["mount"],
            tuple(record.get("devices") or ()),
            record.get("nfs") or "",
            record.get("filesystem") or "",
            tuple(("noatime",) if record.get("options") is None else record["options"]),
            bool(record.get("format")),
            tuple(record.get("blank_checked") or ()),
            tuple(record.get("export_to") or ()),
            tuple(record.get("export_options") or ()),
        )
        for record in declared
    ]
    for number, tier in enumerate(found):
        for wrong in (*_wrong(tier, found[:number]), *_wrong_export(tier)):
            raise refuse("H150", tier=tier.name, wrong=wrong)
        everybody = [client for client in tier.export_to if storage_exports.is_everybody(client)]
        if everybody and not declared[number].get("export_to_everybody"):
            raise refuse("H166", tier=tier.name, client=", ".join(everybody))
    return found


def _wrong(tier: Tier, others: list[Tier]) -> Iterator[str]:
    if not re.fullmatch(r"[a-z0-9][a-z0-9_-]{0,30}", tier.name):
        yield "needs a name of at most 31 small letters, digits, '-' and '_'"
    if bool(tier.devices) == bool(tier.nfs):
        yield "needs either devices or nfs"
    if not _PLACE.fullmatch(tier.mount):
        yield f"has the mount point {tier.mount}, which is not a plain absolute path"
    if tier.nfs and (tier.format or tier.filesystem or not _SERVER.fullmatch(tier.nfs)):
        yield "is an NFS tier: it needs nfs: server:/path, and neither filesystem nor format"
    if len(set(tier.devices)) < len(tier.devices):
        yield "names a device twice"
    if not all(_OPTION.fullmatch(option) for option in tier.options):
        yield "has an option with white space, a comma, '#', a quote or a backslash: write the options as a list"
    if tier.name in {other.name for other in others}:
        yield "is declared twice"
    if any(
        f"{tier.mount}/".startswith(f"{other.mount}/") or f"{other.mount}/".startswith(f"{tier.mount}/")
        for other in others
    ):
        yield "overlaps with the mount point of another tier"
    if tier.format and (tier.filesystem or DEFAULT_FILESYSTEM) not in FORMATS:
        yield f"requests the filesystem {tier.filesystem}, but gpulab can create only {' and '.join(FORMATS)}"


def _wrong_export(tier: Tier) -> Iterator[str]:
    strange = [client for client in tier.export_to if not storage_exports.is_client(client)]
    if strange:
        yield f"is exported to {', '.join(strange)}, which is not a host, network, pattern or netgroup"
    unknown = storage_exports.wrong_options(tier.export_options)
    if unknown:
        yield f"has the export option {', '.join(unknown)}, which is unknown to gpulab"
    if tier.export_to and tier.nfs:
        yield "is an NFS tier itself and cannot be exported: export it from its server"
    if len(set(tier.export_to)) < len(tier.export_to):
        yield "is exported to the same client twice"


def devices_of(wanted: Iterable[Tier], known: Devices) -> list[str]:
    """Return the paths that deserve a closer look: those of the tiers and what is made of them, but filesystems."""
    paths: list[str] = []
    for tier in wanted:
        for name in tier.devices:
            try:
                path = storage_devices.resolve(name, tier.name, known)
            except Refusal:
                continue  # the plan tells
            paths += [path, *known.descendants(path)]
    return [path for path in dict.fromkeys(paths) if not known.content(path).filesystem]


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
    targets = [_target(tier, known) if tier.devices else _Target(tier.nfs, tier.nfs) for tier in wanted]
    _check_shared(wanted, targets, known)
    lines = [_entry(tier, target, known) for tier, target in zip(wanted, targets)]
    _check_fstab(lines, targets, state)
    before = [step for tier, target in zip(wanted, targets) for step in (*target.steps, *_format(tier, target, known))]
    after = [step for tier, target, line in zip(wanted, targets, lines) for step in _mount(tier, target, line, state)]
    given = storage_exports.additions(exports, state.server)
    then = [step for step in former if step not in first]
    return [*first, *withdrawn, *then, *before, *_fstab(lines, state), *after, *given]


def exported(wanted: Iterable[Tier]) -> list[Export]:
    """Return what these tiers export."""
    return [
        Export(tier.mount, client, storage_exports.options(tier.export_options))
        for tier in wanted
        for client in tier.export_to
    ]


def _target(tier: Tier, known: Devices) -> _Target:
    name = tier.devices[0]
    if len(tier.devices) == 1 and known.volumes.get(name) is False:
        argv = ("lvchange", "--activate", "y", name[len("/dev/") :])
        step = Step("assemble", f"activate the volume {name} of tier {tier.name}", argv)
        return _Target(name, name, (name,), (step,))
    paths = [storage_devices.resolve(each, tier.name, known) for each in tier.devices]
    if len(paths) > 1:
        return _array(tier, paths, known)
    return _single(tier, paths[0], name if VOLUME.fullmatch(name) else "", known)


def _single(tier: Tier, path: str, source: str, known: Devices, members: Iterable[str] = ()) -> _Target:
    """Judge the one device that holds, or shall hold, the filesystem; an array goes by the names of its members."""
    content = known.content(path)
    if content.filesystem:
        _check_content(tier, path, content, known)
        return _Target(path, source or f"UUID={content.uuid}", (path,))
    _check_blank(tier, [path], known, members)
    return _Target(path, source or f"UUID={new_uuid(tier, [path], known)}", (path,), blank=True)


def _check_content(tier: Tier, path: str, content: Content, known: Devices) -> None:
    """Raise Refusal where the filesystem is not the tier's, or in use elsewhere (H156, H157)."""
    if tier.filesystem and tier.filesystem != content.type:
        raise refuse("H156", tier=tier.name, device=known.label(path), found=content.type, wanted=tier.filesystem)
    storage_devices.resolve(f"UUID={content.uuid}", tier.name, known)  # a copy of it must not be mounted in its place
    places = known.places(path)
    elsewhere = [] if tier.mount in places else places  # where it is mounted already, others may have it in theirs
    elsewhere += [f"{known.devices[each].kind} {each}" for each in known.descendants(path)]
    if elsewhere:
        raise refuse("H157", tier=tier.name, device=known.label(path), by=", ".join(elsewhere))


def _check_blank(tier: Tier, paths: list[str], known: Devices, members: Iterable[str] = ()) -> None:
    """Raise Refusal where one of these is not blank (H154), or where nobody asked for a filesystem (H155).

    A device that was not read whole must have been checked by a person, too (H177).
    """
    for path in paths:
        found = storage_devices.findings(path, known)
        if found:
            raise refuse("H154", tier=tier.name, device=known.label(path), found="; ".join(found), path=path)
    if not tier.format:
        raise refuse("H155", tier=tier.name, device=", ".join(map(known.label, paths)))
    partly = [path for path in paths if known.share(path)]
    words = [known.word(path) for path in (members if partly and members else partly)]
    if not set(words) <= set(tier.blank_checked):
        told = ", ".join(f"{known.label(path)}: {known.share(path)}" for path in partly)
        raise refuse("H177", tier=tier.name, read=told, words=", ".join(words))


def _array(tier: Tier, paths: list[str], known: Devices) -> _Target:
    """Judge several devices: an array that is there, or one of RAID 0 to be made. Raises Refusal H154, H158, H164."""
    arrays = {known.content(path).array for path in paths}
    if arrays == {""}:
        if tier.purpose != SCRATCH:
            raise refuse("H158", tier=tier.name, devices=", ".join(map(known.label, paths)))
        _check_blank(tier, paths, known)
        return _new_array(tier, paths, known)
    if len(arrays) > 1:
        told = (f"{known.label(path)}: {known.content(path).array or 'not a member of an array'}" for path in paths)
        raise refuse("H164", tier=tier.name, found="; ".join(told))
    array = arrays.pop()
    link = f"{BY_ID}md-uuid-{array}"
    active = [each for each in known.devices[paths[0]].below if known.devices[each].kind.startswith("raid")]
    if active:
        return replace(_single(tier, active[0], link, known, paths), devices=(active[0], *paths))
    _check_unheld(tier, paths, known)
    argv = ("mdadm", "--assemble", f"/dev/md/{tier.name}", *map(known.stable, paths))
    step = Step("assemble", f"assemble the array {array} of tier {tier.name} from {', '.join(paths)}", argv)
    return _Target(link, link, tuple(paths), (step,))


def _check_unheld(tier: Tier, paths: list[str], known: Devices) -> None:
    for path in paths:
        by = [*known.places(path), *known.descendants(path)]
        if by:
            raise refuse("H157", tier=tier.name, device=known.label(path), by=", ".join(by))


def _new_array(tier: Tier, paths: list[str], known: Devices) -> _Target:
    digits = new_uuid(tier, paths, known).replace("-", "")
    array = ":".join(digits[start : start + 8] for start in range(0, 32, 8))
    argv = [
        *("mdadm", "--create", f"/dev/md/{tier.name}", "--run", "--metadata=1.2", "--level=0"),
        *(f"--raid-devices={len(paths)}", f"--name={tier.name}", f"--uuid={array}"),
    ]
    step = Step(
        "array",
        f"create a RAID 0 of {', '.join(_judged(path, known) for path in paths)} for tier {tier.name}",
        (*argv, *map(known.stable, paths)),
        tuple(Written(known.stable(path), known.devices[path]) for path in paths),
    )
    return _Target(f"/dev/md/{tier.name}", f"{BY_ID}md-uuid-{array}", tuple(paths), (step,), blank=True)


def _judged(path: str, known: Devices) -> str:
    """Say which device this is, and how much of it was read, and was zeros, where that was not all."""
    share = known.share(path) if path in known.devices else ""
    return known.label(path) + (f" (read {share}: only zeros)" if share else "")


def new_uuid(tier: Tier, paths: list[str], known: Devices) -> str:
    """Return the UUID that a new filesystem or array gets: the same each time, for check mode to show it."""
    names = [next(iter(known.names(path)), path) for path in paths]
    return str(uuid.uuid5(NAMESPACE, " ".join([tier.name, *sorted(names)])))


def _check_shared(wanted: list[Tier], targets: list[_Target], known: Devices) -> None:
    """Raise Refusal H165 where two tiers come to the same device."""
    owners: dict[str, str] = {}
    for tier, target in zip(wanted, targets):
        for path in target.devices:
            if path in owners:
                raise refuse("H165", one=owners[path], other=tier.name, device=known.label(path))
        owners.update(dict.fromkeys(target.devices, tier.name))


def _entry(tier: Tier, target: _Target, known: Devices) -> Entry:
    if tier.nfs:
        return Entry(tier.nfs, tier.mount, "nfs", _options(tier, NFS_ALWAYS))
    kind = DEFAULT_FILESYSTEM if target.blank else "auto"  # of an array that is not assembled yet, nobody knows it
    content = known.contents.get(target.path, Content())
    return Entry(target.source, tier.mount, tier.filesystem or content.type or kind, _options(tier, LOCAL_ALWAYS))


def _options(tier: Tier, always: tuple[str, ...]) -> tuple[str, ...]:
    return tuple(dict.fromkeys([*tier.options, *always]))


def _check_fstab(lines: list[Entry], targets: list[_Target], state: State) -> None:
    """Raise Refusal H160 where somebody else's line or mount unit has a place or a device of a tier."""
    listed = [(FSTAB, other) for other in _lines(owned_block.outside(state.fstab, OWNER))]
    for file, other in [*listed, *((path, _unit(text)) for path, text in state.units.items())]:
        named = storage_devices.meant_by(export_of(other.source), state.known)
        for line, target in zip(lines, targets):
            paths = {target.path, *storage_devices.meant_by(export_of(line.source), state.known)}
            if other.mount == line.mount or other.source == line.source or named & paths:
                raise refuse("H160", file=file, line=f"{other.source} {other.mount}", mount=line.mount)


def export_of(source: str) -> str:
    """Return an export of NFS as its server knows it: SERVER:/path/ is server:/path."""
    found = _SERVER.fullmatch(source)
    host, _colon, path = source.rpartition(":")
    return f"{host.lower()}:{posixpath.normpath(path)}" if found else source


def _format(tier: Tier, target: _Target, known: Devices) -> Iterator[Step]:
    if not target.blank:
        return
    kind = tier.filesystem or DEFAULT_FILESYSTEM
    new = target.source[5:] if target.source.startswith("UUID=") else new_uuid(tier, [target.source], known)
    name = known.stable(target.path)
    yield Step(
        "format",
        f"create an {kind} filesystem on {_judged(target.path, known)} for tier {tier.name}",
        (*FORMATS[kind], f"uuid={new}" if kind == "xfs" else new, name),
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
        yield Step("unmount", f"unmount {entry.mount}; its data stays", ("umount", entry.mount), place=entry.mount)


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


def _mount(tier: Tier, target: _Target, line: Entry, state: State) -> Iterator[Step]:
    mount = storage_devices.at(tier.mount, state.known.mounts)
    if mount is None:
        yield from _directory(tier, state)
        yield Step("mount", f"mount {line.source} at {tier.mount}", ("mount", tier.mount))
        return
    if _is_awaited(line, mount, state):
        return
    ours = export_of(mount.source) == export_of(tier.nfs) if tier.nfs else state.known.is_mounted(target.path, mount)
    if not ours:
        raise refuse("H159", mount=tier.mount, tier=tier.name, wrong=f"has {mount.source} mounted on it")
    differing = sorted(different_options(line.options, mount.options))
    if differing:
        argv = ("mount", "-o", f"remount,{','.join(_plain(line.options))}", tier.mount)
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

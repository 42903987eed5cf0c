# Copyright (c) 2026 The gpulab founders
# GNU General Public License v3.0+ (see https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What the items of a receipt are now. A value is text, or text by name; None is what is not there.

file:PATH         mode, owner and content of a file; the target of a link; mode and owner of a directory
block:PATH#ROLE   content of the block that a role keeps in a file
package:GLOB      version and hold of each installed package with such a name
unit:NAME         whether a unit is enabled, in systemd's words
running:NAME      whether a unit is active, in systemd's words
value:NAME        a live value of the kernel, by its name for sysctl or by its path
mount:PATH        what is mounted there
people:accounts    in what people's accounts differ from the inventory, by name
member:GROUP:USER whether a user belongs to a group
environment:PATH  lock and packages of a Python environment
fact:SECTION      a section of the facts, without what changes by itself
"""

from __future__ import annotations

import grp
import hashlib
import json
import stat
from fnmatch import fnmatchcase
from typing import TYPE_CHECKING, Any

from ansible_collections.gpulab.node.plugins.module_utils.core import owned_block, unit_states
from ansible_collections.gpulab.node.plugins.module_utils.core.mount_table import mounts
from ansible_collections.gpulab.node.plugins.module_utils.facts.packages import PackagesQuery
from ansible_collections.gpulab.node.plugins.module_utils.system import kernel_values

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping
    from pathlib import Path

    from ansible_collections.gpulab.node.plugins.module_utils.core.node import Node
    from ansible_collections.gpulab.node.plugins.plugin_utils.facts.model import Facts

Value = Any  # str, dict[str, str] or None
VERSION_LOCK = "/etc/dnf/plugins/versionlock.list"
# What changes by itself, or is read again elsewhere, by section of the facts.
PASSING = {
    "system": {"kernel", "boot_id", "clock_synchronized", "clock_ahead_seconds", "python"},
    "accounts": {"slices", "quotas"},
    "directory": {"missing", "clashes"},
    "model_store": {"unread_days"},
    "network": {"up", "speed_gbps"},
    "group": {"leads"},
    "monitoring": {"answers", "serves_gpus", "age_seconds"},
    "imex": {"state", "channel"},
}
# What a setting can change of a GPU; all else of NVML's readings is measured.
GPU_SETTINGS = ("uuid", "persistence", "compute_mode", "accounting", "mig", "mig_instances")


def digest(value: Any) -> str:
    """Return what tells data from other data, 16 hexadecimal digits."""
    text = json.dumps(value, sort_keys=True, separators=(",", ":"), default=str)
    return hashlib.sha256(text.encode()).hexdigest()[:16]


class Reading:
    """The items of a node as they are now; package manager and systemd answer beside the caller's other work."""

    def __init__(self, node: Node, items: Iterable[str]) -> None:
        """Begin to read."""
        self._node = node
        self._items = sorted(set(items))
        packages, units = self._names("package"), sorted({*self._names("unit"), *self._names("running")})
        self._packages = PackagesQuery(node, *packages) if packages else None
        asked = ("names", "file_state", "active_state")
        self._units = node.start(unit_states.show(asked, *units)) if units else None
        self._kinds: dict[str, Callable[[str], Value]] = {
            "file": lambda name: file(node.path(name)),
            "block": self._block,
            "package": self._package,
            "unit": lambda name: self._shown[name].file_state or None if name in self._shown else None,
            "running": lambda name: self._shown[name].active_state or None if name in self._shown else None,
            "value": lambda name: kernel_values.read(name, node) or None,
            "mount": self._mount,
            "member": _member,
            "people": lambda _name: self._people or None,
            "environment": lambda name: environment(node.path(name)),
        }

    def values(self, facts: Facts) -> dict[str, Value]:
        """Return each item's value; facts are those of this moment. An item of an unknown kind has the value None."""
        self._shown = unit_states.by_name((self._units.output() or "") if self._units else "")
        self._mounted = {mount.place: mount for mount in mounts(self._node.text("/proc/self/mountinfo"))}
        accounts = facts["accounts"]
        self._people = {name: ", ".join(what) for name, what in accounts["differs"].items()} if accounts else {}
        self._locked = self._node.text(VERSION_LOCK).splitlines()
        return {item: self._value(item, facts) for item in self._items}

    def _value(self, item: str, facts: Facts) -> Value:
        kind, _colon, name = item.partition(":")
        if kind == "fact":
            return digest(section(facts, name))
        return self._kinds[kind](name) if kind in self._kinds else None

    def _names(self, kind: str) -> list[str]:
        return [name for item in self._items for found, _colon, name in [item.partition(":")] if found == kind]

    def _block(self, name: str) -> Value:
        path, _hash, owner = name.rpartition("#")
        return owned_block.inside((self._node.data(path) or b"").decode("utf-8", "replace"), owner) or None

    def _package(self, pattern: str) -> Value:
        found = [one for one in (self._packages.installed if self._packages else []) if fnmatchcase(one.name, pattern)]
        held = {one.name for one in found if one.held or any(f"{one.name}-" in line for line in self._locked)}
        return {one.name: f"{one.version}, on hold" if one.name in held else one.version for one in found} or None

    def _mount(self, path: str) -> Value:
        mount = self._mounted.get(path)
        return f"{mount.type} {mount.source}{' read-only' if mount.read_only else ''}" if mount else None


def file(path: Path) -> Value:
    """Return what a path holds: "file MODE UID:GID SHA-256", "link TARGET" or "directory MODE UID:GID"."""
    try:
        status = path.lstat()
        if stat.S_ISLNK(status.st_mode):
            return f"link {path.readlink()}"
        rights = f"{stat.S_IMODE(status.st_mode):04o} {status.st_uid}:{status.st_gid}"
        if stat.S_ISREG(status.st_mode):
            return f"file {rights} {hashlib.sha256(path.read_bytes()).hexdigest()}"
    except OSError:
        return None
    return f"{'directory' if stat.S_ISDIR(status.st_mode) else 'special'} {rights}"


def environment(path: Path) -> Value:
    """Return what tells a Python environment from another one: its lock and the packages in it."""
    if not path.is_dir():
        return None
    installed = [one.name for one in path.glob("lib/python*/site-packages/*-info")]
    installed += [one.name for one in path.glob("conda-meta/*.json")]
    lock = str(file(path / "gpulab.lock"))
    return {"lock": lock, "packages": digest(sorted(installed)), "directory": str(file(path))}


def section(facts: Facts, name: str) -> Any:
    """Return a section of the facts without what changes by itself."""
    if name == "nvml":
        return [_settings(gpu) for gpu in facts["nvml"]["gpus"]]
    if name == "initramfs":  # the other facts of the kernels change with each driver
        return {kernel["version"]: kernel["initramfs"] for kernel in facts["kernels"]}
    sections: Mapping[str, Any] = facts
    return _without(sections[name], PASSING.get(name, set()))


def how(item: str, before: Value, after: Value) -> str:
    """Say how an item differs from what a run left, in a few words."""
    kind, _colon, name = item.partition(":")
    if kind == "fact":
        return f"{name} differs on the node"
    name = name.partition("#")[0]
    if isinstance(before, dict) or isinstance(after, dict):
        return "; ".join(_by_name(kind, name, before or {}, after or {}))
    if before is None or after is None:
        return f"{name} was {'removed' if after is None else 'made'}"
    if kind == "file":
        return f"{name}: {_file_differs(before.split(), after.split())}"
    return f"{name} was edited" if kind == "block" else f"{name} was {before}, is {after}"


def _by_name(kind: str, name: str, before: dict[str, str], after: dict[str, str]) -> Iterable[str]:
    if kind == "environment":
        yield f"{name} was changed" if after else f"{name} was removed"
        return
    for one in sorted({*before, *after}):
        was, now = before.get(one), after.get(one)
        if was != now and kind == "people":
            yield f"{one} {now}" if now else f"{one} is again as the inventory has it"
        elif was != now:
            yield f"{one} was removed" if now is None else f"{one} is {now}" + (f", was {was}" if was else "")


def _file_differs(before: list[str], after: list[str]) -> str:
    if before[0] != after[0]:
        return f"was a {before[0]}, is a {after[0]}"
    if before[0] == "link":
        return f"led to {before[1]}, leads to {after[1]}"
    rights = zip(("mode", "owner"), before[1:], after[1:])
    words = [f"{what} was {was}, is {now}" for what, was, now in rights if was != now]
    return ", ".join((["edited"] if before[3:] != after[3:] else []) + words)


def _without(value: Any, names: set[str]) -> Any:
    if isinstance(value, dict):
        return {name: _without(one, names) for name, one in value.items() if name not in names}
    return [_without(one, names) for one in value] if isinstance(value, list) else value


def _settings(gpu: dict[str, Any]) -> dict[str, Any]:
    found = {name: gpu.get(name) for name in GPU_SETTINGS}
    return {**found, "power": (gpu.get("power_mw") or {}).get("limit"), "ecc": (gpu.get("ecc") or {}).get("mode")}


def _member(name: str) -> Value:
    group, _colon, user = name.partition(":")
    try:
        return "member" if user in grp.getgrnam(group).gr_mem else None
    except KeyError:
        return None

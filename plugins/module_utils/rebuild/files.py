# Copyright (c) 2026 The gpulab founders
# GNU General Public License v3.0+ (see https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What happens to each captured file of a rebuilt node: it comes back, or stays away for a reason. No I/O here."""

from __future__ import annotations

import posixpath
import re
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING

from ansible_collections.gpulab.node.plugins.module_utils.rebuild import tree
from ansible_collections.gpulab.node.plugins.module_utils.rebuild.tree import DIRECTORY, FILE, NOTHING

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterable

    from ansible_collections.gpulab.node.plugins.module_utils.rebuild.asked import Judged
    from ansible_collections.gpulab.node.plugins.module_utils.rebuild.tree import Ids, Now

SECTION = "files"
PUT, RIGHTS, MERGE, CHOOSE, SAME, DONE, LEAVE = "put", "rights", "merge", "choose", "same", "done", "leave"
BESIDE = ".dpkg-dist"
KEYS = re.compile(r"/\.ssh/authorized_keys2?\Z")
PAM, ALTERNATIVES = "/etc/pam.d/", "/etc/alternatives/"
# Origins of what is at a path now: the file of a package as it brought it, a copy of /etc/skel.
PACKAGE, SKELETON = "package", "skeleton"
# What has to run after files below these paths came back; the first program that is there does it.
AFTER = (
    ("/etc/locale.gen", (("locale-gen",),)),
    ("/usr/local/share/ca-certificates/", (("update-ca-certificates",),)),
    ("/etc/pki/ca-trust/source/", (("update-ca-trust",),)),
    ("/etc/ld.so.conf", (("ldconfig",),)),
    ("/etc/sysctl.", (("sysctl", "--quiet", "--system"),)),
    ("/etc/udev/rules.d/", (("udevadm", "control", "--reload"),)),
    ("/etc/modprobe.d/", (("update-initramfs", "-u"), ("dracut", "--force"))),
    ("/etc/initramfs-tools/", (("update-initramfs", "-u"),)),
    ("/etc/mdadm", (("update-initramfs", "-u"), ("dracut", "--force"))),
    ("/etc/dracut.conf", (("dracut", "--force"),)),
    ("/etc/default/grub", (("update-grub",), ("grub2-mkconfig", "-o", "/boot/grub2/grub.cfg"))),
)


@dataclass(frozen=True)
class Node:
    """What is known of the node.

    restored are paths that came back before: what people did to them since stays. covered tells whether a path now lies
    on another file system than the root disk's, real whether its directories are such, no links. of_people tells
    whether a path lies in the home of a person, version which version of a package is there, None where it is not;
    there are the UUIDs of what the node has now, and the paths of its mapped devices, in small letters.
    """

    same_release: bool
    restored: Collection[str] = ()
    covered: Callable[[str], bool] = lambda _path: False
    real: Callable[[str], bool] = lambda _path: True
    of_people: Callable[[str], bool] = lambda _path: False
    version: Callable[[str], str | None] = lambda _package: None
    there: Collection[str] = ()


@dataclass(frozen=True)
class Step:
    """What happens to one path; why says why it is left. beside keeps the file of the new release.

    found is what was there when this was decided.
    """

    kind: str
    entry: Judged
    why: str = ""
    beside: bool = False
    found: Now = NOTHING


@dataclass
class Plan:
    """All steps, and the paths that have to be one file with another: path to the other path."""

    steps: list[Step] = field(default_factory=list)
    links: dict[str, str] = field(default_factory=dict)

    def of(self, *kinds: str) -> list[Step]:
        """Return the steps of these kinds."""
        return [step for step in self.steps if step.kind in kinds]


def plan(
    entries: Iterable[Judged], found: Callable[[Judged], Now], origin: Callable[[str], str], node: Node,
    ids: Ids,
) -> Plan:  # fmt: skip
    """Return what happens to captured paths; found returns what is there now, origin where that comes from."""
    made = Plan()
    first: dict[str, tuple[str, Now]] = {}
    for entry in sorted(entries, key=lambda entry: str(entry["path"])):
        path = entry["path"]
        if path in node.restored:
            made.steps.append(Step(DONE, entry))
            continue
        now = found(entry)
        step = replace(_step(entry, now, origin, node, ids), found=now)
        made.steps.append(step)
        identity = entry.get("identity")
        if identity and entry["kind"] == FILE and step.kind in (PUT, RIGHTS, SAME):
            other = first.setdefault(identity, (path, now))
            if other[0] != path and (step.kind != SAME or now.inode != other[1].inode):
                made.links[path] = other[0]
    return made


def _step(entry: Judged, now: Now, origin: Callable[[str], str], node: Node, ids: Ids) -> Step:
    why = _out_of_reach(entry["path"], node)
    if not why and tree.has_content(entry, now):
        return Step(SAME if tree.has_rights(entry, now, ids) else RIGHTS, entry)
    why = why or _hindrance(entry, node)
    if why:
        return Step(LEAVE, entry, why)
    if entry["path"].startswith(ALTERNATIVES):
        return Step(CHOOSE, entry)
    return _instead(entry, now, origin, node) if now.kind else _absent(entry, node)


def _instead(entry: Judged, now: Now, origin: Callable[[str], str], node: Node) -> Step:
    """Return what happens to a captured path where something else is now."""
    path = entry["path"]
    if DIRECTORY in (entry["kind"], now.kind):
        return Step(LEAVE, entry, f"a {now.kind} is there now, it was a {entry['kind']}")
    if KEYS.search(path) and entry["kind"] == now.kind == FILE:
        return Step(MERGE, entry)
    why = _of_another_version(entry, node)
    if why:
        return Step(LEAVE, entry, why)
    comes_from = origin(path)
    if node.of_people(path) and comes_from != SKELETON:
        return Step(LEAVE, entry, "somebody has written another one since the installation")
    return Step(PUT, entry, beside=not node.same_release and comes_from == PACKAGE and now.kind == FILE)


def _out_of_reach(path: str, node: Node) -> str:
    if node.covered(path):
        return "another file system is mounted there now"
    return "" if node.real(posixpath.dirname(path)) else "its directory is a link now, or no directory"


def _hindrance(entry: Judged, node: Node) -> str:
    """Say why a path does not come back whatever is there; nothing where it can."""
    if entry.get("why"):
        return str(entry["why"])
    gone = [uuid for uuid in entry.get("names", ()) if uuid.lower() not in node.there]
    if gone:
        return f"it names what the former system disk held: {', '.join(gone)}"
    return ""


def _absent(entry: Judged, node: Node) -> Step:
    package = entry.get("package")
    if package and not _is_configuration(entry["path"]) and node.version(package) is None:
        return Step(LEAVE, entry, f"it was a changed file of the package {package}, which is not installed")
    return Step(PUT, entry)


def _of_another_version(entry: Judged, node: Node) -> str:
    """Say why a program or its data, changed by somebody, does not replace that of a package."""
    package = entry.get("package")
    if not package or _is_configuration(entry["path"]):
        return ""
    version = node.version(package)
    if version == entry.get("version"):
        return ""
    return f"it was changed by hand, and {package} {version or 'of another version'} now brings another one"


def _is_configuration(path: str) -> bool:
    return path.startswith("/etc/")


def merged_keys(captured: bytes, now: bytes) -> bytes:
    """Return authorized keys: those that were captured, and those that are there now beside them."""
    lines = captured.splitlines()
    lines += [line for line in now.splitlines() if line.strip() and line not in lines]
    return b"".join(line + b"\n" for line in lines)


def modules_of_pam(text: str) -> set[str]:
    """Return the modules that a file of PAM cannot do without: pam.conf(5)."""
    found = re.findall(r"^\s*(?:auth|account|password|session)\s+(?:\[[^]\n]*\]|\w+)\s+(\S+)", text, re.MULTILINE)
    return {name for name in found if name.endswith(".so")}


def commands(paths: Iterable[str]) -> list[tuple[tuple[str, ...], ...]]:
    """Return what has to run after these paths came back: for each, the programs of which the first one there does."""
    known = list(paths)
    return list(dict.fromkeys(programs for start, programs in AFTER if any(path.startswith(start) for path in known)))

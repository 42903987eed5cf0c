# Copyright (c) 2026 The gpulab founders
# GNU General Public License v3.0+ (see https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The two archives that become the installer's memory: the tree, and what belongs to one host."""

from __future__ import annotations

import gzip
import io
import json
import os
import posixpath
import stat
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Callable

from ansible_collections.gpulab.node.plugins.module_utils.installer.cpio import Member, Writer, parts

if TYPE_CHECKING:
    import tarfile
    from collections.abc import Mapping

    from ansible_collections.gpulab.node.plugins.module_utils.installer.plan import Plan
    from ansible_collections.gpulab.node.plugins.plugin_utils.rebuild.new_system import NewFile

PROGRAM = "/gpulab/lib"
PACKAGE = "ansible_collections/gpulab/node/plugins/module_utils"
PLAN, TARGET, INIT = "/gpulab/plan.json", "/gpulab/target", "/gpulab/init"
_PACKAGES = ("core", "installer")
_UTILS = Path(__file__).parents[2] / "module_utils"
# -I: nothing of the environment or of the working directory decides what is imported.
_START = f"""#!/usr/bin/python3 -I
import sys

sys.path.insert(0, "{PROGRAM}")
from {PACKAGE.replace("/", ".")}.installer import first_process

first_process.main()
"""


def tree_of(tar: tarfile.TarFile, write: Callable[[bytes], object]) -> None:
    """Write the members of a tar archive as a cpio archive; FIFOs are left out."""
    writer = Writer(write)
    members = tar.getmembers()
    linked = {_name(one.linkname) for one in members if one.islnk()}
    for one in members:
        name = _name(one.name)
        member = Member(name, one.mode, (one.uid, one.gid), int(one.mtime))
        if name in (b"", b"."):
            continue
        if one.isdir():
            writer.add(_as(member, stat.S_IFDIR))
        elif one.issym():
            target = one.linkname.encode("utf-8", "surrogateescape")
            writer.add(replace(_as(member, stat.S_IFLNK), size=len(target)), [target])
        elif one.islnk():
            writer.link(_as(member, stat.S_IFREG), _name(one.linkname))
        elif one.ischr() or one.isblk():
            kind = stat.S_IFCHR if one.ischr() else stat.S_IFBLK
            writer.add(replace(_as(member, kind), device=(one.devmajor, one.devminor)))
        elif one.isreg():
            whole = replace(_as(member, stat.S_IFREG), size=one.size, links=2 if name in linked else 1)
            writer.add(whole, parts(tar.extractfile(one), one.size))  # type: ignore[arg-type]
    writer.end()


def _as(member: Member, kind: int) -> Member:
    return replace(member, mode=kind | member.mode)


def _name(path: str) -> bytes:
    """Return a path of a tar archive without what stands for the root, which itself has none."""
    return path.encode("utf-8", "surrogateescape").removeprefix(b"./").strip(b"/")


def host_part(plan: Plan, files: Mapping[str, NewFile]) -> bytes:
    """Return what belongs to one host, as a gzip'd cpio archive that follows the tree: program, plan and files.

    files are those of the installed system by their paths. Raises ValueError for a path that is not absolute and plain.
    """
    members: dict[str, tuple[bytes, int, tuple[int, int]]] = {
        INIT: (_START.encode("ascii"), 0o755, (0, 0)),
        PLAN: (json.dumps(plan, indent=1, sort_keys=True).encode("ascii"), 0o600, (0, 0)),
    }
    for package in _PACKAGES:
        for path in sorted((_UTILS / package).rglob("*.py")):
            place = f"{PROGRAM}/{PACKAGE}/{path.relative_to(_UTILS)}"
            members[place] = (path.read_bytes(), 0o644, (0, 0))
    for above in _above(f"{PROGRAM}/{PACKAGE}/core/_", PROGRAM):  # so that no other package of this name comes first
        members[f"{above}/__init__.py"] = (b"", 0o644, (0, 0))
    members[f"{PROGRAM}/{PACKAGE}/installer/__init__.py"] = (b"", 0o644, (0, 0))
    for target, file in files.items():
        if posixpath.normpath(target) != target or not target.startswith("/") or target.startswith("//"):
            message = f"{target!a} is not the path of a file"
            raise ValueError(message)
        members[f"{TARGET}{target}"] = (file.content, file.mode, (file.uid, file.gid))
    buffer = io.BytesIO()
    writer = Writer(buffer.write)
    made: set[str] = set()
    for name, (content, mode, owner) in sorted(members.items()):
        for above in reversed([*_above(name, "/gpulab"), "/gpulab"]):
            if above not in made:
                made.add(above)
                rights = 0o700 if above == "/gpulab" else 0o755
                writer.add(Member(os.fsencode(above[1:]), stat.S_IFDIR | rights))
        whole = Member(os.fsencode(name[1:]), stat.S_IFREG | mode, owner, size=len(content))
        writer.add(whole, [content])
    writer.end()
    return gzip.compress(buffer.getvalue(), mtime=0)


def _above(path: str, top: str) -> list[str]:
    """Return the directories above a path, innermost first, up to but without top."""
    found = []
    while (path := posixpath.dirname(path)) != top:
        found.append(path)
    return found

# Copyright (c) 2026 The gpulab founders
# GNU General Public License v3.0+ (see https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What gpulab brings into a distribution's own installer: two scripts, and the files of the installed system.

The scripts need no more than the busybox and udev of Debian's installer. guard.sh judges as the installer of gpulab's
own image does, takes all other disks out of the kernel, and tells the installer which disk is left; finish.sh puts the
host's account and files into the installed system.
"""

from __future__ import annotations

import base64
import gzip
import io
import shlex
import tarfile
import textwrap
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ansible_collections.gpulab.node.plugins.plugin_utils.rebuild.new_system import NewFile

if TYPE_CHECKING:
    from collections.abc import Mapping

    from ansible_collections.gpulab.node.plugins.module_utils.installer.plan import Plan

GUARD, FINISH, FILES, TARGET = "guard", "finish", "files", "target"
HERE = Path(__file__).parent
COLUMNS = 76  # of base64


def members(plan: Plan, files: Mapping[str, NewFile], installer: str, place: str) -> dict[str, NewFile]:
    """Return what an installer needs below the directory place, by path in it.

    plan is an installer's plan, files are those of the installed system by their paths; installer is
    preseed, autoinstall or kickstart.
    """
    listed = [f"{one.mode:04o} {one.uid} {one.gid} {path}" for path, one in sorted(files.items())]
    return {
        GUARD: _own(_script(_guard_values(plan, installer), "guard.sh")),
        FINISH: _own(_script(_finish_values(plan, place), "finish.sh")),
        FILES: _own("".join(f"{line}\n" for line in listed)),
        **{f"{TARGET}{path}": one for path, one in sorted(files.items())},
    }


def archive(of: Mapping[str, NewFile]) -> str:
    """Return members as lines of base64 of a gzipped tar, the same for the same members."""
    packed = io.BytesIO()
    with tarfile.open(fileobj=packed, mode="w", format=tarfile.GNU_FORMAT) as tar:
        for path, one in of.items():
            info = tarfile.TarInfo(path)
            info.size, info.mode, info.uid, info.gid = len(one.content), one.mode, one.uid, one.gid
            tar.addfile(info, io.BytesIO(one.content))
    text = base64.b64encode(gzip.compress(packed.getvalue(), mtime=0)).decode("ascii")
    return "".join(f"{line}\n" for line in textwrap.wrap(text, COLUMNS))


def unpack(place: str, text: str) -> str:
    """Return the lines of a shell script that unpack an archive into a directory that is root's only."""
    options = "--extract --gzip --same-permissions --numeric-owner"
    return (
        f"mkdir -p {place}\nchmod 0700 {place}\n"
        f"base64 -d <<'GPULAB_ARCHIVE' | tar {options} --directory {place}\n{text}GPULAB_ARCHIVE\n"
    )


def _own(text: str) -> NewFile:
    return NewFile(text.encode(), 0o600)


def _script(values: Mapping[str, Any], name: str) -> str:
    lines = [f"{key}={shlex.quote(str(value))}\n" for key, value in values.items()]
    shebang, newline, rest = (HERE / name).read_text(encoding="ascii").partition("\n")
    return shebang + newline + "".join(lines) + rest


def _guard_values(plan: Plan, installer: str) -> dict[str, Any]:
    disk = plan["disk"]
    kept = [
        "|".join((one["kind"] or "", one["value"] or "", str(one["size"]), _uuids(one["holds"])))
        for one in plan["kept"]
    ]
    return {
        "HOST": plan["host"],
        "INSTALLER": installer,
        "MACHINE": plan["machine"]["dmi_uuid"].lower(),
        "FIRMWARE": plan["firmware"],
        "KIND": disk["kind"],
        "VALUE": disk["value"],
        "SIZE": disk["size"],
        "HOLDS": _uuids(disk["holds"]),
        "KEPT": "\n".join(kept),
    }


def _uuids(values: list[str]) -> str:
    return " ".join(value.lower() for value in values)


def _finish_values(plan: Plan, place: str) -> dict[str, Any]:
    user = plan["user"]
    return {
        "FILES": place,
        "PLAN": plan["id"],
        "CAPTURE": plan["capture"],
        "HOST": plan["host"],
        "NAME": "" if user["name"] == "root" else user["name"],
        "USER_ID": user["uid"],
        "GROUP": user["group"],
        "GROUP_ID": user["gid"],
        "GECOS": user["gecos"],
        "USER_HOME": user["home"],
        "USER_SHELL": user["shell"],
        "PASSWORD": user["password"] or "",
    }

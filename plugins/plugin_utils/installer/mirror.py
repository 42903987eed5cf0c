# Copyright (c) 2026 The gpulab founders
# GNU General Public License v3.0+ (see https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Whether a mirror of Debian has what its installer will ask for, before anything is written.

Debian's installer brings a kernel and fetches that kernel's modules, and most of itself, as small packages (udebs)
from a mirror. A mirror that has gone on to a newer kernel, or that has no udebs, stops it when it has begun.
"""

from __future__ import annotations

import lzma
import re
import struct
from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING, Any

from ansible.module_utils.urls import open_url
from ansible_collections.gpulab.node.plugins.module_utils.core import download
from ansible_collections.gpulab.node.plugins.module_utils.core.shown import first
from ansible_collections.gpulab.node.plugins.plugin_utils.refusals import refuse

if TYPE_CHECKING:
    from collections.abc import Iterable
    from pathlib import Path

INDEX = "dists/{suite}/main/debian-installer/binary-amd64/Packages.xz"
SECONDS = 60.0
AT_ONCE = 16
MOST_NAMED = 5
_FETCHED = {"required", "important", "standard"}  # priorities of what the installer fetches in any case
# What it fetches beside that for a disk with ext4 and GRUB, and what partitions.
_FOR_A_DISK = ("partman-auto", "partman-ext3", "grub-installer", "fdisk-udeb", "e2fsprogs-udeb", "dosfstools-udeb")
_HEADER, _VERSION = 0x202, 0x20E  # of a bzImage: "HdrS" before it, and where the kernel's version is, less 0x200


def kernel_version(kernel: Path) -> str:
    """Return the version of a kernel as its file says it, such as 6.1.0-50-amd64. Raises Refusal R052."""
    try:
        data = kernel.read_bytes()[: 1 << 20]
        if data[_HEADER : _HEADER + 4] != b"HdrS":
            raise refuse("R052", what=kernel, detail="it is no kernel for x86")
        start = struct.unpack_from("<H", data, _VERSION)[0] + 0x200
        return data[start : data.index(b" ", start)].decode("ascii")
    except (OSError, ValueError, struct.error) as error:
        raise refuse("R052", what=kernel, detail=error) from error


def check(mirror: str, suite: str, kernel: str) -> int:
    """Ask a mirror for everything that the installer with this kernel needs; return how many packages that are.

    Raises Refusal R050 where the mirror has no modules for the kernel, R051 where packages of its own list are not
    there, and R052 where it does not answer.
    """
    address = f"{mirror.rstrip('/')}/{INDEX.format(suite=suite)}"
    try:
        index = lzma.decompress(download.fetch(address, lambda answer: answer.read(), SECONDS)).decode()
    except (OSError, lzma.LZMAError, UnicodeDecodeError) as error:
        raise refuse("R052", what=address, detail=error) from error
    packages = list(parse(index))
    kernels = sorted({one["Kernel-Version"] for one in packages if "Kernel-Version" in one})
    if kernel not in kernels:
        raise refuse("R050", kernel=kernel, mirror=mirror, found=", ".join(kernels) or "none", suite=suite)
    wanted, absent = needed(packages, kernel)
    with ThreadPoolExecutor(AT_ONCE) as pool:
        answers = pool.map(lambda one: _is_there(f"{mirror.rstrip('/')}/{one['Filename']}"), wanted)
        missing = [*absent, *(one["Package"] for one, there in zip(wanted, answers) if not there)]
    if missing:
        names = first(missing, MOST_NAMED)
        raise refuse("R051", mirror=mirror, count=len(missing), all=len(wanted) + len(absent), names=names)
    return len(wanted)


def parse(index: str) -> Iterable[dict[str, str]]:
    """Yield the records of a list of packages, without their lines that go on."""
    for record in index.split("\n\n"):
        fields = re.findall(r"^([A-Za-z0-9-]+): *(.*)$", record, re.MULTILINE)
        if fields:
            yield dict(fields)


def needed(packages: list[dict[str, str]], kernel: str) -> tuple[list[dict[str, str]], list[str]]:
    """Return the packages that the installer fetches, with all that they depend on, and the names that nothing has."""
    usable = [one for one in packages if one.get("Kernel-Version", kernel) == kernel]
    known = {one["Package"]: one for one in usable}
    for one in usable:
        for name in _names(one.get("Provides", "")):
            known.setdefault(name, one)
    left = [one["Package"] for one in usable if one.get("Priority") in _FETCHED]
    left += [*_FOR_A_DISK, f"kernel-image-{kernel}-di"]
    found: dict[str, dict[str, str]] = {}
    absent, seen = [], set()
    while left:
        name = left.pop()
        if name in seen:
            continue
        seen.add(name)
        package = known.get(name)
        if package is None:
            absent.append(name)
        elif package["Package"] not in found:
            found[package["Package"]] = package
            left += _names(package.get("Depends", ""))
    return [found[name] for name in sorted(found)], sorted(absent)


def _names(relations: str) -> list[str]:
    """Return the names in a field of relations, of alternatives the first one."""
    words = (re.match(r"\s*([a-z0-9][a-z0-9.+-]*)", one) for one in relations.split(","))
    return [word[1] for word in words if word]


def _is_there(address: str) -> bool:
    """Ask for the head of a file. Raises Refusal R052 where the mirror does not answer."""
    try:
        answer: Any = open_url(address, method="HEAD", timeout=SECONDS)
    except OSError as error:
        if getattr(error, "code", None) in {403, 404, 410}:
            return False
        raise refuse("R052", what=address, detail=error) from error
    answer.close()
    return True

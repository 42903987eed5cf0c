# Copyright (c) 2026 The gpulab founders
# GNU General Public License v3.0+ (see https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Whether the initramfs brings nouveau, nova or NVIDIA's own driver, by reading the cpio archives in it.

lsinitramfs and lsinitrd are shell scripts that unpack the image, one of them twice; they print names only, while what
counts is the text of the modprobe.d files inside. One pass over the decompressed stream gives both.
"""

from __future__ import annotations

import io
import os
import re
import subprocess
from functools import partial
from typing import IO, TYPE_CHECKING, Any

from ansible_collections.gpulab.node.plugins.module_utils.core.child import DONE, Child, Emit
from ansible_collections.gpulab.node.plugins.module_utils.facts.kernels import NVIDIA_MODULE
from ansible_collections.gpulab.node.plugins.module_utils.facts.modprobe import blacklisted, module_key

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from ansible_collections.gpulab.node.plugins.module_utils.core.node import Node
    from ansible_collections.gpulab.node.plugins.plugin_utils.facts.driver import Initramfs

SECONDS = 10.0  # zstd gives 400 MB a second, gzip 100
PLACES = ("/boot/initrd.img-{}", "/boot/initramfs-{}.img", "/boot/initrd-{}")
DECOMPRESSORS = {
    b"\x1f\x8b": ["gzip", "-dc"],
    b"\x28\xb5\x2f\xfd": ["zstd", "-dcq"],
    b"\xfd7zXZ\x00": ["xz", "-dcq"],
    b"\x02\x21\x4c\x18": ["lz4", "-dcq"],
    b"\x89LZO": ["lzop", "-dcq"],
    b"BZh": ["bzip2", "-dcq"],
}
DAMAGED = "a damaged cpio archive"
UNKNOWN = "an unknown compression"
EMPTY = "an empty image"
UNREAD = ("nouveau", "blacklist", "nova", "nova_blacklist", "nvidia", "nvidia_version")
_CPIO = (b"070701", b"070702")
_HEADER = 110
_ALIGNMENT = 4
_LARGEST_NAME = 4096
_CHUNK = 1 << 20
_MODPROBE_FILE = re.compile(r"(?:^|/)modprobe\.d/[^/]+\.conf\Z")
_RIVAL = re.compile(r"(?:^|/)(nouveau|nova[-_]core)\.ko(?:\.\w+)?\Z")
_MODULE_VERSION = re.compile(rb"\0version=(\d+(?:\.\d+)+)\0")  # among what modinfo reads


def cpio_entries(stream: IO[bytes]) -> Iterator[tuple[str, bytes | None]]:
    """Read one newc cpio archive: each name, and the content of modprobe.d files and of NVIDIA's module.

    Raises ValueError on anything else.
    """
    while True:
        header = stream.read(_HEADER)
        if len(header) < _HEADER or header[:6] not in _CPIO:
            raise ValueError(DAMAGED)
        size, name_size = int(header[54:62], 16), int(header[94:102], 16)
        if name_size > _LARGEST_NAME:
            raise ValueError(DAMAGED)
        name = stream.read(name_size + -(_HEADER + name_size) % _ALIGNMENT)[: name_size - 1].decode("utf-8", "replace")
        if name == "TRAILER!!!":
            return
        wanted = bool(_MODPROBE_FILE.search(name) or _is_nvidia(name))
        content = _skip(stream, size + -size % _ALIGNMENT, keep=wanted)
        yield name, content[:size] if wanted else None


def entries(image: IO[bytes]) -> Iterator[tuple[str, bytes | None]]:
    """Read the image's archives: plain ones first (microcode, firmware), then a compressed one.

    Raises ValueError on a damaged image, OSError where its decompressor is absent.
    """
    while True:
        start = _next_archive(image)
        if start is None:
            return
        image.seek(start)
        magic = image.read(6)
        image.seek(start)
        if magic in _CPIO:
            yield from cpio_entries(image)
            continue
        command = _decompressor(magic)
        if not command:
            raise ValueError(UNKNOWN)
        os.lseek(image.fileno(), start, os.SEEK_SET)
        with subprocess.Popen(command, stdin=image, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL) as process:
            if process.stdout:
                yield from cpio_entries(process.stdout)
            process.kill()
        return


def scan(image: IO[bytes]) -> dict[str, Any]:
    """Say whether an image holds nouveau or nova, and whether its modprobe.d files forbid it; and NVIDIA's driver.

    nvidia_version is the version of that, None where it cannot be told. Raises as entries().
    """
    texts, brought, versions, empty = [], set(), [], True
    for name, content in entries(image):
        empty = False
        rival = _RIVAL.search(name)
        if rival:
            brought.add(module_key(rival.group(1)))
        if _is_nvidia(name):
            versions.append(_version(content or b""))
        elif content is not None:
            texts.append(content.decode("utf-8", "replace"))
    if empty:
        raise ValueError(EMPTY)
    forbidden = blacklisted(texts)
    return {
        "nouveau": "nouveau" in brought,
        "blacklist": "nouveau" in forbidden,
        "nova": "nova_core" in brought,
        "nova_blacklist": "nova_core" in forbidden,
        "nvidia": bool(versions),
        "nvidia_version": next(filter(None, versions), None),
    }


def _is_nvidia(name: str) -> bool:
    return NVIDIA_MODULE.match(name.rpartition("/")[2]) is not None


def _decompressor(start: bytes) -> list[str] | None:
    return next((command for prefix, command in DECOMPRESSORS.items() if start.startswith(prefix)), None)


def _version(module: bytes) -> str | None:
    """Return the version that a module has, compressed or not; None where it cannot be read."""
    command = _decompressor(module)
    if command:
        try:
            module = subprocess.run(command, input=module, capture_output=True, check=False).stdout
        except OSError:  # there is no such program
            return None
    found = _MODULE_VERSION.search(module)
    return found.group(1).decode() if found else None


def find(node: Node, kernel: str) -> str | None:
    """Return the initramfs of a kernel."""
    return next((place for place in (place.format(kernel) for place in PLACES) if node.exists(place)), None)


class InitramfsQuery:
    """A scan that runs beside the caller's other work; the largest images take most of a second."""

    def __init__(self, node: Node, kernel: str, seconds: float = SECONDS) -> None:
        """Start it, where the kernel has an initramfs."""
        self._path = find(node, kernel)
        self._child: Child | None = None
        if self._path:
            file = node.path(self._path)
            self._child = Child(partial(_scan_file, file), seconds)

    def facts(self) -> Initramfs | None:
        """Return the fact; all but the path and the error are None where the image could not be read."""
        if self._child is None:
            return None
        outcome = self._child.wait()
        found = self._child.messages[0] if self._child.messages else dict.fromkeys(UNREAD)
        error = None if outcome == DONE else self._child.reason or "not read in time"
        return {
            "path": self._path,
            "nouveau": found["nouveau"],
            "blacklist": found["blacklist"],
            "nova": found["nova"],
            "nova_blacklist": found["nova_blacklist"],
            "nvidia": found["nvidia"],
            "nvidia_version": found["nvidia_version"],
            "error": error,
        }


def _scan_file(path: Path, emit: Emit) -> None:
    with path.open("rb") as image:
        emit(scan(image))


def _next_archive(image: IO[bytes]) -> int | None:
    """Return where the next archive starts: archives are padded with zeros."""
    while True:
        position = image.tell()
        chunk = image.read(_CHUNK)
        if not chunk:
            return None
        rest = chunk.lstrip(b"\0")
        if rest:
            return position + len(chunk) - len(rest)


def _skip(stream: IO[bytes], size: int, *, keep: bool) -> bytes:
    """Read past ``size`` bytes, and return them when asked to."""
    kept = io.BytesIO()
    while size > 0:
        chunk = stream.read(min(size, _CHUNK))
        if not chunk:
            raise ValueError(DAMAGED)
        size -= len(chunk)
        if keep:
            kept.write(chunk)
    return kept.getvalue()

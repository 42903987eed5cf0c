# Copyright (c) 2026 The gpulab founders
# GNU General Public License v3.0+ (see https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Whether a bundle is whole: its list of SHA-256, the signature of that list, and the files that it names.

The list has a line for each file, as sha256sum(1) writes it. Whatever else lies in the folder belongs to others. The
folder is on this machine, or a server has it.
"""

from __future__ import annotations

import hashlib
from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING
from urllib.error import HTTPError
from urllib.parse import quote
from urllib.request import Request

from ansible_collections.gpulab.node.plugins.module_utils.core import files, signatures
from ansible_collections.gpulab.node.plugins.module_utils.core.refusals.bundle import refuse
from ansible_collections.gpulab.node.plugins.module_utils.core.shown import first
from ansible_collections.gpulab.node.plugins.module_utils.system.certificates import opener

if TYPE_CHECKING:
    from pathlib import Path

    from ansible_collections.gpulab.node.plugins.module_utils.core.refusal import Refusal

SUMS, SIGNATURE, RECORD = "SHA256SUMS", "SHA256SUMS.sig", "bundle.json"
PURPOSE = "gpulab-bundle"  # what the signature is for, and who makes it
MOST_NAMED = 20
TIMEOUT = 20.0  # seconds without an octet
AT_ONCE = 8
NOT_FOUND = (404, 410)


class Folder:
    """A folder of this machine."""

    def __init__(self, top: Path) -> None:
        """Remember where it is."""
        self.top = top

    def __str__(self) -> str:
        """Return its path."""
        return str(self.top)

    def read(self, name: str) -> bytes | None:
        """Return a file; None where there is none, or a link leads out of the folder. Raises OSError."""
        path = self.top / name
        return path.read_bytes() if self._is_inside(path) and path.is_file() else None

    def matches(self, name: str, digest: str) -> bool | None:
        """Tell whether a file has this SHA-256; None where there is none. Raises OSError."""
        path = self.top / name
        if not self._is_inside(path):
            return False
        return files.sha256(path) == digest if path.is_file() else None

    def has(self, name: str) -> bool:
        """Tell whether there is such a file."""
        return (self.top / name).is_file()

    def _is_inside(self, path: Path) -> bool:
        """Tell whether a path leads, by no link, to a place in the folder."""
        return path.resolve() == self.top.resolve() / path.relative_to(self.top) and ".." not in path.parts


class Served:
    """A folder that a server has at an address; certificates are further authorities to trust, as PEM."""

    def __init__(self, address: str, certificates: str = "") -> None:
        """Remember where it is. Raises ValueError."""
        self.address = address.rstrip("/")
        self._opener = opener(certificates)

    def __str__(self) -> str:
        """Return its address."""
        return self.address

    def read(self, name: str) -> bytes | None:
        """Return a file; None where there is none. Raises OSError."""
        return self._ask("GET", name)

    def matches(self, name: str, digest: str) -> bool | None:
        """Tell whether an index has this SHA-256, and of another file only whether it is there. Raises OSError."""
        if not _is_index(name):
            return self.has(name) or None
        data = self.read(name)
        return None if data is None else hashlib.sha256(data).hexdigest() == digest

    def has(self, name: str) -> bool:
        """Tell whether there is such a file. Raises OSError."""
        return self._ask("HEAD", name) is not None

    def _ask(self, method: str, name: str) -> bytes | None:
        request = Request(f"{self.address}/{quote(name)}", method=method)  # noqa: S310 - the inventory's own address
        try:
            with self._opener.open(request, timeout=TIMEOUT) as answer:
                return bytes(answer.read())
        except HTTPError as error:
            if error.code in NOT_FOUND:
                return None
            raise


def read_sums(listed: bytes) -> dict[str, str]:
    """Return the SHA-256 of each file by its path, as a list has it."""
    text = listed.decode("utf-8", "replace")
    return {name: digest for digest, _spaces, name in (line.partition("  ") for line in text.splitlines()) if name}


def faults(place: Folder | Served, listed: bytes, signers: str, *, whole: bool = True) -> list[Refusal]:
    """Return all that is wrong with a bundle; signers is a text of the form of allowed_signers. Raises OSError.

    listed is its list, empty where there is none. The same octets are compared with the files and with the signature: a
    server that is asked twice may answer otherwise.
    Unless it is to be looked through whole, only the indexes are, by which APT and pip verify what they name.
    B005: files are missing. B003: nobody of these has signed the list. B004: files are not as the list says.
    """
    sums = read_sums(listed)
    if not sums:
        return [refuse("B005", count=1, all=1, path=place, names=SUMS)]
    names = [name for name in sums if whole or _is_index(name)]
    with ThreadPoolExecutor(AT_ONCE) as pool:
        matching = dict(zip(names, pool.map(place.matches, names, map(sums.__getitem__, names))))
    missing = [name for name, matches in matching.items() if matches is None]
    other = [name for name, matches in matching.items() if matches is False]
    found = [refuse("B005", **_named(place, missing, sums))] if missing else []
    found += unsigned(place, listed, signers)
    return found + ([refuse("B004", **_named(place, other, sums))] if other else [])


def verified(place: Folder | Served, name: str, listed: bytes) -> bytes:
    """Return a file that is as the list says; it may be read after the faults were. Raises Refusal B004 and OSError."""
    sums, data = read_sums(listed), place.read(name) or b""
    if hashlib.sha256(data).hexdigest() != sums.get(name):
        raise refuse("B004", **_named(place, [name], sums))
    return data


def unsigned(place: Folder | Served, listed: bytes, signers: str) -> list[Refusal]:
    """Return the refusal B003 of a list that nobody of the signers has signed; nothing where one has."""
    path, signature = f"{place}/{SUMS}", place.read(SIGNATURE)
    if signature is None:
        return [refuse("B003", path=path, detail=f"there is no {SIGNATURE}")]
    if not signers.strip():
        return [refuse("B003", path=path, detail="bundle_signers names no file that says who may")]
    detail = signatures.fault(listed, signature, signers, PURPOSE)
    return [refuse("B003", path=path, detail=detail)] if detail else []


def _is_index(name: str) -> bool:
    """Tell whether a file is one that says what others there are; those that it names, APT and pip verify by it."""
    return not name.startswith(("files/", "models/", "pypi/files/")) and "/pool/" not in name


def _named(place: Folder | Served, names: list[str], sums: dict[str, str]) -> dict[str, object]:
    return {"count": len(names), "all": len(sums), "path": place, "names": first(names, MOST_NAMED)}

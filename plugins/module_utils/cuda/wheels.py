# Copyright (c) 2026 The gpulab founders
# GNU General Public License v3.0+ (see https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""CUDA toolkits made of NVIDIA's wheels: read those of this node, have pip fetch one, put it in its place.

Each lies where NVIDIA's packages have theirs, /usr/local/cuda-X.Y, with a record beside what pip unpacked. Fetching is
left to a long step. The wheels of CUDA 13 hold a whole tree, nvidia/cu13, but not all names that the packages have.
"""

from __future__ import annotations

import base64
import contextlib
import csv
import hashlib
import os
import shutil
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Callable, TypedDict

from ansible_collections.gpulab.node.plugins.module_utils.core import files, records
from ansible_collections.gpulab.node.plugins.module_utils.core.refusal import Refusal
from ansible_collections.gpulab.node.plugins.module_utils.core.refusals.cuda import refuse

if TYPE_CHECKING:
    from collections.abc import Collection, Iterator

PARENT = Path("/usr/local")
RECORD = "gpulab.json"
METADATA = "gpulab-wheels"  # the directories *.dist-info of the wheels: their licences and the lists of their files
TREE = "nvidia/cu13"
WORK = ".gpulab-cuda"
PROGRAM = "bin/nvcc"


@dataclass(frozen=True)
class WantedToolkit:
    """A toolkit that shall be there; requirements are pip's, each with the SHA-256 of its wheel."""

    version: str
    requirements: tuple[str, ...]


def requirements(wheels: list[dict[str, str]]) -> tuple[str, ...]:
    """Return the lines of a requirements file that name these wheels, {name, version, sha256} each, and no others."""
    return tuple(f"{one['name']}=={one['version']} --hash=sha256:{one['sha256']}" for one in wheels)


class WheelToolkits:
    """The toolkits below a directory."""

    def __init__(self, parent: Path = PARENT) -> None:
        """Remember where they are; nothing is read yet."""
        self.parent = parent
        self._work = parent / WORK

    def prefix(self, version: str) -> Path:
        """Return where a toolkit lies, or is to lie."""
        return self.parent / f"cuda-{version}"

    def versions(self) -> list[str]:
        """Return the versions of the toolkits that were made of wheels."""
        return sorted(path.parent.name.partition("-")[2] for path in self.parent.glob(f"cuda-*/{RECORD}"))

    def reasons(self, wanted: WantedToolkit, *, replaced: bool = False) -> list[str]:
        """Return why a toolkit has to be made; nothing where it is there, with each of its files.

        replaced: somebody else's is there that will be gone by then. Raises Refusal C004 for one that will not.
        """
        prefix = self.prefix(wanted.version)
        if wanted.version not in self.versions():
            if not replaced and any(not path.is_dir() for path in prefix.rglob("*")):
                raise refuse("C004", path=prefix)
            return ["it does not exist"]
        if _record(prefix) != {"requirements": list(wanted.requirements)}:
            return ["other wheels are planned"]
        altered = list(_altered(prefix))
        return [f"{len(altered)} of its files are not as they came, such as {altered[0]}"] if altered else []

    def fetch(self, wanted: WantedToolkit, index: str | None, settings: dict[str, str]) -> list[str]:
        """Return the argument list of the script that unpacks the wheels; settings are environment variables for it."""
        work = self._work / wanted.version
        files.make_directory(work, 0o700)
        lines, script, new = work / "requirements.txt", work / "fetch.sh", work / "new"
        pip = ["python3", "-m", "pip", "--no-input", "--disable-pip-version-check", "--no-cache-dir", "install"]
        pip += ["--no-deps", "--only-binary=:all:", "--require-hashes", "--no-compile", "--progress-bar=off"]
        pip += ["--target", str(new), "--requirement", str(lines)]
        settings = {**settings, "TMPDIR": str(work), **({"PIP_INDEX_URL": index} if index else {})}
        named, text = "\n".join(wanted.requirements) + "\n", files.script([["rm", "-rf", str(new)], pip], settings)
        files.write(lines, named, 0o600)
        files.write(script, text, 0o600)  # an index may have a password
        digest = hashlib.sha256(text.encode() + named.encode()).hexdigest()[:16]
        return ["sh", str(script), digest]  # the digest makes it known as a step of its own

    def finish(self, wanted: WantedToolkit) -> None:
        """Put what was fetched in its place, with the names that NVIDIA's packages have and the wheels have not."""
        work, prefix = self._work / wanted.version, self.prefix(wanted.version)
        tree = work / "new" / TREE
        (tree / METADATA).mkdir()
        for metadata in (work / "new").glob("*.dist-info"):
            metadata.rename(tree / METADATA / metadata.name)
        (tree / "lib64").symlink_to("lib")
        for library in list((tree / "lib").glob("*.so.*")):
            (tree / "lib" / f"{library.name.partition('.so.')[0]}.so").symlink_to(library.name)
        records.write(tree / RECORD, {"requirements": list(wanted.requirements)})
        for path in _foreign(prefix) if _record(prefix) else ():
            to = tree / path.relative_to(prefix)
            if not os.path.lexists(to):
                to.parent.mkdir(parents=True, exist_ok=True)
                path.rename(to)
        shutil.rmtree(prefix, ignore_errors=True)
        tree.rename(prefix)
        self.clean()

    def clean(self) -> None:
        """Remove what a run that was broken off has left."""
        shutil.rmtree(self._work, ignore_errors=True)

    def remove(self, version: str, call: Callable[[list[str]], Any]) -> None:
        """Remove a toolkit that was made of wheels, and what update-alternatives knows of it; call runs a program.

        What somebody else has put there stays.
        """
        prefix = self.prefix(version)
        call(["update-alternatives", "--remove", "cuda", str(prefix)])
        foreign = set(_foreign(prefix))
        for path in _files(prefix):
            if path not in foreign:
                path.unlink()
        for directory, _directories, _names in os.walk(prefix, topdown=False):
            with contextlib.suppress(OSError):  # it holds something
                Path(directory).rmdir()


class ToolkitRecord(TypedDict):
    """What a toolkit is made of."""

    requirements: list[str]


def _record(prefix: Path) -> ToolkitRecord | None:
    """Return the record of a toolkit; None for a damaged one."""
    try:
        return records.read(prefix / RECORD, ToolkitRecord, None)
    except Refusal:
        return None


def _files(prefix: Path) -> Iterator[Path]:
    """Yield what lies below a directory and is not a directory itself."""
    for directory, directories, names in os.walk(prefix):
        links = [name for name in directories if Path(directory, name).is_symlink()]
        yield from (Path(directory, name) for name in [*names, *links])


def _foreign(prefix: Path) -> Iterator[Path]:
    """Yield the files of a toolkit that somebody else put there, such as a cuDNN that was copied into it."""
    own = brought(prefix)
    yield from (path for path in _files(prefix) if not is_of(path, prefix, own))


def brought(prefix: Path) -> dict[Path, str]:
    """Return the files of a toolkit that was made of wheels, each with its SHA-256 as is_as_brought takes it."""
    return {prefix / name: sha256 for listing in _listings(prefix) for name, sha256 in _listed(listing)}


def is_of(path: Path, prefix: Path, own: Collection[Path]) -> bool:
    """Tell whether a file of a toolkit is one that was brought, or one that gpulab made beside these."""
    library = path.is_symlink() and path.parent / path.readlink() in own
    return path in own or library or path in (prefix / RECORD, prefix / "lib64") or prefix / METADATA in path.parents


def is_as_brought(path: Path, sha256: str) -> bool:
    """Tell whether a file is as its wheel has it."""
    return sha256 == f"sha256={_digest(path)}"


def _listings(prefix: Path) -> list[Path]:
    return sorted(prefix.glob(f"{METADATA}/*.dist-info/RECORD"))


def _listed(listing: Path) -> Iterator[tuple[str, str]]:
    """Yield the files of a wheel below the toolkit's directory, each with its SHA-256."""
    with listing.open(encoding="utf-8", newline="") as stream:
        for name, sha256, _size in csv.reader(stream):
            if name.startswith(f"{TREE}/"):
                yield name[len(TREE) + 1 :], sha256


def _altered(prefix: Path) -> Iterator[str]:
    """Yield the files of a toolkit that are not as its wheels have them."""
    for listing in _listings(prefix):
        for name, sha256 in _listed(listing):
            if not is_as_brought(prefix / name, sha256):
                yield name


def _digest(path: Path) -> str | None:
    """Return a file's SHA-256 as a wheel's list has it; None where there is no file."""
    try:
        found = hashlib.sha256(path.read_bytes()).digest()
    except OSError:
        return None
    return base64.urlsafe_b64encode(found).decode().rstrip("=")

# Copyright (c) 2026 The gpulab founders
# GNU General Public License v3.0+ (see https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Make the image of an installer on the controller, once per recipe: a kernel, and a tree for its memory.

An image is a directory named by its recipe. It appears as a whole or not at all, and its checksums are verified
whenever it is used.
"""

from __future__ import annotations

import contextlib
import getpass
import json
import os
import re
import shutil
import subprocess
import tarfile
import tempfile
import urllib.error
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from ansible.module_utils.urls import open_url
from ansible_collections.gpulab.node.plugins.module_utils.core import processors
from ansible_collections.gpulab.node.plugins.module_utils.core.files import sha256
from ansible_collections.gpulab.node.plugins.plugin_utils.capture import own_files
from ansible_collections.gpulab.node.plugins.plugin_utils.core.directory import LONG, locked
from ansible_collections.gpulab.node.plugins.plugin_utils.installer import sbat
from ansible_collections.gpulab.node.plugins.plugin_utils.installer.archive import tree_of
from ansible_collections.gpulab.node.plugins.plugin_utils.installer.recipe import NO_INITRAMFS
from ansible_collections.gpulab.node.plugins.plugin_utils.refusals import refuse

if TYPE_CHECKING:
    from collections.abc import Iterator

    from ansible_collections.gpulab.node.plugins.plugin_utils.installer.recipe import Recipe

KERNEL, TREE, RECIPE, LOADERS, SUMS = "vmlinuz", "tree.cpio.zst", "recipe.json", "loaders.json", "SHA256SUMS"
SECONDS = 3600  # for the whole tree, from a slow mirror too
ANSWER_SECONDS = 30
LEAST_FREE = 1 << 30  # bytes where the image is kept
_NEW = ".new"
_KERNELS = re.compile(r"(?:\./)?boot/vmlinuz-[\w.+~-]+")
_SIGNED = re.compile(  # the boot loaders that the new system starts with under Secure Boot
    r"(?:\./)?(usr/lib/(?:shim/shim|grub/[\w-]+-signed/grub)(?:x64|aa64)\.efi\.(?:dual)?signed(?:\.latest)?)"
)
_PROGRAMS = ("mmdebstrap", "zstd")  # packages have these names, too
_OF_FOREIGN = ("arch-test",)  # where the image is for another processor than the controller's


@dataclass(frozen=True)
class Image:
    """An image that is whole: its directory, its files, and their SHA-256 by name.

    loaders are its signed boot loaders, by path, with their SBAT components and generations.
    """

    path: Path
    kernel: Path
    tree: Path
    loaders: dict[str, dict[str, int]]
    sums: dict[str, str]

    def check_loaders(self, host: str, level: str | None) -> None:
        """Raise Refusal R038 where a machine's shim revokes one of the boot loaders; level is that of the machine."""
        way = f"Remove {self.path}, and the next run makes the image again with what the mirror has now"
        for path, components in self.loaders.items():
            sbat.check(host, level, f"/{path} of the image", components, way)


def find(directory: Path, recipe: Recipe) -> Image | None:
    """Return the image of a recipe where it was made before. Raises Refusal R035 where it is damaged."""
    path = directory / recipe.name()
    return read(path) if path.is_dir() else None


def read(path: Path) -> Image:
    """Return the image in a directory, after all of it was verified. Raises Refusal R035."""
    try:
        lines = (path / SUMS).read_text(encoding="ascii").splitlines()
        sums = {name: digest for digest, _space, name in (line.partition("  ") for line in lines)}
        if not {KERNEL, TREE, RECIPE, LOADERS} <= sums.keys():
            raise refuse("R035", path=path, detail=f"{SUMS} does not name all files")
        for name, digest in sums.items():
            if sha256(path / name) != digest:
                raise refuse("R035", path=path, detail=f"{name} has another checksum")
        loaders = json.loads((path / LOADERS).read_text(encoding="ascii"))
    except (OSError, UnicodeDecodeError) as error:
        raise refuse("R035", path=path, detail=str(error)) from error
    return Image(path, path / KERNEL, path / TREE, loaders, sums)


def make(directory: Path, recipe: Recipe, space: int) -> tuple[Image, bool]:
    """Return the image of a recipe, and whether it was made now; space is what its making takes in bytes.

    One that is there is taken at once. Another run that makes one in the same directory is waited for. Raises Refusal
    R030 to R037.
    """
    found = find(directory, recipe)
    if found:
        return found, False
    with _writing(directory):
        directory.mkdir(parents=True, exist_ok=True)
    with _writing(directory), locked(directory, LONG):
        for left in directory.glob(f"{_NEW}*"):  # of a run that was killed
            shutil.rmtree(left)
        found = find(directory, recipe)  # that run made it
        if found:
            return found, False
        mode = check(recipe)
        _check_space(directory, LEAST_FREE)
        _check_space(Path(tempfile.gettempdir()), space)
        draft = Path(tempfile.mkdtemp(prefix=_NEW, dir=directory))
        try:
            _fill(draft, recipe, mode)
            draft.chmod(0o755)
            draft.rename(directory / recipe.name())
            own_files.sync(directory)
        finally:
            shutil.rmtree(draft, ignore_errors=True)
        return read(directory / recipe.name()), True


def check(recipe: Recipe) -> str:
    """Return the mode in which mmdebstrap can work here. Raises Refusal R030 to R033, and R037."""
    foreign = recipe.architecture != os.uname().machine
    for program in (*_PROGRAMS, *(_OF_FOREIGN if foreign else ())):
        if not shutil.which(program):
            raise refuse("R030", program=program, package=program)
    if foreign:
        _emulated(processors.OF_IMAGES[recipe.architecture])
    mode = _mode()
    if not Path(recipe.keyring).is_file():
        raise refuse("R032", path=recipe.keyring, system=recipe.system)
    for source in recipe.sources:
        _deb, address, suite = source.split()[:3]
        _ask(f"{address}/dists/{suite}/InRelease")
    return mode


def _emulated(architecture: str) -> None:
    """See whether programs for another processor start here. Raises Refusal R037."""
    tried = subprocess.run(
        ["arch-test", architecture], capture_output=True, text=True, check=False, timeout=ANSWER_SECONDS
    )
    if tried.returncode:
        raise refuse("R037", architecture=architecture)


def _mode() -> str:
    if os.geteuid() == 0:
        return "root"
    try:
        tried = subprocess.run(
            ["mmdebstrap", "--unshare-helper", "true"],
            capture_output=True,
            text=True,
            check=False,
            timeout=ANSWER_SECONDS,
        )
        detail = "" if tried.returncode == 0 else tried.stderr.strip() or f"mmdebstrap ended with {tried.returncode}"
    except (OSError, subprocess.TimeoutExpired) as error:
        detail = str(error)
    if detail:
        raise refuse("R031", user=getpass.getuser(), detail=detail)
    return "unshare"


def _ask(address: str) -> None:
    """Look whether a mirror has a suite. Raises Refusal R033."""
    try:
        with open_url(address, timeout=ANSWER_SECONDS):
            pass
    except (OSError, ValueError) as error:  # URLError is an OSError
        reason = error.reason if isinstance(error, urllib.error.URLError) else error
        raise refuse("R033", address=address, detail=reason) from error


def _check_space(path: Path, least: int) -> None:
    free = shutil.disk_usage(path).free
    if free < least:
        raise refuse("R036", path=path, detail=f"{free >> 20} MiB are free, and {least >> 20} MiB are needed")


def _fill(draft: Path, recipe: Recipe, mode: str) -> None:
    """Make the files of an image, and bring them to the disk."""
    archive = draft / "tree.tar"
    _run(recipe.command(mode, str(archive)))
    (draft / RECIPE).write_text(recipe.text(), encoding="ascii")
    with tarfile.open(archive, errors="surrogateescape", encoding="utf-8") as tar:
        kernels = [member for member in tar if member.isreg() and _KERNELS.fullmatch(member.name)]
        if len(kernels) != 1:
            raise refuse("R034", detail=f"the tree has {len(kernels)} kernels")
        kernel = tar.extractfile(kernels[0])
        with (draft / KERNEL).open("wb") as out:
            shutil.copyfileobj(kernel, out)  # type: ignore[arg-type]
        (draft / LOADERS).write_text(json.dumps(_loaders(tar), indent=1) + "\n", encoding="ascii")
        _compress(tar, draft / TREE)
    archive.unlink()
    names = (KERNEL, TREE, RECIPE, LOADERS)
    text = "".join(f"{sha256(draft / name)}  {name}\n" for name in names)
    (draft / SUMS).write_text(text, encoding="ascii")
    for name in (*names, SUMS):
        own_files.sync(draft / name)
    own_files.sync(draft)


def _loaders(tar: tarfile.TarFile) -> dict[str, dict[str, int]]:
    found = {}
    for member in tar:
        name = _SIGNED.fullmatch(member.name)
        if name and member.isreg():
            content = tar.extractfile(member).read()  # type: ignore[union-attr]
            try:
                found[name[1]] = sbat.of_loader(content)
            except ValueError as error:
                raise refuse("R034", detail=f"/{name[1]} is no boot loader for Secure Boot: {error}") from error
    return found


def _run(command: list[str]) -> None:
    # What the controller's settings say of its own packages must not reach the tree.
    environment = {"PATH": os.environ.get("PATH", os.defpath), "LC_ALL": "C.UTF-8", "DEBIAN_FRONTEND": "noninteractive"}
    passed = {
        name: os.environ[name] for name in ("http_proxy", "https_proxy", "no_proxy", "TMPDIR") if name in os.environ
    }
    try:
        done = subprocess.run(
            command,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            errors="replace",
            check=False,
            timeout=SECONDS,
            env={**environment, **NO_INITRAMFS, **passed},
        )
    except subprocess.TimeoutExpired as error:
        raise refuse("R034", detail=f"mmdebstrap did not end within {SECONDS} s") from error
    if done.returncode:
        said = [line for line in done.stdout.splitlines() if line.startswith(("E:", "W:"))] or done.stdout.splitlines()
        raise refuse("R034", detail="; ".join(said[:3]) or f"mmdebstrap ended with {done.returncode}")


def _compress(tar: tarfile.TarFile, path: Path) -> None:
    """Write the tree of a tar archive as cpio, in one frame of zstd, which is what a kernel unpacks."""
    with subprocess.Popen(
        ["zstd", "--quiet", "-9", "--threads=0", "--force", "-o", path], stdin=subprocess.PIPE, stderr=subprocess.PIPE
    ) as process:
        if process.stdin is None:
            raise AssertionError  # it is a pipe
        with contextlib.suppress(BrokenPipeError):
            tree_of(tar, process.stdin.write)
            process.stdin.close()
        error = process.stderr.read().decode("utf-8", "replace").strip() if process.stderr else ""
    if process.returncode:
        raise refuse("R036", path=path.parent, detail=error or f"zstd ended with {process.returncode}")


@contextlib.contextmanager
def _writing(directory: Path) -> Iterator[None]:
    try:
        yield
    except OSError as error:
        raise refuse("R036", path=directory, detail=error.strerror or error) from error

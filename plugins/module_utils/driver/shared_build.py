# Copyright (c) 2026 The gpulab founders
# GNU General Public License v3.0+ (see https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""A DKMS build that nodes alike share: what it is made of, how one node packs it, and how another loads it.

DKMS itself packs and loads (mktarball, ldtarball). It signs what it compiles, and nothing that it loads (DKMS 3.0 and
3.2). So the signature of the node that compiled gives way to one by the key of the node that loads.
"""

from __future__ import annotations

import hashlib
import json
import platform
import re
import shutil
import struct
import tempfile
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Callable, NoReturn

from ansible_collections.gpulab.node.plugins.module_utils.core import files
from ansible_collections.gpulab.node.plugins.module_utils.driver import mok

if TYPE_CHECKING:
    from collections.abc import Iterable

    from ansible_collections.gpulab.node.plugins.module_utils.core.node import Node

TARBALL = "build.dkms.tar.gz"
# Of a kernel's headers, what modules are compiled by. Those of all files would be 60 MB.
_HEADERS = (
    ".config",
    ".kernelvariables",
    "Makefile",
    "Module.symvers",
    "include/config/auto.conf",
    "include/generated/autoconf.h",
    "include/generated/compile.h",
    "include/generated/utsrelease.h",
)
_COMPILER = re.compile(r"\b(?:gcc|clang)(?:-\d+)?\b")
# As DKMS 3.2 compresses: the kernel reads xz with no other checksum.
_COMPRESS = {
    ".ko": [],
    ".gz": ["gzip"],
    ".xz": ["xz", "--check=crc32", "--lzma2=dict=1MiB"],
    ".zst": ["zstd", "--rm", "-T0"],
}
_REPLACE = ("-q", "-f")
# Having loaded, ldtarball adds the module to DKMS, and ends with 3 where it is there already.
_LOADED = (0, 3)
# What scripts/sign-file appends: the signature, a struct module_signature, and this.
# https://docs.kernel.org/admin-guide/module-signing.html
_MAGIC = b"~Module signature appended~\n"
_TRAILER = struct.Struct(">5B3xI")  # algorithm, hash, type of the id, length of the signer, of the id, of the signature

Call = Callable[..., tuple[int, str, str]]  # AnsibleModule.run_command


@dataclass(frozen=True)
class ModuleBuild:
    """A version of a module, as DKMS has it, for a kernel."""

    module: str
    version: str
    kernel: str

    @property
    def home(self) -> str:
        """Return where DKMS keeps it."""
        return f"/var/lib/dkms/{self.module}/{self.version}/{self.kernel}"


class NotSharedError(Exception):
    """Why a build is not shared; its text is for people. The node then compiles by itself."""


@dataclass(frozen=True)
class Signer:
    """What signs a module on this node as DKMS would: sign-file, its hash algorithm, the pair of keys."""

    program: str
    algorithm: str
    pair: mok.KeyPair

    def sign(self, call: Call, module: Path) -> None:
        """Append a signature. Raises NotSharedError."""
        argv = [self.program, self.algorithm, self.pair.private, self.pair.certificate, str(module)]
        status, _output, error = call(argv)
        if status != 0 or not module.read_bytes().endswith(_MAGIC):
            _give_up(f"{self.program} does not sign: {error.strip()}")


@dataclass(frozen=True)
class Packed:
    """A build that a node has packed: the file, and its SHA-256."""

    file: Path
    checksum: str


def signer(node: Node, kernel: str, distribution: str) -> Signer | None:
    """Return what signs modules for a kernel; None where DKMS would not sign, or keeps its key in a token."""
    headers = f"/lib/modules/{kernel}/build"
    pair, program = mok.key_pair(node, distribution), f"{headers}/scripts/sign-file"
    if pair.private.startswith("pkcs11:") or not node.exists(program):
        return None
    algorithm = re.search(r'^CONFIG_MODULE_SIG_HASH="(\w+)"', node.text(f"{headers}/.config"), re.MULTILINE)
    return Signer(str(node.path(program)), algorithm[1] if algorithm else "sha512", pair)


def inputs(build: ModuleBuild, call: Call, node: Node, distribution: str) -> dict[str, Any]:
    """Return all that a build depends on: nodes where it is the same build the same modules."""
    headers, source = f"/lib/modules/{build.kernel}/build", f"/var/lib/dkms/{build.module}/{build.version}/source"
    named = {*_COMPILER.findall(node.text(f"{headers}/.kernelvariables") + node.text(f"{headers}/.config")[:1000])}
    return {
        **asdict(build),
        "architecture": platform.machine(),
        "image": _digest([node.path(f"/boot/vmlinuz-{build.kernel}")]),
        "headers": _digest(node.path(f"{headers}/{name}") for name in _HEADERS),
        "types": node.exists(f"{headers}/vmlinux"),  # of BTF, which are made of it
        "compilers": {name: _version(call, name) for name in sorted({*named, "gcc", "ld"})},
        "dkms": [_version(call, "dkms"), _digest([node.path("/usr/sbin/dkms")])],
        "source": _digest_of_tree(node.path(source)),
        "configuration": [
            line
            for path in sorted(node.path("/etc/dkms").rglob("*.conf"))
            for line in files.read(path).splitlines()
            if line.strip() and not line.startswith("#")
        ],
        "signed": signer(node, build.kernel, distribution) is not None,
    }


def digest(inputs: dict[str, Any]) -> str:
    """Return one name for all inputs of a build."""
    return hashlib.sha256(json.dumps(inputs, sort_keys=True).encode()).hexdigest()


def pack(build: ModuleBuild, call: Call, directory: Path) -> Packed:
    """Have DKMS pack a build into TARBALL in a directory. Raises NotSharedError."""
    with tempfile.TemporaryDirectory() as own:  # DKMS would follow a link in a directory of others
        packed, target = Path(own) / TARBALL, directory / TARBALL
        named = ["-m", build.module, "-v", build.version, "-k", build.kernel]
        _run(call, ["dkms", "mktarball", *named, "--binaries-only", "--archive", str(packed)])
        shutil.copyfile(packed, target)
        target.chmod(0o644)
        return Packed(target, files.sha256(packed))


def load(build: ModuleBuild, packed: Packed, call: Call, node: Node, signed_by: Signer | None) -> None:
    """Have DKMS load a build that another node has packed, with signatures of this node. Raises NotSharedError."""
    with tempfile.TemporaryDirectory() as own:
        tarball, top = Path(own) / TARBALL, Path(own) / "build"
        shutil.copyfile(packed.file, tarball)
        if files.sha256(tarball) != packed.checksum:
            _give_up("its checksum is another one")
        top.mkdir()
        _run(call, ["tar", "--extract", "--no-same-owner", "--file", str(tarball), "--directory", str(top)])
        kernels = top / "dkms_main_tree"
        modules = sorted(kernels.glob(f"{build.kernel}/*/module/*.ko*"))
        if not modules or len(list(kernels.glob("*/*"))) != 1:
            _give_up("it has no modules, or others, too")
        modules = [_signed(call, module, signed_by) for module in modules]
        _run(call, ["tar", "--create", "--gzip", "--file", str(tarball), "--directory", str(top), "."])
        wanted = {module.relative_to(kernels / build.kernel): files.sha256(module) for module in modules}
        try:
            _run(call, ["dkms", "ldtarball", "--force", "--archive", str(tarball)], _LOADED)
            _check_loaded(node.path(build.home), wanted)
        except NotSharedError:
            discard(build, node)
            raise


def discard(build: ModuleBuild, node: Node) -> None:
    """Let DKMS have nothing built for a kernel that has the module not installed."""
    shutil.rmtree(node.path(build.home), ignore_errors=True)


def make_key(pair: mok.KeyPair, call: Call, node: Node) -> None:
    """Make the pair of keys as DKMS would at its first build. Raises NotSharedError."""
    if mok.standing(node, pair) == mok.MISSING:
        usage = "".join(call(["dkms", "--help"])[1:])
        environment = {"SHIM_NOTRIGGER": "y", "DEBIAN_FRONTEND": "noninteractive"}
        call(mok.maker(pair, usage), environ_update=environment, umask=0o077)
    if mok.standing(node, pair) in (mok.MISSING, mok.HALF):
        _give_up(f"there is no key {pair.private}")
    node.path(pair.certificate).chmod(0o644)


def unsigned(module: bytes) -> bytes:
    """Return a module without the signatures that were appended to it."""
    while module.endswith(_MAGIC):
        end = len(module) - len(_MAGIC) - _TRAILER.size
        *_kinds, signer_length, id_length, length = _TRAILER.unpack_from(module, end)
        module = module[: end - signer_length - id_length - length]
    return module


def _signed(call: Call, module: Path, signed_by: Signer | None) -> Path:
    """Let the module bear this node's signature and no other. Raises NotSharedError."""
    compress = _COMPRESS.get(module.suffix)
    if compress is None:
        _give_up(f"{module.name} is compressed in an unknown way")
    if compress:
        _run(call, [*compress[:1], *_REPLACE, "-d", str(module)])
    plain = module.with_suffix("") if compress else module
    content = plain.read_bytes()
    if signed_by:
        plain.write_bytes(unsigned(content))
        signed_by.sign(call, plain)
    elif unsigned(content) != content:
        _give_up("the other node signs modules, and this one does not")
    if compress:
        _run(call, [*compress, *_REPLACE, str(plain)])
    return module


def _check_loaded(home: Path, wanted: dict[Path, str]) -> None:
    for name, checksum in wanted.items():
        if not (home / name).is_file() or files.sha256(home / name) != checksum:
            _give_up(f"DKMS did not load {name.name} whole")


def _give_up(why: str) -> NoReturn:
    raise NotSharedError(why)


def _run(call: Call, argv: list[str], right: tuple[int, ...] = (0,)) -> None:
    status, output, error = call(argv)
    if status not in right:
        lines = f"{output}\n{error}".strip().splitlines()
        _give_up(f"{' '.join(argv[:2])}: {lines[-1] if lines else f'status {status}'}")


def _version(call: Call, program: str) -> str:
    status, output, _error = call([program, "--version"])
    return output.partition("\n")[0] if status == 0 else ""


def _digest(paths: Iterable[Path]) -> str:
    """Return one digest for files, some of which may be missing."""
    found = [f"{path.name} {files.sha256(path) if path.is_file() else ''}\n" for path in paths]
    return hashlib.sha256("".join(found).encode()).hexdigest()


def _digest_of_tree(top: Path) -> str:
    """Return one digest for the files and links below a directory."""
    top = top.resolve()
    lines = []
    for path in sorted(top.rglob("*")):
        if path.is_symlink():
            lines.append(f"{path.relative_to(top)} -> {path.readlink()}\n")
        elif path.is_file():
            lines.append(f"{path.relative_to(top)} {path.stat().st_mode & 0o111:o} {files.sha256(path)}\n")
    return hashlib.sha256("".join(lines).encode()).hexdigest()

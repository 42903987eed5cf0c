# Copyright (c) 2026 The gpulab founders
# GNU General Public License v3.0+ (see https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""How DKMS modules stand, read from the tree that DKMS keeps (the same in DKMS 2, 3.0 and 3.2).

<module>/<version>/source                       the version is added
<module>/<version>/<kernel>/<arch>/module/*.ko  it is built for that kernel
<module>/kernel-<kernel>-<arch>                 link to the build that is installed for that kernel
"""

from __future__ import annotations

import re
import time
from pathlib import Path

TREE = Path("/var/lib/dkms")
# Spares the compiler the debugging information that DKMS strips off again; the modules are the same. A kernel whose
# headers have its vmlinux makes types for BPF (BTF) of it before, and does not build without: make asks in each build.
# KCFLAGS: https://docs.kernel.org/kbuild/kbuild.html
ENVIRONMENT = {"KCFLAGS": "$(if $(wildcard $(objtree)/vmlinux),,-g0)"}
ADVICE = "choose a driver branch or kernel modules (open, proprietary) that support this kernel"
STILL = 120.0  # seconds for which a compiler at work may print nothing
_BUILD = re.compile(r"make\.log for (\S+) for kernel (\S+)")
_COMPILER_ERROR = re.compile(r"^.*?: (?:fatal )?error: .*$|^.*undefined reference to .*$", re.MULTILINE)
# A tool that is missing, or does not run; pahole is asked for and not needed.
_TOOL_ERROR = re.compile(
    r"^.*: (?!pahole)[\w.+-]+: (?:command )?not found$|^make.*: \S+: No such file or directory$"
    r"|^.*GLIBC_\S+ not found.*$",
    re.MULTILINE,
)
_BUILD_ERROR = re.compile(r"^(?:ERROR: |\*\*\* |make.*\*\*\* |.*modpost: ).*$", re.MULTILINE)


def first_compiler_error(log: str) -> str:
    """Return the first error of the compiler in a make.log; failing that, of the linker, a tool, modpost or make."""
    match = _COMPILER_ERROR.search(log) or _TOOL_ERROR.search(log) or _BUILD_ERROR.search(log)
    lines = log.strip().splitlines()
    return match[0].strip() if match else (lines[-1].strip() if lines else "its make.log is empty")


def version_key(version: str) -> tuple[tuple[int, str], ...]:
    """Return a key that sorts versions by their numbers."""
    return tuple((int(part), "") if part.isdigit() else (-1, part) for part in re.findall(r"\d+|[a-zA-Z~]+", version))


def added_versions(module: str, tree: Path = TREE) -> list[str]:
    """Return the versions of a module that DKMS knows, oldest first."""
    sources = (source for source in (tree / module).glob("*/source") if source.exists())  # not a link into nothing
    return sorted((source.parent.name for source in sources), key=version_key)


def of_package(package_version: str, added: list[str]) -> str:
    """Return the version that a package brings to DKMS: the added one that its version begins with, else its own."""
    upstream = package_version.rpartition(":")[2]
    found = [version for version in added if re.match(re.escape(version) + r"(?![\w.])", upstream)]
    return found[-1] if found else re.split("[-+~]", upstream)[0]


def state(module: str, version: str, kernel: str, tree: Path = TREE) -> str:
    """Return absent, added, built or installed: how a module version stands for a kernel."""
    build = tree / module / version
    if not (build / "source").exists():
        return "absent"
    installed = [link.resolve() for link in (tree / module).glob(f"kernel-{kernel}-*")]
    if any(path.is_relative_to((build / kernel).resolve()) for path in installed):
        return "installed"
    return "built" if any((build / kernel).glob("*/module/*.ko*")) else "added"


def make_log(module: str, version: str, tree: Path = TREE) -> Path:
    """Return the path at which DKMS leaves the log of a build that failed."""
    return tree / module / version / "build" / "make.log"


def has_headers(kernel: str, modules: Path = Path("/lib/modules")) -> bool:
    """Say whether a kernel's headers are there to build against."""
    return (modules / kernel / "build" / "Makefile").exists()


def compiling(tree: Path = TREE) -> str | None:
    """Say how far the build that is at work has come, in files; None where none is. DKMS itself prints no progress.

    A few of the files may not be compiled for this kernel, so the end can come before the last one.
    """
    for log in tree.glob("*/*/build/make.log"):
        try:
            at_work = abs(time.time() - log.stat().st_mtime) < STILL  # somebody may have set the clock back
            named = _BUILD.search(log.read_text(errors="replace")[:1000]) if at_work else None
        except FileNotFoundError:  # it has ended just now
            continue
        if named:
            names = [path.name.rpartition(".") for path in log.parent.rglob("*.*")]
            sources = {stem for stem, _dot, suffix in names if suffix in ("c", "cpp")}
            objects = {stem for stem, _dot, suffix in names if suffix == "o"}
            done = f"{len(sources & objects)} of {len(sources)} files"
            return f"compiling {named[1].replace('/', ' ')} for kernel {named[2]}: {done}"
    return None

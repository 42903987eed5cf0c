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
from typing import TYPE_CHECKING

from ansible_collections.gpulab.node.plugins.module_utils.core.tool_words import cut, find

if TYPE_CHECKING:
    from ansible_collections.gpulab.node.plugins.module_utils.core.tool_words import Meaning

TREE = Path("/var/lib/dkms")
# Spares the compiler the debugging information that DKMS strips off again; the modules are the same. A kernel whose
# headers have its vmlinux makes types for BPF (BTF) of it before, and does not build without: make asks in each build.
# KCFLAGS: https://docs.kernel.org/kbuild/kbuild.html
# Its errors are read, and so are in English on every node.
ENVIRONMENT = {"KCFLAGS": "$(if $(wildcard $(objtree)/vmlinux),,-g0)", "LC_ALL": "C.UTF-8", "LANGUAGE": ""}
ADVICE = "Choose a driver branch or kernel modules (open, proprietary) that support this kernel"
WORDS = ("dkms", "build")  # the tools whose messages a build may end with
STILL = 120.0  # seconds for which a compiler at work may print nothing
_BUILD = re.compile(r"make\.log for (\S+) for kernel (\S+)")
_KERNEL_TEST = "CONFTEST: "  # one line of the log each
_COMPILER_ERROR = re.compile(r"^.*?: (?:[Ff]atal )?[Ee]rror: .*$|^.*undefined reference to .*$", re.MULTILINE)
# Of what else fails, in the order of what says most: DKMS itself, a tool that is missing (pahole is asked for and not
# needed), modpost and make with a reason; at last the consequences that make counts.
_OTHER_ERRORS = [
    re.compile(pattern, re.MULTILINE)
    for pattern in (
        r"^.*Error! .*(?:\n.+)?",
        r"^.*: (?!pahole)[\w.+/-]+: (?:command )?not found$|^make.*: \S+: No such file or directory$|^awk: .*$",
        r"^(?:ERROR: |FATAL: |\*\*\* |make.*\*\*\* (?!\[)|.*modpost: ).*$",
        r"^make.*\*\*\* .*$",
    )
]
_BAD_BUILD = "Bad return status for module build"


def first_compiler_error(log: str) -> str:
    """Return in one line why a build failed, from its log: what is known, else the first error of the compiler.

    Failing that, of DKMS, of a tool, of modpost or of make.
    """
    log = cut(log)
    known = find(log, *WORDS)
    if known:
        return known.lines[0]
    match = _COMPILER_ERROR.search(log)
    weak = None if match else find(log, *WORDS, weak=True)
    if weak:
        return weak.lines[0]
    match = match or next(filter(None, (pattern.search(log) for pattern in _OTHER_ERRORS)), None)
    lines = match[0].split("\n") if match else log.strip().splitlines()[-1:] or ["its make.log is empty"]
    return " ".join(line.strip() for line in lines)


def failure(said: str, log: str) -> str:
    """Return in one line why DKMS failed: by what it compiled, or by its own words where it did not come to that.

    said is what DKMS printed, log its make.log, which may be that of an earlier build.
    """
    return first_compiler_error(log if log and (_BAD_BUILD in said or not said.strip()) else said)


def told(error: str, otherwise: str = ADVICE) -> dict[str, str]:
    """Return {error, way}: an error with what is behind it, and what cures that, without a full stop.

    otherwise is the way where nothing is known of the error.
    """
    known = _known(error)
    if not known:
        return {"error": error, "way": otherwise}
    return {"error": f"{error.rstrip('.')}. Known cause: {known.cause}", "way": known.remedy}


def is_of_node(error: str) -> bool:
    """Tell whether an error is known to have a cause that is mended on the node, with the driver as it is."""
    known = _known(error)
    return known is not None and not known.message.driver


def _known(error: str) -> Meaning | None:
    return find(error, *WORDS) or find(error, *WORDS, weak=True)


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

    Before its first file, NVIDIA's build tests for minutes what the kernel offers: then it is those tests that count.
    A few of the files may not be compiled for this kernel, so the end can come before the last one. The build makes and
    removes directories all the time: one that goes while they are read leaves the answer to the next time.
    """
    try:
        for log in tree.glob("*/*/build/make.log"):
            at_work = abs(time.time() - log.stat().st_mtime) < STILL  # somebody may have set the clock back
            named = _BUILD.search(log.read_text(errors="replace")[:1000]) if at_work else None
            if named:
                names = [path.name.rpartition(".") for path in log.parent.rglob("*.*")]
                sources = {stem for stem, _dot, suffix in names if suffix in ("c", "cpp")}
                objects = {stem for stem, _dot, suffix in names if suffix == "o"}
                tests = 0 if sources & objects else log.read_text(errors="replace").count(_KERNEL_TEST)
                done = f"{tests} tests of the kernel" if tests else f"{len(sources & objects)} of {len(sources)} files"
                return f"compiling {named[1].replace('/', ' ')} for kernel {named[2]}: {done}"
    except FileNotFoundError:
        return None
    return None

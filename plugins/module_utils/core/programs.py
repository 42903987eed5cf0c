# Copyright (c) 2026 The gpulab founders
# GNU General Public License v3.0+ (see https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""gpulab's own code as a program that stays on a node, compiled, so that no start of it compiles 20 files.

Programs run with -B: what is compiled is written here alone, whole or not at all. Python passes over a compiled file
whose source is another one by now, and looks for it by another name after an upgrade of its own.
"""

from __future__ import annotations

import contextlib
import inspect
import os
import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

PACKAGE = "ansible_collections"
OWN = f"{PACKAGE}.gpulab.node.plugins.module_utils."
PYTHON = "/usr/bin/python3"  # the node's, with which it runs its programs
SECONDS = 120
# As py_compile does it, but on the disk before it has its name.
COMPILE = """
import importlib.util, marshal, os, struct, sys
os.umask(0o022)
for path in sys.stdin.read().splitlines():
    target = importlib.util.cache_from_source(path)
    with open(path, "rb") as stream:
        text, status = stream.read(), os.fstat(stream.fileno())
    stamp = importlib.util.MAGIC_NUMBER + struct.pack("<III", 0, int(status.st_mtime), status.st_size)
    if os.path.exists(target):
        with open(target, "rb") as stream:
            if stream.read(len(stamp)) == stamp:
                continue
    os.makedirs(os.path.dirname(target), exist_ok=True)
    with open(target + ".new", "wb") as stream:
        stream.write(stamp + marshal.dumps(compile(text, path, "exec", dont_inherit=True)))
        stream.flush()
        os.fsync(stream.fileno())
    os.replace(target + ".new", target)
"""


def write_imported(directory: Path) -> None:
    """Write all of gpulab that this process has imported from module_utils into a directory, compiled.

    Raises OSError where it cannot be written.
    """
    umask = os.umask(0o022)  # root runs it, so nobody else may write there, whatever the session says
    try:
        sources = [path for name in list(sys.modules) if name.startswith(OWN) for path in _written(name, directory)]
    finally:
        os.umask(umask)
    compile_for({sys.executable, PYTHON}, dict.fromkeys(sources))


def _written(name: str, directory: Path) -> Iterator[Path]:
    """Write a module and what makes its directories packages, and yield their paths."""
    module = sys.modules[name]
    if hasattr(module, "__path__"):  # a package has no code of its own
        return
    path = directory.joinpath(*name.split(".")).with_suffix(".py")
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(inspect.getsource(module), encoding="utf-8")
    yield path
    for package in list(path.relative_to(directory).parents)[:-1]:  # else one that is installed would come first
        (directory / package / "__init__.py").touch()
        yield directory / package / "__init__.py"


def compile_own(paths: Iterable[str]) -> None:
    """Compile those of a program's files that are gpulab's modules, for the Python of the node."""
    own = [Path(path) for path in paths if path.endswith(".py") and PACKAGE in Path(path).parts]
    compile_for({PYTHON}, [path for path in own if path.is_file()])


def compile_for(pythons: Iterable[str], sources: Iterable[Path]) -> None:
    """Compile sources for each of these interpreters, where that is not done. Without it they only start later."""
    text = "".join(f"{path}\n" for path in sources)
    for python in {os.path.realpath(python) for python in pythons if text}:
        with contextlib.suppress(OSError, subprocess.SubprocessError):
            subprocess.run(
                [python, "-I", "-c", COMPILE], input=text, text=True, capture_output=True, timeout=SECONDS, check=False
            )

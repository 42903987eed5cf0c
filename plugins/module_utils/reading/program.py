# Copyright (c) 2026 The gpulab founders
# GNU General Public License v3.0+ (see https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The program that reads a node's facts, left there compiled: a run that finds it brings only what it asks.

It lies in a directory that is named by a digest of its source, which the controller makes, and belongs to root. The
module gpu_facts brings 0.5 MB with each call, which each run packs, sends, unpacks and compiles again.
"""

from __future__ import annotations

import compileall
import os
import shutil
import sys
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator

PLACE = Path("/var/lib/gpulab/program")
PACKAGE = "ansible_collections"
# What python3 -I -c is given; the directory follows, what is asked comes on standard input.
COMMAND = (
    "import json,sys;"
    "sys.path.insert(0,sys.argv[1]);"
    "from ansible_collections.gpulab.node.plugins.module_utils.reading.look import look;"
    "print(json.dumps(look(**json.load(sys.stdin)),default=str))"
)


def keep(digest: str, place: Path = PLACE) -> None:
    """Leave the program that runs now on the node, in place of others, where it is not there and the disk has room.

    One that is there may have lost its content where the power went off before the disk had it.
    """
    code = dict(_code())
    if not _has(place / digest, code):
        shutil.rmtree(place, ignore_errors=True)
        umask = os.umask(0o022)  # root runs it, so nobody else may write there, whatever the session says
        try:
            _write(place / f".{digest}.new", code)
            (place / f".{digest}.new").rename(place / digest)
        except OSError:
            pass
        finally:
            os.umask(umask)


def _code() -> Iterator[tuple[str, bytes]]:
    """Yield the files of the program that runs now, and what is in them."""
    for name, module in list(sys.modules.items()):
        file, loader = getattr(module, "__file__", None), getattr(module, "__loader__", None)
        if not (file and loader) or name.split(".")[0] != PACKAGE or not hasattr(loader, "get_data"):
            continue
        yield name.replace(".", "/") + ("/__init__.py" if hasattr(module, "__path__") else ".py"), loader.get_data(file)


def _has(directory: Path, code: dict[str, bytes]) -> bool:
    try:
        return all((directory / path).read_bytes() == content for path, content in code.items())
    except OSError:
        return False


def _write(new: Path, code: dict[str, bytes]) -> None:
    for name, content in code.items():
        path = new / name
        path.parent.mkdir(mode=0o755, parents=True, exist_ok=True)
        path.write_bytes(content)
    compileall.compile_dir(str(new), quiet=2)

# Copyright (c) 2026 The gpulab founders
# GNU General Public License v3.0+ (see https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The program that reads a node's facts, left there compiled: a run that finds it brings only what it asks.

It lies in a directory that is named by a digest of its source, which the controller makes, and belongs to root. The
module gpu_facts brings 0.5 MB with each call, which each run packs, sends, unpacks and compiles again.
"""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import Any

from ansible_collections.gpulab.node.plugins.module_utils.core import programs, run_lock

# The options of gpu_facts, which the program is asked by, too.
ARGUMENTS: dict[str, dict[str, Any]] = {
    "timeout": {"type": "int", "default": 5},
    "work": {
        "type": "str",
        "choices": [run_lock.LOOK, run_lock.BEGIN, run_lock.GO_ON, run_lock.END],
        "default": run_lock.GO_ON,
    },
    "run": {"type": "dict"},
    "kernel_values": {"type": "list", "elements": "str", "default": []},
    "own_paths": {"type": "list", "elements": "str", "default": []},
    "dead": {"type": "dict"},
    "program": {"type": "str"},
}
PLACE = Path("/var/lib/gpulab/program")
# What python3 -I -c is given; the directory follows, what is asked comes on standard input.
COMMAND = (
    "import json,sys;"
    "sys.path.insert(0,sys.argv[1]);"
    "from ansible_collections.gpulab.node.plugins.module_utils.reading.look import look;"
    "print(json.dumps(look(**json.load(sys.stdin)),default=str))"
)


def keep(digest: str, place: Path = PLACE) -> None:
    """Leave the program that runs now on the node, in place of any other, where the disk has room.

    One of the same digest did not answer: a power cut or a full disk may have left half of it.
    """
    shutil.rmtree(place, ignore_errors=True)
    try:
        programs.write_imported(place / f".{digest}.new")
        (place / f".{digest}.new").rename(place / digest)
    except OSError:
        shutil.rmtree(place, ignore_errors=True)

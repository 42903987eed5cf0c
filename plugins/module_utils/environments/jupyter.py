# Copyright (c) 2026 The gpulab founders
# GNU General Public License v3.0+ (see https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Jupyter kernels of environments: the files by which every Jupyter of the node finds them. No I/O happens here.

A kernel is the directory KIND-NAME with a kernel.json in it, where Jupyter looks for those of the whole system
(https://jupyter-client.readthedocs.io/en/stable/kernels.html#kernel-specs).
"""

from __future__ import annotations

import json
from pathlib import PurePath

from ansible_collections.gpulab.node.plugins.module_utils.core.refusals.environments import refuse

DIRECTORY = "/usr/local/share/jupyter/kernels"
FILE = "kernel.json"
PACKAGE = "ipykernel"  # what an environment needs to be one
PREFIX_VARIABLES = {"venv": "VIRTUAL_ENV", "conda": "CONDA_PREFIX"}


def text(kind: str, prefix: str) -> str:
    """Return the kernel.json of the environment at prefix; its programs are found as after activating it."""
    content = {
        "argv": [f"{prefix}/bin/python", "-m", "ipykernel_launcher", "-f", "{connection_file}"],
        "display_name": f"{PurePath(prefix).name} ({kind})",
        "language": "python",
        "env": {"PATH": f"{prefix}/bin:${{PATH}}", PREFIX_VARIABLES[kind]: prefix},
        "metadata": {"debugger": True, "gpulab": kind},
    }
    return json.dumps(content, indent=1) + "\n"


def is_ours(found: str, kind: str) -> bool:
    """Tell whether the text of a kernel.json is gpulab's, for an environment of this kind."""
    try:
        return bool(json.loads(found)["metadata"]["gpulab"] == kind)
    except (ValueError, KeyError, TypeError):
        return False


def plan(kind: str, prefixes: list[str], present: dict[str, str]) -> dict[str, str | None]:
    """Return the files that change, by the names of their kernels: the text of each; None means no file.

    prefixes are those of the environments that shall be kernels; present has the text of each kernel.json that is
    there. Raises Refusal E021 for one that would have to change and is not gpulab's.
    """
    wanted = {f"{kind}-{PurePath(prefix).name}": text(kind, prefix) for prefix in prefixes}
    for name in wanted:
        if name in present and not is_ours(present[name], kind):
            raise refuse("E021", path=f"{DIRECTORY}/{name}/{FILE}")
    gone = {name: None for name, found in present.items() if name not in wanted and is_ours(found, kind)}
    return {**{name: new for name, new in wanted.items() if present.get(name) != new}, **gone}

#!/usr/bin/python
# Copyright (c) 2026 The gpulab founders
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Move CUDA aside that somebody put on a node beside packages."""

from __future__ import annotations

DOCUMENTATION = r"""
module: cuda_strays
short_description: Move aside CUDA toolkits and libraries that no package brought
version_added: 1.0.0
description:
  - Renames each directory or file named into the directory C(.gpulab-strays) beside it. This takes no room and loses
    nothing. C(mv) brings it back, and so does O(restore).
  - Is refused before the first change where one of them is in use, is not CUDA, belongs to a package or the plan, is a
    mount or a link, or where a file of the system or a link still leads to it.
  - Of packages, it only says whether they may go. M(gpulab.node.packages) removes them.
options:
  names:
    description: The strays by their exact names, paths and packages.
    type: list
    elements: str
    default: []
  keeps:
    description: Directories and packages that the plan has, which do not go.
    type: list
    elements: str
    default: []
  links:
    description: Links that are pointed elsewhere before the strays are moved.
    type: list
    elements: str
    default: []
  judge:
    description: Whether to say only whether they may go, and change nothing.
    type: bool
    default: false
  restore:
    description: Whether to put back what was moved aside instead, as far as nothing else is in its place.
    type: bool
    default: false
extends_documentation_fragment: gpulab.node.attributes
attributes:
  check_mode:
    description: Nothing is moved.
  diff_mode:
    description: There is nothing to compare.
requirements:
  - root
"""

EXAMPLES = r"""
- name: Move aside a toolkit of a .run file
  gpulab.node.cuda_strays:
    names: [/usr/local/cuda-11.8, /etc/ld.so.conf.d/cuda-11-8.conf]
"""

RETURN = r"""
changes:
  description: What changed, or would change in check mode, as M(gpulab.node.preview) shows it.
  returned: success
  type: list
  elements: dict
  sample: [{action: delete, what: "/usr/local/cuda-11.8 (kept as /usr/local/.gpulab-strays/cuda-11.8)"}]
refusal:
  description: Code, cause and remedy.
  returned: on failure
  type: dict
"""

from typing import Any

from ansible_collections.gpulab.node.plugins.module_utils.core import evidence
from ansible_collections.gpulab.node.plugins.module_utils.core.changes import changes
from ansible_collections.gpulab.node.plugins.module_utils.core.module import Module, run
from ansible_collections.gpulab.node.plugins.module_utils.core.node import Node
from ansible_collections.gpulab.node.plugins.module_utils.cuda.strays import Strays


def operate(module: Module) -> dict[str, Any]:
    """Judge, move or put back. Raises Refusal C006 to C010."""
    params = module.params
    strays = Strays(Node(), module.run_command, params["names"])
    if params["restore"]:
        return _restore(module, strays)
    strays.judge(params["keeps"], params["links"])
    if params["judge"]:
        return {"changes": []}
    evidence.note(module, file=strays.paths, package=strays.packages)
    found = strays.there()
    told = [f"{path} (kept as {strays.aside(path)})" for path in found]
    for path in [] if module.check_mode else found:
        strays.move(path)
    return {"changed": bool(found), "changes": changes(delete=told)}


def _restore(module: Module, strays: Strays) -> dict[str, Any]:
    found = strays.returnable()
    for place, path in [] if module.check_mode else found.items():
        strays.put_back(place, path)
    return {
        "changed": bool(found),
        "changes": changes(make=[f"{path} (from {place})" for place, path in found.items()]),
    }


def main() -> None:
    """Parse, operate, report."""
    names = {"type": "list", "elements": "str", "default": []}
    module = Module(
        argument_spec={
            "names": names,
            "keeps": names,
            "links": names,
            "judge": {"type": "bool", "default": False},
            "restore": {"type": "bool", "default": False},
        },
        supports_check_mode=True,
    )
    run(module, operate)


if __name__ == "__main__":
    main()

#!/usr/bin/python
# Copyright (c) 2026 The gpulab founders
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The node's half of making CUDA toolkits of NVIDIA's wheels. Fetching them is a long step."""

from __future__ import annotations

DOCUMENTATION = r"""
module: cuda_wheels
short_description: Keep CUDA toolkits that are made of NVIDIA's wheels
version_added: 1.0.0
description:
  - Has pip fetch the wheels named, each by its SHA-256, and puts what is in them where NVIDIA's packages have it,
    C(/usr/local/cuda-X.Y), with the names C(lib64) and C(lib*.so) that those packages have.
  - A toolkit is made again where other wheels are wanted, or where a file is not as its wheel has it. When fetching
    fails, the former one is still there.
  - Toolkits that were made of wheels and are not named go. Those of packages are left alone.
  - Fetching runs as a long step (see M(gpulab.node.long_step)). pip takes its index, proxy and certificates from the
    node's C(pip.conf), and proxies from the task's environment.
  - The wheels are NVIDIA's, under the licence of the CUDA toolkit, which comes with each in C(gpulab-wheels).
options:
  toolkits:
    description:
      - The toolkits that shall be there, as C(cuda.toolkits) of the plan has them, C(version) and C(wheels) each. A
        wheel has C(name), C(version) and C(sha256).
    type: list
    elements: dict
    required: true
  index_url:
    description: Address of the package index. Unset takes that of pip.
    type: str
  replaced:
    description: Whether packages that still have their toolkit there will be gone by then, as in check mode.
    type: bool
    default: false
  timeout:
    description: Seconds after which fetching is stopped.
    type: int
    default: 3600
  operation:
    description: What the action plugin asks of the node. Leave it out.
    type: str
    choices: [look, fetch, finish, remove]
    default: look
  only:
    description: The version that it asks this for. Leave it out.
    type: str
extends_documentation_fragment: gpulab.node.attributes
attributes:
  check_mode:
    description: Nothing is fetched.
  diff_mode:
    description: There is nothing to compare.
requirements:
  - pip for the node's Python
  - systemd as the first process of the node
  - root
"""

EXAMPLES = r"""
- name: Make the planned toolkits
  gpulab.node.cuda_wheels:
    toolkits: "{{ ansible_facts['gpulab_plan'].cuda.toolkits }}"
"""

RETURN = r"""
changes:
  description: What changed, or would change in check mode, as M(gpulab.node.preview) shows it.
  returned: success
  type: list
  elements: dict
  sample: [{action: make, what: "CUDA 13.0 of wheels (it does not exist)"}]
refusal:
  description: Code, cause and remedy.
  returned: on failure
  type: dict
"""

from typing import Any

from ansible_collections.gpulab.node.plugins.module_utils.core import evidence
from ansible_collections.gpulab.node.plugins.module_utils.core.changes import changes
from ansible_collections.gpulab.node.plugins.module_utils.core.module import Module, run
from ansible_collections.gpulab.node.plugins.module_utils.cuda import wheels
from ansible_collections.gpulab.node.plugins.module_utils.environments import builds


def look(module: Module, toolkits: wheels.WheelToolkits, wanted: dict[str, wheels.WantedToolkit]) -> dict[str, Any]:
    """Say what is to do. Raises Refusal C004."""
    reasons = {version: toolkits.reasons(one, replaced=module.params["replaced"]) for version, one in wanted.items()}
    todo = {version: because for version, because in reasons.items() if because}
    gone = [version for version in toolkits.versions() if version not in wanted]
    kept = [toolkits.prefix(version) / name for version in wanted for name in (wheels.RECORD, wheels.PROGRAM)]
    evidence.note(module, file=map(str, kept))
    if not todo and not module.check_mode:
        toolkits.clean()
    return {
        "changed": bool(todo or gone),
        "changes": changes(
            make=[f"CUDA {version} of wheels ({because[0]})" for version, because in todo.items()],
            delete=[f"CUDA {version} of wheels" for version in gone],
        ),
        **({} if module.check_mode else {"todo": list(todo), "gone": gone}),
    }


def operate(module: Module) -> dict[str, Any]:
    """Carry out the wanted operation; raises Refusal."""
    params, toolkits = module.params, wheels.WheelToolkits()
    wanted = {
        one["version"]: wheels.WantedToolkit(one["version"], wheels.requirements(one["wheels"]))
        for one in params["toolkits"]
    }
    if params["operation"] == "fetch":
        settings = {**builds.MESSAGES, **builds.proxies()}
        return {"argv": toolkits.fetch(wanted[params["only"]], params["index_url"], settings)}
    if params["operation"] == "finish":
        toolkits.finish(wanted[params["only"]])
        return {}
    if params["operation"] == "remove":
        toolkits.remove(params["only"], module.run_command)
        return {}
    return look(module, toolkits, wanted)


def main() -> None:
    """Parse, operate, report."""
    module = Module(
        argument_spec={
            "toolkits": {"type": "list", "elements": "dict", "required": True},
            "index_url": {"type": "str", "no_log": True},
            "replaced": {"type": "bool", "default": False},
            "timeout": {"type": "int", "default": 3600},
            "operation": {"type": "str", "choices": ["look", "fetch", "finish", "remove"], "default": "look"},
            "only": {"type": "str"},
        },
        supports_check_mode=True,
    )
    run(module, operate)


if __name__ == "__main__":
    main()

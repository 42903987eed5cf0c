#!/usr/bin/python
# Copyright (c) 2026 The gpulab founders
# GNU General Public License v3.0+ (see https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Record on the node what a role has brought it to."""

from __future__ import annotations

DOCUMENTATION = r"""
module: receipt
short_description: Record on the node what a role has brought it to
version_added: 1.0.0
description:
  - The last task of each role. It records what the role worked from (its settings, the plan, the hardware, this
    version of gpulab), what of the plan a proof compares the node with, and what the role answers for on the node.
    gpulab's modules note that while they work; the options add the rest.
  - The receipt counts once the run has read the facts of the node at its end
    (O(gpulab.node.gpu_facts#module:work=end)). The next run reads what the receipt names, and leaves the role out where
    nothing differs.
  - In check mode, nothing is recorded. Without a plan of the node, the receipt of an earlier run is removed, so that
    the next run with a plan does the role again. The playbook that removes the roles removes their receipts.
options:
  role:
    description: Name of the role.
    type: str
    required: true
  files:
    description: Files, links and directories that it keeps by Ansible's own modules.
    type: list
    elements: path
    default: []
  units:
    description: Units of systemd that it enables or disables.
    type: list
    elements: str
    default: []
  running:
    description: Units of systemd that it keeps running.
    type: list
    elements: str
    default: []
  facts:
    description: Sections of the facts that it decides by.
    type: list
    elements: str
    default: []
  inputs:
    description: Digests of what the role worked from. The action plugin sets it. Leave it out.
    type: dict
  plan:
    description: What the plan decided of it, with which a proof compares. The action plugin sets it. Leave it out.
    type: dict
    default: {}
  state:
    description:
      - V(begun) keeps what the role answers for until its receipt is written, which comes after other roles.
      - The action plugin sets V(absent).
    type: str
    choices: [present, begun, absent]
    default: present
extends_documentation_fragment: gpulab.node.attributes
attributes:
  check_mode:
    description: Records nothing.
"""

EXAMPLES = r"""
- name: Write the receipt
  gpulab.node.receipt:
    role: nouveau
    facts: [kernels, nouveau]
"""

RETURN = r"""
items:
  description: What the role answers for.
  returned: where it was recorded
  type: list
  elements: str
  sample: ["file:/etc/modprobe.d/gpulab-nouveau.conf"]
"""

from typing import Any

from ansible.module_utils.basic import AnsibleModule
from ansible_collections.gpulab.node.plugins.module_utils.core import evidence
from ansible_collections.gpulab.node.plugins.module_utils.core.module import run
from ansible_collections.gpulab.node.plugins.module_utils.receipts import store


def record(module: AnsibleModule) -> dict[str, Any]:
    """Write the receipt, or remove it. Raises Refusal H220 and H221."""
    params = module.params
    if module.check_mode or (params["state"] == "present" and not params["inputs"]):
        return {}
    if params["state"] == "begun":
        evidence.set_aside(params["role"])
        return {}
    noted = evidence.take(params["role"])
    if params["state"] == "absent":
        store.remove(params["role"])
        return {}
    kinds = {"file": "files", "unit": "units", "running": "running", "fact": "facts"}
    items = sorted({*noted, *(f"{kind}:{name}" for kind, option in kinds.items() for name in params[option])})
    store.write(params["role"], params["inputs"], params["plan"], items)
    return {"items": items}


def main() -> None:
    """Parse, record."""
    names: dict[str, Any] = {"type": "list", "elements": "str", "default": []}
    module = AnsibleModule(
        argument_spec={
            "role": {"type": "str", "required": True},
            "files": {**names, "elements": "path"},
            "units": names,
            "running": names,
            "facts": names,
            "inputs": {"type": "dict"},
            "plan": {"type": "dict", "default": {}},
            "state": {"type": "str", "choices": ["present", "begun", "absent"], "default": "present"},
        },
        supports_check_mode=True,
    )
    run(module, record)


if __name__ == "__main__":
    main()

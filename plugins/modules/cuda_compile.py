#!/usr/bin/python
# Copyright (c) 2026 The gpulab founders
# GNU General Public License v3.0+ (see https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Have each CUDA toolkit of a node compile and link a small program."""

from __future__ import annotations

DOCUMENTATION = r"""
module: cuda_compile
short_description: Compile and link a small program with each CUDA toolkit
version_added: 0.2.0
description:
  - Runs nvcc of each toolkit over a small C++ program with one kernel, for the compute capabilities of the node's GPUs,
    and returns what came of it as the fact C(gpulab_cuda_compiled), which M(gpulab.node.verify) judges.
  - The program is not run, and no GPU is touched. Nothing is left on the node.
  - Does not fail where a toolkit does.
options:
  toolkits:
    description:
      - The toolkits, as C(cuda.toolkits) of the plan or of the facts has them, C(version) and C(prefix) each;
        C(host_compiler) names the compiler that nvcc shall take, unset leaves it to nvcc.
    type: list
    elements: dict
    required: true
  compute_capabilities:
    description: What to compile for, such as V(8.9). Empty means nvcc's own default.
    type: list
    elements: str
    default: []
  timeout:
    description: Seconds that each nvcc may take.
    type: int
    default: 120
extends_documentation_fragment: gpulab.node.attributes.facts
"""

EXAMPLES = r"""
- name: Compile for the GPUs with every planned toolkit
  gpulab.node.cuda_compile:
    toolkits: "{{ ansible_facts['gpulab_plan'].cuda.toolkits }}"
    compute_capabilities: "{{ ansible_facts['gpulab_plan'].cuda.compute_capabilities }}"
"""

RETURN = r"""
ansible_facts:
  description: What came of it.
  returned: always
  type: dict
  contains:
    gpulab_cuda_compiled:
      description: One record for each toolkit; C(problem) is null where it compiled and linked.
      returned: always
      type: list
      elements: dict
      sample:
        - {version: "12.4", prefix: /usr, compute_capabilities: ["8.0"], seconds: 2.6, problem: null}
"""

from pathlib import Path

from ansible.module_utils.basic import AnsibleModule
from ansible_collections.gpulab.node.plugins.module_utils.cuda import nvcc


def main() -> None:
    """Compile with one toolkit after the other, and return what came of it."""
    module = AnsibleModule(
        argument_spec={
            "toolkits": {"type": "list", "elements": "dict", "required": True},
            "compute_capabilities": {"type": "list", "elements": "str", "default": []},
            "timeout": {"type": "int", "default": 120},
        },
        supports_check_mode=True,
    )
    params = module.params
    compiled = [
        nvcc.compile_with(toolkit, params["compute_capabilities"], Path(module.tmpdir), params["timeout"])
        for toolkit in params["toolkits"]
    ]
    module.exit_json(changed=False, ansible_facts={"gpulab_cuda_compiled": compiled})


if __name__ == "__main__":
    main()

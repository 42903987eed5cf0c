#!/usr/bin/python
# Copyright (c) 2026 The gpulab founders
# GNU General Public License v3.0+ (see https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Run one all_reduce over the nodes of a play."""

from __future__ import annotations

DOCUMENTATION = r"""
module: nodes_all_reduce
short_description: Run one all_reduce over the nodes of a play
version_added: 1.0.0
description:
  - All nodes of the play that M(gpulab.node.gpu_tests) found able run one all_reduce by the PyTorch of each, started by
    torchrun, with the start line of the role C(nccl) where a node has it. The result is compared exactly, the bus
    bandwidth measured.
  - By NCCL on all GPUs that are idle and compute right. Where no node has a GPU, or they are simulated, by Gloo on the
    processors, one process a node; that shows the way between the nodes, and nothing of GPUs.
  - The nodes meet at the first one, at the address of the interface that NCCL's settings name. They call the roll
    before they begin, so a node that cannot come is named, and the others do not wait for it.
  - Never hangs; each part has a deadline. Changes nothing, and judges nothing; M(gpulab.node.verify) does that.
options:
  port:
    description: The TCP port of the first node at which all others come to it. Their data takes ports of its own.
    type: int
    default: 23457
  timeout:
    description: Seconds that the nodes wait for each other.
    type: float
    default: 60
  program_timeout:
    description: Seconds that the all_reduce may take, from the start of PyTorch on.
    type: float
    default: 180
  run:
    description: What tells this run from another one at the same time.
    type: str
    default: gpulab-verify
  among:
    description: Hosts of the play that may take part, in their order. Unset means all.
    type: list
    elements: str
  nodes:
    description: Set by gpulab itself.
    type: list
    elements: str
  name:
    description: Set by gpulab itself.
    type: str
  backend:
    description: Set by gpulab itself.
    type: str
  address:
    description: Set by gpulab itself.
    type: str
  own_address:
    description: Set by gpulab itself.
    type: str
  interface:
    description: Set by gpulab itself.
    type: str
  python:
    description: Set by gpulab itself.
    type: path
  gpus:
    description: Set by gpulab itself.
    type: list
    elements: str
  taking_part:
    description: Set by gpulab itself.
    type: dict
extends_documentation_fragment: [gpulab.node.attributes.facts, gpulab.node.attributes.platform]
attributes:
  check_mode:
    support: none
    description: It would load the GPUs and the network all the same, so it is skipped.
notes:
  - Run it with C(async) and C(poll=0), as C(playbooks/verify.yml) does. The nodes wait for each other, so all of them
    must be started, however many Ansible serves at a time.
seealso:
  - module: gpulab.node.gpu_tests
  - module: gpulab.node.verify
"""

EXAMPLES = r"""
- name: Start one all_reduce over all nodes
  gpulab.node.nodes_all_reduce:
    port: 23457
  async: 600
  poll: 0
  register: started
"""

RETURN = r"""
ansible_facts:
  description: What came of it on this node, below the key C(gpulab_nodes_all_reduce).
  returned: always
  type: dict
  contains:
    gpulab_nodes_all_reduce:
      description:
        - "C(state) is V(done), V(failed), V(late), V(missing) (other nodes, named with the reason in C(missing)),
          V(unreachable) (the first node, from this one), or V(skipped) with the C(reason)."
        - "C(backend), C(nodes), C(meeting_point), C(interface), C(taking_part) (how many GPUs of each node take part,
          and how many it has; empty without NCCL), and of a run that is done C(processes), C(bytes), C(wrong),
          C(algorithm_gbs) and the bus bandwidth C(all_reduce_gbs), in GB/s (10^9 bytes), with that of the slowest and
          of the fastest run, C(lowest_gbs) and C(highest_gbs)."
      returned: always
      type: dict
"""

from ansible.module_utils.basic import AnsibleModule
from ansible_collections.gpulab.node.plugins.module_utils.active.nodes_all_reduce import Part, measure


def main() -> None:
    """Take part."""
    module = AnsibleModule(
        argument_spec={
            "port": {"type": "int", "default": 23457},
            "timeout": {"type": "float", "default": 60},
            "program_timeout": {"type": "float", "default": 180},
            "run": {"type": "str", "default": "gpulab-verify"},
            "among": {"type": "list", "elements": "str"},  # the action's own
            "nodes": {"type": "list", "elements": "str"},
            "name": {"type": "str"},
            "backend": {"type": "str"},
            "address": {"type": "str"},
            "own_address": {"type": "str"},
            "interface": {"type": "str"},
            "python": {"type": "path"},
            "gpus": {"type": "list", "elements": "str"},
            "taking_part": {"type": "dict"},
        }
    )
    wanted = dict(module.params)
    del wanted["among"]
    part = Part(
        seconds=wanted.pop("timeout"),
        program_seconds=wanted.pop("program_timeout"),
        nodes=tuple(wanted.pop("nodes") or ()),
        gpus=tuple(wanted.pop("gpus") or ()),
        taking_part=wanted.pop("taking_part") or {},
        **wanted,
    )
    module.exit_json(changed=False, ansible_facts={"gpulab_nodes_all_reduce": measure(part)})


if __name__ == "__main__":
    main()

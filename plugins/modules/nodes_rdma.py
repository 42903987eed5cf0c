#!/usr/bin/python
# Copyright (c) 2026 The gpulab founders
# GNU General Public License v3.0+ (see https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Send RDMA between pairs of the nodes of a play."""

from __future__ import annotations

DOCUMENTATION = r"""
module: nodes_rdma
short_description: Send RDMA between pairs of the nodes of a play
version_added: 1.1.0
description:
  - The nodes of the play that have InfiniBand or RoCE in use are pairs, each node with the one before and the one after
    it. Over each port that both have, C(ib_write_bw) of perftest measures the bandwidth both ways, and C(ib_send_lat)
    the latency, between their host memories.
  - All nodes meet at the first one. A pair then talks at the same port of one of the two; perftest's servers listen at
    the node's own address, at an ephemeral port each, for the seconds of one measurement. Nothing listens afterwards.
  - RoCE takes the address of RoCE v2 with IPv4, or the one that C(NCCL_IB_GID_INDEX) names on the node.
  - A node whose GPUs are in use takes no part, because the traffic would slow that work down.
  - Never hangs; each part has a deadline. Changes nothing, and judges nothing; M(gpulab.node.verify) does that.
options:
  port:
    description: The TCP port at which nodes come to each other.
    type: int
    default: 23457
  timeout:
    description: Seconds that the nodes wait for each other.
    type: float
    default: 60
  program_timeout:
    description: Seconds that one measurement may take.
    type: float
    default: 30
  run:
    description: What tells this run from another one at the same time.
    type: str
    default: gpulab-verify
  nodes:
    description: Set by gpulab itself.
    type: list
    elements: str
  name:
    description: Set by gpulab itself.
    type: str
  address:
    description: Set by gpulab itself.
    type: str
  own_address:
    description: Set by gpulab itself.
    type: str
  rails:
    description: Set by gpulab itself.
    type: list
    elements: dict
  rounds:
    description: Set by gpulab itself.
    type: list
    elements: raw
extends_documentation_fragment: [gpulab.node.attributes.facts, gpulab.node.attributes.platform]
attributes:
  check_mode:
    support: none
    description: It would load the network all the same, so it is skipped.
notes:
  - Run it with C(async) and C(poll=0), as C(playbooks/verify.yml) does. The nodes wait for each other, so all of them
    must be started, however many Ansible serves at a time.
  - A firewall has to let the nodes reach O(port) and the ephemeral ports of each other by TCP, as the role C(network)
    does. The data of cards passes no firewall of the node; that of soft-RoCE is UDP to port 4791.
seealso:
  - module: gpulab.node.nodes_all_reduce
  - module: gpulab.node.verify
"""

EXAMPLES = r"""
- name: Start RDMA between pairs of nodes
  gpulab.node.nodes_rdma:
    port: 23457
  async: 3600
  poll: 0
  register: started
"""

RETURN = r"""
ansible_facts:
  description: What came of it on this node, below the key C(gpulab_nodes_rdma).
  returned: always
  type: dict
  contains:
    gpulab_nodes_rdma:
      description:
        - "C(state) is V(done), V(failed) (with C(error)), V(unreachable) (the first node, with the C(reason)), or
          V(skipped) with the C(reason)."
        - "C(pairs) has C(peer), C(state) (V(done), V(missing) or V(lost), with the C(reason)), and C(rails): for each
          port and program C(device), C(port), C(test), C(state), C(mtu) (bytes of data in a packet), and C(write_gbps)
          in Gb/s (10^9 bits a second) or C(latency_us) in microseconds."
      returned: always
      type: dict
"""

from ansible.module_utils.basic import AnsibleModule
from ansible_collections.gpulab.node.plugins.module_utils.active.nodes_rdma import Part, Rail, Round, measure


def main() -> None:
    """Take part."""
    module = AnsibleModule(
        argument_spec={
            "port": {"type": "int", "default": 23457},
            "timeout": {"type": "float", "default": 60},
            "program_timeout": {"type": "float", "default": 30},
            "run": {"type": "str", "default": "gpulab-verify"},
            "nodes": {"type": "list", "elements": "str"},
            "name": {"type": "str"},
            "address": {"type": "str"},
            "own_address": {"type": "str"},
            "rails": {"type": "list", "elements": "dict"},
            "rounds": {"type": "list", "elements": "raw"},
        }
    )
    given = module.params
    part = Part(
        nodes=tuple(given["nodes"]),
        name=given["name"],
        address=given["address"],
        port=given["port"],
        run=given["run"],
        own_address=given["own_address"],
        rails=tuple(Rail(**rail) for rail in given["rails"]),
        rounds=tuple(Round(**one) if one else None for one in given["rounds"]),
        seconds=given["timeout"],
        step_seconds=given["program_timeout"],
    )
    module.exit_json(changed=False, ansible_facts={"gpulab_nodes_rdma": measure(part)})


if __name__ == "__main__":
    main()

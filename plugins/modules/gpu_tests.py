#!/usr/bin/python
# Copyright (c) 2026 The gpulab founders
# GNU General Public License v3.0+ (see https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Try the idle GPUs of a node out, and measure them."""

from __future__ import annotations

DOCUMENTATION = r"""
module: gpu_tests
short_description: Try the idle GPUs of a node out, and measure them
version_added: 0.2.0
description:
  - Computes on each GPU and compares the results, measures copies between host and GPU, the bandwidth of its memory,
    matrix products by the node's own PyTorch, copies from each GPU to each other one, an all_reduce over all GPUs, GPUs
    in a container, directories of data.
  - Needs nothing but Python and the driver on the node; PyTorch, nccl-tests and Docker are used where they are.
  - Loads only GPUs that nobody uses, and looks again before each test that takes several of them; for the others it
    says who does.
  - Never hangs. Each test runs in a child process with a deadline, and a driver that does not answer is a result.
  - Changes nothing, and judges nothing; M(gpulab.node.verify) does that. Let M(gpulab.node.gpu_facts) read the node
    again before that, for a load may bring errors.
options:
  level:
    description: What to run. V(burn-in) first does what V(standard) does, then loads all GPUs together for
      O(burn_in_minutes), by PyTorch where O(python) has it.
    type: str
    choices: [standard, burn-in]
    default: standard
  python:
    description: A Python interpreter on the node that has PyTorch, such as that of an environment. Unset leaves the
      matrix products out.
    type: path
  container_image:
    description: A container image, already on the node, in which Docker runs nvidia-smi. Unset leaves it out.
    type: str
  mounts:
    description: Directories of data whose files are read.
    type: list
    elements: dict
    default: []
    suboptions:
      path:
        description: The directory.
        type: path
        required: true
      least_mbs:
        description: For M(gpulab.node.verify).
        type: float
      most_ms:
        description: For M(gpulab.node.verify).
        type: float
  burn_in_minutes:
    description: How long V(burn-in) loads the GPUs.
    type: float
    default: 60
  timeout:
    description: Seconds that a test of the driver on one GPU may take, and a directory to answer. Copies between GPUs
      may take four times as long, all of them together.
    type: float
    default: 60
  program_timeout:
    description: Seconds that a test which is a program (PyTorch, nccl-tests, Docker) may take.
    type: float
    default: 300
extends_documentation_fragment: [gpulab.node.attributes.facts, gpulab.node.attributes.platform]
attributes:
  check_mode:
    support: none
    description: It would load the GPUs all the same, so it is skipped.
notes:
  - Run it as root. Another user does not see whose processes hold a GPU, and then none is tested.
  - Run it with C(async), as C(playbooks/verify.yml) does. It takes minutes, with V(burn-in) hours.
seealso:
  - module: gpulab.node.gpu_facts
  - module: gpulab.node.verify
"""

EXAMPLES = r"""
- name: Try the GPUs out
  gpulab.node.gpu_tests:
    python: /opt/environments/train/bin/python
    mounts:
      - {path: /data, least_mbs: 800}
  async: 3600
  poll: 5
"""

RETURN = r"""
ansible_facts:
  description: What was measured, below the key C(gpulab_measurements).
  returned: always
  type: dict
  contains:
    gpulab_measurements:
      description:
        - "C(schema) is 1. C(simulated) is V(null), or the simulator's own line where GPUs are simulated; their rates
          mean nothing unless C(rates_declared)."
        - "C(gpus) holds for each GPU its C(tests) C(smoke), C(copies), C(memory), C(matmul), C(burn_in), and its
          C(errors) C(before) and C(after). C(peer_copies), C(all_reduce), C(container), C(mounts) and C(data_loading)
          are about the node."
        - "C(peer_copies) holds C(pairs): C(from) and C(to) which GPU, whether the driver lets them reach each other
          (C(straight)), C(gbs), and how much of the data was wrong (C(wrong_mib) of C(mib)). C(taken) says, by UUID,
          who has taken a GPU since its own tests."
        - "C(mounts) holds for each directory the latency of small files (C(latency_ms)), and of its largest files the
          rate of sequential reads (C(read_mbs)), the time of a random read of 4 KiB (C(random_ms)) and how many of
          them a second there are (C(random_iops)); C(by) is C(fio) where the node has it. While somebody uses a GPU,
          only the latency is measured, and C(left_alone) says who."
        - "C(data_loading) holds for each directory the C(rates) at which PyTorch's DataLoader gives samples, by source
          and number of workers; C(workers), the number that pays; C(feeds), its rate; C(eats), the samples a second
          that one GPU trains a residual network with; and C(limit), C(storage) or C(processors) where the GPU waits."
        - "Each test has a C(state): V(done), V(failed), V(late), V(died) or V(skipped) with the C(reason). Rates are
          GB/s (10^9 bytes), TFLOPS and MB/s."
      returned: always
      type: dict
      sample:
        schema: 1
        level: standard
        simulated: null
        gpus: [{index: 0, bus_id: "0000:19:00.0", tests: {smoke: {state: done, elements: 1048576, wrong: 0}}}]
"""

import os

from ansible.module_utils.basic import AnsibleModule
from ansible_collections.gpulab.node.plugins.module_utils.active import loading
from ansible_collections.gpulab.node.plugins.module_utils.active.session import BURN_IN, STANDARD, Wishes, measure
from ansible_collections.gpulab.node.plugins.module_utils.core import records
from ansible_collections.gpulab.node.plugins.module_utils.core.module import fail
from ansible_collections.gpulab.node.plugins.module_utils.core.node import Node
from ansible_collections.gpulab.node.plugins.module_utils.core.refusal import Refusal
from ansible_collections.gpulab.node.plugins.module_utils.facts import data_loading


def main() -> None:
    """Test, and return what was measured."""
    module = AnsibleModule(
        argument_spec={
            "level": {"type": "str", "choices": [STANDARD, BURN_IN], "default": STANDARD},
            "python": {"type": "path"},
            "container_image": {"type": "str"},
            "mounts": {
                "type": "list",
                "elements": "dict",
                "default": [],
                "options": {
                    "path": {"type": "path", "required": True},
                    "least_mbs": {"type": "float"},
                    "most_ms": {"type": "float"},
                },
            },
            "burn_in_minutes": {"type": "float", "default": 60},
            "timeout": {"type": "float", "default": 60},
            "program_timeout": {"type": "float", "default": 300},
        }
    )
    wanted = module.params
    node = Node()
    wishes = Wishes(
        level=wanted["level"],
        python=wanted["python"],
        container_image=wanted["container_image"],
        mounts=tuple(mount["path"] for mount in wanted["mounts"]),
        burn_in_minutes=wanted["burn_in_minutes"],
        seconds=wanted["timeout"],
        program_seconds=wanted["program_timeout"],
    )
    measurements = measure(node, wishes)
    try:
        if os.geteuid() == 0:
            former = data_loading.read(node)
            workers = loading.kept(measurements["data_loading"], former["workers"] if former else None)
            records.keep(data_loading.RECORD, {"workers": workers} if workers else {})
    except Refusal as refusal:  # a record of gpulab on the node is damaged, or its disk is full
        fail(module, refusal)
    module.exit_json(changed=False, ansible_facts={"gpulab_measurements": measurements})


if __name__ == "__main__":
    main()

#!/usr/bin/python
# Copyright (c) 2026 The gpulab founders
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Documentation of the action plugin of the same name."""

from __future__ import annotations

DOCUMENTATION = r"""
module: verify
short_description: Judge a GPU node by its facts
version_added: 0.1.0
description:
  - Runs gpulab's checks over the facts that M(gpulab.node.gpu_facts) gathered and, where there is one, the plan of
    M(gpulab.node.plan).
  - Fails the host when a finding is at least as grave as O(fail_on), and names each such finding and its remedy.
  - Runs on the controller. It never connects to the node.
  - Register its result as C(gpulab_verify), which is where M(gpulab.node.report) looks for it.
options:
  level:
    description: How deep to look. V(quick) looks at facts only; V(standard) and V(burn-in) also judge what
      M(gpulab.node.gpu_tests) measured.
    type: str
    choices: [quick, standard, burn-in]
    default: quick
  subjects:
    description: Run only the checks about these; empty means all.
    type: list
    elements: str
    choices:
      - driver
      - software
      - cuda
      - libraries
      - services
      - containers
      - environments
      - kernel_log
      - board
      - memory
      - thermal
      - gpu_settings
      - pcie
      - links
      - infiniband
      - roce
      - nccl
      - group
      - host
      - storage
      - limits
      - tuning
      - monitoring
      - slurm
      - people
      - measurements
    default: []
  known:
    description:
      - Severities by checks, or by patterns of their names, such as V(fail) by C(gpu-*). A finding that is not graver
        fails nothing.
    type: dict
    default: {}
  fail_on:
    description: The least grave severity that fails the host.
    type: str
    choices: [warn, fail]
    default: fail
  expected_gpus:
    description: How many GPUs the node is declared to have. Unset accepts the number on its PCI bus.
    type: int
  mig:
    description: Whether Multi-Instance GPU is declared to be on.
    type: bool
    default: false
  power_budget_watts:
    description: What all GPUs of the node together may draw. Unset does not judge it.
    type: int
  profile:
    description:
      - Expected values that replace those of the catalogue's profiles on every board, such as C(pcie_width) or
        C(power_limit_watts).
      - "Below C(floors), the least C(memory_gbs), C(to_device_gbs), C(to_host_gbs), C(bf16_tflops), C(all_reduce_gbs),
        C(peer_gbs); null takes a floor away."
    type: dict
    default: {}
  across_nodes:
    description: Whether M(gpulab.node.nodes_all_reduce) and M(gpulab.node.nodes_rdma) ran in this run, and are judged.
    type: bool
    default: false
  group_names:
    description: Whether the node is declared to know the other nodes of its group by name.
    type: bool
    default: false
  own_checks:
    description: A directory on the controller with checks of the lab's own. Its commands run on the node.
    type: path
    version_added: 1.1.0
  mounts:
    description: Directories of data that M(gpulab.node.gpu_tests) reads, and what is expected of each.
    type: list
    elements: dict
    default: []
    suboptions:
      path:
        description: The directory.
        type: path
        required: true
      least_mbs:
        description: The throughput in MB/s below which it fails. Unset does not judge it.
        type: float
      most_ms:
        description: The milliseconds of opening a file and reading its beginning above which it fails. Unset does not
          judge them.
        type: float
extends_documentation_fragment: gpulab.node.attributes
attributes:
  check_mode:
    description: The same as without, as nothing is changed.
  diff_mode:
    description: Nothing is changed.
seealso:
  - module: gpulab.node.gpu_facts
  - module: gpulab.node.gpu_tests
  - module: gpulab.node.report
"""

EXAMPLES = r"""
- name: Read the node
  gpulab.node.gpu_facts:

- name: Judge the node
  gpulab.node.verify:
    expected_gpus: 8
    fail_on: warn
  register: gpulab_verify
"""

RETURN = r"""
findings:
  description: The answers of severity V(warn) and V(fail). All answers are in the report.
  returned: when the node has facts
  type: list
  elements: dict
  contains:
    id:
      description: Name of the check.
      type: str
    severity:
      description: V(warn) or V(fail).
      type: str
    summary:
      description: What was found, in one line.
      type: str
    observed:
      description: The value found.
      type: raw
    expected:
      description: The value that was expected.
      type: raw
    unit:
      description: Unit of both values.
      type: str
    gpu:
      description: The GPU that this is about, with its index, uuid and bus_id.
      type: dict
    reason:
      description: The cause of the finding.
      type: str
    remediation:
      description: The remedy, one word of a fixed vocabulary.
      type: str
    source:
      description: Where the check's rule comes from.
      type: str
declared:
  description: What the operator declared, with which M(gpulab.node.report) judges the node again.
  returned: when the node has facts
  type: dict
counts:
  description: How many results there are of each severity.
  returned: when the node has facts
  type: dict
  sample: {ok: 41, skipped: 3, info: 0, unknown: 0, warn: 1, fail: 0}
worst:
  description: The gravest severity among the results, from V(skipped) and V(ok) by V(info), V(unknown) and V(warn) to
    V(fail).
  returned: when the node has facts
  type: str
"""

#!/usr/bin/python
# Copyright (c) 2026 The gpulab founders
# GNU General Public License v3.0+ (see https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Documentation of the action plugin of the same name, which does the work on the controller."""

from __future__ import annotations

DOCUMENTATION = r"""
module: plan
short_description: Decide all versions for a GPU node, and say why
version_added: 0.1.0
description:
  - Computes the plan of a node on the controller, from the facts of the node, the options of the roles, and the catalog
    of what works with what.
  - The options are inventory variables such as C(nvidia_driver_branch) or C(cuda_toolkits). Each may be left out; the
    documentation of each role describes its own, and that of the role C(plan) the others.
  - For what the inventory leaves out, the host's type counts (C(catalog/host_types.yml)). What a type sets is left out
    where the plan would be refused with it.
  - Where no plan can work, the task fails with the code, the cause and the remedy. Nothing is changed in either case.
notes:
  - Run M(gpulab.node.gpu_facts) first.
extends_documentation_fragment: gpulab.node.attributes.reads
options:
  reinstalled_as:
    description:
      - Plan the node as it will be once this system is installed on it, such as V(debian-13), without anything that is
        installed now. Such a plan is no fact of the host, and says nothing of what is due.
    type: str
seealso:
  - module: gpulab.node.gpu_facts
"""

EXAMPLES = r"""
- name: Read the node
  gpulab.node.gpu_facts:

- name: Plan the node
  gpulab.node.plan:

- name: Show what was decided and why
  ansible.builtin.debug:
    var: ansible_facts['gpulab_plan'].driver
"""

RETURN = r"""
ansible_facts:
  description: The plan as a variable of the host.
  returned: success
  type: dict
  contains:
    gpulab_plan:
      description: The same as RV(plan).
      returned: success
      type: dict
expected:
  description: Seconds that each role at work took earlier, here or on another host; empty where one is unknown.
  returned: success
  type: dict
  sample: {nvidia_driver: 214.5, verify: 4.1}
nulls:
  description: The defaults of the options that the inventory sets to null, where they are not null.
  returned: success
  type: dict
plan:
  description: The plan; each part carries its reasons in RV(ignore:because).
  returned: success
  type: dict
  contains:
    host_types:
      description: The host types of the node, and the options that these set, which the inventory does not.
      returned: success
      type: dict
    driver:
      description: Source, branch, version, kernel modules, kernels and packages of the driver.
      returned: success
      type: dict
    secure_boot:
      description: Whether the enrolment of the key that DKMS signs with is to be prepared.
      returned: success
      type: dict
    cuda:
      description: CUDA toolkits side by side, and the default one.
      returned: success
      type: dict
    libraries:
      description: cuDNN, NCCL and TensorRT, each tied to the default toolkit.
      returned: success
      type: dict
    container_toolkit:
      description: The NVIDIA Container Toolkit and the engines it is for.
      returned: success
      type: dict
    environments:
      description: Python environments, each with release, CUDA build, Python and requirements.
      returned: success
      type: list
      elements: dict
    fabric_manager:
      description: The Fabric Manager, where the node has NVSwitches.
      returned: success
      type: dict
    imex:
      description: IMEX, where GPUs of a rack share memory over NVLink between the nodes that are named.
      returned: success
      type: dict
    tuning:
      description: What the host is tuned to, by its type; each setting with its reason and source.
      returned: success
      type: dict
    gpu_settings:
      description: Settings of the GPUs, for all and for single ones, and what they may draw together.
      returned: success
      type: dict
    nccl:
      description: NCCL's settings, each with its reason, and kernel modules for GPUDirect RDMA.
      returned: success
      type: dict
    monitoring:
      description: The address on which node exporter answers Prometheus, where the node is watched.
      returned: success
      type: dict
    disk:
      description: Space that the plan takes, in MiB per mount point.
      returned: success
      type: dict
    reboot:
      description: Whether a reboot will be needed, and why.
      returned: success
      type: dict
    warnings:
      description: What the operator ought to know before the plan is applied.
      returned: success
      type: list
      elements: str
because:
  description: Every reason of the plan, in its order.
  returned: success
  type: list
  elements: str
refusal:
  description: Why there is no plan.
  returned: failure
  type: dict
  contains:
    code:
      description: Stable code of the refusal.
      returned: failure
      type: str
      sample: P008
    cause:
      description: One line.
      returned: failure
      type: str
    remedy:
      description: One line.
      returned: failure
      type: str
"""

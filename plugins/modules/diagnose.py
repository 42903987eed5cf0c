#!/usr/bin/python
# Copyright (c) 2026 The gpulab founders
# GNU General Public License v3.0+ (see https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Gather the evidence for a diagnosis of a program that fails, hangs or is slow."""

from __future__ import annotations

DOCUMENTATION = r"""
module: diagnose
short_description: Find out why a program on a GPU node fails, hangs or is slow
version_added: 1.0.0
description:
  - Looks at processes, GPU memory, libraries, environments, the network and storage, and ranks the causes that
    it finds by what they cost. Each has what was seen, a command that cures it, and the source of the rule.
  - Ends no process and changes nothing. It never hangs. What could not be read in time is named.
  - Needs the facts of C(gpulab.node.gpu_facts).
options:
  symptom:
    description: What is wrong. V(all) tries all of them.
    type: str
    choices: [all, memory, hang, mismatch, slow, import, network]
    default: all
  pid:
    description: The process to look at, with all processes of its job.
    type: int
  user:
    description: The user whose processes and session to look at.
    type: str
  error:
    description: The error's text, as the program printed it.
    type: str
  environment:
    description: A Python environment to look at, by its directory or its interpreter.
    type: path
  address:
    description: A server that the program has to reach, such as C(hub.example.org:443).
    type: str
  dumps:
    description:
      - The beginning of the names of the flight recorder's dumps, such as C(/scratch/run7/nccl_trace_rank_), to which
        each rank adds its number. Unset looks where the processes, or those of O(user), write them.
    type: path
  parameters:
    description: The number of a model's parameters, such as V(7B), to estimate the memory that it takes.
    type: str
  dtype:
    description: The data type of that model's weights.
    type: str
    choices: [fp32, tf32, bf16, fp16, fp8, int8, int4]
    default: bf16
  optimizer:
    description: The optimiser that would train that model.
    type: str
    choices: [adamw, adam, adamw8bit, lion, momentum, sgd, adafactor]
    default: adamw
  seconds:
    description: Seconds between the two readings that show what grows and who works.
    type: float
    default: 3
  timeout:
    description: Seconds that the driver has to answer.
    type: int
    default: 5
  documents:
    description: Directory on the controller to which the diagnosis is written as HOST.json. Unset writes none.
    type: path
  noted:
    description: What M(gpulab.node.watch_noted) says of the node on Slurm's controller.
    type: list
    elements: dict
    default: []
extends_documentation_fragment: [gpulab.node.attributes, gpulab.node.attributes.platform]
attributes:
  check_mode:
    description: The same with and without, since nothing on the node is changed.
notes:
  - Run it as root. Another user sees neither the processes nor the environments of others.
"""

EXAMPLES = r"""
- name: Read the node
  gpulab.node.gpu_facts:

- name: Find out why a job hangs
  gpulab.node.diagnose:
    symptom: hang
    pid: 4711
  register: diagnosed

- name: Show the causes
  ansible.builtin.debug:
    msg: "{{ diagnosed.lines }}"
"""

RETURN = r"""
diagnosis:
  description: The causes, ranked. The file C(docs/diagnosis.schema.json) of the collection describes every field.
  returned: success
  type: dict
lines:
  description: The diagnosis in words.
  returned: success
  type: list
  elements: str
refusal:
  description: Code, cause and remedy where an argument is wrong, or the facts are missing.
  returned: failure
  type: dict
"""

import os
from dataclasses import asdict, fields

from ansible_collections.gpulab.node.plugins.module_utils.core.module import Module
from ansible_collections.gpulab.node.plugins.module_utils.core.node import Node
from ansible_collections.gpulab.node.plugins.module_utils.core.shown import plain_values
from ansible_collections.gpulab.node.plugins.module_utils.diagnosis.arguments import ARGUMENTS
from ansible_collections.gpulab.node.plugins.module_utils.diagnosis.evidence import gather
from ansible_collections.gpulab.node.plugins.module_utils.diagnosis.shapes import DiagnosisQuestion


def main() -> None:
    """Gather and return; the action plugin of the same name draws the conclusions."""
    module = Module(argument_spec=ARGUMENTS, supports_check_mode=True)
    question = DiagnosisQuestion(**{one.name: module.params[one.name] for one in fields(DiagnosisQuestion)})
    evidence = gather(Node(), question, os.getpid(), module.params["timeout"])
    module.exit_json(changed=False, evidence=plain_values(asdict(evidence)))


if __name__ == "__main__":
    main()

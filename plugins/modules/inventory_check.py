#!/usr/bin/python
# Copyright (c) 2026 The gpulab founders
# GNU General Public License v3.0+ (see https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Documentation of the action plugin of the same name, which does the work on the controller."""

from __future__ import annotations

DOCUMENTATION = r"""
module: inventory_check
short_description: Refuse bad input before any host is touched
version_added: 0.1.0
description:
  - Judges the variables of all hosts of the play, and the groups they are in, and fails the whole play when anything
    is wrong. All errors come at once, each with the host or group, the variable, its value, the reason and the remedy.
  - Refuses unknown variables that carry a prefix of gpulab's or are close to one of its names, wrong types, versions
    that YAML reads as numbers, values out of choice, form or range, wishes that exclude each other, and outdated
    recipes.
  - Prefixes that are general words, such as C(base_), C(network_) and C(storage_), are not gpulab's alone. With these,
    only what is close to one of gpulab's names is refused; other people's C(storage_class) is left alone.
  - Refuses hosts under C(gpu-nodes) that no host type claims or that two claim, misspelt host types, and addresses
    that two hosts share.
  - Runs once, on the controller. It never connects to a node.
extends_documentation_fragment: gpulab.node.attributes.reads
options: {}
seealso:
  - module: gpulab.node.preflight
  - module: gpulab.node.plan
"""

EXAMPLES = r"""
- name: Check the inventory
  hosts: "{{ groups | gpulab.node.gpu_nodes }}"
  gather_facts: false
  tasks:
    - name: Refuse bad input
      gpulab.node.inventory_check:
"""

RETURN = r"""
msg:
  description: One line for each error, or that there is none.
  returned: always
  type: str
refusal:
  description: Code, cause and remedy, where there is one reason to stop.
  returned: failure
  type: dict
"""

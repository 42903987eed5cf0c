#!/usr/bin/python
# Copyright (c) 2026 The gpulab founders
# GNU General Public License v3.0+ (see https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Documentation of the action plugin of the same name."""

DOCUMENTATION = r"""
module: refuse
short_description: Fail with one of gpulab's codes
version_added: 0.1.0
description:
  - Fails the host with a stable code, one line of cause and one line of remedy. Runs on the controller.
extends_documentation_fragment: gpulab.node.attributes
attributes:
  check_mode:
    description: Fails there too.
options:
  code:
    description: A code that gpulab lists, such as V(H030). Either this or O(refusal) is needed.
    type: str
  values:
    description: What the texts of the code speak of.
    type: dict
    default: {}
  refusal:
    description: The refusal of an earlier task, to fail with once more; code, cause and remedy.
    type: dict
  refusals:
    description: Several of them at once.
    type: list
    elements: dict
"""

EXAMPLES = r"""
- name: Refuse a node in use
  gpulab.node.refuse:
    code: H030
    values:
      host: "{{ inventory_hostname }}"
"""

RETURN = r"""
refusal:
  description: Code, cause and remedy.
  returned: always
  type: dict
"""

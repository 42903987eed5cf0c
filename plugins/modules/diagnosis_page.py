#!/usr/bin/python
# Copyright (c) 2026 The gpulab founders
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Documentation of the action plugin of the same name."""

from __future__ import annotations

DOCUMENTATION = r"""
module: diagnosis_page
short_description: Say what the diagnoses of several nodes tell together, and write them as a page
version_added: 1.0.0
description:
  - Compares the ranks of each job that runs over several nodes, from what M(gpulab.node.diagnose) has returned of each
    host. Names the ranks that are on none of them, and the rank that stands elsewhere than most.
  - Writes one page for the person who asked. What was found first, how sure it is, what to do and what was seen. Hosts
    of which the same was found stand together.
  - Runs once, on the controller. It never connects to a node.
options:
  variable:
    description: Name of the variable that has each host's result of M(gpulab.node.diagnose).
    type: str
    required: true
  path:
    description:
      - The file of the page, on the controller. Unset writes none.
      - The last of RV(lines) says where it is, or why it could not be written.
    type: path
extends_documentation_fragment: gpulab.node.attributes.controller
attributes:
  check_mode:
    description: The file on the controller is written all the same. Nodes are never changed.
seealso:
  - module: gpulab.node.diagnose
"""

EXAMPLES = r"""
- name: Find out why a job hangs
  gpulab.node.diagnose:
    symptom: hang
  register: diagnosed

- name: Put the diagnoses together
  gpulab.node.diagnosis_page:
    variable: diagnosed
    path: diagnosis.html
  register: together
  run_once: true

- name: Show what the nodes tell together
  ansible.builtin.debug:
    msg: "{{ together.lines }}"
  run_once: true
"""

RETURN = r"""
lines:
  description: What the nodes tell together, for people, none where no job runs over several; and where the page is.
  returned: success
  type: list
  elements: str
"""

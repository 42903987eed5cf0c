#!/usr/bin/python
# Copyright (c) 2026 The gpulab founders
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Documentation of the action plugin of the same name."""

from __future__ import annotations

DOCUMENTATION = r"""
module: history
short_description: Say what the history knows of the hosts of the play
version_added: 1.0.0
description:
  - Reads the lines that M(gpulab.node.report) added for each proof. Says of each host what its last proof found, what
    is new and gone since those before, what gets worse from proof to proof, and the range of what each GPU showed.
  - Runs once, on the controller. It never connects to a node.
options:
  directory:
    description: Directory of the history. Unset takes C(reports/history) below the working directory.
    type: path
  days:
    description: How far to look back.
    type: int
    default: 90
  page:
    description:
      - A file on the controller to which the history is written as a page, with a small picture of the verdict, the
        hottest GPU, the slowest rate and the memory errors of each host over the nights. Unset writes none.
      - The last of RV(msg) says where it is, or why it could not be written.
    type: path
extends_documentation_fragment: [gpulab.node.attributes.controller, gpulab.node.trends]
attributes:
  check_mode:
    description: The file on the controller is written all the same. Nodes are never changed.
seealso:
  - module: gpulab.node.report
"""

EXAMPLES = r"""
- name: Read the history
  gpulab.node.history:
    days: 30
  register: history

- name: Show it
  ansible.builtin.debug:
    msg: "{{ history.msg }}"
  run_once: true
"""

RETURN = r"""
hosts:
  description: What is known of each host, as proofs, last (the last line), stale_days, new, gone, trends and learning.
  returned: success
  type: list
  elements: dict
msg:
  description: The same for people.
  returned: success
  type: list
  elements: str
"""

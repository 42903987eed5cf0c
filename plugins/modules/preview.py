#!/usr/bin/python
# Copyright (c) 2026 The gpulab founders
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Documentation of the action plugin of the same name."""

from __future__ import annotations

DOCUMENTATION = r"""
module: preview
short_description: Show what would change on all hosts of the play, and why
version_added: 0.1.0
description:
  - "For each host: what is there, what would change, why, the size of the download, space on the disk, services that
    would start again, whether the node would reboot, and who is using its GPUs."
  - What would change is what the tasks of the roles said in check mode; run the roles so before this task, as
    C(playbooks/plan.yml) does. A host that was refused, failed or did not answer is shown with what is known of it.
  - Modules of gpulab say it in C(changes); the preview knows the same of Ansible's modules for files, units and kernel
    modules, and names other tasks by their names.
  - The callback P(gpulab.node.preview#callback) keeps what the tasks said. C(playbooks/plan.yml) loads it itself.
  - Runs once, on the controller. It never connects to a node.
options:
  path:
    description: A file on the controller to which the preview is written as JSON. Unset writes none.
    type: path
  page:
    description:
      - A file on the controller to which the preview is written as a page for people, on which hosts that would change
        in the same way stand together. Unset writes none.
      - The last of RV(lines) says where it is, or why it could not be written.
    type: path
extends_documentation_fragment: gpulab.node.attributes.controller
attributes:
  check_mode:
    description: The file on the controller is written all the same. Nodes are never changed.
seealso:
  - module: gpulab.node.plan
"""

EXAMPLES = r"""
- name: Put the preview together
  gpulab.node.preview:
    path: preview.json
  register: preview
  run_once: true

- name: Show the preview
  ansible.builtin.debug:
    msg: "{{ preview.lines }}"
  run_once: true
"""

RETURN = r"""
preview:
  description: The preview, as C(docs/preview.schema.json) describes it.
  returned: success
  type: dict
lines:
  description: The preview for people, a table and below it the details of each host.
  returned: success
  type: list
  elements: str
refusal:
  description: Code, cause and remedy when the file cannot be written, or the callback was not there.
  returned: failure
  type: dict
"""

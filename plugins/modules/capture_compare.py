#!/usr/bin/python
# Copyright (c) 2026 The gpulab founders
# GNU General Public License v3.0+ (see https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Documentation of the action plugin of the same name."""

from __future__ import annotations

DOCUMENTATION = r"""
module: capture_compare
short_description: Show what changed on a node between two captures
version_added: 1.0.0
description:
  - Compares two captures of a host on the controller. By default, these are the newest one and the one before.
  - Says by section what was added, what is gone and what changed. Of a secret file it says at most that its content
    changed, where the vault password or the private key of age is there to decrypt both captures.
  - What changes by itself is left out, such as fill levels of disks and the results of the proof.
  - Both captures are verified first. The node is not connected to.
options:
  directory:
    description: Directory of the captures on the controller.
    type: path
    default: captures
  former:
    description: Name of the earlier capture, such as C(20261126T021500Z). Unset means the one before O(later).
    type: str
  later:
    description: Name of the later capture. Unset means the newest one.
    type: str
  age_identity:
    description: File on the controller with a private key of age, for captures whose secrets are encrypted with age.
    type: path
  documents:
    description: Directory on the controller to which each comparison is written as HOST.json. Unset writes none.
    type: path
extends_documentation_fragment: gpulab.node.attributes.controller
"""

EXAMPLES = r"""
- name: Compare the captures
  gpulab.node.capture_compare:
  register: comparison

- name: Show what changed
  ansible.builtin.debug:
    msg: "{{ comparison.lines }}"
"""

RETURN = r"""
comparison:
  description: The differences.
  returned: success
  type: dict
  contains:
    schema:
      description: Version of this form.
      returned: success
      type: int
    host:
      description: The host.
      returned: success
      type: str
    former:
      description: Time of the earlier capture.
      returned: success
      type: str
    later:
      description: Time of the later capture.
      returned: success
      type: str
    changes:
      description: Each with C(section), C(change) (C(added), C(gone) or C(changed)), C(subject) (the names that lead to
        it), C(before) and C(after).
      returned: success
      type: list
      elements: dict
    unknown:
      description: Secret files of which this run cannot tell whether their content changed.
      returned: success
      type: list
      elements: str
lines:
  description: The differences in words.
  returned: success
  type: list
  elements: str
refusal:
  description: Code, cause and remedy where there are not two captures, or one of them is damaged.
  returned: failure
  type: dict
"""

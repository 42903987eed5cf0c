#!/usr/bin/python
# Copyright (c) 2026 The gpulab founders
# GNU General Public License v3.0+ (see https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Documentation of the action plugin of the same name."""

from __future__ import annotations

DOCUMENTATION = r"""
module: rebuild_report
short_description: Say what came back in the rebuild of a node, and what did not
version_added: 1.0.0
description:
  - Compares the capture that a node came back from with the newest one, leaves out the differences that each reinstall
    makes (C(catalog/rebuild.yml)), and adds what the steps of the rebuild could not bring back. Writes
    C(rebuilt.json) beside the captures of the host. The node is not connected to.
options:
  directory:
    description: Directory of the captures on the controller.
    type: path
    required: true
  capture:
    description: Name of the capture that the node came back from.
    type: str
    required: true
  unsigned:
    description: Name of a capture that is taken without its signature, as earlier versions of gpulab wrote them.
    type: str
  age_identity:
    description: File with a private key of age, where the secrets are encrypted with age.
    type: path
extends_documentation_fragment: gpulab.node.attributes.controller
attributes:
  check_mode:
    description: Writes nothing.
"""

EXAMPLES = r"""
- name: Say what came back
  gpulab.node.rebuild_report:
    directory: captures
    capture: 20261126T021500Z
"""

RETURN = r"""
report:
  description:
    - C(missing) has what did not come back, each with C(section), C(name) and C(why); C(differences) what else differs,
      as M(gpulab.node.capture_compare) returns it; C(expected) counts the differences that were to be expected, by
      reason.
  returned: success
  type: dict
lines:
  description: The same for people.
  returned: success
  type: list
  elements: str
refusal:
  description: Code, cause and remedy where a capture is missing or damaged.
  returned: failure
  type: dict
"""

#!/usr/bin/python
# Copyright (c) 2026 The gpulab founders
# GNU General Public License v3.0+ (see https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Documentation of the action plugin of the same name."""

from __future__ import annotations

DOCUMENTATION = r"""
module: rebuild_state
short_description: Read or write how far the rebuild of a node came
version_added: 1.0.0
description:
  - Keeps C(rebuild.json) beside the captures of a host on the controller. The node is not connected to.
options:
  directory:
    description: Directory of the captures on the controller.
    type: path
    default: captures
  state:
    description: What the host has reached. Unset reads only.
    type: str
    choices:
      - confirmed
      - installing
      - reachable
      - identity
      - storage
      - network
      - software
      - provisioned
      - containers
      - environments
      - jobs
      - proven
  capture:
    description: Name of the capture that the host comes back from. Required with O(state).
    type: str
  plan:
    description: Id of the installer's plan. Unset where a person installed the node.
    type: str
  missing:
    description: What this step could not bring back, each with C(section), C(name) and C(why).
    type: list
    elements: dict
    default: []
  sections:
    description: Sections that this step looked at. What was missing in them before is replaced by O(missing).
    type: list
    elements: str
    default: []
extends_documentation_fragment: gpulab.node.attributes.controller
attributes:
  check_mode:
    description: Reads only.
"""

EXAMPLES = r"""
- name: Read how far the rebuild came
  gpulab.node.rebuild_state:
  register: before
"""

RETURN = r"""
rebuild:
  description: C(host), C(capture), C(plan), C(state), C(since) and C(missing); null before the first rebuild.
  returned: success
  type: dict
refusal:
  description: Code, cause and remedy where the file is damaged or cannot be written.
  returned: failure
  type: dict
"""

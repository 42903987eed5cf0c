#!/usr/bin/python
# Copyright (c) 2026 The gpulab founders
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Documentation of the action plugin of the same name."""

from __future__ import annotations

DOCUMENTATION = r"""
module: bmc_fleet
short_description: Compare the firmware that the BMCs of all hosts told
version_added: 1.1.0
description:
  - Compares each component over all machines of one part number, or of one model where a BMC tells no part number. A
    version that differs from what more than half of at least three have is named with its hosts; without such a
    majority, all are named, and nobody knows which is right.
  - Runs once, on the controller, after M(gpulab.node.bmc). Versions are compared for equality alone.
options:
  register:
    description: The variable in which each host has what M(gpulab.node.bmc) returned.
    type: str
    required: true
  path:
    description: File on the controller to which all that the BMCs said, and what differs, is written as JSON.
    type: path
extends_documentation_fragment: [gpulab.node.attributes.controller]
"""

EXAMPLES = r"""
- name: Compare the firmware
  gpulab.node.bmc_fleet:
    register: bmc
"""

RETURN = r"""
siblings:
  description: What differs, with kind, component, usual version (null where there is none), hosts and text.
  returned: success
  type: list
  elements: dict
lines:
  description: The same in words, and where the file is.
  returned: success
  type: list
  elements: str
"""

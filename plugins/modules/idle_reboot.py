#!/usr/bin/python
# Copyright (c) 2026 The gpulab founders
# GNU General Public License v3.0+ (see https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Documentation of the action plugin of the same name."""

DOCUMENTATION = r"""
module: idle_reboot
short_description: Reboot a node that nobody works on
version_added: 0.5.0
description:
  - Reboots a node as M(ansible.builtin.reboot) does, and waits until it is back. Right before the command it asks the
    node who works there, and refuses (GPULAB-H030) where anybody does.
extends_documentation_fragment: gpulab.node.attributes
attributes:
  check_mode:
    description: Says that the node would reboot.
options:
  reasons:
    description: Why, for the refusal and for who is logged in.
    type: str
    required: true
  reboot_timeout:
    description: Seconds to wait for the node to come back.
    type: int
    default: 600
  force:
    description: Reboot it although it is in use.
    type: bool
    default: false
"""

EXAMPLES = r"""
- name: Reboot
  gpulab.node.idle_reboot:
    reasons: the driver on disk is not the one that is loaded
"""

RETURN = r"""
rebooted:
  description: Whether the node rebooted.
  returned: always
  type: bool
  sample: true
elapsed:
  description: Seconds that it took.
  returned: always
  type: int
  sample: 74
refusal:
  description: Code, cause and remedy when the task is refused.
  returned: when refused
  type: dict
"""

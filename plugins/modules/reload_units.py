#!/usr/bin/python
# Copyright (c) 2026 The gpulab founders
# GNU General Public License v3.0+ (see https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Documentation of the action plugin of the same name."""

DOCUMENTATION = r"""
module: reload_units
short_description: Let systemd read its units again, but not while somebody uses a GPU
version_added: 1.0.0
description:
  - Containers that use a GPU can lose it when systemd reloads its units. So every role of gpulab reloads by this, and
    nothing is reloaded while the facts of the run say that somebody uses a GPU. systemd reads the files at the next
    boot in any case.
  - With O(refusal) nothing is reloaded at all. The host is refused where a reload would be left out, before a role
    writes units that it has to start.
extends_documentation_fragment: gpulab.node.attributes
attributes:
  check_mode:
    description: Reloads nothing there, and refuses as it would.
options:
  paths:
    description: >-
      Files that were written, or would be. Without a unit among them, nothing is done. Unset means that there is one.
    type: list
    elements: str
  refusal:
    description: The code to refuse with, which speaks of C(host) and C(who).
    type: str
  force:
    description: Whether the operator wants the reload on this host, whoever uses a GPU.
    type: bool
    default: false
"""

EXAMPLES = r"""
- name: Reload systemd
  gpulab.node.reload_units:
    paths: "{{ written.paths }}"
"""

RETURN = r"""
reloaded:
  description: Whether systemd has read its units again.
  returned: always
  type: bool
used_by:
  description: Who uses a GPU, so that nothing was reloaded; empty where nobody does, or the operator wants it.
  returned: always
  type: str
refusal:
  description: Code, cause and remedy when the host is refused.
  returned: when refused
  type: dict
"""

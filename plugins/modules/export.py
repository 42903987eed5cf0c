#!/usr/bin/python
# Copyright (c) 2026 The gpulab founders
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Documentation of the action plugin of the same name."""

from __future__ import annotations

DOCUMENTATION = r"""
module: export
short_description: Say which hosts other schedulers may have, as files of theirs
version_added: 1.1.0
description:
  - Takes the hosts of the play that passed their last proof, as the history knows it, and returns a cluster of Ray's,
    pools of SkyPilot's and a fleet of dstack's. How hosts are reached is taken from the inventory.
  - Runs once, on the controller. It never connects to a node, and writes nothing.
options:
  user:
    description: Name of the account with which these programs log in.
    type: str
    required: true
  key:
    description: Its private key, as a path on the machine where they run. It is not read.
    type: str
    required: true
  name:
    description: Name of the cluster, of the pool and of the fleet.
    type: str
    required: true
  ray_environment:
    description: Directory of the Python environment with Ray on the nodes.
    type: str
    required: true
  directory:
    description: Directory of the files. Unset takes C(reports/export) below the working directory.
    type: path
  history:
    description: Directory of the history. Unset takes C(reports/history) below the working directory.
    type: path
extends_documentation_fragment: [gpulab.node.attributes.controller]
attributes:
  check_mode:
    description: Nothing is changed in any mode.
seealso:
  - module: gpulab.node.history
"""

EXAMPLES = r"""
- name: See which nodes Ray may have
  gpulab.node.export:
    user: deploy
    key: /home/admin/.ssh/deploy
    name: lab
    ray_environment: /opt/venvs/ray
  register: exported
"""

RETURN = r"""
files:
  description: The files, each with its path, a heading in comments, and the document.
  returned: success
  type: list
  elements: dict
lines:
  description: What is known of each host, or why it is left out, for people.
  returned: success
  type: list
  elements: str
"""

#!/usr/bin/python
# Copyright (c) 2026 The gpulab founders
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Say what the watch of Slurm's controller has noted of the jobs of a node."""

from __future__ import annotations

DOCUMENTATION = r"""
module: watch_noted
short_description: Say what the watch of Slurm's controller has noted of the jobs of a node
version_added: 1.1.0
description:
  - Reads the record of the watch (C(slurm_watch_state)), which lies on Slurm's controller, so it runs there. It tells
    of the last 12 hours, and of 20 jobs at most. A host without a watch has noted nothing.
options:
  node:
    description: The node, by Slurm's name of it.
    type: str
    required: true
extends_documentation_fragment: [gpulab.node.attributes, gpulab.node.attributes.platform]
attributes:
  check_mode:
    description: The same with and without, since nothing is changed.
notes:
  - Run it as root. Nobody else may read the record, which has the jobs of all people.
"""

EXAMPLES = r"""
- name: Ask the controller what the watch noted
  gpulab.node.watch_noted:
    node: node07
  delegate_to: login01
  become: true
  register: watched
"""

RETURN = r"""
noted:
  description:
    - Each job with the time (UTC) of the finding, what was seen (crash, hang or suspicion), its class (node, program,
      user, unknown), the cause, the number of its nodes, and what else this node showed.
  returned: success
  type: list
  elements: dict
refusal:
  description: Code, cause and remedy where the record is damaged.
  returned: failure
  type: dict
"""

import time
from dataclasses import asdict
from typing import Any

from ansible_collections.gpulab.node.plugins.module_utils.core.module import Module, run
from ansible_collections.gpulab.node.plugins.module_utils.watch import noted


def read(module: Module) -> dict[str, Any]:
    """Return what was noted."""
    return {"noted": [asdict(one) for one in noted.read(module.params["node"], time.time())]}


def main() -> None:
    """Read and return."""
    run(Module(argument_spec={"node": {"type": "str", "required": True}}, supports_check_mode=True), read)


if __name__ == "__main__":
    main()

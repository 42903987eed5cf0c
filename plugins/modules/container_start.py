#!/usr/bin/python
# Copyright (c) 2026 The gpulab founders
# GNU General Public License v3.0+ (see https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Have Docker start a container without GPUs."""

from __future__ import annotations

DOCUMENTATION = r"""
module: container_start
short_description: Have Docker start a container without GPUs
version_added: 0.3.0
description:
  - Makes an image of a few KB, whose only program says that it runs, has Docker start it with its default runtime and
    its settings, and removes it again. The container has no GPU, no network and no rights; nothing is downloaded.
  - Returns what came of it as the fact C(gpulab_container_started), which M(gpulab.node.verify) judges.
  - Does not start Docker where it does not run, and does not fail where it starts no container.
options:
  timeout:
    description: Seconds that all of it may take.
    type: int
    default: 60
extends_documentation_fragment: gpulab.node.attributes.facts
attributes:
  check_mode:
    support: none
    description: It would start a container all the same, so it is skipped.
"""

EXAMPLES = r"""
- name: Start a container without GPUs
  gpulab.node.container_start:
"""

RETURN = r"""
ansible_facts:
  description: What came of it.
  returned: always
  type: dict
  contains:
    gpulab_container_started:
      description: The C(seconds) that it took, and the C(problem), null where the container started; null where Docker
        does not run.
      returned: always
      type: dict
      sample: {seconds: 1.2, problem: null}
"""

import platform

from ansible.module_utils.basic import AnsibleModule
from ansible_collections.gpulab.node.plugins.module_utils.containers import first_container
from ansible_collections.gpulab.node.plugins.module_utils.core.node import Node
from ansible_collections.gpulab.node.plugins.module_utils.facts import containers


def main() -> None:
    """Start it, and return what came of it."""
    module = AnsibleModule(argument_spec={"timeout": {"type": "int", "default": 60}})
    started = None
    if containers.docker_runs(Node()) and module.get_bin_path("docker"):
        started = first_container.start(platform.machine(), module.params["timeout"])
    module.exit_json(changed=False, ansible_facts={"gpulab_container_started": started})


if __name__ == "__main__":
    main()

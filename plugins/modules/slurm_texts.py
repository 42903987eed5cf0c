#!/usr/bin/python
# Copyright (c) 2026 The gpulab founders
# GNU General Public License v3.0+ (see https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Read the files of Slurm on its controller."""

from __future__ import annotations

DOCUMENTATION = r"""
module: slurm_texts
short_description: Read the files of Slurm on its controller
version_added: 1.0.0
description:
  - Returns C(slurm.conf), C(gres.conf) and gpulab's own files beside them, and the files that C(slurm.conf) includes.
  - Changes nothing.
extends_documentation_fragment: gpulab.node.attributes
attributes:
  check_mode:
    description: The same with and without, since nothing is changed.
options:
  join:
    description: >-
      Whether nodes are to be added beside a C(slurm.conf) that gpulab did not write. Warns then of what they get from
      it, as by its lines C(NodeName=DEFAULT) and C(PartitionName=DEFAULT).
    type: bool
    default: false
"""

EXAMPLES = r"""
- name: Read the files of Slurm
  gpulab.node.slurm_texts:
  register: slurm
"""

RETURN = r"""
texts:
  description: The texts of the files that are there, by path.
  returned: success
  type: dict
  sample: {/etc/slurm/slurm.conf: ClusterName=lab}
"""

from pathlib import Path

from ansible.module_utils.basic import AnsibleModule
from ansible_collections.gpulab.node.plugins.module_utils.core import files
from ansible_collections.gpulab.node.plugins.module_utils.slurm import cluster, configuration, joining

PATHS = (cluster.CONFIGURATION, cluster.GRES, joining.JOINED, joining.JOINED_GRES)


def texts() -> dict[str, str]:
    """Return the texts of the files that are there, and of those that slurm.conf includes, by path."""
    found: dict[str, str] = {}

    def read(path: str) -> str | None:
        if Path(path).is_file():
            found[path] = files.read(Path(path))
        return found.get(path)

    for path in PATHS:
        read(path)
    configuration.read(found.get(cluster.CONFIGURATION, ""), read)
    return found


def main() -> None:
    """Read, and warn."""
    module = AnsibleModule(argument_spec={"join": {"type": "bool", "default": False}}, supports_check_mode=True)
    found = texts()
    theirs = joining.theirs_of(found) if module.params["join"] else None
    for line in joining.told(theirs) if theirs else ():
        module.warn(line)
    module.exit_json(changed=False, texts=found)


if __name__ == "__main__":
    main()

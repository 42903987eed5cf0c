#!/usr/bin/python
# Copyright (c) 2026 The gpulab founders
# GNU General Public License v3.0+ (see https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Load or unload modules of the kernel."""

from __future__ import annotations

DOCUMENTATION = r"""
module: kernel_modules
short_description: Load or unload modules of the kernel
version_added: 1.0.0
description:
  - Loads modules that the running kernel does not have, or unloads those that it has.
extends_documentation_fragment: gpulab.node.attributes
options:
  names:
    description: The modules, in the order in which they are loaded or unloaded.
    type: list
    elements: str
    required: true
  state:
    description: Whether they are loaded.
    type: str
    choices: [present, absent]
    default: present
"""

EXAMPLES = r"""
- name: Load the driver
  gpulab.node.kernel_modules:
    names: [nvidia, nvidia_uvm]
"""

RETURN = r"""
changes:
  description: What changed, or would change in check mode, as M(gpulab.node.preview) shows it.
  returned: success
  type: list
  elements: dict
  sample: [{action: load, what: nvidia}]
"""

from pathlib import Path

from ansible.module_utils.basic import AnsibleModule
from ansible_collections.gpulab.node.plugins.module_utils.core.changes import changes

LOADED = Path("/proc/modules")


def main() -> None:
    """Compare with what the kernel has, and call modprobe."""
    module = AnsibleModule(
        argument_spec={
            "names": {"type": "list", "elements": "str", "required": True},
            "state": {"choices": ["present", "absent"], "default": "present"},
        },
        supports_check_mode=True,
    )
    present = module.params["state"] == "present"
    loaded = {line.partition(" ")[0] for line in LOADED.read_text(encoding="ascii").splitlines()}
    due = [name for name in module.params["names"] if (name.replace("-", "_") in loaded) != present]
    if not module.check_mode:
        for name in due:
            module.run_command(["modprobe", *([] if present else ["--remove"]), name], check_rc=True)
    module.exit_json(changed=bool(due), changes=changes(load=due) if present else changes(unload=due))


if __name__ == "__main__":
    main()

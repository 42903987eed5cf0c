#!/usr/bin/python
# Copyright (c) 2026 The gpulab founders
# GNU General Public License v3.0+ (see https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Select what a link of update-alternatives leads to."""

from __future__ import annotations

DOCUMENTATION = r"""
module: alternative
short_description: Select what a link of update-alternatives leads to
version_added: 1.0.0
description:
  - Makes a path the selected alternative of a name, and makes it known as one where it is not.
extends_documentation_fragment: gpulab.node.attributes
options:
  name:
    description: The name of the alternatives.
    type: str
    required: true
  link:
    description: The link that leads to the selected one.
    type: path
    required: true
  path:
    description: What it shall lead to. It has to be there.
    type: path
    required: true
"""

EXAMPLES = r"""
- name: Let /usr/local/cuda lead to CUDA 13.0
  gpulab.node.alternative:
    name: cuda
    link: /usr/local/cuda
    path: /usr/local/cuda-13.0
"""

RETURN = r"""
changes:
  description: What changed, or would change in check mode, as M(gpulab.node.preview) shows it.
  returned: success
  type: list
  elements: dict
  sample: [{action: select, what: /usr/local/cuda-13.0}]
"""

from pathlib import Path

from ansible.module_utils.basic import AnsibleModule
from ansible_collections.gpulab.node.plugins.module_utils.core.changes import changes

PROGRAM = "update-alternatives"
DIRECTORY = "/etc/alternatives"
PRIORITY = "50"


def main() -> None:
    """Compare with where the link leads, and call update-alternatives."""
    module = AnsibleModule(
        argument_spec={
            "name": {"type": "str", "required": True},
            "link": {"type": "path", "required": True},
            "path": {"type": "path", "required": True},
        },
        supports_check_mode=True,
    )
    name, link, path = (module.params[option] for option in ("name", "link", "path"))
    if not Path(path).exists():
        module.fail_json(msg=f"{path} does not exist, so {link} cannot lead to it")
    selected = leads_to(link) == f"{DIRECTORY}/{name}" and leads_to(f"{DIRECTORY}/{name}") == path
    if not selected and not module.check_mode:
        _code, known, _errors = module.run_command([PROGRAM, "--display", name], environ_update={"LC_ALL": "C"})
        if not any(line.startswith(f"{path} - ") for line in known.splitlines()):
            module.run_command([PROGRAM, "--install", link, name, path, PRIORITY], check_rc=True)
        module.run_command([PROGRAM, "--set", name, path], check_rc=True)
    module.exit_json(changed=not selected, changes=changes(select=[] if selected else [path]))


def leads_to(link: str) -> str | None:
    """Return what a symbolic link names; None where it is none."""
    return str(Path(link).readlink()) if Path(link).is_symlink() else None


if __name__ == "__main__":
    main()

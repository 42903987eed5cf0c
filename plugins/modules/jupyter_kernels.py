#!/usr/bin/python
# Copyright (c) 2026 The gpulab founders
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Let Jupyter find environments."""

from __future__ import annotations

DOCUMENTATION = r"""
module: jupyter_kernels
short_description: Let every Jupyter of the node offer environments as kernels
version_added: 1.0.0
description:
  - Keeps a C(kernel.json) for each environment named, in C(/usr/local/share/jupyter/kernels). The kernel's programs are
    found as after activating the environment.
  - Kernels of gpulab's, of the same kind, for environments that are not named are taken away. Every other kernel stays;
    one of the same name that gpulab did not write is refused (GPULAB-E021).
  - The environment needs C(ipykernel), which it has where C(jupyter) is requested in it.
options:
  kind:
    description: What makes the environments; the kernel's name is C(KIND-NAME).
    type: str
    choices: [venv, conda]
    required: true
  prefixes:
    description: Where the environments lie. None means that there shall be no kernel of this kind.
    type: list
    elements: path
    required: true
extends_documentation_fragment: gpulab.node.attributes.files
"""

EXAMPLES = r"""
- name: Offer an environment in Jupyter
  gpulab.node.jupyter_kernels:
    kind: venv
    prefixes: [/opt/venvs/vision]
"""

RETURN = r"""
changes:
  description: What changed, or would change in check mode, as M(gpulab.node.preview) shows it.
  returned: success
  type: list
  elements: dict
  sample: [{action: write, what: /usr/local/share/jupyter/kernels/venv-vision/kernel.json}]
kernels:
  description: The kernels that were, or in check mode would be, written or taken away.
  returned: success
  type: list
  elements: str
  sample: [venv-vision]
refusal:
  description: Code, cause and remedy when the task is refused.
  returned: when refused
  type: dict
"""

from pathlib import Path

from ansible.module_utils.basic import AnsibleModule
from ansible_collections.gpulab.node.plugins.module_utils.core import evidence, files
from ansible_collections.gpulab.node.plugins.module_utils.core.changes import of_files
from ansible_collections.gpulab.node.plugins.module_utils.core.module import fail
from ansible_collections.gpulab.node.plugins.module_utils.core.refusal import Refusal
from ansible_collections.gpulab.node.plugins.module_utils.environments import jupyter


def take_away(path: Path) -> None:
    """Remove a kernel, and the directories above that nothing is in then, up to that of Jupyter."""
    path.unlink()
    for directory in list(path.parents)[:3]:
        if any(directory.iterdir()):
            return
        directory.rmdir()


def main() -> None:
    """Read, plan, write."""
    module = AnsibleModule(
        argument_spec={
            "kind": {"type": "str", "choices": ["venv", "conda"], "required": True},
            "prefixes": {"type": "list", "elements": "path", "required": True},
        },
        supports_check_mode=True,
    )
    directory = Path(jupyter.DIRECTORY)
    present = {path.parent.name: files.read(path) for path in directory.glob(f"*/{jupyter.FILE}")}
    try:
        steps = jupyter.plan(module.params["kind"], module.params["prefixes"], present)
        paths = {name: directory / name / jupyter.FILE for name in sorted(steps)}
        for path in paths.values():
            files.own_text(path)
    except Refusal as refusal:
        fail(module, refusal)
    if not module.check_mode:
        for name, path in paths.items():
            if steps[name] is None:
                take_away(path)
            else:
                files.put(module, path, steps[name])
    evidence.note(module, file=[str(path) for path in {*directory.glob(f"*/{jupyter.FILE}"), *paths.values()}])
    module.exit_json(
        changed=bool(steps),
        changes=of_files({str(path): steps[name] for name, path in paths.items()}),
        kernels=list(paths),
        diff=[files.diff(str(path), present.get(name), steps[name]) for name, path in paths.items()],
    )


if __name__ == "__main__":
    main()

#!/usr/bin/python
# Copyright (c) 2026 The gpulab founders
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Try the Python environments of a node, each with its own interpreter."""

from __future__ import annotations

DOCUMENTATION = r"""
module: environment_proof
short_description: Try the Python environments of a node, each with its own interpreter
version_added: 0.2.0
description:
  - Has the interpreter of each environment that M(gpulab.node.venv_environments) or M(gpulab.node.conda_environments)
    made import its framework, multiply matrices on the CPU and on each GPU, and tell what it is built for.
  - Changes nothing and never hangs; an environment that gives no answer in time is killed.
  - M(gpulab.node.verify) judges what was found.
options:
  directory:
    description: Where the virtual environments are.
    type: path
    default: /opt/venvs
  conda_directory:
    description: The root prefix below which the conda environments are.
    version_added: 0.3.0
    type: path
    default: /opt/conda
  gpus:
    description:
      - Whether to try the GPUs, too, which takes memory of each for a moment. Give V(false) where somebody uses them;
        the frameworks then see none.
    type: bool
    default: true
  timeout:
    description: Seconds that each environment has. A framework that is read for the first time takes its time.
    type: int
    default: 300
extends_documentation_fragment: [gpulab.node.attributes.facts, gpulab.node.attributes.platform]
"""

EXAMPLES = r"""
- name: Try the Python environments
  gpulab.node.environment_proof:
"""

RETURN = r"""
ansible_facts:
  description: The facts, below the key C(gpulab_environments).
  returned: always
  type: dict
  contains:
    gpulab_environments:
      description:
        - For each environment its C(name), with C((conda)) behind one of conda, its interpreter (C(python)), what is
          C(expected) of it, whether its GPUs were tried (C(gpus_tried)), and the C(answer) of its interpreter, null
          where it gave none.
      returned: always
      type: list
      elements: dict
"""

import json
from pathlib import Path
from typing import Any, TypedDict

from ansible.module_utils.basic import AnsibleModule
from ansible_collections.gpulab.node.plugins.module_utils.core import records
from ansible_collections.gpulab.node.plugins.module_utils.core.node import Job
from ansible_collections.gpulab.node.plugins.module_utils.core.refusal import Refusal
from ansible_collections.gpulab.node.plugins.module_utils.environments import venv
from ansible_collections.gpulab.node.plugins.module_utils.environments.builds import NO_GPUS, probe_source

# JAX would take three quarters of a GPU's memory.
LITTLE_MEMORY = "XLA_PYTHON_CLIENT_PREALLOCATE=false"


class Expected(TypedDict):
    """What an environment is tried for."""

    framework: str | None
    variables: dict[str, str]


class Tried(TypedDict):
    """The part of an environment's record that says what it is tried for."""

    expected: Expected


def attempt(link: Path, seconds: float, *, gpus: bool, name: str | None = None) -> dict[str, Any]:
    """Return {name, python, expected, gpus_tried, answer} of the environment that a link names."""
    python = str(link / "bin" / "python")
    found: dict[str, Any] = {
        "name": name or link.name,
        "python": python,
        "expected": None,
        "gpus_tried": gpus,
        "answer": None,
    }
    try:
        record = records.read(link / venv.RECORD, Tried, None)
    except Refusal:  # it is damaged
        return found
    if record is None:
        return found
    expected = record["expected"]
    found["expected"] = expected
    if expected["framework"]:
        hiding = [] if gpus else NO_GPUS
        hidden = [setting.partition("=")[0] for setting in hiding]
        pairs = [f"{name}={value}" for name, value in sorted(expected["variables"].items()) if name not in hidden]
        output = Job(
            ["env", LITTLE_MEMORY, *hiding, python, "-I", "-c", probe_source(), expected["framework"], *pairs], seconds
        ).output()
        found["answer"] = json.loads(output) if output else None
    return found


def main() -> None:
    """Try one after the other, for each wants the GPUs' memory for itself."""
    module = AnsibleModule(
        argument_spec={
            "directory": {"type": "path", "default": "/opt/venvs"},
            "conda_directory": {"type": "path", "default": "/opt/conda"},
            "gpus": {"type": "bool", "default": True},
            "timeout": {"type": "int", "default": 300},
        },
        supports_check_mode=True,
    )
    places = [(Path(module.params["directory"]), "{}"), (Path(module.params["conda_directory"], "envs"), "{} (conda)")]
    found = [
        attempt(path, module.params["timeout"], gpus=module.params["gpus"], name=label.format(path.name))
        for place, label in places
        for path in sorted(place.glob("*"))
        if path.is_symlink()
    ]
    module.exit_json(changed=False, ansible_facts={"gpulab_environments": found})


if __name__ == "__main__":
    main()

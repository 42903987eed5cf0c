#!/usr/bin/python
# Copyright (c) 2026 The gpulab founders
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The node's half of making conda environments: look, prepare a build, take it into use. Building is a long step."""

from __future__ import annotations

DOCUMENTATION = r"""
module: conda_environments
short_description: Keep conda environments, each built beside the former one and tried before it replaces it
version_added: 1.0.0
description:
  - Brings conda environments to the wanted state with micromamba, which it installs in the version named.
  - An environment is solved again only when something else is wanted of it, or when a package of it is gone, damaged or
    was added by hand, which names and sizes of its files tell without micromamba. Versions that are not pinned may then
    move; a lock keeps them.
  - A change makes a new build in a directory of its own, tries it with its own interpreter, and then moves a link. When
    anything fails, the former build stays in use. Jobs that run go on with the build that they were started with.
  - Each build holds its lock, C(gpulab.lock), an explicit one with hashes and with the packages of pip.
  - Building runs as long steps (see M(gpulab.node.long_step)). Of pip's packages, wheels are installed; one
    that is named by the address of its source archive, or by a git address with a full commit, is built.
  - C(conda env list) and C(micromamba env list) name the environments.
options:
  directory:
    description: The root prefix; C(DIRECTORY/envs/NAME) is the environment of that name.
    type: path
    default: /opt/conda
  environments:
    description: The environments that shall be there. Each has one of C(packages), C(file) and C(lock).
    type: list
    elements: dict
    default: []
    suboptions:
      name:
        description: Name of the environment.
        type: str
        required: true
      packages:
        description: What it shall hold, as conda takes it.
        type: list
        elements: str
        default: []
      pip:
        description: What pip shall add to that, as pip takes it.
        type: list
        elements: str
        default: []
      file:
        description: >-
          An environment.yml on the controller, with channels, dependencies (pip's, too) and variables. O(channels)
          follow those of the file, unless it has C(nodefaults).
        type: path
      replace:
        description: >-
          Lines of the file's dependencies, each with the line that replaces it; null removes a line. So the file can
          stay as its project published it.
        type: dict
        default: {}
      lock:
        description: >-
          A lock on the controller: the C(gpulab.lock) of an environment, another explicit one with SHA-256, or a
          conda-lock.yml.
        type: path
      lock_text:
        description: What the action plugin hands over. Leave it out.
        type: str
      channels:
        description: Names or addresses of its channels, the first one first. Unset takes O(channels).
        type: list
        elements: str
        default: []
      variables:
        description: Environment variables that its interpreters set where the user has not.
        type: dict
        default: {}
      framework:
        description: The framework that it is tried with.
        type: str
        choices: [pytorch, tensorflow, jax]
      group:
        description: >-
          Group of the node whose members alone may use it, besides root; what packages it has, everybody can see. Unset
          lets everybody use it.
        type: str
      jupyter:
        description: Whether it shall have C(ipykernel), which M(gpulab.node.jupyter_kernels) needs.
        type: bool
        default: false
  absent:
    description: Names of environments that shall not be there.
    type: list
    elements: str
    default: []
  state:
    description: V(absent) removes all environments of gpulab's, and micromamba.
    type: str
    choices: [present, absent]
    default: present
  channels:
    description: Channels of environments that name none. They follow the channels that a file names.
    type: list
    elements: str
    default: [conda-forge]
  defaults_channel:
    description: >-
      The channel to use instead of Anaconda's, such as C(defaults), which are not free for everybody. Unset refuses
      these by their short names.
    type: str
  extra_index_urls:
    description: Addresses that a file may name by C(--extra-index-url) and C(--find-links).
    type: list
    elements: str
    default: []
  channel_alias:
    description: Address below which channels are looked up by their names, such as that of a mirror.
    type: str
  cuda:
    description:
      - The CUDA that packages are chosen for (C(CONDA_OVERRIDE_CUDA)), as the planned driver has it, so that an
        environment is the same before the driver is loaded. Unset chooses builds without CUDA.
    type: str
  micromamba_url:
    description: Address of micromamba.
    type: str
    required: true
  micromamba_sha256:
    description: Its SHA-256.
    type: str
    required: true
  architecture:
    description: The node's, which a conda-lock.yml is read for.
    type: str
    choices: [x86_64, aarch64]
    default: x86_64
  index_url:
    description: Address of pip's package index. Unset takes that of the node's pip.conf.
    type: str
  timeout:
    description: Seconds after which one long step is stopped.
    type: int
    default: 3600
  operation:
    description: What the action plugin asks of the node. Leave it out.
    type: str
    choices: [look, fetch, make, explain, finish, give, clear]
    default: look
  only:
    description: The environment that it asks this for. Leave it out.
    type: str
  printed:
    description: What a step that failed printed. Leave it out.
    type: str
    default: ""
  log:
    description: Where all of that is. Leave it out.
    type: str
    default: ""
extends_documentation_fragment: gpulab.node.attributes.diff
attributes:
  check_mode:
    description:
      - The new packages are solved, not installed. Where micromamba is not there yet, their versions are not known;
        those of pip's packages are known once they are installed, or from a lock.
  diff_mode:
    description: One package a line, with its version and build.
requirements:
  - systemd as the first process of the node
  - root
"""

EXAMPLES = r"""
- name: Keep the environment that the group shares
  gpulab.node.conda_environments:
    micromamba_url: https://mirror.example/micromamba-linux-64
    micromamba_sha256: 9689782d863c05a1bf5d2d371ba527104e7a4eb4310c1637d8653b751aed9c82
    cuda: "12.8"
    environments:
      - name: vision
        file: files/environment.yml
        framework: pytorch
"""

RETURN = r"""
changes:
  description: What changed, or would change in check mode, as M(gpulab.node.preview) shows it.
  returned: success
  type: list
  elements: dict
  sample: [{action: make, what: "vision (packages: 212 added)"}]
micromamba:
  description: Whether micromamba was, or would be, installed.
  returned: success
  type: bool
environments:
  description: How each environment that changes does.
  returned: success
  type: list
  elements: dict
  contains:
    name:
      description: Its name.
      type: str
    because:
      description: Why it changes.
      type: list
      elements: str
    added:
      description: Version and build of each package that is new.
      type: dict
    removed:
      description: Version and build of each package that goes.
      type: dict
    changed:
      description: Version and build before and after of each package that changes.
      type: dict
unlisted:
  description: Environments that are there and were named neither to be there nor not to be. They are left alone.
  returned: success
  type: list
  elements: str
abandoned:
  description: >-
    Environments that are for a group which is no longer there, and the paths of users' own, in
    C(/home/*/.conda/envs), whose user is no longer there. They are left alone.
  returned: success
  type: list
  elements: str
diff:
  description: The packages of each environment that changes, one a line.
  returned: success
  type: list
  elements: dict
refusal:
  description: Code, cause and remedy.
  returned: on failure
  type: dict
"""

import pwd
from dataclasses import asdict
from pathlib import Path
from typing import Any

from ansible_collections.gpulab.node.plugins.module_utils.core import evidence
from ansible_collections.gpulab.node.plugins.module_utils.core.changes import changes
from ansible_collections.gpulab.node.plugins.module_utils.core.module import Module, run
from ansible_collections.gpulab.node.plugins.module_utils.environments import conda, due
from ansible_collections.gpulab.node.plugins.module_utils.environments.builds import (
    change,
    groups_of,
    hand_over,
    removal,
    told,
)
from ansible_collections.gpulab.node.plugins.module_utils.environments.conda_host import Condas


def wanted(environment: dict[str, Any], cuda: str | None) -> conda.Wanted:
    """Return an element of the option environments as the core takes it."""
    lists = {key: tuple(environment[key]) for key in ("packages", "channels", "pip")}
    variables = {name: str(value) for name, value in environment["variables"].items()}
    return conda.Wanted(
        name=environment["name"],
        lock=environment["lock_text"],
        variables=variables,
        framework=environment["framework"],
        cuda=cuda,
        **lists,
    )


def look(module: Module, condas: Condas, environments: list[conda.Wanted]) -> dict[str, Any]:
    """Say what is to do; in check mode also what would come of it. Raises Refusal."""
    params = module.params
    keep = params["state"] == "present"
    if keep:
        condas.check_place()
    gone = [name for name in condas.names() if name in params["absent"] or not keep]
    found = due.look(condas, environments if keep else [], conda.reasons, gone)
    fetch = keep and not condas.tool_is(params["micromamba_sha256"])
    clear = not keep and condas.is_there()
    result: dict[str, Any] = {
        "changed": bool(fetch or found or clear),
        "changes": changes(install=["micromamba"] if fetch else []),
        "micromamba": fetch,
        "unlisted": due.unlisted(condas, environments, gone),
        "abandoned": condas.abandoned(),
    }
    if not module.check_mode:
        return {**result, **asdict(found), "last": "clear" if clear else None}

    def predict(one: conda.Wanted) -> dict[str, str]:
        return condas.predict(one, module.run_command, Path(module.tmpdir))

    return {**result, **told(due.foreseen(condas, found, environments, params, predict), result["changes"])}


def arrange(module: Module, condas: Condas) -> dict[str, Any]:
    """Carry out an operation that is not about what an environment holds; raises Refusal."""
    operation = module.params["operation"]
    if operation == "give":
        return hand_over(condas, module.params["only"])
    if operation == "fetch":
        condas.fetch_tool(module.params["micromamba_url"], module.params["micromamba_sha256"], Path(module.tmpdir))
    else:
        condas.clear()
    return {}


def operate(module: Module) -> dict[str, Any]:
    """Carry out the wanted operation; raises Refusal."""
    params = module.params
    settings = {"PIP_INDEX_URL": params["index_url"]} if params["index_url"] else {}
    condas = Condas(Path(params["directory"]), settings, Path(pwd.getpwuid(0).pw_dir))
    condas.check_way()
    environments = [wanted(one, params["cuda"]) for one in params["environments"]]
    condas.groups = groups_of(params["environments"])
    evidence.note(module, environment=[f"{params['directory']}/envs/{one.name}" for one in environments])
    operation, name = params["operation"], params["only"]
    if operation == "look":
        return look(module, condas, environments)
    if operation in ("fetch", "clear", "give"):
        return arrange(module, condas)
    if operation == "explain":
        return {"why": asdict(condas.explain(name, params["printed"], params["log"]))}
    before = condas.packages(name)
    one = next((one for one in environments if one.name == name), None)
    if one is None or name in params["absent"] or params["state"] == "absent":
        condas.remove(name)
        return removal(name, before)
    if operation == "make":
        return {"argv": condas.make(one)}
    because = conda.reasons(condas.build(name), one)
    return change(name, because, before, condas.finish(one))


def main() -> None:
    """Parse, operate, report."""
    names = {"type": "list", "elements": "str", "default": []}
    module = Module(
        argument_spec={
            "directory": {"type": "path", "default": "/opt/conda"},
            "environments": {
                "type": "list",
                "elements": "dict",
                "default": [],
                "options": {
                    "name": {"type": "str", "required": True},
                    "packages": names,
                    "pip": names,
                    "file": {"type": "path"},
                    "replace": {"type": "dict", "default": {}},
                    "lock": {"type": "path"},
                    "lock_text": {"type": "str"},
                    "channels": names,
                    "variables": {"type": "dict", "default": {}},
                    "group": {"type": "str"},
                    "jupyter": {"type": "bool", "default": False},
                    "framework": {"type": "str", "choices": ["pytorch", "tensorflow", "jax"]},
                },
            },
            "absent": names,
            "state": {"type": "str", "choices": ["present", "absent"], "default": "present"},
            "channels": {"type": "list", "elements": "str", "default": ["conda-forge"]},
            "defaults_channel": {"type": "str"},
            "extra_index_urls": {**names, "no_log": True},
            "channel_alias": {"type": "str"},
            "cuda": {"type": "str"},
            "micromamba_url": {"type": "str", "required": True},
            "micromamba_sha256": {"type": "str", "required": True},
            "architecture": {"type": "str", "choices": ["x86_64", "aarch64"], "default": "x86_64"},
            "index_url": {"type": "str", "no_log": True},
            "timeout": {"type": "int", "default": 3600},
            "operation": {
                "type": "str",
                "choices": ["look", "fetch", "make", "explain", "finish", "give", "clear"],
                "default": "look",
            },
            "only": {"type": "str"},
            "printed": {"type": "str", "default": ""},
            "log": {"type": "str", "default": ""},
        },
        supports_check_mode=True,
    )
    run(module, operate)


if __name__ == "__main__":
    main()

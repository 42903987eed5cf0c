#!/usr/bin/python
# Copyright (c) 2026 The gpulab founders
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The node's half of making virtual environments: look, prepare a build, take it into use. Building is a long step."""

from __future__ import annotations

DOCUMENTATION = r"""
module: venv_environments
short_description: Keep Python virtual environments, each built beside the former one and tried before it replaces it
version_added: 0.2.0
description:
  - Brings virtual environments to the wanted state with uv, which it installs in the version named.
  - What is wanted is resolved once, into a lock with hashes, and installed from that. An environment is changed only
    when something else is wanted of it, or when a package of it is gone or was added by hand.
  - A change makes a new build in a directory of its own, tries it with its own interpreter, and then moves a link. When
    anything fails, the former build stays in use. Jobs that run go on with the build that they were started with.
  - Building runs as long steps (see M(gpulab.node.long_step)).
  - Source code of a package that has no wheel is built, if that takes no compiler or O(environments[].compile) names
    it. What is older than it could be for want of a wheel is told in a warning.
  - uv takes pip's index, proxy and certificate settings from C(/etc/pip.conf) and C(/etc/xdg/pip/pip.conf), and proxies
    from the task's environment.
options:
  directory:
    description: Where the environments are; C(DIRECTORY/NAME) is the one of that name.
    type: path
    default: /opt/venvs
  environments:
    description: The environments that shall be there.
    type: list
    elements: dict
    default: []
    suboptions:
      name:
        description: Name of the environment.
        type: str
        required: true
      python:
        description: Its Python, such as V(3.12). One that the system has not is downloaded by uv.
        type: str
        required: true
      requirements:
        description: What it shall hold, as pip takes it.
        type: list
        elements: str
        default: []
      lock:
        description: Text of a requirements file with hashes, to be installed instead of the requirements.
        type: str
      index_url:
        description: Address of the index that O(environments[].index_packages) come from, and nothing else.
        type: str
      index_packages:
        description: Names of packages.
        type: list
        elements: str
        default: []
      constraints:
        description: Limits of versions, as uv takes them by C(--constraints).
        type: list
        elements: str
        default: []
      overrides:
        description: Requirements that stand in for those of other packages, as uv takes them by C(--overrides).
        type: list
        elements: str
        default: []
      compile:
        description: Packages whose source code is built with a compiler and the CUDA toolkit of the node.
        type: list
        elements: str
        default: []
      prereleases:
        description: Whether versions before a release are taken.
        type: bool
        default: false
      variables:
        description: Environment variables that its interpreters set where the user has not.
        type: dict
        default: {}
      framework:
        description: The framework that it is tried with.
        type: str
        choices: [pytorch, tensorflow, jax]
      version:
        description: The version that the framework must have.
        type: str
      cuda:
        description: The CUDA that the framework must be built for; unset is none.
        type: str
      group:
        description: >-
          Group of the node whose members alone may use it, besides root; what packages it has, everybody can see. Unset
          lets everybody use it.
        type: str
  absent:
    description: Names of environments that shall not be there.
    type: list
    elements: str
    default: []
  uv_version:
    description: Version of uv.
    type: str
    required: true
  uv_sha256:
    description: SHA-256 of its wheel.
    type: str
    required: true
  uv_url:
    description: Address of its wheel. Unset takes it from the package index.
    type: str
  index_url:
    description: Address of the package index. Unset takes that of pip.
    type: str
  python_mirror:
    description: Address that stands in for the one that uv downloads Pythons from.
    type: str
  timeout:
    description: Seconds after which one long step is stopped.
    type: int
    default: 3600
  operation:
    description: What the action plugin asks of the node. Leave it out.
    type: str
    choices: [look, fetch, lock, make, finish, give]
    default: look
  only:
    description: The environment that it asks this for. Leave it out.
    type: str
extends_documentation_fragment: gpulab.node.attributes.diff
attributes:
  check_mode:
    description: The new packages are resolved, not installed. Without uv on the node their versions are not known.
  diff_mode:
    description: One package a line, with its version.
requirements:
  - pip for the node's Python
  - systemd as the first process of the node
  - root
"""

EXAMPLES = r"""
- name: Keep an environment for vision
  gpulab.node.venv_environments:
    uv_version: "{{ ansible_facts['gpulab_plan'].uv.version }}"
    uv_sha256: "{{ ansible_facts['gpulab_plan'].uv.sha256 }}"
    environments:
      - name: vision
        python: "3.12"
        requirements: [albumentations, opencv-python-headless]
"""

RETURN = r"""
changes:
  description: What changed, or would change in check mode, as M(gpulab.node.preview) shows it.
  returned: success
  type: list
  elements: dict
  sample: [{action: make, what: "vision (packages: 87 added)"}]
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
      description: Version of each package that is new.
      type: dict
    removed:
      description: Version of each package that goes.
      type: dict
    changed:
      description: Version before and after of each package that changes.
      type: dict
unlisted:
  description: Environments that are there and were named neither to be there nor not to be. They are left alone.
  returned: success
  type: list
  elements: str
abandoned:
  description: Environments that are for a group which is no longer there. They are left alone.
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

from dataclasses import asdict
from pathlib import Path
from typing import Any

from ansible_collections.gpulab.node.plugins.module_utils.core import evidence
from ansible_collections.gpulab.node.plugins.module_utils.core.module import Module, run
from ansible_collections.gpulab.node.plugins.module_utils.environments import due, venv
from ansible_collections.gpulab.node.plugins.module_utils.environments.builds import (
    change,
    groups_of,
    hand_over,
    removal,
    told,
)
from ansible_collections.gpulab.node.plugins.module_utils.environments.venv_host import Tool, Venvs

LISTS = ("requirements", "index_packages", "constraints", "overrides", "compile")
UNKNOWN = "its version is known once uv is there"


def wanted(environment: dict[str, Any]) -> venv.Wanted:
    """Return an element of the option environments as the core takes it."""
    given = {key: value for key, value in environment.items() if key not in ("index_url", "group")}
    lists = {key: tuple(given[key]) for key in LISTS}
    variables = {name: str(value) for name, value in given["variables"].items()}
    return venv.Wanted(**{**given, **lists, "variables": variables, "index": environment["index_url"]})


def look(module: Module, venvs: Venvs, environments: list[venv.Wanted]) -> dict[str, Any]:
    """Say what is to do; in check mode also what would come of it. Raises Refusal."""
    for one in environments:
        venv.check_lock(one)
    gone = [name for name in module.params["absent"] if name in venvs.names()]
    found = due.look(venvs, environments, venv.reasons, gone)
    result: dict[str, Any] = {
        "changed": bool(found),
        "changes": [],
        "unlisted": due.unlisted(venvs, environments, gone),
        "abandoned": venvs.abandoned(),
    }
    if not module.check_mode:
        return {**result, **asdict(found)}

    def predict(one: venv.Wanted) -> dict[str, str]:
        after = venvs.predict(one, module.run_command, Path(module.tmpdir))
        return dict.fromkeys(one.requirements, f"({UNKNOWN})") if after is None else after

    return {**result, **told(due.foreseen(venvs, found, environments, module.params, predict), [])}


def operate(module: Module) -> dict[str, Any]:
    """Carry out the wanted operation; raises Refusal."""
    params = module.params
    settings = {"UV_DEFAULT_INDEX": params["index_url"], "UV_PYTHON_INSTALL_MIRROR": params["python_mirror"]}
    tool = Tool(params["uv_version"], params["uv_sha256"], params["uv_url"])
    venvs = Venvs(Path(params["directory"]), tool, {name: value for name, value in settings.items() if value})
    environments = [wanted(one) for one in params["environments"]]
    venvs.check_way()
    venvs.groups = groups_of(params["environments"])
    evidence.note(module, environment=[f"{params['directory']}/{one.name}" for one in environments])
    if params["operation"] == "look":
        return look(module, venvs, environments)
    if params["operation"] == "fetch":
        return {"argv": venvs.fetch_tool()}
    if params["operation"] == "give":
        return hand_over(venvs, params["only"])
    if params["only"] in params["absent"]:
        before = venvs.packages(params["only"])
        venvs.remove(params["only"])
        return removal(params["only"], before)
    one = next(one for one in environments if one.name == params["only"])
    if params["operation"] in ("lock", "make"):
        return {"argv": venvs.lock(one) if params["operation"] == "lock" else venvs.make(one)}
    before, because = venvs.packages(one.name), venv.reasons(venvs.build(one.name), one)
    found = change(one.name, because, before, venvs.finish(one))
    build = venvs.build(one.name)
    return {**found, "notes": venv.told(one.name, build.record if build else {})}


def main() -> None:
    """Parse, operate, report."""
    names = {"type": "list", "elements": "str", "default": []}
    module = Module(
        argument_spec={
            "directory": {"type": "path", "default": "/opt/venvs"},
            "environments": {
                "type": "list",
                "elements": "dict",
                "default": [],
                "options": {
                    "name": {"type": "str", "required": True},
                    "python": {"type": "str", "required": True},
                    "requirements": names,
                    "lock": {"type": "str"},
                    "index_url": {"type": "str", "no_log": True},
                    "index_packages": names,
                    "constraints": names,
                    "overrides": names,
                    "compile": names,
                    "prereleases": {"type": "bool", "default": False},
                    "variables": {"type": "dict", "default": {}},
                    "group": {"type": "str"},
                    "framework": {"type": "str", "choices": ["pytorch", "tensorflow", "jax"]},
                    "version": {"type": "str"},
                    "cuda": {"type": "str"},
                },
            },
            "absent": names,
            "uv_version": {"type": "str", "required": True},
            "uv_sha256": {"type": "str", "required": True},
            "uv_url": {"type": "str"},
            "index_url": {"type": "str", "no_log": True},
            "python_mirror": {"type": "str"},
            "timeout": {"type": "int", "default": 3600},
            "operation": {
                "type": "str",
                "choices": ["look", "fetch", "lock", "make", "finish", "give"],
                "default": "look",
            },
            "only": {"type": "str"},
        },
        supports_check_mode=True,
    )
    run(module, operate)


if __name__ == "__main__":
    main()

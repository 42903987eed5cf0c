#!/usr/bin/python
# Copyright (c) 2026 The gpulab founders
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Try the Python environments, the compilers and the container engine of a node, all at once."""

from __future__ import annotations

DOCUMENTATION = r"""
module: software_proof
short_description: Try the Python environments, the compilers and the container engine of a node, all at once
version_added: 1.0.0
description:
  - Has the interpreter of each environment that M(gpulab.node.venv_environments) or M(gpulab.node.conda_environments)
    made import its framework, multiply matrices on the CPU and on each GPU, and tell what it is built for. One follows
    the other, for each wants the GPUs' memory for itself. One that gives no answer in 300 s is killed.
  - Runs nvcc of each toolkit over a small C++ program with one kernel, for the compute capabilities of the node's GPUs,
    120 s each. The program is not run, and no GPU is touched.
  - Makes an image of a few KB, whose only program says that it runs, has Docker start it with its default runtime and
    its settings, and removes it again, within 60 s. The container has no GPU, no network and no rights; nothing is
    downloaded. Docker is not started where it does not run.
  - Does not fail where one of them does; M(gpulab.node.verify) judges what was found. Leaves nothing on the node but,
    with O(again), a record of a trial in which nothing failed.
options:
  directory:
    description: Where the virtual environments are. Without it and O(conda_directory), no environment is tried.
    type: path
  conda_directory:
    description: The root prefix below which the conda environments are.
    type: path
  gpus:
    description:
      - Whether environments try the GPUs, too, which takes memory of each for a moment. Give V(false) where somebody
        uses them; the frameworks then see none.
    type: bool
    default: true
  toolkits:
    description:
      - The toolkits to compile with, as C(cuda.toolkits) of the plan or of the facts has them, C(version) and C(prefix)
        each; C(host_compiler) names the compiler that nvcc shall take, unset leaves it to nvcc.
    type: list
    elements: dict
  compute_capabilities:
    description: What to compile for, such as V(8.9). Empty means nvcc's own default.
    type: list
    elements: str
    default: []
  container:
    description: Whether to have Docker start a container. Check mode starts none.
    type: bool
    default: false
  again:
    description:
      - Whether all is tried though nothing of it has changed on the node since it was last tried, as
        M(gpulab.node.gpu_facts) saw, with O(gpulab.node.gpu_facts#module:work=look) or
        O(gpulab.node.gpu_facts#module:work=end). Where V(false), what came of that trial is the result.
      - Unset, the last trial neither counts nor is recorded.
    type: bool
  facts:
    description: A digest of the node's facts. The action plugin sets it. Leave it out.
    type: str
  gpu_count:
    description: How many GPUs frameworks have to see. The action plugin sets it. Leave it out.
    type: int
    default: 0
attributes:
  check_mode:
    description: The same with and without, but for O(container).
    support: full
extends_documentation_fragment: [gpulab.node.attributes.facts, gpulab.node.attributes.platform]
"""

EXAMPLES = r"""
- name: Try the Python environments, the planned toolkits and Docker
  gpulab.node.software_proof:
    directory: /opt/venvs
    toolkits: "{{ ansible_facts['gpulab_plan'].cuda.toolkits }}"
    compute_capabilities: "{{ ansible_facts['gpulab_plan'].cuda.compute_capabilities }}"
    container: true
"""

RETURN = r"""
ansible_facts:
  description: What came of each that was tried.
  returned: always
  type: dict
  contains:
    gpulab_environments:
      description:
        - For each environment its C(name), with C((conda)) behind one of conda, its interpreter (C(python)), what is
          C(expected) of it, whether its GPUs were tried (C(gpus_tried)), and the C(answer) of its interpreter, null
          where it gave none.
      returned: with O(directory) or O(conda_directory)
      type: list
      elements: dict
    gpulab_cuda_compiled:
      description: One record for each toolkit; C(problem) is null where it compiled and linked.
      returned: with O(toolkits)
      type: list
      elements: dict
      sample:
        - {version: "12.4", prefix: /usr, compute_capabilities: ["8.0"], seconds: 2.6, problem: null}
    gpulab_container_started:
      description: The C(seconds) that it took, and the C(problem), null where the container started; null where Docker
        does not run.
      returned: with O(container), not in check mode
      type: dict
      sample: {seconds: 1.2, problem: null}
    gpulab_software_tried:
      description: When all of this was tried, where that was not now.
      returned: with O(again)
      type: str
      sample: "2026-11-28T02:12:09+00:00"
"""

import json
import os
import platform
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from pathlib import Path
from typing import Any, Callable, TypedDict

from ansible.module_utils.basic import AnsibleModule
from ansible_collections.gpulab.node.plugins.module_utils.containers import first_container
from ansible_collections.gpulab.node.plugins.module_utils.core import records
from ansible_collections.gpulab.node.plugins.module_utils.core.node import Job, Node
from ansible_collections.gpulab.node.plugins.module_utils.core.refusal import Refusal
from ansible_collections.gpulab.node.plugins.module_utils.cuda import nvcc
from ansible_collections.gpulab.node.plugins.module_utils.environments import venv
from ansible_collections.gpulab.node.plugins.module_utils.environments.builds import NO_GPUS, probe_source
from ansible_collections.gpulab.node.plugins.module_utils.facts import containers
from ansible_collections.gpulab.node.plugins.module_utils.receipts import trial

NODE = Node()
ENVIRONMENT_SECONDS = 300  # a framework that is read for the first time takes its time
COMPILER_SECONDS = 120
CONTAINER_SECONDS = 60
# JAX would take three quarters of a GPU's memory.
LITTLE_MEMORY = "XLA_PYTHON_CLIENT_PREALLOCATE=false"


class Expected(TypedDict):
    """What an environment is tried for."""

    framework: str | None
    variables: dict[str, str]


class RecordedTrial(TypedDict):
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
        record = records.read(link / venv.RECORD, RecordedTrial, None)
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


def environments(places: dict[str, str | None], *, gpus: bool) -> list[dict[str, Any]]:
    """Try each environment; places: the directory of the links, by the form of an environment's name."""
    return [
        attempt(path, ENVIRONMENT_SECONDS, gpus=gpus, name=form.format(path.name))
        for form, place in places.items()
        if place
        for path in sorted(Path(place).glob("*"))
        if path.is_symlink()
    ]


def compilers(toolkits: list[dict[str, Any]], compute_capabilities: list[str], directory: Path) -> list[dict[str, Any]]:
    """Compile with each toolkit."""
    return [nvcc.compile_with(toolkit, compute_capabilities, directory, COMPILER_SECONDS) for toolkit in toolkits]


def container(program: str | None) -> dict[str, Any] | None:
    """Have Docker start a container; program is its client."""
    if not (program and containers.docker_runs(NODE)):
        return None
    return first_container.start(platform.machine(), CONTAINER_SECONDS)


def tried(module: AnsibleModule) -> dict[str, Any]:
    """Try each kind beside the others, for none needs what another one tries; return the facts."""
    asked = module.params
    tries: dict[str, Callable[[], Any]] = {}
    conda = f"{asked['conda_directory']}/envs" if asked["conda_directory"] else None
    if asked["directory"] or conda:
        places = {"{}": asked["directory"], "{} (conda)": conda}
        tries["gpulab_environments"] = partial(environments, places, gpus=asked["gpus"])
    if asked["toolkits"] is not None:
        compiling = partial(compilers, asked["toolkits"], asked["compute_capabilities"])
        tries["gpulab_cuda_compiled"] = partial(compiling, Path(module.tmpdir))
    if asked["container"] and not module.check_mode:
        tries["gpulab_container_started"] = partial(container, module.get_bin_path("docker"))
    with ThreadPoolExecutor() as pool:
        running = {fact: pool.submit(work) for fact, work in tries.items()}
    return {fact: future.result() for fact, future in running.items()}


def faultless(found: dict[str, Any], gpu_count: int) -> bool:
    """Tell whether nothing failed of what was tried; each CUDA build had to see so many GPUs."""
    environments_work = all(_works(one, gpu_count) for one in found.get("gpulab_environments", []))
    compiled = not any(one["problem"] for one in found.get("gpulab_cuda_compiled", []))
    started = found.get("gpulab_container_started") or {}
    return environments_work and compiled and not started.get("problem")


def _works(environment: dict[str, Any], gpu_count: int) -> bool:
    expected, answer = environment["expected"], environment["answer"]
    if expected is None or expected["framework"] is None:
        return expected is not None
    if answer is None or venv.faults(answer, expected):
        return False
    gpus = answer.get("gpus", [])
    seen = len(gpus) if expected["cuda"] and environment["gpus_tried"] else gpu_count
    return seen >= gpu_count and all(gpu["matmul"] for gpu in gpus)


def tried_and_kept(module: AnsibleModule) -> dict[str, Any]:
    """Try, and record a trial in which nothing failed, and during which nothing of what it depends on has changed."""
    asked, params = trial.Asked(**{name: module.params[name] for name in trial.ARGUMENTS}), module.params
    before = trial.Watch(NODE, asked).digest(params["facts"])
    found = tried(module)
    after = trial.Watch(NODE, asked).digest(params["facts"])
    kept = found if before == after and faultless(found, params["gpu_count"]) else None
    trial.keep(NODE, asked, kept, after)
    return {**found, "gpulab_software_tried": None}


def main() -> None:
    """Try, and return what came of it."""
    module = AnsibleModule(
        argument_spec={
            **trial.ARGUMENTS,
            "again": {"type": "bool"},
            "facts": {"type": "str"},
            "gpu_count": {"type": "int", "default": 0},
        },
        supports_check_mode=True,
    )
    keeps = module.params["facts"] and not module.check_mode and os.geteuid() == 0
    module.exit_json(changed=False, ansible_facts=(tried_and_kept if keeps else tried)(module))


if __name__ == "__main__":
    main()

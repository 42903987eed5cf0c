#!/usr/bin/python
# Copyright (c) 2026 The gpulab founders
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The node's half of a long step: start it, or say how it stands."""

from __future__ import annotations

DOCUMENTATION = r"""
module: long_step
short_description: Run a long command that outlives the connection, with live progress
version_added: 0.1.0
author: The gpulab founders (@gpulab)
description:
  - Runs a command on the node as the transient systemd unit C(gpulab-NAME.service) and follows it to its end.
  - A lost connection or a killed controller does not touch the command. The next run with the same command attaches to
    it, or picks up the result it left.
  - Its output is C(/var/lib/gpulab/steps/NAME/log) on the node; the last line of it is shown while it runs.
options:
  name:
    description: Name of the step, unique on the node. Letters, digits, V(.), V(_) and V(-).
    type: str
    required: true
  argv:
    description: The command and its arguments. No shell reads them.
    type: list
    elements: str
  environment:
    description: Environment variables of the command.
    type: dict
    default: {}
  chdir:
    description: Directory in which the command runs.
    type: path
    default: /
  timeout:
    description: Seconds after which systemd stops the command.
    type: int
    default: 3600
  pick_up:
    description: Whether a result that no run has heard counts. Set by the action plugin. Leave it out.
    type: bool
    default: true
  operation:
    description: What the action plugin asks of the node. Leave it out.
    type: str
    choices: [start, poll, acknowledge]
    default: start
  wait:
    description: Seconds to wait on the node for the end of the command. Set by the action plugin. Leave it out.
    type: float
    default: 5
  run:
    description: The run that this task belongs to. The action plugin sets it. Leave it out.
    type: dict
attributes:
  check_mode:
    description: The command is not run; the task reports a change.
    support: full
requirements:
  - systemd as the first process of the node
  - root
"""

EXAMPLES = r"""
- name: Burn in the GPUs for an hour
  gpulab.node.long_step:
    name: burn-in
    argv: [gpu-burn, "3600"]
    timeout: 4000
"""

RETURN = r"""
changes:
  description: What changed, or would change in check mode, as M(gpulab.node.preview) shows it.
  returned: success
  type: list
  elements: dict
  sample: [{action: run, what: update-initramfs -u -k all}]
step:
  description: How the step stands.
  returned: always
  type: dict
  contains:
    state:
      description: V(running), V(finished), V(timeout) or V(interrupted).
      type: str
    rc:
      description: Exit status of the command, null unless it has finished.
      type: int
    seconds:
      description: Seconds since its start, or from its start to its end.
      type: float
    tail:
      description: The last lines of its log.
      type: list
      elements: str
    log:
      description: Path of its log on the node.
      type: str
    found:
      description: V(started) by this task, V(attached) to a run of before, or its result V(picked_up).
      type: str
refusal:
  description: Code, cause and remedy when the step was refused or failed.
  returned: on failure
  type: dict
"""

import time
from dataclasses import asdict

from ansible.module_utils.basic import AnsibleModule
from ansible_collections.gpulab.node.plugins.module_utils.core import run_lock
from ansible_collections.gpulab.node.plugins.module_utils.core.module import fail
from ansible_collections.gpulab.node.plugins.module_utils.core.refusal import Refusal
from ansible_collections.gpulab.node.plugins.module_utils.core.steps import Command, Status, Step, running_boot
from ansible_collections.gpulab.node.plugins.module_utils.driver import dkms

POLL_INTERVAL = 0.2


def follow(step: Step, seconds: float) -> Status:
    """Return the status of the step when its command has ended, or after the given seconds."""
    deadline = time.monotonic() + seconds
    status = step.status()
    if status.state != "running":
        return status
    while time.monotonic() < deadline and not step.has_result():
        time.sleep(POLL_INTERVAL)
    return step.status()


def is_beside_a_build(step: Step) -> bool:
    """Tell whether what compiles now is a step of the module dkms, and not this one."""
    builds = [build for build in step.directory.parent.glob("dkms-*") if not (build / "result").exists()]
    return bool(builds) and step.directory not in builds


def operate(module: AnsibleModule) -> dict[str, object]:
    """Carry out the wanted operation; raises Refusal."""
    params = module.params
    step = Step(params["name"], module.run_command, running_boot())
    if params["run"]:
        run_lock.hold(params["run"], run_lock.GO_ON)
    found = None
    if params["operation"] == "start":
        environment = {name: str(value) for name, value in params["environment"].items()}
        command = Command(tuple(params["argv"]), environment, params["chdir"])
        found = step.start(command, params["timeout"], pick_up=params["pick_up"])
    if params["operation"] == "acknowledge":
        step.acknowledge()
    status = follow(step, params["wait"])
    compiling = dkms.compiling() if status.state == "running" and not is_beside_a_build(step) else None
    return {**asdict(status), "line": compiling or status.line, "found": found}


def main() -> None:
    """Parse, operate, report."""
    module = AnsibleModule(
        argument_spec={
            "name": {"type": "str", "required": True},
            "argv": {"type": "list", "elements": "str"},
            "environment": {"type": "dict", "default": {}},
            "chdir": {"type": "path", "default": "/"},
            "timeout": {"type": "int", "default": 3600},
            "pick_up": {"type": "bool", "default": True},
            "operation": {"type": "str", "choices": ["start", "poll", "acknowledge"], "default": "start"},
            "wait": {"type": "float", "default": 5},
            "run": {"type": "dict"},
        },
        required_if=[("operation", "start", ["argv"])],
        supports_check_mode=True,
    )
    if module.check_mode:
        module.exit_json(changed=True, step={"state": "absent"})
    try:
        step = operate(module)
    except Refusal as refusal:
        fail(module, refusal, step={"state": "absent"})
    module.exit_json(changed=True, step=step)


if __name__ == "__main__":
    main()

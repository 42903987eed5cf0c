#!/usr/bin/python
# Copyright (c) 2026 The gpulab founders
# GNU General Public License v3.0+ (see https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Let Slurm keep GPUs or nodes for somebody at a time."""

from __future__ import annotations

DOCUMENTATION = r"""
module: slurm_reservations
short_description: Let Slurm keep GPUs or nodes for somebody at a time
version_added: 1.1.0
description:
  - Runs on the controller of Slurm. Makes, changes and deletes reservations; gpulab's have the comment C(gpulab), and
    those of others are left alone.
  - No job is ended. Slurm does not give away what jobs have, and keeps a reservation in which a job runs (GPULAB-F055).
  - What is over is not made again.
extends_documentation_fragment: gpulab.node.attributes
attributes:
  check_mode:
    description: Reports what would change, and changes nothing.
options:
  host:
    description: What the operator calls the controller, for the messages.
    type: str
    required: true
  reservations:
    description: All of them, as C(slurm_reservations) of the role C(slurm) has them.
    type: list
    elements: dict
    default: []
"""

EXAMPLES = r"""
- name: Keep two GPUs for a course
  gpulab.node.slurm_reservations:
    host: "{{ inventory_hostname }}"
    reservations:
      - {name: course, start: "2026-12-01T08:00:00", duration: "04:00:00", gpus: 2, groups: [vision]}
"""

RETURN = r"""
changes:
  description: What changed, or would change in check mode, as M(gpulab.node.preview) shows it.
  returned: success
  type: list
  elements: dict
  sample: [{action: make, what: reservation course}]
refusal:
  description: Code, cause and remedy when the task is refused.
  returned: when refused
  type: dict
"""

import time
from typing import Any

from ansible.module_utils.basic import AnsibleModule
from ansible_collections.gpulab.node.plugins.module_utils.core.module import run
from ansible_collections.gpulab.node.plugins.module_utils.core.refusals.slurm import refuse
from ansible_collections.gpulab.node.plugins.module_utils.slurm import reservations
from ansible_collections.gpulab.node.plugins.module_utils.slurm.calls import answer


def operate(module: AnsibleModule) -> dict[str, Any]:
    """Return the result. Raises Refusal F055."""
    wanted = reservations.wanted(module.params["reservations"])
    there, others = look(module)
    for one in wanted:
        if one.name in others:
            detail = "somebody else has one of this name"
            raise refuse("F055", host=module.params["host"], what=f"make reservation {one.name}", detail=detail)
    now = reservations.moment(time.strftime(reservations.TIME))
    steps = list(reservations.steps(wanted, there, now))
    if not module.check_mode:
        for step in steps:
            call(module, ["scontrol", *step.arguments], f"{step.action} {step.what}")
        for step in reservations.steps(wanted, look(module)[0], now) if steps else ():
            raise refuse(
                "F055", host=module.params["host"], what=f"{step.action} {step.what}", detail="it is not so afterwards"
            )
    return {"changed": bool(steps), "changes": [{"action": step.action, "what": step.what} for step in steps]}


def look(module: AnsibleModule) -> tuple[list[reservations.Reservation], set[str]]:
    """Return gpulab's reservations, and the names of others'; none on a host that has no Slurm yet."""
    if module.get_bin_path("scontrol") is None:
        return [], set()
    text = call(module, list(reservations.SHOW), "tell its reservations")
    return reservations.parse(text, lambda nodes: call(module, ["scontrol", "show", "hostnames", nodes], "name nodes"))


def call(module: AnsibleModule, argv: list[str], what: str) -> str:
    """Return what a command prints. Raises Refusal F055."""
    return answer(module, argv, "F055", module.params["host"], what)


def main() -> None:
    """Parse, and do it."""
    module = AnsibleModule(
        argument_spec={
            "host": {"type": "str", "required": True},
            "reservations": {"type": "list", "elements": "dict", "default": []},
        },
        supports_check_mode=True,
    )
    run(module, operate)


if __name__ == "__main__":
    main()

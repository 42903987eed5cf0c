#!/usr/bin/python
# Copyright (c) 2026 The gpulab founders
# GNU General Public License v3.0+ (see https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The part of gpulab.node.installer_boot that works on the node."""

from __future__ import annotations

DOCUMENTATION = r"""
module: boot_once
short_description: Let GRUB start an installer exactly once
version_added: 1.0.0
description:
  - The part of M(gpulab.node.installer_boot) that works on the node. Use that one.
options:
  work:
    description:
      - V(look) and V(judge) only read.
      - V(put) and V(arm) let GRUB start the installer at the next boot; V(disarm) takes it back.
      - V(lock) keeps everybody but root from logging in; V(reboot) reboots a node that nobody
        works on.
    type: str
    choices: [look, judge, put, lock, arm, reboot, disarm]
    required: true
  asked:
    description: What the action plugin asks, packed.
    type: str
    required: true
extends_documentation_fragment: gpulab.node.attributes
attributes:
  check_mode:
    description: Changes nothing.
"""

EXAMPLES = r"""
- name: Take back what was prepared
  gpulab.node.installer_boot:
    work: disarm
"""

RETURN = r"""
answer:
  description: What the action plugin reads, packed.
  returned: success
  type: str
"""

import os
from typing import Any

from ansible.module_utils.basic import AnsibleModule
from ansible_collections.gpulab.node.plugins.module_utils.capture.wire import packed, unpacked
from ansible_collections.gpulab.node.plugins.module_utils.core.module import run
from ansible_collections.gpulab.node.plugins.module_utils.core.node import Job, Node
from ansible_collections.gpulab.node.plugins.module_utils.core.refusals import node
from ansible_collections.gpulab.node.plugins.module_utils.core.refusals.reinstall import refuse
from ansible_collections.gpulab.node.plugins.module_utils.facts import users
from ansible_collections.gpulab.node.plugins.module_utils.installer import judge, machine
from ansible_collections.gpulab.node.plugins.module_utils.system.boot_once_host import BootOnce

SECONDS = 30.0  # what one command may take
NODE = Node()


def call(argv: list[str]) -> tuple[int, str, str]:
    """Run a command; one that is not there or does not answer has failed."""
    return Job(argv, SECONDS).result() or (127, "", f"{argv[0]} is not there, or does not answer")


def look(boot: BootOnce) -> dict[str, Any]:
    """Say what the planning needs to know of the node now."""
    found = machine.machine(NODE)
    return {**boot.look(), "dmi_uuid": found.dmi_uuid, "memory": found.memory}


def reboot(boot: BootOnce, host: str) -> None:
    """Reboot, unless somebody has come to work. Raises Refusal R009."""
    who = users.in_use(users.read(NODE, [], os.getpid()))
    if who:
        raise refuse("R009", host=host, who=who)
    boot.reboot()


def answer(module: AnsibleModule) -> dict[str, Any]:
    """Do one work. Raises Refusal."""
    if os.geteuid() != 0:
        raise node.refuse("H011", user=os.geteuid())
    asked = unpacked(module.params["asked"])
    boot, work, changed = BootOnce(NODE, call, asked["host"]), module.params["work"], False
    told: dict[str, Any] = {}
    if work == "look":
        told = look(boot)
    elif work == "judge":
        told = {"reasons": judge.judge(asked["plan"], machine.machine(NODE), machine.disks())}
    elif module.check_mode:
        pass
    elif work == "put":
        changed = boot.put(asked["files"])
    elif work == "lock":
        changed = boot.lock(asked["message"], asked["seconds"])
    elif work == "arm":
        changed = boot.arm(module, asked["title"], asked["names"], asked["arguments"])
    elif work == "reboot":
        reboot(boot, asked["host"])
        changed = True
    elif work == "disarm":
        changed = boot.disarm(module)
    return {"changed": changed, "answer": packed({**told, "changed": changed})}


def main() -> None:
    """Parse, and do it."""
    works = ["look", "judge", "put", "lock", "arm", "reboot", "disarm"]
    module = AnsibleModule(
        argument_spec={
            "work": {"type": "str", "choices": works, "required": True},
            "asked": {"type": "str", "required": True},
        },
        supports_check_mode=True,
    )
    run(module, answer)


if __name__ == "__main__":
    main()

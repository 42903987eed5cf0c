#!/usr/bin/python
# Copyright (c) 2026 The gpulab founders
# GNU General Public License v3.0+ (see https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Give a node the people of the inventory."""

from __future__ import annotations

DOCUMENTATION = r"""
module: user_accounts
short_description: Give a node the people and groups of the inventory
version_added: 1.0.0
description:
  - Makes groups and accounts with the numbers of the inventory, their homes and their keys, and ends accounts. All
    people are looked at before the first change, and one refusal names everything that is wrong.
  - An account that is there keeps its number and its files. An account that no list names is left alone, and told.
  - Keys lie in C(/etc/ssh/gpulab-keys), which is root's; sshd looks there beside the places that it had before.
extends_documentation_fragment: gpulab.node.attributes
attributes:
  check_mode:
    description: Reports what would change, refuses as it would, and changes nothing.
options:
  groups:
    description: The groups, each with O(groups[].name) and O(groups[].gid).
    type: list
    elements: dict
    default: []
    suboptions:
      name:
        description: Name of the group.
        type: str
        required: true
      gid:
        description: Its number.
        type: int
        required: true
  people:
    description: The people.
    type: list
    elements: dict
    default: []
    suboptions:
      name:
        description: Name of the account.
        type: str
        required: true
      uid:
        description: Its number, which is the number of the person's own group, too.
        type: int
        required: true
      groups:
        description: Names of O(groups) that the person belongs to.
        type: list
        elements: str
        default: []
      keys:
        description: Public keys.
        type: list
        elements: str
        default: []
      mail:
        description: Where the person is written to.
        type: str
      until:
        description: The last day of the account.
        type: str
      state:
        description: Whether the person is there, is about to leave, or has left.
        type: str
        choices: [present, leaving, absent]
        default: present
      heir:
        description: Who takes over what the person leaves behind.
        type: str
  homes:
    description: The directory in which homes are made.
    type: path
    default: /home
  leave_now:
    description: Whether the sessions of those who leave are ended.
    type: bool
    default: false
  sshd_keys:
    description: Whether sshd looks into C(/etc/ssh/gpulab-keys). Unset leaves that alone.
    type: bool
"""

EXAMPLES = r"""
- name: Give the node its people
  gpulab.node.user_accounts:
    groups: [{name: vision, gid: 21000}]
    people:
      - {name: ada, uid: 20001, groups: [vision], keys: ["ssh-ed25519 AAAA... ada@laptop"]}
    sshd_keys: true
"""

RETURN = r"""
changes:
  description: What changed, or would change in check mode, as M(gpulab.node.preview) shows it.
  returned: success
  type: list
  elements: dict
  sample: [{action: make, what: account ada}]
unlisted:
  description: Accounts with numbers from 20000 to 59999 that no list names.
  returned: success
  type: list
  elements: str
remaining:
  description: What is left of those who leave.
  returned: success
  type: list
  elements: str
refusal:
  description: Code, cause and remedy when the task is refused.
  returned: when refused
  type: dict
"""

from datetime import datetime, timezone
from typing import Any

from ansible_collections.gpulab.node.plugins.module_utils.accounts import host, plan, wanted
from ansible_collections.gpulab.node.plugins.module_utils.core.changes import changes, of_files
from ansible_collections.gpulab.node.plugins.module_utils.core.module import Module, run
from ansible_collections.gpulab.node.plugins.module_utils.core.node import Node

# By action of a step: how the preview calls it, and what is changed.
SHOWN = {
    plan.RESERVE: ("set", "the number of {}"),
    plan.GROUP: ("make", "group {}"),
    plan.ACCOUNT: ("make", "account {}"),
    plan.HOME: ("make", "home of {}"),
    plan.JOIN: ("admit", "{} to {detail}"),
    plan.PART: ("unset", "{} in {detail}"),
    plan.EXPIRE: ("set", "end of the account {}"),
    plan.KEYS: ("set", "keys of {}"),
    plan.LINGER: ("unset", "lingering of {}"),
    plan.CRONTAB: ("remove", "crontab of {}, kept for its heir"),
    plan.AT: ("remove", "job of at of {}, kept for its heir"),
    plan.END: ("disable", "sessions of {}"),
    plan.REMOVE: ("remove", "account {}"),
}
GROUP = {"name": {"type": "str", "required": True}, "gid": {"type": "int", "required": True}}
PERSON = {
    "name": {"type": "str", "required": True},
    "uid": {"type": "int", "required": True},
    "groups": {"type": "list", "elements": "str", "default": []},
    "keys": {"type": "list", "elements": "str", "default": [], "no_log": False},
    "mail": {"type": "str"},
    "until": {"type": "str"},
    "state": {"type": "str", "choices": ["present", "leaving", "absent"], "default": "present"},
    "heir": {"type": "str"},
}


def main() -> None:
    """Read, plan, carry out."""
    module = Module(
        argument_spec={
            "groups": {"type": "list", "elements": "dict", "default": [], "options": GROUP},
            "people": {"type": "list", "elements": "dict", "default": [], "options": PERSON},
            "homes": {"type": "path", "default": "/home"},
            "leave_now": {"type": "bool", "default": False},
            "sshd_keys": {"type": "bool"},
        },
        supports_check_mode=True,
    )
    run(module, operate)


def operate(module: Any) -> dict[str, Any]:
    """Return the result. Raises Refusal."""
    params, node = module.params, Node()
    lists = wanted.parse(params["groups"], params["people"], homes=params["homes"], leave_now=params["leave_now"])
    refusal = host.problem_of_system(node, lists)
    if not refusal:
        found = host.look(node, lists)
        refusal = plan.refusal(lists, found, datetime.now(timezone.utc).date())
    if refusal:
        raise refusal
    drop_in = host.drop_in_steps(module, node, wanted=params["sshd_keys"])
    steps, reload = plan.steps(lists, found), host.RELOAD.exists()
    if not module.check_mode:
        host.carry_out(module, lists, steps, found)
        host.put_drop_in(module, drop_in)
        found = host.look(node, lists)
    unlisted, remaining = plan.unlisted(lists, found), plan.remaining(lists, found)
    if unlisted and lists.people:
        module.warn(f"users_people does not name these accounts, which were left alone: {', '.join(unlisted)}")
    for line in [*remaining, *plan.unmade(lists, found)]:
        module.warn(line)
    written = of_files({step.path: step.after for step in drop_in})
    return {
        "changed": bool(steps or drop_in or reload),
        "changes": [*shown(steps), *written, *changes(load=["configuration of sshd"] if reload else [])],
        "unlisted": unlisted,
        "remaining": remaining,
    }


def shown(steps: list[plan.Step]) -> list[dict[str, str]]:
    """Return the steps as the preview shows them."""
    found = []
    for step in steps:
        action, what = SHOWN[step.action]
        found += changes(**{action: [what.format(step.name, detail=step.detail)]})
    return found


if __name__ == "__main__":
    main()

#!/usr/bin/python
# Copyright (c) 2026 The gpulab founders
# GNU General Public License v3.0+ (see https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Add users to a group."""

from __future__ import annotations

DOCUMENTATION = r"""
module: group_members
short_description: Add users that exist to a group
version_added: 0.2.0
description:
  - Adds users to a group and leaves its other members alone. No user is made; one that is not there is refused
    (GPULAB-H118) before anything changes.
  - Warns when users are added to the group docker, whose members are root by another name.
extends_documentation_fragment: gpulab.node.attributes.diff
attributes:
  check_mode:
    description: Reports what would change and changes nothing. A group that is not there yet has no members.
  diff_mode:
    description: Shows the members before and after.
options:
  group:
    description: The group.
    type: str
    required: true
  users:
    description: Users who shall be members of it.
    type: list
    elements: str
    required: true
"""

EXAMPLES = r"""
- name: Let Ann run docker
  gpulab.node.group_members:
    group: docker
    users: [ann]
"""

RETURN = r"""
changes:
  description: What changed, or would change in check mode, as M(gpulab.node.preview) shows it.
  returned: success
  type: list
  elements: dict
  sample: [{action: admit, what: ann}]
added:
  description: The users that were, or in check mode would be, added.
  returned: success
  type: list
  elements: str
refusal:
  description: Code, cause and remedy when the task is refused.
  returned: when refused
  type: dict
"""

import grp
import pwd

from ansible.module_utils.basic import AnsibleModule
from ansible_collections.gpulab.node.plugins.module_utils.core import evidence
from ansible_collections.gpulab.node.plugins.module_utils.core.changes import changes
from ansible_collections.gpulab.node.plugins.module_utils.core.module import fail
from ansible_collections.gpulab.node.plugins.module_utils.core.refusals.containers import refuse

AS_GOOD_AS_ROOT = ("docker",)  # a container may mount the node's root directory


def main() -> None:
    """Compare and add."""
    module = AnsibleModule(
        argument_spec={
            "group": {"type": "str", "required": True},
            "users": {"type": "list", "elements": "str", "required": True},
        },
        supports_check_mode=True,
    )
    group, users = module.params["group"], module.params["users"]
    known = {entry.pw_name for entry in pwd.getpwall()}
    for user in users:
        if user not in known:
            refusal = refuse("H118", user=user, group=group)
            fail(module, refusal)
    members = next((entry.gr_mem for entry in grp.getgrall() if entry.gr_name == group), [])
    added = [user for user in users if user not in members]
    if added and group in AS_GOOD_AS_ROOT:
        module.warn(f"members of {group} are as good as root on this node: {', '.join(added)}")
    if not module.check_mode:
        for user in added:
            module.run_command(["gpasswd", "--add", user, group], check_rc=True)
    evidence.note(module, member=[f"{group}:{user}" for user in users])
    module.exit_json(
        changed=bool(added),
        changes=changes(admit=added),
        added=added,
        diff={
            "before_header": f"group {group}",
            "after_header": f"group {group}",
            "before": "".join(f"{user}\n" for user in members),
            "after": "".join(f"{user}\n" for user in [*members, *added]),
        },
    )


if __name__ == "__main__":
    main()

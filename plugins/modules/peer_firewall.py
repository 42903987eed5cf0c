#!/usr/bin/python
# Copyright (c) 2026 The gpulab founders
# GNU General Public License v3.0+ (see https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Let a node's peers through its firewall."""

from __future__ import annotations

DOCUMENTATION = r"""
module: peer_firewall
short_description: Let the nodes of a group reach each other through ufw or firewalld
version_added: 0.2.0
description:
  - Keeps rules that let O(peers) reach O(ports) by TCP, in the firewall that is named. It closes nothing, and rules of
    the node's owner stay and come first.
  - Its rules carry the comment C(gpulab network) in ufw, and the priority 23456 in firewalld. Those for nodes that are
    no peers any more go, and so do all of them from a firewall that is not named.
  - The firewall is not reloaded for that; firewalld gets each rule for good and in what runs.
extends_documentation_fragment: gpulab.node.attributes.diff
attributes:
  diff_mode:
    description: One rule a line.
options:
  firewall:
    description: The firewall that is active on the node; unset is none.
    type: str
    choices: [ufw, firewalld]
  peers:
    description: Addresses of the other nodes.
    type: list
    elements: str
    default: []
  ports:
    description: Ports, each as its first and last, such as V([[23456, 23456], [32768, 60999]]).
    type: list
    elements: list
    default: []
  interface:
    description: firewalld, the interface by which the peers come; its zone gets the rules.
    type: str
"""

EXAMPLES = r"""
- name: Let a peer in
  gpulab.node.peer_firewall:
    firewall: ufw
    peers: [192.0.2.2]
    ports: [[23456, 23456], [32768, 60999]]
"""

RETURN = r"""
changes:
  description: What changed, or would change in check mode, as M(gpulab.node.preview) shows it.
  returned: success
  type: list
  elements: dict
  sample: [{action: set, what: allow 10.1.2.3}]
added:
  description: The rules that were, or in check mode would be, added.
  returned: success
  type: list
  elements: str
removed:
  description: The rules that were, or in check mode would be, taken away.
  returned: success
  type: list
  elements: str
"""

from pathlib import Path

from ansible.module_utils.basic import AnsibleModule
from ansible_collections.gpulab.node.plugins.module_utils.core import evidence
from ansible_collections.gpulab.node.plugins.module_utils.core.changes import changes
from ansible_collections.gpulab.node.plugins.module_utils.system import peer_firewall
from ansible_collections.gpulab.node.plugins.module_utils.system.peer_firewall import NOBODY, Step, Wish


def ufw(module: AnsibleModule, wish: Wish) -> list[Step]:
    """Return what has to change in ufw; nothing where there is none."""
    if not module.get_bin_path("ufw"):
        return []
    # One that does not work matters only where it is to be told something.
    _status, added, _error = module.run_command(["ufw", "show", "added"], check_rc=bool(wish.peers))
    return peer_firewall.ufw_steps(peer_firewall.ufw_rules(added), wish)


def firewalld(module: AnsibleModule, wish: Wish) -> list[Step]:
    """Return what has to change in firewalld; nothing where it does not run."""
    if not module.get_bin_path("firewall-cmd") or module.run_command(["firewall-cmd", "--state"])[0]:
        return []
    wanted = zone(module, module.params["interface"]) if wish.peers else None
    steps = []
    for permanent in (True, False):
        argv = ["firewall-cmd", *(["--permanent"] if permanent else []), "--list-all-zones"]
        _status, listed, _error = module.run_command(argv, check_rc=True)
        for one, current in peer_firewall.firewalld_rules(listed).items():
            own = wish if one == wanted else NOBODY
            steps += peer_firewall.firewalld_steps(current, own, one, permanent=permanent)
    return steps


def zone(module: AnsibleModule, interface: str | None) -> str:
    """Return the zone of an interface, else the default one."""
    if interface:
        status, found, _error = module.run_command(["firewall-cmd", f"--get-zone-of-interface={interface}"])
        if not status and found.strip():
            return str(found.strip())
    return str(module.run_command(["firewall-cmd", "--get-default-zone"], check_rc=True)[1].strip())


# Where ufw and firewalld keep rules.
RULES = ("etc/ufw/user*.rules", "etc/firewalld/zones/*.xml")


def main() -> None:
    """Read, plan, run."""
    module = AnsibleModule(
        argument_spec={
            "firewall": {"type": "str", "choices": ["ufw", "firewalld"]},
            "peers": {"type": "list", "elements": "str", "default": []},
            "ports": {"type": "list", "elements": "list", "default": []},
            "interface": {"type": "str"},
        },
        supports_check_mode=True,
    )
    module.run_command_environ_update = {"LC_ALL": "C"}
    named = module.params["firewall"]
    ports = tuple((int(first), int(last)) for first, last in module.params["ports"])
    wish = Wish(tuple(module.params["peers"]), ports)
    steps = [
        *ufw(module, wish if named == "ufw" else NOBODY),
        *firewalld(module, wish if named == "firewalld" else NOBODY),
    ]
    if not module.check_mode:
        for step in steps:
            module.run_command(list(step.argv), check_rc=True)
    added = [step.rule for step in steps if step.adds]
    removed = [step.rule for step in steps if not step.adds]
    evidence.note(module, file=[str(path) for glob in RULES for path in Path("/").glob(glob) if named])
    module.exit_json(
        changed=bool(steps),
        changes=changes(set=added, unset=removed),
        added=added,
        removed=removed,
        diff={
            "before_header": "gpulab's rules that change",
            "after_header": "gpulab's rules that change",
            "before": "".join(f"{rule}\n" for rule in removed),
            "after": "".join(f"{rule}\n" for rule in added),
        },
    )


if __name__ == "__main__":
    main()

#!/usr/bin/python
# Copyright (c) 2026 The gpulab founders
# GNU General Public License v3.0+ (see https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Keep the nodes of a group in /etc/hosts."""

from __future__ import annotations

DOCUMENTATION = r"""
module: group_hosts
short_description: Let the names of a group's nodes lead to their addresses
version_added: 0.2.0
description:
  - Keeps one block in C(/etc/hosts), with a line for each node of a group. Every other line stays, but for those that
    give the node's own name to a loopback address (C(127.0.1.1) on Debian), which a job's processes would tell their
    peers. These become comments, and come back with O(nodes) empty.
  - Where cloud-init rewrites C(/etc/hosts) at every boot, as the head of the file says, the same is done to the
    template that is named there.
  - A node whose address is not known in this run keeps the line that it has. One that has none is left out, with a
    warning.
  - A name that another line gives to another address is refused (GPULAB-H140), and so is an address of the node itself
    that it does not have (GPULAB-H141).
extends_documentation_fragment: gpulab.node.attributes.diff
options:
  nodes:
    description: The nodes of the group. None means that nothing of gpulab's shall be in the file.
    type: list
    elements: dict
    required: true
    suboptions:
      name:
        description: Name of the node.
        type: str
        required: true
      address:
        description: Its address; unset where it is not known.
        type: str
      names:
        description: The names that its peers know it by.
        type: list
        elements: str
        default: []
  own:
    description: Name of the node whose file this is.
    type: str
    required: true
  own_addresses:
    description: The addresses that it has.
    type: list
    elements: str
    default: []
"""

EXAMPLES = r"""
- name: Let two nodes know each other
  gpulab.node.group_hosts:
    nodes:
      - {name: node1, address: 192.0.2.1, names: [node1]}
      - {name: node2, address: 192.0.2.2, names: [node2, node2.lab.example]}
    own: "{{ inventory_hostname }}"
"""

RETURN = r"""
changes:
  description: What changed, or would change in check mode, as M(gpulab.node.preview) shows it.
  returned: success
  type: list
  elements: dict
  sample: [{action: write, what: /etc/hosts}]
unknown:
  description: The nodes that were left out because nobody knows their address, or the inventory gives them no name.
  returned: success
  type: list
  elements: str
refusal:
  description: Code, cause and remedy when the task is refused.
  returned: when refused
  type: dict
"""

import socket
from pathlib import Path

from ansible.module_utils.basic import AnsibleModule
from ansible_collections.gpulab.node.plugins.module_utils.core import evidence, files
from ansible_collections.gpulab.node.plugins.module_utils.core.changes import of_files
from ansible_collections.gpulab.node.plugins.module_utils.core.module import fail
from ansible_collections.gpulab.node.plugins.module_utils.core.refusal import Refusal
from ansible_collections.gpulab.node.plugins.module_utils.core.refusals.system import refuse
from ansible_collections.gpulab.node.plugins.module_utils.system import hosts_file

NODE = {
    "name": {"type": "str", "required": True},
    "address": {"type": "str"},
    "names": {"type": "list", "elements": "str", "default": []},
}


def template(module: AnsibleModule, hosts: str | None, wanted: str | None) -> list[dict[str, str]]:
    """Let cloud-init write the names, too, where it writes the file; return how its template changes."""
    named = hosts_file.template(hosts or "")
    if not named:
        return []
    path = Path(named)
    if not path.is_file():
        module.warn(f"cloud-init rewrites {hosts_file.PATH} at every boot, from {path}, which does not exist.")
        return []
    before = files.read(path)
    after = hosts_file.into_template(before, wanted)
    if before == after:
        return []
    if not module.check_mode:
        files.put(module, path, after)
    return [files.diff(str(path), before, after)]


def main() -> None:
    """Read, merge, write."""
    module = AnsibleModule(
        argument_spec={
            "nodes": {"type": "list", "elements": "dict", "options": NODE, "required": True},
            "own": {"type": "str", "required": True},
            "own_addresses": {"type": "list", "elements": "str", "default": []},
        },
        supports_check_mode=True,
    )
    nodes, own, there = module.params["nodes"], module.params["own"], module.params["own_addresses"]
    path = Path(hosts_file.PATH)
    try:
        before = files.own_text(path)
        for node in nodes:
            if node["name"] == own and node["address"] and there and node["address"] not in there:
                raise refuse("H141", host=own, address=node["address"], known=", ".join(there))
        wanted = hosts_file.merged(before, nodes, own, socket.gethostname())
    except Refusal as refusal:
        fail(module, refusal)
    templated = template(module, before, wanted.text)
    if wanted.unknown:
        unknown = ", ".join(wanted.unknown)
        module.warn(f"{hosts_file.PATH} leaves out, as the inventory has no address or no name of them: {unknown}")
    if before != wanted.text and not module.check_mode:
        mode = path.stat().st_mode & 0o7777 if before is not None else 0o644
        files.put(module, path, wanted.text, mode, mounted=True)
    kept = filter(None, (str(path), hosts_file.template(before or "")))
    evidence.note(module, block=[f"{one}#{hosts_file.OWNER}" for one in kept])
    diffs = [files.diff(str(path), before, wanted.text), *templated]
    module.exit_json(
        changed=before != wanted.text or bool(templated),
        changes=of_files({diff["after_header"]: diff["after"] for diff in diffs if diff["before"] != diff["after"]}),
        unknown=list(wanted.unknown),
        diff=diffs,
    )


if __name__ == "__main__":
    main()

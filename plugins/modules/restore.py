#!/usr/bin/python
# Copyright (c) 2026 The gpulab founders
# GNU General Public License v3.0+ (see https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Give a node back what its capture holds."""

from __future__ import annotations

DOCUMENTATION = r"""
module: restore
short_description: Give a node back what its capture on the controller holds
version_added: 0.5.0
description:
  - Each work brings back one kind of thing, can run again at any time, and changes nothing then.
  - What people changed after it came back stays as it is. What does not come back is named in RV(missing).
options:
  directory:
    description: Directory on the controller in which the captures are.
    type: path
    required: true
  capture:
    description: Name of the capture; by default that of a rebuild that has not ended, else the newest.
    type: str
  unsigned:
    description: Name of a capture that is taken without its signature, as earlier versions of gpulab wrote them.
    type: str
  age_identity:
    description: File with the private key of age on the controller, where secrets were encrypted with age.
    type: path
  allow:
    description: What may differ from the capture.
    type: list
    elements: str
    choices: [hardware, release, disks]
    default: []
  work:
    description:
      - V(gates) changes nothing and says whether this is the machine and its disks are as they were.
      - V(identity) brings back the host's name and id, time zone, locale, keyboard, F(/etc/hosts), and SSH's keys and
        settings.
      - V(accounts) brings back users and groups by their numbers.
      - V(storage) assembles and mounts what lay on disks that were kept, and what servers export. It makes nothing new.
      - V(network) brings back the settings of the network, and undoes that if the node cannot be reached then.
      - V(files) brings back all other files.
    type: str
    choices: [gates, identity, accounts, storage, network, files]
    required: true
  minutes:
    description: After how many minutes the node undoes settings of the network that nobody confirmed.
    type: int
    default: 5
  asked:
    description: The action plugin sets it. Leave it out.
    type: str
extends_documentation_fragment: gpulab.node.attributes.diff
attributes:
  check_mode:
    description: Says what would change, and changes nothing.
  diff_mode:
    description: Shows names, numbers and rights, and no contents of captured files.
"""

EXAMPLES = r"""
- name: Check that this is the machine
  gpulab.node.restore:
    directory: captures
    work: gates
    allow: [release]

- name: Give the accounts their numbers
  gpulab.node.restore:
    directory: captures
    work: accounts
"""

RETURN = r"""
capture:
  description: Name of the capture.
  returned: success
  type: str
changes:
  description: What changes.
  returned: success
  type: list
  elements: dict
missing:
  description: What did not come back, with C(section), C(name) and C(why).
  returned: success
  type: list
  elements: dict
packages:
  description: What has to be installed before V(work=storage).
  returned: with V(work=gates)
  type: list
  elements: str
same_release:
  description: Whether the node runs the release that was captured.
  returned: with V(work=gates)
  type: bool
stale:
  description: Accounts with another number now, whose processes have the former one until the next boot.
  returned: with V(work=accounts)
  type: list
  elements: str
"""

import os
from dataclasses import asdict
from functools import partial
from typing import Any, Callable

from ansible.module_utils.basic import AnsibleModule
from ansible_collections.gpulab.node.plugins.module_utils.capture.wire import packed, unpacked
from ansible_collections.gpulab.node.plugins.module_utils.core.module import run
from ansible_collections.gpulab.node.plugins.module_utils.core.node import Job, Node
from ansible_collections.gpulab.node.plugins.module_utils.core.records import typed
from ansible_collections.gpulab.node.plugins.module_utils.core.refusals.node import refuse
from ansible_collections.gpulab.node.plugins.module_utils.rebuild import (
    accounts_host,
    files_host,
    identity_host,
    network_host,
    present,
    storage_host,
)
from ansible_collections.gpulab.node.plugins.module_utils.rebuild.arguments import ARGUMENTS
from ansible_collections.gpulab.node.plugins.module_utils.rebuild.asked import (
    Asked,
    Part,
    WithAccounts,
    WithDisks,
    WithNetwork,
)

SECONDS = 300.0  # what one command may take: an initramfs on a slow machine


def restore(module: AnsibleModule) -> dict[str, Any]:
    """Do one work, and answer the action plugin. Raises Refusal H011 where this is not root."""
    if os.geteuid() != 0:
        raise refuse("H011", user=os.geteuid())
    step, asked = unpacked(module.params["asked"])
    return {"answer": packed(STEPS[step](Node(start=partial(Job, seconds=SECONDS)), asked, module))}


def _look(node: Node, _asked: None, _module: AnsibleModule) -> dict[str, Any]:
    return asdict(present.read(node, _call))


def _stage(_node: Node, asked: dict[str, Any], _module: AnsibleModule) -> None:
    files_host.stage(asked["host"], typed(asked["parts"], list[Part]))


def _confirm(node: Node, paths: list[str], _module: AnsibleModule) -> str:
    return network_host.confirm(node, paths)


def _restore(node: Node, asked: dict[str, Any], module: AnsibleModule) -> dict[str, Any]:
    kind, work = WORKS[module.params["work"]]
    return work(node, typed(asked, kind), check=module.check_mode)


def _call(argv: list[str]) -> tuple[int, str, str]:
    return Job(argv, SECONDS).result() or (127, "", "it is not there, or does not answer")


STEPS: dict[str, Callable[[Node, Any, AnsibleModule], Any]] = {
    "look": _look,
    "stage": _stage,
    "confirm": _confirm,
    "restore": _restore,
}
WORKS: dict[str, tuple[type[Asked], Callable[..., dict[str, Any]]]] = {
    "accounts": (WithAccounts, accounts_host.restore),
    "files": (Asked, files_host.restore),
    "identity": (WithAccounts, identity_host.restore),
    "storage": (WithDisks, storage_host.restore),
    "network": (WithNetwork, network_host.restore),
}


def main() -> None:
    """Parse, restore."""
    module = AnsibleModule(argument_spec={**ARGUMENTS, "asked": {"type": "str"}}, supports_check_mode=True)
    run(module, restore)


if __name__ == "__main__":
    main()

#!/usr/bin/python
# Copyright (c) 2026 The gpulab founders
# GNU General Public License v3.0+ (see https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Capture a node on the controller, so that a reinstall loses nothing."""

from __future__ import annotations

DOCUMENTATION = r"""
module: capture
short_description: Capture a node on the controller, so that a reinstall loses nothing
version_added: 1.0.0
description:
  - Reads what a rebuild of the node needs and puts every path of its root file systems into one bin. Paths that fit in
    no bin are the remainder. A reinstall would lose these.
  - Changes nothing on the node. Writes C(directory/HOST/TIME) on the controller, with a manifest and the files that it
    names. C(latest) leads to the newest capture once all of it was read back.
  - Files that others may not read, and those that hold keys or passwords, are only in an archive that is encrypted
    before it is written.
options:
  directory:
    description: Directory on the controller.
    type: path
    required: true
  keep:
    description: How many captures of a host are kept.
    type: int
    default: 14
  paths:
    description: Further paths that are captured, with all below them; patterns with C(*), C(**) and C(?).
    type: list
    elements: str
    default: []
  acknowledged:
    description: Paths, with all below them, that may be lost.
    type: list
    elements: dict
    default: []
    suboptions:
      path:
        description: The path, a pattern as in O(paths).
        type: str
        required: true
      reason:
        description: Why it may be lost.
        type: str
        required: true
  receipts:
    description: Backups that have paths of the node.
    type: list
    elements: dict
    default: []
  largest_mib:
    description: Size of the largest file that is captured, in MiB.
    type: int
    default: 64
  age_recipients:
    description: Public keys of age that secrets are encrypted to. Without them, the vault secret of the run is used.
    type: list
    elements: str
    default: []
  report:
    description: The report of the last proof on the controller, C(report.json); the manifest takes its results along.
    type: path
  work:
    description: The action plugin sets it. Leave it out.
    type: str
    choices: [look, read]
    default: look
  asked:
    description: The action plugin sets it. Leave it out.
    type: str
extends_documentation_fragment: gpulab.node.attributes
attributes:
  check_mode:
    description: Reads the node and writes nothing.
"""

EXAMPLES = r"""
- name: Capture the node
  gpulab.node.capture:
    directory: captures
    acknowledged:
      - path: /opt/matlab
        reason: installed again from the campus server
"""

RETURN = r"""
path:
  description: The capture on the controller.
  returned: when it was written
  type: str
bins:
  description: Number and bytes of the files in each bin.
  returned: success
  type: dict
remainder:
  description: What a reinstall would lose.
  returned: success
  type: list
  elements: dict
damage:
  description: What is wrong with the capture before, which does not hinder this one.
  returned: success
  type: list
  elements: str
lines:
  description: The same for people.
  returned: success
  type: list
  elements: str
"""

import os
from functools import partial
from pathlib import Path
from typing import Any

from ansible.module_utils.basic import AnsibleModule
from ansible_collections.gpulab.node.plugins.module_utils.capture import contents
from ansible_collections.gpulab.node.plugins.module_utils.capture.arguments import ARGUMENTS
from ansible_collections.gpulab.node.plugins.module_utils.capture.asked import Asked
from ansible_collections.gpulab.node.plugins.module_utils.capture.look import look
from ansible_collections.gpulab.node.plugins.module_utils.capture.wire import packed, unpacked
from ansible_collections.gpulab.node.plugins.module_utils.core.module import run
from ansible_collections.gpulab.node.plugins.module_utils.core.node import Job, Node
from ansible_collections.gpulab.node.plugins.module_utils.core.records import typed
from ansible_collections.gpulab.node.plugins.module_utils.core.refusals.node import refuse

SECONDS = 30.0  # what one command may take
NICE = 10


def capture(module: AnsibleModule) -> dict[str, Any]:
    """Answer the action plugin, which packs what it asks. Raises Refusal H011 where this is not root."""
    if os.geteuid() != 0:
        raise refuse("H011", user=os.geteuid())
    os.nice(NICE)
    asked = unpacked(module.params["asked"])
    if module.params["work"] == "look":
        answer: Any = look(Node(start=partial(Job, seconds=SECONDS)), typed(asked, Asked))
    else:
        answer = [contents.read(Path("/"), *one) for one in asked]
    return {"answer": packed(answer)}


def main() -> None:
    """Parse, capture."""
    module = AnsibleModule(
        argument_spec={
            **ARGUMENTS,
            "work": {"type": "str", "choices": ["look", "read"], "default": "look"},
            "asked": {"type": "str"},
        },
        supports_check_mode=True,
    )
    run(module, capture)


if __name__ == "__main__":
    main()

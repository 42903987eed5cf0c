#!/usr/bin/python
# Copyright (c) 2026 The gpulab founders
# GNU General Public License v3.0+ (see https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Keep the MUNGE key of a host."""

from __future__ import annotations

DOCUMENTATION = r"""
module: munge_key
short_description: Keep the MUNGE key of a host
version_added: 1.0.0
description:
  - Without O(key), returns the key of the host, and makes one at random where there is none. With O(key), lets the host
    have that one; a key that was there is kept beside it, once, as C(munge.key.former).
  - A key that is shorter than 32 bytes, the hash of a password, or known to everybody is refused (GPULAB-F032).
extends_documentation_fragment: gpulab.node.attributes
attributes:
  check_mode:
    description: Reports what would change and changes nothing. Returns no key where one would be made.
  diff_mode:
    description: A key is never shown.
options:
  host:
    description: Name of the host, for a refusal.
    type: str
    required: true
  key:
    description: The key, in Base64.
    type: str
  path:
    description: Where it lies.
    type: path
    default: /etc/munge/munge.key
  owner:
    description: User and group that the key belongs to.
    type: str
    default: munge
"""

EXAMPLES = r"""
- name: Read the key of the controller
  gpulab.node.munge_key:
    host: "{{ inventory_hostname }}"
  no_log: true
  register: controller
"""

RETURN = r"""
changes:
  description: What changed, or would change in check mode, as M(gpulab.node.preview) shows it.
  returned: success
  type: list
  elements: dict
  sample: [{action: write, what: /etc/munge/munge.key}]
key:
  description: The key, in Base64. Register it in a task with C(no_log).
  returned: where there is one
  type: str
refusal:
  description: Code, cause and remedy when the task is refused.
  returned: when refused
  type: dict
"""

import base64
import binascii
import os
import shutil
from pathlib import Path
from typing import Any

from ansible.module_utils.basic import AnsibleModule
from ansible_collections.gpulab.node.plugins.module_utils.core import beneath, evidence
from ansible_collections.gpulab.node.plugins.module_utils.core.changes import changes
from ansible_collections.gpulab.node.plugins.module_utils.core.files import make_directory
from ansible_collections.gpulab.node.plugins.module_utils.core.module import run
from ansible_collections.gpulab.node.plugins.module_utils.core.refusals.slurm import refuse
from ansible_collections.gpulab.node.plugins.module_utils.slurm import munge

SIZE = 128  # bytes, what mungekey(8) makes
MODE = 0o400
DIRECTORY_MODE = 0o700


def keep(module: AnsibleModule) -> dict[str, Any]:
    """Return the key, or write the one that is given. Raises Refusal F032."""
    path, given = Path(module.params["path"]), module.params["key"]
    before = path.read_bytes() if path.is_file() else None
    try:
        wanted = base64.b64decode(given, validate=True) if given else before
    except binascii.Error:
        wanted = b""
    if wanted is not None and (problem := munge.problem(wanted)):
        raise refuse("F032", host=module.params["host"], problem=problem)
    changed = before is None or before != wanted
    if changed and not module.check_mode:
        wanted = wanted or os.urandom(SIZE)
        write(path, wanted, module.params["owner"])
    evidence.note(module, file=[str(path)])
    written = changes(write=[str(path)] if changed else [])
    return {
        "changed": changed,
        "changes": written,
        **({"key": base64.b64encode(wanted).decode("ascii")} if wanted else {}),
    }


def write(path: Path, key: bytes, owner: str) -> None:
    """Put the key in one rename, never readable by others; keep the first one that was there."""
    make_directory(path.parent, DIRECTORY_MODE)
    with beneath.at(beneath.ROOT, str(path)) as place:  # in a directory of munge's
        former = place.beside("munge.key.former")
        if path.is_file() and former.status() is None:
            former.write(place.read(), MODE)
        with place.draft() as draft:
            draft.write(key)
            os.fsync(draft.descriptor)
            shutil.chown(draft.way, owner, owner)
            os.fchmod(draft.descriptor, MODE)
            draft.put()


def main() -> None:
    """Parse, keep."""
    module = AnsibleModule(
        argument_spec={
            "host": {"type": "str", "required": True},
            "key": {"type": "str", "no_log": True},
            "path": {"type": "path", "default": "/etc/munge/munge.key"},
            "owner": {"type": "str", "default": "munge"},
        },
        supports_check_mode=True,
    )
    run(module, keep)


if __name__ == "__main__":
    main()

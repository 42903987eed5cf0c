#!/usr/bin/python
# Copyright (c) 2026 The gpulab founders
# GNU General Public License v3.0+ (see https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Keep a block in a file that belongs to somebody else."""

from __future__ import annotations

DOCUMENTATION = r"""
module: owned_block
short_description: Keep a block of lines at the end of a file whose other lines are not gpulab's
version_added: 0.2.0
description:
  - Writes, replaces or removes one block, between two lines that say who wrote it. Every other line stays as it is.
  - A file that holds nothing but the block goes with it.
extends_documentation_fragment: gpulab.node.attributes.diff
options:
  path:
    description: The file. A new one belongs to root and has the mode 0644; an old one keeps its mode.
    type: path
    required: true
  owner:
    description: The role that keeps the block; named in its first and last line.
    type: str
    required: true
  content:
    description: The block's lines. Empty means that there shall be no block.
    type: str
    required: true
"""

EXAMPLES = r"""
- name: Let NCCL tell of its errors
  gpulab.node.owned_block:
    path: /etc/nccl.conf
    owner: nccl
    content: NCCL_DEBUG=WARN
"""

RETURN = r"""
changes:
  description: What changed, or would change in check mode, as M(gpulab.node.preview) shows it.
  returned: success
  type: list
  elements: dict
  sample: [{action: write, what: /etc/nccl.conf}]
"""

from pathlib import Path

from ansible_collections.gpulab.node.plugins.module_utils.core import evidence, files, owned_block
from ansible_collections.gpulab.node.plugins.module_utils.core.module import Module, fail
from ansible_collections.gpulab.node.plugins.module_utils.core.refusal import Refusal


def main() -> None:
    """Read, merge, write."""
    module = Module(argument_spec=owned_block.ARGUMENTS, supports_check_mode=True)
    path = Path(module.params["path"])
    try:
        before = files.own_text(path)
    except Refusal as refusal:
        fail(module, refusal)
    after = owned_block.merged(before, module.params["content"], module.params["owner"])
    if before != after and not module.check_mode:
        mode = path.stat().st_mode & 0o7777 if before is not None else 0o644
        files.put(module, path, after, mode)
    evidence.note(module, block=[f"{path}#{module.params['owner']}"])
    module.exit_json(**owned_block.outcome(str(path), before, after))


if __name__ == "__main__":
    main()

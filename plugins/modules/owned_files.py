#!/usr/bin/python
# Copyright (c) 2026 The gpulab founders
# GNU General Public License v3.0+ (see https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Keep the files of a role in one call."""

from __future__ import annotations

DOCUMENTATION = r"""
module: owned_files
short_description: Keep small configuration files that gpulab owns whole
version_added: 0.1.0
description:
  - Writes, replaces or removes any number of files in one call. Each has a line that says who wrote it, the first
    or the one after C(#!).
  - A file at one of the paths that gpulab did not write is never replaced; the task is refused (GPULAB-H020).
extends_documentation_fragment: gpulab.node.attributes.files
options:
  owner:
    description: The role that keeps the files; named in their first line.
    type: str
    required: true
  files:
    description:
      - Path of each file, and its content without the first line. Empty content means that the file shall not exist.
      - Owner and group are root, the mode is 0644, or 0755 where the content begins with C(#!). Missing directories are
        made.
    type: dict
    required: true
  private:
    description:
      - Those of the paths that hold a secret. Their mode is 0600.
    type: list
    elements: path
    default: []
"""

EXAMPLES = r"""
- name: Keep nouveau from loading
  gpulab.node.owned_files:
    owner: nouveau
    files:
      /etc/modprobe.d/gpulab-nouveau.conf: |
        blacklist nouveau
"""

RETURN = r"""
changes:
  description: What changed, or would change in check mode, as M(gpulab.node.preview) shows it.
  returned: success
  type: list
  elements: dict
  sample: [{action: write, what: /etc/modprobe.d/gpulab-nouveau.conf}]
paths:
  description: The files that were, or in check mode would be, changed.
  returned: success
  type: list
  elements: str
  sample: [/etc/modprobe.d/gpulab-nouveau.conf]
refusal:
  description: Code, cause and remedy when the task is refused.
  returned: when refused
  type: dict
"""

from pathlib import Path

from ansible_collections.gpulab.node.plugins.module_utils.core import evidence, files, owned_files, programs
from ansible_collections.gpulab.node.plugins.module_utils.core.module import Module, fail
from ansible_collections.gpulab.node.plugins.module_utils.core.refusal import Refusal


def main() -> None:
    """Read, plan, write."""
    module = Module(argument_spec=owned_files.ARGUMENTS, supports_check_mode=True)
    wanted, private = module.params["files"], module.params["private"]
    try:
        current = {
            path: files.own_text(Path(path)) if text or Path(path).is_file() else None for path, text in wanted.items()
        }
        modes = {path: owned_files.mode(text or "", private=path in private) for path, text in current.items()}
        misplaced = [path for path, mode in modes.items() if not files.has_rights(Path(path), mode)]
        steps = owned_files.plan(wanted, current, module.params["owner"], private, misplaced)
    except Refusal as refusal:
        fail(module, refusal)
    if not module.check_mode:
        for step in steps:
            write(module, step)
        programs.compile_own(wanted)
    evidence.note(module, file=wanted)
    module.exit_json(**owned_files.outcome(steps))


def write(module: Module, step: owned_files.FileStep) -> None:
    """Carry out a step; at no moment is a secret in a file that others may read."""
    path = Path(step.path)
    if step.mode == owned_files.PRIVATE and path.exists():
        files.set_rights(path, step.mode)
    files.put(module, path, step.after, step.mode)
    if step.after:
        files.set_rights(path, step.mode)


if __name__ == "__main__":
    main()

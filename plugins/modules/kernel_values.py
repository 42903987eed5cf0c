#!/usr/bin/python
# Copyright (c) 2026 The gpulab founders
# GNU General Public License v3.0+ (see https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Give the running kernel its values, and the old ones back."""

from __future__ import annotations

DOCUMENTATION = r"""
module: kernel_values
short_description: Set values of the running kernel, read them back, and restore what was there before
version_added: 0.2.0
description:
  - Sets sysctls and a few other values of the running kernel. What shall hold after a boot, too, belongs into files.
  - Remembers what each value was before, and gives it back when the value is no longer in O(values).
  - Each value is read back. One that the kernel refuses, as in a container, is reported in RV(refused); that is neither
    a change nor a failure.
extends_documentation_fragment: gpulab.node.attributes.diff
attributes:
  check_mode:
    description: Reports what would change. Of a value the kernel may still refuse, check mode cannot know all.
  diff_mode:
    description: Shows each file of the kernel before and after.
options:
  values:
    description:
      - Values by name. A name with a dot is a sysctl; the others are V(transparent_hugepage), V(cpu_governor) and
        V(nfs_read_ahead_kb), which hold for all CPUs and all NFS mounts.
      - An empty dictionary restores everything.
    type: dict
    required: true
"""

EXAMPLES = r"""
- name: Swap late
  gpulab.node.kernel_values:
    values: {vm.swappiness: "10", transparent_hugepage: madvise}

- name: Give the kernel back what it had
  gpulab.node.kernel_values:
    values: {}
"""

RETURN = r"""
changes:
  description: What changed, or would change in check mode, as M(gpulab.node.preview) shows it.
  returned: success
  type: list
  elements: dict
  sample: [{action: set, what: /proc/sys/vm/swappiness = 10}]
refused:
  description: Values that the running kernel did not take, with what it has instead.
  returned: success
  type: list
  elements: dict
  sample: [{name: vm.swappiness, path: /proc/sys/vm/swappiness, wanted: "10", live: "60", why: Read-only file system}]
absent:
  description: Names that this kernel or this hardware does not have.
  returned: success
  type: list
  elements: str
  sample: [cpu_governor]
"""

import errno
import os
from pathlib import Path

from ansible.module_utils.basic import AnsibleModule
from ansible_collections.gpulab.node.plugins.module_utils.core import evidence, files, records
from ansible_collections.gpulab.node.plugins.module_utils.core.changes import changes
from ansible_collections.gpulab.node.plugins.module_utils.core.module import run
from ansible_collections.gpulab.node.plugins.module_utils.core.node import Node
from ansible_collections.gpulab.node.plugins.module_utils.system import kernel_values

MEMORY = Path("/var/lib/gpulab/kernel-values.json")


def remembered() -> dict[str, dict[str, str]]:
    """Return what the kernel's files held before gpulab, by name and path."""
    lost = "Without it, gpulab does not know the former values; the next boot restores them."
    return records.read(MEMORY, dict[str, dict[str, str]], {}, lost)


def write(step: kernel_values.Step, node: Node) -> str | None:
    """Write one value and read it back; return why the kernel does not have it now, if it has not."""
    try:
        Path(step.path).write_text(step.after, encoding="ascii")
    except OSError as error:
        return error.strerror
    live = kernel_values.value(node.text(step.path))
    return None if live == step.after else "the kernel took another value"


def predict(step: kernel_values.Step) -> str | None:
    """Return why a value could not be written."""
    return None if os.access(step.path, os.W_OK) else os.strerror(errno.EROFS)


def remember(
    known: dict[str, dict[str, str]],
    values: dict[str, str],
    done: list[kernel_values.Step],
    refused: set[str],
) -> None:
    """Keep what held before the steps that were done; forget what has been given back."""
    kept = {name: dict(paths) for name, paths in known.items() if name in values or name in refused}
    for step in done:
        if step.name in values:
            kept.setdefault(step.name, {}).setdefault(step.path, step.before)
    records.keep(MEMORY, kept)


def main() -> None:
    """Read, plan, write, read back."""
    module = AnsibleModule(argument_spec={"values": {"type": "dict", "required": True}}, supports_check_mode=True)
    run(module, operate)


def operate(module: AnsibleModule) -> dict[str, object]:
    """Bring the kernel's values to what is wanted. Raises Refusal."""
    node, known = Node(), remembered()
    values = {name: str(value) for name, value in module.params["values"].items()}
    readings = {name: kernel_values.read(name, node) for name in {**values, **known}}
    done, refused = [], []
    for step in kernel_values.plan(values, readings, known):
        why = predict(step) if module.check_mode else write(step, node)
        if why:
            live = kernel_values.value(node.text(step.path))
            refused.append({"name": step.name, "path": step.path, "wanted": step.after, "live": live, "why": why})
        else:
            done.append(step)
    if not module.check_mode:
        remember(known, values, done, {one["name"] for one in refused})
    evidence.note(module, value=values)
    if refused:
        told = (f"{one['path']} = {one['wanted']} (has {one['live']}: {one['why']})" for one in refused)
        module.warn(f"the running kernel does not take {', '.join(told)}")
    return {
        "changed": bool(done),
        "changes": changes(set=[f"{step.path} = {step.after}" for step in done]),
        "refused": refused,
        "absent": [name for name, read in readings.items() if not read],
        "diff": [files.diff(step.path, f"{step.before}\n", f"{step.after}\n") for step in done],
    }


if __name__ == "__main__":
    main()

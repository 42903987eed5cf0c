#!/usr/bin/python
# Copyright (c) 2026 The gpulab founders
# GNU General Public License v3.0+ (see https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Keep arguments of the kernel in the boot loader's entries, with grubby."""

from __future__ import annotations

DOCUMENTATION = r"""
module: boot_arguments
short_description: Keep arguments of the kernel in every boot entry of RHEL's family
version_added: 0.2.0
description:
  - Tells C(grubby) to give arguments to every installed kernel, and sees that later kernels get them too
    (C(/etc/kernel/cmdline) and C(GRUB_CMDLINE_LINUX) in C(/etc/default/grub), where these are).
  - Remembers which arguments it put there, and takes out those that are no longer requested. What every kernel had
    before stays, and is not gpulab's. A C(/etc/kernel/cmdline) that C(grubby) makes for itself stays, too.
  - Where somebody else has set an argument of the same name otherwise, or for some kernels only, that is refused
    (GPULAB-H173) before anything changes.
  - What C(grubby) has written is read back; where it is not what it was asked for, every file is put back as it was
    (GPULAB-H174).
extends_documentation_fragment: gpulab.node.attributes.diff
attributes:
  diff_mode:
    description: Shows the boot entries and the files for later kernels before and after.
options:
  arguments:
    description: Arguments as on the kernel's command line. An empty list takes out all that this module put there.
    type: list
    elements: str
    required: true
"""

EXAMPLES = r"""
- name: Let devices reach memory untranslated
  gpulab.node.boot_arguments:
    arguments: [iommu=pt]

- name: Take out what was put there
  gpulab.node.boot_arguments:
    arguments: []
"""

RETURN = r"""
changes:
  description: What changed, or would change in check mode, as M(gpulab.node.preview) shows it.
  returned: success
  type: list
  elements: dict
  sample: [{action: write, what: /etc/default/grub}]
refusal:
  description: Code, cause and remedy when the task is refused.
  returned: when refused
  type: dict
"""

from pathlib import Path

from ansible.module_utils.basic import AnsibleModule
from ansible_collections.gpulab.node.plugins.module_utils.core import evidence, files, records
from ansible_collections.gpulab.node.plugins.module_utils.core.changes import of_files
from ansible_collections.gpulab.node.plugins.module_utils.core.module import fail
from ansible_collections.gpulab.node.plugins.module_utils.core.refusal import Refusal
from ansible_collections.gpulab.node.plugins.module_utils.core.refusals.system import refuse
from ansible_collections.gpulab.node.plugins.module_utils.system import boot_arguments

MEMORY = Path(boot_arguments.MEMORY)


def main() -> None:
    """Read, plan, let grubby work, read back."""
    module = AnsibleModule(
        argument_spec={"arguments": {"type": "list", "elements": "str", "required": True}}, supports_check_mode=True
    )
    try:
        own, before = boot_arguments.remembered(MEMORY), texts()
        plan = boot_arguments.plan(module.params["arguments"], before, own)
        if not module.check_mode:
            carry_out(module, plan, own, before)
    except Refusal as refusal:
        fail(module, refusal)
    evidence.note(module, fact=["tuning"])
    module.exit_json(
        changed=bool(plan.steps),
        changes=of_files({step.path: step.after for step in plan.steps}),
        diff=[files.diff(step.path, step.before, step.after) for step in plan.steps],
    )


def texts() -> dict[str, str]:
    """Return the boot entries, and the files for later kernels, by path."""
    entries = sorted(Path(boot_arguments.ENTRIES).glob("*.conf"))
    later = [path for path in map(Path, boot_arguments.TEMPLATES) if path.is_file()]
    return {str(path): path.read_text(encoding="utf-8", errors="surrogateescape") for path in [*entries, *later]}


def carry_out(module: AnsibleModule, plan: boot_arguments.Plan, own: list[str], before: dict[str, str]) -> None:
    """Remember what is gpulab's, and let grubby work. Raises Refusal H174; all files are as before then."""
    records.keep(MEMORY, [*own, *(one for one in plan.own if one not in own)])
    if plan.steps:
        call = [boot_arguments.GRUBBY, "--update-kernel=ALL"]
        call += [f"--remove-args={' '.join(plan.remove)}"] if plan.remove else []
        call += [f"--args={' '.join(plan.add)}"] if plan.add else []
        module.run_command(call, check_rc=True)
        try:
            see_what_it_did(module, plan, before)
        except Refusal:
            records.keep(MEMORY, own)
            raise
    records.keep(MEMORY, list(plan.own))


def see_what_it_did(module: AnsibleModule, plan: boot_arguments.Plan, before: dict[str, str]) -> None:
    """Compare the boot entries with the plan, and write the files for later kernels where grubby left them."""
    wanted = {**before, **{step.path: step.after for step in plan.steps}}
    after = texts()
    for path, text in wanted.items():
        found = boot_arguments.arguments(path, after.get(path, ""))
        if path not in boot_arguments.TEMPLATES and sorted(found) != sorted(boot_arguments.arguments(path, text)):
            for name, former in before.items():
                write(module, name, former)
            raise refuse("H174", path=path, found=" ".join(found), wanted=" ".join(plan.own) or "none")
    later = [path for path in boot_arguments.TEMPLATES if path in wanted]
    if any(after.get(path) != wanted[path] for path in later):
        for path in later:  # both, for their order in time counts
            write(module, path, wanted[path])


def write(module: AnsibleModule, path: str, text: str) -> None:
    """Write a file that is there, with the permissions it has."""
    files.replace(module, Path(path), text, files.mode_of(Path(path)))


if __name__ == "__main__":
    main()

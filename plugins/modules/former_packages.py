#!/usr/bin/python
# Copyright (c) 2026 The gpulab founders
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The node's half of putting former packages back: say what is kept, judge, forget. A long step does it."""

from __future__ import annotations

DOCUMENTATION = r"""
module: former_packages
short_description: Put back the packages that a change replaced, or let them go
version_added: 0.2.0
description:
  - Looks after the packages that M(gpulab.node.packages) keeps under the name O(gpulab.node.packages#module:former).
  - They are put back in one transaction, at their former versions and from their own files, with no source asked.
    What the change brought is removed, and what was on hold is again.
options:
  name:
    description: The name under which they are kept.
    type: str
    required: true
  state:
    description:
      - V(kept) only says what is kept.
      - V(confirmed) lets them go, as the change proved itself.
      - V(restored) puts them back.
    type: str
    choices: [kept, confirmed, restored]
    default: kept
  timeout:
    description: Seconds after which putting them back is stopped. It may build kernel modules.
    type: int
    default: 3600
  operation:
    description: What the action plugin asks of the node. Leave it out.
    type: str
    choices: [look, judge]
    default: look
extends_documentation_fragment: gpulab.node.attributes.diff
attributes:
  check_mode:
    description: Nothing is changed; what would be is told.
  diff_mode:
    description: One package a line.
requirements:
  - dpkg or rpm
  - systemd as the first process of the node
  - root
"""

EXAMPLES = r"""
- name: Change the driver, with a way back
  gpulab.node.packages:
    transaction: driver
    present: ["nvidia-open=595.91.07*"]
    former: driver

- name: Let the former driver go
  gpulab.node.former_packages:
    name: driver
    state: confirmed
"""

RETURN = r"""
changes:
  description: What changed, or would change in check mode, as M(gpulab.node.preview) shows it.
  returned: success
  type: list
  elements: dict
  sample: [{action: change, what: nvidia-driver 535.309.01-1 -> 535.261.03-1}]
versions:
  description: The former version of each package that is kept; with rpm, by name and architecture.
  returned: always
  type: dict
  sample: {nvidia-driver: 535.261.03-1}
new:
  description: The packages that were not there before.
  returned: always
  type: list
  elements: str
diff:
  description: The packages that are put back, or let go, one a line.
  returned: on change
  type: dict
refusal:
  description: Code, cause and remedy.
  returned: on failure
  type: dict
"""

from typing import Any

from ansible.module_utils.basic import AnsibleModule
from ansible_collections.gpulab.node.plugins.module_utils.core import installed_packages
from ansible_collections.gpulab.node.plugins.module_utils.core.changes import Changes, changes
from ansible_collections.gpulab.node.plugins.module_utils.core.module import run
from ansible_collections.gpulab.node.plugins.module_utils.core.refusals.driver import refuse
from ansible_collections.gpulab.node.plugins.module_utils.core.steps import Step, running_boot
from ansible_collections.gpulab.node.plugins.module_utils.packages import dnf_host
from ansible_collections.gpulab.node.plugins.module_utils.packages.former import (
    Former,
    FormerDebs,
    FormerPackages,
    FormerRpms,
)


def look(kept: FormerDebs | FormerRpms, installed: dict[str, set[str]], state: str) -> dict[str, Any]:
    """Say what is kept and, in the state restored, what puts it back."""
    former = kept.read()
    changed = state != "kept"
    result = {"changed": changed, "changes": [], "versions": former.versions, "new": list(former.new)}
    if changed:
        result["diff"] = diff(former, installed, state)
        result["changes"] = what_changes(former, installed, state)
    if state == "restored":
        result["script"] = kept.restore_script(installed)
    return result


def diff(former: Former, installed: dict[str, set[str]], state: str) -> dict[str, str]:
    """Return the packages before and after, for people; those that are let go leave the directory of what is kept."""
    kept = {name: f"{name} {version}" for name, version in former.versions.items()}
    there = {name: sorted(installed[name]) for name in {*former.versions, *former.new} & {*installed}}
    now = {name: " ".join([name, *versions]) for name, versions in there.items()}
    before, after = (now, kept) if state == "restored" else (kept, {})
    label = "packages" if state == "restored" else "former packages"
    sides = {
        side: "".join(f"{line}\n" for _name, line in sorted(lines.items()))
        for side, lines in (("before", before), ("after", after))
    }
    return {"before_header": label, "after_header": label, **sides}


def what_changes(former: Former, installed: dict[str, set[str]], state: str) -> Changes:
    """Return the packages that are put back; letting them go changes no package."""
    if state != "restored":
        return []
    now = {name: " ".join(sorted(versions)) for name, versions in installed.items()}
    back = sorted(former.versions.items())
    return changes(
        install=[f"{name} {version}" for name, version in back if name not in now],
        change=[f"{name} {now[name]} -> {version}" for name, version in back if now.get(name, version) != version],
        remove=[f"{name} {now[name]}" for name in sorted(former.new) if name in now],
    )


def judge(kept: FormerDebs | FormerRpms, installed: dict[str, set[str]], step: Step) -> None:
    """Forget what is kept if all is as it was. Raises Refusal D023 where it is not."""
    amiss = kept.amiss(installed)
    if amiss:
        raise refuse("D023", names=", ".join(amiss), log=step.log, directory=kept.directory)
    if isinstance(kept, FormerRpms):
        dnf_host.restore_settings(kept.read())
    kept.forget()


def operate(module: AnsibleModule) -> dict[str, Any]:
    """Carry out the wanted operation; raises Refusal."""
    params = module.params
    if FormerPackages(params["name"]).read() == Former():
        return {"changed": False, "changes": [], "versions": {}, "new": []}
    kept: FormerDebs | FormerRpms
    if module.get_bin_path("apt-get"):
        kept = FormerDebs(params["name"])
        installed = kept.installed(installed_packages.debs(module.run_command(list(installed_packages.DPKG))[1]))
    else:
        kept = FormerRpms(params["name"])
        installed = kept.installed(installed_packages.rpms(module.run_command(list(installed_packages.RPM))[1]))
    if params["operation"] == "judge":
        judge(kept, installed, Step(f"{params['name']}-restore", module.run_command, running_boot()))
        return {"changed": True}
    result = look(kept, installed, params["state"])
    if params["state"] == "confirmed" and not module.check_mode:
        kept.forget()
    return result


def main() -> None:
    """Parse, operate, report."""
    module = AnsibleModule(
        argument_spec={
            "name": {"type": "str", "required": True},
            "state": {"type": "str", "choices": ["kept", "confirmed", "restored"], "default": "kept"},
            "timeout": {"type": "int", "default": 3600},
            "operation": {"type": "str", "choices": ["look", "judge"], "default": "look"},
        },
        supports_check_mode=True,
    )
    run(module, operate)


if __name__ == "__main__":
    main()

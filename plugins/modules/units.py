#!/usr/bin/python
# Copyright (c) 2026 The gpulab founders
# GNU General Public License v3.0+ (see https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Start and stop units of systemd, and decide what a boot does with them."""

from __future__ import annotations

DOCUMENTATION = r"""
module: units
short_description: Start, stop, enable and disable units of systemd
version_added: 1.0.0
description:
  - Brings several units to one state, in one task. One question to systemd tells what they are; only what differs is
    done.
  - A unit that is not on the node is stopped and disabled already. To start or enable it fails; in check mode it does
    not, since a package or a file of the same run may bring it, and O(names) that are not there are returned.
extends_documentation_fragment: gpulab.node.attributes
attributes:
  check_mode:
    description: Reports what would change and changes nothing. Of a unit that is not there yet nothing can be foreseen.
options:
  names:
    description: The units, with their types, such as V(docker.service).
    type: list
    elements: str
    required: true
  state:
    description: What they shall do. V(restarted) restarts one that runs, and starts one that does not.
    type: str
    choices: [unchanged, started, stopped, restarted]
    default: unchanged
  enabled:
    description: Whether they start at boot. Unset leaves that alone.
    type: bool
  unmask:
    description: Whether a unit that somebody masked is unmasked. Otherwise it does not start.
    type: bool
    default: false
  wait:
    description: Whether to wait until they have started.
    type: bool
    default: true
  changed_files:
    description: >-
      Paths of files that this run has changed. A unit that one of them is the file or a drop-in of is restarted where
      it would only be started.
    type: list
    elements: str
    default: []
"""

EXAMPLES = r"""
- name: Start the exporter, again where its drop-in changed
  gpulab.node.units:
    names: [prometheus-node-exporter.service]
    state: started
    enabled: true
    changed_files: "{{ written.paths }}"
"""

RETURN = r"""
changes:
  description: What changed, or would change in check mode, as M(gpulab.node.preview) shows it.
  returned: success
  type: list
  elements: dict
  sample: [{action: enable, what: chrony.service}]
steps:
  description: What was done, or would be, with which unit.
  returned: success
  type: list
  elements: dict
  sample: [{action: start, unit: chrony.service}]
missing:
  description: The units that are not on the node.
  returned: success
  type: list
  elements: str
"""

from dataclasses import replace

from ansible.module_utils.basic import AnsibleModule
from ansible_collections.gpulab.node.plugins.module_utils.core import unit_states
from ansible_collections.gpulab.node.plugins.module_utils.system import units


def main() -> None:
    """Read, plan, carry out."""
    module = AnsibleModule(argument_spec=units.ARGUMENTS, supports_check_mode=True)
    params, names = module.params, list(dict.fromkeys(module.params["names"]))
    wanted = units.Wanted(params["state"], params["enabled"], params["unmask"], params["changed_files"])
    known = look(module, names)
    missing = units.missing(names, known)
    if missing and wanted.is_present and not module.check_mode:
        module.fail_json(msg=f"There is no unit {', '.join(missing)} on this node: no package or file has brought it.")
    steps = units.plan(names, known, wanted)
    for step in () if module.check_mode else steps:
        carry_out(module, step)
    module.exit_json(**units.outcome(steps, missing, wanted.enabled))


def look(module: AnsibleModule, names: list[str]) -> dict[str, unit_states.Unit]:
    """Return the units by all their names; fails where systemd does not answer.

    What a boot does with a unit is read from the disk: systemd keeps what it knew before somebody masked one.
    """
    if not names:
        return {}
    _rc, output, errors = module.run_command(unit_states.show(units.ASKED, *names))
    known = unit_states.by_name(output)
    if not known:
        module.fail_json(msg=f"systemd does not say what its units are: {errors.strip() or 'it printed nothing'}")
    _rc, output, _errors = module.run_command([*unit_states.LIST_FILES, "--", *names])
    states = unit_states.file_states(output) or {}
    return {name: replace(unit, file_state=states.get(name, unit.file_state)) for name, unit in known.items()}


def carry_out(module: AnsibleModule, step: units.Step) -> None:
    """Do a step; fails with what systemctl said."""
    blocks = step.action not in (units.START, units.RESTART) or module.params["wait"]
    rc, _output, errors = module.run_command(
        ["systemctl", *([] if blocks else ["--no-block"]), step.action, "--", step.unit]
    )
    if rc:
        module.fail_json(msg=f"systemctl {step.action} {step.unit} failed: {' '.join(errors.split())}")


if __name__ == "__main__":
    main()

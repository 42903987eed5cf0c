#!/usr/bin/python
# Copyright (c) 2026 The gpulab founders
# GNU General Public License v3.0+ (see https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Give GPUs their settings, and the old ones back."""

from __future__ import annotations

DOCUMENTATION = r"""
module: gpu_settings
short_description: Set power limits, clocks, compute mode, ECC, MIG, its instances and more of GPUs, and read each back
version_added: 1.0.0
description:
  - Sets through NVML what differs, reads each setting back, and fails where a GPU did not take one (GPULAB-H125). NVML
    is called in a child process with a deadline, so a hung driver does not hang the task.
  - What a GPU does not have (GPULAB-H122), a value outside its range (GPULAB-H123), a GPU that is not there
    (GPULAB-H120) and a power budget that cannot be kept (GPULAB-H121) are refused before the first change.
  - Compute mode, ECC, MIG and its instances change only while nobody uses a GPU of the node (GPULAB-H126).
  - Instances of MIG that a GPU does not have, or that do not fit on it together, are refused before the first change
    (GPULAB-H127). Each is made with one compute instance that fills it. An instance that lies where one is wanted
    stays; where one cannot be made, those that were there before are made again.
  - Remembers what each GPU had before, in C(/var/lib/gpulab/gpu-settings.json), and gives it back when the setting is
    no longer in O(settings).
  - Resets and reboots nothing by itself. NVML may reset an idle GPU to turn MIG on or off, which was asked for then.
  - NVML does not tell whether clocks are locked. What was locked since the boot is kept in
    C(/run/gpulab/gpu-settings.json), and the clock itself is what is read back.
extends_documentation_fragment: gpulab.node.attributes.diff
attributes:
  check_mode:
    description:
      - Reports what would change, or why it would be refused. Where the driver does not run yet, nobody knows what the
        GPUs have, and every setting counts as one that would change.
  diff_mode:
    description: Shows each setting before and after.
options:
  settings:
    description:
      - C(all) has the values of every GPU by name, C(gpus) those of single ones by UUID, bus id or index,
        C(power_budget_watts) what all GPUs together may draw. Where their default limits come to more, the GPUs without
        a limit of their own share what is left, in proportion to these.
      - The names are V(persistence), V(accounting), V(ecc) and V(mig) (true or false), V(compute_mode) (V(default),
        V(exclusive_process) or V(prohibited)), V(power_limit_watts), and V(locked_clocks_mhz) (lowest and highest
        graphics clock). Null leaves a GPU alone.
      - V(mig_instances) lists the instances of MIG by their profiles, as nvidia-smi mig -lgip names them, such as
        V([3g.40gb, 3g.40gb]), and turns MIG on; an empty list has MIG on without instances. Where MIG turns on at a
        boot only, instances are made by the unit that sets the GPUs at boot.
      - An empty dictionary restores everything.
    type: dict
    required: true
  host:
    description: What the operator calls the node, for the messages.
    type: str
    required: true
"""

EXAMPLES = r"""
- name: Limit every GPU to 300 W, and let one alone
  gpulab.node.gpu_settings:
    settings:
      all: {power_limit_watts: 300}
      gpus: {"0000:01:00.0": {power_limit_watts: null}}
    host: "{{ inventory_hostname }}"

- name: Cut the first GPU in two
  gpulab.node.gpu_settings:
    settings:
      gpus: {0: {mig_instances: [3g.40gb, 3g.40gb]}}
    host: "{{ inventory_hostname }}"

- name: Give the GPUs back what they had
  gpulab.node.gpu_settings:
    settings: {}
    host: "{{ inventory_hostname }}"
"""

RETURN = r"""
changes:
  description: What changed, or would change in check mode, as M(gpulab.node.preview) shows it.
  returned: success
  type: list
  elements: dict
  sample: [{action: set, what: "power_limit_watts of GPU 0000:01:00.0 = 300"}]
steps:
  description: What was, or in check mode would be, set.
  returned: success
  type: list
  elements: dict
  sample: [{gpu: "0000:01:00.0", name: power_limit_watts, before: 450, after: 300}]
settings:
  description:
    - The settings, for the unit that sets them at boot. Each single GPU is named by its UUID, which stays when another
      board is lost, as its index does not.
    - As they were given where the driver does not answer.
  returned: success
  type: dict
  sample:
    all: {power_limit_watts: 300}
    gpus: {GPU-2c1f5a3e-0d5b-4f0e-9a51-0e6a1c9cbb10: {power_limit_watts: 250}}
    power_budget_watts: null
pending:
  description: Settings that are stored and hold from the next boot on.
  returned: success
  type: list
  elements: str
  sample: ["ECC of GPU 0000:3b:00.0 turns off at a boot only"]
refused:
  description: Each setting that a GPU did not take, as a refusal.
  returned: failure
  type: list
  elements: dict
refusal:
  description: Code, cause and remedy when the task is refused.
  returned: when refused
  type: dict
"""

import json
import os
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ansible.module_utils.basic import AnsibleModule
from ansible_collections.gpulab.node.plugins.module_utils.core import evidence, files, records
from ansible_collections.gpulab.node.plugins.module_utils.core.changes import Changes, changes
from ansible_collections.gpulab.node.plugins.module_utils.core.module import fail
from ansible_collections.gpulab.node.plugins.module_utils.core.node import Node
from ansible_collections.gpulab.node.plugins.module_utils.core.refusal import Refusal
from ansible_collections.gpulab.node.plugins.module_utils.core.refusals.gpu_settings import refuse
from ansible_collections.gpulab.node.plugins.module_utils.facts import users as facts_users
from ansible_collections.gpulab.node.plugins.module_utils.gpu_settings import host as gpu_settings_host
from ansible_collections.gpulab.node.plugins.module_utils.gpu_settings import plan

if TYPE_CHECKING:
    from ansible_collections.gpulab.node.plugins.module_utils.gpu_settings.plan import SettingStep

# NVML's errors where the driver is not installed yet, not loaded, or not the one on disk
NOT_YET = (9, 12, 18)
MEMORY = Path("/var/lib/gpulab/gpu-settings.json")


def remembered() -> dict[str, dict[str, Any]]:
    """Return what GPUs had before gpulab set it, by key and name."""
    lost = "Without it, gpulab does not know the former settings of the GPUs; nvidia-smi -q shows those of now."
    return records.read(MEMORY, dict[str, dict[str, Any]], {}, lost)


def check_idle(steps: list[SettingStep], gpus: list[dict[str, Any]], host: str) -> None:
    """Raise Refusal where a step needs idle GPUs and somebody uses one."""
    names = sorted({step.name for step in steps if step.name in plan.NEED_IDLE})
    if not names:
        return
    users = facts_users.read(Node(), gpus, os.getpid())
    if users["state"] != "idle":
        workers = (one for one in users["who"] if not one["service"])
        who = ", ".join(
            f"{one['user'] or 'unknown'}: {one['command'] or 'unknown'} (pid {one['pid']})" for one in workers
        )
        raise refuse("H126", names=" and ".join(names), host=host, state=users["state"], who=who or "nobody known")


def predict(settings: dict[str, Any]) -> list[dict[str, Any]]:
    """Return what would be set on GPUs that nobody can read yet."""
    named = {"every GPU": settings.get("all") or {}, **(settings.get("gpus") or {})}
    named = {gpu: plan.whole(own) if own.get(plan.INSTANCES) else own for gpu, own in named.items()}
    return [
        {"gpu": str(gpu), "name": name, "before": "unknown", "after": value}
        for gpu, values in named.items()
        for name, value in values.items()
        if value is not None
    ]


def shown(steps: list[dict[str, Any]]) -> list[dict[str, str]]:
    """Return the diff of each GPU that changes."""
    found = []
    for gpu in dict.fromkeys(step["gpu"] for step in steps):
        own = [step for step in steps if step["gpu"] == gpu]
        sides = ("".join(f"{one['name']}: {json.dumps(one[side])}\n" for one in own) for side in ("before", "after"))
        found.append(files.diff(f"GPU {gpu}", *sides))
    return found


def what_changes(steps: list[dict[str, Any]]) -> Changes:
    """Return what the steps set."""
    return changes(set=[f"{one['name']} of GPU {one['gpu']} = {json.dumps(one['after'])}" for one in steps])


def main() -> None:
    """Read, plan, guard, set, read back."""
    module = AnsibleModule(
        argument_spec={"settings": {"type": "dict", "required": True}, "host": {"type": "str", "required": True}},
        supports_check_mode=True,
    )
    try:
        result = operate(module, module.params["settings"])
    except Refusal as refusal:
        fail(module, refusal)
    module.exit_json(**{"settings": module.params["settings"], **result})


def operate(module: AnsibleModule, settings: dict[str, Any]) -> dict[str, Any]:
    """Bring the GPUs to their settings. Raises Refusal."""
    evidence.note(module, fact=["nvml"])
    known = remembered()
    for variable, values in {"all": settings.get("all"), **(settings.get("gpus") or {})}.items():
        plan.check(str(variable), values or {})
    if not known and not any(settings.values()):
        return {"changed": False, "changes": [], "steps": [], "pending": [], "diff": []}
    answers = gpu_settings_host.facts()
    if answers["state"] != "ok" and not any(settings.values()):
        module.warn("the GPUs get back what they had once their driver answers, and this is applied again")
        return {"changed": False, "changes": [], "steps": [], "pending": [], "diff": []}
    if answers["state"] != "ok":
        error = answers["error"] or {}
        coming = answers["state"] != "unresponsive" and error.get("code") in (*NOT_YET, None)
        if not (module.check_mode and coming):
            raise refuse("H124", detail=error.get("text") or answers["state"])
        predicted = predict(settings)
        return {
            "changed": bool(predicted),
            "changes": what_changes(predicted),
            "steps": predicted,
            "pending": [],
            "diff": shown(predicted),
        }
    gpus = answers["gpus"]
    steps = plan.plan(settings, gpus, known, gpu_settings_host.locked_clocks())
    resolved = plan.resolved(settings, gpus)
    check_idle(steps, gpus, module.params["host"])
    if not module.check_mode:
        waiting = carry_out(module, settings, steps, known, gpus)
        gpus = gpu_settings_host.facts()["gpus"] if steps else gpus
        steps = [step for step in steps if step not in waiting]
    told = [{name: getattr(step, name) for name in ("gpu", "name", "before", "after")} for step in steps]
    return {
        "changed": bool(steps),
        "changes": what_changes(told),
        "steps": told,
        "settings": resolved,
        "pending": plan.pending(settings, gpus),
        "diff": shown(told),
    }


def carry_out(
    module: AnsibleModule,
    settings: dict[str, Any],
    steps: list[SettingStep],
    known: dict[str, Any],
    gpus: list[dict[str, Any]],
) -> list[SettingStep]:
    """Set, remember what was there before, fail where a GPU did not take a setting; return what waits for a boot."""
    # Before the first change: a run that is cut off must not forget what was there.
    ahead = plan.to_remember(known, gpus, settings, [], steps)
    records.keep(MEMORY, {gpu: {**ahead.get(gpu, {}), **known.get(gpu, {})} for gpu in {**known, **ahead}})
    answers = gpu_settings_host.apply(steps) if steps else []
    waiting = [step for step, why in answers if why == gpu_settings_host.WAITS]
    done = [step for step, why in answers if not why]
    records.keep(MEMORY, plan.to_remember(known, gpus, settings, steps, done + waiting))
    refused = [gpu_settings_host.refusal(step, why) for step, why in answers if why and step not in waiting]
    if refused:
        module.fail_json(
            msg="\n".join(map(str, refused)),
            refusal=asdict(refused[0]),
            refused=[asdict(one) for one in refused],
            changed=bool(done),
        )
    return waiting


if __name__ == "__main__":
    main()

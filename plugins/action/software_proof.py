# Copyright (c) 2026 The gpulab founders
# GNU General Public License v3.0+ (see https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""gpulab.node.software_proof: take the last trial where nothing has changed since, or else try."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from ansible.plugins.action.normal import ActionModule as NormalAction
from ansible_collections.gpulab.node.plugins.module_utils.core import records
from ansible_collections.gpulab.node.plugins.module_utils.receipts import trial

if TYPE_CHECKING:
    from ansible_collections.gpulab.node.plugins.plugin_utils.facts.model import Facts


class ActionModule(NormalAction):
    """Run the module unless the facts of the node have a trial of all that is asked, which still holds."""

    def run(self, tmp: str | None = None, task_vars: dict[str, Any] | None = None) -> dict[str, Any]:
        """Return what the module returns, or what it returned when the software was last tried."""
        known = (task_vars or {}).get("ansible_facts", {})
        if self._task.args.get("again") is not None and "gpulab" in known:
            spec = {**trial.ARGUMENTS, "again": {"type": "bool"}}
            _validated, args = self.validate_argument_spec(spec)
            asked = trial.Asked(**{name: args[name] for name in trial.ARGUMENTS})
            last = None if args["again"] else _last(known.get("gpulab_software_trial"))
            if last and last.covers(asked):
                return {"changed": False, "ansible_facts": {**last.found, "gpulab_software_tried": last.at}}
            facts = known["gpulab"]
            self._task.args = {**args, "facts": trial.of_facts(facts), "gpu_count": _visible(facts)}
        result: dict[str, Any] = super().run(tmp, task_vars)
        return result


def _last(told: Any) -> trial.Trial | None:
    try:
        last = records.typed(told, trial.Trial)
    except ValueError:
        return None
    return last if last.found.keys() <= trial.FOUND else None


def _visible(facts: Facts) -> int:
    """Return how many GPUs a framework has to see: none of simulated ones, and with MIG one instance at most."""
    gpus = facts["nvml"]["gpus"]
    whole = not facts["simulated"] and not any((gpu.get("mig") or {}).get("enabled") for gpu in gpus)
    return len(gpus) if whole else 0

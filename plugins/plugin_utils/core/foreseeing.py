# Copyright (c) 2026 The gpulab founders
# GNU General Public License v3.0+ (see https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""An action plugin that answers in check mode from the facts of the run, where these tell all that its module would."""

from __future__ import annotations

from pathlib import PurePosixPath
from typing import TYPE_CHECKING, Any

from ansible.module_utils.common.parameters import remove_values
from ansible.plugins.action.normal import ActionModule as NormalAction
from ansible_collections.gpulab.node.plugins.module_utils.core.shown import secrets

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping


class Foreseeing(NormalAction):
    """What such action plugins share. arguments are those of the module."""

    arguments: Mapping[str, Any]

    def run(self, tmp: str | None = None, task_vars: dict[str, Any] | None = None) -> dict[str, Any]:
        """Return what the module would return; nothing changes between the facts and a task in check mode."""
        known = (task_vars or {}).get("ansible_facts", {})
        # What a task predicts in a run that changes the node may differ from the facts, as what another node has does.
        if self._task.check_mode and known.get("gpulab_check_mode") is True and not self._task.delegate_to:
            _validated, args = self.validate_argument_spec(dict(self.arguments))
            answer = self.foreseen(args, known)
            if answer is not None:
                hidden: dict[str, Any] = remove_values(answer, set(secrets(args)))
                return hidden
        result: dict[str, Any] = super().run(tmp, task_vars)
        return result

    def foreseen(self, args: dict[str, Any], known: Mapping[str, Any]) -> dict[str, Any] | None:
        """Return what the module would return, by the facts of the run; None where the node has to be asked."""
        raise NotImplementedError


def are_missing(paths: Iterable[str], known: Mapping[str, Any]) -> bool:
    """Tell whether the facts say of all these files that they, or a directory above them, are not on the node."""
    missing = set(known.get("gpulab_missing") or ())
    places = map(PurePosixPath, paths)
    return all(not missing.isdisjoint(map(str, (place, *place.parents))) for place in places)

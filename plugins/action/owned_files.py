# Copyright (c) 2026 The gpulab founders
# GNU General Public License v3.0+ (see https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""gpulab.node.owned_files: in check mode, files that are not on the node are not looked for again."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from ansible_collections.gpulab.node.plugins.module_utils.core import owned_files
from ansible_collections.gpulab.node.plugins.plugin_utils.core.foreseeing import Foreseeing, are_missing

if TYPE_CHECKING:
    from collections.abc import Mapping


class ActionModule(Foreseeing):
    """Run the module, or say which files a run would make."""

    arguments = owned_files.ARGUMENTS

    def foreseen(self, args: dict[str, Any], known: Mapping[str, Any]) -> dict[str, Any] | None:
        """Return the files that would be new; None where one of them may be there."""
        if not are_missing(args["files"], known):
            return None
        current = dict.fromkeys(args["files"])
        return owned_files.outcome(owned_files.plan(args["files"], current, args["owner"], args["private"]))

# Copyright (c) 2026 The gpulab founders
# GNU General Public License v3.0+ (see https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""gpulab.node.owned_block: in check mode, a file that is not on the node is not looked for again."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from ansible_collections.gpulab.node.plugins.module_utils.core import owned_block
from ansible_collections.gpulab.node.plugins.plugin_utils.core.foreseeing import Foreseeing, are_missing

if TYPE_CHECKING:
    from collections.abc import Mapping


class ActionModule(Foreseeing):
    """Run the module, or say that a run would make the file."""

    arguments = owned_block.ARGUMENTS

    def foreseen(self, args: dict[str, Any], known: Mapping[str, Any]) -> dict[str, Any] | None:
        """Return the block in a file that would be new; None where the file may be there."""
        if not are_missing([args["path"]], known):
            return None
        after = owned_block.merged(None, args["content"], args["owner"])
        return owned_block.outcome(args["path"], None, after)

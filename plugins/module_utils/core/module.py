# Copyright (c) 2026 The gpulab founders
# GNU General Public License v3.0+ (see https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What modules share: how they end, and how they keep secrets out of their results and of the node's journal."""

from __future__ import annotations

from dataclasses import asdict
from typing import TYPE_CHECKING, Any

from ansible.module_utils.basic import AnsibleModule
from ansible_collections.gpulab.node.plugins.module_utils.core.refusal import Refusal
from ansible_collections.gpulab.node.plugins.module_utils.core.shown import secrets

if TYPE_CHECKING:
    from collections.abc import Callable


class Module(AnsibleModule):
    """AnsibleModule that treats the secrets in addresses like parameters with no_log."""

    def _log_invocation(self) -> None:
        """Note the secrets before the parameters are written to the journal."""
        self.no_log_values.update(secrets(self.params))
        super()._log_invocation()


def run(module: AnsibleModule, operate: Callable[[AnsibleModule], dict[str, Any]]) -> None:
    """End a module with what an operation returns, or with its refusal."""
    try:
        result = operate(module)
    except Refusal as refusal:
        fail(module, refusal)
    else:
        module.exit_json(**{"changed": False, **result})


def fail(module: AnsibleModule, refusal: Refusal, **further: Any) -> None:
    """End a module with a refusal."""
    module.fail_json(msg=str(refusal), refusal=asdict(refusal), **further)

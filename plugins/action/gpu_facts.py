# Copyright (c) 2026 The gpulab founders
# GNU General Public License v3.0+ (see https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""gpulab.node.gpu_facts: the first contact with a node, so whatever keeps a run from it shows here.

The cause goes into the result itself: every callback, AWX and ansible-runner then show code, cause and remedy.
"""

from __future__ import annotations

from dataclasses import asdict
from typing import Any

from ansible.errors import AnsibleConnectionFailure, AnsibleError
from ansible.plugins.action.normal import ActionModule as NormalAction
from ansible_collections.gpulab.node.plugins.plugin_utils.explain import Address, explain


class ActionModule(NormalAction):
    """Run the module, and say why where it does not run."""

    def run(self, tmp: str | None = None, task_vars: dict[str, Any] | None = None) -> dict[str, Any]:
        """Return what the module returns, or the failure with its refusal."""
        raised: AnsibleError | None = None
        try:
            result = super().run(tmp, task_vars)
        except AnsibleConnectionFailure as error:
            raised, result = error, {"unreachable": True, "msg": str(error)}
        except AnsibleError as error:
            raised, result = error, {"failed": True, "msg": str(error)}
        if not (result.get("failed") or result.get("unreachable")):
            return result
        host = (task_vars or {}).get("inventory_hostname", "")
        why = explain(result, host, unreachable=bool(result.get("unreachable")), address=self._address(host))
        if why:
            return {**result, "msg": str(why), "refusal": asdict(why)}
        if raised:
            raise raised
        return result

    def _address(self, host: str) -> Address:
        """Return where the connection goes; a plugin that knows no address goes by the host's name."""
        try:
            told = [self._connection.get_option(name) for name in ("host", "remote_user", "port")]
        except KeyError:
            return Address(host)
        return Address(str(told[0] or host), *told[1:])

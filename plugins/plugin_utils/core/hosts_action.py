# Copyright (c) 2026 The gpulab founders
# GNU General Public License v3.0+ (see https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The base of tasks that run once, on the controller, for all hosts of a play."""

from __future__ import annotations

from typing import Any, ClassVar

from ansible.plugins.action import ActionBase


class HostsAction(ActionBase):
    """Run once for all hosts, and connect to none. A subclass has the spec of its arguments, and for_hosts."""

    BYPASS_HOST_LOOP = True
    _supports_check_mode = True
    _requires_connection = False
    spec: ClassVar[dict[str, Any]] = {}

    def run(self, tmp: str | None = None, task_vars: dict[str, Any] | None = None) -> dict[str, Any]:
        """Return what for_hosts returns for the arguments, validated."""
        super().run(tmp, task_vars)
        _validated, arguments = self.validate_argument_spec(self.spec)
        return self.for_hosts(arguments, task_vars or {})

    def for_hosts(self, arguments: dict[str, Any], variables: dict[str, Any]) -> dict[str, Any]:
        """Return the result of the task; variables are those of the first host, ``hostvars`` of all among them."""
        raise NotImplementedError

# Copyright (c) 2026 The gpulab founders
# GNU General Public License v3.0+ (see https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""gpulab.node.bmc: ask the node which machine it is, and its BMC, from the controller, what it says of that machine.

The password is read from the host's variables here and goes to the BMC alone: it is no argument of a task or a process.
"""

from __future__ import annotations

import contextlib
import time
from dataclasses import asdict
from pathlib import Path
from typing import Any

from ansible.errors import AnsibleConnectionFailure
from ansible.plugins.action import ActionBase
from ansible_collections.gpulab.node.plugins.module_utils.core import records
from ansible_collections.gpulab.node.plugins.module_utils.core.refusal import Refusal
from ansible_collections.gpulab.node.plugins.module_utils.facts.fence import TIME
from ansible_collections.gpulab.node.plugins.plugin_utils.bmc import judge, redfish
from ansible_collections.gpulab.node.plugins.plugin_utils.bmc.connection import Address, Connection
from ansible_collections.gpulab.node.plugins.plugin_utils.core.failure import failure
from ansible_collections.gpulab.node.plugins.plugin_utils.core.host_file import file_name
from ansible_collections.gpulab.node.plugins.plugin_utils.pages.page import REPORTS
from ansible_collections.gpulab.node.plugins.plugin_utils.refusals import refuse

NEEDED = ("bmc_user", "bmc_password")


class ActionModule(ActionBase):
    """Read one BMC."""

    _supports_check_mode = True

    def run(self, tmp: str | None = None, task_vars: dict[str, Any] | None = None) -> dict[str, Any]:
        """Return what the BMC says, for programs and for people, or the refusal."""
        super().run(tmp, task_vars)
        self.validate_argument_spec({})
        variables = task_vars or {}
        host = variables["inventory_hostname"]
        try:
            address = self._address(host, variables)
            if address is None:
                return {"changed": False, "document": None, "lines": ["no bmc_address"]}
            return self._read(host, address, self._given(variables, "bmc_serial"), variables)
        except Refusal as refusal:
            return failure([refusal])

    def _read(self, host: str, address: Address, given: str, variables: dict[str, Any]) -> dict[str, Any]:
        path = REPORTS / "bmc" / f"{file_name(host)}.json"
        before = records.read(path, judge.Record, None, judge.LOST)
        serial = judge.serial(host, given, self._inside(variables), before, str(path))
        with Connection(address) as bmc:
            reading = redfish.read(bmc, serial)
        reading.not_read += [redfish.NotRead("end of the session", why) for why in bmc.left]
        new = judge.new_events(reading, before)
        found = judge.findings(reading, new)
        shown = judge.document(host, time.strftime(TIME, time.gmtime()), reading, new, found)
        if not self._task.check_mode:
            records.write(Path(path), asdict(judge.kept(reading, before, shown)))
        return {"changed": False, "document": shown, "lines": judge.lines(reading, new, found)}

    def _given(self, variables: dict[str, Any], name: str) -> str:
        """Return a text of the inventory, empty where it has none."""
        return str(self._templar.template(variables.get(name)) or "")

    def _address(self, host: str, variables: dict[str, Any]) -> Address | None:
        """Return where the BMC is, None where the inventory names none. Raises Refusal F104."""
        place = self._given(variables, "bmc_address")
        if not place:
            return None
        given = {name: self._given(variables, name) for name in NEEDED}
        missing = [name for name, value in given.items() if not value]
        if missing:
            raise refuse("F104", host=host, options=" and no ".join(missing))
        user, password = given.values()
        return Address(host, place, user, password, self._given(variables, "bmc_fingerprint"))

    def _inside(self, variables: dict[str, Any]) -> str | None:
        """Return the serial number that the node says, None where it cannot be asked."""
        result: dict[str, Any] = {}
        with contextlib.suppress(AnsibleConnectionFailure):
            result = self._execute_module(module_name="gpulab.node.bmc", module_args={}, task_vars=variables)
        said = result.get("serial")
        return said if isinstance(said, str) else None

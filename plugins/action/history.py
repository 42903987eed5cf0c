# Copyright (c) 2026 The gpulab founders
# GNU General Public License v3.0+ (see https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Say what the history knows of the hosts of the play."""

from __future__ import annotations

from collections import Counter
from datetime import datetime, timezone
from pathlib import Path
from typing import Any

from ansible_collections.gpulab.node.plugins.module_utils.core.refusal import Refusal
from ansible_collections.gpulab.node.plugins.module_utils.core.shown import for_people
from ansible_collections.gpulab.node.plugins.plugin_utils.core.hosts_action import HostsAction
from ansible_collections.gpulab.node.plugins.plugin_utils.history import falls, files
from ansible_collections.gpulab.node.plugins.plugin_utils.history.memory import ARGUMENTS as TRENDS
from ansible_collections.gpulab.node.plugins.plugin_utils.history.memory import Memory, Settings
from ansible_collections.gpulab.node.plugins.plugin_utils.history.told import Known, of, told, worse
from ansible_collections.gpulab.node.plugins.plugin_utils.pages.page import REPORTS, place
from ansible_collections.gpulab.node.plugins.plugin_utils.report import nights

ARGUMENTS = {"directory": {"type": "path"}, "days": {"type": "int", "default": 90}, "page": {"type": "path"}, **TRENDS}


class ActionModule(HostsAction):
    """Read the history of all hosts of the play, on the controller."""

    spec = ARGUMENTS

    def for_hosts(self, arguments: dict[str, Any], variables: dict[str, Any]) -> dict[str, Any]:
        """Return what is known of each host, and lines for a terminal."""
        names = variables["ansible_play_hosts_all"]
        directory, now = Path(arguments["directory"] or REPORTS / "history"), datetime.now(timezone.utc)
        hosts: list[Known] = []
        pictured: list[nights.HostNights] = []
        texts: list[str] = []
        settings = Settings.of(arguments)
        memory, fell, series = Memory(directory, settings), list[falls.Fall](), Counter[falls.Board]()
        try:
            for name in names:  # one after the other: a year of a large lab does not fit into memory at once
                lines = files.read(directory, name, files.MOST_BYTES * 2)
                state = memory.before(name, lines, whole=True)
                hosts.append(of(name, lines, now, arguments["days"], (state, settings.baseline_proofs)))
                if hosts[-1]["last"]:
                    fell += falls.falls(name, state, hosts[-1]["last"], memory.promised(state), series)
                recent = lines[len(lines) - hosts[-1]["proofs"] :]
                pictured.append(nights.of(hosts[-1], recent, state))
                texts += map(for_people, told(hosts[-1], recent))
        except Refusal as refusal:
            return {"failed": True, "msg": str(refusal)}
        shared: list[str] = []
        for host, trend in falls.told(fell, series):
            texts.append(for_people(worse(host, trend)))
            known = next((one for one in hosts if one["host"] == host), None)
            if known:
                known["trends"].append(trend)
            else:
                shared.append(texts[-1])
        if arguments["page"]:
            text = nights.page(pictured, f"{now:%Y-%m-%dT%H:%M:%SZ}", arguments["days"], shared)
            texts.append(place(arguments["page"], text))
        return {"changed": False, "hosts": hosts, "msg": texts}

# Copyright (c) 2026 The gpulab founders
# GNU General Public License v3.0+ (see https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""gpulab.node.bmc_fleet: what the BMCs of all hosts said, compared and written to one file."""

from __future__ import annotations

import json
from typing import Any, ClassVar

from ansible_collections.gpulab.node.plugins.plugin_utils.bmc import siblings
from ansible_collections.gpulab.node.plugins.plugin_utils.core.hosts_action import HostsAction
from ansible_collections.gpulab.node.plugins.plugin_utils.pages.page import place


class ActionModule(HostsAction):
    """Compare the documents of all hosts that still take part."""

    spec: ClassVar[dict[str, Any]] = {"path": {"type": "path"}, "register": {"type": "str", "required": True}}

    def for_hosts(self, arguments: dict[str, Any], variables: dict[str, Any]) -> dict[str, Any]:
        """Return what differs, and the lines that say so and where the file is."""
        hosts = variables["ansible_play_hosts"]
        read = [variables["hostvars"][host].get(arguments["register"]) or {} for host in hosts]
        documents = [one["document"] for one in read if one.get("document")]
        apart = siblings.apart(documents)
        lines = [one["text"] for one in apart]
        if arguments["path"]:
            text = json.dumps({"nodes": documents, "siblings": apart}, indent=1, sort_keys=True)
            lines.append(place(arguments["path"], f"{text}\n"))
        return {"changed": False, "siblings": apart, "lines": lines}

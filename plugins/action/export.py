# Copyright (c) 2026 The gpulab founders
# GNU General Public License v3.0+ (see https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""gpulab.node.export: the files by which Ray, SkyPilot and dstack know the hosts of the play."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

from ansible_collections.gpulab.node.plugins.module_utils.core.refusal import Refusal
from ansible_collections.gpulab.node.plugins.plugin_utils.core.failure import failure
from ansible_collections.gpulab.node.plugins.plugin_utils.core.hosts_action import HostsAction
from ansible_collections.gpulab.node.plugins.plugin_utils.history import files as history
from ansible_collections.gpulab.node.plugins.plugin_utils.pages.page import REPORTS
from ansible_collections.gpulab.node.plugins.plugin_utils.refusals import refuse
from ansible_collections.gpulab.node.plugins.plugin_utils.schedulers import files
from ansible_collections.gpulab.node.plugins.plugin_utils.schedulers.nodes import SSH_PORT, Node, node, why_not

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

TEXT = {"type": "str", "required": True}
ARGUMENTS = {
    "user": TEXT,
    "key": TEXT,
    "name": TEXT,
    "ray_environment": TEXT,
    "directory": {"type": "path"},
    "history": {"type": "path"},
}


class ActionModule(HostsAction):
    """Read the history of all hosts of the play, on the controller."""

    spec = ARGUMENTS

    def for_hosts(self, arguments: dict[str, Any], variables: dict[str, Any]) -> dict[str, Any]:
        """Return the files, each {path, heading, document}, and lines that say of each host what becomes of it."""
        past = Path(arguments["history"] or REPORTS / "history")
        hosts, left_out = list[Node](), dict[str, str]()
        try:
            for name in variables["ansible_play_hosts_all"]:
                last = next(reversed(history.read(past, name)), None)
                why = why_not(variables["hostvars"][name], last)
                if last and not why:
                    hosts.append(node(name, variables["hostvars"][name], last))
                else:
                    left_out[name] = str(why)
            if not hosts:
                told = "; ".join(f"{name}: {why}" for name, why in left_out.items())
                raise refuse("V009", why=told)
        except Refusal as refusal:
            return failure([refusal])
        directory = Path(arguments["directory"] or REPORTS / "export")
        written = [
            {"path": str(directory / name), "heading": _heading(some), "document": document}
            for name, some, document in _documents(arguments, hosts)
        ]
        lines = [f"{one.name}: {_told(one)}" for one in hosts]
        lines += [f"{name}: left out, as {why}" for name, why in left_out.items()]
        return {"changed": False, "files": written, "lines": lines}


def _documents(arguments: Mapping[str, Any], hosts: Sequence[Node]) -> Iterator[tuple[str, Sequence[Node], Any]]:
    """Yield the name of each file, the nodes in it, and what it holds."""
    name, login = arguments["name"], files.Login(arguments["user"], arguments["key"])
    usual = [one for one in hosts if one.port == SSH_PORT]
    if usual:
        yield "ray.yaml", usual, files.ray(name, usual, login, arguments["ray_environment"])
        yield "ssh_node_pools.yaml", usual, files.skypilot(name, usual, login)
    yield "fleet.dstack.yml", hosts, files.dstack(name, hosts, login)


def _heading(hosts: Sequence[Node]) -> str:
    return "".join(f"# {one.name}: {_told(one)}\n" for one in hosts)


def _told(one: Node) -> str:
    gpus = f"{one.gpus} (simulated)" if one.simulated else one.gpus
    port = f"; SSH at port {one.port}, which Ray and SkyPilot cannot use" if one.port != SSH_PORT else ""
    return f"{gpus}; passed the proof of {one.proven}{port}"

# Copyright (c) 2026 The gpulab founders
# GNU General Public License v3.0+ (see https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Make a bundle on the controller of what the callback gpulab.node.preview has kept, or verify one."""

from __future__ import annotations

import contextlib
import platform
import tempfile
from dataclasses import replace
from datetime import datetime, timezone
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar

from ansible_collections.gpulab.node.plugins.module_utils.bundle.folder import SUMS, Folder, faults, read_sums
from ansible_collections.gpulab.node.plugins.module_utils.core.refusal import Refusal
from ansible_collections.gpulab.node.plugins.module_utils.environments.venv_host import Tool
from ansible_collections.gpulab.node.plugins.plugin_utils import catalog
from ansible_collections.gpulab.node.plugins.plugin_utils.bundle import fetching, folder, hosts, use
from ansible_collections.gpulab.node.plugins.plugin_utils.bundle.keys import Keys, check_programs
from ansible_collections.gpulab.node.plugins.plugin_utils.bundle.maker import Maker, Refused
from ansible_collections.gpulab.node.plugins.plugin_utils.core.directory import LONG, locked
from ansible_collections.gpulab.node.plugins.plugin_utils.core.failure import failure
from ansible_collections.gpulab.node.plugins.plugin_utils.core.gpulab_version import version
from ansible_collections.gpulab.node.plugins.plugin_utils.core.hosts_action import HostsAction
from ansible_collections.gpulab.node.plugins.plugin_utils.preview.gathered import GATHERED
from ansible_collections.gpulab.node.plugins.plugin_utils.rebuild import for_bundle
from ansible_collections.gpulab.node.plugins.plugin_utils.refusals import refuse

if TYPE_CHECKING:
    from collections.abc import Mapping

READ = "__bundle_sources"  # what the role registers of each host


class ActionModule(HostsAction):
    """Take what each host was asked in check mode, and what the module package_sources found there."""

    spec: ClassVar[dict[str, Any]] = {
        "state": {"type": "str", "choices": ["made", "verified"], "default": "made"},
        "directory": {"type": "path", "required": True},
        "keys": {"type": "path", "default": "keys/bundle"},
        "signers": {"type": "path"},
        "hosts": {"type": "list", "elements": "str", "default": []},
        "captures": {"type": "path", "default": "captures"},
    }

    def for_hosts(self, arguments: dict[str, Any], variables: dict[str, Any]) -> dict[str, Any]:
        """Return what the bundle holds, or all that is wrong with it."""
        directory, keys = Path(arguments["directory"]), Keys(Path(arguments["keys"]))
        if arguments["state"] == "verified":
            return _verified(directory, Path(arguments["signers"] or keys.signers))
        try:
            check_programs()
            folder.check_is_bundle(directory)
            return self._made(directory, keys, self._hosts(arguments, variables))
        except Refused as several:
            return failure(several.refusals)
        except Refusal as refusal:
            return failure([refusal])

    def _hosts(self, arguments: Mapping[str, Any], variables: Mapping[str, Any]) -> list[hosts.Host]:
        """Return what each host gets. Raises Refusal."""
        if not GATHERED.is_open:
            raise refuse("P097")
        found = []
        for name in arguments["hosts"]:
            known = variables["hostvars"][name]
            system = known["ansible_facts"]["gpulab"]["system"]
            if system["family"] != "debian":
                raise refuse("B019", host=name, system=system["name"])
            host = hosts.of(name, GATHERED.asked(name), known[READ], use.system_of(system))
            captured = for_bundle.last(Path(arguments["captures"]), name, host.release, known[READ])
            found.append(replace(host, captured=captured))
        return found

    def _made(self, directory: Path, keys: Keys, found: list[hosts.Host]) -> dict[str, Any]:
        """Make the bundle; in check mode, only say how much it is. Raises Refusal."""
        check = self._task.check_mode
        with contextlib.ExitStack() as stack:
            if check:
                work = Path(stack.enter_context(tempfile.TemporaryDirectory()))
            else:
                keys.make()
                stack.enter_context(locked(keys.directory, LONG))
                work = directory / folder.WORK
                work.mkdir(parents=True, exist_ok=True)
            maker = Maker(found, work)
            contents = maker.contents(platform.machine(), _uv)
            missing = fetching.missing(directory, contents.all_files())
            lines = contents.lines(missing)
            self._display.display("\n".join(f"bundle: {line}" for line in lines))
            fetching.check_space(directory, missing)
            if not check:
                maker.fetch(directory, missing)
                maker.write(directory, contents, keys, datetime.now(timezone.utc), version())
        lacking = [f"The bundle lacks {line}" for line in contents.lacking]
        lacking += [line for host in found for line in hosts.lacking(host.name, GATHERED.asked(host.name))]
        said = {"warnings": lacking} if lacking else {}
        return {"changed": bool(missing), "lines": [*lines, str(directory)], **said}


def _uv(machine: str) -> str:
    """Return the line by which pip fetches uv for a machine."""
    record = catalog.load().uv
    return Tool(record["version"], record["sha256"][machine]).requirement


def _verified(directory: Path, signers: Path) -> dict[str, Any]:
    place = Folder(directory)
    listed = place.read(SUMS) or b""
    found = faults(place, listed, signers.read_text(encoding="utf-8") if signers.is_file() else "")
    if found:
        return failure(found)
    number = len(read_sums(listed))
    return {"changed": False, "lines": [f"{directory}: {number} files, whole and signed"]}

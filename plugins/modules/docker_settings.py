#!/usr/bin/python
# Copyright (c) 2026 The gpulab founders
# GNU General Public License v3.0+ (see https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Merge settings into Docker's daemon.json, and let Docker take them over."""

from __future__ import annotations

DOCUMENTATION = r"""
module: docker_settings
short_description: Merge settings into Docker's daemon.json
version_added: 0.2.0
description:
  - Adds settings to C(/etc/docker/daemon.json) and leaves all else in it as it is. A setting of the node's owner is
    never changed, whether it is in that file or on the command line of Docker (C(/etc/default/docker), a drop-in).
  - Remembers what it added, in C(/var/lib/gpulab/docker-settings.json). What is no longer wanted goes; with no settings
    wanted, the file is as it was before the first.
  - The new file is validated by Docker itself where it can (since Docker 23). A daemon that runs takes it over by a
    reload where that is enough, by a restart otherwise. A Docker that does not run is left alone.
  - Docker reloads before it is restarted. Where it refuses to, the former file is put back, and Docker is not stopped
    (GPULAB-H190). Where it was stopped and does not come up, it is started with the former file (GPULAB-H115).
  - Docker is not restarted while containers run that would notice (GPULAB-H112). The setting C(live-restore), which
    lets containers outlive a restart, is taken over by that reload. A container that has a GPU counts even so.
  - A member of a swarm cannot have C(live-restore), and does not get it.
extends_documentation_fragment: gpulab.node.attributes.diff
attributes:
  check_mode:
    description: Reports what would change, or why it would be refused, and changes nothing.
  diff_mode:
    description: Shows each setting of gpulab's before and after, and none of the owner's.
options:
  required:
    description:
      - Settings that must hold, as in C(daemon.json). Where the owner has set another value, the task is refused
        (GPULAB-H111).
    type: dict
    default: {}
  preferred:
    description: Settings that give way to the owner's.
    type: dict
    default: {}
  proxies:
    description:
      - Proxies by which the daemon reaches registries, by their names in C(daemon.json) (V(http-proxy), V(https-proxy),
        V(no-proxy)); empty ones count as none. They give way to the owner's, whether in C(daemon.json), a flag or a
        variable such as C(HTTPS_PROXY) of the unit.
      - A Docker before 23 has no such setting; a warning says what to do.
    type: dict
    default: {}
    version_added: 1.1.0
  leave_data:
    description: Whether C(data-root) may change although the former directory holds images, containers or volumes.
    type: bool
    default: false
  force:
    description: Whether Docker may be restarted although containers would notice.
    type: bool
    default: false
  host:
    description: What the operator calls the node, for the messages.
    type: str
    required: true
"""

EXAMPLES = r"""
- name: Let Docker give GPUs to containers
  gpulab.node.docker_settings:
    required: {features: {cdi: true}}
    preferred: {live-restore: true, default-shm-size: 1g}
    host: "{{ inventory_hostname }}"
"""

RETURN = r"""
changes:
  description: What changed, or would change in check mode, as M(gpulab.node.preview) shows it.
  returned: success
  type: list
  elements: dict
  sample: [{action: set, what: "default-shm-size: \"1g\""}]
action:
  description: What Docker did, or in check mode would do, to take the file over; empty where nothing is to do.
  returned: success
  type: str
  sample: restart
kept:
  description: Preferred settings that gave way to the owner's.
  returned: success
  type: list
  elements: str
  sample: ['default-shm-size is "64m" (requested: "1g")']
gpu_containers:
  description: Names of the running containers that may have a GPU.
  returned: success
  type: list
  elements: str
refusal:
  description: Code, cause and remedy when the task is refused.
  returned: when refused
  type: dict
"""

import contextlib
import os
import re
import tempfile
import time
from dataclasses import replace
from functools import cached_property
from pathlib import Path
from typing import Any

from ansible.module_utils.basic import AnsibleModule
from ansible_collections.gpulab.node.plugins.module_utils.containers import docker_engine, docker_flags, docker_settings
from ansible_collections.gpulab.node.plugins.module_utils.containers.docker_settings import PATH, RELOAD, Plan, Record
from ansible_collections.gpulab.node.plugins.module_utils.core import evidence, files
from ansible_collections.gpulab.node.plugins.module_utils.core.changes import changes
from ansible_collections.gpulab.node.plugins.module_utils.core.module import run
from ansible_collections.gpulab.node.plugins.module_utils.core.refusals.containers import refuse

RECORD = Path("/var/lib/gpulab/docker-settings.json")
SWARM = "swarm/docker-state.json"  # below the data-root of a member
UNITS = ("docker.socket", "docker.service")
SECONDS = 120  # for systemctl
TRIES = 20  # for an answer after that
PAUSE = 0.5  # seconds between them
TOO_OLD = (
    f"Docker does not use the proxies, for a Docker before 23 knows none in {PATH}. Write HTTPS_PROXY into a drop-in of"
    " docker.service, or install docker.com's Docker (container_toolkit_docker_source: docker)."
)
UNKNOWN = {"name": "unknown, as Docker does not answer", "gpu": True}


def main() -> None:
    """Read, plan, guard, apply."""
    module = AnsibleModule(
        argument_spec={
            "required": {"type": "dict", "default": {}},
            "preferred": {"type": "dict", "default": {}},
            "proxies": {"type": "dict", "default": {}, "no_log": True},
            "leave_data": {"type": "bool", "default": False},
            "force": {"type": "bool", "default": False},
            "host": {"type": "str", "required": True},
        },
        supports_check_mode=True,
    )
    run(module, lambda module: operate(module, Docker(module)))


def operate(module: AnsibleModule, docker: Docker) -> dict[str, Any]:
    """Bring the file and the daemon to the wanted state. Raises Refusal."""
    params, file = module.params, Path(PATH)
    text = files.own_text(file)
    record = docker_settings.read_record(RECORD)
    required, preferred = params["required"], dict(params["preferred"])
    flags = flags_of(docker, reads=bool(required or preferred or params["proxies"] or record.made))
    now = docker_settings.effective(docker_settings.parse(text), flags)
    proxies, without = docker.proxies(params["proxies"], flags)
    preferred.update({"proxies": proxies} if proxies else {})
    root = docker.root(now)
    in_swarm = (root / SWARM).is_file() and preferred.pop("live-restore", False)  # Docker would not start with both
    if not params["leave_data"]:
        check_data_root(root, {**now, **preferred, **required})
    plan = docker_settings.plan(text, record, required, preferred, flags)
    containers = docker.containers()
    action = plan.action if docker.is_running() else ""
    if not params["leave_data"]:
        check_data_root(root, plan.effective)
    if not params["force"]:
        docker_settings.check_containers(action, containers, plan.effective, params["host"])
    if plan.changes:
        docker.validate(plan)
    if not module.check_mode:
        apply(module, docker, plan, action, before=(text, record))
    evidence.note(module, file=[PATH])
    kept = [*plan.kept, *without, *(["live-restore is not set, because the node is in a swarm"] if in_swarm else [])]
    for line in kept:
        module.warn(f"Docker keeps a setting that its owner made: {line}")
    gpu_containers = [one["name"] for one in containers if one["gpu"]]
    return {**outcome(plan, action), "kept": kept, "gpu_containers": gpu_containers}


def flags_of(docker: Docker, *, reads: bool) -> dict[str, Any]:
    """Return what Docker's command line fixes; reads: whether it must read gpulab's file. Raises Refusal H191."""
    flags = docker.flags()
    file = flags.pop("config-file", PATH)
    if file != PATH and reads:
        raise refuse("H191", file=file, path=PATH)
    return flags


def outcome(plan: Plan, action: str) -> dict[str, Any]:
    """Return what a plan changes, as a module's result has it."""
    return {
        "changed": bool(plan.changes or action),
        "changes": changes(
            set=[f"{change.name}: {change.after}" for change in plan.changes if change.after],
            unset=[change.name for change in plan.changes if change.before and not change.after],
        ),
        "action": action,
        "diff": {
            "before_header": PATH,
            "after_header": PATH,
            "before": "".join(f"{change.name}: {change.before}\n" for change in plan.changes if change.before),
            "after": "".join(f"{change.name}: {change.after}\n" for change in plan.changes if change.after),
        },
    }


def apply(module: AnsibleModule, docker: Docker, plan: Plan, action: str, before: tuple[str | None, Record]) -> None:
    """Write the file, let the daemon take it over, or put the former one back. Raises Refusal H115, H190."""
    text, record = before
    if plan.record == record and not action:
        return
    file = Path(PATH).resolve()
    docker_settings.keep_record(RECORD, plan.record)
    if plan.changes:
        files.put(module, file, plan.text)
    why = docker.take_over(action, plan)
    if why:
        stopped, state = docker.was_stopped(), ""
        if stopped:
            files.put(module, file, docker_settings.outliving(text, plan))
            state = "runs with them" if docker.revive() else "does not start with those either"
        files.put(module, file, text)
        docker_settings.keep_record(RECORD, record)
        if not stopped:
            raise refuse("H190", detail=why.rstrip("."))
        raise refuse("H115", detail=why.rstrip("."), state=state)
    docker_settings.keep_record(RECORD, replace(plan.record, pending=""))


def check_data_root(root: Path, then: dict[str, Any]) -> None:
    """Raise Refusal H113 where Docker would leave behind what root holds; then are its settings afterwards."""
    old = re.sub(r"/\d+\.\d+$", "", str(root))  # of a daemon with user namespaces, UID.GID is below its data-root
    new = os.path.realpath(then.get("data-root", docker_settings.DATA_ROOT))
    volumes = [path for path in root.glob("volumes/*") if path.is_dir()]
    images = list(root.glob("image/*/imagedb/content/sha256/*"))
    held = docker_settings.holdings(len(list(root.glob("containers/*"))), len(images), len(volumes))
    docker_settings.check_data_root(os.path.realpath(old), new, held)


class Docker:
    """The daemon of the node."""

    def __init__(self, module: AnsibleModule) -> None:
        """Take the module, which runs the commands."""
        self._module = module
        self._process = self._pid()
        self._since = time.time()

    @cached_property
    def _program(self) -> str | None:
        """The path of dockerd; none before it is installed."""
        return self._module.get_bin_path("dockerd")

    @cached_property
    def _help(self) -> str:
        """What the flags are that dockerd has; its settings have the same names."""
        return self._run(self._program, "--help")[1] if self._program else ""

    @cached_property
    def _unit(self) -> str:
        """What systemctl shows of how dockerd is started."""
        return self._show(*docker_flags.PROPERTIES)

    def is_running(self) -> bool:
        """Tell whether the service is up, so that it has to take new settings over."""
        return self._run("systemctl", "is-active", "--quiet", "docker.service")[0] == 0

    def was_stopped(self) -> bool:
        """Tell whether the daemon stopped or was restarted, so that going back has to start one."""
        return not self.is_running() or self._pid() != self._process

    def flags(self) -> dict[str, Any]:
        """Return what the daemon's command line fixes: that of the one that runs, and that of its next start."""
        coming = docker_flags.next_start(self._unit, lambda path: files.read(Path(path)))
        running = files.read(Path(f"/proc/{self._process}/cmdline"))
        return {**docker_flags.parse(coming), **docker_flags.of_process(running)}

    def proxies(self, wanted: dict[str, Any], flags: dict[str, Any]) -> tuple[dict[str, str], list[str]]:
        """Return those of the wanted proxies that the file may have, and which of its owner's it has in their place."""
        wanted = {name: str(value) for name, value in wanted.items() if value}
        if not wanted.keys() - {"no-proxy"}:
            return {}, []
        if self._program and "--http-proxy" not in self._help:
            self._module.warn(TOO_OLD)
            return {}, []
        environment = docker_flags.environment(self._unit, lambda path: files.read(Path(path)))
        owners = [f"--{name}" for name in docker_settings.PROXIES if name in flags]
        owners += [name for name in environment if name.lower() in ("http_proxy", "https_proxy", "no_proxy")]
        return ({}, [f"proxies are its owner's, by {', '.join(owners)}"]) if owners else (wanted, [])

    def containers(self) -> list[dict[str, Any]]:
        """Return {name, gpu} of each running container; of a daemon that does not answer, one that is unknown."""
        if not self.is_running():
            return []
        try:
            found = docker_engine.running_containers()
        except docker_engine.NoAnswerError:
            return [UNKNOWN]
        return [{"name": one["Name"].lstrip("/"), "gpu": docker_settings.uses_gpu(one)} for one in found]

    def root(self, settings: dict[str, Any]) -> Path:
        """Return where the data is: as the daemon says, or as these settings do where none answers."""
        found = None
        if self.is_running():
            with contextlib.suppress(docker_engine.NoAnswerError):
                found = docker_engine.ask("/info").get("DockerRootDir")
        return Path(found or settings.get("data-root", docker_settings.DATA_ROOT))

    def validate(self, plan: Plan) -> None:
        """Let Docker judge the new file, where there is a Docker that can. Raises Refusal H114."""
        program = self._program
        if plan.text is None or program is None or "--validate" not in self._help:
            return
        handle, draft = tempfile.mkstemp(dir=self._module.tmpdir)
        with os.fdopen(handle, "w", encoding="utf-8") as file:
            file.write(plan.text)
        status, _output, errors = self._run(program, "--validate", "--config-file", draft)
        if status != 0:
            raise refuse("H114", detail=errors.strip().replace(draft, PATH).rstrip("."))

    def take_over(self, action: str, plan: Plan) -> str:
        """Reload, and restart where that is needed; return why the daemon did not take it over, "" where it did.

        The daemon judges the file at a reload, and goes on as it was where it refuses.
        """
        if not action:
            return ""
        why = self._reload()
        outlive = plan.effective.get("live-restore") is True
        if why and (action == RELOAD or outlive or self._answers()):
            return why
        if action == RELOAD:
            return ""
        if outlive and not self._answers(live_restore=True):
            return (
                f"it did not take live-restore over, and its containers would not outlive a restart ({self._journal()})"
            )
        if not self._restart("docker.service"):
            return self._journal()
        return "" if self._answers() else self._journal()

    def revive(self) -> bool:
        """Start the daemon after it failed; tell whether it runs."""
        return self._restart(*UNITS) and self._answers()

    def _reload(self) -> str:
        """Let the daemon read its file again; return why it did not apply it, "" where it did."""
        since = time.time()
        if not self._systemctl("reload", "docker.service"):
            return "systemctl reload docker.service failed"
        for _try in range(TRIES):
            with contextlib.suppress(docker_engine.NoAnswerError):
                if docker_engine.has_reloaded(since):
                    return ""
            time.sleep(PAUSE)
        return self._journal()

    def _restart(self, *units: str) -> bool:
        """Restart units, whose earlier starts do not count: systemd allows Docker three in a minute."""
        self._systemctl("reset-failed", *UNITS)
        return self._systemctl("restart", *units)

    def _answers(self, *, live_restore: bool = False) -> bool:
        """Wait until the daemon answers, and if so wanted says that containers outlive it."""
        for _try in range(TRIES):
            with contextlib.suppress(docker_engine.NoAnswerError):
                info = docker_engine.ask("/info")
                if info["LiveRestoreEnabled"] or not live_restore:
                    return True
            time.sleep(PAUSE)
        return False

    def _journal(self) -> str:
        argv = ["journalctl", "--unit=docker.service", f"--since=@{int(self._since)}", "--output=cat", "--no-pager"]
        return docker_settings.reason(self._run(*argv)[1])

    def _pid(self) -> str:
        return self._show("MainPID").strip().partition("=")[2]

    def _show(self, *properties: str) -> str:
        return self._run("systemctl", "show", f"--property={','.join(properties)}", "docker.service")[1]

    def _systemctl(self, *words: str) -> bool:
        return self._run("timeout", str(SECONDS), "systemctl", *words)[0] == 0

    def _run(self, *argv: str) -> tuple[int, str, str]:
        answer: tuple[int, str, str] = self._module.run_command(list(argv))
        return answer


if __name__ == "__main__":
    main()

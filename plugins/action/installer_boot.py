# Copyright (c) 2026 The gpulab founders
# GNU General Public License v3.0+ (see https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""gpulab.node.installer_boot: plan a reinstall, let the node start the installer once, and wait for what comes back.

The plan is made again for each work that needs it, from the capture on the controller and what the node says. So no
secret is in a result, a fact or a log, and what is put is never planned from an older seen.
"""

from __future__ import annotations

import contextlib
import hashlib
import re
import shlex
import tempfile
import time
from dataclasses import asdict, replace
from datetime import datetime, timezone
from pathlib import Path
from typing import TYPE_CHECKING, Any, Callable

from ansible import constants
from ansible.errors import AnsibleConnectionFailure
from ansible_collections.gpulab.node.plugins.module_utils.capture.arguments import ARGUMENTS as OF_CAPTURE
from ansible_collections.gpulab.node.plugins.module_utils.core import records
from ansible_collections.gpulab.node.plugins.module_utils.core.refusal import Refusal
from ansible_collections.gpulab.node.plugins.module_utils.core.shown import first, one_line
from ansible_collections.gpulab.node.plugins.module_utils.facts.users import in_use
from ansible_collections.gpulab.node.plugins.plugin_utils import options
from ansible_collections.gpulab.node.plugins.plugin_utils.capture import captures, look, reinstall, summary
from ansible_collections.gpulab.node.plugins.plugin_utils.capture import manifest as manifests
from ansible_collections.gpulab.node.plugins.plugin_utils.capture import rebuild_state as states
from ansible_collections.gpulab.node.plugins.plugin_utils.capture.manifest import encodable
from ansible_collections.gpulab.node.plugins.plugin_utils.capture.secrets import cipher_of
from ansible_collections.gpulab.node.plugins.plugin_utils.core.asking import Asking, FailedError
from ansible_collections.gpulab.node.plugins.plugin_utils.core.failure import failure
from ansible_collections.gpulab.node.plugins.plugin_utils.installer import archive, image
from ansible_collections.gpulab.node.plugins.plugin_utils.rebuild import installation, obstacles, planned
from ansible_collections.gpulab.node.plugins.plugin_utils.rebuild.case import Captured, Found, Wishes
from ansible_collections.gpulab.node.plugins.plugin_utils.refusals import refuse
from ansible_collections.gpulab.node.plugins.plugin_utils.roles import leaves

if TYPE_CHECKING:
    from collections.abc import Iterator

    from ansible_collections.gpulab.node.plugins.module_utils.capture.sections.disks import Export
    from ansible_collections.gpulab.node.plugins.module_utils.installer.plan import Plan

MODULE = "gpulab.node.boot_once"
HOST_PART = "host.cpio.gz"
ROOT = "root"
LOCKED = 30  # minutes that a lock lasts unless it is renewed, and that a capture may be old at the reboot
TRIED = 2  # minutes that it lasts until this run has seen that it still comes in
BETWEEN = 10  # seconds between two looks at a node that is away
MEMORY = Path("/dev/shm")  # noqa: S108
WRONG_KEY = "host key verification failed"  # as ssh says it: what answers is neither the old nor the planned system
MARKER = "/etc/gpulab-installed-by"
# One command without root: the boot, and what the installer wrote.
ANSWERS = f"cat /proc/sys/kernel/random/boot_id && {{ cat {MARKER} 2>/dev/null || true; }}"
# Ansible found the old system's interpreter, which may have another version in its name; each system has this one.
FOUND_AGAIN = {"discovered_interpreter_python": "/usr/bin/python3"}
WHO = 'id -un; echo "$SSH_CONNECTION"'
_SSH_CONNECTION_FIELDS = 4
_MARKED = re.compile(r'"(plan|capture)"\s*:\s*"([^"]*)"')
ARGUMENTS: dict[str, Any] = {
    "directory": {"type": "path", "default": "captures"},
    "age_identity": {"type": "path"},
    "capture": {"type": "dict", "default": {}},
    "system": {"type": "str"},
    "mirror": {"type": "str"},
    "security_mirror": {"type": "str"},
    "packages": {"type": "list", "elements": "str", "default": []},
    "network_files": {"type": "list", "elements": "path", "default": []},
    "minutes": {"type": "int", "default": 15},
    "allow": {"type": "list", "elements": "str", "default": []},
    "confirmed": {"type": "raw"},
    "hosts": {"type": "list", "elements": "str", "default": []},
    "image": {"type": "path"},
    "plan_id": {"type": "str"},
    "of_capture": {"type": "str"},
    "arguments": {"type": "list", "elements": "str", "default": []},
    "made": {"type": "str"},
    "boot_id": {"type": "str"},
    "timeout": {"type": "int", "default": 3600},
}


class ActionModule(Asking):
    """Do one work of a reinstall; in check mode, the plan alone."""

    _supports_check_mode = True

    def run(self, tmp: str | None = None, task_vars: dict[str, Any] | None = None) -> dict[str, Any]:
        """Return what the work returns, or the refusals."""
        super().run(tmp, task_vars)
        self.variables = task_vars or {}
        work = {"type": "str", "choices": list(WORKS), "required": True}
        _validated, self._args = self.validate_argument_spec({"work": work, **ARGUMENTS})
        self._host = self.variables["inventory_hostname"]
        try:
            result = WORKS[self._args["work"]](self)
        except Refusal as refusal:
            return failure([refusal])
        except FailedError as failed:
            return failed.result
        return {"changed": False, **encodable(result)}

    # The plan

    def begin(self) -> dict[str, Any]:
        """Take back what an earlier run prepared. Raises Refusal R078 for a node that waits for its rebuild.

        A capture of it would hide the one that it comes back from.
        """
        place = captures.place(Path(self._args["directory"]), self._host)
        names, noted = captures.names(place), states.read(place)
        _boot, marker = self._answer()
        of_capture = marker.get("capture")
        is_back = noted is not None and noted.capture == of_capture and noted.reached(states.STATES[-1])
        if names and of_capture == names[-1] and not is_back:
            raise refuse("R078", host=self._host, capture=of_capture)
        return self.disarm()

    def plan(self) -> dict[str, Any]:
        """Say what would happen, and what stands against it: outside of check mode, a missing confirmation, too."""
        captured, told = self._captured()
        planned_so, seen = self._planned(captured)
        lines = [
            *told,
            *planned_so.lines,
            *(f"LOST {one}" for one in planned_so.lost),
            *_exported(captured.manifest.sections.disks.exports),
        ]
        blockers = list(planned_so.blockers)
        if not blockers and not captured.manifest.sections.disks.container and _is_here(seen["boot_id"]):
            blockers.append(refuse("R075", host=self._host))
        blockers += self._judged(planned_so.plan) if planned_so.plan and not blockers else []
        blockers += self._in_use()
        if not self._task.check_mode and not blockers:
            blockers += obstacles.unconfirmed(self._host, self._args["confirmed"], self._args["hosts"])
        refusals = [asdict(one) for one in blockers]
        return {
            **_named(planned_so.plan),
            "image": asdict(planned_so.image) if planned_so.image else None,
            "lines": lines,
            "refusals": refusals,
        }

    def _captured(self) -> tuple[Captured, list[str]]:
        """Return the newest capture, and what to say of it; in check mode, what one would hold now."""
        place = captures.place(Path(self._args["directory"]), self._host)
        if self._task.check_mode:
            defaults = {name: one.get("default") for name, one in OF_CAPTURE.items()}
            settings = {**defaults, **self._args["capture"], "directory": self._args["directory"]}
            left = leaves.on_host(options.Values(self.given))
            manifest = manifests.typed(look.document(self, self._host, settings, left))
            lines: list[str] = summary.result(manifest, None, allow=self._args["allow"])["lines"]
            return Captured(manifest, lambda _path: None), lines
        capture = captures.latest(place)
        if capture is None:
            raise refuse("R001", host=self._host, what="capture", path=place)
        capture.verify()
        secrets = capture.secrets(cipher_of(self._host, capture.archive.name, self._args["age_identity"]))
        return planned.captured(capture, secrets), []

    def _planned(self, captured: Captured) -> tuple[installation.Installation, dict[str, Any]]:
        """Return the plan, with what the boot loader stands against it, and what the node said."""
        user, server, client = self._who()
        seen = self._on_node("look")
        keys = self._keys(captured.authorized_keys(user))
        wishes = Wishes(
            self._args["system"],
            self._args["mirror"],
            self._args["security_mirror"],
            tuple(self._args["packages"]),
            self._args["minutes"],
            planned.network_files(self._host, self._args["network_files"]),
            tuple(self._args["allow"]),
        )
        found = Found(seen["dmi_uuid"], seen["memory"], user, keys, server, client)
        made = installation.plan(captured, found, wishes, planned.installers())
        foreign = obstacles.foreign_kernel(captured.manifest, made.image.system) if made.image else ""
        detail = "; ".join(filter(None, (seen["obstacle"], foreign)))
        if detail and not captured.manifest.sections.disks.container:
            more = refuse("R024", host=self._host, detail=detail)
            made = replace(made, blockers=(*made.blockers, more))
        return made, seen

    def _in_use(self) -> list[Refusal]:
        """Return R009 where somebody works on the node, by the facts that the role has just read."""
        who = in_use(self.variables["ansible_facts"]["gpulab"]["users_of_gpus"])
        return [refuse("R009", host=self._host, who=who)] if who else []

    def _judged(self, plan: Plan) -> list[Refusal]:
        """Let the installer's own guards seen at the running node."""
        reasons = self._on_node("judge", plan=plan)["reasons"]
        return [refuse("R074", host=self._host, detail=" ".join(reasons))] if reasons else []

    def _who(self) -> tuple[str, str, str]:
        """Return who Ansible connects as, and both ends of its connection, empty where it has none."""
        done = self._low_level_execute_command(WHO, sudoable=False)
        user, _newline, connection = done["stdout"].strip().partition("\n")
        fields = connection.split()
        if len(fields) != _SSH_CONNECTION_FIELDS:
            return user.strip(), "", ""
        return user.strip(), fields[2], fields[0]

    def _keys(self, paths: list[str]) -> str:
        """Return the keys in files, as sshd sees them: as the user, for root may not read a home on a server."""
        words = " ".join(map(shlex.quote, paths))
        text = self._low_level_execute_command(f"cat {words} 2>/dev/null", sudoable=False)["stdout"] if paths else ""
        return "".join(f"{line}\n" for line in text.splitlines() if line.strip())

    # The installer on the node

    def put(self) -> dict[str, Any]:
        """Plan by the newest capture, and copy what the node does not have yet."""
        if self._task.check_mode:
            return {"changed": True}
        captured, _told = self._captured()
        made, seen = self._planned(captured)
        blockers = [*made.blockers, *(self._judged(made.plan) if made.plan and not made.blockers else [])]
        if blockers or made.plan is None:
            return failure(blockers)
        ready = image.read(Path(self._args["image"]))
        part = archive.host_part(made.plan, made.files)
        memory = MEMORY if MEMORY.is_dir() else Path(constants.DEFAULT_LOCAL_TMP)  # it holds the host's keys
        with tempfile.NamedTemporaryFile(dir=memory) as own:  # for its owner alone
            own.write(part)
            own.flush()
            sums = {image.KERNEL: ready.sums[image.KERNEL], image.TREE: ready.sums[image.TREE]}
            sums[HOST_PART] = hashlib.sha256(part).hexdigest()
            paths = {image.KERNEL: ready.kernel, image.TREE: ready.tree, HOST_PART: Path(own.name)}
            given = self._copied(paths, sums, seen["here"])
            changed = self._on_node("put", files=given)["changed"]
        arguments = planned.kernel_arguments(made.plan, refused="reboot", source="disk")
        return {"changed": changed, **_named(made.plan), "arguments": arguments, "boot_id": seen["boot_id"]}

    def _copied(self, paths: dict[str, Path], sums: dict[str, str], here: dict[str, str]) -> dict[str, dict[str, Any]]:
        """Copy files to the node's temporary directory, but for those that it has; say where they are."""
        self._make_tmp_path()
        shell = self._connection._shell  # noqa: SLF001 - as every action plugin that copies
        given: dict[str, dict[str, Any]] = {}
        for name, path in paths.items():
            target = None
            if here.get(name) != sums[name]:
                target = shell.join_path(shell.tmpdir, name)
                self._transfer_file(str(path), target)
            given[name] = {"sha256": sums[name], "size": path.stat().st_size, "source": target}
        return given

    def lock(self) -> dict[str, Any]:
        """Keep others out, and see that this run still comes in; else the lock opens by itself. Raises Refusal R072."""
        if self._task.check_mode:
            return {"changed": True}
        message = f"{self._host} is being reinstalled. Please come back later."
        user, _server, _client = self._who()
        changed = self._on_node("lock", message=message, seconds=TRIED * 60)["changed"]
        if user != ROOT:
            try:
                self._low_level_execute_command("true", sudoable=False)
            except AnsibleConnectionFailure as error:
                detail = one_line(str(error))
                raise refuse("R072", host=self._host, user=user, detail=detail, minutes=TRIED) from error
        self._on_node("lock", message=message, seconds=LOCKED * 60)
        return {"changed": changed}

    def arm(self) -> dict[str, Any]:
        """Choose the installer for the next boot, if nobody is at work. Raises Refusal R009."""
        if self._task.check_mode:
            return {"changed": True}
        for refusal in self._in_use():
            raise refusal
        names = [image.KERNEL, image.TREE, HOST_PART]
        title = f"gpulab: reinstall {self._host} (plan {self._args['plan_id']})"
        return {"changed": self._on_node("arm", title=title, names=names, arguments=self._args["arguments"])["changed"]}

    def reboot(self) -> dict[str, Any]:
        """Reboot, unless so much time has passed that the capture is old. Raises Refusal R073."""
        if self._task.check_mode:
            return {"changed": True}
        made = datetime.fromisoformat(self._args["made"].replace("Z", "+00:00"))
        minutes = (datetime.now(timezone.utc) - made).total_seconds() / 60
        if not 0 <= minutes <= LOCKED:
            raise refuse("R073", host=self._host, minutes=round(minutes))
        return {"changed": self._on_node("reboot")["changed"]}

    def disarm(self) -> dict[str, Any]:
        """Take everything back, and the note that the node went into the installer."""
        place = captures.place(Path(self._args["directory"]), self._host)
        noted = states.read(place)
        changed = self._on_node("disarm")["changed"]
        if noted and not noted.reached("reachable") and not self._task.check_mode:
            records.remove(place / states.FILE)
        return {"changed": changed}

    # What comes back

    def wait(self) -> dict[str, Any]:
        """Return whether the system of the plan answers, or the old one. Raises Refusal R029 and R077."""
        if self._task.check_mode:
            return {"outcome": "old"}
        began, detail = time.monotonic(), "it did not reboot"
        while True:
            try:
                self._connection.reset()
                boot, marker = self._answer()
            except AnsibleConnectionFailure as error:
                detail = one_line(str(error)) or "no connection"
                if WRONG_KEY in detail.lower():
                    raise refuse("R077", host=self._host, detail=detail) from error
            else:
                wanted = {"plan": self._args["plan_id"], "capture": self._args["of_capture"]}
                # No old system was installed from the capture that was made of it, whatever the plan.
                if any(value and marker.get(name) == value for name, value in wanted.items()):
                    return {"outcome": "installed", "ansible_facts": dict(FOUND_AGAIN)}
                if boot and boot != self._args["boot_id"]:
                    return {"outcome": "old", **({"detail": self.why()} if self._args["boot_id"] else {})}
            if time.monotonic() - began > self._args["timeout"]:
                raise refuse("R029", host=self._host, minutes=round(self._args["timeout"] / 60), detail=detail)
            time.sleep(BETWEEN)

    def why(self) -> str:
        """Say why the installer did not install, as far as its guards find it on the old system."""
        reasons: list[Refusal] = []
        with contextlib.suppress(Refusal, FailedError, AnsibleConnectionFailure):
            captured, _told = self._captured()
            made, _look = self._planned(captured)
            reasons += [*made.blockers, *(self._judged(made.plan) if made.plan else [])]
        return " ".join(one.cause for one in reasons) or "the installer refused, failed or hung before it wrote"

    def _answer(self) -> tuple[str, dict[str, str]]:
        """Return the boot that answers, and by which plan and from which capture it was installed, if it was."""
        done = self._low_level_execute_command(ANSWERS, sudoable=False)
        boot, _newline, marker = done["stdout"].partition("\n")
        return boot.strip(), dict(_MARKED.findall(marker))

    def _on_node(self, work: str, **asked: Any) -> dict[str, Any]:
        """Return what the module on the node answers. Raises FailedError."""
        found: dict[str, Any] = self.ask(MODULE, {"work": work}, {"host": self._host, **asked})
        return found


WORKS: dict[str, Callable[[ActionModule], dict[str, Any]]] = {
    "begin": ActionModule.begin,
    "plan": ActionModule.plan,
    "put": ActionModule.put,
    "lock": ActionModule.lock,
    "arm": ActionModule.arm,
    "reboot": ActionModule.reboot,
    "wait": ActionModule.wait,
    "disarm": ActionModule.disarm,
}


def _named(plan: Plan | None) -> dict[str, Any]:
    return {"plan_id": plan["id"], "capture": plan["capture"], "made": plan["made"]} if plan else {}


def _is_here(boot_id: str) -> bool:
    """Tell whether the node is the machine that this run is on."""
    try:
        return Path("/proc/sys/kernel/random/boot_id").read_text(encoding="ascii").strip() == boot_id
    except OSError:
        return False


def _exported(exports: list[Export]) -> Iterator[str]:
    """Say what other machines mount from here: they come back after it, and unmount before it."""
    for path in dict.fromkeys(one.path for one in exports):
        clients = [one.client for one in exports if one.path == path]
        yield (
            f"ORDER {path} is exported to {first(list(dict.fromkeys(clients)), reinstall.MOST_NAMED)}: reinstall this"
            " node before those that mount it, and unmount it there first"
        )

#!/usr/bin/python
# Copyright (c) 2026 The gpulab founders
# GNU General Public License v3.0+ (see https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Run the commands of a lab's own checks on a node, each in a sandbox."""

from __future__ import annotations

DOCUMENTATION = r"""
module: own_checks
short_description: Run the commands of a lab's own checks on a node, each in a sandbox
version_added: 1.1.0
description:
  - M(gpulab.node.verify) runs it where C(verify_own_checks) names a directory, and judges what it finds.
  - systemd runs each command as a user that exists for it alone, who writes nowhere but to a F(/tmp) of its own, with
    no network, no devices and no homes, 64 MB of memory, 32 processes and 64 kB of output, and ends it with all that it
    has started when its time is over.
extends_documentation_fragment: gpulab.node.attributes
attributes:
  check_mode:
    description: Runs nothing.
options:
  commands:
    description: The commands.
    type: list
    elements: dict
    required: true
    suboptions:
      id:
        description: The name of the check.
        type: str
        required: true
      command:
        description: The program by its whole path, and its arguments.
        type: list
        elements: str
        required: true
      timeout_seconds:
        description: The seconds after which it is ended.
        type: int
        required: true
      root:
        description: Whether it runs as root, which reads all files. What it may write stays as it is.
        type: bool
        default: false
      network:
        description: Whether it has the node's network.
        type: bool
        default: false
      gpus:
        description: Whether it sees the node's devices, the GPUs among them.
        type: bool
        default: false
"""

EXAMPLES = r"""
- name: See how much is free
  gpulab.node.own_checks:
    commands:
      - {id: own-scratch-free, command: [/usr/bin/df, --output=avail, /scratch], timeout_seconds: 5}
"""

RETURN = r"""
readings:
  description: >-
    By the names of the checks: the exit C(status), the C(output), the C(errors), and the C(problem) of one that did not
    come to its end by itself.
  returned: success
  type: dict
  sample: {own-scratch-free: {status: 0, output: "Avail\n1024\n", errors: "", problem: ""}}
"""

import re
import shutil
import subprocess
import tempfile
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

from ansible_collections.gpulab.node.plugins.module_utils.core.module import Module

AT_ONCE = 4
MOST_BYTES = 64 << 10
NOT_STARTED = 203  # systemd.exec(5), EXIT_EXEC
GRACE = 10  # seconds that systemd may take to begin and to end one
ENDED = re.compile(r"Finished with result: (\S+)")
PROBLEMS = {
    "timeout": "it was ended after {seconds} s",
    "oom-kill": "it wanted more than 64 MB of memory",
    "signal": "a signal ended it",
    "core-dump": "a signal ended it",
}
SANDBOX = (
    *(
        "ProtectSystem=strict",
        "PrivateTmp=yes",
        "NoNewPrivileges=yes",
        "ProtectKernelModules=yes",
        "ProtectKernelTunables=yes",
    ),
    *("ProtectControlGroups=yes", "RestrictSUIDSGID=yes", "LockPersonality=yes", "MemoryMax=64M", "TasksMax=32"),
    *(f"LimitFSIZE={MOST_BYTES}", "LimitCORE=0", "TimeoutStopSec=2", "Nice=10"),
)


def argv(given: dict[str, Any], place: Path) -> list[str]:
    """Return the words by which systemd runs a command, which leaves what it prints in the files out and err."""
    options = [*SANDBOX, f"RuntimeMaxSec={given['timeout_seconds']}"]
    options += [f"StandardOutput=truncate:{place}/out", f"StandardError=truncate:{place}/err"]
    options += [] if given["root"] else ["DynamicUser=yes", "ProtectHome=yes"]
    options += [] if given["network"] else ["PrivateNetwork=yes"]
    options += [] if given["gpus"] else ["PrivateDevices=yes"]
    words = [f"--property={option}" for option in options]
    unit = f"--unit=gpulab-{given['id']}"
    return ["systemd-run", "--wait", "--collect", "--service-type=exec", unit, *words, "--", *given["command"]]


def run(given: dict[str, Any]) -> dict[str, Any]:
    """Run a command, and return what came of it."""
    with tempfile.TemporaryDirectory(prefix="gpulab-own-", dir="/run") as directory:
        place = Path(directory)
        limit = given["timeout_seconds"] + GRACE
        call = argv(given, place)
        try:
            done = subprocess.run(
                call,
                capture_output=True,
                text=True,
                errors="replace",
                check=False,
                timeout=limit,
                stdin=subprocess.DEVNULL,
                env={"LC_ALL": "C", "PATH": "/usr/sbin:/usr/bin:/sbin:/bin"},
            )
        except subprocess.TimeoutExpired:
            subprocess.run(["systemctl", "kill", "--signal=KILL", f"gpulab-{given['id']}.service"], check=False)
            return _reading(problem=f"it could not be ended after {given['timeout_seconds']} s")
        output, errors = (_text(place / name) for name in ("out", "err"))
        ended = ENDED.search(done.stderr)
        if ended is None:
            return _reading(problem=f"systemd did not run it: {done.stderr.strip()[-200:]}")
        problem = PROBLEMS.get(ended[1], "").format(seconds=given["timeout_seconds"])
        if done.returncode == NOT_STARTED and not errors:
            problem = f"{given['command'][0]} cannot be started"
        if problem and max(len(output), len(errors)) >= MOST_BYTES:
            problem = "it printed more than 64 kB"
        return _reading(done.returncode, output, errors, problem)


def _reading(status: int | None = None, output: str = "", errors: str = "", problem: str = "") -> dict[str, Any]:
    return {"status": status, "output": output, "errors": errors, "problem": problem}


def _text(path: Path) -> str:
    return path.read_bytes()[:MOST_BYTES].decode("utf-8", "replace") if path.exists() else ""


def main() -> None:
    """Run them all."""
    flag = {"type": "bool", "default": False}
    module = Module(
        argument_spec={
            "commands": {
                "type": "list",
                "elements": "dict",
                "required": True,
                "options": {
                    "id": {"type": "str", "required": True},
                    "command": {"type": "list", "elements": "str", "required": True},
                    "timeout_seconds": {"type": "int", "required": True},
                    "root": flag,
                    "network": flag,
                    "gpus": flag,
                },
            }
        },
        supports_check_mode=True,
    )
    commands = [] if module.check_mode else module.params["commands"]
    if commands and not shutil.which("systemd-run"):
        module.exit_json(
            changed=False, readings={one["id"]: _reading(problem="there is no systemd-run") for one in commands}
        )
    with ThreadPoolExecutor(AT_ONCE) as pool:
        readings = dict(zip([one["id"] for one in commands], pool.map(run, commands)))
    module.exit_json(changed=False, readings=readings)


if __name__ == "__main__":
    main()

#!/usr/bin/python
# Copyright (c) 2026 The gpulab founders
# GNU General Public License v3.0+ (see https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Bring back the software of a capture: packages, containers' images, users' environments, jobs."""

from __future__ import annotations

DOCUMENTATION = r"""
module: restore_software
short_description: Bring back the software of a capture
version_added: 0.3.0
description:
  - One part of a rebuild, see O(work). Each part can run again, and changes nothing where all is back.
  - What cannot be brought back does not fail the task. RV(missing) names it.
options:
  directory:
    description: Directory of the captures on the controller.
    type: path
    required: true
  capture:
    description: Name of the capture. Unset takes the latest one.
    type: str
  unsigned:
    description: Name of a capture that is taken without its signature, as earlier versions of gpulab wrote them.
    type: str
  age_identity:
    description: File with a private key of age, where the secrets are encrypted with age.
    type: path
  work:
    description:
      - V(begin) changes nothing. It chooses the capture, and refuses (GPULAB-R062) a node that was not reinstalled.
      - V(packages) brings back sources, keys, pins and packages with their holds and marks. With another release of the
        system, sources and pins of the old one stay away, and what the manually installed packages need is chosen
        again.
        Packages that gpulab's roles install come with these.
      - V(hold_jobs) brings back cron jobs, at jobs and units of no package, but lets none of them start.
      - V(services) starts the services whose settings are back.
      - V(locks) lets gpulab's own environments come back with the packages that they had.
      - V(containers) pulls the images by their digests.
      - V(environments) makes users' Python environments from their locks.
      - V(jobs) enables the jobs as they were.
      - V(check_locks) changes nothing. It is for the node before its reinstall, and refuses (GPULAB-R013) where a
        package of a lock is not available any more.
    type: str
    choices: [begin, packages, hold_jobs, services, locks, containers, environments, jobs, check_locks]
    required: true
  extra_index_urls:
    description: Addresses of package indexes that users' environments need beside those of their users' pip.
    type: list
    elements: str
    default: []
  operation:
    description: The action plugin sets it. Leave it out.
    type: str
    default: look
  asked:
    description: The action plugin sets it. Leave it out.
    type: str
extends_documentation_fragment: gpulab.node.attributes
attributes:
  check_mode:
    description: Says what it would bring back.
  diff_mode:
    description: RV(changes) says it.
"""

EXAMPLES = r"""
- name: Bring the packages back
  gpulab.node.restore_software:
    directory: captures
    work: packages
"""

RETURN = r"""
capture:
  description: The capture that the node comes back from.
  returned: with O(work=begin)
  type: str
plan:
  description: Id of the installer's plan; null where a person installed the node.
  returned: with O(work=begin)
  type: str
packages:
  description: Names of the packages that the node had.
  returned: with O(work=begin)
  type: list
  elements: str
known:
  description: Severities by the checks that found something in the last proof before the capture.
  returned: with O(work=begin)
  type: dict
changes:
  description: What changed, or would change in check mode, as M(gpulab.node.preview) shows it.
  returned: success
  type: list
  elements: dict
missing:
  description: What did not come back, each with C(section), C(name) and C(why).
  returned: success
  type: list
  elements: dict
refusal:
  description: Code, cause and remedy when it was refused.
  returned: failure
  type: dict
"""

import os
import pwd
from pathlib import Path
from typing import Any

from ansible.module_utils.urls import open_url
from ansible_collections.gpulab.node.plugins.module_utils.capture import containers as captured_containers
from ansible_collections.gpulab.node.plugins.module_utils.capture import homes
from ansible_collections.gpulab.node.plugins.module_utils.capture.wire import packed, unpacked
from ansible_collections.gpulab.node.plugins.module_utils.core import evidence, files
from ansible_collections.gpulab.node.plugins.module_utils.core.module import Module, run
from ansible_collections.gpulab.node.plugins.module_utils.core.node import Node
from ansible_collections.gpulab.node.plugins.module_utils.core.refusals.node import refuse
from ansible_collections.gpulab.node.plugins.module_utils.core.steps import Step, running_boot
from ansible_collections.gpulab.node.plugins.module_utils.environments import venv
from ansible_collections.gpulab.node.plugins.module_utils.packages import apt
from ansible_collections.gpulab.node.plugins.module_utils.rebuild import (
    software_containers,
    software_done,
    software_environments,
)
from ansible_collections.gpulab.node.plugins.module_utils.rebuild.software_apt import Packages
from ansible_collections.gpulab.node.plugins.module_utils.rebuild.software_jobs import Jobs
from ansible_collections.gpulab.node.plugins.module_utils.receipts import store

SCRIPTS = Path("/var/lib/gpulab/rebuild")
MARKER = Path("/etc/gpulab-installed-by")
WORKS = ("begin", "packages", "hold_jobs", "services", "locks", "containers", "environments", "jobs", "check_locks")
SECONDS = 20  # for the answer of a server


def begin(_module: Module, _asked: dict[str, Any]) -> dict[str, Any]:
    """Return what tells whether the node was reinstalled: {machine_id, receipts, users, done, marker}."""
    node = Node()
    return {
        "machine_id": node.text("/etc/machine-id"),
        "receipts": sorted(store.items(node)),
        "users": [one.name for one in homes.accounts(node)],
        "done": software_done.read(Path("/")),
        "marker": MARKER.exists(),
    }


def of_locks(module: Module, asked: dict[str, Any]) -> list[str]:
    """Put locks where the environments look for them; return those that are new."""
    found = []
    for lock in asked["captured"]:
        file = venv.captured_lock(Path(lock["path"]))
        if Path(lock["path"]).exists() or files.read(file) == lock["text"]:
            continue
        found.append(lock["path"])
        if not module.check_mode:
            files.put_own(module, file, lock["text"])
    return found


def of_packages(module: Module, asked: dict[str, Any]) -> Any:
    """Look, try the sources, choose the packages, or mark them. Raises Refusal R060."""
    if not module.get_bin_path("apt-get"):
        return {"unable": True}
    host = Packages(module.run_command, asked["captured"])
    operation = module.params["operation"]
    if operation == "lists":
        return host.lists()
    if operation == "install":
        step = Step(asked["step"], module.run_command, running_boot())
        return host.install(files.read(step.log))
    if operation == "marks":
        evidence.take()  # no role of gpulab answers for what came back
        return host.marks(check_mode=module.check_mode)
    return host.look()


def of_jobs(module: Module, asked: dict[str, Any]) -> Any:
    """Hold jobs, start services, or let jobs go."""
    jobs = Jobs(module.run_command, asked["captured"])
    work = {"hold_jobs": jobs.hold, "services": jobs.serve, "jobs": jobs.release}[module.params["work"]]
    return work(check_mode=module.check_mode)


def of_containers(module: Module, asked: dict[str, Any]) -> Any:
    """Say which images are to be pulled; what starts the engine has to be there."""
    engines = asked["captured"]
    if not module.check_mode and any(one["program"] == "docker" for one in engines) and module.get_bin_path("docker"):
        module.run_command(["systemctl", "start", "docker.service"])
    now = {one["program"]: one for one in captured_containers.read(Node()).record["engines"]}
    for program in ("docker", "podman"):
        if program not in now and module.get_bin_path(program):
            now[program] = {
                "program": program,
                "trouble": "",
                "images": [],
                "volumes": [],
                "networks": [],
                "containers": [],
            }
    return software_containers.plan(engines, now)


def of_environments(module: Module, asked: dict[str, Any]) -> Any:
    """Look at an environment, or write the script that makes or checks it: {make, missing}, or an argument list."""
    node, record, operation = Node(), asked["record"], module.params["operation"]
    try:
        account = pwd.getpwnam(record["owner"])
    except KeyError:
        why = f"its user {record['owner']} is not on the node"
        return {"make": False, "missing": [software_environments.missing(record, why)]}
    script = SCRIPTS / f"{asked.get('step')}.sh"
    if operation == "look":
        script.unlink(missing_ok=True)  # it may hold the address of an index with its password
        make, missing = software_environments.look(node, record)
        return {"make": make, "missing": missing}
    if operation == "addresses":
        return next(filter(None, map(_lost, software_environments.addresses(record))), "")
    making = operation == "make"
    text = (software_environments.script if making else software_environments.check_script)(
        node, record, module.params["extra_index_urls"]
    )
    if not text:
        return []
    files.make_directory(SCRIPTS)
    script.unlink(missing_ok=True)
    descriptor = os.open(script, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW, 0o600)
    with os.fdopen(descriptor, "w", encoding="utf-8") as stream:
        os.fchown(descriptor, account.pw_uid, account.pw_gid)
        stream.write(text + "\n")
    return software_environments.as_user(account.pw_name, account.pw_dir, str(script))


def _lost(address: str) -> str:
    """Return why nobody has the file of an address any more; empty where it is there."""
    try:
        with open_url(address, method="HEAD", timeout=SECONDS):
            return ""
    except OSError as error:
        return f"{address}: {error}"


def restore(module: Module) -> dict[str, Any]:
    """Answer the action plugin, which packs what it asks. Raises Refusal H011 where this is not root."""
    if os.geteuid() != 0:
        raise refuse("H011", user=os.geteuid())
    asked = unpacked(module.params["asked"])
    work = module.params["work"]
    kinds: dict[str, Any] = {"begin": begin, "packages": of_packages, "locks": of_locks, "containers": of_containers}
    kinds.update(dict.fromkeys(("hold_jobs", "services", "jobs"), of_jobs))
    kinds.update(dict.fromkeys(("environments", "check_locks"), of_environments))
    if module.params["operation"] == "done":
        return {"answer": packed(bool(software_done.read(Path("/"))))}
    return {"answer": packed(kinds[work](module, asked))}


def main() -> None:
    """Parse, restore."""
    module = Module(
        argument_spec={
            "directory": {"type": "path", "required": True},
            "capture": {"type": "str"},
            "age_identity": {"type": "path"},
            "unsigned": {"type": "str"},
            "work": {
                "type": "str",
                "choices": list(WORKS),
                "required": True,
            },
            "extra_index_urls": {"type": "list", "elements": "str", "default": []},
            "operation": {"type": "str", "default": "look"},
            "asked": {"type": "str"},
        },
        supports_check_mode=True,
    )
    module.run_command_environ_update = dict(apt.ENVIRONMENT)
    run(module, restore)


if __name__ == "__main__":
    main()

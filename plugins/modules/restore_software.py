#!/usr/bin/python
# Copyright (c) 2026 The gpulab founders
# GNU General Public License v3.0+ (see https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Bring back the software of a capture: packages, containers' images, users' environments, jobs."""

from __future__ import annotations

DOCUMENTATION = r"""
module: restore_software
short_description: Bring back the software of a capture
version_added: 1.0.0
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
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Callable

from ansible.module_utils.urls import open_url
from ansible_collections.gpulab.node.plugins.module_utils.capture import containers as captured_containers
from ansible_collections.gpulab.node.plugins.module_utils.capture import homes
from ansible_collections.gpulab.node.plugins.module_utils.capture.sections.engines import Engine
from ansible_collections.gpulab.node.plugins.module_utils.capture.wire import packed, unpacked
from ansible_collections.gpulab.node.plugins.module_utils.core import evidence, files
from ansible_collections.gpulab.node.plugins.module_utils.core.module import Module, run
from ansible_collections.gpulab.node.plugins.module_utils.core.node import Node
from ansible_collections.gpulab.node.plugins.module_utils.core.records import typed
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
from ansible_collections.gpulab.node.plugins.module_utils.rebuild.software_asked import TAKEN, OfJobs, OfPackages
from ansible_collections.gpulab.node.plugins.module_utils.rebuild.software_jobs import Jobs
from ansible_collections.gpulab.node.plugins.module_utils.receipts import store

if TYPE_CHECKING:
    from ansible_collections.gpulab.node.plugins.module_utils.capture.sections.environments import Environment
    from ansible_collections.gpulab.node.plugins.module_utils.capture.sections.gpulab import Lock

SCRIPTS = Path("/var/lib/gpulab/rebuild")
MARKER = Path("/etc/gpulab-installed-by")
SECONDS = 20  # for the answer of a server


@dataclass(frozen=True)
class Question:
    """What is asked: taken has the type that TAKEN says; step is the name of a long step, of the operations for one."""

    module: Module
    taken: Any
    step: str

    @property
    def check_mode(self) -> bool:
        """Whether nothing may change."""
        return bool(self.module.check_mode)


def begin(_question: Question) -> dict[str, Any]:
    """Return what tells whether the node was reinstalled: {machine_id, receipts, users, done, marker}."""
    node = Node()
    return {
        "machine_id": node.text("/etc/machine-id"),
        "receipts": sorted(store.items(node)),
        "users": [one.name for one in homes.accounts(node)],
        "done": software_done.read(Path("/")),
        "marker": MARKER.exists(),
    }


def put_locks(question: Question) -> list[str]:
    """Put locks where the environments look for them; return those that are new."""
    locks: list[Lock] = question.taken
    put = []
    for lock in locks:
        file = venv.captured_lock(Path(lock.path))
        if Path(lock.path).exists() or files.read(file) == lock.text:
            continue
        put.append(lock.path)
        if not question.check_mode:
            files.put_own(question.module, file, lock.text)
    return put


def _packages(question: Question) -> Packages:
    taken: OfPackages = question.taken
    return Packages(question.module.run_command, taken)


def look_at_packages(question: Question) -> dict[str, Any]:
    """Say what differs, and what is to be installed."""
    return _packages(question).look() if question.module.get_bin_path("apt-get") else {"unable": True}


def install_packages(question: Question) -> dict[str, Any]:
    """Choose the packages by what the trial of the sources printed. Raises Refusal R060."""
    step = Step(question.step, question.module.run_command, running_boot())
    return _packages(question).install(files.read(step.log))


def mark_packages(question: Question) -> dict[str, Any]:
    """Give packages their marks; no role of gpulab answers for what came back."""
    evidence.take()
    return _packages(question).marks(check_mode=question.check_mode)


def _jobs(question: Question) -> Jobs:
    taken: OfJobs = question.taken
    return Jobs(question.module.run_command, taken)


def plan_images(question: Question) -> dict[str, Any]:
    """Say which images are to be pulled; what starts the engine has to be there."""
    engines: list[Engine] = question.taken
    module = question.module
    if not question.check_mode and any(one.program == "docker" for one in engines) and module.get_bin_path("docker"):
        module.run_command(["systemctl", "start", "docker.service"])
    now = {one.program: one for one in captured_containers.read(Node()).engines}
    for program in ("docker", "podman"):
        if program not in now and module.get_bin_path(program):
            now[program] = Engine(program, "", "", "", "", [], [], [], [])
    pulls, missing = software_containers.plan(engines, now)
    return {"pulls": list(map(asdict, pulls)), "missing": missing}


def look_at_environment(question: Question) -> dict[str, Any]:
    """Say whether an environment is to be made, and what is missing: {make, missing}."""
    record: Environment = question.taken
    if not _account(record):
        return _without_user(record)
    _script(question).unlink(missing_ok=True)  # it may hold the address of an index with its password
    make, missing = software_environments.look(Node(), record)
    return {"make": make, "missing": missing}


def make_environment(question: Question) -> Any:
    """Return the argument list that makes an environment as its user."""
    return _run_as_user(question, software_environments.script)


def check_environment(question: Question) -> Any:
    """Return the argument list that asks whether the packages of a lock can be had; empty where nothing is asked."""
    return _run_as_user(question, software_environments.check_script)


def lost_address(question: Question) -> Any:
    """Return why nobody has a file of a lock any more; empty where all are there."""
    record: Environment = question.taken
    if not _account(record):
        return _without_user(record)
    return next(filter(None, map(_lost, software_environments.addresses(record))), "")


def _account(record: Environment) -> pwd.struct_passwd | None:
    try:
        return pwd.getpwnam(record.owner)
    except KeyError:
        return None


def _without_user(record: Environment) -> dict[str, Any]:
    why = f"its user {record.owner} is not on the node"
    return {"make": False, "missing": [software_environments.missing(record, why)]}


def _script(question: Question) -> Path:
    return SCRIPTS / f"{question.step}.sh"


def _run_as_user(question: Question, write: Callable[[Node, Environment, list[str]], str]) -> Any:
    """Put a script where its user can open it; return what runs it."""
    record: Environment = question.taken
    account = _account(record)
    if not account:
        return _without_user(record)
    text = write(Node(), record, question.module.params["extra_index_urls"])
    if not text:
        return []
    script = _script(question)
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


def is_over(_question: Question) -> bool:
    """Tell whether the rebuild is over."""
    return bool(software_done.read(Path("/")))


OF_ENVIRONMENTS = {
    "look": look_at_environment,
    "make": make_environment,
    "check": check_environment,
    "addresses": lost_address,
    "done": is_over,
}
# What each work may be asked.
OPERATIONS: dict[str, dict[str, Callable[[Question], Any]]] = {
    "begin": {"look": begin},
    "packages": {
        "look": look_at_packages,
        "lists": lambda question: _packages(question).lists(),
        "install": install_packages,
        "marks": mark_packages,
    },
    "hold_jobs": {"look": lambda question: _jobs(question).hold(check_mode=question.check_mode)},
    "services": {"look": lambda question: _jobs(question).serve(check_mode=question.check_mode)},
    "locks": {"look": put_locks},
    "containers": {"look": plan_images, "done": is_over},
    "environments": OF_ENVIRONMENTS,
    "jobs": {"look": lambda question: _jobs(question).release(check_mode=question.check_mode)},
    "check_locks": OF_ENVIRONMENTS,
}


def restore(module: Module) -> dict[str, Any]:
    """Answer the action plugin, which packs what it asks. Raises Refusal H011 where this is not root."""
    if os.geteuid() != 0:
        raise refuse("H011", user=os.geteuid())
    work, operation = module.params["work"], module.params["operation"]
    asked = unpacked(module.params["asked"])
    taken = None if operation == "done" else typed(asked["taken"], TAKEN[work])
    return {"answer": packed(OPERATIONS[work][operation](Question(module, taken, asked["step"])))}


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
                "choices": list(TAKEN),
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

#!/usr/bin/python
# Copyright (c) 2026 The gpulab founders
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The node's half of a package transaction: look, prepare, judge. The transaction itself is a long step."""

from __future__ import annotations

DOCUMENTATION = r"""
module: packages
short_description: Install and remove packages in one transaction that can be followed and undone
version_added: 0.1.0
description:
  - Brings packages to the wanted state in one transaction, which runs as a long step (see M(gpulab.node.long_step)).
  - The package manager is apt or dnf. With dnf, what is on hold is locked to its version (versionlock).
  - Where nothing is to do, the package manager is not run at all.
  - Before anything changes, the transaction is simulated, and refused when it would not fit on the disk or would remove
    packages that O(absent) does not name.
  - Waits for the locks of the package system and names the process that holds them.
  - When the transaction fails, the packages it has brought are taken off again, and with O(former) those that it
    changed are put back. Packages that were installed before are never removed.
options:
  transaction:
    description: Name of the transaction, as the operator sees it. Letters, digits, V(.), V(_) and V(-).
    type: str
    default: packages
  present:
    description: Packages to be installed, as V(name) or V(name=version); the version may hold wildcards.
    type: list
    elements: str
    default: []
  absent:
    description: Packages to be removed, with their configuration files left.
    type: list
    elements: str
    default: []
  hold:
    description: Packages or globs that nothing but this transaction, or another that names them here, may change.
    type: list
    elements: str
    default: []
  unhold:
    description: Packages or globs that it may change again.
    type: list
    elements: str
    default: []
  retire:
    description:
      - Packages that are no longer wanted. Those that a transaction of this module brought are purged, and with them
        what came along, as far as nothing else on the node needs it. Packages that somebody else installed stay.
      - In such a transaction, the configuration files of O(absent) go, too.
    type: list
    elements: str
    default: []
  former:
    description:
      - Name under which the packages that the transaction changes or removes are kept on the node, as they were, with
        those of earlier transactions of the same name.
      - They are put back when the transaction fails, or later by M(gpulab.node.former_packages).
      - A package that no source has any more is packed again with APT, and refused with dnf.
    type: str
  last_origin:
    description:
      - Origin whose packages are taken only where no other has them, of those that O(hold) names; APT has it from the
        repository's Release file and shows it in C(apt-cache policy) as C(o=). APT only.
    type: str
  upgrade:
    description:
      - Whether packages of O(present) that are named without a version are brought to the newest version that APT would
        install; without it, one that is there is left as it is. APT only.
    type: bool
    default: false
  stays:
    description:
      - Whether the packages on the node that O(hold) names stay in their version, and new ones beside them come in it,
        too. The transaction is refused (GPULAB-H058) where that cannot be. APT only.
    type: bool
    default: false
  build_later:
    description:
      - Module of DKMS that the packages bring and do not build, because M(gpulab.node.dkms) does after the transaction.
      - This holds for what the transaction runs, and leaves nothing behind on the node. APT only.
    type: str
  predict:
    description:
      - Whether to say only what the transaction would do, as in check mode, and change nothing. Outside of check mode,
        the package lists are refreshed before (see O(update_cache)).
    type: bool
    default: false
  recommends:
    description: Whether to install what the packages recommend, too.
    type: bool
    default: false
  update_cache:
    description: Whether to refresh the package lists before a transaction.
    type: bool
    default: true
  cache_valid_time:
    description: Seconds for which package lists are fresh. Lists older than the package sources never are.
    type: int
    default: 3600
  lock_timeout:
    description: Seconds to wait for another process that holds a lock of the package system.
    type: int
    default: 600
  timeout:
    description: Seconds after which the transaction is stopped and undone.
    type: int
    default: 3600
  operation:
    description: What the action plugin asks of the node. Leave it out.
    type: str
    choices: [look, lists, wait, prepare, finish, diagnose, audit]
    default: look
extends_documentation_fragment: gpulab.node.attributes.diff
attributes:
  check_mode:
    description: The transaction is simulated. A package whose source this very run would add is no error.
  diff_mode:
    description: One package a line.
requirements:
  - apt, or dnf 4 with its versionlock plugin (for O(hold))
  - systemd as the first process of the node
  - root
"""

EXAMPLES = r"""
- name: Install the compiler that DKMS needs
  gpulab.node.packages:
    transaction: build-tools
    present: [dkms, gcc, make]

- name: Keep the driver where it is
  gpulab.node.packages:
    transaction: driver
    present: ["nvidia-kernel-dkms=535.*"]
    hold: [nvidia-kernel-dkms, "libnvidia-*"]
"""

RETURN = r"""
changes:
  description: What changed, or would change in check mode, as M(gpulab.node.preview) shows it.
  returned: on change, in check mode and with O(predict)
  type: list
  elements: dict
  sample: [{action: install, what: dkms 3.0.10-8}]
diff:
  description: The packages that change, one a line.
  returned: on change
  type: dict
predicted:
  description: What the simulation found.
  returned: on change, in check mode and with O(predict)
  type: dict
  contains:
    install:
      description: Version of each package that is new.
      type: dict
    change:
      description: Version before and after of each package that changes.
      type: dict
    remove:
      description: Version of each package that goes.
      type: dict
    not_listed:
      description: What the package lists do not have yet; it and what it depends on are missing in the rest.
      type: list
      elements: str
    downloads:
      description: Bytes of each package file that is not on the node yet.
      type: dict
found:
  description: V(started) by this task, V(attached) to a run of before, or its result V(picked_up).
  returned: on change, not in check mode
  type: str
seconds:
  description: What the transaction took on the node.
  returned: on change, not in check mode
  type: float
log:
  description: Path of the transaction's log on the node.
  returned: on change, not in check mode
  type: str
undone:
  description: The packages that were taken off again.
  returned: on failure of a transaction
  type: list
  elements: str
audit:
  description: What the package manager finds inconsistent after that; empty when nothing is.
  returned: on failure of a transaction
  type: str
refusal:
  description: Code, cause and remedy.
  returned: on failure
  type: dict
"""

import time
from dataclasses import asdict, replace
from typing import TYPE_CHECKING, Any

from ansible.module_utils.basic import AnsibleModule
from ansible_collections.gpulab.node.plugins.module_utils.core import evidence
from ansible_collections.gpulab.node.plugins.module_utils.core.module import run
from ansible_collections.gpulab.node.plugins.module_utils.core.refusals.packages import refuse
from ansible_collections.gpulab.node.plugins.module_utils.core.steps import Step, running_boot
from ansible_collections.gpulab.node.plugins.module_utils.packages import apt
from ansible_collections.gpulab.node.plugins.module_utils.packages import plan as package_plan
from ansible_collections.gpulab.node.plugins.module_utils.packages.apt_host import Apt
from ansible_collections.gpulab.node.plugins.module_utils.packages.dnf_host import Dnf
from ansible_collections.gpulab.node.plugins.module_utils.packages.plan import Plan, Wishes

if TYPE_CHECKING:
    from typing import Callable

MANAGERS: dict[str, type[Apt | Dnf]] = {"apt-get": Apt, "dnf": Dnf}
LOCK_WAIT = 5.0
LOCK_INTERVAL = 0.5


def look(host: Apt | Dnf, params: dict[str, Any], *, check_mode: bool) -> dict[str, Any]:
    """Say what is to do: nothing, a transaction, or what comes before one can be prepared. Raises Refusal."""
    only_said = check_mode or params["predict"]
    if not only_said:
        host.settle()
    left = host.interrupted_transaction()
    if left and not only_said:
        return {"changed": True, "transaction": left, "left": True}
    todo = host.todo()
    if todo == Wishes():
        return {"changed": False}
    if not left:
        host.check_not_interrupted()
    if only_said:
        return {"changed": not params["predict"], **predict(host, todo)}
    if not todo.of_packages():
        host.finish()
        return {"changed": True, "diff": package_plan.diff(Plan(), todo)}
    update = host.update(params["cache_valid_time"]) if params["update_cache"] else None
    lock_holder = host.lock_holder()
    if update or lock_holder:
        return {"changed": True, "update": update, "lock_holder": lock_holder}
    return {"changed": True, "transaction": host.prepare()}


def predict(host: Apt | Dnf, todo: Wishes) -> dict[str, Any]:
    """Return what a simulation found, and its diff; packages that are not in the lists yet are named as such."""
    not_listed: list[str] = []
    while True:
        plan, downloads, errors = host.predict(todo)
        unknown = host.unknown(errors)
        missing = [wish for wish in todo.present if package_plan.split(wish)[0] in unknown]
        if not missing:
            break
        not_listed += missing
        todo = replace(todo, present=tuple(wish for wish in todo.present if wish not in missing))
    if errors and not not_listed:
        raise host.refusal(errors)
    return {
        "diff": host.diff(plan, todo, tuple(not_listed)),
        "changes": package_plan.changes_of(plan, not_listed),
        "predicted": {**asdict(plan), "not_listed": not_listed, "downloads": downloads},
    }


def wait_for_lock(host: Apt | Dnf) -> dict[str, Any]:
    """Wait a few seconds for the package system; say who holds it, if anybody still does."""
    deadline = time.monotonic() + LOCK_WAIT
    while (holder := host.lock_holder()) and time.monotonic() < deadline:
        time.sleep(LOCK_INTERVAL)
    return {"lock_holder": holder}


def finish(host: Apt | Dnf, step: Step) -> dict[str, Any]:
    """Close a transaction that has succeeded. Raises Refusal."""
    step.acknowledge()
    host.finish()
    return {}


def diagnose(host: Apt | Dnf, step: Step) -> dict[str, Any]:
    """Say why a transaction failed, and how it is undone."""
    step.acknowledge()
    refusal, names, script = host.diagnose()
    return {"failure": asdict(refusal), "undo": names, "script": script}


def operate(module: AnsibleModule) -> dict[str, Any]:
    """Carry out the wanted operation; raises Refusal."""
    params = module.params
    managers = [manager for program, manager in MANAGERS.items() if module.get_bin_path(program)]
    if not managers:
        raise refuse("H055")
    wishes = Wishes(*(tuple(params[key]) for key in ("present", "absent", "hold", "unhold", "retire")))
    step = Step(params["transaction"], module.run_command, running_boot())
    manager = managers[0]
    host = manager(
        module.run_command,
        step,
        wishes,
        recommends=params["recommends"],
        lock_timeout=params["lock_timeout"],
        former=manager.former_packages(params["former"]) if params["former"] else None,
        last_origin=params["last_origin"] or "",
        upgrade=params["upgrade"],
        stays=params["stays"],
        build_later=params["build_later"] or "",
    )
    operations: dict[str, Callable[[], dict[str, Any]]] = {
        "look": lambda: look(host, params, check_mode=module.check_mode),
        "lists": lambda: {"update": host.update(params["cache_valid_time"]), "lock_holder": host.lock_holder()},
        "wait": lambda: wait_for_lock(host),
        "prepare": lambda: {"transaction": host.prepare()},
        "finish": lambda: finish(host, step),
        "diagnose": lambda: diagnose(host, step),
        "audit": lambda: {"audit": host.audit()},
    }
    result = operations[params["operation"]]()
    if not params["predict"]:
        named = (*wishes.present, *wishes.absent, *wishes.hold, *wishes.unhold, *wishes.retire)
        evidence.note(module, package=[package_plan.split(wish)[0] for wish in named])
    for warning in dict.fromkeys(host.warnings):
        module.warn(warning)
    return result


def main() -> None:
    """Parse, operate, report."""
    names = {"type": "list", "elements": "str", "default": []}
    module = AnsibleModule(
        argument_spec={
            "transaction": {"type": "str", "default": "packages"},
            "present": names,
            "absent": names,
            "hold": names,
            "unhold": names,
            "retire": names,
            "former": {"type": "str"},
            "last_origin": {"type": "str"},
            "upgrade": {"type": "bool", "default": False},
            "stays": {"type": "bool", "default": False},
            "build_later": {"type": "str"},
            "predict": {"type": "bool", "default": False},
            "recommends": {"type": "bool", "default": False},
            "update_cache": {"type": "bool", "default": True},
            "cache_valid_time": {"type": "int", "default": 3600},
            "lock_timeout": {"type": "int", "default": 600},
            "timeout": {"type": "int", "default": 3600},
            "operation": {
                "type": "str",
                "choices": ["look", "lists", "wait", "prepare", "finish", "diagnose", "audit"],
                "default": "look",
            },
        },
        supports_check_mode=True,
    )
    module.run_command_environ_update = dict(apt.ENVIRONMENT)
    run(module, operate)


if __name__ == "__main__":
    main()

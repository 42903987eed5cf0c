#!/usr/bin/python
# Copyright (c) 2026 The gpulab founders
# GNU General Public License v3.0+ (see https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Tell Slurm's accounting who the people of the inventory are."""

from __future__ import annotations

DOCUMENTATION = r"""
module: slurm_people
short_description: Give Slurm's accounting the groups and people of the inventory
version_added: 1.1.0
description:
  - Runs on the controller of Slurm. Each group becomes an account with a share, each person a user of the accounts of
    the person's groups. Limits of GPUs stand in a QOS.
  - Accounts and users that others made are left alone, and told. Nothing is deleted. Who leaves, or leaves a group, may
    submit no further job there; jobs that wait or run go on.
  - Refused where somebody has a job and would have no account, or where nobody would have one, as long as
    C(slurm.conf) does not say that Slurm takes jobs from nobody else.
extends_documentation_fragment: gpulab.node.attributes
attributes:
  check_mode:
    description: Reports what would change, refuses as it would, and changes nothing.
options:
  cluster:
    description: Name of the cluster.
    type: str
    required: true
  controller:
    description: Hostname of the controller, where slurmdbd runs, too.
    type: str
    required: true
  groups:
    description: The groups, as C(users_groups) has them.
    type: list
    elements: dict
    default: []
  people:
    description: The people, as C(users_people) has them.
    type: list
    elements: dict
    default: []
  shares:
    description: Shares of groups by name. A group that is not there has 1.
    type: dict
    default: {}
  gpus_per_user:
    description: The most GPUs that a person may use at a time. Unset means any.
    type: int
  interactive:
    description: The same for the partition C(interactive). Unset means that there is none.
    type: int
  people_pending:
    description: Whether people may still come to the controller who are not there, as in check mode.
    type: bool
    default: false
"""

EXAMPLES = r"""
- name: Give Slurm the people of the lab
  gpulab.node.slurm_people:
    cluster: gpulab
    controller: head
    groups: "{{ users_groups }}"
    people: "{{ users_people }}"
    shares: {vision: 3}
    gpus_per_user: 2
"""

RETURN = r"""
changes:
  description: What changed, or would change in check mode, as M(gpulab.node.preview) shows it.
  returned: success
  type: list
  elements: dict
  sample: [{action: make, what: Slurm account vision}]
waits:
  description: Whether limits of GPUs wait until slurmctld has registered the GPUs.
  returned: success
  type: bool
refusal:
  description: Code, cause and remedy when the task is refused.
  returned: when refused
  type: dict
"""

import pwd
import tempfile
from pathlib import Path
from typing import Any

from ansible.module_utils.basic import AnsibleModule
from ansible_collections.gpulab.node.plugins.module_utils.core import files
from ansible_collections.gpulab.node.plugins.module_utils.core.module import run
from ansible_collections.gpulab.node.plugins.module_utils.core.refusal import Refusal
from ansible_collections.gpulab.node.plugins.module_utils.core.refusals.slurm import refuse
from ansible_collections.gpulab.node.plugins.module_utils.slurm import accounts, configuration
from ansible_collections.gpulab.node.plugins.module_utils.slurm.calls import answer

# Of a controller that may have jobs. Jobs that waited when it was ended (slurm_state: absent) cannot be asked for.
STATE = Path("/var/lib/slurm/slurmctld/job_state")
SLURM_CONF = Path("/etc/slurm/slurm.conf")
# sacctmgr reads slurm.conf, which is written after the accounts that it asks for are there.
CONFIGURATION = """ClusterName={cluster}
SlurmctldHost={controller}
AccountingStorageType=accounting_storage/slurmdbd
AccountingStorageHost=localhost
"""


class Accounting:
    """sacctmgr and squeue on this host."""

    def __init__(self, module: AnsibleModule, configuration: str) -> None:
        """Take the path of a slurm.conf that names the accounting."""
        self._module = module
        self._configuration = {"SLURM_CONF": configuration}

    def _call(self, argv: list[str], what: str, environment: dict[str, str]) -> str:
        return answer(self._module, argv, "F053", self._module.params["controller"], what, environment)

    def change(self, step: accounts.Step) -> None:
        """Carry a step out. Raises Refusal F053."""
        self._call(["sacctmgr", "--immediate", *step.arguments], step.what, self._configuration)

    def look(self) -> accounts.Recorded:
        """Return what the accounting knows. Raises Refusal F053."""
        asked = {name: ["sacctmgr", "--noheader", "--parsable2", *what] for name, what in accounts.ASKED.items()}
        answers = {name: self._call(argv, " ".join(argv), self._configuration) for name, argv in asked.items()}
        return accounts.parse(self._module.params["cluster"], answers)

    def jobs(self) -> str:
        """Return the jobs of the cluster, as accounts.JOBS shows them. Raises Refusal F053, but in check mode.

        slurmctld may be down, and what is to be set up may be what it waits for.
        """
        if not (STATE.exists() and SLURM_CONF.exists()):
            return ""
        try:
            return self._call(list(accounts.JOBS), "tell who has jobs", {})
        except Refusal:
            if not self._module.check_mode:
                raise
            return ""


def operate(module: AnsibleModule) -> dict[str, Any]:
    """Return the result. Raises Refusal."""
    given = module.params
    names = ("cluster", "groups", "people", "shares", "gpus_per_user", "interactive")
    users = [person["name"] for person in given["people"] if _is_user(person["name"])]
    wanted = accounts.wanted(given["controller"], users=users, **{name: given[name] for name in names})
    with tempfile.NamedTemporaryFile("w", suffix=".conf") as configuration:
        configuration.write(CONFIGURATION.format(**given))
        configuration.flush()
        steps, recorded = _carry_out(module, Accounting(module, configuration.name), wanted)
    for sentence in accounts.left_alone(wanted, recorded):
        module.warn(sentence)
    return {
        "changed": bool(steps),
        "changes": [{"action": step.action, "what": step.what} for step in steps],
        "waits": not recorded.counts_gpus and any(limit is not None for limit in wanted.limits.values()),
    }


def _is_user(name: str) -> bool:
    """Tell whether this host knows an account, also by a directory."""
    try:
        return bool(pwd.getpwnam(name))
    except KeyError:
        return False


def _check(module: AnsibleModule, accounting: Accounting, wanted: accounts.Wanted, recorded: accounts.Recorded) -> None:
    """Raise Refusal F052 or F054 where somebody with jobs, or all, would be shut out from now on; F053."""
    lost = accounts.stranded(accounting.jobs(), wanted, recorded)
    if lost:
        raise refuse("F052", host=module.params["controller"], who=", ".join(lost))
    if not (accounts.admitted(wanted, recorded) or (module.params["people_pending"] and wanted.absent)):
        raise refuse("F054", host=module.params["controller"])


def _carry_out(
    module: AnsibleModule, accounting: Accounting, wanted: accounts.Wanted
) -> tuple[list[accounts.Step], accounts.Recorded]:
    """Return the steps, done but in check mode, and what the accounting knows then. Raises Refusal F052 to F054."""
    present = configuration.read(files.read(SLURM_CONF), {})
    try:
        recorded = accounting.look()
    except Refusal:
        if not module.check_mode:
            raise
        recorded = accounts.Recorded()  # the run sets it up before it asks
        known = not accounts.has_accounting(present)
    else:
        known = True
    if known and not accounts.enforces(present):
        _check(module, accounting, wanted, recorded)
    steps = accounts.steps(wanted, recorded)
    if not module.check_mode:
        for step in steps:
            accounting.change(step)
        recorded = accounting.look()
        for step in accounts.steps(wanted, recorded):
            raise refuse(
                "F053", host=module.params["controller"], what=step.what, detail="it is not so after the change"
            )
    return steps, recorded


def main() -> None:
    """Parse, and do it."""
    entries = {"type": "list", "elements": "dict", "default": []}
    module = AnsibleModule(
        argument_spec={
            "cluster": {"type": "str", "required": True},
            "controller": {"type": "str", "required": True},
            "groups": entries,
            "people": entries,
            "shares": {"type": "dict", "default": {}},
            "gpus_per_user": {"type": "int"},
            "interactive": {"type": "int"},
            "people_pending": {"type": "bool", "default": False},
        },
        supports_check_mode=True,
    )
    run(module, operate)


if __name__ == "__main__":
    main()

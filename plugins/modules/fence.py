#!/usr/bin/python
# Copyright (c) 2026 The gpulab founders
# GNU General Public License v3.0+ (see https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Take a node out of service, and bring it back."""

from __future__ import annotations

DOCUMENTATION = r"""
module: fence
short_description: Take a node out of service until its users are done, and bring it back
version_added: 1.0.0
description:
  - Keeps new work from a node, waits until nobody uses it, and brings it back into service. Nothing is ever killed.
  - The node has a record of its fence, C(/var/lib/gpulab/fence.json). Only the run that fenced it lifts the fence, and
    only what that run did is taken back.
  - Without an engine, nobody but root, the user that Ansible logs in as, and O(passing) can log in. People read why;
    their open sessions go on.
  - Under Slurm, no further job starts on the node. Logins are closed when the last job has ended.
  - In Kubernetes, the controller cordons the node, and waits for the pods that would lose work. No pod is evicted.
options:
  work:
    description:
      - V(look) only reads.
      - V(drain) fences the node, or corrects the reason of this run's fence.
      - V(wait) waits until nobody uses the node, O(minutes) at most, and says who does.
      - V(resume) lifts the fence.
    type: str
    choices: [look, drain, wait, resume]
    required: true
  run:
    description: Names the run that the fence belongs to. Unset means the user and machine that the playbook runs as.
    type: str
  reason:
    description: Why the node is out of service, for people and for Slurm.
    type: str
    default: maintenance
  until:
    description: When the node should be back, in UTC, such as V(2026-11-26T23:00:00Z).
    type: str
  reserve:
    description:
      - Under Slurm, whether the node is reserved until O(until) in place of being drained. Slurm then takes it back by
        itself, also where nobody lifts the fence. Jobs that run go on.
      - With V(look), says also which jobs and which reservations Slurm has on a node that has no fence.
    type: bool
    default: false
    version_added: 1.1.0
  held:
    description: Whether the node failed, and stays fenced until it is mended.
    type: bool
    default: false
  engine:
    description:
      - Who starts work on the node. V(auto) is Kubernetes where O(kubeconfig) is set, the node has a kubelet, and the
        cluster knows it; else Slurm where slurmd's unit is there and Slurm knows the node; and else V(none).
    type: str
    choices: [auto, none, slurm, kubernetes]
    default: auto
  kubeconfig:
    description: File on the controller by which kubectl reaches the cluster. Unset takes the one that kubectl takes,
      where O(engine) is V(kubernetes).
    type: path
  kubernetes_node:
    description: The node's name in Kubernetes. Unset takes its names in the inventory.
    type: str
  passing:
    description: Users who may log in all the same.
    type: list
    elements: str
    default: []
  minutes:
    description: How long V(wait) waits; 0 means without end.
    type: float
    default: 0
  force:
    description: Lift the fence of another run, too.
    type: bool
    default: false
  before:
    description: Set by the action plugin.
    type: dict
  host:
    description: Set by the action plugin.
    type: str
  by:
    description: Set by the action plugin.
    type: str
  lock:
    description: Set by the action plugin.
    type: dict
extends_documentation_fragment: gpulab.node.attributes
attributes:
  check_mode:
    description: Reports what would change and changes nothing. V(wait) does not wait.
"""

EXAMPLES = r"""
- name: Take the node out of service
  gpulab.node.fence:
    work: drain
    reason: new power supply

- name: Wait for its users
  gpulab.node.fence:
    work: wait
    minutes: 120
"""

RETURN = r"""
changes:
  description: What changed, or would change in check mode, as M(gpulab.node.preview) shows it.
  returned: success
  type: list
  elements: dict
  sample: [{action: write, what: /var/lib/gpulab/fence.json}]
fence:
  description: The record of the fence, or null.
  returned: success
  type: dict
fresh:
  description: Whether the node had no fence before.
  returned: success
  type: bool
users:
  description: Who uses the node; empty where nobody does.
  returned: success
  type: str
drained_by_others:
  description: After V(resume), the reason for which Slurm still has the node drained, or Kubernetes has it cordoned.
  returned: success
  type: str
reservations:
  description: After V(look) with O(reserve), the reservations that Slurm has for the node; times in UTC.
  returned: success
  type: list
  elements: dict
  sample: [{name: course, start: "2026-12-01T08:00:00Z", end: "2026-12-01T12:00:00Z"}]
kubelet:
  description: Whether the node has joined a cluster of Kubernetes.
  returned: success
  type: bool
refusal:
  description: Code, cause and remedy when the task is refused.
  returned: when refused
  type: dict
"""

import os
from typing import Any

from ansible.module_utils.basic import AnsibleModule
from ansible_collections.gpulab.node.plugins.module_utils.core import run_lock
from ansible_collections.gpulab.node.plugins.module_utils.core.changes import changes
from ansible_collections.gpulab.node.plugins.module_utils.core.module import run
from ansible_collections.gpulab.node.plugins.module_utils.core.node import Job, Node
from ansible_collections.gpulab.node.plugins.module_utils.core.refusals.node import refuse
from ansible_collections.gpulab.node.plugins.module_utils.fence.host import SLURM, FenceRequest, NodeFence

SECONDS = 60.0  # what one command may take: scontrol asks each controller in turn


def call(argv: list[str]) -> tuple[int, str, str]:
    """Run a command; one that is not there or does not answer has failed."""
    return Job(argv, SECONDS).result() or (127, "", f"{argv[0]} is not there, or does not answer")


def work(module: AnsibleModule) -> dict[str, Any]:
    """Do one work. Raises Refusal."""
    given = module.params
    if os.geteuid() != 0:
        raise refuse("H011", user=os.geteuid())
    if given["lock"] and not module.check_mode:
        run_lock.hold(given["lock"], run_lock.GO_ON)
    fence, changed, left = NodeFence(Node(), call, module, given["host"] or ""), [], ""
    bookings: list[dict[str, str]] = []
    users, before = "", fence.record()
    if given["work"] == "drain":
        names = ("run", "by", "reason", "until", "held", "engine", "before", "reserve")
        changed = fence.drain(FenceRequest(**{name: given[name] for name in names}, passing=tuple(given["passing"])))
    elif given["work"] == "resume":
        changed, left = fence.resume(given["run"], force=given["force"])
    else:
        name = None
        if given["reserve"]:
            name, bookings = fence.reserved(before["engine"] if before else given["engine"])
        users = fence.users(os.getpid(), name)
        record = fence.record()
        if given["work"] == "wait" and not users and record and record["engine"] == SLURM:
            changed = fence.close(record, given["passing"])
    return {
        "changed": bool(changed),
        "changes": changes(write=changed),
        "fence": fence.record(),
        "fresh": before is None,
        "users": users,
        "drained_by_others": left,
        "reservations": bookings,
        "kubelet": fence.has_kubelet(),
    }


def main() -> None:
    """Parse, and do it."""
    module = AnsibleModule(
        argument_spec={
            "work": {"type": "str", "choices": ["look", "drain", "wait", "resume"], "required": True},
            "run": {"type": "str"},
            "reason": {"type": "str", "default": "maintenance"},
            "until": {"type": "str"},
            "reserve": {"type": "bool", "default": False},
            "held": {"type": "bool", "default": False},
            "engine": {"type": "str", "choices": ["auto", "none", "slurm", "kubernetes"], "default": "auto"},
            "kubeconfig": {"type": "path"},
            "kubernetes_node": {"type": "str"},
            "before": {"type": "dict"},
            "passing": {"type": "list", "elements": "str", "default": [], "no_log": False},
            "minutes": {"type": "float", "default": 0},
            "force": {"type": "bool", "default": False},
            "host": {"type": "str"},
            "by": {"type": "str"},
            "lock": {"type": "dict"},
        },
        supports_check_mode=True,
    )
    run(module, work)


if __name__ == "__main__":
    main()

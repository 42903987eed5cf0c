#!/usr/bin/python
# Copyright (c) 2026 The gpulab founders
# GNU General Public License v3.0+ (see https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Documentation of the action plugin of the same name."""

from __future__ import annotations

DOCUMENTATION = r"""
module: rollout
short_description: The order of a rollout, and what became of each node
version_added: 1.0.0
description:
  - Keeps C(RUN/rollout.json) and C(RUN/hosts/) on the controller for C(playbooks/rollout.yml). The node is not
    connected to.
options:
  work:
    description:
      - V(order) decides the order of all hosts of the play from what was read of them.
      - V(turn) says whether a host may be changed now; V(note) notes how far it came, V(fail) why it left.
      - V(report) says what became of all hosts, and writes it beside the record.
    type: str
    choices: [order, turn, note, fail, report]
    required: true
  directory:
    description: Where the records are, for V(order).
    type: path
    default: rollouts
  file:
    description: The record of this rollout, for all other works.
    type: path
  canary:
    description: Hosts that come first, each alone.
    type: list
    elements: str
    default: []
  batch:
    description: How many hosts are changed at a time, as a number or a share.
    type: str
    default: 25%
  out_at_once:
    description: How many hosts may be out of service at a time.
    type: str
    default: 25%
  freeze:
    description: When no change may begin.
    type: list
    elements: dict
    default: []
  freeze_file:
    description: A file that keeps changes from beginning while it is there.
    type: path
  minutes:
    description: How long the users of a node are waited for.
    type: float
    default: 0
  state:
    description: What the host has reached, for V(note).
    type: str
    choices: [changing, proving, done]
  result:
    description: The result that ended the host's change, for V(fail).
    type: dict
extends_documentation_fragment: gpulab.node.attributes.controller
attributes:
  check_mode:
    description: The order is decided and not written.
"""

EXAMPLES = r"""
- name: Note that the node is back
  gpulab.node.rollout:
    work: note
    state: done
    file: "{{ gpulab_rollout.file }}"
"""

RETURN = r"""
order:
  description: The hosts in their order.
  returned: after V(order)
  type: list
  elements: str
sizes:
  description: The sizes of the batches; the last one repeats.
  returned: after V(order)
  type: list
  elements: int
run:
  description: The name of the rollout, when it began.
  returned: after V(order)
  type: str
  sample: 20261126T210000Z
file:
  description: Its record.
  returned: after V(order)
  type: str
until:
  description: When the nodes should be back, in UTC; null where their users are waited for without end.
  returned: after V(order)
  type: str
go:
  description: Whether the host may be changed now.
  returned: after V(turn)
  type: bool
batch:
  description: The hosts that are changed together.
  returned: after V(turn)
  type: list
  elements: str
why:
  description: The refusal that keeps the host from being changed, or null.
  returned: after V(turn)
  type: dict
state:
  description: How the host left the rollout.
  returned: after V(fail)
  type: str
cause:
  description: Why it did.
  returned: after V(fail)
  type: str
lines:
  description: The order or the report, for people.
  returned: after V(order) and V(report)
  type: list
  elements: str
refusals:
  description: Why hosts were not changed, by their names.
  returned: after V(report)
  type: dict
refusal:
  description: Code, cause and remedy when the task is refused.
  returned: when refused
  type: dict
"""

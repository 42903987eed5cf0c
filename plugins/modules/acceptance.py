#!/usr/bin/python
# Copyright (c) 2026 The gpulab founders
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Documentation of the action plugin of the same name."""

from __future__ import annotations

DOCUMENTATION = r"""
module: acceptance
short_description: Say which nodes to measure together, and certify what came of it
version_added: 1.1.0
description:
  - Keeps C(RUN/acceptance.json) on the controller, and writes C(RUN/certificate.json), its signature and
    C(RUN/certificate.html) beside it. The role C(acceptance) uses it.
  - Runs once, on the controller, for all hosts of the play. It never connects to a host.
options:
  work:
    description:
      - V(begin) refuses what keeps the hosts from being measured, then begins, or goes on with what was cut off.
      - V(test) notes which hosts failed their own proof. V(next) says which of them to measure together, V(note) notes
        what they measured.
      - V(end) certifies, V(verify) verifies a certificate.
    type: str
    choices: [begin, test, next, note, end, verify]
    required: true
  directory:
    description: Where the records are, for V(begin).
    type: path
    default: acceptances
  file:
    description: The record of this acceptance, for what comes after V(begin).
    type: path
  reason:
    description: Why the hosts are accepted.
    type: str
    choices: [new, repair, yearly]
    default: new
  floors:
    description: The least bus bandwidths, as C(acceptance_floors) has them.
    type: list
    elements: dict
    default: []
  key:
    description: The private key that signs the certificate. It is made where there is none.
    type: path
    default: keys/acceptance/signing
  signers:
    description: Who may have signed a certificate. Unset means C(allowed_signers) beside the key.
    type: path
  fenced:
    description: Whether hosts that are in use are waited for, and not refused.
    type: bool
    default: false
  until:
    description: When hosts behind a fence are back in service at the latest, in UTC. Unset is a day later. Nothing is
      measured that would not have ended by then.
    type: str
  wait_minutes:
    description: How long users are waited for behind the fence; 0 is without end. It is never longer than O(until).
    type: float
    default: 0
  proof:
    description: Whether a host that failed its own proof is failed.
    type: bool
    default: true
  left_out:
    description: What is not tried at all, for the certificate.
    type: list
    elements: str
    default: []
  allow_untested:
    description: Hosts that may stay untested.
    type: list
    elements: str
    default: []
  minutes_each:
    description: How long one measurement may take, for V(next).
    type: float
    default: 3
  minutes_most:
    description: How long all measurements may take together; 0 is without end.
    type: float
    default: 0
  certificate:
    description: The certificate to verify.
    type: path
  group:
    description: The hosts that were measured, for V(note).
    type: list
    elements: str
    default: []
  step:
    description: The step of the ladder that they were measured for.
    type: str
    default: ""
  began:
    description: When their measurement began, in seconds since 1970.
    type: float
    default: 0
extends_documentation_fragment: gpulab.node.attributes.controller
attributes:
  check_mode:
    description: V(begin) refuses what it would refuse, and writes nothing.
seealso:
  - module: gpulab.node.nodes_all_reduce
"""

EXAMPLES = r"""
- name: Verify a certificate
  gpulab.node.acceptance:
    work: verify
    certificate: acceptances/20261126T210000Z-controller/certificate.json
"""

RETURN = r"""
file:
  description: The record of the acceptance.
  returned: after V(begin)
  type: str
run:
  description: The name of the acceptance after V(begin), of the measurement after V(next).
  returned: after V(begin) and V(next)
  type: str
go:
  description: Whether anything is measured; not in check mode.
  returned: after V(begin)
  type: bool
wait:
  description: Seconds until a measurement that was cut off will have ended on the nodes.
  returned: after V(begin)
  type: int
until:
  description: When hosts behind a fence are back in service at the latest, in UTC.
  returned: after V(begin), behind a fence
  type: str
wait_minutes:
  description: How long their users are waited for.
  returned: after V(begin), behind a fence
  type: float
group:
  description: The hosts to measure next; empty at the end.
  returned: after V(next)
  type: list
  elements: str
step:
  description: The step of the ladder.
  returned: after V(next)
  type: str
began:
  description: When the measurement begins, in seconds since 1970.
  returned: after V(next)
  type: float
line:
  description: What was measured, for people.
  returned: after V(note)
  type: str
lines:
  description: What there is to say, for people.
  returned: after V(begin), V(test), V(end) and V(verify)
  type: list
  elements: str
accepted:
  description: Whether the hosts are accepted.
  returned: after V(end) and V(verify)
  type: bool
refused:
  description: The refusal where they are not, or null.
  returned: after V(end)
  type: dict
"""

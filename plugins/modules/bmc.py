#!/usr/bin/python
# Copyright (c) 2026 The gpulab founders
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Say which machine a node is; the action plugin of the same name asks its BMC, from the controller."""

from __future__ import annotations

DOCUMENTATION = r"""
module: bmc
short_description: Read the BMC of a node by Redfish or IPMI, or turn the node off and on by it
version_added: 1.1.0
description:
  - The controller asks the BMC at C(bmc_address), in a session of its own that is deleted at the end, and nobody else.
    By Redfish its certificate has to be the one of C(bmc_fingerprint); only then is the password sent. By IPMI it is
    asked with ipmitool, which never sends the password.
  - The node is asked for its serial number, and of all systems that the BMC lists only the one with this number is
    read. A node that cannot be reached is the machine that it was at the last reading.
  - The address, the name and the password are the host's variables C(bmc_address), C(bmc_user), C(bmc_password) and
    C(bmc_fingerprint), as the role C(bmc) describes them. They are no arguments, so that no task shows them.
  - V(cycle) asks for a soft off, then for power off, then for power on, and reads the power after each. Before the
    first step it refuses (GPULAB-F110 to F115) a node that is neither fenced by this run and free, nor proven dead, and
    a machine whose chassis holds others.
options:
  work:
    description: Whether to read only, or to turn the node off and on, too.
    type: str
    choices: [read, cycle]
    default: read
  protocol:
    description: How the BMC is asked.
    type: str
    choices: [redfish, ipmi]
    default: redfish
  lost:
    description: Whether this run has rebooted the node and waited for it in vain. It need not be named as dead then,
      but its fence has to be that of this run. In a day, a run turns off and on O(most) such nodes, each once.
    type: bool
    default: false
  held:
    description: The fence that a node that was lost had before its reboot.
    type: dict
  firmware:
    description: Which versions machines of a kind shall have, C(bmc_firmware_wanted).
    type: list
    elements: dict
    default: []
    suboptions:
      kind:
        description: The part number of the machines, or their maker and model where the BMC tells no part number.
        type: str
        required: true
      component:
        description: The component, as the BMC names it.
        type: str
        required: true
      versions:
        description: The versions that it may have.
        type: list
        elements: str
        required: true
      why:
        description: Why, for people.
        type: str
  alone:
    description: The admin's word that nothing else is in the node's chassis, where the BMC does not say.
    type: bool
    default: false
  power:
    description: Whether the node may be turned off and on, C(bmc_power).
    type: bool
    default: false
  most:
    description: How many hosts a play may have that turns them off and on.
    type: int
    default: 1
  dead:
    description: The host that somebody has looked at and found dead.
    type: str
  fence:
    description: What M(gpulab.node.fence) answered to V(look); one that was not reached has no users.
    type: dict
  run:
    description: The name of the run that the fence has to belong to. Unset means the user and machine of this one.
    type: str
  slurm:
    description: What Slurm says of its nodes where this one does not answer; empty where Slurm does not answer. Unset
      means that the lab has no Slurm.
    type: str
  boot_once:
    description: From where the node boots once when it is turned on, as its BMC names it. What was asked is read before
      the node is turned off, and after it was turned on until the BMC says that it was once.
    type: str
attributes:
  check_mode:
    description: The BMC is read all the same, and says what it would be asked. The record on the controller is not
      written, so what is new stays new.
    support: full
extends_documentation_fragment: [gpulab.node.attributes]
notes:
  - The record on the controller is C(reports/bmc/HOST.json). It holds no password.
"""

EXAMPLES = r"""
- name: Read the BMC
  gpulab.node.bmc:
  register: bmc

- name: Turn a node off and on that somebody found dead
  gpulab.node.bmc:
    work: cycle
    power: true
    dead: node07
"""

RETURN = r"""
document:
  description: What the BMC says, its new events, the findings, and which parts could not be read; null without a BMC.
  returned: success
  type: dict
lines:
  description: The same in words.
  returned: success
  type: list
  elements: str
cycled:
  description: Whether the node was turned off and on.
  returned: success
  type: bool
refusal:
  description: Code, cause and remedy where the BMC cannot be read, or is that of another machine.
  returned: failure
  type: dict
"""

from ansible_collections.gpulab.node.plugins.module_utils.bmc.arguments import ARGUMENTS
from ansible_collections.gpulab.node.plugins.module_utils.core.module import Module
from ansible_collections.gpulab.node.plugins.module_utils.core.node import Node

SERIAL = "/sys/class/dmi/id/product_serial"  # for root only


def main() -> None:
    """Return the node's serial number; empty where the firmware has none."""
    module = Module(argument_spec=ARGUMENTS, supports_check_mode=True)
    module.exit_json(changed=False, serial=Node().text(SERIAL))


if __name__ == "__main__":
    main()

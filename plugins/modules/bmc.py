#!/usr/bin/python
# Copyright (c) 2026 The gpulab founders
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Say which machine a node is; the action plugin of the same name asks its BMC, from the controller."""

from __future__ import annotations

DOCUMENTATION = r"""
module: bmc
short_description: Read the BMC of a node by Redfish
version_added: 1.1.0
description:
  - The controller asks the BMC at C(bmc_address), in a session of its own that is deleted at the end, and nobody else.
    Its certificate has to be the one of C(bmc_fingerprint); only then is the password sent.
  - The node is asked for its serial number, and of all systems that the BMC lists only the one with this number is
    read. A node that cannot be reached is the machine that it was at the last reading.
  - The address, the name and the password are the host's variables C(bmc_address), C(bmc_user), C(bmc_password) and
    C(bmc_fingerprint), as the role C(bmc) describes them. They are no arguments, so that no task shows them.
options: {}
attributes:
  check_mode:
    description: The BMC is read all the same. The record on the controller is not written, so what is new stays new.
    support: full
extends_documentation_fragment: [gpulab.node.attributes]
notes:
  - The record on the controller is C(reports/bmc/HOST.json). It holds no password.
"""

EXAMPLES = r"""
- name: Read the BMC
  gpulab.node.bmc:
  register: bmc
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
refusal:
  description: Code, cause and remedy where the BMC cannot be read, or is that of another machine.
  returned: failure
  type: dict
"""

from ansible_collections.gpulab.node.plugins.module_utils.core.module import Module
from ansible_collections.gpulab.node.plugins.module_utils.core.node import Node

SERIAL = "/sys/class/dmi/id/product_serial"  # for root only


def main() -> None:
    """Return the node's serial number; empty where the firmware has none."""
    module = Module(argument_spec={}, supports_check_mode=True)
    module.exit_json(changed=False, serial=Node().text(SERIAL))


if __name__ == "__main__":
    main()

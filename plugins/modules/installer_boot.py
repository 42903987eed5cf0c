#!/usr/bin/python
# Copyright (c) 2026 The gpulab founders
# GNU General Public License v3.0+ (see https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Documentation of the action plugin of the same name."""

DOCUMENTATION = r"""
module: installer_boot
short_description: Send a node into the installer that reinstalls it, once
version_added: 1.0.0
description:
  - Plans the reinstall of a captured node, puts the installer on it, lets GRUB start it exactly once, and waits for
    the new system. Nothing is wiped before the installer itself has looked at the machine and its disks.
  - As long as the installer is on the node, only root can log in. A timer on the node takes all of it back, so that a
    run that dies leaves the node as it was.
options:
  work:
    description:
      - V(begin) takes back what an earlier run prepared, and refuses a node that waits for its rebuild.
      - V(plan) shows what would be wiped and kept, and what stands against it. It goes by the facts of
        M(gpulab.node.gpu_facts), and so does V(arm), which refuses a node in use.
      - V(put) plans again and copies the installer to the node, for root alone.
      - V(lock) keeps others from logging in; V(arm) chooses the installer for the next boot; V(reboot) starts it.
      - V(wait) waits until the new system answers.
      - V(disarm) takes everything back.
    type: str
    choices: [begin, plan, put, lock, arm, reboot, wait, disarm]
    required: true
  directory:
    description: Directory of the captures on the controller.
    type: path
    default: captures
  age_identity:
    description: File on the controller with a private key of age, where the secrets are encrypted to it.
    type: path
  capture:
    description: The options of M(gpulab.node.capture), for V(plan) in check mode, which captures nothing.
    type: dict
    default: {}
  system:
    description: The system to install, as in C(catalog/installers.yml). Unset means the one that the node has.
    type: str
  mirror:
    description: Mirror of the new system's packages. Unset means that of the captured sources.
    type: str
  security_mirror:
    description: Mirror of its updates for security. Unset means that of the captured sources, or O(mirror).
    type: str
  packages:
    description: Further packages of the new system.
    type: list
    elements: str
    default: []
  network_files:
    description: Files of systemd-networkd on the controller for the new system, instead of those that gpulab makes.
    type: list
    elements: path
    default: []
  minutes:
    description: Minutes after which the installer gives up before the point of no return, and the old system starts.
    type: int
    default: 15
  allow:
    description: What the lab gives up; V(unencrypted) is that the system disk is encrypted.
    type: list
    elements: str
    default: []
  confirmed:
    description: The hosts that may be reinstalled, by name. For V(plan); with no value, nothing is asked.
    type: raw
  hosts:
    description: The hosts of this run, which O(confirmed) has to name, all of them and no others.
    type: list
    elements: str
    default: []
  image:
    description: For V(put), the directory of the installer's image on the controller.
    type: path
  plan_id:
    description: The plan that V(arm) chooses and V(wait) waits for.
    type: str
  of_capture:
    description: For V(wait), the capture that the new system is installed from.
    type: str
  arguments:
    description: For V(arm), the arguments of the installer's kernel, which V(put) returns.
    type: list
    elements: str
    default: []
  made:
    description: For V(reboot), when the capture was made.
    type: str
  boot_id:
    description: For V(wait), the boot before the installer. Without it, any answer without the plan's mark is the old
      system's.
    type: str
  timeout:
    description: Seconds that V(wait) waits.
    type: int
    default: 3600
extends_documentation_fragment: gpulab.node.attributes
attributes:
  check_mode:
    description: V(plan) works; the others change nothing.
"""

EXAMPLES = r"""
- name: Show what a reinstall would wipe and keep
  gpulab.node.installer_boot:
    work: plan
"""

RETURN = r"""
lines:
  description: What would be wiped and kept, and what does not come back.
  returned: for V(plan)
  type: list
  elements: str
refusals:
  description: What stands against it, each with code, cause and remedy. They are to be shown after the lines.
  returned: for V(plan)
  type: list
  elements: dict
plan_id:
  description: The id of the installer's plan.
  returned: for V(plan) and V(put)
  type: str
made:
  description: When the capture that the plan is made of was made.
  returned: for V(plan) and V(put)
  type: str
capture:
  description: The name of that capture.
  returned: for V(plan) and V(put)
  type: str
image:
  description: What the image is made of; the options of M(gpulab.node.installer_image).
  returned: for V(plan)
  type: dict
arguments:
  description: The arguments of the installer's kernel.
  returned: for V(put)
  type: list
  elements: str
boot_id:
  description: The boot before the installer.
  returned: for V(put)
  type: str
outcome:
  description: V(installed), or V(old) where the old system answers.
  returned: for V(wait)
  type: str
"""

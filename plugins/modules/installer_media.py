#!/usr/bin/python
# Copyright (c) 2026 The gpulab founders
# GNU General Public License v3.0+ (see https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Documentation of the action plugin of the same name."""

DOCUMENTATION = r"""
module: installer_media
short_description: Write media that reinstall captured nodes which are down
version_added: 1.0.0
description:
  - Plans the reinstall of a host by its latest capture, and writes an ISO image, which is as well for a USB stick, and
    a folder for network boot. Both start by BIOS and UEFI. No node is connected to.
  - The media know a machine by its DMI UUID. Nothing is wiped before the installer itself has looked at the machine and
    its disks; where anything is not as planned, it switches the machine off.
  - The media are for their owner only, because they hold private host keys.
options:
  work:
    description:
      - V(plan) shows what would be wiped and kept on this host, and refuses what cannot work.
      - V(write) writes the media of O(hosts), instead of others in O(directory).
    type: str
    choices: [plan, write]
    required: true
  captures:
    description: Directory of the captures on the controller.
    type: path
    default: captures
  unsigned:
    description: Name of a capture that is taken without its signature, as earlier versions of gpulab wrote them.
    type: str
  age_identity:
    description: File on the controller with a private key of age, where the secrets are encrypted to it.
    type: path
  system:
    description: The system to install. Unset means the one that the node had.
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
    description: Minutes after which the installer gives up before the point of no return.
    type: int
    default: 15
  allow:
    description: What the lab gives up; V(unencrypted) is that the system disk is encrypted.
    type: list
    elements: str
    default: []
  installer:
    description: V(image) uses the image of M(gpulab.node.installer_image), V(distribution) the distribution's own.
    type: str
    choices: [image, distribution]
    default: image
  netboot:
    description: Directory on the controller with C(linux) and C(initrd.gz) of Debian's installer. Unset means that of
      Debian's package.
    type: path
  secrets:
    description: Whether host keys and the hash of a password go onto the media.
    type: bool
    default: true
  confirmed:
    description: The hosts that the media install without a question, by name. Unset lets them ask on the console.
    type: raw
  hosts:
    description: For V(plan), the names of this run's hosts; for V(write), what V(plan) returned as RV(settings), with
      the directory of the image as C(image).
    type: list
    elements: raw
    default: []
  directory:
    description: Directory of the media on the controller.
    type: path
    default: media
extends_documentation_fragment: gpulab.node.attributes
attributes:
  check_mode:
    description: V(plan) works; V(write) says whether the media would change.
"""

EXAMPLES = r"""
- name: Show what media would wipe and keep
  gpulab.node.installer_media:
    work: plan
"""

RETURN = r"""
lines:
  description: What would be wiped and kept, and what does not come back; or where the media are.
  returned: success
  type: list
  elements: str
refusals:
  description: What stands against it, each with code, cause and remedy. They are to be shown after the lines.
  returned: for V(plan)
  type: list
  elements: dict
image:
  description: What the image is made of, the options of M(gpulab.node.installer_image); null where there is none.
  returned: for V(plan)
  type: dict
settings:
  description: What V(write) plans this host from.
  returned: for V(plan)
  type: dict
path:
  description: Directory of the media.
  returned: for V(write)
  type: str
"""

#!/usr/bin/python
# Copyright (c) 2026 The gpulab founders
# GNU General Public License v3.0+ (see https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Documentation of the action plugin of the same name."""

from __future__ import annotations

DOCUMENTATION = r"""
module: installer_image
short_description: Make the image that installs a node, on the controller
version_added: 1.0.0
description:
  - Makes a tree of a system from its packages with C(mmdebstrap). The tree boots as the installer, whole in memory, and
    is what the installer then copies to the disk.
  - The image is a directory named by all that it is made of. It is made once, appears as a whole, and its checksums are
    verified whenever it is used. To have it with the packages of today, remove the directory.
  - The node is not connected to. Several hosts of a play share an image.
options:
  system:
    description: The system, as C(catalog/installers.yml) calls it.
    type: str
    required: true
  architecture:
    description:
      - The machine's processor, as the kernel names it. Debian alone has installers for C(aarch64), with UEFI.
      - On a controller with another processor, QEMU's user emulation sets up the packages (C(qemu-user-static),
        C(binfmt-support) and C(arch-test) of Debian).
    type: str
    choices: [x86_64, aarch64]
    default: x86_64
  firmware:
    description: How the machine starts.
    type: str
    choices: [bios, uefi]
    required: true
  mirror:
    description: Address of the archive of the distribution, such as its C(http) address at the lab's mirror.
    type: str
    required: true
  security_mirror:
    description: Address of the archive of its security updates. Unset means O(mirror).
    type: str
  packages:
    description: Further packages of the tree, such as firmware that the network cards need.
    type: list
    elements: str
    default: []
  keyring:
    description: File on the controller whose keys verify the mirror. Unset means that of the distribution.
    type: path
  directory:
    description: Directory of the images on the controller.
    type: path
    default: installers
  sbat_level:
    description:
      - The generations of boot loaders that the machine's shim asks for under Secure Boot, as a capture has them.
      - An image with an older shim or GRUB is refused.
    type: str
extends_documentation_fragment: gpulab.node.attributes.controller
attributes:
  check_mode:
    description: The mirror is asked, and nothing is written.
"""

EXAMPLES = r"""
- name: Make the installer
  gpulab.node.installer_image:
    system: debian-12
    firmware: uefi
    mirror: http://mirror.example.org/debian
    security_mirror: http://mirror.example.org/debian-security
  register: installer
"""

RETURN = r"""
path:
  description: Directory of the image. In check mode, it may not be there yet.
  returned: success
  type: str
kernel:
  description: Its kernel.
  returned: success
  type: str
tree:
  description: Its tree, an archive for the memory of the machine.
  returned: success
  type: str
sums:
  description: SHA-256 of its files by name. Empty where check mode would make it.
  returned: success
  type: dict
least:
  description: Bytes of C(memory) and C(disk) that a machine needs for it.
  returned: success
  type: dict
refusal:
  description: Code, cause and remedy where the image cannot be made here, or is damaged.
  returned: failure
  type: dict
"""

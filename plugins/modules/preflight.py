#!/usr/bin/python
# Copyright (c) 2026 The gpulab founders
# GNU General Public License v3.0+ (see https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Documentation of the action plugin of the same name, which does the work on the controller."""

from __future__ import annotations

DOCUMENTATION = r"""
module: preflight
short_description: Judge a GPU node before anything is changed
version_added: 0.1.0
description:
  - Judges whether the plan can be carried out on a node, and whether its hardware is fit for deep learning.
  - An interrupted dpkg, and a file system of the plan that does not answer or is read-only, fail the host. So does one
    that is too full, on a node that has no driver yet; elsewhere that is a warning, for much of the plan is there
    already.
  - What the hardware falls short of is a warning, unless it is named in O(required). All of it comes at once.
  - A container is judged by its GPUs only, as all else is its host's. Of a virtual machine, only cores, size of
    the memory, clock and MTU are judged beside them.
  - Runs on the controller. It never connects to the node.
options:
  vram_min_gib:
    description: GiB of memory that each GPU shall have. A tenth may be missing, as firmware and ECC keep some.
    type: int
    default: 16
  vram_advised_gib:
    description: GiB of memory that each GPU had better have.
    type: int
    default: 24
  cpu_cores_min:
    description: CPU cores, as the kernel counts them, that the node shall have.
    type: int
    default: 8
  memory_factor_min:
    description: How many times the memory of all GPUs the node shall have. A tenth may be missing.
    type: float
    default: 2
  memory_factor_advised:
    description: How many times the memory of all GPUs the node had better have.
    type: float
    default: 4
  memory_min_gib:
    description: GiB of memory that the node shall have. A tenth may be missing.
    type: int
    default: 32
  memory_advised_gib:
    description: GiB of memory that the node had better have.
    type: int
    default: 64
  memory_ecc:
    description: Whether the memory shall correct errors (ECC).
    type: bool
    default: false
  memory_ddr4_advised_mts:
    description: Megatransfers a second that memory of type DDR4 had better run at.
    type: int
    default: 3200
  memory_ddr5_advised_mts:
    description: Megatransfers a second that memory of type DDR5 had better run at.
    type: int
    default: 4800
  l3_min_mib:
    description: MiB of L3 cache that all processors together shall have.
    type: int
    default: 32
  cpu_min_mhz:
    description: MHz that the processors shall reach, with their boost.
    type: int
    default: 3500
  pcie4_lanes_advised:
    description: Lanes of PCI Express 4.0 or later that the processors' slots in use had better have.
    type: int
    default: 20
  system_disk_min_gb:
    description: GB that the system disk shall have. A tenth may be missing.
    type: int
    default: 1000
  dataset_advised_gb:
    description: GB that each file system of data sets had better have; 0 does not judge it.
    type: int
    default: 2000
  mtu_advised:
    description: MTU that Ethernet of 25 Gb/s and more had better have. Unset does not judge it.
    type: int
  dataset_mounts:
    description: Mount points that hold data sets, none of which shall be on a disk that turns.
    type: list
    elements: str
    default: []
  pcie_width_min:
    description: PCI Express lanes that each GPU shall run with.
    type: int
    default: 8
  psu_watts:
    description: What the power supplies deliver together. Unset does not judge the power budget.
    type: int
  cpu_watts:
    description: What the processors draw together.
    type: int
    default: 150
  power_headroom_percent:
    description: How much more than the limits of the GPUs and O(cpu_watts) the power supply shall deliver.
    type: int
    default: 25
  free_inodes_min:
    description: Free inodes that each file system of the plan shall have.
    type: int
    default: 50000
  required:
    description: Hardware that fails the host where it falls short, instead of warning.
    type: list
    elements: str
    choices:
      - clock
      - cpu_cache
      - cpu_clock
      - cpu_cores
      - dataset_disks
      - disk_links
      - gpu_memory
      - memory
      - memory_ecc
      - pcie_width
      - power
      - system_disk
    default: []
extends_documentation_fragment: gpulab.node.attributes.reads
seealso:
  - module: gpulab.node.gpu_facts
  - module: gpulab.node.plan
"""

EXAMPLES = r"""
- name: Judge the node before anything is changed
  gpulab.node.preflight:
    psu_watts: 2000
    required: [gpu_memory, power]
"""

RETURN = r"""
msg:
  description: One line for each reason to stop, or that there is none.
  returned: always
  type: str
refusal:
  description: Code, cause and remedy, where there is one reason to stop.
  returned: failure
  type: dict
warnings:
  description: What the hardware falls short of.
  returned: always
  type: list
  elements: str
advice:
  description: What could be better.
  returned: always
  type: list
  elements: str
"""

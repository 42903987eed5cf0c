#!/usr/bin/python
# Copyright (c) 2026 The gpulab founders
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The documentation of the action plugin of the same name, which does all of it."""

from __future__ import annotations

DOCUMENTATION = r"""
module: record
short_description: Make the recording of a node's board, without anybody's names
version_added: 1.1.0
description:
  - Takes of the facts what the board says (NVML, the PCI bus, topology, firmware, NVIDIA's messages in the kernel
    log), for anybody to replay. It connects to no node, and writes no file.
  - Only known fields with values of a known form are taken. Serial numbers, UUIDs, the node's name and numbers of
    processes become tokens. A message of the kernel is taken as what gpulab understands of it, never as its text.
  - M(gpulab.node.gpu_facts) has to run before.
options: {}
attributes:
  check_mode:
    description: Nothing is changed anyway.
    support: full
extends_documentation_fragment: [gpulab.node.attributes.facts, gpulab.node.attributes.platform]
"""

EXAMPLES = r"""
- name: Read the node
  gpulab.node.gpu_facts:

- name: Make the recording
  gpulab.node.record:
  register: recording
"""

RETURN = r"""
text:
  description: The recording, as YAML.
  returned: success
  type: str
path:
  description: Where its file is to be, below C(recordings) of the directory of the run.
  returned: success
  type: str
  sample: /srv/gpulab/recordings/nvidia-h100-80gb-hbm3-580.159.04.yml
refusal:
  description: Code, cause and remedy where facts are missing or not known, or several hosts are to be recorded.
  returned: failure
  type: dict
"""

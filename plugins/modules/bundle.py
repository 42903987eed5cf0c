#!/usr/bin/python
# Copyright (c) 2026 The gpulab founders
# GNU General Public License v3.0+ (see https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Documentation of the action plugin of the same name."""

from __future__ import annotations

DOCUMENTATION = r"""
module: bundle
short_description: Make or verify a bundle for a lab without a network
version_added: 1.1.0
description:
  - A bundle is a folder with what hosts get from elsewhere, with indexes and a signature of its own.
  - Making one takes the packages, repositories, environments and files that the tasks of the same run asked for in
    check mode, as the callback P(gpulab.node.preview#callback) keeps them, and what M(gpulab.node.package_sources)
    found. The role C(bundle) does all of it.
  - Runs once, on the controller. It never connects to a host.
options:
  state:
    description: V(made) makes it, or brings it up to date; V(verified) compares it with its list and its signature.
    type: str
    choices: [made, verified]
    default: made
  directory:
    description: The folder of the bundle.
    type: path
    required: true
  keys:
    description: The folder of the keys that it is signed with. They are made where there are none.
    type: path
    default: keys/bundle
  signers:
    description: Who may have signed it, as a file of the form of allowed_signers. Unset takes the one in O(keys).
    type: path
  hosts:
    description: The hosts whose software it holds.
    type: list
    elements: str
    default: []
  captures:
    description: >-
      The folder of the captures. What a rebuild of the last capture of a host brings back, packages and Python
      environments, is in the bundle, too.
    type: path
    default: captures
extends_documentation_fragment: gpulab.node.attributes.controller
attributes:
  check_mode:
    description: What the bundle will hold is resolved, and its size said. The folder stays as it is.
seealso:
  - module: gpulab.node.package_sources
"""

EXAMPLES = r"""
- name: Verify a bundle
  gpulab.node.bundle:
    state: verified
    directory: /media/stick/bundle
    signers: files/allowed_signers
"""

RETURN = r"""
lines:
  description: How much it holds, for people, and where it is.
  returned: success
  type: list
  elements: str
refusal:
  description: Code, cause and remedy, where there is one.
  returned: failure
  type: dict
"""

#!/usr/bin/python
# Copyright (c) 2026 The gpulab founders
# GNU General Public License v3.0+ (see https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Documentation of the action plugin of the same name."""

DOCUMENTATION = r"""
module: repository
short_description: Declare a vendor's repository to the package manager of the node
version_added: 1.0.0
description:
  - Declares a repository by M(gpulab.node.apt_repository) on systems of Debian's family, and by
    M(gpulab.node.dnf_repository) on those of Red Hat's, as the facts of the run say. Each is described there.
  - Options that only one of them has are left out for the other.
extends_documentation_fragment:
  - gpulab.node.vendor_repository
  - gpulab.node.attributes.files
options:
  suite:
    description: With APT, the suite, or V(/) for a flat repository.
    type: str
    default: /
  components:
    description: With APT, the components; a flat repository has none.
    type: list
    elements: str
    default: []
  packages:
    description: With APT, the packages that come from the repository although the distribution has them, too.
    type: list
    elements: str
    default: []
  module_stream:
    description: With DNF, the stream that its packages come from, as V(module:stream).
    type: str
    default: ""
  former:
    description: With DNF, the name under which M(gpulab.node.packages) keeps the packages that a change replaces.
    type: str
"""

EXAMPLES = r"""
- name: Declare NVIDIA's repository
  gpulab.node.repository:
    name: nvidia-cuda
    url: "{{ ansible_facts['gpulab_plan'].driver.repository.url }}"
    key_url: "{{ ansible_facts['gpulab_plan'].driver.repository.key_url }}"
    fingerprint: "{{ ansible_facts['gpulab_plan'].driver.repository.key_fingerprint }}"
"""

RETURN = r"""
changes:
  description: What changed, or would change in check mode, as M(gpulab.node.preview) shows it.
  returned: success
  type: list
  elements: dict
  sample: [{action: write, what: /etc/yum.repos.d/gpulab-nvidia-cuda.repo}]
paths:
  description: The files that were, or in check mode would be, changed.
  returned: success
  type: list
  elements: str
  sample: [/etc/yum.repos.d/gpulab-nvidia-cuda.repo]
refusal:
  description: Code, cause and remedy when the task is refused.
  returned: when refused
  type: dict
"""

#!/usr/bin/python
# Copyright (c) 2026 The gpulab founders
# GNU General Public License v3.0+ (see https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Read the bundle that a node is to use, and judge it before anything of it is taken."""

from __future__ import annotations

DOCUMENTATION = r"""
module: bundle_read
short_description: Read the bundle that a node is to use
version_added: 1.1.0
description:
  - Says what is in a bundle for a lab without a network, and what speaks against it; see M(gpulab.node.bundle).
  - Who has signed it is asked first. All files of a folder are compared with its list, of a server the indexes; that
    every other file is there is asked. A bundle that the node uses already is not looked through again.
  - M(gpulab.node.plan) runs it where C(gpulab_bundle) is set.
extends_documentation_fragment: gpulab.node.attributes
attributes:
  check_mode:
    description: Reads there too; nothing is ever changed.
options:
  bundle:
    description: The folder on the node, or its address on a server.
    type: str
    required: true
  signers:
    description: Who may have signed it, a text of the form of allowed_signers.
    type: str
    default: ""
  certificates:
    description: Further authorities to trust, as PEM.
    type: str
    default: ""
"""

EXAMPLES = r"""
- name: Read the bundle on a stick
  gpulab.node.bundle_read:
    bundle: /media/stick/bundle
    signers: "{{ lookup('ansible.builtin.file', 'keys/bundle/allowed_signers') }}"
"""

RETURN = r"""
bundle:
  description: Its address, digest, date, the key of its indexes, and what it has for which host.
  returned: where nothing speaks against it
  type: dict
refusals:
  description: What speaks against it, each as code, cause and remedy.
  returned: success
  type: list
  elements: dict
"""

from dataclasses import asdict

from ansible_collections.gpulab.node.plugins.module_utils.bundle import reading
from ansible_collections.gpulab.node.plugins.module_utils.core import files
from ansible_collections.gpulab.node.plugins.module_utils.core.module import Module
from ansible_collections.gpulab.node.plugins.module_utils.packages import apt_host


def main() -> None:
    """Read it, and return it."""
    module = Module(
        argument_spec={
            "bundle": {"type": "str", "required": True},
            "signers": {"type": "str", "default": ""},
            "certificates": {"type": "str", "default": ""},
        },
        supports_check_mode=True,
    )
    params = module.params
    bundle, refusals = reading.read(
        params["bundle"], params["signers"], params["certificates"], files.read(apt_host.BUNDLE)
    )
    module.exit_json(changed=False, bundle=bundle, refusals=[asdict(refusal) for refusal in refusals])


if __name__ == "__main__":
    main()

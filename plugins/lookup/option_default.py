# Copyright (c) 2026 The gpulab founders
# GNU General Public License v3.0+ (see https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Look up what an option is where the inventory does not set it."""

from __future__ import annotations

DOCUMENTATION = """
name: option_default
short_description: Look up what an option is where the inventory does not set it
version_added: 1.0.0
author: The gpulab founders (@gpulab)
description:
  - Returns the value that the host's type sets (C(catalog/host_types.yml)), or else the default of the option's
    description. Once the node is planned, a default that does not fit the node counts no more.
  - The defaults of gpulab's roles are made of it, for the options that a host type sets.
options:
  _terms:
    description: Names of options.
    type: list
    elements: str
    required: true
"""
EXAMPLES = """
- name: Show whether a node of this type is watched
  ansible.builtin.debug:
    msg: "{{ lookup('gpulab.node.option_default', 'monitoring_state') }}"
"""
RETURN = """
_list:
  description: The values, one for each name.
  type: list
  elements: raw
"""

from typing import TYPE_CHECKING, Any

from ansible.errors import AnsibleLookupError
from ansible.plugins.lookup import LookupBase
from ansible_collections.gpulab.node.plugins.plugin_utils.plan import host_types

if TYPE_CHECKING:
    from collections.abc import Mapping


class LookupModule(LookupBase):
    """The lookup."""

    def run(self, terms: list[str], variables: Mapping[str, Any] | None = None, **_options: Any) -> list[Any]:
        """Return the value of each option on the host. Raises AnsibleLookupError for an unknown one."""
        try:
            return [host_types.value(name, variables or {}) for name in terms]
        except KeyError as error:
            msg = f"gpulab has no option {error.args[0]}"
            raise AnsibleLookupError(msg) from error

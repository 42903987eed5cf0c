# Copyright (c) 2026 The gpulab founders
# GNU General Public License v3.0+ (see https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""A module whose parameters may hold addresses with passwords; neither its result nor the node's journal shows them."""

from __future__ import annotations

from ansible.module_utils.basic import AnsibleModule
from ansible_collections.gpulab.node.plugins.module_utils.core.shown import secrets


class Module(AnsibleModule):
    """AnsibleModule that treats the secrets in addresses like parameters with no_log."""

    def _log_invocation(self) -> None:
        """Note the secrets before the parameters are written to the journal."""
        self.no_log_values.update(secrets(self.params))
        super()._log_invocation()

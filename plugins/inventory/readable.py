# Copyright (c) 2026 The gpulab founders
# GNU General Public License v3.0+ (see https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""gpulab.node.readable: end a run whose inventory cannot be read with one message."""

from __future__ import annotations

DOCUMENTATION = r"""
name: readable
short_description: End a run whose inventory cannot be read with one message
version_added: 1.0.0
author: The gpulab founders (@gpulab)
description:
  - Reads no host. Where a YAML file of the inventory, of its group_vars or host_vars, or what C(-e) gives, has a fault
    that keeps Ansible from reading it, the run ends with its line and a remedy (GPULAB-I050). Without this plugin,
    Ansible tries an inventory with each of its own, says why each failed, and goes on with the hosts of the others.
options: {}
requirements:
  - the first place in C(enable_plugins) of the section C(inventory) of ansible.cfg
"""

EXAMPLES = r"""
# ansible.cfg
# [inventory]
# enable_plugins = gpulab.node.readable, host_list, script, auto, yaml, ini, toml
"""

from pathlib import Path

from ansible import constants as C  # noqa: N812 - its name in every plugin of Ansible
from ansible import context
from ansible.plugins.inventory import BaseInventoryPlugin
from ansible.utils.display import Display
from ansible_collections.gpulab.node.plugins.plugin_utils.inventory_check import syntax

PARSER_ERROR = 4  # as Ansible ends where it cannot read what it is given


class InventoryModule(BaseInventoryPlugin):
    """Leave every file to the plugins that follow, but those with a fault."""

    NAME = "gpulab.node.readable"

    def verify_file(self, path: str) -> bool:
        """Decline the file; end the run where it has a fault. Any other exception would decline it, too."""
        arguments = context.CLIARGS
        vault = [arguments.get(name) for name in ("vault_ids", "vault_password_files", "ask_vault_pass")]
        has_password = any([*vault, C.DEFAULT_VAULT_PASSWORD_FILE, C.DEFAULT_VAULT_IDENTITY_LIST])
        fault = syntax.fault_of_arguments(arguments.get("extra_vars") or (), Path.cwd()) or syntax.fault(
            Path(path),
            is_one_of_several=len(arguments.get("inventory") or ()) > 1,
            has_vault_password=has_password,
        )
        if fault:
            Display().error(str(fault), wrap_text=False)
            raise SystemExit(PARSER_ERROR)
        return False

# Copyright (c) 2026 The gpulab founders
# GNU General Public License v3.0+ (see https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""gpulab.node.installer_image: make an installer on the controller, or find the one that was made before."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from ansible.plugins.action import ActionBase
from ansible_collections.gpulab.node.plugins.module_utils.core.processors import AMD64, ARM64
from ansible_collections.gpulab.node.plugins.module_utils.core.refusal import Refusal
from ansible_collections.gpulab.node.plugins.plugin_utils.catalog import Catalog
from ansible_collections.gpulab.node.plugins.plugin_utils.core.failure import failure
from ansible_collections.gpulab.node.plugins.plugin_utils.installer import image, recipe

_MIB = 1 << 20


class ActionModule(ActionBase):
    """Make the image of an installer; the node is not asked."""

    _supports_check_mode = True
    _requires_connection = False

    def run(self, tmp: str | None = None, task_vars: dict[str, Any] | None = None) -> dict[str, Any]:
        """Return where the image is, or the refusal."""
        super().run(tmp, task_vars)
        installers = Catalog().installers
        _validated, given = self.validate_argument_spec(
            {
                "system": {"type": "str", "required": True, "choices": sorted(installers)},
                "architecture": {"type": "str", "choices": [AMD64, ARM64], "default": AMD64},
                "firmware": {"type": "str", "required": True, "choices": ["bios", "uefi"]},
                "mirror": {"type": "str", "required": True},
                "security_mirror": {"type": "str"},
                "packages": {"type": "list", "elements": "str", "default": []},
                "keyring": {"type": "path"},
                "sbat_level": {"type": "str"},
                "directory": {"type": "path", "default": "installers"},
            }
        )
        record = installers[given["system"]]
        mirrors = given["mirror"], given["security_mirror"] or given["mirror"]
        machine = given["architecture"], given["firmware"]
        least = {"memory": record["least_memory_mib"] * _MIB, "disk": record["least_disk_mib"] * _MIB}
        directory = Path(given["directory"])
        try:
            wanted = recipe.of(record, machine, mirrors, given["packages"], given["keyring"])
            if self._task.check_mode:
                made = image.find(directory, wanted)
                changed = made is None
                if changed:
                    image.check(wanted)
            else:
                made, changed = image.make(directory, wanted, least["disk"])
            if made:
                made.check_loaders((task_vars or {})["inventory_hostname"], given["sbat_level"])
        except Refusal as refusal:
            return failure([refusal])
        path = directory / wanted.name()
        return {
            "changed": changed,
            "path": str(path),
            "kernel": str(path / image.KERNEL),
            "tree": str(path / image.TREE),
            "sums": made.sums if made else {},
            "least": least,
        }

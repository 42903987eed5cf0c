# Copyright (c) 2026 The gpulab founders
# GNU General Public License v3.0+ (see https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""DKMS' own records of the NVIDIA modules it built; ``dkms status`` takes a second for the same."""

from __future__ import annotations

import posixpath
import re
from typing import TYPE_CHECKING

from ansible_collections.gpulab.node.plugins.module_utils.driver.dkms import first_compiler_error
from ansible_collections.gpulab.node.plugins.module_utils.driver.licence import SOURCES, declared_licence

if TYPE_CHECKING:
    from ansible_collections.gpulab.node.plugins.module_utils.core.node import Node
    from ansible_collections.gpulab.node.plugins.plugin_utils.facts.driver import DkmsModule

DKMS = "/var/lib/dkms"
_LOG_OF = re.compile(r"DKMS (?:\(\S+\) )?make\.log for \S+ for kernel (\S+)")


def records(node: Node, kernel: str) -> list[DkmsModule]:
    """Read DKMS' own records of the NVIDIA modules for a kernel (``dkms status`` takes a second for the same).

    ``source`` is false where DKMS' link leads to no dkms.conf: DKMS then stops at this module, and builds no other one.
    ``error`` is the first error of a build for the kernel that failed; None where DKMS has no log of one.
    """
    found: list[DkmsModule] = []
    for module in node.names(DKMS):
        if not module.startswith("nvidia"):
            continue
        for version in node.names(f"{DKMS}/{module}"):
            home = f"{DKMS}/{module}/{version}"
            if node.link(home) is not None or node.link(f"{home}/source") is None:
                continue
            state, source = _state(node, module, version, kernel), node.resolve(f"{home}/source")
            found.append(
                {
                    "module": module,
                    "version": version,
                    "state": state,
                    "source": node.exists(f"{source}/dkms.conf"),
                    "error": _build_error(node, home, kernel) if state == "added" else None,
                }
            )
    return found


def _build_error(node: Node, home: str, kernel: str) -> str | None:
    log = node.text(f"{home}/build/make.log")
    built_for = _LOG_OF.match(log)
    return first_compiler_error(log) if log and (not built_for or built_for[1] == kernel) else None


def _state(node: Node, module: str, version: str, kernel: str) -> str:
    for architecture in node.names(f"{DKMS}/{module}/{version}/{kernel}"):
        built = node.names(f"{DKMS}/{module}/{version}/{kernel}/{architecture}/module")
        if any(".ko" in name for name in built):
            record = node.link(f"{DKMS}/{module}/kernel-{kernel}-{architecture}") or ""
            return "installed" if record.startswith(f"{version}/") else "built"
    return "added"


def installed_file(node: Node, kernel: str, file: str) -> DkmsModule | None:
    """Return the record of the build that a module file was copied from; None for a file of another origin.

    A copy is told by its name and its size in bytes.
    """
    for record in records(node, kernel):
        home = f"{DKMS}/{record['module']}/{record['version']}/{kernel}"
        for architecture in node.names(home):
            built = f"{home}/{architecture}/module/{posixpath.basename(file)}"
            size = node.size(file)
            if record["state"] == "installed" and size is not None and node.size(built) == size:
                return record
    return None


def licence(node: Node, record: DkmsModule) -> str | None:
    """Return the licence that a module's source declares."""
    source = node.resolve(f"{DKMS}/{record['module']}/{record['version']}/source")
    found = (declared_licence(node.text(f"{source}/{name}")) for name in SOURCES)
    return next((one for one in found if one), None)

# Copyright (c) 2026 The gpulab founders
# GNU General Public License v3.0+ (see https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The NVIDIA Container Toolkit, for the container engines of the node."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from ansible_collections.gpulab.node.plugins.module_utils.refusal import refuse
from ansible_collections.gpulab.node.plugins.plugin_utils.resolver import packages, source
from ansible_collections.gpulab.node.plugins.plugin_utils.versions import same_or_newer

if TYPE_CHECKING:
    from ansible_collections.gpulab.node.plugins.plugin_utils.resolver.case import Case

ENGINES = ("docker", "podman", "containerd")


def plan(case: Case) -> dict[str, Any]:
    """Return {engines, version, floor, packages, repository, because}. Raises Refusal for a version below the floor."""
    record = case.catalog.container_toolkit
    floor = record["security_floors"][-1]
    version = case.wishes["container_toolkit_version"] or record["newest"]
    if not same_or_newer(version, floor["version"]):
        raise refuse("P030", version=version, floor=floor["version"], cves=", ".join(floor["cves"]))
    wished = case.wishes["container_toolkit_engines"]
    found = [engine for engine in ENGINES if case.facts["engines"].get(engine)]
    engines = found if wished is None else list(wished)
    if not engines:
        because = ["No container engine is wished for or found: no container toolkit."]
        return {"engines": [], "version": None, "floor": floor["version"], "packages": [], "because": because}
    why = f"For {', '.join(engines)}; the floor is {floor['version']} ({', '.join(floor['cves'])})."
    return {
        "engines": engines,
        "version": version,
        "floor": floor["version"],
        "packages": [packages.pinned(case, name, f"{version}-1") for name in record["packages"]],
        "repository": source.repository(case, record["repositories"][case.platform["family"]]),
        "because": [why],
    }

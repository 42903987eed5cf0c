#!/usr/bin/python
# Copyright (c) 2026 The gpulab founders
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The node's half of building a kernel module: say how it stands for each kernel, and why a build failed."""

from __future__ import annotations

DOCUMENTATION = r"""
module: dkms
short_description: Have a DKMS module installed for each of the named kernels
version_added: 0.1.0
author: The gpulab founders (@gpulab)
description:
  - Builds and installs a DKMS module for each kernel that does not have it, one long step
    (see M(gpulab.node.long_step)) per kernel.
  - A build that fails is reported with the kernel, the module's version and the first error of the compiler.
options:
  module:
    description: The name of the module in DKMS.
    type: str
    required: true
  version:
    description: The version of the module. Without it and O(package), the newest that DKMS has.
    type: str
  package:
    description:
      - The package that brings the module. The version is then that of the package.
      - DKMS may also have other versions, such as those that a driver from a .run file left behind.
    type: str
  kernels:
    description: The kernels, as C(uname -r) names them.
    type: list
    elements: str
    required: true
  timeout:
    description: Seconds after which one build is stopped.
    type: int
    default: 1800
  operation:
    description: What the action plugin asks of the node. Leave it out.
    type: str
    choices: [look, diagnose]
    default: look
attributes:
  check_mode:
    description: Nothing is built. On a node without DKMS or the module, a build for every kernel is foreseen.
    support: full
  diff_mode:
    description: One kernel a line.
    support: full
requirements:
  - dkms
  - systemd as the first process of the node
  - root
"""

EXAMPLES = r"""
- name: Build the NVIDIA module for the kernel that the node boots next
  gpulab.node.dkms:
    module: nvidia-current
    kernels: [6.1.0-50-cloud-amd64]
"""

RETURN = r"""
changes:
  description: What changed, or would change in check mode, as M(gpulab.node.preview) shows it.
  returned: always
  type: list
  elements: dict
  sample: [{action: build, what: 6.1.0-50-cloud-amd64}]
version:
  description: The version that is looked at, null where DKMS has none.
  returned: always
  type: str
kernels:
  description: How the module stands for each kernel, V(absent), V(added), V(built) or V(installed).
  returned: always
  type: dict
  sample: {6.1.0-50-cloud-amd64: installed}
diff:
  description: The same before and after, one kernel a line.
  returned: on change
  type: dict
refusal:
  description: Code, cause and remedy.
  returned: on failure
  type: dict
"""

from dataclasses import asdict
from typing import Any

from ansible.module_utils.basic import AnsibleModule
from ansible_collections.gpulab.node.plugins.module_utils.core.changes import changes
from ansible_collections.gpulab.node.plugins.module_utils.core.module import run
from ansible_collections.gpulab.node.plugins.module_utils.core.refusal import refuse
from ansible_collections.gpulab.node.plugins.module_utils.driver import dkms


def wanted_version(module: AnsibleModule, added: list[str]) -> str | None:
    """Return the version to build: the given one, else that of the package, else the newest, else None."""
    version, package = module.params["version"], module.params["package"]
    if version or not package:
        return version or (added[-1] if added else None)
    installed = package_version(module, package)
    return dkms.of_package(installed, added) if installed else None


def package_version(module: AnsibleModule, package: str) -> str | None:
    """Return the version of a package, as its package manager knows it; None where it is not on the node."""
    for query in (["dpkg-query", "-W", "-f", "${Version}"], ["rpm", "-q", "--queryformat", "%{VERSION}"]):
        if module.get_bin_path(query[0]):
            rc, out, _errors = module.run_command([*query, package])
            if rc == 0 and out:
                return str(out)
    return None


def look(module: AnsibleModule) -> dict[str, Any]:
    """Say how the module stands for each kernel. Raises Refusal D002 and D003, except for what check mode foresees."""
    name, kernels, check_mode = module.params["module"], module.params["kernels"], module.check_mode
    added = dkms.added_versions(name)
    version = wanted_version(module, added)
    if version in added:
        stands = {kernel: dkms.state(name, version, kernel) for kernel in kernels}
    else:
        stands = dict.fromkeys(kernels, "absent")
    missing = [kernel for kernel, state in stands.items() if state != "installed"]
    if missing and not check_mode:
        if version not in added:
            raise refuse("D003", module=name, version=version or "(any version)", added=", ".join(added) or "none")
        for kernel in missing:
            if not dkms.has_headers(kernel):
                raise refuse("D002", module=name, kernel=kernel)
    return {
        "changed": bool(missing),
        "changes": changes(build=missing),
        "version": version,
        "kernels": stands,
        "missing": missing,
    }


def diagnose(params: dict[str, Any]) -> dict[str, Any]:
    """Say why the build for the first of the kernels failed."""
    log = dkms.make_log(params["module"], params["version"])
    text = log.read_text(errors="replace") if log.exists() else ""
    error = dkms.first_compiler_error(text)
    names = {key: params[key] for key in ("module", "version")}
    failure = refuse("D001", **names, kernel=params["kernels"][0], error=error, log=log, advice=dkms.ADVICE)
    return {"changed": False, "failure": asdict(failure)}


def main() -> None:
    """Parse, look, report."""
    module = AnsibleModule(
        argument_spec={
            "module": {"type": "str", "required": True},
            "version": {"type": "str"},
            "package": {"type": "str"},
            "kernels": {"type": "list", "elements": "str", "required": True},
            "timeout": {"type": "int", "default": 1800},
            "operation": {"type": "str", "choices": ["look", "diagnose"], "default": "look"},
        },
        supports_check_mode=True,
    )
    run(module, lambda module: diagnose(module.params) if module.params["operation"] == "diagnose" else look(module))


if __name__ == "__main__":
    main()

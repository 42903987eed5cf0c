#!/usr/bin/python
# Copyright (c) 2026 The gpulab founders
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The node's half of building a kernel module: how it stands for each kernel, why a build failed, what nodes share."""

from __future__ import annotations

DOCUMENTATION = r"""
module: dkms
short_description: Have a DKMS module installed for each of the named kernels
version_added: 0.1.0
description:
  - Builds and installs a DKMS module for each kernel that does not have it, one long step
    (see M(gpulab.node.long_step)) per kernel.
  - A build that fails is reported with the kernel, the module's version and the first error of the compiler.
  - What is built and not installed may be cut short, and is built afresh.
  - In a play of several nodes, one node can build for all that are like it (O(share)). The others load its result with
    C(dkms ldtarball), signed by their own keys. A result goes over the controller, where it stays until the run ends.
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
  installed_since:
    description:
      - Whether the module is also built for kernels that are not in O(kernels) and are installed by now, with headers.
        Automatic upgrades may have brought one since the node was read, and the node boots it next.
    type: bool
    default: false
  timeout:
    description: Seconds after which one build is stopped.
    type: int
    default: 1800
  share:
    description:
      - The part of this task in builds that nodes share. Without it, the node builds all that it lacks.
      - V(describe) reads what the builds depend on, and keeps it as the fact C(gpulab_builds). V(first) builds what no
        node before this one in the play builds in the same way, and packs it. V(rest) loads what another node has
        packed, and builds what is still missing. V(check) asks no node, and refuses a O(builds_directory) into which
        others can write.
      - Each is a task of its own, because the strategy C(linear) then waits between them. With another strategy, nodes
        may build what they could have loaded.
    type: str
    choices: [check, describe, first, rest]
  shared_with:
    description: The nodes that may build the same, this one among them, in the order of the play.
    type: list
    elements: str
    default: []
  begin:
    description:
      - Whether to begin the first build that is due, and not to wait for it. The same task without this option takes it
        over, later in the play, and says what changed.
    type: bool
    default: false
  builds_directory:
    description:
      - Directory on the controller that keeps the builds which nodes share for later runs, the 20 that were used last.
        Without it, they stay until the run ends.
    type: path
  operation:
    description: What the action plugin asks of the node. Leave it out.
    type: str
    choices: [look, diagnose, describe, pack, load, discard]
    default: look
  path:
    description: Where the node finds or leaves what the action plugin speaks of. Leave it out.
    type: path
  checksum:
    description: SHA-256 of the packed build. Leave it out.
    type: str
extends_documentation_fragment: gpulab.node.attributes.diff
attributes:
  check_mode:
    description: Nothing is built. On a node without DKMS or the module, a build for every kernel is predicted.
  diff_mode:
    description: One kernel a line.
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

- name: Build it on one of the nodes that are alike, and load it on the others
  module_defaults:
    gpulab.node.dkms:
      module: nvidia-current
      kernels: [6.1.0-50-cloud-amd64]
      shared_with: "{{ ansible_play_hosts }}"
  block:
    - name: Read what the builds depend on
      gpulab.node.dkms:
        share: describe

    - name: Build for all nodes that are alike
      gpulab.node.dkms:
        share: first

    - name: Load what another node has built
      gpulab.node.dkms:
        share: rest
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
loaded:
  description: The node that built what this one has loaded, by kernel.
  returned: with O(share=rest)
  type: dict
  sample: {6.1.0-50-cloud-amd64: node01}
diff:
  description: The same before and after, one kernel a line.
  returned: on change
  type: dict
refusal:
  description: Code, cause and remedy.
  returned: on failure
  type: dict
"""

import os
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ansible.module_utils.basic import AnsibleModule
from ansible_collections.gpulab.node.plugins.module_utils.core import files
from ansible_collections.gpulab.node.plugins.module_utils.core.changes import changes
from ansible_collections.gpulab.node.plugins.module_utils.core.module import run
from ansible_collections.gpulab.node.plugins.module_utils.core.node import Node
from ansible_collections.gpulab.node.plugins.module_utils.core.refusals.driver import refuse
from ansible_collections.gpulab.node.plugins.module_utils.driver import dkms, shared_build
from ansible_collections.gpulab.node.plugins.module_utils.driver.shared_build import ModuleBuild, NotSharedError, Packed
from ansible_collections.gpulab.node.plugins.module_utils.facts import kernels
from ansible_collections.gpulab.node.plugins.module_utils.facts.system import os_release

if TYPE_CHECKING:
    from typing import Callable


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


def wanted_kernels(module: AnsibleModule, node: Node) -> list[str]:
    """Return the kernels to build for: those that are given, and those that came since, where that is asked."""
    given: list[str] = module.params["kernels"]
    if not module.params["installed_since"]:
        return given
    since = [kernel for kernel, installed in kernels.versions(node, os.uname().release).items() if installed]
    return [*given, *(kernel for kernel in since if kernel not in given and kernels.headers_of(node, kernel))]


def look(module: AnsibleModule) -> dict[str, Any]:
    """Say how the module stands for each kernel. Raises Refusal D002 and D003, except for what check mode foresees."""
    name, wanted, check_mode = module.params["module"], wanted_kernels(module, Node()), module.check_mode
    added = dkms.added_versions(name)
    version = wanted_version(module, added)
    if version in added:
        stands = {kernel: dkms.state(name, version, kernel) for kernel in wanted}
    else:
        stands = dict.fromkeys(wanted, "absent")
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
    """Say why the build for the first of the kernels failed; keep its log, which would go with the driver."""
    log, kept = dkms.make_log(params["module"], params["version"]), Path(params["path"]) / "make.log"
    text = log.read_text(errors="replace") if log.exists() else ""
    if text:
        kept.write_text(text)
    error = dkms.failure(files.read(kept.with_name("log")), text)
    names = {key: params[key] for key in ("module", "version")}
    failure = refuse("D001", **names, kernel=params["kernels"][0], log=kept, **dkms.told(error))
    return {"changed": False, "failure": asdict(failure)}


def describe(module: AnsibleModule) -> dict[str, Any]:
    """Return the digest of what each build that is missing depends on, by kernel."""
    name, added, node = module.params["module"], dkms.added_versions(module.params["module"]), Node()
    version = wanted_version(module, added)
    missing = [
        ModuleBuild(name, version, kernel)
        for kernel in module.params["kernels"]
        if version in added and dkms.state(name, version, kernel) != "installed" and dkms.has_headers(kernel)
    ]
    call = caller(module)
    found = {build.kernel: shared_build.inputs(build, call, node, distribution(node)) for build in missing}
    return {"builds": {kernel: shared_build.digest(inputs) for kernel, inputs in found.items()}}


def caller(module: AnsibleModule) -> shared_build.Call:
    """Return what runs a command; one that is not there is no failure of the module."""

    def call(argv: list[str], **options: Any) -> tuple[int, str, str]:
        program = module.get_bin_path(argv[0])
        if not program:
            return 127, "", "not found"
        found: tuple[int, str, str] = module.run_command([program, *argv[1:]], **options)
        return found

    return call


def distribution(node: Node) -> str:
    """Return the distribution, by its ID."""
    return os_release(node.text("/etc/os-release")).get("ID", "")


def share(module: AnsibleModule) -> dict[str, Any]:
    """Pack, load or discard the build for the first of the kernels; say why where that cannot be."""
    params, call, node = module.params, caller(module), Node()
    build = ModuleBuild(params["module"], params["version"], params["kernels"][0])
    try:
        if params["operation"] == "pack":
            return {"checksum": shared_build.pack(build, call, Path(params["path"])).checksum}
        if dkms.state(build.module, build.version, build.kernel) != "installed":
            shared_build.discard(build, node)
        if params["operation"] == "load":
            signer = shared_build.signer(node, build.kernel, distribution(node))
            if signer:
                shared_build.make_key(signer.pair, call, node)
            packed = Packed(Path(params["path"]), params["checksum"])
            shared_build.load(build, packed, call, node, signer)
    except (NotSharedError, OSError) as error:
        return {"not_shared": str(error)}
    return {}


OPERATIONS: dict[str, Callable[[AnsibleModule], dict[str, Any]]] = {
    "look": look,
    "diagnose": lambda module: diagnose(module.params),
    "describe": describe,
    "pack": share,
    "load": share,
    "discard": share,
}


def main() -> None:
    """Parse, look, report."""
    module = AnsibleModule(
        argument_spec={
            "module": {"type": "str", "required": True},
            "version": {"type": "str"},
            "package": {"type": "str"},
            "kernels": {"type": "list", "elements": "str", "required": True},
            "installed_since": {"type": "bool", "default": False},
            "timeout": {"type": "int", "default": 1800},
            "share": {"type": "str", "choices": ["check", "describe", "first", "rest"]},
            "shared_with": {"type": "list", "elements": "str", "default": []},
            "begin": {"type": "bool", "default": False},
            "builds_directory": {"type": "path"},
            "operation": {
                "type": "str",
                "choices": ["look", "diagnose", "describe", "pack", "load", "discard"],
                "default": "look",
            },
            "path": {"type": "path"},
            "checksum": {"type": "str"},
        },
        supports_check_mode=True,
    )
    module.run_command_environ_update = {"LC_ALL": "C"}
    run(module, lambda module: OPERATIONS[module.params["operation"]](module))


if __name__ == "__main__":
    main()

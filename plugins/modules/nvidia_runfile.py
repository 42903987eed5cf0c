#!/usr/bin/python
# Copyright (c) 2026 The gpulab founders
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The node's half of a driver from a .run file: look, fetch, prepare, explain. What takes long are long steps."""

from __future__ import annotations

DOCUMENTATION = r"""
module: nvidia_runfile
short_description: Install, change or remove an NVIDIA driver that comes as a .run file
version_added: 1.0.0
description:
  - Fetches the file, compares its SHA-256, and sees that it is the planned driver before it is run.
  - Builds the kernel modules for every kernel in a directory of its own first, and refuses (GPULAB-D033) where that
    fails, while the driver that is there is untouched. Then NVIDIA's installer runs, with C(--silent --dkms), as a long
    step (see M(gpulab.node.long_step)). It has DKMS build for the first of the kernels; M(gpulab.node.dkms) sees to the
    others.
  - The installer takes the driver of a former .run file off before it puts the new one there. The file of what is
    installed stays on the node for that, and that of the former driver until the change is V(confirmed) or V(restored).
  - Which version is there is read from the installer's own record, F(/var/lib/nvidia/log).
  - Only options that the installer's own help names are given to it. Nothing is loaded or unloaded.
options:
  state:
    description:
      - V(fetched) has the file on the node, compared and unpacked, where an installation needs it.
      - V(present) has the driver installed.
      - V(absent) has it taken off by its own uninstaller where gpulab installed it; a driver that gpulab did not
        install stays.
      - V(confirmed) lets the file of the former driver go, as the new one proved itself.
      - V(restored) installs the former driver from its file; its kernel modules are built for the first of the kernels
        that they build for.
    type: str
    choices: [fetched, present, absent, confirmed, restored]
    default: present
  version:
    description: The driver's version. Required in the states V(fetched) and V(present).
    type: str
  kernel_modules:
    description: Which of the kernel modules in the file. Required in the states V(fetched) and V(present).
    type: str
    choices: [open, proprietary]
  keep_former:
    description: Whether a driver that another one replaces is refused where its file is not there (GPULAB-D037), and
      kept where it is.
    type: bool
    default: true
  kernels:
    description: The kernels, as C(uname -r) names them.
    type: list
    elements: str
    default: []
  url:
    description: Address of the file, V(file:///) for one on the node, or its path on the controller.
    type: str
  sha256:
    description: Its SHA-256.
    type: str
  timeout:
    description: Seconds after which one long step is stopped.
    type: int
    default: 3600
  operation:
    description: What the action plugin asks of the node. Leave it out.
    type: str
    choices: [look, fetch, try, explain_build, start, explain, finish, start_removal, finish_removal, confirm]
    default: look
  path:
    description: Where the action plugin has put the file. Leave it out.
    type: path
  kernel:
    description: The kernel that it asks this for. Leave it out.
    type: str
  log:
    description: The log of a build that failed. Leave it out.
    type: str
extends_documentation_fragment: gpulab.node.attributes.diff
attributes:
  check_mode:
    description: Nothing is fetched; what would be installed is told from its version.
  diff_mode:
    description: The driver before and after, one line each.
requirements:
  - gcc, make, dkms and the headers of every kernel
  - systemd as the first process of the node
  - root
"""

EXAMPLES = r"""
- name: Install the driver from its .run file
  gpulab.node.nvidia_runfile:
    version: "595.91.07"
    kernel_modules: open
    kernels: [6.1.0-50-amd64]
    url: https://mirror.example/NVIDIA-Linux-x86_64-595.91.07.run
    sha256: 9689782d863c05a1bf5d2d371ba527104e7a4eb4310c1637d8653b751aed9c82
"""

RETURN = r"""
changes:
  description: What changed, or would change in check mode, as M(gpulab.node.preview) shows it.
  returned: success
  type: list
  elements: dict
  sample: [{action: install, what: driver 580.178.04 (open modules) from its .run file}]
installed:
  description: The driver that a .run file had installed before, null where none had.
  returned: success
  type: str
  sample: 580.178.04 (open modules)
planned:
  description: The driver that shall be there, null where none shall.
  returned: success
  type: str
diff:
  description: The same, before and after.
  returned: on change
  type: dict
refusal:
  description: Code, cause and remedy.
  returned: on failure
  type: dict
"""

import os
import shutil
from dataclasses import asdict
from typing import TYPE_CHECKING, Any

from ansible.module_utils.basic import AnsibleModule
from ansible_collections.gpulab.node.plugins.module_utils.core import download
from ansible_collections.gpulab.node.plugins.module_utils.core.changes import Changes, changes
from ansible_collections.gpulab.node.plugins.module_utils.core.module import run
from ansible_collections.gpulab.node.plugins.module_utils.core.steps import running_boot
from ansible_collections.gpulab.node.plugins.module_utils.driver.runfile import RunfileDriver, Wish
from ansible_collections.gpulab.node.plugins.module_utils.driver.runfile_host import RunfileInstaller
from ansible_collections.gpulab.node.plugins.module_utils.packages import apt_repository

if TYPE_CHECKING:
    from pathlib import Path

TIMEOUT = 60  # seconds without an octet


def look(params: dict[str, Any], node: RunfileInstaller, wish: Wish | None) -> dict[str, Any]:
    """Say what is there and what is to do. Raises Refusal S003 and D037."""
    found, planned = node.installed(), wish.driver if wish else None
    result: dict[str, Any] = {
        "changes": [],
        "installed": str(found) if found else None,
        "planned": str(planned) if planned else None,
    }
    state = params["state"]
    if state in ("confirmed", "restored") and not wish:
        return {**result, "changed": False}
    if state == "confirmed":
        return {**result, "changed": True}
    fulfilled, begun = node.is_fulfilled(), node.begun()
    if state in ("fetched", "present") and params["keep_former"] and not (fulfilled or begun):
        node.see_that_it_is_kept()
    if state == "fetched":
        return {**result, "changed": not (fulfilled or begun or node.is_fetched())}
    if fulfilled and not begun and state != "restored":
        return {**result, "changed": False}
    sides = {"before": f"{found}\n" if found else "", "after": f"{planned}\n" if planned else ""}
    titles = {"before_header": "driver from a .run file", "after_header": "driver from a .run file"}
    result["changes"] = what_changes(result["installed"], result["planned"])
    return {**result, "changed": True, "begun": begun, "fetched": node.is_fetched(), "diff": {**sides, **titles}}


def what_changes(before: str | None, after: str | None) -> Changes:
    """Return how the driver changes."""
    if not after:
        return changes(remove=[f"driver {before} of a .run file"])
    if not before:
        return changes(install=[f"driver {after} from its .run file"])
    return changes(change=[f"driver {before} -> {after} from its .run file"])


def fetch(module: AnsibleModule, node: RunfileInstaller, url: str) -> None:
    """Have the file on the node. Raises Refusal D030, D031, D032 and D035."""
    given = module.params["path"]

    def obtain(path: Path) -> None:
        if given:
            shutil.move(given, path)
            return
        if url.startswith("http") and module.get_bin_path("apt-config"):  # through the proxy of packages
            answer = module.run_command(apt_repository.proxy_question(url), check_rc=True)[1]
            os.environ.update(apt_repository.proxy_environment(answer, url))
        download.save(url, path, TIMEOUT)

    node.fetch(obtain)


def finish(node: RunfileInstaller, state: str) -> None:
    """See that the driver is there; one that is restored is kept no longer. Raises Refusal D034."""
    node.finish()
    if state == "restored":
        node.confirm()


def operate(module: AnsibleModule) -> dict[str, Any]:
    """Carry out the wanted operation; raises Refusal."""
    params, boot = module.params, running_boot()
    state, wish = params["state"], None
    if state in ("fetched", "present"):
        wish = Wish(RunfileDriver(params["version"], params["kernel_modules"]), params["url"], params["sha256"])
    elif state in ("confirmed", "restored"):
        wish = RunfileInstaller(module.run_command, boot, None).former()
    node = RunfileInstaller(module.run_command, boot, wish)
    kernel = params["kernel"]
    carry_out = {
        "look": lambda: look(params, node, wish),
        "fetch": lambda: fetch(module, node, wish.url if wish else ""),
        "try": lambda: {"run": node.try_build(kernel)},
        "explain_build": lambda: {"why": asdict(node.explain_build(kernel, params["log"]))},
        "start": lambda: {"run": node.start(kernel, keep_former=params["keep_former"])},
        "explain": lambda: {"why": asdict(node.explain())},
        "finish": lambda: finish(node, state),
        "start_removal": lambda: {"run": node.start_removal()},
        "finish_removal": node.finish_removal,
        "confirm": node.confirm,
    }
    return carry_out[params["operation"]]() or {}


def main() -> None:
    """Parse, operate, report."""
    wanted = ["version", "kernel_modules", "url", "sha256"]
    module = AnsibleModule(
        argument_spec={
            "state": {
                "type": "str",
                "choices": ["fetched", "present", "absent", "confirmed", "restored"],
                "default": "present",
            },
            "version": {"type": "str"},
            "kernel_modules": {"type": "str", "choices": ["open", "proprietary"]},
            "keep_former": {"type": "bool", "default": True},
            "kernels": {"type": "list", "elements": "str", "default": []},
            "url": {"type": "str"},
            "sha256": {"type": "str"},
            "timeout": {"type": "int", "default": 3600},
            "operation": {
                "type": "str",
                "choices": [
                    "look",
                    "fetch",
                    "try",
                    "explain_build",
                    "start",
                    "explain",
                    "finish",
                    "start_removal",
                    "finish_removal",
                    "confirm",
                ],
                "default": "look",
            },
            "path": {"type": "path"},
            "kernel": {"type": "str"},
            "log": {"type": "str"},
        },
        required_if=[("state", "fetched", wanted), ("state", "present", wanted)],
        supports_check_mode=True,
    )
    run(module, operate)


if __name__ == "__main__":
    main()

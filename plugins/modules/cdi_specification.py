#!/usr/bin/python
# Copyright (c) 2026 The gpulab founders
# GNU General Public License v3.0+ (see https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Keep the CDI specification of the GPUs, with the units of NVIDIA's container toolkit."""

from __future__ import annotations

DOCUMENTATION = r"""
module: cdi_specification
short_description: Keep the CDI specification of NVIDIA GPUs fit for the driver that runs
version_added: 0.2.0
description:
  - Enables the units of NVIDIA's container toolkit that make the specification at boot and when the driver changes.
    systemd is not told to reload, for which running containers may lose their GPUs.
  - Where a driver runs and no specification fits it, those units make one now. Where none does, nothing is to do yet.
extends_documentation_fragment: gpulab.node.attributes.diff
attributes:
  diff_mode:
    description: Shows the units, and what the specification is for, before and after.
options:
  state:
    description:
      - V(absent) removes what those units have made, once the toolkit is gone; specifications in C(/etc/cdi) stay.
      - In check mode the toolkit is taken to be gone.
    type: str
    choices: [present, absent]
    default: present
"""

EXAMPLES = r"""
- name: Keep the CDI specification of the GPUs
  gpulab.node.cdi_specification:
"""

RETURN = r"""
changes:
  description: What changed, or would change in check mode, as M(gpulab.node.preview) shows it.
  returned: success
  type: list
  elements: dict
  sample: [{action: set, what: "nvidia-cdi-refresh.path: enabled"}]
paths:
  description: The specifications of NVIDIA GPUs that are there afterwards.
  returned: success
  type: list
  elements: str
  sample: [/var/run/cdi/nvidia.yaml]
refusal:
  description: Code, cause and remedy when the task is refused.
  returned: when refused
  type: dict
"""

from pathlib import Path
from typing import Any

from ansible.module_utils.basic import AnsibleModule
from ansible_collections.gpulab.node.plugins.module_utils.containers import cdi
from ansible_collections.gpulab.node.plugins.module_utils.core import evidence
from ansible_collections.gpulab.node.plugins.module_utils.core.changes import changes
from ansible_collections.gpulab.node.plugins.module_utils.core.module import run
from ansible_collections.gpulab.node.plugins.module_utils.core.node import Node
from ansible_collections.gpulab.node.plugins.module_utils.core.refusals.containers import refuse
from ansible_collections.gpulab.node.plugins.module_utils.facts import containers, modprobe

UNITS = Path("/etc/systemd/system")


def main() -> None:
    """Read, decide, let the units work."""
    module = AnsibleModule(
        argument_spec={"state": {"type": "str", "choices": ["present", "absent"], "default": "present"}},
        supports_check_mode=True,
    )
    run(module, lambda module: take_away(module) if module.params["state"] == "absent" else keep(module))


def keep(module: AnsibleModule) -> dict[str, Any]:
    """Enable the units, and let them make what is missing. Raises Refusal H116."""
    node = Node()
    disabled = [unit for unit in (cdi.WATCH, cdi.REFRESH) if _systemctl(module, "is-enabled", "--quiet", unit)]
    driver = modprobe.driver_version(node.text("/proc/driver/nvidia/version"))
    stale = cdi.why_stale(containers.cdi(node), driver)
    if not module.check_mode:
        for unit in disabled:
            module.run_command(["systemctl", "enable", "--no-reload", unit], check_rc=True)
        if cdi.WATCH in disabled:
            module.run_command(["systemctl", "start", cdi.WATCH], check_rc=True)
        if stale:
            refresh(module, node, driver)
    paths = [one["path"] for one in containers.cdi(node) if one["kind"] == cdi.KIND]
    evidence.note(module, unit=(cdi.WATCH, cdi.REFRESH), file=paths)
    lines = [(f"{unit}: disabled", f"{unit}: enabled") for unit in disabled]
    if stale:
        lines.append((f"specification: {stale}", f"specification: for driver {driver}"))
    return {
        "changed": bool(lines),
        "changes": changes(set=[after for _before, after in lines]),
        "paths": paths,
        "diff": {
            "before": "".join(f"{before}\n" for before, _after in lines),
            "after": "".join(f"{after}\n" for _before, after in lines),
        },
    }


def refresh(module: AnsibleModule, node: Node, driver: str | None) -> None:
    """Let the unit make the specification. Raises Refusal H116 where it is not there afterwards."""
    _systemctl(module, "restart", cdi.REFRESH)
    stale = cdi.why_stale(containers.cdi(node), driver)
    if stale:
        argv = ["journalctl", f"--unit={cdi.REFRESH}", "--lines=3", "--output=cat", "--no-pager"]
        said = " ".join(module.run_command(argv)[1].split())
        raise refuse("H116", detail=f"{stale} ({said})")


def take_away(module: AnsibleModule) -> dict[str, Any]:
    """Remove what the units have made, and the links that enabled them; a toolkit that stays keeps these."""
    stays = not module.check_mode and module.get_bin_path(cdi.PROGRAM)
    wants = [place / unit for place in sorted(UNITS.glob("*.wants")) for unit in (cdi.WATCH, cdi.REFRESH)]
    links = [str(link) for link in wants if link.is_symlink()]  # they lead nowhere when the toolkit has gone
    paths = [] if stays else [*cdi.generated(containers.cdi(Node())), *links]
    if not module.check_mode:
        for path in paths:
            Path(path).unlink()
    return {
        "changed": bool(paths),
        "changes": changes(unset=paths),
        "paths": [],
        "diff": {"before": "".join(f"{path}\n" for path in paths), "after": ""},
    }


def _systemctl(module: AnsibleModule, *words: str) -> bool:
    """Return whether systemctl says no."""
    status: int = module.run_command(["systemctl", *words])[0]
    return status != 0


if __name__ == "__main__":
    main()

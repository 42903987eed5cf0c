# Copyright (c) 2026 The gpulab founders
# GNU General Public License v3.0+ (see https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What follows from the changes: services that restart, and a reboot."""

from __future__ import annotations

import re
from copy import deepcopy
from typing import TYPE_CHECKING

from ansible_collections.gpulab.node.plugins.module_utils.checks import reboot as reboot_check
from ansible_collections.gpulab.node.plugins.module_utils.facts import users
from ansible_collections.gpulab.node.plugins.module_utils.gpu_settings.plan import ECC
from ansible_collections.gpulab.node.plugins.plugin_utils.preview import changes
from ansible_collections.gpulab.node.plugins.plugin_utils.refusals import refuse

if TYPE_CHECKING:
    from ansible_collections.gpulab.node.plugins.module_utils.core.refusal import Refusal
    from ansible_collections.gpulab.node.plugins.plugin_utils.facts.model import Facts
    from ansible_collections.gpulab.node.plugins.plugin_utils.plan.model import Plan
    from ansible_collections.gpulab.node.plugins.plugin_utils.preview.changes import Results
    from ansible_collections.gpulab.node.plugins.plugin_utils.preview.model import (
        PreviewedReboot,
        PreviewedRefusal,
        ServiceChange,
    )

DRIVER = "nvidia_driver"
PERSISTENCED, EXPORTER = "nvidia-persistenced", "prometheus-node-exporter"
IMEX_NODES = "/etc/nvidia-imex/nodes_config.cfg"
ENGINES = "container-engines"  # the transaction that brings them
# The role restarts the daemon where the drop-in of any of the driver's units changes.
_DROP_IN = re.compile(r"^/etc/systemd/system/nvidia-[a-z]+\.service\.d/")
_UPSTREAM = re.compile(r"^(?:\d+:)?(\d{3}(?:\.\d+){1,2})")  # of a package's version: no epoch, no revision


def services(facts: Facts, plan: Plan, results: Results) -> list[ServiceChange]:
    """Return {name, action, because} for each service that would be started, restarted or told to reload."""
    daemons = [*_persistence_daemon(facts, plan, results), *_imex(plan, results)]
    return [*daemons, *_docker(plan, results), *_node_exporter(results)]


def _imex(plan: Plan, results: Results) -> list[ServiceChange]:
    named = IMEX_NODES in changes.things(results, DRIVER, "write")
    if not named and f"{plan['imex']['service']}.service" not in changes.things(results, DRIVER, "enable"):
        return []
    action = "restart" if plan["imex"]["restart"] else "start"
    return [{"name": plan["imex"]["service"], "action": action, "because": "the list of its NVLink domain changes"}]


def _docker(plan: Plan, results: Results) -> list[ServiceChange]:
    engines = (one["arguments"].get("transaction") == ENGINES for one in changes.of_module(results, "packages"))
    docker = plan["container_toolkit"]["docker"]
    if any(engines) and docker and docker["start"]:
        return [{"name": "docker", "action": "start", "because": "its package is installed"}]
    actions = [one["result"]["action"] for one in changes.of_module(results, "docker_settings")]
    return [{"name": "docker", "action": one, "because": "its settings change"} for one in actions if one]


def _node_exporter(results: Results) -> list[ServiceChange]:
    if changes.ForeseenTransactions(results).brings(EXPORTER):
        return [{"name": EXPORTER, "action": "start", "because": "its package is installed"}]
    units = [step["unit"] for one in changes.of_module(results, "units") for step in one["result"]["steps"]]
    if f"{EXPORTER}.service" in units:
        return [{"name": EXPORTER, "action": "restart", "because": "its unit file changes"}]
    return []


def _persistence_daemon(facts: Facts, plan: Plan, results: Results) -> list[ServiceChange]:
    packages = changes.ForeseenTransactions(results)
    if not plan["driver"]["persistence"]:
        return []
    units = facts["services"] or {}
    running = PERSISTENCED in units and units[PERSISTENCED]["active"] == "active"
    if PERSISTENCED in packages.change:
        return [_service("restart" if running else "start", "its package changes")]
    if packages.brings(PERSISTENCED):
        return [_service("start", "its package is installed")]
    files = [path for action in ("write", "delete") for path in changes.things(results, DRIVER, action)]
    if any(_DROP_IN.match(path) for path in files):
        return [_service("restart" if running else "start", "its unit file changes")]
    return []


def _service(action: str, because: str) -> ServiceChange:
    return {"name": PERSISTENCED, "action": action, "because": because}


def afterwards(facts: Facts, plan: Plan, results: Results) -> Facts:
    """Return the facts as the role reboot would read them, as far as its decision depends on them."""
    after = deepcopy(facts)
    coming = _coming(plan, results)
    build = changes.things(results, DRIVER, "build")
    for kernel in after["kernels"]:
        if coming or kernel["version"] in build:
            planned = kernel["version"] in plan["driver"]["kernels"]
            kernel["nvidia_module"] = (coming or after["driver"]["module_on_disk"]) if planned else None
    if coming:
        after["driver"]["library"] = after["driver"]["module_on_disk"] = coming
    after["tuning"]["kernel_arguments"]["wanted"] = plan["tuning"]["kernel_arguments"]
    after["nouveau"]["blacklisted"] = after["nouveau"]["nova_blacklisted"] = True
    if "nouveau" in changes.things(results, "nouveau", "unload"):
        _unload_nouveau(after)
    after["gpu_settings"] = plan["gpu_settings"]["settings"]
    _store_ecc(after, results)
    return after


def _unload_nouveau(after: Facts) -> None:
    """Let nobody have the GPUs that nouveau has."""
    for gpu in after["pci"]["gpus"]:
        if gpu["driver"] == "nouveau":
            gpu["driver"] = None
            after["nouveau"]["bound"].remove(gpu["address"])


def _store_ecc(after: Facts, results: Results) -> None:
    """Let GPUs have ECC as it would be set: it turns over at a boot, as MIG need not."""
    steps = [step for one in changes.of_module(results, "gpu_settings") for step in one["result"]["steps"]]
    coming = {step["gpu"]: step["after"] for step in steps if step["name"] == ECC}
    for gpu in after["nvml"]["gpus"]:
        if gpu.get("bus_id") in coming:
            gpu["ecc"]["mode"]["pending"] = coming[gpu["bus_id"]]


def _coming(plan: Plan, results: Results) -> str | None:
    """Return the driver version that a transaction or a .run file would bring; None where the one on disk stays."""
    if any(
        one["result"]["planned"] for one in changes.of_module(results, "nvidia_runfile") if one["result"]["changes"]
    ):
        return str(plan["driver"]["version"])
    packages = changes.ForeseenTransactions(results)
    name = plan["driver"]["kernel_package"]
    if name is None:
        return None
    version = packages.install.get(name) or packages.change.get(name, ("", ""))[1]
    if version:
        match = _UPSTREAM.match(version)
        return match[1] if match else version
    return plan["driver"]["newest_known"] if packages.brings(name) else None


def reboot(name: str, after: Facts, policy: str | None, force: str | None) -> PreviewedReboot:
    """Return whether site.yml would reboot the node, and why not now."""
    reasons = reboot_check.reboot(after)["reasons"]
    who, refusal = users.in_use(after["users_of_gpus"]), None
    if reasons and policy == "never":
        refusal = refuse("H031", host=name, reasons="; ".join(reasons))
    elif reasons and who and force != name:
        refusal = refuse("H030", host=name, reasons="; ".join(reasons), who=who)
    return {"needed": bool(reasons), "because": reasons, "refusal": _plain(refusal) if refusal else None}


def _plain(refusal: Refusal) -> PreviewedRefusal:
    return {"code": refusal.code, "cause": refusal.cause, "remedy": refusal.remedy}


def loads_driver(after: Facts) -> bool:
    """Tell whether the driver would be loaded without a reboot."""
    found = reboot_check.reboot(after)
    return bool(found["loadable"] and not found["reasons"])

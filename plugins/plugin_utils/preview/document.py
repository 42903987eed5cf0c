# Copyright (c) 2026 The gpulab founders
# GNU General Public License v3.0+ (see https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The preview of a run as one document: for each host what is there, what site.yml would change, and why.

Nothing here knows Ansible or touches a node.
"""

from __future__ import annotations

from pathlib import PurePosixPath
from typing import TYPE_CHECKING

from ansible_collections.gpulab.node.plugins.module_utils.facts import users as facts_users
from ansible_collections.gpulab.node.plugins.plugin_utils import catalog
from ansible_collections.gpulab.node.plugins.plugin_utils.plan import host_types, reasons
from ansible_collections.gpulab.node.plugins.plugin_utils.preview import changes, outlook

if TYPE_CHECKING:
    from ansible_collections.gpulab.node.plugins.plugin_utils.facts.driver import User
    from ansible_collections.gpulab.node.plugins.plugin_utils.facts.model import Facts
    from ansible_collections.gpulab.node.plugins.plugin_utils.plan.model import Plan
    from ansible_collections.gpulab.node.plugins.plugin_utils.preview.model import (
        HostBefore,
        HostEnding,
        PresentNow,
        Preview,
        PreviewedDisk,
        PreviewedHost,
        Users,
        Worker,
    )

SCHEMA = 1
EARLIER = "no result: it failed or became unreachable earlier in this run"


def build(hosts: dict[str, HostBefore], created: str) -> Preview:
    """Return the document of a run of hosts, by their names; created is its time, ISO 8601 in UTC."""
    return {
        "schema": SCHEMA,
        "created": created,
        "hosts": [_host(name, host) for name, host in sorted(hosts.items())],
    }


def _host(name: str, host: HostBefore) -> PreviewedHost:
    plan, facts, results = host["plan"], host["facts"], host["results"]
    packages = changes.ForeseenTransactions(results)
    entry: PreviewedHost = {
        "name": name,
        **_ending(host),
        "simulated": facts["simulated"] or None if facts else None,
        "present": _present(facts) if facts else None,
        "users": _users(facts) if facts else None,
        **host_types.shown(plan, host["groups"]),
        "planned": None,
        "because": reasons(plan) if plan else [],
        "warnings": plan["warnings"] if plan else [],
        "due": plan.get("due", {}) if plan else {},
        "drift": plan.get("drift", []) if plan else [],
        "changes": changes.of_host(results),
        "download": packages.download(),
        "disk": _disk(facts, plan) if facts and plan and packages else [],
        "services": [],
        "reboot": {"needed": False, "because": [], "refusal": None},
        "seconds": sum(host["expected"].values()) or None,
    }
    if facts and plan:
        after = outlook.afterwards(facts, plan, results)
        driver = plan["driver"]
        entry["planned"] = {
            "source": driver["source"],
            "branch": driver["branch"],
            "version": driver["version"],
            "kernel_modules": driver["kernel_modules"],
            "kernels": driver["kernels"],
        }
        entry["services"] = outlook.services(facts, plan, results)
        entry["reboot"] = outlook.reboot(name, after, host["policy"], host["force"])
        if outlook.loads_driver(after):
            entry["changes"].append({"role": "reboot", "action": "load", "objects": ["nvidia", "nvidia_uvm"]})
    if entry["state"] == "unchanged" and (entry["changes"] or entry["reboot"]["needed"]):
        entry["state"] = "changes"
    return entry


def _ending(host: HostBefore) -> HostEnding:
    """Return how far a host comes; unchanged stands for a host that came to the end of the roles."""
    failure = host["failure"]
    if failure:
        refusal, detail = failure.get("refusal"), str(failure.get("msg", ""))
        state = "refused" if refusal or detail.startswith("GPULAB-") else "failed"
        if host["unreachable"]:
            state = "unreachable"
        return {"state": state, "refusal": refusal, "detail": detail}
    if host["ended"]:
        return {"state": "failed", "refusal": None, "detail": EARLIER}
    return {"state": "unchanged", "refusal": None, "detail": None}


def _present(facts: Facts) -> PresentNow:
    driver, nvidia = facts["driver"], facts["modules"]["nvidia"]
    packagers = sorted({package["source"] for package in driver["packages"]})
    return {
        "system": facts["system"]["name"],
        "kernel": facts["system"]["kernel"],
        "gpus": [_gpu_name(gpu["device"]) for gpu in facts["pci"]["gpus"]],
        "held_by": sorted({gpu["driver"] for gpu in facts["pci"]["gpus"] if gpu["driver"]}),
        "driver": {
            "on_disk": driver["module_on_disk"] or driver["library"],
            "loaded": nvidia["version"] if nvidia["loaded"] else None,
            "sources": ["runfile"] if driver["runfile"] else packagers,
        },
    }


def _gpu_name(device: str) -> str:
    record = catalog.load().gpus.get(device)
    return str(record["name"]) if record else device


def _users(facts: Facts) -> Users:
    users = facts["users_of_gpus"]
    return {
        "state": users["state"],
        "who": [_worker(process) for process in facts_users.workers(users)],
        "sessions": users["sessions"],
    }


def _worker(process: User) -> Worker:
    return {
        "pid": process["pid"],
        "user": process["user"],
        "command": process["command"],
        "since": process["since"],
        "device": process["device"],
        "kind": process["kind"],
    }


def _disk(facts: Facts, plan: Plan) -> list[PreviewedDisk]:
    """Return what the driver and all else of the plan take at most, per mount point."""
    known = {filesystem["mount"]: filesystem["free_mib"] for filesystem in facts["filesystems"]}
    needs = sorted(plan["disk"].items(), key=lambda item: PurePosixPath(item[0]))
    return [
        {"mount": mount, "needed_mib": needed, "free_mib": free, "enough": free is None or free >= needed}
        for mount, needed in needs
        for free in [known.get(mount)]
    ]

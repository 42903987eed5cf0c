"""Hosts as the preview action collects them: facts, a plan of the real resolver, and what tasks say in check mode."""

from __future__ import annotations

from copy import deepcopy
from dataclasses import asdict
from datetime import date
from typing import Any

from ansible_collections.gpulab.node.plugins.module_utils.core.refusal import refuse
from ansible_collections.gpulab.node.plugins.plugin_utils import catalog, options
from ansible_collections.gpulab.node.plugins.plugin_utils.plan import resolve
from ansible_collections.gpulab.node.plugins.plugin_utils.preview import changes, document

from unit.checks import nodes

CREATED = "2026-11-21T01:00:00Z"
TODAY = date(2026, 11, 20)
OLD, NEW = "535.261.03", "535.309.01"
WISHES = {"nvidia_driver_source": "distribution", "gpulab_allow_branches": ["535"]}
NOUVEAU_FILE = "/etc/modprobe.d/gpulab-nouveau.conf"
UNIT_FILE = "/etc/systemd/system/nvidia-persistenced.service.d/gpulab.conf"
WORK = {
    "pid": 4711,
    "user": "alice",
    "command": "python3",
    "since": "2026-11-20T18:00:00Z",
    "device": "/dev/nvidia0",
    "kind": "process",
}
DAEMON = {**WORK, "pid": 812, "user": "root", "command": "nvidia-persiste", "since": None, "device": "/dev/nvidiactl"}
NOTHING: dict[str, Any] = {"facts": None, "plan": None, "results": {}, "failure": None, "policy": None, "force": None}


def quiet() -> dict[str, Any]:
    """Return the results of tasks that have nothing to do."""
    return {
        **{name: {"changed": False} for name in changes.TASKS},
        "__plan_facts": {"changed": False},
        "__base_certificates": {"changed": False, "added": [], "removed": []},
        "__base_files": {"changed": False, "paths": [], "diff": []},
        "__base_components": {"changed": False, "diff": {"before": "", "after": "", "after_header": "/etc/x"}},
        "__tuning_boot_entries": {"changed": False, "skipped": True},
        "__tuning_files": {"changed": False, "paths": [], "diff": []},
        "__tuning_menu": {"changed": False, "skipped": True},
        "__tuning_values": {"changed": False, "refused": [], "diff": []},
        "__nouveau_files": {"changed": False, "paths": [], "diff": []},
        "__nouveau_initramfs": {"changed": False, "skipped": True},
        "__nvidia_driver_components": {
            "changed": False,
            "diff": {"before": "a", "after": "a", "after_header": "/etc/x"},
        },
        "__nvidia_driver_headers": {"changed": False},
        "__nvidia_driver_install": {"changed": False},
        "__nvidia_driver_modules": {"changed": False, "kernels": {nodes.KERNEL: "installed"}},
        "__nvidia_driver_unit_files": {"changed": False, "paths": [], "diff": []},
        "__nccl_settings": {"changed": False, "diff": [{"before": "a", "after": "a", "after_header": "/etc/x"}]},
        "__nccl_files": {"changed": False, "paths": [], "diff": []},
        "__nvidia_driver_unit": {"changed": False, "name": "nvidia-persistenced.service"},
    }


def written(path: str) -> dict[str, Any]:
    """Return the result of a task that would write one file."""
    return {"changed": True, "paths": [path], "diff": [{"before": "", "after": "text", "after_header": path}]}


def foreseen(**parts: Any) -> dict[str, Any]:
    """Return the result of a package transaction that would change something."""
    none: dict[str, Any] = {"install": {}, "change": {}, "remove": {}, "not_listed": [], "downloads": {}}
    return {"changed": True, "diff": {}, "foreseen": {**none, **parts}}


def host(facts: dict[str, Any], results: dict[str, Any], **variables: Any) -> dict[str, Any]:
    """Return a host with the plan that it gets."""
    plan = resolve(facts, options.complete(WISHES), catalog.load(), TODAY)
    return {**NOTHING, "facts": facts, "plan": plan, "results": {**quiet(), **results}, **variables}


def provisioned() -> dict[str, Any]:
    """Return a node on which all is done."""
    return host(with_driver(OLD), {})


def with_driver(version: str) -> dict[str, Any]:
    """Return the facts of a node that runs this driver of the distribution."""
    facts = nodes.healthy("rtx4090x2")
    facts["driver"].update(library=version, module_on_disk=version)
    facts["driver"]["packages"] = [
        {"name": "nvidia-kernel-dkms", "version": f"{version}-1", "source": "distribution"},
    ]
    facts["modules"]["nvidia"]["version"] = version
    facts["services"]["nvidia-persistenced"] = {"load": "loaded", "active": "active"}
    facts["nouveau"]["nova_blacklisted"] = True
    for kernel in facts["kernels"]:
        kernel["nvidia_module"] = version
    return facts


def virgin(*, listed: bool = True) -> dict[str, Any]:
    """Return a bare node on which nouveau has the GPUs; listed: its package lists have the driver."""
    facts = with_driver(OLD)
    facts["driver"].update(library=None, module_on_disk=None, packages=[])
    facts["modules"]["nvidia"].update(loaded=False, version=None)
    facts["modules"]["nouveau"]["loaded"] = True
    facts["nouveau"] = {"blacklisted": False, "nova_blacklisted": False, "bound": [], "unused": False}
    for gpu in facts["pci"]["gpus"]:
        gpu["driver"] = "nouveau"
        facts["nouveau"]["bound"].append(gpu["address"])
    for kernel in facts["kernels"]:
        kernel.update(nvidia_module=None, dkms=[])
    del facts["services"]["nvidia-persistenced"]
    names = ("nvidia-kernel-dkms", "nvidia-smi", "nvidia-persistenced")
    driver = (
        foreseen(
            install={**dict.fromkeys(names, f"{NEW}-1~deb12u1"), "gcc-12": "12.2.0-14"},
            downloads={"nvidia.deb": 200_000_000, "gcc.deb": 19_000_000},
        )
        if listed
        else foreseen(install={"gcc-12": "12.2.0-14"}, not_listed=list(names), downloads={"gcc.deb": 19_000_000})
    )
    results = {
        "__nouveau_files": written(NOUVEAU_FILE),
        "__nouveau_initramfs": {"changed": True, "diff": {"prepared": "would run: update-initramfs -u -k all\n"}},
        "__nvidia_driver_headers": foreseen(
            install={"gcc-12": "12.2.0-14", "dkms": "3.0.10-8"}, downloads={"gcc.deb": 19_000_000, "dkms.deb": 49_000}
        ),
        "__nvidia_driver_install": driver,
        "__nvidia_driver_modules": {
            "changed": True,
            "kernels": dict.fromkeys((nodes.KERNEL, nodes.NEXT_KERNEL), "absent"),
        },
        "__nvidia_driver_unit_files": written(UNIT_FILE),
        "__nvidia_driver_unit": {"changed": False, "skipped": True},
    }
    return host(facts, results)


def upgradable(**variables: Any) -> dict[str, Any]:
    """Return a node whose driver would be replaced by a newer one of its branch."""
    names = ("nvidia-kernel-dkms", "nvidia-smi", "nvidia-persistenced")
    change = foreseen(change={name: [f"{OLD}-1", f"{NEW}-1"] for name in names}, downloads={"nvidia.deb": 200_000_000})
    return host(with_driver(OLD), {"__nvidia_driver_install": change}, **variables)


def busy(one: dict[str, Any]) -> dict[str, Any]:
    """Return a host on whose GPUs somebody computes."""
    one = deepcopy(one)
    who = [{**WORK, "service": False}, {**DAEMON, "service": True}]
    sessions = [{"user": "alice", "since": "2026-11-20T17:00:00Z", "desktop": False, "logged_in": True}]
    sessions[0]["commands"] = ["rsync"]
    one["facts"]["users_of_gpus"] = {"state": "busy", "who": who, "sessions": sessions}
    return one


def refused() -> dict[str, Any]:
    """Return a node for which there is no plan."""
    refusal = refuse("P002")
    failure = {"failed": True, "msg": str(refusal), "refusal": asdict(refusal)}
    results = {"__plan_facts": {"changed": False}}
    return {**NOTHING, "facts": with_driver(OLD), "results": results, "failure": failure}


def unreachable() -> dict[str, Any]:
    """Return a node that does not answer."""
    refusal = refuse("H001", host="node", login="node", detail="Connection refused")
    failure = {"failed": True, "msg": str(refusal), "refusal": asdict(refusal)}
    results = {"__plan_facts": {"unreachable": True, "msg": "Connection refused"}}
    return {**NOTHING, "results": results, "failure": failure}


def preview(one: dict[str, Any]) -> dict[str, Any]:
    """Return what the document says of one host, named node."""
    (entry,) = document.build({"node": one}, CREATED)["hosts"]
    return entry


def fleet() -> dict[str, Any]:
    """Return the document of hosts of every kind."""
    simulated = provisioned()
    simulated["facts"]["simulated"] = "made up"
    hosts = {
        "done": provisioned(),
        "virgin": virgin(),
        "unlisted": virgin(listed=False),
        "upgrade": busy(upgradable()),
        "refused": refused(),
        "away": unreachable(),
        "early": NOTHING,
        "lab": simulated,
    }
    return document.build(hosts, CREATED)

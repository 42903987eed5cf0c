"""Hosts as the preview action collects them: facts, a plan of the real resolver, and what tasks say in check mode."""

from __future__ import annotations

from copy import deepcopy
from dataclasses import asdict
from datetime import date
from typing import TYPE_CHECKING, Any

from ansible_collections.gpulab.node.plugins.module_utils.core.changes import changes
from ansible_collections.gpulab.node.plugins.plugin_utils import catalog, options
from ansible_collections.gpulab.node.plugins.plugin_utils.plan import resolve
from ansible_collections.gpulab.node.plugins.plugin_utils.preview import document
from ansible_collections.gpulab.node.plugins.plugin_utils.refusals import refuse

from unit.checks import nodes

if TYPE_CHECKING:
    from ansible_collections.gpulab.node.plugins.plugin_utils.preview.changes import TaskResult

CREATED = "2026-11-21T01:00:00Z"
TODAY = date(2026, 11, 20)
OLD, NEW = "535.261.03", "535.309.01"
WISHES = {"nvidia_driver_source": "distribution"}
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
NOTHING: dict[str, Any] = {
    "groups": ["gpu-nodes"],
    "facts": None,
    "plan": None,
    "results": [],
    "failure": None,
    "unreachable": False,
    "ended": True,
    "expected": {},
    "policy": None,
    "force": None,
}


def result(role: str, module: str, arguments: dict[str, Any] | None = None, **answer: Any) -> TaskResult:
    """Return the result of a task that would change something."""
    return {
        "role": role,
        "task": "Do what nobody foresaw",
        "module": module,
        "arguments": arguments or {},
        "delegate_to": None,
        "result": {"changed": True, **answer},
    }


def changed(role: str, **actions: list[str]) -> TaskResult:
    """Return the result of a module of gpulab's."""
    return result(role, "gpulab.node.something", changes=changes(**actions))


def written(role: str, path: str) -> TaskResult:
    """Return the result of a task that would write one file."""
    return changed(role, write=[path])


def predicted(role: str, transaction: str = "packages", **parts: Any) -> TaskResult:
    """Return the result of a package transaction that would change something."""
    none: dict[str, Any] = {"install": {}, "change": {}, "remove": {}, "not_listed": [], "downloads": {}}
    return result(role, "gpulab.node.packages", {"transaction": transaction}, changes=[], predicted={**none, **parts})


def host(facts: dict[str, Any], results: list[TaskResult], **variables: Any) -> dict[str, Any]:
    """Return a host with the plan that it gets."""
    plan = resolve(facts, options.complete(WISHES), catalog.load(), TODAY)
    return {**NOTHING, "facts": facts, "plan": plan, "results": results, "ended": False, **variables}


def provisioned() -> dict[str, Any]:
    """Return a node on which all is done."""
    return host(with_driver(OLD), [])


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
        predicted(
            "nvidia_driver",
            install={**dict.fromkeys(names, f"{NEW}-1~deb12u1"), "gcc-12": "12.2.0-14"},
            downloads={"nvidia.deb": 200_000_000, "gcc.deb": 19_000_000},
        )
        if listed
        else predicted(
            "nvidia_driver", install={"gcc-12": "12.2.0-14"}, not_listed=list(names), downloads={"gcc.deb": 19_000_000}
        )
    )
    headers = predicted(
        "nvidia_driver",
        install={"gcc-12": "12.2.0-14", "dkms": "3.0.10-8"},
        downloads={"gcc.deb": 19_000_000, "dkms.deb": 49_000},
    )
    results = [
        written("nouveau", NOUVEAU_FILE),
        changed("nouveau", run=["update-initramfs -u -k all"]),
        headers,
        written("nvidia_driver", UNIT_FILE),
        driver,
        changed("nvidia_driver", build=[nodes.KERNEL, nodes.NEXT_KERNEL]),
    ]
    return host(facts, results)


def upgradable(**variables: Any) -> dict[str, Any]:
    """Return a node whose driver would be replaced by a newer one of its branch."""
    names = ("nvidia-kernel-dkms", "nvidia-smi", "nvidia-persistenced")
    versions = {name: [f"{OLD}-1", f"{NEW}-1"] for name in names}
    transaction = predicted("nvidia_driver", change=versions, downloads={"nvidia.deb": 200_000_000})
    return host(with_driver(OLD), [transaction], **variables)


def busy(one: dict[str, Any]) -> dict[str, Any]:
    """Return a host on whose GPUs somebody computes."""
    one = deepcopy(one)
    who = [{**WORK, "service": False}, {**DAEMON, "service": True}]
    sessions = [{"user": "alice", "since": "2026-11-20T17:00:00Z", "desktop": False, "logged_in": True}]
    sessions[0] |= {"commands": ["rsync"], "place": ""}
    one["facts"]["users_of_gpus"] = {"state": "busy", "who": who, "sessions": sessions}
    return one


def refused() -> dict[str, Any]:
    """Return a node for which there is no plan."""
    refusal = refuse("P002")
    failure = {"failed": True, "msg": str(refusal), "refusal": asdict(refusal)}
    return {**NOTHING, "facts": with_driver(OLD), "failure": failure, "ended": False}


def unreachable() -> dict[str, Any]:
    """Return a node that does not answer."""
    refusal = refuse("H001", host="node", login="node", detail="Connection refused")
    failure = {"failed": True, "msg": str(refusal), "refusal": asdict(refusal)}
    return {**NOTHING, "failure": failure, "unreachable": True, "ended": False}


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


def actions(entry: dict[str, Any]) -> dict[tuple[str, str], list[str]]:
    """Return what each action of each role would do something to."""
    return {(change["role"], change["action"]): change["objects"] for change in entry["changes"]}

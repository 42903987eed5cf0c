# Copyright (c) 2026 The gpulab founders
# GNU General Public License v3.0+ (see https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What would change on a node, read from what the roles' own tasks announce in check mode."""

from __future__ import annotations

import json
import re
from typing import TYPE_CHECKING, Any

from ansible_collections.gpulab.node.plugins.module_utils.environments.builds import GONE

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

Results = dict[str, dict[str, Any]]
Change = dict[str, Any]

READING = "__plan_facts"
# The package transactions of each role, in the order in which they run.
TRANSACTIONS = {
    "network": ("__network_packages",),
    "tuning": ("__tuning_packages",),
    "storage": ("__storage_packages", "__storage_retired"),
    "secure_boot": ("__secure_boot_packages", "__secure_boot_retired"),
    "nvidia_driver": (
        "__nvidia_driver_release",
        "__nvidia_driver_headers",
        "__nvidia_driver_conflicts",
        "__nvidia_driver_pinning",
        "__nvidia_driver_removed",
        "__nvidia_driver_install",
    ),
    "cuda": ("__cuda_packages",),
    "nccl": ("__nccl_packages",),
    "environments": ("__environments_packages",),
    "conda": ("__conda_packages",),
    "container_toolkit": ("__container_toolkit_engines", "__container_toolkit_packages"),
    "monitoring": ("__monitoring_packages", "__monitoring_retired"),
}
NOUVEAU = "__nouveau_unloaded"
MODULES = "__nvidia_driver_modules"
UNIT_FILES = "__nvidia_driver_unit_files"
RUNFILE = "__nvidia_driver_runfile"
IMEX_NODES, IMEX_UNIT = "__nvidia_driver_imex_nodes", "__nvidia_driver_imex_unit"
ENGINES = "__container_toolkit_engines"
DOCKER = "__container_toolkit_docker"
GPU_SETTINGS = "__gpu_settings_live"
EXPORTER = "__monitoring_exporter"
EXPORTER_PACKAGES = "__monitoring_packages"


def certificates(result: dict[str, Any]) -> dict[str, list[str]]:
    """Read a task of ca_certificates: fingerprints."""
    return {"trust": result.get("added", []), "distrust": result.get("removed", [])}


def files(result: dict[str, Any]) -> dict[str, list[str]]:
    """Read a task of owned_files, apt_components, apt_repository or dnf_repository: paths."""
    diffs = result.get("diff", [])
    found: dict[str, list[str]] = {"write": [], "delete": []}
    for diff in [diffs] if isinstance(diffs, dict) else diffs:
        if diff["before"] != diff["after"]:
            found["write" if diff["after"] else "delete"].append(diff["after_header"])
    return found


def copied_file(result: dict[str, Any]) -> dict[str, list[str]]:
    """Read a task of copy: its path. Where no more than the mode changes, its diff has no headers."""
    if not result.get("changed"):
        return {}
    return {"write": [result["path"] if isinstance(result["diff"], dict) else result["diff"][0]["after_header"]]}


def edited_files(result: dict[str, Any]) -> dict[str, list[str]]:
    """Read a task of blockinfile: paths."""
    return {"write": ["/etc/dnf/dnf.conf"] if result.get("changed") else []}


def command(result: dict[str, Any]) -> dict[str, list[str]]:
    """Read a task of long_step: the command."""
    return {"run": [result["diff"]["prepared"].removeprefix("would run: ").strip()] if result.get("changed") else []}


def kernel_values(result: dict[str, Any]) -> dict[str, list[str]]:
    """Read a task of kernel_values: values of the running kernel."""
    return {"set": [f"{diff['after_header']} = {diff['after']}" for diff in result.get("diff", [])]}


def gpu_settings(result: dict[str, Any]) -> dict[str, list[str]]:
    """Read a task of gpu_settings: settings of GPUs."""
    steps = result.get("steps", [])
    return {"set": [f"{one['name']} of GPU {one['gpu']} = {json.dumps(one['after'])}" for one in steps]}


def modules(result: dict[str, Any]) -> dict[str, list[str]]:
    """Read a task of dkms: kernels."""
    return {"build": [kernel for kernel, state in result.get("kernels", {}).items() if state != "installed"]}


def runfile(result: dict[str, Any]) -> dict[str, list[str]]:
    """Read a task of nvidia_runfile: drivers."""
    before, after = result.get("installed"), result.get("planned")
    if not result.get("changed"):
        return {}
    if not after:
        return {"remove": [f"driver {before} of a .run file"]}
    way = f"{before} -> {after}" if before else after
    return {"change" if before else "install": [f"driver {way} from its .run file"]}


def kernel_module(result: dict[str, Any]) -> dict[str, list[str]]:
    """Read a task of modprobe that unloads: the module."""
    return {"unload": [result["name"]] if result.get("changed") else []}


def unit(result: dict[str, Any]) -> dict[str, list[str]]:
    """Read a task of systemd_service: units."""
    return {"enable": [result["name"]] if result.get("changed") else []}


def stopped_unit(result: dict[str, Any]) -> dict[str, list[str]]:
    """Read a task of systemd_service that stops: units."""
    return {"disable": [result["name"]] if result.get("changed") else []}


def removed_path(result: dict[str, Any]) -> dict[str, list[str]]:
    """Read a task of file that removes: paths."""
    return {"delete": [result["path"]] if result.get("changed") else []}


def told(result: dict[str, Any]) -> dict[str, list[str]]:
    """Read a task of owned_files on the controller: paths there."""
    return {action: [f"{path} (controller)" for path in paths] for action, paths in files(result).items()}


def alternative(result: dict[str, Any]) -> dict[str, list[str]]:
    """Read a task of alternatives: what a link will lead to."""
    return {"select": re.findall(r"Set alternative '([^']+)'", result.get("msg", ""))}


def environments(result: dict[str, Any]) -> dict[str, list[str]]:
    """Read a task of venv_environments or conda_environments: each with the number of its packages that change."""
    found: dict[str, list[str]] = {"install": ["micromamba"] if result.get("micromamba") else []}
    found.update(make=[], delete=[])
    for one in result.get("environments", []):
        if one["because"] == [GONE]:
            found["delete"].append(f"environment {one['name']}")
        else:
            counts = ", ".join(f"{len(one[part])} {part}" for part in ("added", "changed", "removed") if one[part])
            found["make"].append(f"{one['name']} (packages: {counts or 'the same'})")
    return found


def settings(result: dict[str, Any]) -> dict[str, list[str]]:
    """Read a task of docker_settings or cdi_specification: lines of what is set, and names of what goes."""
    diff = result.get("diff", {"before": "", "after": ""})
    sides = (diff[side].splitlines() for side in ("before", "after"))
    before, after = (dict(line.partition(": ")[::2] for line in side) for side in sides)
    return {
        "set": [f"{name}: {value}" for name, value in after.items()],
        "unset": [name for name in before if name not in after],
    }


def steps(result: dict[str, Any]) -> dict[str, list[str]]:
    """Read a task of storage_tiers or mok_enrolment: what it would do, in words."""
    return {"arrange": result.get("steps", [])}


def members(result: dict[str, Any]) -> dict[str, list[str]]:
    """Read a task of group_members: users."""
    return {"admit": result.get("added", [])}


def rules(result: dict[str, Any]) -> dict[str, list[str]]:
    """Read a task of peer_firewall: rules."""
    return {"set": result.get("added", []), "unset": result.get("removed", [])}


# By the variable that registers each task, in the order in which they run: its role, and how it is read.
TASKS: dict[str, tuple[str, Callable[[dict[str, Any]], dict[str, list[str]]] | None]] = {
    READING: ("plan", None),
    "__base_certificates": ("base", certificates),
    "__base_files": ("base", files),
    "__base_dnf": ("base", edited_files),
    "__base_components": ("base", files),
    "__network_hosts": ("network", files),
    "__network_foreseen": ("network", None),
    "__network_stopped": ("network", stopped_unit),
    "__network_packages": ("network", None),
    "__network_clock_enabled": ("network", unit),
    "__network_firewall": ("network", rules),
    "__network_files": ("network", files),
    "__network_closed": ("network", unit),
    "__tuning_boot_entries": ("tuning", files),
    "__tuning_files": ("tuning", files),
    "__tuning_menu": ("tuning", command),
    "__tuning_values": ("tuning", kernel_values),
    "__tuning_packages": ("tuning", None),
    "__tuning_services": ("tuning", None),
    "__storage_foreseen": ("storage", None),
    "__storage_packages": ("storage", None),
    "__storage_tiers": ("storage", steps),
    "__storage_retired": ("storage", None),
    "__storage_files": ("storage", files),
    "__secure_boot_packages": ("secure_boot", None),
    "__secure_boot_key": ("secure_boot", steps),
    "__secure_boot_key_gone": ("secure_boot", steps),
    "__secure_boot_retired": ("secure_boot", None),
    "__nouveau_files": ("nouveau", files),
    "__nouveau_initramfs": ("nouveau", command),
    NOUVEAU: ("nouveau", kernel_module),
    "__nvidia_driver_components": ("nvidia_driver", files),
    "__nvidia_driver_newer": ("nvidia_driver", None),
    "__nvidia_driver_going": ("nvidia_driver", None),
    "__nvidia_driver_release": ("nvidia_driver", None),
    "__nvidia_driver_headers": ("nvidia_driver", None),
    "__nvidia_driver_conflicts": ("nvidia_driver", None),
    "__nvidia_driver_no_repository": ("nvidia_driver", files),
    "__nvidia_driver_repository": ("nvidia_driver", files),
    "__nvidia_driver_dnf_repository": ("nvidia_driver", files),
    "__nvidia_driver_pinning": ("nvidia_driver", None),
    "__nvidia_driver_upgrades": ("nvidia_driver", files),
    "__nvidia_driver_options": ("nvidia_driver", files),
    "__nvidia_driver_install": ("nvidia_driver", None),
    "__nvidia_driver_runfile_file": ("nvidia_driver", None),
    RUNFILE: ("nvidia_driver", runfile),
    MODULES: ("nvidia_driver", modules),
    UNIT_FILES: ("nvidia_driver", files),
    "__nvidia_driver_own_unit": ("nvidia_driver", files),
    "__nvidia_driver_unit": ("nvidia_driver", unit),
    "__nvidia_driver_fabric_unit": ("nvidia_driver", unit),
    IMEX_NODES: ("nvidia_driver", copied_file),
    IMEX_UNIT: ("nvidia_driver", unit),
    "__nvidia_driver_imex_stopped": ("nvidia_driver", stopped_unit),
    "__nvidia_driver_imex_nodes_gone": ("nvidia_driver", removed_path),
    "__nvidia_driver_units_gone": ("nvidia_driver", None),
    "__nvidia_driver_runfile_gone": ("nvidia_driver", runfile),
    "__nvidia_driver_removed": ("nvidia_driver", None),
    "__nvidia_driver_files_gone": ("nvidia_driver", files),
    "__nvidia_driver_repository_gone": ("nvidia_driver", files),
    "__nvidia_driver_dnf_repository_gone": ("nvidia_driver", files),
    "__nvidia_driver_components_gone": ("nvidia_driver", files),
    "__cuda_components": ("cuda", files),
    "__cuda_repository": ("cuda", files),
    "__cuda_dnf_repository": ("cuda", files),
    "__cuda_packages": ("cuda", None),
    "__cuda_repository_gone": ("cuda", files),
    "__cuda_dnf_repository_gone": ("cuda", files),
    "__cuda_alternative": ("cuda", alternative),
    "__cuda_files": ("cuda", files),
    "__nccl_settings": ("nccl", files),
    "__nccl_files": ("nccl", files),
    "__nccl_packages": ("nccl", None),
    "__nccl_tests_built": ("nccl", command),
    "__nccl_tests_linked": ("nccl", None),
    "__nccl_tests_unlinked": ("nccl", removed_path),
    "__nccl_tests_gone": ("nccl", removed_path),
    "__environments_packages": ("environments", None),
    "__environments_build": ("environments", environments),
    "__environments_kernels": ("environments", files),
    "__conda_packages": ("conda", None),
    "__conda_build": ("conda", environments),
    "__conda_kernels": ("conda", files),
    "__conda_files": ("conda", files),
    GPU_SETTINGS: ("gpu_settings", gpu_settings),
    "__gpu_settings_files": ("gpu_settings", files),
    "__container_toolkit_foreseen": ("container_toolkit", None),
    "__container_toolkit_engine_repository": ("container_toolkit", files),
    "__container_toolkit_engine_dnf_repository": ("container_toolkit", files),
    ENGINES: ("container_toolkit", None),
    "__container_toolkit_repository": ("container_toolkit", files),
    "__container_toolkit_dnf_repository": ("container_toolkit", files),
    "__container_toolkit_packages": ("container_toolkit", None),
    "__container_toolkit_cdi": ("container_toolkit", settings),
    DOCKER: ("container_toolkit", settings),
    "__container_toolkit_docker_unit": ("container_toolkit", unit),
    "__container_toolkit_users": ("container_toolkit", members),
    "__monitoring_foreseen": ("monitoring", None),
    "__monitoring_dcgm_stopped": ("monitoring", stopped_unit),
    "__monitoring_files": ("monitoring", files),
    "__monitoring_declared": ("monitoring", files),
    EXPORTER_PACKAGES: ("monitoring", None),
    EXPORTER: ("monitoring", None),
    "__monitoring_dcgm": ("monitoring", unit),
    "__monitoring_timer": ("monitoring", unit),
    "__monitoring_stopped": ("monitoring", stopped_unit),
    "__monitoring_library_gone": ("monitoring", removed_path),
    "__monitoring_gone": ("monitoring", files),
    "__monitoring_retired": ("monitoring", None),
    "__monitoring_told": ("monitoring", told),
}
LAST = list(TASKS)[-1]


def changes(results: Results) -> list[Change]:
    """Return {role, action, objects} for each kind of change, in the order in which the roles run."""
    found: list[Change] = []
    for name, (role, read) in TASKS.items():
        if name in TRANSACTIONS.get(role, ())[-1:]:
            found += _changes(role, _transaction_of(role, results).actions())
        result = results.get(name, {})
        if read and not result.get("skipped") and not result.get("failed"):
            found += _changes(role, read(result))
    return found


def _changes(role: str, actions: dict[str, list[str]]) -> Iterable[Change]:
    return ({"role": role, "action": action, "objects": objects} for action, objects in actions.items() if objects)


class Transaction:
    """What the package manager foresees for all transactions of a node together."""

    def __init__(self, foreseen: list[dict[str, Any]]) -> None:
        """Take what each task of packages foresees; a later one repeats what an earlier one would have brought."""
        self.install: dict[str, str] = {}
        self.change: dict[str, list[str]] = {}
        self.remove: dict[str, str] = {}
        self.downloads: dict[str, int] = {}
        not_listed: dict[str, None] = {}
        for one in foreseen:
            self.install.update(one["install"])
            self.change.update(one["change"])
            self.remove.update(one["remove"])
            self.downloads.update(one["downloads"])
            not_listed.update(dict.fromkeys(one["not_listed"]))
        self.not_listed = list(not_listed)

    def __bool__(self) -> bool:
        """Tell whether any package changes."""
        return bool(self.install or self.change or self.remove or self.not_listed)

    def actions(self) -> dict[str, list[str]]:
        """Return the packages by what happens to them."""
        return {
            "install": [f"{name} {version}" for name, version in sorted(self.install.items())] + self.not_listed,
            "change": [f"{name} {old} -> {new}" for name, (old, new) in sorted(self.change.items())],
            "remove": [f"{name} {version}" for name, version in sorted(self.remove.items())],
        }

    def download(self) -> dict[str, Any]:
        """Return {bytes, not_listed}; bytes is None where some package is in no package list of the node yet."""
        return {"bytes": None if self.not_listed else sum(self.downloads.values()), "not_listed": self.not_listed}


def transaction(results: Results) -> Transaction:
    """Return what all package tasks of a node foresee."""
    return _foreseen(results, list(TRANSACTIONS))


def _transaction_of(role: str, results: Results) -> Transaction:
    """Return what a role's own package tasks foresee beyond what those of the roles before it bring."""
    roles = list(TRANSACTIONS)
    own, before = _foreseen(results, [role]), _foreseen(results, roles[: roles.index(role)])
    own.install = {name: version for name, version in own.install.items() if name not in before.install}
    return own


def _foreseen(results: Results, roles: list[str]) -> Transaction:
    names = [name for role in roles for name in TRANSACTIONS[role]]
    return Transaction([foreseen for name in names if (foreseen := results.get(name, {}).get("foreseen"))])

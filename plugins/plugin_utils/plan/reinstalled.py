# Copyright (c) 2026 The gpulab founders
# GNU General Public License v3.0+ (see https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The facts of a node as they will be once it is reinstalled: its hardware, and nothing that was installed on it.

So a setting that the new system refuses is refused before anything is wiped.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, cast

if TYPE_CHECKING:
    from ansible_collections.gpulab.node.plugins.plugin_utils.catalog import Catalog
    from ansible_collections.gpulab.node.plugins.plugin_utils.facts.model import Facts

_NOT_LOADED = {"loaded": False, "version": None}
_NO_EXPORTER = {"installed": False, "listen": None, "answers": None, "serves_gpus": None}
# By the sections of the facts, what a fresh system has in them.
_FRESH: dict[str, dict[str, Any]] = {
    "system": {"package_state": "ok", "packages_unfinished": [], "mok_pending": None},
    "nouveau": {"blacklisted": False, "nova_blacklisted": False, "files": [], "bound": [], "unused": False},
    "forbidden": {"now": [], "next_boot": []},
    "module_options": {"wanted": {}, "running": {}, "new": False},
    "driver": {
        "packages": [],
        "holds": [],
        "holds_foreign": [],
        "runfile": None,
        "runfile_own": False,
        "in_container": False,
        "library": None,
        "library_path": None,
        "module_on_disk": None,
        "display": {},
        "former": {},
    },
    "cuda": {"toolkits": [], "default": None, "compat": []},
    "libraries": {"cudnn": [], "nccl": [], "tensorrt": []},
    "nvml": {
        "state": "absent",
        "error": None,
        "driver_version": None,
        "nvml_version": None,
        "cuda_version": None,
        "gpus": [],
        "peers": [],
    },
    "engines": {
        "docker": None,
        "podman": None,
        "containerd": None,
        "nvidia_container_toolkit": None,
        "docker_rivals": [],
    },
    "containers": {
        "docker": None,
        "containerd": None,
        "cdi": [],
        "toolkit_ldconfig": None,
        "toolkit_no_cgroups": False,
        "toolkit_root": None,
        "toolkit_root_there": True,
        "selinux": None,
    },
    "imex": {"nodes": [], "own": False, "state": None, "channel": False},
    "monitoring": {
        "exporter": {**_NO_EXPORTER, "arguments": []},
        "dcgm_exporter": _NO_EXPORTER,
        "collector": None,
    },
    "tuning": {"later": {}, "grub": True, "boot_entries": {}, "tuned_profile": None},
    "reboot": {"reasons": [], "loadable": False},
}


def reinstalled(facts: Facts, catalog: Catalog, system: str) -> Facts:
    """Return the facts of the node on a fresh system, an id of catalog/installers.yml, such as debian-13."""
    installer = catalog.installers[system]
    name, _dash, version = system.partition("-")
    platform = catalog.platforms[name, version]
    there = cast("dict[str, Any]", facts)
    kernel = {
        "version": installer["architectures"][there["system"]["architecture"]]["kernel"],
        "running": True,
        "installed": True,
        "next_boot": True,
        "headers": None,
        "markers": [],
        "compiler": None,
        "dkms": [],
        "nvidia_module": None,
        "nvidia_module_file": None,
        "nvidia_module_flavour": None,
        "nvidia_module_signer": None,
        "nvidia_module_accepted": None,
        "initramfs": None,
    }
    fresh = {**there, **{section: {**there[section], **values} for section, values in _FRESH.items()}}
    fresh["system"] |= {
        "id": name,
        "version": version,
        "codename": installer["codename"],
        "name": platform["name"],
        "family": platform["family"],
        "kernel": kernel["version"],
    }
    fresh["pci"] = {**there["pci"], "gpus": [{**gpu, "driver": None} for gpu in there["pci"]["gpus"]]}
    fresh["kernels"] = [kernel]
    fresh["modules"] = dict.fromkeys(there["modules"], _NOT_LOADED)
    return cast(
        "Facts",
        {**fresh, "nccl": [], "nccl_files": {}, "nccl_own": {}, "own_files": [], "gpu_settings": {}, "receipts": {}},
    )

# Copyright (c) 2026 The gpulab founders
# GNU General Public License v3.0+ (see https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The wishes: every inventory variable that the plan takes, in one table.

A wish may be left out; its default then lets the plan choose. Versions are text: quote them in YAML.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from ansible_collections.gpulab.node.plugins.plugin_utils.forms import Form


@dataclass(frozen=True)
class Wish:
    """One variable: its type is a name of Ansible's argument specs, a list has elements."""

    name: str
    type: str
    description: str
    default: Any = None
    choices: tuple[str, ...] = ()
    elements: str | None = None
    form: Form | None = None  # of a text, of the texts in a list, of a dict without fields; see forms.py
    fields: tuple[Wish, ...] = ()  # of a dict, and of the dicts in a list


# The words that Ansible's filter bool takes for a boolean: -e name=true gives text.
BOOLEANS = {
    **dict.fromkeys(("yes", "true", "on", "1"), True),
    **dict.fromkeys(("no", "false", "off", "0"), False),
}

ENVIRONMENT = (
    Wish("name", "str", "Name of the environment; this one is required."),
    Wish("pytorch", "str", "PyTorch, such as 2.9 (its newest patch release) or 2.9.1."),
    Wish("tensorflow", "str", "TensorFlow, such as 2.20."),
    Wish("jax", "str", "JAX, such as 0.9."),
    Wish("python", "str", "Python, such as 3.12; unset lets the plan choose."),
    Wish(
        "index",
        "str",
        "CUDA build, such as cu126 (PyTorch) or cuda12 (JAX), or cpu for none; unset lets the plan choose.",
    ),
    Wish("packages", "list", "Further requirements, as pip takes them.", (), elements="str"),
    Wish(
        "sets",
        "list",
        "Sets of packages: vision, data, monitoring, inference, distributed (catalog/package_sets.yml).",
        (),
        elements="str",
    ),
    Wish("group", "str", "Group of the node whose members alone may use it; unset lets everybody."),
    Wish("jupyter", "bool", "Whether every Jupyter of the node offers it as a kernel.", default=False),
    Wish("lock", "str", "File on the controller to install from: the gpulab.lock of such an environment."),
)

WISHES = (
    Wish(
        "nvidia_driver_state",
        "str",
        "Whether the driver shall be there; absent takes away what gpulab brought.",
        "present",
        ("present", "absent"),
    ),
    Wish(
        "nvidia_driver_source",
        "str",
        "Where the driver comes from; auto takes NVIDIA's repository where it serves the node.",
        "auto",
        ("auto", "distribution", "nvidia", "runfile"),
    ),
    Wish(
        "nvidia_driver_runfile",
        "str",
        "Address of the .run file, or its path on the controller; unset takes NVIDIA's of the planned version.",
    ),
    Wish(
        "nvidia_driver_runfile_sha256",
        "str",
        "SHA-256 of the .run file, which the source runfile asks for.",
    ),
    Wish("nvidia_driver_branch", "str", "Driver branch, such as 580; unset lets the plan choose."),
    Wish("nvidia_driver_version", "str", "Exact driver version, such as 580.178.04."),
    Wish(
        "nvidia_driver_kernel_modules",
        "str",
        "Flavour of the kernel modules; auto takes the open ones where every GPU and kernel allows it.",
        "auto",
        ("auto", "open", "proprietary"),
    ),
    Wish(
        "nvidia_driver_kernels",
        "list",
        "Kernel releases to build the driver for; empty means the installed ones and the running one.",
        (),
        elements="str",
    ),
    Wish(
        "nvidia_driver_upgrade",
        "bool",
        "Upgrade a driver of the distribution to the newest that it has; NVIDIA's has the planned version anyway.",
        default=False,
    ),
    Wish(
        "nvidia_driver_remove_conflicting",
        "bool",
        "Remove the packages of another driver that stand in the way of the planned one.",
        default=False,
    ),
    Wish(
        "nvidia_driver_imex_nodes",
        "list",
        "IP addresses of all nodes of this node's NVLink domain, on GB200 and GB300; empty sets no IMEX up.",
        (),
        elements="str",
    ),
    Wish(
        "secure_boot_mok_password",
        "str",
        "Password for one use at the console, with which gpulab asks the firmware to enrol DKMS's key.",
    ),
    Wish(
        "gpulab_allow_branches",
        "list",
        "Driver branches accepted although they are past their end of life or below their security floor.",
        (),
        elements="str",
    ),
    Wish(
        "gpulab_trust_newer",
        "bool",
        "Accept driver branches, CUDA toolkits, libraries and patch releases that are newer than gpulab's catalog, and"
        " treat each like its predecessor.",
        default=False,
    ),
    Wish(
        "gpulab_without_gpu", "bool", "Plan a driver although the node has no GPU (to build an image).", default=False
    ),
    Wish(
        "gpulab_nvidia_repository_url",
        "str",
        "Mirror of NVIDIA's repository for the node's system, on a host of its own; unset takes NVIDIA's.",
    ),
    Wish(
        "gpulab_nvidia_repository_key",
        "path",
        "File on the controller with the armored key that signs the mirror; unset fetches the one beside the packages.",
    ),
    Wish(
        "gpulab_nvidia_repository_fingerprint",
        "str",
        "Whole fingerprint of that key, in hexadecimal; unset takes that of NVIDIA's key.",
    ),
    Wish(
        "cuda_state",
        "str",
        "Whether CUDA shall be there; absent takes away what gpulab brought, toolkits and libraries.",
        "present",
        ("present", "absent"),
    ),
    Wish(
        "cuda_source",
        "str",
        "Where the toolkits come from: NVIDIA's repository, or the distribution's own archive, which has one version.",
        "nvidia",
        ("nvidia", "distribution"),
    ),
    Wish(
        "cuda_toolkits",
        "list",
        "CUDA toolkits to install side by side, such as 12.9; unset lets the plan choose, an empty list means none.",
        elements="str",
    ),
    Wish(
        "cuda_default",
        "str",
        "The toolkit that /usr/local/cuda points to; unset means the newest.",
    ),
    Wish(
        "cuda_compat",
        "bool",
        "Bring NVIDIA's cuda-compat package for each wished toolkit that the driver does not run in full; data-centre"
        " boards only.",
        default=False,
    ),
    Wish("cudnn_version", "str", "cuDNN for the default toolkit, such as 9.10.2; unset installs none."),
    Wish("nccl_version", "str", "NCCL for the default toolkit, such as 2.27.5; unset installs none."),
    Wish("tensorrt_version", "str", "TensorRT for the default toolkit; unset installs none."),
    Wish(
        "container_toolkit_version",
        "str",
        "Version of the NVIDIA Container Toolkit; unset takes the newest known.",
    ),
    Wish(
        "container_toolkit_engines",
        "list",
        "Container engines to give the GPUs to; unset means those found on the node, an empty list means none.",
        elements="str",
        choices=("docker", "podman", "containerd"),
    ),
    Wish(
        "container_toolkit_docker_source",
        "str",
        "Whose Docker is installed where Docker is wished for and missing; docker is docker.com's.",
        "distribution",
        ("distribution", "docker"),
    ),
    Wish(
        "container_toolkit_state",
        "str",
        "Whether containers get the GPUs; absent takes the toolkit and its settings away.",
        "present",
        ("present", "absent"),
    ),
    Wish(
        "gpulab_environments",
        "list",
        "Python environments, each with one framework.",
        (),
        elements="dict",
        fields=ENVIRONMENT,
    ),
    Wish(
        "conda_environments",
        "list",
        "Conda environments, of which the plan takes their number; the role conda has their fields.",
        (),
        elements="dict",
    ),
    Wish(
        "tuning_overrides",
        "dict",
        "Values in place of the plan's, by name, such as {vm.swappiness: 1}; null leaves one alone.",
        {},
    ),
    Wish(
        "gpu_settings_state",
        "str",
        "Whether the GPUs are set as declared; absent gives them back what they had.",
        "present",
        ("present", "absent"),
    ),
    Wish(
        "gpu_settings_values",
        "dict",
        "Settings of every GPU by name, such as {power_limit_watts: 300}; null leaves one alone.",
        {},
    ),
    Wish(
        "gpu_settings_per_gpu",
        "dict",
        "Settings of single GPUs, by UUID, bus id or index, such as {0: {power_limit_watts: 250}}; they come first.",
        {},
    ),
    Wish(
        "preflight_psu_watts",
        "int",
        "What the power supplies deliver together, in watts. Unset does not judge the power budget.",
    ),
    Wish("preflight_cpu_watts", "int", "What the processors draw together, in watts.", 150),
    Wish(
        "preflight_power_headroom_percent",
        "int",
        "How much more than GPUs and processors may draw the power supply shall deliver.",
        25,
    ),
    Wish(
        "nccl_interface",
        "str",
        "Network interface over which NCCL's processes meet; unset takes the one with the default route, and leaves it"
        " to NCCL where no other node is of the host's type, or where that one is wireless or a tunnel.",
    ),
    Wish(
        "nccl_overrides",
        "dict",
        "NCCL's settings in place of the plan's, such as {NCCL_IB_TC: 106}; null leaves one alone.",
        {},
    ),
    Wish(
        "nccl_tests_url",
        "str",
        "Where the source of NVIDIA's nccl-tests lies, as a .tar.gz; unset builds none.",
    ),
    Wish("nccl_tests_sha256", "str", "SHA-256 of that file. It is not built without."),
    Wish(
        "monitoring_state",
        "str",
        "Whether the node answers Prometheus, about itself and its GPUs; absent takes away what gpulab brought.",
        "absent",
        ("present", "absent"),
    ),
    Wish(
        "monitoring_gpus",
        "str",
        "What reads the GPUs: gpulab's collector, through NVML; dcgm is DCGM's exporter beside it.",
        "nvml",
        ("nvml", "dcgm"),
    ),
    Wish(
        "monitoring_listen_address",
        "str",
        "Address of the node to answer on; unset takes the default route's unless it is public, else the loopback.",
    ),
)

NAMES = tuple(wish.name for wish in WISHES)
_BOOLEANS = {wish.name for wish in WISHES if wish.type == "bool"}


def complete(given: dict[str, Any]) -> dict[str, Any]:
    """Return all wishes, those not given (or null) with their defaults. Raises KeyError for a name that is no wish."""
    wishes: dict[str, Any] = {wish.name: wish.default for wish in WISHES}
    for name, value in given.items():
        if name not in wishes:
            raise KeyError(name)
        if value is not None:
            wishes[name] = boolean(value) if name in _BOOLEANS else value
    return wishes


def boolean(value: Any) -> Any:
    """Return the boolean that a word stands for, and any other value as it is."""
    return BOOLEANS.get(value.lower(), value) if isinstance(value, str) else value

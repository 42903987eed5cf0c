# Copyright (c) 2026 The gpulab founders
# GNU General Public License v3.0+ (see https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Refusals about the plan."""

from __future__ import annotations

from functools import partial

from ansible_collections.gpulab.node.plugins.module_utils.core.refusal import build

CODES = {
    # P001 to P049: GPUs, kernels, driver, CUDA and environments
    "P001": ("gpulab does not support {system}", "Use one of: {supported}, on x86_64 or aarch64."),
    "P002": (
        "no NVIDIA GPU is on the PCI bus of this node",
        "Check the GPU's seating and power, and lspci -d 10de:. To build an image, set gpulab_without_gpu: true.",
    ),
    "P003": (
        "the GPU {pci_id} is unknown to the catalog, as is the range of its PCI id",
        "Update gpulab, or add the GPU to catalog/gpus.yml with its source.",
    ),
    "P004": (
        "no driver supports both {one} and {other} of this node ({why})",
        "Move one of the two GPUs to another node.",
    ),
    "P005": (
        "the running kernel {kernel} has neither headers nor modules on this node",
        "Install {package}, or boot an installed kernel.",
    ),
    "P006": (
        "no kernel is installed here; the running one ({running}) belongs to the container's host",
        "Set nvidia_driver_kernels to the kernels to build for.",
    ),
    "P007": (
        "driver branch {branch} is unknown to the catalog",
        "Use one of: {known}. Or leave nvidia_driver_branch unset.",
    ),
    "P008": ("driver branch {branch} is out of support: {state}", '{way}: gpulab_allow_branches: ["{branch}"].'),
    "P009": ("source {source} has no driver packages for {system}", "Set {way}."),
    "P010": (
        "driver {branch} does not support {gpu}",
        "This GPU needs {demand}. Leave nvidia_driver_branch and nvidia_driver_version unset.",
    ),
    "P011": (
        "the {requested} kernel modules do not support {gpu}",
        "Set nvidia_driver_kernel_modules to {right}, or leave it unset.",
    ),
    "P012": (
        "driver branch {branch} has no {flavour} kernel modules",
        "It has {has} modules. Change nvidia_driver_kernel_modules or nvidia_driver_branch.",
    ),
    "P013": ("{source} has no driver branch {branch}", "It has {carried}. {way}."),
    "P014": ("no driver branch of {source} supports {gpu}, which needs {demand}", "{way}."),
    "P015": (
        "driver version {version} is not of branch {branch}, but both are requested",
        "Remove nvidia_driver_branch, or make the two agree.",
    ),
    "P016": ("the {driver} modules do not build for kernel {kernel}: {title} ({symptom})", "{way}."),
    "P017": (
        "driver {version} is below the security floor {floor} (NVIDIA bulletin {bulletin})",
        'Use {floor} or newer, or allow this branch: gpulab_allow_branches: ["{branch}"].',
    ),
    "P018": (
        "Secure Boot is on, but the DKMS signing key is not enrolled, so the kernel module would not load",
        (
            "Set secure_boot_mok_password, and gpulab prepares the enrolment{way}. To enrol by hand, as root: if"
            " /var/lib/dkms/mok.pub is missing, create the key (openssl req -new -x509 -newkey rsa:2048 -nodes -days"
            " 36500 -subj '/CN=DKMS module signing key/' -keyout /var/lib/dkms/mok.key -outform DER -out"
            " /var/lib/dkms/mok.pub). Run mokutil --import /var/lib/dkms/mok.pub and choose a password for one use."
            " Reboot. At the console choose Enroll MOK, Continue, Yes, type the password, choose Reboot. Then run"
            " again."
        ),
    ),
    "P019": (
        "a .run driver cannot be installed beside driver packages ({packages})",
        "Keep the packages ({way}), or remove them first.",
    ),
    "P020": (
        "a driver from a .run file ({version}) is installed, and packages do not replace its files",
        "Run nvidia-uninstall on the node first.{keep}",
    ),
    "P021": ("{variable} holds an outdated recipe, '{text}': {wrong}", "Instead: {right}."),
    "P022": ("CUDA toolkit {version} is unknown to the catalog", "Use one of: {known}."),
    "P023": (
        "CUDA {version} needs driver {floor} or newer, but the plan has {driver}",
        "Use an older CUDA, or a newer driver: nvidia_driver_source: nvidia.{way}",
    ),
    "P024": ("nvcc of CUDA {version} does not compile for {gpu}", "{way}."),
    "P025": ("{source} has no CUDA {version}", "{way}."),
    "P026": ("cuda_default {default} is not among cuda_toolkits ({toolkits})", "Add it there, or remove cuda_default."),
    "P027": (
        "{library} {version} is requested, but no CUDA toolkit that it works with",
        'Request one: cuda_toolkits: ["{example}"].',
    ),
    "P028": ("{library} {version} is unknown to the catalog", "Use a version from {first} to {last}."),
    "P029": ("{library} {version} does not support {target}", "Use {right}."),
    "P030": (
        "container toolkit {version} is below the security floor {floor} ({cves})",
        "Remove container_toolkit_version, or use {floor} or newer.",
    ),
    "P031": (
        (
            "the node has NVSwitches, but the driver source {source} of {system} has no Fabric Manager of the same"
            " version"
        ),
        "{way}.",
    ),
    "P032": (
        "environment {name} requests {named}, but must request one of pytorch, tensorflow and jax, or packages alone",
        "Request at most one in each environment. Their cuDNN and NCCL versions conflict.",
    ),
    "P033": ("environment {name}: {framework} {version} is unknown to the catalog", "Use one of: {known}."),
    "P034": ("environment {name}: {release} has no build {index}", "Remove index, or use one of: {right}."),
    "P035": ("environment {name}: no build of {release} runs on this node ({why})", "Use {right}."),
    "P036": ("environment {name}: {release} has no wheel for Python {python}", "Use Python {right}, or remove python."),
    "P037": ("the preview cannot be written to {path}: {detail}", "Use another file: -e plan_json=FILE."),
    "P038": (
        "packages of another driver conflict with branch {branch} from {source}: {names}",
        (
            "Set nvidia_driver_remove_conflicting: true, and gpulab removes only these packages{keep}. Nothing was"
            " changed."
        ),
    ),
    "P039": (
        "the CUDA toolkit of {system} brings its own libcuda, but the driver is planned from {source}",
        "Set cuda_source: nvidia{way}.",
    ),
    "P040": (
        "{library} {version} is requested, but {system} has no version for its own CUDA toolkit",
        "Set cuda_source: nvidia, or remove {library}_version. Frameworks bring their own copy.",
    ),
    "P041": ("{system} has no CUDA toolkit that gpulab supports", "Set cuda_source: nvidia."),
    "P042": (
        "{what} is requested on {system}, but gpulab installs it with APT only",
        "Use Debian or Ubuntu, or remove the request there. Nothing was changed.",
    ),
    "P043": (
        "the SHA-256 of the driver's .run file {url} is unknown",
        "Set nvidia_driver_runfile_sha256 from a source that you trust, and nvidia_driver_version with it.",
    ),
    "P044": (
        "nvcc of CUDA {version} supports GCC up to {newest}, but {system} has only GCC {has}",
        "{way}. Or compile in a container or a conda environment. Nothing was changed.",
    ),
    "P046": (
        "{variable} cannot be typed at the console of every node",
        "Use 8 to 256 ASCII letters, digits and punctuation marks, without spaces. The password is used once.",
    ),
    "P047": (
        "Secure Boot is on, and the DKMS signing key {waits} to be enrolled at the node's console",
        (
            "{first}Reboot the node, and at its console press a key within 10 seconds. Choose Enroll MOK, Continue,"
            " Yes, type the password, choose Reboot. Then run again. If you miss the prompt, the request expires; run"
            " with secure_boot_mok_password to repeat it."
        ),
    ),
    "P048": (
        "driver {version} is requested, but {source} has only one version of branch {branch}",
        "Remove nvidia_driver_version, or use another nvidia_driver_source. Nothing was changed.",
    ),
    # P050 to P053: settings of kernel and NCCL, with P075 and P076; P054 to P056 are with the settings of GPUs
    "P050": (
        "tuning_overrides has {name}, which gpulab does not tune",
        "Use a sysctl such as vm.swappiness, or one of: {known}.",
    ),
    "P051": ("{variable} has {value} for {name}", "Use a number or one line of text, or null to leave it alone."),
    "P052": (
        "nccl_interface is {name}, but this node has no such interface",
        "Leave it unset, or use one of: {known}.",
    ),
    "P053": ("nccl_overrides has {name}, which is not a setting of NCCL", "Use names such as NCCL_DEBUG."),
    # P057 to P060: nvidia_driver_imex_nodes, with P096
    "P057": (
        "nvidia_driver_imex_nodes has {address}, which other nodes cannot reach",
        "Use IP addresses, one of each node of the NVLink domain.",
    ),
    "P058": (
        "nvidia_driver_imex_nodes has no address of this node ({nodes})",
        "Use the same list on every node of the NVLink domain, with one address of each. This node has {own}.",
    ),
    "P059": (
        "gpulab did not write /etc/nvidia-imex/nodes_config.cfg, and it lists other nodes than requested ({nodes})",
        (
            "Request those nodes. Or remove nvidia_driver_imex_nodes if something else manages the file, such as"
            " Slurm's prolog. Or move the file away."
        ),
    ),
    "P060": (
        "{boards}: the driver source {source} of {system} has no known nvidia-imex of the same version",
        "Remove nvidia_driver_imex_nodes{way}.",
    ),
    # P070 to P079: monitoring, sets of packages, cuda-compat and Docker
    "P070": (
        "/etc/default/prometheus-node-exporter has {settings}, which conflicts with monitoring_state: present",
        (
            "Remove it from the file, or remove monitoring_state. gpulab does not overwrite settings that it did"
            " not write."
        ),
    ),
    "P071": (
        "monitoring_listen_address is {address}, but this node does not have that address",
        "Use one of: {known}. Or leave it unset.",
    ),
    "P072": (
        "monitoring_gpus is dcgm, but {reason}",
        "Remove monitoring_gpus. gpulab's own collector supports every board through NVML. Nothing was changed.",
    ),
    "P073": ("environment {name}: {set} is an unknown package set", "Use one of: {known}."),
    "P074": (
        "environment {name}: the set {set} is for {needed}, but its framework is {framework}",
        "Remove the set, or list its packages under packages.",
    ),
    "P075": ("tuning_overrides has {value} for the service {name}", "Use {allowed}, or null to leave it alone."),
    "P076": (
        "nccl_tests_url requests nccl-tests, but {reason}",
        "Set nccl_tests_sha256, and nccl_version beside the CUDA toolkit to build with. Or remove nccl_tests_url.",
    ),
    "P077": (
        (
            "cuda_compat requests cuda-compat of CUDA {version}, which driver {driver} does not fully support, but"
            " {reason}"
        ),
        "Use driver {paired} or newer, or an older CUDA{way}. Nothing was changed.",
    ),
    "P078": (
        "Docker from docker.com is requested, but conflicts with {rivals} on the node",
        "Remove them if nothing needs them, or remove docker from container_toolkit_engines. Nothing was changed.",
    ),
    # P080 to P084: GPUs that this node cannot use
    "P080": (
        "every NVIDIA GPU of this node is assigned to virtual machines: {gpus}",
        (
            "Remove the node from the group gpu-nodes. To use a GPU on the node itself, detach it from the virtual"
            " machine and from {drivers} (modprobe.d, kernel arguments, driverctl), and run again. Nothing was"
            " changed."
        ),
    ),
    "P081": (
        "GPU {gpus} is a virtual GPU (vGPU), which needs NVIDIA's GRID driver of the hypervisor's branch",
        (
            "Remove the node from the group gpu-nodes, and use the GRID driver that the operator of the hypervisor"
            " or cloud provides. Nothing was changed."
        ),
    ),
    "P082": (
        "this node has no NVIDIA GPU on its PCI bus; its GPUs are: {gpus}",
        (
            "Remove the node from the group gpu-nodes: gpulab sets up NVIDIA GPUs only. If an NVIDIA GPU is plugged in,"
            " check its seating and power. To build an image, set gpulab_without_gpu: true."
        ),
    ),
    # P085 to P089: the driver that the node has
    "P085": (
        "a hold on the driver ({names}), which gpulab did not set, blocks the planned change: {change}",
        (
            "To allow the change, release the hold on the node (apt-mark unhold, or dnf versionlock delete){keep}."
            " Nothing was changed."
        ),
    ),
    "P086": (
        "a container of NVIDIA's GPU Operator has loaded the driver of this node (/run/nvidia/driver)",
        (
            "Set driver.enabled=false in the operator's ClusterPolicy, wait until the pod of the driver has ended here,"
            " reboot the idle node, and run again. Or leave the driver to the operator, and remove the node from the"
            " group gpu-nodes. Nothing was changed."
        ),
    ),
    # P090 to P099: versions newer than the catalog, and settings that the node's hardware does not have
    "P090": (
        "driver branch {branch} is newer than the catalog, which ends at {newest}",
        (
            "Update gpulab. Or set gpulab_trust_newer: true, and gpulab treats it like {newest}. Or choose another"
            ' branch: nvidia_driver_branch: "{other}". Nothing was changed.'
        ),
    ),
    "P091": (
        "{what} {version} is newer than the catalog, which ends at {newest}",
        (
            "Update gpulab. Or set gpulab_trust_newer: true, and gpulab treats it like {newest}. Or {way}. Nothing"
            " was changed."
        ),
    ),
    "P092": (
        "the catalog has no release of driver branch {branch}",
        "Request a published release in nvidia_driver_version, with all its numbers{way}. Nothing was changed.",
    ),
    "P093": (
        "{name} is set for {gpu}, but this board has no {name}",
        (
            "Remove it from gpu_settings_values, or exclude this GPU: gpu_settings_per_gpu: {{{index}: {{{setting}:"
            " null}}}}. Nothing was changed."
        ),
    ),
    "P094": (
        "{gpu} has no MIG profile {profiles}",
        "Correct mig_instances. The profiles of this board are: {known}. Nothing was changed.",
    ),
    "P095": (
        "power_limit_watts is {watts} for {gpu}, but the limit of this board is {power} W",
        "Set a limit of {power} W or less. Nothing was changed.",
    ),
    "P096": (
        "nvidia_driver_imex_nodes is set, but no GPU of this node is in an NVLink domain of several nodes: {gpus}",
        "Set it only for the nodes of a GB200 or GB300 rack. Nothing was changed.",
    ),
    "P097": (
        "nothing has kept what the tasks of this run would change, so there is no preview",
        "Run gpulab.node.plan in a command of its own, or set callbacks_enabled = gpulab.node.preview in ansible.cfg.",
    ),
    "P098": ("environment {name}: the set {set} cannot be installed: {why}", "{way}. Nothing was changed."),
    "P099": (
        "{library} {version} is requested, but the wheels of cuda_source: pypi bring a compiler and no such libraries",
        "Set cuda_source: nvidia, or remove {library}_version. Frameworks bring their own copy.",
    ),
    # P106: names of tuning_overrides, beside P050, P051 and P055
    "P106": ("tuning_overrides has {name}, which {why}", "{advice}"),
    "P117": (
        "this host lends GPUs to virtual machines by NVIDIA's vGPU manager ({lent}), and a node has one NVIDIA driver",
        (
            "Remove the node from the group gpu-nodes. A driver with CUDA in place of the vGPU manager would end the"
            " virtual machines. Use its GPUs in a virtual machine. Nothing was changed."
        ),
    ),
    "P127": (
        (
            "Docker on this node reads its settings from {file} and not from {path}{whose}, so gpulab cannot give it"
            " the GPUs"
        ),
        (
            "Save what its images and volumes hold, remove it (snap remove docker, or the --config-file of its unit),"
            " and run again: gpulab installs a Docker of packages. Or leave docker out of container_toolkit_engines."
        ),
    ),
}
refuse = partial(build, CODES)

# Copyright (c) 2026 The gpulab founders
# GNU General Public License v3.0+ (see https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Refusals about how a node is reached, reboots, and the node before the first change."""

from __future__ import annotations

from functools import partial

from ansible_collections.gpulab.node.plugins.module_utils.core.refusal import build

CODES = {
    # H001 to H016: how a node is reached
    "H001": ("{host} is unreachable: {detail}", "Check its address, power and SSH: ssh {login}; then run again."),
    "H002": (
        "{host} has no Python that Ansible can run: {detail}",
        "If ansible_python_interpreter is set, correct or remove it. Else install python3 there, 3.9 or later.",
    ),
    "H003": (
        "sudo on {host} asks for a password: {detail}",
        "Run with --ask-become-pass, or allow sudo without a password there.",
    ),
    "H004": (
        "sudo on {host} refused the command: {detail}",
        "Check the password. Check that this user may run sudo there.",
    ),
    "H005": ("{host} rejects this user's login: {detail}", "Check ansible_user and the key: ssh-copy-id {login}."),
    "H006": (
        "the SSH host key of {host} is unknown or has changed: {detail}",
        (
            "If the node was reinstalled, remove its old key (ssh-keygen -R {known_host}). Then run ssh {login} and"
            " compare the new key."
        ),
    ),
    "H007": ("the name {host} cannot be resolved: {detail}", "Set ansible_host to its address in the inventory."),
    "H008": ("{host} has no space left: {detail}", "Free space there (df -h), also in /tmp; then run again."),
    "H009": (
        "the Python of {host} is too old: {detail}",
        "Install Python 3.9 or later.",
    ),
    "H010": ("a file system of {host} is read-only: {detail}", "Look for disk errors there (dmesg), then remount it."),
    "H012": (
        "Ansible cannot create a temporary directory on {host}: {detail}",
        "Check that the node is up and that this user can write there. Or set ansible_remote_tmp to /tmp/.ansible.",
    ),
    "H013": ("{host} has no sudo: {detail}", "Install sudo there, or connect as root (ansible_user: root)."),
    "H014": (
        "the Python that Ansible found on {host} is a version manager's shim and does not start: {detail}",
        "Set the system's own Python in the inventory: ansible_python_interpreter: /usr/bin/python3.",
    ),
    "H015": (
        "sudo on {host} requires a terminal (requiretty): {detail}",
        "Remove requiretty from sudoers there (visudo), or set ansible_pipelining: false for this host.",
    ),
    "H016": (
        "the Python of {host} is damaged: {detail}",
        (
            "Reinstall it (apt-get install --reinstall python3-minimal libpython3-stdlib; dnf reinstall python3"
            " python3-libs), or set ansible_python_interpreter to a working one."
        ),
    ),
    "H017": (
        "the Python of {host} was killed in the middle of its work: {detail}",
        "Look whether the node ran out of memory (dmesg, journalctl --dmesg). Free some; then run again.",
    ),
    # H030 to H032: reboots
    "H030": (
        "{host} needs a reboot but is in use ({who}): {reasons}",
        "Wait until it is idle and run again, or force the reboot: -e reboot_force={host}",
    ),
    "H031": ("{host} needs a reboot: {reasons}", "Reboot it, or let gpulab do it: -e reboot_policy=if_idle"),
    "H032": (
        "{host} was rebooted and still needs a reboot: {reasons}",
        "Look at its kernel log (journalctl -k -b); gpulab does not reboot a node twice in one run.",
    ),
    # H070 to H097: the node before the first change
    "H070": (
        "{gib} GiB of memory on {gpus}; {wanted} GiB are advised",
        (
            "Use the node for small models, or install a larger GPU. preflight_vram_min_gib and _advised_gib set"
            " the bounds."
        ),
    ),
    "H071": (
        "{cores} CPU cores; {wanted} are advised to feed a GPU",
        "Add cores, or expect slow data loading. preflight_cpu_cores_min sets the bound.",
    ),
    "H072": (
        "{gib} GiB of memory; {factor} times the {gpus} GiB of the GPUs are advised",
        "Add memory. preflight_memory_factor_min and _advised set the bounds.",
    ),
    "H073": (
        "the system disk ({source}) is not NVMe",
        "Move the system to an NVMe disk, or expect slow starts and installations.",
    ),
    "H074": ("{mount} ({source}) is on a hard disk", "Keep datasets on SSD or NVMe: training waits for a slow disk."),
    "H075": ("nothing is mounted at {mount}", "Mount it, or correct preflight_dataset_mounts."),
    "H076": (
        "the PCI Express link of {gpus} has width x{width}; x{wanted} is advised",
        "Check the card's seating and its slot. preflight_pcie_width_min sets the bound.",
    ),
    "H077": (
        (
            "GPUs and CPUs may draw {drawn} W, or {need} W with a reserve of {headroom} %, but the power supply has"
            " {supply} W"
        ),
        (
            "Set power_limit_watts in gpu_settings_values, or use a larger power supply. preflight_psu_watts"
            " declares its watts."
        ),
    ),
    "H078": (
        "the power budget cannot be calculated: the power limit of {gpus} is unknown",
        "Install and load the driver; it reports the limit.",
    ),
    "H079": (
        "the clock is not synchronised",
        "Enable systemd-timesyncd or chrony. Certificates and APT rely on the clock.",
    ),
    "H080": (
        "the file system {mount} does not answer",
        "Look for disk errors (dmesg) or an unreachable network mount.",
    ),
    "H081": ("the file system {mount} is read-only", "Look for disk errors (dmesg), then remount it."),
    "H082": ("{mount} has {free} MiB free, but the plan needs {need} MiB", "Free space there, or enlarge it."),
    "H083": (
        "{mount} has {free} inodes free, but {need} are required",
        "Remove small files there (df -i). preflight_free_inodes_min sets the bound.",
    ),
    "H084": (
        "this is a Jetson ({kernel}); its driver is part of its system image",
        "Remove it from gpu-nodes. NVIDIA JetPack maintains its driver.",
    ),
    "H085": (
        "this is Windows Subsystem for Linux ({kernel}); it uses the driver of Windows",
        "Remove it from gpu-nodes. Install the driver in Windows only.",
    ),
    "H086": (
        (
            "a desktop runs here ({who}), but gpulab installs the driver for computing only: NVIDIA GPUs will show"
            " no display"
        ),
        "Leave nvidia_driver_display at auto, or connect the monitor to another adapter.",
    ),
    "H087": (
        "{gib} GiB of memory; {wanted} GiB are advised",
        "Add memory. preflight_memory_min_gib and _advised_gib set the bounds.",
    ),
    "H088": (
        "the memory does not correct errors (it has no ECC)",
        "Use a board, a processor and modules with ECC where jobs run for days, or set preflight_memory_ecc: false.",
    ),
    "H089": (
        "the memory ({kind} in {slots}) runs at {mts} MT/s; {wanted} MT/s are advised",
        "Use faster modules. preflight_memory_ddr4_advised_mts and _ddr5_advised_mts set the bounds.",
    ),
    "H090": (
        "the memory in {slots} runs at {mts} MT/s, but is made for {rated} MT/s",
        (
            "Turn the memory's profile (XMP, EXPO) on in the firmware, and use no more modules per channel than the"
            " board allows at that speed."
        ),
    ),
    "H091": (
        "{mib} MiB of L3 cache; {wanted} MiB are advised",
        "Use a processor with a larger cache. preflight_l3_min_mib sets the bound.",
    ),
    "H092": (
        "the processors reach {mhz} MHz; {wanted} MHz are advised",
        "Use a processor with a higher clock. preflight_cpu_min_mhz sets the bound.",
    ),
    "H093": (
        "the boost of the processors is off, so they stay at {mhz} MHz",
        (
            "Turn it on in the firmware, or run: echo 1 > /sys/devices/system/cpu/cpufreq/boost (with intel_pstate:"
            " echo 0 > /sys/devices/system/cpu/intel_pstate/no_turbo)."
        ),
    ),
    "H094": (
        "the slots in use have {lanes} lanes of PCI Express 4.0 or later; {wanted} are advised",
        "Use a board and a processor with more lanes. preflight_pcie4_lanes_advised sets the bound.",
    ),
    "H095": (
        "{what} has {gb} GB; {wanted} GB are advised",
        "Use a larger disk. preflight_system_disk_min_gb and preflight_dataset_advised_gb set the bounds.",
    ),
    "H096": (
        "the PCI Express link of disk {disk} ({model}) runs at {now}; disk and slot have {wanted}",
        "Reseat the disk, clean its contacts, or try another slot.",
    ),
    "H097": (
        "the MTU of {name} ({gbps} Gb/s) is {mtu}; {wanted} is advised",
        (
            "Set the MTU on all nodes, and on every switch between them, in one go: where it differs, connections hang."
            " preflight_mtu_advised sets the bound."
        ),
    ),
    # H200 to H209: what keeps the driver's modules from being loaded
    "H200": (
        "the module {module} of the NVIDIA driver cannot be loaded on this node: {by} has {line}",
        "{way}. Then run again. Nothing was changed.",
    ),
    "H201": (
        (
            "{by} has {line}, and this node loads the NVIDIA driver at boot only if something requests its module"
            " by name"
        ),
        "{way}.",
    ),
}
refuse = partial(build, CODES)

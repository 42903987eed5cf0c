# Copyright (c) 2026 The gpulab founders
# GNU General Public License v3.0+ (see https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Every way in which gpulab says no: a stable code, one line of cause, one line of remedy.

The codes live in this file and nowhere else. A code is never given another meaning.
Families: H host and connection, I inventory and input, P plan, D driver, C CUDA, E Python environment, S long steps and
runs, V proof, R rebuild, G diagnosis, F fleet. They stand in this order, and each in the order of its numbers.
"""

from __future__ import annotations

from dataclasses import dataclass

from ansible_collections.gpulab.node.plugins.module_utils.core.shown import for_people

# code: (cause, remedy), both str.format templates over the values given to refuse()
CODES = {
    # H001 to H016: how a node is reached
    "H001": ("{host} is unreachable: {detail}", "Check its address, power and SSH: ssh {login}; then run again."),
    "H002": ("{host} has no Python that Ansible can run: {detail}", "Install Python 3.9 or later there: python3."),
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
    "H011": ("this task needs root on the node, but runs there as {user}", "Set become: true, or connect as root."),
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
    # H020: files that gpulab did not write
    "H020": (
        "{path} exists, but gpulab did not write it",
        "Copy the settings that you need into your inventory. Then move the file away.",
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
    # H040 to H059: packages, with H211 to H217; line is the essential line of what the package manager printed
    "H040": (
        "the package system is locked by another process: {line}",
        "Wait for that process to end, or stop it. Then run again.",
    ),
    "H041": (
        "a package server cannot be reached: {line}",
        (
            "Check the node's network, DNS and proxy, and the address in its package sources. If a certificate is not"
            " trusted, add its authority to base_ca_certificates. Then run again."
        ),
    ),
    "H042": (
        "a package server does not have a file that its lists name: {line}",
        (
            "gpulab refreshed the lists and tried once more, unless this was the refresh. If it stays so, correct the"
            " package source named in the message, or use another mirror."
        ),
    ),
    "H043": (
        "a download was damaged: {line}",
        (
            "Run again in a few minutes. If the error remains, a proxy or mirror in between serves stale or altered"
            " files."
        ),
    ),
    "H044": (
        "a package source is not signed by a key that this node trusts: {line}",
        "{way}.",
    ),
    "H045": (
        "the signature of a package source is not valid at the node's current time: {line}",
        "{way}.",
    ),
    "H046": ("the node ran out of space: {line}", "Free space on that file system (df -h), then run again."),
    "H047": (
        "an earlier installation was cut off: {line}",
        "Run dpkg --configure -a on the node. Remove a package that fails again (apt-get remove NAME). Then run again.",
    ),
    "H048": (
        "the packages conflict with each other: {line}",
        (
            "Release holds (apt-mark showhold, dnf versionlock list), or remove the conflicting package. The full"
            " output is in {log}."
        ),
    ),
    "H049": (
        "a package is not in the lists of this node: {line}",
        (
            "Check its name and version, that the component or repository that has it is enabled, and that no pin keeps"
            " it away (apt-cache policy NAME, /etc/apt/preferences.d)."
        ),
    ),
    "H050": (
        "{mount} has {free} MiB free, but the packages need {need} MiB",
        "Free space there, or enlarge it. Then run again. Nothing was changed.",
    ),
    "H051": (
        "the installation would remove packages whose removal was not requested: {names}",
        (
            "If nothing needs them, remove them on the node (apt-get remove, dnf remove) and run again. If not,"
            " request the version of the driver or library that they need. Nothing was changed."
        ),
    ),
    "H052": ("a package's installation script failed: {line}", "Read {log} on the node."),
    "H053": (
        "the package manager succeeded, but these packages are not as requested: {names}",
        "Read {log} on the node. Packages with other names may have been installed instead.",
    ),
    "H054": (
        "the package system has been locked for {seconds} s: {holder}",
        "Wait for that process to end, or stop it. Then run again.",
    ),
    "H055": ("this node has neither apt nor dnf", "Use a supported system; the README lists them."),
    "H056": (
        "the installation would change packages that are on hold: {names}",
        (
            "To allow the change, release the holds on the node (apt-mark unhold, dnf versionlock delete). Nothing"
            " was changed."
        ),
    ),
    "H057": (
        "a requested package is on hold: {line}",
        ("To allow the change, release the hold on the node: apt-mark unhold NAME. apt-mark showhold lists all holds."),
    ),
    "H058": (
        "the installation would change the version of packages that are to stay ({names}): {change}",
        (
            "No package source has the others in the installed version any more. To bring the driver to its newest"
            " version while the GPUs are idle, set nvidia_driver_upgrade: true. Nothing was changed."
        ),
    ),
    "H059": ("the package manager failed: {line}", "Read {log} on the node."),
    # H060 to H064: a vendor's package repository, with H210
    "H060": (
        "the key of {origin} {found}, but the pinned key is {pinned}",
        "Ask the vendor which key is right before you change the pinned fingerprint. Nothing was written.",
    ),
    "H061": (
        "the key of the repository {name} cannot be fetched: {url}: {detail}",
        "Check the node's network and APT's proxy, or provide the key as a file. Nothing was written.",
    ),
    "H062": (
        "{file} already declares {url}, signed by {found} instead of the pinned key {pinned}",
        (
            "If nothing else needs that file, remove it or the package that installed it. gpulab then configures"
            " the repository itself."
        ),
    ),
    "H063": (
        (
            "{host} serves both the repository {name} and the distribution's archive ({other} in {file}), and APT"
            " cannot tell them apart"
        ),
        "Give the mirror of {name} its own host name. An alias in DNS is enough.",
    ),
    "H064": (
        "no fingerprint is known for the key that signs {url}",
        (
            "Compare the key ({key_url}) with a second source of the vendor. Then set"
            " gpulab_nvidia_repository_fingerprint. Nothing was changed."
        ),
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
    # H098 to H102: swap
    "H098": (
        "{place} holds {found}, so no swap is made there",
        (
            "Let tuning_swap name a file that does not exist yet, in a directory that does, or a partition by a name"
            " that lasts, which is blank or swap already. Nothing was changed."
        ),
    ),
    "H099": (
        "{mount} has {free} MiB free, but a swap file of {mib} MiB needs {need} MiB",
        "Let tuning_swap name a place on another file system, or set tuning_overrides: {{swap_gib: SIZE}}.",
    ),
    "H100": (
        "{place} is on a file system of type {type}, but swap files are made on {allowed} only",
        "Let tuning_swap name a place on another file system, or a partition.",
    ),
    "H101": (
        "{used} MiB are in the swap {place}, but only {free} MiB of memory are free",
        "Wait for the programs that use the memory, or stop them. The swap stays on until the next run.",
    ),
    "H102": ("{command} failed: {detail}", "Read the message. A swap file that was begun has been removed."),
    # H110 to H118: container engines, with H190 and H191
    "H110": ("{path} is not valid: {detail}", "Correct the file. Nothing was changed."),
    "H111": (
        "{path} has {settings}, but {wanted} is required",
        "Change the setting there, or remove the request. gpulab does not overwrite settings that it did not write.",
    ),
    "H112": (
        "Docker must restart to apply its new settings, which would stop containers: {containers}",
        "Stop them and run again, or force the restart: -e container_toolkit_restart_force={host}",
    ),
    "H113": (
        "Docker's data directory would change from {old} to {new}, but {old} holds {held}",
        (
            "Copy the data by hand, or set container_toolkit_docker_leave_data: true to leave it behind. gpulab"
            " neither moves nor deletes it."
        ),
    ),
    "H114": ("Docker does not accept its new settings: {detail}", "Correct the settings. Nothing was changed."),
    "H115": (
        "Docker did not start with its new settings: {detail}. The former settings are restored, and Docker {state}",
        "Correct the settings. For details, run journalctl -u docker on the node.",
    ),
    "H116": (
        "the CDI specification of the GPUs could not be generated: {detail}",
        "Read journalctl -u nvidia-cdi-refresh on the node. Then run again.",
    ),
    "H117": (
        "the container toolkit's packages would change while containers use a GPU: {containers}",
        "Stop them and run again, or force the change: -e container_toolkit_restart_force={host}",
    ),
    "H118": (
        "user {user} does not exist on this node and cannot be added to {group}",
        "Correct the name, or create the user first.",
    ),
    # H120 to H129: settings of GPUs; before the driver is installed, P093 to P095
    "H120": (
        "gpu_settings_per_gpu names {name}, but this node has no such GPU",
        "Use a GPU's UUID, bus id or index: {known}. Nothing was changed.",
    ),
    "H121": (
        "the power supply leaves {budget} W for the GPUs, {watts} W for GPU {gpu}, which needs at least {low} W",
        (
            "Use a larger power supply or fewer GPUs, or set the limits yourself: gpu_settings_per_gpu. Nothing was"
            " changed."
        ),
    ),
    "H122": (
        "GPU {gpu} does not support {name} (NVML: {error})",
        (
            "Remove it from gpu_settings_values, or set it to null for this GPU in gpu_settings_per_gpu. Nothing"
            " was changed."
        ),
    ),
    "H123": (
        "{name} of GPU {gpu} is set to {value}, but its range is {low} to {high} {unit}",
        "Choose a value in that range. Nothing was changed.",
    ),
    "H124": (
        "the settings of the GPUs cannot be read: {detail}",
        (
            "Install and load the driver (ansible-playbook gpulab.node.provision), or remove the settings. Nothing"
            " was changed."
        ),
    ),
    "H125": ("GPU {gpu} rejected {name} = {value} ({why})", "{way}."),
    "H126": (
        "{names} would change on {host}, but its GPUs are {state} ({who})",
        "Wait until they are idle and run again. Nothing was changed.",
    ),
    "H127": ("GPU {gpu} cannot be divided into the MIG instances {instances}: {why}", "Use its profiles: {known}."),
    # H130 to H139: monitoring
    "H130": (
        "setting up monitoring needs a systemd reload, which can detach GPUs from running containers: {who}",
        "Run again when the GPUs are idle, or force the reload: -e monitoring_restart_force={host}",
    ),
    # H140 to H149: the network between nodes
    "H140": (
        "/etc/hosts maps {name} to {told}, but the inventory to {address}",
        "Correct that line, or set network_address of {name}. Nothing was changed.",
    ),
    "H141": (
        "the inventory gives {host} the address {address}, but the node has {known}",
        "Set network_address of {host} to the address at which its peers reach it. Nothing was changed.",
    ),
    "H142": (
        "the firewall would close port {ports} of {host}, where SSH may listen",
        "Move SSH to a port outside {closed}, or remove network_firewall. Nothing was changed.",
    ),
    "H143": (
        "network_firewall is nftables, but {firewall} is already active on {host}",
        "Remove network_firewall. gpulab then adds the peers to {firewall}. Nothing was changed.",
    ),
    "H148": (
        "{host} calls itself {hostname}: {why}",
        (
            "Give it the name that the inventory has (hostnamectl set-hostname {name}). Or list {hostname} in"
            " gpulab_host_names of {host} alone, if it shall be called so."
        ),
    ),
    "H149": (
        "the inventory calls both {host} and {other} {name}",
        "Correct gpulab_host_names of one of them. Nothing was changed.",
    ),
    # H150 to H169: storage; nothing was changed when one of these is raised, but for H162
    "H150": ("the storage tier {tier} {wrong}", "Correct the tier in storage_tiers. Nothing was changed."),
    "H151": (
        "the storage tier {tier} names {device}, which may be another disk after the next boot",
        "Use a stable path of it, now: {names}. Nothing was changed.",
    ),
    "H152": (
        "the storage tier {tier} names {device}, but this node has no such disk",
        ("Check the disk and its name (lsblk --output NAME,SERIAL,SIZE). The disks are: {known}. Nothing was changed."),
    ),
    "H153": (
        "the storage tier {tier} names {device}, which matches several disks: {found}",
        "Use the path of the right one in /dev/disk/by-id. Nothing was changed.",
    ),
    "H154": (
        "the storage tier {tier} needs {device} to be blank, but it is not: {found}",
        (
            "To keep its data, name its filesystem (UUID=...), its volume or all disks of its array. To lose the"
            " data, create a filesystem on {path} by hand; gpulab never does. Nothing was changed."
        ),
    ),
    "H155": (
        "{device} has no filesystem, and the storage tier {tier} does not allow gpulab to create one",
        "If these are the right disks, set format: true for the tier. Nothing was changed.",
    ),
    "H156": (
        "{device} has the filesystem {found}, but the storage tier {tier} requests {wanted}",
        "Correct filesystem in the tier. gpulab never replaces a filesystem. Nothing was changed.",
    ),
    "H157": (
        "{device} of the storage tier {tier} is in use elsewhere: {by}",
        "Unmount it, or stop what uses it; or name the array or volume that is built on it. Nothing was changed.",
    ),
    "H158": (
        "the storage tier {tier} is for datasets and has several disks without an array: {devices}",
        (
            "gpulab creates RAID 0 for scratch only, because RAID 0 has no redundancy. Create a redundant array or"
            " volume by hand, and name its filesystem. Nothing was changed."
        ),
    ),
    "H159": (
        "{mount}, the mount point of the storage tier {tier}, {wrong}",
        "Clear the directory. Nothing was changed.",
    ),
    "H160": (
        "{file} already has an entry for {mount}: {line}",
        "Remove that entry, and gpulab writes its own; or remove the tier. Nothing was changed.",
    ),
    "H161": (
        "{mount} is to be unmounted, but is in use by {users}",
        "Wait for them to end, or stop them. Then run again. Nothing was changed.",
    ),
    "H162": (
        "the storage tiers could not be set up: {detail}",
        "Read dmesg, and check the devices named. Changes made before the error remain. Then run again.",
    ),
    "H164": (
        "the disks of the storage tier {tier} do not belong to one array: {found}",
        "Name all disks of one array, or blank disks only. Nothing was changed.",
    ),
    "H165": (
        "the storage tiers {one} and {other} share {device}",
        "Use each device in one tier only. Nothing was changed.",
    ),
    "H166": (
        "export_to of the storage tier {tier} is {client}, which allows every machine that reaches this node",
        "Name hosts or networks. To allow every machine, set export_to_everybody for the tier. Nothing was changed.",
    ),
    "H167": (
        "the storage tier {tier} cannot be exported: {wrong}",
        "Remove export_to from the tier, or export it from another machine. Nothing was changed.",
    ),
    "H168": (
        "{file} already exports {path} to {client}, as the storage tier {tier} requests",
        "Remove that line, and gpulab writes its own; or remove export_to. Nothing was changed.",
    ),
    "H169": (
        "the export of {path} to {client} is to end, but clients hold files there: {holders}",
        "Unmount it on the clients. Then run again. Nothing was changed.",
    ),
    # H170 to H172: the key of Secure Boot, with P046 and P047
    "H170": (
        "{present} exists without {missing}, and DKMS would overwrite it with a new key pair",
        "Restore the missing file, or move this one away. Nothing was changed.",
    ),
    "H171": (
        "the DKMS signing key could not be created: {line}",
        "Correct the error, or create the key pair by hand: {private}, {certificate}.",
    ),
    "H172": ("{what} failed: {line}", "Correct the error. mokutil --list-new shows the keys that wait for enrolment."),
    # H173 and H174: arguments of the kernel in the boot loader's entries
    "H173": (
        "{path} has {found}, which gpulab did not add, but {argument} is requested for every kernel",
        (
            "Remove it (grubby --update-kernel=ALL --remove-args={name}), or add it to every kernel yourself. To"
            " leave it alone, set tuning_overrides: {{{name}: null}}. Nothing was changed."
        ),
    ),
    "H174": (
        "grubby wrote other kernel arguments to {path} than requested: {found}",
        (
            "Set them by hand: {wanted}. All files of grubby are restored. Please report this to the maintainers of"
            " grubby."
        ),
    ),
    # H177: storage again
    "H177": (
        "nothing was found on the devices of the storage tier {tier}, but they were not read whole: {read}",
        (
            "Make sure that nobody needs what may be on them. Then add to the tier: blank_checked: [{words}]. Nothing"
            " was changed."
        ),
    ),
    # H190 and H191: how Docker is started
    "H190": (
        (
            "Docker rejected its new settings at a reload: {detail}. The former file is restored, and Docker kept"
            " running"
        ),
        "Correct /etc/docker/daemon.json, or Docker's flags (see systemctl cat docker.service), and run again.",
    ),
    "H191": (
        "Docker's flag --config-file makes it read {file}, but gpulab manages only {path}",
        "Move its settings to {path} and remove the flag, or remove docker from container_toolkit_engines.",
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
    # H210 to H219: package sources and what package managers say, with H040 to H064
    "H210": (
        "{file} declares {other}, whose packages of {name} are for another system than {url}; APT would mix them",
        (
            "Remove that file, or the package that installed it (dpkg --search {file}), and run again. Nothing was"
            " changed."
        ),
    ),
    "H211": (
        "no package source of this node has {package}, the headers of kernel {kernel}",
        (
            "Install and boot a newer kernel whose headers the sources have, and remove this one. Or install the"
            " headers from this kernel's source. Then run again."
        ),
    ),
    "H212": (
        "this node cannot check the signatures of its package sources: {line}",
        (
            "Check that /tmp and /var/lib/apt/lists have space and are writable (chmod 1777 /tmp), and that gpgv is"
            " installed."
        ),
    ),
    "H213": (
        "the configuration of the node's package manager is not valid: {line}",
        (
            "Correct the file that the message names. If it names none, check /etc/apt (sources.list.d,"
            " preferences.d, apt.conf.d), or /etc/dnf and /etc/yum.repos.d. Register a RHEL that is not registered"
            " (subscription-manager register). apt-get check or dnf repolist shows whether it is valid."
        ),
    ),
    "H214": (
        "a server or proxy does not deliver what the node requests: {line}",
        (
            "Check the node's proxy, its user and its password (base_https_proxy, base_http_proxy), and whether the"
            " network requires a login. An error 429 or 5xx is temporary: run again later."
        ),
    ),
    "H215": (
        "packages on the node lack their dependencies, so nothing else can be installed: {line}",
        "Run apt-get --fix-broken install on the node (it first lists what it would remove), then run again.",
    ),
    "H216": (
        "a file system of the node is read-only: {line}",
        "Look for disk errors there (dmesg), then remount it.",
    ),
    "H217": (
        "the data of the node's package manager is damaged: {line}",
        (
            "If it names a list in /var/lib/apt/lists, delete the list and run apt-get update. If it names dpkg's"
            " status, restore it from /var/lib/dpkg/status-old. On RPM systems, run rpm --rebuilddb. Then run again."
        ),
    ),
    "H218": (
        "{host} cannot reach what it has to download: {sources}",
        (
            "Check its network and name servers, and its proxy (base_https_proxy, base_http_proxy). If it has no way"
            " there, set a mirror: the variables whose names end in _url. Nothing was changed."
        ),
    ),
    # H220 to H229: gpulab's records on a node, and what it says of itself
    "H220": (
        "gpulab's record {path} is damaged: {detail}",
        "Restore it from a backup, or move it away (mv {path} {path}.damaged) and run again. {lost}",
    ),
    "H221": (
        "gpulab's record {path} cannot be written: {detail}",
        "Free space there (df -h, df -i), or make that file system writable. Then run again.",
    ),
    "H222": (
        "{path} is {kind}, but gpulab keeps a file there",
        "Look what it is for. Move it away (mv {path} {path}.moved), then run again. Nothing of it was changed.",
    ),
    "H226": (
        "{host} says of itself what cannot be: {what}",
        (
            "Set it right there (a hostname: hostnamectl set-hostname NAME). If nobody has set it so, find out who has"
            " root on that node. Nothing was changed."
        ),
    ),
    # H228 to H230: package servers, beside H041 to H045
    "H228": (
        "a login page answers in place of a package server: {line}",
        (
            "Log the node in to its network (curl any http:// page there shows the login), or let the network pass it"
            " without one. A proxy may answer so, too: base_https_proxy, base_http_proxy. Then run again."
        ),
    ),
    "H229": (
        "the signature of a package source does not fit what it signs: {line}",
        (
            "Its files were changed after they were signed. Run again in a few minutes: a mirror may be in the middle"
            " of an update. If it stays so, a proxy or mirror is stale, or somebody changes files on the way: use"
            " another."
        ),
    ),
    "H230": (
        "a mirror is in the middle of an update, or serves old files beside new ones: {line}",
        (
            "Run again in a few minutes; gpulab refreshes the lists then. If it stays so, use another mirror, or look"
            " at the proxy in between."
        ),
    ),
    # H291 to H300: packages, beside H040 to H059
    "H291": (
        "two packages contain the same file: {line}",
        (
            "They are two makes of one thing, often of two package sources (NVIDIA, the distribution, RPM Fusion, a"
            " PPA). Remove the one that is not wanted, or disable the source that it comes from. Then run again."
        ),
    ),
    "H292": (
        "no package source of this node has what a package needs: {line}",
        (
            "Enable the source that has it (Debian: contrib, non-free; Ubuntu: universe, restricted; RHEL's family:"
            " EPEL, CodeReady Builder). If a mirror is in the middle of an update, run again later; if it lacks that"
            " version for good, use another mirror or version."
        ),
    ),
    "H293": (
        "the configuration of dnf excludes a package: {line}",
        (
            "Remove the exclude that matches it (exclude, excludepkgs or a narrow includepkgs in /etc/dnf/dnf.conf and"
            " /etc/yum.repos.d/*.repo), or its version lock (dnf versionlock list). Then run again."
        ),
    ),
    "H294": (
        "a module stream of dnf hides a package: {line}",
        (
            "Look which stream is enabled (dnf module list). Reset that module (dnf module reset NAME), or enable the"
            " stream that has this package (dnf module enable NAME:STREAM). Then run again."
        ),
    ),
    "H295": (
        "a package needs another version of one than this node takes: {line}",
        (
            "Look which source or pin decides (apt-cache policy NAME, /etc/apt/preferences.d; dnf list"
            " --showduplicates NAME). Remove the pin, the second source, or the hold (apt-mark showhold, dnf"
            " versionlock list). Then run again."
        ),
    ),
    "H296": (
        "the package manager does not do this without being told to, to protect the system: {line}",
        (
            "Look what conflicts with the package that it names, and choose a version that needs no such change. If you"
            " do want it, make that change by hand, then run again."
        ),
    ),
    "H297": (
        "a package cannot be unpacked, because its path is taken or must not be written: {line}",
        (
            "Look what is at that path (ls -ld, lsattr, findmnt). Move away what somebody has put there, or remove its"
            " immutable flag (chattr -i). Then run again. {log} has the full output."
        ),
    ),
    "H298": (
        "a package is for another architecture than this node: {line}",
        "Correct the address of its package source, or request the package of this architecture.",
    ),
    "H299": (
        "the package manager had too little memory: {line}",
        "Stop programs that need memory, or add swap space. Then run again.",
    ),
    "H300": (
        "a package source says something else of itself than before: {line}",
        (
            "Check with its vendor that the change is meant. Then accept it on the node (apt-get update"
            " --allow-releaseinfo-change) and run again; or remove that source."
        ),
    ),
    # I: the inventory and what is given on the command line; I001 to I014: variables
    "I001": ("{variable} is an unknown variable", "{advice}"),
    "I002": (
        "{variable} is internal to gpulab",
        "Remove it. Variables that you may set do not begin with underscores.",
    ),
    "I003": (
        "{variable} is the number {value}, but it needs text: YAML drops the last zero of a number such as 580.10",
        (
            'Quote it, with every digit: "{value}". On a host line of an INI inventory, which drops quotes:'
            " '\"{value}\"'."
        ),
    ),
    "I004": (
        "{variable} is the text {value}, but it takes true or false",
        (
            "Write true or false without quotes, in YAML or JSON. Inside a mapping or a list, quoted text is not"
            " converted."
        ),
    ),
    "I005": ("{variable} is {value}, but it needs {expected}", "{advice}"),
    "I006": ("{variable} is {value}, but must be one of {choices}", "{advice}"),
    "I007": ("{variable} is {value}, which does not match its format", "Expected: {description}"),
    "I008": ("{variable} is {value}, {bound}", "Expected: {description}"),
    "I009": ("{variable} has no {field}", "Add {field}: {description}"),
    "I010": ("{variable} has an unknown field {field}", "{advice}"),
    "I011": ("{variable} has {value} twice", "Use each value once."),
    "I012": ("{one} and {other} exclude each other: {reason}", "{way}."),
    "I013": ("{variable} cannot be evaluated: {detail}", "Define the variables that it uses, or correct its template."),
    "I014": ("{variable} names {value}, which is not a host of this run", "{advice}"),
    # I020 to I025: hosts and groups; I022, one host in several host types, is no refusal any more
    "I020": ("the run has no hosts: {detail}", "{advice}"),
    "I021": ("{hosts} have no host type", "Add each to one of the groups {types}, below gpu-nodes."),
    "I023": ("the group {group} of {hosts} is not a host type", "Did you mean {near}?"),
    "I024": ("{hosts} have the same address {address}", "Give each its own ansible_host, or remove the duplicates."),
    "I025": (
        "{host} is in the host types {types}, which disagree about {options}",
        (
            "Leave it in one of them, or set these options for the host; those of catalog/tuning.yml are set in"
            " tuning_overrides."
        ),
    ),
    # I030 to I032: values and the files that they are written to; none of these shows the value, which may be secret
    "I030": ("{variable} has {problem}", "Expected: {form}."),
    "I031": ("{variable} contains a password, which would be readable in the plan, in reports and in files", "{way}."),
    "I032": ("{option} has {problem}, which a file in {format} format cannot hold", "Remove it from the value."),
    # I040: options of ansible-playbook
    "I040": (
        "--start-at-task {task} skips the tasks that read and plan the node, which all later tasks need",
        "Use --tags with a role's name, such as --tags cuda. A full run also skips what is already done.",
    ),
    # I046: names of groups, beside I020 to I025
    "I046": (
        "gpulab has no group {group}",
        "Did you mean {near}? A group for something else needs a name that is less like it.",
    ),
    # P: the plan; P001 to P049: GPUs, kernels, driver, CUDA and environments
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
        "Secure Boot is on, and the DKMS signing key waits to be enrolled at the node's console",
        (
            "Reboot the node, and at its console press a key within 10 seconds. Choose Enroll MOK, Continue, Yes,"
            " type the password, choose Reboot. Then run again. If you miss the prompt, the request expires; run"
            " with secure_boot_mok_password to repeat it."
        ),
    ),
    "P048": (
        "driver {version} is requested, but {source} has only one version of branch {branch}",
        "Remove nvidia_driver_version, or use another nvidia_driver_source. Nothing was changed.",
    ),
    # P050 to P056: settings of kernel, NCCL and GPUs, with P075 and P076
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
    "P054": ("{variable} has {name}, which is not a setting of a GPU", "Use one of: {known}."),
    "P055": ("{variable} has {value} for {name}, which needs {form}", "Correct it, or use null to leave it alone."),
    "P056": (
        "{variable} turns MIG off, but requests the MIG instances {instances}",
        "Remove one of the two. Instances turn MIG on by themselves.",
    ),
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
    # D001 to D003: kernel modules that DKMS builds
    "D001": (
        "DKMS could not build {module} {version} for kernel {kernel}: {error}",
        "{way}. See {log} on the node.",
    ),
    "D002": (
        "kernel {kernel} has no headers, so {module} cannot be built for it",
        "Install linux-headers-{kernel} or kernel-devel-{kernel}. If no server has it, boot a newer kernel first.",
    ),
    "D003": ("DKMS has no source of {module} {version}", "Install the package that contains it. DKMS has: {added}."),
    # D020 to D023: another driver in place of one that works
    "D020": (
        "a package cannot be saved, so a rollback would be impossible: {line}",
        (
            "See {log} on the node. Make the package's installed version available and run again. Or continue"
            " without a rollback: nvidia_driver_keep_former: false."
        ),
    ),
    "D021": (
        "the driver of {host} must change ({change}), but the node is in use ({who})",
        (
            "Wait until it is idle and run again, or set nvidia_driver_change: wait. To force the change: -e"
            " nvidia_driver_change_force={host}"
        ),
    ),
    "D022": (
        "the new driver of {host} failed verification and was rolled back: {cause}",
        "Read the findings above. To keep the former driver, set nvidia_driver_version to its version.",
    ),
    "D023": (
        "the former packages {names} could not be reinstalled",
        "See {log} on the node. Their files are in {directory}.",
    ),
    # D030 to D037: a driver from a .run file; D011 was given up and is not given again
    "D030": (
        "the .run file cannot be fetched from {url}: {detail}",
        "Set nvidia_driver_runfile to a mirror or to a path on the controller. Nothing was changed.",
    ),
    "D031": (
        "{url} has SHA-256 {found}, but {wanted} is expected",
        "Check which one is right. The file may be another version, or was altered on its way. Nothing was changed.",
    ),
    "D032": (
        "{url} is not the .run file of driver {version}: {detail}",
        (
            "Make nvidia_driver_version, nvidia_driver_runfile and nvidia_driver_runfile_sha256 match the same"
            " driver. Nothing was changed."
        ),
    ),
    "D033": (
        "the {kernel_modules} modules of driver {version} do not build for kernel {kernel}: {error}",
        "{way}. See {log} on the node. The former driver, if any, is unchanged.",
    ),
    "D034": (
        "the installer of driver {version} failed: {error}",
        "{way}. See {log} on the node. {left}",
    ),
    "D035": (
        "the .run file of driver {version} cannot install {kernel_modules} kernel modules",
        "Set nvidia_driver_kernel_modules, or use another version. Nothing was changed.",
    ),
    "D036": (
        "the uninstaller of driver {version} failed: {error}",
        "See {log} on the node, and run {uninstaller} there by hand.",
    ),
    "D037": (
        "gpulab does not have the .run file of driver {version}, so a rollback would be impossible",
        "Continue without a rollback: nvidia_driver_keep_former: false. Nothing was changed.",
    ),
    # D040 to D049: a driver that does not work on the node
    "D040": (
        "{names} cannot be configured: DKMS could not build {module} {version} for kernel {kernel}: {error}",
        "{way}.",
    ),
    "D041": (
        (
            "DKMS could not build {module} {version} for kernel {kernel}; this module does not belong to gpulab's"
            " driver: {error}"
        ),
        "{way}. See {log} on the node.",
    ),
    # C: what nvcc says of a node, the source of nccl-tests, and toolkits made of wheels
    "C001": (
        "nvcc of CUDA {version} does not compile for compute capability {capabilities}: {error}",
        "Choose a CUDA that supports the GPU and the host compiler, or correct the error that the message names.",
    ),
    "C002": (
        "the source of nccl-tests cannot be fetched from {url}: {detail}",
        "Check the node's network and proxy, or set nccl_tests_url to a mirror. Nothing was built.",
    ),
    "C003": (
        "{url} has SHA-256 {found}, but nccl_tests_sha256 is {wanted}",
        "Check which one is right. The file may be another version, or was altered on its way. Nothing was built.",
    ),
    "C004": (
        "{path} holds a CUDA toolkit that gpulab did not make",
        "Remove it, choose another CUDA in cuda_toolkits, or set cuda_source: nvidia. It was left as it is.",
    ),
    "C005": (
        "the wheels of CUDA {version} cannot be fetched: {line}",
        "{advice} See {log} on the node. A former toolkit is still there.",
    ),
    "C006": (
        "cuda_remove_strays does not take away {path}: {reason}",
        (
            "Name the directory of a CUDA toolkit below /usr/local or /opt, a file of its libraries, a file in"
            " /etc/ld.so.conf.d or /etc/profile.d that is for these alone, or a package. Nothing was changed."
        ),
    ),
    "C007": (
        "{path} is in use by {user}",
        "Wait until it has ended, or end it. Then run again. Nothing was changed.",
    ),
    "C008": (
        "{path} has files of the package {package}",
        "Name that package in cuda_remove_strays, not its files. Nothing was changed.",
    ),
    "C009": (
        "{file} still leads to {path}",
        (
            "Take the line or the link away, or name the file in cuda_remove_strays too, if all of it is for what is"
            " named there. Nothing was changed."
        ),
    ),
    "C010": (
        "{names} cannot be removed alone: {detail}",
        "Name in cuda_remove_strays what needs it as well, or leave it. Nothing was changed.",
    ),
    # E: Python environments; line is the essential part of what uv, pip or the environment's own interpreter said
    "E001": (
        "{path} exists, but gpulab did not create it",
        "Move it away, or give the environment another name. Nothing was changed.",
    ),
    "E002": (
        "a package index cannot be reached for {name}: {line}",
        "{advice} {former}",
    ),
    "E003": (
        "the checksum of a file for {name} does not match: {line}",
        "A proxy or mirror serves altered files, or the lock is for another system. {former}",
    ),
    "E004": (
        "the packages of {name} conflict with each other: {line}",
        "Change its packages, its channels or its framework's version. {former}",
    ),
    "E005": (
        "the index has no wheel of a package of {name} for its Python: {line}",
        (
            "Check the package's name and version. If the index has a wheel, something else answers at its address,"
            " such as a login page: check the node's proxy and pip.conf. {former}"
        ),
    ),
    "E006": (
        "no Python was found for {name}: {line}",
        "Use the system's Python, or set a mirror of Python builds: environments_python_mirror. {former}",
    ),
    "E007": (
        "a line of a lock does not pin its package: {line}",
        (
            "Write name==version with --hash. In a conda lock, write ADDRESS#SHA256 for a package of a channel, and"
            " name @ git+ADDRESS@COMMIT for one from git. gpulab.lock has examples. Nothing was changed."
        ),
    ),
    "E008": ("{name} was built but does not work: {line}", "Correct the error. {former}"),
    "E009": ("{name} could not be built: {line}", "Read {log} on the node. {former}"),
    "E010": ("{name} is in use by the processes {users}", "Wait for them to end, and run again. Nothing was removed."),
    "E011": (
        "the disk is full, so {name} cannot be built: {line}",
        "Free space on the file system of the environments. {former}",
    ),
    # E012 to E018: conda
    "E012": (
        "a channel cannot be reached for {name}: {line}",
        "{advice} {former}",
    ),
    "E013": (
        "micromamba cannot be fetched from {url}: {detail}",
        "{advice} Or set a mirror: conda_micromamba_url. Nothing was changed.",
    ),
    "E014": (
        "the SHA-256 of {url} is {found}, but {wanted} is expected",
        "A proxy or mirror serves another file, or the version and the SHA-256 do not match. Nothing was installed.",
    ),
    "E015": (
        "the SHA-256 of micromamba {version} for {architecture} is unknown",
        "Set conda_micromamba_sha256 to the value in its release (the file .sha256 beside it). Nothing was changed.",
    ),
    "E016": (
        "{name} uses the channel {channel}, which is not free for everybody, so gpulab does not resolve that name",
        (
            "Set conda_defaults_channel to another channel, such as conda-forge. Or set the environment's channels,"
            " which replace those of its file. Or write the channel's full address there. Nothing was changed."
        ),
    ),
    "E017": (
        "{path} exists, so {directory} is another installation of conda",
        "Choose another directory for gpulab: conda_directory. Nothing was changed.",
    ),
    "E018": ("{file} of the environment {name} cannot be used: {detail}", "{advice} Nothing was changed."),
    # E019 to E022: groups, locks and kernels of Jupyter
    "E019": (
        "environment {name} is for the group {group}, which does not exist on this node",
        "Create the group, or use another one. Nothing was changed.",
    ),
    "E020": (
        "the lock of {name} does not contain {package}, which is requested",
        "Use the lock of an environment that contains it, or remove the request. Nothing was changed.",
    ),
    "E021": (
        "{path} exists, but gpulab did not write it",
        "Move it away, or remove jupyter from the environment of that name. Nothing was changed.",
    ),
    "E022": (
        "{package} cannot be locked: the index gives no SHA-256, and pip before 23.1 does not calculate it",
        "Request pip >=23.1 in the environment, or use an index that gives it. The environment is unchanged.",
    ),
    # E030 to E039: what cannot be fetched, built or locked
    "E030": (
        "{package} cannot be locked: pip installed it from {source}, whose content can change",
        (
            "Request a wheel of it, by its address or from your own index, or a git address with the full commit."
            " The environment is unchanged."
        ),
    ),
    "E031": (
        "no channel of {name} has a package that it needs: {line}",
        "Check its name and version, or add the channel that has it to the environment's channels. {former}",
    ),
    "E032": (
        "the source code of a package of {name} does not build: {line}",
        (
            "It may need a compiler, CUDA or another package that pip does not provide. Request a wheel of it, by its"
            " address or from your own index. {former}"
        ),
    ),
    "E033": (
        "git cannot fetch a package of {name}: {line}",
        (
            "Check its address and commit, and the node's network and proxy. Check that git is one of the"
            " environment's packages. {former}"
        ),
    ),
    "E034": (
        "pip's configuration on the node cannot be read: {path}: {detail}",
        "Correct the file; pip config debug on the node shows what pip reads. Nothing was changed.",
    ),
    "E037": (
        "{path} cannot hold environments: in {directory}, others than root may put another directory in its place",
        (
            "Set a directory below those that only root may write to, such as /opt, or let only root write to"
            " {directory}. Nothing was changed."
        ),
    ),
    # E068 to E077: files of others, and packages that have no wheel
    "E068": (
        "packages of {name} cannot be had as they are asked for: {line}",
        (
            "Set the python or the replace that is named, if one is, in the environment. Otherwise change or remove"
            " these packages. A package that needs a compiler is built if you list it in the environment's setting"
            " compile. If the index has what is missing, something else answers at its address, such as a login page:"
            " check the node's proxy and pip.conf. {former}"
        ),
    ),
    "E069": (
        "the package index has no {package} for {name}: builds named +{build} are in an index of their own",
        (
            "Write the version without +{build}, and set index: {build} in the environment, which takes it from"
            " PyTorch's index of that build. {former}"
        ),
    ),
    "E070": (
        "{file} of the environment {name} is for {system}, not for Linux: {detail}",
        (
            "Use a file that was exported on Linux, or one without builds (conda env export --from-history)."
            " Nothing was changed."
        ),
    ),
    "E071": (
        "{file} of the environment {name} needs Python {needed}, but {python} is planned",
        "Set python in the environment to one that it takes, quoted. Nothing was changed.",
    ),
    "E072": (
        "the lock is a file of {tool}, not a list of packages with hashes",
        (
            "Name it as file, not as lock, in the environment. Or make a list of it: uv export --no-emit-project."
            " Nothing was changed."
        ),
    ),
    # S001 to S008: long steps
    "S001": ("{name} is not a valid name for a long step", "Use letters, digits, '.', '_' and '-', at most 100."),
    "S002": (
        "systemd is not the init of this node, so a step cannot outlive the connection",
        "Boot the node with systemd as its init. A container needs /sbin/init as its command.",
    ),
    "S003": (
        "the long step {name} is still running another command: {command}",
        "Wait until it ends (its log on the node: {log}); only where it hangs: systemctl stop gpulab-{name}.",
    ),
    "S004": ("the long step {name} could not be started: {detail}", "Check that the task runs as root (become: true)."),
    "S005": (
        "the long step {name} was stopped after {seconds} s; its last line: {line}",
        "Read {log} on the node. If the step was only slow, raise the task's timeout.",
    ),
    "S006": (
        "the long step {name} ended without a result ({detail}); its last line: {line}",
        "Run again. Its log is {log} on the node.",
    ),
    "S007": (
        "the node has not answered for {seconds} s while the long step {name} runs there: {detail}",
        "Run again when the node is reachable. gpulab continues with the step, whether it still runs or has ended.",
    ),
    "S008": ("the long step {name} failed with status {rc}; its last line: {line}", "Read {log} on the node."),
    # S010 to S012: several runs on one node
    "S010": (
        (
            "another run is working on this node: process {pid} of {user} on {machine}, since {since}; last active"
            " {seconds} s ago"
        ),
        "Wait until it ends. If it failed or was killed, run again from {machine}, or in {left} s from any machine.",
    ),
    "S011": (
        (
            "another run has taken over this node, because this run was silent for minutes: process {pid} of {user}"
            " on {machine}, since {since}"
        ),
        "Wait until it ends (last active {seconds} s ago), then run again.",
    ),
    "S012": (
        "long steps of an earlier run are still running on this node: {names}",
        "Wait until they end (logs: /var/lib/gpulab/steps/NAME/log), then run again. Nothing was changed.",
    ),
    # S022: a lock
    "S022": (
        "{holder} for more than {seconds} s",
        "Wait until that has ended, then run again. ps -fp PID shows what it is.",
    ),
    # V: the proof of a node
    "V001": (
        "{host} failed verification: {findings} of severity {level} or above",
        "Each finding below has its own remedy.",
    ),
    "V002": (
        "the facts of {host} are missing: gpulab.node.gpu_facts did not run there, or failed",
        "Run it before this task, and read its error.",
    ),
    "V003": ("the report cannot be written to {path}: {detail}", "Use another directory, or free space there."),
    "V004": ("the report cannot be compared with {path}: {detail}", "Use a report.json that gpulab wrote."),
    # R: the rebuild of a node
    "R001": (
        "{host} has no {what} in {path}",
        "Capture it first, with the role gpulab.node.capture.",
    ),
    "R002": (
        "a reinstall of {host} would lose {files}, {size}: {paths}",
        (
            "Capture them (capture_paths), name a backup that has them (capture_receipts), move them to another disk,"
            " or name them in capture_acknowledged. Then capture again."
        ),
    ),
    "R003": (
        "{host} is not certain to be the machine that was captured: {detail}",
        (
            "Check ansible_host and the capture. Reinstall a machine without a UUID of its own by hand, with the disks"
            " of its data unplugged; then use the playbook gpulab.node.rebuild, with hardware in rebuild_allow. Nothing"
            " was changed."
        ),
    ),
    "R004": (
        "the disk on which {host} would be reinstalled is not certain: {detail}",
        (
            "A reinstall needs exactly one disk for /, with a serial number or WWN that no other disk has. Reinstall"
            " this machine by hand, with the disks of its data unplugged. Nothing was changed."
        ),
    ),
    "R005": (
        "{group} of {host} spans the root disk, {root}, and disks with data, {others}",
        (
            "Move its data off the root disk (pvmove and vgreduce, mdadm --remove, zpool remove, btrfs device remove),"
            " then capture again. Nothing was changed."
        ),
    ),
    "R006": (
        "the capture {path} is damaged: {detail}",
        "Capture the node again, or use an older capture in the same directory.",
    ),
    "R007": (
        "secrets of {host} cannot be encrypted: {detail}",
        (
            "Run with --ask-vault-pass or --vault-password-file. Or install age on this machine, and set"
            " capture_age_recipients to public keys of age. Nothing was changed."
        ),
    ),
    "R008": (
        "{host} is not reinstalled: {detail}",
        "If the lines WIPE and KEEP are right, run again with {way}. Nothing was changed.",
    ),
    "R009": (
        "{host} is in use ({who}), so it is not reinstalled",
        "Wait until it is idle, or ask these people to stop. Then run again. Nothing was changed.",
    ),
    "R010": (
        "no installer is known for {host}, {system}",
        (
            "Set reinstall_system to one of these: {known}. Or install the system by hand, then run"
            " the playbook gpulab.node.rebuild. Nothing was changed."
        ),
    ),
    "R011": (
        "{host} was not installed by the plan of its capture {capture}: {detail}",
        (
            "Reinstall it from this capture. If another installation is meant, add disks to rebuild_allow."
            " Nothing was changed."
        ),
    ),
    "R012": (
        "{disk} of {host} has to be kept, but it is not as the capture found it: {detail}",
        (
            "Check its cables and its contents before anything writes to it. If the change is meant, add disks to"
            " rebuild_allow. Nothing was changed."
        ),
    ),
    "R013": (
        "environments of {host} could not be made again, because packages of their locks are not available: {names}",
        (
            "Check the node's network and pip.conf. Else let the environment's owner move to packages that exist, or"
            " set reinstall_check_locks: false. Nothing was changed."
        ),
    ),
    "R014": (
        "{path} of {host}, the {what}, is on the root disk and has {files} ({size}) that nothing brings back",
        (
            "Back it up and name the backup in capture_receipts, or move it to another disk. If it may be lost, name"
            " it in capture_acknowledged. Then capture again."
        ),
    ),
    "R015": (
        "{host} boots from {place} on {disk}, which is not the root disk, {root}",
        "Move it to the root disk, then capture again. A reinstall would leave the other disks as they are.",
    ),
    "R016": (
        "{path} of {host} is on the root disk, and other machines have it mounted over NFS: {users}",
        "Unmount it there, or move the directory to another disk. Then capture again.",
    ),
    "R017": ("another capture of {host} is at work on this machine", "Wait until it ends, then run again."),
    "R018": ("the capture {path} has schema {found}, but this version of gpulab knows schema {known}", "{way}."),
    "R019": (
        "the backup of {path} does not count as a receipt: {detail}",
        (
            "Correct its repository and password_file in capture_receipts, or remove it there. Without a receipt, the"
            " files that it covers are left over. Nothing was changed."
        ),
    ),
    "R020": (
        "the capture cannot be written to {path}: {detail}",
        "Free space there, or set another directory. The latest capture is unchanged.",
    ),
    "R021": (
        "{path} on the root disk of {host} ({what}) holds what no capture has seen: {why}",
        (
            "Mount it and capture again, or copy what you need to another disk and erase it. If it may be lost, name"
            " it in capture_acknowledged."
        ),
    ),
    "R022": ("the comparison cannot be written to {path}: {detail}", "Use another directory, or free space there."),
    # R023 to R029 and R070 to R079: what stands against a reinstall, and how it went
    "R023": (
        "the new system of {host} could not be reached: {detail}",
        (
            "Write files of systemd-networkd that make this network on the new system, and name them in"
            " reinstall_network_files. Nothing was changed."
        ),
    ),
    "R024": (
        "the boot loader of {host} cannot start the installer exactly once: {detail}",
        "Correct that, or start the installer from a medium: the playbook gpulab.node.media. Nothing was changed.",
    ),
    "R025": (
        "{host} cannot take the installer: {detail}",
        "Free space there, or start the installer from a medium: the playbook gpulab.node.media. Nothing was changed.",
    ),
    "R026": (
        "other machines have {path} of {host} mounted over NFS, and would wait for it: {users}",
        "Unmount it there, or reinstall these machines first. Then run again. Nothing was changed.",
    ),
    "R027": (
        "the new system of {host} would not let Ansible in: {detail}",
        (
            "Connect as root or as an account of the node's own /etc/passwd (ansible_user), with a key in its"
            " authorized_keys, and capture the node again. Nothing was changed."
        ),
    ),
    "R028": (
        "{host} came back with its old system: {detail}",
        (
            "Nothing was wiped. Read what the installer said on the console, correct it, and run again; or start it"
            " from a medium: the playbook gpulab.node.media."
        ),
    ),
    "R029": (
        "{host} has not answered for {minutes} minutes since it was sent into the installer: {detail}",
        (
            "Look at its console. If it installs, wait and run again: gpulab continues there. If it does not start,"
            " use a medium: the playbook gpulab.node.media."
        ),
    ),
    "R030": (
        "the image of an installer needs {program}, which is not on this machine",
        "Install the package {package} on this machine. Debian and Ubuntu have it.",
    ),
    "R031": (
        "{user} cannot make the image of an installer on this machine: {detail}",
        (
            "Run as root, or let this user have namespaces: the package uidmap, a range in /etc/subuid and"
            " /etc/subgid, and no setting of the kernel against it."
        ),
    ),
    "R032": (
        "there is no keyring {path} on this machine, which verifies the packages of {system}",
        "Install the keyring of that distribution here, or name another file in the option keyring.",
    ),
    "R033": (
        "the mirror does not answer for the image of an installer: {address}: {detail}",
        "Check the option mirror, or security_mirror, and the network of this machine. Nothing was changed.",
    ),
    "R034": (
        "the image of an installer cannot be made: {detail}",
        "Correct what the message names, such as a package that the mirror does not have, then run again.",
    ),
    "R035": (
        "the image of an installer in {path} is damaged: {detail}",
        "Remove this directory, and the next run makes the image again. Look at the disk that it is on.",
    ),
    "R036": (
        "the image of an installer cannot be written to {path}: {detail}",
        "Free space there, or set another directory. TMPDIR says where the tree is made.",
    ),
    "R040": (
        "{host} now runs {found}, but its capture {capture} was taken with {captured}",
        "Add release to rebuild_allow. Captured files then come back, and what they replace is kept beside them.",
    ),
    "R041": (
        "the accounts of {host} cannot get their numbers again: {detail}",
        "Remove accounts of the new system that nobody needs, then run again. Nothing was changed.",
    ),
    "R042": (
        "the content of {path} did not arrive whole on {host}",
        "Free space in /var/lib/gpulab there, then run again.",
    ),
    "R043": (
        "{host} does not answer after its captured network settings were tried, and not {minutes} minutes later either",
        "Look at its console: /var/lib/gpulab/restore/network/back brings back the settings of its installation.",
    ),
    # R050 to R059: installation media
    "R050": (
        "Debian's installer has the kernel {kernel}, and {mirror} has modules for {found} only (suite {suite})",
        (
            "Use the installer of the mirror's point release (update the package that reinstall_media_netboot is of),"
            " another mirror, or reinstall_media_installer: image. Nothing was written."
        ),
    ),
    "R051": (
        "{mirror} does not have {count} of the {all} packages that Debian's installer needs: {names}",
        (
            "Use a mirror that has the installer's packages (udebs), or reinstall_media_installer: image. Nothing was"
            " written."
        ),
    ),
    "R052": ("{what} cannot be read: {detail}", "Check the address or the path, and the proxy. Nothing was written."),
    "R053": ("installation media need {what}, which this machine does not have", "{way}. Nothing was written."),
    "R054": (
        "the installation media cannot be written to {path}: {detail}",
        "Free space there, or set another reinstall_media_directory. Older media are unchanged.",
    ),
    "R055": (
        "the answers for the installer of {host} are not safe: {detail}",
        "This is a fault of gpulab: please report it. Use reinstall_media_installer: image. Nothing was written.",
    ),
    "R060": (
        "no package source of the node answers: {detail}",
        "Check the node's network, its proxy and /etc/apt; then run again.",
    ),
    "R061": (
        "the packages of the capture could not be installed: {line}",
        "Read {log} on the node. Once the cause is gone, run again: it goes on where it stopped.",
    ),
    "R062": (
        "{host} was not reinstalled since the capture {capture}",
        (
            "A rebuild would put the files of the capture over newer ones. To do that all the same, name the capture:"
            " -e rebuild_capture={capture}. Nothing was changed."
        ),
    ),
    "R068": (
        "nobody has proven {host} in this run, so its jobs do not start",
        "Run it again without --tags, --skip-tags and verify_hosts. It goes on where it stopped.",
    ),
    "R070": (
        "the installer's files are not whole on {host}: {detail}",
        "Check its memory and its disk (dmesg), then run again. They are removed, and nothing else was changed.",
    ),
    "R071": (
        "{host} can be neither locked nor rebooted: {detail}",
        "Check that systemd is its init and works (systemctl is-system-running). Then run again.",
    ),
    "R072": (
        "while nobody can log in to {host}, Ansible cannot either: it connects as {user}, not as root: {detail}",
        (
            "Connect as root, or let ssh keep its connections (ssh_args: -o ControlMaster=auto -o ControlPersist=60s)."
            " The lock opens by itself within {minutes} minutes."
        ),
    ),
    "R073": (
        "the capture of {host} is {minutes} minutes old, and what changed since would be lost",
        "Run again. The installer's image is made already, so it takes less time.",
    ),
    "R074": (
        "the installer would refuse {host}: {detail}",
        "Check its disks and its firmware's settings, and run again, which captures it again. Nothing was changed.",
    ),
    "R075": (
        "this run is on {host} itself, and the reinstall would wipe it with the captures",
        "Run gpulab on another machine that reaches it. Nothing was changed.",
    ),
    "R076": (
        "no mirror of {system} is known for {host}: its package sources name none that this machine could use",
        "Set reinstall_mirror, and reinstall_security_mirror, to addresses that this machine reaches.",
    ),
    "R077": (
        "what answers as {host} since it was sent into the installer has another SSH host key: {detail}",
        (
            "Its new system has the key that it had. Look at its console: another machine may have its address. Compare"
            " the keys there before you accept one."
        ),
    ),
    "R078": (
        "{host} was installed from its newest capture, {capture}, and is not rebuilt yet",
        (
            "Use the playbook gpulab.node.rebuild. To install it again instead, delete /etc/gpulab-installed-by there;"
            " then the next capture is of the node as it is now. Nothing was changed."
        ),
    ),
    "R079": (
        "a part of the system of {host} is on a disk that would stay: {detail}",
        (
            "Move it to the root disk, and mount only data from other disks, such as /var/lib/docker. Then capture the"
            " node again. Nothing was changed."
        ),
    ),
    # R085 to R087: the signature of a capture
    "R085": (
        "the capture {path} has no signature, so whoever may write there may have changed it",
        (
            "Captures of earlier versions of gpulab have none. If nobody else may write there, name it: -e"
            " rebuild_unsigned={name} (reinstall_unsigned for media). Else capture the node again. Nothing was changed."
        ),
    ),
    "R086": (
        "the capture {path} was not written by you on this machine: {detail}",
        (
            "If it was captured on another controller, or by another user, copy the key {key} from there, for you alone"
            " (0600). Else somebody changed it: use another capture. Nothing was changed."
        ),
    ),
    "R087": (
        "the key that signs captures cannot be used: {path}: {detail}",
        (
            "It has to be yours alone (chmod 0600). If others could read it, delete it and capture the nodes again."
            " Nothing was changed."
        ),
    ),
    # G: the diagnosis of a program
    "G001": (
        "{host} has no process {pid}",
        "Name one that runs there: ps -ef. To look at all that use a GPU, leave pid out.",
    ),
    "G002": ("{option} is {value}, not {wanted}", "Correct it, or leave it out. Nothing was looked at."),
    "G003": ("the diagnosis cannot be written to {path}: {detail}", "Use another directory, or free space there."),
    # F001 to F029: the fence and the rollout
    "F001": (
        "no change may begin now: {why}",
        "Run the same command again when the freeze is over. No further node was changed.",
    ),
    "F002": (
        "the rollout {run} is at work: {user} on {machine}, process {pid}",
        "Wait until it ends, or stop it there; the same command then goes on with it. Nothing was changed.",
    ),
    "F003": (
        "{out} of {all} nodes are out of service, and no more than {most} may be: {who}",
        "Bring these nodes back first, or raise rollout_out_at_once. Nothing was changed.",
    ),
    "F004": ("{option} is {value}: {detail}", "Correct it. Nothing was changed."),
    "F005": (
        "the change stopped at {host}: {cause}",
        (
            "{remedy} Then run the rollout again. If a change had begun, {host} stays fenced, and the rollout begins"
            " with it. The nodes after it are as before."
        ),
    ),
    "F006": (
        "{host} was still in use after {minutes} minutes ({who})",
        (
            "Run again when they are done, or wait longer: rollout_wait_minutes for a rollout, fence_wait_minutes for"
            " fence.yml. The node is as it was."
        ),
    ),
    "F007": (
        "{host} has been fenced since {since} by {by} (run {run}): {reason}",
        (
            "Let that run come to its end. If it never will, lift its fence: ansible-playbook gpulab.node.fence"
            " -e fence_state=absent -e fence_force={host}"
        ),
    ),
    "F008": (
        "Slurm's controller does not answer: {detail}",
        "Check slurmctld and munge (scontrol ping). Then run again. Nothing was changed.",
    ),
    "F009": (
        "Slurm does not know the node {host}",
        "Add it to slurm.conf, or set fence_engine: none for it. Nothing was changed.",
    ),
    "F010": (
        "{host} has none of the files in /etc/pam.d by which people log in: {services}",
        "Check its PAM configuration. Nothing was changed.",
    ),
    "F011": (
        "no canary is left: {detail}",
        "Name others in rollout_canary, or run again when one of them is back. No further node was changed.",
    ),
    "F012": (
        "{host} was lost on the way, in the state {state} since {since}",
        "Bring it back, and run the rollout again; it begins with {host}. The nodes after it are as before.",
    ),
    "F013": (
        "the fence of {host} in Kubernetes needs the Python package kubernetes on the controller: {detail}",
        "Install it beside Ansible: pip install kubernetes. Nothing was changed.",
    ),
    "F014": (
        "Kubernetes cannot be asked: {detail}",
        (
            "Check fence_kubeconfig (kubectl --kubeconfig FILE get nodes). Its user has to list and patch nodes, and to"
            " list pods. Then run again. The node is as it was."
        ),
    ),
    "F015": (
        "Kubernetes does not know the node {host}",
        "Set fence_kubernetes_node to its name there, or fence_engine: none for it. Nothing was changed.",
    ),
    "F020": (
        "the fence of {host} is recorded there as that of {name} in Kubernetes, which is another name than it has",
        (
            "If it is {host}'s name there, set fence_kubernetes_node to it and run again. Otherwise lift the fence by"
            " hand (kubectl uncordon). No node was changed."
        ),
    ),
    # F030 to F059: Slurm
    "F030": (
        "{host} has {path}, which gpulab did not write",
        (
            "If {host} is the controller, slurm_join: true adds gpulab's nodes to that cluster. If it is a node, move"
            " the file away: it gets its files from the controller. To leave it alone, remove slurm_state. Nothing was"
            " changed."
        ),
    ),
    "F031": (
        "{path} on {host} has no {missing}, which gpulab's nodes need",
        "Add it there and restart slurmctld. Then run again. Nothing was changed.",
    ),
    "F032": (
        "the MUNGE key of {host} is {problem}",
        (
            "Stop the jobs, remove /etc/munge/munge.key on the Slurm controller, or the value of slurm_munge_key, and"
            " run again. gpulab makes a random key."
        ),
    ),
    "F033": (
        "the driver of {host} lists {found} of {expected} GPUs, so Slurm cannot know them",
        "Set the node up and prove it: ansible-playbook gpulab.node.provision. Then run again.",
    ),
    "F034": (
        "a GPU of {host} is split by MIG, and Slurm of the distribution cannot give its instances to jobs",
        "Turn MIG off (gpu_settings_mig), or remove slurm_state for this node.",
    ),
    "F035": (
        "{host} has or gets Slurm {version}, which cannot work with Slurm {other} of its controller {controller}",
        (
            "Set slurm_controller to a host with a Slurm that is as new, or at most two releases newer (three from"
            " 24.11 on). Nothing was changed."
        ),
    ),
    "F036": (
        "{host} is a node of the Slurm controller {controller}, which is not part of this run or was refused",
        "Name both: -l {host},{controller}. Nothing was changed on {host}.",
    ),
    "F037": (
        "slurm_state of {host} is present, but {controller} is not a host of the inventory's group slurm_controllers",
        "Add a host to that group, or correct slurm_controller.",
    ),
    "F038": (
        "{host} would go from Slurm {before} to {after}, which cannot read the state of jobs of {before}",
        "Upgrade to a release between them first. Nothing was changed.",
    ),
    "F039": (
        "{host} and {other} both have the hostname {hostname}, so Slurm cannot tell them apart",
        "Give one of them another name (hostnamectl set-hostname). Then run again.",
    ),
    "F040": (
        "{host} has jobs of Slurm: {who}",
        "Drain it (scontrol update nodename=NAME state=drain reason=removal), wait for its jobs, then run again.",
    ),
    "F045": (
        "{host} calls itself {hostname}, so Slurm would know it by that name, which the inventory does not give it",
        (
            "Give it the name that the inventory has (hostnamectl set-hostname {name}). Or list {hostname} in"
            " gpulab_host_names of {host}, if it shall be called so. Nothing was changed."
        ),
    ),
    "F046": (
        "{host} calls itself {hostname}, a word that stands for something else in slurm.conf",
        "Give it another name (hostnamectl set-hostname NAME, and in the inventory). Nothing was changed.",
    ),
    "F047": (
        "{path} on {host} has a partition {partition}, which is the name of the one for gpulab's nodes",
        "Give theirs another name. Nothing was changed.",
    ),
    "F048": (
        "slurm_door of {host} is closed, but it has a display manager, whose user needs the GPU",
        "Set slurm_door: open for it, or remove the display manager. Nothing was changed.",
    ),
    "F049": (
        "Slurm's daemon needs a systemd reload on {host}, which can detach GPUs from running containers: {who}",
        "Run again when the GPUs are idle. Nothing was changed on {host}.",
    ),
    # F060 to F079: the nightly proof
    "F060": (
        "the nightly proof cannot run on {host}: {detail}",
        "Set nightly_user, nightly_directory and nightly_program to what is on the controller. Nothing was changed.",
    ),
    "F061": (
        "the timers need a systemd reload on {host}, which can detach GPUs from running containers: {who}",
        "Run again when the GPUs are idle. Nothing was changed.",
    ),
    # F080 to F099: the monitoring server
    "F080": (
        "{host} has a Prometheus or an Alertmanager that somebody configured: {paths}",
        (
            "Choose another server. Or leave this role out, and add the rules and the scrape configuration of the role"
            " monitoring, which are in its files, to your own."
        ),
    ),
    "F081": (
        "{system} on {host} has no packages of Prometheus",
        "Use a server with Debian or Ubuntu for the group monitoring_server.",
    ),
}


@dataclass
class Refusal(Exception):  # noqa: N818 - users know it by this name, and it is data as well
    """A refusal as data, and as an exception where one is raised."""

    code: str
    cause: str
    remedy: str

    def __str__(self) -> str:
        """Return the one form in which users meet a refusal."""
        return f"GPULAB-{self.code} {self.cause} Remedy: {self.remedy}"


def refuse(code: str, **values: object) -> Refusal:
    """Build the refusal with this code; the values fill its cause and remedy, as they may be shown to people.

    Raises KeyError for a code that is not listed or a value that is missing.
    """
    filled = (for_people(template.format(**values)) for template in CODES[code])
    cause, remedy = filled
    return Refusal(code, cause.rstrip(".") + ".", remedy)

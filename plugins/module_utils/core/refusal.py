# Copyright (c) 2026 The gpulab founders
# GNU General Public License v3.0+ (see https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Every way in which gpulab says no: a stable code, one line of cause, one line of remedy.

The codes live in this file and nowhere else. A code is never given another meaning.
Families: H host and connection, I inventory and input, P plan, D driver, C CUDA, E Python environment, S long steps and
runs, V proof. They stand in this order, and each in the order of its numbers.
"""

from __future__ import annotations

from dataclasses import dataclass

from ansible_collections.gpulab.node.plugins.module_utils.core.shown import for_people

# code: (cause, remedy), both str.format templates over the values given to refuse()
CODES = {
    # H001 to H016: how a node is reached
    "H001": ("{host} is unreachable: {detail}", "Check its address, power and SSH: ssh {login}; then run again."),
    "H002": ("{host} has no Python that Ansible can run: {detail}", "Install Python 3.9 or later there: python3."),
    "H003": ("sudo on {host} asks for a password: {detail}", "Run with --ask-become-pass, or allow it without one."),
    "H004": ("sudo on {host} refuses: {detail}", "Check the password, and that this user may run sudo there."),
    "H005": ("{host} does not let this user in: {detail}", "Check ansible_user and the key: ssh-copy-id {login}."),
    "H006": (
        "the SSH host key of {host} is unknown or has changed: {detail}",
        "If the node was reinstalled, take its new key: ssh-keygen -R {known_host}, then ssh {login} and compare it.",
    ),
    "H007": ("the name {host} cannot be resolved: {detail}", "Set ansible_host to its address in the inventory."),
    "H008": ("{host} has no space left: {detail}", "Free space there (df -h), also in /tmp; then run again."),
    "H009": (
        "the Python of {host} is too old: {detail}",
        "Install Python 3.9 or later.",
    ),
    "H010": ("a file system of {host} is read-only: {detail}", "Look for disk errors there (dmesg), then remount it."),
    "H011": ("this task needs root on the node and runs there as {user}", "Set become: true, or connect as root."),
    "H012": (
        "Ansible can make no temporary directory on {host}: {detail}",
        "Check that the node is up and that this user can write there, or set ansible_remote_tmp to /tmp/.ansible.",
    ),
    "H013": ("{host} has no sudo: {detail}", "Install sudo there, or connect as root (ansible_user: root)."),
    "H014": (
        "the Python that Ansible found on {host} is a version manager's shim that starts no Python: {detail}",
        "Set the system's own Python in the inventory: ansible_python_interpreter: /usr/bin/python3.",
    ),
    "H015": (
        "sudo on {host} requires a terminal (requiretty): {detail}",
        "Remove requiretty from sudoers there (visudo), or set ansible_pipelining: false for this host.",
    ),
    "H016": (
        "the Python of {host} is damaged: {detail}",
        (
            "Install it again (apt-get install --reinstall python3-minimal libpython3-stdlib; dnf reinstall python3"
            " python3-libs), or set ansible_python_interpreter to an intact one."
        ),
    ),
    # H020: files that gpulab did not write
    "H020": (
        "{path} exists and gpulab did not write it",
        "Move what you need of it into your inventory, then move the file away.",
    ),
    # H030 to H032: reboots
    "H030": (
        "{host} needs a reboot, and is in use ({who}): {reasons}",
        "Wait until it is idle and run again, or reboot it all the same: -e reboot_force={host}",
    ),
    "H031": ("{host} needs a reboot: {reasons}", "Reboot it, or let gpulab do it: -e reboot_policy=if_idle"),
    "H032": (
        "{host} was rebooted and still needs a reboot: {reasons}",
        "Look at its kernel log (journalctl -k -b); gpulab does not reboot a node twice in one run.",
    ),
    # H040 to H059: packages, with H211 to H217; line is the essential line of what the package manager printed
    "H040": ("the package system is in use: {line}", "Let that process end, or stop it, and run again."),
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
            "Refresh the lists on the node (apt-get update, dnf makecache --refresh) and run again. If that does"
            " not help, correct the package source that is named there."
        ),
    ),
    "H043": (
        "a download was damaged: {line}",
        "Run again in a few minutes; if it stays, a proxy or mirror in between serves stale or altered files.",
    ),
    "H044": (
        "a package source is not signed by a key that this node trusts: {line}",
        "{way}.",
    ),
    "H045": (
        "a package source does not fit the node's clock: {line}",
        "Set the node's clock (timedatectl), or mirror.",
    ),
    "H046": ("the node ran out of space: {line}", "Free space on that file system (df -h), then run again."),
    "H047": (
        "an earlier installation was cut off: {line}",
        "Run dpkg --configure -a on the node. Remove a package that fails again (apt-get remove NAME). Then run again.",
    ),
    "H048": (
        "the packages do not fit together: {line}",
        "Release holds (apt-mark showhold, dnf versionlock list), or remove what conflicts; it is all in {log}.",
    ),
    "H049": (
        "a package is not in the lists of this node: {line}",
        "Check its name and version, and that the component or repository that has it is enabled.",
    ),
    "H050": (
        "{mount} has {free} MiB free, the packages need {need} MiB",
        "Free space there, or enlarge it, then run again; nothing was changed.",
    ),
    "H051": (
        "the installation would remove packages that nobody asked to remove: {names}",
        (
            "If nothing needs them, remove them on the node (apt-get remove, dnf remove) and run again. If not, request"
            " the version of the driver or library that they need. Nothing was changed."
        ),
    ),
    "H052": ("a package's own script failed: {line}", "Read {log} on the node."),
    "H053": (
        "the package manager succeeded, but these packages are not as requested: {names}",
        "Read {log} on the node: packages of other names may have been installed instead.",
    ),
    "H054": (
        "the package system is in use since {seconds} s: {holder}",
        "Let that process end, or stop it, and run again.",
    ),
    "H055": (
        "this node has none of the package managers that gpulab knows: apt, dnf",
        "Use a system of the README's table.",
    ),
    "H056": (
        "the installation would change packages that are on hold: {names}",
        (
            "To let them change, release the holds on the node (apt-mark unhold, dnf versionlock delete). Nothing was"
            " changed."
        ),
    ),
    "H057": (
        "a requested package is on hold: {line}",
        "To let it change, release the hold on the node: apt-mark unhold NAME. apt-mark showhold lists all holds.",
    ),
    "H059": ("the package manager failed: {line}", "Read {log} on the node."),
    # H060 to H064: a vendor's package repository, with H210
    "H060": (
        "the key of {origin} {found}; pinned is {pinned}",
        "Nothing was written. Find out from the vendor which key is right before you change the pinned fingerprint.",
    ),
    "H061": (
        "the key of the repository {name} cannot be fetched: {url}: {detail}",
        "Check the node's network and APT's proxy, or hand in the key as a file. Nothing was written.",
    ),
    "H062": (
        "{file} declares {url} already, signed by {found} and not by the pinned key {pinned}",
        "Remove that file, or what installed it, if nothing else needs it; gpulab then declares the repository itself.",
    ),
    "H063": (
        (
            "{host} serves the repository {name} and also the distribution's archive ({other} in {file}), so that APT"
            " cannot tell them apart by their host"
        ),
        "Give the mirror of {name} a host name of its own; an alias in DNS is enough.",
    ),
    "H064": (
        "nobody has told the fingerprint of the key that signs {url}",
        (
            "Compare it ({key_url}) with what the vendor says elsewhere, and set gpulab_nvidia_repository_fingerprint."
            " Nothing was changed."
        ),
    ),
    # H070 to H086: the node before the first change
    "H070": (
        "{gib} GiB of memory on {gpus}; {wanted} GiB are advised",
        "Use it for small models, or another GPU; preflight_vram_min_gib and _advised_gib set the bounds.",
    ),
    "H071": (
        "{cores} CPU cores; {wanted} are advised to feed a GPU",
        "Expect loading of data to be slow; preflight_cpu_cores_min sets the bound.",
    ),
    "H072": (
        "{gib} GiB of memory; {factor} times the {gpus} GiB of the GPUs are advised",
        "Add memory; preflight_memory_factor_min and _advised set the bounds.",
    ),
    "H073": ("the system disk ({source}) is not NVMe", "Move the system to an NVMe disk, or expect it to be slow."),
    "H074": ("{mount} ({source}) is on a disk that turns", "Keep data sets on SSD or NVMe: training waits for them."),
    "H075": ("nothing is mounted at {mount}", "Mount it, or correct preflight_dataset_mounts."),
    "H076": (
        "x{width} is the PCI Express link of {gpus}; x{wanted} is advised",
        "Check its seating and its slot; preflight_pcie_width_min sets the bound.",
    ),
    "H077": (
        "GPUs and CPUs may draw {drawn} W, with {headroom} % in reserve {need} W; the power supply has {supply} W",
        "Set power_limit_watts in gpu_settings_values, or use a larger power supply; preflight_psu_watts declares it.",
    ),
    "H078": (
        "the power budget cannot be added up: nobody knows the limit of {gpus}",
        "It is known once the driver runs.",
    ),
    "H079": ("the clock is not kept in time", "Enable systemd-timesyncd or chrony: certificates and APT rely on it."),
    "H080": ("the file system {mount} does not answer", "Look for disk errors (dmesg), or for a dead network mount."),
    "H081": ("the file system {mount} is read-only", "Look for disk errors (dmesg), then remount it."),
    "H082": ("{mount} has {free} MiB free, the plan takes {need} MiB", "Free space there, or enlarge it."),
    "H083": (
        "{mount} has {free} inodes free, {need} are asked for",
        "Remove small files there (df -i); preflight_free_inodes_min sets the bound.",
    ),
    "H084": (
        "this is a Jetson ({kernel}), whose driver is a part of its own system image",
        "Take it out of gpu-nodes; NVIDIA JetPack keeps it.",
    ),
    "H085": (
        "this is Windows Subsystem for Linux ({kernel}), whose driver is that of Windows",
        "Take it out of gpu-nodes; install the driver in Windows, and none in here.",
    ),
    "H086": (
        "a desktop runs here ({who}), and gpulab's driver is for computing only: no display on an NVIDIA GPU after it",
        "Connect the monitor to another adapter, or install the driver's display packages of the same version by hand.",
    ),
    # H110 to H118: container engines, with H190 and H191
    "H110": ("{path} is not valid: {detail}", "Correct it there; nothing was changed."),
    "H111": (
        "{path} has {settings}, and {wanted} is needed",
        "Change the setting there, or remove the request; gpulab does not overwrite what it did not write.",
    ),
    "H112": (
        "Docker has to be restarted to take its settings over, and containers would notice: {containers}",
        "Stop them and run again, or restart it all the same: -e container_toolkit_restart_force={host}",
    ),
    "H113": (
        "Docker's data would move from {old} to {new}, and {old} holds {held}, which would be left behind",
        "Bring it over by hand, or set container_toolkit_docker_leave_data: true; gpulab moves and deletes none of it.",
    ),
    "H114": ("Docker does not accept its new settings: {detail}", "Correct them; nothing was changed."),
    "H115": (
        "Docker did not come up with its new settings: {detail}. The former ones are back, and Docker {state}",
        "Correct the settings; journalctl -u docker on the node has the whole story.",
    ),
    "H116": (
        "the CDI specification of the GPUs could not be made: {detail}",
        "Look at journalctl -u nvidia-cdi-refresh on the node, then run again.",
    ),
    "H117": (
        "the container toolkit's packages would change under containers that have a GPU: {containers}",
        "Stop them and run again, or do it all the same: -e container_toolkit_restart_force={host}",
    ),
    "H118": (
        "{user} is no user of this node, so {group} cannot take it in",
        "Correct the name, or make the user first.",
    ),
    # H120 to H129: settings of GPUs; before the driver is installed, P093 to P095
    "H120": (
        "gpu_settings_per_gpu names {name}, and this node has no such GPU",
        "Name its UUID, bus id or index: {known}. Nothing was changed.",
    ),
    "H121": (
        "the power supply leaves the GPUs {budget} W, which is {watts} W for GPU {gpu}, and it takes {low} W at least",
        "Use a larger power supply or fewer GPUs, or set limits yourself: gpu_settings_per_gpu. Nothing was changed.",
    ),
    "H122": (
        "GPU {gpu} has no {name} (NVML: {error})",
        "Take it out of gpu_settings_values, or give this GPU null in gpu_settings_per_gpu. Nothing was changed.",
    ),
    "H123": (
        "{name} of GPU {gpu} is to be {value}, and it takes {low} to {high} {unit}",
        "Choose a value in that range. Nothing was changed.",
    ),
    "H124": (
        "the settings of the GPUs cannot be read: {detail}",
        (
            "Install and load the driver: ansible-playbook gpulab.node.provision. Or remove the settings. Nothing was"
            " changed."
        ),
    ),
    "H125": ("GPU {gpu} did not take {name} = {value} ({why})", "{way}."),
    "H126": (
        "{names} would change on {host}, and its GPUs are {state} ({who})",
        "Wait until they are idle and run again. Nothing was changed.",
    ),
    "H127": (
        "GPU {gpu} cannot be cut into the MIG instances {instances}: {why}",
        "Choose of its profiles: {known}.",
    ),
    # H130 to H139: monitoring
    "H130": (
        "systemd would read its units anew for the monitoring, and containers can lose their GPUs by that: {who}",
        "Run again when the GPUs are idle, or do it all the same: -e monitoring_restart_force={host}",
    ),
    # H140 to H149: the network between nodes
    "H140": (
        "/etc/hosts gives {name} to {told}, and the inventory to {address}",
        "Correct the line, or say which one is right: network_address of {name}. Nothing was changed.",
    ),
    "H141": (
        "the other nodes would be told that {host} is at {address}, which it is not: it has {known}",
        "Name the address at which its peers reach it: network_address of {host}. Nothing was changed.",
    ),
    "H142": (
        "SSH may listen on port {ports} of {host}, which the firewall would close",
        "Let SSH listen outside of {closed}, or leave network_firewall out. Nothing was changed.",
    ),
    "H143": (
        "network_firewall is nftables, and {firewall} is active on {host}",
        "Leave it out: {firewall} closes what it does not let in, and is told of the peers. Nothing was changed.",
    ),
    # H150 to H169: storage; nothing was changed when one of these is raised, but for H162
    "H150": ("the storage tier {tier} {wrong}", "Correct it in storage_tiers. Nothing was changed."),
    "H151": (
        "the storage tier {tier} names {device}, which may be another disk after the next boot",
        "Name it by a path that stays; it has now: {names}. Nothing was changed.",
    ),
    "H152": (
        "the storage tier {tier} names {device}, and this node has no such disk",
        "Check the disk and its name: lsblk --output NAME,SERIAL,SIZE; there are now: {known}. Nothing was changed.",
    ),
    "H153": (
        "the storage tier {tier} names {device}, which is more than one: {found}",
        "Name the right one by its path in /dev/disk/by-id. Nothing was changed.",
    ),
    "H154": (
        "the storage tier {tier} would need {device} to be blank, and it is not: {found}",
        (
            "To keep what is on it, name its filesystem (UUID=...), its volume or all disks of its array. To lose it,"
            " make the filesystem on {path} by hand; gpulab never does. Nothing was changed."
        ),
    ),
    "H155": (
        "there is no filesystem on {device}, and the storage tier {tier} does not say that gpulab may make one",
        "If these are the right disks, set format: true for the tier. Nothing was changed.",
    ),
    "H156": (
        "{device} has the filesystem {found}, and the storage tier {tier} wants {wanted}",
        "Correct filesystem in the tier; gpulab never makes another one in its place. Nothing was changed.",
    ),
    "H157": (
        "{device} of the storage tier {tier} is in use elsewhere: {by}",
        "Unmount or stop what uses it, or name what is made of it. Nothing was changed.",
    ),
    "H158": (
        "the storage tier {tier} is for datasets and has several disks without an array: {devices}",
        (
            "gpulab makes RAID 0 for scratch only, which may be lost. Make an array or a volume with redundancy by"
            " hand, and name its filesystem. Nothing was changed."
        ),
    ),
    "H159": ("{mount}, the mount point of the storage tier {tier}, {wrong}", "Clear it. Nothing was changed."),
    "H160": (
        "{file} already has an entry for what is to be mounted at {mount}: {line}",
        "Remove that entry, and gpulab writes its own; or remove the tier. Nothing was changed.",
    ),
    "H161": (
        "{mount} is to be unmounted, and is in use by {users}",
        "Let them end and run again. Nothing was changed.",
    ),
    "H162": (
        "the storage tiers could not be brought to what is declared: {detail}",
        "Look at dmesg and at the devices named; what was done before stays. Then run again.",
    ),
    "H164": (
        "the disks of the storage tier {tier} do not belong to one array: {found}",
        "Name all disks of one array, or only disks that are blank. Nothing was changed.",
    ),
    "H165": (
        "the storage tiers {one} and {other} share {device}",
        "Give each device to one of them. Nothing was changed.",
    ),
    "H166": (
        "the storage tier {tier} would be open to every machine that reaches this node: export_to is {client}",
        "Name hosts or networks; or, if everybody is meant, set export_to_everybody for the tier. Nothing was changed.",
    ),
    "H167": (
        "the storage tier {tier} shall be exported, and {wrong}",
        "Take export_to out of the tier, or let another machine have it. Nothing was changed.",
    ),
    "H168": (
        "{file} exports {path} to {client} already, and the storage tier {tier} would do so, too",
        "Take that line out, and gpulab writes its own; or take export_to out. Nothing was changed.",
    ),
    "H169": (
        "{path} is to be exported to {client} no longer, and files there are held by {holders}",
        "Unmount it there, and run again. Nothing was changed.",
    ),
    # H170 to H172: the key of Secure Boot, with P046 and P047
    "H170": (
        "{present} is there without {missing}, and DKMS would overwrite it with a new pair",
        "Bring the other half back, or move this one away. Nothing was changed.",
    ),
    "H171": (
        "the key that DKMS signs with could not be made: {line}",
        "Correct what it says, or make the pair by hand: {private}, {certificate}.",
    ),
    "H172": (
        "{what} failed: {line}",
        "Correct what it says; mokutil --list-new shows which keys wait.",
    ),
    # H173 and H174: arguments of the kernel in the boot loader's entries
    "H173": (
        "{path} has {found}, which gpulab did not put there, and every kernel is to be given {argument}",
        (
            "Take it out (grubby --update-kernel=ALL --remove-args={name}), or give it to every kernel yourself, or"
            " leave it alone: tuning_overrides: {{{name}: null}}. Nothing was changed."
        ),
    ),
    "H174": (
        "grubby made other arguments of the kernel than it was asked for, in {path}: {found}",
        "All its files are as they were. Say so to the makers of grubby, and set them by hand: {wanted}.",
    ),
    # H190 and H191: how Docker is started
    "H190": (
        (
            "Docker refused its new settings at a reload: {detail}. The former file is restored, and Docker was not"
            " stopped"
        ),
        "Correct /etc/docker/daemon.json, or Docker's flags (see systemctl cat docker.service), and run again.",
    ),
    "H191": (
        "Docker's flag --config-file makes it read {file}, but gpulab manages {path} only",
        "Move its settings to {path} and remove the flag, or leave Docker out of container_toolkit_engines.",
    ),
    # H200 to H209: what keeps the driver's modules from being loaded
    "H200": (
        "the module {module} of the NVIDIA driver cannot be loaded on this node: {by} has {line}",
        "{way}; run again. Nothing was changed.",
    ),
    "H201": (
        "{by} has {line}, so this node loads the NVIDIA driver at boot only if something loads its module by name",
        "{way}.",
    ),
    # H210 to H219: package sources and what package managers say, with H040 to H064
    "H210": (
        "{file} declares {other}, which has the packages of {name} for another system than {url}; APT would mix them",
        (
            "Remove that file, or the package that installed it (dpkg --search {file}), and run again."
            " Nothing was changed."
        ),
    ),
    "H211": (
        "no package source of this node has {package}, the headers of kernel {kernel}",
        (
            "Install and boot a newer kernel whose headers the sources have, and remove this one; or install the"
            " headers from where this kernel came from. Then run again."
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
            "Correct the file that it names. If it names none, look in /etc/apt (sources.list.d, preferences.d,"
            " apt.conf.d), or in /etc/dnf and /etc/yum.repos.d; register a RHEL that is not registered"
            " (subscription-manager register). apt-get check, or dnf repolist, shows whether it is valid."
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
    # H220 to H229: gpulab's records on a node
    "H220": (
        "{path}, gpulab's record of what it did on this node, is damaged: {detail}",
        "Restore it from a backup, or move it away (mv {path} {path}.damaged) and run again. {lost}",
    ),
    "H221": (
        "{path}, gpulab's record of what it did on this node, cannot be written: {detail}",
        "Free space there (df -h, df -i), or make that file system writable; then run again.",
    ),
    # I: the inventory and what is given on the command line; I001 to I014: variables
    "I001": ("there is no variable {variable}", "{advice}"),
    "I002": ("{variable} is internal to gpulab", "Remove it: what may be set carries no underscores in front."),
    "I003": (
        "{variable} is the number {value}, and it takes text: of a number, YAML drops the last zero of 580.10",
        'Quote it, with every digit: "{value}"; on a host line of an INI inventory, which loses quotes, \'"{value}"\'.',
    ),
    "I004": (
        "{variable} is the text {value}, but it takes true or false",
        "Write true or false without quotes, in YAML or JSON: inside a mapping or a list, a text stays a text.",
    ),
    "I005": ("{variable} is {value}, and it takes {expected}", "{advice}"),
    "I006": ("{variable} is {value}, which is none of {choices}", "{advice}"),
    "I007": ("{variable} is {value}, which has not the form it takes", "It takes: {description}"),
    "I008": ("{variable} is {value}, {bound}", "It takes: {description}"),
    "I009": ("{variable} has no {field}", "Add {field}: {description}"),
    "I010": ("{variable} has a field {field}, which there is not", "{advice}"),
    "I011": ("{variable} holds {value} twice", "Give each a name of its own."),
    "I012": ("{one} and {other} exclude each other: {reason}", "{way}."),
    "I013": ("{variable} cannot be worked out: {detail}", "Define what it refers to, or correct its template."),
    "I014": ("{variable} names {value}, which is no host of this run", "{advice}"),
    # I020 to I024: hosts and groups
    "I020": ("there is no host to work on: {detail}", "{advice}"),
    "I021": ("no host type claims {hosts}", "Put each under one of {types}, and that under gpu-nodes."),
    "I022": ("{types} both claim {host}", "Leave it under one of them."),
    "I023": ("the group {group} of {hosts} is no host type", "Did you mean {near}?"),
    "I024": ("{hosts} have the same address {address}", "Give each its own ansible_host, or remove all but one."),
    # I030 to I032: values and the files that they are written to; none of these shows the value, which may be secret
    "I030": ("{variable} has {problem}", "It takes {form}."),
    "I031": (
        "{variable} contains a password, which the plan, reports and files that everybody reads would show",
        "{way}.",
    ),
    "I032": ("{option} has {problem}, which a file of the format {format} cannot hold", "Remove it from the value."),
    # I040: options of ansible-playbook
    "I040": (
        "--start-at-task {task} skips the tasks that read and plan the node, but all later tasks need them",
        "Use --tags with the name of a role, such as --tags cuda. A full run, too, does only what is missing.",
    ),
    # P: the plan; P001 to P049: GPUs, kernels, driver, CUDA and environments
    "P001": ("there is no plan for {system}", "Use one of: {supported}, on x86_64 or aarch64."),
    "P002": (
        "no NVIDIA GPU is on the PCI bus of this node",
        "Check the GPU's seating, its power and lspci -d 10de:; to build an image, set gpulab_without_gpu: true.",
    ),
    "P003": (
        "the catalog knows neither the GPU {pci_id} nor the range its PCI id lies in",
        "Update gpulab, or add the GPU to catalog/gpus.yml with its source.",
    ),
    "P004": (
        "no driver serves both {one} and {other} of this node ({why})",
        "Move one of the two GPUs to another node.",
    ),
    "P005": (
        "the running kernel {kernel} has neither headers nor modules on this node",
        "Install {package}, or boot an installed kernel.",
    ),
    "P006": (
        "no kernel is installed here, and the running one ({running}) is the container host's",
        "Name the kernels to build for in nvidia_driver_kernels.",
    ),
    "P007": (
        "the catalog knows no driver branch {branch}",
        "Use one of: {known}; or leave nvidia_driver_branch unset.",
    ),
    "P008": (
        "driver branch {branch} is too old to be installed: {state}",
        '{way}: gpulab_allow_branches: ["{branch}"].',
    ),
    "P009": (
        "there are no driver packages of the source {source} for {system}",
        "Set {way}.",
    ),
    "P010": (
        "driver {branch} does not drive {gpu}",
        "This GPU takes {demand}; leave nvidia_driver_branch and _version unset.",
    ),
    "P011": (
        "the {wished} kernel modules do not drive {gpu}",
        "Set nvidia_driver_kernel_modules to {right}, or leave it unset.",
    ),
    "P012": (
        "driver branch {branch} has no {flavour} kernel modules",
        "It has the {has} ones: change nvidia_driver_kernel_modules or nvidia_driver_branch.",
    ),
    "P013": (
        "{source} carries no driver branch {branch}",
        "It carries {carried}. {way}.",
    ),
    "P014": (
        "no driver branch of {source} serves {gpu}, which takes {demand}",
        "{way}.",
    ),
    "P015": (
        "the wished driver version {version} is not of the wished branch {branch}",
        "Leave nvidia_driver_branch out, or make the two agree.",
    ),
    "P016": ("the {driver} modules do not build for kernel {kernel}: {title} ({symptom})", "{way}."),
    "P017": (
        "driver {version} is below the security floor {floor} (NVIDIA bulletin {bulletin})",
        'Take {floor} or newer, or accept it by name: gpulab_allow_branches: ["{branch}"].',
    ),
    "P018": (
        "Secure Boot is on and the key that DKMS signs with is not enrolled, so the module would not load",
        (
            "Set secure_boot_mok_password, and gpulab prepares its enrolment{way}. By hand, as root: make the key"
            " where /var/lib/dkms/mok.pub is missing (openssl req -new -x509 -newkey rsa:2048 -nodes -days 36500 -subj"
            " '/CN=DKMS module signing key/' -keyout /var/lib/dkms/mok.key -outform DER -out /var/lib/dkms/mok.pub) and"
            " run mokutil --import /var/lib/dkms/mok.pub, with a password to be used once; reboot, and at the console"
            " choose Enroll MOK, Continue, Yes, type the password, choose Reboot; then run again."
        ),
    ),
    "P019": (
        "a .run driver on top of driver packages ({packages}) leaves two drivers in each other's way",
        "Keep the packages ({way}), or remove them first.",
    ),
    "P020": (
        "a driver from a .run file ({version}) is installed, and packages do not replace its files",
        "Run nvidia-uninstall on the node first; to keep it, set nvidia_driver_source: runfile.",
    ),
    "P021": ("{variable} holds an outdated recipe, '{text}': {wrong}", "Instead: {right}."),
    "P022": ("the catalog knows no CUDA toolkit {version}", "Use one of: {known}."),
    "P023": (
        "CUDA {version} needs driver {floor} or newer, and the plan has {driver}",
        "Choose an older CUDA, or a newer driver: nvidia_driver_source: nvidia.{way}",
    ),
    "P024": ("nvcc of CUDA {version} does not compile for {gpu}", "{way}."),
    "P025": (
        "{source} carries no CUDA {version}",
        "{way}.",
    ),
    "P026": (
        "cuda_default {default} is not among cuda_toolkits ({toolkits})",
        "Add it there, or leave cuda_default out.",
    ),
    "P027": (
        "{library} {version} is requested without a CUDA toolkit that it can be installed for",
        'Request one: cuda_toolkits: ["{example}"].',
    ),
    "P028": ("the catalog knows no {library} {version}", "It knows {first} to {last}."),
    "P029": ("{library} {version} does not serve {target}", "Use {right}."),
    "P030": (
        "container toolkit {version} is below the security floor {floor} ({cves})",
        "Leave container_toolkit_version out, or take {floor} or newer.",
    ),
    "P031": (
        "the node has NVSwitches, and the driver source {source} of {system} has no Fabric Manager of its version",
        "{way}.",
    ),
    "P032": (
        "environment {name} names {named} of pytorch, tensorflow and jax",
        "Give each environment exactly one: their cuDNN and NCCL exclude each other.",
    ),
    "P033": ("environment {name}: the catalog knows no {framework} {version}", "It knows {known}."),
    "P034": ("environment {name}: {release} has no build {index}", "Leave index out, or use one of: {right}."),
    "P035": ("environment {name}: no build of {release} runs on this node ({why})", "Use {right}."),
    "P036": (
        "environment {name}: {release} has no wheel for Python {python}",
        "Use Python {right}, or leave python out.",
    ),
    "P037": ("the preview cannot be written to {path}: {detail}", "Name another file: -e plan_json=FILE."),
    "P038": (
        "packages of another driver are installed and conflict with branch {branch} from {source}: {names}",
        (
            "Set nvidia_driver_remove_conflicting: true, and gpulab removes these packages and no others{keep}."
            " Nothing was changed."
        ),
    ),
    "P039": (
        "the CUDA toolkit of {system} itself comes with that system's libcuda, and the driver is planned from {source}",
        "Set cuda_source: nvidia{way}.",
    ),
    "P040": (
        "{library} {version} is wished for, and {system} itself has none that is tied to its CUDA toolkit",
        "Set cuda_source: nvidia, or leave {library}_version out: frameworks bring their own.",
    ),
    "P041": ("{system} itself has no CUDA toolkit that gpulab knows", "Set cuda_source: nvidia."),
    "P042": (
        "{what} is wished for on {system}, and this version installs it by APT only",
        "Use Debian or Ubuntu, or wish for none of it there. Nothing was changed.",
    ),
    "P043": (
        "the driver is to come from {url}, and nobody has said which SHA-256 that file has to have",
        "Set nvidia_driver_runfile_sha256, from whom you trust about that file, and nvidia_driver_version with it.",
    ),
    "P044": (
        "nvcc of CUDA {version} compiles with GCC up to {newest}, and {system} has GCC {has} and no other",
        "{way}. Without it, compile in a container or a conda environment. Nothing was changed.",
    ),
    "P046": (
        "{variable} cannot be typed at the console of every node",
        "Use 8 to 256 letters, digits and punctuation marks of ASCII, without spaces; as one password for one use.",
    ),
    "P047": (
        "Secure Boot is on, and the key that DKMS signs with waits to be enrolled at the node's console",
        (
            "Reboot the node, and at its console press a key within 10 seconds; choose Enroll MOK, Continue, Yes, type"
            " the password, choose Reboot; then run again. If that moment is missed, the request is gone; a run with"
            " secure_boot_mok_password makes it anew."
        ),
    ),
    "P048": (
        "driver {version} is wished for, and {source} gives the version of branch {branch} that it has",
        "Leave nvidia_driver_version out, or set nvidia_driver_source to another one. Nothing was changed.",
    ),
    # P050 to P056: settings of kernel, NCCL and GPUs, with P075 and P076
    "P050": (
        "tuning_overrides has {name}, which gpulab does not tune",
        "Name a sysctl, as vm.swappiness, or one of: {known}.",
    ),
    "P051": ("{variable} has {value} for {name}", "Give a number or one line of text, or null to leave it alone."),
    "P052": (
        "nccl_interface is {name}, and this node has no such interface",
        "Leave it unset, or name one of: {known}.",
    ),
    "P053": ("nccl_overrides has {name}, which is no setting of NCCL", "Its names are as NCCL_DEBUG."),
    "P054": ("{variable} has {name}, which is no setting of a GPU", "Name one of: {known}."),
    "P055": (
        "{variable} has {value} for {name}, which takes {form}",
        "Correct it, or give null to leave it alone.",
    ),
    "P056": (
        "{variable} turns MIG off and names the MIG instances {instances}",
        "Leave one of them out: instances turn MIG on by themselves.",
    ),
    # P057 to P060: nvidia_driver_imex_nodes, with P096
    "P057": (
        "nvidia_driver_imex_nodes has {address}, which is no address that other nodes reach",
        "Give IP addresses, one of each node of the NVLink domain.",
    ),
    "P058": (
        "nvidia_driver_imex_nodes has no address of this node ({nodes})",
        "Give the same list to every node of the NVLink domain, with one address of each. This node has {own}.",
    ),
    "P059": (
        "/etc/nvidia-imex/nodes_config.cfg is not gpulab's, and lists other nodes than are wished for ({nodes})",
        (
            "Give those nodes, or leave nvidia_driver_imex_nodes out where something else keeps the file, as Slurm's"
            " prolog does; else move the file away."
        ),
    ),
    "P060": (
        "{boards}: the driver source {source} of {system} has no nvidia-imex of its version, as far as is known",
        "Leave nvidia_driver_imex_nodes out{way}.",
    ),
    # P070 to P079: monitoring, sets of packages, cuda-compat and Docker
    "P070": (
        "/etc/default/prometheus-node-exporter says {settings}, and monitoring_state: present says otherwise",
        "Take it out of the file, or leave monitoring_state out; gpulab does not overwrite what it did not write.",
    ),
    "P071": (
        "monitoring_listen_address is {address}, which this node does not have",
        "Name one of: {known}; or leave it unset.",
    ),
    "P072": (
        "monitoring_gpus is dcgm, and {reason}",
        "Leave it out: gpulab's collector reads every board through NVML. Nothing was changed.",
    ),
    "P073": ("environment {name}: there is no set of packages {set}", "It can be one of: {known}."),
    "P074": (
        "environment {name}: the set {set} is for {needed}, and its framework is {framework}",
        "Leave the set out, or name its packages under packages.",
    ),
    "P075": ("tuning_overrides has {value} for the service {name}", "Give {allowed}, or null to leave it alone."),
    "P076": (
        "nccl_tests_url asks for nccl-tests, and {reason}",
        "Give nccl_tests_sha256, and nccl_version beside the CUDA toolkit to build with; or leave it out.",
    ),
    "P077": (
        "cuda_compat asks for cuda-compat of CUDA {version}, which driver {driver} does not run in full, and {reason}",
        "Take driver {paired} or newer, or an older CUDA{way}. Nothing was changed.",
    ),
    "P078": (
        "docker.com's Docker is wished for, and cannot be beside {rivals}, which the node has",
        "Remove them where nothing needs them, or leave Docker out of container_toolkit_engines. Nothing was changed.",
    ),
    # P080 to P084: GPUs that this node cannot use
    "P080": (
        "every NVIDIA GPU of this node is given to virtual machines: {gpus}",
        (
            "Remove the node from the group gpu-nodes. To use a GPU on the node itself, detach it from the virtual"
            " machine and from {drivers} (modprobe.d, kernel arguments, driverctl), and run again. Nothing was changed."
        ),
    ),
    "P081": (
        "GPU {gpus} is a virtual GPU (vGPU), which only NVIDIA's GRID driver of the hypervisor's branch drives",
        (
            "Remove the node from the group gpu-nodes, and use the GRID driver that the operator of the hypervisor or"
            " cloud provides. Nothing was changed."
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
        "somebody put the driver on hold ({names}), but the plan replaces it: {change}",
        (
            "To let gpulab replace it, release the hold on the node (apt-mark unhold, or dnf versionlock delete)"
            "{keep}. Nothing was changed."
        ),
    ),
    # P090 to P099: versions newer than the catalog, and settings that the node's hardware does not have
    "P090": (
        "driver branch {branch} is newer than the catalog, which ends at {newest}",
        (
            "Update gpulab; or set gpulab_trust_newer: true, and gpulab treats it like {newest}; or choose another"
            ' branch: nvidia_driver_branch: "{other}". Nothing was changed.'
        ),
    ),
    "P091": (
        "{what} {version} is newer than the catalog, which ends at {newest}",
        (
            "Update gpulab; or set gpulab_trust_newer: true, and gpulab treats it like {newest}; or {way}."
            " Nothing was changed."
        ),
    ),
    "P092": (
        "the catalog knows no release of driver branch {branch}",
        "Name a published release in nvidia_driver_version, with all its numbers{way}. Nothing was changed.",
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
        "power_limit_watts is {watts} for {gpu}, but this board is made for {power} W",
        "Set a limit of {power} W or less. Nothing was changed.",
    ),
    "P096": (
        "nvidia_driver_imex_nodes is set, but no GPU of this node is in an NVLink domain of several nodes: {gpus}",
        "Set it only for the nodes of a GB200 or GB300 rack. Nothing was changed.",
    ),
    # D001 to D003: kernel modules that DKMS builds
    "D001": (
        "DKMS could not build {module} {version} for kernel {kernel}: {error}",
        "See {log} on the node; {advice}.",
    ),
    "D002": (
        "kernel {kernel} has no headers, so {module} cannot be built for it",
        "Install linux-headers-{kernel} or kernel-devel-{kernel}; if no server has it, boot a newer kernel first.",
    ),
    "D003": ("DKMS has no source of {module} {version}", "Install the package that brings it; DKMS has: {added}."),
    # D020 to D023: another driver in place of one that works
    "D020": (
        "a package cannot be kept as it is, so there would be no way back: {line}",
        (
            "See {log} on the node; make its former version available, and run again, or do without a way back:"
            " nvidia_driver_keep_former: false."
        ),
    ),
    "D021": (
        "{host} is to change its driver ({change}), and is in use ({who})",
        (
            "Wait until it is idle and run again, or set nvidia_driver_change: wait; to change it all the same:"
            " -e nvidia_driver_change_force={host}"
        ),
    ),
    "D022": (
        "the new driver of {host} did not prove itself, and the former one is back: {cause}",
        "Read the findings above; keep the former driver by its version: nvidia_driver_version.",
    ),
    "D023": (
        "the former packages {names} could not be put back",
        "See {log} on the node; their files are in {directory}.",
    ),
    # D030 to D037: a driver from a .run file; D011 was given up and is not given again
    "D030": (
        "the .run file cannot be had from {url}: {detail}",
        "Set nvidia_driver_runfile to a mirror, or to a path on the controller. Nothing was changed.",
    ),
    "D031": (
        "{url} has SHA-256 {found}, and {wanted} is asked for",
        "Look up who is right: the file may be another version, or altered on its way. Nothing was changed.",
    ),
    "D032": (
        "{url} is not the .run file of driver {version}: {detail}",
        "Make nvidia_driver_version, nvidia_driver_runfile and _sha256 name the same driver. Nothing was changed.",
    ),
    "D033": (
        "the {kernel_modules} modules of driver {version} do not build for kernel {kernel}: {error}",
        "See {log} on the node; {advice}. The driver that was there, if any, is untouched.",
    ),
    "D034": (
        "the installer of driver {version} failed: {error}",
        "See {log} on the node. {left}",
    ),
    "D035": (
        "the .run file of driver {version} cannot install {kernel_modules} kernel modules",
        "Set nvidia_driver_kernel_modules, or take another version. Nothing was changed.",
    ),
    "D036": (
        "the driver {version} could not be taken off by its own uninstaller: {error}",
        "See {log} on the node, and run {uninstaller} there by hand.",
    ),
    "D037": (
        "gpulab does not have the .run file of driver {version}, so there would be no way back to it",
        "Do without a way back: nvidia_driver_keep_former: false. Nothing was changed.",
    ),
    # D040 to D049: a driver that does not work on the node
    "D040": (
        "{names} cannot be configured: DKMS could not build {module} {version} for kernel {kernel}: {error}",
        "Remove these packages (apt-get remove {remove}) and run again: gpulab then plans a driver that builds.",
    ),
    "D041": (
        "DKMS could not build {module} {version} for kernel {kernel}; this module is not of gpulab's driver: {error}",
        (
            "Update or remove the package of {module} (apt list --installed '*dkms*' lists such packages), or remove"
            " the module from DKMS (dkms remove {module}/{version} --all). Then run again. See {log} on the node."
        ),
    ),
    # C: what nvcc says of a node, and the source of nccl-tests
    "C001": (
        "nvcc of CUDA {version} does not compile for compute capability {capabilities}: {error}",
        "Choose a CUDA that knows the GPU and the host compiler, or repair what the message names.",
    ),
    "C002": (
        "the source of nccl-tests cannot be fetched from {url}: {detail}",
        "Check the node's network and proxy, or set nccl_tests_url to a mirror. Nothing was built.",
    ),
    "C003": (
        "{url} has SHA-256 {found}, and nccl_tests_sha256 is {wanted}",
        "Check which of the two is right: the file may be another version, or altered on its way. Nothing was built.",
    ),
    # E: Python environments; line is the essential part of what uv, pip or the environment's own interpreter said
    "E001": (
        "{path} exists and gpulab did not make it",
        "Move it away, or give the environment another name. Nothing was changed.",
    ),
    "E002": (
        "a package index cannot be reached for {name}: {line}",
        "{advice} {former}",
    ),
    "E003": (
        "a file for {name} is not the one that is wanted: {line}",
        "A proxy or mirror serves altered files, or the lock is for another system. {former}",
    ),
    "E004": (
        "the packages of {name} do not fit together: {line}",
        "Change its packages, its channels, or its framework's version. {former}",
    ),
    "E005": (
        "the index has no wheel of a package of {name} for its Python, and gpulab does not build packages: {line}",
        (
            "Check the package's name and version. If the index has only its source code, use a version that has a"
            " wheel, or put your own wheel on an index. If the index has a wheel, something else answers at its"
            " address, such as a login page: check the node's proxy and pip.conf. {former}"
        ),
    ),
    "E006": (
        "there is no Python for {name}: {line}",
        "Use the Python of the system, or name a mirror of Python builds: environments_python_mirror. {former}",
    ),
    "E007": (
        "a line of a lock does not pin its package: {line}",
        (
            "Write name==version with --hash; in a lock of conda, ADDRESS#SHA256 for a package of a channel, and"
            " name @ git+ADDRESS@COMMIT for one from git. gpulab.lock has examples. Nothing was changed."
        ),
    ),
    "E008": ("{name} was built and does not work: {line}", "Correct what it says. {former}"),
    "E009": ("{name} could not be built: {line}", "Read {log} on the node. {former}"),
    "E010": ("{name} is in use by the processes {users}", "Wait for them to end, and run again. Nothing was removed."),
    "E011": (
        "there is no space left to build {name}: {line}",
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
        "the SHA-256 of {url} is {found}, and {wanted} is wanted",
        "A proxy or mirror serves another file, or version and SHA-256 do not belong together. Nothing was installed.",
    ),
    "E015": (
        "nobody has told the SHA-256 of micromamba {version} for {architecture}",
        "Set conda_micromamba_sha256 to what its release says (in the file .sha256 beside it). Nothing was changed.",
    ),
    "E016": (
        "{name} names the channel {channel}, which is not free for everybody, so gpulab does not use it by that name",
        (
            "Set conda_defaults_channel, for example to conda-forge, to use another channel instead; or set the"
            " environment's channels, which replace those of its file; or write the channel's whole address there."
            " Nothing was changed."
        ),
    ),
    "E017": (
        "{path} is there, so {directory} is another installation of conda",
        "Give gpulab's a place of its own: conda_directory. Nothing was changed.",
    ),
    "E018": ("{file} of the environment {name} cannot be used: {detail}", "{advice} Nothing was changed."),
    # E019 to E022: groups, locks and kernels of Jupyter
    "E019": (
        "{name} is for the group {group}, which this node has not",
        "Create the group, or name another one. Nothing was changed.",
    ),
    "E020": (
        "the lock of {name} has no {package}, which is wished for",
        "Make the lock of an environment that has it, or wish for the environment without it. Nothing was changed.",
    ),
    "E021": (
        "{path} is there, and gpulab did not write it",
        "Move it away, or do not wish for jupyter in the environment of that name. Nothing was changed.",
    ),
    "E022": (
        "{package} cannot be locked: the index told no SHA-256 of it, and pip before 23.1 works none out itself",
        "Wish for pip >=23.1 in the environment, or use an index that tells it. The environment is as it was.",
    ),
    # E030 to E039: what cannot be fetched, built or locked
    "E030": (
        "{package} cannot be locked: pip installed it from {source}, whose content can change",
        (
            "Request a wheel of it, by its address or from your own index, or a git address with the full commit."
            " The environment is as it was."
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
            "Check its address and commit, the node's network and proxy, and that git is one of the environment's"
            " packages. {former}"
        ),
    ),
    "E034": (
        "pip's configuration on the node cannot be read: {path}: {detail}",
        "Correct the file; pip config debug on the node shows what pip reads. Nothing was changed.",
    ),
    # S001 to S008: long steps
    "S001": ("{name} is no name for a long step", "Use letters, digits, '.', '_' and '-', at most 100."),
    "S002": (
        "systemd is not the first process of this node, so no step can outlive the connection",
        "Boot the node with systemd as its init; a container needs /sbin/init as its command.",
    ),
    "S003": (
        "the long step {name} is still running another command: {command}",
        "Wait for it to end (its log on the node: {log}), or stop it there: systemctl stop gpulab-{name}.",
    ),
    "S004": ("the long step {name} could not be started: {detail}", "Check that the task runs as root (become: true)."),
    "S005": (
        "the long step {name} was stopped after {seconds} s, its last line: {line}",
        "Read {log} on the node; raise the task's timeout if it was only slow.",
    ),
    "S006": (
        "the long step {name} ended without a result ({detail}), its last line: {line}",
        "Run again; what it wrote is in {log} on the node.",
    ),
    "S007": (
        "the node has not answered for {seconds} s while the long step {name} runs there: {detail}",
        "Run again once it is reachable: a step that still runs, or has ended, is picked up.",
    ),
    "S008": ("the long step {name} failed with status {rc}, its last line: {line}", "Read {log} on the node."),
    # S010 to S012: several runs on one node
    "S010": (
        (
            "another run is working on this node: process {pid} of {user} on {machine}, since {since}; its last sign of"
            " life was {seconds} s ago"
        ),
        (
            "Wait until it has ended. If it failed or was killed, run again from {machine}, or in {left} s from any"
            " machine."
        ),
    ),
    "S011": (
        (
            "another run has taken over this node, because this run gave no sign of life for minutes: process {pid} of"
            " {user} on {machine}, since {since}"
        ),
        "Wait until it has ended (its last sign of life was {seconds} s ago), then run again.",
    ),
    "S012": (
        "long steps of an earlier run are still running on this node: {names}",
        "Wait until they have ended (logs: /var/lib/gpulab/steps/NAME/log), then run again. Nothing was changed.",
    ),
    # V: the proof of a node
    "V001": (
        "{host} is not proven fit; findings of severity {level} or above: {count}",
        "Each finding below names its own.",
    ),
    "V002": (
        "there are no facts of {host}: gpulab.node.gpu_facts did not run there, or failed",
        "Run it before this task, and look at its own error.",
    ),
    "V003": ("the report cannot be written to {path}: {detail}", "Name another directory, or free space there."),
    "V004": ("{path} cannot be compared with: {detail}", "Name a report.json that gpulab wrote."),
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

# Copyright (c) 2026 The gpulab founders
# GNU General Public License v3.0+ (see https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Refusals about package sources and package managers."""

from __future__ import annotations

from functools import partial

from ansible_collections.gpulab.node.plugins.module_utils.core.refusal import build

CODES = {
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
            " there, {way}. Nothing was changed."
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
}
refuse = partial(build, CODES)

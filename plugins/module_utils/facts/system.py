# Copyright (c) 2026 The gpulab founders
# GNU General Public License v3.0+ (see https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The node itself: distribution, kernel, virtualization, Secure Boot, memory, package state, clock."""

from __future__ import annotations

import ctypes
import platform
import re
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ansible_collections.gpulab.node.plugins.module_utils.core.locks import find_holder
from ansible_collections.gpulab.node.plugins.module_utils.driver import mok
from ansible_collections.gpulab.node.plugins.module_utils.facts.processes import process_fields

if TYPE_CHECKING:
    from ansible_collections.gpulab.node.plugins.module_utils.core.node import Node
    from ansible_collections.gpulab.node.plugins.plugin_utils.facts.machine import System

FAMILIES = {"debian": "debian", "ubuntu": "debian", "rhel": "redhat", "fedora": "redhat", "centos": "redhat"}
SECURE_BOOT = f"{mok.EFIVARS}/SecureBoot-8be4df61-93ca-11d2-aa0d-00e098032b8c"
SBAT_LEVEL = f"{mok.EFIVARS}/SbatLevelRT-{mok.SHIM}"
# The start of a DMI vendor or product name: what systemd-detect-virt calls it
HYPERVISORS = (
    ("KVM", "kvm"),
    ("QEMU", "qemu"),
    ("Amazon EC2", "amazon"),
    ("Google Compute Engine", "google"),
    ("OpenStack", "kvm"),
    ("VMware", "vmware"),
    ("VirtualBox", "oracle"),
    ("innotek GmbH", "oracle"),
    ("Xen", "xen"),
    ("Bochs", "bochs"),
    ("Parallels", "parallels"),
    ("Hyper-V", "microsoft"),
    ("Virtual Machine", "microsoft"),
)
CLOCK_SERVICES = ("chrony", "chronyd", "ntpsec", "ntp", "ntpd", "openntpd", "systemd-timesyncd")
INITRAMFS_PROGRAMS = ("dracut", "update-initramfs")
_SYNCHRONIZED_WITHIN = 16_000_000  # microseconds of possible error, as in systemd
DPKG_LOCKS = ("/var/lib/dpkg/lock-frontend", "/var/lib/dpkg/lock")
_UNFINISHED = frozenset({"half-installed", "half-configured", "unpacked"})


def os_release(text: str) -> dict[str, str]:
    """Parse os-release(5)."""
    pairs = (line.partition("=") for line in text.splitlines() if not line.startswith("#"))
    return {key.strip(): value.strip().strip("\"'") for key, equals, value in pairs if equals}


def read_release(node: Node) -> dict[str, Any]:
    """Return which distribution this is, and which release."""
    return distribution(os_release(node.text("/etc/os-release") or node.text("/usr/lib/os-release")))


def distribution(release: dict[str, str]) -> dict[str, Any]:
    """Name the distribution; ``family`` is None for one that gpulab does not know."""
    names = [release.get("ID", ""), *release.get("ID_LIKE", "").split()]
    return {
        "id": release.get("ID", "linux"),
        "version": release.get("VERSION_ID"),
        "codename": release.get("VERSION_CODENAME"),
        "name": release.get("PRETTY_NAME", release.get("NAME", "Linux")),
        "family": next((FAMILIES[name] for name in names if name in FAMILIES), None),
    }


def hypervisor(node: Node) -> str:
    """Name the hypervisor below this machine; "none" on bare metal."""
    names = [
        node.text(f"/sys/class/dmi/id/{name}") for name in ("product_name", "sys_vendor", "board_vendor", "bios_vendor")
    ]
    for start, kind in HYPERVISORS:
        if any(name.startswith(start) for name in names):
            return kind
    if node.text("/sys/hypervisor/type") == "xen":
        return "xen"
    flags = re.search(r"^flags\s*:.*\bhypervisor\b", node.text("/proc/cpuinfo"), re.MULTILINE)
    return "vm-other" if flags else "none"


def secure_boot(node: Node) -> str:
    """Read Secure Boot's state: an EFI variable is four bytes of attributes and its value."""
    if not node.exists("/sys/firmware/efi"):
        return "unsupported"
    variable = node.data(SECURE_BOOT)
    if not variable or len(variable) != 5:  # noqa: PLR2004 - attributes and one byte
        return "unknown"
    return "enabled" if variable[4] else "disabled"


def sbat_level(node: Node) -> str | None:
    """Read which generations of boot loaders shim asks for under Secure Boot; None where it says nothing."""
    variable = node.data(SBAT_LEVEL)
    return variable[4:].decode("ascii", "replace").rstrip("\0") if variable else None


def boot_id(node: Node, *, inside: bool) -> str:
    """Return what changes with every boot: the kernel's own id, and in a container the start of its init too."""
    kernel = node.text("/proc/sys/kernel/random/boot_id")
    return f"{kernel}-{process_fields(node.text('/proc/1/stat'))[1]}" if inside else kernel


def memory_mib(meminfo: str) -> int | None:
    """Parse the memory's size from /proc/meminfo."""
    match = re.search(r"^MemTotal:\s+(\d{1,15}) kB", meminfo, re.MULTILINE)
    return int(match.group(1)) // 1024 if match else None


def unfinished_packages(status: str) -> list[str]:
    """Name the packages that dpkg began to install and did not end, from /var/lib/dpkg/status."""
    found = []
    for record in ("\n" + status).split("\nPackage: ")[1:]:
        name, _newline, rest = record.partition("\n")
        words = rest.partition("\n")[0].split()
        if words[:1] == ["Status:"] and words[-1] in _UNFINISHED:
            found.append(name)
    return found


def package_state(node: Node, unfinished: list[str]) -> str:
    """Tell ok, interrupted, or busy: a transaction that runs has not been cut off."""
    if not unfinished and not node.names("/var/lib/dpkg/updates"):
        return "ok"
    running = find_holder(tuple(node.path(lock) for lock in DPKG_LOCKS), node.path("/proc"))
    return "busy" if running else "interrupted"


def clock_synchronized(node: Node) -> bool | None:
    """Ask the kernel whether the clock is kept in time (adjtimex(2), where timedatectl takes it from)."""
    if node.root != Path("/"):
        return None
    words = (ctypes.c_long * 64)()  # struct timex: modes, offset, freq, maxerror, ...; modes 0 changes nothing
    try:
        if ctypes.CDLL(None).adjtimex(words) < 0:
            return None
    except (OSError, AttributeError):
        return None
    return words[3] < _SYNCHRONIZED_WITHIN


def clock_services(node: Node) -> list[str]:
    """Name the units that can keep the clock in time, those of whole NTP servers first."""
    units = (f"{name}.service" for name in CLOCK_SERVICES)
    own, *places = ("/etc/systemd/system", "/usr/lib/systemd/system", "/lib/systemd/system")
    # A link is another name of a unit, or masks it.
    return [
        unit
        for unit in units
        if node.link(f"{own}/{unit}") is None
        and any(node.exists(f"{at}/{unit}") and node.link(f"{at}/{unit}") is None for at in (own, *places))
    ]


def initramfs_programs(node: Node) -> list[str]:
    """Name the programs that make an initramfs here; newer packages of dracut bring an update-initramfs, too."""
    return [
        program
        for program in INITRAMFS_PROGRAMS
        if any(node.exists(f"{directory}/{program}") for directory in ("/usr/sbin", "/usr/bin"))
    ]


def signing_key(node: Node, state: str, distribution: str) -> tuple[bool | None, bool | None]:
    """Tell whether the key that DKMS signs with is enrolled, or waits for that; only Secure Boot asks for it."""
    asked = state == "enabled"
    stands = mok.standing(node, mok.key_pair(node, distribution)) if asked else None
    if stands in (None, mok.UNKNOWN):
        return None, None
    return stands == mok.ENROLLED, stands == mok.PENDING


def read(node: Node) -> System:
    """Return the facts ``system``."""
    inside = node.container()
    named = read_release(node)
    boot = secure_boot(node)
    enrolled, pending = signing_key(node, boot, named["id"])
    status = node.text("/var/lib/dpkg/status")
    unfinished = unfinished_packages(status)
    return {
        "id": named["id"],
        "version": named["version"],
        "codename": named["codename"],
        "name": named["name"],
        "family": named["family"],
        "architecture": platform.machine(),
        "hostname": node.text("/proc/sys/kernel/hostname"),
        "kernel": node.text("/proc/sys/kernel/osrelease"),
        "virtualization": inside or hypervisor(node),
        "container": inside is not None,
        "python": platform.python_version(),
        "secure_boot": boot,
        "mok_enrolled": enrolled,
        "mok_pending": pending,
        "cpu_cores": len(re.findall(r"^processor\s*:", node.text("/proc/cpuinfo"), re.MULTILINE)) or None,
        "numa_nodes": sum(name.startswith("node") for name in node.names("/sys/devices/system/node")) or 1,
        "memory_mib": memory_mib(node.text("/proc/meminfo")),
        "boot_id": boot_id(node, inside=inside is not None),
        "package_state": package_state(node, unfinished),
        "packages_unfinished": unfinished,
        "clock_synchronized": clock_synchronized(node),
        "clock_ahead_seconds": None,  # the controller tells
        "clock_services": clock_services(node),
        "initramfs_programs": initramfs_programs(node),
    }

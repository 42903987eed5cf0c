# Copyright (c) 2026 The gpulab founders
# GNU General Public License v3.0+ (see https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What modprobe's configuration forbids, and which kernel modules are loaded."""

from __future__ import annotations

import posixpath
import re
import shlex
from typing import TYPE_CHECKING

from ansible_collections.gpulab.node.plugins.module_utils.facts.processes import boot_time

if TYPE_CHECKING:
    from collections.abc import Iterable

    from ansible_collections.gpulab.node.plugins.module_utils.core.node import Node
    from ansible_collections.gpulab.node.plugins.plugin_utils.facts.driver import (
        Forbidden,
        ForbiddenModule,
        Module,
        ModuleOptions,
        Nouveau,
    )
    from ansible_collections.gpulab.node.plugins.plugin_utils.facts.machine import PciGpu

# By precedence: a file hides those of the same name in later directories (modprobe.d(5))
DIRECTORIES = (
    "/etc/modprobe.d",
    "/run/modprobe.d",
    "/usr/local/lib/modprobe.d",
    "/usr/lib/modprobe.d",
    "/lib/modprobe.d",
)
KERNEL = "the kernel's command line"
OWN_OPTIONS = "/etc/modprobe.d/gpulab-nvidia-driver.conf"
PARAMETERS = "/proc/driver/nvidia/params"
# All options but this one have their own name there, without NVreg_ (github:NVIDIA/open-gpu-kernel-modules, nv-reg.h).
_CALLED = {"RmProfilingAdminOnly": "RestrictProfilingToAdminUsers"}
MODULES = ("nvidia", "nvidia_uvm", "nvidia_modeset", "nvidia_drm", "nvidia_peermem", "nouveau", "nova_core")
OPEN_SOURCE_DRIVERS = frozenset({"nouveau", "novacore"})  # as compared by driver_key()
_NOTHING = frozenset({"/bin/true", "/bin/false", "/usr/bin/true", "/usr/bin/false", "true", "false", ":"})
# Debian's packages give the modules other names (see stand_in); CUDA needs both.
NEEDED = {"nvidia": "nvidia", "nvidia_uvm": "nvidia-uvm"}
NEVER, BY_ITSELF = "never", "by_itself"  # how a module cannot be loaded: in no way, or at boot without its name
_DRACUT = "/initramfsblacklist.conf"  # what dracut makes of rd.driver.blacklist
_VERSION = re.compile(r"\b(\d{2,4}\.\d{1,4}(?:\.\d{1,4})?)\b")


def module_key(name: str) -> str:
    """Return a module's name as the kernel compares it."""
    return name.replace("-", "_")


def driver_key(name: str | None) -> str:
    """Return a PCI driver's name for comparison: the kernel has used both nova-core and NovaCore."""
    return (name or "").replace("-", "").replace("_", "").lower()


def blacklisted(texts: Iterable[str]) -> set[str]:
    """Name the modules that these modprobe.d files forbid to load by themselves."""
    found: set[str] = set()
    for text in texts:
        for line in text.splitlines():
            words = line.split("#", 1)[0].split()
            command, module, rest = [*words, "", "", ""][:3]
            forbids = {"blacklist": True, "install": rest in _NOTHING, "alias": rest == "off"}
            if module and forbids.get(command, False):
                found.add(module_key(module))
    return found


def blacklisted_by_kernel(cmdline: str) -> set[str]:
    """Name the modules that the kernel's command line forbids."""
    options = [word.partition("=") for word in cmdline.split()]
    lists = [value for key, _equals, value in options if key in {"modprobe.blacklist", "module_blacklist"}]
    return {module_key(name) for value in lists for name in value.split(",") if name}


def forbidden(node: Node, files: dict[str, str], following: list[str] | None) -> Forbidden:
    """Return the facts ``forbidden``: what prevents the driver's modules from being loaded.

    A blacklist is obeyed where a device asks for its driver, and not where somebody
    names the module, as nvidia-modprobe does; an install line, an alias to off and module_blacklist hold for that, too.
    following are the arguments that the kernel gets at the next boot, None where nobody knows.
    """
    by_files = [one for module in NEEDED for one in _forbidden_by_files(files, module)]
    now = node.text("/proc/cmdline").split()
    dracut = node.exists("/usr/bin/dracut") or node.exists("/usr/sbin/dracut")
    by_kernel = [_forbidden_by_kernel(words, dracut=dracut) for words in (now, now if following is None else following)]
    return {"now": by_files + by_kernel[0], "next_boot": by_files + by_kernel[1]}


def _forbidden_by_files(files: dict[str, str], module: str) -> list[ForbiddenModule]:
    loaded_as = stand_in(files.values(), NEEDED[module])
    names = {module, module_key(loaded_as or module)}
    found: list[ForbiddenModule] = []
    installed = False
    for path in sorted(files, key=posixpath.basename):  # of several install lines, the first counts
        for line in "" if path.endswith(_DRACUT) else files[path].splitlines():
            words = line.split("#", 1)[0].split()
            command, name, *rest = [*words, "", ""]
            if module_key(name) not in names:
                continue
            nothing = command == "install" and not installed and not re.search(r"modprobe|insmod", " ".join(rest))
            installed = installed or command == "install"
            if nothing or (command == "alias" and rest[0] == "off"):
                found.append(_forbids(module, path, " ".join(words), NEVER))
            elif command == "blacklist" and module == "nvidia" and module_key(name) == module_key(loaded_as or module):
                found.append(_forbids(module, path, " ".join(words), BY_ITSELF))
    return found


def _forbidden_by_kernel(words: list[str], *, dracut: bool) -> list[ForbiddenModule]:
    ways = {"module_blacklist": NEVER, "modprobe.blacklist": BY_ITSELF}
    ways.update({"rd.driver.blacklist": BY_ITSELF} if dracut else {})
    found = []
    for word in words:
        argument, _equals, names = word.partition("=")
        for module in NEEDED:
            how = ways.get(argument)
            if how and module in map(module_key, names.split(",")) and (how == NEVER or module == "nvidia"):
                found.append(_forbids(module, KERNEL, word, how))
    return found


def _forbids(module: str, by: str, line: str, how: str) -> ForbiddenModule:
    return {"module": module, "by": by, "line": line, "how": how}


def stand_in(texts: Iterable[str], module: str) -> str | None:
    """Name the module that modprobe really loads for this one, as Debian's nvidia-current for nvidia."""
    pattern = re.compile(rf"^\s*install\s+{module}\s+.*?modprobe\s+(?:-i|--ignore-install)\s+(\S+)", re.MULTILINE)
    for text in texts:
        match = pattern.search(text)
        if match:
            return match.group(1)
    return None


def configuration(node: Node) -> dict[str, str]:
    """Return the effective modprobe.d files: path to text, in which a line that goes on after a backslash is one."""
    files: dict[str, str] = {}
    for directory in reversed(DIRECTORIES):
        for name in node.names(directory):
            if name.endswith(".conf"):
                files[name] = f"{directory}/{name}"
    return {path: node.text(path).replace("\\\n", "") for path in files.values()}


def driver_version(text: str) -> str | None:
    """Parse /proc/driver/nvidia/version."""
    for line in text.splitlines():
        if line.startswith("NVRM version:"):
            match = _VERSION.search(line)
            return match.group(1) if match else None
    return None


def loaded(node: Node) -> dict[str, Module]:
    """Return the facts ``modules``."""
    running = {module_key(line.split(" ", 1)[0]) for line in node.text("/proc/modules").splitlines()}
    facts: dict[str, Module] = {}
    for module in MODULES:
        directory = f"/sys/module/{module}"
        present = module in running or node.exists(f"{directory}/initstate") or node.exists(f"{directory}/version")
        facts[module] = {"loaded": present, "version": node.text(f"{directory}/version") or None if present else None}
    version = driver_version(node.text("/proc/driver/nvidia/version"))
    if version:
        facts["nvidia"] = {"loaded": True, "version": version}
    return facts


def options(node: Node) -> ModuleOptions:
    """Return the facts ``module_options``: {"wanted", "running"}, both of them values by "module.option", and "new".

    wanted is what gpulab keeps on disk for the driver's modules, running what those of them have that are loaded. new
    tells whether it has come there since the boot: where a module does not take a value, no further boot helps.
    """
    wanted = {}
    for line in node.text(OWN_OPTIONS).splitlines():
        words = _words(line)
        if len(words) > 1 and words[0] == "options" and module_key(words[1]) in MODULES:
            pairs = (word.partition("=") for word in words[2:])
            wanted.update({f"{module_key(words[1])}.{option}": value for option, _equals, value in pairs})
    lines = (line.partition(": ") for line in node.text(PARAMETERS).splitlines())
    parameters = {f"nvidia.NVreg_{_CALLED.get(name, name)}": value.strip('"') for name, _colon, value in lines}
    for name in wanted:
        module, _dot, option = name.partition(".")
        place = f"/sys/module/{module}/parameters/{option}"
        if name not in parameters and node.exists(place):
            parameters[name] = node.text(place)
    booted = boot_time(node.text("/proc/stat"))
    return {
        "wanted": wanted,
        "running": {name: parameters[name] for name in wanted if name in parameters},
        "new": node.exists(OWN_OPTIONS) and node.path(OWN_OPTIONS).stat().st_mtime >= booted,
    }


def _words(line: str) -> list[str]:
    """Split a line; one whose quotes somebody left open tells nothing."""
    try:
        return shlex.split(line, comments=True)
    except ValueError:
        return []


def same_value(one: str, other: str) -> bool:
    """Tell whether two values of a module's option mean the same: 1 and Y do, and -1 and 4294967295."""
    return _value(one) == _value(other)


def _value(text: str) -> int | str:
    switch = {"y": "1", "n": "0"}.get(text.lower(), text)
    try:
        return int(switch, 0) % 2**32
    except ValueError:
        return text


def nouveau(node: Node, files: dict[str, str], gpus: list[PciGpu], *, container: bool) -> Nouveau:
    """Return the facts ``nouveau``; ``bound`` counts its successor nova too.

    ``unused`` is true where nouveau is loaded and the kernel would let it go; a container's modules are its host's.
    """
    forbidden = blacklisted(files.values()) | blacklisted_by_kernel(node.text("/proc/cmdline"))
    return {
        "blacklisted": "nouveau" in forbidden,
        "nova_blacklisted": "nova_core" in forbidden,
        "files": [path for path, text in files.items() if "nouveau" in blacklisted([text])],
        "bound": [gpu["address"] for gpu in gpus if driver_key(gpu["driver"]) in OPEN_SOURCE_DRIVERS],
        "unused": not container and node.text("/sys/module/nouveau/refcnt").strip() == "0",
    }

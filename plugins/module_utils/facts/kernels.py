# Copyright (c) 2026 The gpulab founders
# GNU General Public License v3.0+ (see https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The kernels of a node: which one runs, which one boots next, and whether the NVIDIA driver is built for each."""

from __future__ import annotations

import posixpath
import re
from typing import TYPE_CHECKING

from ansible_collections.gpulab.node.plugins.module_utils.driver import kernel_compiler, mok
from ansible_collections.gpulab.node.plugins.module_utils.driver.licence import flavour
from ansible_collections.gpulab.node.plugins.module_utils.facts.dkms import installed_file, licence, records
from ansible_collections.gpulab.node.plugins.module_utils.facts.modprobe import stand_in

if TYPE_CHECKING:
    from ansible_collections.gpulab.node.plugins.module_utils.core.node import Job, Node
    from ansible_collections.gpulab.node.plugins.plugin_utils.facts.driver import DkmsModule, Kernel

MODULES = "/lib/modules"
# What nvidia.ko is called: nvidia, nvidia-current, nvidia-current-open, nvidia-tesla-535, nvidia-legacy-390xx
NVIDIA_MODULE = re.compile(r"(nvidia(?:-(?:current|tesla|legacy|open|server|\d+(?:xx)?))*)\.ko(?:\.(?:xz|zst|gz))?\Z")
_INCLUDED_MAKEFILE = re.compile(r"^\s*include\s+(\S+)/Makefile\s*$", re.MULTILINE)
_MENU = re.compile(r"^\s*(menuentry|submenu)\s+(['\"])(.*?)\2(.*)$")
_MENU_ID = re.compile(r"\$menuentry_id_option\s+(['\"])(.*?)\1")
_LINUX = re.compile(r"^\s*linux(?:16|efi)?\s+\S*/vmlinu[zx]-(\S+)(.*)", re.MULTILINE)
_SET_DEFAULT = re.compile(r"^\s*set default=[\"']?(.*?)[\"']?\s*$", re.MULTILINE)
_GRUB_DEFAULT = re.compile(r"^\s*GRUB_DEFAULT=[\"']?(.*?)[\"']?\s*$", re.MULTILINE)
ENTRIES = "/boot/loader/entries"


def version_key(version: str) -> list[tuple[int, int, str]]:
    """Order kernel versions: numbers by value, text by letters, and 6.12~rc1 before 6.12."""
    parts = re.findall(r"\d{1,18}|[^\d]+", version)
    return [
        (1, int(part), "") if part.isascii() and part.isdigit() else (0 if part.startswith("~") else 2, 0, part)
        for part in parts
    ] + [(1, -1, "")]


def next_boot(kernels: list[str], default: str, menu: str, entries: list[dict[str, str]] | None = None) -> str | None:
    """Name the kernel that boots next: the boot loader's choice where it names one of these, else the newest.

    ``default`` is GRUB's default entry (a number, a title, an id, or a path of them joined by ">").
    """
    chosen = grub_kernel(menu, default) or entry_kernel(entries or [], default)
    if chosen not in kernels:
        chosen = next(
            (kernel for kernel in sorted(kernels, key=len, reverse=True) if default and kernel in default), None
        )
    return chosen or max(kernels, key=version_key, default=None)


def grub_kernel(menu: str, default: str) -> str | None:
    """Return the version of the kernel that a GRUB entry boots; ``menu`` is grub.cfg."""
    wanted = (default or "0").split(">")
    kernels: dict[tuple[str, ...], str] = {}
    path: list[tuple[str, ...]] = []  # the open menus, each by all its names
    counts = [0]
    for line in menu.splitlines():
        entry = _MENU.match(line)
        if entry:
            identifier = _MENU_ID.search(entry.group(4))
            path.append((str(counts[-1]), entry.group(3), identifier.group(2) if identifier else entry.group(3)))
            counts[-1] += 1
            counts.append(0)
        elif line.strip() == "}" and path:
            path.pop()
            counts.pop()
        linux = _LINUX.match(line)
        if linux and path and len(path) == len(wanted) and all(name in names for name, names in zip(wanted, path)):
            return linux.group(1)
        if linux and path and len(wanted) == 1 and wanted[0] in path[-1][1:]:  # an id is good without its path
            kernels.setdefault(("id",), linux.group(1))
    return kernels.get(("id",))


def grub_default(settings: str, environment: str, menu: str = "") -> str:
    """Return GRUB's default entry; one set for the next boot only comes first.

    settings is /etc/default/grub with what follows it in grub.d, environment is grubenv, menu is grub.cfg. The menu is
    what GRUB reads; it was made from the settings of its time. Its later lines about the default are for failed boots.
    """
    saved = dict(line.partition("=")[::2] for line in environment.splitlines() if not line.startswith("#"))
    made = [default for default in _SET_DEFAULT.findall(menu) if default != "${next_entry}"]
    configured = _GRUB_DEFAULT.findall(settings)
    default = made[0] if made else configured[-1] if configured else "0"
    from_environment = default in ("saved", "${saved_entry}")
    return saved.get("next_entry") or (saved.get("saved_entry") or "0" if from_environment else default)


def boot_entries(node: Node) -> list[dict[str, str]]:
    """Return the entries of the Boot Loader Specification as GRUB orders them: {id, title, version, options}."""
    found = []
    for name in node.names(ENTRIES):
        if name.endswith(".conf"):
            lines = (line.strip().partition(" ") for line in node.text(f"{ENTRIES}/{name}").splitlines())
            fields = {key: value.strip() for key, _space, value in lines}
            image = re.search(r"vmlinu[zx]-(\S+)", fields.get("linux", ""))
            version = fields.get("version") or (image.group(1) if image else "")
            found.append(
                {
                    "id": name[: -len(".conf")],
                    "title": fields.get("title", ""),
                    "version": version,
                    "options": fields.get("options", ""),
                }
            )
    return sorted(found, key=lambda entry: version_key(entry["id"]), reverse=True)


def entry_kernel(entries: list[dict[str, str]], default: str) -> str | None:
    """Return the version of the kernel that a default means among these entries: a number, an id or a title."""
    if default.isascii() and default.isdigit() and len(default) < 4:  # noqa: PLR2004 - no menu is longer
        return entries[int(default)]["version"] if int(default) < len(entries) else None
    return next((entry["version"] for entry in entries if default in (entry["id"], entry["title"])), None)


def arguments_of(kernel: str | None, menu: str, entries: list[dict[str, str]], environment: str) -> list[str] | None:
    """Return the arguments that the boot loader gives a kernel; None where it has no entry for it."""
    for version, arguments in _LINUX.findall(menu):
        if version == kernel:
            return str(arguments).split()
    saved = dict(line.partition("=")[::2] for line in environment.splitlines())
    for entry in entries:
        if entry["version"] == kernel:
            return entry["options"].replace("$kernelopts", saved.get("kernelopts", "")).split()
    return None


def nvidia_modules(modules_dep: str) -> dict[str, str]:
    """Find nvidia.ko under whatever name in a modules.dep: module name to path below the kernel's directory."""
    found = {}
    for line in modules_dep.splitlines():
        path = line.partition(":")[0]
        match = NVIDIA_MODULE.match(posixpath.basename(path))
        if match:
            found[match.group(1)] = path
    return found


def modinfo_fields(text: str) -> dict[str, str]:
    """Parse what modinfo prints; the first of several equal fields counts."""
    fields: dict[str, str] = {}
    for line in text.splitlines():
        key, colon, value = line.partition(":")
        if colon:
            fields.setdefault(key.strip(), value.strip())
    return fields


def headers_of(node: Node, kernel: str) -> str | None:
    """Return the directory to build modules for a kernel in."""
    for place in (
        node.resolve(f"{MODULES}/{kernel}/build"),
        f"/usr/src/linux-headers-{kernel}",
        f"/usr/src/kernels/{kernel}",
    ):
        if node.exists(f"{place}/Makefile"):
            return place
    return None


def markers_of(node: Node, kernel: str, headers: str | None) -> list[str]:
    """Name the changes in a kernel's headers that no version number shows, and that decide which driver compiles."""
    if headers is None:
        return []
    included = _INCLUDED_MAKEFILE.search(node.text(f"{headers}/Makefile"))  # Debian: what all flavours share
    places = [headers, node.resolve(f"{MODULES}/{kernel}/source")]
    if included:
        places.append(posixpath.normpath(posixpath.join(headers, included.group(1))))
    for place in places:
        text = node.text(f"{place}/include/linux/pci.h")
        if text:
            return ["pci_exclude_bars"] if re.search(r"\bexclude_bars\b", text) else []
    return []


def compiler_of(node: Node, kernel: str, headers: str | None, *, running: bool) -> str | None:
    """Return the program that built a kernel, such as "gcc-12"."""
    places = [kernel_compiler.CONFIG.format(kernel), *([f"{headers}/.config"] if headers else [])]
    found = next(filter(None, (kernel_compiler.of_config(node.text(place)) for place in places)), None)
    return found or (kernel_compiler.of_version(node.text("/proc/version")) if running else None)


def versions(node: Node, running: str) -> dict[str, bool]:
    """List the kernels: version to whether it is installed.

    One that only runs, only has headers, or was removed is not: depmod's lists and DKMS's modules outlive the package.
    """
    found = {
        kernel: node.exists(f"{MODULES}/{kernel}/vmlinuz") or node.is_dir(f"{MODULES}/{kernel}/kernel")
        for kernel in node.names(MODULES)
    }
    found.update({name[len("vmlinuz-") :]: True for name in node.names("/boot") if name.startswith("vmlinuz-")})
    found.setdefault(running, False)
    return {kernel: found[kernel] for kernel in sorted(found, key=version_key) if "rescue" not in kernel}


def following(node: Node, found: dict[str, bool]) -> tuple[str | None, list[str] | None]:
    """Return which of these kernels boots next, and the arguments that it gets; None for what nobody knows."""
    candidates = [kernel for kernel, installed in found.items() if installed]
    later = [f"/etc/default/grub.d/{name}" for name in node.names("/etc/default/grub.d") if name.endswith(".cfg")]
    settings = "\n".join(node.text(path) for path in ("/etc/default/grub", *later))
    environment = node.text("/boot/grub/grubenv") or node.text("/boot/grub2/grubenv")
    menu = node.text("/boot/grub/grub.cfg") or node.text("/boot/grub2/grub.cfg")
    entries = boot_entries(node)
    chosen = next_boot(candidates, grub_default(settings, environment, menu), menu, entries)
    return chosen, arguments_of(chosen, menu, entries, environment)


class KernelsQuery:
    """The facts ``kernels``; what takes time runs beside the caller's other work.

    A compressed module costs modinfo a second or more, for it decompresses the whole. Where DKMS copied the file from
    its own build, its record has the version, and the source the licence; only the signer needs modinfo then.
    """

    def __init__(self, node: Node, running: str, modprobe_files: dict[str, str], pair: mok.KeyPair | None) -> None:
        """Find the kernels and start reading each one's NVIDIA module; pair is DKMS' where Secure Boot asks for it."""
        self._node = node
        self._pair = pair
        self._running = running
        self._installed = versions(node, running)
        self.next_boot, self.next_arguments = following(node, self._installed)
        preferred = stand_in(modprobe_files.values(), "nvidia")
        self._files: dict[str, str] = {}
        self._modinfo: dict[str, Job] = {}
        self._records: dict[str, DkmsModule] = {}
        for kernel in self._installed:
            modules = nvidia_modules(node.text(f"{MODULES}/{kernel}/modules.dep"))
            name = next((name for name in (preferred, "nvidia", *modules) if name in modules), None)
            if not name:
                continue
            file = self._files[kernel] = posixpath.join(MODULES, kernel, modules[name])
            record = None if pair or file.endswith(".ko") else installed_file(node, kernel, file)
            if record:
                self._records[kernel] = record
            else:
                self._modinfo[kernel] = node.start(["modinfo", str(node.path(file))])

    def facts(self) -> list[Kernel]:
        """Return one record per kernel, oldest first; ``initramfs`` is left for the caller."""
        return [self._facts_of(kernel) for kernel in self._installed]

    def _facts_of(self, kernel: str) -> Kernel:
        headers = headers_of(self._node, kernel)
        module = self._module(kernel)
        return {
            "version": kernel,
            "running": kernel == self._running,
            "installed": self._installed[kernel],
            "next_boot": kernel == self.next_boot,
            "headers": headers,
            "markers": markers_of(self._node, kernel, headers),
            "compiler": compiler_of(self._node, kernel, headers, running=kernel == self._running),
            "dkms": records(self._node, kernel),
            "nvidia_module": module.get("version"),
            "nvidia_module_file": self._files.get(kernel),
            "nvidia_module_flavour": flavour(module.get("license")),
            "nvidia_module_signer": module.get("signer"),
            "nvidia_module_accepted": self._accepted(module),
            "initramfs": None,
        }

    def _accepted(self, module: dict[str, str | None]) -> bool | None:
        """Tell whether the firmware has the key that signed a module; only Secure Boot asks for it."""
        signer, serial = module.get("signer"), module.get("sig_key")
        if not (self._pair and signer and serial):
            return None
        return mok.accepts(self._node, self._pair, signer, serial)

    def _module(self, kernel: str) -> dict[str, str | None]:
        """Return the version, license and signer of a kernel's NVIDIA module, as far as they are known."""
        if kernel in self._records:
            record = self._records[kernel]
            return {"version": record["version"], "license": licence(self._node, record)}
        printed = self._modinfo[kernel].output() if kernel in self._modinfo else None
        return {**modinfo_fields(printed or "")}

# Copyright (c) 2026 The gpulab founders
# GNU General Public License v3.0+ (see https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What a node is tuned to: live values of its kernel, limits of sessions and services, and its command line."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from ansible_collections.gpulab.node.plugins.module_utils.core.unit_states import properties
from ansible_collections.gpulab.node.plugins.module_utils.facts.limits import LIMITS, UNLIMITED, granted
from ansible_collections.gpulab.node.plugins.module_utils.system import boot_arguments, kernel_values, swap

if TYPE_CHECKING:
    from collections.abc import Iterable

    from ansible_collections.gpulab.node.plugins.module_utils.core.node import Node
    from ansible_collections.gpulab.node.plugins.module_utils.facts.limits import LimitTexts
    from ansible_collections.gpulab.node.plugins.plugin_utils.facts.services import Tuning

SYSCTL_FILE = "/etc/sysctl.d/90-gpulab.conf"
GRUB_FILE = "/etc/default/grub.d/90-gpulab.cfg"
VALUES = (
    "kernel.numa_balancing", "net.core.rmem_max", "net.core.wmem_max", "net.ipv4.neigh.default.gc_thresh1",
    "net.ipv4.neigh.default.gc_thresh2", "net.ipv4.neigh.default.gc_thresh3", "net.ipv4.tcp_rmem", "net.ipv4.tcp_wmem",
    "vm.max_map_count", "vm.swappiness", *kernel_values.KNOBS,
)  # fmt: skip
BOUNDS = ("fs.nr_open",)  # of limits
_PAM_UNIT = {"memlock": 1024, "stack": 1024}  # limits.conf(5) counts these in KiB, systemd in bytes


def read(node: Node, texts: LimitTexts, asked: Iterable[str] = ()) -> Tuning:
    """Return the facts ``tuning``.

    asked has what the kernel says of each name that the inventory sets, and of what bounds a limit.
    values has the live value of each of VALUES and of what gpulab's sysctl file names, None where the kernel does
    not have it. later has the sysctls that other files set after gpulab's at every boot. limits has, for pam and
    systemd, each limit as "soft:hard" in bytes or pieces, or None.
    kernel_arguments has what gpulab keeps there, whether every entry of the boot loader's menu has it, and what the
    running kernel was given. grub tells whether update-grub makes the menu; boot_entries has the arguments in each
    entry and in the files for later kernels where grubby keeps them, else nothing. tuned_profile is what tuned applies
    where it runs, None where it was never told. swaps has by the path of each active swap all names of it; that of
    a container is its host's, and left out.
    """
    own = re.findall(rf"^({kernel_values.SYSCTL}) = ", node.text(SYSCTL_FILE), re.MULTILINE)
    entries = boot_entries(node)
    arguments = boot_arguments.remembered(node.path(boot_arguments.MEMORY))
    wanted = arguments if entries else grub_arguments(node.text(GRUB_FILE))
    menu = node.text("/boot/grub/grub.cfg")
    return {
        "values": {name: _live(name, node) for name in dict.fromkeys((*VALUES, *own))},
        "asked": {name: kernel_values.look(name, node) for name in sorted({*BOUNDS, *asked})},
        "later": kernel_values.later(node, SYSCTL_FILE),
        "limits": {"pam": pam_limits(texts.pam), "systemd": systemd_limits(texts.systemd)},
        "kernel_arguments": {
            "wanted": wanted,
            "in_menu": _in_entries(wanted, entries) if entries else all(argument in menu for argument in wanted),
            "running": node.text("/proc/cmdline").split(),
        },
        "grub": node.exists("/etc/default/grub") and node.exists("/usr/sbin/update-grub"),
        "boot_entries": entries,
        "tuned_profile": node.text("/etc/tuned/active_profile").strip() or None,
        "swaps": {} if node.container() else swap.names(node),
    }


def boot_entries(node: Node) -> dict[str, list[str]]:
    """Return the kernel arguments by file where grubby keeps them, one file for each kernel; else nothing.

    Nothing, too, where GRUB does not read these files, or where they point to a variable of GRUB's environment.
    """
    names = [name for name in node.names(boot_arguments.ENTRIES) if name.endswith(".conf")]
    paths = [f"{boot_arguments.ENTRIES}/{name}" for name in names]
    entries = {path: boot_arguments.arguments(path, node.text(path)) for path in paths}
    unread = re.search(r"^GRUB_ENABLE_BLSCFG=[\"']?false", node.text(boot_arguments.DEFAULTS), re.MULTILINE)
    if not entries or not node.exists(boot_arguments.GRUBBY) or unread:
        return {}
    if any("$kernelopts" in words for words in entries.values()):
        return {}
    later = [path for path in boot_arguments.TEMPLATES if node.exists(path)]
    return {**entries, **{path: boot_arguments.arguments(path, node.text(path)) for path in later}}


def _in_entries(wanted: list[str], entries: dict[str, list[str]]) -> bool:
    menu = [words for path, words in entries.items() if path not in boot_arguments.TEMPLATES]
    return all(argument in words for words in menu for argument in wanted)


def _live(name: str, node: Node) -> str | None:
    """Return the one value that all files of a name hold; all of them, with commas, where they differ."""
    return ", ".join(sorted(set(kernel_values.read(name, node).values()))) or None


def pam_limits(text: str) -> dict[str, str | None]:
    """Return each limit of ordinary users, from the files of limits.conf(5) in their order; None where none is set."""
    values = granted(text)
    found = {
        (item, kind): _pieces(value, _PAM_UNIT.get(item, 1)) for (item, kind), value in values.items() if item in LIMITS
    }
    return {limit: _pair(found.get((limit, "soft")), found.get((limit, "hard"))) for limit in LIMITS}


def systemd_limits(text: str) -> dict[str, str | None]:
    """Return each default limit of services, from what ``systemctl show`` prints."""
    said = properties(text)
    found = {}
    for limit in LIMITS:
        hard, soft = (said.get(f"DefaultLimit{limit.upper()}{end}") for end in ("", "Soft"))
        found[limit] = _pair(soft and _pieces(soft, 1), hard and _pieces(hard, 1))
    return found


def grub_arguments(text: str) -> list[str]:
    """Return the arguments that gpulab's GRUB file adds to the kernel's command line."""
    match = re.search(r'^GRUB_CMDLINE_LINUX="\$GRUB_CMDLINE_LINUX (.*)"$', text, re.MULTILINE)
    return match.group(1).split() if match else []


def _pieces(text: str, unit: int) -> str:
    if text in ("unlimited", "infinity", "-1", str(2**64 - 1)):
        return UNLIMITED
    return str(int(text) * unit) if text.isdigit() else text


def _pair(soft: str | None, hard: str | None) -> str | None:
    return f"{soft}:{hard}" if soft and hard else None

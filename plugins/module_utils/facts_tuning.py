# Copyright (c) 2026 The gpulab founders
# GNU General Public License v3.0+ (see https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What a node is tuned to: live values of its kernel, limits of sessions and services, and its command line."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any

from ansible_collections.gpulab.node.plugins.module_utils import kernel_values
from ansible_collections.gpulab.node.plugins.module_utils.facts_limits import LIMITS, UNLIMITED

if TYPE_CHECKING:
    from ansible_collections.gpulab.node.plugins.module_utils.facts_limits import LimitTexts
    from ansible_collections.gpulab.node.plugins.module_utils.facts_node import Node

SYSCTL_FILE = "/etc/sysctl.d/90-gpulab.conf"
GRUB_FILE = "/etc/default/grub.d/90-gpulab.cfg"
VALUES = (
    "kernel.numa_balancing", "net.core.rmem_max", "net.core.wmem_max", "net.ipv4.neigh.default.gc_thresh1",
    "net.ipv4.neigh.default.gc_thresh2", "net.ipv4.neigh.default.gc_thresh3", "net.ipv4.tcp_rmem", "net.ipv4.tcp_wmem",
    "vm.max_map_count", "vm.swappiness", *kernel_values.KNOBS,
)  # fmt: skip
_PAM_UNIT = {"memlock": 1024, "stack": 1024}  # limits.conf(5) counts these in KiB, systemd in bytes


def read(node: Node, texts: LimitTexts) -> dict[str, Any]:
    """Return the facts ``tuning``: {"values", "limits", "kernel_arguments", "grub", "tuned_profile"}.

    values has the live value of each of VALUES and of what gpulab's sysctl file names, None where the kernel does
    not have it. limits has, for pam and systemd, each limit as "soft:hard" in bytes or pieces, or None.
    kernel_arguments has what gpulab's GRUB file wants, whether GRUB's menu has it, and what the running kernel was
    given. tuned_profile is what tuned applies where it runs, None where it was never told.
    """
    asked = re.findall(r"^([\w.-]+) = ", node.text(SYSCTL_FILE), re.MULTILINE)
    wanted, menu = grub_arguments(node.text(GRUB_FILE)), node.text("/boot/grub/grub.cfg")
    return {
        "values": {name: _live(name, node) for name in dict.fromkeys((*VALUES, *asked))},
        "limits": {"pam": pam_limits(texts.pam), "systemd": systemd_limits(texts.systemd)},
        "kernel_arguments": {
            "wanted": wanted,
            "in_menu": all(argument in menu for argument in wanted),
            "running": node.text("/proc/cmdline").split(),
        },
        "grub": node.exists("/etc/default/grub") and node.exists("/usr/sbin/update-grub"),
        "tuned_profile": node.text("/etc/tuned/active_profile").strip() or None,
    }


def _live(name: str, node: Node) -> str | None:
    """Return the one value that all files of a name hold; all of them, with commas, where they differ."""
    return ", ".join(sorted(set(kernel_values.read(name, node).values()))) or None


def pam_limits(text: str) -> dict[str, str | None]:
    """Return each limit of ordinary users, from the files of limits.conf(5) in their order; None where none is set."""
    found: dict[tuple[str, str], str] = {}
    for line in text.splitlines():
        fields = line.partition("#")[0].split()
        if len(fields) == 4 and fields[0] == "*" and fields[2] in LIMITS:  # noqa: PLR2004 - domain, type, item, value
            for kind in ("soft", "hard") if fields[1] == "-" else (fields[1],):
                found[fields[2], kind] = _pieces(fields[3], _PAM_UNIT.get(fields[2], 1))
    return {limit: _pair(found.get((limit, "soft")), found.get((limit, "hard"))) for limit in LIMITS}


def systemd_limits(text: str) -> dict[str, str | None]:
    """Return each default limit of services, from what ``systemctl show`` prints."""
    said = dict(line.partition("=")[::2] for line in text.splitlines())
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

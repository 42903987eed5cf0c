# Copyright (c) 2026 The gpulab founders
# GNU General Public License v3.0+ (see https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The files that keep the tuning of a node over its boots, each line with its reason above it."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ansible_collections.gpulab.node.plugins.module_utils.facts.tuning import GRUB_FILE, SYSCTL_FILE
from ansible_collections.gpulab.node.plugins.module_utils.system.kernel_values import CPUS, HUGEPAGE

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from ansible_collections.gpulab.node.plugins.plugin_utils.plan.model import TuningSetting as Setting

PAM_FILE = "/etc/security/limits.d/90-gpulab.conf"
SYSTEM_FILE = "/etc/systemd/system.conf.d/90-gpulab.conf"
USER_FILE = "/etc/systemd/user.conf.d/90-gpulab.conf"
KNOB_FILE = "/etc/tmpfiles.d/gpulab-tuning.conf"
NFS_FILE = "/etc/udev/rules.d/90-gpulab-nfs.rules"
KIB = 1024
_COUNTED_IN_KIB = ("memlock", "stack")


def files(settings: list[Setting]) -> dict[str, str]:
    """Return every file by its path; empty where it has nothing to say."""
    limits, knobs = _of_kind("limit", settings), _of_kind("knob", settings)
    at_boot = [setting for setting in knobs if setting["name"] != "nfs_read_ahead_kb"]
    at_mount = [setting for setting in knobs if setting["name"] == "nfs_read_ahead_kb"]
    systemd = _lines(limits, _systemd)
    return {
        SYSCTL_FILE: _lines(_of_kind("sysctl", settings), lambda one: [f"{one['name']} = {one['value']}"]),
        PAM_FILE: _lines(limits, _pam),
        SYSTEM_FILE: f"[Manager]\n{systemd}" if systemd else "",
        USER_FILE: f"[Manager]\n{systemd}" if systemd else "",
        KNOB_FILE: _lines(at_boot, lambda one: [f"w {_knob_path(one['name'])} - - - - {one['value']}"]),
        NFS_FILE: _lines(at_mount, _udev),
    }


def boot_files(settings: list[Setting]) -> dict[str, str]:
    """Return the files that the boot loader's menu is made from."""
    return {GRUB_FILE: _grub(_of_kind("kernel_argument", settings))}


def _of_kind(kind: str, settings: list[Setting]) -> list[Setting]:
    return [setting for setting in settings if setting["kind"] == kind]


def _lines(settings: list[Setting], lines: Callable[[Setting], list[str]]) -> str:
    def each() -> Iterator[str]:
        for setting in settings:
            yield f"# {setting['because']}"
            yield from lines(setting)

    return "".join(f"{line}\n" for line in each())


def _pam(setting: Setting) -> list[str]:
    """Return lines of limits.conf(5); its wildcard leaves root out."""
    values = [_pam_value(setting["name"], value) for value in setting["value"].split(":")]
    return [
        f"{domain} {kind} {setting['name']} {value}"
        for domain in ("*", "root")
        for kind, value in zip(("soft", "hard"), values)
    ]


def _pam_value(name: str, value: str) -> str:
    return str(int(value) // KIB) if name in _COUNTED_IN_KIB and value.isdigit() else value


def _systemd(setting: Setting) -> list[str]:
    return [f"DefaultLimit{setting['name'].upper()}={setting['value'].replace('unlimited', 'infinity')}"]


def _knob_path(name: str) -> str:
    return HUGEPAGE if name == "transparent_hugepage" else f"{CPUS}/cpu*/cpufreq/scaling_governor"


def _udev(setting: Setting) -> list[str]:
    is_nfs = "/usr/bin/grep -q ' %k ' /proc/fs/nfsfs/volumes"
    return [f'ACTION=="add", SUBSYSTEM=="bdi", PROGRAM=="{is_nfs}", ATTR{{read_ahead_kb}}="{setting["value"]}"']


def _grub(settings: list[Setting]) -> str:
    if not settings:
        return ""
    reasons = "".join(f"# {setting['because']}\n" for setting in settings)
    arguments = " ".join(f"{setting['name']}={setting['value']}" for setting in settings)
    return f'{reasons}GRUB_CMDLINE_LINUX="$GRUB_CMDLINE_LINUX {arguments}"\n'

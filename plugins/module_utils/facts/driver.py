# Copyright (c) 2026 The gpulab founders
# GNU General Public License v3.0+ (see https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The NVIDIA driver on disk: packages and who made them, a .run installation, the library."""

from __future__ import annotations

import fnmatch
import re
from functools import cached_property
from typing import TYPE_CHECKING

from ansible_collections.gpulab.node.plugins.module_utils.core import records
from ansible_collections.gpulab.node.plugins.module_utils.core.mount_table import mounts
from ansible_collections.gpulab.node.plugins.module_utils.core.refusal import Refusal
from ansible_collections.gpulab.node.plugins.module_utils.driver import runfile
from ansible_collections.gpulab.node.plugins.module_utils.facts import libraries
from ansible_collections.gpulab.node.plugins.module_utils.packages import dnf
from ansible_collections.gpulab.node.plugins.module_utils.packages.former import ROOT, FormerPackages
from ansible_collections.gpulab.node.plugins.module_utils.packages.host import BROUGHT, HELD

if TYPE_CHECKING:
    from ansible_collections.gpulab.node.plugins.module_utils.core.node import Node
    from ansible_collections.gpulab.node.plugins.module_utils.facts.packages import Package, PackagesQuery
    from ansible_collections.gpulab.node.plugins.plugin_utils.facts.driver import Driver, DriverPackage

PATTERNS = ("*nvidia*", "libcuda1*", "libcudadebugger1*", "cuda-drivers*", "libnvcuvid1*", "firmware-nvidia-gsp*")
CONTAINER = "/run/nvidia"
FORMER = "nvidia-driver"  # the name under which the role nvidia_driver keeps what it replaces
VERSIONLOCK = ("/etc/dnf/plugins/versionlock.list", "/etc/yum/pluginconf.d/versionlock.list")
DISPLAY_LIBRARIES = ("libGLX_nvidia.so.0", "libEGL_nvidia.so.0")
X_DRIVER = "nvidia_drv.so"
# Debian, Ubuntu, RHEL's family; a .run file puts it where the X server has its own
X_DRIVERS = (
    f"/usr/lib/nvidia/{X_DRIVER}",
    f"/usr/lib/nvidia/current/{X_DRIVER}",
    f"/usr/lib/x86_64-linux-gnu/nvidia/xorg/{X_DRIVER}",
    f"/usr/lib/aarch64-linux-gnu/nvidia/xorg/{X_DRIVER}",
    f"/usr/lib64/xorg/modules/drivers/{X_DRIVER}",
    f"/usr/lib/xorg/modules/drivers/{X_DRIVER}",
)
_X_DRIVER_VERSION = re.compile(rb"NVIDIA dlloader X Driver +(\d{2,4}(?:\.\d{1,4}){1,2})\b")
_DRIVER = re.compile("|".join(fnmatch.translate(pattern) for pattern in PATTERNS))
_NOT_DRIVER = re.compile(r"(?:lib)?nvidia-container|nvidia-(?:cuda-(?!mps)|cudnn|docker|visual-profiler|profiler)")


def packager(maintainer: str) -> str:
    """Tell who made a package from the maintainer or vendor it names."""
    lower = maintainer.lower()
    if "debian" in lower or "ubuntu" in lower or "rpm fusion" in lower:
        return "distribution"
    return "nvidia" if "nvidia" in lower else "other"


def packages(installed: list[Package]) -> tuple[list[DriverPackage], list[str]]:
    """Return the driver's among the installed packages, and those of them that are held back."""
    own = [one for one in installed if _DRIVER.match(one.name) and not _NOT_DRIVER.match(one.name)]
    found: list[DriverPackage] = [
        {"name": one.name, "version": one.version, "source": packager(one.maintainer)} for one in own
    ]
    return found, [one.name for one in own if one.held]


class DriverQuery:
    """The facts ``driver``; the linker runs beside the caller's other work."""

    def __init__(self, node: Node, packages_query: PackagesQuery) -> None:
        """Ask the linker; the query has asked for the packages that fit PATTERNS."""
        self._node = node
        self._packages_query = packages_query
        self._ldconfig = node.start(["ldconfig", "-p"])

    @cached_property
    def linked(self) -> str:
        """What ``ldconfig -p`` printed: the libraries that programs are given."""
        return self._ldconfig.output() or ""

    def facts(self, module_on_disk: str | None) -> Driver:
        """Return the facts; ``module_on_disk`` is that of the kernel that boots next."""
        found, held = packages(self._packages_query.installed)
        library = libraries.nvml(self.linked)
        locks = [line for place in VERSIONLOCK for line in dnf.locks(self._node.text(place))]
        holds = held + [line for line in locks if "nvidia" in line and not _NOT_DRIVER.match(line)]
        return {
            "packages": found,
            "holds": holds,
            "holds_foreign": self._foreign(holds),
            "runfile": self._runfile(),
            "runfile_own": self._node.exists(str(runfile.ROOT / runfile.RECORD)),
            "in_container": self._in_container(),
            "library": libraries.driver_version(self._node.resolve(library)) if library else None,
            "library_path": library,
            "module_on_disk": module_on_disk,
            "display": self._display(),
            "former": self._former(),
        }

    def _in_container(self) -> bool:
        """Tell whether a driver container of the GPU Operator holds the driver: its root is mounted, and it runs.

        See https://github.com/NVIDIA/k8s-driver-manager, which looks for the same. /run is root's.
        """
        pid = self._node.text(f"{CONTAINER}/nvidia-driver.pid")
        mounted = any(mount.place == f"{CONTAINER}/driver" for mount in mounts(self._node.text("/proc/self/mountinfo")))
        return mounted and pid.isdigit() and self._node.exists(f"/proc/{pid}")

    def _display(self) -> dict[str, str | None]:
        """Return the versions of what draws a display, by file, as far as it is there; None for one without a version.

        The X server's part has its version only in a text within it.
        """
        found = {}
        for name in DISPLAY_LIBRARIES:
            path = libraries.linked_path(self.linked, name)
            if path:
                found[name] = libraries.driver_version(self._node.resolve(path))
        for place in X_DRIVERS:
            data = self._node.data(place)
            if data is not None:
                match = _X_DRIVER_VERSION.search(data)
                found[X_DRIVER] = match.group(1).decode() if match else None
                break
        return found

    def _foreign(self, holds: list[str]) -> list[str]:
        """Return the holds that somebody else than gpulab has set; none where gpulab's record of its own is damaged."""
        try:
            records_of = [records.read(self._node.path(str(path)), list[str], []) for path in (HELD, BROUGHT)]
        except Refusal:  # a transaction names it
            return []
        own = {name for names in records_of for name in names}
        return [hold for hold in holds if not {hold, hold.rsplit("-", 2)[0]} & own]

    def _former(self) -> dict[str, str]:
        """Return what is kept of a driver that another one replaced, and its version: packages, or a .run file."""
        record = self._node.path(str(runfile.ROOT / runfile.FORMER))
        former = runfile.Wish.of(records.read(record, runfile.Recorded, None, runfile.LOST))
        kept = FormerPackages(FORMER, self._node.path(str(ROOT))).read().versions
        return {**kept, ".run file": former.driver.version} if former else kept

    def _runfile(self) -> str | None:
        """Return the version that a .run file installed; None where it left no uninstaller."""
        if not any(self._node.exists(place) for place in runfile.UNINSTALLERS):
            return None
        return runfile.installed_version(*(self._node.text(place) for place in (runfile.BACKUP, runfile.LOG)))

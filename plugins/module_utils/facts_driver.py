# Copyright (c) 2026 The gpulab founders
# GNU General Public License v3.0+ (see https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The NVIDIA driver on disk: packages and who made them, a .run installation, the library."""

from __future__ import annotations

import re
from functools import cached_property
from typing import TYPE_CHECKING, Any

from ansible_collections.gpulab.node.plugins.module_utils import facts_libraries, runfile
from ansible_collections.gpulab.node.plugins.module_utils.former_packages import ROOT, FormerPackages

if TYPE_CHECKING:
    from ansible_collections.gpulab.node.plugins.module_utils.facts_node import Node

PATTERNS = ("*nvidia*", "libcuda1*", "libcudadebugger1*", "cuda-drivers*", "libnvcuvid1*", "firmware-nvidia-gsp*")
DPKG_FORMAT = "${db:Status-Abbrev}\\t${Package}\\t${Version}\\t${Maintainer}\\n"
RPM_FORMAT = "ii \\t%{NAME}\\t%{VERSION}-%{RELEASE}\\t%{VENDOR}\\n"
FORMER = "nvidia-driver"  # the name under which the role nvidia_driver keeps what it replaces
VERSIONLOCK = ("/etc/dnf/plugins/versionlock.list", "/etc/yum/pluginconf.d/versionlock.list")
_NOT_DRIVER = re.compile(r"(?:lib)?nvidia-container|nvidia-(?:cuda-(?!mps)|cudnn|docker|visual-profiler|profiler)")


def packager(maintainer: str) -> str:
    """Tell who made a package from the maintainer or vendor it names."""
    lower = maintainer.lower()
    if "debian" in lower or "ubuntu" in lower or "rpm fusion" in lower:
        return "distribution"
    return "nvidia" if "nvidia" in lower else "other"


def packages(listing: str) -> tuple[list[dict[str, str]], list[str]]:
    """Parse lines of status, name, version, maintainer: the installed packages, and those held back."""
    found, held = [], []
    for line in listing.splitlines():
        status, *rest = line.split("\t")
        if len(rest) != 3 or len(status) < 2 or status[1] in "nc":  # noqa: PLR2004 - not installed, or only its files
            continue
        name, version, maintainer = rest
        if _NOT_DRIVER.match(name):
            continue
        found.append({"name": name, "version": version, "source": packager(maintainer)})
        if status[0] == "h":
            held.append(name)
    return found, held


class DriverQuery:
    """The facts ``driver``; the package manager runs beside the caller's other work."""

    def __init__(self, node: Node) -> None:
        """Ask the package manager and the linker."""
        self._node = node
        if node.exists("/var/lib/dpkg/status"):
            self._listing = node.start(["dpkg-query", "-W", "-f", DPKG_FORMAT, *PATTERNS])
        else:
            self._listing = node.start(["rpm", "-qa", "--qf", RPM_FORMAT, *PATTERNS])
        self._ldconfig = node.start(["ldconfig", "-p"])

    @cached_property
    def linked(self) -> str:
        """What ``ldconfig -p`` printed: the libraries that programs are given."""
        return self._ldconfig.output() or ""

    def facts(self, module_on_disk: str | None) -> dict[str, Any]:
        """Return the facts; ``module_on_disk`` is that of the kernel that boots next."""
        found, held = packages(self._listing.output() or "")
        library = facts_libraries.nvml(self.linked)
        locks = [line for place in VERSIONLOCK for line in self._node.text(place).splitlines()]
        return {
            "packages": found,
            "holds": held + [line for line in locks if "nvidia" in line and not line.startswith("#")],
            "runfile": self._runfile(),
            "runfile_own": self._node.exists(str(runfile.ROOT / runfile.RECORD)),
            "library": facts_libraries.driver_version(self._node.resolve(library)) if library else None,
            "library_path": library,
            "module_on_disk": module_on_disk,
            "former": FormerPackages(FORMER, self._node.path(str(ROOT))).read().versions,
        }

    def _runfile(self) -> str | None:
        """Return the version that a .run file installed; None where it left no uninstaller."""
        if not any(self._node.exists(place) for place in runfile.UNINSTALLERS):
            return None
        return runfile.installed_version(*(self._node.text(place) for place in (runfile.BACKUP, runfile.LOG)))

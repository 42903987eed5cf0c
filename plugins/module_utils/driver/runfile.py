# Copyright (c) 2026 The gpulab founders
# GNU General Public License v3.0+ (see https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""NVIDIA's .run installer: what it leaves on a node, what it takes, and what it says. Pure: texts in, words out.

What is written here of it is read from its sources (nvidia-installer: backup.c, install-from-cwd.c, option_table.h).
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import TypedDict

from ansible_collections.gpulab.node.plugins.module_utils.core.refusals.driver import refuse
from ansible_collections.gpulab.node.plugins.module_utils.core.steps import ROOT as STEPS
from ansible_collections.gpulab.node.plugins.module_utils.driver.dkms import first_compiler_error

ROOT = STEPS.parent / "runfile"
RECORD = "driver.json"  # what gpulab installed, or began to
FORMER = "former.json"  # what it replaced, until that has proved itself
LOST = "Without it, gpulab does not know that it installed the driver of the .run file; nvidia-uninstall removes it."
UNINSTALLERS = ("/usr/bin/nvidia-uninstall", "/usr/local/bin/nvidia-uninstall")
LOG = "/var/log/nvidia-installer.log"  # of the last attempt, which may have failed
UNINSTALL_LOG = "/var/log/nvidia-uninstall.log"
BACKUP = "/var/lib/nvidia/log"  # of what is installed; its own uninstaller goes by it
SOURCES = {"open": "kernel-open", "proprietary": "kernel"}
UNKNOWN = "unknown"
# Nobody is there to answer. gpulab has looked who uses the GPUs, keeps nouveau away itself, and loads nothing.
_ALWAYS = ("--silent", "--dkms")
_WHERE_KNOWN = (
    "--no-x-check",
    "--no-nouveau-check",
    "--skip-module-load",
    "--allow-installation-with-running-driver",
    "--no-rebuild-initramfs",
)
_BACKUP_FILE = re.compile(r"^[01]: (/.*)$", re.MULTILINE)
_BACKUP_VERSION = re.compile(r"\A[^\n]*\((\d{3}(?:\.\d+){1,2})\)")
_LOG_VERSION = re.compile(r"\b(?:[Dd]river|x86_64|aarch64)\b.*?\b(\d{3}\.\d{1,3}(?:\.\d{1,3})?)\b")
_OPTION = re.compile(r"--[a-z][a-z0-9-]+")
_ERROR = re.compile(r"^ERROR: (.*(?:\n[ \t]+\S.*)*)", re.MULTILINE)


class _RecordedDriver(TypedDict):
    version: str
    kernel_modules: str | None


class RecordedWish(TypedDict):
    """A wish, as it is recorded."""

    driver: _RecordedDriver
    url: str
    sha256: str


class _Later(TypedDict, total=False):
    complete: bool
    step: str
    argv: list[str]
    former: str | None


class Recorded(_Later):
    """What RECORD and FORMER hold."""

    wish: RecordedWish | None


@dataclass(frozen=True)
class RunfileDriver:
    """A driver: its version, and whether its kernel modules are open or proprietary (None where that is not known)."""

    version: str
    kernel_modules: str | None

    def __str__(self) -> str:
        """Name it in a line of a diff."""
        return f"{self.version} ({self.kernel_modules} modules)" if self.kernel_modules else self.version


@dataclass(frozen=True)
class Wish:
    """The driver that shall be there, and the file that it comes from."""

    driver: RunfileDriver
    url: str
    sha256: str

    @classmethod
    def of(cls, record: Recorded | None) -> Wish | None:
        """Read it from a record; None where there is none."""
        wish = record["wish"] if record else None
        return cls(RunfileDriver(**wish["driver"]), wish["url"], wish["sha256"]) if wish else None


def installed_version(backup: str, log: str) -> str:
    """Return the version that is installed, from the installer's record of it or else its log."""
    match = _BACKUP_VERSION.search(backup) or _LOG_VERSION.search(log)
    return match.group(1) if match else UNKNOWN


def installed_files(backup: str) -> list[str]:
    """Return the files and links of a driver from the installer's record of them (backup.c of nvidia-installer)."""
    return _BACKUP_FILE.findall(backup)


def is_there(found: RunfileDriver | None, wanted: RunfileDriver) -> bool:
    """Tell whether what is found is what is wanted; modules of a kind that is not known may be."""
    return found is not None and found in (wanted, RunfileDriver(wanted.version, None))


def manifest_version(manifest: str) -> str | None:
    """Return the version of the driver in a .run file: the second line of its .manifest."""
    lines = manifest.splitlines()
    return lines[1].strip() if len(lines) > 1 else None


def options(usage: str) -> set[str]:
    """Return the options that an installer's own help names."""
    return set(_OPTION.findall(usage))


def arguments(usage: str, wanted: RunfileDriver, kernel: str) -> list[str]:
    """Return what to call an installer with, of what its help (--advanced-options) names.

    Raises Refusal D035 where it cannot be told which modules to install.
    """
    known = options(usage)
    given = [*_ALWAYS, f"--kernel-name={kernel}"]
    if "--kernel-module-type" in known:
        given.append(f"--kernel-module-type={wanted.kernel_modules}")
    elif "--kernel-module-build-directory" in known:  # from 515 on, before the other one came
        given.append(f"--kernel-module-build-directory={SOURCES[str(wanted.kernel_modules)]}")
    elif wanted.kernel_modules == "open":
        raise refuse("D035", version=wanted.version, kernel_modules=wanted.kernel_modules)
    return given + [option for option in _WHERE_KNOWN if option in known]


def removal_arguments(usage: str) -> list[str]:
    """Return what to call an uninstaller with: a driver that is loaded stays so until the next boot."""
    option = "--skip-module-unload"
    return ["--silent", *([option] if option in options(usage) else [])]


def first_error(log: str, make_log: str) -> str:
    """Return why an installer failed: the compiler's first error where there is one, else its own."""
    if re.search(r"[Ee]rror|\*\*\*", make_log):
        return first_compiler_error(make_log)
    match = _ERROR.search(log)
    return " ".join(match[1].split()) if match else "it gives no reason"

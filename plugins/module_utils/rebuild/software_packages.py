# Copyright (c) 2026 The gpulab founders
# GNU General Public License v3.0+ (see https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Which packages of a capture a node gets again, in which order of sources and marks. No I/O happens here."""

from __future__ import annotations

import posixpath
import re
from dataclasses import dataclass, field
from fnmatch import fnmatchcase
from typing import TYPE_CHECKING, Callable

from ansible_collections.gpulab.node.plugins.module_utils.packages import apt, apt_sources

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Iterator, Sequence

    from ansible_collections.gpulab.node.plugins.module_utils.capture.sections.software import Installed, Package
    from ansible_collections.gpulab.node.plugins.module_utils.core.installed_packages import Deb
    from ansible_collections.gpulab.node.plugins.module_utils.packages.plan import Plan

SECTION = "packages"
# Of the plan: the driver, CUDA and what is built on it, whoever installed them.
_OF_PLAN = re.compile(
    r"(?:lib|firmware-|xserver-xorg-video-)?nvidia-|linux-(?:modules|objects|signatures)-nvidia|cuda-"
)
# A kernel of one version; the installed system has its own, and its meta packages bring the others.
_KERNEL = re.compile(r"linux-(?:image|headers|modules|kbuild|tools|buildinfo|binary|cloud-tools)(?:-[a-z]+)*-\d")
# What a rebuild works with: no package may come at their price.
_NEEDED = re.compile(r"(?:openssh-server|sudo|python3|systemd|linux-image-.*|grub-.*)(?::|$)")
# Of a captured source that does not answer, how its file of the trial begins in the log, and how it ends.
BEGINS, ENDED = "== source ", "== ended with "
# Lines in which APT says why, the plainest kind first.
_FAULTS = (
    re.compile(r"^ \S+ : .*", re.MULTILINE),
    re.compile(r"^E: (?!Some index files).*", re.MULTILINE),
    re.compile(r"^W: .*", re.MULTILINE),
)


def missing(name: str, why: str) -> dict[str, str]:
    """Return what did not come back."""
    return {"section": SECTION, "name": name, "why": why}


@dataclass(frozen=True)
class Candidates:
    """Packages to install, the manually installed ones first; left has what is left out, with the reason."""

    names: tuple[str, ...]
    left: tuple[dict[str, str], ...] = ()


@dataclass
class Settled:
    """What APT can install, of the candidates; missing has the others."""

    install: list[str] = field(default_factory=list)
    missing: list[dict[str, str]] = field(default_factory=list)


def candidates(
    section: Installed, installed: dict[str, Deb], managed: Collection[str], *, same_release: bool
) -> Candidates:
    """Return which packages are to come back.

    section is the capture's; managed are the names and globs that
    gpulab's roles answer for. With the same release all packages come back. Another one chooses what the manually
    installed packages need.
    """
    native = installed["dpkg"].architecture if "dpkg" in installed else ""
    manual = section.manual or []
    others = [_full_name(one, native) for one in section.packages or []] if same_release else []
    found, left = [], []
    for name in dict.fromkeys([*manual, *others]):
        short = name.partition(":")[0]
        if apt.is_installed(installed, name) or is_managed(short, managed):
            continue
        if _KERNEL.match(short):
            if name in section.holds:
                left.append(missing(name, "it is of one kernel, and the installed system has its own"))
            continue
        found.append(name)
    return Candidates(tuple(found), tuple(left))


def _full_name(package: Package, native: str) -> str:
    name, architecture = package.name, package.architecture
    return name if architecture in (native, "all", "") else f"{name}:{architecture}"


def is_managed(name: str, managed: Collection[str]) -> bool:
    """Tell whether a package comes by the plan, not by the capture."""
    return bool(_OF_PLAN.match(name)) or any(fnmatchcase(name, pattern) for pattern in managed)


def foreign_architectures(section: Installed, native: str) -> list[str]:
    """Return the architectures, beside the node's own, that packages of the capture have."""
    return sorted({one.architecture for one in section.packages or []} - {native, "all", ""})


def settle(
    names: Sequence[str], captured: Collection[str], simulate: Callable[[Sequence[str]], tuple[Plan, str]]
) -> Settled:
    """Return which packages can be installed in one transaction.

    simulate returns what APT would do, and its errors. A package may not come at the price of one that the capture
    has, or that a rebuild works with. Earlier names go before later ones.
    """
    found, left = Settled(), list(names)
    while True:
        plan, errors = simulate(left) if left else (None, "")
        unknown = apt.parse_unknown(errors)
        gone = [name for name in left if name in unknown]
        if not gone:
            break
        found.missing += [missing(name, "no package source has it") for name in gone]
        left = [name for name in left if name not in unknown]

    def why_not(chosen: Sequence[str]) -> str:
        return _why_not(*simulate(chosen), captured) if chosen else ""

    def add(chosen: list[str], group: list[str]) -> list[str]:
        """Return the chosen packages and those of the group that can come with them."""
        reason = why_not([*chosen, *group])
        if not reason:
            return [*chosen, *group]
        if len(group) == 1:
            found.missing.append(missing(group[0], reason))
            return chosen
        middle = len(group) // 2
        return add(add(chosen, group[:middle]), group[middle:])

    fits = plan is None or not _why_not(plan, errors, captured)
    found.install = left if fits else add([], left)
    return found


def _why_not(plan: Plan, errors: str, captured: Collection[str]) -> str:
    """Return why a transaction must not be; empty where it may."""
    if errors:
        return fault(errors)
    lost = sorted(name for name in plan.remove if name in captured or _NEEDED.match(name))
    return f"it would remove {', '.join(lost)}" if lost else ""


def fault(printed: str) -> str:
    """Return the line of APT's output that says why."""
    told = [line for kind in _FAULTS for line in kind.findall(printed)]
    return re.sub(r"^(?:E|W): ", "", told[0].strip()) if told else "APT gave no reason"


def marks(
    section: Installed, installed: dict[str, Deb], states: str, managed: Collection[str], *, same: bool
) -> tuple[dict[str, list[str]], list[dict[str, str]]]:
    """Return the names for each command of apt-mark (hold, auto, manual), and the holds that cannot be.

    states is the text of APT's extended_states. gpulab's own packages keep the marks that a run gives them. same tells
    whether it is the release of the capture: else packages have other names, and only manual ones are marked.
    """
    native = installed["dpkg"].architecture if "dpkg" in installed else ""
    automatic, manual = apt.automatic(states, native), set(section.manual or [])
    known = {_full_name(one, native) for one in section.packages or []}
    found: dict[str, list[str]] = {"hold": [], "auto": [], "manual": []}
    for name, package in installed.items():
        if name not in known or not apt.is_on_disk(installed, name) or is_managed(name.partition(":")[0], managed):
            continue
        is_automatic = _is_automatic(name, package, automatic, native)
        if name in section.holds and not package.held:
            found["hold"].append(name)
        if name in manual and is_automatic:
            found["manual"].append(name)
        if same and name not in manual and not is_automatic:
            found["auto"].append(name)
    lacking = list(_not_held(section, installed, managed))
    return {command: names for command, names in found.items() if names}, lacking


def _is_automatic(name: str, package: Deb, automatic: Collection[tuple[str, str]], native: str) -> bool:
    architectures = {package.architecture, native} if package.architecture == "all" else {package.architecture}
    return any((name.partition(":")[0], one) in automatic for one in architectures)


def _not_held(section: Installed, installed: dict[str, Deb], managed: Collection[str]) -> Iterator[dict[str, str]]:
    for name in section.holds:
        if not apt.is_on_disk(installed, name) and not is_managed(name.partition(":")[0], managed):
            yield missing(name, "it was on hold, and is not installed")


def other_versions(section: Installed, installed: dict[str, Deb]) -> Iterable[dict[str, str]]:
    """Yield the packages on hold that came back in another version: nobody has the former one any more."""
    native = installed["dpkg"].architecture if "dpkg" in installed else ""
    versions = {_full_name(one, native): one.version for one in section.packages or []}
    for name in section.holds:
        if name in versions and apt.is_on_disk(installed, name) and installed[name].version != versions[name]:
            why = f"it was on hold in version {versions[name]}, and came back in {installed[name].version}"
            yield missing(name, why)


def is_source(path: str) -> bool:
    """Tell whether APT reads its sources from this file."""
    directory, name = posixpath.split(path)
    return path == apt_sources.SOURCES_LIST or (directory == "/etc/apt/sources.list.d" and apt_sources.is_read(name))


def is_pin(path: str) -> bool:
    """Tell whether APT reads from this file which versions it prefers."""
    return path == "/etc/apt/preferences" or posixpath.dirname(path) == "/etc/apt/preferences.d"


def unanswered(log: str) -> dict[str, str]:
    """Return the source files that did not answer, each with the reason, from the log of a trial of all."""
    found = {}
    for part in log.split(BEGINS)[1:]:
        name, _newline, rest = part.partition("\n")
        printed, _mark, status = rest.partition(ENDED)
        if status.split()[:1] != ["0"]:
            found[name] = fault(printed)
    return found

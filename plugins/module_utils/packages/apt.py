# Copyright (c) 2026 The gpulab founders
# GNU General Public License v3.0+ (see https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What dpkg and apt report, and what it takes to change it. No I/O happens here."""

from __future__ import annotations

import re
import shlex
from collections import Counter
from fnmatch import fnmatchcase
from typing import TYPE_CHECKING

from ansible_collections.gpulab.node.plugins.module_utils.driver import dkms
from ansible_collections.gpulab.node.plugins.module_utils.packages.deb822 import stanzas
from ansible_collections.gpulab.node.plugins.module_utils.packages.plan import Plan, Wishes, matches, split

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable

    from ansible_collections.gpulab.node.plugins.module_utils.core.installed_packages import Deb

# Touched after the lists were refreshed; the name by which other tools know it, too.
UPDATED = "/var/lib/apt/periodic/update-success-stamp"
# Where APT keeps which packages only came as dependencies.
EXTENDED_STATES = "/var/lib/apt/extended_states"
# What apt-get and the packages' scripts see: no questions, no restarts, messages that can be read here, lean builds.
ENVIRONMENT = {
    **dkms.ENVIRONMENT,
    "APT_LISTCHANGES_FRONTEND": "none",
    "DEBIAN_FRONTEND": "noninteractive",
    "LANGUAGE": "",  # would go before LC_ALL, with glibc older than 2.39 and in Python, of which dnf is made
    "LC_ALL": "C.UTF-8",
    "NEEDRESTART_MODE": "l",
    "UCF_FORCE_CONFFOLD": "1",
}
# Where dpkg finds the programs of packages' scripts by default: DPkg::Path.
_PATH = "/usr/sbin:/usr/bin:/sbin:/bin"
_UNITS = {"B": 1, "kB": 10**3, "MB": 10**6, "GB": 10**9}
_ACTION = re.compile(r"^(Inst|Remv|Purg) (\S+)(?: \[([^\]]+)\])?(?: \((\S+))?")
# What apt-get says before it asks: a package a line, with its versions, and a * where it is purged.
_SECTION = re.compile(
    r"^The following (?:NEW )?packages will be (installed|upgraded|DOWNGRADED|REMOVED):\n((?: .*\n)+)", re.MULTILINE
)
_LINE = re.compile(r"^ +([^\s*]+)\*? \((\S+)(?: => (\S+))?\)$", re.MULTILINE)
_WITH_VERSIONS = ("APT::Get::Show-Versions=true", "APT::Output-Version=0")
_URI = re.compile(r"^'[^']+' (\S+) (\d+) ", re.MULTILINE)
_KERNEL = re.compile(r"linux-image-|linux-modules-(?:extra-)?\d")
_OF_KERNEL = re.compile(r"linux-(?:headers|kbuild)-").match
# apt-get writes its caches and the input of its planner even when it only simulates.
_WRITE_NOTHING = ("Dir::Cache::pkgcache=", "Dir::Cache::srcpkgcache=", "Dir::Log::Planner=")
_AFTER = re.compile(r"^After this operation, ([\d.,]+) (B|kB|MB|GB) of additional disk space", re.MULTILINE)
_LISTED = re.compile(r"([^\s,()]+) \([^)]*\)")
# As install_command has it, and hardly anybody else.
_OURS = "--option=Dpkg::Use-Pty=0 --option=APT::Install-Recommends="
_UNKNOWN = (
    re.compile(r"Unable to locate package (\S+)"),
    re.compile(r"Package '?(\S+?)'? has no installation candidate"),
    re.compile(r"Version '[^']*' for '(\S+)' was not found"),
)


def has_inner_wildcard(wish: str) -> bool:
    """Say whether a wish has a version pattern that apt-get does not read: it knows a * at the end, and no other."""
    return any(sign in split(wish)[1][:-1] for sign in "*?[")


def exact(wish: str, report: str) -> str:
    """Return the wish with the newest version that meets its pattern; as it is where none does.

    report is the output of apt-cache madison for its package: name | version | source, newest first.
    """
    name, pattern = split(wish)
    versions = (line.split("|")[1].strip() for line in report.splitlines() if line.count("|") > 1)
    found = next((version for version in versions if fnmatchcase(version, pattern)), pattern)
    return f"{name}={found}"


def is_installed(packages: dict[str, Deb], wish: str) -> bool:
    """Say whether name or name=version is installed and configured."""
    name, version = split(wish)
    package = packages.get(name)
    return package is not None and package.status == "installed" and fnmatchcase(package.version, version)


def is_on_disk(packages: dict[str, Deb], name: str) -> bool:
    """Say whether anything but configuration files of a package is on the node."""
    return name in packages and packages[name].on_disk


def open_wishes(wishes: Wishes, packages: dict[str, Deb]) -> Wishes:
    """Return the wishes that do not hold yet."""
    held = {name for name, package in packages.items() if package.held}
    return Wishes(
        present=tuple(wish for wish in wishes.present if not is_installed(packages, wish)),
        absent=tuple(_of_every_architecture(wishes.absent, packages)),
        hold=tuple(name for name in _on_disk(wishes.hold, packages) if name not in held),
        unhold=tuple(name for name in _on_disk(wishes.unhold, packages) if name in held),
        retire=tuple(name for name in wishes.retire if is_on_disk(packages, name)),
    )


def _of_every_architecture(names: tuple[str, ...], packages: dict[str, Deb]) -> list[str]:
    """Return the packages on the disk that have one of these names, those of foreign architectures, too."""
    return [
        full_name
        for name in names
        for full_name in packages
        if name in (full_name, full_name.partition(":")[0]) and is_on_disk(packages, full_name)
    ]


def _on_disk(patterns: tuple[str, ...], packages: dict[str, Deb]) -> list[str]:
    """Return the packages on the disk that any of these names and globs names."""
    return [name for name in packages if matches(name, patterns) and is_on_disk(packages, name)]


def install_command(  # noqa: PLR0913
    todo: Wishes,
    *,
    recommends: bool,
    lock_timeout: int,
    changes_held: bool,
    simulate: str = "",
    writes_caches: bool = False,
) -> list[str]:
    """Return the one apt-get call that fulfils the wishes.

    simulate is "--simulate" or "--print-uris"; the call then writes nothing at all, or APT's caches of its lists only:
    without them, each call reads all lists again.
    """
    downgrade = ["--allow-downgrades"] if any("=" in wish for wish in todo.present) else []
    # Without the second, apt keeps a held package back although one that was asked for depends on its new version.
    held = ["--allow-change-held-packages", "--option=APT::Ignore-Hold=true"] if changes_held else []
    # With a package, APT upgrades all that is of its source: with headers, the kernel itself, which nobody asked for.
    kernel_stays = ["--option=APT::Get::Upgrade-By-Source-Package=false"] if any(map(_OF_KERNEL, todo.present)) else []
    purge = ["--purge"] if todo.retire else []
    return [
        "apt-get",
        "--yes",
        "--quiet",
        *([simulate] if simulate else []),
        *([f"--option={option}" for option in _WRITE_NOTHING] if simulate and not writes_caches else []),
        *([f"--option={option}" for option in _WITH_VERSIONS] if simulate else []),
        *downgrade,
        *held,
        *kernel_stays,
        *purge,
        *options(lock_timeout),
        "--option=Dpkg::Options::=--force-confdef",
        "--option=Dpkg::Options::=--force-confold",
        "--option=Dpkg::Use-Pty=0",
        f"--option=APT::Install-Recommends={str(recommends).lower()}",
        "install",
        *todo.present,
        *(f"{name}-" for name in (*todo.absent, *todo.retire)),
    ]


def builds_later(module: str) -> str:
    """Return a script that stands for dkms in a transaction and leaves the builds of a module out.

    Packages' scripts call dkms build for a module of their own, and dkms autoinstall for all that DKMS has. Neither
    minds that nothing is built: DKMS knows the module, and builds it when it is next asked.
    """
    return f"""\
#!/bin/sh
# For one transaction of packages. {module} is built right after it.
case " $* " in
    " build"*" -m {module} "*) exit 0 ;;
    " autoinstall "*)
        for source in /var/lib/dkms/*/*/source; do
            case $source in
                /var/lib/dkms/{module}/*) ;;
                *) exec /usr/sbin/dkms "$@" ;;
            esac
        done
        exit 0 ;;
esac
exec /usr/sbin/dkms "$@"
"""


def path_option(directory: str) -> str:
    """Return the option with which packages' scripts find programs in a directory first."""
    return f"--option=DPkg::Path={directory}:{_PATH}"


def pins(wishes: Wishes) -> str:
    """Return the preferences under which what is to be held is taken in the requested versions, over all others.

    They stand for a transaction before this one that has not run in check mode: the one that takes away the pin of
    the former version.
    """
    versions = dict.fromkeys(version for name, version in map(split, wishes.present) if matches(name, wishes.hold))
    record = "Package: {names}\nPin: version {version}\nPin-Priority: 1001\n"
    records = [record.format(names=" ".join(wishes.hold), version=version) for version in versions if version != "*"]
    return "\n".join(records)


def last(wishes: Wishes, origin: str) -> str:
    """Return the preferences under which of what is to be held nothing comes from this origin that another one has.

    They are for one transaction: each pattern makes apt slower, and what is on hold stays where it is anyway.
    """
    return f"Package: {' '.join(wishes.hold)}\nPin: release o={origin}\nPin-Priority: 100\n" if wishes.hold else ""


def beside(wishes: Wishes, packages: dict[str, Deb]) -> str:
    """Return the preferences under which what comes beside the packages to be held has their version, where it has it.

    The version is the one that most of them have. They are for one transaction, as those of last are.
    """
    known = Counter(
        package.version
        for name, package in packages.items()
        if package.status == "installed" and matches(name.partition(":")[0], wishes.hold)
    )
    if not known:
        return ""
    ((version, _count),) = known.most_common(1)
    return f"Package: {' '.join(wishes.hold)}\nPin: version {version}\nPin-Priority: 1001\n"


def autoremove_command(todo: Wishes, states: str) -> list[str]:
    """Return the call that says what nothing would need any more beside the wishes, and changes nothing.

    states is the file that says which packages only came as dependencies, as EXTENDED_STATES does. A package that
    another one merely suggests is needed by none; a hold makes no difference.
    """
    return [
        *install_command(todo, recommends=False, lock_timeout=0, changes_held=True, simulate="--simulate"),
        "--auto-remove",
        f"--option=Dir::State::extended_states={states}",
        "--option=APT::AutoRemove::SuggestsImportant=false",
        # Headers that came for a driver go with it; what a kernel boots from is left out by parse_needless.
        "--option=APT::Protect-Kernels=false",
    ]


def parse_needless(report: str) -> set[str]:
    """Read the packages that autoremove_command would remove, less those without which a kernel does not boot."""
    return {name for name in parse_plan(report).remove if not _KERNEL.match(name)}


def automatic(states: str, native: str) -> set[tuple[str, str]]:
    """Return the packages that only came as dependencies, with their architectures, from a text of EXTENDED_STATES."""
    return {
        (fields.get("Package", ""), fields.get("Architecture", native))
        for fields in stanzas(states)
        if fields.get("Auto-Installed") == "1"
    }


def mark_automatic(states: str, names: Iterable[str], needed: Collection[str] = ()) -> str:
    """Return a text of EXTENDED_STATES in which these packages, too, only came as dependencies, but not the needed."""
    known = ((fields.get("Package", ""), fields) for fields in stanzas(states) if fields.get("Auto-Installed") == "1")
    kept = [
        fields for name, fields in known if name not in needed and f"{name}:{fields.get('Architecture')}" not in needed
    ]
    told = [*kept, *({"Package": name, "Auto-Installed": "1"} for name in names)]
    return "".join("".join(f"{key}: {value}\n" for key, value in fields.items()) + "\n" for fields in told)


def update_command(lock_timeout: int) -> list[str]:
    """Return the command that refreshes the package lists and notes it; it fails when one of them fails."""
    update = ["apt-get", "--quiet", *options(lock_timeout), "--option=APT::Update::Error-Mode=any", "update"]
    return ["sh", "-c", f"{shlex.join(update)} && touch {UPDATED}"]


def options(lock_timeout: int) -> list[str]:
    """Return the options that every apt-get call of ours has."""
    return [f"--option=DPkg::Lock::Timeout={lock_timeout}", "--option=Acquire::Retries=3"]


def undo_script(names: list[str], packages: dict[str, Deb]) -> str:
    """Return shell commands that take the named packages off the node, and nothing else.

    dpkg and not apt-get: it never removes a package that was not named, and works after an interruption.
    Packages whose configuration files were there before (packages is the state then) keep them.
    """
    fresh = [name for name in names if name not in packages]
    commands = [["dpkg", "--force-remove-reinstreq", "--remove", *names], ["dpkg", "--purge", *fresh]]
    return "\n".join(["set -e", *(" ".join(command) for command in (commands if fresh else commands[:1])), ""])


def parse_plan(report: str) -> Plan:
    """Read the output of apt-get --simulate."""
    plan = Plan()
    for match in filter(None, map(_ACTION.match, report.splitlines())):
        action, name, before, after = match.groups()
        if action != "Inst":
            plan.remove[name] = before or ""
        elif before:
            plan.change[name] = (before, after)
        else:
            plan.install[name] = after
    return plan


def parse_listing(report: str) -> Plan:
    """Read the output of apt-get --print-uris, which names the packages before their files."""
    plan = Plan()
    for what, lines in _SECTION.findall(report):
        for name, version, after in _LINE.findall(lines):
            if what == "REMOVED":
                plan.remove[name] = version
            elif after:
                plan.change[name] = (version, after)
            else:
                plan.install[name] = version
    return plan


def parse_history(text: str) -> set[str]:
    """Read APT's history.log, oldest first: the packages that gpulab's transactions brought, and that stayed."""
    brought: set[str] = set()
    for entry in text.split("\n\n"):
        fields = dict(line.partition(": ")[::2] for line in entry.splitlines())
        came = {name.partition(":")[0] for name in _LISTED.findall(fields.get("Install", ""))}
        brought = brought | came if _OURS in fields.get("Commandline", "") else brought - came
        for action in ("Remove", "Purge"):
            brought -= {name.partition(":")[0] for name in _LISTED.findall(fields.get(action, ""))}
    return brought


def foreign_holds(plan: Plan, wishes: Wishes, packages: dict[str, Deb], own: set[str]) -> list[str]:
    """Return the packages on hold that a plan changes although the wishes do not release them.

    Of what the wishes hold, gpulab's own holds (own) give way, and nobody else's.
    """
    changed = {name for name in (*plan.change, *plan.remove) if name in packages and packages[name].held}
    return sorted(
        name
        for name in changed
        if not matches(name, wishes.unhold) and not (name in own and matches(name, wishes.hold))
    )


def parse_sizes(report: str) -> tuple[int, int]:
    """Read the output of apt-get --print-uris: bytes to download, bytes more on the disk afterwards."""
    download = sum(parse_downloads(report).values())
    after = _AFTER.search(report)
    return download, int(float(after[1].replace(",", "")) * _UNITS[after[2]]) if after else 0


def parse_downloads(report: str) -> dict[str, int]:
    """Read the output of apt-get --print-uris: bytes of each package file that is not on the node yet."""
    return {file: int(size) for file, size in _URI.findall(report)}


def parse_unknown(report: str) -> set[str]:
    """Return the names that the package lists do not have, from the errors of apt-get."""
    return {name for pattern in _UNKNOWN for name in pattern.findall(report)}

# Copyright (c) 2026 The gpulab founders
# GNU General Public License v3.0+ (see https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What rpm and dnf report, and what it takes to change it. No I/O happens here."""

from __future__ import annotations

import shlex
from collections import Counter
from dataclasses import dataclass
from fnmatch import fnmatchcase
from typing import TYPE_CHECKING, Any

from ansible_collections.gpulab.node.plugins.module_utils.packages.plan import Plan, Wishes, matches, split

if TYPE_CHECKING:
    from ansible_collections.gpulab.node.plugins.module_utils.core.installed_packages import Rpm

# Touched after the metadata were refreshed.
UPDATED = "/var/cache/dnf/gpulab-updated"


@dataclass(frozen=True)
class Answer:
    """What the solver says (see dnf_solver): the plan, the names that are new, and bytes to download and to grow by.

    going has the version of each package that goes or gives way, by name.architecture, and coming the names of those
    that come.
    """

    plan: Plan
    new: list[str]
    going: dict[str, str]
    coming: list[str]
    unknown: set[str]
    problem: str
    download: dict[str, int]
    growth: int


def is_installed(packages: list[Rpm], wish: str) -> bool:
    """Say whether name, name=version or a whole name-version-release.architecture is installed."""
    name, version = split(wish)
    return any(
        wish == package.nvra
        or (name == package.name and any(fnmatchcase(text, version) for text in _versions(package)))
        for package in packages
    )


def open_wishes(wishes: Wishes, packages: list[Rpm], locks: list[str]) -> Wishes:
    """Return the wishes that do not hold yet; globs in hold and unhold become the packages that they match.

    What is to be let go need not be installed: a lock outlives its package, and would let no other version in.
    """
    names = {package.name for package in packages}
    held = [package for package in packages if matches(package.name, wishes.hold)]
    free = {name for name in map(_locked_name, locks) if matches(name, wishes.unhold)}
    return Wishes(
        present=tuple(wish for wish in wishes.present if not is_installed(packages, wish)),
        absent=tuple(name for name in wishes.absent if name in names),
        hold=tuple(sorted({package.name for package in held if package.lock not in locks})),
        unhold=tuple(sorted(free)),
        retire=tuple(wish for wish in wishes.retire if is_installed(packages, wish)),
    )


def names_of(wishes: tuple[str, ...], packages: list[Rpm]) -> dict[str, list[str]]:
    """Return the wishes by the names of the packages that they are about; one may be a whole name, as a kernel's is."""
    found: dict[str, list[str]] = {}
    for name, wish in dict.fromkeys(
        (one.name, wish) for wish in wishes for one in packages if wish in (one.name, one.nvra)
    ):
        found.setdefault(name, []).append(wish)
    return found


def lock_list(text: str, wishes: Wishes, packages: list[Rpm]) -> str:
    """Return the list of the versionlock plugin as it has to be; lines about other packages stay as they are."""
    ours = [package for package in packages if matches(package.name, wishes.hold)]
    wanted = sorted(package.lock for package in ours)
    held = {package.name for package in ours}
    names = ((line, _locked_name(line)) for line in text.splitlines())
    kept = [line for line, name in names if line in wanted or not (name in held or matches(name, wishes.unhold))]
    return "".join(f"{line}\n" for line in [*kept, *(lock for lock in wanted if lock not in kept)])


def locked_again(text: str, names: set[str], former: tuple[str, ...]) -> str:
    """Return the list of the versionlock plugin with the former locks of these packages, and no others of theirs."""
    kept = [line for line in text.splitlines() if _locked_name(line) not in names]
    return "".join(f"{line}\n" for line in [*kept, *former])


def locks(text: str) -> list[str]:
    """Return the locks in the list of the versionlock plugin."""
    return [line.strip() for line in text.splitlines() if line.strip() and not line.lstrip().startswith(("#", "!"))]


def foreign_holds(plan: Plan, wishes: Wishes, locked: list[str], own: set[str]) -> list[str]:
    """Return the locked packages that a plan changes although the wishes do not release them.

    Of what the wishes hold, gpulab's own locks (own) give way, and nobody else's.
    """
    changed = {*plan.change, *plan.remove} & locked_names(locked)
    return sorted(
        name
        for name in changed
        if not matches(name, wishes.unhold) and not (name in own and matches(name, wishes.hold))
    )


def locked_names(locked: list[str]) -> set[str]:
    """Return the packages that lines of the versionlock plugin are about."""
    return {_locked_name(line) for line in locked}


def specification(wish: str) -> str:
    """Return a wish in dnf's words, where name=version is name-version."""
    name, version = split(wish)
    return f"{name}-{version}" if "=" in wish else wish


def question(todo: Wishes, *, recommends: bool, changes_held: bool) -> dict[str, Any]:
    """Return what dnf_solver is asked."""
    return {
        "install": [specification(wish) for wish in todo.present],
        "remove": [*todo.absent, *todo.retire],
        "weak": recommends,
        "erase": bool(todo.absent),
        "disable": ["versionlock"] if changes_held else [],
    }


def question_of_needless(todo: Wishes, *, recommends: bool, given_up: list[str]) -> dict[str, Any]:
    """Return what dnf_solver is asked about what goes with the packages that are given up."""
    install = [specification(wish) for wish in todo.present]
    return {"install": install, "give_up": given_up, "weak": recommends, "disable": ["versionlock"]}


def parse_answer(answer: dict[str, Any]) -> Answer:
    """Read what dnf_solver printed.

    Where the same becomes of a package in several versions, each is called by its whole name; of several architectures
    the versions are the same, and it is told once.
    """
    plan = Plan()
    versions = {(row["action"], row["name"], row["before"], row["version"]) for row in answer["rows"]}
    count = Counter((action, name) for action, name, _before, _version in versions)
    new = []
    for row in answer["rows"]:
        name = row["nevra"] if count[row["action"], row["name"]] > 1 else row["name"]
        if row["action"] == "install":
            plan.install[name] = row["version"]
            new.append(row["nevra"])
        elif row["action"] == "change":
            plan.change[name] = (row["before"], row["version"])
        else:
            plan.remove[name] = row["version"]
    return Answer(
        plan,
        new,
        answer["going"],
        answer["coming"],
        set(answer["unknown"]),
        answer["problem"],
        answer["download"],
        answer["growth"],
    )


def install_command(todo: Wishes, *, recommends: bool, changes_held: bool) -> list[str]:
    """Return the command that fulfils the wishes with the metadata that they were judged by.

    What has to go for what comes goes in the same transaction.
    """
    options = [
        "--assumeyes",
        *(["--disableplugin=versionlock"] if changes_held else []),
        f"--setopt=install_weak_deps={recommends}",
        "--setopt=clean_requirements_on_remove=False",
        "--setopt=*.metadata_expire=never",
    ]
    erasing = ["--allowerasing"] if todo.absent else []
    install = ["dnf", *options, "install", *erasing, *map(specification, todo.present)] if todo.present else []
    going = [*todo.absent, *todo.retire]
    remove = ["dnf", *options, "remove", *going] if going else []
    if install and remove:
        return ["sh", "-c", f"{shlex.join(install)} && {shlex.join(remove)}"]
    return install or remove


def update_command() -> list[str]:
    """Return the command that refreshes the metadata and notes it; it fails when those of one repository do."""
    update = ["dnf", "--assumeyes", "--refresh", "--setopt=*.skip_if_unavailable=False", "makecache"]
    return ["sh", "-c", f"{shlex.join(update)} && touch {UPDATED}"]


def undo_script(names: list[str]) -> str:
    """Return the shell command that takes the named packages off the node, and nothing else."""
    return shlex.join(["rpm", "--erase", *names]) + "\n"


def _versions(package: Rpm) -> tuple[str, str]:
    return package.version, f"{package.epoch}:{package.version}"


def _locked_name(line: str) -> str:
    """Return the package that a line of the versionlock plugin is about: name-epoch:version-release.architecture."""
    return line.strip().rsplit("-", 2)[0]

# Copyright (c) 2026 The gpulab founders
# GNU General Public License v3.0+ (see https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What dnf would do, asked of dnf's own solver. Nothing is changed and nothing is downloaded.

The text of this file is run by the Python that dnf itself runs under, the only one that has its bindings:

    python3 -c TEXT '{"install": [...], "remove": [...], "weak": false, "erase": false, "disable": []}'
    python3 -c TEXT '{"install": [...], "give_up": [...], "weak": false, "disable": []}'

It prints JSON: see solve(), and for the second needless().
"""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any


def solve(question: dict) -> dict:
    """Return {unknown, problem, rows, going, coming, download, growth}.

    rows are {action, name, nevra, version, before}; action is install, change or remove, before the version that goes.
    going maps name.architecture of what goes or gives way to its version; coming is that of what comes.
    unknown are the specifications that no repository's metadata on the node have, and that is all that is known then.
    problem is the solver's reason why there is no solution. download maps each file that is not on the node yet to its
    bytes; growth is in bytes.
    """
    import dnf  # noqa: PLC0415 - only here is it sure to be there

    base = opened(question)
    unknown = mark(base, question["install"])
    if unknown:
        return {**outcome(None), "unknown": unknown, "problem": ""}
    for name in question["remove"]:
        base.remove(name)
    try:
        base.resolve(allow_erasing=question["erase"])
    except dnf.exceptions.DepsolveError as error:
        return {**outcome(None), "unknown": [], "problem": str(error)}
    return {**outcome(base.transaction), "unknown": [], "problem": ""}


def needless(question: dict) -> list:
    """Return the names of what nothing needs once the installs are done and what is given up is nobody's wish any more.

    What nothing needed before is not among them, unless it is given up itself.
    """
    base = opened(question)
    before = unneeded(base, question, []) - set(question["give_up"])
    return sorted(unneeded(base, question, question["give_up"]) - before)


def unneeded(base: Any, question: dict, given_up: list) -> set:
    """Return the names of what nothing needs after the installs, as the history of dnf tells what was requested."""
    base.reset(goal=True)
    mark(base, question["install"])  # of what no metadata have, what is there already decides
    for package in base.sack.query().installed():
        if base.history.user_installed(package) and package.name not in given_up:
            base.goal.userinstalled(package)
    base.goal.run()
    return {package.name for package in base.goal.list_unneeded()}


def opened(question: dict) -> Any:
    """Return a dnf.Base that knows the node and the metadata that are on it."""
    import dnf  # noqa: PLC0415 - only here is it sure to be there

    base = dnf.Base()
    base.conf.read()
    base.conf.substitutions.update_from_etc(base.conf.installroot)
    base.conf.install_weak_deps = question["weak"]
    base.conf.clean_requirements_on_remove = False
    base.init_plugins(disabled_glob=question["disable"])
    base.read_all_repos()
    for repository in base.repos.iter_enabled():
        repository.skip_if_unavailable = True  # its metadata may not be on the node yet
    base.configure_plugins()
    base.fill_sack_from_repos_in_cache(load_system_repo=True)
    return base


def mark(base: Any, specifications: list) -> list:
    """Mark for installation; return the specifications that no repository's metadata on the node have."""
    import dnf  # noqa: PLC0415 - only here is it sure to be there

    unknown = []
    for specification in specifications:
        try:
            base.install(specification)
        except dnf.exceptions.MarkingError:  # noqa: PERF203 - one at a time says which
            unknown.append(specification)
    return unknown


def outcome(transaction: Any) -> dict:
    """Return what solve() does of a dnf.db.group.RPMTransaction, or of None where nothing is to do."""
    coming = list(transaction.install_set) if transaction else []
    going = list(transaction.remove_set) if transaction else []
    left = list(going)
    rows = []
    for package in coming:
        former = next((one for one in left if replaces(package, one)), None)
        if former:
            left.remove(former)
        rows.append(row("change" if former else "install", package, former.evr if former else ""))
    rows += [row("remove", package, package.evr) for package in left]
    return {
        "rows": sorted(rows, key=lambda one: one["nevra"]),
        "going": {f"{package.name}.{package.arch}": package.evr for package in going},
        "coming": [f"{package.name}.{package.arch}" for package in coming],
        "download": {
            package.location.rpartition("/")[2]: package.downloadsize
            for package in coming
            if not Path(package.localPkg()).exists()
        },
        "growth": sum(package.installsize for package in coming) - sum(package.installsize for package in going),
    }


def replaces(package: Any, former: Any) -> bool:
    """Say whether a dnf.package.Package comes for another: of its name, and of its architecture unless one has none."""
    same = former.arch == package.arch or "noarch" in (former.arch, package.arch)
    return former.name == package.name and same


def row(action: str, package: Any, before: str) -> dict:
    """Return a dnf.package.Package as a row."""
    return {
        "action": action,
        "name": package.name,
        "nevra": f"{package.name}-{package.version}-{package.release}.{package.arch}",
        "version": package.evr,  # without an epoch of zero
        "before": before,
    }


if __name__ == "__main__":
    asked = json.loads(sys.argv[1])
    sys.stdout.write(json.dumps(needless(asked) if "give_up" in asked else solve(asked)) + "\n")

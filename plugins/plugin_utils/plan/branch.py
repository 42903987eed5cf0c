# Copyright (c) 2026 The gpulab founders
# GNU General Public License v3.0+ (see https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Which driver branch: the requested one where it can serve, else the newest long-lived one that does.

A branch that no security bulletin has named yet is only weeks old: it is taken where it is requested, where the node
has it, or where nothing else serves the node.
"""

from __future__ import annotations

import calendar
from datetime import date
from typing import TYPE_CHECKING, Any

from ansible_collections.gpulab.node.plugins.plugin_utils.core.versions import branch_of, newest
from ansible_collections.gpulab.node.plugins.plugin_utils.plan import display, newer
from ansible_collections.gpulab.node.plugins.plugin_utils.refusals import refuse

if TYPE_CHECKING:
    from collections.abc import Iterable

    from ansible_collections.gpulab.node.plugins.plugin_utils.plan.case import Case, Request
    from ansible_collections.gpulab.node.plugins.plugin_utils.plan.source import Source

LONG_LIVED = ("long-term-support", "production")


def choose_branch(case: Case, source: Source, flavours: tuple[str, ...]) -> tuple[str, list[str]]:
    """Return the branch and why this one. Raises Refusal where the requested one, or every one, cannot be taken."""
    branch = requested(case)
    if branch:
        _check(case, source, branch, flavours)
        return branch, [f"Branch {branch} is requested."]
    stays = display.carried_on(case)
    if stays:
        case.warnings += _without_fixes(case, case.catalog.branches[stays])
        return stays, [f"Branch {stays} is that of the desktop driver."]
    carried = [case.catalog.branches[name] for name in source.branches]
    serving = [record for record in carried if _serves(case, record, flavours)]
    if not serving:
        raise _none_serves(case, source, flavours)
    kept = _kept(case, source, serving, flavours)
    if kept:
        return kept, [f"The node has branch {kept}, which is newer than every release in the catalog."]
    unreleased, foreign = serving[-1]["branch"], case.newer_driver and branch_of(case.newer_driver)
    serving = [record for record in serving if record["latest"] and record["branch"] != foreign]
    if not serving:
        raise refuse("P092", branch=unreleased, way=_another(case, flavours))
    accepted = [record for record in serving if accepted_for_life(case, record)]
    lasting = [record for record in accepted if record["type"] in LONG_LIVED or allowed(case, record["branch"])]
    if not lasting:
        record = serving[-1]
        raise _too_old(case, record, flavours)
    branch = _newest(case, lasting)
    kind = case.catalog.branches[branch]["type"]
    return branch, [
        f"Branch {branch} ({kind}) is the newest long-lived one of {source.label} that supports {names(case)}."
    ]


def accepted_for_life(case: Case, record: dict[str, Any]) -> bool:
    """Tell whether a branch still gets fixes, or is allowed by name."""
    return allowed(case, record["branch"]) or not has_ended(record, case.today)


def allowed(case: Case, branch: str) -> bool:
    """Tell whether the operator accepts a branch with its known holes: by name, or with the distribution's driver."""
    return branch in (case.wishes["gpulab_allow_branches"] or ()) or branch in accepted_with_source(case)


def accepted_with_source(case: Case) -> list[str]:
    """Return the branches of a distribution that is asked for by name, where none of them gets fixes any more."""
    by_name = case.wishes["nvidia_driver_source"] == "distribution"
    return case.platform["driver_sources"]["distribution"]["branches"] if by_name and _only_ended(case) else []


def _only_ended(case: Case) -> bool:
    """Tell whether the distribution has a driver, but none that still gets fixes."""
    branches = case.platform["driver_sources"].get("distribution", {}).get("branches", ())
    return bool(branches) and all(has_ended(case.catalog.branches[branch], case.today) for branch in branches)


def has_ended(record: dict[str, Any], today: date) -> bool:
    """Tell whether a branch gets no fixes any more: by NVIDIA's word, or as its day has passed."""
    return record["ended"] or (record["eol"] is not None and today > _last_day(record["eol"]))


def _without_fixes(case: Case, record: dict[str, Any]) -> list[str]:
    """Return the warning that a desktop driver stays although its branch gets no fixes any more."""
    if not has_ended(record, case.today) or allowed(case, record["branch"]):
        return []
    told = f"The desktop driver stays at branch {record['branch']}, and {end_of_life(record)}."
    return [f"{told} To replace it, set nvidia_driver_source: nvidia and nvidia_driver_remove_conflicting: true."]


def end_of_life(record: dict[str, Any]) -> str:
    """Say since when a branch gets no fixes, for a message."""
    return f"its support ended in {record['eol']}" if record["eol"] else "NVIDIA no longer fixes it"


def names(case: Case) -> str:
    """Name the node's GPUs, for a message."""
    return ", ".join(gpu.name for gpu in case.gpus) or "a node without a GPU"


def requested(request: Request) -> str | None:
    """Return the branch that is requested, also by a version. Raises Refusal P015 where the two differ."""
    branch, version = request.wishes["nvidia_driver_branch"], request.wishes["nvidia_driver_version"]
    if branch and version and branch_of(version) != branch:
        raise refuse("P015", version=version, branch=branch)
    return branch or (branch_of(version) if version else None)


def _check(case: Case, source: Source, branch: str, flavours: tuple[str, ...]) -> None:
    """Refuse a requested branch that is unknown, does not serve a GPU, gets no fixes or is not carried."""
    record = newer.branch_record(case.catalog, branch)
    for gpu in case.gpus:
        if not gpu.served_by(branch):
            raise refuse("P010", branch=branch, gpu=gpu.name, demand=gpu.demand())
    if not accepted_for_life(case, record):
        raise _too_old(case, record, flavours)
    if branch not in source.branches:
        raise _not_carried(case, source, branch, flavours)
    if record["latest"] is None:
        raise refuse("P092", branch=branch, way=_another(case, flavours))


def _kept(case: Case, source: Source, serving: list[dict[str, Any]], flavours: tuple[str, ...]) -> str | None:
    """Return the branch of the node's driver if the catalog knows no release that is as new, else None.

    Raises Refusal for a branch that is not trusted.
    """
    owners = {package["source"] for package in case.facts["driver"]["packages"]}
    if case.newer_driver is None or source.name not in (owners or {"runfile"}):
        return None
    branch = branch_of(case.newer_driver)
    if not all(gpu.served_by(branch) for gpu in case.gpus):
        return None
    _check(case, source, branch, flavours)
    return branch if any(record["branch"] == branch for record in serving) else None


def _too_old(case: Case, record: dict[str, Any], flavours: tuple[str, ...]) -> Exception:
    way = _another(case, flavours).replace("; or use", "Use", 1)
    way = f"{way}, or allow this one" if way else "Allow it"
    return refuse("P008", branch=record["branch"], state=end_of_life(record), way=way)


def _not_carried(case: Case, source: Source, branch: str, flavours: tuple[str, ...]) -> Exception:
    """Return the refusal of a branch that its source lacks, with another branch, another source, or trust as remedy."""
    lasting = _lasting(case, source.branches, flavours)
    ways = [_settings(case, nvidia_driver_branch=f'"{lasting}"')] if lasting else []
    ways += [
        _settings(case, nvidia_driver_source=name) if name == "distribution" else f"nvidia_driver_source: {name}"
        for name, branches in _carried(case).items()
        if branch in branches
    ]
    trusted = newer.with_sources(case.platform, [branch])["driver_sources"].get(source.name)
    if trusted and branch in trusted["branches"]:
        ways.append(f"{newer.TRUST}: true if it has that branch now")
    way = f"Set {'; or '.join(ways)}" if ways else "Leave nvidia_driver_branch unset"
    return refuse("P013", source=source.label, branch=branch, carried=", ".join(source.branches), way=way)


def _another(case: Case, flavours: tuple[str, ...]) -> str:
    """Return the settings that give the node another branch that gets fixes, as part of a remedy; "" for none."""
    ways = [
        _settings(case, nvidia_driver_source=name, nvidia_driver_branch=f'"{branch}"')
        for name, branches in _carried(case).items()
        if (branch := _lasting(case, branches, flavours))
    ]
    packaged = [way for way in ways if "runfile" not in way] or ways
    return f"; or use another branch ({'; or '.join(packaged)})" if packaged else ""


def can_serve(case: Case, name: str, *, uninstalled: bool = False) -> bool:
    """Tell whether a source has packages for the node, and a branch that serves all its GPUs and NVSwitches.

    uninstalled: once the driver of a .run file, which packages do not replace, is gone.
    """
    switches = case.needs_fabric_manager
    for branch in _carried(case, uninstalled=uninstalled).get(name, ()):
        sets = [names for names in case.platform["driver_sources"][name]["package_sets"] if branch in names["branches"]]
        managed = any(names.get("fabric_manager") for names in sets)
        if (managed or not switches) and all(gpu.served_by(branch) for gpu in case.gpus):
            return True
    return False


def settings_of(case: Case, name: str) -> str:
    """Return the settings that take the driver from a source."""
    settings = {"nvidia_driver_source": name}
    if case.wishes["nvidia_driver_branch"] not in (None, *case.platform["driver_sources"][name]["branches"]):
        settings["nvidia_driver_branch"] = "null"
    return _settings(case, **settings)


def _settings(case: Case, **settings: str) -> str:
    """Return settings as an inventory has them; a requested version, which could contradict them, becomes null."""
    settings |= {"nvidia_driver_version": "null"} if case.wishes["nvidia_driver_version"] else {}
    return ", ".join(f"{name}: {value}" for name, value in settings.items())


def _carried(case: Case, *, uninstalled: bool = False) -> dict[str, list[str]]:
    """Return the branches of every source of the platform that serves the node's architecture."""
    sources = {
        name: record["branches"]
        for name, record in case.platform["driver_sources"].items()
        if record["repository"] is None
        or case.architecture in case.catalog.repositories[record["repository"]]["architectures"]
    }
    if case.facts["driver"]["packages"]:  # a .run file cannot be installed over packages, nor packages over one
        return sources
    runfile = {"runfile": list(case.catalog.branches)}
    return runfile if case.facts["driver"]["runfile"] and not uninstalled else {**sources, **runfile}


def _lasting(case: Case, branches: Iterable[str], flavours: tuple[str, ...]) -> str | None:
    """Return the newest of these branches that gets fixes and serves the node; None where none does."""
    records = [case.catalog.branches[name] for name in branches]
    fit = [
        record
        for record in records
        if record["type"] in LONG_LIVED
        and record["latest"]
        and not has_ended(record, case.today)
        and _serves(case, record, flavours)
    ]
    return _newest(case, fit) if fit else None


def _newest(case: Case, records: list[dict[str, Any]]) -> str:
    """Return the newest of these branches: of those that a security bulletin names, and the node's own."""
    here = newer.on_node(case.facts)
    settled = [one for one in records if one["security_floor"] or (here and one["branch"] == branch_of(here))]
    return newest([record["branch"] for record in settled or records])


def _serves(case: Case, record: dict[str, Any], flavours: tuple[str, ...]) -> bool:
    return any(flavour in record["kernel_modules"] for flavour in flavours) and all(
        gpu.served_by(record["branch"], record["latest"]) for gpu in case.gpus
    )


def _none_serves(case: Case, source: Source, flavours: tuple[str, ...]) -> Exception:
    """Return the refusal that names two GPUs without a common branch, or the one that no carried branch serves."""
    branches = case.catalog.branches
    for index, one in enumerate(case.gpus):
        for other in case.gpus[index + 1 :]:
            if not any(one.served_by(branch) and other.served_by(branch) for branch in branches):
                return refuse("P004", one=one.name, other=other.name, why=f"{one.demand()} against {other.demand()}")
    for gpu in case.gpus:
        if not any(gpu.served_by(branch) for branch in source.branches):
            return refuse(
                "P014",
                source=source.label,
                gpu=gpu.name,
                demand=gpu.demand(),
                way=_other_sources(case, source, flavours),
            )
    demand = f"{' or '.join(flavours)} kernel modules that these branches lack"
    return refuse(
        "P014", source=source.label, gpu=names(case), demand=demand, way=_other_sources(case, source, flavours)
    )


def _other_sources(case: Case, source: Source, flavours: tuple[str, ...]) -> str:
    """Name the sources that have a branch for the GPUs, each with its newest one, for a remedy."""
    ways = []
    for name, branches in _carried(case).items():
        serving = [
            record
            for record in (case.catalog.branches[branch] for branch in branches)
            if record["latest"] and _serves(case, record, flavours)
        ]
        lasting = [record["branch"] for record in serving if not has_ended(record, case.today)]
        if name != source.name and serving:
            branch = newest(lasting or [record["branch"] for record in serving])
            accepted = lasting or (name == "distribution" and _only_ended(case))
            allow = "" if accepted else f', gpulab_allow_branches: ["{branch}"]'
            ways.append(f"nvidia_driver_source: {name}{allow} (branch {branch})")
    return f"Set {'; or '.join(ways)}" if ways else "Move the GPU to a node whose system has a driver for it"


def _last_day(day_or_month: str) -> date:
    """Read "2027-03-24", or "2028-06" as the last day of that month."""
    year, month, *day = (int(number) for number in day_or_month.split("-"))
    return date(year, month, day[0] if day else calendar.monthrange(year, month)[1])

# Copyright (c) 2026 The gpulab founders
# GNU General Public License v3.0+ (see https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What a node has of NVIDIA's products, held against the bulletins of the catalog. No I/O happens here."""

from __future__ import annotations

import re
from dataclasses import dataclass, replace
from fnmatch import fnmatchcase
from typing import TYPE_CHECKING, Any

from ansible_collections.gpulab.node.plugins.module_utils.checks.software import release
from ansible_collections.gpulab.node.plugins.plugin_utils.advisories.versions import key

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence

    from ansible_collections.gpulab.node.plugins.plugin_utils.catalog import Record

# A version that NVIDIA neither calls affected nor fixed is "not stated" and counts; one that is affected under a
# condition waits for a person.
AFFECTED, NOT_STATED, CONDITION, ACCEPTED, FIXED = "affected", "not stated", "condition", "accepted", "fixed"
GRAVEST_FIRST = (AFFECTED, NOT_STATED, CONDITION, ACCEPTED)
SITE = "ansible-playbook site.yml"
REMEDIES = {
    "rollout": "ask for a fixed driver (nvidia_driver_branch, nvidia_driver_upgrade), and run playbooks/rollout.yml",
    "cuda": f"ask for a fixed release (cuda_toolkits), and run {SITE} --tags cuda",
    "container_toolkit": f"ask for a fixed one (container_toolkit_version), and run {SITE} --tags container_toolkit",
    "monitoring": f"upgrade its packages, and run {SITE} --tags monitoring",
    "environment": "ask for a fixed release in the environment, and run the role again",
}


@dataclass(frozen=True)
class Installed:
    """A product on a node; place is empty for packages of the system, else a path or what runs."""

    product: str
    package: str
    version: str
    place: str = ""


@dataclass(frozen=True)
class Finding:
    """A hole that something on the node has or may have; fixed is empty where NVIDIA names no release of its branch.

    because is what NVIDIA adds as a condition, or why somebody has accepted the hole.
    """

    cve: str
    score: float
    bulletin: str
    product: str
    package: str
    version: str
    place: str
    verdict: str
    fixed: str
    remedy: str
    because: str = ""


def installed(facts: Mapping[str, Any], packages: Iterable[Mapping[str, str]], products: Record) -> list[Installed]:
    """Return what is on the node of the products: by its facts, and by packages and wheels (name, version, place).

    Packages of one product, version and place came together and are one thing, called by the first.
    """
    found = list(_of_facts(facts))
    for package in packages:
        found += [
            Installed(one["product"], package["name"], package["version"], package["place"])
            for one in products["products"]
            if any(fnmatchcase(package["name"], form) for form in one["packages"])
        ]
    return list({(one.product, one.version, one.place): one for one in reversed(found)}.values())[::-1]


def _of_facts(facts: Mapping[str, Any]) -> Iterator[Installed]:
    library, loaded = facts["driver"]["library"], facts["modules"].get("nvidia") or {}
    if library:
        yield Installed("driver", "driver", library)
    if loaded.get("loaded") and loaded["version"] not in (None, library):
        yield Installed("driver", "driver", loaded["version"], "the loaded kernel module")
    for toolkit in facts["cuda"]["toolkits"]:
        if toolkit["version"]:
            yield Installed("cuda", "CUDA", toolkit["version"], toolkit["prefix"])
    for version in facts["libraries"]["tensorrt"]:
        yield Installed("tensorrt", "libnvinfer", version)


def verdict(one: Mapping[str, str], version: str) -> str:
    """Return what a range of a bulletin says of a version."""
    here, fixed = key(version), one.get("fixed")
    mended = bool(fixed) and here >= key(str(fixed))
    if "before" in one:
        affected, mended = here < key(one["before"]), mended or (not fixed and here >= key(one["before"]))
    else:
        # 10.16.1.11 is a build of 10.16.1
        cut = ".".join(map(str, release(version)[: one["upto"].count(".") + 1]))
        affected = not mended and (here <= key(one["upto"]) or key(cut) == key(one["upto"]))
    if affected:
        return CONDITION if one.get("condition") else AFFECTED
    return FIXED if mended else NOT_STATED


class Judge:
    """The catalog, asked about what a node has."""

    def __init__(self, bulletins: Record, products: Record, branches: Mapping[str, Record]) -> None:
        """Take catalog/advisories.yml, catalog/advisory_packages.yml and the driver branches by their number."""
        self._bulletins: Sequence[Record] = bulletins["bulletins"]
        self._remedies = {one["product"]: REMEDIES[one["remedy"]] for one in products["products"]}
        self._branches = branches
        self.cves = {cve for bulletin in self._bulletins for group in bulletin["affects"] for cve in group["cves"]}

    def findings(self, found: Iterable[Installed]) -> list[Finding]:
        """Return each hole of each thing that a node has, the gravest first; one of several bulletins stands once."""
        worst: dict[tuple[str, Installed], Finding] = {}
        for one in found:
            for bulletin in self._bulletins:
                for finding in self._of_bulletin(bulletin, one):
                    known = worst.setdefault((finding.cve, one), finding)
                    if GRAVEST_FIRST.index(finding.verdict) < GRAVEST_FIRST.index(known.verdict):
                        worst[finding.cve, one] = finding
        return sorted(worst.values(), key=lambda one: (GRAVEST_FIRST.index(one.verdict), -one.score, one.cve))

    def _of_bulletin(self, bulletin: Record, one: Installed) -> Iterator[Finding]:
        ranges = [each for group in bulletin["affects"] for each in group["ranges"] if each["product"] == one.product]
        listed = {each["branch"] for each in ranges if "branch" in each}
        branch = one.version.partition(".")[0]
        ended = bool(listed) and branch not in listed and not self._is_later(branch, listed, bulletin["published"])
        for group in bulletin["affects"]:
            of_product = [each for each in group["ranges"] if each["product"] == one.product]
            if ended and of_product:
                said: list[tuple[str, Mapping[str, str]]] = [(NOT_STATED, {})]
            else:
                held = [each for each in of_product if each.get("branch") in (None, branch)]
                said = [(verdict(each, one.version), each) for each in held]
            for answer, each in said:
                if answer != FIXED:
                    yield from self._holes(group["cves"], bulletin["bulletin"], one, answer, each)

    def _holes(
        self, cves: Mapping[str, float], bulletin: str, one: Installed, answer: str, said: Mapping[str, str]
    ) -> Iterator[Finding]:
        """Yield a finding for each hole of which a bulletin says the same."""
        for cve, score in cves.items():
            yield Finding(
                cve=cve,
                score=score,
                bulletin=bulletin,
                **vars(one),
                verdict=answer,
                fixed=said.get("fixed") or said.get("before", ""),
                remedy=self._remedies[one.product],
                because=said.get("condition", ""),
            )

    def _is_later(self, branch: str, listed: set[str], published: str) -> bool:
        """Tell whether a branch came out after a bulletin, and is newer than all that it lists."""
        if not branch.isdigit() or int(branch) < max(map(int, listed)):
            return False
        if branch not in self._branches:
            return int(branch) > max(map(int, self._branches))
        return (self._branches[branch]["released"] or "") > published


def problems(accepted: Iterable[Mapping[str, str]], known: Collection[str]) -> Iterator[str]:
    """Yield what is wrong with what somebody has accepted; known are the holes of the bulletins."""
    for one in accepted:
        if one["cve"] not in known:
            yield f"no bulletin has {one['cve']}"
        if not re.fullmatch(r"\d{4}-\d\d-\d\d", one["until"]):
            yield f"until of {one['cve']} is no day as YYYY-MM-DD"
        yield from (f"{name} of {one['cve']} is empty" for name in ("because", "by") if not one[name].strip())


def with_accepted(
    findings: Iterable[Finding], accepted: Iterable[Mapping[str, str]], today: str
) -> tuple[list[Finding], list[str]]:
    """Return the findings, those that somebody has accepted until today or later as such, and a line on each other."""
    until: dict[str, Mapping[str, str]] = {}
    notes = []
    for one in accepted:
        if one["until"] >= today:
            until[one["cve"]] = one
        else:
            notes.append(f"{one['cve']} was accepted until {one['until']} by {one['by']}, and counts again")
    told = [
        replace(one, verdict=ACCEPTED, because=_why(until[one.cve])) if one.cve in until else one for one in findings
    ]
    return sorted(told, key=lambda one: GRAVEST_FIRST.index(one.verdict)), notes


def _why(accepted: Mapping[str, str]) -> str:
    return f"{accepted['because']} ({accepted['by']}, until {accepted['until']})"

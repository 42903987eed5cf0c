# Copyright (c) 2026 The gpulab founders
# GNU General Public License v3.0+ (see https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""How much people may keep in their homes, and groups in their directories. The kernel counts, the quota tools set.

A home has a quota of its user, who cannot get out of it. A group's directory has one of a project with the group's
number, because its files have many owners. Nothing here mounts, unmounts, or walks through what people own.
"""

from __future__ import annotations

import csv
import re
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from ansible_collections.gpulab.node.plugins.module_utils.accounts import kept, limits
from ansible_collections.gpulab.node.plugins.module_utils.accounts.wanted import ABSENT
from ansible_collections.gpulab.node.plugins.module_utils.core import beneath
from ansible_collections.gpulab.node.plugins.module_utils.core.mount_table import LOCAL, holding, is_below, mounts
from ansible_collections.gpulab.node.plugins.module_utils.core.refusals.users import refuse

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping

    from ansible_collections.gpulab.node.plugins.module_utils.accounts.kept import KeptPeople
    from ansible_collections.gpulab.node.plugins.module_utils.accounts.wanted import Wanted
    from ansible_collections.gpulab.node.plugins.module_utils.core.mount_table import Mount
    from ansible_collections.gpulab.node.plugins.module_utils.core.node import Node
    from ansible_collections.gpulab.node.plugins.plugin_utils.facts.model import FullQuota

USER, PROJECT = "user", "project"  # kinds of quotas
MAKE, TAKE, ENFORCE, LIMIT = "make", "take", "enforce", "limit"
# With which the file system has to be mounted; XFS shows the second where somebody turned off that the kernel refuses.
OPTIONS = {USER: ("usrquota", "uqnoenforce"), PROJECT: ("prjquota", "pqnoenforce")}
FEATURES = {USER: {"quota"}, PROJECT: {"quota", "project"}}  # that ext4 has to have; XFS always can
_WORDS = {
    MAKE: "has no directory {place}",
    TAKE: "has a directory {place} in another project",
    ENFORCE: "is not held to a quota, as nobody is on {mount}",
    LIMIT: "has another quota in {place}",
}
KIB = 1024
SERVER = "server"
_ON = re.compile(r"^(user|project) quota on .* is on(?! \(accounting\))", re.MULTILINE)
_FULL = 0.98  # of what somebody may have: who writes much at once gets no nearer


class Quota(NamedTuple):
    """At most so many KiB and files, 0 for any number, of a person or a group on the file system of a directory."""

    name: str
    number: int
    place: str
    kind: str
    space: int
    files: int


class Usage(NamedTuple):
    """KiB and files that somebody has on a file system, and the limits that it has for them, 0 for none."""

    space: int = 0
    files: int = 0
    most_space: int = 0
    most_files: int = 0


class Directory(NamedTuple):
    """The directory of a group: whether it is there, and in which project what comes into it will be, 0 for none."""

    there: bool = False
    project: int = 0


@dataclass(frozen=True)
class Side:
    """A file system as quotas of one kind see it: where it is mounted, or why it cannot have them.

    usage is by number of a user or a project; enforced tells whether the kernel refuses what is too much.
    """

    mount: str = ""
    problem: str = ""
    usage: Mapping[int, Usage] = field(default_factory=dict)
    enforced: bool = True
    directory: Directory = field(default_factory=Directory)


class Step(NamedTuple):
    """One of the actions above for a quota; mount is where its file system is mounted."""

    action: str
    quota: Quota
    mount: str


def wanted(lists: Wanted, homes: Mapping[str, Any], directories: Iterable[Mapping[str, Any]]) -> list[Quota]:
    """Return the quotas of all who have one; homes is users_quota, directories are users_directories."""
    found = []
    for person in lists.people if homes.get("space") or homes.get("files") else ():
        if person.state != ABSENT:
            space, files = person.quota or homes.get("space"), homes.get("files")
            found.append(Quota(person.name, person.uid, lists.homes, USER, _kib(space), files or 0))
    numbers = {group.name: group.gid for group in lists.groups}
    for entry in directories:
        number = numbers.get(entry["group"], 0)  # which problems() tells
        found.append(
            Quota(
                entry["group"],
                number,
                entry["path"].rstrip("/"),
                PROJECT,
                _kib(entry.get("space")),
                entry.get("files") or 0,
            )
        )
    return found


def _kib(size: str | None) -> int:
    return -(-limits.size(size) // KIB) if size else 0


def problems(quotas: Iterable[Quota], sides: Mapping[tuple[str, str], Side]) -> Iterator[str]:
    """Yield why these cannot be set."""
    groups = [quota for quota in quotas if quota.kind == PROJECT]
    for quota in groups:
        if not quota.number:
            yield f"users_directories has {quota.name!r}, which is none of users_groups"
    for values in ([quota.name for quota in groups], [quota.place for quota in groups]):
        yield from (f"users_directories has {value!r} twice" for value in sorted({*values}) if values.count(value) > 1)
    yield from sorted({sides[quota[2:4]].problem for quota in quotas} - {""})


def look(node: Node, quotas: Iterable[Quota], unmounted: Mapping[str, str]) -> dict[tuple[str, str], Side]:
    """Return what the node has of them, by place and kind. What a run has yet to mount is judged after that."""
    table = mounts(node.text("/proc/self/mountinfo"))
    found = {}
    for quota in quotas:
        place, kind = quota[2:4]
        how = coming(place, unmounted)
        if how:
            problem = f"{place} is on a file server, which has to set them" if how == SERVER else ""
            found[place, kind] = Side(place, problem)
        elif (place, kind) not in found:
            found[place, kind] = _side(node, quota, table)
    return found


def coming(place: str, unmounted: Mapping[str, str]) -> str:
    """Return how the file system of a place comes with this run; "" where it is mounted."""
    return next((how for tier, how in unmounted.items() if is_below(place, tier)), "")


def _side(node: Node, quota: Quota, table: list[Mount]) -> Side:
    place, kind = quota[2:4]
    mount = holding(place, table)
    if mount and mount.type in LOCAL:  # another machine may not answer
        real = (node.start(["realpath", "--canonicalize-missing", place]).output() or place).rstrip("\n")
        mount = holding(real, table)
    problem = _problem(node, mount, place, kind)
    directory = Directory()
    if kind == PROJECT and not problem:
        directory = _directory(node, place)
        problem = _problem_of_directory(node, quota, directory)
    if mount is None or problem:
        return Side(mount.place if mount else "", problem)
    tell = node.start(["repquota", f"--{kind}", "--verbose", "--no-names", "--output=csv", mount.place])
    state = node.start(["quotaon", f"--{kind}", "--verbose", "--print-state", mount.place])
    said = state.output()  # None before the tools are there
    return Side(mount.place, "", report(tell.output() or ""), said is None or bool(_ON.search(said)), directory)


def _problem(node: Node, mount: Mount | None, place: str, kind: str) -> str:
    """Return why a file system has no quotas, without changing its mount."""
    if mount is None:
        return f"{place} is on no disk"
    if mount.type not in LOCAL:
        return f"{place} is on a file server ({mount.type}), which has to set them"
    if mount.type not in ("ext4", "xfs"):
        return f"{place} is on {mount.type}"
    if mount.type == "ext4":
        header = node.start(["dumpe2fs", "-h", mount.source]).output() or ""
        features = {word for line in header.splitlines() if "features:" in line for word in line.split()}
        lacking = sorted(FEATURES[kind] - features) if features else []
        if lacking:
            return f"the ext4 of {mount.place} has not the features {', '.join(lacking)}"
    lacks = mount.options.isdisjoint(OPTIONS[kind])
    return f"{mount.place} is mounted without {OPTIONS[kind][0]}" if lacks else ""


def _directory(node: Node, place: str) -> Directory:
    words = (node.start(["lsattr", "-d", "-p", place]).output() or "").split()
    inherits = len(words) > 1 and "P" in words[1]
    return Directory(node.exists(place), int(words[0]) if inherits and words[0].isdecimal() else 0)


def _problem_of_directory(node: Node, quota: Quota, directory: Directory) -> str:
    """Return why a directory cannot be made, or made a project: nothing walks through what others may change."""
    place = quota.place
    if node.resolve(place) != place or (node.exists(place) and not node.is_dir(place)):
        return f"{place} is a link, or no directory"
    lent = beneath.lent(Path(place).parent)
    if lent:
        return f"others than root may put something into {lent}"
    if directory.project != quota.number and node.names(place):
        command = f"chattr -R +P -p {quota.number} {place}"
        return f"{place} has files, which would not count: run {command} while nobody works there"
    return ""


def report(output: str) -> dict[int, Usage]:
    """Parse what repquota says, as CSV with numbers."""
    found = {}
    for row in csv.DictReader(output.splitlines()):
        number = (row.get("User") or row.get("Project") or "").lstrip("#")
        if number.isdecimal():
            columns = ("BlockUsed", "FileUsed", "BlockHardLimit", "FileHardLimit")
            found[int(number)] = Usage(*(int(row[column]) for column in columns))
    return found


def steps(quotas: list[Quota], former: Iterable[Quota], sides: Mapping[tuple[str, str], Side]) -> list[Step]:
    """Return what has to be done, in its order; former are those of the last run."""
    current = {(sides[quota[2:4]].mount, quota.kind, quota.number) for quota in quotas}
    done = []
    for quota in quotas:
        side = sides[quota[2:4]]
        if quota.kind == PROJECT and not side.directory.there:
            done.append(Step(MAKE, quota, side.mount))
        if quota.kind == PROJECT and side.directory.project != quota.number:
            done.append(Step(TAKE, quota, side.mount))
        done += _limit(quota, side)
    for quota in former:
        side = sides[quota[2:4]]
        if not side.problem and (side.mount, quota.kind, quota.number) not in current:
            done += _limit(quota._replace(space=0, files=0), side)
    off = {(sides[key].mount, key[1]): quota for quota in quotas for key in [quota[2:4]] if not sides[key].enforced}
    return [*(Step(ENFORCE, quota, mount) for (mount, _kind), quota in off.items()), *done]


def _limit(quota: Quota, side: Side) -> list[Step]:
    there = side.usage.get(quota.number, Usage())
    return [] if there[2:] == (quota.space, quota.files) else [Step(LIMIT, quota, side.mount)]


class Change:
    """The quotas that are wanted, those of the last run that are wanted no more, and the steps to that."""

    def __init__(
        self,
        node: Node,
        lists: Wanted,
        homes: Mapping[str, Any],
        directories: list[dict[str, Any]],
        unmounted: Mapping[str, str],
    ) -> None:
        """Look and plan. Raises Refusal U015, H220."""
        self.wanted = wanted(lists, homes, directories)
        last = kept.read(node)
        self.former = [one for one in (of_kept(last) if last else []) if one not in self.wanted]
        sides = look(node, [*self.wanted, *self.former], unmounted)
        wrong = list(problems(self.wanted, sides))
        if wrong:
            raise refuse("U015", problems="; ".join(wrong))
        self.steps = steps(self.wanted, self.former, sides)
        self._node = node

    def carry_out(self, run: Callable[..., None]) -> None:
        """Carry out the steps, and ask the file systems whether they hold. Raises Refusal U010."""
        carry_out(run, self.steps)
        sides = look(self._node, [*self.wanted, *self.former], {}) if self.steps else {}
        for step in steps(self.wanted, self.former, sides) if self.steps else ():
            raise refuse("U010", command="setquota", name=step.quota.name, detail=f"{step.mount} has it not afterwards")


def of_kept(last: KeptPeople) -> list[Quota]:
    """Return the quotas that the last run set."""
    return [Quota(**one) for one in last["quotas"]]


def carry_out(run: Callable[..., None], done: Iterable[Step]) -> None:
    """Carry out the steps with what runs a command of somebody's (name, command, data for it), in few calls."""
    texts: dict[tuple[str, str], list[str]] = {}
    for step in done:
        name, number, place, kind, space, files = step.quota
        if step.action == MAKE:
            run(name, ["install", "--directory", "--mode=2770", f"--group={number}", place])
        elif step.action == TAKE:
            run(name, ["chattr", "+P", "-p", str(number), place])
        elif step.action == ENFORCE:
            run(step.mount, ["quotaon", f"--{kind}", step.mount])
        else:
            texts.setdefault((step.mount, kind), []).append(f"{number} 0 {space} 0 {files}\n")
    for (mount, kind), lines in texts.items():
        run(mount, ["setquota", f"--{kind}", "--batch", mount], data="".join(lines))


def differences(quotas: list[Quota], sides: Mapping[tuple[str, str], Side]) -> Iterator[tuple[str, str]]:
    """Yield (name of a person or group, what is otherwise than at the last run)."""
    for quota in quotas:
        if sides[quota[2:4]].problem:
            yield quota.name, f"can have no quota any more: {sides[quota[2:4]].problem}"
    for step in steps([quota for quota in quotas if not sides[quota[2:4]].problem], [], sides):
        yield step.quota.name, _WORDS[step.action].format(mount=step.mount, **step.quota._asdict())


def full(quotas: Iterable[Quota], sides: Mapping[tuple[str, str], Side]) -> list[FullQuota]:
    """Return who has no room left, or has more than they may: KiB, or files where these are the limit."""
    found: list[FullQuota] = []
    for quota in quotas:
        usage = sides[quota[2:4]].usage.get(quota.number, Usage())
        for what, used, most in (("KiB", usage.space, quota.space), ("files", usage.files, quota.files)):
            if most and used >= most * _FULL:
                found.append({"name": quota.name, "place": quota.place, "what": what, "used": used, "most": most})
    return found

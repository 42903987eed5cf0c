# Copyright (c) 2026 The gpulab founders
# GNU General Public License v3.0+ (see https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What has to be done so that a node has the people of the inventory. No I/O happens here.

An account that is there keeps its number, its home, its shell and all groups that users_groups does not name. One that
no list names is left alone. Nothing here deletes a file of a person, or gives one to somebody else.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, NamedTuple

from ansible_collections.gpulab.node.plugins.module_utils.accounts import keys
from ansible_collections.gpulab.node.plugins.module_utils.accounts import wanted as wanted_people
from ansible_collections.gpulab.node.plugins.module_utils.accounts.wanted import ABSENT, LEAVING, NUMBERS, PRESENT
from ansible_collections.gpulab.node.plugins.module_utils.core.refusals.users import refuse

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping
    from datetime import date

    from ansible_collections.gpulab.node.plugins.module_utils.accounts.slurm_jobs import SlurmJobs
    from ansible_collections.gpulab.node.plugins.module_utils.accounts.wanted import Person, Wanted
    from ansible_collections.gpulab.node.plugins.module_utils.core.account_files import Group, User
    from ansible_collections.gpulab.node.plugins.module_utils.core.refusal import Refusal

LEAST_ADOPTED = 1000  # an account with a lower number is no person's
RECORD = "/var/lib/gpulab/users.json"  # the numbers that anybody ever had here, by name
RESERVE, GROUP, ACCOUNT, HOME, JOIN, PART, EXPIRE, KEYS = (
    "reserve", "group", "account", "home", "join", "part", "expire", "keys",
)  # fmt: skip
LINGER, CRONTAB, AT, CANCEL, END, REMOVE = "linger", "crontab", "at", "cancel", "end", "remove"


class Step(NamedTuple):
    """Something to do for a person or a group: one of the actions above, and what it needs to know."""

    action: str
    name: str
    detail: str = ""


@dataclass(frozen=True)
class Found:
    """What the node has.

    expires has the days of shadow(5), keys the text of each file of keys, loose_keys whose file has other rights than
    it shall have, homes the names that are there in the place for homes, unmade those of people that are not whole.
    homes_problem says why none can be made there; homes_local is false where another machine has them.
    reserved are the numbers that anybody ever had here, by name. linger, crontabs, at_jobs (paths), running (processes)
    and sessions (whom logind knows now) are of the people who are to leave. files has how many files on local disks
    have a number; came_by are the users that Ansible connects as. jobs are those of Slurm that people who leave have,
    None where its client is installed and nobody answers.
    """

    users: Mapping[str, User] = field(default_factory=dict)
    groups: Mapping[str, Group] = field(default_factory=dict)
    expires: Mapping[str, int | None] = field(default_factory=dict)
    keys: Mapping[str, str] = field(default_factory=dict)
    loose_keys: frozenset[str] = frozenset()
    homes: frozenset[str] = frozenset()
    unmade: frozenset[str] = frozenset()
    homes_problem: str | None = None
    homes_local: bool = True
    reserved: Mapping[str, list[int]] = field(default_factory=dict)
    linger: frozenset[str] = frozenset()
    crontabs: frozenset[str] = frozenset()
    at_jobs: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    running: Mapping[str, int] = field(default_factory=dict)
    sessions: frozenset[str] = frozenset()
    files: Mapping[int, int] = field(default_factory=dict)
    came_by: frozenset[str] = frozenset()
    jobs: Mapping[str, SlurmJobs] | None = field(default_factory=dict)


def counted(wanted: Wanted, found: Found) -> set[int]:
    """Return the numbers of which it matters how many files have them."""
    there = [(person, found.users[person.name]) for person in wanted.people if person.name in found.users]
    numbers = {user.uid for person, user in there if user.uid != person.uid or person.state == ABSENT}
    return {number for number in numbers if number >= LEAST_ADOPTED}


def unlisted(wanted: Wanted, found: Found) -> list[str]:
    """Return the accounts with numbers for people that the inventory does not name."""
    known = {person.name for person in wanted.people}
    return sorted(user.name for user in found.users.values() if user.uid in NUMBERS and user.name not in known)


def remaining(wanted: Wanted, found: Found) -> list[str]:
    """Return what is left of those who leave, which only a person may end or hand over."""
    return [
        f"{person.name} leaves and {text}"
        for person in wanted.people
        if person.state == LEAVING and person.name in found.users
        for text in _left_of(person.name, found)
    ]


def _left_of(name: str, found: Found) -> Iterator[str]:
    if found.running.get(name):
        yield f"still runs {found.running[name]} processes"
    if found.jobs is None:
        yield "Slurm does not answer, so jobs that wait there may still start: run again"
        return
    jobs = found.jobs.get(name)
    if jobs and jobs.others:
        numbers = ", ".join(jobs.others)
        yield f"still has jobs of Slurm: {numbers}; run again when they have ended, for one may submit another"
    if jobs and jobs.waiting:
        yield f"still has {jobs.waiting} jobs that wait in Slurm"


def unmade(wanted: Wanted, found: Found) -> list[str]:
    """Return which homes are not whole, as after a run that was killed or a disk that was full; none is removed."""
    homes = {person.name: f"{wanted.homes}/{person.name}" for person in wanted.people if person.state == PRESENT}
    names = sorted(found.unmade.intersection(homes))
    return [
        f"{homes[name]} is root's, so the home of {name} was not made whole: look into it, remove it, and run again"
        for name in names
        if name in found.users and found.users[name].home == homes[name]
    ]


def refusal(wanted: Wanted, found: Found, today: date) -> Refusal | None:
    """Return the one refusal that names all that is wrong; None where nothing is."""
    wrong = [*wanted_people.problems(wanted, today, found.expires), *_of_node(wanted, found)]
    codes = sorted({code for code, _text in wrong})
    if not codes:
        return None
    if len(codes) > 1:
        return refuse("U011", problems="; ".join(f"{text} (GPULAB-{code})" for code, text in wrong))
    if codes == ["U008"]:
        return refuse("U008", place=wanted.homes, problem=wrong[0][1])
    return refuse(codes[0], problems="; ".join(text for _code, text in wrong))


def _of_node(wanted: Wanted, found: Found) -> Iterator[tuple[str, str]]:
    """Yield (code, what is wrong) of the lists on this node."""
    for person in wanted.people:
        yield from _of_number(person, found)
        if person.name in found.came_by:
            yield from (("U006", text) for text in _locked_out(person, wanted, found))
        if person.state == ABSENT and person.name in found.users:
            yield from (("U009", f"{person.name!r} {text}") for text in _kept_by(person, found))
    for group in wanted.groups:
        yield from _of_group(group.name, group.gid, found)
    if found.homes_problem and any(_needs_home(person, wanted, found) for person in wanted.people):
        yield "U008", found.homes_problem


def _locked_out(person: Person, wanted: Wanted, found: Found) -> Iterator[str]:
    """Yield by what a person whom Ansible came as would get in no more, or become root no more."""
    if person.state != PRESENT:
        yield f"Ansible came as {person.name!r}, whose state is {person.state}"
        return
    there = {keys.body(line) for line in found.keys.get(person.name, "").splitlines()}
    if there and not person.keys:
        yield f"Ansible may have come by a key of {person.name!r}, who has none any more"
    elif there and there.isdisjoint(map(keys.body, person.keys)):
        yield f"Ansible may have come by a key of {person.name!r}, and the list has none of those that are there"
    for step in _membership(person, wanted, found):
        if step.action == PART:
            yield f"Ansible came as {person.name!r}, who would leave the group {step.detail!r}"


def _of_number(person: Person, found: Found) -> Iterator[tuple[str, str]]:
    there = found.users.get(person.name)
    others = [user.name for user in found.users.values() if user.uid == person.uid and user.name != person.name]
    if there and there.uid != person.uid:
        count = found.files.get(there.uid, 0)
        here = f"{person.name!r} has uid {there.uid} here, with {count} files on local disks"
        yield "U002", f"{here}, and {person.uid} in the list"
    if others:
        yield "U002", f"uid {person.uid} of {person.name!r} is {others[0]!r}'s here"
    adopted = there is not None and there.uid == person.uid >= LEAST_ADOPTED  # under a new name, too
    if person.uid not in NUMBERS and not adopted:
        yield "U001", f"uid {person.uid} of {person.name!r} is not from {NUMBERS[0]} to {NUMBERS[-1]}"
    elif not (others or adopted) and person.uid not in found.reserved.get(person.name, ()):
        yield from (("U001", text) for text in _of_reserved(person, found))
    if there is None and person.state == PRESENT:
        yield from _of_group(person.name, person.uid, found, in_range=True)


def _of_reserved(person: Person, found: Found) -> Iterator[str]:
    before = found.reserved.get(person.name)
    if before and person.name not in found.users:
        yield f"{person.name!r} had uid {before[-1]}, and has {person.uid} in the list ({RECORD} says so)"
    for name in _had(person.uid, found):
        yield f"uid {person.uid} of {person.name!r} was {name!r}'s, who left ({RECORD} says so)"


def _had(number: int, found: Found) -> list[str]:
    return [name for name, numbers in found.reserved.items() if number in numbers]


def _of_group(name: str, gid: int, found: Found, *, in_range: bool = False) -> Iterator[tuple[str, str]]:
    there = found.groups.get(name)
    others = [group.name for group in found.groups.values() if group.gid == gid and group.name != name]
    if there and there.gid != gid:
        yield "U002", f"the group {name!r} has gid {there.gid} here and {gid} in the list"
    elif others:
        yield "U002", f"gid {gid} of the group {name!r} is {others[0]!r}'s here"
    elif there is None and gid not in NUMBERS and not in_range:
        yield "U001", f"gid {gid} of the group {name!r} is not from {NUMBERS[0]} to {NUMBERS[-1]}"
    elif there is None and not in_range:
        for had in _had(gid, found):
            yield "U001", f"gid {gid} of the group {name!r} was {had!r}'s, who left ({RECORD} says so)"


def _kept_by(person: Person, found: Found) -> Iterator[str]:
    count = found.files.get(found.users[person.name].uid, 0)
    if found.running.get(person.name):
        yield f"runs {found.running[person.name]} processes"
    if person.name in found.crontabs or found.at_jobs.get(person.name):
        yield "has jobs of cron or at"
    if count:
        yield f"has {count} files on local disks"


def _needs_home(person: Person, wanted: Wanted, found: Found) -> bool:
    there = found.users.get(person.name)
    home = f"{wanted.homes}/{person.name}"
    is_here = there is None or there.home == home
    return person.state == PRESENT and found.homes_local and is_here and person.name not in found.homes


def steps(wanted: Wanted, found: Found) -> list[Step]:
    """Return what has to be done, in its order."""
    reserved = [
        Step(RESERVE, person.name, str(person.uid))
        for person in wanted.people
        if person.uid not in found.reserved.get(person.name, ())
    ]
    made = [Step(GROUP, group.name, str(group.gid)) for group in wanted.groups if group.name not in found.groups]
    by_state = {PRESENT: _present, LEAVING: _leaving, ABSENT: _absent}
    done = [step for person in wanted.people for step in by_state[person.state](person, wanted, found)]
    return [*reserved, *made, *done]


def _present(person: Person, wanted: Wanted, found: Found) -> Iterator[Step]:
    if person.name not in found.users:
        if person.name not in found.groups:
            yield Step(GROUP, person.name, str(person.uid))
        yield Step(ACCOUNT, person.name, str(person.uid))
    if _needs_home(person, wanted, found):
        yield Step(HOME, person.name)
    yield from _membership(person, wanted, found)
    yield from _expiry(person, found)
    text = "".join(f"{line}\n" for line in person.keys)
    if found.keys.get(person.name, "") != text or (text and person.name in found.loose_keys):
        yield Step(KEYS, person.name, text)


def _membership(person: Person, wanted: Wanted, found: Found) -> Iterator[Step]:
    for group in wanted.groups:
        members = found.groups[group.name].members if group.name in found.groups else ()
        if (group.name in person.groups) != (person.name in members):
            yield Step(JOIN if group.name in person.groups else PART, person.name, group.name)


def _leaving(person: Person, wanted: Wanted, found: Found) -> Iterator[Step]:
    yield from _without_keys(person, found)
    if person.name in found.users:
        yield from _expiry(person, found)
        yield from _without_jobs(person, found)
        if wanted.leave_now and person.name in found.sessions:
            yield Step(END, person.name)


def _absent(person: Person, _wanted: Wanted, found: Found) -> Iterator[Step]:
    yield from _without_keys(person, found)
    if person.name in found.users:
        yield from _without_jobs(person, found)
        yield Step(REMOVE, person.name)


def _expiry(person: Person, found: Found) -> Iterator[Step]:
    if found.expires.get(person.name) != person.expires:
        yield Step(EXPIRE, person.name, "-1" if person.expires is None else str(person.expires))


def _without_keys(person: Person, found: Found) -> Iterator[Step]:
    if person.name in found.keys:
        yield Step(KEYS, person.name)


def _without_jobs(person: Person, found: Found) -> Iterator[Step]:
    if person.name in found.linger:
        yield Step(LINGER, person.name)
    if person.name in found.crontabs:
        yield Step(CRONTAB, person.name)
    for path in found.at_jobs.get(person.name, ()):
        yield Step(AT, person.name, path)
    jobs = (found.jobs or {}).get(person.name)
    if jobs and jobs.waiting:
        yield Step(CANCEL, person.name, str(jobs.waiting))

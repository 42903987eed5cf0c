# Copyright (c) 2026 The gpulab founders
# GNU General Public License v3.0+ (see https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What Slurm's accounting has to be told so that it knows an inventory's groups and people. No I/O happens here.

Nothing is ever deleted, so that the hours of somebody who left stay. What others made is left alone.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from difflib import get_close_matches
from typing import TYPE_CHECKING, Any, NamedTuple

from ansible_collections.gpulab.node.plugins.module_utils.core.refusals.slurm import refuse
from ansible_collections.gpulab.node.plugins.module_utils.slurm.cluster import QOS, QOS_INTERACTIVE

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Iterator, Mapping

    from ansible_collections.gpulab.node.plugins.module_utils.slurm.configuration import Configuration

ROOT = "root"  # Slurm's own account and user, which are always there
NONE = "0"  # as MaxSubmitJobs: no further job; jobs that wait or run go on. As GrpSubmitJobs beside it: gpulab says so.
OWN = "gpulab"  # the description of an account that gpulab made
GPUS = "gres/gpu"
# What lets Slurm take jobs only from who has an account (AccountingStorageEnforce). Each of them means associations.
ENFORCING = ("associations", "limits", "qos", "safe", "wckeys", "all")
# What sacctmgr is asked, by the field of Recorded that its answer fills.
ASKED = {
    "clusters": ("show", "cluster", "format=cluster"),
    "associations": ("show", "association", "format=cluster,account,user,fairshare,maxsubmitjobs,grpsubmitjobs"),
    "descriptions": ("show", "account", "format=account,description"),
    "defaults": ("show", "user", "format=user,defaultaccount"),
    "limits": ("show", "qos", "format=name,maxtresperuser"),
    "resources": ("show", "tres", "format=type,name"),
}
JOBS = ("squeue", "--noheader", "--format=%u|%a")  # that wait or run


class Step(NamedTuple):
    """A command of sacctmgr's, and how the preview calls it: an action and a thing."""

    arguments: tuple[str, ...]
    action: str
    what: str


@dataclass(frozen=True)
class Wanted:
    """What the inventory says: the share of each account, and the accounts of each person, the default one first.

    Who leaves may submit no further job. absent has people without an account on the controller: slurmctld would not
    know their number, and takes no job from them until it is restarted. limits are how many GPUs a person may use at
    a time by QOS, None for no limit.
    """

    cluster: str
    shares: Mapping[str, int] = field(default_factory=dict)
    people: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    leaving: frozenset[str] = frozenset()
    absent: frozenset[str] = frozenset()
    limits: Mapping[str, int | None] = field(default_factory=dict)


@dataclass(frozen=True)
class Recorded:
    """What the accounting knows of the cluster.

    shares are texts by account, submits the limits of jobs by person and account, empty without one; ended are those
    that gpulab set. own are the accounts that gpulab made. defaults are the default accounts by person, limits those of
    GPUs by QOS, empty without one. counts_gpus tells whether slurmctld has registered GPUs.
    """

    cluster: bool = False
    shares: Mapping[str, str] = field(default_factory=dict)
    submits: Mapping[tuple[str, str], str] = field(default_factory=dict)
    ended: frozenset[tuple[str, str]] = frozenset()
    own: frozenset[str] = frozenset()
    defaults: Mapping[str, str] = field(default_factory=dict)
    limits: Mapping[str, str] = field(default_factory=dict)
    counts_gpus: bool = False


def has_accounting(conf: Configuration) -> bool:
    """Tell whether a slurm.conf keeps accounts in slurmdbd."""
    return conf.settings.get("accountingstoragetype", "").lower() == "accounting_storage/slurmdbd"


def enforces(conf: Configuration) -> bool:
    """Tell whether a slurm.conf takes jobs only from who has an account."""
    return any(conf.has("AccountingStorageEnforce", word) for word in ENFORCING)


def wanted(  # noqa: PLR0913, PLR0917 - what the inventory says
    host: str,
    cluster: str,
    groups: Iterable[Mapping[str, Any]],
    people: Iterable[Mapping[str, Any]],
    shares: Mapping[str, int],
    users: Collection[str],
    *,
    gpus_per_user: int | None = None,
    interactive: int | None = None,
) -> Wanted:
    """Return what the lists of role users and the settings of role slurm want.

    users are the accounts that the controller has. Raises Refusal F051.
    """
    names = [str(group["name"]) for group in groups]
    unknown = [name for name in shares if name not in names]
    if unknown:
        near = get_close_matches(unknown[0], names, 1)
        advice = f"Did you mean {near[0]}?" if near else "Name the group there, or take its share away."
        raise refuse("F051", host=host, names=", ".join(unknown), advice=advice)
    given = [(str(person["name"]), person) for person in people]
    staying = {name: person for name, person in given if (person.get("state") or "present") == "present"}
    limits = {QOS: gpus_per_user, **({QOS_INTERACTIVE: interactive} if interactive is not None else {})}
    return Wanted(
        cluster=cluster,
        shares={name: shares.get(name, 1) for name in names},
        people={name: tuple(person.get("groups") or ()) for name, person in staying.items() if name in users},
        leaving=frozenset(name for name, _person in given) - staying.keys(),
        absent=frozenset(staying.keys() - {*users}),
        limits=limits,
    )


def parse(cluster: str, answers: Mapping[str, str]) -> Recorded:
    """Return what sacctmgr answered to ASKED, in its parsable form."""
    rows = {name: [line.split("|") for line in text.splitlines() if line] for name, text in answers.items()}
    own = [row[1:] for row in rows["associations"] if row[0] == cluster]
    return Recorded(
        cluster=[cluster] in rows["clusters"],
        shares={account: share for account, user, share, *_submits in own if not user},
        submits={(user, account): submit for account, user, _share, submit, _all in own if user},
        ended=frozenset((user, account) for account, user, _share, *submits in own if submits == [NONE, NONE]),
        own=frozenset(account for account, description in rows["descriptions"] if description == OWN),
        defaults=dict(rows["defaults"]),
        limits={name: _gpus(limit) for name, limit in rows["limits"]},
        counts_gpus=["gres", "gpu"] in rows["resources"],
    )


def _gpus(limit: str) -> str:
    """Return the GPUs of a limit such as "cpu=64,gres/gpu=2"; empty where it names none."""
    entries = (entry.partition("=") for entry in limit.split(","))
    return next((number for name, _equals, number in entries if name == GPUS), "")


def steps(wanted: Wanted, recorded: Recorded) -> list[Step]:
    """Return what has to be done, in its order. Limits wait until slurmctld has registered GPUs."""
    first = [] if recorded.cluster else [Step(("add", "cluster", wanted.cluster), "make", f"cluster {wanted.cluster}")]
    return [
        *first,
        *_accounts(wanted, recorded),
        *_limits(wanted, recorded),
        *_people(wanted, recorded),
        *_ends(wanted, recorded),
    ]


def _accounts(wanted: Wanted, recorded: Recorded) -> Iterator[Step]:
    where = f"cluster={wanted.cluster}"
    for name, share in wanted.shares.items():
        if name not in recorded.shares:
            made = ("add", "account", name, where, f"fairshare={share}", f"description={OWN}")
            yield Step(made, "make", f"Slurm account {name}")
        elif recorded.shares[name] != str(share):
            change = ("modify", "account", "where", f"name={name}", where, "set", f"fairshare={share}")
            yield Step(change, "set", f"share of the Slurm account {name} to {share}")


def _limits(wanted: Wanted, recorded: Recorded) -> Iterator[Step]:
    """Yield the QOS, and its limit. A job that could never start is refused at once (DenyOnLimit)."""
    for name, gpus in wanted.limits.items():
        if name not in recorded.limits:
            yield Step(("add", "qos", name, "set", "flags=DenyOnLimit"), "make", f"QOS {name}")
        limit = "" if gpus is None else str(gpus)
        if recorded.counts_gpus and recorded.limits.get(name, "") != limit:
            change = ("modify", "qos", "where", f"name={name}", "set", f"maxtresperuser={GPUS}={limit or '-1'}")
            yield Step(change, "set", f"GPUs of a person in the QOS {name} to {'any' if gpus is None else gpus}")


def _people(wanted: Wanted, recorded: Recorded) -> Iterator[Step]:
    where = f"cluster={wanted.cluster}"
    own = wanted.shares.keys() | recorded.own
    for name, accounts in wanted.people.items():
        for account in accounts:
            if (name, account) not in recorded.submits:
                yield Step(
                    ("add", "user", name, f"account={account}", where),
                    "admit",
                    f"{name} to the Slurm account {account}",
                )
            elif (name, account) in recorded.ended:
                yield _submit(wanted, name, account, "-1", "admit")
        default = recorded.defaults.get(name, "")
        if accounts and default in own and default not in accounts:
            change = ("modify", "user", "where", f"name={name}", where, "set", f"defaultaccount={accounts[0]}")
            yield Step(change, "set", f"Slurm account of {name} to {accounts[0]}")


def _ends(wanted: Wanted, recorded: Recorded) -> Iterator[Step]:
    """Yield what keeps who leaves, or left a group, from further jobs; nothing that waits or runs is touched."""
    own = wanted.shares.keys() | recorded.own
    for (name, account), submit in recorded.submits.items():
        left = name in wanted.leaving or (
            name in wanted.people and account in own and account not in wanted.people[name]
        )
        if left and submit != NONE:
            yield _submit(wanted, name, account, NONE, "unset")


def _submit(wanted: Wanted, name: str, account: str, most: str, action: str) -> Step:
    where = ("where", f"name={name}", f"account={account}", f"cluster={wanted.cluster}")
    what = (
        f"{name} to the Slurm account {account}"
        if action == "admit"
        else f"jobs of {name} in the Slurm account {account}"
    )
    limits = (f"maxsubmitjobs={most}", f"grpsubmitjobs={most}")
    return Step(("modify", "user", *where, "set", *limits), action, what)


def left_alone(wanted: Wanted, recorded: Recorded) -> list[str]:
    """Return what an administrator should know of, a sentence each."""
    others = recorded.shares.keys() - wanted.shares.keys() - {ROOT}
    poor = sorted(name for name, accounts in wanted.people.items() if not accounts)
    strangers = sorted(
        {name for name, _account in recorded.submits} - wanted.people.keys() - wanted.leaving - wanted.absent - {ROOT}
    )
    missing = sorted(wanted.absent)
    sentences = {
        "users_groups does not name these accounts of Slurm, which were left alone": sorted(others - recorded.own),
        "users_groups does not name these accounts any more, which stay with their hours": sorted(
            others & recorded.own
        ),
        "users_people does not name these users of Slurm, who were left alone": strangers,
        "These people are not on the controller yet (gpulab.node.users); Slurm takes no job from them": missing,
        "These people are in no group of users_groups, so Slurm takes no job from them": poor,
    }
    return [f"{text}: {', '.join(names)}" for text, names in sentences.items() if names]


def admitted(wanted: Wanted, recorded: Recorded) -> set[str]:
    """Return who but root may submit jobs after the steps, where Slurm takes them from nobody else."""
    there = {name for (name, _account), submit in recorded.submits.items() if submit != NONE}
    return (there | {name for name, accounts in wanted.people.items() if accounts}) - wanted.leaving - {ROOT}


def stranded(jobs: str, wanted: Wanted, recorded: Recorded) -> list[str]:
    """Return who has jobs, as JOBS shows them, for which no account would be there after the steps."""
    known = {*recorded.submits, *((name, account) for name, accounts in wanted.people.items() for account in accounts)}
    users = {name for name, _account in known} | {ROOT}
    owners = [line.split("|") for line in jobs.splitlines() if line]
    return sorted(
        {
            user
            for user, account in owners
            if user != ROOT and (user, account) not in known and (user not in users or account not in {"", "(null)"})
        }
    )

# Copyright (c) 2026 The gpulab founders
# GNU General Public License v3.0+ (see https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""A node's people, read and changed. What a dead server holds is asked for with a deadline."""

from __future__ import annotations

import contextlib
import itertools
import os
import posixpath
import stat
from collections import Counter
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ansible_collections.gpulab.node.plugins.module_utils.accounts import homes, plan, slurm_jobs, sshd
from ansible_collections.gpulab.node.plugins.module_utils.accounts import wanted as wanted_people
from ansible_collections.gpulab.node.plugins.module_utils.accounts.wanted import PRESENT
from ansible_collections.gpulab.node.plugins.module_utils.core import (
    account_files,
    beneath,
    files,
    owned_files,
    records,
)
from ansible_collections.gpulab.node.plugins.module_utils.core.came_by import came_by
from ansible_collections.gpulab.node.plugins.module_utils.core.mount_table import (
    KERNELS_OWN,
    LOCAL,
    WITHOUT_OWNERS,
    is_below,
    mounts,
)
from ansible_collections.gpulab.node.plugins.module_utils.core.node import Job, Node
from ansible_collections.gpulab.node.plugins.module_utils.core.refusals.users import refuse

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from ansible_collections.gpulab.node.plugins.module_utils.accounts.wanted import Person, Wanted
    from ansible_collections.gpulab.node.plugins.module_utils.core.mount_table import Mount
    from ansible_collections.gpulab.node.plugins.module_utils.core.owned_files import FileStep
    from ansible_collections.gpulab.node.plugins.module_utils.core.refusal import Refusal

RECORD = Path(plan.RECORD)
RELOAD = Path("/run/gpulab/users-reload-sshd")  # sshd has not read its drop-in yet
HANDOVER = "/var/lib/gpulab/users"  # the jobs of those who left
LINGER, CRONTABS, AT_JOBS = "/var/lib/systemd/linger", "/var/spool/cron/crontabs", "/var/spool/cron/atjobs"
SESSIONS = "/run/systemd/users"  # by number, whom logind knows: who is logged in, or lingers
_COUNT_SECONDS = 900.0  # for one file system


def problem_of_system(node: Node) -> Refusal | None:
    """Return why no people can be given to this distribution."""
    if node.exists("/etc/debian_version"):
        return None
    lines = (line.partition("=") for line in node.text("/etc/os-release").splitlines())
    names = [value.strip("\"'") for key, _equals, value in lines if key == "PRETTY_NAME"]
    return refuse("U012", name=names[0] if names else "another distribution")


def look(node: Node, wanted: Wanted) -> plan.Found:
    """Return what the node has of these people, but for what takes long."""
    users = {user.name: user for user in reversed(account_files.users(node.text(account_files.PASSWD)))}
    groups = {group.name: group for group in reversed(account_files.groups(node.text(account_files.GROUP)))}
    secrets = account_files.secrets(node.text(account_files.SHADOW))
    going = [users[person.name] for person in wanted.people if person.state != PRESENT and person.name in users]
    there = homes.look(node, wanted.homes, [person.name for person in wanted.people])
    names = {user.name for user in going}
    return plan.Found(
        users=users,
        groups=groups,
        expires={name: secret.expires for name, secret in secrets.items()},
        keys=_keys(node, wanted.people),
        loose_keys=frozenset(_loose_keys(node, wanted.people)),
        homes=there.names,
        homes_problem=there.problem,
        homes_local=there.local,
        unmade=there.unmade,
        reserved=records.read(RECORD, dict[str, list[int]], {}, "the numbers of those who left"),
        linger=frozenset(names.intersection(node.names(LINGER))),
        crontabs=frozenset(names.intersection(node.names(CRONTABS))),
        at_jobs=at_jobs(node, {user.uid: user.name for user in going}),
        running=_running(node, {user.uid: user.name for user in going}),
        sessions=frozenset(user.name for user in going if node.exists(f"{SESSIONS}/{user.uid}")),
        came_by=frozenset(came_by(node)),
    )


def look_closely(node: Node, wanted: Wanted, found: plan.Found) -> plan.Found:
    """Return what the node has with what takes long: files of those whose account goes, and jobs of Slurm."""
    going = [person.name for person in wanted.people if person.state != PRESENT and person.name in found.users]
    return replace(found, files=_files_of(node, plan.counted(wanted, found)), jobs=slurm_jobs.look(going))


def _keys(node: Node, people: Iterable[Person]) -> dict[str, str]:
    names = set(node.names(sshd.DIRECTORY))
    return {
        person.name: (node.data(f"{sshd.DIRECTORY}/{person.name}") or b"").decode("utf-8", "replace")
        for person in people
        if person.name in names
    }


def _loose_keys(node: Node, people: Iterable[Person]) -> list[str]:
    names = [person.name for person in people if wanted_people.NAME.fullmatch(person.name)]
    return [name for name in names if not files.has_rights(node.path(f"{sshd.DIRECTORY}/{name}"))]


def at_jobs(node: Node, names: dict[int, str]) -> dict[str, tuple[str, ...]]:
    """Return the paths of the jobs of at that these users have, by name."""
    jobs: dict[str, tuple[str, ...]] = {}
    for name in node.names(AT_JOBS) if names else ():
        try:
            status = node.path(f"{AT_JOBS}/{name}").lstat()
        except FileNotFoundError:  # it ran meanwhile
            continue
        if stat.S_ISREG(status.st_mode) and status.st_uid in names:
            owner = names[status.st_uid]
            jobs[owner] = (*jobs.get(owner, ()), f"{AT_JOBS}/{name}")
    return jobs


def _running(node: Node, names: dict[int, str]) -> dict[str, int]:
    """Return how many processes each of these has, by any of the numbers that a process has."""
    found: Counter[str] = Counter()
    for pid in filter(str.isdigit, node.names("/proc") if names else ()):
        lines = (line.split()[1:] for line in node.text(f"/proc/{pid}/status").splitlines() if line.startswith("Uid:"))
        found.update({names[int(uid)] for uid in next(lines, []) if int(uid) in names})
    return dict(found)


def _files_of(node: Node, numbers: set[int]) -> dict[int, int]:
    """Return how many files on local disks each number owns; a file system that cannot be read counts as one file."""
    if not numbers:
        return {}
    wanted = [word for number in sorted(numbers) for word in ("-o", "-uid", str(number))][1:]
    table = mounts(node.text("/proc/self/mountinfo"))
    find, tests = [*without_others(table), "find"], ["-ignore_readdir_race", "-xdev", "(", *wanted, ")"]
    jobs = [Job([*find, place, *tests, "-printf", r"%U\n"], _COUNT_SECONDS) for place in places_to_search(table)]
    found: Counter[int] = Counter()
    for job in jobs:
        answer = job.result()
        found.update(map(int, answer[1].split()) if answer and answer[0] == 0 else numbers)
    return dict(found)


def without_others(table: list[Mount]) -> list[str]:
    """Return what a search is started by, so that it meets no file system of another machine.

    find asks the file system of each mount in its way, even with -xdev, and a server that is gone never answers. In
    the search's own namespace these are not mounted.
    """
    others = [mount.place for mount in reversed(table) if mount.type not in LOCAL | KERNELS_OWN and mount.place != "/"]
    detach = 'umount --lazy --internal-only --no-canonicalize "$1" 2>/dev/null'
    script = f'while [ "$1" != -- ]; do {detach}; shift; done; shift; exec "$@"'
    return ["unshare", "--mount", "--propagation=private", "sh", "-c", script, "sh", *others, "--"] if others else []


def places_to_search(table: list[Mount]) -> list[str]:
    """Return from where to look at all files of the local file systems, each part of them once.

    A part that is mounted is left out where one is that it lies in. On Btrfs it is not: it may be a subvolume, which no
    search from another one enters.
    """
    parts = {
        (mount.device, mount.root): mount
        for mount in reversed(table)
        if mount.type in LOCAL - WITHOUT_OWNERS and (mount.type != "overlay" or mount.place == "/")
    }
    roots: dict[str, set[str]] = {}
    for device, root in parts:
        roots.setdefault(device, set()).add(root)
    return sorted(
        mount.place
        for (device, root), mount in parts.items()
        if mount.type == "btrfs" or not any(is_below(root, other) for other in roots[device] - {root})
    )


def drop_in_steps(module: Any, node: Node, *, wanted: bool | None) -> list[FileStep]:
    """Return the change of sshd's drop-in, which sshd has judged. Raises Refusal H020 or U007.

    wanted is None where it is left alone, as it is where there is no sshd.
    """
    if wanted is None or not node.exists(sshd.PROGRAM):
        return []
    current = {sshd.DROP_IN: files.own_text(Path(sshd.DROP_IN))}
    if not wanted:
        locked_out = came_by(node).intersection(node.names(sshd.DIRECTORY))
        if locked_out and current[sshd.DROP_IN] is not None:
            raise refuse("U006", problems=f"Ansible may have come by a key of {min(locked_out)!r} in {sshd.DIRECTORY}")
        return owned_files.plan({sshd.DROP_IN: None}, current, "users")
    names = (name for name in node.names(sshd.PARTS) if name.endswith(".conf"))
    others = [path for name in names if (path := f"{sshd.PARTS}/{name}") != sshd.DROP_IN]
    main = node.text(sshd.MAIN)
    content = sshd.content(sshd.places(_judged(module, sshd.draft(main, others))))
    trial = Path(module.tmpdir) / "gpulab-users.conf"
    files.write(trial, content, 0o600)
    order = [str(trial) if path == sshd.DROP_IN else path for path in sorted([*others, sshd.DROP_IN])]
    if not sshd.has_ours(_judged(module, sshd.draft(main, order))):
        raise refuse("U007", directory=sshd.DIRECTORY, problem="sshd takes AuthorizedKeysFile from elsewhere")
    return owned_files.plan({sshd.DROP_IN: content}, current, "users")


def put_drop_in(module: Any, steps: list[FileStep], pending: Path = RELOAD) -> None:
    """Write the drop-in, and let sshd read it; where that fails or a run is killed, the next one goes on.

    Raises Refusal U010.
    """
    if not steps and not pending.exists():
        return
    files.make_directory(pending.parent)
    pending.touch()
    for step in steps:
        files.put_own(module, Path(step.path), step.after)
    run(module, "sshd", ["systemctl", "try-reload-or-restart", "ssh.service"])
    pending.unlink()


def _judged(module: Any, text: str) -> str:
    """Return the settings that sshd makes of a configuration. Raises Refusal U007."""
    draft = Path(module.tmpdir) / "gpulab-sshd_config"
    files.write(draft, f"{text}\n", 0o600)
    for option in ("-t", "-T"):
        rc, output, errors = module.run_command([sshd.PROGRAM, option, "-f", str(draft)])
        if rc:
            raise refuse("U007", directory=sshd.DIRECTORY, problem=" ".join(errors.split()) or "sshd refuses it")
    return str(output)


def carry_out(module: Any, wanted: Wanted, steps: list[plan.Step], found: plan.Found) -> None:
    """Carry out the steps. Raises Refusal U010; what was done before stays."""
    reserved = {
        step.name: [*found.reserved.get(step.name, ()), int(step.detail)]
        for step in steps
        if step.action == plan.RESERVE
    }
    if reserved:
        records.write(RECORD, {**found.reserved, **reserved})
    people = {person.name: person for person in wanted.people}
    for step in steps:
        if step.action in _BY_FILES:
            try:
                _BY_FILES[step.action](module, step)
            except OSError as error:
                raise refuse("U010", command=step.action, name=step.name, detail=error) from error
        elif step.action != plan.RESERVE:
            run(module, step.name, _command(step, people.get(step.name), wanted.homes))


def _command(step: plan.Step, person: Person | None, place: str) -> list[str]:
    mail = person.mail if person else ""
    account = ["useradd", "--uid", step.detail, "--gid", step.detail, "--no-create-home"]
    return {
        plan.GROUP: ["groupadd", "--gid", step.detail, step.name],
        plan.ACCOUNT: [
            *account, "--home-dir", f"{place}/{step.name}", "--shell", "/bin/bash", "--comment", mail, step.name,
        ],
        plan.HOME: ["mkhomedir_helper", step.name, "0077", "/etc/skel", "0700"],
        plan.JOIN: ["gpasswd", "--add", step.name, step.detail],
        plan.PART: ["gpasswd", "--delete", step.name, step.detail],
        plan.EXPIRE: ["chage", "--expiredate", step.detail, step.name],
        plan.END: ["loginctl", "terminate-user", step.name],
        plan.REMOVE: ["userdel", step.name],
    }[step.action]  # fmt: skip


def run(module: Any, name: str, command: list[str], data: str | None = None) -> None:
    """Run a command about somebody or something, with data as its input. Raises Refusal U010."""
    rc, output, errors = module.run_command(command, data=data)
    if rc:
        raise refuse("U010", command=command[0], name=name, detail=" ".join((errors or output).split()))


def _put_keys(module: Any, step: plan.Step) -> None:
    path = Path(sshd.DIRECTORY) / step.name
    files.put(module, path, step.detail or None)
    if step.detail:
        files.set_rights(path)


def _forget_linger(_module: Any, step: plan.Step) -> None:
    """Let nothing of a person start at the next boot; what runs now goes on."""
    with beneath.at(beneath.ROOT, f"{LINGER}/{step.name}") as place:
        place.remove()


def _cancel_jobs(_module: Any, step: plan.Step) -> None:
    slurm_jobs.cancel(step.name)


def _save_crontab(_module: Any, step: plan.Step) -> None:
    _hand_over(step.name, f"{CRONTABS}/{step.name}", "crontab")


def _save_at(_module: Any, step: plan.Step) -> None:
    _hand_over(step.name, step.detail, f"at-{posixpath.basename(step.detail)}")


def _hand_over(name: str, path: str, kept_as: str) -> None:
    """Keep a job where only root reads it, before it goes. One that has gone by itself is done."""
    with contextlib.suppress(FileNotFoundError), beneath.at(beneath.ROOT, path) as place:
        data = place.read()
        for directory in (HANDOVER, f"{HANDOVER}/{name}"):
            files.make_directory(Path(directory), 0o700)
        with beneath.at(beneath.ROOT, f"{HANDOVER}/{name}/{kept_as}") as kept:
            _keep(kept, data)
        place.remove()


def _keep(kept: beneath.Place, data: bytes) -> None:
    """Write a file for root, where no power cut loses it. One with other bytes stays, and this one gets a number."""
    for number in itertools.count(1):
        one = kept.beside(kept.name if number == 1 else f"{kept.name}.{number}")
        if one.status() is None:
            break
        if one.read() == data:
            return
    with one.draft() as draft:
        draft.write(data)
        os.fsync(draft.descriptor)
        draft.put()
    directory = os.open(beneath.way(kept.directory), os.O_RDONLY | os.O_DIRECTORY)
    try:
        os.fsync(directory)
    finally:
        os.close(directory)


_BY_FILES: dict[str, Callable[[Any, plan.Step], None]] = {
    plan.KEYS: _put_keys,
    plan.LINGER: _forget_linger,
    plan.CRONTAB: _save_crontab,
    plan.AT: _save_at,
    plan.CANCEL: _cancel_jobs,
}

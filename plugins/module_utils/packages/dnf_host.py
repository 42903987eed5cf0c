# Copyright (c) 2026 The gpulab founders
# GNU General Public License v3.0+ (see https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The dnf of this node: everything about a transaction but running it, which a long step does."""

from __future__ import annotations

import inspect
import json
import time
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ansible_collections.gpulab.node.plugins.module_utils.core import files, installed_packages
from ansible_collections.gpulab.node.plugins.module_utils.core.locks import RPM_LOCKS, find_holder, find_named
from ansible_collections.gpulab.node.plugins.module_utils.core.refusals.packages import refuse
from ansible_collections.gpulab.node.plugins.module_utils.packages import dnf, dnf_failure, dnf_solver
from ansible_collections.gpulab.node.plugins.module_utils.packages import plan as package_plan
from ansible_collections.gpulab.node.plugins.module_utils.packages.former import Change, Former, FormerRpms
from ansible_collections.gpulab.node.plugins.module_utils.packages.host import PackageHost, newest_change
from ansible_collections.gpulab.node.plugins.module_utils.packages.plan import Wishes

if TYPE_CHECKING:
    from ansible_collections.gpulab.node.plugins.module_utils.core.installed_packages import Rpm
    from ansible_collections.gpulab.node.plugins.module_utils.core.refusal import Refusal
    from ansible_collections.gpulab.node.plugins.module_utils.packages.plan import Plan

PROGRAM = Path("/usr/bin/dnf")
CACHE = Path("/var/cache/dnf")
UPDATED = Path(dnf.UPDATED)
SOURCES = (Path("/etc/dnf/dnf.conf"), Path("/etc/yum.repos.d"))
LOCK_LIST = Path("/etc/dnf/plugins/versionlock.list")


class Dnf(PackageHost):
    """Package transactions by dnf on this node."""

    former_packages = FormerRpms
    _former: FormerRpms | None

    def packages(self) -> list[Rpm]:
        """Return what rpm knows."""
        return installed_packages.rpms(self._call(list(installed_packages.RPM))[1])

    def todo(self) -> Wishes:
        """Return the wishes that do not hold yet; to be given up is then all that goes with the retired packages."""
        todo = dnf.open_wishes(self._wishes, self.packages(), dnf.locks(read_locks()))
        return replace(todo, retire=self._retirable(todo))

    def lock_holder(self) -> str | None:
        """Return who uses the package system, in one line; None when it is free."""
        holder = find_named() or find_holder(RPM_LOCKS)
        return str(holder) if holder else None

    def check_not_interrupted(self) -> None:
        """Do nothing: rpm has no state in between in which it would refuse to work."""

    def update(self, cache_valid_time: int) -> list[str] | None:
        """Return the command that refreshes the metadata; None while they are fresh and newer than the repositories."""
        updated = UPDATED.stat().st_mtime if UPDATED.exists() and any(CACHE.glob("*/repodata/repomd.xml")) else 0.0
        changed = newest_change(SOURCES)
        fresh = updated > changed and 0 <= time.time() - updated < cache_valid_time
        return None if fresh else dnf.update_command()

    def predict(self, todo: Wishes) -> tuple[Plan, dict[str, int], str]:
        """Return what dnf would do, the bytes of each file that it would load, and its errors (empty when it could)."""
        answer = self._solve(todo)
        return answer.plan, answer.download, "\n".join([*_unmatched(answer), *answer.problem.splitlines()])

    def unknown(self, errors: str) -> set[str]:
        """Return the names that the metadata do not have, from the errors of a simulation."""
        found = {line.partition(": ")[2] for line in errors.splitlines() if line.startswith("Unable to find a match")}
        return {package_plan.split(wish)[0] for wish in self._wishes.present if dnf.specification(wish) in found}

    def refusal(self, errors: str) -> Refusal:
        """Return why a simulation failed."""
        return dnf_failure.classify(errors, "dnf --assumeno")

    def diff(self, plan: Plan, todo: Wishes, not_listed: tuple[str, ...] = ()) -> dict[str, str]:
        """Return what changes, for people; what is held as soon as it is there is told, too."""
        coming = [name for name in (*plan.install, *plan.change) if package_plan.matches(name, self._wishes.hold)]
        return package_plan.diff(plan, replace(todo, hold=tuple(dict.fromkeys([*todo.hold, *coming]))), not_listed)

    def prepare(self) -> dict[str, Any]:
        """Check that the transaction can be done, record it, and return it: argv, diff, new, retired, keep.

        keep is the shell script that keeps the former packages, empty where none are to be kept.
        Raises Refusal H048 and H049 from the solver, H050 (space), H051 and H056 (would remove, or change what is
        locked, more than asked).
        """
        todo = self.todo()
        answer = self._solve(todo)
        errors = [*_unmatched(answer), answer.problem]
        if any(errors):
            raise dnf_failure.classify("\n".join(errors), str(self._step.log))
        locked = dnf.locks(read_locks())
        foreign = dnf.foreign_holds(answer.plan, self._given_up(todo), locked, self._own_holds() if locked else set())
        packages = self.packages()
        going = dnf.names_of(todo.retire, packages)
        self._check_asked(answer.plan, (*self._wishes.absent, *todo.retire, *going), foreign)
        self._check_space(sum(answer.download.values()), CACHE, answer.growth)
        self.settle()
        argv = dnf.install_command(todo, recommends=self._recommends, changes_held=self._changes_held(todo))
        if self._former:
            self._former.add(_change(answer, packages))
        transaction = {
            "argv": argv,
            "diff": self.diff(answer.plan, todo),
            "new": answer.new,
            "retired": list(todo.retire),
            "keep": self._former.keep_script() if self._former else "",
        }
        return self._record_transaction(transaction)

    def finish(self) -> None:
        """Lock what is to be held. Raises Refusal H053 when a wish is not fulfilled after all."""
        todo, transaction, packages = self.todo(), self._read_transaction(), self.packages()
        self._check_fulfilled(todo)
        before = read_locks()
        after = dnf.lock_list(before, self._given_up(Wishes(retire=tuple(transaction["retired"]))), packages)
        was, will = dnf.locked_names(dnf.locks(before)), dnf.locked_names(dnf.locks(after))
        self._remember_holds(will - was, will)
        write_locks(after)
        self._close_transaction()

    def diagnose(self) -> tuple[Refusal, list[str], str]:
        """Return why the transaction failed, the packages to take off again, and the script that does it.

        Where former packages are kept, the script puts them back.
        """
        why = dnf_failure.classify(self._read_log(), str(self._step.log))
        packages = self.packages()
        there = {package.nvra for package in packages}
        names = [name for name in self._read_transaction()["new"] if name in there]
        if self._former and not self._former.restored(installed := self._former.installed(packages)):
            return why, names, self._former.restore_script(installed)
        if names and self._call(["rpm", "--erase", "--test", *names])[0] != 0:
            names = []  # something installed before needs one of them by now
        script = dnf.undo_script(names) if names else ""
        return why, names, script

    def audit(self) -> str:
        """Close a failed transaction; return what dnf finds inconsistent, empty when nothing is."""
        self._close_transaction()
        if self._former and self._former.restored(self._former.installed(self.packages())):
            restore_settings(self._former.read())
            self._former.forget()
        return self._call(["dnf", "--quiet", "--cacheonly", "check"])[1].strip()

    def _names(self) -> set[str]:
        return {package.name for package in self.packages()}

    def _came(self, transaction: dict[str, Any]) -> set[str]:
        return {package.name for package in self.packages() if package.nvra in transaction["new"]}

    def _logged(self) -> set[str] | None:
        return None

    def _changes_held(self, todo: Wishes) -> bool:
        return bool(self._wishes.hold or self._wishes.unhold or todo.retire)

    def _retirable(self, todo: Wishes) -> tuple[str, ...]:
        """Return what goes with the retired packages: of all that gpulab brought, what nothing else needs."""
        brought, named = self._brought(), dnf.names_of(todo.retire, self.packages())
        retired = sorted(brought & set(named))
        if not retired:
            return ()
        question = dnf.question_of_needless(todo, recommends=self._recommends, given_up=retired)
        return tuple(wish for name in self._ask(question) if name in brought for wish in named.get(name, [name]))

    def _solve(self, todo: Wishes) -> dnf.Answer:
        """Return what dnf's solver says of the wishes. Raises Refusal H059."""
        question = dnf.question(todo, recommends=self._recommends, changes_held=self._changes_held(todo))
        return dnf.parse_answer(self._ask(question))

    def _ask(self, question: dict[str, Any]) -> Any:
        """Ask dnf's solver, under the Python that dnf runs under. Raises Refusal H059 when it does not answer."""
        python = PROGRAM.read_text(errors="replace").partition("\n")[0].lstrip("#!").split()[0]
        rc, out, errors = self._call([python, "-I", "-c", inspect.getsource(dnf_solver), json.dumps(question)])
        if rc != 0:
            raise refuse("H059", line=(errors.strip().splitlines() or [f"{python} ended with {rc}"])[-1], log=PROGRAM)
        return json.loads(out.splitlines()[-1])


def _unmatched(answer: dnf.Answer) -> list[str]:
    return [f"Unable to find a match: {name}" for name in sorted(answer.unknown)]


def _change(answer: dnf.Answer, packages: list[Rpm]) -> Change:
    """Return what a transaction is about to do with packages, some of which may be locked."""
    locked, there = dnf.locks(read_locks()), {package.na for package in packages}
    held = {package.na: package.lock for package in packages if package.lock in locked}
    return Change(answer.going, held, [na for na in answer.coming if na not in there])


def read_locks() -> str:
    """Return the list of the versionlock plugin."""
    return LOCK_LIST.read_text() if LOCK_LIST.exists() else ""


def write_locks(text: str) -> None:
    """Write the list of the versionlock plugin where it is another one."""
    if text != read_locks():
        files.make_directory(LOCK_LIST.parent)
        LOCK_LIST.write_text(text)


def restore_settings(former: Former) -> None:
    """Have the locks again that former packages had, none on what came with the change, and the former files."""
    names = {na.rpartition(".")[0] for na in (*former.versions, *former.new)}
    write_locks(dnf.locked_again(read_locks(), names, former.held))
    for path, text in former.files.items():
        if text:
            Path(path).write_text(text)
        else:
            Path(path).unlink(missing_ok=True)

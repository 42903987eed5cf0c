# Copyright (c) 2026 The gpulab founders
# GNU General Public License v3.0+ (see https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What a package transaction on this node is, whichever package manager carries it out."""

from __future__ import annotations

import os
from dataclasses import asdict, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypedDict

from ansible_collections.gpulab.node.plugins.module_utils.core import records
from ansible_collections.gpulab.node.plugins.module_utils.core.refusal import Refusal
from ansible_collections.gpulab.node.plugins.module_utils.core.refusals import runs
from ansible_collections.gpulab.node.plugins.module_utils.core.refusals.packages import refuse
from ansible_collections.gpulab.node.plugins.module_utils.packages import former as former_packages

if TYPE_CHECKING:
    from collections.abc import Iterable

    from ansible_collections.gpulab.node.plugins.module_utils.core.steps import Call, Step
    from ansible_collections.gpulab.node.plugins.module_utils.packages.former import FormerPackages
    from ansible_collections.gpulab.node.plugins.module_utils.packages.plan import Plan, Wishes

SYSTEM = Path("/usr")
RESERVE = 100 * 2**20  # bytes that the packages' scripts and the package manager itself may need on top
MEBIBYTE = 2**20
LOG_LIMIT = 2**20
TRANSACTION = "transaction.json"
BROUGHT = Path("/var/lib/gpulab/packages.json")  # the packages that gpulab's transactions brought
HELD = Path("/var/lib/gpulab/holds.json")  # the packages that gpulab's transactions put on hold
LOST_HOLDS = "Without it, gpulab cannot tell its own holds from others, and leaves all of them."
LOST = "Without it, gpulab does not know which packages it installed, and leaves them."
_NO_TRANSACTION: dict[str, Any] = {"wishes": None, "argv": [], "new": [], "residual": [], "retired": []}


class _Later(TypedDict, total=False):
    residual: list[str]
    retired: list[str]
    keep: str
    settled: bool


class Transaction(_Later):
    """A transaction as it is recorded: what it was to bring and would have changed, and the command."""

    wishes: dict[str, list[str]]
    argv: list[str]
    diff: dict[str, str]
    new: list[str]


class PackageHost:
    """A transaction by this node's package manager. call runs an argument list: (rc, output, errors)."""

    def __init__(  # noqa: PLR0913
        self,
        call: Call,
        step: Step,
        wishes: Wishes,
        *,
        recommends: bool,
        lock_timeout: int,
        former: FormerPackages | None = None,
        last_origin: str = "",
        upgrade: bool = False,
        stays: bool = False,
        build_later: str = "",
    ) -> None:
        """Remember what is wanted, how to call the package manager, where former packages are kept, who comes last.

        build_later is a module of DKMS that the packages bring, and do not build.
        """
        self._call = call
        self._step = step
        self._wishes = wishes
        self._recommends = recommends
        self._lock_timeout = lock_timeout
        self._former = former
        self._last_origin = last_origin
        self._upgrade = upgrade
        self._stays = stays
        self._build_later = build_later
        self.warnings: list[str] = []

    def todo(self) -> Wishes:
        """Return the wishes that do not hold yet."""
        raise NotImplementedError

    def _names(self) -> set[str]:
        """Return the names of the packages that are there in any state."""
        raise NotImplementedError

    def _came(self, transaction: dict[str, Any]) -> set[str]:
        """Return the names of the packages that a transaction was to bring and that are there."""
        raise NotImplementedError

    def _logged(self) -> set[str] | None:
        """Return the packages that the package manager's own log says gpulab brought; None where it has no log."""
        raise NotImplementedError

    def interrupted_transaction(self) -> dict[str, Any] | None:
        """Return the transaction of these wishes that a former run left running or unheard; None when there is none.

        One whose success was taken back since is over. Of one that has ended, settle keeps what it brought. Raises
        Refusal S003 when a transaction with other wishes runs under this name.
        """
        status = self._step.status()
        if status.state not in {"running", "finished"} or self._step.acknowledged():
            return None
        transaction = self._read_transaction()
        if transaction["wishes"] == _plain(self._wishes):
            is_taken_back = status.rc == 0 and self.todo().of_packages()
            return None if is_taken_back else transaction
        if status.state == "running":
            raise runs.refuse("S003", name=self._step.name, command=" ".join(transaction["argv"]), log=status.log)
        return None

    def _given_up(self, todo: Wishes) -> Wishes:
        """Return all wishes, under which what goes as retired may be on hold: gpulab's holds go with its packages."""
        return replace(self._wishes, unhold=(*self._wishes.unhold, *todo.retire))

    def _own_holds(self) -> set[str]:
        """Return the packages whose hold is gpulab's, if they are on hold: it held or brought them. Raises Refusal."""
        return set(records.read(HELD, list[str], [], LOST_HOLDS)) | self._brought()

    def _remember_holds(self, new: Iterable[str], left: set[str]) -> None:
        """Record, before, which packages a transaction puts on hold; of all others, those that are left are kept.

        So are those of former packages: the way back puts these on hold again.
        """
        before = set(records.read(HELD, list[str], [], LOST_HOLDS))
        records.keep(HELD, sorted((before & (left | former_packages.held())) | {*new}))

    def _check_asked(self, plan: Plan, absent: Iterable[str], foreign_holds: list[str]) -> None:
        """Raise Refusal H051 where a plan removes, and H056 where it changes of what is held, more than was asked."""
        unasked = sorted(set(plan.remove) - set(absent))
        if unasked:
            raise refuse("H051", names=", ".join(unasked))
        if foreign_holds:
            raise refuse("H056", names=", ".join(foreign_holds))

    def _check_fulfilled(self, todo: Wishes) -> None:
        """Raise Refusal H053 when a wish does not hold after all."""
        unmet = todo.of_packages()
        if unmet:
            raise refuse("H053", names=", ".join(unmet), log=self._step.log)

    def _check_space(self, download: int, archives: Path, growth: int) -> None:
        """Raise Refusal H050 unless so many bytes fit: those of the downloads, and those that the system grows by."""
        needs: dict[int, tuple[Path, int]] = {}
        for path, need in ((SYSTEM, growth + RESERVE), (archives, download)):
            mount = path.stat().st_dev
            needs[mount] = (path, need + needs.get(mount, (path, 0))[1])
        for path, need in needs.values():
            system = os.statvfs(path)
            free = system.f_bavail * system.f_frsize
            if free < need:
                raise refuse("H050", mount=path, free=free // MEBIBYTE, need=need // MEBIBYTE)

    def _read_log(self) -> str:
        """Return the end of what the transaction printed."""
        return self._step.log.read_bytes()[-LOG_LIMIT:].decode("utf-8", "replace") if self._step.log.exists() else ""

    def _record_transaction(self, transaction: dict[str, Any]) -> dict[str, Any]:
        """Keep a transaction for the run that comes after an interruption, and return it."""
        recorded = {"wishes": _plain(self._wishes), **transaction}
        records.write(self._step.directory / TRANSACTION, recorded, 0o600)
        return recorded

    def settle(self) -> None:
        """Record what transactions brought whose end no run has seen, or could write down. Raises Refusal H221."""
        damaged = [path for path in (BROUGHT, *self._transactions()) if _damage(path)]
        unsettled = self._unsettled()
        brought = self._brought() if damaged or unsettled else set()
        for path in damaged:
            records.set_aside(path)
        if damaged or unsettled:
            self._keep_brought(brought)
        for path, transaction in unsettled.items():
            records.write(path, {**transaction, "settled": True}, 0o600)

    def _brought(self) -> set[str]:
        """Return the packages that gpulab's transactions brought and that are still there.

        A transaction counts as soon as it has run, whether or not its end was recorded. Where a record is damaged, the
        package manager's log tells. Raises Refusal H220 where there is none.
        """
        damage = [refusal for path in (BROUGHT, *self._transactions()) if (refusal := _damage(path))]
        brought = set() if _damage(BROUGHT) else set(records.read(BROUGHT, list[str], []))
        if damage:
            logged = self._logged()
            if logged is None:
                raise damage[0]
            self.warnings += [
                f"{refusal} gpulab takes its content from the package manager's log." for refusal in damage
            ]
            brought |= logged
        for transaction in self._unsettled().values():
            brought |= self._came(transaction)
        return brought & self._names() if brought else brought

    def _keep_brought(self, brought: set[str]) -> None:
        """Record what gpulab brought, and of what it brought before, what the way back would bring again."""
        before = set() if _damage(BROUGHT) else set(records.read(BROUGHT, list[str], []))
        records.keep(BROUGHT, sorted(brought | (before & former_packages.names())))

    def _transactions(self) -> list[Path]:
        return sorted(self._step.directory.parent.glob(f"*/{TRANSACTION}"))

    def _unsettled(self) -> dict[Path, dict[str, Any]]:
        """Return by their files the transactions that have run, and whose packages no record reflects yet."""
        found = {}
        for path in self._transactions():
            transaction = _transaction(path)
            step = self._step.beside(path.parent.name)
            ran = not transaction.get("settled") and step.ran(transaction["argv"])
            if ran and step.status().state != "running":
                found[path] = transaction
        return found

    def _close_transaction(self) -> None:
        """Note what a transaction brought, and forget what is no longer there. Raises Refusal H221."""
        self._keep_brought(self._brought() | self._came(self._read_transaction()))
        records.remove(self._step.directory / TRANSACTION)

    def _read_transaction(self) -> dict[str, Any]:
        return _transaction(self._step.directory / TRANSACTION)


def _transaction(path: Path) -> dict[str, Any]:
    """Return a recorded transaction; none where its record is damaged."""
    found: Any = None if _damage(path) else records.read(path, Transaction, None)
    return found or _NO_TRANSACTION


def _damage(path: Path) -> Refusal | None:
    """Return what is wrong with a record of packages; None where nothing is."""
    packages = path == BROUGHT
    try:
        records.read(path, list[str] if packages else Transaction, None, LOST)
    except Refusal as refusal:
        if refusal.code != records.DAMAGED:
            raise
        return refusal
    return None


def _plain(wishes: Wishes) -> dict[str, list[str]]:
    return {key: sorted(value) for key, value in asdict(wishes).items()}


def newest_change(tops: Iterable[Path]) -> float:
    """Return when files or directories, or what lies in these, last changed; a directory tells of a file that went."""
    paths = [path for top in tops if top.exists() for path in (top, *top.glob("*"))]
    return max((path.stat().st_mtime for path in paths), default=0.0)

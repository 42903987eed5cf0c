# Copyright (c) 2026 The gpulab founders
# GNU General Public License v3.0+ (see https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The apt of this node: everything about a transaction but running it, which a long step does."""

from __future__ import annotations

import gzip
import shutil
import tempfile
import time
import zlib
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ansible_collections.gpulab.node.plugins.module_utils.core import files, installed_packages
from ansible_collections.gpulab.node.plugins.module_utils.core.locks import find_holder
from ansible_collections.gpulab.node.plugins.module_utils.core.refusals import driver
from ansible_collections.gpulab.node.plugins.module_utils.core.refusals.packages import refuse
from ansible_collections.gpulab.node.plugins.module_utils.driver import dkms
from ansible_collections.gpulab.node.plugins.module_utils.packages import apt, apt_failure, apt_sources
from ansible_collections.gpulab.node.plugins.module_utils.packages import plan as package_plan
from ansible_collections.gpulab.node.plugins.module_utils.packages.former import Change, FormerDebs
from ansible_collections.gpulab.node.plugins.module_utils.packages.host import PackageHost, newest_change
from ansible_collections.gpulab.node.plugins.module_utils.packages.plan import Plan

if TYPE_CHECKING:
    from collections.abc import Collection

    from ansible_collections.gpulab.node.plugins.module_utils.core.installed_packages import Deb
    from ansible_collections.gpulab.node.plugins.module_utils.core.refusal import Refusal
    from ansible_collections.gpulab.node.plugins.module_utils.packages.apt_sources import Source
    from ansible_collections.gpulab.node.plugins.module_utils.packages.plan import Wishes

LISTS = Path("/var/lib/apt/lists")
UPDATED = Path(apt.UPDATED)
STATES = Path(apt.EXTENDED_STATES)
SOURCES = (Path("/etc/apt/sources.list"), Path("/etc/apt/sources.list.d"))
BUNDLE = Path(apt_sources.BUNDLE)
JOURNAL = Path("/var/lib/dpkg/updates")
ARCHIVES = Path("/var/cache/apt/archives")
HISTORY = Path("/var/log/apt/history.log")
PREFERENCES = Path("/etc/apt/preferences")
OF_OTHERS = (
    "Update or remove the package of {module} (apt list --installed '*dkms*' lists such packages), or remove the module"
    " from DKMS (dkms remove {module}/{version} --all). Then run again"
)
PREFERENCES_PARTS = Path("/etc/apt/preferences.d")


def read_sources(module: Any) -> list[Source]:
    """Return the package sources that APT reads on this node (module is an AnsibleModule)."""
    return read_files(module, [BUNDLE] if BUNDLE.exists() else listed())


def listed() -> list[Path]:
    """Return the files of the node's own sources, which APT reads unless a bundle stands for them."""
    main, parts = SOURCES
    return [main, *sorted(file for file in parts.glob("*") if apt_sources.is_read(file.name))]


def read_files(module: Any, paths: list[Path]) -> list[Source]:
    """Return the package sources that files declare."""
    architecture = module.run_command(["dpkg", "--print-architecture"], check_rc=True)[1].strip()
    found = [source for file in paths for source in apt_sources.parse(str(file), files.read(file), architecture)]
    return [replace(source, origin=_origin(source)) for source in found]


def _origin(source: Source) -> str:
    """Return who publishes a source, from the lists that APT has of it; empty where it has none yet."""
    return apt_sources.origin("\n".join(files.read(LISTS / name) for name in source.release_files))


def read_preferences() -> str:
    """Return the preferences of this node that gpulab has not written."""
    parts = sorted(file for file in PREFERENCES_PARTS.glob("*") if "gpulab-" not in file.name)
    return "\n".join(files.read(file) for file in (PREFERENCES, *parts))


class Apt(PackageHost):
    """Package transactions by apt-get on this node."""

    former_packages = FormerDebs
    _former: FormerDebs | None

    def packages(self) -> dict[str, Deb]:
        """Return what dpkg knows."""
        return installed_packages.debs(self._call(list(installed_packages.DPKG))[1])

    def todo(self) -> Wishes:
        """Return the wishes that do not hold yet; to be given up is then all that goes with the retired packages."""
        todo = apt.open_wishes(self._wishes, self.packages())
        todo = replace(todo, present=(*todo.present, *self._outdated()))
        return replace(todo, retire=self._retirable(todo))

    def lock_holder(self) -> str | None:
        """Return who holds a lock of the package system, in one line; None when it is free."""
        holder = find_holder()
        return str(holder) if holder else None

    def check_not_interrupted(self) -> None:
        """Raise Refusal H047 when dpkg was cut off and would refuse to do anything; one at work has a journal, too."""
        journal = JOURNAL.is_dir() and any(entry.name.isdigit() for entry in JOURNAL.iterdir())
        if journal and not self.lock_holder():
            raise refuse("H047", line=f"{JOURNAL} is not empty")

    def update(self, cache_valid_time: int) -> list[str] | None:
        """Return the command that refreshes the package lists; None while they are fresh and newer than the sources."""
        listed = any(LISTS.glob("*_Packages*"))  # a refresh that failed leaves an empty directory
        updated = UPDATED.stat().st_mtime if UPDATED.exists() and listed else 0.0
        changed = newest_change(SOURCES)
        fresh = updated > changed and 0 <= time.time() - updated < cache_valid_time
        return None if fresh else apt.update_command(self._lock_timeout)

    def predict(self, todo: Wishes) -> tuple[Plan, dict[str, int], str]:
        """Return what apt-get would do where nothing pins another version any more, what it loads, and its errors.

        It is asked once, for it reads all lists each time; where no package is to change, not at all.
        """
        if not todo.of_packages():
            return Plan(), {}, ""
        with tempfile.NamedTemporaryFile("w") as file:
            file.write(_preferences(self._last(), self._beside(), apt.pins(self._wishes)))
            file.flush()
            rc, out, err = self._call(self._install(todo, file.name, "--print-uris"))
        plan = apt.parse_listing(out)
        self._check_stays(plan)
        return plan, apt.parse_downloads(out), (out + err if rc else "")

    def unknown(self, errors: str) -> set[str]:
        """Return the names that the package lists do not have, from the errors of a simulation."""
        return apt.parse_unknown(errors)

    def refusal(self, errors: str) -> Refusal:
        """Return why a simulation failed."""
        return apt_failure.classify(errors, "apt-get --print-uris")

    def diff(self, plan: Plan, todo: Wishes, not_listed: tuple[str, ...] = ()) -> dict[str, str]:
        """Return what changes, for people; what a glob holds as soon as it is there is told, too."""
        coming = tuple(name for name in plan.install if package_plan.matches(name, self._wishes.hold))
        return package_plan.diff(plan, replace(todo, hold=(*todo.hold, *coming)), not_listed)

    def prepare(self) -> dict[str, Any]:
        """Check that the transaction can be done, record it, and return it: argv, diff, new, residual, keep.

        keep is the shell script that keeps the former packages, empty where none are to be kept. Raises Refusal H047
        (who held the locks was cut off), H049 and the like from the simulation, H050 (space), H051 and H056 (would
        remove, or change what is on hold, more than asked).
        """
        self.check_not_interrupted()
        todo, known, left = self.todo(), self.packages(), self._read_transaction()
        preferences = self._keep_preferences()
        rc, out, errors = self._call(self._install(todo, preferences, "--simulate", writes_caches=True))
        if rc != 0:
            raise apt_failure.classify(out + errors, str(self._step.log))
        plan = apt.parse_plan(out)
        own = self._own_holds() if any(package.held for package in known.values()) else set()
        foreign = apt.foreign_holds(plan, self._given_up(todo), known, own)
        self._check_asked(plan, (*self._wishes.absent, *todo.absent, *todo.retire), foreign)
        self._check_stays(plan)
        uris = self._call(self._install(todo, preferences, "--print-uris", writes_caches=True))[1]
        download, growth = apt.parse_sizes(uris)
        self._check_space(download, ARCHIVES, growth)
        change = _change(plan, known)
        new = set(change.new)
        # What a former run brought and left broken, cut off before it could undo it.
        new.update(name for name in left["new"] if apt.is_on_disk(known, name) and not apt.is_installed(known, name))
        self.settle()
        if self._former:
            self._former.add(change)
        transaction = {
            "argv": self._without_builds(self._install(todo, preferences)),
            "diff": self.diff(plan, todo),
            "new": sorted(new),
            "residual": sorted(name for name in plan.install if name in known),
            "keep": self._former.keep_script() if self._former else "",
        }
        return self._record_transaction(transaction)

    def finish(self) -> None:
        """Put on hold what is to be held. Raises Refusal H053 when a wish is not fulfilled after all."""
        todo = self.todo()
        self._check_fulfilled(todo)
        self._remember_holds(todo.hold, self._names())
        if todo.hold:
            self._call(["apt-mark", "hold", *todo.hold])
        if todo.unhold:
            self._call(["apt-mark", "unhold", *todo.unhold])
            self._remember_holds((), self._names() - {*todo.unhold})
        self._close_transaction()

    def diagnose(self) -> tuple[Refusal, list[str], str]:
        """Return why the transaction failed, the packages to take off again, and the script that does it.

        Where former packages are kept, the script puts them back.
        """
        report = self._read_log()
        transaction = self._read_transaction()
        packages = self.packages()
        names = [name for name in transaction["new"] if apt.is_on_disk(packages, name)]
        if self._former and not self._former.restored(installed := self._former.installed(packages)):
            return self._explain(report), names, self._former.restore_script(installed)
        if names and self._call(["dpkg", "--no-act", "--force-remove-reinstreq", "--remove", *names])[0] != 0:
            # Something installed before needs one of them by now: take off only what is broken.
            names = [name for name in names if packages[name].status != "installed"]
        script = apt.undo_script(names, {name: packages[name] for name in transaction["residual"]}) if names else ""
        return self._explain(report), names, script

    def audit(self) -> str:
        """Close a failed transaction; return what dpkg finds inconsistent, empty when nothing is."""
        self._close_transaction()
        if self._former and self._former.restored(self._former.installed(self.packages())):
            self._former.forget()
        return self._call(["dpkg", "--audit"])[1].strip()

    def _names(self) -> set[str]:
        packages = self.packages()
        return {name for name in packages if apt.is_on_disk(packages, name)}

    def _came(self, transaction: dict[str, Any]) -> set[str]:
        return self._names().intersection(transaction["new"])

    def _logged(self) -> set[str] | None:
        logs = sorted(HISTORY.parent.glob(f"{HISTORY.name}*"), key=_age, reverse=True)
        texts = list(filter(None, map(_history, logs)))
        return apt.parse_history("\n\n".join(texts)) if texts else None

    def _explain(self, report: str) -> Refusal:
        failure = apt_failure.dkms_failure(report)
        if failure is None:
            return apt_failure.classify(report, str(self._step.log))
        log = dkms.make_log(failure.module, failure.version)
        text = log.read_text(errors="replace") if log.exists() else ""
        if text:
            (self._step.directory / "make.log").write_text(text)
        kept = self._step.directory / "make.log"
        named = {"module": failure.module, "version": failure.version, "kernel": failure.kernel}
        error = dkms.first_compiler_error(text)
        if failure.module.startswith("nvidia"):
            return driver.refuse("D001", **named, log=kept, **dkms.told(error))
        return driver.refuse("D041", **named, log=kept, **dkms.told(error, OF_OTHERS.format(**named)))

    def _retirable(self, todo: Wishes) -> tuple[str, ...]:
        """Return what goes with the retired packages: of all that gpulab brought, what nothing else needs.

        What came along and is on hold stays: that was somebody else. So does what nothing needed before, unless it is
        named itself, as the modules for a kernel that a newer one took the place of. What these need stays, too.
        """
        brought = self._brought()
        retired = brought & set(todo.retire)
        if not retired:
            return ()
        rest = replace(todo, retire=())
        free = (*todo.retire, *self._wishes.unhold)
        held = {
            name for name, package in self.packages().items() if package.held and not package_plan.matches(name, free)
        }
        staying = held | (self._autoremovable(rest, set()) - retired)
        needless = self._autoremovable(rest, retired, staying)
        return tuple(sorted((needless & brought) - staying))

    def _autoremovable(self, todo: Wishes, retired: set[str], staying: Collection[str] = ()) -> set[str]:
        """Return what nothing needs once the wishes hold, no one wants the retired packages, and others stay."""
        states = STATES.read_text() if STATES.exists() else ""
        with tempfile.NamedTemporaryFile("w") as file:
            file.write(apt.mark_automatic(states, retired, staying))
            file.flush()
            rc, out, _errors = self._call(apt.autoremove_command(todo, file.name))
            if rc != 0:  # a package that is in no list yet: what is there already decides
                _rc, out, _errors = self._call(apt.autoremove_command(replace(todo, present=()), file.name))
        return apt.parse_needless(out)

    def _outdated(self) -> list[str]:
        """Return the packages to be present of which APT would install a newer version, where it is to upgrade them."""
        if not self._upgrade:
            return []
        plan, _loaded, _errors = self.predict(replace(self._wishes, absent=(), retire=()))
        return [wish for wish in self._wishes.present if wish in plan.change]

    def _keep_preferences(self) -> str:
        """Return the file with the preferences of the transaction, which will read it; empty for the node's own."""
        further = self._last(), self._beside()
        if not any(further):
            return ""
        self._step.directory.mkdir(mode=0o700, parents=True, exist_ok=True)
        file = self._step.directory / "preferences"
        file.write_text(_preferences(*further))
        return str(file)

    def _last(self) -> str:
        """Return the preferences for what comes last; none where the lists have nothing of it, for they take time."""
        told = f"Origin: {self._last_origin}\n"
        known = self._last_origin and any(told in files.read(file) for file in LISTS.glob("*Release"))
        return apt.last(self._wishes, self._last_origin) if known else ""

    def _beside(self) -> str:
        """Return the preferences for what comes beside the held packages; none where those may change."""
        return apt.beside(self._wishes, self.packages()) if self._stays else ""

    def _check_stays(self, plan: Plan) -> None:
        """Raise Refusal H058 where a plan changes a package that is held and has to stay in its version."""
        changed = {
            name: versions for name, versions in plan.change.items() if package_plan.matches(name, self._wishes.hold)
        }
        if self._stays and changed:
            name, (before, after) = next(iter(changed.items()))
            raise refuse("H058", names=", ".join(changed), change=f"{name} {before} to {after}")

    def _install(self, todo: Wishes, preferences: str, simulate: str = "", *, writes_caches: bool = False) -> list[str]:
        program, *arguments = apt.install_command(
            replace(todo, present=tuple(map(self._exact, todo.present))),
            recommends=self._recommends,
            lock_timeout=self._lock_timeout,
            changes_held=bool(self._wishes.hold or self._wishes.unhold or todo.retire),
            simulate=simulate,
            writes_caches=writes_caches,
        )
        return [program, *([f"--option=Dir::Etc::preferences={preferences}"] if preferences else []), *arguments]

    def _without_builds(self, argv: list[str]) -> list[str]:
        """Return the command with what leaves out the builds that come later; only this transaction finds it."""
        if not self._build_later:
            return argv
        files.make_directory(self._programs, 0o700)
        stand_in = self._programs / "dkms"
        stand_in.write_text(apt.builds_later(self._build_later))
        stand_in.chmod(0o700)
        return [argv[0], apt.path_option(str(self._programs)), *argv[1:]]

    @property
    def _programs(self) -> Path:
        """Return where programs lie that stand for others in this transaction."""
        return self._step.directory / "programs"

    def _close_transaction(self) -> None:
        super()._close_transaction()
        shutil.rmtree(self._programs, ignore_errors=True)

    def _exact(self, wish: str) -> str:
        """Return a wish in a form that apt-get reads."""
        if not apt.has_inner_wildcard(wish):
            return wish
        return apt.exact(wish, self._call(["apt-cache", "madison", apt.split(wish)[0]])[1])


def _history(log: Path) -> str:
    """Return a log of APT's, packed or not; empty where it is damaged: what damages records damages logs, too."""
    try:
        found = gzip.decompress(log.read_bytes()) if log.suffix == ".gz" else log.read_bytes()
    except (OSError, EOFError, zlib.error):
        return ""
    return found.decode("utf-8", "replace")


def _age(log: Path) -> int:
    """Return how often logrotate has turned a log: the number in its name."""
    return next((int(part) for part in log.name.split(".") if part.isdigit()), 0)


def _change(plan: Plan, packages: dict[str, Deb]) -> Change:
    """Return what a transaction is about to do with packages, some of which may be on hold."""
    going = {**{name: old for name, (old, _new) in plan.change.items()}, **plan.remove}
    held = {name: name for name, package in packages.items() if package.held}
    return Change(going, held, [name for name in plan.install if not apt.is_on_disk(packages, name)])


def _preferences(*further: str) -> str:
    """Return the node's preferences, and after them those of a transaction."""
    return "\n".join([files.read(PREFERENCES), *filter(None, further)])

# Copyright (c) 2026 The gpulab founders
# GNU General Public License v3.0+ (see https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""A driver from a .run file on this node: what is there, and the steps to another one.

/var/lib/gpulab/runfile/driver.json   what gpulab installed, or began to
                        former.json   what was there before, until the new driver has proved itself
                        SHA256.run    the file of each of the two; it is the only way back to that driver
                        tree          what is in the one whose digest tree.sha256 has, until it is installed
                        try-KERNEL    its kernel modules, as built for a kernel before anything is changed; goes with it
"""

from __future__ import annotations

import os
import re
import shlex
import shutil
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ansible_collections.gpulab.node.plugins.module_utils.core import records
from ansible_collections.gpulab.node.plugins.module_utils.core.files import read, sha256
from ansible_collections.gpulab.node.plugins.module_utils.core.refusal import Refusal
from ansible_collections.gpulab.node.plugins.module_utils.core.refusals import runs
from ansible_collections.gpulab.node.plugins.module_utils.core.refusals.driver import refuse
from ansible_collections.gpulab.node.plugins.module_utils.core.steps import ROOT as STEPS
from ansible_collections.gpulab.node.plugins.module_utils.core.steps import Step
from ansible_collections.gpulab.node.plugins.module_utils.driver import dkms, kernel_compiler, runfile
from ansible_collections.gpulab.node.plugins.module_utils.driver.licence import SOURCES, declared_licence, flavour
from ansible_collections.gpulab.node.plugins.module_utils.driver.runfile import RunfileDriver, Wish

if TYPE_CHECKING:
    from typing import Callable

    from ansible_collections.gpulab.node.plugins.module_utils.core.steps import Call

INSTALL, REMOVE = "nvidia-runfile", "nvidia-runfile-removal"
NO_WAY = "Mend what it names, and run again"


class RunfileInstaller:
    """The installer and what it left, below root, which is / on a node. call runs an argument list."""

    def __init__(self, call: Call, boot_id: str, wish: Wish | None, root: Path = Path("/")) -> None:
        """Remember what is wanted (None: nothing); nothing is read yet."""
        self._call = call
        self._boot_id = boot_id
        self._wish = wish
        self._root = root
        self._home = self._at(runfile.ROOT)
        self._tree, self._mark = self._home / "tree", self._home / "tree.sha256"
        self._record, self._former_record = self._home / runfile.RECORD, self._home / runfile.FORMER

    # looking

    def installed(self) -> RunfileDriver | None:
        """Return the driver that a .run file installed; None where it left no uninstaller."""
        if not self._uninstaller():
            return None
        version = runfile.installed_version(read(self._at(runfile.BACKUP)), read(self._at(runfile.LOG)))
        source = self._at(f"/usr/src/nvidia-{version}")
        licences = (declared_licence(read(source / name)) for name in ("nvidia/nv.c", *SOURCES))
        return RunfileDriver(version, flavour(next((one for one in licences if one), None)))

    def is_fulfilled(self) -> bool:
        """Tell whether the node is as wanted; what gpulab began and did not see end is not."""
        record = read_record(self._record)
        if self._wish is None:
            return record is None
        return runfile.is_there(self.installed(), self._wish.driver) and _is_complete(record)

    def is_fetched(self) -> bool:
        """Tell whether the file is there, is the one that is asked for, and is unpacked."""
        return self._wish is not None and read(self._mark).strip() == self._wish.sha256

    def begun(self) -> dict[str, Any] | None:
        """Return {step, argv} of what a former run left running or unheard for the same wish.

        Raises Refusal S003 when something else runs.
        """
        record = read_record(self._record)
        if record is None or "step" not in record:
            return None
        step = self._step(record["step"])
        if not self._is_unheard(step):
            return None
        if record["wish"] == self._plain_wish():
            return {"step": record["step"], "argv": record["argv"]}
        if step.status().state == "running":
            raise runs.refuse("S003", name=step.name, command=shlex.join(record["argv"]), log=step.log)
        return None

    # the way back

    def former(self) -> Wish | None:
        """Return the driver that another one took the place of, and its file; None where none is kept."""
        return Wish.of(read_record(self._former_record))

    def see_that_it_is_kept(self) -> None:
        """See that there is a way back to the driver that is there. Raises Refusal D037 where there is none.

        What gpulab began and did not see end is none to go back to.
        """
        found, record = self.installed(), read_record(self._record)
        if found and _is_complete(record) and not self._kept(found, record):
            raise refuse("D037", version=found.version)

    def confirm(self) -> None:
        """Let the former driver go."""
        self._former_record.unlink(missing_ok=True)
        self.clear()

    def _kept(self, found: RunfileDriver, record: runfile.Recorded | None) -> Wish | None:
        """Return what brings a driver that is there back; None where gpulab does not have its file."""
        wish = Wish.of(record) if record and record.get("complete") else None
        return wish if wish and runfile.is_there(found, wish.driver) and self._file(wish).is_file() else None

    # the file

    def fetch(self, download: Callable[[Path], None]) -> None:
        """Have the file unpacked: download it unless it is kept, compare, and see that it is the planned driver.

        Raises Refusal D030, D031, D032 and D035; nothing of the file is left then.
        """
        wish = self._wanted()
        self.clear()
        self._home.mkdir(mode=0o700, parents=True, exist_ok=True)
        file = self._file(wish)
        try:
            if not (file.is_file() and sha256(file) == wish.sha256):
                self._download(download)
            self._unpack()
        except Refusal:
            self.clear()
            raise
        self._mark.write_text(f"{wish.sha256}\n")

    def _download(self, download: Callable[[Path], None]) -> None:
        wish = self._wanted()
        file = self._file(wish)
        try:
            download(file)
        except (OSError, ValueError) as error:  # of which urllib's are
            raise refuse("D030", url=wish.url, detail=error) from error
        found = sha256(file)
        if found != wish.sha256:
            raise refuse("D031", url=wish.url, found=found, wanted=wish.sha256)

    def _unpack(self) -> None:
        wish = self._wanted()
        argv = ["sh", str(self._file(wish)), "--extract-only", "--target", str(self._tree)]
        rc, output, errors = self._call(argv)
        if rc != 0 or not (self._tree / "nvidia-installer").is_file():
            said = (errors.strip() or output.strip() or "nothing").splitlines()[-1]
            raise refuse("D032", url=wish.url, version=wish.driver.version, detail=f"unpacking it printed: {said}")
        found = runfile.manifest_version(read(self._tree / ".manifest"))
        if found != wish.driver.version:
            raise refuse("D032", url=wish.url, version=wish.driver.version, detail=f"it is driver {found}")
        runfile.arguments(self._usage(), wish.driver, "any")
        if not self._source().is_dir():
            raise refuse("D035", **asdict(wish.driver))

    # trying

    def try_build(self, kernel: str) -> dict[str, Any]:
        """Lay the kernel modules' source out for one kernel; return {step, argv} that builds them. Raises D002."""
        if not dkms.has_headers(kernel, self._at("/lib/modules")):
            raise refuse("D002", module="nvidia", kernel=kernel)
        place = self._home / f"try-{kernel}"
        step = self._step(build_step(kernel))
        if not (place.is_dir() and self._is_unheard(step)):
            shutil.rmtree(place, ignore_errors=True)
            shutil.copytree(self._source(), place, symlinks=True)
        options = ["--directory", str(place), f"--jobs={os.cpu_count() or 1}", f"KERNEL_UNAME={kernel}"]
        return {"step": step.name, "argv": ["make", *options, *self._compiler(kernel), "modules"]}

    def explain_build(self, kernel: str, log: str) -> Refusal:
        """Return why the modules do not build for a kernel; nothing of the file is left then, unless it is kept."""
        error = dkms.first_compiler_error(read(Path(log)))
        self.clear()
        wish = self._wanted()
        return refuse("D033", **asdict(wish.driver), kernel=kernel, log=log, **dkms.told(error))

    # installing

    def start(self, kernel: str, *, keep_former: bool) -> dict[str, Any]:
        """Note that an installation begins; return {step, argv} of the installer, which builds for this kernel.

        Where the driver that is there is to be kept, what brings it back is noted before, unless an interrupted
        change has one noted already.
        """
        wish, former = self._wanted(), self.installed()
        kept = self._kept(former, read_record(self._record)) if former and keep_former else None
        if kept and not self.former():
            records.write(self._former_record, {"wish": asdict(kept)}, 0o600)
        program = str(self._tree / "nvidia-installer")
        compiler = self._compiler(kernel)
        start = ["env", *compiler] if compiler else []
        argv = [*start, program, *runfile.arguments(self._usage(), wish.driver, kernel)]
        self._write_record(INSTALL, argv, complete=False, former=former.version if former else None)
        return {"step": INSTALL, "argv": argv}

    def explain(self) -> Refusal:
        """Return why the installer failed, and what is left of the driver of before."""
        version, record = self._wanted().driver.version, read_record(self._record)
        former = record.get("former") if record else None
        found = self.installed()
        make_log = dkms.make_log("nvidia", version, self._at(dkms.TREE))
        error = runfile.first_error(read(self._at(runfile.LOG)), read(make_log))
        if former is None:
            left = "No .run driver was installed before. The next run tries again."
        elif found and found.version == former:
            left = f"The driver {former} is still installed."
        else:
            left = f"The driver {former} was already removed."
        return refuse("D034", version=version, log=runfile.LOG, left=left, **dkms.told(error, NO_WAY))

    def finish(self) -> None:
        """See that the driver is there, and let go of what was unpacked. Raises Refusal D034."""
        wish, found = self._wanted(), self.installed()
        if not runfile.is_there(found, wish.driver):
            error, left = "it reported success", f"Now installed: {found or 'no driver'}."
            raise refuse("D034", version=wish.driver.version, error=error, log=runfile.LOG, left=left, way=NO_WAY)
        self._write_record(complete=True)
        self.clear()

    # removing

    def start_removal(self) -> dict[str, Any] | None:
        """Return {step, argv} of the uninstaller; None where there is nothing to uninstall."""
        uninstaller = self._uninstaller()
        if not uninstaller:
            return None
        argv = [uninstaller, *runfile.removal_arguments(self._help_of(uninstaller))]
        self._write_record(REMOVE, argv, complete=False)
        return {"step": REMOVE, "argv": argv}

    def finish_removal(self) -> None:
        """See that the driver is gone, and forget it. Raises Refusal D036."""
        found = self.installed()
        if found:
            error = runfile.first_error(read(self._at(runfile.UNINSTALL_LOG)), "")
            place = self._uninstaller()
            raise refuse("D036", version=found.version, error=error, log=runfile.UNINSTALL_LOG, uninstaller=place)
        shutil.rmtree(self._home, ignore_errors=True)

    def clear(self) -> None:
        """Remove what was unpacked, and all files but those of the drivers on record."""
        for place in (self._tree, *self._home.glob("try-*")):
            shutil.rmtree(place, ignore_errors=True)
        kept = {self._file(wish) for wish in (Wish.of(read_record(self._record)), self.former()) if wish}
        for file in {self._mark, *self._home.glob("*.run")} - kept:
            file.unlink(missing_ok=True)
        if self._home.is_dir() and not any(self._home.iterdir()):
            self._home.rmdir()

    # the rest

    def _at(self, path: str | Path) -> Path:
        return self._root / str(path).lstrip("/")

    def _wanted(self) -> Wish:
        if self._wish is None:
            raise ValueError
        return self._wish

    def _file(self, wish: Wish) -> Path:
        return self._home / f"{wish.sha256}.run"

    def _uninstaller(self) -> str | None:
        return next((place for place in runfile.UNINSTALLERS if self._at(place).is_file()), None)

    def _source(self) -> Path:
        return self._tree / runfile.SOURCES[str(self._wanted().driver.kernel_modules)]

    def _compiler(self, kernel: str) -> list[str]:
        """Return the assignment of CC that takes the kernel's own compiler, where it is there; else nothing."""
        found = kernel_compiler.of_config(read(self._at(kernel_compiler.CONFIG.format(kernel))))
        return [f"CC={found}"] if found and self._at(f"/usr/bin/{found}").exists() else []

    def _usage(self) -> str:
        return self._help_of(str(self._tree / "nvidia-installer"))

    def _help_of(self, program: str) -> str:
        return "".join(self._call([program, "--advanced-options"])[1:])

    def _step(self, name: str) -> Step:
        return Step(name, self._call, self._boot_id, self._at(STEPS))

    def _is_unheard(self, step: Step) -> bool:
        state = step.status().state
        return state == "running" or (state == "finished" and not step.acknowledged())

    def _plain_wish(self) -> dict[str, Any] | None:
        return asdict(self._wish) if self._wish else None

    def _write_record(
        self, step: str | None = None, argv: list[str] | None = None, *, complete: bool, former: str | None = None
    ) -> None:
        record: dict[str, Any] = {"wish": self._plain_wish(), "complete": complete}
        if step:
            record.update(step=step, argv=argv, former=former)
        records.write(self._record, record, 0o600)


def read_record(path: Path) -> runfile.Recorded | None:
    """Return a record; None where there is none."""
    return records.read(path, runfile.Recorded, None, runfile.LOST)


def _is_complete(record: runfile.Recorded | None) -> bool:
    """Tell whether nothing was begun whose end nobody has seen."""
    return record is None or record.get("complete", True)


def build_step(kernel: str) -> str:
    """Return the name of the step that tries the build for a kernel; systemd does not take every letter of it."""
    return re.sub(r"[^A-Za-z0-9_.-]", "-", f"nvidia-runfile-{kernel}")

# Copyright (c) 2026 The gpulab founders
# GNU General Public License v3.0+ (see https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Which CUDA, cuDNN and NCCL a program really gets, where these do not fit each other, and the one line to change."""

from __future__ import annotations

import json
import posixpath
from dataclasses import dataclass
from typing import TYPE_CHECKING

from ansible_collections.gpulab.node.plugins.module_utils.diagnosis.libraries import directories
from ansible_collections.gpulab.node.plugins.plugin_utils.diagnosis.model import (
    HALF,
    LITTLE,
    MISMATCH,
    MOST,
    SOME,
    STOPS,
    Finding,
    named,
    rule,
)

if TYPE_CHECKING:
    from collections.abc import Iterator

    from ansible_collections.gpulab.node.plugins.module_utils.diagnosis.shapes import (
        CudaLibrary,
        ExaminedProcess,
        PythonEnvironment,
    )
    from ansible_collections.gpulab.node.plugins.plugin_utils.diagnosis.model import Case

LINKER = "https://man7.org/linux/man-pages/man8/ld.so.8.html"
EXTENSIONS = "https://docs.pytorch.org/docs/stable/cpp_extension.html"
COMPATIBILITY = "https://docs.nvidia.com/deploy/cuda-compatibility/"


@dataclass(frozen=True)
class View:
    """How one program, or a user's session, finds libraries: variables, where each is set, and its environment."""

    who: str
    variables: dict[str, str]
    environment: PythonEnvironment | None


def views(case: Case) -> list[View]:
    """Return the views of the processes that the diagnosis is for, and of sessions, each with every environment."""
    environments = {one.prefix: one for one in case.evidence.environments}
    found = []
    for record in case.processes:
        known = next((env for prefix, env in environments.items() if _runs(record, prefix)), None)
        if known:
            found.append(View(named(record), record.environment, known))
    session: dict[str, str] = {}
    for setting in case.evidence.settings:
        session[setting.name] = setting.value
    who = f"a session of {case.asked.user}" if case.asked.user else "every session"
    found += [View(who, session, env) for env in environments.values()] or [View(who, session, None)]
    return found


def _runs(record: ExaminedProcess, prefix: str) -> bool:
    program = record.arguments.partition(" ")[0]
    return program.startswith(f"{prefix}/bin/") or any(site.startswith(f"{prefix}/lib") for site in record.sites)


def commented(case: Case, name: str, value: str) -> str:
    """Return the command that takes a setting out of the file that makes it; empty where no file does."""
    for setting in case.evidence.settings:
        if setting.name == name and value in setting.value:
            return f"; sed -i '{setting.line}s/^/# /' {setting.file}"
    return ""


def _without(case: Case, view: View, unwanted: str) -> str:
    """Return the command that takes one directory out of LD_LIBRARY_PATH, here and in the file that sets it."""
    rest = [part for part in directories(view.variables.get("LD_LIBRARY_PATH", "")) if part != unwanted]
    command = f"export LD_LIBRARY_PATH={':'.join(rest)}" if rest else "unset LD_LIBRARY_PATH"
    return command + commented(case, "LD_LIBRARY_PATH", unwanted)


def _searched(case: Case, view: View) -> Iterator[tuple[str, CudaLibrary]]:
    """Yield (directory, library) for all that LD_LIBRARY_PATH leads a program to, in the linker's order."""
    there = {one.path: one.found for one in case.evidence.directories}
    for directory in directories(view.variables.get("LD_LIBRARY_PATH", "")):
        for one in there.get(directory, []):
            yield directory, one


@rule("mismatch-shadowed", MISMATCH, LINKER)
def shadowed(case: Case) -> Iterator[Finding]:
    """Find libraries in LD_LIBRARY_PATH that go before those that a framework brought, in another version."""
    told = set()
    for view in views(case):
        if not view.environment:
            continue
        own = {(one.library, one.major): one for one in view.environment.libraries}
        for directory, one in _searched(case, view):
            brought = own.get((one.library, one.major))
            if not brought or posixpath.dirname(brought.path) == directory or one.library == "cuda":
                continue
            if one.version and brought.version and _same(one.version, brought.version):
                continue
            if (view.who, directory) in told:
                continue
            told.add((view.who, directory))
            yield Finding(
                f"LD_LIBRARY_PATH gives {view.who} lib{one.library} {one.version or 'of another kind'} from "
                f"{directory}, before the {brought.version or 'one'} of {view.environment.prefix}",
                _without(case, view, directory),
                STOPS,
                (one.path, brought.path),
            )


def _same(one: str, other: str) -> bool:
    """Compare two versions as far as both tell: the file may name fewer parts than the wheel."""
    first, second = one.split("."), other.split(".")
    length = min(len(first), len(second), 3)
    return first[:length] == second[:length]


@rule("mismatch-stub", MISMATCH, LINKER)
def stub(case: Case) -> Iterator[Finding]:
    """Find the toolkit's stub of libcuda where programs look for the driver."""
    for view in views(case):
        for directory in directories(view.variables.get("LD_LIBRARY_PATH", "")):
            if directory.endswith("/stubs"):
                yield Finding(
                    f"LD_LIBRARY_PATH leads {view.who} to the stub of libcuda in {directory}: it finds no GPU",
                    _without(case, view, directory),
                    STOPS,
                    (f"LD_LIBRARY_PATH={view.variables['LD_LIBRARY_PATH']}",),
                )
                return


@rule("mismatch-driver-library", MISMATCH, COMPATIBILITY)
def driver_library(case: Case) -> Iterator[Finding]:
    """Find a libcuda that is not the driver's, before it."""
    driver = case.facts.get("driver.library")
    for view in views(case):
        for directory, one in _searched(case, view):
            other = one.library == "cuda" and driver and one.version and not _same(one.version, driver)
            if other and not directory.endswith("/stubs"):
                yield Finding(
                    f"LD_LIBRARY_PATH gives {view.who} libcuda {one.version} of {directory}; the driver is {driver}",
                    _without(case, view, directory),
                    STOPS,
                    (one.path,),
                )
                return


@rule("mismatch-loaded-twice", MISMATCH, LINKER)
def loaded_twice(case: Case) -> Iterator[Finding]:
    """Find a process that has one library from two places in its memory."""
    for record in case.processes:
        places: dict[str, set[str]] = {}
        for path in record.libraries:
            name = posixpath.basename(path).partition(".so")[0]
            places.setdefault(name.partition("_")[0] if name.startswith("libcudnn") else name, set()).add(
                posixpath.dirname(path)
            )
        for name, there in places.items():
            if len(there) > 1:
                first, *others = sorted(there)
                yield Finding(
                    f"{named(record)} has {name} from {len(there)} places in its memory: {', '.join(sorted(there))}",
                    f"Start it without the one that is not the framework's: unset LD_LIBRARY_PATH LD_PRELOAD"
                    f"{commented(case, 'LD_LIBRARY_PATH', others[0]) or commented(case, 'LD_LIBRARY_PATH', first)}",
                    MOST,
                    tuple(sorted(there)),
                )


def major(version: str | None) -> str:
    """Return the first number of a version."""
    return (version or "").partition(".")[0]


@rule("mismatch-cuda-home", MISMATCH, EXTENSIONS)
def cuda_home(case: Case) -> Iterator[Finding]:
    """Find a CUDA_HOME that leads nowhere, or to another CUDA than PyTorch was built for."""
    told = set()
    for view in views(case):
        for variable in ("CUDA_HOME", "CUDA_PATH"):
            home = view.variables.get(variable, "").rstrip("/")
            if home.startswith("/") and "$" not in home and (variable, home) not in told:
                found = _wrong_home(case, view, variable, home)
                if found:
                    told.add((variable, home))
                    yield found


def _wrong_home(case: Case, view: View, variable: str, home: str) -> Finding | None:
    toolkits = {one.prefix: one.version for one in case.evidence.toolkits}
    real = case.facts.get("cuda.default") if home == "/usr/local/cuda" else home
    version = toolkits.get(real or home)
    built = view.environment.torch_cuda if view.environment else None
    fits = [prefix for prefix, one in toolkits.items() if built and major(one) == major(built)]
    remedy = (f"export {variable}={fits[-1]}" if fits else f"unset {variable}") + commented(case, variable, home)
    if version is None and home.startswith("/usr/local/cuda"):
        cause = f"{variable} leads {view.who} to {home}, where no CUDA toolkit is"
        return Finding(cause, remedy, HALF, (f"toolkits on this node: {', '.join(sorted(toolkits)) or 'none'}",))
    if view.environment and version and built and built != "None" and major(version) != major(built):
        cause = (
            f"{variable} is CUDA {version}, but PyTorch in {view.environment.prefix} was built for CUDA {built}: its"
            " extensions do not compile"
        )
        return Finding(cause, remedy, HALF, (f"{variable}={home}",))
    return None


def _take_away(names: list[str]) -> str:
    """Return the command that moves strays of CUDA aside, after looking whether anything needs them."""
    wanted = json.dumps({"cuda_remove_strays": names})
    return f"ansible-playbook gpulab.node.provision -l NODE --tags cuda -e '{wanted}'"


@rule("mismatch-linker-twice", MISMATCH, LINKER)
def linker_twice(case: Case) -> Iterator[Finding]:
    """Find one library in several versions in the linker's own directories: which one a program gets is chance."""
    places: dict[tuple[str, str], dict[str, str]] = {}
    for one in case.evidence.linker:
        if one.version:
            places.setdefault((one.library, one.major), {}).setdefault(one.version, one.path)
    for (library, _major_version), versions in places.items():
        if len(versions) > 1 and library != "cuda":
            stray = next((path for path in versions.values() if path.startswith("/usr/local")), None)
            path = stray or list(versions.values())[-1]
            files: list[str] = next((one.files for one in case.evidence.linker if one.path == path), [])
            yield Finding(
                f"the linker knows lib{library} in {len(versions)} versions: {', '.join(sorted(versions))}",
                _take_away(files)
                if files
                else f"dpkg -S {path} || rpm -qf {path}; then, with its package: {_take_away(['PACKAGE'])}",
                SOME,
                tuple(versions.values()),
            )


@rule("mismatch-own-toolkit", MISMATCH, "https://docs.nvidia.com/cuda/cuda-installation-guide-linux/")
def own_toolkit(case: Case) -> Iterator[Finding]:
    """Find a toolkit of a .run file that is the default beside one of packages."""
    default = case.facts.get("cuda.default")
    packaged = [one for one in case.evidence.toolkits if not one.own and one.prefix != "/usr"]
    for toolkit in case.evidence.toolkits:
        if toolkit.own and toolkit.prefix == default and packaged:
            yield Finding(
                f"/usr/local/cuda leads to CUDA {toolkit.version} of a .run file, not to CUDA "
                f"{packaged[-1].version} of packages",
                _take_away([toolkit.prefix, *toolkit.settings]),
                SOME,
                (f"{toolkit.prefix}/bin/cuda-uninstaller",),
            )


@rule("mismatch-missing-directory", MISMATCH, LINKER)
def missing_directory(case: Case) -> Iterator[Finding]:
    """Find CUDA directories in LD_LIBRARY_PATH that are not there."""
    gone = {one.path for one in case.evidence.directories if not one.there and "cuda" in one.path}
    for view in views(case):
        missing = [part for part in directories(view.variables.get("LD_LIBRARY_PATH", "")) if part in gone]
        if missing:
            yield Finding(
                f"LD_LIBRARY_PATH leads {view.who} to {missing[0]}, which does not exist",
                _without(case, view, missing[0]),
                LITTLE,
                (f"LD_LIBRARY_PATH={view.variables['LD_LIBRARY_PATH']}",),
            )
            return

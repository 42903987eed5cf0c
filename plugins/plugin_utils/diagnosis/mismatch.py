# Copyright (c) 2026 The gpulab founders
# GNU General Public License v3.0+ (see https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Which CUDA, cuDNN and NCCL a program really gets, where these do not fit each other, and the one line to change."""

from __future__ import annotations

import json
import posixpath
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

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
from ansible_collections.gpulab.node.plugins.plugin_utils.versions import version_key

if TYPE_CHECKING:
    from collections.abc import Iterator

    from ansible_collections.gpulab.node.plugins.plugin_utils.diagnosis.model import Case

LINKER = "https://man7.org/linux/man-pages/man8/ld.so.8.html"
EXTENSIONS = "https://docs.pytorch.org/docs/stable/cpp_extension.html"
COMPATIBILITY = "https://docs.nvidia.com/deploy/cuda-compatibility/"
SITE = "https://docs.python.org/3/library/site.html"
GET_STARTED = "https://pytorch.org/get-started/locally/"
WHEELS = "https://download.pytorch.org/whl"
FRAMEWORKS = ("torch", "tensorflow", "jaxlib")


@dataclass(frozen=True)
class View:
    """How one program, or a user's session, finds libraries: variables, where each is set, and its environment."""

    who: str
    variables: dict[str, str]
    environment: dict[str, Any] | None
    loaded: tuple[str, ...] = ()


def views(case: Case) -> list[View]:
    """Return the views of the processes that the diagnosis is for, and of sessions, each with every environment."""
    environments = {one["prefix"]: one for one in case.evidence["environments"]}
    found = []
    for record in case.processes:
        known = next(
            (env for prefix, env in environments.items() if _runs(record, prefix)),
            None,
        )
        if known:
            found.append(View(named(record), record["environment"], known, tuple(record["libraries"])))
    session: dict[str, str] = {}
    for setting in case.evidence["settings"]:
        session[setting["name"]] = setting["value"]
    who = f"a session of {case.asked['user']}" if case.asked["user"] else "every session"
    found += [View(who, session, env) for env in environments.values()] or [View(who, session, None)]
    return found


def _runs(record: dict[str, Any], prefix: str) -> bool:
    program = record["arguments"].partition(" ")[0]
    return program.startswith(f"{prefix}/bin/") or any(site.startswith(f"{prefix}/lib") for site in record["sites"])


def _line(case: Case, name: str, value: str) -> str:
    """Return the command that takes a setting out of the file that makes it; empty where no file does."""
    for setting in case.evidence["settings"]:
        if setting["name"] == name and value in setting["value"]:
            return f"; sed -i '{setting['line']}s/^/# /' {setting['file']}"
    return ""


def _without(case: Case, view: View, unwanted: str) -> str:
    """Return the command that takes one directory out of LD_LIBRARY_PATH, here and in the file that sets it."""
    rest = [part for part in directories(view.variables.get("LD_LIBRARY_PATH", "")) if part != unwanted]
    command = f"export LD_LIBRARY_PATH={':'.join(rest)}" if rest else "unset LD_LIBRARY_PATH"
    return command + _line(case, "LD_LIBRARY_PATH", unwanted)


def _searched(case: Case, view: View) -> Iterator[tuple[str, dict[str, Any]]]:
    """Yield (directory, library) for all that LD_LIBRARY_PATH leads a program to, in the linker's order."""
    there = {one["path"]: one for one in case.evidence["directories"]}
    for directory in directories(view.variables.get("LD_LIBRARY_PATH", "")):
        for one in there.get(directory, {"found": []})["found"]:
            yield directory, one


@rule("mismatch-shadowed", MISMATCH, LINKER)
def shadowed(case: Case) -> Iterator[Finding]:
    """Find libraries in LD_LIBRARY_PATH that go before those that a framework brought, in another version."""
    told = set()
    for view in views(case):
        own = {(one["library"], one["major"]): one for one in (view.environment or {"libraries": []})["libraries"]}
        for directory, one in _searched(case, view):
            brought = own.get((one["library"], one["major"]))
            if not brought or posixpath.dirname(brought["path"]) == directory or one["library"] == "cuda":
                continue
            if one["version"] and brought["version"] and _same(one["version"], brought["version"]):
                continue
            if (view.who, directory) in told:
                continue
            told.add((view.who, directory))
            yield Finding(
                f"LD_LIBRARY_PATH gives {view.who} lib{one['library']} {one['version'] or 'of another kind'} from "
                f"{directory}, before the {brought['version'] or 'one'} of {(view.environment or {}).get('prefix')}",
                _without(case, view, directory),
                STOPS,
                (one["path"], brought["path"]),
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
            other = one["library"] == "cuda" and driver and one["version"] and not _same(one["version"], driver)
            if other and not directory.endswith("/stubs"):
                yield Finding(
                    f"LD_LIBRARY_PATH gives {view.who} libcuda {one['version']} of {directory}; the driver is {driver}",
                    _without(case, view, directory),
                    STOPS,
                    (one["path"],),
                )
                return


@rule("mismatch-loaded-twice", MISMATCH, LINKER)
def loaded_twice(case: Case) -> Iterator[Finding]:
    """Find a process that has one library from two places in its memory."""
    for record in case.processes:
        places: dict[str, set[str]] = {}
        for path in record["libraries"]:
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
                    f"{_line(case, 'LD_LIBRARY_PATH', others[0]) or _line(case, 'LD_LIBRARY_PATH', first)}",
                    MOST,
                    tuple(sorted(there)),
                )


@rule("mismatch-cuda-home", MISMATCH, EXTENSIONS)
def cuda_home(case: Case) -> Iterator[Finding]:
    """Find a CUDA_HOME that leads nowhere, or to another CUDA than PyTorch was built for."""
    toolkits = {one["prefix"]: one["version"] for one in case.evidence["toolkits"]}
    told = set()
    for view in views(case):
        for variable in ("CUDA_HOME", "CUDA_PATH"):
            home = view.variables.get(variable, "").rstrip("/")
            if not home.startswith("/") or "$" in home or (variable, home) in told:
                continue
            real = case.facts.get("cuda.default") if home == "/usr/local/cuda" else home
            version = toolkits.get(real or home)
            wanted = (view.environment or {}).get("torch_cuda")
            fits = [prefix for prefix, one in toolkits.items() if wanted and _major(one) == _major(wanted)]
            better = f"export {variable}={fits[-1]}" if fits else f"unset {variable}"
            if version is None and home.startswith("/usr/local/cuda"):
                told.add((variable, home))
                yield Finding(
                    f"{variable} leads {view.who} to {home}, where no CUDA toolkit is",
                    better + _line(case, variable, home),
                    HALF,
                    (f"toolkits on this node: {', '.join(sorted(toolkits)) or 'none'}",),
                )
            elif version and wanted and wanted != "None" and _major(version) != _major(wanted):
                told.add((variable, home))
                yield Finding(
                    f"{variable} is CUDA {version}, but PyTorch in {(view.environment or {}).get('prefix')} was built "
                    f"for CUDA {wanted}: its extensions do not compile",
                    better + _line(case, variable, home),
                    HALF,
                    (f"{variable}={home}",),
                )


def _pip(environment: dict[str, Any]) -> str:
    return f"{environment['prefix']}/bin/python -m pip"


def _major(version: str | None) -> str:
    return (version or "").partition(".")[0]


@rule("mismatch-driver", MISMATCH, COMPATIBILITY)
def driver(case: Case) -> Iterator[Finding]:
    """Find an environment whose PyTorch was built for a CUDA that the driver does not have yet."""
    known = case.facts.get("nvml.cuda_version")
    for environment in case.evidence["environments"]:
        wanted = environment["torch_cuda"]
        if known and wanted and wanted != "None" and int(_major(wanted)) > int(_major(known)):
            fitting = _index(case, environment["packages"].get("torch", ""), _major(known))
            yield Finding(
                f"PyTorch in {environment['prefix']} was built for CUDA {wanted}; the driver runs up to CUDA {known}",
                f"{_pip(environment)} install --force-reinstall torch --index-url {WHEELS}/{fitting}"
                if fitting
                else "Install a newer driver: ansible-playbook gpulab.node.provision --tags nvidia_driver",
                STOPS,
                (f"torch {environment['packages'].get('torch')}, CUDA {wanted}",),
            )


def _index(case: Case, version: str, major: str) -> str | None:
    """Return the index of PyTorch's wheels that has this version, or the newest, for a CUDA major."""
    releases = case.catalog.frameworks["pytorch"]
    public = version.partition("+")[0]
    for name in [public, *reversed(list(releases))]:
        for build in releases.get(name, {"builds": []})["builds"]:
            if _major(str(build["cuda"])) == major:
                return str(build["index"])
    return None


@rule("mismatch-cpu-build", MISMATCH, GET_STARTED)
def cpu_build(case: Case) -> Iterator[Finding]:
    """Find a PyTorch without CUDA on a node with GPUs."""
    cuda = case.facts.get("nvml.cuda_version")
    for environment in case.evidence["environments"]:
        version = environment["packages"].get("torch", "")
        if cuda and (version.endswith("+cpu") or (version and environment["torch_cuda"] == "None")):
            index = _index(case, version, _major(cuda)) or _index(case, version, "12")
            yield Finding(
                f"PyTorch {version} in {environment['prefix']} was built without CUDA: it sees no GPU",
                f"{_pip(environment)} install --force-reinstall torch --index-url {WHEELS}/{index}",
                STOPS,
                (f"torch {version}",),
            )


@rule("mismatch-architecture", MISMATCH, GET_STARTED)
def architecture(case: Case) -> Iterator[Finding]:
    """Find a PyTorch without kernels for this node's GPUs, by the catalog's list of each build."""
    capabilities = sorted({gpu.get("compute_capability") for gpu in case.facts.get("nvml.gpus", [])} - {None})
    for environment in case.evidence["environments"]:
        version, cuda = environment["packages"].get("torch", ""), environment["torch_cuda"]
        record = case.catalog.frameworks["pytorch"].get(version.partition("+")[0])
        build = next((one for one in (record or {"builds": []})["builds"] if str(one["cuda"]) == cuda), None)
        if not build or "compute_capabilities" not in build:
            continue
        unfit = [one for one in capabilities if not _runs_on(one, build["compute_capabilities"], build.get("ptx"))]
        newer = _for_capability(case, unfit[0]) if unfit else None
        if unfit:
            yield Finding(
                f"PyTorch {version} in {environment['prefix']} has no kernels for compute capability {unfit[0]}",
                f"{_pip(environment)} install --force-reinstall torch=={newer[0]} --index-url {WHEELS}/{newer[1]}"
                if newer
                else "No release of PyTorch in the catalog has kernels for this GPU",
                STOPS,
                (f"built for {', '.join(build['compute_capabilities'])}",),
            )


def _runs_on(capability: str, compiled: list[str], ptx: str | None) -> bool:
    """Tell whether kernels run on a GPU: those of its major up to its minor, and PTX of any older one."""
    major, minor = version_key(capability)[:2]
    fits = any(version_key(one)[0] == major and version_key(one)[1] <= minor for one in compiled)
    return fits or (ptx is not None and version_key(ptx)[:2] <= (major, minor))


def _for_capability(case: Case, capability: str) -> tuple[str, str] | None:
    known = case.facts.get("nvml.cuda_version")
    for version, record in reversed(list(case.catalog.frameworks["pytorch"].items())):
        for build in record["builds"]:
            fits = _runs_on(capability, build.get("compute_capabilities", []), build.get("ptx"))
            if fits and (not known or int(_major(str(build["cuda"]))) <= int(_major(known))):
                return version, str(build["index"])
    return None


@rule("mismatch-twice-installed", MISMATCH, WHEELS)
def twice(case: Case) -> Iterator[Finding]:
    """Find one library of NVIDIA's wheels for two CUDA majors in one environment, which overwrite each other."""
    for environment in case.evidence["environments"]:
        majors: dict[str, list[str]] = {}
        for name in environment["packages"]:
            base, _dash, suffix = name.rpartition("-")
            if name.startswith("nvidia-") and suffix.startswith("cu") and suffix[2:].isdigit():
                majors.setdefault(base, []).append(suffix)
        built = environment["torch_cuda"]
        for base in ("nvidia-cudnn", "nvidia-nccl", "nvidia-cublas", "nvidia-cuda-runtime"):
            found = sorted(majors.get(base, []))
            if len(found) > 1:
                keep = f"cu{_major(built)}" if built and f"cu{_major(built)}" in found else found[-1]
                unwanted = [
                    f"{name}"
                    for name in environment["packages"]
                    if name.startswith("nvidia-") and name.rpartition("-")[2] in set(found) - {keep}
                ]
                yield Finding(
                    f"{environment['prefix']} has {base} for {' and '.join(found)}: they overwrite each other's files",
                    f"{environment['prefix']}/bin/python -m pip uninstall -y {' '.join(sorted(unwanted))} && "
                    f"{environment['prefix']}/bin/python -m pip install --force-reinstall --no-deps {base}-{keep}=="
                    f"{environment['packages'][f'{base}-{keep}']}",
                    MOST,
                    tuple(f"{base}-{one} {environment['packages'][f'{base}-{one}']}" for one in found),
                )
                break


@rule("mismatch-user-site", MISMATCH, SITE)
def user_site(case: Case) -> Iterator[Finding]:
    """Find a framework in a user's own directory that goes before the environment's."""
    for environment in case.evidence["environments"]:
        for name in FRAMEWORKS:
            own, theirs = environment["packages"].get(name), environment["user_packages"].get(name)
            isolated = any(one["name"] == "PYTHONNOUSERSITE" and one["value"] for one in case.evidence["settings"])
            if theirs and own and own != theirs and not isolated:
                yield Finding(
                    f"{environment['prefix']} has {name} {own}, but {environment['user_site']} has {theirs}, which goes"
                    " before it",
                    "export PYTHONNOUSERSITE=1",
                    MOST,
                    (f"{name} {theirs} in {environment['user_site']}",),
                )


@rule("mismatch-python-path", MISMATCH, SITE)
def python_path(case: Case) -> Iterator[Finding]:
    """Find a PYTHONPATH that leads one Python to the packages of another."""
    told = set()
    for view in views(case):
        path = view.variables.get("PYTHONPATH", "")
        python = (view.environment or {}).get("python")
        for part in directories(path):
            other = part.rpartition("/lib/python")[2].partition("/")[0] if "-packages" in part else ""
            if other and python and f"python{other}" != python and part not in told:
                told.add(part)
                yield Finding(
                    f"PYTHONPATH gives {view.who} packages of Python {other}, but its Python is {python[6:]}",
                    "unset PYTHONPATH" + _line(case, "PYTHONPATH", part),
                    MOST,
                    (f"PYTHONPATH={path}",),
                )


def _take_away(names: list[str]) -> str:
    """Return the command that moves strays of CUDA aside, after looking whether anything needs them."""
    wanted = json.dumps({"cuda_remove_strays": names})
    return f"ansible-playbook gpulab.node.provision -l NODE --tags cuda -e '{wanted}'"


@rule("mismatch-linker-twice", MISMATCH, LINKER)
def linker_twice(case: Case) -> Iterator[Finding]:
    """Find one library in several versions in the linker's own directories: which one a program gets is chance."""
    places: dict[tuple[str, str], dict[str, str]] = {}
    for one in case.evidence["linker"]:
        if one["version"]:
            places.setdefault((one["library"], one["major"]), {}).setdefault(one["version"], one["path"])
    for (library, _major_version), versions in places.items():
        if len(versions) > 1 and library != "cuda":
            stray = next((path for path in versions.values() if path.startswith("/usr/local")), None)
            path = stray or list(versions.values())[-1]
            files: list[str] = next((one["files"] for one in case.evidence["linker"] if one["path"] == path), [])
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
    packaged = [one for one in case.evidence["toolkits"] if not one["own"] and one["prefix"] != "/usr"]
    for toolkit in case.evidence["toolkits"]:
        if toolkit["own"] and toolkit["prefix"] == default and packaged:
            yield Finding(
                f"/usr/local/cuda leads to CUDA {toolkit['version']} of a .run file, not to CUDA "
                f"{packaged[-1]['version']} of packages",
                _take_away([toolkit["prefix"], *toolkit["settings"]]),
                SOME,
                (f"{toolkit['prefix']}/bin/cuda-uninstaller",),
            )


@rule("mismatch-missing-directory", MISMATCH, LINKER)
def missing_directory(case: Case) -> Iterator[Finding]:
    """Find CUDA directories in LD_LIBRARY_PATH that are not there."""
    gone = {one["path"] for one in case.evidence["directories"] if not one["there"] and "cuda" in one["path"]}
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

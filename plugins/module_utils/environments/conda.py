# Copyright (c) 2026 The gpulab founders
# GNU General Public License v3.0+ (see https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Conda environments: what is wanted of one, what its lock says, what micromamba printed. No I/O happens here.

Builds, links and records are those of virtual environments (see venv). A lock is an explicit one of conda's, which any
conda tool takes as it is, with the packages of pip in comments:

    @EXPLICIT
    https://conda.anaconda.org/conda-forge/noarch/six-1.17.0-py_0.conda#SHA256
    # pip albumentations==2.0.8 --hash=sha256:...
    # pip of_an_address @ https://.../of_an_address-1.0-py3-none-any.whl --hash=sha256:...
    # pip of_a_commit @ git+https://...@COMMIT
"""

from __future__ import annotations

import hashlib
import json
import re
from dataclasses import asdict, dataclass, field, replace
from typing import TYPE_CHECKING, Any

from ansible_collections.gpulab.node.plugins.module_utils.core.refusals.environments import refuse
from ansible_collections.gpulab.node.plugins.module_utils.environments import venv

if TYPE_CHECKING:
    from ansible_collections.gpulab.node.plugins.module_utils.core.refusal import Refusal

EXPLICIT = "@EXPLICIT"
PIP_LINE = "# pip "
BY_PIP = "(pip)"
UNKNOWN_OF_PIP = "(pip; its version is known after it is built)"
FRAMEWORKS = {"pytorch": ("pytorch", "torch"), "tensorflow": ("tensorflow",), "jax": ("jax",)}
BUILDS = {"jax": "jaxlib"}  # the package whose build is for a CUDA, where it is not the framework's: jax is for any

_EXPLICIT_LINE = re.compile(
    r"^(\S+/([^/\s#]+)-([^-/\s#]+)-([^-/\s#]+)\.(?:conda|tar\.bz2))#(?:sha256:)?([0-9a-f]{64})$"
)

_OF_A_COMMIT = re.compile(r"^(?:[A-Za-z0-9][\w.-]*(?:\[[^\]]*\])?\s*@\s*)?git\+\w+://\S+@[0-9a-f]{40}(?:#\S*)?$")
_CPU = re.compile(r"(?:^|::)cpuonly\b|-cpu\b|[=\s*]cpu")  # cpuonly, pytorch-cpu, pytorch=*=cpu*, jaxlib=*=*cpu*
_FURTHER = re.compile(r"^(?:--extra-index-url|--find-links|-f)[\s=]*\S+$")

_NOWHERE = (
    r"does not exist \(perhaps a typo|nothing provides requested|package not found|because of: no candidates were found"
)

# What micromamba told, and the refusal that it means; the first that is found counts.
CAUSES = [
    ("E011", r"No space left on device|Disk quota exceeded"),
    ("E003", r"(?:sha256|md5)(?: sum)? doesn't match|checksum|hash mismatch"),
    ("E031", _NOWHERE),
    ("E004", r"could not solve|nothing provides|none of the providers|cannot solve|package not found|no candidates"),
    ("E012", r"download error|could(?: not|n't) (?:connect|resolve)|status: \d{3}|error sending request"),
    ("E012", r"failed to download|SSL (?:peer )?certificate"),
]


@dataclass(frozen=True)
class Wanted:
    """What is wanted of an environment.

    packages are as conda takes them, pip as pip does; lock stands in for both. channels are names or addresses. cuda is
    the CUDA that packages are chosen for, None for builds without it, whatever driver is loaded. variables are set in
    every interpreter of the environment where its user has not set them.
    """

    name: str
    packages: tuple[str, ...] = ()
    channels: tuple[str, ...] = ()
    pip: tuple[str, ...] = ()
    lock: str | None = None
    variables: dict[str, str] = field(default_factory=dict)
    framework: str | None = None
    cuda: str | None = None

    @property
    def fingerprint(self) -> str:
        """Return a digest of all that decides what a build holds.

        Servers do not count: of a channel the last part does, of a lock the files. Nor does the version of CUDA, so
        that another driver rebuilds nothing; that there is one does.
        """
        given = {
            **asdict(self),
            "channels": [channel.rstrip("/").rpartition("/")[2] for channel in self.channels],
            "cuda": self.cuda is not None,
        }
        if self.lock is not None:
            lock = locked(self.lock)
            files = [sorted(one.file for one in lock.packages), sorted(lock.pip)]
            given = {**given, "lock": files, "packages": [], "channels": [], "pip": [], "cuda": None}
        return hashlib.sha256(json.dumps(given, sort_keys=True).encode()).hexdigest()

    def expected(self, packages: dict[str, str]) -> dict[str, Any]:
        """Return what the proof compares with: framework and CUDA as the packages of the build have them."""
        label = next((packages[name] for name in FRAMEWORKS.get(self.framework or "", ()) if name in packages), "")
        version = label.partition(" ")[0]
        cuda = _cuda(packages.get(BUILDS.get(self.framework or "", ""), label), packages)
        return {
            "framework": self.framework,
            "version": version.partition("+")[0] or None,
            "cuda": cuda or (venv.ANY if self.cuda and not self._asks_for_cpu() else None),
            "variables": self.variables,
        }

    def _asks_for_cpu(self) -> bool:
        """Tell whether a build without CUDA is asked for: by the name or the build of a package, or by a lock."""
        return self.lock is not None or any(_CPU.search(one) for one in self.packages)


@dataclass(frozen=True)
class Package:
    """A package of an explicit lock."""

    url: str
    name: str
    version: str
    build: str
    sha256: str

    @property
    def file(self) -> str:
        """Return what makes the file known wherever it lies."""
        return f"{self.name}-{self.version}-{self.build}#{self.sha256}"


@dataclass(frozen=True)
class Lock:
    """The packages of conda, in the order in which they are linked, and lines for pip with hashes."""

    packages: tuple[Package, ...]
    pip: tuple[str, ...]

    def versions(self) -> dict[str, str]:
        """Return the packages as listings have them."""
        found = {one.name: f"{one.version} {one.build}" for one in self.packages}
        by_pip = venv.locked("\n".join(line for line in self.pip if not is_of_a_commit(line)))
        of_commits = [venv.normalized(name_of(line)) for line in self.pip if is_of_a_commit(line)]
        found.update((name, f"{version} {BY_PIP}") for name, version in by_pip.items())
        return {**found, **dict.fromkeys(of_commits, UNKNOWN_OF_PIP)}

    def explicit(self) -> str:
        """Return the part that micromamba takes."""
        return "\n".join([EXPLICIT, *(f"{one.url}#{one.sha256}" for one in self.packages)]) + "\n"

    def text(self) -> str:
        """Return the whole lock."""
        return self.explicit() + "".join(f"{PIP_LINE}{line}\n" for line in self.pip)


def name_of(requirement: str) -> str:
    """Return the package that a line for conda or pip is about, as far as the line says so."""
    if re.match(r"[a-z+]+://", requirement):
        address, _sign, fragment = requirement.partition("#")
        named = re.search(r"egg=([\w.-]+)", fragment)
        last = re.sub(r"\.git$|-\d[^/]*$", "", re.sub(r"@[^/@]*$", "", address)).rpartition("/")[2]
        return (named[1] if named else last).lower()
    return re.split(r"[ =<>!~\[;@]", requirement.rpartition("::")[2], maxsplit=1)[0].lower()


def is_of_a_commit(line: str) -> bool:
    """Tell whether a line for pip names a commit of a git repository: what it holds is known without a hash."""
    return bool(_OF_A_COMMIT.match(line))


def options_of(pip: tuple[str, ...]) -> tuple[str, ...]:
    """Return the lines for pip that name no package."""
    return tuple(line for line in pip if line.startswith("-"))


def locked(text: str) -> Lock:
    """Return what a lock says. Raises Refusal E007 for a line that pins nothing."""
    packages, pip = [], []
    lines = [line.strip() for line in text.splitlines() if line.strip()]
    if EXPLICIT not in lines:
        raise refuse("E007", line=lines[0] if lines else "(it is empty)")
    for line in lines:
        if line.startswith(PIP_LINE):
            pip.append(_checked(line[len(PIP_LINE) :].strip()))
        elif line != EXPLICIT and not line.startswith("#"):
            match = _EXPLICIT_LINE.match(line)
            if not match:
                raise refuse("E007", line=line)
            packages.append(Package(*match.groups()))
    return Lock(tuple(packages), tuple(pip))


def _checked(line: str) -> str:
    """Return a line for pip of a lock. Raises Refusal E007 for one that pins nothing."""
    if not is_of_a_commit(line) and not _FURTHER.match(line):
        if line.startswith("-"):
            raise refuse("E007", line=line)
        venv.locked(line)
    return line


def lock_of(records: list[dict[str, Any]], report: dict[str, Any], options: tuple[str, ...] = ()) -> Lock:
    """Return the lock of a build: of its conda-meta, and of what pip reported when it installed with options.

    Raises Refusal E007 for a package of conda without its SHA-256, E022 for one of pip: before 23.1, that reports what
    the index told, and works none out itself; E030 for one whose source can change.
    """
    packages = []
    for record in in_order(records):
        line = f"{record['url']}#{record.get('sha256')}"
        if not _EXPLICIT_LINE.match(line):
            raise refuse("E007", line=line)
        packages.append(Package(record["url"], record["name"], record["version"], record["build"], record["sha256"]))
    pip = [_line_of_pip(one) for one in report.get("install", [])]
    places = [line for line in options if _FURTHER.match(line)]
    return Lock(tuple(packages), (*places, *sorted(pip)))


def _sha256(archive: dict[str, Any]) -> str:
    """Return the SHA-256 of an archive; before 23.1, pip told one digest, as "sha256=HEX". Empty where it told none."""
    kind, _sign, digest = str(archive.get("hash") or "").partition("=")
    return archive.get("hashes", {}).get("sha256") or (digest if kind == "sha256" else "")


def _line_of_pip(installed: dict[str, Any]) -> str:
    """Return the line of the lock for a package that pip reported. Raises Refusal E022 and E030."""
    name, source = installed["metadata"]["name"], installed["download_info"]
    pinned, address = f"{name}=={installed['metadata']['version']}", source.get("url", "")
    part = f"#subdirectory={source['subdirectory']}" if source.get("subdirectory") else ""
    if "archive_info" in source:
        digest = _sha256(source["archive_info"])
        if not digest:
            raise refuse("E022", package=pinned)
        return f"{name + ' @ ' + address + part if installed.get('is_direct') else pinned} --hash=sha256:{digest}"
    commit = source.get("vcs_info", {})
    line = f"{name} @ git+{address}@{commit.get('commit_id')}{part}"
    if commit.get("vcs") != "git" or not is_of_a_commit(line):
        raise refuse("E030", package=pinned, source=address or "an unknown place")
    return line


def in_order(records: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Return packages each after those that it depends on: an explicit lock is linked as it is written."""
    by_name = {record["name"]: record for record in sorted(records, key=lambda record: str(record["name"]))}
    done: dict[str, dict[str, Any]] = {}

    def visit(name: str, above: frozenset[str]) -> None:
        if name in done or name in above or name not in by_name:
            return
        for dependency in sorted(by_name[name].get("depends", [])):
            visit(dependency.split()[0], above | {name})
        done[name] = by_name[name]

    for name in by_name:
        visit(name, frozenset())
    return list(done.values())


def reasons(build: venv.Build | None, wanted: Wanted) -> list[str]:
    """Return why an environment must be rebuilt; nothing where it is as it is wanted, or as its lock has it.

    This compares first, for micromamba links everything of an explicit lock again, and again.
    """
    if build and wanted.lock is not None and build.record.get("content") == wanted.fingerprint:
        build = replace(build, record={**build.record, "fingerprint": wanted.fingerprint})
    found = venv.reasons(build, wanted)
    if found or build is None:
        return found
    then = build.record["sizes"]
    return [f"{name} is damaged" for name, size in sorted(build.sizes.items()) if then.get(name) != size]


# what micromamba printed


def answer(printed: str) -> dict[str, Any]:
    """Return the JSON that micromamba printed; empty where it printed none."""
    try:
        found = json.loads(printed[printed.index("{") :])
    except ValueError:
        return {}
    return found if isinstance(found, dict) else {}


def succeeded(printed: str, rc: int) -> bool:
    """Tell whether micromamba did what it was asked; its JSON says so after some failures, too."""
    return rc == 0 and answer(printed).get("success") is True


def linked(printed: str) -> dict[str, str]:
    """Return the packages that a dry run in an empty place would link."""
    links = answer(printed).get("actions", {}).get("LINK", [])
    return {one["name"]: f"{one['version']} {one.get('build_string') or one.get('build')}" for one in links}


def problems(printed: str) -> list[str]:
    """Return what micromamba's JSON gives as reasons of a failure."""
    found = answer(printed)
    told = [str(problem) for problem in found.get("solver_problems", [])]
    for log in ("log_history", "log_records"):
        told += [one["message"] for one in found.get(log, []) if one.get("level") in ("critical", "error")]
    if found.get("success") is False and found.get("message"):
        told.append(found["message"])
    return told


def classify(told: str, printed: str, name: str, log: str) -> Refusal:
    """Return the refusal that says why a build failed.

    told is the JSON of micromamba, printed the end of what it and pip said beside that, log where all of it is.
    """
    found = problems(told)
    if answer(told).get("success") is True and not found:  # so it was pip, or the trial
        return venv.classify(printed, name, log)
    text = " ".join("; ".join(found or printed.strip().splitlines()[-1:]).split())
    for code, pattern in CAUSES:
        if re.search(pattern, "\n".join([*found, printed]), re.IGNORECASE):
            advice = venv.advice_on(
                "\n".join([*found, printed]),
                "Check the node's network and proxy, the environment's channels and conda_channel_alias.",
            )
            return refuse(code, name=name, line=text, log=log, advice=advice, former=venv.FORMER)
    return refuse("E009", name=name, line=text or "it printed nothing", log=log, former=venv.FORMER)


def _cuda(label: str, packages: dict[str, str]) -> str | None:
    """Return the CUDA that a package is built for, read from its version and build.

    The package cuda-version may be a later minor version, with which the build works as well.
    """
    version, _space, build = label.partition(" ")
    named = re.search(r"\+cu(\d+)(\d)$", version) or re.search(r"cuda(\d\d)\.?(\d)", build)
    if named:
        return f"{named[1]}.{named[2]}"
    return packages.get("cuda-version", "").partition(".")[0] or None if "cuda" in build else None

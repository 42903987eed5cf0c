# Copyright (c) 2026 The gpulab founders
# GNU General Public License v3.0+ (see https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What the store shall hold: repositories of a hub at one commit each, and the locks of their files. No I/O here.

A lock is a text for sha256sum(1) whose first line names the repository, the revision and the patterns of its files.
"""

from __future__ import annotations

import posixpath
import re
from dataclasses import dataclass
from fnmatch import fnmatchcase
from typing import TYPE_CHECKING, Any

from ansible_collections.gpulab.node.plugins.module_utils.core.quoting import problem as line_problem
from ansible_collections.gpulab.node.plugins.module_utils.core.refusals.models import refuse
from ansible_collections.gpulab.node.plugins.module_utils.core.shown import first

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Mapping

MODELS, DATASETS = "models", "datasets"
COMMIT = re.compile(r"[0-9a-f]{40}")
NAME = re.compile(r"(datasets/)?([A-Za-z0-9][\w.-]*/)?[A-Za-z0-9][\w.-]*", re.ASCII)
SHA256 = re.compile(r"[0-9a-f]{64}")
# What Python runs where it is loaded: pickles under their usual names, and code of trust_remote_code.
RUN_CODE = (
    *(".bin", ".ckpt", ".dill", ".h5", ".joblib", ".keras", ".nemo", ".pickle", ".pkl", ".pt", ".pth"),
    *(".py", ".pyc", ".so"),
)
SHOWN = 5  # of the files that a message names


@dataclass(frozen=True)
class Repository:
    """A repository at a commit, as the inventory has it; locked is the lock of the inventory, where it names one."""

    name: str
    revision: str
    files: tuple[str, ...] = ()
    locked: str = ""
    group: str = ""
    allow_code: bool = False

    @property
    def kind(self) -> str:
        """What the hub calls its kind: models or datasets."""
        return DATASETS if self.name.startswith(f"{DATASETS}/") else MODELS

    @property
    def short(self) -> str:
        """Its name in the hub, without the kind."""
        return self.name.partition("/")[2] if self.kind == DATASETS else self.name

    @property
    def folder(self) -> str:
        """The name of its directory, as huggingface_hub has it in its cache."""
        return folder_of(self.name)

    @property
    def place(self) -> str:
        """Where a bundle, or a directory of the node, has it."""
        return f"{self.folder}/{self.revision}"

    @property
    def label(self) -> str:
        """How messages name it."""
        return f"{self.name}@{self.revision[:8]}"

    def takes(self, path: str) -> bool:
        """Tell whether a file of it belongs into the store."""
        return not self.files or any(fnmatchcase(path, pattern) for pattern in self.files)


@dataclass(frozen=True)
class Entry:
    """A file as a source has it; place is where. A hub knows the SHA-256 of large files, and Git's SHA-1 of others."""

    path: str
    size: int
    sha256: str = ""
    git: str = ""
    place: str = ""


@dataclass(frozen=True)
class Lock:
    """The SHA-256 of each file by its path, and the patterns by which these were chosen."""

    files: dict[str, str]
    patterns: tuple[str, ...] = ()

    def text(self, repository: Repository) -> str:
        """Return the lock as a file has it."""
        head = " ".join(("#", repository.name, repository.revision, *self.patterns))
        return "\n".join([head, *(f"{digest}  {path}" for path, digest in sorted(self.files.items()))]) + "\n"


def repository(given: Mapping[str, Any], locks: Mapping[str, str]) -> Repository:
    """Return an element of model_store_repositories; locks are the texts of locks by NAME@REVISION."""
    return Repository(
        name=given["name"],
        revision=given["revision"],
        files=tuple(given.get("files") or ()),
        locked=locks.get(f"{given['name']}@{given['revision']}", ""),
        group=given.get("group") or "",
        allow_code=given.get("allow_code") or False,
    )


def folder_of(name: str) -> str:
    """Return the directory of a repository in the cache of huggingface_hub."""
    return "--".join(name.split("/")) if name.startswith(f"{DATASETS}/") else "--".join((MODELS, *name.split("/")))


def name_of(folder: str) -> str:
    """Return the name of the repository whose directory this is."""
    kind, *rest = folder.split("--")
    return "/".join(rest if kind == MODELS else (kind, *rest))


def read_lock(text: str, place: str) -> Lock:
    """Return the lock that a text is. Raises Refusal M010, which names the place that the text comes from."""
    files: dict[str, str] = {}
    patterns: tuple[str, ...] = ()
    for number, line in enumerate(text.splitlines()):
        if line.startswith("#"):
            patterns = tuple(line.split()[3:]) if number == 0 else patterns
            continue
        digest, _spaces, path = line.partition("  ")
        if not SHA256.fullmatch(digest) or path_problem(path):
            raise refuse("M010", problems=f"line {number + 1} of {place} is no line of a lock")
        files[path] = digest
    return Lock(files, patterns)


def path_problem(path: str) -> str | None:
    """Return why a file of a repository cannot have this path; None where it can."""
    if line_problem(path):
        return "it has control characters"
    parts = path.split("/")
    if "\\" in path or posixpath.normpath(path) != path or ".." in parts or path in ("", ".") or path.startswith("/"):
        return "it leads elsewhere"
    return None


def check(repositories: Collection[Repository], absent: Iterable[str], hub: str, token: str) -> None:
    """Judge the settings by themselves. Raises Refusal M001 and M010."""
    for repository in repositories:
        if not COMMIT.fullmatch(repository.revision):
            raise refuse("M001", name=repository.name, revision=repository.revision)
    problems = list(_problems(repositories, absent))
    if token and hub and not hub.startswith("https://"):
        problems.append("model_store_hub has to begin with https:// where there is a token, which everybody could read")
    if problems:
        raise refuse("M010", problems="; ".join(problems))


def _problems(repositories: Collection[Repository], absent: Iterable[str]) -> Iterable[str]:
    seen: set[tuple[str, str]] = set()
    for repository in repositories:
        if not NAME.fullmatch(repository.name) or "--" in repository.name or ".." in repository.name:
            yield f"{repository.name} is no name of a repository, such as acme/tiny or datasets/acme/images"
        if (repository.name, repository.revision) in seen:
            yield f"{repository.label} is there twice"
        if any(" " in pattern for pattern in repository.files):
            yield f"{repository.name} has a pattern with a blank"
        seen.add((repository.name, repository.revision))
    groups: dict[str, str] = {}
    for repository in repositories:
        if groups.setdefault(repository.name, repository.group) != repository.group:
            yield f"{repository.name} has two groups"
    for word in absent:
        name, _at, revision = word.partition("@")
        if not NAME.fullmatch(name) or "--" in name or ".." in name or (revision and not COMMIT.fullmatch(revision)):
            yield f"{word} in model_store_absent is neither NAME nor NAME@REVISION"
        if any(name == wanted and revision in ("", commit) for wanted, commit in seen):
            yield f"{word} is in model_store_absent, too"


def check_formats(repository: Repository, paths: Iterable[str]) -> None:
    """Raise Refusal M005 where files of a repository can run code."""
    risky = sorted(path for path in paths if path.lower().endswith(RUN_CODE))
    if risky and not repository.allow_code:
        raise refuse("M005", name=repository.name, files=first(risky, SHOWN))


def gigabytes(size: int) -> str:
    """Return a size in bytes for people."""
    return f"{size / 1e9:.1f} GB" if size >= 1e8 else f"{size / 1e6:.1f} MB"  # noqa: PLR2004 - 100 MB

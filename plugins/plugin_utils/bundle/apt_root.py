# Copyright (c) 2026 The gpulab founders
# GNU General Public License v3.0+ (see https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""APT in a root of its own on the controller, which resolves for a node what the node's own APT would.

The root has the node's sources, keys and priorities, and nothing of this machine but its proxies. So a list of packages
comes from the program that will install them.
"""

from __future__ import annotations

import os
import re
import subprocess
from dataclasses import dataclass
from typing import TYPE_CHECKING
from urllib.parse import quote, unquote, urlsplit

from ansible_collections.gpulab.node.plugins.module_utils.packages import apt
from ansible_collections.gpulab.node.plugins.module_utils.packages.plan import Plan, Wishes, split

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence
    from pathlib import Path

    from ansible_collections.gpulab.node.plugins.module_utils.packages.apt_sources import Source

_TARGETS = ("$(FILENAME)", "$(REPO_URI)", "$(RELEASE)", "$(COMPONENT)")
_ERROR = re.compile(r"^E: *(.*)$", re.MULTILINE)
_URI = re.compile(r"^'([^']+)' \S+ \d+", re.MULTILINE)
_FIELD = r"^{}: *(.*)$"
_PROXIES = ("Acquire::http", "Acquire::https")


class AptError(Exception):
    """What APT says where it cannot do what it is asked; printed is all of it."""

    def __init__(self, message: str, printed: str = "") -> None:
        """Keep both."""
        super().__init__(message)
        self.printed = printed


@dataclass(frozen=True)
class System:
    """What APT on a node works with; keyrings are the keys that sign sources, by what these call them.

    architectures are dpkg's names, that of the node first; preferences is the text of preferences(5).
    """

    architectures: tuple[str, ...]
    sources: tuple[Source, ...]
    keyrings: tuple[tuple[str, bytes], ...] = ()
    preferences: str = ""


@dataclass(frozen=True)
class Wanted:
    """What one transaction installs, as the module packages takes it."""

    wishes: Wishes
    recommends: bool = False
    last_origin: str = ""


@dataclass(frozen=True)
class Package:
    """A package as an index has it: its record, where its file is, and the source and component that have it."""

    record: str
    url: str
    source: tuple[str, str]
    component: str

    def field(self, name: str) -> str:
        """Return a field of the record of one line; empty where it has none."""
        found = re.search(_FIELD.format(name), self.record, re.MULTILINE)
        return found[1].strip() if found else ""

    @property
    def size(self) -> int:
        """Return the bytes of the file."""
        return int(self.field("Size") or 0)

    @property
    def label(self) -> str:
        """Return name, version and architecture."""
        return f"{self.field('Package')} {self.field('Version')} {self.field('Architecture')}"


class Root:
    """A root in a directory for one system."""

    def __init__(self, directory: Path, system: System) -> None:
        """Write what APT reads there."""
        self.directory = directory
        self.system = system
        for place in ("etc/apt/trusted.gpg.d", "etc/apt/preferences.d", "lists/partial", "archives/partial", "keys"):
            (directory / place).mkdir(parents=True, exist_ok=True)
        self._environment = {**os.environ, **apt.ENVIRONMENT, "APT_CONFIG": str(directory / "apt.conf")}
        (directory / "apt.conf").write_text(self._configuration() + _proxies(), encoding="utf-8")
        (directory / "etc/apt/preferences").write_text(system.preferences, encoding="utf-8")
        (directory / "empty").write_text("", encoding="utf-8")
        keys = {
            name: directory / "keys" / f"{number}{_ending(key)}" for number, (name, key) in enumerate(system.keyrings)
        }
        for name, key in system.keyrings:
            keys[name].write_bytes(key)
            if name.startswith("/etc/apt/trusted.gpg"):
                (directory / "etc/apt/trusted.gpg.d" / keys[name].name).write_bytes(key)
        sources = "\n".join(_stanza(source, keys) for source in system.sources)
        (directory / "etc/apt/bundle.sources").write_text(sources, encoding="utf-8")

    def _configuration(self) -> str:
        top = str(self.directory)
        values = {
            "Dir": f"{top}/",
            "Dir::Etc": f"{top}/etc/apt",
            "Dir::Etc::sourcelist": f"{top}/etc/apt/bundle.sources",
            "Dir::Etc::sourceparts": "/dev/null",
            "Dir::Etc::parts": "/dev/null",
            "Dir::Etc::main": "/dev/null",
            "Dir::Etc::trustedparts": f"{top}/etc/apt/trusted.gpg.d",
            "Dir::State": top,
            "Dir::State::lists": f"{top}/lists",
            "Dir::State::status": f"{top}/empty",
            "Dir::Cache": top,
            "Dir::Cache::archives": f"{top}/archives",
            "APT::Architecture": self.system.architectures[0],
            "APT::Sandbox::User": "root",  # another one may not read a private directory
            "Acquire::Languages": "none",
            "Acquire::Retries": "3",
        }
        lines = [f'{name} "{value}";\n' for name, value in values.items()]
        lines += [f'APT::Architectures:: "{name}";\n' for name in self.system.architectures]
        return "".join(lines)

    def update(self) -> None:
        """Fetch and verify the indexes of all sources. Raises AptError, where one of them does not come, too."""
        self._apt("apt-get", "--quiet", "--option=APT::Update::Error-Mode=any", "update")

    def resolve(self, wanted: Wanted, status: Path | None = None) -> set[str]:
        """Return the addresses of the packages that APT would install. Raises AptError.

        status is what dpkg knows of the node; without it, nothing is there yet.
        """
        held = wanted.wishes
        wishes = Wishes(present=tuple(map(self._exact, held.present)))
        texts = [
            self.system.preferences,
            apt.pins(held),
            apt.last(held, wanted.last_origin) if wanted.last_origin else "",
        ]
        preferences = self.directory / "preferences"
        preferences.write_text("\n".join(filter(None, texts)), encoding="utf-8")
        program, *arguments = apt.install_command(
            wishes,
            recommends=wanted.recommends,
            lock_timeout=0,
            changes_held=True,
            simulate="--print-uris",
            writes_caches=True,
        )
        options = [f"--option=Dir::Etc::preferences={preferences}", "--option=Debug::NoLocking=true"]
        options += [f"--option=Dir::State::status={status}"] if status else []
        return {unquote(uri) for uri in _URI.findall(self._apt(program, *options, *arguments))}

    def trial(self, names: Sequence[str]) -> tuple[Plan, str]:
        """Return what APT says against installing packages where nothing is there yet, as settle() asks for it."""
        try:
            self.resolve(Wanted(Wishes(present=tuple(names))))
        except AptError as error:
            return Plan(), error.printed
        return Plan(), ""

    def packages(self, urls: Iterable[str]) -> dict[str, Package]:
        """Return what the indexes say of these packages, by their addresses. Raises AptError without a SHA-256."""
        wanted, found = set(urls), {}
        lines = self._apt("apt-get", "indextargets", "--format", "\t".join(_TARGETS), "Created-By: Packages")
        for line in lines.splitlines():
            # What a flat repository has not stands there as it was asked for.
            file, base, suite, component = ("" if word in _TARGETS else word for word in line.split("\t"))
            for record in (self.directory / file).read_text(encoding="utf-8", errors="replace").split("\n\n"):
                name = re.search(_FIELD.format("Filename"), record, re.MULTILINE)
                url = f"{base}{quote(name[1].strip())}" if name else ""
                if unquote(url) in wanted:
                    found[unquote(url)] = Package(record.strip("\n"), url, (base.rstrip("/"), suite or "/"), component)
        lacking = sorted(wanted - {url for url, package in found.items() if package.field("SHA256")})
        if lacking:
            message = f"the indexes have no SHA-256 of {lacking[0]}"
            raise AptError(message)
        return found

    def release(self, source: Source) -> Path | None:
        """Return the file with which a source says what it is, signed and verified; None where there is none."""
        files = (self.directory / "lists" / name for name in source.release_files)
        return next((file for file in files if file.is_file()), None)

    def _exact(self, wish: str) -> str:
        """Return a wish in a form that apt-get reads. Raises AptError."""
        if not apt.has_inner_wildcard(wish):
            return wish
        return apt.exact(wish, self._apt("apt-cache", "madison", split(wish)[0]))

    def _apt(self, *call: str) -> str:
        done = subprocess.run(call, env=self._environment, capture_output=True, text=True, check=False)
        if done.returncode:
            told = "; ".join(dict.fromkeys(_ERROR.findall(done.stderr))) or done.stderr.strip() or "it says no more"
            raise AptError(told, done.stdout + done.stderr)
        return done.stdout


def reachable(sources: Iterable[Source]) -> tuple[Source, ...]:
    """Return the sources that another machine than the node can ask."""
    return tuple(source for source in sources if urlsplit(source.uri).scheme in ("http", "https", "file"))


def _stanza(source: Source, keys: Mapping[str, Path]) -> str:
    """Return a source as APT reads it, with its keys where they are in the root."""
    options = {name: value for name, value in source.options if name not in ("Trusted", "Signed-By")}
    named = " ".join(str(keys.get(word, word)) for word in source.signed_by.split())
    signed_by = source.signed_by if "-----BEGIN" in source.signed_by else named
    fields = {
        "Types": "deb",
        "URIs": source.uri,
        "Suites": source.suite,
        "Components": " ".join(source.components),
        **options,
        "Signed-By": signed_by.replace("\n", "\n "),
    }
    return "".join(f"{name}: {value}\n" for name, value in fields.items() if value)


def _ending(key: bytes) -> str:
    return ".asc" if b"-----BEGIN PGP" in key else ".gpg"


def _proxies() -> str:
    """Return how this machine's own APT reaches HTTP, as configuration; it also says which certificates it trusts."""
    call = ["apt-config", "dump", "--format", '%F "%v";%n', *_PROXIES]
    return subprocess.run(call, capture_output=True, text=True, check=False).stdout

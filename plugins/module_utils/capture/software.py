# Copyright (c) 2026 The gpulab founders
# GNU General Public License v3.0+ (see https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The software of a node: its packages, what people decided about them, and from where they come, by whose keys."""

from __future__ import annotations

import posixpath
import re
from dataclasses import replace
from typing import TYPE_CHECKING

from ansible_collections.gpulab.node.plugins.module_utils.capture.homes import Places
from ansible_collections.gpulab.node.plugins.module_utils.capture.sections.software import (
    KeyFile,
    Package,
    Pin,
    Software,
    Source,
    Stream,
)
from ansible_collections.gpulab.node.plugins.module_utils.core import commands, installed_packages
from ansible_collections.gpulab.node.plugins.module_utils.facts.driver import VERSIONLOCK
from ansible_collections.gpulab.node.plugins.module_utils.packages import (
    apt,
    apt_repository,
    apt_sources,
    dnf,
    dnf_history,
    dnf_repository,
    openpgp,
)
from ansible_collections.gpulab.node.plugins.module_utils.packages.deb822 import stanzas

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from ansible_collections.gpulab.node.plugins.module_utils.core.installed_packages import Deb
    from ansible_collections.gpulab.node.plugins.module_utils.core.node import Node

SOURCES_PARTS = "/etc/apt/sources.list.d"
PREFERENCES, PREFERENCES_PARTS = "/etc/apt/preferences", "/etc/apt/preferences.d"
KEYRINGS = ("/etc/apt/trusted.gpg.d", "/etc/apt/keyrings", "/etc/pki/rpm-gpg")
TRUSTED = "/etc/apt/trusted.gpg"
DNF, REPOSITORIES = "/etc/dnf/dnf.conf", ("/etc/yum.repos.d", "/etc/yum/repos.d", "/etc/distro.repos.d")
STREAMS = "/etc/dnf/modules.d"
SNAPS, FLATPAKS = "/var/lib/snapd/snaps", "/var/lib/flatpak/app"
RPM_KEYS = ("rpm", "-q", "gpg-pubkey", "--queryformat", r"%{NAME}-%{VERSION}-%{RELEASE}\n%{DESCRIPTION}\n\n")
KEY_PACKAGE = "gpg-pubkey"  # as rpm calls the keys that it trusts
_READ_BY_APT = re.compile(r"[A-Za-z0-9_.-]+")
_LISTS = ("baseurl", "mirrorlist", "metalink")
_OPTIONS = (
    "gpgcheck", "repo_gpgcheck", "sslverify", "priority", "cost", "module_hotfixes", "includepkgs", "excludepkgs",
    "exclude",
)  # fmt: skip
_SNAP = ("name", "version", "revision", "channel", "publisher", "notes")
_FLATPAK = ("name", "branch", "origin", "version")


def read(node: Node) -> Software:
    """Return the software of a node."""
    snaps = node.start(["snap", "list", "--color=never", "--unicode=never"]) if _snaps(node) else None
    columns = "application,branch,origin,version"
    flatpaks = node.start(["flatpak", "list", "--system", f"--columns={columns}"]) if node.names(FLATPAKS) else None
    places = Places(node)
    found = _of_apt(node, places) if node.exists("/var/lib/dpkg/status") else _of_dnf(node, places)
    return replace(
        found,
        snaps=_rows(snaps.output(), _SNAP, None, header=True) if snaps else [],
        flatpaks=_rows(flatpaks.output(), _FLATPAK, "\t", header=False) if flatpaks else [],
    )


def _of_apt(node: Node, places: Places) -> Software:
    query = node.start(list(installed_packages.DPKG))
    texts = {name: places.text(name) for name in _read_by_apt(places, PREFERENCES, PREFERENCES_PARTS, ("", ".pref"))}
    states, report = node.text(apt.EXTENDED_STATES), query.output()
    known = installed_packages.debs(report or "")
    native = known["dpkg"].architecture if "dpkg" in known else ""
    sources = [_source(places, one) for one in _declared(places, native)]
    return Software(
        packages=None if report is None else list(_on_disk(known)),
        manual=None if report is None else list(_manual(known, states, native)),
        holds=[name for name, one in known.items() if one.held],
        pins=[pin for file, text in texts.items() for pin in _pins(file, text)],
        sources=sources,
        keys=list(_keys(places, [TRUSTED, *(file for one in sources for file in one.key_files)])),
        streams=[],
        snaps=[],
        flatpaks=[],
    )


def _declared(places: Places, native: str) -> Iterator[apt_sources.Source]:
    """Yield the sources that APT reads."""
    for file in (apt_sources.SOURCES_LIST, *_files(places, SOURCES_PARTS)):
        if apt_sources.is_read(posixpath.basename(file)):
            yield from apt_sources.parse(file, places.text(file), native)


def _on_disk(known: dict[str, Deb]) -> Iterator[Package]:
    for name, one in known.items():
        if apt.is_on_disk(known, name):
            yield Package(name.partition(":")[0], one.version, one.architecture)


def _manual(known: dict[str, Deb], states: str, native: str) -> Iterator[str]:
    automatic = apt.automatic(states, native)
    for name, one in known.items():
        if apt.is_on_disk(known, name) and not _came(name, one.architecture, native) & automatic:
            yield name


def _came(name: str, architecture: str, native: str) -> set[tuple[str, str]]:
    """Return how a package may be called where APT keeps which ones came as dependencies."""
    short = name.partition(":")[0]
    return {(short, architecture), (short, native)} if architecture == "all" else {(short, architecture)}


def _files(places: Places, directory: str) -> list[str]:
    return [f"{directory}/{name}" for name in places.names(directory)]


def _read_by_apt(places: Places, file: str, directory: str, endings: tuple[str, ...]) -> Iterator[str]:
    """Yield the names of the files that APT reads, as apt_preferences(5) says."""
    yield file
    for path in _files(places, directory):
        name = posixpath.basename(path)
        if _READ_BY_APT.fullmatch(name) and posixpath.splitext(name)[1] in endings:
            yield path


def _pins(file: str, text: str) -> Iterator[Pin]:
    for fields in stanzas(text):
        if "Pin" in fields:
            packages = " ".join(fields.get("Package", fields.get("Source", "")).split())
            yield Pin(file, packages, " ".join(fields["Pin"].split()), fields.get("Pin-Priority", ""))


def _source(places: Places, source: apt_sources.Source) -> Source:
    inline = "-----BEGIN" in source.signed_by
    return Source(
        file=source.file,
        name="",
        uris=[commands.shown(source.uri)],
        suite=source.suite,
        components=list(source.components),
        options={name: commands.shown_value(name, value) for name, value in source.options if name != "Signed-By"},
        key_files=[] if inline else re.findall(r"(?:(?<=[\s,])|^)/[^\s,]+", source.signed_by),
        keys=_signers(places, source.signed_by),
    )


def _signers(places: Places, signed_by: str) -> list[str]:
    return sorted(apt_repository.signers(signed_by, lambda path: places.data(path) or b""))


def _of_dnf(node: Node, places: Places) -> Software:
    query, trusted = node.start(list(installed_packages.RPM)), node.start(list(RPM_KEYS))
    automatic = dnf_history.automatic(node.path(dnf_history.PATH))
    texts = {file: places.text(file) for file in (DNF, *_repositories(places))}
    sections = {file: dnf_repository.sections(text) for file, text in texts.items()}
    sources = list(_enabled(places, sections))
    report, locks = query.output(), "\n".join(map(places.text, VERSIONLOCK))
    packages = [one for one in installed_packages.rpms(report or "") if one.name != KEY_PACKAGE]
    manual = sorted({one.na for one in packages if (one.name, one.architecture) not in (automatic or ())})
    keys = _keys(places, [file for one in sources for file in one.key_files])
    return Software(
        packages=None if report is None else [Package(one.name, one.evr, one.architecture) for one in packages],
        manual=None if report is None or automatic is None else manual,
        holds=list(dict.fromkeys(dnf.locks(locks))),
        pins=list(_excluded(sections, locks)),
        sources=sources,
        keys=[*keys, *_trusted(trusted.output() or "")],
        streams=list(_streams(places)),
        snaps=[],
        flatpaks=[],
    )


def _enabled(places: Places, sections: dict[str, dict[str, dict[str, str]]]) -> Iterator[Source]:
    for file, of_file in sections.items():
        for name, options in of_file.items():
            if name != "main" and options.get("enabled", "1").lower() in ("1", "yes", "true", "on"):
                yield _repository(places, file, name, options)


def _streams(places: Places) -> Iterator[Stream]:
    for file in _files(places, STREAMS):
        for name, options in dnf_repository.sections(places.text(file)).items():
            yield Stream(name, options.get("stream", ""), options.get("state", ""))


def _repositories(places: Places) -> Iterator[str]:
    for directory in REPOSITORIES:
        yield from (file for file in _files(places, directory) if file.endswith(".repo"))


def _repository(places: Places, file: str, name: str, options: dict[str, str]) -> Source:
    addresses = [word for option in _LISTS for word in re.split(r"[\s,]+", options.get(option, "")) if word]
    keys = [word for word in re.split(r"[\s,]+", options.get("gpgkey", "")) if word]
    local = [word[len("file://") :] for word in keys if word.startswith("file:///")]
    return Source(
        file=file,
        name=name,
        uris=list(map(commands.shown, addresses)),
        suite="",
        components=[],
        options={option: commands.shown(options[option]) for option in _OPTIONS if option in options},
        key_files=local,
        keys=_signers(places, " ".join(local)),
    )


def _excluded(sections: dict[str, dict[str, dict[str, str]]], locks: str) -> Iterator[Pin]:
    """Yield what dnf shall not take at all."""
    for file, of_file in sections.items():
        for name, options in of_file.items():
            for option in ("exclude", "excludepkgs"):
                if options.get(option, "").strip():
                    packages = " ".join(re.split(r"[\s,]+", options[option].strip()))
                    yield Pin(file, packages, f"excluded in {name}", "")
    for line in map(str.strip, locks.splitlines()):
        if line.startswith("!"):
            yield Pin(VERSIONLOCK[0], line[1:], "excluded", "")


def _keys(places: Places, files: Iterable[str]) -> Iterator[KeyFile]:
    parts = [file for directory in KEYRINGS for file in _files(places, directory)]
    for file in dict.fromkeys([*parts, *files]):
        data = places.data(file)
        if data is not None:
            yield _key(file, data)


def _trusted(report: str) -> Iterator[KeyFile]:
    """Yield the keys in the output of RPM_KEYS."""
    for match in re.finditer(rf"^({KEY_PACKAGE}-\S+)\n(.*?)(?=^{KEY_PACKAGE}-|\Z)", report, re.MULTILINE | re.DOTALL):
        yield _key(f"rpm:{match[1]}", match[2].encode("utf-8", "replace"))


def _key(file: str, data: bytes) -> KeyFile:
    try:
        found, problem = openpgp.fingerprints(data), None
    except ValueError as error:
        found, problem = [], str(error)
    return KeyFile(file, found, problem)


def _snaps(node: Node) -> bool:
    return any(name.endswith(".snap") for name in node.names(SNAPS))


def _rows(
    printed: str | None, columns: tuple[str, ...], separator: str | None, *, header: bool
) -> list[dict[str, str]] | None:
    """Read a table that a program printed; None where it printed nothing."""
    lines = [line for line in (printed or "").splitlines() if line.strip()]
    if not lines:
        return None
    return [dict(zip(columns, line.split(separator))) for line in lines[int(header) :]]

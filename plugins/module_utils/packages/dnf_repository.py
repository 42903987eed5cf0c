# Copyright (c) 2026 The gpulab founders
# GNU General Public License v3.0+ (see https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""A vendor's DNF repository: what its files hold. Only its record is read here.

See dnf.conf(5), and dnf's documentation of modularity for the state of a module stream.
"""

from __future__ import annotations

import configparser
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, TypedDict

from ansible_collections.gpulab.node.plugins.module_utils.core import records

if TYPE_CHECKING:
    from pathlib import Path

RECORD = "/var/lib/gpulab/dnf-repositories.json"
HEADER = "# Written by gpulab; changes made by hand are lost.\n"
KEY_QUERY = ("rpm", "-qa", "gpg-pubkey", "--queryformat", r"%{VERSION}\t%{NAME}-%{VERSION}-%{RELEASE}\n")


def key_path(name: str) -> str:
    """Return where the key of a repository is."""
    return f"/etc/pki/rpm-gpg/RPM-GPG-KEY-gpulab-{name}"


@dataclass(frozen=True)
class Repository:
    """A repository as it is wanted. stream is module:stream, or empty for packages that come in no stream."""

    name: str
    url: str
    fingerprint: str
    stream: str

    @property
    def key_path(self) -> str:
        """Return the path of its key."""
        return key_path(self.name)

    @property
    def declaration_path(self) -> str:
        """Return the path of the file that declares it."""
        return f"/etc/yum.repos.d/gpulab-{self.name}.repo"

    @property
    def stream_path(self) -> str | None:
        """Return the path at which dnf keeps the state of the module; None without a stream."""
        return f"/etc/dnf/modules.d/{self.stream.partition(':')[0]}.module" if self.stream else None

    def declaration(self) -> str:
        """Return the file that declares it: packages and metadata are signed by its key and no other.

        A repository without streams is not filtered by those that another one may have for its packages.
        """
        fields = {
            "name": f"{self.name} (gpulab)",
            "baseurl": self.url,
            "enabled": "1",
            "gpgcheck": "1",
            "repo_gpgcheck": "1",
            "gpgkey": f"file://{self.key_path}",
            **({} if self.stream else {"module_hotfixes": "1"}),
        }
        return f"{HEADER}[gpulab-{self.name}]\n" + "".join(f"{name}={value}\n" for name, value in fields.items())

    def stream_state(self, present: str) -> str:
        """Return the file with the state of the module: as it is where the stream is enabled already."""
        module, _colon, stream = self.stream.partition(":")
        if _value(present, module, "stream") == stream and _value(present, module, "state") == "enabled":
            return present
        return f"[{module}]\nname={module}\nstream={stream}\nprofiles=\nstate=enabled\n"

    @property
    def nothing(self) -> Repository:
        """Return what is wanted of it when it is to be gone."""
        return replace(self, fingerprint="", stream="")


class Stream(TypedDict):
    """The stream that gpulab enabled, and the state of the module before."""

    stream: str
    before: str


@dataclass(frozen=True)
class Record:
    """What gpulab set on the node, beside the files of its own.

    keys are the fingerprints that it had rpm trust, each with the names of the repositories for which it is; streams
    are by the name of the repository: the stream that it enabled, and the state of the module before.
    """

    keys: dict[str, list[str]] = field(default_factory=dict)
    streams: dict[str, Stream] = field(default_factory=dict)

    def former(self, repository: Repository) -> Repository:
        """Return a repository with the stream that was enabled for it; with none where gpulab enabled none."""
        return replace(
            repository, stream=self.streams[repository.name]["stream"] if repository.name in self.streams else ""
        )

    def given_back(self, repository: Repository, present: str) -> str:
        """Return the state of the module that was before that stream; as it is where another is enabled by now."""
        ours = self.former(repository).stream_state(present) == present
        return self.streams[repository.name]["before"] if ours else present

    def settled(self, repository: Repository, state: str, *, trusted: bool) -> Record:
        """Return the record under which a repository is as wanted, from the state of its module and its key.

        A key that rpm trusts and that is not in the record is somebody else's; so is a stream that is enabled.
        """
        name, fingerprint = repository.name, repository.fingerprint
        keys = {key: [one for one in names if one != name] for key, names in self.keys.items()}
        if fingerprint and (fingerprint in keys or not trusted):
            keys[fingerprint] = [*keys.get(fingerprint, []), name]
        streams = {one: choice for one, choice in self.streams.items() if one != name}
        if repository.stream and self.former(repository).stream_path == repository.stream_path:
            streams[name] = {**self.streams[name], "stream": repository.stream}
        elif repository.stream and repository.stream_state(state) != state:
            streams[name] = {"stream": repository.stream, "before": state}
        return Record({key: names for key, names in keys.items() if names}, streams)


def read_record(path: Path) -> Record:
    """Read RECORD; empty where there is none. Raises Refusal H220."""
    lost = "Without it, gpulab does not know which keys and streams are its own, and leaves them."
    return records.read(path, Record, Record(), lost)


def trusted_keys(report: str, fingerprint: str) -> list[str]:
    """Return the packages under which rpm knows a key, from the output of KEY_QUERY.

    rpm calls a key by the last digits of its fingerprint, or by all.
    """
    rows = [line.split("\t") for line in report.splitlines() if "\t" in line]
    return [package for digits, package in rows if fingerprint.endswith(digits.upper())]


def proxy(configuration: str) -> str | None:
    """Return the proxy that dnf.conf names."""
    found = _value(configuration, "main", "proxy")
    return None if found in {None, "", "_none_"} else found


def sections(text: str) -> dict[str, dict[str, str]]:
    """Return the options of each section of a file of dnf's; none where it is damaged."""
    parser = configparser.ConfigParser(interpolation=None, strict=False, default_section="")
    try:
        parser.read_string(text)
    except configparser.Error:
        return {}
    return {name: dict(parser[name]) for name in parser.sections()}


def _value(text: str, section: str, option: str) -> str | None:
    return sections(text).get(section, {}).get(option)

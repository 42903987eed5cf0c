# Copyright (c) 2026 The gpulab founders
# GNU General Public License v3.0+ (see https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Make a bundle: resolve for each host what it gets, say how much that is, fetch it, sign it, and try it.

The last step is a proof: every host is resolved once more, now against the bundle alone.
"""

from __future__ import annotations

import json
import shutil
from collections import Counter
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

from ansible_collections.gpulab.node.plugins.module_utils.bundle.reading import APT_KEY, SCHEMA
from ansible_collections.gpulab.node.plugins.module_utils.core.files import sha256
from ansible_collections.gpulab.node.plugins.module_utils.core.refusal import Refusal
from ansible_collections.gpulab.node.plugins.module_utils.rebuild import software_packages
from ansible_collections.gpulab.node.plugins.plugin_utils.bundle import (
    fetching,
    folder,
    proof,
    repositories,
    sbom,
    wheels,
)
from ansible_collections.gpulab.node.plugins.plugin_utils.bundle.apt_root import (
    AptError,
    Package,
    Root,
    System,
    reachable,
)
from ansible_collections.gpulab.node.plugins.plugin_utils.bundle.fetching import File
from ansible_collections.gpulab.node.plugins.plugin_utils.bundle.repositories import Repositories
from ansible_collections.gpulab.node.plugins.plugin_utils.bundle.wheels import Asked, Uv, Wheel
from ansible_collections.gpulab.node.plugins.plugin_utils.refusals import refuse

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from datetime import datetime
    from pathlib import Path

    from ansible_collections.gpulab.node.plugins.plugin_utils.bundle.hosts import Host
    from ansible_collections.gpulab.node.plugins.plugin_utils.bundle.keys import Keys

LOCKS = "pypi/locks"
_KINDS = (("apt", "packages"), ("pypi", "wheels"), ("files", "files"), ("models", "files of models"))


@dataclass
class Contents:
    """What a bundle holds: the packages of each host, its wheels, further files, and the locks by their paths.

    lacking says what captured nodes had and what cannot be had any more, a sentence each.
    """

    packages: dict[str, list[Package]] = field(default_factory=dict)
    wheels: list[Wheel] = field(default_factory=list)
    files: list[File] = field(default_factory=list)
    locks: dict[str, str] = field(default_factory=dict)
    lacking: list[str] = field(default_factory=list)

    def all_files(self) -> list[File]:
        """Return the files that have to be fetched, one of each path, in order."""
        found = [repositories.file_of(package) for packages in self.packages.values() for package in packages]
        found += [wheel.file for wheel in self.wheels] + self.files
        return sorted({file.path: file for file in found}.values())

    def lines(self, missing: Sequence[File]) -> list[str]:
        """Return how much there is of each kind, and how much of all is missing, for people."""
        files = self.all_files()
        counts, sizes = Counter(map(_top, files)), Counter[str]()
        for file in files:
            sizes[_top(file)] += file.size
        told = [f"{counts[top]} {kind} ({_megabytes(sizes[top])})" for top, kind in _KINDS if counts[top]]
        left = f"{len(missing)} of {len(files)} files to fetch ({_megabytes(sum(file.size for file in missing))})"
        return [", ".join(told) or "nothing", left]


class Maker:
    """Makes one bundle. work is a directory for what it takes, uv_wheel the file that fetch_uv returned, if any."""

    def __init__(self, hosts: Sequence[Host], work: Path) -> None:
        """Remember for whom."""
        self.hosts = [
            replace(host, system=replace(host.system, sources=reachable(host.system.sources))) for host in hosts
        ]
        self.work = work
        self._roots: dict[System, Root] = {}
        self.uv: Uv | None = None

    def contents(self, machine: str, uv_requirement: Callable[[str], str]) -> Contents:
        """Resolve all. Raises Refused, with a Refusal for each host that cannot be resolved.

        machine is that of this controller; uv_requirement returns the line by which pip fetches uv for a machine.
        """
        found, refusals = Contents(), []
        for number, host in enumerate(self.hosts):
            try:
                settled = self.hosts[number] = self._settle(host, found)
                found.packages[host.name] = self._packages(settled)
                self._wheels(host, found, machine, uv_requirement)
            except Refusal as refusal:
                refusals.append(refusal)
            found.files += map(fetching.with_size, host.files)
            found.files += [file for held in host.models for _path, file in held.files]
        if refusals:
            raise Refused(refusals)
        return found

    def _settle(self, host: Host, found: Contents) -> Host:
        """Return a host with those packages of its capture that can be had; note the others. Raises Refusal B010."""
        if host.captured.fault:
            found.lacking.append(f"all of the capture of {host.name}: {host.captured.fault}")
        if not host.captured.packages:
            return host
        try:
            settled = software_packages.settle(host.captured.packages, (), self._root(host.system).trial)
        except AptError as error:
            raise refuse("B010", host=host.name, detail=str(error)) from error
        found.lacking += [f"{one['name']} of the capture of {host.name}: {one['why']}" for one in settled.missing]
        return replace(host, captured=replace(host.captured, packages=tuple(settled.install)))

    def _packages(self, host: Host) -> list[Package]:
        """Return the packages of a host, for it as it is and from nothing. Raises Refusal B010."""
        status = self.work / f"status-{host.name}"
        status.write_bytes(host.status)
        urls: set[str] = set()
        wrong: list[str] = []
        try:
            root = self._root(host.system)
            for wanted in host.transactions:
                try:
                    urls |= root.resolve(wanted, status) | root.resolve(wanted)
                except AptError as error:  # noqa: PERF203 - all are said
                    wrong.append(f"{' '.join(wanted.wishes.present)}: {error}")
            if not wrong:
                return sorted(root.packages(urls).values(), key=lambda package: package.label)
        except AptError as error:
            wrong.append(str(error))
        raise refuse("B010", host=host.name, detail="; ".join(dict.fromkeys(wrong)))

    def _root(self, system: System) -> Root:
        """Return the root of a system, with its indexes; hosts of the same share it. Raises AptError."""
        if system not in self._roots:
            root = Root(self.work / f"apt-{len(self._roots)}", system)
            root.update()
            self._roots[system] = root
        return self._roots[system]

    def _wheels(self, host: Host, found: Contents, machine: str, uv_requirement: Callable[[str], str]) -> None:
        """Add the wheels of a host's environments, and the uv that makes them. Raises Refusal."""
        if self.uv is None and (host.environments or host.captured.environments):
            wheel = wheels.fetch_uv(uv_requirement(machine), machine, self.work / f"uv-{machine}")
            self.uv = Uv(self.work, wheels.unpack_uv(wheel, self.work / "uv"))
        for asked in host.environments:
            self._add_wheels(asked, found)
        for path, asked in host.captured.environments.items():
            try:
                self._add_wheels(asked, found)
            except Refusal as refusal:  # noqa: PERF203 - a rebuild names what does not come back, and goes on
                found.lacking.append(f"{path} of the capture of {host.name}: {refusal.cause}")
        if host.requirement:
            found.wheels.append(self._uv_of(host))

    def _add_wheels(self, asked: Asked, found: Contents) -> None:
        """Add the wheels of an environment, and its lock. Raises Refusal."""
        if self.uv:
            lock = self.uv.lock(asked)
            found.wheels += self.uv.wheels(asked, lock)
            found.locks[_lock(asked)] = lock

    def _uv_of(self, host: Host) -> Wheel:
        """Return the uv that makes the environments of a host. Raises Refusal."""
        machine = host.environments[0].machine
        wheel = wheels.fetch_uv(host.requirement, machine, self.work / f"uv-{machine}")
        path, size = f"{wheels.FILES}/{wheel.name}", wheel.stat().st_size
        file = File(path, wheel.absolute().as_uri(), size, sha256(wheel))
        return Wheel("uv", wheel.name.split("-")[1], file)

    def fetch(self, directory: Path, missing: Sequence[File]) -> None:
        """Fetch the files that are missing in the folder. Raises Refusal B001 and B020."""
        folder.check_is_bundle(directory)
        (directory / folder.WORK).mkdir(parents=True, exist_ok=True)
        (directory / folder.SUMS).unlink(missing_ok=True)  # not whole any more, until it is signed again
        fetching.fetch(directory, missing)

    def write(self, directory: Path, found: Contents, keys: Keys, made: datetime, gpulab: str) -> None:
        """Write all that is not fetched; what no bundle of today holds goes. Raises Refusal."""
        self._clear(directory, {file.path for file in found.all_files()})
        indexes = Repositories()
        for host in self.hosts:
            indexes.add(self._root(host.system), found.packages[host.name])
        indexes.write(directory, keys, made)
        wheels.write_index(directory, found.wheels)
        public = keys.public()
        for name, text in {**found.locks, APT_KEY: public.decode("ascii")}.items():
            (directory / name).parent.mkdir(parents=True, exist_ok=True)
            (directory / name).write_text(text, encoding="utf-8")
        packages = [package for of_host in found.packages.values() for package in of_host]
        sbom.write(directory, packages, found.wheels, gpulab)
        record = {
            "schema": SCHEMA,
            "gpulab": gpulab,
            "made_at": f"{made:%Y-%m-%dT%H:%M:%SZ}",
            **self._record(directory, keys, found),
        }
        (directory / folder.RECORD).write_text(json.dumps(record, indent=1) + "\n", encoding="utf-8")
        for number, host in enumerate(self.hosts):
            root = Root(self.work / f"proof-{number}", proof.system(host, directory, public, self._root(host.system)))
            proof.prove_packages(host, root)
            proven = (
                asked
                for asked in (*host.environments, *host.captured.environments.values())
                if _lock(asked) in found.locks
            )
            for asked in proven:
                proof.prove_environment(directory, asked, found.locks[_lock(asked)], self.uv)
        folder.write_sums(directory)
        folder.sign(directory, keys.signing)
        shutil.rmtree(directory / folder.WORK)

    def _clear(self, directory: Path, kept: set[str]) -> None:
        """Remove what former bundles had in the folder, and what is written again."""
        for name in list(folder.listed(directory)):
            if name not in kept:
                (directory / name).unlink()
        places = (path for top in folder.TOPS for path in (directory / top).rglob("*") if path.is_dir())
        for path in sorted(places, reverse=True):
            if not any(path.iterdir()):
                path.rmdir()

    def _record(self, directory: Path, keys: Keys, found: Contents) -> dict[str, Any]:
        """Return what bundle.json says beside its date: for whom the bundle is, and what lies where."""
        files = found.all_files()
        return {
            "apt_key": keys.fingerprint(),
            "files": len(files),
            "bytes": sum(file.size for file in files),
            "hosts": {
                host.name: {
                    "system": host.release,
                    "architecture": host.system.architectures[0],
                    "packages": len(found.packages[host.name]),
                    "wishes": sorted({wish for wanted in host.transactions for wish in wanted.wishes.present}),
                    "environments": {
                        asked.wanted.name: {"python": asked.wanted.python, "requirements": [*asked.wanted.requirements]}
                        for asked in host.environments
                    },
                    "files": sorted(file.path for file in host.files),
                    "models": {held.repository.place: held.record(directory) for held in host.models},
                    "sources": self._sources(host),
                }
                for host in self.hosts
            },
        }

    def _sources(self, host: Host) -> list[dict[str, Any]]:
        """Return what bundle.json says of each source of a host: what it was, where it lies, by what it is known."""
        found: dict[tuple[str, str], dict[str, Any]] = {}
        for source in host.system.sources:
            release = self._root(host.system).release(source)
            said = release.read_text(encoding="utf-8", errors="replace") if release else ""
            one = found.setdefault(
                (source.uri.rstrip("/"), source.suite),
                {
                    "uri": _shown(source.uri),
                    "suite": source.suite,
                    "place": repositories.place(source.uri),
                    "components": [],
                    "release": repositories.known_by(said, source.uri),
                },
            )
            one["components"] += [name for name in source.components if name not in one["components"]]
        return list(found.values())


class Refused(Exception):  # noqa: N818 - as Refusal
    """Several refusals at once."""

    def __init__(self, refusals: list[Refusal]) -> None:
        """Keep them."""
        super().__init__("\n".join(map(str, refusals)))
        self.refusals = refusals


def _lock(asked: Asked) -> str:
    return f"{LOCKS}/{asked.host}/{asked.wanted.name}.lock"


def _shown(uri: str) -> str:
    scheme, sign, rest = uri.partition("://")
    host, slash, path = rest.partition("/")
    return f"{scheme}{sign}{host.rpartition('@')[2]}{slash}{path}"


def _top(file: File) -> str:
    return file.path.partition("/")[0]


def _megabytes(size: int) -> str:
    return f"{size / 10**6:.1f} MB"

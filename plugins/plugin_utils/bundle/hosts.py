# Copyright (c) 2026 The gpulab founders
# GNU General Public License v3.0+ (see https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What a host gets, by what the tasks of a run in check mode were asked: packages, environments, files."""

from __future__ import annotations

import base64
import gzip
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit

from ansible_collections.gpulab.node.plugins.module_utils.core import download
from ansible_collections.gpulab.node.plugins.module_utils.environments import venv
from ansible_collections.gpulab.node.plugins.module_utils.environments.venv_host import Tool
from ansible_collections.gpulab.node.plugins.module_utils.packages import apt_sources, vendor_key
from ansible_collections.gpulab.node.plugins.module_utils.packages.apt_repository import Repository
from ansible_collections.gpulab.node.plugins.module_utils.packages.apt_sources import Source
from ansible_collections.gpulab.node.plugins.module_utils.packages.plan import Wishes
from ansible_collections.gpulab.node.plugins.plugin_utils.bundle import models
from ansible_collections.gpulab.node.plugins.plugin_utils.bundle.apt_root import System, Wanted
from ansible_collections.gpulab.node.plugins.plugin_utils.bundle.fetching import File
from ansible_collections.gpulab.node.plugins.plugin_utils.bundle.wheels import Asked
from ansible_collections.gpulab.node.plugins.plugin_utils.refusals import refuse

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from ansible_collections.gpulab.node.plugins.plugin_utils.bundle.models import Held

PACKAGES, COMPONENTS = "gpulab.node.packages", "gpulab.node.apt_components"
REPOSITORIES = ("gpulab.node.repository", "gpulab.node.apt_repository")
ENVIRONMENTS, MODELS = "gpulab.node.venv_environments", "gpulab.node.model_store"
WITH_SHA256 = ("gpulab.node.nvidia_runfile", "gpulab.node.nccl_tests_source")  # which fetch one file
NOT_HELD = {  # by module: the argument that asks for what no bundle has so far, and what that is
    "gpulab.node.conda_environments": ("environments", "conda environments"),
    "gpulab.node.cuda_wheels": ("toolkits", "CUDA toolkits of wheels"),
}
_OWN = "/etc/apt/sources.list.d/gpulab-"  # what gpulab declares, a task says
_LISTS = ("requirements", "index_packages", "constraints", "overrides", "compile")


@dataclass(frozen=True)
class Captured:
    """What a capture has: names of packages, and environments by their paths, with the versions of their locks.

    fault says why there is a capture that nothing is taken of.
    """

    packages: tuple[str, ...] = ()
    environments: dict[str, Asked] = field(default_factory=dict)
    fault: str = ""


@dataclass(frozen=True)
class Host:
    """What a host gets; status is what its dpkg knows, requirement the line by which pip fetches uv, empty without.

    captured has what a rebuild of its last capture brings back.
    """

    name: str
    system: System
    status: bytes
    wanted: tuple[Wanted, ...]
    environments: tuple[Asked, ...]
    files: tuple[File, ...]
    requirement: str
    repositories: tuple[Repository, ...]
    release: str = ""
    models: tuple[Held, ...] = ()
    captured: Captured = field(default_factory=Captured)

    @property
    def transactions(self) -> tuple[Wanted, ...]:
        """What is installed, by the roles and by a rebuild."""
        captured = Wanted(Wishes(present=self.captured.packages))
        return (*self.wanted, *((captured,) if self.captured.packages else ()))


def of(name: str, tasks: Sequence[tuple[str, Mapping[str, Any]]], there: Mapping[str, Any], release: str = "") -> Host:
    """Return what a host gets; release is its system, as "debian 13 x86_64".

    tasks are modules with their arguments, there is what the module package_sources found. Raises Refusal H060 and H061
    for the key of a repository, and M002 to M010 for models.
    """
    asked = [(module, args) for module, args in tasks if args.get("state", "present") in ("present", "fetched")]
    given = {args["name"]: (_repository(args), args) for module, args in asked if module in REPOSITORIES}
    components = [one for module, args in asked if module == COMPONENTS for one in args.get("components", [])]
    system = _system(there, list(given.values()), components)
    wanted = [_wanted(args) for module, args in asked if module == PACKAGES]
    environments, requirement = _environments(name, asked, there)
    return Host(
        name,
        system,
        gzip.decompress(base64.b64decode(there["status"])),
        tuple(one for one in wanted if one.wishes.present),
        environments,
        tuple(_file(args) for module, args in asked if module in WITH_SHA256 and args.get("sha256")),
        requirement,
        tuple(repository for repository, _args in given.values()),
        release,
        tuple(held for module, args in asked if module == MODELS for held in models.asked(args)),
    )


def lacking(name: str, tasks: Sequence[tuple[str, Mapping[str, Any]]]) -> list[str]:
    """Return a sentence for each thing that a host asks for and that no bundle has."""
    asked = [(module, args.get(NOT_HELD[module][0])) for module, args in tasks if module in NOT_HELD]
    return [f"The bundle has no {NOT_HELD[module][1]}, which {name} asks for." for module, value in asked if value]


def _repository(args: Mapping[str, Any]) -> Repository:
    fingerprint = (args.get("fingerprint") or "").replace(" ", "").upper()
    lists = (tuple(args.get(name) or ()) for name in ("components", "packages"))
    components, packages = lists
    return Repository(args["name"], args["url"], args.get("suite") or "/", components, fingerprint, packages)


def _key(repository: Repository, args: Mapping[str, Any]) -> bytes:
    """Return the key of a repository, given or fetched. Raises Refusal H060 unless it is the pinned one, and H061."""
    text, origin = args.get("key"), f"the repository {repository.name}, from your file,"
    if not text:
        origin = f"the repository {repository.name}, from {args['key_url']},"
        try:
            text = download.fetch(args["key_url"], lambda answer: answer.read(vendor_key.LIMIT), vendor_key.TIMEOUT)
        except OSError as error:
            raise refuse("H061", name=repository.name, url=args["key_url"], detail=error) from error
        text = text.decode("utf-8", "replace")
    vendor_key.check(text, origin, repository.fingerprint)
    return str(text).encode()


def _system(
    there: Mapping[str, Any], repositories: list[tuple[Repository, Mapping[str, Any]]], components: list[str]
) -> System:
    """Return what APT works with once all roles have run."""
    found = [
        Source(**{**one, "components": tuple(one["components"]), "options": _pairs(one)}) for one in there["sources"]
    ]
    sources = [source for source in found if not source.file.startswith(_OWN)]
    keyrings = {path: base64.b64decode(data) for path, data in there["keyrings"].items()}
    sources += apt_sources.missing(sources, list(dict.fromkeys(components)))
    declared = {(source.uri.rstrip("/"), source.suite) for source in sources}
    preferences = [there["preferences"]]
    for repository, args in repositories:
        preferences.append(repository.preferences(there["preferences"]))
        if (repository.url.rstrip("/"), repository.suite) not in declared:
            keyrings[repository.key_path] = _key(repository, args)
            signed_by = (("Signed-By", repository.key_path),)
            path = repository.sources_path
            sources.append(Source(path, repository.url, repository.suite, repository.components, signed_by))
    return System(
        tuple(there["architectures"]),
        tuple(sources),
        tuple(sorted(keyrings.items())),
        "\n".join(filter(None, preferences)),
    )


def _pairs(source: Mapping[str, Any]) -> tuple[tuple[str, str], ...]:
    return tuple((name, value) for name, value in source["options"])


def _wanted(args: Mapping[str, Any]) -> Wanted:
    names = ("present", "absent", "hold", "unhold", "retire")
    wishes = Wishes(*(tuple(args.get(name) or ()) for name in names))
    return Wanted(replace(wishes, absent=(), retire=()), bool(args.get("recommends")), args.get("last_origin") or "")


def _environments(
    host: str, asked: Sequence[tuple[str, Mapping[str, Any]]], there: Mapping[str, Any]
) -> tuple[tuple[Asked, ...], str]:
    """Return the environments of a host, and the line by which pip fetches uv; nothing where it has no environment."""
    args = next((args for module, args in asked if module == ENVIRONMENTS and args.get("environments")), None)
    if args is None:
        return (), ""
    settings = {"UV_DEFAULT_INDEX": args["index_url"]} if args.get("index_url") else {}
    found = []
    for given in args["environments"]:
        fields = {name: value for name, value in given.items() if name not in ("index_url", "group")}
        fields |= {name: tuple(given.get(name) or ()) for name in _LISTS}
        wanted = venv.Wanted(**fields, index=given.get("index_url"))
        if wanted.python not in there["pythons"]:
            own = ", ".join(there["pythons"]) or "none"
            raise refuse("B022", name=wanted.name, host=host, python=wanted.python, own=own)
        lock = there["locks"].get(wanted.name, "")
        found.append(Asked(host, wanted, lock, there["machine"], there["libc"], settings))
    return tuple(found), Tool(args["uv_version"], args["uv_sha256"], args.get("uv_url")).requirement


def _file(args: Mapping[str, Any]) -> File:
    sha256 = args["sha256"].lower()
    url = args["url"] if "://" in args["url"] else Path(args["url"]).absolute().as_uri()
    return File(f"files/{sha256}/{urlsplit(url).path.rpartition('/')[2]}", url, 0, sha256)

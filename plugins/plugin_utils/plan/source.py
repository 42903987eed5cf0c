# Copyright (c) 2026 The gpulab founders
# GNU General Public License v3.0+ (see https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Where the driver comes from, what that source carries, and what its packages are called."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import PurePosixPath
from typing import TYPE_CHECKING, Any, TypedDict

from ansible_collections.gpulab.node.plugins.plugin_utils.core.versions import same_or_newer
from ansible_collections.gpulab.node.plugins.plugin_utils.plan import display, kernels, secure_boot
from ansible_collections.gpulab.node.plugins.plugin_utils.plan.branch import (
    accepted_with_source,
    allowed,
    can_serve,
    settings_of,
)
from ansible_collections.gpulab.node.plugins.plugin_utils.plan.packages import edition
from ansible_collections.gpulab.node.plugins.plugin_utils.refusals import refuse

if TYPE_CHECKING:
    from collections.abc import Sequence

    from ansible_collections.gpulab.node.plugins.plugin_utils.plan.case import Case
    from ansible_collections.gpulab.node.plugins.plugin_utils.plan.model import Repository, Runfile

RUNFILE_URL = "https://us.download.nvidia.com/tesla/{version}/NVIDIA-Linux-{architecture}-{version}.run"


class _Runfile(TypedDict, total=False):
    runfile: Runfile


class SourcePackages(_Runfile):
    """The keys of the driver's part that name packages, repositories and files."""

    packages: list[str]
    kernel_package: str | None
    dkms_module: str | None
    build_packages: list[str]
    remove_packages: list[str]
    pin_package: str | None
    module_stream: str | None
    apt_components: list[str]
    release_packages: list[str]
    repository: Repository | None


@dataclass(frozen=True)
class Source:
    """One source of drivers on one platform."""

    name: str  # distribution, nvidia or runfile
    label: str  # for messages
    branches: tuple[str, ...]
    record: dict[str, Any]  # of the catalog; empty for a .run file
    signed: bool = False  # modules signed by the distribution in place of DKMS

    def version(self, case: Case, branch: str, kernel_modules: str) -> str:
        """Return the version that this source gives: the requested one, else the newest known."""
        requested = case.wishes["nvidia_driver_version"]
        newest = self._set(branch).get("newest", {}).get(kernel_modules) if self.record else None
        return requested or newest or case.catalog.branches[branch]["latest"]

    def exact(self, case: Case, branch: str, kernel_modules: str) -> bool:
        """Tell whether the version is held: NVIDIA's are; a distribution decides within its branch, unless pinned.

        Raises Refusal P048 for a requested version where the distribution's packages cannot be held to it.
        """
        if self.name != "distribution":
            return True
        names, requested = self._set(branch), case.wishes["nvidia_driver_version"]
        pinned = kernel_modules in names.get("pin", {})
        held = names.get("exact", False) or (pinned and requested == names["newest"][kernel_modules])
        if requested and not held:
            raise refuse("P048", source=self.label, branch=branch, version=requested)
        return pinned or (held and requested is not None)

    def packages(  # noqa: PLR0913
        self, case: Case, branch: str, version: str, kernel_modules: str, build_for: Sequence[str], *, shown: bool
    ) -> SourcePackages:
        """Return what the driver is made of; shown adds the packages for a display."""
        if not self.record:
            return _of_runfile(case, version)
        names = self._set(branch)
        values = {
            "branch": branch,
            "edition": edition(case, names, branch),
            "version": version,
            "pin": names.get("pin", {}).get(kernel_modules),
        }
        kernel_package = names["kernel_package"][kernel_modules].format(**values)
        pin = names.get("pin_package", "").format(**values)
        debian = case.platform["family"] == "debian"
        held = bool(pin) or not debian or (names.get("exact") and case.wishes["nvidia_driver_version"])
        origin = self.record["repository"]
        stream = names.get("module_stream", {}).get(kernel_modules)
        return {
            "packages": [
                f"{package}={version}*" if held else package
                for package in self._named(case, names, kernel_modules, values, shown=shown)
            ]
            + self._signed(case, names, kernel_modules, values, build_for),
            "kernel_package": None if self.signed else kernel_package,
            "dkms_module": None if self.signed else names["dkms_module"][kernel_modules],
            "build_packages": [] if self.signed else ["dkms"],
            "remove_packages": _others(case, names, values, {kernel_package, pin}),
            "pin_package": pin or None,
            "module_stream": stream.format(**values) if stream else None,
            "apt_components": self.record["components"] if debian else [],
            "release_packages": [] if debian else [*self.record["components"], names["lock_package"]],
            "repository": repository(case, origin, driver=True) if origin else None,
        }

    def _named(self, case: Case, names: dict[str, Any], kind: str, values: dict[str, Any], *, shown: bool) -> list[str]:
        chosen = names["packages_signed" if self.signed else "packages"][kind]
        lacking = names.get("not_on", {}).get(case.architecture, ())
        return [
            package.format(**values)
            for package in (*chosen, *(names["display"][kind] if shown else ()))
            if package.partition("=")[0] not in lacking
        ]

    def _signed(
        self, case: Case, names: dict[str, Any], kind: str, values: dict[str, Any], build_for: Sequence[str]
    ) -> list[str]:
        """Return the packages of modules that the distribution signed; these have the version of a kernel."""
        known = dict.fromkeys(kernels.series(case, kernel) for kernel in build_for) if self.signed else ()
        return [names["signed_package"][kind].format(series=series, **values) for series in known]

    def _set(self, branch: str) -> dict[str, Any]:
        return next(names for names in self.record["package_sets"] if branch in names["branches"])


def _others(case: Case, names: dict[str, Any], values: dict[str, Any], own: set[str]) -> list[str]:
    """Return the installed packages of other kernel modules, and of other versions' pins."""
    kernel_packages = {pattern.format(**values) for pattern in names["kernel_package"].values()}
    pins = names.get("pin_package", "").format(branch="", version="")
    installed = {package["name"] for package in case.facts["driver"]["packages"]}
    return sorted(name for name in installed - own if name in kernel_packages or (pins and name.startswith(pins)))


def choose(case: Case) -> tuple[Source, list[str]]:
    """Return the source and why this one. Raises Refusal for one that platform or node forbid."""
    requested = case.wishes["nvidia_driver_source"]
    name, why = (requested, f"Source {requested} is requested.") if requested != "auto" else _default(case)
    _check_mixture(case, name)
    if name == "runfile":
        return Source("runfile", "NVIDIA's .run files", tuple(case.catalog.branches), {}), [why]
    record = case.platform["driver_sources"].get(name)
    if record is None or not _serves_architecture(case, record):
        others = [other for other in case.platform["driver_sources"] if can_serve(case, other)]
        way = "; or ".join([*(settings_of(case, other) for other in others), "nvidia_driver_source: runfile"])
        raise refuse("P009", source=name, system=f"{case.platform['name']} on {case.architecture}", way=way)
    signed = name == "distribution" and _has_signed_modules(case, record)
    owner = case.platform["name"] if name == "distribution" else f"NVIDIA's repository for {case.platform['name']}"
    because = [why, "Its modules are built and signed by the distribution: no DKMS."] if signed else [why]
    return Source(name, owner, tuple(record["branches"]), record, signed), because


def check_version(case: Case, branch: str, version: str) -> list[str]:
    """Refuse a version below the floor of its branch, or too old for a GPU; return what is to be said about it."""
    record = case.catalog.branches[branch]
    for gpu in case.gpus:
        if not gpu.served_by(branch, version):
            raise refuse("P010", branch=version, gpu=gpu.name, demand=gpu.first_driver[branch])
    if allowed(case, branch):
        with_source = branch in accepted_with_source(case)
        by = "taken with nvidia_driver_source: distribution" if with_source else "allowed in gpulab_allow_branches"
        case.warnings.append(f"Branch {branch} is {by} despite its age: {version} may have known vulnerabilities.")
        return [f"Branch {branch} is {by}."]
    floor = record["security_floor"]
    if floor and not same_or_newer(version, floor["version"]):
        raise refuse("P017", version=version, floor=floor["version"], bulletin=floor["bulletin"], branch=branch)
    if record["latest"] and not same_or_newer(record["latest"], version):
        case.warnings.append(f"Driver {version} is newer than the catalog's latest ({record['latest']}).")
    held = (
        f"{version} is the newest known of its branch"
        if not case.wishes["nvidia_driver_version"]
        else "It is requested"
    )
    return [f"{held}; the floor is {floor['version']} (bulletin {floor['bulletin']})." if floor else f"{held}."]


def repository(case: Case, name: str, *, driver: bool = False) -> Repository:
    """Return a repository for the architecture.

    packages are those that it may replace; the driver's are among them where the driver comes from it. Of NVIDIA's
    repository it is the mirror that is requested, which has the key beside the packages as NVIDIA has.
    """
    record = case.catalog.repositories[name]
    found: Repository = {
        "id": record["id"],
        "format": record["format"],
        "url": record["url"].format(architecture=record["architectures"][case.architecture]),
        "suite": record["suite"],
        "key_url": record["key_url"],
        "key_file": None,
        "key_fingerprint": record["key_fingerprint"],
        "keyring_package_sha256": record["keyring_package_sha256"],
        "packages": [*(record.get("driver_packages", ()) if driver else ()), *record.get("packages", ())],
    }
    if name == case.platform["driver_sources"]["nvidia"]["repository"]:
        mirror = case.wishes["gpulab_nvidia_repository_url"]
        if mirror:
            key_name = PurePosixPath(record["key_url"]).name
            found["url"], found["key_url"] = mirror, f"{mirror.rstrip('/')}/{key_name}"
        found["key_file"] = case.wishes["gpulab_nvidia_repository_key"]
        found["key_fingerprint"] = case.wishes["gpulab_nvidia_repository_fingerprint"] or record["key_fingerprint"]
    return found


def _default(case: Case) -> tuple[str, str]:
    sources = case.platform["driver_sources"]
    distribution = sources.get("distribution")
    if display.carried_on(case):
        return "distribution", f"The node has the desktop driver of {case.platform['name']}, which stays."
    if secure_boot.is_on(case) and distribution and "signed_package" in distribution["package_sets"][0]:
        return "distribution", f"Secure Boot is on, and {case.platform['name']} has signed modules."
    return "nvidia", "NVIDIA's repository has the branches with fixes."


def _serves_architecture(case: Case, record: dict[str, Any]) -> bool:
    name = record["repository"]
    return name is None or case.architecture in case.catalog.repositories[name]["architectures"]


def _has_signed_modules(case: Case, record: dict[str, Any]) -> bool:
    """Tell whether the distribution signs modules, and for every kernel of the node."""
    build_for, _why = kernels.to_build_for(case)
    return "signed_package" in record["package_sets"][0] and all(kernels.series(case, one) for one in build_for)


def _of_runfile(case: Case, version: str) -> SourcePackages:
    """Return what a .run file takes. Raises Refusal P043 where nobody has said which file it has to be."""
    url = case.wishes["nvidia_driver_runfile"]
    url = url or RUNFILE_URL.format(version=version, architecture=case.architecture)
    sha256 = case.wishes["nvidia_driver_runfile_sha256"]
    if not sha256:
        raise refuse("P043", url=url)
    debian = case.platform["family"] == "debian"
    nvidia = case.platform["driver_sources"]["nvidia"]  # on RPM systems, DKMS is where its packages have it from
    return {
        "packages": [],
        "kernel_package": None,
        "dkms_module": "nvidia",
        "build_packages": ["dkms", "gcc", "make"],
        "remove_packages": [],
        "pin_package": None,
        "module_stream": None,
        "apt_components": [],
        "release_packages": [] if debian else [*nvidia["components"], nvidia["package_sets"][0]["lock_package"]],
        "repository": None,
        "runfile": {"url": url, "sha256": sha256},
    }


def _check_mixture(case: Case, name: str) -> None:
    driver = case.facts["driver"]
    if name == "runfile" and driver["packages"]:
        origins = sorted({package["source"] for package in driver["packages"]} & {*case.platform["driver_sources"]})
        way = f"nvidia_driver_source: {origins[0]}" if len(origins) == 1 else "with another nvidia_driver_source"
        raise refuse("P019", packages=", ".join(sorted(package["name"] for package in driver["packages"])[:3]), way=way)
    if name != "runfile" and driver["runfile"]:
        keep = "" if case.needs_fabric_manager else " To keep that driver, set nvidia_driver_source: runfile."
        raise refuse("P020", version=driver["runfile"], keep=keep)

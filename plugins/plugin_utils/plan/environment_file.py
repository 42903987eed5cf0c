# Copyright (c) 2026 The gpulab founders
# GNU General Public License v3.0+ (see https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What a file decides of an environment of the plan beside its packages: framework, PyTorch's build, Python."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from ansible_collections.gpulab.node.plugins.module_utils.environments import venv
from ansible_collections.gpulab.node.plugins.plugin_utils.core.versions import version_key
from ansible_collections.gpulab.node.plugins.plugin_utils.environment_files import reading
from ansible_collections.gpulab.node.plugins.plugin_utils.environment_files.pypa import Requirement, SpecifierSet
from ansible_collections.gpulab.node.plugins.plugin_utils.plan import framework_builds

if TYPE_CHECKING:
    from ansible_collections.gpulab.node.plugins.plugin_utils.plan.case import Case
    from ansible_collections.gpulab.node.plugins.plugin_utils.plan.model import Driver

PACKAGE_OF = {"pytorch": "torch", "tensorflow": "tensorflow", "jax": "jax"}


def of_file(case: Case, driver: Driver, wish: dict[str, Any], contents: reading.Contents) -> dict[str, Any]:
    """Return what a file decides of a wish beside its packages: the framework that it pins, and PyTorch's build.

    A version that the catalog does not have is left to the file, and so is one that is only limited.
    """
    if not wish.get("file") or contents.locked is not None or any(wish.get(one) for one in PACKAGE_OF):
        return {}
    pinned = {name: _pin(contents, package) for name, package in PACKAGE_OF.items()}
    known = {name: pin for name, pin in pinned.items() if pin and pin in case.catalog.frameworks[name]}
    if known:
        framework, release = next(iter(known.items()))
        suits = framework == "pytorch" and not wish.get("index") and _suits(case, driver, contents.build, release)
        return {framework: release, **({"index": contents.build} if suits else {})}
    torch = reading.named(contents, "torch")
    if torch and contents.build is None and not wish.get("index"):
        contents.build = _fitting_build(case, driver, torch)
    return {}


def _pin(contents: reading.Contents, package: str) -> str | None:
    """Return the one version of a package that a file takes."""
    found = reading.named(contents, package)
    return next((one.version for one in found.specifier if one.operator == "=="), None) if found else None


def _suits(case: Case, driver: Driver, build: str | None, release: str) -> bool:
    """Tell whether a build of a release of PyTorch works on the node."""
    if build in (None, "", framework_builds.CPU):
        return bool(build)
    builds = case.catalog.frameworks["pytorch"][release]["builds"]
    fitting = (one for one in builds if build in framework_builds.indexes(one))
    return any(framework_builds.obstacle(case, driver, one) is None for one in fitting)


def _fitting_build(case: Case, driver: Driver, torch: Requirement | None) -> str | None:
    """Return the build of PyTorch that suits the node, of the newest release that a requirement lets through."""
    releases = case.catalog.frameworks["pytorch"]
    for version in sorted(releases, key=version_key, reverse=True):
        if torch is not None and torch.specifier.contains(version):
            fitting = [
                one for one in releases[version]["builds"] if framework_builds.obstacle(case, driver, one) is None
            ]
            if fitting:
                return str(max(fitting, key=lambda one: version_key(one["cuda"]))["index"])
    return None


def lines_of(contents: reading.Contents, release: dict[str, Any] | None) -> list[str]:
    """Return the requirements of a file, without the framework where the plan has it."""
    if contents.locked is not None:
        return []
    own = PACKAGE_OF[release["framework"]] if release else None
    found = reading.named(contents, own) if own else None
    return [line for line in contents.requirements if found is None or Requirement(line) != found]


def framework_named(contents: reading.Contents, lock: str | None) -> str | None:
    """Return the framework among the packages of a file, by which the environment is tried."""
    pinned = venv.locked(lock) if lock is not None else {}
    return next(
        (one for one, package in PACKAGE_OF.items() if package in pinned or reading.named(contents, package)), None
    )


def python_of(
    case: Case,
    wish: dict[str, Any],
    contents: reading.Contents,
    release: dict[str, Any] | None,
    sets: dict[str, dict[str, Any]],
) -> str | None:
    """Return the Python nearest to the system's that a file takes and all else has; None where the file takes any.

    Of a lock it is the one of the nearest three for which the fewest packages have no wheel.
    """
    if not contents.python:
        return None
    own, specifier = version_key(case.platform["python"])[1], SpecifierSet(contents.python)
    of_file = [f"3.{minor}" for minor in range(8, 16) if specifier.contains(f"3.{minor}.99")]
    limits = [*([release["python"]] if release else []), *sets.values()]
    fitting = [one for one in of_file if all(framework_builds.is_within(one, limit) for limit in limits)] or of_file
    near = sorted(fitting, key=lambda one: abs(version_key(one)[1] - own))
    if contents.locked is None or not near:
        return near[0] if near else None
    return min(near[:3], key=lambda python: reading.without_wheel(wish, contents, python, case.architecture))

# Copyright (c) 2026 The gpulab founders
# GNU General Public License v3.0+ (see https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Which flavour of the kernel modules, and with it which version: open where every GPU and every kernel allows it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

from ansible_collections.gpulab.node.plugins.plugin_utils.core.versions import version_key
from ansible_collections.gpulab.node.plugins.plugin_utils.plan import known_issues
from ansible_collections.gpulab.node.plugins.plugin_utils.plan.branch import can_serve, settings_of
from ansible_collections.gpulab.node.plugins.plugin_utils.refusals import refuse

if TYPE_CHECKING:
    from ansible_collections.gpulab.node.plugins.module_utils.core.refusal import Refusal
    from ansible_collections.gpulab.node.plugins.plugin_utils.plan.case import Case, Request
    from ansible_collections.gpulab.node.plugins.plugin_utils.plan.source import Source

Met = tuple[str, dict[str, Any], str]  # driver, known issue, kernel

PREFERRED = ("open", "proprietary")


class Flavour(NamedTuple):
    """The flavour with its version, whether headers that are not there yet can show another one, and why this one."""

    flavour: str
    version: str
    headers_decide: bool
    because: list[str]


def allowed_by_gpus(case: Case) -> tuple[str, ...]:
    """Return the flavours that drive every GPU of the node and are not excluded, the preferred one first.

    Raises Refusal where two GPUs exclude each other, or a GPU excludes the requested flavour.
    """
    for index, one in enumerate(case.gpus):
        for other in case.gpus[index + 1 :]:
            if not set(one.kernel_modules) & set(other.kernel_modules):
                why = f"{one.kernel_modules[0]} against {other.kernel_modules[0]} kernel modules"
                raise refuse("P004", one=one.name, other=other.name, why=why)
    flavours = requested(case)
    for gpu in case.gpus:
        if not set(flavours) & set(gpu.kernel_modules):
            raise refuse("P011", requested=flavours[0], gpu=gpu.name, right=" or ".join(gpu.kernel_modules))
    return tuple(flavour for flavour in flavours if all(flavour in gpu.kernel_modules for gpu in case.gpus))


def requested(request: Request) -> tuple[str, ...]:
    """Return the flavours that the request allows, the preferred one first."""
    flavour = request.wishes["nvidia_driver_kernel_modules"]
    return PREFERRED if flavour == "auto" else (flavour,)


def of_branch(record: dict[str, Any], flavours: tuple[str, ...]) -> list[str]:
    """Return which of the flavours a branch has. Raises Refusal P012 where it has none of them."""
    had = record["kernel_modules"]
    found = [flavour for flavour in flavours if flavour in had]
    if not found:
        raise refuse("P012", branch=record["branch"], flavour=flavours[0], has=" and ".join(had))
    return found


def choose_kernel_modules(
    case: Case, source: Source, branch: str, flavours: tuple[str, ...], kernels: list[str]
) -> Flavour:
    """Return the first of the flavours that the branch has and no known issue stands against.

    Raises Refusal where the branch has none of them, or each is known to fail on a kernel.
    """
    had = of_branch(case.catalog.branches[branch], flavours)
    because: list[str] = []
    candidates = _by_fixes(had, {flavour: source.version(case, branch, flavour) for flavour in had}, because)
    refused: list[Met] = []
    headers_decide = False
    for flavour, version in candidates:
        headers_decide |= known_issues.headers_decide(case, source.name, version, flavour, kernels)
        met = known_issues.find(case, source.name, version, flavour, kernels)
        if met is None:
            return Flavour(flavour, version, headers_decide, [*because, _why(case, flavour)])
        issue, kernel = met
        because.append(f"The {flavour} modules {version} do not build for {kernel}: {issue['title']}.")
        refused.append((f"{flavour} {version}", issue, kernel))
    raise _broken(case, source, branch, kernels, refused[0])


def _broken(case: Case, source: Source, branch: str, kernels: list[str], refused: Met) -> Refusal:
    """Return the refusal for a known broken pair: its way out is the other flavour where that one builds.

    Where only the distribution's driver fails, NVIDIA's is another way, if NVIDIA has one for the node.
    """
    driver, issue, kernel = refused
    way = issue["remedy"]
    if issue["match"].get("sources") == ["distribution"] and can_serve(case, "nvidia"):
        way += f", or use NVIDIA's driver: {settings_of(case, 'nvidia')}"
    for flavour in case.catalog.branches[branch]["kernel_modules"]:
        builds = not known_issues.find(case, source.name, source.version(case, branch, flavour), flavour, kernels)
        if builds and all(flavour in gpu.kernel_modules for gpu in case.gpus):
            way = f"Set nvidia_driver_kernel_modules: {flavour}, which builds and supports every GPU here"
    return refuse("P016", driver=driver, kernel=kernel, title=issue["title"], symptom=issue["symptom"], way=way)


def _by_fixes(had: list[str], versions: dict[str, str], because: list[str]) -> list[tuple[str, str]]:
    """Order the flavours: one whose version lags behind the other's, and so lacks its fixes, comes last."""
    newest = max(version_key(version) for version in versions.values())
    lagging = [flavour for flavour in had if version_key(versions[flavour]) < newest]
    because += [
        f"The {flavour} modules stay at {versions[flavour]} there and miss the latest fixes." for flavour in lagging
    ]
    return [(flavour, versions[flavour]) for flavour in sorted(had, key=lagging.__contains__)]


def _why(case: Case, flavour: str) -> str:
    if case.wishes["nvidia_driver_kernel_modules"] == flavour:
        return f"The {flavour} kernel modules are requested."
    if case.gpus and all(gpu.kernel_modules == (flavour,) for gpu in case.gpus):
        return f"Only the {flavour} kernel modules support {', '.join(gpu.name for gpu in case.gpus)}."
    if flavour == "open":
        return "NVIDIA recommends the open kernel modules from Turing on."
    return "The proprietary kernel modules support every GPU of the node."

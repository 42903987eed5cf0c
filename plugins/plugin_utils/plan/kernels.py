# Copyright (c) 2026 The gpulab founders
# GNU General Public License v3.0+ (see https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""For which kernels the driver is built, and which header packages that takes."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any

from ansible_collections.gpulab.node.plugins.plugin_utils.core.versions import newest, version_key
from ansible_collections.gpulab.node.plugins.plugin_utils.refusals import refuse

if TYPE_CHECKING:
    from collections.abc import Mapping

    from ansible_collections.gpulab.node.plugins.plugin_utils.plan.case import Case


def to_build_for(case: Case) -> tuple[list[str], list[str]]:
    """Return kernel releases in the order of the facts, and why these. Raises Refusal where one cannot be built for."""
    requested = list(case.wishes["nvidia_driver_kernels"])
    if requested:
        return requested, ["Built for the kernels in nvidia_driver_kernels."]
    kernels = [kernel["version"] for kernel in case.facts["kernels"] if kernel["installed"]]
    because = [f"Built for the installed kernels: {', '.join(kernels)}."] if kernels else []
    running = case.facts["system"]["kernel"]
    if running not in kernels:
        if _headers_known(case, running):
            kernels.append(running)
            because.append(f"Also built for the running kernel {running}.")
        elif case.container:
            because.append(f"Not built for the running kernel {running}, which belongs to the container's host.")
        else:
            raise refuse("P005", kernel=running, package=_headers_package(case, running))
    if not kernels:
        raise refuse("P006", running=running)
    return kernels, because


def header_packages(case: Case, kernels: list[str]) -> list[str]:
    """Return the headers of each kernel, and per flavour the package that brings those of the next kernel.

    Installed headers of a kernel from elsewhere are used as they are: no package source needs to have them.
    """
    packages = [
        _headers_package(case, kernel) for kernel in kernels if is_own(case, kernel) or not _headers_known(case, kernel)
    ]
    packages += [meta for kernel in kernels if (meta := _meta_package(case, kernel))]
    return list(dict.fromkeys(packages))


def facts_of(case: Case, kernel: str) -> Mapping[str, Any]:
    """Return what gpu_facts says of a kernel; a kernel it does not know has no headers and no markers."""
    for known in case.facts["kernels"]:
        if known["version"] == kernel:
            return known
    return {"version": kernel, "headers": None, "markers": [], "compiler": None}


def is_own(case: Case, kernel: str) -> bool:
    """Tell whether a kernel is called as the distribution calls its own."""
    return _flavour(case, kernel) is not None


def foreign(case: Case, kernels: list[str]) -> list[str]:
    """Return a warning for each kernel that does not come from the distribution."""
    return [
        f"Kernel {kernel} does not come from {case.platform['name']}: gpulab {_use_of_headers(case, kernel)}. When you"
        " update this kernel, install the headers of its new version from the same place."
        for kernel in kernels
        if not is_own(case, kernel)
    ]


def left_out(case: Case, kernels: list[str]) -> list[str]:
    """Return a warning where the driver is not built for the kernel that boots next."""
    return [
        f"Kernel {kernel['version']} boots next and is not in nvidia_driver_kernels: the node comes back from its next"
        " reboot without the driver. Add it, or leave nvidia_driver_kernels empty."
        for kernel in case.facts["kernels"]
        if kernel.get("next_boot") and kernel["version"] not in kernels
    ]


def compilers(case: Case, kernels: list[str]) -> tuple[list[str], list[str]]:
    """Return the packages of the compilers that built the kernels, beside the system's own, and what cannot be had."""
    own, others = case.platform["gcc"], [f"gcc-{version}" for version in case.platform.get("other_gcc", ())]
    packages, warnings = [], []
    for kernel in kernels:
        compiler = facts_of(case, kernel)["compiler"]
        if compiler in others:
            packages.append(compiler)
        elif compiler and compiler != f"gcc-{own}":
            warnings.append(
                f"Kernel {kernel} was built by {compiler}, which {case.platform['name']} does not have: its gcc is"
                f" {own}. If the driver does not build, install that compiler, or use a kernel of the distribution."
            )
    return list(dict.fromkeys(packages)), warnings


def _use_of_headers(case: Case, kernel: str) -> str:
    there = _headers_known(case, kernel)
    return "uses its installed headers" if there else f"installs its headers as {_headers_package(case, kernel)}"


def series(case: Case, kernel: str) -> str | None:
    """Return the series of a kernel release, such as cloud-amd64 or generic-hwe-24.04; None for one of nobody's."""
    names, flavour = _names(case, kernel)[0], _flavour(case, kernel)
    if flavour is None or flavour in names.get("no_series", ()):
        return None
    hwe = flavour in names.get("hwe_flavours", ()) and version_key(kernel)[:2] > version_key(names["ga"])
    return flavour + (names["hwe"] if hwe else "")


def _flavour(case: Case, kernel: str) -> str | None:
    names, release = _names(case, kernel)
    match = re.match(names["flavour"], release)
    return match.group(1) if match else None


def _names(case: Case, kernel: str) -> tuple[dict[str, Any], str]:
    """Return what the packages of a kernel are called, and its release as they have it."""
    names = case.platform["kernel"]
    for ending, own in names.get("variants", {}).items():
        if kernel.endswith(ending):
            return {**names, **own}, kernel[: -len(ending)]
    return names, kernel


def _headers_known(case: Case, kernel: str) -> bool:
    return facts_of(case, kernel)["headers"] is not None


def _headers_package(case: Case, kernel: str) -> str:
    names, release = _names(case, kernel)
    return names["headers"].format(kernel=release)


def _meta_package(case: Case, kernel: str) -> str | None:
    names, release = _names(case, kernel)
    found = series(case, kernel)
    if found is None:
        return None
    installed = [_names(case, one["version"]) for one in case.facts["kernels"] if one["installed"]]
    alike = [own for of_own, own in installed if of_own["headers_meta"] == names["headers_meta"]]
    # On Red Hat's family it needs the kernel of its own version, so a newer one would bring a newer kernel.
    version = newest([own for own in alike if series(case, own) == found] or [release]).rpartition(".")[0]
    return names["headers_meta"].format(series=found, version=version)

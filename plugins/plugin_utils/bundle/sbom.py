# Copyright (c) 2026 The gpulab founders
# GNU General Public License v3.0+ (see https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What is in a bundle, as an SBOM in CycloneDX's form. It has no date, so that equal bundles have equal ones."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any
from urllib.parse import quote

if TYPE_CHECKING:
    from collections.abc import Iterable
    from pathlib import Path

    from ansible_collections.gpulab.node.plugins.plugin_utils.bundle.apt_root import Package
    from ansible_collections.gpulab.node.plugins.plugin_utils.bundle.wheels import Wheel

NAME = "sbom.cdx.json"


def write(directory: Path, packages: Iterable[Package], wheels: Iterable[Wheel], gpulab: str) -> None:
    """Write the SBOM of these packages and wheels."""
    components = [_package(package) for package in packages] + [_wheel(wheel) for wheel in wheels]
    unique = {component["purl"] + component["hashes"][0]["content"]: component for component in components}
    document = {
        "bomFormat": "CycloneDX",
        "specVersion": "1.6",
        "version": 1,
        "metadata": {"component": {"type": "application", "name": "gpulab-bundle", "version": gpulab}},
        "components": [component for _key, component in sorted(unique.items())],
    }
    (directory / NAME).write_text(json.dumps(document, indent=1) + "\n", encoding="utf-8")


def _package(package: Package) -> dict[str, Any]:
    name, version = package.field("Package"), package.field("Version")
    purl = f"pkg:deb/{quote(name)}@{quote(version, safe='')}?arch={package.field('Architecture')}"
    return _component(name, version, purl, package.field("SHA256"))


def _wheel(wheel: Wheel) -> dict[str, Any]:
    file = quote(wheel.file.path.rpartition("/")[2])
    purl = f"pkg:pypi/{quote(wheel.name)}@{quote(wheel.version, safe='')}?file_name={file}"
    return _component(wheel.name, wheel.version, purl, wheel.file.sha256)


def _component(name: str, version: str, purl: str, digest: str) -> dict[str, Any]:
    hashes = [{"alg": "SHA-256", "content": digest}]
    return {"type": "library", "name": name, "version": version, "purl": purl, "hashes": hashes}

#!/usr/bin/python
# Copyright (c) 2026 The gpulab founders
# GNU General Public License v3.0+ (see https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Read what APT on a node works with, and what else decides which files its software is made of."""

from __future__ import annotations

DOCUMENTATION = r"""
module: package_sources
short_description: Read what APT on a node works with
version_added: 1.1.0
description:
  - Returns the package sources of the node, the keys that sign them, its priorities and what dpkg knows, so that
    another machine can resolve what this node would install (see M(gpulab.node.bundle)).
  - Returns the locks of the Python environments in O(directory), and the libc that decides which wheels fit, too.
extends_documentation_fragment: gpulab.node.attributes
attributes:
  check_mode:
    description: Reads there too; nothing is ever changed.
options:
  directory:
    description: Where the environments are.
    type: path
    default: /opt/venvs
"""

EXAMPLES = r"""
- name: Read what APT works with
  gpulab.node.package_sources:
  register: sources
"""

RETURN = r"""
architectures:
  description: dpkg's names of the node's architecture and of the foreign ones.
  returned: success
  type: list
  elements: str
  sample: [amd64]
sources:
  description: The sources, as file, uri, suite, components and options.
  returned: success
  type: list
  elements: dict
keyrings:
  description: The files of keys that sources and APT name, in base64, by their paths.
  returned: success
  type: dict
preferences:
  description: The priorities that gpulab has not written.
  returned: success
  type: str
status:
  description: What dpkg knows, packed by gzip, in base64.
  returned: success
  type: str
machine:
  description: The machine, as the kernel calls it.
  returned: success
  type: str
  sample: x86_64
libc:
  description: The version of glibc.
  returned: success
  type: str
  sample: "2.41"
pythons:
  description: The Pythons of the system.
  returned: success
  type: list
  elements: str
  sample: ["3.13"]
locks:
  description: The lock of each environment by its name.
  returned: success
  type: dict
"""

import base64
import gzip
import os
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ansible_collections.gpulab.node.plugins.module_utils.core import files
from ansible_collections.gpulab.node.plugins.module_utils.core.module import Module, run
from ansible_collections.gpulab.node.plugins.module_utils.packages import apt_host

if TYPE_CHECKING:
    from collections.abc import Iterable

    from ansible_collections.gpulab.node.plugins.module_utils.packages.apt_sources import Source

STATUS = Path("/var/lib/dpkg/status")
TRUSTED = Path("/etc/apt/trusted.gpg.d")
PYTHONS = Path("/usr/bin")
LOCK = "gpulab.lock"


def read(module: Module) -> dict[str, Any]:
    """Return what there is."""
    own, foreign = (
        module.run_command(["dpkg", f"--print-{what}"])[1].split() for what in ("architecture", "foreign-architectures")
    )
    sources = apt_host.read_files(module, apt_host.listed())  # not those of a bundle that it uses
    places = Path(module.params["directory"]).glob(f"*/{LOCK}")
    return {
        "changed": False,
        "architectures": [*own, *foreign],
        "sources": [asdict(source) for source in sources],
        "keyrings": {str(path): base64.b64encode(path.read_bytes()).decode() for path in keyrings(sources)},
        "preferences": apt_host.read_preferences(),
        "status": base64.b64encode(gzip.compress(STATUS.read_bytes(), mtime=0)).decode(),
        "machine": os.uname().machine,
        "libc": (os.confstr("CS_GNU_LIBC_VERSION") or "").rpartition(" ")[2],
        "pythons": sorted(path.name[len("python") :] for path in PYTHONS.glob("python3.?*") if path.name[-1].isdigit()),
        "locks": {path.parent.name: files.read(path) for path in places},
    }


def keyrings(sources: Iterable[Source]) -> list[Path]:
    """Return the files of keys that sources name, and those that APT trusts for all others."""
    named = {Path(word) for source in sources for word in source.signed_by.split() if word.startswith("/")}
    found = [*named, *TRUSTED.glob("*.gpg"), *TRUSTED.glob("*.asc"), TRUSTED.with_suffix("")]
    return sorted(path for path in found if path.is_file())


def main() -> None:
    """Read, and return it."""
    spec = {"directory": {"type": "path", "default": "/opt/venvs"}}
    run(Module(argument_spec=spec, supports_check_mode=True), read)


if __name__ == "__main__":
    main()

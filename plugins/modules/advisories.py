#!/usr/bin/python
# Copyright (c) 2026 The gpulab founders
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""List the packages and wheels of NVIDIA's that a node has; the action plugin of the same name judges them."""

from __future__ import annotations

DOCUMENTATION = r"""
module: advisories
short_description: Say which of NVIDIA's known security holes a node has
version_added: 1.1.0
description:
  - Lists the packages of the system, and those of the Python environments that gpulab made, and holds them and the
    node's facts against NVIDIA's security bulletins, as the catalog of this gpulab has them. Asks no network.
  - M(gpulab.node.gpu_facts) has to run before. Nothing is changed on the node; the findings are written to
    C(reports/advisories/HOST.json) on the controller.
options:
  directory:
    description: Where the virtual environments are.
    type: path
  conda_directory:
    description: The root prefix below which the conda environments are.
    type: path
  accepted:
    description: Holes that somebody has accepted, as C(advisories_accepted) of the role C(advisories).
    type: list
    elements: dict
    default: []
    suboptions:
      cve:
        description: The number.
        type: str
        required: true
      because:
        description: Why it does no harm here.
        type: str
        required: true
      until:
        description: The last day on which it counts as accepted, V(YYYY-MM-DD).
        type: str
        required: true
      by:
        description: Who decided.
        type: str
        required: true
  names:
    description: Names and globs of packages. The action plugin sets it. Leave it out.
    type: list
    elements: str
    default: []
attributes:
  check_mode:
    description: The file on the controller is written all the same. Nodes are never changed.
    support: full
extends_documentation_fragment: [gpulab.node.attributes.facts, gpulab.node.attributes.platform]
notes:
  - Wheels in environments that people made themselves, and what is in images of containers, are not read.
"""

EXAMPLES = r"""
- name: Read the node
  gpulab.node.gpu_facts:

- name: Hold the node against NVIDIA's bulletins
  gpulab.node.advisories:
    directory: /opt/venvs
    accepted:
      - {cve: CVE-2025-23266, because: No container of strangers runs here, until: "2027-03-31", by: Ada}
  register: advisories
"""

RETURN = r"""
findings:
  description: Each hole with its score, bulletin, package, version, place, verdict, first fixed version and remedy.
  returned: success
  type: list
  elements: dict
lines:
  description: The same in words.
  returned: success
  type: list
  elements: str
refusal:
  description: Code, cause and remedy where an accepted hole is unknown, or the facts are missing.
  returned: failure
  type: dict
"""

from fnmatch import fnmatchcase

from ansible_collections.gpulab.node.plugins.module_utils.core.environment_packages import of_conda, of_wheels
from ansible_collections.gpulab.node.plugins.module_utils.core.module import Module
from ansible_collections.gpulab.node.plugins.module_utils.core.node import Node
from ansible_collections.gpulab.node.plugins.module_utils.core.shown import plain_values
from ansible_collections.gpulab.node.plugins.module_utils.facts.packages import PackagesQuery

ARGUMENTS = {
    "directory": {"type": "path"},
    "conda_directory": {"type": "path"},
    "accepted": {"type": "list", "elements": "dict", "default": []},
    "names": {"type": "list", "elements": "str", "default": []},
}


def environments(node: Node, directory: str | None) -> dict[str, dict[str, str]]:
    """Return the packages of each environment below a directory, by its path: versions by name."""
    found = {}
    for name in node.names(directory) if directory else []:
        place = f"{directory}/{name}"
        lib = f"{place}/lib"
        sites = [f"{lib}/{python}/site-packages" for python in node.names(lib) if python.startswith("python")]
        wheels = of_wheels(one for site in sites for one in node.names(site))
        conda = {one: record.version for one, record in of_conda(node.names(f"{place}/conda-meta")).items()}
        found[place] = {**conda, **wheels}
    return found


def packages(node: Node, names: list[str], places: list[str | None]) -> list[dict[str, str]]:
    """Return name, version and place of what fits the names; the place of a system's package is empty."""
    query = PackagesQuery(node, *names)
    held = [
        {"name": name, "version": version, "place": place}
        for directory in places
        for place, of_place in environments(node, directory).items()
        for name, version in of_place.items()
        if any(fnmatchcase(name, form) for form in names)
    ]
    system = [{"name": one.name, "version": one.version, "place": ""} for one in query.installed]
    return [*system, *held]


def main() -> None:
    """List them; the action plugin of the same name judges."""
    module = Module(argument_spec=ARGUMENTS, supports_check_mode=True)
    conda = module.params["conda_directory"]
    places = [module.params["directory"], f"{conda}/envs" if conda else None]
    module.exit_json(changed=False, packages=plain_values(packages(Node(), module.params["names"], places)))


if __name__ == "__main__":
    main()

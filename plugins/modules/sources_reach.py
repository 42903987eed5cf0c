#!/usr/bin/python
# Copyright (c) 2026 The gpulab founders
# GNU General Public License v3.0+ (see https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Look whether the node reaches what a run will download from."""

from __future__ import annotations

DOCUMENTATION = r"""
module: sources_reach
short_description: Refuse a node that cannot reach what the run downloads from
version_added: 1.0.0
description:
  - Asks each repository, package index and file that the roles at work will download from whether it answers, all at
    once, through the proxies that the node has or will have. The node is refused (GPULAB-H218) before anything changes.
  - On the controller an action plugin takes the sources from the plan. Roles whose downloads are on the node already
    ask for nothing, and without a source the node is not asked.
extends_documentation_fragment: gpulab.node.attributes
attributes:
  check_mode:
    description: Asks there too; nothing is ever changed.
options:
  sources:
    description: The sources; the action plugin sets them.
    type: list
    elements: dict
    default: []
    suboptions:
      name:
        description: What it is, for people.
        type: str
        required: true
      urls:
        description: Addresses of which one has to answer.
        type: list
        elements: str
        required: true
      exact:
        description: Whether the very file has to be there, where else any answer of the server counts.
        type: bool
        required: true
  proxies:
    description:
      - Variables of the environment, such as C(https_proxy). Without them, those that APT or DNF is set up for hold.
    type: dict
    default: {}
  certificates:
    description: Further authorities to trust, as PEM.
    type: str
    default: ""
"""

EXAMPLES = r"""
- name: Reach what the run downloads from
  gpulab.node.sources_reach:
"""

RETURN = r"""
unreached:
  description: The sources that do not answer, and what happened.
  returned: when one does not
  type: list
  elements: dict
  sample: [{name: the repository docker, url: "https://mirror.example/InRelease", detail: "Connection refused"}]
"""

from pathlib import Path
from typing import TYPE_CHECKING

from ansible_collections.gpulab.node.plugins.module_utils.core import files
from ansible_collections.gpulab.node.plugins.module_utils.core.module import Module
from ansible_collections.gpulab.node.plugins.module_utils.packages import apt_repository, dnf_repository, reach

if TYPE_CHECKING:
    from collections.abc import Mapping

DNF = Path("/etc/dnf/dnf.conf")


def main() -> None:
    """Ask all sources, and return those that do not answer."""
    source = {
        "name": {"type": "str", "required": True},
        "urls": {"type": "list", "elements": "str", "required": True},
        "exact": {"type": "bool", "required": True},
    }
    module = Module(
        argument_spec={
            "sources": {"type": "list", "elements": "dict", "default": [], "options": source},
            "proxies": {"type": "dict", "default": {}},
            "certificates": {"type": "str", "default": ""},
        },
        supports_check_mode=True,
    )

    def proxies(url: str) -> Mapping[str, str]:
        if module.params["proxies"]:
            return dict(module.params["proxies"])
        if DNF.exists():
            proxy = dnf_repository.proxy(files.read(DNF))
            return {"http_proxy": proxy, "https_proxy": proxy} if proxy else {}
        answer = module.run_command(apt_repository.proxy_question(url), check_rc=True)[1]
        return apt_repository.proxy_environment(answer, url)

    found = reach.unreached(module.params["sources"], proxies, module.params["certificates"])
    module.exit_json(changed=False, unreached=found)


if __name__ == "__main__":
    main()

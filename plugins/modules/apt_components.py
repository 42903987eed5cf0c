#!/usr/bin/python
# Copyright (c) 2026 The gpulab founders
# GNU General Public License v3.0+ (see https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Enable components of the distribution's own APT archive."""

from __future__ import annotations

DOCUMENTATION = r"""
module: apt_components
short_description: Enable components of Debian's own archive
version_added: 0.1.0
description:
  - Makes sure that Debian's archive is read with the wanted components, such as V(contrib) and V(non-free).
  - The mirror, the suites, the key and all other options are those that the node already uses. No existing file is
    edited; what is missing is declared in a file of its own, C(/etc/apt/sources.list.d/gpulab-NAME.sources).
extends_documentation_fragment: gpulab.node.attributes.diff
options:
  name:
    description: Who needs the components; names the file.
    type: str
    required: true
  components:
    description: The components that must be enabled for every suite of Debian's archive that the node reads.
    type: list
    elements: str
    default: []
  state:
    description: V(absent) removes the file.
    type: str
    choices: [present, absent]
    default: present
"""

EXAMPLES = r"""
- name: Enable the components that hold the driver
  gpulab.node.apt_components:
    name: nvidia-driver
    components: [contrib, non-free, non-free-firmware]
"""

RETURN = r"""
changes:
  description: What changed, or would change in check mode, as M(gpulab.node.preview) shows it.
  returned: success
  type: list
  elements: dict
  sample: [{action: write, what: /etc/apt/sources.list.d/gpulab-nvidia-driver.sources}]
path:
  description: The file that declares what was missing.
  returned: always
  type: str
  sample: /etc/apt/sources.list.d/gpulab-nvidia-driver.sources
refusal:
  description: Code, cause and remedy when the task is refused.
  returned: when refused
  type: dict
"""


from ansible.module_utils.basic import AnsibleModule
from ansible_collections.gpulab.node.plugins.module_utils.core import evidence, files
from ansible_collections.gpulab.node.plugins.module_utils.core.changes import of_files
from ansible_collections.gpulab.node.plugins.module_utils.core.module import fail
from ansible_collections.gpulab.node.plugins.module_utils.core.refusal import Refusal
from ansible_collections.gpulab.node.plugins.module_utils.packages import apt_host, apt_sources


def main() -> None:
    """Read the sources, work out what is missing, write it."""
    module = AnsibleModule(
        argument_spec={
            "name": {"type": "str", "required": True},
            "components": {"type": "list", "elements": "str", "default": []},
            "state": {"type": "str", "choices": ["present", "absent"], "default": "present"},
        },
        supports_check_mode=True,
    )
    path = apt_host.SOURCES[1] / f"gpulab-{module.params['name']}.sources"
    try:
        before, after = files.own_text(path) or "", ""
        if module.params["state"] == "present":
            sources = [source for source in apt_host.read_sources(module) if source.file != str(path)]
            after = apt_sources.render(apt_sources.missing(sources, module.params["components"]))
    except Refusal as refusal:
        fail(module, refusal)

    changed = bool(files.differing({str(path): before}, {str(path): after}))
    if changed and not module.check_mode:
        files.put_own(module, path, after or None)
    evidence.note(module, file=[str(path)])
    module.exit_json(
        changed=changed,
        changes=of_files({str(path): after} if changed else {}),
        path=str(path),
        diff=files.diff(str(path), before, after),
    )


if __name__ == "__main__":
    main()

#!/usr/bin/python
# Copyright (c) 2026 The gpulab founders
# GNU General Public License v3.0+ (see https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Declare a vendor's APT repository, tied to one key and to what it is there for."""

from __future__ import annotations

DOCUMENTATION = r"""
module: apt_repository
short_description: Declare a vendor's APT repository, tied to one key and to some packages
version_added: 0.1.0
description:
  - Declares a repository in C(/etc/apt/sources.list.d/gpulab-NAME.sources), signed by the key in
    C(/etc/apt/keyrings/gpulab-NAME.asc) and no other.
  - The key is fetched once, through APT's own proxy, and its fingerprint is computed here. A key with another
    fingerprint is refused (GPULAB-H060), and nothing is written.
  - C(/etc/apt/preferences.d/zz-gpulab-NAME.pref) ties the repository to O(packages). It cannot replace any other
    package of the distribution.
  - Where a file that gpulab did not write declares the repository already, with the same key, that file is left as it
    is and only the priorities are kept. With another key, or none, the task is refused (GPULAB-H062), since APT stops
    at two declarations with different keys.
  - Package lists are not refreshed; M(gpulab.node.packages) does that when its sources have changed.
extends_documentation_fragment:
  - gpulab.node.vendor_repository
  - gpulab.node.attributes.files
options:
  url:
    description: Where the repository is. Its host has to be another than that of the distribution's archive.
    type: str
  suite:
    description: The suite, or V(/) for a flat repository.
    type: str
    default: /
  components:
    description: The components; a flat repository has none.
    type: list
    elements: str
    default: []
  packages:
    description:
      - Names, and patterns (globs), of the packages that come from the repository although the distribution has them
        too. They get priority 600, before the distribution's; the repository's other packages get 100, behind it.
      - A package that only the repository has need not be named. Each pattern makes every apt command slower by 40 ms.
    type: list
    elements: str
    default: []
  release:
    description:
      - What its Release says of it in a bundle, such as V(o=NVIDIA,l=NVIDIA CUDA). The bundle then declares the
        repository and signs it; only the priorities are written, and go by this.
    type: str
    version_added: 1.1.0
  state:
    description: V(absent) removes the three files; V(present) needs O(url), O(fingerprint), and O(key_url) or O(key).
    type: str
    choices: [present, absent]
    default: present
"""

EXAMPLES = r"""
- name: Declare NVIDIA's repository
  gpulab.node.apt_repository:
    name: nvidia-cuda
    url: https://developer.download.nvidia.com/compute/cuda/repos/debian13/x86_64/
    key_url: https://developer.download.nvidia.com/compute/cuda/repos/debian13/x86_64/8793F200.pub
    fingerprint: 02182E60104FCDC26EAE1B8597A5D4CB8793F200
    packages: [nvidia-*, libnvidia-*, libcuda1]
"""

RETURN = r"""
changes:
  description: What changed, or would change in check mode, as M(gpulab.node.preview) shows it.
  returned: success
  type: list
  elements: dict
  sample: [{action: write, what: /etc/apt/keyrings/gpulab-nvidia-cuda.asc}]
paths:
  description: The files that were, or in check mode would be, changed.
  returned: success
  type: list
  elements: str
  sample: [/etc/apt/keyrings/gpulab-nvidia-cuda.asc]
declared_in:
  description: The file that declares the repository.
  returned: success
  type: str
  sample: /etc/apt/sources.list.d/gpulab-nvidia-cuda.sources
refusal:
  description: Code, cause and remedy when the task is refused.
  returned: when refused
  type: dict
"""

import os
from pathlib import Path

from ansible.module_utils.basic import AnsibleModule
from ansible_collections.gpulab.node.plugins.module_utils.core import evidence, files
from ansible_collections.gpulab.node.plugins.module_utils.core.changes import of_files
from ansible_collections.gpulab.node.plugins.module_utils.core.module import fail
from ansible_collections.gpulab.node.plugins.module_utils.core.refusal import Refusal
from ansible_collections.gpulab.node.plugins.module_utils.packages import (
    apt_host,
    apt_repository,
    apt_sources,
    vendor_key,
)
from ansible_collections.gpulab.node.plugins.module_utils.packages.apt_repository import Repository

OWN = "gpulab-"


def main() -> None:
    """Read what there is, work out what is wanted, write the difference."""
    module = AnsibleModule(
        argument_spec={
            **vendor_key.ARGUMENTS,
            "suite": {"type": "str", "default": "/"},
            "components": {"type": "list", "elements": "str", "default": []},
            "packages": {"type": "list", "elements": "str", "default": []},
            "release": {"type": "str"},
        },
        required_if=vendor_key.REQUIRED_IF,
        supports_check_mode=True,
    )
    params = module.params
    repository = Repository(
        params["name"],
        params["url"] or "",
        params["suite"],
        tuple(params["components"]),
        (params["fingerprint"] or "").replace(" ", "").upper(),
        tuple(params["packages"]),
        params["release"] or "",
    )
    owned = (repository.key_path, repository.preferences_path, repository.sources_path)
    declared_in, after = "", dict.fromkeys(owned, "")
    try:
        before = {path: files.own_text(Path(path)) or "" for path in owned}
        if params["state"] == "present":
            declared_in, after = wanted(module, repository, before[repository.key_path])
    except Refusal as refusal:
        fail(module, refusal)

    changed = files.differing(before, after)
    if not module.check_mode:
        for path in changed:
            files.put_own(module, Path(path), after[path] or None)
    evidence.note(module, file=owned)
    module.exit_json(
        changed=bool(changed),
        changes=of_files({path: after[path] for path in changed}),
        paths=changed,
        declared_in=declared_in,
        diff=[files.diff(path, before[path], after[path]) for path in changed],
    )


def wanted(module: AnsibleModule, repository: Repository, key: str) -> tuple[str, dict[str, str]]:
    """Return the file that declares the repository, and the wanted text of each file. Raises Refusal."""
    texts = {
        repository.key_path: "",
        repository.sources_path: "",
        repository.preferences_path: repository.preferences(apt_host.read_preferences()),
    }
    if repository.release:
        return apt_sources.BUNDLE, texts
    sources = [source for source in apt_host.read_sources(module) if not Path(source.file).name.startswith(OWN)]
    repository.check_host(sources)
    elsewhere = repository.declared_elsewhere(sources, read_keyring)
    if elsewhere is None:
        texts[repository.key_path] = pinned_key(module, repository, key)
        texts[repository.sources_path] = repository.sources()
    return elsewhere or repository.sources_path, texts


def pinned_key(module: AnsibleModule, repository: Repository, present: str) -> str:
    """Return the key: the given one, else the one that is there, else the one at key_url. Raises Refusal."""
    key = vendor_key.choose(module, repository.name, repository.fingerprint, repository.key_path, present)
    if key is None:
        url = module.params["key_url"]
        answer = module.run_command(apt_repository.proxy_question(url), check_rc=True)[1]
        os.environ.update(apt_repository.proxy_environment(answer, url))
        key = vendor_key.fetch(module, repository.name, repository.fingerprint)
    return key


def read_keyring(path: str) -> bytes:
    """Return a keyring that a source names; empty where there is none."""
    return Path(path).read_bytes() if Path(path).is_file() else b""


if __name__ == "__main__":
    main()

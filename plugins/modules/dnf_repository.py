#!/usr/bin/python
# Copyright (c) 2026 The gpulab founders
# GNU General Public License v3.0+ (see https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Declare a vendor's DNF repository, tied to one key and to one module stream."""

from __future__ import annotations

DOCUMENTATION = r"""
module: dnf_repository
short_description: Declare a vendor's DNF repository, tied to one key and to one module stream
version_added: 0.2.0
description:
  - Declares a repository in C(/etc/yum.repos.d/gpulab-NAME.repo). Its packages and its metadata have to be signed by
    the key in C(/etc/pki/rpm-gpg/RPM-GPG-KEY-gpulab-NAME).
  - The key is fetched once, through DNF's own proxy, and its fingerprint is computed here. A key with another
    fingerprint is refused (GPULAB-H060), and nothing is written. RPM is told to trust it.
  - With O(module_stream), that stream is enabled in place of any other of the module; no package changes by that.
  - Metadata are not refreshed; M(gpulab.node.packages) does that when its sources have changed.
author:
  - The gpulab founders (@gpulab)
attributes:
  check_mode:
    description: Reports what would change, changes nothing and fetches nothing.
    support: full
  diff_mode:
    description: Shows each file before and after.
    support: full
options:
  name:
    description: Names the files.
    type: str
    required: true
  url:
    description: Where the repository is.
    type: str
  key_url:
    description: Where the armored key is fetched from, unless O(key) is given.
    type: str
  key:
    description: The armored key itself.
    type: str
  fingerprint:
    description: Whole fingerprint of the primary key, in hexadecimal.
    type: str
  module_stream:
    description:
      - The stream that its packages come from, as V(module:stream).
      - Unset, packages are taken whatever streams there are (C(module_hotfixes)).
    type: str
    default: ""
  state:
    description:
      - V(absent) removes the files, the key, and the choice of a stream.
      - V(present) needs O(url), O(fingerprint), and O(key_url) or O(key).
    type: str
    choices: [present, absent]
    default: present
"""

EXAMPLES = r"""
- name: Declare NVIDIA's repository
  gpulab.node.dnf_repository:
    name: nvidia-cuda
    url: https://developer.download.nvidia.com/compute/cuda/repos/rhel9/x86_64/
    key_url: https://developer.download.nvidia.com/compute/cuda/repos/rhel9/x86_64/D42D0685.pub
    fingerprint: 610C7B14E068A878070DA4E99CD0A493D42D0685
    module_stream: nvidia-driver:595-open
"""

RETURN = r"""
paths:
  description: The files that were, or in check mode would be, changed.
  returned: success
  type: list
  elements: str
  sample: [/etc/yum.repos.d/gpulab-nvidia-cuda.repo]
refusal:
  description: Code, cause and remedy when the task is refused.
  returned: when refused
  type: dict
"""

import os
from dataclasses import asdict
from pathlib import Path

from ansible.module_utils.basic import AnsibleModule
from ansible_collections.gpulab.node.plugins.module_utils import dnf_repository, files, vendor_key
from ansible_collections.gpulab.node.plugins.module_utils.dnf_repository import Repository
from ansible_collections.gpulab.node.plugins.module_utils.refusal import Refusal

CONFIGURATION = Path("/etc/dnf/dnf.conf")


def main() -> None:
    """Read what there is, work out what is wanted, write the difference."""
    module = AnsibleModule(
        argument_spec={
            "name": {"type": "str", "required": True},
            "url": {"type": "str"},
            "key_url": {"type": "str", "no_log": False},
            "key": {"type": "str", "no_log": False},
            "fingerprint": {"type": "str"},
            "module_stream": {"type": "str", "default": ""},
            "state": {"type": "str", "choices": ["present", "absent"], "default": "present"},
        },
        required_if=[("state", "present", ("url", "fingerprint")), ("state", "present", ("key_url", "key"), True)],
        supports_check_mode=True,
    )
    params = module.params
    fingerprint = (params["fingerprint"] or "").replace(" ", "").upper()
    repository = Repository(params["name"], params["url"] or "", fingerprint, params["module_stream"])
    owned = [path for path in (repository.key_path, repository.declaration_path, repository.stream_path) if path]
    before = {path: files.read(Path(path)) for path in owned}
    present = params["state"] == "present"
    try:
        after = wanted(module, repository, before) if present else dict.fromkeys(owned, "")
    except Refusal as refusal:
        module.fail_json(msg=str(refusal), refusal=asdict(refusal))

    changed = [path for path in owned if before[path] != after[path]]
    trusted = dnf_repository.trusted_keys(
        module.run_command(list(dnf_repository.KEY_QUERY), check_rc=True)[1], fingerprint or "-"
    )
    if not module.check_mode:
        for path in changed:
            files.put(module, Path(path), after[path] or None)
        if present and not trusted:
            module.run_command(["rpm", "--import", repository.key_path], check_rc=True)
        if trusted and not present:
            module.run_command(["rpm", "--erase", *trusted], check_rc=True)
    module.exit_json(
        changed=bool(changed) or bool(trusted) != present,
        paths=changed,
        diff=[files.diff(path, before[path], after[path]) for path in changed],
    )


def wanted(module: AnsibleModule, repository: Repository, present: dict[str, str]) -> dict[str, str]:
    """Return the wanted text of each file. Raises Refusal."""
    key_path = repository.key_path
    key = vendor_key.choose(module, repository.name, repository.fingerprint, key_path, present[key_path])
    if key is None:
        proxy = dnf_repository.proxy(files.read(CONFIGURATION))
        if proxy:
            os.environ.update(http_proxy=proxy, https_proxy=proxy)
        key = vendor_key.fetch(module, repository.name, repository.fingerprint)
    texts = {key_path: key, repository.declaration_path: repository.declaration()}
    if repository.stream_path:
        texts[repository.stream_path] = repository.stream_state(present[repository.stream_path])
    return texts


if __name__ == "__main__":
    main()

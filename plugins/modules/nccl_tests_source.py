#!/usr/bin/python
# Copyright (c) 2026 The gpulab founders
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Fetch the source of nccl-tests, through proxies whose passwords nobody gets to see."""

from __future__ import annotations

DOCUMENTATION = r"""
module: nccl_tests_source
short_description: Fetch and unpack the source of nccl-tests
version_added: 1.0.0
description:
  - Fetches the archive, compares its SHA-256 and unpacks it, without the directory that everything in it lies in.
  - Unlike the variables of a task's environment, which Ansible shows at C(-vvv), the proxies are not shown anywhere.
options:
  url:
    description: Address of the archive, a C(.tar.gz); C(file:///) for one on the node.
    type: str
    required: true
  sha256:
    description: Its SHA-256.
    type: str
    required: true
  directory:
    description: Where it is unpacked. The directory is made where it is missing.
    type: path
    required: true
  http_proxy:
    description: The proxy for addresses that begin with C(http). Unset leaves it to the node.
    type: str
  https_proxy:
    description: The proxy for addresses that begin with C(https). Unset leaves it to the node.
    type: str
  no_proxy:
    description: Hosts and domains that need no proxy.
    type: list
    elements: str
    default: []
extends_documentation_fragment: gpulab.node.attributes
attributes:
  check_mode:
    description: Nothing is fetched.
  diff_mode:
    description: There is nothing to compare.
"""

EXAMPLES = r"""
- name: Fetch the source of nccl-tests
  gpulab.node.nccl_tests_source:
    url: https://mirror.example/nccl-tests.tar.gz
    sha256: 9689782d863c05a1bf5d2d371ba527104e7a4eb4310c1637d8653b751aed9c82
    directory: /opt/nccl-tests
    https_proxy: http://user:password@proxy.example:3128
"""

RETURN = r"""
changes:
  description: What changed, or would change in check mode, as M(gpulab.node.preview) shows it.
  returned: success
  type: list
  elements: dict
  sample: [{action: write, what: /opt/nccl-tests}]
refusal:
  description: Code, cause and remedy.
  returned: on failure
  type: dict
"""

import os
from pathlib import Path
from typing import Any

from ansible.module_utils.basic import AnsibleModule
from ansible_collections.gpulab.node.plugins.module_utils.core import download, files
from ansible_collections.gpulab.node.plugins.module_utils.core.changes import changes
from ansible_collections.gpulab.node.plugins.module_utils.core.module import run
from ansible_collections.gpulab.node.plugins.module_utils.core.refusals.cuda import refuse

TIMEOUT = 60  # seconds without an octet


def unpack(module: AnsibleModule) -> None:
    """Fetch, compare, unpack. Raises Refusal C002 and C003."""
    url, archive, directory = module.params["url"], Path(module.tmpdir, "source"), Path(module.params["directory"])
    given = {name: module.params[name] for name in ("http_proxy", "https_proxy")}
    given["no_proxy"] = ",".join(module.params["no_proxy"])
    os.environ.update({name: value for name, value in given.items() if value})
    try:
        download.save(url, archive, TIMEOUT)
    except OSError as error:
        raise refuse("C002", url=url, detail=error) from error
    found = module.sha256(str(archive))
    if found != module.params["sha256"].lower():
        raise refuse("C003", url=url, found=found, wanted=module.params["sha256"])
    files.make_directory(directory)
    argv = ["tar", "--extract", "--gzip", "--no-same-owner", "--strip-components=1"]
    module.run_command([*argv, f"--directory={directory}", f"--file={archive}"], check_rc=True)


def bring(module: AnsibleModule) -> dict[str, Any]:
    """Unpack the source, but not in check mode; return the module's result."""
    if not module.check_mode:
        unpack(module)
    return {"changed": True, "changes": changes(write=[module.params["directory"]])}


def main() -> None:
    """Parse, unpack, report."""
    module = AnsibleModule(
        argument_spec={
            "url": {"type": "str", "required": True},
            "sha256": {"type": "str", "required": True},
            "directory": {"type": "path", "required": True},
            "http_proxy": {"type": "str", "no_log": True},
            "https_proxy": {"type": "str", "no_log": True},
            "no_proxy": {"type": "list", "elements": "str", "default": []},
        },
        supports_check_mode=True,
    )
    run(module, bring)


if __name__ == "__main__":
    main()

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
  - Remembers in C(/var/lib/gpulab/dnf-repositories.json) of which keys it told RPM so, and how the module was before.
  - Metadata are not refreshed; M(gpulab.node.packages) does that when its sources have changed.
extends_documentation_fragment:
  - gpulab.node.vendor_repository
  - gpulab.node.attributes.files
options:
  module_stream:
    description:
      - The stream that its packages come from, as V(module:stream). A former one is given up.
      - Unset, packages are taken whatever streams there are (C(module_hotfixes)).
    type: str
    default: ""
  former:
    description:
      - Name under which M(gpulab.node.packages) keeps the packages that a change replaces. Where another stream is
        enabled for them, the former one comes back with them.
    type: str
  state:
    description:
      - V(absent) removes the files, and needs nothing but O(name). A key that this module had RPM trust is trusted no
        longer, unless another of its repositories has it; the module is in the stream that it was in before, unless
        somebody has chosen another since. What was there already stays.
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
changes:
  description: What changed, or would change in check mode, as M(gpulab.node.preview) shows it.
  returned: success
  type: list
  elements: dict
  sample: [{action: write, what: /etc/yum.repos.d/gpulab-nvidia-cuda.repo}]
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
from dataclasses import asdict, dataclass
from pathlib import Path

from ansible.module_utils.basic import AnsibleModule
from ansible_collections.gpulab.node.plugins.module_utils.core import evidence, files, records
from ansible_collections.gpulab.node.plugins.module_utils.core.changes import of_files
from ansible_collections.gpulab.node.plugins.module_utils.core.module import run
from ansible_collections.gpulab.node.plugins.module_utils.packages import dnf_repository, vendor_key
from ansible_collections.gpulab.node.plugins.module_utils.packages.dnf_repository import Record, Repository
from ansible_collections.gpulab.node.plugins.module_utils.packages.former import FormerRpms

CONFIGURATION = Path("/etc/dnf/dnf.conf")
RECORD = Path(dnf_repository.RECORD)


def main() -> None:
    """Read what there is, work out what is wanted, write the difference."""
    module = AnsibleModule(
        argument_spec={
            **vendor_key.ARGUMENTS,
            "module_stream": {"type": "str", "default": ""},
            "former": {"type": "str"},
        },
        required_if=vendor_key.REQUIRED_IF,
        supports_check_mode=True,
    )
    run(module, operate)


@dataclass(frozen=True)
class RepositoryStep:
    """What is to do: gpulab's files before and after, keys that rpm shall trust or no longer, the record then."""

    before: dict[str, str]
    after: dict[str, str]
    untrusted: bool
    given_up: list[str]
    settled: Record

    @property
    def changed(self) -> list[str]:
        """The files that change."""
        return files.differing(self.before, self.after)


def operate(module: AnsibleModule) -> dict[str, object]:
    """Read what there is, work out what is wanted, write the difference. Raises Refusal."""
    params = module.params
    fingerprint = (params["fingerprint"] or "").replace(" ", "").upper()
    repository = Repository(params["name"], params["url"] or "", fingerprint, params["module_stream"])
    step = plan(module, repository)
    if not module.check_mode:
        apply(module, repository, step)
    evidence.note(module, file=list(step.before))
    return {
        "changed": bool(step.changed or step.untrusted or step.given_up),
        "changes": of_files({path: step.after[path] for path in step.changed}),
        "paths": step.changed,
        "diff": [files.diff(path, step.before[path], step.after[path]) for path in step.changed],
    }


def plan(module: AnsibleModule, repository: Repository) -> RepositoryStep:
    """Return what is to do. Raises Refusal."""
    present = module.params["state"] == "present"
    record = dnf_repository.read_record(RECORD)
    streams = (record.former(repository).stream_path, repository.stream_path)
    owned = dict.fromkeys(path for path in (repository.key_path, repository.declaration_path, *streams) if path)
    before = {path: files.own_text(Path(path)) or "" for path in owned}
    after = {**given_back(record, repository, before), **(wanted(module, repository, before) if present else {})}
    keys = module.run_command(list(dnf_repository.KEY_QUERY), check_rc=True)[1]
    trusted = bool(repository.fingerprint and dnf_repository.trusted_keys(keys, repository.fingerprint))
    state = before.get(repository.stream_path or "", "")
    settled = record.settled(repository if present else repository.nothing, state, trusted=trusted)
    given_up = [key for one in record.keys.keys() - settled.keys for key in dnf_repository.trusted_keys(keys, one)]
    return RepositoryStep(before, after, present and not trusted, given_up, settled)


def apply(module: AnsibleModule, repository: Repository, step: RepositoryStep) -> None:
    """Carry out what is to do."""
    present, former = module.params["state"] == "present", module.params["former"]
    if present:  # first, so that an interruption leaves nothing that is forgotten
        remember(step.settled)
    if former and repository.stream_path in step.changed:
        FormerRpms(former).add_files({repository.stream_path: step.before[repository.stream_path]})
    for path in step.changed:
        files.put_own(module, Path(path), step.after[path] or None)
    if step.untrusted:
        module.run_command(["rpm", "--import", repository.key_path], check_rc=True)
    if step.given_up:
        module.run_command(["rpm", "--erase", *step.given_up], check_rc=True)
    if not present:
        remember(step.settled)


def remember(settled: Record) -> None:
    """Keep what there is to give back one day."""
    records.keep(RECORD, asdict(settled) if settled != Record() else None)


def given_back(record: Record, repository: Repository, present: dict[str, str]) -> dict[str, str]:
    """Return the text of each file once the repository is gone."""
    path = record.former(repository).stream_path
    own = dict.fromkeys((repository.key_path, repository.declaration_path), "")
    return {**present, **own, **({path: record.given_back(repository, present[path])} if path else {})}


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

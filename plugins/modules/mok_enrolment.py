#!/usr/bin/python
# Copyright (c) 2026 The gpulab founders
# GNU General Public License v3.0+ (see https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Ask the firmware to enrol the key with which DKMS signs kernel modules."""

from __future__ import annotations

DOCUMENTATION = r"""
module: mok_enrolment
short_description: Ask the firmware to enrol the key with which DKMS signs kernel modules
version_added: 0.2.0
description:
  - With Secure Boot on, the kernel loads the modules that DKMS built only where the key that signed them is enrolled
    with the firmware (machine owner key, MOK). This asks for it; somebody at the console has to agree at the next boot.
  - Where DKMS has no key yet, it is made as this DKMS makes its own, at the place where it looks for it.
  - One half of a key, which DKMS would overwrite, is refused (GPULAB-H170) before anything changes.
  - The password reaches no command line and no log. Its hash is in a file that only root reads, while C(mokutil) runs.
extends_documentation_fragment: gpulab.node.attributes.diff
attributes:
  check_mode:
    description: Reports what would be done and changes nothing.
  diff_mode:
    description: One step a line.
options:
  state:
    description:
      - V(absent) takes the request back where this module made it and it still waits. The key goes with it where this
        module made it, no module of DKMS is there that it may have signed, and it is not enrolled. Requests for other
        keys stay.
    type: str
    choices: [present, absent]
    default: present
  password:
    description: Password that the console will ask for. O(state=present) needs it.
    type: str
requirements:
  - mokutil
  - openssl
  - root
"""

EXAMPLES = r"""
- name: Ask the firmware to enrol the key of DKMS
  gpulab.node.mok_enrolment:
    password: "{{ vault_mok_password }}"
"""

RETURN = r"""
changes:
  description: What changed, or would change in check mode, as M(gpulab.node.preview) shows it.
  returned: success
  type: list
  elements: dict
  sample: [{action: arrange, what: ask the firmware to enrol /var/lib/dkms/mok.pub}]
certificate:
  description: The certificate of the key.
  returned: success
  type: str
  sample: /var/lib/dkms/mok.pub
standing:
  description: How the key stands, V(missing), V(half), V(absent), V(pending), V(enrolled) or V(unknown).
  returned: success
  type: str
steps:
  description: What was done, or would be, in words.
  returned: success
  type: list
  elements: str
refusal:
  description: Code, cause and remedy when the task is refused.
  returned: when refused
  type: dict
"""

import tempfile
from dataclasses import asdict
from typing import Any, TypedDict

from ansible.module_utils.basic import AnsibleModule
from ansible_collections.gpulab.node.plugins.module_utils.core import files, records
from ansible_collections.gpulab.node.plugins.module_utils.core.changes import changes
from ansible_collections.gpulab.node.plugins.module_utils.core.module import fail
from ansible_collections.gpulab.node.plugins.module_utils.core.node import Node
from ansible_collections.gpulab.node.plugins.module_utils.core.refusal import Refusal
from ansible_collections.gpulab.node.plugins.module_utils.core.refusals.system import refuse
from ansible_collections.gpulab.node.plugins.module_utils.driver import mok
from ansible_collections.gpulab.node.plugins.module_utils.facts.system import os_release

RECORD = "/var/lib/gpulab/secure-boot.json"  # what this module did: {"fingerprint", "made"}
STAYS = (
    "The key stays enrolled with the firmware: only somebody at the console can take it back (mokutil --delete {}, a"
    " reboot, Delete MOK)."
)
NOISE = "trusted keyring"  # what mokutil says of a keyring that it may not read, and goes on


class Record(TypedDict):
    """The key whose enrolment was asked for, and whether it is gpulab's own."""

    fingerprint: str
    made: bool


class KeyEnrolment:
    """Reads how the key stands, and carries steps out."""

    def __init__(self, module: Any, node: Node) -> None:
        """Take the module, which runs the commands, and the node."""
        self._module, self._node = module, node
        self._record_file = node.path(RECORD)
        self.pair = mok.key_pair(node, os_release(node.text("/etc/os-release")).get("ID", ""))

    @property
    def standing(self) -> str:
        """Return how the key stands now."""
        return mok.standing(self._node, self.pair)

    def prepare(self, password: str, *, check_mode: bool) -> list[str]:
        """Have the key, and its request with the firmware; return the steps. Raises Refusal."""
        stands, certificate = self.standing, self.pair.certificate
        if stands in (mok.PENDING, mok.ENROLLED):
            return []
        if stands == mok.HALF:
            half = sorted(self.pair.files, key=self._node.exists)
            raise refuse("H170", missing=half[0], present=half[1])
        made = stands == mok.MISSING
        steps = [f"make the key {self.pair.private}"] if made else []
        former = self._record()
        again = "" if made or former is None or former["fingerprint"] != self._fingerprint() else "once more "
        if not check_mode:
            if made:
                self._make()
            fingerprint = self._fingerprint()
            own = made or (former is not None and former["fingerprint"] == fingerprint and former["made"])
            records.write(self._record_file, {"fingerprint": fingerprint, "made": own}, 0o600)
            self._import(password, fingerprint)
        return [*steps, f"ask the firmware {again}to enrol {certificate}"]

    def revoke(self, *, check_mode: bool) -> list[str]:
        """Take back what prepare did, as far as that harms nothing; return the steps. Raises Refusal."""
        record, stands = self._record(), self.standing
        if not record:
            return []
        ours = stands not in (mok.MISSING, mok.HALF) and record["fingerprint"] == self._fingerprint()
        steps = []
        if ours and stands == mok.PENDING:
            steps.append(f"take the request to enrol {self.pair.certificate} back")
            if not check_mode:
                self._take_back(record["fingerprint"])
        if ours and record["made"] and stands in (mok.ABSENT, mok.PENDING) and mok.signs_nothing(self._node):
            steps.append(f"delete the key {self.pair.private}")
            if not check_mode:
                for path in self.pair.files:
                    self._node.path(path).unlink()
        if ours and stands == mok.ENROLLED:
            self._module.warn(STAYS.format(self.pair.certificate))
        if not check_mode:
            records.remove(self._record_file)
        return steps

    def _record(self) -> Record | None:
        lost = "Without it, gpulab does not know whether it made the key, and leaves it."
        return records.read(self._record_file, Record, None, lost)

    def _fingerprint(self) -> str:
        return mok.fingerprint(self._node.data(self.pair.certificate) or b"")

    def _make(self) -> None:
        """Make the pair as DKMS does. Raises Refusal H171 where it is not there afterwards."""
        dkms = self._module.get_bin_path("dkms")
        usage = "".join(self._module.run_command([dkms, "--help"])[1:]) if dkms else ""
        for path in self.pair.files:
            files.make_directory(self._node.path(path).parent)
        argv, environment = mok.maker(self.pair, usage), {"SHIM_NOTRIGGER": "y", "DEBIAN_FRONTEND": "noninteractive"}
        _status, output, error = self._module.run_command(argv, environ_update=environment, umask=0o077)
        if self.standing in (mok.MISSING, mok.HALF):
            raise refuse("H171", line=_essence(output, error), **asdict(self.pair))
        for path in self.pair.files:
            self._node.path(path).chmod(0o644 if path == self.pair.certificate else 0o600)

    def _import(self, password: str, fingerprint: str) -> None:
        """Make the request, and see that it waits. Raises Refusal H172."""
        what = f"the request to enrol {self.pair.certificate}"
        status, hashed, error = self._module.run_command(["openssl", "passwd", "-6", "-stdin"], data=password)
        if status:
            raise refuse("H172", what=what, line=_essence("", error))
        with tempfile.NamedTemporaryFile("w", dir=self._module.tmpdir) as file:  # which is for root's eyes, and goes
            file.write(hashed)
            file.flush()
            argv = ["mokutil", "--import", self.pair.certificate, "--hash-file", file.name]
            _status, output, error = self._module.run_command(argv)
        if fingerprint not in self._listed():
            raise refuse("H172", what=what, line=_essence(output, error))

    def _take_back(self, fingerprint: str) -> None:
        """Take the request back, and leave those for other keys. Raises Refusal H172."""
        alone = self._listed() == [fingerprint]
        argv = ["mokutil", "--revoke-import"] if alone else ["mokutil", "--delete", self.pair.certificate]
        _status, output, error = self._module.run_command(argv)
        if fingerprint in self._listed():
            raise refuse("H172", what="taking the request back", line=_essence(output, error))

    def _listed(self) -> list[str]:
        return mok.listed(self._module.run_command(["mokutil", "--list-new"])[1])


def _essence(output: str, error: str) -> str:
    """Return the last line that says something."""
    lines = [line.strip() for line in f"{output}\n{error}".splitlines() if line.strip() and NOISE not in line]
    return lines[-1] if lines else "it printed nothing"


def main() -> None:
    """Read, decide, carry out."""
    module = AnsibleModule(
        argument_spec={
            "state": {"type": "str", "choices": ["present", "absent"], "default": "present"},
            "password": {"type": "str", "no_log": True},
        },
        required_if=[("state", "present", ["password"])],
        supports_check_mode=True,
    )
    module.run_command_environ_update = {"LC_ALL": "C"}
    work = KeyEnrolment(module, Node())
    try:
        if module.params["state"] == "present":
            steps = work.prepare(module.params["password"], check_mode=module.check_mode)
        else:
            steps = work.revoke(check_mode=module.check_mode)
    except Refusal as refusal:
        fail(module, refusal)
    module.exit_json(
        changed=bool(steps),
        changes=changes(arrange=steps),
        certificate=work.pair.certificate,
        standing=work.standing,
        steps=steps,
        diff={"prepared": "".join(f"{step}\n" for step in steps)},
    )


if __name__ == "__main__":
    main()

#!/usr/bin/python
# Copyright (c) 2026 The gpulab founders
# GNU General Public License v3.0+ (see https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Add certificate authorities to a node's trust store."""

from __future__ import annotations

DOCUMENTATION = r"""
module: ca_certificates
short_description: Trust extra certificate authorities
version_added: 0.1.0
description:
  - Adds certificate authorities to the trust store of the node, such as that of a proxy that inspects TLS.
  - Authorities that the node already trusts are left alone. Authorities that this module added before and that are no
    longer wanted are removed.
extends_documentation_fragment: gpulab.node.attributes.diff
attributes:
  diff_mode:
    description: Shows the added and removed fingerprints.
options:
  certificates:
    description: PEM texts, each with one certificate or a whole bundle.
    type: list
    elements: str
    required: true
"""

EXAMPLES = r"""
- name: Trust the laboratory's proxy
  gpulab.node.ca_certificates:
    certificates:
      - "{{ lookup('ansible.builtin.file', 'files/proxy-ca.pem') }}"
"""

RETURN = r"""
changes:
  description: What changed, or would change in check mode, as M(gpulab.node.preview) shows it.
  returned: success
  type: list
  elements: dict
  sample: [{action: trust, what: 96bcec06264976f37460779acf28c5a7cfe8a3c0aae11a8ffcee05c0bddf08c6}]
store:
  description: The trust store, one file with all authorities.
  returned: always
  type: str
  sample: /etc/ssl/certs/ca-certificates.crt
added:
  description: SHA-256 fingerprints of the authorities that were, or in check mode would be, added.
  returned: always
  type: list
  elements: str
removed:
  description: SHA-256 fingerprints of the authorities that were, or in check mode would be, removed.
  returned: always
  type: list
  elements: str
"""

from dataclasses import dataclass
from pathlib import Path

from ansible.module_utils.basic import AnsibleModule
from ansible_collections.gpulab.node.plugins.module_utils.core import evidence, files
from ansible_collections.gpulab.node.plugins.module_utils.core.changes import changes
from ansible_collections.gpulab.node.plugins.module_utils.system import certificates

PREFIX = "gpulab-"
LINKS = Path("/etc/ssl/certs")  # of Debian's store


@dataclass(frozen=True)
class TrustStore:
    """A family's trust store: where authorities are added, the file they end up in, the command that rebuilds it.

    forget is what that must be told to forget an authority: without it, Debian's leaves links that lead nowhere.
    """

    directory: Path
    bundle: Path
    rebuild: tuple[str, ...]
    forget: tuple[str, ...] = ()

    def file(self, fingerprint: str) -> Path:
        """Return the file of an authority."""
        return self.directory / f"{PREFIX}{fingerprint}.crt"


STORES = (
    TrustStore(
        Path("/usr/local/share/ca-certificates"),
        Path("/etc/ssl/certs/ca-certificates.crt"),
        ("update-ca-certificates",),
        ("--fresh",),
    ),
    TrustStore(
        Path("/etc/pki/ca-trust/source/anchors"),
        Path("/etc/pki/ca-trust/extracted/pem/tls-ca-bundle.pem"),
        ("update-ca-trust", "extract"),
    ),
)


def lost() -> set[str]:
    """Return those of gpulab's that somebody removed since the store was built: its links to them lead nowhere."""
    return {path.stem[len(PREFIX) :] for path in LINKS.glob(f"{PREFIX}*.pem") if not path.exists()}


@dataclass(frozen=True)
class AuthorityStep:
    """What is to do: ours are gpulab's authorities that are as they shall be, by fingerprint."""

    ours: dict[str, str]
    add: dict[str, str]
    remove: list[str]


def main() -> None:
    """Compare the wanted authorities with the trust store, add and remove."""
    module = AnsibleModule(
        argument_spec={"certificates": {"type": "list", "elements": "str", "required": True}},
        supports_check_mode=True,
    )
    stores = [store for store in STORES if module.get_bin_path(store.rebuild[0])]
    if not stores:
        module.fail_json(msg="The node has no trust store that can be extended: install the package ca-certificates.")
    store = stores[0]
    step = plan(store, wanted_of(module))
    changed = bool(step.add or step.remove)
    if changed and not module.check_mode:
        apply(module, store, step)
    kept = (step.ours.keys() | step.add.keys()) - set(step.remove)
    evidence.note(module, file=[str(store.file(fingerprint)) for fingerprint in kept])
    module.exit_json(
        changed=changed,
        changes=changes(trust=sorted(step.add), distrust=step.remove),
        store=str(store.bundle),
        added=sorted(step.add),
        removed=step.remove,
        diff={
            "before_header": str(store.directory),
            "after_header": str(store.directory),
            "before": "".join(f"{fingerprint}\n" for fingerprint in sorted(step.ours)),
            "after": "".join(f"{fingerprint}\n" for fingerprint in sorted(kept)),
        },
    )


def wanted_of(module: AnsibleModule) -> dict[str, str]:
    """Return the certificates that are asked for, by fingerprint; fails where a text has none."""
    given = module.params["certificates"]
    try:
        wanted = {name: text for one in given for name, text in certificates.split(one).items()}
    except ValueError as error:
        module.fail_json(msg=f"A certificate cannot be read: {error}")
    if not wanted and any(given):
        module.fail_json(msg="The given text holds no PEM certificate.")
    return wanted


def plan(store: TrustStore, wanted: dict[str, str]) -> AuthorityStep:
    """Return what is to do."""
    there = {path.stem[len(PREFIX) :]: path for path in store.directory.glob(f"{PREFIX}*.crt")}
    texts = {fingerprint: files.read(path) for fingerprint, path in there.items() if files.has_rights(path)}
    ours = {name: text for name, text in texts.items() if text == wanted.get(name, text)}
    trusted = set(certificates.split(files.read(store.bundle))) - set(there) - lost()
    add, remove = certificates.plan(wanted, ours, trusted)
    return AuthorityStep(ours, add, sorted({*remove, *(set(there) - set(wanted))}))


def apply(module: AnsibleModule, store: TrustStore, step: AuthorityStep) -> None:
    """Write and remove files, and build the store again."""
    files.make_directory(store.directory)
    for fingerprint, pem in step.add.items():
        files.replace(module, store.file(fingerprint), pem)
        files.set_rights(store.file(fingerprint))
    for fingerprint in step.remove:
        store.file(fingerprint).unlink()
    module.run_command([*store.rebuild, *(store.forget if step.remove else ())], check_rc=True)


if __name__ == "__main__":
    main()

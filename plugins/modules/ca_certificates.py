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

from pathlib import Path

from ansible.module_utils.basic import AnsibleModule
from ansible_collections.gpulab.node.plugins.module_utils.core import evidence, files
from ansible_collections.gpulab.node.plugins.module_utils.core.changes import changes
from ansible_collections.gpulab.node.plugins.module_utils.system import certificates

# Per family: where authorities are added, the store they end up in, the command that rebuilds the store, and what it
# must be told to forget an authority: without that, Debian's leaves links that lead nowhere.
STORES: tuple[tuple[Path, Path, list[str], list[str]], ...] = (
    (
        Path("/usr/local/share/ca-certificates"),
        Path("/etc/ssl/certs/ca-certificates.crt"),
        ["update-ca-certificates"],
        ["--fresh"],
    ),
    (
        Path("/etc/pki/ca-trust/source/anchors"),
        Path("/etc/pki/ca-trust/extracted/pem/tls-ca-bundle.pem"),
        ["update-ca-trust", "extract"],
        [],
    ),
)
PREFIX = "gpulab-"
LINKS = Path("/etc/ssl/certs")  # of Debian's store


def lost() -> set[str]:
    """Return those of gpulab's that somebody removed since the store was built: its links to them lead nowhere."""
    return {path.stem[len(PREFIX) :] for path in LINKS.glob(f"{PREFIX}*.pem") if not path.exists()}


def main() -> None:
    """Compare the wanted authorities with the trust store, add and remove."""
    module = AnsibleModule(
        argument_spec={"certificates": {"type": "list", "elements": "str", "required": True}},
        supports_check_mode=True,
    )
    stores = [store for store in STORES if module.get_bin_path(store[2][0])]
    if not stores:
        module.fail_json(msg="The node has no trust store that can be extended: install the package ca-certificates.")
    directory, bundle, rebuild, forget = stores[0]
    try:
        wanted = {k: v for text in module.params["certificates"] for k, v in certificates.split(text).items()}
    except ValueError as error:
        module.fail_json(msg=f"A certificate cannot be read: {error}")
    if not wanted and any(module.params["certificates"]):
        module.fail_json(msg="The given text holds no PEM certificate.")
    there = {path.stem[len(PREFIX) :]: path for path in directory.glob(f"{PREFIX}*.crt")}
    ours = {
        fingerprint: text
        for fingerprint, path in there.items()
        if (text := files.read(path)) == wanted.get(fingerprint, text) and files.has_rights(path)
    }
    trusted = set(certificates.split(files.read(bundle))) - set(there) - lost()
    add, remove = certificates.plan(wanted, ours, trusted)
    remove = sorted({*remove, *(set(there) - set(wanted))})

    if (add or remove) and not module.check_mode:
        files.make_directory(directory)
        for fingerprint, pem in add.items():
            files.replace(module, directory / f"{PREFIX}{fingerprint}.crt", pem)
            files.set_rights(directory / f"{PREFIX}{fingerprint}.crt")
        for fingerprint in remove:
            (directory / f"{PREFIX}{fingerprint}.crt").unlink()
        module.run_command([*rebuild, *(forget if remove else [])], check_rc=True)
    kept = (ours.keys() | add.keys()) - set(remove)
    evidence.note(module, file=[str(directory / f"{PREFIX}{fingerprint}.crt") for fingerprint in kept])
    module.exit_json(
        changed=bool(add or remove),
        changes=changes(trust=sorted(add), distrust=remove),
        store=str(bundle),
        added=sorted(add),
        removed=remove,
        diff={
            "before_header": str(directory),
            "after_header": str(directory),
            "before": "".join(f"{fingerprint}\n" for fingerprint in sorted(ours)),
            "after": "".join(f"{fingerprint}\n" for fingerprint in sorted((set(ours) | set(add)) - set(remove))),
        },
    )


if __name__ == "__main__":
    main()

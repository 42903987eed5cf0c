# Copyright (c) 2026 The gpulab founders
# GNU General Public License v3.0+ (see https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Keep people from logging in to a node, with a message, until it is back in service. Open sessions go on.

systemd-user-sessions removes /run/nologin and /etc/nologin at each boot, and both would keep out the user that Ansible
logs in as. So a block at the top of each login's PAM file reads a file of gpulab's own, and lets some users pass; root
passes pam_nologin anyway. See pam_nologin(8), pam_succeed_if(8).
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from ansible_collections.gpulab.node.plugins.module_utils.core import files, owned_block

if TYPE_CHECKING:
    from collections.abc import Iterable

    from ansible_collections.gpulab.node.plugins.module_utils.core.node import Node

MESSAGE = "/etc/gpulab-fence"  # removing it lets everybody in
PAM = "/etc/pam.d"
# Logins by SSH, at the console (and of JupyterHub), at a desktop, by xrdp and Cockpit
SERVICES = (
    "sshd", "login", "remote", "gdm-password", "gdm-autologin", "gdm-fingerprint", "gdm-smartcard", "lightdm",
    "lightdm-autologin", "sddm", "sddm-autologin", "xrdp-sesman", "cockpit",
)  # fmt: skip
OWNER = "fence"


def block(passing: Iterable[str]) -> str:
    """Return the lines for a PAM file; passing are the users who may log in."""
    names = ":".join(sorted({"root", *passing}))
    return (
        f"account [success=1 default=ignore] pam_succeed_if.so quiet user in {names}\n"
        f"account requisite pam_nologin.so file={MESSAGE}"
    )


def wanted(texts: dict[str, str], message: str, passing: Iterable[str]) -> dict[str, str]:
    """Return what these PAM files, by path, and the file with the message become; without a message, all is open.

    The file with the message is last: it closes the node, and without it the blocks do nothing. Open, it is empty.
    """
    lines = block(passing) if message else ""
    blocks = {path: owned_block.merged(text, lines, OWNER, first=True) or "" for path, text in texts.items()}
    closing = {MESSAGE: f"{message}\n" if message else ""}
    return {**blocks, **closing} if message else {**closing, **blocks}


def services(node: Node) -> list[str]:
    """Return the PAM files by which people log in to this node."""
    return [path for path in (f"{PAM}/{name}" for name in SERVICES) if node.exists(path)]


def write(node: Node, module: Any, message: str, passing: Iterable[str] = ()) -> list[str]:
    """Close the node with this message, or open it without one; return the paths that changed, or would change.

    module is an AnsibleModule, which replaces files with their rights and labels.
    """
    before = {path: _text(node, path) for path in (*services(node), MESSAGE)}
    texts = {path: text for path, text in before.items() if path != MESSAGE}
    changes = {path: text for path, text in wanted(texts, message, passing).items() if text != before[path]}
    for path, text in changes.items() if not module.check_mode else ():
        place = node.path(path)
        files.put(module, place, text or None, files.mode_of(place))
    return list(changes)


def _text(node: Node, path: str) -> str:
    place = node.path(path)
    return place.read_text(encoding="utf-8", errors="surrogateescape") if place.is_file() else ""

# Copyright (c) 2026 The gpulab founders
# GNU General Public License v3.0+ (see https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Which secret files have another content in another capture."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ansible_collections.gpulab.node.plugins.module_utils.core.refusal import Refusal
from ansible_collections.gpulab.node.plugins.plugin_utils.capture import manifest as manifests
from ansible_collections.gpulab.node.plugins.plugin_utils.capture.secrets import cipher_of

if TYPE_CHECKING:
    from ansible_collections.gpulab.node.plugins.plugin_utils.capture.captures import Capture


def changed_secrets(host: str, former: Capture, later: Capture, identity: str | None) -> dict[str, bool | None]:
    """Tell which secret files of both captures have another content; nothing where this run cannot decrypt both."""
    contents = []
    for capture in (former, later):
        cipher = cipher_of(host, capture.archive.name, identity)
        try:
            contents.append(capture.secrets(cipher))
        except Refusal:  # it is whole, so the password or the key is not here
            contents.append({})
    both = manifests.secret_paths(former.manifest.files) & manifests.secret_paths(later.manifest.files)
    return {path: contents[0][path] != contents[1][path] for path in both if all(path in one for one in contents)}

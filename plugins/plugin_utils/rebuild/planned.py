# Copyright (c) 2026 The gpulab founders
# GNU General Public License v3.0+ (see https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Read what an installation is planned from on the controller: a capture, files of the inventory, the catalog."""

from __future__ import annotations

from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

from ansible_collections.gpulab.node.plugins.module_utils.core import records
from ansible_collections.gpulab.node.plugins.plugin_utils.catalog import Catalog
from ansible_collections.gpulab.node.plugins.plugin_utils.rebuild.case import Captured, Found, Installer
from ansible_collections.gpulab.node.plugins.plugin_utils.refusals import refuse

if TYPE_CHECKING:
    from collections.abc import Mapping

    from ansible_collections.gpulab.node.plugins.module_utils.installer.plan import Plan
    from ansible_collections.gpulab.node.plugins.plugin_utils.capture.captures import Capture

ENDINGS = (".network", ".netdev", ".link")  # what systemd-networkd reads


def installers() -> list[Installer]:
    """Return the records of catalog/installers.yml."""
    return records.typed(Catalog().read("installers")["installers"], list[Installer])


def captured(capture: Capture, secrets: Mapping[str, bytes]) -> Captured:
    """Return a capture with its secrets, as the planning takes it."""
    return Captured(capture.manifest, partial(_content, capture, secrets), capture.path.name)


def _content(capture: Capture, secrets: Mapping[str, bytes], path: str) -> bytes | None:
    if path in secrets:
        return secrets[path]
    return capture.data(path) if capture.content(path).is_file() else None


def network_files(host: str, paths: list[str]) -> dict[str, str] | None:
    """Return the files of systemd-networkd that the inventory names, by name; None for none. Raises Refusal R023."""
    found = {}
    for path in map(Path, paths):
        if not path.name.endswith(ENDINGS):
            detail = f"{path} is not a file of systemd-networkd: its name ends in none of {', '.join(ENDINGS)}"
            raise refuse("R023", host=host, detail=detail)
        try:
            found[path.name] = path.read_text(encoding="utf-8")
        except (OSError, ValueError) as error:
            raise refuse("R023", host=host, detail=f"{path} cannot be read: {error}") from error
    return found or None


def found_in(capture: Captured, user: str, server: str) -> Found:
    """Return what the planning takes of a machine that is down: what its capture says.

    user is who Ansible will connect as, server the address that it will connect to.
    """
    keys = [capture.data(path) for path in capture.authorized_keys(user)]
    text = b"\n".join(filter(None, keys)).decode("utf-8", "surrogateescape")
    return Found(capture.manifest.machine.dmi_uuid, None, user, text, server, "")


def kernel_arguments(plan: Plan, *, refused: str, source: str) -> list[str]:
    """Return the arguments of the installer's kernel.

    refused is what follows a refusal, "reboot" or "poweroff"; source is where it was started from, "disk" or "media".
    """
    own = ["rdinit=/gpulab/init", "panic=60", f"gpulab.refused={refused}", f"gpulab.from={source}"]
    return [*own, *plan["kernel_arguments"]]

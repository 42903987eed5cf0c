# Copyright (c) 2026 The gpulab founders
# GNU General Public License v3.0+ (see https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Say what differs between two captures of a host; the node is not asked."""

from __future__ import annotations

import json
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ansible.plugins.action import ActionBase
from ansible_collections.gpulab.node.plugins.module_utils.core.refusal import Refusal
from ansible_collections.gpulab.node.plugins.plugin_utils.capture import captures, compare, compared_text
from ansible_collections.gpulab.node.plugins.plugin_utils.capture import manifest as manifests
from ansible_collections.gpulab.node.plugins.plugin_utils.capture.changed_secrets import changed_secrets
from ansible_collections.gpulab.node.plugins.plugin_utils.core.failure import failure
from ansible_collections.gpulab.node.plugins.plugin_utils.core.host_file import file_name
from ansible_collections.gpulab.node.plugins.plugin_utils.refusals import refuse

if TYPE_CHECKING:
    from ansible_collections.gpulab.node.plugins.plugin_utils.capture.captures import Capture


class ActionModule(ActionBase):
    """Read two captures on the controller, and compare them."""

    _supports_check_mode = True
    _requires_connection = False

    def run(self, tmp: str | None = None, task_vars: dict[str, Any] | None = None) -> dict[str, Any]:
        """Return the comparison, for programs and for people, or the refusal."""
        super().run(tmp, task_vars)
        spec = {name: {"type": "path"} for name in ("directory", "age_identity", "documents")}
        spec = {**spec, "former": {"type": "str"}, "later": {"type": "str"}}
        spec["directory"]["default"] = "captures"
        _validated, arguments = self.validate_argument_spec(spec)
        host = (task_vars or {})["inventory_hostname"]
        try:
            former, later = pair = _captures(host, arguments)
            secrets = changed_secrets(host, former, later, arguments["age_identity"])
            comparison = compare.compare(former.document, later.document, secrets)
            document = asdict(comparison)
            if arguments["documents"]:
                _write(Path(arguments["documents"]) / f"{file_name(host)}.json", document)
        except Refusal as refusal:
            return failure([refusal])
        unsigned = [one.path.name for one in pair if not one.is_signed]
        told = [f"{name} has no signature: whoever may write there may have changed it" for name in unsigned]
        lines = [*told, *compared_text.lines(comparison)]
        return {"changed": False, "comparison": manifests.encodable(document), "lines": lines}


def _captures(host: str, arguments: dict[str, Any]) -> tuple[Capture, Capture]:
    """Return two captures that are whole, by default the newest ones. Raises Refusal R001, and as captures.read does.

    Nothing of them reaches a node, so one without a signature is told, and compared.
    """
    place = captures.place(Path(arguments["directory"]), host)
    newest = captures.latest_name(place)
    if newest is None:
        raise refuse("R001", host=host, what="capture", path=place)
    names = captures.names(place)
    later = arguments["later"] or newest
    before = [name for name in names if name < later]
    former = arguments["former"] or (before[-1] if before else None)
    if former is None:
        raise refuse("R001", host=host, what=f"capture before {later}", path=place)
    found = []
    for name in (former, later):
        if name not in names:
            raise refuse("R001", host=host, what=f"capture {name}", path=place)
        found.append(captures.read(place / name, unsigned=name))
        found[-1].verify()
    return found[0], found[1]


def _write(path: Path, document: dict[str, Any]) -> None:
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(json.dumps(document, indent=1, sort_keys=True) + "\n", encoding="ascii")
    except OSError as error:
        raise refuse("R022", path=path, detail=error.strerror) from error

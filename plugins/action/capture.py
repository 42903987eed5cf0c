# Copyright (c) 2026 The gpulab founders
# GNU General Public License v3.0+ (see https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""gpulab.node.capture: ask the node what it holds, then for the contents that the controller does not have yet."""

from __future__ import annotations

import base64
import contextlib
import hashlib
import json
import stat
from itertools import groupby
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ansible_collections.gpulab.node.plugins.module_utils.capture.arguments import ARGUMENTS
from ansible_collections.gpulab.node.plugins.module_utils.capture.confidential import is_secret
from ansible_collections.gpulab.node.plugins.module_utils.capture.sections.files import FILE
from ansible_collections.gpulab.node.plugins.module_utils.core.refusal import Refusal
from ansible_collections.gpulab.node.plugins.module_utils.rebuild import software_done
from ansible_collections.gpulab.node.plugins.module_utils.rebuild.present import MARKER
from ansible_collections.gpulab.node.plugins.plugin_utils import options
from ansible_collections.gpulab.node.plugins.plugin_utils.capture import captures, look, signature, summary
from ansible_collections.gpulab.node.plugins.plugin_utils.capture import manifest as manifests
from ansible_collections.gpulab.node.plugins.plugin_utils.capture.secrets import cipher_for
from ansible_collections.gpulab.node.plugins.plugin_utils.capture.store import Store, open_store
from ansible_collections.gpulab.node.plugins.plugin_utils.core.asking import Asking, FailedError
from ansible_collections.gpulab.node.plugins.plugin_utils.core.failure import failure
from ansible_collections.gpulab.node.plugins.plugin_utils.inventory_check.values import faults
from ansible_collections.gpulab.node.plugins.plugin_utils.refusals import refuse
from ansible_collections.gpulab.node.plugins.plugin_utils.roles import leaves

if TYPE_CHECKING:
    from collections.abc import Iterator

    from ansible_collections.gpulab.node.plugins.module_utils.capture.sections.files import Entry

AT_ONCE = 8 << 20  # bytes of contents in one answer, but for the last file in it


class ActionModule(Asking):
    """Read a node, and write its capture on the controller."""

    _supports_check_mode = True

    def run(self, tmp: str | None = None, task_vars: dict[str, Any] | None = None) -> dict[str, Any]:
        """Return what was captured and what is left over, or the refusal."""
        super().run(tmp, task_vars)
        self.variables = task_vars or {}
        wrong = list(wrong_settings(self._task.args))
        if wrong:
            return failure(wrong)
        _validated, args = self.validate_argument_spec(ARGUMENTS)
        host = self.variables["inventory_hostname"]
        allow = options.Values(self.given)["reinstall_allow"]
        try:
            cipher = cipher_for(host, args["age_recipients"])
            if self._task.check_mode:
                return summary.result(manifests.typed(self._look(host, args)), None, allow=allow)
            self.refuse_half_rebuilt(host, Path(args["directory"]))
            with open_store(Path(args["directory"]), host, args["keep"]) as store:
                manifest = self._look(host, args)
                secrets = self._contents(manifest, store)
                written = store.finish(manifest, secrets, cipher)
        except Refusal as refusal:
            return failure([refusal])
        except FailedError as failed:
            return failed.result
        notes = _told(Path(args["directory"]))
        return summary.result(written.manifest, written.path, store.damage, notes, allow)

    def _look(self, host: str, args: dict[str, Any]) -> dict[str, Any]:
        return look.document(self, host, args, leaves.on_host(options.Values(self.given)))

    def refuse_half_rebuilt(self, host: str, directory: Path) -> None:
        """Raise Refusal R078 for a system that came from a capture of this directory, and has not all of it back.

        A run that did not see the installation, or that of a person with a medium, knows it by the node alone.
        """
        marker, done = self._read_parts([(path, 0, look.MIB) for path in (MARKER, f"/{software_done.PLACE}")])
        with contextlib.suppress(ValueError, KeyError, TypeError):
            capture = json.loads(base64.b64decode(marker["data"]))["capture"]
            if done is None and capture in captures.names(captures.place(directory, host)):
                raise refuse("R078", host=host, capture=capture)

    def _contents(self, manifest: dict[str, Any], store: Store) -> dict[str, bytes]:
        """Store the contents of the files, and return the secret ones; both as the manifest then says it.

        A file that changed since the node looked is recorded as it was read; one that is gone is left out, and one that
        cannot be read is left over.
        """
        wanted, secrets = [], {}
        for entry in manifest["files"]:
            if manifests.has_content(entry) and entry["sha256"] in store.known:
                store.link(entry["path"], entry["sha256"])
            elif entry["kind"] == FILE:
                wanted.append(entry)
        missing = set()
        for entry, answers in self._read(wanted):
            if not all(one and "data" in one for one in answers):
                missing.add(entry["path"])
                manifest["remainder"] += _unreadable(entry, answers)
                continue
            data = b"".join(base64.b64decode(one["data"]) for one in answers)
            entry["size"] = len(data)
            if entry.get("secret") or not answers[0]["mode"] & stat.S_IROTH or is_secret(entry["path"], data):
                entry["secret"] = True
                entry.pop("sha256", None)
                secrets[entry["path"]] = data
            else:
                entry["sha256"] = hashlib.sha256(data).hexdigest()
                store.put(entry["path"], data)
        manifest["files"] = [entry for entry in manifest["files"] if entry["path"] not in missing]
        return secrets

    def _read(self, entries: list[Entry]) -> Iterator[tuple[Entry, list[Any]]]:
        """Yield files with the module's answers for all of their parts."""
        for _path, parts in groupby(self._parts(entries), lambda part: part[0]["path"]):
            read = list(parts)
            yield read[0][0], [answer for _entry, answer in read]

    def _parts(self, entries: list[Entry]) -> Iterator[tuple[Entry, Any]]:
        """Yield the parts of files, in their order, with the module's answers."""
        batch: list[tuple[Entry, int]] = []
        size = 0
        for entry in entries:
            for start in range(0, max(entry["size"], 1), AT_ONCE):
                batch.append((entry, start))
                size += min(AT_ONCE, entry["size"] - start)
                if size >= AT_ONCE:
                    yield from self._answered(batch)
                    batch, size = [], 0
        yield from self._answered(batch)

    def _answered(self, batch: list[tuple[Entry, int]]) -> Iterator[tuple[Entry, Any]]:
        if batch:
            answers = self._read_parts([(entry["path"], start, AT_ONCE) for entry, start in batch])
            yield from zip((entry for entry, _start in batch), answers)

    def _read_parts(self, parts: list[tuple[str, int, int]]) -> Any:
        """Return the module's answer for each part: path, start and size. Raises FailedError."""
        return self.ask(look.MODULE, {"directory": self._task.args["directory"], "work": "read"}, parts)


def wrong_settings(args: dict[str, Any]) -> Iterator[Refusal]:
    """Yield what is wrong with the role's settings: a list given as text would capture everything."""
    known = options.load().options
    for name, value in args.items():
        if f"capture_{name}" in known:
            yield from faults(known[f"capture_{name}"], value)


def _told(directory: Path) -> list[str]:
    """Say where the key is that keeps others from changing a capture, where they may write."""
    if not signature.others_may_write(directory):
        return []
    key = signature.place()
    return [f"  others may write in {directory.absolute()}; {key}, which signs captures, has to stay yours alone"]


def _unreadable(entry: Entry, answers: list[Any]) -> list[dict[str, Any]]:
    """Return what is left over of a file: all of it, where it is there and a part of it cannot be read."""
    reasons = [one["unreadable"] for one in answers if one and "unreadable" in one]
    if not reasons:
        return []
    why = f"it cannot be read: {reasons[0]}"
    return [{"path": entry["path"], "files": 1, "bytes": entry["size"], "owner": entry["owner"], "why": why}]

# Copyright (c) 2026 The gpulab founders
# GNU General Public License v3.0+ (see https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The receipts of the roles on a node: /var/lib/gpulab/receipts/ROLE.json.

A role that has done its work leaves one, with what it worked from (inputs: digests by name), what of the plan it has
carried out and a proof compares with (plan), and the items that it answers for. The end of the run seals it with what
the items are then. A receipt only names what to read: whoever reads it reads the items again.
"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any, TypedDict

from ansible_collections.gpulab.node.plugins.module_utils.core import records
from ansible_collections.gpulab.node.plugins.module_utils.core.refusal import Refusal
from ansible_collections.gpulab.node.plugins.module_utils.receipts.items import Reading, how

if TYPE_CHECKING:
    from ansible_collections.gpulab.node.plugins.module_utils.core.node import Node
    from ansible_collections.gpulab.node.plugins.plugin_utils.facts.model import Facts

SCHEMA = 1
NOT_ENDED = "the run that wrote its receipt did not end well"
DIRECTORY = "/var/lib/gpulab/receipts"


class Schema(TypedDict):
    """What every receipt has."""

    schema: int


class _Later(TypedDict, total=False):
    plan: dict[str, Any]


class StoredReceipt(Schema, _Later):
    """A receipt of this schema; one of an earlier gpulab holds no plan."""

    inputs: dict[str, str]
    sealed: bool
    items: dict[str, Any]


def write(role: str, inputs: dict[str, str], plan: dict[str, Any], items: list[str]) -> None:
    """Write the receipt of a role that has done its work; it counts once it is sealed."""
    receipt = {"schema": SCHEMA, "inputs": inputs, "plan": plan, "sealed": False, "items": dict.fromkeys(items)}
    records.write(Path(DIRECTORY, f"{role}.json"), receipt, 0o600)


def remove(role: str) -> None:
    """Remove a role's receipt, and the directory with the last one."""
    records.remove(Path(DIRECTORY, f"{role}.json"))
    if Path(DIRECTORY).is_dir() and not any(Path(DIRECTORY).iterdir()):
        Path(DIRECTORY).rmdir()


def items(node: Node) -> dict[str, list[str]]:
    """Return the items that the receipts of a node name, by role; none of them is read."""
    return {role: sorted(receipt["items"]) for role, receipt in _all(node).items()}


class NodeReceipts:
    """The receipts of a node, and what their items are now."""

    def __init__(self, node: Node) -> None:
        """Begin to read what the receipts name."""
        self._node = node
        self._found = _all(node)
        self._reading = Reading(node, {item for one in self._found.values() for item in one["items"]})
        self._values: dict[str, Any] | None = None

    def seal(self, facts: Facts) -> None:
        """Write what the items are now into the receipts that this run has written."""
        now = self._now(facts)
        for role, receipt in self._found.items():
            if not receipt["problem"] and not receipt["sealed"]:
                receipt.update(sealed=True, items={item: now[item] for item in receipt["items"]})
                sealed = {name: receipt[name] for name in ("schema", "inputs", "plan", "sealed", "items")}
                records.write(self._node.path(f"{DIRECTORY}/{role}.json"), sealed, 0o600)

    def facts(self, facts: Facts) -> dict[str, dict[str, Any]]:
        """Return the facts ``receipts``, by role: {"inputs", "plan", "problem", "differs", "drift"}.

        problem says why a receipt does not count. differs says how items differ from what the last
        run left; drift is that part of it which somebody changed on the node, by hand or by another program.
        """
        now = self._now(facts)
        return {role: _compared(receipt, now) for role, receipt in self._found.items()}

    def _now(self, facts: Facts) -> dict[str, Any]:
        if self._values is None:
            self._values = self._reading.values(facts)
        return self._values


def _compared(receipt: dict[str, Any], now: dict[str, Any]) -> dict[str, Any]:
    problem = receipt["problem"] or ("" if receipt["sealed"] else NOT_ENDED)
    before = {} if problem else receipt["items"]
    changed = [item for item in before if before[item] != now[item]]
    words = {item: how(item, before[item], now[item]) for item in changed}
    return {
        "inputs": receipt["inputs"],
        "plan": receipt["plan"],
        "problem": problem,
        "differs": list(words.values()),
        "drift": [text for item, text in words.items() if not item.startswith("fact:")],
    }


def _all(node: Node) -> dict[str, dict[str, Any]]:
    names = [name for name in node.names(DIRECTORY) if name.endswith(".json")]
    return {name[: -len(".json")]: _read(node.path(f"{DIRECTORY}/{name}")) for name in names}


def _read(path: Path) -> dict[str, Any]:
    """Return a receipt with its problem; one that cannot be read names nothing."""
    nothing: dict[str, Any] = {
        "inputs": {},
        "plan": {},
        "sealed": False,
        "items": {},
        "problem": "its receipt is damaged",
    }
    try:
        found = records.read(path, Schema, None)
        if found and found["schema"] != SCHEMA:
            return {**nothing, "problem": f"its receipt has another schema ({found['schema']})"}
        receipt = records.read(path, StoredReceipt, None)
    except Refusal:
        return nothing
    return {"problem": "", "plan": {}, **receipt} if receipt else nothing

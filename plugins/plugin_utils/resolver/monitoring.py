# Copyright (c) 2026 The gpulab founders
# GNU General Public License v3.0+ (see https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Whether a node is watched, and the one address on which it answers Prometheus."""

from __future__ import annotations

import ipaddress
from typing import TYPE_CHECKING, Any

from ansible_collections.gpulab.node.plugins.module_utils.refusal import refuse

if TYPE_CHECKING:
    from ansible_collections.gpulab.node.plugins.plugin_utils.resolver.case import Case

LOOPBACK = "127.0.0.1"
OWNERS = ("--web.listen-address", "--web.systemd-socket", "--collector.textfile.directory")


def plan(case: Case) -> dict[str, Any]:
    """Return {address, because}; without an address node exporter is not gpulab's affair.

    Raises Refusal where an address is wished for that the node does not have, or its owner chose one himself.
    """
    if case.wishes["monitoring_state"] != "present":
        return {"address": None, "because": ["Nothing lets Prometheus watch the node (monitoring_state)."]}
    if case.platform["family"] != "debian":
        raise refuse("P042", what="monitoring", system=case.platform["name"])
    if case.wishes["monitoring_gpus"] == "dcgm":
        raise refuse("P072")
    facts = case.facts["monitoring"]
    own = [word for word in facts["exporter"]["arguments"] if word.partition("=")[0] in OWNERS]
    if own:
        raise refuse("P070", settings=" ".join(own))
    address, because = _address(case.wishes["monitoring_listen_address"], facts)
    return {"address": address, "because": [f"Prometheus is answered on {address}: {because}"]}


def _address(wished: str | None, facts: dict[str, Any]) -> tuple[str, str]:
    if wished:
        try:
            parsed = ipaddress.ip_address(wished)
        except ValueError:
            parsed = None
        if parsed is None or not (parsed.is_unspecified or str(parsed) in facts["addresses"]):
            raise refuse("P071", address=wished, known=", ".join(facts["addresses"]))
        return wished, "monitoring_listen_address says so."
    routed = facts["routed_address"]
    if routed is None:
        return LOOPBACK, "no address has the default route; monitoring_listen_address names another."
    if ipaddress.ip_address(routed).is_global:
        return LOOPBACK, f"{routed}, the default route's, is public; monitoring_listen_address names another."
    return routed, "the address of the default route, which is not public."

# Copyright (c) 2026 The gpulab founders
# GNU General Public License v3.0+ (see https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""A preview as a page: hosts that would change in the same way stand together, those that cannot come first."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING, TypedDict

from ansible_collections.gpulab.node.plugins.module_utils.core.shown import for_people_all
from ansible_collections.gpulab.node.plugins.plugin_utils.pages.alike import alike
from ansible_collections.gpulab.node.plugins.plugin_utils.pages.page import GRAVEST_FIRST, LARGE, render
from ansible_collections.gpulab.node.plugins.plugin_utils.preview import text

if TYPE_CHECKING:
    from ansible_collections.gpulab.node.plugins.plugin_utils.preview.model import (
        Preview,
        PreviewedChange,
        PreviewedHost,
    )

SEVERITIES = {"failed": "fail", "refused": "fail", "unreachable": "fail", "changes": "info", "unchanged": "ok"}
WORDS = {"fail": "cannot be changed", "info": "would change", "ok": "nothing to do"}
# What differs from host to host and says nothing of what changes, and what the table of the hosts says.
OF_EACH = ("name", "present", "users", "disk", "host_types", "defaults", "simulated", "seconds")


class Group(TypedDict):
    """Hosts that would change in the same way, by their places in the document.

    record is that of one of them, roles what each role would do there.
    """

    severity: str
    numbers: list[int]
    record: PreviewedHost
    roles: dict[str, list[PreviewedChange]]


def page(document: Preview) -> str:
    """Return the page."""
    shown: Preview = for_people_all(document)
    hosts = shown["hosts"]
    severities = Counter(SEVERITIES[host["state"]] for host in hosts)
    return render(
        "preview/plan.html.j2",
        document=shown,
        large=len(hosts) >= LARGE,
        groups=_groups(hosts),
        counts={severity: severities[severity] for severity in WORDS},
        words=WORDS,
        severity_of=SEVERITIES,
        states=text.STATES,
        cells=[text.row(host)[2:] for host in hosts],
        heads=[head.lower().replace("gpus", "GPUs") for head in text.HEADS[2:]],
        what=text.what,
        most=text.SHOWN,
        amounts=dict(text.amounts([host for host in hosts if host["state"] == "changes"])),
    )


def _groups(hosts: list[PreviewedHost]) -> list[Group]:
    """Return the groups: the gravest first, then those with a reboot, then the largest."""
    numbers = {host["name"]: number for number, host in enumerate(hosts)}
    records = {host["name"]: {part: value for part, value in host.items() if part not in OF_EACH} for host in hosts}
    groups: list[Group] = [
        {
            "severity": SEVERITIES[record["state"]],
            "numbers": [numbers[name] for name in names],
            "record": record,
            "roles": _by_role(record),
        }
        for names, record in alike(records)
    ]
    return sorted(groups, key=_place)


def _by_role(record: PreviewedHost) -> dict[str, list[PreviewedChange]]:
    roles: dict[str, list[PreviewedChange]] = {}
    for change in record["changes"]:
        roles.setdefault(change["role"], []).append(change)
    return {**roles, **{role: [] for role in record["due"] if role not in roles}}


def _place(group: Group) -> tuple[int, bool, int]:
    severity, reboot = GRAVEST_FIRST.index(group["severity"]), group["record"]["reboot"]["needed"]
    return severity, not reboot, -len(group["numbers"])

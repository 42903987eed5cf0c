# Copyright (c) 2026 The gpulab founders
# GNU General Public License v3.0+ (see https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The preview on a terminal: a table with a line for each host, and below it what lies behind each line."""

from __future__ import annotations

from collections import Counter
from types import MappingProxyType
from typing import TYPE_CHECKING

from ansible_collections.gpulab.node.plugins.module_utils.core.shown import first
from ansible_collections.gpulab.node.plugins.module_utils.facts.people import at_work
from ansible_collections.gpulab.node.plugins.module_utils.facts.users import named
from ansible_collections.gpulab.node.plugins.plugin_utils.progress.board import about

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from ansible_collections.gpulab.node.plugins.plugin_utils.preview.model import (
        Planned,
        PresentNow,
        Preview,
        PreviewedChange,
        PreviewedDisk,
        PreviewedHost,
    )

HEADS = ("HOST", "PREVIEW", "GPUS", "DRIVER NOW", "PLANNED", "DOWNLOAD", "REBOOT", "GPUS IN USE")
STATES = {
    "changes": "would change",
    "unchanged": "nothing to do",
    "refused": "REFUSED",
    "failed": "FAILED",
    "unreachable": "UNREACHABLE",
}
ACTIONS = {
    "change": "change the version of",
    "build": "build the kernel module for",
    "select": "set as the default",
    "make": "create the environment",
    "admit": "add to the group docker",
    "arrange": "steps:",
}
OF_PACKAGES = {"install", "change", "remove"}
OF_TYPES = "host types"
SHOWN = 6  # objects of one change; the JSON has all
LABEL = 10
Reasons = dict[str, list[str]]


def lines(document: Preview, why: Mapping[str, Reasons] = MappingProxyType({}), *, whole: bool = False) -> list[str]:
    """Return the lines of the preview.

    why has the reasons of each host's plan by subject; of each subject the first one is shown, unless they are wanted
    whole.
    """
    return [
        *table([HEADS, *map(row, document["hosts"])]),
        *(line for host in document["hosts"] for line in _host(host, _why(why.get(host["name"], {}), whole=whole))),
        "",
        *_together(document["hosts"]),
    ]


def _together(hosts: list[PreviewedHost]) -> Iterator[str]:
    """Yield a line for each state that hosts are in; of those that would change, how much it is together."""
    for state, title in STATES.items():
        of_state = [host for host in hosts if host["state"] == state]
        if of_state:
            sums = [f"{what} {amount}" for what, amount in amounts(of_state)] if state == "changes" else []
            what = f": {', '.join(sums)}" if sums else ""
            yield f"{len(of_state)} of {len(hosts)} hosts: {title}{what}"


def amounts(hosts: list[PreviewedHost]) -> Iterator[tuple[str, str]]:
    """Yield what hosts would change together: what, and how much of it."""
    changes = [change for host in hosts for change in host["changes"]]
    yield "roles", str(len({change["role"] for change in changes}))
    yield "packages", str(sum(len(change["objects"]) for change in changes if change["action"] in OF_PACKAGES))
    known = [host["download"]["bytes"] for host in hosts]
    sizes = [count for count in known if count is not None]
    yield "download", size(sum(sizes)) + ("" if len(sizes) == len(known) else " and what is not known yet")
    yield "reboots", str(sum(host["reboot"]["needed"] for host in hosts))
    seconds = [host["seconds"] for host in hosts]
    took = [count for count in seconds if count is not None]
    if took and len(took) == len(seconds):  # nodes are changed side by side
        yield "time", about(max(took))


def table(rows: Sequence[tuple[str, ...]]) -> list[str]:
    """Return rows in columns, each as wide as its widest cell."""
    widths = [max(map(len, column)) for column in zip(*rows)]
    return ["  ".join(cell.ljust(width) for cell, width in zip(row, widths)).rstrip() for row in rows]


def size(count: int) -> str:
    """Say a number of bytes in the units in which apt does."""
    amount, units = float(count), ["B", "kB", "MB", "GB"]
    while amount >= 1000 and len(units) > 1:  # noqa: PLR2004 - kilo
        amount /= 1000
        units.pop(0)
    return f"{amount:.0f} {units[0]}" if units[0] != "GB" else f"{amount:.1f} GB"


def row(host: PreviewedHost) -> tuple[str, ...]:
    """Return a host's cells of the table, as HEADS names them."""
    present, planned, users = host["present"], host["planned"], host["users"]
    name = host["name"] + (" (simulated)" if host["simulated"] else "")
    if not present or not users:
        return (name, STATES[host["state"]], *["?"] * (len(HEADS) - 2))
    return (
        name,
        STATES[host["state"]],
        _gpus(present["gpus"]),
        present["driver"]["on_disk"] or "none",
        _planned(planned) if planned else "no plan",
        _download(host) if planned else "-",
        ("yes" if host["reboot"]["needed"] else "no") if planned else "-",
        {"idle": "no", "busy": f"yes ({len(users['who'])})"}.get(users["state"], "unknown"),
    )


def _gpus(names: list[str]) -> str:
    return ", ".join(f"{count} x {name}" for name, count in Counter(names).items()) or "none"


def _planned(driver: Planned) -> str:
    """Say which driver the node gets; one that is to go has no kernel modules."""
    return f"{driver['version'] or driver['branch']} {driver['kernel_modules']}" if driver["kernel_modules"] else "none"


def _download(host: PreviewedHost) -> str:
    count = host["download"]["bytes"]
    return "not known yet" if count is None else size(count)


def _why(reasons: Reasons, *, whole: bool) -> list[str]:
    """Return the reasons by subject; what a type sets is in its own line already."""
    if whole:
        return [f"{subject}: {reason}" for subject, lines in reasons.items() for reason in lines]
    first_ones = [f"{subject}: {lines[0]}" for subject, lines in reasons.items() if subject != OF_TYPES]
    left = sum(map(len, reasons.values())) - len(first_ones)
    return [*first_ones, *([f"and {left} more reasons: run it with -v"] if left else [])]


def _host(host: PreviewedHost, why: list[str]) -> Iterator[str]:
    yield ""
    yield f"{host['name']}: {STATES[host['state']]}" + (
        f"  (SIMULATED: {host['simulated']})" if host["simulated"] else ""
    )
    for label, texts in [*_details(host), ("why", why), ("note", host["warnings"])]:
        for text in texts:
            yield f"  {label:{LABEL}}{text}"
            label = ""  # noqa: PLW2901 - said once


def _details(host: PreviewedHost) -> Iterator[tuple[str, list[str]]]:
    """Yield what is to be said of a host: label and lines."""
    if host["refusal"]:
        yield "refused", [f"GPULAB-{host['refusal']['code']} {host['refusal']['cause']}"]
        yield "remedy", [host["refusal"]["remedy"]]
    elif host["detail"]:
        yield "failed", host["detail"].splitlines()
    if host["present"]:
        yield "there", _present(host["present"])
    yield "type", [_type(host)] if host["host_types"] else []
    yield "drift", [f"{text} (not by gpulab)" for text in host["drift"]]
    yield "due", [f"{role}: {'; '.join(why)}" for role, why in host["due"].items()]
    yield "changes", [f"{change['role']}: {what(change)}" for change in host["changes"]]
    if host["planned"] and host["download"]["not_listed"]:
        unknown = first(host["download"]["not_listed"], SHOWN)
        yield "download", [f"unknown: not in the node's package lists: {unknown}"]
    elif host["changes"]:
        yield "download", [_download(host)]
    yield "disk", [_disk(disk) for disk in host["disk"]]
    yield "services", [f"{one['action']} {one['name']}: {one['because']}" for one in host["services"]]
    yield "reboot", _reboot(host)
    if host["users"]:
        yield (
            "GPU users",
            [f"{named({**user, 'service': False})} since {user['since']}" for user in host["users"]["who"]]
            or (["some processes could not be inspected"] if host["users"]["state"] == "unknown" else []),
        )
        yield (
            "at work",
            [at_work(one) for one in host["users"]["sessions"]],
        )


def _present(present: PresentNow) -> list[str]:
    driver = present["driver"]
    source = f" ({', '.join(driver['sources'])})" if driver["sources"] else ""
    said = [f"driver {driver['on_disk'] or 'none'}{source}"]
    said += [f"{driver['loaded']} is loaded"] if driver["loaded"] else []
    said += [f"{name} holds the GPUs" for name in present["held_by"] if name != "nvidia"]
    return [f"{present['system']}, kernel {present['kernel']}", "; ".join(said)]


def _type(host: PreviewedHost) -> str:
    """Say the types of a host, and which options they set; the reasons are among those of the plan."""
    names = ", ".join(default["option"] for default in host["defaults"])
    return " and ".join(host["host_types"]) + (f", by default: {names}" if names else "")


def what(change: PreviewedChange) -> str:
    """Say what a role would do to which objects."""
    count = f"{len(change['objects'])} packages: " if change["action"] in OF_PACKAGES else ""
    action = ACTIONS.get(change["action"], change["action"])
    return f"{action} {count}{first(change['objects'], SHOWN)}"


def _disk(disk: PreviewedDisk) -> str:
    free = "unknown" if disk["free_mib"] is None else f"{disk['free_mib']} MiB"
    enough = "" if disk["enough"] else "  NOT ENOUGH"
    return f"{disk['mount']}: at most {disk['needed_mib']} MiB for the whole plan, free {free}{enough}"


def _reboot(host: PreviewedHost) -> list[str]:
    reboot = host["reboot"]
    said = [f"yes: {reason}" for reason in reboot["because"]]
    if reboot["refusal"]:
        said += [f"but refused now: GPULAB-{reboot['refusal']['code']} {reboot['refusal']['remedy']}"]
    return said

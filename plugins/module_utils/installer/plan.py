# Copyright (c) 2026 The gpulab founders
# GNU General Public License v3.0+ (see https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The plan that the installer carries out: which machine, which disk, what stays as it is. No I/O happens here."""

from __future__ import annotations

import hashlib
import json
import re
import uuid
from typing import TYPE_CHECKING, Any, TypedDict

from ansible_collections.gpulab.node.plugins.module_utils.core import records
from ansible_collections.gpulab.node.plugins.module_utils.core.host_name import is_host_name

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

SCHEMA = 1
SERIAL, WWN = "serial", "wwn"
UEFI, BIOS = "uefi", "bios"
ROOT = "root"  # the user for whom no account is made
# What a file system or a partition of the plan is for; each has a UUID that follows from the plan.
DISK, DONE = "disk", "done"  # the mark of a disk on which this plan is being carried out, and was carried out
ROOT_PARTITION, ROOT_FILESYSTEM, ESP_PARTITION, BIOS_PARTITION = "root", "root-fs", "esp", "bios"
_DISKS = uuid.UUID("6a1f8e6c-0f6e-4f0c-9d0b-3c7f5c5a8e21")  # name space of the UUIDs that follow from a plan
_NAME = re.compile(r"[A-Za-z0-9_.][A-Za-z0-9_.-]*\$?")
_ARGUMENT = re.compile(r"[\w.,:=/@+%-]+")
_FIELD = re.compile(r"[^:\n\0]*")
_MOST_MINUTES = 24 * 60


class Machine(TypedDict):
    """The machine that may be installed."""

    dmi_uuid: str


class Held(TypedDict):
    """A disk by its size, and by the UUIDs of partitions and file systems that were on it at the capture."""

    size: int
    holds: list[str]


class Target(Held):
    """The disk that is installed."""

    kind: str
    value: str


class Kept(Held):
    """A disk that stays; kind and value are None where nothing but size and content tells it from others."""

    kind: str | None
    value: str | None


class User(TypedDict):
    """The user that the new system has; password is a hash of shadow(5)."""

    name: str
    uid: int
    gid: int
    group: str
    gecos: str
    home: str
    shell: str
    password: str | None


class Least(TypedDict):
    """Bytes that the image takes."""

    memory: int
    disk: int


class Plan(TypedDict):
    """What an installer carries out.

    id is 16 hex digits, SHA-256 of the rest as sorted JSON; capture is its name, the time; minutes are those until the
    point of no return.
    """

    schema: int
    id: str
    host: str
    capture: str
    made: str
    machine: Machine
    disk: Target
    kept: list[Kept]
    firmware: str
    hostname: str
    user: User
    kernel_arguments: list[str]
    minutes: int
    least: Least


def identified(plan: Mapping[str, Any]) -> Plan:
    """Return the plan with the id that follows from all the rest of it."""
    rest = {name: value for name, value in plan.items() if name != "id"}
    digest = hashlib.sha256(json.dumps(rest, sort_keys=True).encode()).hexdigest()
    return records.typed({**rest, "id": digest[:16]}, Plan)


def guid(plan: Plan, what: str = DISK) -> str:
    """Return the UUID that something on the disk gets by this plan; those of the disk itself are the plan's marks."""
    return str(uuid.uuid5(_DISKS, f"{plan['id']} {what}"))


def faults(plan: Any) -> Iterator[str]:
    """Yield why this is no plan that an installer of this version may carry out."""
    wrong = list(records.faults(plan, Plan, "the plan"))
    yield from wrong
    if wrong:
        return
    if plan["schema"] != SCHEMA:
        yield f"the plan has schema {plan['schema']}, but this installer knows schema {SCHEMA}"
    if plan["id"] != identified(plan)["id"]:
        yield "the plan was changed: its id does not follow from it"
    if not plan["machine"]["dmi_uuid"]:
        yield "the plan names no machine"
    yield from _faults_of_disks(plan)
    if plan["firmware"] not in (UEFI, BIOS):
        yield f"the plan has the firmware {plan['firmware']!r}"
    if not 0 < plan["minutes"] <= _MOST_MINUTES:
        yield f"the plan gives {plan['minutes']} minutes"
    if not is_host_name(plan["hostname"]):
        yield f"the plan has the hostname {plan['hostname']!r}"
    for argument in plan["kernel_arguments"]:
        if not _ARGUMENT.fullmatch(argument):
            yield f"the plan has the kernel argument {argument!r}"
    yield from _faults_of_user(plan["user"])


def _faults_of_disks(plan: Plan) -> Iterator[str]:
    if plan["disk"]["kind"] not in (SERIAL, WWN) or not plan["disk"]["value"].strip():
        yield "the plan does not name its disk by serial number or WWN"
    if not plan["disk"]["holds"]:
        yield "the plan does not say what its disk holds"
    for one in plan["kept"]:
        named = one["kind"] in (SERIAL, WWN) and bool(one["value"])
        if not named and (one["kind"], one["value"]) != (None, None):
            yield f"the plan names a disk by {one['kind']!r}"
        if named and (one["kind"], one["value"]) == (plan["disk"]["kind"], plan["disk"]["value"]):
            yield "the plan keeps the disk that it wipes"


def _faults_of_user(user: dict[str, Any]) -> Iterator[str]:
    if not _NAME.fullmatch(user["name"]) or not _NAME.fullmatch(user["group"]):
        yield f"the plan has the user {user['name']!r} of the group {user['group']!r}"
    texts = (user["gecos"], user["home"], user["shell"], user["password"] or "")
    if not all(_FIELD.fullmatch(text) for text in texts):
        yield f"the plan has fields of the user {user['name']} that do not fit into passwd(5)"
    if not user["home"].startswith("/") or not user["shell"].startswith("/"):
        yield f"the user {user['name']} has no home or no shell in the plan"

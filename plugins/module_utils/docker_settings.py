# Copyright (c) 2026 The gpulab founders
# GNU General Public License v3.0+ (see https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Docker's daemon.json, which belongs to the node's owner, and gpulab's settings in it.

Only the record of these is read and written here. A setting is named by its key, or by key and subkey: "live-restore",
"features.cdi". What lies deeper is one value.
"""

from __future__ import annotations

import json
import re
from dataclasses import asdict, dataclass, field
from typing import TYPE_CHECKING, Any

from ansible_collections.gpulab.node.plugins.module_utils import records
from ansible_collections.gpulab.node.plugins.module_utils.refusal import refuse

if TYPE_CHECKING:
    from pathlib import Path

PATH = "/etc/docker/daemon.json"
DATA_ROOT = "/var/lib/docker"
RELOAD, RESTART = "reload", "restart"
# Of the settings that roles make, those that Docker takes over at SIGHUP; it forgets none of them before a restart.
RELOADABLE = frozenset({"default-shm-size", "live-restore", "runtimes"})
_MISSING = object()
_NO_OBJECT = object()  # of a subkey: its key holds a plain value
_DEFAULT_INDENT = 4


@dataclass(frozen=True)
class Record:
    """What gpulab did to the file: its text before, None for no file; and each setting that gpulab made, by name.

    pending is what Docker still has to do to take the file over: RELOAD, RESTART or "".
    """

    original: str | None = None
    made: dict[str, Any] = field(default_factory=dict)
    pending: str = ""


@dataclass(frozen=True)
class Change:
    """One setting before and after, as JSON; "" where it is not there."""

    name: str
    before: str
    after: str


@dataclass(frozen=True)
class Plan:
    """What has to happen: the file's text and settings afterwards, None for no file, and what Docker has to do then.

    kept says which preferred settings give way to the owner's.
    """

    text: str | None
    before: dict[str, Any]
    after: dict[str, Any]
    record: Record
    changes: list[Change]
    kept: list[str]
    action: str


def parse(text: str | None) -> dict[str, Any]:
    """Return the settings of a daemon.json; none where there is no file. Raises Refusal H110 for what is none."""
    try:
        settings = json.loads(text) if text and text.strip() else {}
    except ValueError as error:
        raise refuse("H110", path=PATH, detail=error) from error
    if not isinstance(settings, dict):
        raise refuse("H110", path=PATH, detail="it holds no JSON object")
    return settings


def plan(text: str | None, record: Record, required: dict[str, Any], preferred: dict[str, Any]) -> Plan:
    """Work out what has to change so that the settings hold.

    A setting of the file that gpulab did not make stays as it is: where it differs, a preferred one gives way and is
    named in kept, and a required one is refused (H111). A setting that gpulab made and that is no longer wanted goes.
    Raises Refusal.
    """
    before, after = parse(text), parse(text)
    made = {name: value for name, value in record.made.items() if _get(before, name) == value}
    if not made:
        record = Record(text, {}, record.pending)
    wanted = {**_leaves(preferred), **_leaves(required)}
    _leave_log_options_to_their_driver(wanted, before, made)
    theirs = {
        name: _get(before, name)
        for name, value in wanted.items()
        if name not in made and _get(before, name) not in (_MISSING, value)
    }
    conflicts = [name for name in theirs if name in _leaves(required)]
    if conflicts:
        raise refuse("H111", path=PATH, settings=_listed({name: theirs[name] for name in conflicts}),
                     wanted=_listed({name: wanted[name] for name in conflicts}))  # fmt: skip
    ours = {}
    for name, value in wanted.items():
        if name in theirs:
            continue
        if name in made or _get(before, name) is _MISSING:
            ours[name] = value
        _set(after, name, value)
    for name in made:
        if name not in wanted:
            _remove(after, name, parse(record.original))
    changes = [
        Change(name, _shown(_get(before, name)), _shown(_get(after, name)))
        for name in dict.fromkeys([*wanted, *made])
        if _get(before, name) != _get(after, name)
    ]
    action = _stronger(record.pending, _action(changes))
    kept = [f"{name} is {_shown(value)} (wished: {_shown(wanted[name])})" for name, value in theirs.items()]
    new_text = _text(after, text, record.original) if changes else text
    return Plan(new_text, before, after, Record(record.original, ours, action), changes, kept, action)


def uses_gpu(container: dict[str, Any]) -> bool:
    """Tell from what Docker's inspect says of a container whether it may have a GPU; a privileged one may."""
    host = container.get("HostConfig") or {}
    devices = [str(device.get("PathOnHost")) for device in host.get("Devices") or []]
    return bool(
        host.get("DeviceRequests")
        or host.get("Privileged")
        or str(host.get("Runtime", "")).startswith("nvidia")
        or any(device.startswith("/dev/nvidia") for device in devices)
    )


def check_containers(action: str, containers: list[dict[str, Any]], settings: dict[str, Any], host: str) -> None:
    """Raise Refusal H112 where a restart of Docker would be noticed by containers that run.

    containers are {name, gpu}. With live-restore they survive it; one with a GPU is not put to that test.
    """
    noticing = [one["name"] for one in containers if one["gpu"] or not settings.get("live-restore")]
    if action == RESTART and noticing:
        raise refuse("H112", host=host, containers=", ".join(noticing))


def check_data_root(before: dict[str, Any], after: dict[str, Any], held: list[str]) -> None:
    """Raise Refusal H113 where Docker would turn to another directory and leave what the former one holds behind.

    held says what that is, such as "3 images".
    """
    old, new = before.get("data-root", DATA_ROOT), after.get("data-root", DATA_ROOT)
    if old != new and held:
        raise refuse("H113", old=old, new=new, held=" and ".join(held))


def holdings(containers: int, images: int, volumes: int) -> list[str]:
    """Say what a data-root holds."""
    counts = {"container": containers, "image": images, "volume": volumes}
    return [f"{count} {name}{'s' if count > 1 else ''}" for name, count in counts.items() if count]


def reason(journal: str) -> str:
    """Return the line of Docker's journal that says why it did not start."""
    lines = [line.strip() for line in journal.splitlines() if line.strip()]
    telling = [line for line in lines if re.search(r"failed to start daemon|unable to configure|level=fatal", line)]
    return ([*lines[-1:], *telling] or ["its journal says nothing"])[-1]


def keep_record(path: Path, record: Record) -> None:
    """Keep a record; one that holds nothing has no file. Raises Refusal H221."""
    records.keep(path, asdict(record) if record.made or record.pending else None, 0o600)


def read_record(path: Path) -> Record:
    """Return what was kept. Raises Refusal H220."""
    lost = f"gpulab no longer knows then which settings in {PATH} are its own, and leaves them."
    shape = {"original": (str, None), "made": {str: object}, "pending": str}
    return Record(**records.read(path, shape, {}, lost))


def _leaves(settings: dict[str, Any]) -> dict[str, Any]:
    """Return {name: value} of nested settings."""
    found = {}
    for key, value in settings.items():
        if isinstance(value, dict):
            found.update({f"{key}.{subkey}": inner for subkey, inner in value.items()})
        else:
            found[key] = value
    return found


def _leave_log_options_to_their_driver(wanted: dict[str, Any], before: dict[str, Any], made: dict[str, Any]) -> None:
    """Drop the options of a log driver where the node's owner chose another one, which would not take them."""
    driver = before.get("log-driver", wanted.get("log-driver"))
    if "log-driver" not in made and driver != wanted.get("log-driver"):
        for name in [name for name in wanted if name.startswith("log-opts.")]:
            del wanted[name]


def _get(settings: dict[str, Any], name: str) -> Any:
    key, _dot, subkey = name.partition(".")
    value = settings.get(key, _MISSING)
    if not subkey or value is _MISSING:
        return value
    return value.get(subkey, _MISSING) if isinstance(value, dict) else _NO_OBJECT


def _set(settings: dict[str, Any], name: str, value: Any) -> None:
    key, _dot, subkey = name.partition(".")
    if subkey:
        settings.setdefault(key, {})[subkey] = value
    else:
        settings[key] = value


def _remove(settings: dict[str, Any], name: str, original: dict[str, Any]) -> None:
    """Take a setting out, and its parent when that was not there before gpulab and is empty now."""
    key, _dot, subkey = name.partition(".")
    if not subkey:
        del settings[key]
        return
    del settings[key][subkey]
    if not settings[key] and key not in original:
        del settings[key]


def _action(changes: list[Change]) -> str:
    if not changes:
        return ""
    reloads = all(change.after and change.name.partition(".")[0] in RELOADABLE for change in changes)
    return RELOAD if reloads else RESTART


def _stronger(one: str, other: str) -> str:
    return max(one, other, key=["", RELOAD, RESTART].index)


def _text(settings: dict[str, Any], current: str | None, original: str | None) -> str | None:
    """Return the file's text: the original one where the settings are those again, else JSON indented as it was."""
    if settings == parse(original):
        return original
    indent = re.search(r"^([ \t]+)\S", current or "", re.MULTILINE)
    return json.dumps(settings, indent=indent[1] if indent else _DEFAULT_INDENT, ensure_ascii=False) + "\n"


def _shown(value: Any) -> str:
    if value in (_MISSING, _NO_OBJECT):
        return "" if value is _MISSING else "in no object"
    return json.dumps(value, ensure_ascii=False)


def _listed(settings: dict[str, Any]) -> str:
    return ", ".join(f"{name}: {_shown(value)}" for name, value in settings.items())

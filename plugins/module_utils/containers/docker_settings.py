# Copyright (c) 2026 The gpulab founders
# GNU General Public License v3.0+ (see https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Docker's daemon.json, which belongs to the node's owner, and gpulab's settings in it.

Only the record of these is read and written here. A setting is named by its key, or by key and subkey: "live-restore",
"features.cdi". What lies deeper is one value. What the owner fixes on Docker's command line must not be in the file,
too: Docker does not start with both.
"""

from __future__ import annotations

import json
import re
from dataclasses import asdict, dataclass, field
from typing import TYPE_CHECKING, Any

from ansible_collections.gpulab.node.plugins.module_utils.core import records
from ansible_collections.gpulab.node.plugins.module_utils.core.refusals.containers import refuse
from ansible_collections.gpulab.node.plugins.module_utils.core.shown import counted, masked

if TYPE_CHECKING:
    from collections.abc import Iterable
    from pathlib import Path

PATH = "/etc/docker/daemon.json"
DATA_ROOT = "/var/lib/docker"
RELOAD, RESTART = "reload", "restart"
# Of the settings that roles make, those that Docker takes over at SIGHUP; it forgets none of them before a restart.
RELOADABLE = frozenset({"default-shm-size", "live-restore", "registry-mirrors", "runtimes"})
PROXIES = ("http-proxy", "https-proxy", "no-proxy")  # in daemon.json below "proxies", and flags
GRAPH = "graph"  # what data-root was called until Docker 23, which does not start with both
COMMAND_LINE = "the command line of dockerd (systemctl cat docker.service, and the files that it names)"
_MISSING = object()
_NO_OBJECT = object()  # of a subkey: its key holds a plain value
_NOT_SET = object()  # of a subkey: a flag sets its key, and not this one
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

    effective are the settings that Docker then has from the file and its command line. kept says which preferred
    settings give way to the owner's.
    """

    text: str | None
    before: dict[str, Any]
    effective: dict[str, Any]
    record: Record
    changes: list[Change]
    kept: list[str]
    action: str


def load(text: str) -> Any:
    """Return what a daemon.json says, as Docker reads it. Raises ValueError.

    Of a key that is there twice, Docker takes the last value; objects it merges. Editors of Windows begin with a byte
    order mark.
    """
    return json.loads(text.lstrip("\ufeff"), object_pairs_hook=_merged_pairs)


def _merged_pairs(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    found: dict[str, Any] = {}
    for key, value in pairs:
        former = found.get(key)
        found[key] = {**former, **value} if isinstance(former, dict) and isinstance(value, dict) else value
    return found


def parse(text: str | None) -> dict[str, Any]:
    """Return the settings of a daemon.json; none where there is no file. Raises Refusal H110 where it is not valid."""
    try:
        settings = load(text) if text and text.strip() else {}
    except ValueError as error:
        raise refuse("H110", path=PATH, detail=error) from error
    if not isinstance(settings, dict):
        raise refuse("H110", path=PATH, detail="it does not contain a JSON object")
    return settings


def effective(settings: dict[str, Any], flags: dict[str, Any]) -> dict[str, Any]:
    """Return the settings that Docker has from its file and its command line, by their present names."""
    graph = {"data-root": settings[GRAPH]} if GRAPH in settings else {}
    return {**settings, **graph, **flags}


def plan(
    text: str | None,
    record: Record,
    required: dict[str, Any],
    preferred: dict[str, Any],
    flags: dict[str, Any] | None = None,
) -> Plan:
    """Work out what has to change so that the settings hold. flags are what Docker's command line fixes.

    A setting of the file or the command line that gpulab did not make stays as it is: where it differs, a preferred one
    gives way and is named in kept, and a required one is refused (H111). A setting that gpulab made and that is no
    longer wanted, or is on the command line now, goes. Raises Refusal.
    """
    before, flags = parse(text), flags or {}
    elsewhere = _elsewhere(before, flags)
    made = {name: value for name, value in record.made.items() if _get(before, name) == value}
    if not made:
        record = Record(text, {}, record.pending)
    free = {name: value for name, value in made.items() if _key(name) not in elsewhere}
    wanted = {**_leaves(preferred), **_leaves(required)}
    _leave_log_options_to_their_driver(wanted, effective(before, flags), free)
    owners = {name: _owners(name, before, elsewhere, free) for name in wanted}
    ours = {name: value for name, value in wanted.items() if owners[name] is _MISSING}
    theirs = {name: owners[name] for name in wanted if name not in ours and not _same(name, owners[name], wanted[name])}
    _refuse_conflicts(theirs, _leaves(required), flags)
    after = _with(parse(text), ours, [name for name in made if name not in ours], parse(record.original))
    changes = _differences(before, after, dict.fromkeys([*wanted, *made]))
    action = _stronger(record.pending, _action(changes, flags))
    _refuse_clash(after, flags if changes or action else {})
    new_text = _text(after, text, record.original) if changes else text
    record = Record(record.original, ours, action)
    kept = [_kept(name, value, wanted[name], flags) for name, value in theirs.items()]
    return Plan(new_text, before, effective(after, flags), record, changes, kept, action)


def _elsewhere(before: dict[str, Any], flags: dict[str, Any]) -> dict[str, Any]:
    """Return the settings that the file does not have under their present names."""
    names = [*flags, "data-root"] if GRAPH in before else flags
    return {name: effective(before, flags)[name] for name in names}


def _with(settings: dict[str, Any], ours: dict[str, Any], gone: list[str], original: dict[str, Any]) -> dict[str, Any]:
    """Return settings with gpulab's, and without those that were gpulab's; original has what these stood in for."""
    for name, value in ours.items():
        _set(settings, name, value)
    for name in gone:
        _remove(settings, name, original)
    return settings


def _differences(before: dict[str, Any], after: dict[str, Any], names: Iterable[str]) -> list[Change]:
    pairs = ((name, _get(before, name), _get(after, name)) for name in names)
    return [Change(name, _shown(former), _shown(new)) for name, former, new in pairs if former != new]


def _kept(name: str, value: Any, requested: Any, flags: dict[str, Any]) -> str:
    place = " on its command line" if _key(name) in flags else ""
    return f"{name} is {_shown(value)}{place} (requested: {_shown(requested)})"


def _owners(name: str, before: dict[str, Any], elsewhere: dict[str, Any], made: dict[str, Any]) -> Any:
    """Return the owner's value of a setting; _MISSING where it is gpulab's to set."""
    if _key(name) in elsewhere:
        found = _get(elsewhere, name)
        return _NOT_SET if found is _MISSING else found
    return _MISSING if name in made else _get(before, name)


def _same(name: str, found: Any, wanted: Any) -> bool:
    """Tell whether two values of a setting mean the same for Docker."""
    if _key(name) == "runtimes" and isinstance(found, dict):
        arguments = found.get("args") or found.get("runtimeArgs")
        return not arguments and str(found.get("path")).rpartition("/")[2] == wanted.get("path")
    if name == "data-root":
        return str(found).rstrip("/") == str(wanted).rstrip("/")
    return bool(_folded(found) == _folded(wanted))


def _folded(value: Any) -> Any:
    """Return a value with the keys of its objects in lower case: Docker reads {"name": ...} like {"Name": ...}."""
    return {key.lower(): inner for key, inner in value.items()} if isinstance(value, dict) else value


def _refuse_conflicts(theirs: dict[str, Any], required: dict[str, Any], flags: dict[str, Any]) -> None:
    """Raise Refusal H111 where the owner has another value for what must hold."""
    conflicts = {name: value for name, value in theirs.items() if name in required}
    on_command_line = {name: value for name, value in conflicts.items() if _key(name) in flags}
    for path, found in ((COMMAND_LINE, on_command_line), (PATH, conflicts)):
        if found:
            asked = {name: required[name] for name in found}
            raise refuse("H111", path=path, settings=_listed(found), wanted=_listed(asked))


def _refuse_clash(settings: dict[str, Any], flags: dict[str, Any]) -> None:
    """Raise Refusal H110 where the owner has set a key both in the file and on the command line."""
    both = sorted(set(settings) & set(flags))
    if both:
        raise refuse(
            "H110",
            path=PATH,
            detail=f"{', '.join(both)} is set both there and on {COMMAND_LINE}, which dockerd does not accept",
        )


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


def check_data_root(old: str, new: str, held: list[str]) -> None:
    """Raise Refusal H113 where Docker would turn to another directory and leave what the former one holds behind.

    held says what that is, such as "3 images".
    """
    if old != new and held:
        raise refuse("H113", old=old, new=new, held=" and ".join(held))


def outliving(text: str | None, planned: Plan) -> str | None:
    """Return the former file to go back to: Docker stopped while containers ran, and its start must not kill them."""
    if parse(planned.text).get("live-restore") is not True:
        return text  # it is not there, or on the command line
    return json.dumps({**parse(text), "live-restore": True}) + "\n"


def holdings(containers: int, images: int, volumes: int) -> list[str]:
    """Say what a data-root holds."""
    counts = {"container": containers, "image": images, "volume": volumes}
    return [counted(count, name) for name, count in counts.items() if count]


def reason(journal: str) -> str:
    """Return the line of Docker's journal that says why it did not start."""
    lines = [line.strip() for line in journal.splitlines() if line.strip()]
    telling = [line for line in lines if re.search(r"failed to start daemon|unable to configure|level=fatal", line)]
    return ([*lines[-1:], *telling] or ["its journal has no message"])[-1]


def keep_record(path: Path, record: Record) -> None:
    """Keep a record; one that holds nothing has no file. Raises Refusal H221."""
    records.keep(path, asdict(record) if record.made or record.pending else None, 0o600)


def read_record(path: Path) -> Record:
    """Return what was kept. Raises Refusal H220."""
    lost = f"Without it, gpulab does not know which settings in {PATH} are its own, and leaves them."
    return records.read(path, Record, Record(), lost)


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


def _key(name: str) -> str:
    return name.partition(".")[0]


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


def _action(changes: list[Change], flags: dict[str, Any]) -> str:
    """Return what Docker has to do for changes; what its command line fixes does not reach it."""
    reaching = [change for change in changes if _key(change.name) not in flags]
    if not reaching:
        return ""
    reloads = all(change.after and _key(change.name) in RELOADABLE for change in reaching)
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
    for special, words in ((_MISSING, ""), (_NO_OBJECT, "in no object"), (_NOT_SET, "not set")):
        if value is special:
            return words
    return masked(json.dumps(value, ensure_ascii=False))


def _listed(settings: dict[str, Any]) -> str:
    return ", ".join(f"{name}: {_shown(value)}" for name, value in settings.items())

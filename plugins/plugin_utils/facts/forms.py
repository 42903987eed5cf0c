# Copyright (c) 2026 The gpulab founders
# GNU General Public License v3.0+ (see https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Whether a node's facts have the form that they are taken for, before anything is made of them.

The facts of one node become lines in files of the others and of the controller: Slurm's, /etc/hosts, Prometheus's
targets. Whoever has root on a node decides what its facts say, so all of them pass here, where they enter the
controller: each is of the type that the model of the facts gives it, no text has control characters, and those of FORMS
have a form of their own. Nothing here knows Ansible.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import lru_cache
from types import UnionType
from typing import TYPE_CHECKING, Any, Callable, Union, get_args, get_origin, get_type_hints, is_typeddict

from ansible_collections.gpulab.node.plugins.module_utils.core.host_name import is_host_name
from ansible_collections.gpulab.node.plugins.module_utils.core.shown import first, one_line, plain
from ansible_collections.gpulab.node.plugins.module_utils.system.hosts_file import is_address
from ansible_collections.gpulab.node.plugins.plugin_utils.facts.model import Facts
from ansible_collections.gpulab.node.plugins.plugin_utils.refusals import refuse

if TYPE_CHECKING:
    from ansible_collections.gpulab.node.plugins.module_utils.core.refusal import Refusal

OTHER_TYPE = "of the type that it is documented with"
SHOWN, MOST_SHOWN = 60, 3  # characters of a value, and how many of them
MOST_CPUS, MOST_MIB, MOST_GPUS = 65_000, 2**31, 1024  # Slurm counts processors in 16 bits


@dataclass(frozen=True)
class FactForm:
    """What a fact has to be beside its type, and words for it."""

    fits: Callable[[Any], bool]
    words: str


def _texts(pattern: str, words: str) -> FactForm:
    return FactForm(lambda value: isinstance(value, str) and re.fullmatch(pattern, value) is not None, words)


def _numbers(most: int) -> FactForm:
    return FactForm(lambda value: isinstance(value, int) and 0 <= value <= most, f"a number up to {most}")


HOST = FactForm(is_host_name, "a host's name")
ADDRESS = FactForm(lambda value: isinstance(value, str) and is_address(value), "an IP address")
LINE = _texts(r"[^\n\t\u2028\u2029\x85]{0,255}", "one line of text")
# A word of a version or a release: what packages, kernels and distributions are numbered by.
WORD = _texts(r"[A-Za-z0-9_.:+~-]{0,255}", "a word of letters, digits and '_.:+~-'")
INTERFACE = _texts(r"[^\s/,=#]{1,15}", "the name of an interface")
UUID = _texts(r"[A-Za-z0-9/-]{1,96}", "a UUID")
# The facts that reach files of other nodes or of the controller. A list's items are "*"; null is always allowed.
FORMS: dict[str, FactForm] = {
    "system.hostname": HOST,
    "system.id": WORD,
    "system.version": WORD,
    "system.codename": WORD,
    "system.architecture": WORD,
    "system.kernel": WORD,
    "system.name": LINE,
    "system.cpu_cores": _numbers(MOST_CPUS),
    "system.memory_mib": _numbers(MOST_MIB),
    "kernels.*.version": WORD,
    "network.*.name": INTERFACE,
    "network.*.ipv4": ADDRESS,
    "monitoring.addresses.*": ADDRESS,
    "monitoring.routed_address": ADDRESS,
    "group.hosts.*.address": ADDRESS,
    "group.hosts.*.names.*": _texts(r"[A-Za-z0-9_.-]{1,253}", "a name"),
    "driver.packages.*.version": WORD,
    "nvml.driver_version": WORD,
    "nvml.gpus.*.name": LINE,
    "nvml.gpus.*.uuid": UUID,
    "nvml.gpus.*.serial": LINE,
    "nvml.gpus.*.index": _numbers(MOST_GPUS),
    "nvml.gpus.*.minor": _numbers(MOST_GPUS),
    "nvml.peers.*.gpus.*": _numbers(MOST_GPUS),
}


def refusal(facts: Any, host: str) -> Refusal | None:
    """Return H226 where a host's facts cannot be, None where they can."""
    wrong = list(misfits("nothing" if facts is None else facts))
    return refuse("H226", host=host, what=first(wrong, MOST_SHOWN, "; ")) if wrong else None


def misfits(facts: Any) -> Iterator[str]:
    """Yield each fact that has not its form, with its value as it may be shown, in one line."""
    yield from _of_type(Facts, facts, "")
    yield from _of_form(facts, "")


def _of_form(value: Any, path: str) -> Iterator[str]:
    if isinstance(value, Mapping):
        for key, item in value.items():
            yield from _of_form(key, f"{path}.(name)") if isinstance(key, str) else ()
            yield from _of_form(item, f"{path}.{key}".lstrip("."))
    elif isinstance(value, (list, tuple)):
        for item in value:
            yield from _of_form(item, f"{path}.*")
    elif isinstance(value, str) and plain(value) != value:
        yield _told(path, value, "text without control characters")
    elif value is not None and path in FORMS and not FORMS[path].fits(value):
        yield _told(path, value, FORMS[path].words)


@lru_cache
def _hints(model: Any) -> dict[str, Any]:
    return get_type_hints(model)


def _of_type(hint: Any, value: Any, path: str) -> Iterator[str]:
    """Compare with the model. null is what a node does not tell; parts that are not there are not missed."""
    if value is None or hint is Any:
        return
    origin, kinds = get_origin(hint), [one for one in get_args(hint) if one is not type(None)]
    if is_typeddict(hint) and isinstance(value, Mapping):
        for name, part in _hints(hint).items():
            yield from _of_type(part, value.get(name), f"{path}.{name}".lstrip("."))
    elif origin is dict and isinstance(value, Mapping):
        for item in value.values():
            yield from _of_type(kinds[1], item, f"{path}.*")
    elif origin is list and isinstance(value, (list, tuple)):
        for item in value:
            yield from _of_type(kinds[0], item, f"{path}.*")
    elif origin in (Union, UnionType) and len(kinds) == 1:
        yield from _of_type(kinds[0], value, path)
    elif not (_is_plain(hint, value) or (origin in (Union, UnionType) and any(_is_plain(one, value) for one in kinds))):
        yield _told(path, value, OTHER_TYPE)


def _is_plain(hint: Any, value: Any) -> bool:
    """Tell whether a value is of a type that has no parts; True is no number."""
    if isinstance(value, bool) or hint is bool:
        return isinstance(value, bool) and hint is bool
    return hint in (str, int, float) and isinstance(value, (int, float) if hint is float else hint)


def _told(path: str, value: Any, words: str) -> str:
    text = one_line(str(value))
    text = text if len(text) <= SHOWN else f"{text[: SHOWN - 1]}…"
    return f'{path or "facts"} is "{text}", not {words}'

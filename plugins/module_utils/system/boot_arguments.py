# Copyright (c) 2026 The gpulab founders
# GNU General Public License v3.0+ (see https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Arguments of the kernel on RHEL's family: each kernel has a boot entry, and files say what later kernels get.

What changes in them is computed here, to the word, and grubby has to do just that. Only its record is
read here.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import TYPE_CHECKING

from ansible_collections.gpulab.node.plugins.module_utils.core import records
from ansible_collections.gpulab.node.plugins.module_utils.core.refusals.system import refuse

if TYPE_CHECKING:
    from pathlib import Path

ENTRIES = "/boot/loader/entries"
DEFAULTS = "/etc/default/grub"  # what grub2-mkconfig makes the next one from
CMDLINE = "/etc/kernel/cmdline"  # what kernel-install gives the entry of a later kernel
TEMPLATES = (DEFAULTS, CMDLINE)  # in this order: kernel-install rewrites an older CMDLINE
MEMORY = "/var/lib/gpulab/boot-arguments.json"
GRUBBY = "/usr/sbin/grubby"
_OPTIONS = re.compile(r"^(options[ \t]+)(.*)$", re.MULTILINE)
# As a shell reads it: in quotes of either kind, or one word without.
_VARIABLE = re.compile(
    r"""^(GRUB_CMDLINE_LINUX=["']?)((?<=")[^"\n]*(?=")|(?<=')[^'\n]*(?=')|(?<==)[^\s"'#]*$)""", re.MULTILINE
)
_LINE = re.compile(r"\A()([^\n]*)")


@dataclass(frozen=True)
class Step:
    """A file whose kernel arguments change, and its text before and after."""

    path: str
    before: str
    after: str


@dataclass(frozen=True)
class Plan:
    """What grubby is told, the files that change by it, and what of the arguments is gpulab's afterwards."""

    add: tuple[str, ...]
    remove: tuple[str, ...]
    steps: tuple[Step, ...]
    own: tuple[str, ...]


def remembered(record: Path) -> list[str]:
    """Return the arguments that are gpulab's, from its record of them. Raises Refusal H220."""
    lost = "Without it, gpulab does not know which kernel arguments are its own; grubby removes them."
    return records.read(record, list[str], [], lost)


def arguments(path: str, text: str) -> list[str]:
    """Return the kernel arguments in a boot entry or a file for later kernels."""
    match = _pattern(path).search(text)
    return match.group(2).split() if match else []


def plan(wanted: list[str], texts: dict[str, str], own: list[str]) -> Plan:
    """Return what has to change so that every kernel is given what is wanted, and of gpulab's own nothing else.

    texts are the boot entries and the files for later kernels by path; own are the arguments that gpulab put there.
    Raises Refusal H173.
    """
    words = {path: arguments(path, text) for path, text in texts.items()}
    put = own_of(wanted, words, own)
    gone = [argument for argument in own if argument not in put]
    steps = []
    for path, before in texts.items():
        after = _text_with(path, before, put, gone)
        if after != before:
            steps.append(Step(path, before, after))
    return Plan(
        tuple(one for one in put if any(one not in words[step.path] for step in steps)),
        tuple(one for one in gone if any(one in words[step.path] for step in steps)),
        tuple(steps),
        tuple(put),
    )


def own_of(wanted: list[str], words: dict[str, list[str]], own: list[str]) -> list[str]:
    """Return what of the wanted arguments is gpulab's to put there: one that every kernel has anyhow is not.

    words are the arguments in each boot entry and in each file for later kernels. Raises Refusal H173 where one of
    somebody else's has the same name and another value, or only some of the kernels have it.
    """
    entries = [found for path, found in words.items() if path not in TEMPLATES]
    put = [argument for argument in wanted if argument in own or not all(argument in found for found in entries)]
    for argument in put:
        name = argument.partition("=")[0]
        for path, found in words.items():
            for other in found:
                if other.partition("=")[0] == name and other not in own:
                    raise refuse("H173", path=path, found=other, argument=argument, name=name)
    return put


def _text_with(path: str, text: str, put: list[str], gone: list[str]) -> str:
    match = _pattern(path).search(text)
    if not match:
        return text
    words = match.group(2).split()
    wanted = [*(word for word in words if word not in gone), *(argument for argument in put if argument not in words)]
    if wanted == words:
        return text
    line = " ".join(wanted)
    if match.group(1).endswith("=") and path == DEFAULTS:
        line = f'"{line}"'
    return f"{text[: match.start(2)]}{line}{text[match.end(2) :]}"


def _pattern(path: str) -> re.Pattern[str]:
    return {CMDLINE: _LINE, DEFAULTS: _VARIABLE}.get(path, _OPTIONS)

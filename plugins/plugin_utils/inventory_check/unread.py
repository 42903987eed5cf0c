# Copyright (c) 2026 The gpulab founders
# GNU General Public License v3.0+ (see https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What somebody wrote and Ansible passes over: tags that no task has, nodes and files of groups and hosts unknown.

And what it takes otherwise than meant: null by -e.
"""

from __future__ import annotations

import json
import re
from difflib import get_close_matches
from pathlib import Path
from typing import TYPE_CHECKING

from ansible_collections.gpulab.node.plugins.plugin_utils import options
from ansible_collections.gpulab.node.plugins.plugin_utils.inventory_check.structure import Groups, listed
from ansible_collections.gpulab.node.plugins.plugin_utils.refusals import refuse
from ansible_collections.gpulab.node.plugins.plugin_utils.roles import known

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Iterator, Mapping

    from ansible_collections.gpulab.node.plugins.module_utils.core.refusal import Refusal

# The tags of gpulab's playbooks, and those that Ansible gives a meaning.
TAGS = (*known.load(), "preflight")
OF_ANSIBLE = ("all", "always", "never", "tagged", "untagged")
PLAYBOOKS = (known.ROOT / "playbooks").resolve()  # site.yml lies above them
SUFFIXES = (".yml", ".yaml", ".json")  # a file may also have none
NEAR_TAG, NEAR_GROUP = 0.6, 0.8  # of difflib


def tags(playbooks: Collection[str], chosen: Iterable[str], skipped: Iterable[str] = ()) -> Iterator[Refusal]:
    """Yield each tag of a run that no task has; playbooks are the run's, and others than gpulab's may have their own.

    Tools such as molecule skip tags of theirs, so one to be skipped counts where its name is nearly that of a tag.
    """
    if not playbooks or not all(map(_is_own, playbooks)):
        return
    skipped = list(skipped)
    for tag in [*chosen, *skipped]:
        if tag in TAGS or tag in OF_ANSIBLE:
            continue
        near = get_close_matches(tag.lower().replace("-", "_"), TAGS, 1, NEAR_TAG) or _ends(tag)
        if near or tag not in skipped:
            advice = f"Did you mean {near[0]}?" if near else f"The tags are: {', '.join(TAGS)}."
            yield refuse("I047", tag=tag, advice=advice)


def limits(chosen: Iterable[str], there: Groups) -> Iterator[Refusal]:
    """Yield each host and group that -l names and the inventory does not have; a wildcard may match none."""
    names = [*there, *there.get("all", ())]
    for pattern in chosen:
        name = re.sub(r"^[&!]|\[[-\d:]*\]$", "", pattern)
        if name in (*names, "all", "localhost") or re.search(r"^[~@]|[*?\[]", name):
            continue
        near = get_close_matches(name, names, 1)
        groups = ", ".join(group for group in there if group not in ("all", "ungrouped"))
        advice = (
            f"Did you mean {near[0]}?" if near else f"The hosts are {listed(there.get('all', ()))}; groups: {groups}."
        )
        yield refuse("I051", name=name, advice=advice)


def nulls(extra_variables: Mapping[str, object]) -> Iterator[Refusal]:
    """Yield each option that is null by -e: of the inventory's the role plan makes the default, not of these."""
    for name, default in options.of_nulls(extra_variables).items():
        yield refuse("I049", name=name, default=json.dumps(default))


def _is_own(playbook: str) -> bool:
    directory = Path(playbook).resolve().parent
    return playbook.startswith("gpulab.node.") or directory in (PLAYBOOKS, PLAYBOOKS.parent)


def _ends(tag: str) -> list[str]:
    return [name for name in TAGS if tag in name.split("_")]


def groups(directories: Iterable[Path], there: Groups) -> Iterator[Refusal]:
    """Yield each file below group_vars whose name is nearly that of a group without a file.

    directories are those of the inventory's sources and of the playbook. Files of other groups may belong to another
    inventory beside this one.
    """
    for directory in directories:
        named = _named(directory / "group_vars")
        free: dict[str, str] = {}  # groups without a file, by their names with hyphens
        for group in there:
            if group not in named:
                free.setdefault(group.replace("_", "-"), group)
        for name in sorted(named.keys() - there.keys()):
            for near in get_close_matches(name.replace("_", "-"), free, 1, NEAR_GROUP):
                yield refuse("I048", path=named[name], group=name, near=free[near])


def hosts(directories: Iterable[Path], there: Collection[str]) -> str | None:
    """Return a warning that names the files below host_vars of hosts that the inventory does not have; None without."""
    names = [
        str(path)
        for directory in directories
        for name, path in sorted(_named(directory / "host_vars").items())
        if name not in there
    ]
    return f"the inventory has no hosts for {listed(names)}, so nothing reads them" if names else None


def _named(directory: Path) -> dict[str, Path]:
    """Return the files and directories from which Ansible reads variables, by the group or host that each names."""
    try:
        entries = sorted(directory.iterdir())
    except OSError:
        return {}
    found: dict[str, Path] = {}
    for path in entries:
        suffix = "" if path.is_dir() else next((end for end in SUFFIXES if path.name.endswith(end)), "")
        name = path.name.removesuffix(suffix)
        if not (name.startswith(".") or path.name.endswith("~")):
            found.setdefault(name, path)
    return found

# Copyright (c) 2026 The gpulab founders
# GNU General Public License v3.0+ (see https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What the watch of Slurm's controller has noted of the jobs of a node."""

from __future__ import annotations

from collections import defaultdict
from typing import TYPE_CHECKING

from ansible_collections.gpulab.node.plugins.module_utils.core.shown import counted, first
from ansible_collections.gpulab.node.plugins.module_utils.watch import judge
from ansible_collections.gpulab.node.plugins.plugin_utils.diagnosis.model import HANG, MOST, SOME, Finding, rule

if TYPE_CHECKING:
    from collections.abc import Iterator

    from ansible_collections.gpulab.node.plugins.module_utils.diagnosis.shapes import Noted
    from ansible_collections.gpulab.node.plugins.plugin_utils.diagnosis.model import Case

SHOWN = 5  # jobs of one cause
# By the class that the watch gave; what else is read there is no class of its.
REMEDIES = {
    judge.NODE: "ansible-playbook playbooks/verify.yml proves the node, and names what to do",
    judge.PROGRAM: "Read the end of the output of job {job}: the program is the cause",
    judge.USER: "Look at the script of job {job}, or ask who ended it",
    judge.UNKNOWN: "Read the end of the output of job {job}; while it hangs: py-spy dump --pid of its ranks",
}


@rule("hang-noted", HANG, "https://slurm.schedmd.com/job_exit_code.html")
def noted(case: Case) -> Iterator[Finding]:
    """Tell what the watch noted in the last hours, jobs of one class and cause together."""
    alike: dict[tuple[str, str], list[Noted]] = defaultdict(list)
    for one in case.evidence.noted:
        if one.kind in REMEDIES:
            alike[one.kind, one.cause].append(one)
    for (kind, cause), jobs in alike.items():
        names = first([str(one.job) for one in reversed(jobs)], SHOWN)
        yield Finding(
            f"the watch noted of job{'s' if len(jobs) > 1 else ''} {names} on this node: {cause} (class {kind})",
            REMEDIES[kind].format(job=jobs[-1].job),
            MOST if kind == judge.NODE else SOME,
            tuple(_seen(one) for one in jobs[-SHOWN:]),
        )


def _seen(one: Noted) -> str:
    more = f"; {'; '.join(one.evidence)}" if one.evidence else ""
    others = f", with {counted(one.nodes - 1, 'other node')}" if one.nodes > 1 else ""
    return f"{one.time}: {one.seen} of job {one.job}{others}{more}"

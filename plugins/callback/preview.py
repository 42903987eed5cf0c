# Copyright (c) 2026 The gpulab founders
# GNU General Public License v3.0+ (see https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""gpulab.node.preview: keep what the tasks of a run would change, for the module of the same name."""

from __future__ import annotations

DOCUMENTATION = r"""
name: preview
type: aggregate
short_description: Keep what the tasks of a run would change
version_added: 1.0.0
author: The gpulab founders (@gpulab)
description:
  - M(gpulab.node.preview) shows what this callback keeps, the results of all tasks in check mode that would change
    something. It shows and writes nothing itself.
  - C(playbooks/plan.yml) and its name in the collection, C(gpulab.node.plan), load it themselves. Enable it only for
    a playbook of your own that has a task of M(gpulab.node.preview).
requirements:
  - enabled by C(callbacks_enabled = gpulab.node.preview), in other playbooks than those
"""

from typing import TYPE_CHECKING, Any

from ansible.plugins.callback import CallbackBase
from ansible_collections.gpulab.node.plugins.plugin_utils.preview.gathered import GATHERED

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from ansible.executor.task_result import CallbackTaskResult
    from ansible_collections.gpulab.node.plugins.plugin_utils.preview.changes import TaskResult

SHOWS_IT = "gpulab.node.preview"
# What these were asked is kept where nothing would change, too: a bundle is made of it.
ASKED = {
    *("gpulab.node.packages", "gpulab.node.repository", "gpulab.node.apt_repository", "gpulab.node.apt_components"),
    *("gpulab.node.venv_environments", "gpulab.node.conda_environments", "gpulab.node.cuda_wheels"),
    *("gpulab.node.nvidia_runfile", "gpulab.node.nccl_tests_source", "gpulab.node.model_store"),
}


class CallbackModule(CallbackBase):
    """Keep the results of tasks that would change something, until a preview has shown them."""

    CALLBACK_VERSION = 2.0
    CALLBACK_TYPE = "aggregate"
    CALLBACK_NAME = "gpulab.node.preview"

    def __init__(self) -> None:
        """Let the action know that results are kept."""
        super().__init__()
        GATHERED.open()

    def v2_runner_on_ok(self, result: CallbackTaskResult) -> None:
        """Keep a result of check mode, or forget all where they have been shown."""
        if result.task.resolved_action == SHOWS_IT:
            GATHERED.forget()
            return
        if result.task.check_mode and result.task.resolved_action in ASKED:
            GATHERED.ask(result.host.get_name(), result.task.resolved_action, result.task.args)
        if result.is_changed() and result.task.check_mode:
            GATHERED.keep(result.host.get_name(), _changed(result))


def _changed(result: CallbackTaskResult) -> Iterator[TaskResult]:
    """Yield the result, or that of each item of a loop, where something would change."""
    task = result.task  # with its values for this host
    role = task._role  # noqa: SLF001 - Ansible gives a callback no other way to it
    for answer in result.result["results"] if task.loop and "results" in result.result else [result.result]:
        if answer.get("changed") and not answer.get("failed"):
            yield {
                "role": role.get_name(include_role_fqcn=False) if role else "playbook",
                "task": task.name,
                "module": task.resolved_action,
                "arguments": {**task.args, **_arguments(answer)},
                "delegate_to": task.delegate_to,
                "result": dict(answer),
            }


def _arguments(answer: Mapping[str, Any]) -> Mapping[str, Any]:
    """Return the arguments that a module says it had."""
    arguments: Mapping[str, Any] = (answer.get("invocation") or {}).get("module_args") or {}
    return arguments

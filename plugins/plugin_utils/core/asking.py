# Copyright (c) 2026 The gpulab founders
# GNU General Public License v3.0+ (see https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""An action plugin that asks its module on the node, in packed form, and keeps both sides out of every log."""

from __future__ import annotations

import contextlib
from typing import TYPE_CHECKING, Any

from ansible.plugins.action import ActionBase
from ansible_collections.gpulab.node.plugins.module_utils.capture.wire import packed, unpacked

if TYPE_CHECKING:
    from collections.abc import Iterator


class FailedError(Exception):
    """The module failed on the node; the exception has its result."""

    def __init__(self, result: dict[str, Any]) -> None:
        """Keep the result."""
        super().__init__(result.get("msg"))
        self.result = result


@contextlib.contextmanager
def unlogged(action: Any) -> Iterator[None]:
    """Keep contents out of what -vvv shows and of the node's journal, but not the result of an action plugin's task."""
    before = action._play_context.no_log, action._task.no_log  # noqa: SLF001 - of every action plugin
    action._play_context.no_log = action._task.no_log = True  # noqa: SLF001
    try:
        yield
    finally:
        action._play_context.no_log, action._task.no_log = before  # noqa: SLF001


class Asking(ActionBase):
    """What such action plugins share; variables are those of the task."""

    variables: dict[str, Any]

    def given(self, name: str) -> Any:
        """Return the value that an option has on the host; None where it has none."""
        return self._templar.template(self.variables.get(name))

    def ask(self, module: str, args: dict[str, Any], asked: Any) -> Any:
        """Return what the module answers to asked, JSON-able data that its argument of this name carries.

        Raises FailedError.
        """
        with unlogged(self):
            result = self._execute_module(
                module_name=module, module_args={**args, "asked": packed(asked)}, task_vars=self.variables
            )
        if "answer" not in result:
            raise FailedError({"failed": True, **result})
        return unpacked(result["answer"])

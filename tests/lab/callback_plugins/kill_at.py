"""Note each task that changes something in $GPULAB_TASKS; kill the whole run, or let an accident happen in it.

$GPULAB_KILL_AT is the number of a task, which is killed after a second; $GPULAB_KILL_AFTER counts seconds from the
beginning of the play Apply, whose length goes into $GPULAB_APPLY_SECONDS. $GPULAB_ACCIDENT is run by a shell before the
task whose name $GPULAB_ACCIDENT_AT is.
"""

from __future__ import annotations

import multiprocessing
import os
import signal
import subprocess
import threading
import time
from pathlib import Path

from ansible.plugins.callback import CallbackBase

SECONDS = 1.0


def kill():
    """Kill the workers, which have sessions of their own, and ansible-playbook itself."""
    for worker in multiprocessing.active_children():
        worker.kill()
    os.killpg(os.getpgid(0), signal.SIGKILL)


class CallbackModule(CallbackBase):
    """Count tasks as they begin."""

    CALLBACK_VERSION = 2.0
    CALLBACK_TYPE = "aggregate"
    CALLBACK_NAME = "kill_at"
    CALLBACK_NEEDS_ENABLED = True

    def __init__(self):
        """Begin with none."""
        super().__init__()
        self._number, self._kill_at = 0, int(os.environ.get("GPULAB_KILL_AT", "0"))
        self._applying = None

    def v2_playbook_on_play_start(self, play):
        """Count the seconds of the play Apply; kill the run after so many of them."""
        if self._applying and (path := os.environ.get("GPULAB_APPLY_SECONDS")):
            Path(path).write_text(str(time.monotonic() - self._applying), encoding="utf-8")
        self._applying = time.monotonic() if play.get_name() == "Apply" else None
        if self._applying and (after := os.environ.get("GPULAB_KILL_AFTER")):
            threading.Timer(float(after), kill).start()

    def v2_playbook_on_task_start(self, task, is_conditional):  # noqa: ARG002 - given by Ansible
        """Count one; in the one that is named, kill ansible-playbook and all its workers, as a crash would."""
        self._number += 1
        if task.get_name().rpartition(" : ")[2] == os.environ.get("GPULAB_ACCIDENT_AT"):
            subprocess.run(
                ["sh", "-ec", os.environ["GPULAB_ACCIDENT"]], check=True, timeout=300, stdout=subprocess.DEVNULL
            )
        if self._number == self._kill_at:
            threading.Timer(SECONDS, kill).start()

    v2_playbook_on_handler_task_start = v2_playbook_on_cleanup_task_start = lambda self, task: (
        self.v2_playbook_on_task_start(task, is_conditional=False)
    )

    def v2_runner_on_ok(self, result):
        """Note a task that changed something."""
        notes = os.environ.get("GPULAB_TASKS")
        if notes and result.result.get("changed"):
            with Path(notes).open("a", encoding="utf-8") as file:
                file.write(f"{self._number}\t{result.task.get_name()}\n")

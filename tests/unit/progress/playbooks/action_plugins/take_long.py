"""An action that says a line over the channel, as a long step does, and works on for a while."""

import time

from ansible.plugins.action import ActionBase
from ansible_collections.gpulab.node.plugins.plugin_utils.progress.channel import Progress, send


class ActionModule(ActionBase):
    """Say the line, sleep, and report the seconds."""

    def run(self, tmp=None, task_vars=None):
        """Run in a worker process."""
        result = super().run(tmp, task_vars)
        send(Progress(task_vars["inventory_hostname"], "step", 0.0, self._task.args["line"]))
        time.sleep(self._task.args["seconds"])
        return {**result, "changed": bool(self._task.args.get("changed"))}

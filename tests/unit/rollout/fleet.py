"""The nodes of a rollout as a play knows them, and the action for them, without the tasks of the playbook."""

from __future__ import annotations

import copy
from pathlib import Path
from unittest.mock import Mock

from ansible_collections.gpulab.node.plugins.action.rollout import ActionModule
from ansible_collections.gpulab.node.plugins.plugin_utils.rollout import state

from unit import machines


class Fleet:
    """Nodes by name, as a play knows them, and the rollout's action for them."""

    def __init__(self, directory, *names):
        """Let something be due on each node."""
        self.directory, self.check = directory, False
        self.known = {name: self.node() for name in names}
        self.file = None

    @staticmethod
    def node(due=("tuning",), fence=None):
        """Return a node on which these roles are due."""
        facts = copy.deepcopy(machines.machine())
        facts["fence"] = fence
        return {"ansible_facts": {"gpulab": facts, "gpulab_plan": {"due": list(due)}}}

    def work(self, work, host="n1", beside=(), **args):
        """Do one work for a host, which is changed together with those beside it."""
        task = Mock(check_mode=self.check, async_val=0, action="rollout", args={"work": work, **args})
        names = list(self.known)
        variables = {"hostvars": self.known, "ansible_play_hosts_all": names, "ansible_play_batch": [host, *beside]}
        plugin = ActionModule(task, Mock(), Mock(), Mock(), Mock(), Mock())
        plugin._connection._shell.tmpdir = None  # noqa: SLF001
        return plugin.run(None, {**variables, **self.known[host], "inventory_hostname": host})

    def order(self, size="1", out_at_once="2", **args):
        """Decide the order."""
        found = self.work(
            "order", **{"directory": str(self.directory), "batch": size, "out_at_once": out_at_once, **args}
        )
        self.file = found.get("file", self.file)
        return found

    def hosts(self):
        """Return what became of the nodes."""
        return state.read(Path(self.file)).hosts

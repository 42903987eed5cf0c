"""A controller that carries out the tasks of playbooks/rollout.yml and of the role fence on nodes that are directories.

The tasks, the record, the order and the fence are the real ones. A change, a proof and a person are a word each.
"""

from __future__ import annotations

import copy
import os
import shutil
from dataclasses import dataclass, field, replace
from pathlib import Path
from unittest.mock import Mock, patch

import yaml
from ansible_collections.gpulab.node.plugins.action import rollout as rollout_action
from ansible_collections.gpulab.node.plugins.action.refuse import ActionModule as Refuse
from ansible_collections.gpulab.node.plugins.module_utils.core.node import Node
from ansible_collections.gpulab.node.plugins.module_utils.core.refusal import Refusal
from ansible_collections.gpulab.node.plugins.module_utils.facts import fence as fence_facts
from ansible_collections.gpulab.node.plugins.module_utils.fence import host as fence_host
from ansible_collections.gpulab.node.plugins.module_utils.fence import login
from ansible_collections.gpulab.node.plugins.module_utils.slurm import control
from ansible_collections.gpulab.node.plugins.modules import fence as fence_module
from ansible_collections.gpulab.node.plugins.plugin_utils.core.failure import failure
from ansible_collections.gpulab.node.plugins.plugin_utils.core.this_run import this_run
from ansible_collections.gpulab.node.plugins.plugin_utils.refusals import refuse
from ansible_collections.gpulab.node.plugins.plugin_utils.rollout import kubernetes_fence, state
from ansible_collections.gpulab.node.plugins.plugin_utils.rollout.kubernetes_fence import Settings
from jinja2.nativetypes import NativeEnvironment

from unit import machines

ROOT = Path(__file__).parents[3]
ACTIONS = {"gpulab.node.rollout": rollout_action.ActionModule, "gpulab.node.refuse": Refuse}
NOBODY = {"state": "idle", "who": [], "sessions": []}
PERSON = {"user": "wei", "since": None, "desktop": False, "logged_in": True, "commands": ["python"]}


class Killed(BaseException):
    """The controller's process is gone: no rescue runs."""


class UnreachableError(Exception):
    """A node does not answer: Ansible takes it out of the run, and no rescue runs for it."""


class FailedError(Exception):
    """A task failed."""

    def __init__(self, result):
        """Keep its result."""
        super().__init__(result.get("msg"))
        self.result = result


@dataclass
class Machine:
    """A node: whether it is changed and proven since, who is on it, and what is wrong with it.

    key: how its key for Secure Boot stands, "wanted" before the change asks for it and "pending" after that.
    """

    root: Path
    changes: int = 0
    proven: bool = False
    person: bool = False
    broken: bool = False
    dead: bool = False
    key: str | None = None
    slurm: bool = False
    drained: str | None = None  # why, where Slurm starts no job there

    def __post_init__(self):
        """Let people log in by SSH."""
        for path, text in (("etc/pam.d/sshd", "account required pam_nologin.so\n"), ("proc/stat", "btime 1\n")):
            (self.root / path).parent.mkdir(parents=True)
            (self.root / path).write_text(text)
        if self.slurm:
            path = self.root / fence_host.SLURMD[0].lstrip("/")
            path.parent.mkdir(parents=True)
            path.touch()

    @property
    def fence(self):
        """Return the record of the fence."""
        return fence_facts.record(Node(self.root))

    @property
    def open(self):
        """Tell whether anybody can log in, and a job can start."""
        return self.drained is None and not self._shut

    @property
    def closed(self):
        """Tell whether nobody can log in, and no job can start."""
        return self._shut and (self.drained is not None or not self.slurm)

    @property
    def _shut(self):
        return (self.root / login.MESSAGE.lstrip("/")).exists()


class Lab:
    """Nodes by name, of a Slurm or of none."""

    def __init__(self, directory, monkeypatch, *names, slurm=False):
        """Make the nodes, and let the fence's module work on the one whose turn it is."""
        self.nodes = {name: Machine(directory / name, slurm=slurm) for name in names}
        self._current, self.cluster = self.nodes[names[0]], Settings()
        self.works = []  # what the fence's module was asked to do
        monkeypatch.setattr(fence_host.socket, "gethostname", lambda: self._current.root.name)
        monkeypatch.setattr(fence_module, "Node", lambda: Node(self._current.root))
        monkeypatch.setattr(fence_module, "call", lambda argv: (0, self._answer(argv), ""))
        monkeypatch.setattr(fence_module.os, "geteuid", lambda: 0)
        monkeypatch.setattr(
            fence_host.users, "read", lambda *_: {**NOBODY, "sessions": [PERSON] if self._current.person else []}
        )

    def _answer(self, argv):
        """Answer as Slurm does."""
        words = dict(word.split("=", 1) for word in argv[1:] if "=" in word)
        if words.get("state"):
            self.nodes[words["nodename"]].drained = words["reason"] if words["state"] == "drain" else None
        if tuple(argv) != control.SHOW_NODES:
            return ""
        states = {
            name: "IDLE" if node.drained is None else f"IDLE+DRAIN Reason={node.drained} [root@2026-11-26T21:00:00]"
            for name, node in self.nodes.items()
        }
        return "".join(f"NodeName={name} NodeHostName={name} State={state}\n" for name, state in states.items())

    def fence(self, name, by, arguments, *, check_mode=False):
        """Do what the task fence does, on a node and in the cluster."""
        self._current = self.nodes[name]
        if self._current.dead:
            raise UnreachableError
        on_node = lambda given: self._module(name, by, given, check_mode=check_mode)  # noqa: E731
        settings = replace(self.cluster, names=(name,))
        return kubernetes_fence.work({"host": name, **arguments}, settings, on_node, check_mode=check_mode)

    def _module(self, name, by, arguments, *, check_mode):
        node = self._current
        self.works.append(arguments["work"])
        given = {
            "reason": "",
            "held": False,
            "reserve": False,
            "engine": "auto",
            "passing": [],
            "force": False,
            "until": None,
            "before": None,
            "lock": None,
        }
        module = Mock(
            check_mode=check_mode, tmpdir=str(node.root), params={**given, **arguments, "by": by, "host": name}
        )
        module.atomic_move.side_effect = lambda source, target, **_more: shutil.move(source, target)
        return fence_module.work(module)


@dataclass
class Controller:
    """One run of the playbook. dies_at: the number of the task before which its process is killed."""

    lab: Lab
    directory: Path  # its name is the machine's
    dies_at: int | None = None
    freeze: Path | None = None
    before: dict = field(default_factory=dict)  # what happens before a task of this name, once
    tasks: int = 0
    known: dict = field(default_factory=dict)
    seen: list = field(default_factory=list)

    def order(self):
        """Read the nodes and decide the order, as the play before the change does."""
        for name in self.lab.nodes:
            self.known[name] = {"ansible_facts": {}}
            try:
                self._read(name)
            except FailedError as failed:
                self.known[name]["__rollout_refused"] = failed.result
        freeze = {"freeze_file": str(self.freeze)} if self.freeze else {}
        arguments = {"work": "order", "directory": str(self.directory), "batch": "1", "out_at_once": "2", **freeze}
        self.run = self._action("gpulab.node.rollout", next(iter(self.lab.nodes)), arguments)
        return self.run

    def roll(self):
        """Change the nodes in their order; return what is refused of each at the end, by code."""
        tasks = yaml.safe_load((ROOT / "playbooks/rollout.yml").read_text())[2]["tasks"]
        for name in self.order()["order"]:
            defaults = yaml.safe_load((ROOT / "roles/fence/defaults/main.yml").read_text())
            variables = {**defaults, "inventory_hostname": name, "gpulab_rollout": self.run}
            if self.freeze:
                variables["rollout_freeze_file"] = str(self.freeze)
            try:
                self._all(name, tasks, variables)
            except UnreachableError:
                break  # it was alone in its batch
        one = next(iter(self.lab.nodes))
        report = self._action("gpulab.node.rollout", one, {"work": "report", "file": self.run["file"]})
        return {name: refusal["code"] for name, refusal in report["refusals"].items()}

    def states(self):
        """Return what became of the nodes, by the record."""
        return {name: entry.state for name, entry in state.read(Path(self.run["file"])).hosts.items()}

    def _all(self, name, tasks, variables):
        for task in tasks:
            if self._one(name, task, variables) is StopIteration:
                return

    def _one(self, name, task, variables):
        """Carry out a task; return StopIteration where the node's turn ends."""
        if not all(_rendered(f"{{{{ {condition} }}}}", variables) for condition in _listed(task.get("when", []))):
            return None
        if "block" in task:
            return self._block(name, task, variables)
        self.seen.append((name, task["name"]))
        self.before.pop((name, task["name"]), lambda: None)()
        self.tasks += 1
        if self.tasks == self.dies_at:
            raise Killed
        kind = next(key for key in task if "." in key)
        try:
            result = self._do(name, kind, task[kind] or {}, variables)
        except FailedError as failed:
            if task.get("failed_when") is not False:
                raise
            result = failed.result
        if "register" in task:
            variables[task["register"]] = result
        return result

    def _block(self, name, task, variables):
        inner = {**variables, **{key: _rendered(text, variables) for key, text in task.get("vars", {}).items()}}
        try:
            return self._all(name, task["block"], inner)
        except FailedError as failed:
            if "rescue" not in task:
                raise
            return self._all(name, task["rescue"], {**inner, "ansible_failed_result": failed.result})

    def _do(self, name, kind, given, variables):
        named = given if isinstance(given, str) else given.get("name")
        if kind == "ansible.builtin.meta":
            return StopIteration
        if named == "gpulab.node.fence":
            return self._all(name, yaml.safe_load((ROOT / "roles/fence/tasks/main.yml").read_text()), variables)
        if named == "tasks/plan.yml":
            return self._read(name)
        if kind not in (*ACTIONS, "gpulab.node.fence"):
            variables["ansible_facts"] = {"gpulab_check_mode": False}
            return self._work(name, named)
        arguments = {key: _rendered(text, {**variables, "omit": None}) for key, text in given.items()}
        arguments = {key: value for key, value in arguments.items() if value is not None}
        if kind == "gpulab.node.fence":
            try:
                return self.lab.fence(name, str(self.directory), {"run": str(self.directory), **arguments})
            except Refusal as refusal:
                raise FailedError(failure([refusal])) from refusal
        return self._action(kind, name, {"file": self.run["file"], **arguments} if "work" in arguments else arguments)

    def _work(self, name, named):
        """Do what needs the node itself: its lock, the change, the proof."""
        node = self.lab.nodes[name]
        if node.dead:
            raise UnreachableError
        if named == "tasks/apply.yml" and node.key == "wanted":
            node.key = "pending"
            raise FailedError(failure([refuse("P047", waits="waits", first="")]))
        if named == "tasks/apply.yml":
            node.changes, node.proven = node.changes + 1, False
        elif named == "gpulab.node.verify" and node.broken:
            raise FailedError({"failed": True, "msg": f"GPULAB-V001 {name} failed verification. Remedy: Mend it.\n"})
        elif named == "gpulab.node.verify":
            node.proven = True

    def _read(self, name):
        node = self.lab.nodes[name]
        if node.dead:
            raise FailedError(failure([refuse("H001", host=name, detail="no route", login=name)]))
        if node.key == "pending":
            raise FailedError(failure([refuse("P047", waits="waits", first="")]))
        facts = copy.deepcopy(machines.machine())
        facts["fence"] = fence_facts.read(Node(node.root))
        self.known[name] = {
            "ansible_facts": {"gpulab": facts, "gpulab_plan": {"due": [] if node.changes else ["tuning"]}}
        }

    def _action(self, kind, name, arguments):
        """Run one of the real action plugins."""
        task = Mock(check_mode=False, async_val=0, action=kind, args=arguments)
        plugin = ACTIONS[kind](task, Mock(), Mock(), Mock(), Mock(), Mock())
        plugin._connection._shell.tmpdir = None  # noqa: SLF001
        variables = {"hostvars": self.known, "ansible_play_hosts_all": list(self.known), "ansible_play_batch": [name]}
        mine = {**this_run(os.getppid()), "machine": self.directory.name}
        with patch.object(rollout_action, "this_run", lambda _pid: mine):
            result = plugin.run(None, {**variables, **self.known[name], "inventory_hostname": name})
        if result.get("failed"):
            raise FailedError(result)
        return result


def _listed(conditions):
    return conditions if isinstance(conditions, list) else [conditions]


def _rendered(text, variables):
    """Return what a template is worth; values that are not text are what they are."""
    return NativeEnvironment().from_string(text).render(variables) if isinstance(text, str) else text

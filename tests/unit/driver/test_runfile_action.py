"""What the action does with what the node answers; the node is played."""

from types import SimpleNamespace

import pytest
from ansible.errors import AnsibleError
from ansible_collections.gpulab.node.plugins.action import nvidia_runfile as action
from ansible_collections.gpulab.node.plugins.module_utils.core.refusal import Refusal
from ansible_collections.gpulab.node.plugins.module_utils.driver.dkms import ENVIRONMENT
from ansible_collections.gpulab.node.plugins.plugin_utils.progress.long_step import StepOutcome

ARGS = {"version": "595.91.07", "url": "http://mirror.example/driver.run", "kernels": ["one", "two"], "timeout": 60}
INSTALLER = {"step": "nvidia-runfile", "argv": ["env", "CC=gcc-12", "/tree/nvidia-installer", "--silent"]}
TODO = {"changed": True, "installed": None, "planned": "595.91.07", "begun": None, "fetched": True, "diff": {}}


class Played(action.ActionModule):
    """The action with a node that answers from a table, and steps that end as told."""

    def __init__(self, seen, *, failing=(), check_mode=False):
        """seen: what the node sees. failing: the names of steps that fail."""
        self.seen, self.failing = seen, failing
        self.asked, self.ran, self.picked_up = [], [], []
        self._task = SimpleNamespace(check_mode=check_mode)

    def call_module(self, name, args):
        """Answer a module call."""
        assert name == "nvidia_runfile"
        operation, kernel = args["operation"], args.get("kernel")
        self.asked.append((operation, kernel))
        why = {"code": "D033", "cause": "It does not work.", "remedy": "Take another."}
        answers = {
            "look": self.seen,
            "try": {"run": {"step": f"try-{kernel}", "argv": ["make", "modules"]}},
            "start": {"run": INSTALLER},
            "start_removal": {"run": {"step": "removal", "argv": ["/usr/bin/nvidia-uninstall"]}},
            "explain": {"why": why},
            "explain_build": {"why": why},
        }
        return dict(answers.get(operation, {}))

    def _find_needle(self, _directory, needle):
        raise AnsibleError(needle)

    def run_step(self, step):
        """End a step."""
        assert step.environment == ENVIRONMENT
        self.ran.append((step.name, step.chdir, step.timeout))
        self.picked_up += [step.name] if step.pick_up else []
        return StepOutcome(int(step.name in self.failing), 1.0, [], "/log", "started")


def test_nothing_to_do_is_one_call():
    seen = {"changed": False, "installed": "595.91.07", "planned": "595.91.07"}
    played = Played(seen)
    assert played.carry_out(ARGS) == seen
    assert played.asked == [("look", None)]


def test_every_kernel_is_tried_before_the_installer_runs_in_its_directory():
    played = Played(TODO)
    assert played.carry_out(ARGS) == {"changed": True, "installed": None, "planned": "595.91.07", "diff": {}}
    assert played.ran == [("try-one", "/", 60), ("try-two", "/", 60), ("nvidia-runfile", "/tree", 60)]
    assert played.asked[1:] == [("try", "one"), ("try", "two"), ("start", "one"), ("finish", None)]


def test_a_build_that_fails_keeps_the_installer_from_running():
    played = Played(TODO, failing=["try-two"])
    with pytest.raises(Refusal):
        played.carry_out(ARGS)
    assert played.asked[-1] == ("explain_build", "two")
    assert "nvidia-runfile" not in [name for name, _directory, _timeout in played.ran]


def test_an_installer_that_fails_is_explained_and_not_called_finished():
    played = Played(TODO, failing=["nvidia-runfile"])
    with pytest.raises(Refusal):
        played.carry_out(ARGS)
    assert played.asked[-1] == ("explain", None)


def test_an_installation_that_was_cut_off_is_seen_through():
    played = Played({**TODO, "begun": INSTALLER, "fetched": False})
    played.carry_out(ARGS)
    assert [name for name, _directory, _timeout in played.ran] == played.picked_up == ["nvidia-runfile"]
    assert played.asked == [("look", None), ("finish", None)]


def test_what_a_former_run_tried_or_ended_otherwise_is_done_again():
    played = Played(TODO)
    played.carry_out(ARGS)
    played.carry_out({"state": "absent"})
    assert played.picked_up == []


@pytest.mark.parametrize("state", ["fetched", "present", "absent", "confirmed", "restored"])
def test_check_mode_only_looks(state):
    played = Played({**TODO, "fetched": False}, check_mode=True)
    assert played.carry_out({**ARGS, "state": state})["changed"]
    assert played.asked == [("look", None)]


def test_a_file_that_is_not_there_is_fetched_first():
    played = Played({**TODO, "fetched": False})
    played.carry_out(ARGS)
    assert played.asked[:3] == [("look", None), ("fetch", None), ("try", "one")]


def test_a_file_that_the_controller_has_not_is_refused():
    played = Played(TODO)
    with pytest.raises(Refusal) as refusal:
        played.carry_out({**ARGS, "state": "fetched", "url": "files/driver.run"})
    assert refusal.value.code == "D030"


def test_the_uninstaller_runs_and_the_node_is_asked_whether_it_is_gone():
    played = Played(TODO)
    played.carry_out({"state": "absent"})
    assert played.ran == [("removal", "/usr/bin", 3600)]
    assert played.asked == [("look", None), ("start_removal", None), ("finish_removal", None)]


RESTORED = {"state": "restored", "kernels": ["one", "two"]}


def test_a_former_driver_is_installed_for_the_first_kernel_that_it_builds_for():
    played = Played({**TODO, "fetched": False}, failing=["try-one"])
    played.carry_out(RESTORED)
    operations = [("fetch", None), ("try", "one"), ("try", "two"), ("start", "two"), ("finish", None)]
    assert played.asked[1:] == operations  # and the file is not let go of in between


def test_a_former_driver_that_builds_for_no_kernel_is_refused():
    played = Played(TODO, failing=["try-one", "try-two"])
    with pytest.raises(Refusal):
        played.carry_out(RESTORED)
    assert played.asked[-1] == ("explain_build", "two")


def test_a_restoration_that_was_cut_off_is_seen_through():
    played = Played({**TODO, "begun": INSTALLER})
    played.carry_out(RESTORED)
    assert played.asked == [("look", None), ("finish", None)]


def test_the_file_of_a_former_driver_is_let_go():
    played = Played({"changed": True, "installed": "595.91.07", "planned": "580.178.04"})
    played.carry_out({"state": "confirmed"})
    assert played.asked == [("look", None), ("confirm", None)]

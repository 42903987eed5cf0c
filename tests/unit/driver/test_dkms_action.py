"""What the action builds for what the node answers; the node is played."""

from types import SimpleNamespace

import pytest
from ansible_collections.gpulab.node.plugins.action import dkms as action
from ansible_collections.gpulab.node.plugins.module_utils.core.changes import changes
from ansible_collections.gpulab.node.plugins.module_utils.core.refusal import Refusal
from ansible_collections.gpulab.node.plugins.module_utils.driver.dkms import ENVIRONMENT
from ansible_collections.gpulab.node.plugins.plugin_utils.long_step import Outcome

KERNELS = ["6.1.0-50-amd64", "6.12.117+deb13-amd64"]
FAILURE = {"code": "D001", "cause": "It does not compile.", "remedy": "Take another."}


class Played(action.ActionModule):
    """The action with a node on which a build ends with the given status."""

    def __init__(self, *, installed=(), rc=0, check_mode=False):
        """installed: the kernels that have the module."""
        self.installed, self.rc = list(installed), rc
        self._task = SimpleNamespace(check_mode=check_mode)
        self.ran = []

    def call_module(self, name, args):
        """Answer a module call."""
        assert name == "dkms"
        if args.get("operation") == "diagnose":
            return {"failure": FAILURE}
        kernels = {kernel: "installed" if kernel in self.installed else "added" for kernel in KERNELS}
        missing = [kernel for kernel in KERNELS if kernel not in self.installed]
        return {
            "changed": bool(missing),
            "changes": changes(build=missing),
            "version": "535",
            "kernels": kernels,
            "missing": missing,
        }

    def run_step(self, step):
        """Build."""
        self.ran.append(step)
        if self.rc == 0:
            self.installed.append(step.argv[-1])
        return Outcome(self.rc, 1.0, [], "/log", "started")


ARGS = {"module": "nvidia-current", "kernels": KERNELS}


def test_kernels_that_have_the_module_are_left_alone():
    played = Played(installed=KERNELS)
    result = played.carry_out(ARGS)
    assert result == {"changed": False, "changes": [], "version": "535", "kernels": dict.fromkeys(KERNELS, "installed")}
    assert played.ran == []


def test_it_is_built_for_those_that_miss_it():
    played = Played(installed=KERNELS[:1])
    result = played.carry_out(ARGS)
    assert [step.argv for step in played.ran] == [
        ["dkms", "install", "-m", "nvidia-current", "-v", "535", "-k", KERNELS[1]]
    ]
    assert [step.environment for step in played.ran] == [ENVIRONMENT]
    assert result["kernels"] == dict.fromkeys(KERNELS, "installed")
    assert result["diff"]["before"].splitlines()[1] == f"{KERNELS[1]} nvidia-current added"
    assert result["diff"]["after"].splitlines()[1] == f"{KERNELS[1]} nvidia-current installed"


def test_each_kernel_has_a_step_that_systemd_takes():
    played = Played()
    played.carry_out(ARGS)
    assert [step.name for step in played.ran] == [
        "dkms-nvidia-current-6.1.0-50-amd64",
        "dkms-nvidia-current-6.12.117-deb13-amd64",
    ]


def test_check_mode_foresees_and_builds_nothing():
    played = Played(check_mode=True)
    result = played.carry_out(ARGS)
    assert result["changed"]
    assert result["changes"] == changes(build=KERNELS)
    assert "installed" in result["diff"]["after"]
    assert played.ran == []


def test_a_build_that_fails_is_refused_and_the_next_kernel_not_tried():
    played = Played(rc=10)
    with pytest.raises(Refusal) as refused:
        played.carry_out(ARGS)
    assert refused.value.code == "D001"
    assert len(played.ran) == 1

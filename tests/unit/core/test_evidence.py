"""What a role answers for is noted by its modules, in a run that works on the node, and taken over once."""

from types import SimpleNamespace

import pytest
from ansible_collections.gpulab.node.plugins.module_utils.core import evidence, run_lock


@pytest.fixture
def at_work(tmp_path, monkeypatch):
    """Have a run at work on the node; return its note, which a test may remove."""
    lock = tmp_path / "run.json"
    lock.touch()
    monkeypatch.setattr(run_lock, "LOCK", lock)
    monkeypatch.setattr(evidence, "NOTES", tmp_path / "evidence.json")
    monkeypatch.setattr(evidence.os, "geteuid", lambda: 0)
    return lock


def module(*, check_mode=False):
    return SimpleNamespace(check_mode=check_mode)


@pytest.mark.usefixtures("at_work")
def test_items_are_gathered_once_each_and_taken_once():
    evidence.note(module(), file=["/etc/a"], package=["chrony"])
    evidence.note(module(), file={"/etc/a": "text", "/etc/b": ""})
    assert evidence.take() == ["file:/etc/a", "file:/etc/b", "package:chrony"]
    assert evidence.take() == []


@pytest.mark.usefixtures("at_work")
def test_what_is_set_aside_for_a_role_goes_to_its_receipt_alone():
    """The driver's modules are built beside the role cuda, whose receipt comes first."""
    evidence.note(module(), package=["nvidia-driver"])
    evidence.set_aside("nvidia_driver")
    evidence.note(module(), package=["nvidia-cuda-toolkit"])
    assert evidence.take("cuda") == ["package:nvidia-cuda-toolkit"]
    evidence.note(module(), file=["/etc/a"])
    assert evidence.take("nvidia_driver") == ["file:/etc/a", "package:nvidia-driver"]
    assert evidence.take("nvidia_driver") == []


@pytest.mark.usefixtures("at_work")
def test_check_mode_notes_nothing():
    evidence.note(module(check_mode=True), file=["/etc/a"])
    assert evidence.take() == []


def test_nothing_is_noted_outside_of_a_run(at_work):
    """As on the controller, where a role writes a file of its own."""
    at_work.unlink()
    evidence.note(module(), file=["/etc/a"])
    assert evidence.take() == []


@pytest.mark.usefixtures("at_work")
def test_who_is_not_root_notes_nothing(monkeypatch):
    monkeypatch.setattr(evidence.os, "geteuid", lambda: 1000)
    evidence.note(module(), file=["/etc/a"])
    assert evidence.take() == []

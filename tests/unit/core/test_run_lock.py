"""One run at a time works on a node; who is over is known, and nobody is kept away by him."""

import fcntl
import json
import os
import stat
import subprocess
import sys
import threading
from pathlib import Path

import pytest
import yaml
from ansible_collections.gpulab.node.plugins.module_utils.core import run_lock
from ansible_collections.gpulab.node.plugins.module_utils.core.refusal import Refusal
from ansible_collections.gpulab.node.plugins.module_utils.core.run_lock import BEGIN, END, GO_ON, LOOK
from ansible_collections.gpulab.node.plugins.plugin_utils.core.this_run import is_dead, this_run

ONE = {"user": "ann", "machine": "desk", "boot": "b", "pid": 7, "started": 70}
OTHER = {**ONE, "user": "bob", "machine": "laptop"}


@pytest.fixture
def node(tmp_path, monkeypatch):
    """Return a function that holds the node, and one that lets time pass."""
    clock = [100.0]
    monkeypatch.setattr(run_lock, "_now", lambda: clock[0])

    def hold(run, what, dead=None):
        return run_lock.hold(run, what, dead, tmp_path / "gpulab/run.json")

    def wait(seconds):
        clock[0] += seconds

    return hold, wait


def refused(hold, *arguments):
    with pytest.raises(Refusal) as refusal:
        hold(*arguments)
    return refusal.value


def test_the_second_run_is_told_who_works_there_and_since_when(node):
    hold, wait = node
    hold(ONE, BEGIN)
    wait(20)
    why = refused(hold, OTHER, BEGIN)
    assert why.code == "S010"
    assert "process 7 of ann on desk, since 2" in why.cause
    assert "20 s ago" in why.cause
    assert "in 280 s" in why.remedy


def test_one_run_after_the_other_is_let_in(node):
    hold, _wait = node
    for run in (ONE, OTHER, ONE):
        hold(run, BEGIN)
        hold(run, BEGIN)
        hold(run, END)


def test_a_run_that_looks_is_refused_beside_another_and_holds_nothing(node, tmp_path):
    hold, wait = node
    assert hold(ONE, LOOK) is False
    assert not (tmp_path / "gpulab/run.json").exists()
    assert hold(OTHER, BEGIN) is True
    assert refused(hold, ONE, LOOK).code == "S010"
    assert hold(ONE, LOOK, OTHER) is False  # the other one is known to be dead
    wait(run_lock.SILENCE + 1)
    assert hold(ONE, LOOK) is False
    assert run_lock.holder(tmp_path / "gpulab/run.json")["user"] == OTHER["user"]


def test_who_gives_signs_of_life_keeps_the_node_and_who_gives_none_loses_it(node):
    hold, wait = node
    hold(ONE, BEGIN)
    for _step in range(3):
        wait(run_lock.SILENCE - 1)
        hold(ONE, GO_ON)
    assert refused(hold, OTHER, BEGIN).code == "S010"
    wait(run_lock.SILENCE + 1)
    hold(OTHER, BEGIN)
    assert refused(hold, ONE, GO_ON).code == "S011"
    assert refused(hold, ONE, BEGIN).code == "S010"


def test_a_run_that_is_known_to_be_dead_keeps_nobody_away(node):
    hold, _wait = node
    hold(ONE, BEGIN)
    assert refused(hold, OTHER, BEGIN, {**ONE, "pid": 8}).code == "S010"
    hold(OTHER, BEGIN, ONE)


def test_who_only_reads_is_never_refused_and_changes_nothing(node, tmp_path):
    hold, _wait = node
    hold(OTHER, GO_ON)
    assert not list(tmp_path.iterdir())
    hold(ONE, BEGIN)
    before = (tmp_path / "gpulab/run.json").read_text()
    for what in (GO_ON, END):
        hold(OTHER, what)
    assert (tmp_path / "gpulab/run.json").read_text() == before


@pytest.mark.parametrize("text", ["", "{", "[]", '{"user": 1}'])
def test_a_note_that_nobody_can_read_keeps_nobody_away(node, tmp_path, text):
    hold, _wait = node
    (tmp_path / "gpulab").mkdir()
    (tmp_path / "gpulab/run.json").write_text(text)
    hold(ONE, BEGIN)
    assert json.loads((tmp_path / "gpulab/run.json").read_text())["user"] == "ann"


def test_of_many_at_once_one_gets_the_node(node):
    hold, _wait = node
    got = []

    def begin(number):
        try:
            hold({**ONE, "pid": number}, BEGIN)
            got.append(number)
        except Refusal:
            pass

    threads = [threading.Thread(target=begin, args=(number,)) for number in range(20)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(got) == 1


def test_the_process_of_a_run_tells_whether_it_is_over():
    alive = subprocess.Popen([sys.executable, "-c", "input()"], stdin=subprocess.PIPE)
    run = this_run(alive.pid)
    assert not is_dead(run)
    alive.communicate(b"\n")
    assert is_dead(run)
    assert is_dead({**this_run(os.getpid()), "started": 1})  # its number was given to another one
    assert not is_dead({**run, "machine": "elsewhere"})
    assert not is_dead({**run, "boot": "another"})


@pytest.mark.parametrize("playbook", ["provision", "remove"])
def test_a_run_with_tags_lets_go_of_the_node_as_the_last_it_does(pytestconfig, playbook):
    """The tasks of the proof have no tags; whoever comes next from another machine would have to wait."""
    plays = yaml.safe_load((pytestconfig.rootpath / f"playbooks/{playbook}.yml").read_text(encoding="utf-8"))
    tasks = [task for play in plays for part in ("tasks", "post_tasks") for task in play.get(part, [])]
    assert (tasks[-1]["gpulab.node.gpu_facts"], tasks[-1]["tags"]) == ({"work": END}, "always")


PLAY = """
- hosts: localhost
  gather_facts: false
  MODE
  tasks:
    - gpulab.node.gpu_facts:
        WORK
    - ansible.builtin.debug:
        msg: "seen {{ ansible_facts['gpulab_check_mode'] }}"
"""


@pytest.mark.slow
@pytest.mark.parametrize(
    ("mode", "options", "told"),
    [
        ("", [], "seen False"),
        ("check_mode: true", [], "seen True"),
        ("", ["--check"], "seen True"),
        ("vars: {nvidia_driver_brnach: x}", [], "nvidia_driver_brnach is an unknown variable"),
    ],
)
def test_whoever_reads_the_node_knows_the_mode_and_its_variables(pytestconfig, tmp_path, mode, options, told):
    """Without the playbooks, and their look at the inventory."""
    play, python = tmp_path / "play.yml", ["-e", f"ansible_python_interpreter={sys.executable}"]
    play.write_text(PLAY.replace("MODE", mode).replace("WORK", "work: begin" if "brnach" in mode else ""))
    done = subprocess.run(
        [
            Path(sys.executable).with_name("ansible-playbook"),
            "-i",
            "localhost,",
            "-c",
            "local",
            *options,
            *python,
            play,
        ],
        cwd=pytestconfig.rootpath,
        env={**os.environ, "ANSIBLE_HOME": str(tmp_path / "home"), "ANSIBLE_NOCOLOR": "1"},
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    assert told in done.stdout, done.stdout + done.stderr


def test_who_locks_the_directory_or_the_note_as_users_can_keeps_no_run_waiting(tmp_path):
    lock = tmp_path / "gpulab" / "run.json"
    lock.parent.mkdir()
    directory = os.open(lock.parent, os.O_RDONLY)
    fcntl.flock(directory, fcntl.LOCK_EX)
    assert run_lock.hold(ONE, BEGIN, lock=lock)
    note = os.open(lock, os.O_RDONLY)
    fcntl.flock(note, fcntl.LOCK_EX)
    assert not run_lock.hold(ONE, GO_ON, lock=lock)
    modes = {path.name: stat.S_IMODE(path.stat().st_mode) for path in (lock.parent / "locks").glob("**")}
    assert modes == {"locks": 0o700}
    assert stat.S_IMODE((lock.parent / "locks/run.lock").stat().st_mode) == 0o600
    os.close(note)
    os.close(directory)

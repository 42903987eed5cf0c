"""The node's half of a long step, on a systemd that is played: it holds units and runs their scripts for real."""

import re
import subprocess
import threading

import pytest
from ansible_collections.gpulab.node.plugins.module_utils.core.refusal import Refusal
from ansible_collections.gpulab.node.plugins.module_utils.core.steps import (
    Command,
    Step,
    clean_lines,
    running_boot,
    script,
)
from ansible_collections.gpulab.node.plugins.modules import long_step
from hypothesis import given
from hypothesis import strategies as st


class Systemd:
    """Starts units on systemd-run; a unit runs until the test says how it ends."""

    def __init__(self):
        """Have no unit."""
        self.units = {}  # name: (ActiveState, Result)
        self.scripts = {}
        self.refuses = False
        self.asked = 0

    def __call__(self, argv):
        """Play systemd-run and systemctl."""
        self.asked += 1
        if argv[0] == "systemd-run":
            if self.refuses:
                return 1, "", "Failed to start transient service unit:\n Access denied"
            unit = next(word.split("=", 1)[1] for word in argv if word.startswith("--unit="))
            assert unit not in self.units or self.units[unit][0] == "inactive", "systemd refuses a unit that is loaded"
            self.units[unit] = ("active", "success")
            self.scripts[unit] = argv[-2:]
            return 0, "", ""
        if argv[1] == "reset-failed":
            if self.units.get(argv[2], ("",))[0] == "failed":
                del self.units[argv[2]]
            return 0, "", ""
        wanted = next(word.split("=", 1)[1] for word in argv if word.startswith("--property="))
        state, result = self.units.get(argv[-1], ("inactive", "success"))
        return 0, {"ActiveState": state, "Result": result}[wanted] + "\n", ""

    def end(self, unit):
        """Let the unit's script run to its end."""
        subprocess.run(self.scripts[unit], check=False)
        self.units[unit] = ("inactive", "success")

    def kill(self, unit, result):
        """End the unit from outside; its script gets no further."""
        self.units[unit] = ("failed", result)

    def restart(self):
        """Restart the node."""
        self.units.clear()


@pytest.fixture
def systemd():
    return Systemd()


@pytest.fixture
def step(systemd, tmp_path):
    return Step("try", systemd, "boot-1", tmp_path)


ECHO = Command(("sh", "-c", "echo one; echo two >&2; exit 3"))
OTHER = Command(("true",))


def test_a_new_step_is_absent(step):
    assert step.status().state == "absent"


def test_a_step_runs_and_leaves_its_result_and_its_output(step, systemd):
    assert step.start(ECHO, 60) == "started"
    assert step.status().state == "running"
    systemd.end(step.unit)
    status = step.status()
    assert (status.state, status.rc, status.tail, status.line) == ("finished", 3, ("one", "two"), "two")


def test_a_poll_ends_with_the_command_and_takes_nothing_from_it_meanwhile(step, systemd):
    step.start(ECHO, 60)
    asked = systemd.asked
    threading.Timer(1, systemd.end, [step.unit]).start()
    assert long_step.follow(step, 60).rc == 3
    assert systemd.asked == asked + 1


def test_a_step_beside_a_build_does_not_speak_of_its_compiler(step):
    step.start(ECHO, 60)
    assert not long_step.is_beside_a_build(step)
    build = step.beside("dkms-nvidia-6.1")
    build.start(ECHO, 60)
    assert (long_step.is_beside_a_build(step), long_step.is_beside_a_build(build)) == (True, False)
    (build.directory / "result").write_text('{"rc": 0, "ended": 1}')
    assert not long_step.is_beside_a_build(step)


def test_a_poll_tells_when_systemd_ended_the_command(step, systemd):
    step.start(ECHO, 60)
    threading.Timer(0.2, systemd.kill, [step.unit, "timeout"]).start()
    assert long_step.follow(step, 1).state == "timeout"


def test_the_result_survives_a_restart_of_the_node(step, systemd, tmp_path):
    step.start(ECHO, 60)
    systemd.end(step.unit)
    systemd.restart()
    assert Step("try", systemd, "boot-2", tmp_path).status().rc == 3


def test_the_same_command_attaches_to_a_step_that_runs(step, systemd):
    step.start(ECHO, 60)
    assert step.start(ECHO, 60) == "attached"
    assert len(systemd.units) == 1


def test_another_command_is_refused_while_the_step_runs(step):
    step.start(ECHO, 60)
    with pytest.raises(Refusal) as refused:
        step.start(OTHER, 60)
    assert refused.value.code == "S003"
    assert "echo one" in refused.value.cause
    assert str(step.log) in refused.value.remedy


def test_a_result_nobody_has_heard_is_picked_up_once(step, systemd):
    step.start(ECHO, 60)
    systemd.end(step.unit)
    assert step.start(ECHO, 60, pick_up=True) == "picked_up"
    step.acknowledge()
    assert step.start(ECHO, 60, pick_up=True) == "started"
    assert step.status().state == "running"


def test_a_command_whose_effect_may_be_gone_runs_again(step, systemd):
    step.start(ECHO, 60)
    systemd.end(step.unit)
    assert step.start(ECHO, 60) == "started"
    assert step.status().state == "running"


def test_a_step_that_never_ran_stays_absent_when_its_end_is_acknowledged(step):
    step.acknowledge()
    assert step.status().state == "absent"


def test_the_result_of_another_command_is_not_picked_up(step, systemd):
    step.start(ECHO, 60)
    systemd.end(step.unit)
    assert step.start(OTHER, 60, pick_up=True) == "started"


def test_a_step_that_ran_into_its_timeout_says_so_and_can_run_again(step, systemd):
    step.start(ECHO, 60)
    systemd.kill(step.unit, "timeout")
    assert step.status().state == "timeout"
    assert step.start(ECHO, 60) == "started"


def test_a_killed_step_is_interrupted_with_the_word_of_systemd(step, systemd):
    step.start(ECHO, 60)
    systemd.kill(step.unit, "oom-kill")
    assert (step.status().state, step.status().detail) == ("interrupted", "oom-kill")


def test_a_step_that_cannot_write_its_end_leaves_no_half_of_it_and_says_so(step, systemd):
    step.start(ECHO, 60)
    full = step.directory / "result.new"
    full.symlink_to("/dev/full")
    systemd.end(step.unit)
    assert not (step.directory / "result").exists()
    systemd.kill(step.unit, "exit-code")
    assert step.status().state == "interrupted"
    assert "full (df -h)" in step.status().detail
    full.unlink()
    assert step.start(ECHO, 60) == "started"


def test_a_restart_of_the_node_interrupts_a_step_without_a_result(step, systemd, tmp_path):
    step.start(ECHO, 60)
    systemd.restart()
    after = Step("try", systemd, "boot-2", tmp_path)
    assert (after.status().state, after.status().detail) == ("interrupted", "the node was restarted")
    assert after.start(ECHO, 60) == "started"


def test_a_unit_of_another_boot_is_not_asked(step, systemd, tmp_path):
    step.start(ECHO, 60)  # the name is taken by something else after the restart
    assert Step("try", systemd, "boot-2", tmp_path).status().state == "interrupted"


def test_a_step_systemd_does_not_start_leaves_no_trace_of_a_run(step, systemd):
    systemd.refuses = True
    with pytest.raises(Refusal) as refused:
        step.start(ECHO, 60)
    assert refused.value.code == "S004"
    assert "Access denied" in refused.value.cause
    assert step.status().state == "absent"


def test_the_timeout_is_systemds_to_keep(step):
    calls = []
    step._call = lambda argv: (calls.append(argv), (0, "", ""))[1]  # noqa: SLF001 - the calls are what is looked at
    step.start(ECHO, 77)
    run = next(argv for argv in calls if argv[0] == "systemd-run")
    assert "--property=RuntimeMaxSec=77" in run
    assert "--collect" not in run


def test_the_log_of_the_run_before_is_kept(step, systemd):
    step.start(ECHO, 60)
    systemd.end(step.unit)
    step.acknowledge()
    step.start(OTHER, 60)
    systemd.end(step.unit)
    assert step.status().tail == ()
    assert (step.directory / "log.old").read_text() == "one\ntwo\n"


def test_only_root_reads_what_a_step_was_told(step):
    step.start(Command(("true",), {"TOKEN": "secret"}), 60)
    assert step.directory.stat().st_mode & 0o077 == 0
    assert (step.directory / "run").stat().st_mode & 0o077 == 0


@pytest.mark.parametrize("name", ["", "a b", "a/b", "../x", "-x", "a\n", "x" * 101])
def test_names_systemd_would_not_take_are_refused(name, systemd, tmp_path):
    with pytest.raises(Refusal) as refused:
        Step(name, systemd, "boot-1", tmp_path)
    assert refused.value.code == "S001"


@given(
    words=st.lists(st.text(st.characters(codec="ascii", exclude_characters="\0"), max_size=8), max_size=4),
    value=st.text(st.characters(codec="ascii", exclude_characters="\0"), max_size=8),
)
def test_no_character_of_the_command_is_expanded(words, value, tmp_path_factory):
    directory = tmp_path_factory.mktemp("step")
    text = script(Command(("printf", r"%s\037", *words, "end"), {"VALUE": value}), directory)
    subprocess.run(["sh", "-c", text], check=True)
    assert (directory / "log").read_bytes().decode() == "".join(f"{word}\x1f" for word in (*words, "end"))


def test_environment_and_directory_reach_the_command(tmp_path):
    text = script(Command(("sh", "-c", 'echo "$VALUE in $PWD"'), {"VALUE": "$HOME 'x'"}, "/usr"), tmp_path)
    subprocess.run(["sh", "-c", text], check=True)
    assert (tmp_path / "log").read_text() == "$HOME 'x' in /usr\n"


def test_a_missing_directory_is_a_failure_and_not_a_run_elsewhere(tmp_path):
    text = script(Command(("touch", str(tmp_path / "ran")), chdir=str(tmp_path / "absent")), tmp_path)
    assert subprocess.run(["sh", "-c", text], check=False).returncode != 0
    assert not (tmp_path / "ran").exists()


def test_fingerprints_differ_in_everything_that_is_run():
    commands = [
        ECHO,
        OTHER,
        Command(("true", "x")),
        Command(("true",), {"A": "1"}),
        Command(("true",), {"A": "2"}),
        Command(("true",), chdir="/usr"),
    ]
    assert len({command.fingerprint for command in commands}) == len(commands)
    assert Command(("true",)).fingerprint == OTHER.fingerprint


@pytest.mark.parametrize(
    ("text", "lines"),
    [
        ("a\nb\n", ["a", "b"]),
        ("10%\r50%\r100%\n", ["100%"]),
        ("50%\r", ["50%"]),
        ("\x1b[1mbold\x1b[0m\r\n\n  \n", ["bold"]),
        ("\x1b(B\x1b]0;apt\x07Setting up\x1b[?25h", ["Setting up"]),
        ("", []),
    ],
)
def test_lines_are_what_a_terminal_would_show(text, lines):
    assert clean_lines(text) == lines


@given(st.text())
def test_no_line_moves_the_cursor(text):
    assert not any(re.search(r"[\x00-\x08\x0b-\x1f\x7f]", line) for line in clean_lines(text))


def test_a_node_booted_with_systemd_names_its_boot(tmp_path, monkeypatch):
    monkeypatch.setattr("os.geteuid", lambda: 0)
    assert re.fullmatch(r"[0-9a-f-]{36}", running_boot(tmp_path))


def test_steps_need_systemd_and_root(tmp_path, monkeypatch):
    monkeypatch.setattr("os.geteuid", lambda: 0)
    with pytest.raises(Refusal) as refused:
        running_boot(tmp_path / "absent")
    assert refused.value.code == "S002"
    monkeypatch.setattr("os.geteuid", lambda: 1)
    with pytest.raises(Refusal) as refused:
        running_boot(tmp_path)
    assert refused.value.code == "H011"

"""The callback, seen from outside: real runs of ansible-playbook on this machine, and all that they print."""

import fcntl
import os
import pty
import re
import struct
import subprocess
import sys
import termios
from pathlib import Path

import pytest

from .terminal import Terminal

pytestmark = pytest.mark.slow

HERE = Path(__file__).parent
ROOT = HERE.parents[2]
ANSIBLE = [str(Path(sys.executable).with_name("ansible-playbook"))]
TERMINAL_WIDTH = 60
INVENTORY = """\
[nodes]
fine ansible_connection=local
broken ansible_connection=local
asserted ansible_connection=local
gone ansible_connection=ssh ansible_host=127.0.0.1 ansible_port=1
[nodes:vars]
ansible_python_interpreter={python}
"""


@pytest.fixture(scope="module")
def environment(tmp_path_factory):
    home = tmp_path_factory.mktemp("ansible")
    (home / "ansible.cfg").write_text(f"[defaults]\ncollections_path = {ROOT}/collections\n")
    (home / "hosts").write_text(INVENTORY.format(python=sys.executable))
    kept = {name: os.environ[name] for name in ("PATH", "HOME", "LANG") if name in os.environ}
    return {
        **kept,
        "ANSIBLE_CONFIG": str(home / "ansible.cfg"),
        "ANSIBLE_HOME": str(home),
        "ANSIBLE_INVENTORY": str(home / "hosts"),
        "ANSIBLE_STDOUT_CALLBACK": "gpulab.node.progress",
        "ANSIBLE_CALLBACK_RESULT_FORMAT": "yaml",
        "PYTHONUNBUFFERED": "",
    }


def run(environment, playbook, *arguments, **variables):
    argv = [*ANSIBLE, str(HERE / "playbooks" / playbook), "-e", f"scratch={environment['ANSIBLE_HOME']}", *arguments]
    return subprocess.run(
        argv, env={**environment, **variables}, capture_output=True, text=True, check=False, timeout=120
    ).stdout


def run_on_terminal(environment, playbook, *arguments, width=TERMINAL_WIDTH):
    """Run on a terminal of the given width; return the terminal, and the raw output."""
    here, there = pty.openpty()
    fcntl.ioctl(there, termios.TIOCSWINSZ, struct.pack("HHHH", 24, width, 0, 0))
    argv = [*ANSIBLE, str(HERE / "playbooks" / playbook), *arguments]
    with subprocess.Popen(
        argv, env={**environment, "TERM": "xterm"}, stdin=there, stdout=there, stderr=there
    ) as process:
        os.close(there)
        output = b""
        while True:
            try:
                output += os.read(here, 65536)
            except OSError:  # noqa: PERF203 - the only way to see that the other end is closed
                break
        process.wait(timeout=60)
    os.close(here)
    text = output.decode()
    return Terminal().feed(text), text


@pytest.fixture(scope="module")
def everything(environment):
    (Path(environment["ANSIBLE_HOME"]) / "fine").unlink(missing_ok=True)
    return run(environment, "all.yml", "--diff")


def test_what_changed_is_named_with_its_time(everything):
    assert re.search(r"^fine  changed  Change a file  \d+\.\ds$", everything, re.MULTILINE)
    assert "fine  ok  Change nothing" not in everything
    assert "Skip" not in everything


def test_differences_are_shown(everything):
    assert re.search(r"^fine  Change a file\n--- before.*?^\+new$", everything, re.MULTILINE | re.DOTALL)


def test_messages_of_debug_are_shown(everything):
    assert "      hello from fine\n" in everything
    assert "hello from gone" in everything
    assert "      HOST: fine\n        here\n" in everything


def test_of_a_loop_only_the_items_that_changed_are_shown(everything):
    assert [line for line in everything.splitlines() if line.startswith("fine") and "Change some" in line] == [
        "fine  changed  Change some  (item=two)"
    ]


def test_what_is_ignored_is_one_line(everything):
    assert everything.count("fine  failed, ignored  Fail without harm") == 1
    assert "non-zero return code" in everything  # that of the task that broke
    assert everything.count("Fail without harm") == 3  # once for each host that got there


def test_a_refusal_has_its_code_where_it_happens_and_cause_and_remedy_once_in_the_recap(everything):
    assert "\ngone  unreachable  GPULAB-H001  Change nothing\n" in everything
    remedy = "      Remedy: Check its address, power and SSH: ssh -p 1 127.0.0.1; then run again.\n"
    assert (everything.count("gone is unreachable: "), everything.count(remedy)) == (1, 1)
    assert remedy in recap(everything)


def test_what_may_be_rescued_is_shown_in_full_where_it_happens(everything):
    assert "\nfine  failed  Raise\n      to be rescued\n" in everything
    assert "\nfine  failed  Refuse\n      GPULAB-H030  " in everything


def test_a_failure_shows_what_was_said_and_where_it_is(everything):
    assert "broken  failed  Break\n" in everything
    assert "the reason" in everything
    line = (HERE / "playbooks/all.yml").read_text().splitlines().index("    - name: Break") + 1
    assert re.search(rf"^Origin: .*/all\.yml:{line}:7$", everything, re.MULTILINE)


def recap(output):
    return output[output.index("\nRECAP") :]


def test_the_recap_has_a_line_for_each_host(everything):
    lines = recap(everything).splitlines()
    assert re.fullmatch(r"RECAP  total [\dms.]+  4 hosts: 1 changed, 2 failed, 1 unreachable", lines[1])
    rows = {line.split()[0]: line.split()[1:] for line in lines if re.match(r"  \w", line)}
    assert rows["fine"][0] == "changed"
    assert {"changed=2", "ignored=1", "rescued=2", "skipped=3"} <= set(rows["fine"])
    assert (rows["broken"][0], rows["asserted"][0], rows["gone"][0]) == ("failed", "failed", "unreachable")


def test_the_recap_repeats_what_went_wrong_and_nothing_else(everything):
    end = recap(everything)
    assert "    Break\n      non-zero return code: the reason\n" in end
    assert "    Assert\n      this node is not what it should be\n" in end
    assert "GPULAB-H001" in end
    assert "to be rescued" not in end
    assert "Fail without harm" not in end


def test_no_change_reads_as_such_to_tools_that_count(environment):
    output = run(environment, "all.yml", "-l", "fine", "--start-at-task", "Skip")
    assert re.search(r"^  fine  ok +[\d.]+s  ok=\d+ changed=0", output, re.MULTILINE)
    assert not re.search(r"changed=[1-9]", output)


def test_v_shows_results(environment):
    output = run(environment, "all.yml", "-l", "fine", "-v")
    assert "fine  ok  Change nothing" in output
    assert re.search(r"^ +rc: 0$", output, re.MULTILINE)


def test_check_mode_is_announced(environment):
    output = run(environment, "all.yml", "-l", "fine", "--check")
    assert "PLAY Prove what is shown  (check mode: nothing is changed)" in output
    assert "(check mode)" in recap(output)


def test_listing_tasks_is_not_disturbed(environment):
    output = run(environment, "all.yml", "--list-tasks")
    assert "Change a file" in output
    assert "RECAP" not in output


@pytest.mark.parametrize("strategy", ["linear", "ansible.builtin.free"])
def test_without_a_terminal_a_long_step_says_where_it_is(environment, strategy):
    output = run(
        environment, "long.yml", "-l", "fine,broken", "-e", f"strategy={strategy}", GPULAB_PLAIN_INTERVAL="0.5"
    )
    for host in ("fine", "broken"):
        assert re.search(rf"^{host}  [\d.]+s  Build: compiling nv-pci\.c", output, re.MULTILINE)
        assert re.search(rf"^{host}  changed  Build  \d\.\ds$", output, re.MULTILINE)
    assert "\x1b" not in output


def test_without_a_terminal_short_steps_are_quiet(environment):
    assert "compiling" not in run(environment, "long.yml", "-l", "fine")


@pytest.fixture(scope="module")
def on_terminal(environment):
    return run_on_terminal(environment, "long.yml", "-l", "fine,broken")


def test_on_a_terminal_a_host_lives_in_one_line_that_fits(on_terminal):
    terminal, output = on_terminal
    live = [line for line in terminal.ever if line.startswith("fine ") and "compiling" in line]
    assert live
    assert all(len(line) < TERMINAL_WIDTH for line in live)
    assert "\x1b[3A" in output  # redrawn in place: two hosts and the total


def test_on_a_terminal_nothing_of_the_live_lines_stays(on_terminal):
    left = [line.rstrip() for line in on_terminal[0].lines if line.strip()]
    assert left[0] == "PLAY Take long"
    assert sorted(line.split("Build")[0] for line in left[1:3]) == ["broken  changed  ", "fine  changed  "]
    assert left[3].startswith("RECAP")
    assert len(left) == 6


def test_a_pipe_gets_no_control_characters(everything):
    assert not re.search(r"[\r\x1b]", everything)


def test_who_wants_no_colours_gets_none_on_a_terminal(environment):
    _terminal, output = run_on_terminal({**environment, "NO_COLOR": "1"}, "long.yml", "-l", "fine")
    assert "compiling" in output
    assert not re.search(r"\x1b\[(?:\d;)?3\dm", output)


@pytest.mark.parametrize("width", [40, 80])
def test_no_word_is_broken_on_a_terminal(environment, width):
    terminal, _output = run_on_terminal(
        environment, "all.yml", "-e", f"scratch={environment['ANSIBLE_HOME']}", width=width
    )
    words = {word for line in terminal.lines for word in line.split()}
    assert {"hello", "from", "gone", "HOST:", "unreachable"} <= words
    assert all(len(line.rstrip()) <= width for line in terminal.lines if "/" not in line and "[" not in line)


def test_without_rich_a_terminal_gets_plain_lines(environment, tmp_path):
    (tmp_path / "sitecustomize.py").write_text("import sys\nsys.modules['rich'] = None\n")
    _terminal, output = run_on_terminal({**environment, "PYTHONPATH": str(tmp_path)}, "long.yml", "-l", "fine")
    assert "RECAP" in output
    assert not re.search(r"\x1b\[\d+A", output)


def test_ad_hoc_commands_are_not_disturbed(environment):
    argv = [str(Path(sys.executable).with_name("ansible")), "fine", "-m", "ansible.builtin.ping"]
    output = subprocess.run(argv, env=environment, capture_output=True, text=True, check=True, timeout=60).stdout
    assert "fine | SUCCESS" in output
    assert "RECAP" not in output

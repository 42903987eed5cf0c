"""Files below a root, and commands with a deadline."""

import time

from ansible_collections.gpulab.node.plugins.module_utils.core.node import Job


def test_output_of_a_command():
    assert Job(["echo", "hello"]).output() == "hello\n"


def test_command_that_is_absent():
    assert Job(["no-such-command-here"]).output() is None


def test_file_that_is_no_program(tmp_path):
    program = tmp_path / "broken"
    program.write_bytes(b"\x7fELF but not really")
    program.chmod(0o755)
    assert Job([str(program)]).output() is None


def test_late_command_is_given_up():
    before = time.monotonic()
    assert Job(["sleep", "60"], seconds=0.2).output() is None
    assert time.monotonic() - before < 1


def test_commands_run_beside_each_other():
    before = time.monotonic()
    jobs = [Job(["sleep", "0.5"]) for _ in range(4)]
    assert [job.output() for job in jobs] == [""] * 4
    assert time.monotonic() - before < 1.5


def test_administrators_programs_are_found_without_them_in_path(monkeypatch):
    monkeypatch.setenv("PATH", "/usr/bin")
    assert Job(["ldconfig", "--version"]).output() is not None


def test_what_is_not_there(tree):
    node = tree.node()
    assert node.data("/nothing") is None
    assert node.text("/nothing") == ""
    assert node.number("/nothing") is None
    assert node.names("/nothing") == []
    assert node.link("/nothing") is None
    assert not node.exists("/nothing")


def test_numbers(tree):
    tree.file("/hex", "0x10de\n").file("/decimal", "-1\n").file("/text", "many")
    assert [tree.node().number(path) for path in ("/hex", "/decimal", "/text")] == [0x10DE, -1, None]


def test_absolute_links_stay_below_the_root(tree):
    tree.link("/a", "/b/c").link("/b/c", "../d").file("/d", "text")
    assert tree.node().resolve("/a") == "/d"


def test_links_in_a_circle_end(tree):
    tree.link("/a", "/b").link("/b", "/a")
    assert tree.node().resolve("/a") in {"/a", "/b"}

"""A container that Docker really starts: the program is run here, Docker's answers are played."""

import platform
import shutil
import subprocess

import pytest
from ansible_collections.gpulab.node.plugins.module_utils.containers import first_container
from ansible_collections.gpulab.node.plugins.module_utils.core.node import Node
from ansible_collections.gpulab.node.plugins.module_utils.facts import containers

ID = "sha256:4b1d"


class Docker:
    """Answers by command, as (status, output, errors); what is not named succeeds."""

    def __init__(self, **answers):
        """Take the answers."""
        self.answers = {"import": (0, f"{ID}\n", ""), "run": (0, first_container.SAYS, ""), **answers}
        self.asked = []

    def __call__(self, argv, _given):
        """Play one command."""
        self.asked.append(argv)
        return self.answers.get(argv[1], (0, "", ""))

    def was_asked(self, *words):
        """Return the commands that began with these words."""
        return [argv for argv in self.asked if argv[1 : 1 + len(words)] == list(words)]


@pytest.mark.skipif(platform.machine() not in ("x86_64", "aarch64"), reason="no program for this machine")
def test_the_program_runs_and_says_so(tmp_path):
    (tmp_path / "image.tar").write_bytes(first_container.image(platform.machine()))
    shutil.unpack_archive(tmp_path / "image.tar", tmp_path)
    ended = subprocess.run([tmp_path / first_container.PROGRAM], capture_output=True, text=True, check=True)
    assert ended.stdout == first_container.SAYS


def test_the_image_has_a_few_kilobytes():
    assert {len(first_container.image(machine)) for machine in ("x86_64", "aarch64")} == {10240}


def test_the_other_machines_program_has_its_instructions():
    """Checked once by a disassembler and an emulator of aarch64; this holds what they saw."""
    code = first_container.program("aarch64")[120:]
    assert code[:32].hex() == "200080d2e1000010020480d2080880d2010000d4000080d2a80b80d2010000d4"
    assert code[32:].decode() == first_container.SAYS


def test_a_container_is_started_by_its_image_and_both_go():
    docker = Docker()
    found = first_container.start("x86_64", 60, docker)
    assert found["problem"] is None
    (run,) = docker.was_asked("run")
    assert run[-1] == ID
    assert {"--rm", "--network=none", "--pull=never"} <= set(run)
    assert docker.was_asked("image", "rm") == [["docker", "image", "rm", ID]]
    for kind in ("container", "image"):
        (prune,) = docker.was_asked(kind, "prune")
        assert {"--filter=label=gpulab.proof=start", "--filter=until=15m"} <= set(prune)  # nobody else's


@pytest.mark.parametrize(
    ("answers", "problem", "removed"),
    [
        ({"import": (1, "", "write /blob: no space left on device\n")}, "docker import: write /blob: no space", 0),
        (
            {"run": (125, "", "docker: Error response: unknown runtime nvidia.\nSee 'docker run --help'.\n")},
            "docker run: docker: Error response: unknown runtime nvidia.",
            1,
        ),
        ({"run": (None, "", "")}, "docker run did not end in time", 1),
        ({"run": (0, "", "")}, "docker run: status 0 and not a word", 1),
        ({"run": (0, "something else\n", "")}, "docker run: something else", 1),
        ({"image": (1, "", "conflict: image is in use\n")}, "docker image rm: conflict", 1),
    ],
)
def test_what_goes_wrong_is_said_and_nothing_stays(answers, problem, removed):
    docker = Docker(**answers)
    assert first_container.start("x86_64", 60, docker)["problem"].startswith(problem)
    assert len(docker.was_asked("image", "rm")) == removed
    assert len(docker.was_asked("rm", "--force")) == (1 if "run" in answers else 0)


def test_a_machine_without_a_program_is_said():
    docker = Docker()
    assert "riscv64" in first_container.start("riscv64", 60, docker)["problem"]
    assert not docker.was_asked("import")


def test_a_command_that_hangs_ends_with_its_time(monkeypatch):
    monkeypatch.setattr(first_container, "LEAST_SECONDS", 0.2)
    run = first_container.within(0.1)
    assert run(["sleep", "60"], b"")[0] is None
    assert run(["cat"], b"given") == (0, "given", "")


@pytest.mark.parametrize(
    ("files", "runs"),
    [
        ({}, False),
        ({"/run/docker.pid": "7"}, False),
        ({"/run/docker.pid": "7", "/proc/7/cmdline": "/usr/bin/dockerd\0"}, True),
        ({"/run/docker.pid": "7", "/proc/7/cmdline": "vim\0dockerd\0"}, False),
        ({"/run/snap.docker/docker.pid": "7", "/proc/7/cmdline": "dockerd\0--group\0docker\0"}, True),
    ],
)
def test_a_docker_that_does_not_run_is_not_started(tmp_path, files, runs):
    for path, text in files.items():
        (tmp_path / path.lstrip("/")).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / path.lstrip("/")).write_text(text)
    assert containers.docker_runs(Node(tmp_path)) is runs

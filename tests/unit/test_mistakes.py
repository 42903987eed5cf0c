"""Mistakes that people make, through the command that they type: what it says is short, and names what helps."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest
import yaml

ROOT = Path(__file__).parents[2]
PROGRAMS = Path(sys.executable).parent
MISTAKES = yaml.safe_load(Path(__file__).with_name("mistakes.yml").read_text(encoding="utf-8"))
MOST_LINES = 8
# A node that is this machine: nothing is asked of it before the mistake is seen, and no other way leads to it.
NODE = {"ansible_connection": "local", "ansible_become": False, "ansible_python_interpreter": "/usr/bin/python3"}
FRAME = ("PLAY ", "RECAP", "  n1 ", "n1  failed", "n1  ok")  # which host and task, and how the run ended
REFUSED, AFTER_IT = "        refused", "        type"


def inventory(case, directory):
    """Write the inventory of a case."""
    variables = {**NODE, **yaml.safe_load(f"{{{case.get('variables', '')}}}")}
    hosts = yaml.safe_dump({"gpu-nodes": {"children": {"workstations": {"hosts": {"n1": variables}}}}})
    for name, text in {"hosts.yml": hosts, **case.get("files", {})}.items():
        path = directory / name
        path.parent.mkdir(parents=True, exist_ok=True)
        if text:
            path.write_text("a: 1\n" if text == "VAULT" else text, encoding="utf-8")
        if text == "VAULT":
            password = directory.parent / "right"
            password.write_text("right\n", encoding="utf-8")
            argv = [PROGRAMS / "ansible-vault", "encrypt", "--vault-password-file", password, path]
            subprocess.run(argv, check=True, capture_output=True)


def say(case, directory):
    """Make the mistake; return the exit status and the lines that were printed."""
    command = case.get("command", "playbooks/plan.yml")
    arguments = [word.replace("INVENTORY", str(directory)) for word in case.get("arguments", [])]
    if isinstance(command, list):
        argv = [sys.executable, "gpulab.py", *command[1:]]
    else:
        chosen = [] if "-i" in arguments else ["-i", str(directory)]
        argv = [
            PROGRAMS / "ansible-playbook",
            *chosen,
            command,
            *arguments,
            "-e",
            f"verify_report_directory={directory.parent}",
        ]
    environment = {**os.environ, "ANSIBLE_HOME": str(directory.parent / "home"), "COLUMNS": "100"}
    done = subprocess.run(
        argv, cwd=ROOT, env=environment, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, check=False
    )
    return done.returncode, done.stdout.splitlines()


def of_message(lines):
    """Return the lines of a message; in a preview, those of the host's refusal."""
    if any(line.startswith(REFUSED) for line in lines):
        first, end = (
            next(at for at, line in enumerate(lines) if line.startswith(start)) for start in (REFUSED, AFTER_IT)
        )
        return lines[first:end]
    return [line for line in lines if line.strip() and not line.startswith(FRAME)]


def test_there_are_many_and_each_is_another():
    assert len({case["what"] for case in MISTAKES}) == len(MISTAKES) >= 40


@pytest.mark.slow
@pytest.mark.parametrize("case", MISTAKES, ids=lambda case: case["what"])
def test_a_mistake_is_told_in_few_lines_with_what_helps(case, tmp_path):
    directory = tmp_path / "inventory"
    directory.mkdir()
    inventory(case, directory)
    status, lines = say(case, directory)
    printed = "\n".join(lines)
    assert status == case.get("rc", 2), printed
    assert [word for word in case["says"] if word not in printed] == [], printed
    assert len(of_message(lines)) <= MOST_LINES, printed
    assert "Traceback" not in printed

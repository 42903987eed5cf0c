"""The command gpulab: the lines that it prints, and what it says of a machine that cannot run them.

A stand-in for ansible-playbook says how it was called; Python and the checkout are real.
"""

import ast
import json
import shutil
import stat
import subprocess
import sys
from pathlib import Path
from types import SimpleNamespace

import pytest
import tomllib
import yaml
from ansible_collections.gpulab.node.plugins.plugin_utils.core.gpulab_version import NEEDED_CORE

import gpulab

ROOT = Path(__file__).parents[2]


@pytest.fixture
def checkout(tmp_path):
    """Return a small checkout with the command, and programs that say how they were called."""
    place = tmp_path / "checkout"
    for path in ("gpulab.py", "site.yml", "inventory/hosts.yml", "examples/here/hosts.yml"):
        (place / path).parent.mkdir(parents=True, exist_ok=True)
        shutil.copy(ROOT / path, place / path)
    (place / "collections/ansible_collections/gpulab").mkdir(parents=True)
    programs = tmp_path / "bin"
    programs.mkdir()
    (programs / "python3").symlink_to(sys.executable)  # beside it are the programs that the command takes
    for name in ("ansible-playbook", "sudo", "make"):
        (programs / name).write_text(f'#!/bin/sh\nprintf "%s\\n" "ran {name}" "$@"\nexit 3\n', encoding="utf-8")
        (programs / name).chmod(0o755)
    return place


def call(checkout, *words, code=3, within=".", **environment):
    """Run the command and return (what it printed first, the lines after it)."""
    programs = checkout.parent / "bin"
    code_of_script = f"import sys; sys.argv = {['gpulab', *words]}; import gpulab; gpulab.main()"
    settings = {"PATH": f"{programs}:/bin", "LC_ALL": "C.UTF-8", "PYTHONPATH": str(checkout), "HOME": "/"}
    argv, settings = [programs / "python3", "-c", code_of_script], {**settings, **environment}
    done = subprocess.run(argv, cwd=checkout / within, env=settings, capture_output=True, text=True, check=False)
    assert done.returncode == code, done.stderr
    first, *rest = (done.stdout or done.stderr).splitlines()
    return first, rest


@pytest.fixture
def line(monkeypatch):
    """Return a function that returns the line for words, as a user with this id."""

    def made(*words, user=1000, sudo_asks_nothing=False):
        monkeypatch.setattr(gpulab.os, "geteuid", lambda: user)
        monkeypatch.setattr(gpulab, "sudo_asks_nothing", lambda: sudo_asks_nothing)
        options, passed_on = gpulab.parser().parse_known_args(words)
        return gpulab.command_line(options, passed_on)

    return made


HERE = ["ansible-playbook", "-i", "examples/here/hosts.yml", "site.yml", "-l", "gpu-nodes"]
NO_REBOOT = ["-e", '{"reboot_policy": "never"}']


@pytest.mark.parametrize(
    ("words", "expected"),
    [
        (["plan"], ["ansible-playbook", "playbooks/plan.yml"]),
        (["apply"], ["ansible-playbook", "site.yml", "-l", "gpu-nodes"]),
        (["plan", "-i", "a", "-i", "b"], ["ansible-playbook", "-i", "a", "-i", "b", "playbooks/plan.yml"]),
        (["apply", "-l", "node1", "--check", "-K"], ["ansible-playbook", "site.yml", "-l", "node1", "--check", "-K"]),
        (["verify", "--", "-vv"], ["ansible-playbook", "playbooks/verify.yml", "-vv"]),
        (["rollout", "-e", "a=b"], ["ansible-playbook", "playbooks/rollout.yml", "-e", "a=b"]),
        (["apply", "--here"], [*HERE, "--ask-become-pass", *NO_REBOOT]),
    ],
)
def test_a_command_stands_for_a_line_of_ansible_playbook(line, words, expected):
    assert line(*words) == expected


@pytest.mark.parametrize("who", [{"user": 0}, {"sudo_asks_nothing": True}])
def test_no_password_is_asked_where_none_is_needed(line, who):
    assert line("apply", "--here", **who) == [*HERE, *NO_REBOOT]


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("cuda_state=present", "present"),
        ("cuda_default=null", None),
        ("monitoring_port=9400", 9400),
        ("version=12.10", 12.1),
        ('version="12.10"', "12.10"),
        ("jupyter=yes", True),
        ('cuda_toolkits=["13.0"]', ["13.0"]),
        ("proxy=http://a=b", "http://a=b"),
        ("empty=", ""),
    ],
)
def test_a_setting_has_the_type_that_it_looks_like(line, text, value):
    assert json.loads(line("plan", "--set", text)[-1]) == {text.partition("=")[0]: value}


@pytest.mark.parametrize("text", ["cuda_state", "cuda state=present", "=present"])
def test_what_is_no_setting_is_refused(checkout, text):
    _usage, lines = call(checkout, "plan", "--set", text, code=2)
    assert lines[-1].endswith(f"{text!r} is no setting: write --set name=value")


def test_a_password_is_not_shown_to_everybody(checkout):
    _usage, lines = call(checkout, "plan", "--set", "secure_boot_mok_password=Xy8-secret", code=2)
    assert "keep it in a vault" in lines[-1]
    assert "Xy8-secret" not in "".join(lines)


GRAPH = """@all:
  |--@ungrouped:
  |--@gpu-nodes:
  |  |--@workstations:
  |  |  |--node12
"""


@pytest.mark.parametrize(
    ("limit", "expected"),
    [
        ("node12", None),
        ("gpu-nodes:!node12,localhost", None),
        ("node*", None),
        ("node99", "did you mean -l node12?"),
        ("node12,workstation", "did you mean -l workstations?"),
        ("xyz", "there are all, ungrouped, gpu-nodes, workstations, node12"),
    ],
)
def test_nodes_that_the_inventory_does_not_have_are_named_before_the_run(checkout, limit, expected):
    inventory = checkout.parent / "bin/ansible-inventory"
    inventory.write_text(f"#!/bin/sh\ncat <<'E'\n{GRAPH}E\n", encoding="utf-8")
    inventory.chmod(0o755)
    if expected is None:
        assert call(checkout, "plan", "-l", limit)[0].startswith("$ ansible-playbook")
        return
    first, lines = call(checkout, "plan", "-l", limit, code=1)
    assert first.startswith("gpulab: the inventory has no host or group ")
    assert lines == [f"  -> {expected}"]


def test_it_prints_the_line_and_ends_as_ansible_playbook_does(checkout):
    first, lines = call(checkout, "apply", "--set", "cuda_state=a b")
    assert first == """$ ansible-playbook site.yml -l gpu-nodes -e '{"cuda_state": "a b"}'"""
    assert lines[:3] == ["ran ansible-playbook", "site.yml", "-l"]


def test_the_lab_is_the_makefiles(checkout):
    assert call(checkout, "lab") == ("$ make lab", ["ran make", "lab"])


def test_it_finds_the_checkout_from_a_directory_in_it(checkout):
    first, _lines = call(checkout, "plan", within="inventory")
    assert first == "$ ansible-playbook playbooks/plan.yml"


@pytest.mark.parametrize(
    ("found", "sudo", "taken"),
    [
        ((4710, 0o755), "", True),
        ((0, 0o755), "", True),
        ((4711, 0o755), "", False),
        ((4711, 0o755), "4711", True),
        ((0, 0o1777), "", False),  # /tmp
    ],
)
def test_a_checkout_of_another_user_around_the_directory_is_not_taken(checkout, monkeypatch, found, sudo, taken):
    monkeypatch.chdir(checkout / "inventory")
    real = Path.stat
    other = SimpleNamespace(st_uid=found[0], st_mode=stat.S_IFDIR | found[1])
    monkeypatch.setattr(Path, "stat", lambda path, **more: other if path == checkout else real(path, **more))
    monkeypatch.setattr(gpulab.os, "geteuid", lambda: 4710)
    monkeypatch.setenv("SUDO_UID", sudo)
    if taken:
        assert gpulab.checkout() == checkout
        return
    with pytest.raises(SystemExit, match="is another user's"):
        gpulab.checkout()
    monkeypatch.setattr(gpulab, "__file__", str(checkout / "gpulab.py"))  # called by its own path
    assert gpulab.checkout() == checkout


def test_without_a_checkout_it_says_so(checkout):
    (checkout / "site.yml").unlink()
    assert call(checkout, "plan", code=1)[0].startswith("gpulab: there is no checkout of gpulab here.")


def test_a_locale_that_ansible_refuses_ends_it_first(checkout):
    first, lines = call(checkout, "plan", code=1, LC_ALL="POSIX", PYTHONUTF8="0", PYTHONCOERCECLOCALE="0")
    assert "UTF-8" in first
    assert lines == ["  -> export LC_ALL=C.UTF-8"]


def test_a_checkout_that_everybody_may_write_to_ends_it_first(checkout):
    checkout.chmod(0o777)
    first, lines = call(checkout, "plan", code=1)
    assert first.endswith("so Ansible does not read its ansible.cfg")
    assert lines[0].startswith("  -> chmod o-w .")
    call(checkout, "plan", ANSIBLE_CONFIG="ansible.cfg")


def test_folders_of_another_user_end_it_first(checkout, monkeypatch):
    (checkout / "reports").mkdir()
    monkeypatch.chdir(checkout)
    monkeypatch.setattr(gpulab.os, "access", lambda *_: False)
    cause = gpulab.Problem("reports belongs to another user", "sudo chown -R $USER reports")
    assert gpulab.check_reports() == [cause]


@pytest.mark.parametrize(
    ("core", "python", "expected"),
    [
        ("2.19.14", (3, 11), []),
        ("2.21.0", (3, 13), []),
        ("2.18.3", (3, 11), ["ansible-core 2.18.3 is too old: gpulab needs 2.19 or later"]),
        ("2.16.1", (3, 11), ["ansible-core 2.16.1 is too old: gpulab needs 2.19 or later"]),
        ("", (3, 11), ["ansible-core is not installed"]),
    ],
)
def test_an_ansible_that_is_too_old_or_missing_is_named(monkeypatch, core, python, expected):
    monkeypatch.setattr(gpulab, "version_of_core", lambda: core)
    monkeypatch.setattr(gpulab.sys, "version_info", (*python, 0))
    monkeypatch.setattr(gpulab.shutil, "which", lambda _name: None)
    assert [problem.cause for problem in gpulab.check_ansible()] == expected


def test_a_python_that_is_too_old_is_named_before_ansible(monkeypatch):
    monkeypatch.setattr(gpulab, "version_of_core", str)
    monkeypatch.setattr(gpulab.sys, "version_info", (3, 9, 2))
    monkeypatch.setattr(gpulab.shutil, "which", lambda _name: None)
    assert "is too old: gpulab needs 3.11" in gpulab.check_ansible()[0].cause


def test_it_runs_far_enough_to_say_so_on_python_3_9():
    """No syntax and no import is newer."""
    ast.parse((ROOT / "gpulab.py").read_text(encoding="utf-8"), feature_version=(3, 9))


def test_a_first_inventory_is_what_ansible_reads(checkout):
    words = ["init", "--type", "training_servers", "--user", "admin", "node01", "node02.lab"]
    first, _lines = call(checkout, *words, code=0)
    assert first == "inventory/hosts.yml has node01, node02.lab as training_servers. Next: gpulab plan"
    read = yaml.safe_load((checkout / "inventory/hosts.yml").read_text(encoding="utf-8"))["gpu-nodes"]["children"]
    assert read["training_servers"] == {"hosts": {name: {"ansible_user": "admin"} for name in ("node01", "node02.lab")}}
    assert read["workstations"] is None
    again, _lines = call(checkout, "init", "node03", code=1)
    assert again == "gpulab: inventory/hosts.yml has nodes already; add others by hand"


@pytest.mark.parametrize("words", [[], ["a b"], ["--flag;rm"[2:]]])
def test_names_that_are_none_are_refused_and_nothing_is_written(checkout, words):
    before = (checkout / "inventory/hosts.yml").read_bytes()
    call(checkout, "init", *words, code=1)
    assert (checkout / "inventory/hosts.yml").read_bytes() == before


ZSH = "CURRENT=2; compdef() :; compadd() print -l $@"  # zsh itself compares with what was typed
BASH = "COMP_WORDS=(gpulab re); COMP_CWORD=1"


@pytest.mark.parametrize(
    ("shell", "state", "expected"),
    [("bash", BASH, ["reinstall", "rebuild", "remove"]), ("zsh", ZSH, [*gpulab.PLAYBOOKS, *gpulab.OTHERS])],
)
def test_a_shell_completes_commands(shell, state, expected):
    script = f"{state}\n{gpulab.completion(shell)}\n_gpulab\necho ${{COMPREPLY[@]}}"
    done = subprocess.run([shell, "-c", script], capture_output=True, text=True, check=True)
    assert done.stdout.split() == expected


def test_the_doctor_says_what_is_missing_where_there_is_no_ansible(checkout):
    (checkout.parent / "bin/ansible-playbook").unlink()
    first, lines = call(checkout, "doctor", code=1)
    assert first == "gpulab: ansible-core is not installed"
    assert lines == [f"  -> {gpulab.INSTALL}   or: uvx --from . gpulab"]


def test_what_it_knows_without_ansible_is_what_the_collection_says():
    inventory = yaml.safe_load((ROOT / "inventory/hosts.yml").read_text(encoding="utf-8"))
    assert tuple(inventory["gpu-nodes"]["children"]) == gpulab.TYPES
    assert gpulab.NEEDED_CORE == NEEDED_CORE


def test_each_playbook_is_there_and_the_version_is_that_of_the_collection():
    assert all((ROOT / playbook).is_file() for playbook, _what in gpulab.PLAYBOOKS.values())
    galaxy = yaml.safe_load((ROOT / "galaxy.yml").read_text(encoding="utf-8"))["version"]
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    assert project["version"] == galaxy.replace("-dev", ".dev0")
    needed = (ROOT / "requirements/run.in").read_text(encoding="utf-8").splitlines()
    assert project["dependencies"] == [line for line in needed if not line.startswith("#")]

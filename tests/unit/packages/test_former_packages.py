"""Packages as they were before a change: what is recorded, kept and put back. apt-get and dpkg-repack are played."""

import subprocess
from types import SimpleNamespace

import pytest
from ansible_collections.gpulab.node.plugins.action import former_packages as action
from ansible_collections.gpulab.node.plugins.module_utils.apt import Package
from ansible_collections.gpulab.node.plugins.module_utils.former_packages import Former, FormerPackages, merge
from ansible_collections.gpulab.node.plugins.module_utils.package_plan import Plan
from ansible_collections.gpulab.node.plugins.module_utils.refusal import Refusal
from ansible_collections.gpulab.node.plugins.modules import former_packages as module

PROGRAMS = {
    "apt-get": '#!/bin/sh\ncase "$*" in *download*{gone}*) exit 100;; *download*) touch "x.deb";; esac\n',
    "dpkg-repack": '#!/bin/sh\n[ "$1" != lost ] && touch repacked.deb\n',
}


def installed(**versions):
    return {name: Package(version, "installed", held=False) for name, version in versions.items()}


@pytest.fixture
def kept(tmp_path):
    """Return the former packages of a driver that went from 1 to 2 and brought lib."""
    kept = FormerPackages("driver", tmp_path)
    kept.add(
        Plan(install={"lib": "2"}, change={"driver": ("1", "2")}, remove={"old": "1"}), installed(driver="1", old="1")
    )
    return kept


@pytest.fixture
def shell(tmp_path, monkeypatch):
    """Return a function that runs a script with an apt-get that has every package but gone and lost."""
    for name, text in PROGRAMS.items():
        (tmp_path / name).write_text(text.replace("{gone}", "gone") if name == "apt-get" else text)
        (tmp_path / name).chmod(0o755)
    monkeypatch.setenv("PATH", str(tmp_path), prepend=":")
    return lambda script: subprocess.run(["sh", "-c", script], check=False, capture_output=True, text=True)


def test_what_changed_went_and_came_is_recorded(kept):
    assert kept.read() == Former({"driver": "1", "old": "1"}, (), ("lib",))


def test_a_second_transaction_adds_to_the_first():
    first = Former({"driver": "1"}, (), ("lib",))
    plan = Plan(install={"tool": "3"}, change={"driver": ("2", "3"), "lib": ("2", "3"), "cuda": ("8", "9")})
    packages = {**installed(driver="2", lib="2"), "cuda": Package("8", "installed", held=True)}
    assert merge(first, plan, packages) == Former({"driver": "1", "cuda": "8"}, ("cuda",), ("lib", "tool"))


def test_a_former_package_that_comes_back_is_not_new():
    assert merge(Former({"old": "1"}), Plan(install={"old": "2"}), {}) == Former({"old": "1"})


def test_each_package_is_kept_in_its_own_directory(kept, shell):
    assert shell(kept.keep_script()).returncode == 0
    assert sorted(path.parent.name for path in kept.directory.glob("*/*.deb")) == ["driver", "old"]
    assert kept.keep_script() == ""


def test_what_no_source_has_is_packed_again(tmp_path, shell):
    kept = FormerPackages("gone", tmp_path)
    kept.add(Plan(remove={"gone": "1"}), installed(gone="1"))
    assert shell(kept.keep_script()).returncode == 0
    assert (kept.directory / "gone/repacked.deb").exists()


def test_what_can_be_had_nowhere_fails_and_is_tried_again(tmp_path, shell):
    kept = FormerPackages("lost", tmp_path)
    kept.add(Plan(remove={"gone-lost": "1"}), installed(lost="1"))
    script = kept.keep_script().replace("dpkg-repack gone-lost", "dpkg-repack lost")
    assert shell(script).returncode != 0
    assert kept.keep_script()


def test_putting_back_names_every_file_and_takes_off_what_came(kept):
    packages = installed(driver="2", lib="2")
    script = kept.restore_script(packages)
    assert f"--install {kept.directory}/driver/*.deb {kept.directory}/old/*.deb\n" in script
    assert "--remove lib\n" in script
    assert "--remove" not in kept.restore_script(installed(driver="2"))


def test_what_was_on_hold_is_again(tmp_path):
    kept = FormerPackages("driver", tmp_path)
    kept.add(Plan(change={"driver": ("1", "2")}), {"driver": Package("1", "installed", held=True)})
    assert kept.restore_script({}).endswith("apt-mark hold driver\n")


@pytest.mark.parametrize(
    ("packages", "restored"),
    [
        (installed(driver="1", old="1"), True),
        (installed(driver="2", old="1"), False),
        (installed(driver="1"), False),
        (installed(driver="1", old="1", lib="2"), False),
    ],
)
def test_all_or_nothing_is_as_it_was(kept, packages, restored):
    assert kept.restored(packages) is restored


def test_what_is_forgotten_is_gone(kept):
    kept.forget()
    assert kept.read() == Former()
    assert kept.restore_script({}) == ""


def test_what_is_not_back_is_refused_and_stays_kept(kept):
    with pytest.raises(Refusal) as refused:
        module.judge(kept, installed(driver="2", old="1", lib="2"), SimpleNamespace(log="/log"))
    assert refused.value.code == "D023"
    assert "driver, lib" in refused.value.cause
    assert kept.read() != Former()


def test_what_is_put_back_is_shown(kept):
    shown = module.diff(kept.read(), installed(driver="2", lib="2"), "restored")
    assert (shown["before"], shown["after"]) == ("driver 2\nlib 2\n", "driver 1\nold 1\n")


class Played(action.ActionModule):
    """The action with a node that answers from a table."""

    def __init__(self, seen, *, check_mode=False):
        """seen: what the look answers."""
        self.seen, self.calls = seen, []
        self._task = SimpleNamespace(check_mode=check_mode)

    def call_module(self, _name, args):
        """Note the operation."""
        self.calls.append(args.get("operation", "look"))
        return self.seen

    def run_step(self, step):
        """Note the step."""
        self.calls.append(step.name)


SEEN = {"changed": True, "versions": {"driver": "1"}, "new": [], "diff": {}, "script": "apt-get install driver.deb"}


def test_putting_back_is_a_long_step_that_is_judged():
    played = Played(SEEN)
    assert played.carry_out({"name": "driver", "state": "restored"})["changed"]
    assert played.calls == ["look", "driver-restore", "judge"]


def test_check_mode_puts_nothing_back():
    played = Played(SEEN, check_mode=True)
    assert played.carry_out({"name": "driver", "state": "restored"})["changed"]
    assert played.calls == ["look"]

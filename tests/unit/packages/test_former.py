"""Packages as they were before a change: what is recorded, kept and put back. The package managers are played."""

import subprocess
from types import SimpleNamespace

import pytest
from ansible_collections.gpulab.node.plugins.action import former_packages as action
from ansible_collections.gpulab.node.plugins.module_utils.core.installed_packages import Deb, Rpm
from ansible_collections.gpulab.node.plugins.module_utils.core.refusal import Refusal
from ansible_collections.gpulab.node.plugins.module_utils.packages import dnf_host
from ansible_collections.gpulab.node.plugins.module_utils.packages.former import (
    Change,
    Former,
    FormerDebs,
    FormerRpms,
    merge,
)
from ansible_collections.gpulab.node.plugins.modules import former_packages as module

# They have every package but gone and lost, of which dpkg-repack packs the first one again.
PROGRAMS = {
    "apt-get": '#!/bin/sh\ncase "$*" in *download*gone*|*download*lost*) exit 100;; *download*) touch "x.deb";; esac\n',
    "dpkg-repack": '#!/bin/sh\n[ "$1" != lost ] && touch repacked.deb\n',
    "dnf": """#!/bin/sh
echo "$*" >> "$(dirname "$0")/dnf.log"
mkdir -p new
for word; do
    case $word in
    lost-*) exit 1;;
    -*|download) ;;
    *) touch "new/$(echo "$word" | sed 's/-[0-9]*:/-/').rpm";;
    esac
done
""",
    "rpm": "#!/bin/sh\nfor word; do case $word in *altered*) exit 1;; esac; done\n",
}
CHANGE = Change(going={"driver": "1", "old": "1"}, new=["lib"])
RPMS = Change({"driver.x86_64": "3:1-1", "old.noarch": "1-2"}, {"driver.x86_64": "driver-3:1-1.*"}, ["lib.x86_64"])


@pytest.fixture
def kept(tmp_path):
    """Return the former packages of a driver that went from 1 to 2 and brought lib."""
    kept = FormerDebs("driver", tmp_path)
    kept.add(CHANGE)
    return kept


@pytest.fixture
def rpms(tmp_path):
    """Return the same with rpm; the driver was locked."""
    kept = FormerRpms("driver", tmp_path)
    kept.add(RPMS)
    return kept


@pytest.fixture
def shell(tmp_path, monkeypatch):
    """Return a function that runs a script with the played programs."""
    for name, text in PROGRAMS.items():
        (tmp_path / name).write_text(text)
        (tmp_path / name).chmod(0o755)
    monkeypatch.setenv("PATH", str(tmp_path), prepend=":")
    return lambda script: subprocess.run(["sh", "-c", script], check=False, capture_output=True, text=True)


def test_what_changed_went_and_came_is_recorded(kept):
    assert kept.read() == Former({"driver": "1", "old": "1"}, (), ("lib",))


def test_a_second_transaction_adds_to_the_first():
    first = Former({"driver": "1"}, (), ("lib",))
    change = Change({"driver": "2", "lib": "2", "cuda": "8"}, {"cuda": "cuda", "other": "other"}, ["tool"])
    assert merge(first, change) == Former({"driver": "1", "cuda": "8"}, ("cuda",), ("lib", "tool"))


def test_the_lock_of_the_new_version_is_not_the_former_one():
    first = Former({"driver": "1"}, ("driver-0:1.*",))
    assert merge(first, Change({"driver": "2"}, {"driver": "driver-0:2.*"})) == first


def test_a_former_package_that_comes_back_is_not_new():
    assert merge(Former({"old": "1"}), Change(new=["old"])) == Former({"old": "1"})


def test_each_package_is_kept_in_its_own_directory(kept, shell):
    assert shell(kept.keep_script()).returncode == 0
    assert sorted(path.parent.name for path in kept.directory.glob("*/*.deb")) == ["driver", "old"]
    assert kept.keep_script() == ""


def test_what_no_source_has_is_packed_again(tmp_path, shell):
    kept = FormerDebs("driver", tmp_path)
    kept.add(Change({"gone": "1"}))
    assert shell(kept.keep_script()).returncode == 0
    assert (kept.directory / "gone/repacked.deb").exists()


def test_what_can_be_had_nowhere_fails_and_is_tried_again(tmp_path, shell):
    kept = FormerDebs("driver", tmp_path)
    kept.add(Change({"lost": "1"}))
    assert shell(kept.keep_script()).returncode != 0
    assert kept.keep_script()


def test_a_script_that_runs_again_keeps_what_it_has(kept, shell):
    """By then the changed package may be installed, and be what is packed again."""
    script = kept.keep_script()
    assert shell(script).returncode == 0
    files = sorted(kept.directory.glob("*/*"))
    assert shell(script.replace("driver=1", "gone=1")).returncode == 0
    assert sorted(kept.directory.glob("*/*")) == files


def test_putting_back_names_every_file_and_takes_off_what_came(kept):
    script = kept.restore_script({"driver": {"2"}, "lib": {"2"}})
    assert f"--install {kept.directory}/driver/*.deb {kept.directory}/old/*.deb\n" in script
    assert "--remove lib\n" in script
    assert "--remove" not in kept.restore_script({"driver": {"2"}})


def test_what_was_on_hold_is_again(tmp_path):
    kept = FormerDebs("driver", tmp_path)
    kept.add(Change({"driver": "1"}, {"driver": "driver"}))
    assert kept.restore_script({}).endswith("apt-mark hold driver\n")


def test_a_package_is_there_in_its_version_only_when_it_is_configured():
    states = {"done": "installed", "broken": "half-configured", "purged": "config-files"}
    packages = {name: Deb("1", status, held=False) for name, status in states.items()}
    assert FormerDebs.installed(packages) == {"done": {"1"}, "broken": set()}


@pytest.mark.parametrize(
    ("installed", "restored"),
    [
        ({"driver": {"1"}, "old": {"1"}}, True),
        ({"driver": {"2"}, "old": {"1"}}, False),
        ({"driver": set(), "old": {"1"}}, False),
        ({"driver": {"1", "2"}, "old": {"1"}}, False),  # rpm was cut off
        ({"driver": {"1"}}, False),
        ({"driver": {"1"}, "old": {"1"}, "lib": {"2"}}, False),
    ],
)
def test_all_or_nothing_is_as_it_was(kept, installed, restored):
    assert kept.restored(installed) is restored


def test_what_is_forgotten_is_gone(kept):
    kept.forget()
    assert kept.read() == Former()
    assert kept.restore_script({}) == ""


def test_rpms_are_kept_once_by_the_names_that_dnf_gives_them(rpms, shell, tmp_path):
    script = rpms.keep_script()
    assert shell(script).returncode == 0
    files = ["driver-1-1.x86_64.rpm", "old-1-2.noarch.rpm"]
    assert sorted(path.name for path in rpms.directory.glob("*.rpm")) == files
    assert rpms.keep_script() == ""
    assert shell(script).returncode == 0
    (asked,) = (tmp_path / "dnf.log").read_text().splitlines()
    assert asked.endswith("driver-3:1-1.x86_64 old-1-2.noarch")
    assert "--setopt=*.module_hotfixes=1" in asked  # the former stream is not enabled any more


@pytest.mark.parametrize("name", ["lost", "altered"])
def test_an_rpm_that_cannot_be_had_or_trusted_is_not_kept(tmp_path, shell, name):
    kept = FormerRpms("driver", tmp_path)
    kept.add(Change({f"{name}.x86_64": "1-1"}))
    assert shell(kept.keep_script()).returncode != 0
    assert kept.keep_script()


def test_rpms_that_are_not_back_are_put_back_and_what_came_goes(rpms):
    script = rpms.restore_script({"driver.x86_64": {"3:2-1"}, "old.noarch": {"1-2"}, "lib.x86_64": {"2-1"}})
    assert script == (
        f"set -e\nrpm --erase --nodeps lib.x86_64\nrpm --upgrade --oldpackage {rpms.directory}/driver-1-1.x86_64.rpm\n"
    )


def test_rpms_are_there_in_each_of_their_versions():
    packages = [Rpm("kernel", epoch, version, "x86_64") for epoch, version in (("0", "1-1"), ("3", "2-1"))]
    assert FormerRpms.installed(packages) == {"kernel.x86_64": {"1-1", "3:2-1"}}


def test_settings_are_kept_as_they_were_before_the_first_transaction(rpms):
    rpms.add_files({"/stream": "595"})
    rpms.add_files({"/stream": "615"})
    assert rpms.read() == Former(RPMS.going, ("driver-3:1-1.*",), ("lib.x86_64",), {"/stream": "595"})


def test_settings_that_no_transaction_followed_are_kept_again(tmp_path):
    kept = FormerRpms("driver", tmp_path)
    kept.add_files({"/stream": "595"})
    kept.add_files({"/stream": "615"})
    kept.add(RPMS)
    assert kept.read().files == {"/stream": "615"}


def test_locks_and_settings_come_back_with_the_packages(rpms, tmp_path, monkeypatch):
    locks, stream, new = tmp_path / "locks", tmp_path / "stream", tmp_path / "new"
    monkeypatch.setattr(dnf_host, "LOCK_LIST", locks)
    for file, text in (
        (locks, "other-0:1-1.*\ndriver-3:2-1.*\nlib-0:2-1.*\n"),
        (stream, "615"),
        (new, "of the change"),
    ):
        file.write_text(text)
    rpms.add_files({str(stream): "595", str(new): ""})
    module.judge(rpms, {"driver.x86_64": {"3:1-1"}, "old.noarch": {"1-2"}}, SimpleNamespace(log="/log"))
    assert locks.read_text() == "other-0:1-1.*\ndriver-3:1-1.*\n"
    assert (stream.read_text(), new.exists()) == ("595", False)
    assert rpms.read() == Former()


def test_what_is_not_back_is_refused_and_stays_kept(kept):
    with pytest.raises(Refusal) as refused:
        module.judge(kept, {"driver": {"2"}, "old": {"1"}, "lib": {"2"}}, SimpleNamespace(log="/log"))
    assert refused.value.code == "D023"
    assert "driver, lib" in refused.value.cause
    assert kept.read() != Former()


def test_what_is_put_back_is_shown(kept):
    shown = module.diff(kept.read(), {"driver": {"2"}, "lib": {"2"}, "other": {"1"}}, "restored")
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

"""A run that is killed at any point of a package transaction: the next one takes away what it brought, and no more.

apt-get and dpkg are real, and work below a directory; a step is a child process. What kills strikes before a command of
the node or before a record is written, at each in turn.
"""

import hashlib
import os
import shutil
import subprocess

import pytest
from ansible_collections.gpulab.node.plugins.module_utils.core import records
from ansible_collections.gpulab.node.plugins.module_utils.core.refusal import Refusal
from ansible_collections.gpulab.node.plugins.module_utils.core.steps import Command, Step
from ansible_collections.gpulab.node.plugins.module_utils.packages import apt_host
from ansible_collections.gpulab.node.plugins.module_utils.packages import host as package_host
from ansible_collections.gpulab.node.plugins.module_utils.packages.apt_host import Apt
from ansible_collections.gpulab.node.plugins.module_utils.packages.plan import Wishes
from ansible_collections.gpulab.node.plugins.modules import packages

pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(not (shutil.which("apt-get") and os.geteuid() == 0), reason="needs apt-get, and root"),
]
CONTROL = "Package: {}\nVersion: 1\nArchitecture: amd64\nMaintainer: A <a@example.org>\nDescription: a stub\n{}"
STUBS = {"dpkg": "", "older": "", "lib": "", "x": "Depends: lib\n", "y": ""}
THERE = {"dpkg", "older"}  # before gpulab
PARAMS = {"predict": False, "update_cache": False, "cache_valid_time": 0}
CONFIGURATION = """
Dir "{root}"; Dir::State::status "{root}/var/lib/dpkg/status"; APT::Architecture "amd64"; APT::Sandbox::User "root";
Dir::Bin::dpkg "/usr/bin/dpkg"; Dir::Bin::methods "/usr/lib/apt/methods"; Dir::Etc::parts "/nowhere";
DPkg::Options {{ "--force-not-root"; "--force-bad-path"; "--root={root}"; "--log=/dev/null"; }};
"""


class KilledError(BaseException):
    """The run ends here; nothing of it cleans up."""


class Machine:
    """A node below a directory."""

    def __init__(self, root):
        """Make it, with a package source and what is there before gpulab."""
        self.root, self.left = root, None
        for path in (
            "var/lib/dpkg/info",
            "var/lib/dpkg/updates",
            "var/lib/apt/lists/partial",
            "var/log/apt",
            "repository",
        ):
            (root / path).mkdir(parents=True)
        for path in ("etc/apt/apt.conf.d", "etc/apt/preferences.d", "var/cache/apt/archives/partial", "steps"):
            (root / path).mkdir(parents=True)
        (root / "var/lib/dpkg/status").touch()
        (root / "apt.conf").write_text(CONFIGURATION.format(root=root))
        self._environment = {**os.environ, "APT_CONFIG": str(root / "apt.conf"), "DPKG_ROOT": str(root), "LC_ALL": "C"}
        index = [self._make(name, more) for name, more in STUBS.items()]
        (root / "repository/Packages").write_text("\n".join(index))
        (root / "etc/apt/sources.list").write_text(f"deb [trusted=yes] file:{root}/repository ./\n")
        self.do(["apt-get", "--quiet", "update"])
        self.do(["apt-get", "--yes", "--quiet", "install", *sorted(THERE)])

    def _make(self, name, more):
        """Make a package; return its entry in the index."""
        tree, file = self.root / "build" / name, self.root / "repository" / f"{name}.deb"
        (tree / "DEBIAN").mkdir(parents=True)
        control = CONTROL.format(name, more)
        (tree / "DEBIAN/control").write_text(control)
        subprocess.run(["dpkg-deb", "--build", "-Znone", tree, file], check=True, capture_output=True)
        data = file.read_bytes()
        return f"{control}Filename: ./{file.name}\nSize: {len(data)}\nSHA256: {hashlib.sha256(data).hexdigest()}\n"

    def do(self, argv):
        """Run a command to its end; it has to succeed."""
        done = subprocess.run(argv, env=self._environment, capture_output=True, text=True, check=False)
        assert done.returncode == 0, f"{argv}\n{done.stdout}{done.stderr}"

    def strike(self):
        """Kill the run where its time has come."""
        if self.left is not None:
            if not self.left:
                raise KilledError
            self.left -= 1

    def call(self, argv):
        """Run a command of a module; systemd is played: a step runs to its end, whoever is killed meanwhile."""
        if argv[0] == "systemctl":
            return 0, "inactive\n", ""
        self.strike()
        if argv[0] == "systemd-run":
            subprocess.run(argv[-2:], env=self._environment, check=False)
            self.strike()
            return 0, "", ""
        done = subprocess.run(argv, env=self._environment, capture_output=True, text=True, check=False)
        return done.returncode, done.stdout, done.stderr

    def packages(self):
        """Return what is installed."""
        argv = ["dpkg-query", "--show", "--showformat=${Package} ${db:Status-Status}\\n"]
        rows = subprocess.run(argv, env=self._environment, capture_output=True, text=True, check=True).stdout.split(
            "\n"
        )
        return {row.split()[0] for row in rows if row.endswith(" installed")}

    def play(self, name, **wishes):
        """Do what the action packages does, without a wait."""
        step = Step(name, self.call, "boot", self.root / "steps")
        host = Apt(self.call, step, Wishes(**wishes), recommends=False, lock_timeout=1)
        seen = packages.look(host, PARAMS, check_mode=False)
        if "transaction" in seen:
            step.start(Command(tuple(seen["transaction"]["argv"])), 60)
            packages.finish(host, step)


@pytest.fixture
def machine(tmp_path, monkeypatch):
    """Return a node whose records are struck, too."""
    made = Machine(tmp_path)
    monkeypatch.setattr(package_host, "BROUGHT", tmp_path / "gpulab/packages.json")
    monkeypatch.setattr(package_host, "SYSTEM", tmp_path)
    monkeypatch.setattr(apt_host, "ARCHIVES", tmp_path)
    monkeypatch.setattr(apt_host, "STATES", tmp_path / "var/lib/apt/extended_states")
    monkeypatch.setattr(apt_host, "PREFERENCES", tmp_path / "etc/apt/preferences")
    monkeypatch.setattr(apt_host, "JOURNAL", tmp_path / "var/lib/dpkg/updates")
    monkeypatch.setattr(apt_host, "find_holder", lambda: None)
    write, remove = records.write, records.remove

    def struck(function):
        def act(*arguments, **options):
            made.strike()
            return function(*arguments, **options)

        return act

    monkeypatch.setattr(records, "write", struck(write))
    monkeypatch.setattr(records, "remove", struck(remove))
    return made


def killed(machine, strikes, **wishes):
    """Play a transaction that is killed after so many strikes; tell whether it was."""
    machine.left = strikes
    try:
        machine.play("driver", **wishes)
    except KilledError:
        return True
    finally:
        machine.left = None
    return False


@pytest.mark.parametrize("between", [None, "another wish"])
def test_what_a_run_brought_that_was_killed_anywhere_is_taken_away_again(machine, between):
    strikes = installed = 0
    while killed(machine, strikes, present=("x",)):
        installed += "x" in machine.packages()
        if between:
            machine.play("driver", present=("y",))
        machine.play("driver", retire=("x", "y"))
        assert machine.packages() == THERE, strikes
        assert not package_host.BROUGHT.exists(), strikes
        strikes += 1
    assert installed >= 3  # it was killed after the packages were there, too
    assert strikes > installed


def test_a_removal_that_is_killed_anywhere_is_finished_by_the_next(machine):
    strikes = 0
    while True:
        machine.play("driver", present=("x",))
        if not killed(machine, strikes, retire=("x",)):
            break
        machine.play("driver", retire=("x",))
        assert machine.packages() == THERE, strikes
        assert not package_host.BROUGHT.exists(), strikes
        strikes += 1
    assert strikes > 3


@pytest.mark.parametrize("damage", ["", "[", '{"x": 1}'])
def test_after_its_records_are_damaged_too_apts_own_log_brings_the_way_back(machine, monkeypatch, damage):
    monkeypatch.setattr(apt_host, "HISTORY", machine.root / "var/log/apt/history.log")
    machine.play("driver", present=("x",))
    package_host.BROUGHT.write_text(damage)
    machine.play("driver", retire=("x",))
    assert machine.packages() == THERE


def test_a_full_disk_at_the_end_forgets_nothing(machine, monkeypatch):
    with monkeypatch.context() as disk:

        def full(_descriptor):
            raise OSError(28, "No space left on device")

        write = records.write

        def late(path, *rest):
            if path == package_host.BROUGHT:
                disk.setattr(os, "fsync", full)
            write(path, *rest)

        disk.setattr(records, "write", late)
        with pytest.raises(Refusal) as refused:
            machine.play("driver", present=("x",))
        assert refused.value.code == "H221"
    machine.play("driver", retire=("x",))
    assert machine.packages() == THERE

"""Transactions on a node whose dpkg and apt-get are played: they print what a table says."""

import gzip
import json
import os
import subprocess
from pathlib import Path
from types import SimpleNamespace

import pytest
from ansible_collections.gpulab.node.plugins.module_utils.core import records
from ansible_collections.gpulab.node.plugins.module_utils.core.refusal import Refusal
from ansible_collections.gpulab.node.plugins.module_utils.core.steps import Command, Step
from ansible_collections.gpulab.node.plugins.module_utils.packages import apt, apt_host
from ansible_collections.gpulab.node.plugins.module_utils.packages import former as former_packages
from ansible_collections.gpulab.node.plugins.module_utils.packages import host as package_host
from ansible_collections.gpulab.node.plugins.module_utils.packages.apt import Wishes
from ansible_collections.gpulab.node.plugins.module_utils.packages.apt_host import Apt
from ansible_collections.gpulab.node.plugins.module_utils.packages.former import FormerDebs
from ansible_collections.gpulab.node.plugins.modules import packages
from ansible_collections.gpulab.node.plugins.plugin_utils.refusals import refuse

ROW = "{}\tamd64\t1\t{}\t{}\t\n"
URIS = "After this operation, {} of additional disk space will be used.\n'http://m/x' x.deb {} SHA256:aa\n"


def listing(simulation):
    """Return what apt-get lists before it asks, of the packages that come and change in a simulation."""
    plan = apt.parse_plan(simulation)
    sections = {
        "NEW packages will be installed": [f"   {name} ({version})\n" for name, version in plan.install.items()],
        "packages will be upgraded": [f"   {name} ({old} => {new})\n" for name, (old, new) in plan.change.items()],
    }
    return "".join(f"The following {title}:\n{''.join(lines)}" for title, lines in sections.items() if lines)


class Node:
    """Answers dpkg and apt-get; keeps what was called."""

    def __init__(self):
        """Have only dpkg, and room for everything."""
        self.packages, self.holds = {"dpkg": "installed"}, set()
        self.simulation = "Inst x (1 D [all])\nInst lib (1 D [all])\n"
        self.simulation_rc, self.errors = 0, ""
        self.uris = URIS.format("1 kB", 1000)
        self.no_act_rc = 0
        self.needless, self.let_go, self.needs = set(), {}, {}
        self.unit = "active"
        self.called = []

    def __call__(self, argv):
        """Run a command."""
        self.called.append(argv)
        if argv[0] == "dpkg-query":
            wanted = {name: "hold" if name in self.holds else "install" for name in self.packages}
            return 0, "".join(ROW.format(name, wanted[name], status) for name, status in self.packages.items()), ""
        if "--simulate" in argv:
            played = self.simulation_rc, self.simulation, self.errors
            return self.autoremove(argv) if "--auto-remove" in argv else played
        answers = {
            "--print-uris": (0, listing(self.simulation) + self.uris, ""),
            "madison": (0, f"{argv[-1]} | 2.5-1+a | m\n{argv[-1]} | 2.4-1+b | m\n", ""),
            "--no-act": (self.no_act_rc, "", ""),
            "--property=ActiveState": (0, self.unit, ""),
        }
        return next((answer for word, answer in answers.items() if word in argv), (0, "", ""))

    def autoremove(self, argv):
        """Name what is needless, and what each package that is nobody's wish any more would let go with it.

        A package that is somebody's wish keeps what it needs.
        """
        (states,) = [word.partition("states=")[2] for word in argv if "extended_states" in word]
        unwanted = [line.split()[1] for line in Path(states).read_text().splitlines() if line.startswith("Package")]
        names = self.needless.union(*(self.let_go.get(name, set()) for name in unwanted))
        names = names.difference(*({name, *needs} for name, needs in self.needs.items() if name not in unwanted))
        return 0, "".join(f"Remv {name} [1]\n" for name in names), ""


@pytest.fixture
def node():
    return Node()


@pytest.fixture
def step(node, tmp_path):
    return Step("driver", node, "boot", tmp_path)


@pytest.fixture(autouse=True)
def journal(tmp_path, monkeypatch):
    """Have a journal of dpkg that is not this machine's."""
    monkeypatch.setattr(apt_host, "JOURNAL", tmp_path / "updates")
    return tmp_path / "updates"


@pytest.fixture
def make(node, step, tmp_path, monkeypatch):
    """Return a function from wishes to the node's apt."""
    monkeypatch.setattr(package_host, "SYSTEM", tmp_path)
    monkeypatch.setattr(apt_host, "ARCHIVES", tmp_path)
    monkeypatch.setattr(package_host, "BROUGHT", tmp_path / "packages.json")
    monkeypatch.setattr(package_host, "HELD", tmp_path / "holds.json")
    monkeypatch.setattr(apt_host, "STATES", tmp_path / "extended_states")

    def make(*present, former=None, upgrade=False, build_later="", **others):
        wishes = Wishes(present, **others)
        given = {"former": former, "upgrade": upgrade, "build_later": build_later}
        return Apt(node, step, wishes, recommends=False, lock_timeout=1, **given)

    return make


@pytest.fixture
def host(make):
    return make("x")


def test_a_transaction_is_recorded_with_what_it_brings(host, node, step):
    node.packages["lib"] = "config-files"
    transaction = host.prepare()
    assert transaction["argv"][-2:] == ["install", "x"]
    assert (transaction["new"], transaction["residual"]) == (["lib", "x"], ["lib"])
    assert json.loads((step.directory / "transaction.json").read_text()) == transaction


def test_only_the_transaction_itself_finds_what_leaves_a_build_out_and_only_until_it_ends(make, node, step):
    host = make("x", build_later="nvidia-current")
    program, option, *_rest = host.prepare()["argv"]
    stand_in = step.directory / "programs" / "dkms"
    assert (program, option) == ("apt-get", f"--option=DPkg::Path={stand_in.parent}:/usr/sbin:/usr/bin:/sbin:/bin")
    assert os.access(stand_in, os.X_OK)
    assert not any(option in call for call in node.called)
    node.packages["x"] = "installed"
    host.finish()
    assert not stand_in.exists()


def test_a_failed_transaction_leaves_no_program_behind_either(make, step):
    host = make("x", build_later="nvidia-current")
    host.prepare()
    host.audit()
    assert not (step.directory / "programs").exists()


@pytest.mark.parametrize(
    ("modules", "arguments", "runs"),
    [
        ([], "add -m nvidia-current -v 535", True),
        (["nvidia-current"], "build -m nvidia-current -v 535 -k 6.1", False),
        (["nvidia-current"], "build -m nvidia-current-open -v 535 -k 6.1", True),
        (["nvidia-current"], "remove -m nvidia-current -v 535 --all", True),
        (["nvidia-current"], "status -m nvidia-current -v 535 -k 6.1", True),
        (["nvidia-current"], "install -m nvidia-current -v 535 -k 6.1", True),
        ([], "autoinstall --kernelver 6.1", True),
        (["nvidia-current"], "autoinstall --kernelver 6.1", False),
        (["nvidia-current", "zfs"], "autoinstall --kernelver 6.1", True),
        (["zfs"], "autoinstall --kernelver 6.1", True),
    ],
)
def test_in_place_of_dkms_only_the_builds_of_one_module_are_left_out(tmp_path, modules, arguments, runs):
    for module in modules:
        (tmp_path / module / "1" / "source").mkdir(parents=True)
    real, stand_in, ran = tmp_path / "real", tmp_path / "stand-in", tmp_path / "ran"
    real.write_text(f'#!/bin/sh\necho "$@" > {ran}\n')
    text = apt.builds_later("nvidia-current").replace("/usr/sbin/dkms", str(real))
    stand_in.write_text(text.replace("/var/lib/dkms", str(tmp_path)))
    for program in (real, stand_in):
        program.chmod(0o755)
    subprocess.run([str(stand_in), *arguments.split()], check=True)
    assert (ran.read_text() if ran.exists() else "") == (f"{arguments}\n" if runs else "")


def test_a_version_is_named_as_apt_get_reads_it(make):
    assert make("x=2.*+b", "y=2.*").prepare()["argv"][-2:] == ["x=2.4-1+b", "y=2.*"]


@pytest.fixture
def driver(node, step, tmp_path, monkeypatch):
    monkeypatch.setattr(apt_host, "PREFERENCES", tmp_path / "preferences")
    monkeypatch.setattr(apt_host, "LISTS", tmp_path)
    (tmp_path / "debian_InRelease").write_text("Hash: SHA512\n\nOrigin: Debian\nLabel: Debian\n")
    wishes = Wishes(("nvidia-driver",), hold=("nvidia-*", "libcuda1"))
    return Apt(node, step, wishes, recommends=False, lock_timeout=1, last_origin="NVIDIA")


def test_what_is_to_come_last_does_so_until_the_transaction_has_run(driver, node, tmp_path):
    (tmp_path / "preferences").write_text("Package: sl\nPin: version 1\nPin-Priority: 900\n")
    (tmp_path / "nvidia_Release").write_text("Origin: NVIDIA\nLabel: NVIDIA CUDA\n")
    argv = driver.prepare()["argv"]
    (file,) = (word.rpartition("=")[2] for word in argv if "Dir::Etc::preferences=" in word)
    assert Path(file).read_text() == (
        "Package: sl\nPin: version 1\nPin-Priority: 900\n\n"
        "Package: nvidia-* libcuda1\nPin: release o=NVIDIA\nPin-Priority: 100\n"
    )
    simulated = [call for call in node.called if "--simulate" in call or "--print-uris" in call]
    assert simulated
    assert all(f"--option=Dir::Etc::preferences={file}" in call for call in simulated)


def test_only_what_comes_right_before_a_transaction_writes_caches(driver, node):
    def writes():
        calls = [call for call in node.called if {"--simulate", "--print-uris"}.intersection(call)]
        node.called.clear()
        return ["--option=Dir::Cache::pkgcache=" not in call for call in calls]

    driver.prepare()
    assert writes() == [True, True]
    driver.predict(driver.todo())
    assert writes() == [False]  # and it is one call


def test_where_only_holds_change_nothing_is_simulated(driver, node):
    node.called.clear()
    assert driver.predict(Wishes(hold=("x",))) == (apt.Plan(), {}, "")
    assert node.called == []


def test_preferences_are_the_nodes_where_nobody_has_what_comes_last(driver, host):
    for one in (driver, host):
        assert not any("preferences" in word for word in one.prepare()["argv"])


@pytest.fixture
def display(node, step, tmp_path, monkeypatch):
    """Return a transaction for a part of a driver whose other parts stay."""
    monkeypatch.setattr(apt_host, "PREFERENCES", tmp_path / "preferences")
    monkeypatch.setattr(apt_host, "LISTS", tmp_path)
    node.packages.update({"libcuda1": "installed", "nvidia-smi": "installed", "nvidia-old": "config-files"})
    wishes = Wishes(("nvidia-driver",), hold=("nvidia-*", "libcuda1"))
    return Apt(node, step, wishes, recommends=False, lock_timeout=1, stays=True)


def test_what_comes_beside_packages_that_stay_has_their_version(display):
    argv = display.prepare()["argv"]
    (file,) = (word.rpartition("=")[2] for word in argv if "Dir::Etc::preferences=" in word)
    told = "Package: nvidia-* libcuda1\nPin: version 1\nPin-Priority: 1001\n"
    assert told in Path(file).read_text()


@pytest.mark.parametrize("ask", ["prepare", "predict"])
def test_packages_that_stay_are_not_changed_for_one_that_comes(display, node, ask):
    node.simulation = "Inst libc6 [1] (2 D [all])\nInst nvidia-driver (2 D [all])\n"
    getattr(display, ask)(*([] if ask == "prepare" else [display.todo()]))
    node.simulation += "Inst libcuda1 [1] (2 D [all])\n"
    with pytest.raises(Refusal, match=r"GPULAB-H058 .*: libcuda1 1 to 2"):
        getattr(display, ask)(*([] if ask == "prepare" else [display.todo()]))


@pytest.mark.parametrize("upgrade", [False, True])
def test_a_package_that_is_there_is_upgraded_only_where_that_is_asked_for(make, node, upgrade):
    node.packages["x"] = node.packages["y"] = "installed"
    node.simulation = "Inst x [1] (2 D [all])\nInst lib [1] (2 D [all])\n"
    assert make("x", "y", upgrade=upgrade).todo().present == (("x",) if upgrade else ())
    node.simulation = ""  # the newest is there
    assert make("x", "y", upgrade=upgrade).todo() == Wishes()


def test_what_nobody_asked_to_remove_stays(make, node):
    node.simulation = "Remv other [1]\nRemv old [1]\nInst x (1 D [all])\n"
    with pytest.raises(Refusal) as refused:
        make("x", absent=("old",)).prepare()
    assert refused.value.code == "H051"
    assert "other." in refused.value.cause
    assert "old" not in refused.value.cause


def test_what_does_not_fit_is_refused_before_it_is_recorded(host, node, step):
    node.uris = URIS.format("9,000,000 GB", 1000)
    with pytest.raises(Refusal) as refused:
        host.prepare()
    assert refused.value.code == "H050"
    assert not (step.directory / "transaction.json").exists()


def test_downloads_and_growth_on_one_file_system_add_up(host, node, monkeypatch):
    free = 500 * package_host.MEBIBYTE
    monkeypatch.setattr(package_host.os, "statvfs", lambda _path: SimpleNamespace(f_bavail=free, f_frsize=1))
    node.uris = URIS.format("300 MB", 50_000_000)
    host.prepare()
    node.uris = URIS.format("300 MB", 250_000_000)
    with pytest.raises(Refusal):
        host.prepare()


def test_a_simulation_that_fails_is_explained(host, node):
    node.simulation_rc, node.errors = 100, "E: Unable to locate package x\n"
    with pytest.raises(Refusal) as refused:
        host.prepare()
    assert refused.value.code == "H049"


def test_packages_on_hold_change_only_where_they_are_named(make, node):
    node.packages["held"] = "installed"
    node.holds = {"held"}
    node.simulation = "Inst held [1] (2 D [all])\n"
    package_host.HELD.write_text('["held"]')
    for ours in ("held", "h*"):
        argv = make("held=2", hold=(ours,)).prepare()["argv"]
        assert {"--allow-change-held-packages", "--option=APT::Ignore-Hold=true"} <= set(argv)
    with pytest.raises(Refusal) as refused:
        make("held=2", hold=("other",)).prepare()
    assert refused.value.code == "H056"
    assert "held." in refused.value.cause


@pytest.mark.parametrize("record", ["HELD", "BROUGHT"])
def test_a_hold_of_somebody_else_does_not_give_way_to_a_wish_to_hold(make, node, record):
    node.packages["held"] = "installed"
    node.holds = {"held"}
    node.simulation = "Inst held [1] (2 D [all])\n"
    with pytest.raises(Refusal) as refused:
        make("held=2", hold=("h*",)).prepare()
    assert refused.value.code == "H056"
    getattr(package_host, record).write_text('["held"]')
    assert make("held=2", hold=("h*",)).prepare()


def test_what_a_glob_will_hold_is_told_before(make):
    assert "x on hold" in make("x", hold=("?",)).prepare()["diff"]["after"].splitlines()


def test_what_is_no_longer_there_is_no_hold_of_gpulabs(make, node):
    package_host.HELD.write_text('["gone", "free"]')
    node.packages.update({"free": "installed"})
    node.holds = {"free"}
    make(unhold=("free",)).finish()
    assert not package_host.HELD.exists()


def test_the_hold_of_a_former_package_stays_gpulabs_for_the_way_back(make, tmp_path, monkeypatch):
    monkeypatch.setattr(former_packages, "ROOT", tmp_path / "former")
    records.write(tmp_path / "holds.json", ["gone", "pinning-1"])
    former = {"versions": {"pinning-1": "1"}, "held": ["pinning-1"], "new": []}
    records.write(tmp_path / "former/nvidia-driver/packages.json", former)
    make(hold=("dpkg",)).finish()
    assert json.loads((tmp_path / "holds.json").read_text()) == ["dpkg", "pinning-1"]


def test_a_former_package_that_gpulab_brought_stays_its_own_for_the_way_back(make, node, tmp_path, monkeypatch):
    monkeypatch.setattr(former_packages, "ROOT", tmp_path / "former")
    former = {"versions": {"pinning-1": "1"}, "held": [], "new": []}
    records.write(package_host.BROUGHT, ["gone", "pinning-1"])
    records.write(tmp_path / "former/nvidia-driver/packages.json", former)
    make().finish()
    assert kept() == ["pinning-1"]
    node.packages["pinning-1"] = "installed"  # the way back brought it
    node.let_go = {"pinning-1": {"pinning-1"}}
    assert make(retire=("pinning-1",)).todo().retire == ("pinning-1",)


def test_holds_are_set_when_the_packages_are_there(make, node):
    node.packages.update({"x": "installed", "free": "installed"})
    node.holds = {"free"}
    make("x", hold=("x",), unhold=("free",)).finish()
    assert [argv for argv in node.called if argv[0] == "apt-mark"] == [
        ["apt-mark", "hold", "x"],
        ["apt-mark", "unhold", "free"],
    ]
    assert json.loads(package_host.HELD.read_text()) == ["x"]  # for the time when it is to change


def test_success_that_is_none_is_refused(host, node):
    node.packages["x"] = "half-configured"
    with pytest.raises(Refusal) as refused:
        host.finish()
    assert refused.value.code == "H053"


def start(host, step):
    transaction = host.prepare()
    step.start(Command(tuple(transaction["argv"])), 60)
    return transaction


def test_a_transaction_that_runs_is_found_by_its_wishes(host, step):
    assert host.interrupted_transaction() is None
    transaction = start(host, step)
    assert host.interrupted_transaction() == transaction


def test_a_transaction_with_other_wishes_is_refused_while_it_runs(host, make, node, step):
    start(host, step)
    with pytest.raises(Refusal) as refused:
        make("y").interrupted_transaction()
    assert refused.value.code == "S003"
    node.unit = "inactive"
    assert make("y").interrupted_transaction() is None


@pytest.mark.parametrize("rc", [0, 100])
def test_a_transaction_whose_end_was_heard_is_over(host, node, step, rc):
    start(host, step)
    node.packages.update({"x": "installed"} if rc == 0 else {})
    (step.directory / "result").write_text(f'{{"rc": {rc}, "ended": 1}}')
    assert host.interrupted_transaction()
    step.acknowledge()
    assert host.interrupted_transaction() is None


def test_an_undo_takes_off_all_that_was_brought_and_nothing_else(host, node, step):
    start(host, step)
    node.packages.update({"x": "half-configured", "lib": "installed", "bystander": "installed"})
    _refusal, names, script = host.diagnose()
    assert names == ["lib", "x"]
    assert "bystander" not in script


def test_what_a_run_brought_and_could_not_undo_is_undone_by_the_next(host, node, step):
    start(host, step)
    node.packages.update({"x": "half-configured", "lib": "installed"})
    node.unit, node.simulation = "inactive", "Conf x (1 D [all])\n"
    assert start(host, step)["new"] == ["x"]
    assert host.diagnose()[1] == ["x"]


LOOK = {"predict": False, "update_cache": False, "cache_valid_time": 0}


def kept():
    return json.loads(package_host.BROUGHT.read_text()) if package_host.BROUGHT.exists() else []


@pytest.fixture
def killed(host, node, step):
    """Have the run killed that started a transaction, which then came to its end and brought x and lib."""
    start(host, step)
    node.packages.update({"x": "installed", "lib": "installed"})
    (step.directory / "result").write_text('{"rc": 0, "ended": 1}')


@pytest.mark.usefixtures("killed")
@pytest.mark.parametrize("name", ["driver", "another"])
def test_what_a_killed_run_brought_is_recorded_by_the_next_whatever_that_one_wants(make, node, step, name):
    node.simulation = ""
    host = make("y") if name == "driver" else Apt(node, step.beside(name), Wishes(), recommends=False, lock_timeout=1)
    packages.look(host, LOOK, check_mode=True)
    assert kept() == []
    packages.look(host, LOOK, check_mode=False)
    assert kept() == ["lib", "x"]


@pytest.mark.usefixtures("killed")
def test_what_a_killed_run_brought_and_somebody_removed_is_installed_again(host, node):
    del node.packages["x"]
    found = packages.look(host, LOOK, check_mode=False)
    assert "left" not in found
    assert found["transaction"]["new"] == ["x"]


@pytest.mark.usefixtures("killed")
def test_what_a_killed_run_brought_goes_again(make, node):
    node.let_go = {"x": {"x", "lib"}}
    node.simulation = ""
    assert make(retire=("x",)).todo().retire == ("lib", "x")


@pytest.mark.usefixtures("killed")
def test_what_people_install_later_is_theirs(node, step):
    other = Apt(node, step.beside("another"), Wishes(), recommends=False, lock_timeout=1)
    other.settle()
    assert kept() == ["lib", "x"]
    del node.packages["x"], node.packages["lib"]
    other.finish()
    node.packages["x"] = "installed"
    other.settle()
    assert kept() == []


def test_what_a_transaction_that_never_began_names_is_not_gpulabs(host, make, node):
    host.prepare()
    node.packages["x"] = "installed"
    make("y").settle()
    assert kept() == []


def test_while_a_transaction_runs_nothing_is_recorded_of_it(host, make, node, step):
    start(host, step)
    node.packages["x"] = "half-configured"
    make().settle()
    assert kept() == []


@pytest.mark.usefixtures("killed")
def test_after_a_full_disk_it_is_recorded_all_the_same(host, make, monkeypatch):
    def full(_path, *_others):
        raise refuse("H221", path="x", detail="No space left on device")

    with monkeypatch.context() as disk:
        disk.setattr(package_host.records, "write", full)
        with pytest.raises(Refusal):
            host.finish()
    make("y").settle()
    assert kept() == ["lib", "x"]


def test_what_an_undo_left_is_recorded(host, node, step):
    start(host, step)
    node.packages.update({"x": "half-configured", "lib": "installed"})
    del node.packages["x"]  # the undo took this one off
    host.audit()
    assert kept() == ["lib"]


HISTORY = """
Start-Date: 2026-11-01  10:00:00
Commandline: apt-get --yes --option=Dpkg::Use-Pty=0 --option=APT::Install-Recommends=false install x
Install: x:amd64 (1), lib:amd64 (1:2-3, automatic), gone:amd64 (1, automatic), theirs:amd64 (1)
End-Date: 2026-11-01  10:00:09

Start-Date: 2026-11-02  10:00:00
Commandline: apt-get remove gone
Remove: gone:amd64 (1), theirs:amd64 (1)

Start-Date: 2026-11-03  10:00:00
Commandline: apt install theirs
Install: theirs:amd64 (1)
"""


def damage_brought(_step):
    package_host.BROUGHT.write_text('["x"')


def damage_transaction(step):
    step.directory.mkdir(exist_ok=True)
    (step.directory / "transaction.json").write_text("")


@pytest.fixture
def logs(tmp_path, monkeypatch):
    """Return where APT's logs are; there are none yet."""
    monkeypatch.setattr(apt_host, "HISTORY", tmp_path / "history.log")
    return tmp_path


@pytest.mark.parametrize("damage", [damage_brought, damage_transaction])
def test_a_damaged_record_of_packages_is_mended_from_apts_log(make, node, step, logs, damage):
    first, later = HISTORY.split("\n\n", 1)
    (logs / "history.log.3.gz").write_bytes(gzip.compress(later.encode())[:-9])  # what damages records damages logs
    (logs / "history.log.2.gz").write_bytes(gzip.compress(first.encode()))
    (logs / "history.log").write_text(later)
    node.packages.update({"x": "installed", "lib": "installed", "theirs": "installed"})
    node.simulation = ""
    damage(step)
    host = make("x")
    packages.look(host, LOOK, check_mode=False)
    assert kept() == ["lib", "x"]
    assert "GPULAB-H220" in host.warnings[0]
    assert list(logs.rglob("*.damaged"))
    assert make("x")._brought() == {"lib", "x"}  # noqa: SLF001


@pytest.mark.parametrize("damage", [damage_brought, damage_transaction])
def test_without_a_log_a_damaged_record_is_refused_before_anything_changes(host, step, logs, damage):
    damage(step)
    for check_mode in (True, False):
        with pytest.raises(Refusal) as refused:
            packages.look(host, LOOK, check_mode=check_mode)
        assert refused.value.code == "H220"
    assert not list(logs.rglob("*.damaged"))


@pytest.mark.parametrize("close", ["finish", "audit"])
def test_a_transaction_that_is_closed_is_not_taken_up_again(host, node, step, close):
    start(host, step)
    node.packages.update({"x": "installed", "lib": "half-configured"})
    getattr(host, close)()
    node.simulation = ""
    assert host.prepare()["new"] == []


def test_an_undo_leaves_what_others_need_by_now(host, node, step):
    start(host, step)
    node.packages.update({"x": "half-configured", "lib": "installed"})
    node.no_act_rc = 1
    assert host.diagnose()[1] == ["x"]


@pytest.fixture
def former(tmp_path):
    return FormerDebs("driver", tmp_path / "former")


@pytest.fixture
def change(make, node, former):
    """Return the node's apt for a transaction that changes old and brings lib."""
    node.packages["old"] = "installed"
    node.simulation = "Inst old [1] (2 D [all])\nInst lib (2 D [all])\n"
    return make("old=2", former=former)


def test_what_changes_is_kept_before_it_does(change, former):
    assert "download old=1" in change.prepare()["keep"]
    assert former.read().versions == {"old": "1"}


def test_a_failed_change_is_put_back(change, node, step):
    start(change, step)
    node.packages.update({"old": "half-configured", "lib": "installed"})
    script = change.diagnose()[2]
    assert "/old/*.deb" in script
    assert "--remove lib\n" in script


def test_what_is_put_back_is_let_go_and_what_is_not_stays(change, node, step, former):
    start(change, step)
    node.packages.update({"lib": "installed"})
    change.audit()
    assert former.read().versions
    del node.packages["lib"]
    change.audit()
    assert not former.read().versions


def test_a_failure_before_anything_was_unpacked_has_no_undo(host, step):
    start(host, step)
    assert host.diagnose()[1:] == ([], "")


def test_another_packages_module_that_does_not_build_is_named_as_such(host, step, tmp_path, monkeypatch):
    """Headers of a kernel have DKMS build every module for it; no branch of the driver mends another's."""
    start(host, step)
    monkeypatch.setattr(apt_host.dkms, "make_log", lambda _module, _version: tmp_path / "make.log")
    (tmp_path / "make.log").write_text("evdi.c:1:1: error: unknown type name\n")
    step.log.write_text(
        "Error! Bad return status for module build on kernel: 6.8.0-40-generic (x86_64)\n"
        "Consult /var/lib/dkms/evdi/1.9.1/build/make.log for more information.\n"
    )
    refusal = host.diagnose()[0]
    assert refusal.code == "D041"
    assert "unknown type name" in refusal.cause
    assert "branch" not in refusal.remedy
    assert "dkms remove evdi/1.9.1 --all" in refusal.remedy
    (tmp_path / "make.log").write_text("evdi.c:1:1: fatal error: error writing to /tmp/x.s: No space left on device\n")
    assert host.diagnose()[0].remedy.startswith("Free space in /tmp")


def test_a_failed_build_is_told_by_its_first_error_and_its_log_is_kept(host, step, tmp_path, monkeypatch):
    start(host, step)
    monkeypatch.setattr(apt_host.dkms, "make_log", lambda _module, _version: tmp_path / "make.log")
    (tmp_path / "make.log").write_text("a.c:1:1: error: too few arguments\n")
    step.log.write_text(
        "Error! Bad return status for module build on kernel: 6.1 (x86_64)\n"
        "Consult /var/lib/dkms/nvidia/535/build/make.log for more information.\n"
    )
    refusal = host.diagnose()[0]
    assert refusal.code == "D001"
    assert "nvidia 535 for kernel 6.1: a.c:1:1: error: too few arguments" in refusal.cause
    (tmp_path / "make.log").unlink()  # the undo takes DKMS's own away
    assert "too few" in (step.directory / "make.log").read_text()


def test_an_interrupted_dpkg_is_refused(host, journal, monkeypatch):
    host.check_not_interrupted()
    journal.mkdir()
    host.check_not_interrupted()
    (journal / "0001").touch()
    with pytest.raises(Refusal) as refused:
        host.check_not_interrupted()
    assert refused.value.code == "H047"
    monkeypatch.setattr(apt_host, "find_holder", lambda: "apt-get, which is at work")
    host.check_not_interrupted()


@pytest.fixture
def cut_off(journal):
    journal.mkdir()
    (journal / "0001").touch()


@pytest.mark.usefixtures("cut_off")
@pytest.mark.parametrize(("predict", "check_mode"), [(False, False), (True, False), (False, True)])
def test_it_is_so_before_anything_is_said_or_done(host, predict, check_mode):
    with pytest.raises(Refusal) as refused:
        packages.look(host, {**LOOK, "predict": predict}, check_mode=check_mode)
    assert refused.value.code == "H047"


@pytest.mark.usefixtures("cut_off")
def test_one_that_was_cut_off_while_its_lock_was_waited_for_is_refused(host, step):
    with pytest.raises(Refusal) as refused:
        host.prepare()
    assert refused.value.code == "H047"
    assert not (step.directory / "transaction.json").exists()


@pytest.fixture
def brought(host, node, step, tmp_path):
    """Have a transaction bring x and lib, beside a package that was there."""
    node.packages["older"] = "installed"
    start(host, step)
    node.packages.update({"x": "installed", "lib": "installed"})
    host.finish()
    node.let_go = {"x": {"x", "lib", "older"}, "older": {"older"}}
    return lambda: json.loads((tmp_path / "packages.json").read_text())


def test_what_a_transaction_brought_is_remembered_until_it_is_gone(brought, node, make):
    assert brought() == ["lib", "x"]
    del node.packages["lib"]
    make("x").finish()
    assert brought() == ["x"]


def test_a_failed_transaction_brought_nothing(host, step, tmp_path):
    start(host, step)
    host.audit()
    assert not (tmp_path / "packages.json").exists()


def test_what_is_retired_goes_with_what_came_along_and_nothing_else(brought, make):
    retiring = make(retire=("x", "older", "unknown"))
    assert retiring.todo() == Wishes(retire=("lib", "x"))
    assert brought() == ["lib", "x"]


@pytest.mark.usefixtures("brought")
@pytest.mark.parametrize("held", [False, True])
def test_what_stays_keeps_what_it_needs(make, node, held):
    node.needs = {"stays": {"lib"}}
    node.packages["stays"] = "installed"
    node.needless, node.holds = (set(), {"stays"}) if held else ({"stays"}, set())
    apt_host.STATES.write_text("Package: stays\nArchitecture: amd64\nAuto-Installed: 1\n")
    assert make(retire=("x",)).todo().retire == ("x",)


@pytest.mark.usefixtures("brought")
def test_what_was_needless_before_stays(make, node):
    node.needless = {"lib"}
    assert make(retire=("x",)).todo().retire == ("x",)
    assert make(retire=("lib", "x")).todo().retire == ("lib", "x")  # unless it is named


@pytest.mark.usefixtures("brought")
@pytest.mark.parametrize(
    ("held", "unhold", "going"), [("x", (), ("lib", "x")), ("lib", (), ("x",)), ("lib", ("li*",), ("lib", "x"))]
)
def test_a_hold_goes_with_what_is_retired_and_keeps_what_came_along(make, node, held, unhold, going):
    node.holds = {held}
    node.simulation = "".join(f"Purg {name} [1]\n" for name in going)
    retiring = make(retire=("x",), unhold=unhold)
    assert retiring.todo().retire == going
    assert "--option=APT::Ignore-Hold=true" in retiring.prepare()["argv"]


@pytest.mark.usefixtures("brought")
def test_what_others_need_stays(make, node):
    node.let_go = {"x": set()}
    assert make(retire=("x",)).todo() == Wishes()


@pytest.mark.usefixtures("brought")
def test_what_somebody_else_installed_is_not_retired(make):
    assert make(retire=("older",)).todo() == Wishes()


@pytest.mark.usefixtures("brought")
def test_what_is_retired_is_purged_by_name(make, node):
    node.simulation = "Purg x [1]\nPurg lib [1]\n"
    argv = make(retire=("x",)).prepare()["argv"]
    assert "--purge" in argv
    assert argv[-3:] == ["install", "lib-", "x-"]


@pytest.mark.usefixtures("brought")
def test_a_retirement_that_takes_more_is_refused(make, node):
    node.simulation = "Purg x [1]\nPurg lib [1]\nPurg mine [1]\n"
    with pytest.raises(Refusal) as refused:
        make(retire=("x",)).prepare()
    assert refused.value.code == "H051"


NOW = 1_700_000_000.0


@pytest.fixture
def sources(tmp_path, monkeypatch):
    """Make package lists and a source file of the wanted ages, in seconds; None for lists that never were."""
    monkeypatch.setattr(apt_host.time, "time", lambda: NOW)
    monkeypatch.setattr(apt_host, "LISTS", tmp_path)
    monkeypatch.setattr(apt_host, "UPDATED", tmp_path / "stamp")
    monkeypatch.setattr(apt_host, "SOURCES", (tmp_path / "sources.list", tmp_path / "absent"))

    def make(lists, source):
        (tmp_path / "sources.list").touch()
        os.utime(tmp_path / "sources.list", (NOW - source, NOW - source))
        if lists is not None:
            (tmp_path / "partial").mkdir()
            (tmp_path / "m.example_dists_x_main_binary-amd64_Packages").touch()
            (tmp_path / "stamp").touch()
            os.utime(tmp_path / "stamp", (NOW - lists, NOW - lists))

    return make


@pytest.mark.parametrize(
    ("lists", "source", "stale"),
    [(None, 0, True), (100, 200, False), (100, 99, True), (4000, 5000, True), (-9000, 5000, True)],
    ids=["never-updated", "fresh", "older-than-a-source", "too-old", "of-a-clock-that-was-ahead"],
)
def test_lists_are_stale_when_old_or_older_than_their_sources(host, sources, lists, source, stale):
    sources(lists, source)
    assert (host.update(3600) is not None) is stale


def test_lists_that_could_not_be_refreshed_or_were_deleted_are_stale(host, sources, tmp_path):
    sources(100, 200)
    assert host.update(3600) is None
    (tmp_path / "m.example_dists_x_main_binary-amd64_Packages").unlink()  # a refresh of others left partial alone
    assert host.update(3600) is not None
    (tmp_path / "m.example_dists_x_main_binary-amd64_Packages.lz4").touch()
    assert host.update(3600) is None
    (tmp_path / "stamp").unlink()  # apt-get update began, and never ended well
    assert host.update(3600) is not None


def test_only_the_files_that_apt_reads_declare_sources(tmp_path, monkeypatch):
    main, parts = tmp_path / "sources.list", tmp_path / "sources.list.d"
    monkeypatch.setattr(apt_host, "SOURCES", (main, parts))
    monkeypatch.setattr(apt_host, "BUNDLE", parts / "gpulab-bundle.sources")
    module = SimpleNamespace(run_command=lambda *_args, **_options: (0, "arm64\n", ""))
    assert apt_host.read_sources(module) == []
    parts.mkdir()
    passed_over = (
        "cuda.list.save",
        "cuda.sources.distUpgrade",
        "cuda.list.disabled",
        "cuda.list~",
        "my cuda.list",
        ".a.list",
    )
    for name in ("../sources.list", "b.list", *passed_over):
        (parts / name).write_text("deb http://mirror.example/debian bookworm main\n")
    (parts / "a_1.2.sources").write_text("Types: deb\nURIs: http://mirror.example/$(ARCH)\nSuites: /\n")
    found = apt_host.read_sources(module)
    assert [source.file for source in found] == [str(main), str(parts / "a_1.2.sources"), str(parts / "b.list")]
    assert found[1].uri == "http://mirror.example/arm64"
    apt_host.BUNDLE.write_text("Types: deb\nURIs: file:///media/stick/bundle/apt/v\nSuites: /\n")  # it stands for all
    assert [source.uri for source in apt_host.read_sources(module)] == ["file:///media/stick/bundle/apt/v"]
    assert main in apt_host.listed()


def test_gpulabs_own_preferences_are_not_those_of_others(tmp_path, monkeypatch):
    monkeypatch.setattr(apt_host, "PREFERENCES", tmp_path / "preferences")
    monkeypatch.setattr(apt_host, "PREFERENCES_PARTS", tmp_path / "preferences.d")
    assert apt_host.read_preferences() == ""
    (tmp_path / "preferences.d").mkdir()
    for name in ("preferences", "preferences.d/cuda-repository-pin-600", "preferences.d/zz-gpulab-nvidia-cuda.pref"):
        (tmp_path / name).write_text(f"{name}\n")
    assert apt_host.read_preferences().split() == ["preferences", "preferences.d/cuda-repository-pin-600"]

"""Transactions on a node whose rpm and dnf are played."""

import json
from types import SimpleNamespace

import pytest
from ansible_collections.gpulab.node.plugins.module_utils.core.refusal import Refusal
from ansible_collections.gpulab.node.plugins.module_utils.core.steps import Step
from ansible_collections.gpulab.node.plugins.module_utils.packages import dnf_host
from ansible_collections.gpulab.node.plugins.module_utils.packages import host as package_host
from ansible_collections.gpulab.node.plugins.module_utils.packages.apt import Wishes
from ansible_collections.gpulab.node.plugins.module_utils.packages.dnf_host import Dnf
from ansible_collections.gpulab.node.plugins.module_utils.packages.former import Former, FormerRpms

NOTHING = {"unknown": [], "problem": "", "rows": [], "going": {}, "coming": [], "download": {}, "growth": 0}
NEW = {"action": "install", "name": "dkms", "nevra": "dkms-3.2-1.noarch", "version": "3.2-1", "before": ""}


class Node:
    """A node: what rpm lists, what the solver answers, and every command that was run."""

    def __init__(self, directory):
        """Begin with an empty node."""
        self.listed, self.answer, self.needless, self.erasable, self.ran = "", NOTHING, [], True, []
        self.step = Step("driver", self.call, "boot", directory)

    def call(self, argv):
        """Run a command."""
        self.ran.append(argv)
        if argv[:2] == ["rpm", "-qa"]:
            return 0, self.listed, ""
        if argv[:3] == ["rpm", "--erase", "--test"]:
            return (0 if self.erasable else 1), "", ""
        if argv[1:3] == ["-I", "-c"]:
            answer = self.needless if "give_up" in json.loads(argv[-1]) else self.answer
            return 0, f"a plugin's word\n{json.dumps(answer)}\n", ""
        return 0, "", ""

    def dnf(self, former=None, **wishes):
        """Return the transaction of these wishes."""
        return Dnf(self.call, self.step, Wishes(**wishes), recommends=False, lock_timeout=1, former=former)


@pytest.fixture
def node(tmp_path, monkeypatch):
    program = tmp_path / "dnf"
    program.write_text("#!/usr/libexec/platform-python -s\nimport sys\n")
    monkeypatch.setattr(dnf_host, "PROGRAM", program)
    monkeypatch.setattr(dnf_host, "LOCK_LIST", tmp_path / "plugins/versionlock.list")
    monkeypatch.setattr(dnf_host, "CACHE", tmp_path)
    monkeypatch.setattr(dnf_host, "UPDATED", tmp_path / "updated")
    monkeypatch.setattr(dnf_host, "SOURCES", (tmp_path / "sources", tmp_path / "absent"))
    monkeypatch.setattr(package_host, "SYSTEM", tmp_path)
    monkeypatch.setattr(package_host, "BROUGHT", tmp_path / "packages.json")
    monkeypatch.setattr(package_host, "HELD", tmp_path / "holds.json")
    return Node(tmp_path)


def refused(call):
    with pytest.raises(Refusal) as refusal:
        call()
    return refusal.value.code


def test_the_solver_is_asked_under_the_python_of_dnf(node):
    node.answer = {**NOTHING, "rows": [NEW]}
    plan, _loaded, errors = node.dnf(present=("dkms",)).predict(Wishes(present=("dkms",)))
    assert (plan.install, errors) == ({"dkms": "3.2-1"}, "")
    assert node.ran[-1][0] == "/usr/libexec/platform-python"
    assert json.loads(node.ran[-1][-1])["install"] == ["dkms"]


def test_what_the_metadata_lack_is_named(node):
    node.answer = {**NOTHING, "unknown": ["nvidia-open-595.*"]}
    host = node.dnf(present=("nvidia-open=595.*",))
    errors = host.predict(host.todo())[-1]
    assert host.unknown(errors) == {"nvidia-open"}
    assert host.refusal(errors).code == "H049"


def test_a_transaction_is_recorded_with_what_it_brings(node):
    node.answer = {**NOTHING, "rows": [NEW]}
    made = node.dnf(present=("dkms",)).prepare()
    assert made["new"] == ["dkms-3.2-1.noarch"]
    assert made["argv"][-2:] == ["install", "dkms"]
    assert json.loads((node.step.directory / "transaction.json").read_text()) == made


def test_what_nobody_asked_to_remove_stays(node):
    node.answer = {**NOTHING, "rows": [{**NEW, "action": "remove"}]}
    assert refused(node.dnf(present=("a",)).prepare) == "H051"
    assert node.dnf(present=("a",), absent=("dkms",)).prepare()


def test_what_others_locked_stays(node):
    dnf_host.LOCK_LIST.parent.mkdir()
    dnf_host.LOCK_LIST.write_text("dkms-0:3.1-1.*\n")
    node.answer = {**NOTHING, "rows": [{**NEW, "action": "change", "before": "3.1-1"}]}
    for hold in ("b", "dkms"):  # a lock of somebody else does not give way to a wish to lock
        assert refused(node.dnf(present=("a",), hold=(hold,)).prepare) == "H056"


def test_what_does_not_fit_on_the_disk_is_refused(node, monkeypatch):
    monkeypatch.setattr(package_host.os, "statvfs", lambda _path: SimpleNamespace(f_bavail=10**9, f_frsize=1))
    node.answer = {**NOTHING, "rows": [NEW], "download": {"a.rpm": 6 * 10**8}, "growth": 5 * 10**8}
    assert refused(node.dnf(present=("a",)).prepare) == "H050"
    node.answer = {**NOTHING, "rows": [NEW], "download": {"a.rpm": 10**8}, "growth": 5 * 10**8}
    assert node.dnf(present=("a",)).prepare()


def test_a_conflict_is_refused(node):
    node.answer = {**NOTHING, "problem": "Problem: conflicting requests"}
    assert refused(node.dnf(present=("a",)).prepare) == "H048"


def test_the_end_locks_what_is_held(node):
    node.listed = "dkms\t0\t3.2-1\tnoarch\t\n"
    node.dnf(present=("dkms",), hold=("dk*",)).finish()
    assert dnf_host.LOCK_LIST.read_text() == "dkms-0:3.2-1.*\n"
    assert json.loads(package_host.HELD.read_text()) == ["dkms"]
    node.dnf(unhold=("dk*",)).finish()
    assert not package_host.HELD.exists()
    assert refused(node.dnf(present=("gcc",)).finish) == "H053"


def test_an_undo_takes_off_what_was_brought_unless_others_need_it(node):
    node.answer = {**NOTHING, "rows": [NEW]}
    host = node.dnf(present=("dkms",))
    host.prepare()
    assert host.diagnose()[1:] == ([], "")
    node.listed = "dkms\t0\t3.2-1\tnoarch\t\n"
    assert host.diagnose()[1:] == (["dkms-3.2-1.noarch"], "rpm --erase dkms-3.2-1.noarch\n")
    node.erasable = False
    assert host.diagnose()[1:] == ([], "")


DRIVER = {"action": "change", "name": "driver", "nevra": "driver-2-1.x86_64", "version": "3:2-1", "before": "3:1-1"}
LIBRARY = {**NEW, "name": "lib", "nevra": "lib-2-1.x86_64", "version": "2-1"}
FORMER, LATTER = "driver\t3\t1-1\tx86_64\t\n", "driver\t3\t2-1\tx86_64\t\n"


@pytest.fixture
def former(tmp_path):
    return FormerRpms("driver", tmp_path / "former")


@pytest.fixture
def change(node, former):
    """Return the transaction that changes a locked driver, and brings lib and a second version of the kernel."""
    dnf_host.LOCK_LIST.parent.mkdir()
    dnf_host.LOCK_LIST.write_text("driver-3:1-1.*\n")
    package_host.HELD.write_text('["driver"]')
    node.listed = f"{FORMER}kernel\t0\t1-1\tx86_64\t\n"
    coming = ["driver.x86_64", "lib.x86_64", "kernel.x86_64"]
    node.answer = {**NOTHING, "rows": [DRIVER, LIBRARY], "going": {"driver.x86_64": "3:1-1"}, "coming": coming}
    return node.dnf(former, present=("driver=2-1",), hold=("driver",))


def test_what_changes_is_kept_with_its_lock_before_it_does(change, former):
    assert "driver-3:1-1.x86_64" in change.prepare()["keep"]
    assert former.read() == Former({"driver.x86_64": "3:1-1"}, ("driver-3:1-1.*",), ("lib.x86_64",))


def test_a_failed_change_is_put_back(change, node):
    change.prepare()
    node.listed = f"{LATTER}lib\t0\t2-1\tx86_64\t\n"
    script = change.diagnose()[2]
    assert "rpm --erase --nodeps lib.x86_64\n" in script
    assert "/driver-1-1.x86_64.rpm\n" in script


def test_what_is_put_back_is_let_go_and_what_is_not_stays(change, node, former):
    change.prepare()
    node.listed = LATTER
    change.audit()
    assert former.read().versions
    node.listed = FORMER
    change.audit()
    assert former.read() == Former()
    assert dnf_host.LOCK_LIST.read_text() == "driver-3:1-1.*\n"


def test_metadata_are_stale_without_a_cache_or_when_older_than_a_repository(node, tmp_path):
    host = node.dnf()
    assert host.update(3600)
    (tmp_path / "updated").touch()
    assert host.update(3600)
    (tmp_path / "epel-1234" / "repodata").mkdir(parents=True)
    assert host.update(3600)  # dnf clean leaves directories
    (tmp_path / "epel-1234" / "repodata" / "repomd.xml").touch()
    assert host.update(3600) is None
    (tmp_path / "sources").touch()
    assert host.update(3600)


@pytest.fixture
def brought(node):
    """Bring dkms, and make with it; gcc was there before."""
    node.listed = "gcc\t0\t11-1\tx86_64\t\n"
    make = {**NEW, "name": "make", "nevra": "make-1-1.x86_64", "version": "1-1"}
    node.answer = {**NOTHING, "rows": [NEW, make]}
    host = node.dnf(present=("dkms",))
    host.prepare()
    node.listed += "dkms\t0\t3.2-1\tnoarch\t\nmake\t0\t1-1\tx86_64\t\n"
    host.finish()
    return node


def test_what_a_transaction_brought_is_remembered_until_it_is_gone(brought):
    assert json.loads(package_host.BROUGHT.read_text()) == ["dkms", "make"]
    brought.listed = "make\t0\t1-1\tx86_64\t\n"
    brought.dnf(absent=("dkms",)).finish()
    assert json.loads(package_host.BROUGHT.read_text()) == ["make"]


def test_what_is_retired_goes_with_what_came_along_and_nothing_else(brought):
    brought.needless = ["dkms", "gcc", "make"]
    brought.answer = {**NOTHING, "rows": [{**NEW, "action": "remove"}]}
    host = brought.dnf(retire=("dkms", "gcc", "unknown"))
    assert host.todo() == Wishes(retire=("dkms", "make"))
    assert json.loads(brought.ran[-1][-1])["give_up"] == ["dkms"]
    assert host.prepare()["argv"][-3:] == ["remove", "dkms", "make"]
    assert refused(host.finish) == "H053"


def test_what_is_still_needed_or_was_there_before_stays(brought):
    brought.needless = []
    assert brought.dnf(retire=("dkms",)).todo() == Wishes()
    brought.needless = ["gcc"]
    assert brought.dnf(retire=("gcc",)).todo() == Wishes()


def test_the_lock_of_what_is_retired_goes_with_it(brought):
    dnf_host.LOCK_LIST.parent.mkdir()
    dnf_host.LOCK_LIST.write_text("dkms-0:3.2-1.*\nbash-0:5-1.*\n")
    brought.needless = ["dkms"]
    brought.answer = {**NOTHING, "rows": [{**NEW, "action": "remove"}]}
    host = brought.dnf(retire=("dkms",))
    assert any("versionlock" in word for word in host.prepare()["argv"])
    brought.listed = "gcc\t0\t11-1\tx86_64\t\n"
    host.finish()
    assert dnf_host.LOCK_LIST.read_text() == "bash-0:5-1.*\n"


def test_of_a_package_in_several_versions_those_go_that_are_retired(node):
    """Somebody else's headers are there, too."""
    headers = [f"kernel-devel-5.14.0-{number}.el9.x86_64" for number in (503, 570, 600)]
    node.listed = "".join(f"kernel-devel\t0\t5.14.0-{number}.el9\tx86_64\t\n" for number in (503, 570, 600))
    package_host.BROUGHT.write_text('["kernel-devel"]')
    node.needless = ["kernel-devel"]
    going = [{**NEW, "action": "remove", "name": "kernel-devel", "nevra": one} for one in headers[:2]]
    node.answer = {**NOTHING, "rows": going}
    host = node.dnf(retire=tuple(headers[:2]))
    assert host.todo().retire == tuple(headers[:2])
    assert host.prepare()["argv"][-2:] == headers[:2]
    node.answer = {**NOTHING, "rows": going[:1]}
    assert node.dnf(retire=tuple(headers[:1])).prepare()["argv"][-1] == headers[0]

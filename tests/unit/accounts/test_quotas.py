"""Quotas, as the kernel and the quota tools tell of them; tests/vm/test_quotas.py has a kernel that refuses."""

import pytest
from ansible_collections.gpulab.node.plugins.module_utils.accounts import kept, quotas
from ansible_collections.gpulab.node.plugins.module_utils.accounts import wanted as wanted_people
from ansible_collections.gpulab.node.plugins.module_utils.accounts.plan import Found
from ansible_collections.gpulab.node.plugins.module_utils.core.refusal import Refusal
from ansible_collections.gpulab.node.plugins.module_utils.facts import accounts

LISTS = wanted_people.parse(
    [{"name": "vision", "gid": 21000}],
    [
        {"name": "ada", "uid": 20001},
        {"name": "ben", "uid": 20002, "quota": "3G", "state": "leaving"},
        {"name": "eve", "uid": 20003, "state": "absent"},
    ],
    homes="/home",
)
HOMES = {"space": "2G", "files": 1000}
VISION = {"group": "vision", "path": "/data/vision", "space": "1T", "files": None}
MOUNTS = """\
30 1 8:1 / / rw - ext4 /dev/sda1 rw
31 30 8:2 / /home rw,noatime - ext4 /dev/sdb rw,usrquota
32 30 8:3 / /data rw - xfs /dev/sdc rw,prjquota
33 30 0:50 / /share rw - nfs4 server:/share rw
34 30 0:51 / /tree rw - btrfs /dev/sdd rw
"""
USERS = """\
User,BlockStatus,FileStatus,BlockUsed,BlockSoftLimit,BlockHardLimit,BlockGrace,FileUsed,FileSoftLimit,FileHardLimit,FileGrace
#0,ok,ok,20,0,0,,2,0,0,
#20001,ok,ok,{used},0,{ada},,900,0,1000,
#20002,ok,ok,4,0,3145728,,1,0,1000,
"""
PROJECTS = USERS.replace("User", "Project").partition("#20001")[0] + "#21000,ok,ok,0,0,1073741824,,1,0,0,\n"
REPORT, STATE = "repquota --{} --verbose --no-names --output=csv {}", "quotaon --{} --verbose --print-state {}"


@pytest.fixture(autouse=True)
def _no_lent_directories(monkeypatch):
    monkeypatch.setattr(quotas.beneath, "lent", lambda _path: None)


@pytest.fixture
def node(tree):
    """Make a node on which all quotas are as they shall be."""
    tree.file("/proc/self/mountinfo", MOUNTS).directory("/data/vision").directory("/home")
    tree.prints("dumpe2fs -h /dev/sdb", "Filesystem features:      has_journal quota\n")
    tree.prints(REPORT.format("user", "/home"), USERS.format(used=4, ada=2097152))
    tree.prints(REPORT.format("project", "/data"), PROJECTS)
    tree.prints(STATE.format("user", "/home"), "user quota on /home (/dev/sdb) is on (enforced)\n")
    tree.prints(STATE.format("project", "/data"), "project quota on /data (/dev/sdc) is on (enforced)\n")
    return tree.prints("lsattr -d -p /data/vision", "21000 --------------------P-- /data/vision\n")


def change(tree, homes=HOMES, directories=(VISION,), lists=LISTS, unmounted=None):
    return quotas.Change(tree.node(), lists, homes, list(directories), unmounted or {})


def steps(found):
    return [(step.action, step.quota.name, step.mount) for step in found.steps]


def commands(found):
    run = []
    quotas.carry_out(lambda _name, command, data="": run.append((" ".join(command), data)), found.steps)
    return run


def test_who_is_there_or_leaves_has_a_quota_and_who_has_left_has_none(node):
    found = change(node)
    assert [(one.name, one.space, one.files) for one in found.wanted] == [
        ("ada", 2 << 20, 1000), ("ben", 3 << 20, 1000), ("vision", 1 << 30, 0),
    ]  # fmt: skip
    assert found.steps == []


def test_on_a_bare_disk_all_is_made_in_few_commands(node):
    node.commands.clear()
    (node.root / "data/vision").rmdir()
    found = change(node)
    assert steps(found) == [
        ("limit", "ada", "/home"), ("limit", "ben", "/home"),
        ("make", "vision", "/data"), ("take", "vision", "/data"), ("limit", "vision", "/data"),
    ]  # fmt: skip
    assert commands(found) == [
        ("install --directory --mode=2770 --group=21000 /data/vision", ""),
        ("chattr +P -p 21000 /data/vision", ""),
        ("setquota --user --batch /home", "20001 0 2097152 0 1000\n20002 0 3145728 0 1000\n"),
        ("setquota --project --batch /data", "21000 0 1073741824 0 0\n"),
    ]


def test_quotas_that_somebody_turned_off_are_turned_on(node):
    node.prints(STATE.format("user", "/home"), "user quota on /home (/dev/sdb) is on (accounting)\n")
    found = change(node)
    assert commands(found) == [("quotaon --user /home", "")]


def test_a_quota_of_the_last_run_that_nobody_wants_any_more_is_taken_away_once(node, monkeypatch):
    gone = [quota._asdict() for quota in change(node).wanted]
    monkeypatch.setattr(kept, "read", lambda _node: {"quotas": gone})
    found = change(node, {}, ())
    assert commands(found)[0] == ("setquota --user --batch /home", "20001 0 0 0 0\n20002 0 0 0 0\n")
    node.prints(REPORT.format("user", "/home"), "").prints(REPORT.format("project", "/data"), "")
    assert change(node, {}, ()).steps == []
    moved = change(node, lists=wanted_people.Wanted(LISTS.groups, LISTS.people, "/home/all"))
    assert {step.quota.space for step in moved.steps if step.quota.kind == quotas.USER} == {2 << 20, 3 << 20}


def test_a_limit_that_does_not_hold_afterwards_is_refused(node):
    node.prints(REPORT.format("user", "/home"), USERS.format(used=4, ada=1))
    with pytest.raises(Refusal) as error:
        change(node).carry_out(lambda *_args, **_data: None)
    assert error.value.code == "U010"


LSATTR, OTHER = "lsattr -d -p /data/vision", "0 -------- /data/vision\n"


@pytest.mark.parametrize(
    ("prepare", "homes", "path", "told"),
    [
        (
            lambda tree: tree.prints("dumpe2fs -h /dev/sdb", "features: ext_attr\n"),
            "/home",
            "",
            "not the features quota",
        ),
        (lambda _tree: None, "/srv/home", "", "/ is mounted without usrquota"),
        (lambda _tree: None, "/share/home", "", "/share/home is on a file server (nfs4), which has to set them"),
        (lambda _tree: None, "/tree/home", "", "/tree/home is on btrfs"),
        (lambda _tree: None, "/coming/home", "", "/coming/home is on a file server"),
        (lambda _tree: None, "", "/home/vision", "the ext4 of /home has not the features project"),
        (lambda tree: tree.prints(LSATTR, OTHER), "", "/data/vision", ""),
        (lambda tree: tree.prints(LSATTR, OTHER).file("/data/vision/old"), "", "/data/vision", "chattr -R +P -p 21000"),
        (lambda tree: tree.link("/data/led", "vision"), "", "/data/led", "is a link"),
        (lambda tree: tree.file("/data/file"), "", "/data/file", "is a link, or no directory"),
    ],
)
def test_what_cannot_be_is_refused_in_words_before_any_change(node, prepare, homes, path, told):
    prepare(node)
    lists = wanted_people.Wanted(LISTS.groups, LISTS.people, homes)
    arguments = (node, HOMES if homes else {}, [{**VISION, "path": path}] if path else [], lists, {"/coming": "server"})
    if not told:
        assert steps(change(*arguments)) == [("take", "vision", "/data")]
        return
    with pytest.raises(Refusal) as error:
        change(*arguments)
    assert error.value.code == "U015"
    assert told in str(error.value)


def test_a_directory_below_one_of_somebody_elses_is_refused(node, monkeypatch):
    monkeypatch.setattr(quotas.beneath, "lent", lambda path: path)
    with pytest.raises(Refusal, match="others than root may put something into /data"):
        change(node)


@pytest.mark.parametrize(
    ("entries", "told"),
    [
        ([VISION, {**VISION, "path": "/data/other"}], "has 'vision' twice"),
        ([{**VISION, "group": "others"}], "'others', which is none of users_groups"),
    ],
)
def test_lists_that_contradict_themselves_are_refused(node, entries, told):
    with pytest.raises(Refusal, match=told):
        change(node, {}, entries)


def test_what_a_run_mounts_later_is_judged_by_the_run(node):
    found = change(node, HOMES, [{**VISION, "path": "/tank/vision"}], unmounted={"/tank": "disk"})
    assert steps(found) == [(action, "vision", "/tank/vision") for action in ("make", "take", "limit")]


@pytest.fixture
def facts(node, monkeypatch):
    """Return what tells the facts of people with quotas."""
    monkeypatch.setattr(accounts, "differences", lambda *_: {})
    monkeypatch.setattr(accounts.host, "look", lambda *_: Found())
    file = node.root / kept.FILE.lstrip("/")
    people = [{"name": "ada", "uid": 20001, "groups": [], "keys": [], "until": None, "state": "present"}]
    kept.write([], people, "/home", {}, change(node).wanted, file)
    return lambda: accounts.AccountsQuery(node.node()).facts()


def test_the_facts_name_whose_quota_is_used_up_and_which_is_another(node, facts):
    assert (facts()["differs"], facts()["quotas"]) == ({}, {"set": 3, "full": []})
    node.prints(REPORT.format("user", "/home"), USERS.format(used=2097000, ada=2097152))
    full = {"name": "ada", "place": "/home", "what": "KiB", "used": 2097000, "most": 2097152}
    assert (facts()["differs"], facts()["quotas"]["full"]) == ({}, [full])
    node.prints(REPORT.format("user", "/home"), USERS.format(used=4, ada=0))
    node.prints(STATE.format("project", "/data"), "project quota on /data (/dev/sdc) is off\n")
    assert facts()["differs"] == {
        "ada": ["has another quota in /home"],
        "vision": ["is not held to a quota, as nobody is on /data"],
    }
    node.file("/proc/self/mountinfo", MOUNTS.replace(",usrquota", ""))
    assert facts()["differs"]["ada"] == ["can have no quota any more: /home is mounted without usrquota"]

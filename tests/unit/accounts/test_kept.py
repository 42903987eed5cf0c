"""What a node keeps of the inventory's people, and what the facts say of it."""

import pytest
from ansible_collections.gpulab.node.plugins.module_utils.accounts import host, kept, limits
from ansible_collections.gpulab.node.plugins.module_utils.facts.accounts import AccountsQuery

from .making import ED25519

GROUPS = [{"name": "vision", "gid": 21000}, {"name": "sudo", "gid": 27}]
ADA = {"name": "ada", "uid": 20001, "groups": ["vision"], "keys": [ED25519], "until": "2099-09-30", "state": "present"}
BEN = {"name": "ben", "uid": 20002, "groups": [], "keys": [], "until": None, "state": "leaving"}
FILES = {
    "/etc/passwd": "ada:x:20001:20001::/home/ada:/bin/bash\nben:x:20002:20002::/home/ben:/bin/bash\n",
    "/etc/group": "sudo:x:27:\nada:x:20001:\nben:x:20002:\nvision:x:21000:ada\n",
    "/etc/shadow": "ada:!:20000:0:99999:7::47390:\nben:!:20000:0:99999:7::1:\n",
    "/etc/ssh/gpulab-keys/ada": f"{ED25519}\n",
    "/home/ada/.profile": "",
    "/home/ben/.profile": "",
    "/proc/meminfo": "MemTotal:       1048576 kB\n",
    "/var/lib/gpulab/users.json": '{"ada": [20001], "ben": [20002]}',
}
SLICE = "Id=user-20001.slice\nMemoryMax={}\nTasksMax={}\n"


@pytest.fixture
def people(tree, monkeypatch):
    """Make a node with Ada, and Ben, who leaves; return what writes its files, and what says its facts."""
    monkeypatch.setattr(host, "RECORD", tree.root / "var/lib/gpulab/users.json")
    for path, text in FILES.items():
        tree.file(path, text)
    monkeypatch.setattr(host.homes, "look", lambda *_: host.homes.Homes(names=frozenset({"ada", "ben"})))
    monkeypatch.setattr(host.files, "has_rights", lambda *_: True)

    def facts(*listed, answer="", **limits_):
        kept.write(GROUPS, listed, "/home", limits_, (), tree.root / kept.FILE.lstrip("/"))
        tree.prints("systemctl", answer)
        return AccountsQuery(tree.node()).facts()

    return tree, facts


def test_where_the_inventory_gave_nobody_there_is_nothing_to_tell(people):
    tree, facts = people
    assert facts() is None
    assert not (tree.root / kept.FILE.lstrip("/")).exists()


def test_what_is_kept_is_for_root_alone_and_has_no_address_of_anybody(people):
    tree, facts = people
    facts({**ADA, "mail": "ada@lab", "heir": None})
    file = tree.root / kept.FILE.lstrip("/")
    assert file.stat().st_mode & 0o777 == 0o600
    assert "ada@lab" not in file.read_text()


def test_people_who_are_as_the_inventory_has_them_do_not_differ(people):
    _tree, facts = people
    assert facts(ADA, BEN) == {"people": 2, "differs": {}, "unlisted": [], "limits": None, "quotas": None}
    assert facts(ADA)["unlisted"] == [20002]


@pytest.mark.parametrize(
    ("path", "before", "after", "what"),
    [
        ("/etc/ssh/gpulab-keys/ada", "somebody@laptop", "x", {"ada": ["has other keys"]}),
        ("/etc/ssh/gpulab-keys/ben", "", "key", {"ben": ["has other keys"]}),
        ("/etc/shadow", "47390", "1", {"ada": ["has an account that ends on another day"]}),
        ("/etc/shadow", ":1:", "::", {"ben": ["has an account that ends on another day"]}),
        ("/etc/group", "21000:ada", "21000:", {"ada": ["is not in the group vision"]}),
        ("/etc/group", "27:", "27:ada", {"ada": ["is in the group sudo"]}),
        ("/etc/group", "21000", "21001", {"vision": ["has gid 21001 instead of 21000"]}),
        ("/etc/passwd", "20001:20001", "20009:20001", {"ada": ["has uid 20009 instead of 20001"]}),
        ("/etc/passwd", "ada:x:", "eva:x:", {"ada": ["has no account"]}),
        ("/var/lib/systemd/linger/ben", "", "", {"ben": ["lingers"]}),
    ],
)
def test_what_somebody_changed_by_hand_is_named(people, path, before, after, what):
    tree, facts = people
    tree.file(path, FILES.get(path, "").replace(before, after, 1) if before else after)
    assert facts(ADA, BEN)["differs"] == what


@pytest.mark.parametrize(
    ("wanted", "memory", "tasks", "differs"),
    [
        ({"memory": "25%", "tasks": 500}, 268435456, 500, []),
        ({"memory": "25%", "tasks": 500}, 104857600, 500, []),  # of the less that a container has
        ({"memory": "300M"}, 314572800, 19000, []),
        ({"memory": "25%"}, 536870912, 500, [("MemoryMax", "25%", "536870912")]),
        ({"memory": "25%"}, "infinity", 500, [("MemoryMax", "25%", "infinity")]),
        ({"memory": "300M"}, 104857600, 500, [("MemoryMax", "300M", "104857600")]),
        ({"tasks": 500}, "infinity", 19000, [("TasksMax", "500", "19000")]),
    ],
)
def test_limits_are_those_that_systemd_has(people, wanted, memory, tasks, differs):
    _tree, facts = people
    found = facts(ADA, BEN, answer=SLICE.format(memory, tasks), **wanted)["limits"]
    assert found["slices"] == 1
    keys = ("user", "property", "wanted", "found")
    assert found["differs"] == [dict(zip(keys, ("ada", *one), strict=True)) for one in differs]


def test_slices_of_which_systemd_tells_nothing_are_not_counted(people):
    _tree, facts = people
    assert facts(ADA, tasks=500)["limits"] == {"slices": 0, "differs": []}


def test_the_slices_of_one_and_of_all_who_are_logged_in_are_asked_for(people):
    tree, facts = people
    tree.file("/run/systemd/users/20002", "")
    assert list(limits.show([20001])) == [
        "systemctl",
        "show",
        "--property=Id,MemoryMax,TasksMax",
        "--",
        "user-20001.slice",
    ]
    answer = f"{SLICE.format(1, 1)}\n{SLICE.format(2, 2)}".replace("20001", "20002", 1)
    assert {one["user"] for one in facts(ADA, BEN, answer=answer, tasks=5)["limits"]["differs"]} == {"ada", "ben"}

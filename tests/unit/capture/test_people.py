"""Users and groups: who is recorded, and what of them; never a hash."""

import json
from dataclasses import asdict

import pytest
from ansible_collections.gpulab.node.plugins.module_utils.capture import people

CANARY = "canary"
ACCOUNTS = """\
root:x:0:0:root:/root:/bin/bash
daemon:x:1:1:daemon:/usr/sbin:/usr/sbin/nologin
slurm:x:64:64::/var/lib/slurm:/bin/false
old:x:501:501:Old Hand,,,:/home/old:/bin/bash
wei:x:1001:1001:Wei Chen:/home/wei:/usr/bin/zsh
mia:x:1002:1001::/home/mia:/bin/bash
nobody:x:65534:65534:nobody:/nonexistent:/usr/sbin/nologin
"""
SHADOW = f"""\
root:*:19000:0:99999:7:::
old:$y$j9T${CANARY}:19000:0:99999:7:::
wei:$6${CANARY}:19000:0:99999:7::20543:
mia:!$6${CANARY}:19000:0:99999:7:::
slurm::19000::::::
"""
GROUP = """\
root:x:0:
docker:x:998:wei, mia
adm:x:4:syslog
old:x:501:
users:x:1001:wei
video:x:44:
lab:x:2000:wei
"""


@pytest.fixture
def lab(tree):
    tree.file(people.SHADOW, SHADOW).file(people.GROUP, GROUP).file("/etc/passwd", ACCOUNTS)
    tree.file(people.LOGIN_DEFS, "# UID_MIN 1\nUID_MIN\t\t\t 1000\nGID_MIN 1000\n")
    tree.file("/etc/gshadow", f"lab:{CANARY}::\n")
    return tree


def read(*arguments):
    """Return the people of a node as the manifest has them."""
    return asdict(people.read(*arguments))


def of(users, name):
    return next(user for user in users if user["name"] == name)


def names(records):
    return [record["name"] for record in records]


def test_people_are_those_from_uid_min_on(lab):
    assert names(read(lab.node(), set(), set())["users"]) == ["wei", "mia"]


def test_uid_min_is_that_of_the_node(lab):
    lab.file(people.LOGIN_DEFS, "UID_MIN 500\nGID_MIN 500\n")
    found = read(lab.node(), set(), set())
    assert names(found["users"]) == ["old", "wei", "mia"]
    assert "docker" in names(found["groups"])


def test_an_account_below_uid_min_that_owns_data_is_recorded(lab):
    assert names(read(lab.node(), {64, 501}, set())["users"]) == ["slurm", "old", "wei", "mia"]


def test_what_a_user_is(lab):
    lab.file("/var/lib/systemd/linger/wei").file(
        people.SUBUID, "wei:100000:65536\n1001:300000:10\nmia:165536:65536\nodd\n"
    )
    lab.file(people.SUBGID, "wei:100000:65536\n")
    lab.file("/proc/self/mountinfo", "1 0 8:2 / / rw - ext4 /dev/sda2 rw\n2 1 0:4 / /home rw - nfs4 nas:/home rw\n")
    assert of(read(lab.node(), set(), set())["users"], "wei") == {
        "name": "wei",
        "uid": 1001,
        "gid": 1001,
        "gecos": "Wei Chen",
        "home": "/home/wei",
        "home_mount": "/home",
        "home_on_root_disk": False,
        "shell": "/usr/bin/zsh",
        "groups": ["docker", "lab"],
        "password": "set",
        "expires": "2026-03-31",
        "linger": True,
        "subuid": [{"first": 100000, "count": 65536}, {"first": 300000, "count": 10}],
        "subgid": [{"first": 100000, "count": 65536}],
    }


@pytest.mark.parametrize(
    ("name", "password"),
    [("root", "locked"), ("old", "set"), ("mia", "locked"), ("slurm", "empty"), ("daemon", "unknown")],
)
def test_a_password_is_told_by_a_word(lab, name, password):
    users = read(lab.node(), {0, 1, 64, 501}, set())["users"]
    assert of(users, name)["password"] == password


def test_an_old_hash_in_passwd(lab):
    lab.file("/etc/passwd", f"wei:{CANARY}:1001:1001::/home/wei:/bin/sh\n").file(people.SHADOW, "")
    found = read(lab.node(), set(), set())
    assert of(found["users"], "wei")["password"] == people.SET
    assert CANARY not in json.dumps(found)


def test_no_hash_is_returned(lab):
    everybody = set(range(3000))
    assert CANARY not in json.dumps(read(lab.node(), everybody, everybody))


def test_groups_are_those_of_people_those_that_own_files_and_those_of_users(lab):
    assert names(read(lab.node(), set(), {44})["groups"]) == ["docker", "users", "video", "lab"]
    assert names(read(lab.node(), {501}, set())["groups"]) == ["docker", "old", "users", "lab"]


def test_numbers_without_a_name(lab):
    lab.file(people.SUBUID, "wei:100000:65536\n")
    found = read(lab.node(), {0, 1001, 4242, 100033}, {4243})
    assert found["unnamed"] == [
        {"kind": "user", "id": 4242, "of": None},
        {"kind": "user", "id": 100033, "of": "wei"},
        {"kind": "group", "id": 4243, "of": None},
    ]
    assert found["directory"]["answered"] is None


def joined(lab):
    lab.file(
        people.NSSWITCH, "passwd: files systemd sss [NOTFOUND=return] winbind # ldap\ngroup:\tfiles sss\nhosts: dns\n"
    )
    lab.file(people.SSSD, f"[sssd]\nservices = nss\n[domain/lab.example]\nldap_default_authtok = {CANARY}\n")
    return lab.file(people.KERBEROS, "[libdefaults]\n default_realm = LAB.EXAMPLE\n")


def test_names_of_a_directory(lab):
    joined(lab).prints("getent passwd 70001 70002", "ada:*:70001:70001:Ada:/home/ada:/bin/bash\n")
    lab.prints("getent group", "staff:*:70001:\n")
    found = read(lab.node(), {0, 70001, 70002}, {70001})
    assert found["directory"] == {
        "services": ["sss", "winbind"],
        "domains": ["lab.example"],
        "realm": "LAB.EXAMPLE",
        "names": [
            {"kind": "user", "id": 70001, "name": "ada"},
            {"kind": "group", "id": 70001, "name": "staff"},
        ],
        "answered": True,
    }
    assert found["unnamed"] == [{"kind": "user", "id": 70002, "of": None}]
    assert CANARY not in json.dumps(found)


def test_a_directory_that_does_not_answer(lab):
    found = read(joined(lab).node(), {70001}, set())
    assert found["directory"]["answered"] is False
    assert found["unnamed"] == [{"kind": "user", "id": 70001, "of": None}]


def test_a_directory_is_asked_only_for_what_the_files_do_not_name(lab):
    assert read(joined(lab).node(), {0, 501}, {0})["directory"]["answered"] is None


def test_a_node_without_any_of_the_files(tree):
    assert read(tree.node(), set(), set()) == {
        "users": [],
        "groups": [],
        "unnamed": [],
        "directory": {"services": [], "domains": [], "realm": None, "names": [], "answered": None},
    }


def test_damaged_files(lab):
    for path in (people.SHADOW, people.GROUP, people.SUBUID, people.SUBGID, people.LOGIN_DEFS):
        lab.file(
            path, b":::\xff::::::::\n\nwei:x:\xb2:" + b"9" * 5000 + b":a:b:c:99999999999:\n" + b"UID_MIN 99999999999\n"
        )
    json.dumps(read(lab.node(), {0}, {0}))

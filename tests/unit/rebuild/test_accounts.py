"""Accounts get the numbers that they had, and nobody of the new system is lost."""

import pytest
from ansible_collections.gpulab.node.plugins.module_utils.core.refusal import Refusal
from ansible_collections.gpulab.node.plugins.module_utils.rebuild import accounts

ROOT = "root:x:0:0:root:/root:/bin/bash\n"
ROOT_GROUP = "root:x:0:\nshadow:x:42:\n"
WEI = "wei:x:1000:1000:Wei,,,:/home/wei:/usr/bin/zsh\n"
HASH = "$y$j9T$salt$hash"


def node(**more):
    return accounts.Node(**{"host": "node07", "user": "root", "has_shell": lambda _shell: True, **more})


def files(passwd="", group="", shadow="", **more):
    """Return the files by path; gshadow, subuid and subgid by name."""
    found = {
        accounts.PASSWD: ROOT + passwd,
        accounts.GROUP: ROOT_GROUP + group,
        accounts.SHADOW: "root:*:20000:0:99999:7:::\n" + shadow,
        accounts.GSHADOW: "root:*::\nshadow:*::\n" + more.pop("gshadow", ""),
    }
    return {**found, **{f"/etc/{name}": text for name, text in more.items()}}


def after(now, plan):
    return {**now, **plan.texts}


def ids(text):
    return {line.split(":")[0]: int(line.split(":")[2]) for line in text.splitlines()}


CAPTURED = files(WEI, "wei:x:1000:\nusers2:x:2000:wei\n", f"wei:{HASH}:20000:0:99999:7:::\n", gshadow="wei:!::\n")


def test_a_captured_account_comes_back_whole():
    now = files()
    plan = accounts.plan(now, CAPTURED, node())
    found = after(now, plan)
    assert WEI in found[accounts.PASSWD]
    assert f"wei:{HASH}:20000:0:99999:7:::\n" in found[accounts.SHADOW]
    assert "users2:x:2000:wei\n" in found[accounts.GROUP]
    assert (plan.uids, plan.gids, plan.lacking) == ({}, {}, [])
    assert "wei" in plan.whole


def test_a_second_run_changes_nothing():
    now = files("debian:x:1000:1000::/home/debian:/bin/bash\n", "debian:x:1000:\n", "debian:!:1::::::\n")
    found = after(now, accounts.plan(now, CAPTURED, node(user="debian")))
    again = accounts.plan(found, CAPTURED, node(user="debian"))
    assert (again.texts, again.uids, again.gids) == ({}, {}, {})


@pytest.mark.parametrize(
    ("passwd", "group", "moved"),
    [
        (
            "debian:x:1000:1000::/home/debian:/bin/bash\n",
            "debian:x:1000:\n",
            {1000: 1001},
        ),  # a person's number is taken
        ("wei:x:1001:1001::/home/wei:/bin/bash\n", "wei:x:1001:\n", {1001: 1000}),  # the same name with another number
        (  # two who change places
            "wei:x:1001:1001::/home/wei:/bin/sh\nli:x:1000:1000::/home/li:/bin/sh\n",
            "wei:x:1001:\nli:x:1000:\n",
            {1001: 1000, 1000: 1002},
        ),
    ],
)
def test_numbers_that_collide_are_changed_with_their_files(passwd, group, moved):
    now = files(passwd, group)
    plan = accounts.plan(now, CAPTURED, node())
    assert (plan.uids, plan.gids) == (moved, moved)
    found = ids(after(now, plan)[accounts.PASSWD])
    assert found["wei"] == 1000
    assert len(set(found.values())) == len(found)


def test_no_account_of_the_new_system_goes():
    now = files("tss:x:101:101::/:/sbin/nologin\n", "tss:x:101:\n")
    found = after(now, accounts.plan(now, CAPTURED, node()))
    assert "tss:x:101:101::/:/sbin/nologin\n" in found[accounts.PASSWD]


def test_a_system_account_gives_way_and_stays_one():
    captured = files("munge:x:101:101::/nonexistent:/usr/sbin/nologin\n", "munge:x:101:\n")
    now = files("tss:x:101:101::/:/sbin/nologin\n", "tss:x:101:\n")
    found = after(now, accounts.plan(now, captured, node()))
    assert ids(found[accounts.PASSWD]) == {"root": 0, "tss": 999, "munge": 101}
    assert "tss:x:999:999:" in found[accounts.PASSWD]


def test_an_account_does_not_get_the_files_of_a_number_without_a_name():
    now = files("tss:x:998:998::/:/sbin/nologin\n", "tss:x:998:\n")
    reserved = (frozenset({998}), frozenset())
    assert accounts.plan(now, CAPTURED, node()).uids == {}
    assert accounts.plan(now, CAPTURED, node(reserved=reserved)).uids == {998: 999}


def test_root_stays_root():
    captured = files("toor:x:0:0::/root:/bin/sh\n")
    captured[accounts.PASSWD] = captured[accounts.PASSWD].replace("root:x:0:0", "root:x:7:7", 1)
    assert ids(after(files(), accounts.plan(files(), captured, node()))[accounts.PASSWD])["root"] == 0


def test_no_free_number_is_refused():
    full = "".join(f"s{number}:x:{number}:0::/:/bin/false\n" for number in range(100, 1000))
    captured = files("munge:x:100:0::/:/bin/false\n")
    with pytest.raises(Refusal, match="R041"):
        accounts.plan(files(full), captured, node())


@pytest.mark.parametrize(("same", "shell"), [(True, "/bin/captured"), (False, "/bin/new")])
def test_a_system_account_of_another_release_is_as_that_has_it(same, shell):
    now = files("daemon:x:1:0::/:/bin/new\n")
    captured = files("daemon:x:2:0::/:/bin/captured\n")
    found = after(now, accounts.plan(now, captured, node(same_release=same)))[accounts.PASSWD]
    assert f"daemon:x:2:0::/:{shell}\n" in found


# Who Ansible connects as


def test_a_shell_that_is_not_there_yet_locks_nobody_out():
    now = files("wei:x:1000:1000::/home/wei:/bin/bash\n", "wei:x:1000:\n")
    without = node(user="wei", has_shell=lambda shell: shell != "/usr/bin/zsh")
    plan = accounts.plan(now, CAPTURED, without)
    assert ":/home/wei:/bin/bash\n" in after(now, plan)[accounts.PASSWD]
    assert plan.lacking == [("wei", "its shell /usr/bin/zsh is not there yet")]
    assert "wei" not in plan.whole
    later = accounts.plan(after(now, plan), CAPTURED, node(user="wei"))
    assert ":/usr/bin/zsh\n" in later.texts[accounts.PASSWD]


def test_an_account_that_has_expired_stays_open_for_the_connection():
    captured = {**CAPTURED, accounts.SHADOW: f"wei:{HASH}:20000:0:99999:7::20100:\n"}
    found = after(files(), accounts.plan(files(), captured, node(user="wei", today=20200)))
    assert f"wei:{HASH}:20000:0:99999:7:::\n" in found[accounts.SHADOW]
    other = after(files(), accounts.plan(files(), captured, node(today=20200)))
    assert ":20100:\n" in other[accounts.SHADOW]


# What people did after the rebuild


def test_what_people_changed_since_stays():
    now = files(WEI.replace("zsh", "fish"), "wei:x:1000:\nusers2:x:2000:\n", "wei:$new:1::::::\n", gshadow="wei:!::\n")
    done = node(restored={"root", "wei"}, restored_groups={"wei", "users2", "root", "shadow"})
    assert accounts.plan(now, CAPTURED, done).texts == {}
    first = after(now, accounts.plan(now, CAPTURED, node()))
    assert "$new" not in first[accounts.SHADOW]
    assert "users2:x:2000:wei\n" in first[accounts.GROUP]


def test_who_was_removed_since_does_not_come_back():
    done = node(restored={"root", "wei"}, restored_groups={"wei", "users2", "root", "shadow"})
    assert accounts.plan(files(), CAPTURED, done).texts.keys() <= {accounts.GSHADOW}


# Ranges for containers


@pytest.mark.parametrize(
    ("now", "captured", "found"),
    [
        ("", "wei:100000:65536\n", "wei:100000:65536\n"),
        ("wei:165536:65536\n", "wei:100000:65536\n", "wei:100000:65536\n"),
        ("debian:100000:65536\n", "wei:100000:65536\n", "debian:165536:65536\nwei:100000:65536\n"),
        ("debian:100000:65536\n", "wei:165536:65536\n", "debian:100000:65536\nwei:165536:65536\n"),
        ("# said\n", "wei:100000:1\nwei:300000:1\n", "wei:100000:1\nwei:300000:1\n# said\n"),
    ],
)
def test_ranges_come_back_and_never_overlap(now, captured, found):
    plan = accounts.plan(files(subuid=now), files(subuid=captured), node())
    assert plan.texts.get(accounts.SUBUID, now) == found
    again = accounts.plan(files(subuid=found), files(subuid=captured), node())
    assert accounts.SUBUID not in again.texts


def test_lines_that_are_no_accounts_stay_and_are_named():
    now = files("+::::::\n")
    captured = files("+@lab::::::\n")
    plan = accounts.plan(now, captured, node())
    assert after(now, plan)[accounts.PASSWD].endswith("+::::::\n")
    assert plan.lacking == [("+@lab", "/etc/passwd had a line that is no account")]


def test_an_account_without_a_captured_password_is_locked():
    captured = {**CAPTURED, accounts.SHADOW: ""}
    plan = accounts.plan(files(), captured, node())
    assert "wei:!:::::::\n" in plan.texts[accounts.SHADOW]
    assert plan.lacking == [("wei", "its password was not captured; it is locked")]

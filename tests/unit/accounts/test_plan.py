"""What has to be done for the people of an inventory, and what is refused before the first change."""

import time
from dataclasses import replace
from datetime import date

import pytest
from ansible_collections.gpulab.node.plugins.module_utils.accounts import plan, wanted
from ansible_collections.gpulab.node.plugins.module_utils.accounts.differences import differences
from ansible_collections.gpulab.node.plugins.module_utils.accounts.plan import Found, Step
from ansible_collections.gpulab.node.plugins.module_utils.accounts.slurm_jobs import SlurmJobs
from ansible_collections.gpulab.node.plugins.module_utils.core.account_files import Group, User

from .making import DSA, ED25519, OTHER, PRIVATE, RSA_1024, RSA_2048

TODAY = date(2026, 11, 28)
ADA = {"name": "ada", "uid": 20001, "groups": ["vision"], "keys": [ED25519]}
BEN = {"name": "ben", "uid": 20002}
VISION = {"name": "vision", "gid": 21000}


def user(name, uid, home=None):
    return User(name, "x", uid, uid, "", home or f"/home/{name}", "/bin/bash")


def group(name, gid, *members):
    return Group(name, "x", gid, members)


def node(*users, groups=(), **further):
    """Return a node with these accounts, each with its own group and its home, whose numbers are reserved."""
    known = [*groups, *(group(one.name, one.gid) for one in users)]
    made = Found(
        users={one.name: one for one in users},
        groups={one.name: one for one in known},
        expires={one.name: None for one in users},
        homes=frozenset(one.name for one in users),
        reserved={one.name: [one.uid] for one in users},
    )
    return replace(made, **further)


def lists(*people, groups=(VISION,), **further):
    return wanted.parse(groups, people, **further)


def refused(people, found=None, groups=(VISION,)):
    refusal = plan.refusal(lists(*people, groups=groups), found or Found(), TODAY)
    return (refusal.code, refusal.cause) if refusal else None


def test_somebody_new_gets_everything_in_order():
    assert plan.steps(lists({**ADA, "until": "2026-12-31"}), Found()) == [
        Step("reserve", "ada", "20001"),
        Step("group", "vision", "21000"),
        Step("group", "ada", "20001"),
        Step("account", "ada", "20001"),
        Step("home", "ada"),
        Step("join", "ada", "vision"),
        Step("expire", "ada", "20819"),
        Step("keys", "ada", f"{ED25519}\n"),
    ]


def test_the_day_after_the_last_one_is_the_first_on_which_nobody_gets_in():
    assert lists({**ADA, "until": "1970-01-01"}).people[0].expires == 1
    assert lists({**ADA, "until": "9999-12-31"}).people[0].expires == 2932897


def test_what_is_as_wanted_is_left():
    found = node(user("ada", 20001), groups=[group("vision", 21000, "ada")], keys={"ada": f"{ED25519}\n"})
    assert plan.steps(lists(ADA), found) == []
    assert refused([ADA], found) is None


@pytest.mark.parametrize(
    ("person", "further", "step"),
    [
        pytest.param({"groups": []}, {}, Step("part", "ada", "vision"), id="left-a-group"),
        pytest.param({"keys": []}, {}, Step("keys", "ada", ""), id="no-key-any-more"),
        pytest.param({"keys": [OTHER]}, {}, Step("keys", "ada", f"{OTHER}\n"), id="another-key"),
        pytest.param(
            {}, {"loose_keys": frozenset({"ada"})}, Step("keys", "ada", f"{ED25519}\n"), id="others-may-write"
        ),
        pytest.param({}, {"expires": {"ada": 5}}, Step("expire", "ada", "-1"), id="does-not-expire-any-more"),
        pytest.param({}, {"homes": frozenset()}, Step("home", "ada"), id="home-is-missing"),
        pytest.param({}, {"homes": frozenset(), "homes_local": False}, None, id="home-is-on-a-server"),
        pytest.param(
            {}, {"homes": frozenset(), "users": {"ada": user("ada", 20001, "/srv/ada")}}, None, id="home-is-elsewhere"
        ),
    ],
)
def test_what_differs_is_put_right_and_nothing_else(person, further, step):
    found = node(user("ada", 20001), groups=[group("vision", 21000, "ada")], keys={"ada": f"{ED25519}\n"})
    assert plan.steps(lists({**ADA, **person}), replace(found, **further)) == ([step] if step else [])


def test_groups_that_the_inventory_does_not_name_are_left():
    found = node(user("ben", 20002), groups=[group("vision", 21000), group("docker", 999, "ben")])
    assert plan.steps(lists(BEN), found) == []


def leaving(**further):
    return node(
        user("ben", 20002),
        groups=[group("vision", 21000)],
        keys={"ben": "key\n"},
        linger=frozenset({"ben"}),
        crontabs=frozenset({"ben"}),
        at_jobs={"ben": ("/var/spool/cron/atjobs/a1",)},
        running={"ben": 2},
        **{"sessions": frozenset({"ben"}), **further},
    )


ENDED = [
    Step("keys", "ben"),
    Step("expire", "ben", "1"),
    Step("linger", "ben"),
    Step("crontab", "ben"),
    Step("at", "ben", "/var/spool/cron/atjobs/a1"),
]


@pytest.mark.parametrize(("leave_now", "end"), [(False, []), (True, [Step("end", "ben")])])
def test_nothing_that_runs_is_ended_without_the_word(leave_now, end):
    list_ = lists({**BEN, "state": "leaving"}, leave_now=leave_now)
    assert plan.steps(list_, leaving()) == [*ENDED, *end]
    assert plan.remaining(list_, leaving()) == ["ben leaves and still runs 2 processes"]


def test_what_logind_knows_nothing_of_is_told_and_not_ended():
    list_ = lists({**BEN, "state": "leaving"}, leave_now=True)
    assert plan.steps(list_, leaving(sessions=frozenset())) == ENDED
    assert plan.remaining(list_, leaving(sessions=frozenset())) == ["ben leaves and still runs 2 processes"]


@pytest.mark.parametrize(
    ("further", "told"),
    [
        ({"running": {"ben": 2}}, "'ben' runs 2 processes"),
        ({"files": {20002: 7}}, "'ben' has 7 files on local disks"),
        ({"crontabs": frozenset({"ben"})}, "'ben' has jobs of cron or at"),
        ({"at_jobs": {"ben": ("a",)}}, "'ben' has jobs of cron or at"),
    ],
)
def test_an_account_goes_only_when_nothing_is_left_of_it(further, told):
    absent = {**BEN, "state": "absent"}
    code, cause = refused([absent], node(user("ben", 20002), **further))
    assert (code, told in cause) == ("U009", True)
    assert plan.steps(lists(absent, groups=()), node(user("ben", 20002))) == [Step("remove", "ben")]
    assert plan.counted(lists(absent), node(user("ben", 20002))) == {20002}


def test_who_is_in_no_list_is_told_and_left():
    found = node(user("ada", 20001), user("old", 1500), user("eve", 20007))
    assert plan.unlisted(lists(ADA), found) == ["eve"]
    assert {step.name for step in plan.steps(lists(ADA), found)} == {"ada", "vision"}


def test_a_home_that_is_not_whole_is_told():
    found = node(user("ada", 20001), user("ben", 20002, "/srv/ben"), unmade=frozenset({"ada", "ben"}))
    assert plan.unmade(lists(ADA, BEN), found) == [
        "/home/ada is root's, so the home of ada was not made whole: look into it, remove it, and run again"
    ]
    assert "home" not in {step.action for step in plan.steps(lists(ADA, BEN), found)}


@pytest.mark.parametrize(
    ("people", "found", "code", "told"),
    [
        ([ADA, {**BEN, "uid": 20001}], None, "U001", "'ada' and 'ben' have the number 20001"),
        ([ADA, {**BEN, "name": "ada"}], None, "U001", "'ada' is named 2 times"),
        ([{**BEN, "uid": 21000}], None, "U001", "'ben' and 'vision' have the number 21000"),
        ([{**BEN, "name": "vision"}], None, "U001", "'vision' is named 2 times"),
        ([{**BEN, "uid": 19999}], None, "U001", "uid 19999 of 'ben' is not from 20000 to 59999"),
        ([{**BEN, "uid": 60000}], None, "U001", "uid 60000 of 'ben'"),
        ([{**BEN, "name": "ben\nroot:x:0:0"}], None, "U001", r"'ben\nroot:x:0:0' cannot be the name"),
        ([{**BEN, "groups": ["sudo"]}], None, "U001", "the group 'sudo', which users_groups does not have"),
        ([BEN], Found(reserved={"cy": [20002]}), "U001", "uid 20002 of 'ben' was 'cy''s, who left"),
        ([BEN], Found(reserved={"cy": [20002]}), "U001", "/var/lib/gpulab/users.json"),
        ([BEN], Found(reserved={"ben": [20009]}), "U001", "'ben' had uid 20009, and has 20002 in the list"),
        (
            [BEN],
            node(user("cy", 20005), reserved={"cy": [20002, 20005]}),
            "U001",
            "uid 20002 of 'ben' was 'cy''s, who left",
        ),
        ([ADA], Found(reserved={"cy": [21000]}), "U001", "gid 21000 of the group 'vision' was 'cy''s, who left"),
        ([BEN], node(user("ben", 1001), files={1001: 17}), "U002", "has uid 1001 here, with 17 files on local disks"),
        ([BEN], node(user("cy", 20002)), "U002", "uid 20002 of 'ben' is 'cy''s here"),
        ([BEN], node(groups=[group("lab", 20002)]), "U002", "gid 20002 of the group 'ben' is 'lab''s here"),
        ([BEN], node(groups=[group("ben", 900)]), "U002", "the group 'ben' has gid 900 here and 20002"),
        ([BEN], node(groups=[group("vision", 900)]), "U002", "the group 'vision' has gid 900 here and 21000"),
        ([{**BEN, "keys": [PRIVATE]}], None, "U003", "key 1 of 'ben' is a private key"),
        ([{**BEN, "keys": [ED25519, DSA]}], None, "U003", "key 2 of 'ben' is a DSA key"),
        ([{**BEN, "keys": [RSA_1024]}], None, "U003", "key 1 of 'ben' is an RSA key of 1024 bits"),
        (
            [{**BEN, "keys": [f'command="rm -r /" {ED25519}']}],
            None,
            "U003",
            "key 1 of 'ben' has options before the key",
        ),
        ([{**BEN, "keys": [f"{ED25519}\n{OTHER}"]}], None, "U003", "key 1 of 'ben' is more than one line"),
        ([{**BEN, "keys": [ED25519[:40]]}], None, "U003", "key 1 of 'ben' is damaged"),
        ([{**BEN, "keys": ["hello"]}], None, "U003", "key 1 of 'ben' is not a public key"),
        ([ADA, {**BEN, "keys": [f"{ED25519} again"]}], None, "U003", "key 1 of 'ben' is a key of 'ada', too"),
        ([{**BEN, "until": "2026-11-27"}], node(user("ben", 20002)), "U004", "until of 'ben' was 2026-11-27"),
        ([{**BEN, "until": "soon"}], None, "U004", "until of 'ben' is no date"),
        ([{**BEN, "state": "leaving", "heir": "cy"}], None, "U005", "'cy', the heir of 'ben', is nobody who stays"),
        ([{**BEN, "heir": "ben"}], None, "U005", "'ben', the heir of 'ben'"),
        ([{**BEN, "state": "leaving"}], Found(came_by=frozenset({"ben"})), "U006", "Ansible came as 'ben'"),
        (
            [BEN],
            node(user("ben", 20002), came_by=frozenset({"ben"}), keys={"ben": "key\n"}),
            "U006",
            "Ansible may have come by a key of 'ben'",
        ),
        (
            [{**BEN, "keys": [OTHER]}],
            node(user("ben", 20002), came_by=frozenset({"ben"}), keys={"ben": f"{ED25519}\n"}),
            "U006",
            "and the list has none of those that are there",
        ),
        (
            [BEN],
            node(user("ben", 20002), groups=[group("vision", 21000, "ben")], came_by=frozenset({"ben"})),
            "U006",
            "Ansible came as 'ben', who would leave the group 'vision'",
        ),
        ([BEN], Found(homes_problem="it is no directory"), "U008", "no homes can be made in /home: it is no directory"),
    ],
)
def test_what_cannot_be_is_refused(people, found, code, told):
    refusal = refused(people, found)
    assert (refusal[0], told in refusal[1]) == (code, True), refusal
    assert "AAAA" not in refusal[1]


@pytest.mark.parametrize(
    ("people", "found"),
    [
        ([ADA, BEN], None),
        ([{**ADA, "keys": [RSA_2048]}], None),
        ([{"name": "old", "uid": 1500}], node(user("old", 1500))),
        ([{**BEN, "until": "2026-11-28"}], None),
        ([{**BEN, "until": "2020-01-01", "state": "leaving"}], None),
        ([BEN], node(user("ben", 20002), homes_problem="it is not there")),
        ([BEN], node(user("ben", 20002), reserved={"bben": [20002]})),
        ([BEN], Found(reserved={"bben": [20002], "ben": [20002]})),
        ([{**BEN, "uid": 20005}], node(user("ben", 20005), reserved={"ben": [20002]})),
        ([ADA], node(groups=[group("vision", 21000)], reserved={"cy": [21000]})),
        ([BEN], node(user("ben", 20002), came_by=frozenset({"ben"}))),
        (
            [{**BEN, "keys": [ED25519, OTHER]}],
            node(user("ben", 20002), came_by=frozenset({"ben"}), keys={"ben": f"{ED25519} old\n"}),
        ),
        ([BEN], node(user("ben", 20002), groups=[group("vision", 21000, "ben")], came_by=frozenset({"ada"}))),
    ],
)
def test_what_can_be_is_not_refused(people, found):
    assert refused(people, found) is None


def test_one_refusal_names_all_that_is_wrong():
    people = [{**ADA, "keys": [DSA], "until": "2020-01-01"}, {**BEN, "uid": 5}]
    code, cause = refused(people, node(user("ada", 20001)))
    assert code == "U011"
    assert all(f"(GPULAB-{code})" in cause for code in ("U001", "U003", "U004"))


def test_a_system_account_is_no_persons_and_its_files_are_not_counted():
    people = lists({"name": "root", "uid": 20001})
    found = node(user("root", 0))
    assert plan.counted(people, found) == set()
    assert plan.refusal(people, found, TODAY).code == "U002"


def test_a_thousand_people_are_planned_in_a_moment():
    people = [{"name": f"p{number}", "uid": number, "groups": ["vision"]} for number in range(22000, 23000)]
    begun = time.process_time()
    assert plan.refusal(lists(*people), Found(), TODAY) is None
    assert len(plan.steps(lists(*people), Found())) == 5001
    assert time.process_time() - begun < 5


def test_a_last_day_that_has_come_refuses_nothing_and_one_in_the_past_that_is_new_to_an_account_does():
    """Else the day after the end of somebody's contract, no node of the lab could be rebuilt, and none could join."""
    ended = {**ADA, "groups": [], "until": "2026-11-27"}
    day = lists(ended).people[0].expires
    assert refused([ended], node(user("ada", 20001), expires={"ada": day})) is None
    assert refused([ended], Found()) is None
    assert Step("expire", "ada", str(day)) in plan.steps(lists(ended), Found())
    for expires in ({"ada": None}, {"ada": 5}):
        assert refused([ended], node(user("ada", 20001), expires=expires))[0] == "U004"


@pytest.mark.parametrize("until", ["2026-11-27", "2027-09-30", None])
def test_somebody_who_leaves_comes_back_by_a_later_day(until):
    """Whatever the last day was: who leaves expires at once, and who stays again ends on the new day, with the keys."""
    left = node(user("ada", 20001), groups=[group("vision", 21000, "ada")], expires={"ada": 1})
    assert plan.steps(lists({**ADA, "state": "leaving", "until": until}), left) == []
    back = plan.steps(lists({**ADA, "until": "2027-12-31"}), left)
    assert back == [Step("expire", "ada", "21184"), Step("keys", "ada", f"{ED25519}\n")]


def test_jobs_that_wait_in_slurm_are_cancelled_and_what_runs_is_told():
    list_ = lists({**BEN, "state": "leaving"})
    found = leaving(jobs={"ben": SlurmJobs(2, ("17",))})
    assert plan.steps(list_, found) == [*ENDED, Step("cancel", "ben", "2")]
    told = [
        "ben leaves and still runs 2 processes",
        "ben leaves and still has jobs of Slurm: 17; run again when they have ended, for one may submit another",
        "ben leaves and still has 2 jobs that wait in Slurm",
    ]
    assert plan.remaining(list_, found) == told
    (_runs, silent) = plan.remaining(list_, leaving(jobs=None))
    assert silent.startswith("ben leaves and Slurm does not answer")
    assert plan.steps(list_, leaving(jobs=None)) == ENDED
    assert Step("cancel", "ben", "2") in plan.steps(lists({**BEN, "state": "absent"}, groups=()), found)


@pytest.mark.parametrize(
    ("people", "found", "differs"),
    [
        pytest.param(
            [ADA], Found(), {"ada": ["has a number that is not reserved", "has no account", "has no home"]}, id="none"
        ),
        pytest.param([{**BEN, "state": "absent"}], node(user("ben", 20002)), {"ben": ["has an account"]}, id="is-back"),
        pytest.param(
            [BEN], node(user("ben", 20005)), {"ben": ["has uid 20005 instead of 20002", "has a number"]}, id="uid"
        ),
    ],
)
def test_what_differs_is_said_in_words(people, found, differs):
    found = differences(lists(*people, groups=()), found)
    assert found.keys() == differs.keys()
    for name, texts in differs.items():
        assert [text[: len(wanted_text)] for text, wanted_text in zip(found[name], texts, strict=False)] == texts

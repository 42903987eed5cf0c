"""Reservations as data: what Slurm is told so that it keeps GPUs and nodes for somebody; its texts are of 24.11."""

import pytest
from ansible_collections.gpulab.node.plugins.module_utils.slurm import reservations

NOW = reservations.moment("2026-12-01T09:00:00")
COURSE = {"name": "course", "start": "2026-12-02T08:00:00", "duration": "04:00:00", "gpus": 2, "groups": ["vision"]}
WEEK = {"name": "week", "start": "2026-12-01T08:00:00", "duration": "7-0", "nodes": ["b", "a"], "users": ["ben", "ada"]}
# scontrol --oneliner show reservation
SHOWN = """\
ReservationName=course StartTime=2026-12-02T08:00:00 EndTime=2026-12-02T12:00:00 Duration=04:00:00 Nodes=a NodeCnt=1 \
CoreCnt=2 Features=(null) PartitionName=gpu Flags=   NodeName=a CoreIDs=0-1 TRES=cpu=2,gres/gpu=2 Users=(null) \
Groups=(null) Accounts=vision Licenses=(null) State=INACTIVE BurstBuffer=(null) MaxStartDelay=(null) Comment=gpulab
ReservationName=week StartTime=2026-12-01T08:07:11 EndTime=2026-12-08T08:00:00 Duration=6-23:52:49 Nodes=[a-b] \
NodeCnt=2 CoreCnt=4 Features=(null) PartitionName=(null) Flags=SPEC_NODES TRES=cpu=4 Users=ada,ben Groups=(null) \
Accounts=(null) Licenses=(null) State=ACTIVE BurstBuffer=(null) MaxStartDelay=(null) Comment=gpulab
ReservationName=theirs StartTime=2026-12-01T08:07:11 EndTime=2026-12-08T08:00:00 Duration=6-23:52:49 Nodes=c \
NodeCnt=1 CoreCnt=4 Features=(null) PartitionName=(null) Flags=SPEC_NODES TRES=cpu=4 Users=eve Groups=(null) \
Accounts=(null) Licenses=(null) State=ACTIVE BurstBuffer=(null) MaxStartDelay=(null)
"""


def there(text=SHOWN):
    return reservations.parse(text, lambda nodes: {"[a-b]": "a\nb\n"}[nodes])


def steps(*entries, text=SHOWN, now=NOW):
    return list(reservations.steps(reservations.wanted(entries), there(text)[0], now))


def test_what_is_as_it_is_to_be_stays():
    assert steps(COURSE, WEEK) == []
    assert there()[1] == {"theirs"}


def test_a_new_one_is_made_and_one_that_should_have_begun_begins_now():
    made = [step.arguments for step in steps(COURSE, WEEK, text="No reservations in the system\n")]
    end, own = "EndTime=2026-12-02T12:00:00", "Comment=gpulab"
    start = "StartTime=2026-12-02T08:00:00"
    assert made[0] == ("create", "ReservationName=course", start, end, "Accounts=vision", "TRES=gres/gpu=2", own)
    assert made[1][2:5] == ("StartTime=now", "EndTime=2026-12-08T08:00:00", "Users=ada,ben")
    assert made[1][5:] == ("Nodes=a,b", own)


def test_one_that_is_over_is_not_made_again():
    assert steps(COURSE, text="", now=reservations.moment("2026-12-02T12:00:00")) == []


def test_who_may_use_it_changes_without_an_end():
    (step,) = steps({**COURSE, "groups": [], "users": ["ada"]}, WEEK)
    assert step.arguments[0] == "update"
    assert {"Users=ada", "Accounts="} <= {*step.arguments}
    assert not any(word.startswith("StartTime") for word in step.arguments)
    (step,) = steps(COURSE, {**WEEK, "duration": "8-0"})
    assert "EndTime=2026-12-09T08:00:00" in step.arguments


def test_another_number_of_gpus_needs_another_reservation():
    assert [step.arguments[0] for step in steps({**COURSE, "gpus": 1}, WEEK)] == ["delete", "create"]


def test_only_gpulabs_own_go():
    assert [step.what for step in steps()] == ["reservation course", "reservation week"]
    assert {step.action for step in steps()} == {"delete"}


@pytest.mark.parametrize(
    ("change", "lacking"),
    [
        ({"gpus": None}, "either nodes or gpus"),
        ({"nodes": ["a"]}, "either nodes or gpus"),
        ({"groups": []}, "users or groups"),
        ({"start": "2026-02-30T08:00:00"}, "a start that the calendar has"),
    ],
)
def test_what_says_too_little_is_named(change, lacking):
    assert list(reservations.problems([COURSE], accounts=True)) == []
    assert list(reservations.problems([{**COURSE, **change}], accounts=True)) == [
        ("slurm_reservations course", lacking)
    ]


def test_groups_need_accounts_and_names_are_of_one():
    assert "slurm_accounts: true" in str(list(reservations.problems([COURSE], accounts=False)))
    assert "a name of its own" in str(list(reservations.problems([COURSE, COURSE], accounts=True)))

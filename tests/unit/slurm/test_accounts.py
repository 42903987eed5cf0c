"""What the accounting is told of the people, from what sacctmgr and squeue print."""

import pytest
from ansible_collections.gpulab.node.plugins.module_utils.core.refusal import Refusal
from ansible_collections.gpulab.node.plugins.module_utils.slurm import accounts, configuration

GROUPS = [{"name": "vision", "gid": 21000}, {"name": "robots", "gid": 21001}]
PEOPLE = [
    {"name": "ada", "uid": 20001, "groups": ["vision"]},
    {"name": "ben", "uid": 20002, "groups": ["robots", "vision"]},
    {"name": "eve", "uid": 20003, "groups": None},
    {"name": "old", "uid": 20004, "groups": ["vision"], "state": "leaving"},
]
USERS = ["ada", "ben", "eve", "old"]
# As sacctmgr of 24.11 prints it where all is as the inventory says.
ANSWERS = {
    "clusters": "lab\n",
    "associations": (
        "lab|root||1||\nlab|root|root|1||\nlab|vision||3||\nlab|robots||1||\nlab|vision|ada|1||\nlab|robots|ben|1||\n"
        "lab|vision|ben|1||\nlab|vision|old|1|0|0\nother|vision|ada|1||\n"
    ),
    "descriptions": "root|default root account\nvision|gpulab\nrobots|gpulab\n",
    "defaults": "root|root\nada|vision\nben|robots\nold|vision\n",
    "limits": "normal|\ngpulab|gres/gpu=2\n",
    "resources": "cpu|\nfs|disk\ngres|gpu\n",
}


def wanted(people=PEOPLE, users=USERS, shares=None, groups=GROUPS, **limits):
    given = {"vision": 3} if shares is None else shares
    return accounts.wanted("head", "lab", groups, people, given, users, **{"gpus_per_user": 2, **limits})


def recorded(**changes):
    answers = {name: text.replace(*changes.get(name, ("", ""))) for name, text in ANSWERS.items()}
    return accounts.parse("lab", answers)


def commands(steps):
    return [" ".join(step.arguments) for step in steps]


def test_where_all_is_so_nothing_is_done():
    assert accounts.steps(wanted(), recorded()) == []


def test_an_empty_accounting_is_told_all_and_limits_wait_for_slurmctld():
    steps = commands(accounts.steps(wanted(interactive=1), accounts.Recorded()))
    assert steps == [
        "add cluster lab",
        "add account vision cluster=lab fairshare=3 description=gpulab",
        "add account robots cluster=lab fairshare=1 description=gpulab",
        "add qos gpulab set flags=DenyOnLimit",
        "add qos gpulab-interactive set flags=DenyOnLimit",
        "add user ada account=vision cluster=lab",
        "add user ben account=robots cluster=lab",
        "add user ben account=vision cluster=lab",
    ]


@pytest.mark.parametrize(
    ("given", "changes", "expected"),
    [
        pytest.param({"shares": {}}, {}, ["modify account where name=vision cluster=lab set fairshare=1"], id="share"),
        pytest.param(
            {"gpus_per_user": 4}, {}, ["modify qos where name=gpulab set maxtresperuser=gres/gpu=4"], id="limit"
        ),
        pytest.param(
            {"gpus_per_user": None}, {}, ["modify qos where name=gpulab set maxtresperuser=gres/gpu=-1"], id="no limit"
        ),
        pytest.param(
            {"people": [*PEOPLE[1:], {"name": "ada", "groups": ["robots"]}]},
            {},
            [
                "add user ada account=robots cluster=lab",
                "modify user where name=ada cluster=lab set defaultaccount=robots",
                "modify user where name=ada account=vision cluster=lab set maxsubmitjobs=0 grpsubmitjobs=0",
            ],
            id="moved",
        ),
        pytest.param(
            {"people": [PEOPLE[0], {**PEOPLE[1], "state": "absent"}, *PEOPLE[2:]]},
            {},
            [
                f"modify user where name=ben account={name} cluster=lab set maxsubmitjobs=0 grpsubmitjobs=0"
                for name in ("robots", "vision")
            ],
            id="left",
        ),
        pytest.param(
            {"people": [*PEOPLE[:3], {"name": "old", "groups": ["vision"]}]},
            {},
            ["modify user where name=old account=vision cluster=lab set maxsubmitjobs=-1 grpsubmitjobs=-1"],
            id="came back",
        ),
        pytest.param({}, {"associations": ("ada|1||", "ada|1|5|")}, [], id="a limit of somebody else's"),
        pytest.param({}, {"associations": ("ada|1||", "ada|1|0|")}, [], id="stopped by somebody else"),
        pytest.param({}, {"limits": ("gres/gpu=2", "cpu=64,gres/gpu=2")}, [], id="a limit beside"),
        pytest.param(
            {"interactive": 0},
            {},
            [
                "add qos gpulab-interactive set flags=DenyOnLimit",
                "modify qos where name=gpulab-interactive set maxtresperuser=gres/gpu=0",
            ],
            id="a QOS for each partition that names one",
        ),
        pytest.param(
            {"groups": GROUPS[:1], "people": [PEOPLE[0], {**PEOPLE[1], "groups": ["vision"]}, *PEOPLE[2:]]},
            {},
            [
                "modify user where name=ben cluster=lab set defaultaccount=vision",
                "modify user where name=ben account=robots cluster=lab set maxsubmitjobs=0 grpsubmitjobs=0",
            ],
            id="a group that is gone",
        ),
        pytest.param({"users": ["ada", "ben"]}, {}, [], id="not on the controller"),
    ],
)
def test_what_differs_is_changed_and_nothing_is_deleted(given, changes, expected):
    assert commands(accounts.steps(wanted(**given), recorded(**changes))) == expected


def test_what_others_made_is_left_alone_and_told():
    theirs = recorded(associations=("lab|root||1||", "lab|physics||1||\nlab|physics|eva|1||\nlab|physics|ada|1||"))
    assert accounts.steps(wanted(), theirs) == []
    assert accounts.left_alone(wanted(users=["ada", "eve", "old"]), theirs) == [
        "users_groups does not name these accounts of Slurm, which were left alone: physics",
        "users_people does not name these users of Slurm, who were left alone: eva",
        "These people are not on the controller yet (gpulab.node.users); Slurm takes no job from them: ben",
        "These people are in no group of users_groups, so Slurm takes no job from them: eve",
    ]


def test_an_account_that_gpulab_made_is_told_when_its_group_is_gone():
    told = accounts.left_alone(wanted(groups=GROUPS[:1]), recorded())
    assert "users_groups does not name these accounts any more, which stay with their hours: robots" in told


@pytest.mark.parametrize(
    ("people", "associations", "expected"),
    [
        (PEOPLE, "", {"ada", "ben"}),
        ([], "lab|vision|ann|1||\nlab|vision|bob|1|0|\nlab|root|root|1||\n", {"ann"}),
        (PEOPLE[2:], "lab|vision|old|1||\n", set()),
    ],
)
def test_who_may_submit_jobs_has_an_account_and_does_not_leave(people, associations, expected):
    known = accounts.parse("lab", {**ANSWERS, "associations": associations})
    assert accounts.admitted(wanted(people=people), known) == expected


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("ClusterName=lab\naccountingstorageenforce = limits,qos\n", True),
        ("#AccountingStorageEnforce=associations\n", False),
        ("AccountingStorageEnforce=nojobs\n", False),
    ],
)
def test_slurm_conf_says_whether_an_account_is_needed(text, expected):
    assert accounts.enforces(configuration.read(text, {})) == expected


@pytest.mark.parametrize(
    ("jobs", "expected"),
    [
        ("ada|vision\nada|(null)\nroot|(null)\nold|vision\n", []),
        ("mallory|(null)\neve|(null)\nada|vision\n", ["eve", "mallory"]),
        ("ada|physics\n", ["ada"]),
    ],
)
def test_nobody_with_a_job_loses_it_to_a_missing_account(jobs, expected):
    assert accounts.stranded(jobs, wanted(), recorded()) == expected
    assert accounts.stranded(jobs.replace("old|vision\n", ""), wanted(), accounts.Recorded()) == expected


def test_a_share_of_no_group_is_refused():
    with pytest.raises(Refusal, match=r"GPULAB-F051 slurm_shares of head names visoin, .* Did you mean vision\?"):
        wanted(shares={"visoin": 2})

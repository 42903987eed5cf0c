"""Months reckoned by hand: whose hours, energy and idleness they were, and what nobody knows."""

import json
from dataclasses import asdict
from datetime import datetime, timezone

import pytest
from ansible_collections.gpulab.node.plugins.action import usage as action
from ansible_collections.gpulab.node.plugins.module_utils.core.refusal import Refusal
from ansible_collections.gpulab.node.plugins.plugin_utils.usage import measured, page, slurm
from ansible_collections.gpulab.node.plugins.plugin_utils.usage.model import Source, Use
from ansible_collections.gpulab.node.plugins.plugin_utils.usage.month import month
from ansible_collections.gpulab.node.plugins.plugin_utils.usage.monthly import Lab, usage

from unit.shapes import misfits

from .months import BERLIN, CONFIG, at, from_prometheus, from_slurm, record, watched

LATER = datetime(2027, 1, 15, tzinfo=timezone.utc)
NOVEMBER = month("2026-11", BERLIN, LATER)
HOSTILE = "<script>alert(1)</script>"


def put_together(records=(), samples=None, *, chosen=NOVEMBER, running="", silent=False, **lab):
    """Return the month of what Slurm and Prometheus say; None says that there is none."""
    jobs, told = (None, []) if records is None else slurm.jobs(from_slurm(*records, running=running))
    nodes, more = (None, []) if samples is None else measured.measured(from_prometheus(**samples), chosen)
    source = Source("all", known=True, text="")
    return usage(chosen, Lab(**{"names": True, **lab}), jobs, nodes, [source], told + more, silent=silent)


def by_name(uses):
    return {use.name: use for use in uses}


@pytest.mark.parametrize(
    ("name", "now", "chosen", "hours"),
    [
        ("2026-03", LATER, "2026-03", 743),  # an hour is left out
        ("2026-10", LATER, "2026-10", 745),  # an hour is there twice
        ("2026-12", LATER, "2026-12", 744),
        ("2024-02", LATER, "2024-02", 696),
        (None, datetime(2026, 12, 1, 5, tzinfo=timezone.utc), "2026-11", 720),
        (None, datetime(2026, 12, 1, 23, 30, tzinfo=timezone.utc), "2026-12", 24.5),  # the second has begun in Berlin
        ("2026-11", datetime(2026, 11, 3, tzinfo=timezone.utc), "2026-11", 49),
    ],
)
def test_a_month_is_that_of_the_lab(name, now, chosen, hours):
    found = month(name, BERLIN, now)
    assert (found.name, found.hours) == (chosen, hours)
    assert found.start == at(f"{chosen}-01T00:00")


@pytest.mark.parametrize(
    ("name", "zone"),
    [("2026-13", BERLIN), ("2026-1", BERLIN), ("2027-02", BERLIN), (None, "Mars/Base"), (None, "../etc")],
)
def test_a_month_that_there_is_not_is_refused(name, zone):
    with pytest.raises(Refusal, match="I030"):
        month(name, zone, LATER)


@pytest.mark.parametrize(
    ("begin", "end", "hours"),
    [
        ("2026-11-03T10:00", "2026-11-03T12:30", 2.5),
        ("2026-10-31T22:00", "2026-11-01T03:00", 3),  # began before
        ("2026-11-30T22:00", "2026-12-02T00:00", 2),  # ended after
        ("2026-10-01T00:00", "2026-12-31T00:00", 720),
        ("2026-10-01T00:00", "2026-10-31T00:00", 0),
        ("2026-11-30T20:00", "Unknown", 4),  # runs still
    ],
)
def test_a_job_is_cut_at_the_months_borders(begin, end, hours):
    found = put_together([record(Start=begin, End=end, AllocTRES="gres/gpu=2,gres/gpu:a100=2")], running="7\n")
    assert found.total.held == 2 * hours


def test_a_month_in_which_the_clock_is_set_back_has_its_hour_twice():
    october = month("2026-10", BERLIN, LATER)
    found = put_together([record(Start="2026-10-25T00:00", End="2026-10-26T00:00")], chosen=october)
    assert found.total.held == 25


@pytest.mark.parametrize(
    ("listed", "names"),
    [
        ("n1", ["n1"]),
        ("gpu[01-03,7],head", ["gpu01", "gpu02", "gpu03", "gpu7", "head"]),
        ("r[1-2]n[1-2]", ["r1n1", "r1n2", "r2n1", "r2n2"]),
        ("odd[x]", ["odd[x]"]),
    ],
)
def test_a_list_of_nodes_is_read_as_slurm_writes_it(listed, names):
    assert slurm.expanded(listed) == names


def test_a_list_without_end_is_cut():
    assert len(slurm.expanded("n[1-999999999]")) == slurm.MOST_NODES


def test_jobs_on_several_nodes_are_divided_and_the_dead_ones_left_out():
    records = [
        record(Start="2026-11-03T10:00", End="2026-11-03T12:00", AllocTRES="gres/gpu:a100=4", NodeList="n[1-2]"),
        record(Start="2026-11-03T10:00", End="2026-11-03T12:00", AllocTRES="cpu=4"),  # no GPU
        record(),  # never began
        record(JobIDRaw="8", Start="2026-11-01T00:00"),  # Slurm runs it no more
        "broken",
    ]
    found = put_together(records)
    assert {node.name: node.held for node in found.nodes} == {"n1": 4, "n2": 4}
    assert found.notes == [
        "1 line of sacct could not be read",
        "1 job without an end that Slurm does not run left out (sacctmgr show runawayjobs)",
    ]


def test_who_has_left_is_still_in_the_month():
    """The account is gone from the node, or the association from Slurm: the record stays."""
    records = [record(User="", UID="20009", Start="2026-11-03T10:00", End="2026-11-03T11:00")]
    found = put_together(records)
    assert (by_name(found.users)["uid 20009"].held, by_name(found.groups)["vision"].held) == (1, 1)


def test_a_shared_gpu_and_an_idle_one_reckoned_by_hand():
    """Ada held a GPU of two for 100 hours and used it for 60; ben used 20 of these with her, without a job.

    The GPUs were used for 60 of 1,440 hours. Nobody's energy is 138 kWh for 1,380 hours; 40 of them are ada's.
    """
    samples = {
        **watched(busy=60),
        "used": [({"instance": "n1", "user": "ada"}, 60), ({"instance": "n1", "user": "ben"}, 20)],
        "kwh": [
            ({"instance": "n1", "user": "ada"}, 30),
            ({"instance": "n1", "user": "ben"}, 5),
            ({"instance": "n1", "user": "nobody"}, 138),
        ],
    }
    records = [record(Start="2026-11-03T00:00", End="2026-11-07T04:00")]
    found = put_together(records, samples, nodes=["n1"], groups={"ben": ["speech"]}, price_kwh=0.5)
    ada, ben = by_name(found.users)["ada"], by_name(found.users)["ben"]
    assert (ada.held, ada.used, ada.idle, ada.kwh, ada.cost) == (100, 60, 40, 34, 17)
    assert (ben.held, ben.used, ben.idle, ben.kwh, ben.cost) == (0, 20, 0, 5, 2.5)
    assert {group.name: group.kwh for group in found.groups} == {"vision": 34, "speech": 5}
    assert (found.total.kwh, found.nobody_kwh, found.nodes[0].kwh) == (39, 134, 173)
    assert found.notes == []


def test_a_person_of_two_accounts_is_divided_as_the_jobs_were():
    records = [
        record(Account="vision", Start="2026-11-03T00:00", End="2026-11-03T03:00"),
        record(Account="speech", Start="2026-11-03T03:00", End="2026-11-03T04:00"),
    ]
    samples = {**watched(busy=4), "used": [({"instance": "n1", "user": "ada"}, 4)]}
    found = put_together(records, samples)
    assert {group.name: group.used for group in found.groups} == {"vision": 3, "speech": 1}


def test_a_gap_in_the_measurement_is_no_idleness():
    """The job held two GPUs for 100 hours, but the node was watched for 10 only, in which its GPUs were idle for 4."""
    samples = {**watched(hours=10, busy=16), "used": [({"instance": "n1", "user": "ada"}, 16)]}
    records = [record(Start="2026-11-03T00:00", End="2026-11-07T04:00", AllocTRES="gres/gpu=2")]
    found = put_together(records, samples, nodes=["n1"])
    assert found.total.idle == 4
    assert found.notes == ["not measured for all of 720 hours: n1 (10). They were down, or not watched."]


def test_a_node_has_one_name_in_slurm_and_in_the_inventory():
    samples = {**watched("n1.lab.example", busy=1), "used": [({"instance": "n1.lab.example", "user": "ada"}, 1)]}
    records = [record(Start="2026-11-03T00:00", End="2026-11-03T01:00")]
    found = put_together(records, samples, nodes=["n1.lab.example", "n2"])
    assert [(node.name, node.held, node.used) for node in found.nodes] == [("n1.lab.example", 1, 1), ("n2", 0, None)]
    assert found.notes == ["not measured: n2. What was used there is not known, and is in no sum."]


def test_what_no_source_says_is_not_zero():
    found = put_together(None, None, nodes=["n1"])
    assert {*asdict(found.total).values(), *asdict(found.nodes[0]).values()} == {"", "n1", None, False}
    held = put_together([record(Start="2026-11-03T00:00", End="2026-11-03T01:00")], None).total
    assert (held.held, held.used, held.idle, held.kwh) == (1, None, None, None)
    used = put_together(None, {**watched(busy=1), "used": [({"instance": "n1", "user": "ada"}, 1)]}).total
    assert (used.held, used.used, used.idle, used.kwh) == (None, 1, None, None)


def test_nodes_of_a_controller_that_does_not_answer_held_nobody_knows_what():
    """Ben works in Slurm on n2, whose controller is silent; nothing is known of his jobs, and he worked."""
    samples = {name: [*values, *watched("n2", busy=5)[name]] for name, values in watched(busy=1).items()}
    samples["used"] = [({"instance": "n1", "user": "ada"}, 1), ({"instance": "n2", "user": "ben"}, 5)]
    records = [record(Start="2026-11-03T00:00", End="2026-11-03T02:00")]
    groups = {"ben": ["speech"]}
    found = put_together(records, samples, nodes=["n1", "n2", "n3"], groups=groups, silent=True)
    assert [(node.held, node.used, node.idle) for node in found.nodes] == [(2, 1, 1), (None, 5, None), (None,) * 3]
    assert {group.name: (group.held, group.idle) for group in found.groups} == {
        "vision": (2, 1),
        "speech": (None, None),
    }
    assert found.notes[0] == "held is not known, and is in no sum: n2, n3. A controller of Slurm did not answer."
    whole = put_together(records, samples, nodes=["n1", "n2", "n3"], groups=groups)
    assert [node.held for node in whole.nodes] == [2, 0, 0]
    assert "held is not known" not in str(whole.notes)


def test_a_controller_that_was_not_reached_is_silent_beside_one_that_was(tmp_path):
    answers = from_slurm(record(Start="2026-11-03T00:00", End="2026-11-03T02:00"))
    results = [{"item": {"key": name}, **answer} for name, answer in answers.items()]
    hostvars = {"reached": {"__usage_slurm": {"results": results}}, "away": {}}
    asked = {"month": asdict(NOVEMBER)}
    settings = {"asked": asked, "nodes": ["n1", "n2"], "people": [], "names": False, "directory": str(tmp_path)}
    for controllers, held in ((["reached"], 0), (["reached", "away"], None)):
        given = {**settings, "server": None, "price_kwh": None, "currency": "", "controllers": controllers}
        action._written(given, hostvars)  # noqa: SLF001
        data = json.loads((tmp_path / "2026-11/usage.json").read_text(encoding="utf-8"))
        assert [node["held"] for node in data["nodes"]] == [2, held]


def test_what_a_group_used_where_nothing_was_measured_is_not_known():
    samples = {**watched(busy=1), "used": [(USER, 1)], "kwh": [(USER, 1)]}
    records = [
        record(Start="2026-11-03T00:00", End="2026-11-03T02:00"),
        record(User="ben", Account="speech", NodeList="n2", Start="2026-11-03T00:00", End="2026-11-03T02:00"),
    ]
    groups = by_name(put_together(records, samples, price_kwh=0.5).groups)
    assert groups["vision"] == Use("vision", held=2, used=1, idle=1, kwh=1, cost=0.5)
    assert groups["speech"] == Use("speech", held=2, used=None, idle=None, kwh=None, cost=None)


@pytest.mark.parametrize(
    ("answers", "why"),
    [
        (from_slurm(config=CONFIG.replace("slurmdbd", "none")), "keeps no accounting"),
        (from_slurm(config=CONFIG.replace(",gres/gpu", "")), "counts no GPUs"),
        (
            from_slurm(jobs="sacct: error: slurmdbd: \x1b[31mdown\nmore"),
            r"no answer \(sacct: error: slurmdbd: .*down\)",
        ),
        ({**from_slurm(), "running": {"rc": 1, "stderr": "x"}}, r"no answer \(x\)"),
        ({}, "could not be reached"),
    ],
)
def test_a_controller_that_does_not_say_what_was_held_says_why(answers, why):
    with pytest.raises(slurm.Unknown, match=why) as unknown:
        slurm.jobs(answers)
    assert str(unknown.value).isprintable()


@pytest.mark.parametrize(
    ("broken", "why"),
    [
        ({}, "could not be reached"),
        ({"msg": "Connection refused", "status": -1}, "Connection refused"),
        ({"json": {"status": "error", "error": "too many samples"}}, "too many samples"),
    ],
)
def test_a_prometheus_that_does_not_answer_says_why(broken, why):
    with pytest.raises(measured.Silent, match=why):
        measured.measured({**from_prometheus(**watched()), "kwh": broken}, NOVEMBER)


def test_a_prometheus_without_the_rules_is_named():
    nodes, told = measured.measured(from_prometheus(), NOVEMBER)
    assert nodes == {}
    assert "monitoring_server.yml brings the rules" in told[0]


USER = {"instance": "n1", "user": "ada"}


@pytest.mark.parametrize(
    ("samples", "kept", "said"),
    [
        ({**watched(gpus=1e6)}, None, "hours cannot be true"),
        ({**watched(hours=1e6)}, None, "hours cannot be true"),
        ({**watched(busy=1e6)}, None, "hours cannot be true"),
        ({**watched(gpus=float("inf"))}, None, "hours cannot be true"),
        ({**watched(), "used": [(USER, 1e9)]}, (1440, None), "more hours than its GPUs"),
        ({**watched(), "used": [(USER, "NaN")]}, (1440, None), "more hours than its GPUs"),
        ({**watched(hours=10), "used": [(USER, 300)]}, (300, None), None),  # the rules of the hours have just come
        ({**watched(hours=10), "used": [(USER, 1e9)]}, (1440, None), "more hours than its GPUs"),
        ({**watched(), "hours": [(USER, 1e-9)], "used": [(USER, 1e9)]}, (23040, None), "more hours than its GPUs"),
        ({**watched(), "kwh": [(USER, 1e9)]}, (0, None), "energy cannot be true"),
        ({**watched(), "kwh": [(USER, -5)]}, (0, None), "energy cannot be true"),
        ({**watched(), "kwh": [(USER, 900)]}, (0, 900), None),
    ],
)
def test_a_node_cannot_say_more_than_can_be(samples, kept, said):
    nodes, told = measured.measured(from_prometheus(**samples), NOVEMBER)
    found = [(node.used.get("ada", 0), node.kwh and node.kwh.get("ada")) for node in nodes.values()]
    assert found == ([] if kept is None else [kept])
    assert [said in line for line in told] == ([True] if said else [])


def test_an_energy_that_is_estimated_is_marked():
    samples = {**watched(), "kwh": [({**USER, "estimated": "yes"}, 3)]}
    found = put_together([], samples)
    assert found.nodes[0].estimated
    assert "estimated kWh" in page.page(found)


def test_what_somebody_is_called_is_text_on_the_page():
    samples = {
        **{name: [({"instance": HOSTILE}, value) for _labels, value in of] for name, of in watched().items()},
        "used": [({"instance": HOSTILE, "user": HOSTILE}, 1)],
    }
    records = [
        record(
            User=HOSTILE, Account=f"{HOSTILE}\x1b[31m", NodeList="n1", Start="2026-11-03T00:00", End="2026-11-03T01:00"
        )
    ]
    found = put_together(records, samples, currency=HOSTILE, price_kwh=1.0)
    text = page.page(found)
    assert HOSTILE not in text
    assert "\x1b" not in text
    assert "&lt;script&gt;alert(1)&lt;/script&gt;" in text
    assert {use.name for use in found.users} == {HOSTILE, "?"}  # a node's name of a person that is none


def test_nobody_is_named_unless_that_is_configured():
    samples = {**watched(busy=1), "used": [(USER, 1)]}
    records = [record(Start="2026-11-03T00:00", End="2026-11-03T01:00")]
    silent = put_together(records, samples, names=False)
    assert silent.users is None
    for text in (str(asdict(silent)), page.page(silent), *page.lines(silent)):
        assert "ada" not in text
    assert "ada" in page.page(put_together(records, samples))


def test_the_data_has_the_form_that_its_schema_says():
    samples = {**watched(busy=1), "used": [(USER, 1)], "kwh": [(USER, 1)]}
    for names in (True, False):
        found = put_together(
            [record(Start="2026-11-03T00:00", End="2026-11-03T01:00")], samples, names=names, price_kwh=0.3
        )
        assert misfits("usage", asdict(found)) == []
    assert misfits("usage", asdict(put_together(None, None, nodes=["n1"]))) == []


def test_a_terminal_is_told_the_sums_and_what_is_not_known():
    found = put_together([record(Start="2026-11-03T00:00", End="2026-11-03T01:00")], None, nodes=["n1"])
    assert list(page.lines(found)) == ["2026-11 (Europe/Berlin): GPU hours 1.0 held, - used, - held idle; - kWh"]


def test_questions_are_in_universal_time_and_ask_for_everybody():
    asked = slurm.questions(NOVEMBER)["jobs"]
    assert [*slurm.questions(NOVEMBER)][-2:] == ["jobs", "running"]
    assert {"--allusers", "--duplicates", "--starttime=2026-10-31T23:00:00", "--endtime=2026-11-30T23:00:00"} <= {
        *asked
    }
    assert {"2592000s" in query["query"] for query in measured.questions(NOVEMBER).values()} == {True}

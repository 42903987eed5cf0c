"""Which ended jobs are put back into the queue, where, how often, and what is told of it."""

from dataclasses import replace

import pytest
from ansible_collections.gpulab.node.plugins.module_utils.slurm import queue
from ansible_collections.gpulab.node.plugins.module_utils.slurm.control import NodeState
from ansible_collections.gpulab.node.plugins.module_utils.watch import judge, retries
from ansible_collections.gpulab.node.plugins.module_utils.watch.retries import Retry

from .test_judge import LOST_GPU, NOW, UP, attempt, reports

ENDED = attempt()
THREE = {name: NodeState(name, name, ("IDLE",), partitions=("gpu",)) for name in ("one", "two", "three")}
JOB = queue.Job(
    number=7, name="7", state="FAILED", restarts=0, start=ENDED.start, batch=True, many=False, requeue=True,
    partitions=("gpu",), count=2, required=(), excluded=(), reason="NonZeroExitCode",
)  # fmt: skip
FINDING = judge.judged(ENDED, UP, reports(troubles=[LOST_GPU]), NOW)


def decided(comment="gpulab:retry=2", **values):
    """Return what is decided on a job that ended because of node two, with what differs."""
    usual = {"finding": FINDING, "of": ENDED, "job": JOB, "nodes": THREE, "before": [], "most": 3, **values}
    finding, of, job, nodes, before, most = usual.values()
    return retries.decide(finding, of, job, comment, nodes, before, most)


def test_a_job_whose_node_failed_is_put_back_and_keeps_away_from_that_node():
    one = decided()
    assert isinstance(one, Retry)
    assert (one.key, one.name, one.number, one.most, one.away, one.why) == (ENDED.key, "7", 1, 2, ["two"], "")


@pytest.mark.parametrize("kind", [judge.PROGRAM, judge.USER, judge.UNKNOWN])
def test_no_job_is_put_back_after_another_cause_than_a_node(kind):
    assert decided(finding=replace(FINDING, kind=kind)) is None


def test_no_job_that_runs_is_put_back():
    for state in ("RUNNING", "COMPLETING", "PENDING", "SUSPENDED", "CANCELLED", "COMPLETED"):
        assert decided(of=replace(ENDED, state=state)) is None
        assert decided(job=replace(JOB, state=state)) is None
    assert decided(finding=replace(FINDING, seen="hang")) is None
    assert decided(job=replace(JOB, restarts=1)) is None  # it is another attempt by now
    assert decided(job=replace(JOB, start=ENDED.start + 1)) is None
    assert decided(of=replace(ENDED, restarts=1)) is None  # the finding is on an earlier one
    assert decided(job=None) is None


@pytest.mark.parametrize(
    "comment",
    ["", "(null)", "N/A", "retry=2", "my gpulab run", "GPULAB:RETRY=2", '{"gpulab": "retry=2"}', "xgpulab:retry=2"],
)
def test_who_did_not_ask_for_it_is_not_told_of_it(comment):
    assert decided(comment) is None


@pytest.mark.parametrize(
    "comment", ["gpulab:retry=2", "paper gpulab:retry=2", "gpulab:retry=2 other:x=1", " gpulab:retry=2 "]
)
def test_other_words_may_stand_beside_it(comment):
    assert decided(comment).most == 2


@pytest.mark.parametrize(
    "comment",
    [
        "gpulab:retry=0", "gpulab:retry=10", "gpulab:retry=-1", "gpulab:retry=02", "gpulab:retry=2.0", "gpulab:retry=",
        "gpulab:retry", "gpulab:retry=2,hung=end", "gpulab:retry=2;", "gpulab:retry=2 gpulab:retry=3",
        "gpulab:retry=2 gpulab:x", "gpulab:retry=\u0662", "gpulab:retry=2\ngpulab:retry=9", "gpulab:retry=2\x1b[31m",
        "gpulab:" + "9" * 500, "gpulab:retry=2 " + "x" * 500,
    ],
)  # fmt: skip
def test_what_is_not_understood_is_told_and_does_nothing(comment):
    assert decided(comment) == retries.UNREADABLE


def test_the_owner_and_the_cluster_bound_how_often():
    assert decided(of=replace(ENDED, restarts=2), job=replace(JOB, restarts=2), finding=again(2)) == (
        "it is not put back: it was started again 2 times, and may be 2 times"
    )
    assert decided("gpulab:retry=9", most=2).most == 2
    assert "slurm_watch_retries_most" in decided(most=0)
    assert decided("", most=0) is None


def again(restarts, **values):
    """Return the finding on a later attempt of the job."""
    return replace(FINDING, key=replace(ENDED, restarts=restarts).key, **values)


def test_an_attempt_is_put_back_once_and_what_gpulab_did_counts():
    first = decided()
    assert decided(before=[first]) is None
    forgotten = replace(first, key="7.0.1")  # Slurm says that there was no restart
    assert "1 times" in decided("gpulab:retry=1", before=[forgotten])


def test_a_job_of_another_day_with_the_same_number_inherits_no_verdict():
    """Slurm gives numbers again when it has lost its state."""
    old = replace(decided(), key="7.0.1", time=NOW - judge.REMEMBERED - 1, nodes=["one"])
    assert decided("gpulab:retry=1", before=[old]).number == 1
    assert decided("gpulab:retry=1", before=[replace(old, time=NOW - 60, uid=2001)]).number == 1


def test_the_same_cause_on_another_node_speaks_for_the_program():
    first = replace(decided(), nodes=["one"], key="7.0.1")
    later = {"of": replace(ENDED, restarts=1), "job": replace(JOB, restarts=1)}
    assert "the same happened on one" in decided(before=[first], finding=again(1), **later)
    assert decided(before=[replace(first, nodes=["two"])], finding=again(1), **later).number == 2
    assert decided(before=[replace(first, cause="another")], finding=again(1), **later).number == 2


@pytest.mark.parametrize(
    ("values", "word"),
    [({"batch": False}, "script"), ({"many": True}, "parts"), ({"requeue": False}, "--no-requeue")],
)
def test_what_slurm_cannot_put_back_is_told_and_not_tried(values, word):
    assert word in decided(job=replace(JOB, **values))


def test_where_too_few_nodes_are_left_none_is_left_out():
    for nodes in (
        UP,
        {**THREE, "three": replace(THREE["three"], states=("IDLE", "DRAIN"))},
        {**THREE, "three": replace(THREE["three"], states=("DOWN",))},
        {**THREE, "three": replace(THREE["three"], partitions=("other",))},
        {**THREE, "three": replace(THREE["three"], build=("2", "1000", ""))},
    ):
        one = decided(nodes=nodes)
        assert (one.away, one.why) == ([], "too few other nodes are left to keep it away from two")
    assert decided(job=replace(JOB, excluded=("three",))).away == []
    named = decided(job=replace(JOB, required=("two",)))
    assert (named.away, named.why) == ([], "it asks for two by name")


def test_only_nodes_of_the_job_are_left_out():
    one = decided(finding=replace(FINDING, nodes=["two", "three", "nowhere"]))
    assert one.away == ["two"]


def row(**values):
    """Return a line of squeue on one job."""
    usual = {
        "JobID": "12", "ArrayJobID": "N/A", "ArrayTaskID": "N/A", "HetJobID": "N/A", "State": "FAILED",
        "RestartCnt": "1", "StartTime": "2026-11-29T06:21:11", "BatchFlag": "1",
        "Requeue": "1", "Partition": "gpu,big", "NumNodes": "2",
        "ReqNodes": "gpu[01-02]", "Reason": "None",
    }  # fmt: skip
    return "".join({**usual, **values}[name].ljust(size) for name, size in queue.COLUMNS.items())


def test_what_slurm_says_of_one_job_is_read():
    job = queue.parse(f"{row(JobID='11')}\n{row()}\n", 12)
    assert (job.name, job.state, job.restarts, job.batch, job.many, job.requeue) == (
        "12",
        "FAILED",
        1,
        True,
        False,
        True,
    )
    assert (job.partitions, job.count, job.required, job.excluded) == (("gpu", "big"), 2, ("gpu01", "gpu02"), ())
    assert queue.parse(row(), 13) is None
    assert queue.parse("", 12) is None


def test_of_an_array_only_the_one_task_is_named():
    assert queue.parse(row(ArrayJobID="10", ArrayTaskID="3"), 12).name == "10_3"
    assert queue.parse(row(ArrayJobID="10", ArrayTaskID="4-9%2"), 12) is None  # tasks that wait have one line
    assert queue.parse(row(HetJobID="12"), 12).many


class Slurm:
    """A stand-in for squeue and scontrol, with one job; it does what Slurm 24.11 did in the lab."""

    def __init__(self, **values):
        """Let the job have failed; values are columns that differ."""
        self.columns = {
            "State": "FAILED",
            "RestartCnt": "0",
            "JobID": "7",
            "NumNodes": "2",
            "Partition": "gpu",
            **values,
        }
        self.comment, self.excluded = "gpulab:retry=2", "(null)"
        self.calls, self.errors, self.after = [], {}, {}

    def ask(self, argv):
        """Answer a command."""
        words = list(argv)
        if words[0] == "squeue":
            other = {"--Format=Comment:256": self.comment, "--format=%x": f"{self.excluded}\n"}
            return 0, other.get(words[-1]) or row(**self.columns), ""
        self.calls.append(" ".join(words[1:]))
        if words[1] in self.errors:
            return self.errors[words[1]]
        if words[1] == "requeue":
            self.columns |= {"State": "PENDING", "RestartCnt": "1", "StartTime": "2026-11-29T06:25:11"} | self.after
        else:
            self.excluded = words[-1].partition("=")[2]
        return 0, "", ""

    @property
    def job(self):
        """Return the job as it is now."""
        return queue.parse(row(**self.columns), 7)

    def retry(self, **values):
        """Return the decision to put the job back."""
        of = attempt(start=self.job.start)
        found = replace(FINDING, key=of.key)
        return replace(decided(self.comment, finding=found, of=of, job=self.job), **values)


def test_a_job_is_put_back_and_then_kept_from_the_node():
    slurm = Slurm()
    slurm.excluded = "five"
    assert (
        retries.carry_out(slurm.retry(), slurm.ask) == "it was put back into the queue (1 of 2) and keeps away from two"
    )
    assert slurm.calls == ["requeue 7", "update jobid=7 ExcNodeList=five,two"]


def test_who_finds_it_done_does_not_do_it_again():
    slurm = Slurm()
    retry = slurm.retry()
    retries.carry_out(retry, slurm.ask)
    slurm.calls.clear()
    assert retries.carry_out(retry, slurm.ask).endswith("keeps away from two")
    slurm.excluded = "(null)"  # it was killed between the two
    assert retries.carry_out(retry, slurm.ask).endswith("keeps away from two")
    assert slurm.calls == ["update jobid=7 ExcNodeList=two"]
    slurm.columns |= {"State": "RUNNING"}
    slurm.excluded = "(null)"
    slurm.calls.clear()
    assert "may get two again" in retries.carry_out(retry, slurm.ask)
    assert slurm.calls == []


@pytest.mark.parametrize(
    "values", [{"State": "RUNNING"}, {"State": "COMPLETING"}, {"JobID": "8"}, {"StartTime": "2026-11-29T07:00:00"}]
)
def test_a_job_that_is_no_longer_what_was_decided_on_is_left(values):
    slurm = Slurm()
    retry = slurm.retry()
    slurm.columns |= values
    assert retries.carry_out(retry, slurm.ask) == ("" if "JobID" in values else retries.LOST)
    assert slurm.calls == []


def test_what_slurm_refuses_is_told_and_what_it_does_not_answer_is_asked_again():
    slurm = Slurm()
    slurm.errors = {"requeue": (1, "", "Requested operation is presently disabled for job 7\n")}
    assert retries.carry_out(slurm.retry(), slurm.ask) == (
        "Slurm did not put it back: Requested operation is presently disabled for job 7"
    )
    slurm.errors = {"requeue": None}
    assert retries.carry_out(slurm.retry(), slurm.ask) == ""
    assert retries.carry_out(slurm.retry(), lambda _argv: None) == ""
    slurm.errors = {"update": (1, "", "Invalid node name specified")}
    assert "may get two again" in retries.carry_out(slurm.retry(), slurm.ask)


@pytest.mark.parametrize(
    "after", [{"Reason": "JobHeldAdmin"}, {"Reason": "launch failed requeued held"}, {"State": "SPECIAL_EXIT"}]
)
def test_a_job_that_waits_held_is_told_with_the_command(after):
    slurm = Slurm()
    slurm.after = after
    assert retries.carry_out(slurm.retry(), slurm.ask).endswith("; it is held: scontrol release 7 lets it start")


def test_where_no_node_is_left_out_that_is_told():
    slurm = Slurm()
    told = retries.carry_out(slurm.retry(away=[], why="too few"), slurm.ask)
    assert told == "it was put back into the queue (1 of 2) and may get the same nodes: too few"
    assert slurm.calls == ["requeue 7"]

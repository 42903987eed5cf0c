"""The controller's half of a long step, with a node that is played and a clock that is turned by hand."""

import pytest
from ansible_collections.gpulab.node.plugins.module_utils.core.refusal import Refusal
from ansible_collections.gpulab.node.plugins.plugin_utils.progress.long_step import (
    RECONNECT_TIMEOUT,
    LongStep,
    UnansweredError,
    follow,
)

STEP = LongStep("try", ["make"], timeout=60)


def status(state, **values):
    return {
        "state": state,
        "rc": None,
        "seconds": 1.0,
        "line": "cc",
        "tail": ["cc"],
        "log": "/log",
        "detail": "",
        **values,
    }


class Node:
    """Answers with what it was given, one answer a call; an exception is raised."""

    def __init__(self, *answers):
        """Take what to answer; the last one is repeated."""
        self.answers = list(answers)
        self.asked = []
        self.reports = []
        self.now = 0.0

    def ask(self, args):
        """Answer a module call; a poll takes the time it waits."""
        self.asked.append(args)
        if args["operation"] == "acknowledge":
            return {}
        self.now += args.get("wait", 0)
        answer = self.answers.pop(0) if len(self.answers) > 1 else self.answers[0]
        if isinstance(answer, Exception):
            raise answer
        return {"found": "started", **answer}

    def sleep(self, seconds):
        """Turn the clock."""
        self.now += seconds

    def follow(self, **options):
        """Follow the step on this node."""
        report = lambda *said: self.reports.append(said)  # noqa: E731
        return follow(STEP, self.ask, report, clock=lambda: self.now, sleep=self.sleep, **options)

    def operations(self):
        """Return what was asked for, in order."""
        return [args["operation"] for args in self.asked]


def test_a_step_is_started_polled_and_acknowledged():
    node = Node(status("running"), status("running", line="ld"), status("finished", rc=0))
    outcome = node.follow()
    assert (outcome.rc, outcome.found) == (0, "started")
    assert node.operations() == ["start", "poll", "poll", "acknowledge"]
    assert node.reports == [(1.0, "cc"), (1.0, "ld")]


def test_a_short_step_needs_no_poll():
    node = Node(status("finished", rc=1))
    assert node.follow().rc == 1
    assert node.operations() == ["start", "acknowledge"]


def test_an_end_that_is_the_callers_to_acknowledge_is_left_to_him():
    node = Node(status("finished", rc=0))
    node.follow(acknowledge=False)
    assert node.operations() == ["start"]


def test_polls_become_rarer():
    node = Node(*[status("running", seconds=seconds) for seconds in (1, 6, 20, 1000)], status("finished", rc=0))
    node.follow()
    assert [args["wait"] for args in node.asked if args["operation"] == "poll"] == [5, 6, 20, 30]


def test_a_dropped_connection_is_outlived_and_told():
    node = Node(status("running"), UnansweredError("broken pipe"), UnansweredError("refused"), status("finished", rc=0))
    assert node.follow().rc == 0
    assert ["broken pipe" in line for _seconds, line in node.reports] == [False, True, False]


def test_a_node_that_stays_away_is_given_up_but_not_acknowledged():
    node = Node(status("running"), UnansweredError("no route"))
    with pytest.raises(Refusal) as refused:
        node.follow()
    assert refused.value.code == "S007"
    assert "no route" in refused.value.cause
    assert RECONNECT_TIMEOUT <= node.now < RECONNECT_TIMEOUT + 30
    assert "acknowledge" not in node.operations()


def test_each_answer_gives_a_node_new_time():
    away = [UnansweredError("away")] * 20
    node = Node(status("running"), *away, status("running"), *away, status("running"), *away, status("finished", rc=0))
    assert node.follow().rc == 0
    assert node.now > RECONNECT_TIMEOUT


@pytest.mark.parametrize(
    ("end", "code", "word"),
    [
        (status("timeout"), "S005", "60 s"),
        (status("interrupted", detail="oom-kill"), "S006", "oom-kill"),
        (status("absent"), "S006", "absent"),
    ],
)
def test_an_end_without_a_result_is_a_refusal_with_the_log(end, code, word):
    node = Node(status("running"), end)
    with pytest.raises(Refusal) as refused:
        node.follow()
    assert refused.value.code == code
    assert word in refused.value.cause
    assert "/log" in refused.value.remedy
    assert node.operations()[-1] == "acknowledge"

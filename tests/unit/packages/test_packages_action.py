"""What the action does with what the node answers; the node is played."""

from types import SimpleNamespace

import pytest
from ansible_collections.gpulab.node.plugins.action import packages as action
from ansible_collections.gpulab.node.plugins.module_utils.core.refusal import Refusal
from ansible_collections.gpulab.node.plugins.plugin_utils.progress.long_step import StepOutcome
from ansible_collections.gpulab.node.plugins.plugin_utils.refusals import refuse

TRANSACTION = {"argv": ["apt-get", "install", "x"], "diff": {"before": "", "after": "x 1\n"}, "keep": ""}
PREPARED = {"changed": True, "transaction": TRANSACTION}
STALE = {"changed": True, "update": ["apt-get", "update"], "lock_holder": None}
LOCKED = {"changed": True, "update": None, "lock_holder": "A"}
FAILURE = {"code": "H052", "cause": "a package's installation script failed.", "remedy": "Read it."}
BROUGHT = {"failure": FAILURE, "undo": ["x", "y"], "script": "dpkg --remove x y"}
OK = StepOutcome(0, 1.0, [], "/log", "started")
BAD = StepOutcome(100, 1.0, [], "/log", "started")


class Played(action.ActionModule):
    """The action with a node that answers from a table and steps that end as told."""

    def __init__(self, answers, *, check_mode=False, **steps):
        """answers: by operation, the last one repeated. steps: by name, an outcome or a refusal."""
        self.answers = {key: list(value) if isinstance(value, list) else [value] for key, value in answers.items()}
        self._task = SimpleNamespace(check_mode=check_mode)
        self.steps = steps
        self.asked, self.ran, self.said, self.picked_up = [], [], [], []

    def call_module(self, name, args):
        """Answer a module call."""
        assert name == "packages"
        self.asked.append(args["operation"])
        answers = self.answers.get(args["operation"], [{}])
        return answers.pop(0) if len(answers) > 1 else answers[0]

    def run_step(self, step, *, acknowledge=True):
        """End a step as told; the end of the transaction itself is the module's to acknowledge."""
        assert acknowledge == (step.name != self._name)
        self.picked_up += [step.name] if step.pick_up else []
        self.ran.append((step.name, step.argv))
        end = self.steps.get(step.name.replace("-", "_"), OK)
        if isinstance(end, Refusal):
            raise end
        return end

    def report(self, _step, _seconds, line):
        """Note what the operator would see."""
        self.said.append(line)

    def names(self):
        """Return the names of the steps that ran."""
        return [name for name, _argv in self.ran]


def test_where_nothing_is_requested_the_node_is_not_asked():
    played = Played({})
    assert played.carry_out({"transaction": "cuda", "present": [], "retire": []}) == {"changed": False}
    assert played.asked == []


@pytest.mark.parametrize("wish", ["present", "absent", "hold", "unhold", "retire"])
def test_every_kind_of_wish_is_one(wish):
    played = Played({"look": {"changed": False}})
    played.carry_out({wish: ["x"]})
    assert played.asked == ["look"]


def test_nothing_to_do_is_one_call():
    played = Played({"look": {"changed": False}})
    assert played.carry_out({"present": ["x"]}) == {"changed": False}
    assert (played.asked, played.ran) == (["look"], [])


@pytest.mark.parametrize(
    ("check_mode", "lists", "asked"),
    [
        (False, {"update": ["apt-get", "update"], "lock_holder": "A"}, ["lists", "wait", "look"]),
        (False, {"update": None, "lock_holder": "A"}, ["lists", "look"]),
        (True, None, ["look"]),
    ],
)
def test_what_is_predicted_is_told_by_fresh_lists_unless_in_check_mode(check_mode, lists, asked):
    predicted = {"changed": False, "diff": TRANSACTION["diff"], "predicted": {"change": {"x": ["1", "2"]}}}
    played = Played({"lists": lists, "wait": {"lock_holder": None}, "look": predicted}, check_mode=check_mode)
    assert played.carry_out({"transaction": "driver", "present": ["x"], "predict": True}) == predicted
    assert played.asked == asked
    assert played.names() == (["driver-lists"] if "wait" in asked else [])


def test_what_is_predicted_by_the_lists_as_they_are_is_one_call():
    played = Played({"look": {"changed": False}})
    played.carry_out({"retire": ["x"], "predict": True, "update_cache": False})
    assert played.asked == ["look"]


def test_check_mode_is_one_call_with_a_diff():
    seen = {"changed": True, "diff": TRANSACTION["diff"], "predicted": {"install": {"x": "1"}}}
    played = Played({"look": seen})
    assert played.carry_out({"present": ["x"]}) == seen
    assert (played.asked, played.ran) == (["look"], [])


UNKNOWN = refuse("H049", line="E: Unable to locate package x")
HALF_THERE = refuse("H292", line="x : Depends: y (= 2) but it is not installable")
OTHER_VERSION = refuse("H295", line="x : Depends: y (= 2) but 1 is to be installed")
MOVED = {"failure": {"code": "H042", "cause": "404.", "remedy": "Again."}, "undo": [], "script": ""}


class Refusing(Played):
    """A node that refuses where its answer is a refusal."""

    def call_module(self, name, args):
        """Answer, or raise."""
        answer = super().call_module(name, args)
        if isinstance(answer, Refusal):
            raise answer
        return answer


@pytest.mark.parametrize("missing", [UNKNOWN, HALF_THERE, OTHER_VERSION], ids=lambda refusal: refusal.code)
def test_a_name_or_version_that_no_list_has_is_looked_for_in_fresh_ones(missing):
    """Lists may be old, or some of them gone, though somebody has noted them as fresh."""
    played = Refusing({"look": [missing, PREPARED], "lists": STALE})
    assert played.carry_out({"present": ["x"], "transaction": "driver"})["changed"]
    assert played.names() == ["driver-lists", "driver"]


def test_a_name_that_fresh_lists_do_not_have_is_refused_at_once():
    played = Refusing({"look": UNKNOWN, "lists": {"update": None, "lock_holder": None}})
    with pytest.raises(Refusal) as refused:
        played.carry_out({"present": ["x"]})
    assert refused.value.code == "H049"
    assert played.ran == []


def test_a_refresh_that_meets_a_login_page_says_so():
    portal = {"code": "H228", "cause": "a login page.", "remedy": "Log in."}
    played = Refusing(
        {"look": UNKNOWN, "lists": STALE, "diagnose": {"failure": portal, "undo": [], "script": ""}}, packages_lists=BAD
    )
    with pytest.raises(Refusal) as refused:
        played.carry_out({"present": ["x"]})
    assert refused.value.code == "H228"


def test_a_mirror_that_has_moved_on_is_tried_again_with_its_new_lists():
    ends = [BAD, OK]

    class Moving(Refusing):
        """The first download fails."""

        def run_step(self, step, *, acknowledge=True):
            super().run_step(step, acknowledge=acknowledge)
            return ends.pop(0) if step.name == "driver" else OK

    played = Moving({"look": PREPARED, "lists": STALE, "diagnose": MOVED, "audit": {"audit": ""}})
    assert played.carry_out({"present": ["x"], "transaction": "driver"})["changed"]
    assert played.names() == ["driver", "driver-lists", "driver"]


@pytest.mark.parametrize("given", [{"update_cache": False}, {"predict": True, "update_cache": False}])
def test_lists_that_are_to_stay_as_they_are_do(given):
    played = Refusing({"look": UNKNOWN, "lists": STALE})
    with pytest.raises(Refusal):
        played.carry_out({"present": ["x"], **given})
    assert "lists" not in played.asked


def test_a_transaction_is_prepared_run_and_verified():
    played = Played({"look": PREPARED})
    result = played.carry_out({"present": ["x"], "transaction": "driver"})
    assert result["changed"]
    assert result["diff"] == TRANSACTION["diff"]
    assert played.ran == [("driver", TRANSACTION["argv"])]
    assert played.asked == ["look", "finish"]


@pytest.mark.parametrize("left", [True, False])
def test_only_the_end_of_a_transaction_that_a_former_run_left_is_picked_up(left):
    answers = {"look": {**PREPARED, "left": left, "transaction": KEPT}, "diagnose": BROUGHT, "audit": {"audit": ""}}
    played = Played(answers, packages=BAD)
    played.carry_out({"present": ["x"]})
    assert played.names() == ["packages-keep", "packages", "packages-undo"]
    assert played.picked_up == (["packages"] if left else [])


KEPT = {**TRANSACTION, "keep": "apt-get download x=0"}


def test_what_is_to_be_replaced_is_kept_first():
    played = Played({"look": {**PREPARED, "transaction": KEPT}})
    played.carry_out({"present": ["x"], "former": "driver"})
    assert played.ran == [("packages-keep", ["sh", "-c", KEPT["keep"]]), ("packages", KEPT["argv"])]


@pytest.mark.parametrize(
    ("found", "names", "told"),
    [
        ({**BROUGHT, "script": ""}, ["packages-keep"], False),
        # A transaction before it, which removed what stands in the way, is taken back.
        (BROUGHT, ["packages-keep", "packages-undo"], True),
    ],
)
def test_nothing_is_replaced_that_could_not_be_kept(found, names, told):
    answers = {"look": {**PREPARED, "transaction": KEPT}, "diagnose": found, "audit": {"audit": ""}}
    played = Played(answers, packages_keep=BAD)
    result = played.carry_out({"present": ["x"], "former": "driver"})
    assert result["refusal"]["code"] == "D020"
    assert ("The former packages were reinstalled." in result["msg"]) is told
    assert played.names() == names
    assert played.asked == ["look", "diagnose", "audit"]  # which forgets what has not changed


def test_a_failed_change_is_put_back_and_says_so():
    played = Played(
        {"look": {**PREPARED, "transaction": KEPT}, "diagnose": BROUGHT, "audit": {"audit": ""}}, packages=BAD
    )
    result = played.carry_out({"present": ["x"], "former": "driver"})
    assert played.names() == ["packages-keep", "packages", "packages-undo"]
    assert "The former packages were reinstalled." in result["msg"]


def test_stale_lists_are_refreshed_first():
    played = Played({"look": STALE, "prepare": {"transaction": TRANSACTION}})
    played.carry_out({"present": ["x"]})
    assert played.names() == ["packages-lists", "packages"]
    assert played.asked == ["look", "prepare", "finish"]


def test_lists_that_cannot_be_refreshed_stop_it_before_anything_changes():
    answers = {"look": STALE, "diagnose": BROUGHT}
    played = Played(answers, packages_lists=BAD)
    with pytest.raises(Refusal):
        played.carry_out({"present": ["x"]})
    assert played.names() == ["packages-lists"]


def test_a_transaction_left_by_a_former_run_is_resumed_as_it_was():
    played = Played({"look": {"changed": True, "transaction": TRANSACTION}})
    assert played.carry_out({"present": ["x"]})["diff"] == TRANSACTION["diff"]
    assert played.ran == [("packages", TRANSACTION["argv"])]
    assert "prepare" not in played.asked


def test_a_lock_is_waited_for_and_its_holder_shown():
    answers = {"look": LOCKED, "wait": [{"lock_holder": "B"}, {"lock_holder": None}]}
    played = Played({**answers, "prepare": {"transaction": TRANSACTION}})
    played.carry_out({"present": ["x"]})
    assert played.said == ["waiting: A", "waiting: B"]
    assert played.names() == ["packages"]


def test_a_lock_that_stays_is_refused_with_its_holder(monkeypatch):
    clock = iter(range(0, 1000, 10))
    monkeypatch.setattr(action.time, "monotonic", lambda: next(clock))
    played = Played({"look": LOCKED, "wait": {"lock_holder": "apt of x.service"}})
    with pytest.raises(Refusal) as refused:
        played.carry_out({"present": ["x"], "lock_timeout": 35})
    assert refused.value.code == "H054"
    assert "apt of x.service" in refused.value.cause
    assert played.ran == []


def test_a_failed_transaction_is_undone_and_says_so():
    played = Played(
        {"look": PREPARED, "diagnose": BROUGHT, "audit": {"audit": ""}},
        packages=BAD,
    )
    result = played.carry_out({"present": ["x"]})
    assert played.ran[1] == ("packages-undo", ["sh", "-c", BROUGHT["script"]])
    assert (result["failed"], result["undone"], result["audit"]) == (True, ["x", "y"], "")
    assert result["refusal"]["code"] == "H052"
    assert "The 2 packages that it installed were removed again." in result["msg"]


def test_an_undo_that_fails_and_what_dpkg_finds_are_said():
    played = Played(
        {"look": PREPARED, "diagnose": BROUGHT, "audit": {"audit": "x is\nhalf"}},
        packages=BAD,
        packages_undo=BAD,
    )
    cause = played.carry_out({"present": ["x"]})["refusal"]["cause"]
    assert "could not be removed again, see /log" in cause
    assert "x is half" in cause


def test_a_failure_that_brought_nothing_has_nothing_to_undo():
    nothing = {"failure": FAILURE, "undo": [], "script": ""}
    played = Played(
        {"look": PREPARED, "diagnose": nothing, "audit": {"audit": ""}},
        packages=BAD,
    )
    assert played.carry_out({"present": ["x"]})["refusal"] == FAILURE
    assert played.names() == ["packages"]


def test_a_transaction_that_ran_into_its_timeout_is_undone():
    timeout = refuse("S005", name="packages", seconds=1, line="x", log="/log")
    played = Played(
        {"look": PREPARED, "diagnose": BROUGHT, "audit": {"audit": ""}},
        packages=timeout,
    )
    assert played.carry_out({"present": ["x"]})["refusal"]["code"] == "S005"
    assert played.names() == ["packages", "packages-undo"]


@pytest.mark.parametrize(
    "refusal",
    [
        refuse("S003", name="packages", command="other", log="/log"),
        refuse("S007", name="packages", seconds=300, detail="away"),
    ],
)
def test_what_may_still_run_is_not_undone(refusal):
    played = Played({"look": PREPARED, "diagnose": BROUGHT}, packages=refusal)
    with pytest.raises(Refusal):
        played.carry_out({"present": ["x"]})
    assert played.names() == ["packages"]

"""What the action takes is what its module documents, and what the role lets an operator say."""

from pathlib import Path

import yaml
from ansible_collections.gpulab.node.plugins.action.verify import ARGUMENTS, outcome
from ansible_collections.gpulab.node.plugins.modules.verify import DOCUMENTATION

RESULT = {"id": "gpu-clock", "severity": "fail", "gpu": None, "reason": "", "summary": "x", "remediation": "reboot"}
ROLE = Path(__file__).parents[3] / "roles/verify"


def load(part):
    return yaml.safe_load((ROLE / part).read_text(encoding="utf-8"))


def test_documented_options_are_the_arguments():
    documented = yaml.safe_load(DOCUMENTATION)["options"]
    told = {name: (option["type"], option.get("choices"), option.get("default")) for name, option in documented.items()}
    assert told == {name: (spec["type"], spec.get("choices"), spec.get("default")) for name, spec in ARGUMENTS.items()}


def test_everything_that_a_proof_can_be_told_is_an_option_of_the_role():
    (block,) = (part["block"] for part in load("tasks/main.yml"))
    (given,) = [task["gpulab.node.verify"] for task in block if "gpulab.node.verify" in task]
    assert "__rebuild_known" in given.pop("known")  # of a rebuild alone
    assert set(given) == set(ARGUMENTS) - {"known", "subjects"}
    options = load("meta/argument_specs.yml")["argument_specs"]["main"]["options"]
    for name, value in given.items():
        option, argument = options[f"verify_{name}"], ARGUMENTS[name]
        assert f"verify_{name}" in value
        assert (option["type"], option.get("choices")) == (argument["type"], argument.get("choices"))
        assert option.get("default", argument.get("default")) == argument.get("default")


def test_what_was_found_before_a_reinstall_fails_nothing_unless_it_is_graver_now():
    results = [dict(RESULT)]
    assert outcome("node07", results, "fail")["failed"]
    assert not outcome("node07", results, "fail", {"gpu-clock": "fail"})["failed"]
    assert not outcome("node07", results, "fail", {"*": "fail"})["failed"]
    assert outcome("node07", results, "fail", {"gpu-clock": "warn"})["failed"]
    assert outcome("node07", results, "fail", {"gpu": "fail"})["failed"]


def test_findings_are_counted_in_words():
    assert "node07 failed verification: 1 finding of severity fail" in outcome("node07", [dict(RESULT)], "fail")["msg"]
    assert "2 findings of severity warn" in outcome("node07", [dict(RESULT), dict(RESULT)], "warn")["msg"]

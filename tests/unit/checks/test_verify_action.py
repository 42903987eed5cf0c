"""What the action takes is what its module documents, and what verify.yml lets an operator say."""

import re
from pathlib import Path

import yaml
from ansible_collections.gpulab.node.plugins.action.verify import ARGUMENTS
from ansible_collections.gpulab.node.plugins.modules.verify import DOCUMENTATION

PLAYBOOK = (Path(__file__).parents[3] / "playbooks/verify.yml").read_text(encoding="utf-8")


def test_documented_options_are_the_arguments():
    documented = yaml.safe_load(DOCUMENTATION)["options"]
    told = {name: (option["type"], option.get("choices"), option.get("default")) for name, option in documented.items()}
    assert told == {name: (spec["type"], spec.get("choices"), spec.get("default")) for name, spec in ARGUMENTS.items()}


def test_everything_that_a_proof_can_be_told_is_a_variable_of_the_playbook():
    block = yaml.safe_load(PLAYBOOK)[0]["tasks"][0]["block"]
    (told,) = [task["gpulab.node.verify"] for task in block if "gpulab.node.verify" in task]
    assert set(told) == set(ARGUMENTS) - {"subjects"}
    assert all(re.match(r"\{\{ verify_\w+ \| default\(", value) for value in told.values())


def test_comments_of_the_playbook_list_all_its_variables():
    comments = "".join(line for line in PLAYBOOK.splitlines(keepends=True) if line.startswith("#"))
    used = set(re.findall(r"\b(verify_\w+) \| default\(", PLAYBOOK))
    assert {name for name in used if not re.search(rf"\b{name}\b", comments)} == set()

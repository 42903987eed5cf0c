"""What package managers and builds print: real texts, what each means, and the line that is shown of it."""

from __future__ import annotations

import re
import time
from pathlib import Path

import pytest
import yaml
from ansible_collections.gpulab.node.plugins.module_utils.core.refusals.packages import CODES
from ansible_collections.gpulab.node.plugins.module_utils.core.tool_messages import MESSAGES
from ansible_collections.gpulab.node.plugins.module_utils.core.tool_words import find
from ansible_collections.gpulab.node.plugins.module_utils.driver import dkms
from ansible_collections.gpulab.node.plugins.module_utils.packages import apt_failure, dnf_failure

TEXTS = yaml.safe_load(Path(__file__).with_name("tool_messages.yml").read_text(encoding="utf-8"))
MESSAGE = {message.id: message for message in MESSAGES}
PACKAGES = {"apt": apt_failure.classify, "dnf": dnf_failure.classify}


def told(case):
    """Return what a user is told of a text: (code or None, cause, remedy)."""
    if case["tool"] in PACKAGES:
        refusal = PACKAGES[case["tool"]](case["said"], "/log")
        return refusal.code, refusal.cause, refusal.remedy
    found = dkms.told(dkms.first_compiler_error(case["said"]), "choose another")
    return None, found["error"], found["way"]


@pytest.mark.parametrize(
    "case", [*TEXTS["cases"], *TEXTS["threads"]], ids=lambda case: f"{case['means']}-{case['shown'][:20]}"
)
def test_what_a_tool_says_is_shown_and_its_cause_is_named(case):
    code, cause, remedy = told(case)
    message = MESSAGE[case["means"]]
    assert case["shown"] in cause
    assert "\n" not in cause
    if message.code:
        assert code == message.code
    else:
        assert re.split(r"\{tool\}", message.cause)[0] in cause
        assert re.split(r"\{tool\}", message.remedy)[0] in remedy


@pytest.mark.parametrize("case", TEXTS["unknown"], ids=lambda case: case["shown"][:30])
def test_of_what_is_not_known_the_line_that_says_most_is_shown(case):
    code, cause, _remedy = told(case)
    assert code in (None, "H059")
    assert case["shown"] in cause
    assert "Known cause" not in cause


READERS = {**PACKAGES, "build": lambda report, _log: dkms.told(dkms.first_compiler_error(report))}
FAILED = "dpkg: error processing package x (--configure):\n installed x package post-installation script subprocess"


@pytest.mark.parametrize("ending", ["\n", ""], ids=["of lines", "of one line"])
@pytest.mark.parametrize("tool", READERS)
def test_a_long_log_is_read_in_no_time(tool, ending):
    """A package's script may print what it likes, and gpulab reads up to a MiB of it."""
    line = f"  Depends: Problem E: Err: Error! loading ./objtool package x (a) but it is Setting up 1 of 2{ending}"
    started = time.process_time()
    READERS[tool](f"{line * 10_000}\n{FAILED} returned error exit status 1\n", "/log")
    assert time.process_time() - started < 10


def test_every_message_is_told_by_one_id_and_a_refusal_that_is_listed():
    assert len(MESSAGE) == len(MESSAGES)
    assert {message.code for message in MESSAGES} - {""} <= set(CODES)


def test_a_text_without_a_known_message_means_nothing():
    assert find("All is well\n", "apt", "dnf", "dkms", "build") is None
    assert find("E: Unable to locate package x\n", "dnf", "dkms", "build") is None


def test_what_good_builds_print_as_well_counts_only_where_it_is_asked_for():
    report = "compile the kernel:\n\ngcc 12\n\ndoes not match the compiler used here:\n\ncc 13\n"
    assert find(report, "build") is None
    assert find(report, "build", weak=True).message.id == "compiler-check"

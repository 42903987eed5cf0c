"""The page of a diagnosis: what is said first, how sure it is, and that texts of nodes and of people stay texts."""

import re
from dataclasses import replace

import pytest
from ansible_collections.gpulab.node.plugins.plugin_utils.diagnosis import diagnose
from ansible_collections.gpulab.node.plugins.plugin_utils.diagnosis.model import FindingRecord
from ansible_collections.gpulab.node.plugins.plugin_utils.diagnosis.page import page

from unit.checks import nodes
from unit.report.runs import CREATED, HOSTILE

from . import cases
from .test_over_nodes import document as of_job
from .troubles import TROUBLES

OOM = "torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 2.00 GiB"


def diagnosed(trouble=None, **asked):
    """Return the diagnosis of a node at work, on which there may be a trouble."""
    facts = nodes.healthy("h100x8")
    found = cases.at_work(facts)
    if trouble:
        TROUBLES[trouble].change(found, facts)
    return diagnose.diagnosis(cases.case(facts, found, **asked), "node07", CREATED)


def causes(text):
    """Return how sure each finding is and what it says, in the page's order."""
    found = re.findall(r'<h3><span class="badge \w+">. ([^<]+)</span> ([^<]+)</h3>', text)
    return [(sure, cause.partition(" ")[0]) for sure, cause in found]


def test_what_is_found_first_stands_first_with_remedy_evidence_and_source():
    document = diagnosed("a rank was stopped", error=OOM)
    text = page({"node07": document})
    assert causes(text)[:2] == [("seen", "python3"), ("usual cause", "the")]
    first = text[text.index("Found first") : text.index("Found, too")]
    finding = document.findings[0]
    for said in (finding.cause, finding.remedy, *finding.evidence, finding.source):
        assert said in first
    assert "nothing runs until it is cured" in first


@pytest.mark.parametrize(
    ("name", "cost", "sure"),
    [
        ("hang-stopped", 1.0, "nothing runs until it is cured"),
        ("slow-link", 0.5, "50% of the work does not come about"),
        ("slow-load", None, "what it costs was not measured"),
        ("error-torch-out-of-memory", None, "nothing on the node was seen that proves it"),
        ("error-torch-warning", 0.0, "stops nothing"),
    ],
)
def test_how_sure_a_finding_is_follows_from_what_it_was_found_by(name, cost, sure):
    finding = FindingRecord(name, "hang", "a cause", [], "a remedy", "a source", cost)
    assert sure in page({"node07": replace(diagnosed(), findings=[finding])})


def test_hosts_of_which_the_same_was_found_stand_together_and_those_without_findings_last():
    stopped = diagnosed("a rank was stopped")
    text = page({"a": diagnosed(), "b": stopped, "c": replace(stopped, host="c")})
    articles = text.split("<article>")[1:]
    assert [re.findall(r'class="chip"[^>]*>([^<]+)', article) for article in articles] == [["b", "c"], ["a"]]
    assert "no cause found" in articles[1]


def test_what_nodes_tell_together_stands_before_what_each_tells():
    text = page({"node07": of_job(0), "node08": of_job(4, size=2)})
    assert text.index("rank 6-7 of the job at node1:29500") < text.index("<h2>No cause was found")


def test_texts_of_a_node_and_of_people_stay_texts_and_secrets_stay_away():
    secret = "hf_" + "A1b2C3d4E5" * 4
    pasted = f"{OOM} {HOSTILE} {secret} {'x' * 100_000}\nAuthorization: Bearer {secret}"
    facts = nodes.healthy("h100x8")
    found = cases.at_work(facts)
    TROUBLES["a rank was stopped"].change(found, facts)
    for record in found["processes"]:
        record.update(command=HOSTILE, arguments=f"python {HOSTILE} --token={secret}", user=HOSTILE)
    document = diagnose.diagnosis(cases.case(facts, found, error=pasted), HOSTILE, CREATED)
    text = page({HOSTILE: document, "node08": document})
    assert causes(text)
    assert text.count("<script>") == 1
    assert "\x1b" not in text
    assert secret not in text
    assert len(text) < 100_000
    assert "a pasted text of 2 lines" in text

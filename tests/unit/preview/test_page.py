"""The page of a preview: who stands together, what comes first, and that a node's text stays text."""

import json
import re

import pytest
from ansible_collections.gpulab.node.plugins.plugin_utils.pages.alike import HOST, alike
from ansible_collections.gpulab.node.plugins.plugin_utils.preview import document
from ansible_collections.gpulab.node.plugins.plugin_utils.preview.page import page

from unit.preview import hosts
from unit.report.runs import HOSTILE


def groups(text):
    """Return the state and the hosts of each group, in the page's order."""
    return [
        (re.search(r'class="badge \w+">. ([^<]+)', article)[1], re.findall(r'class="chip"[^>]*>([^<]+)', article))
        for article in text.split("<article>")[1:]
    ]


def test_hosts_that_change_in_the_same_way_stand_together_and_the_gravest_come_first():
    known = {"a": hosts.virgin(), "b": hosts.provisioned(), "c": hosts.virgin(), "d": hosts.refused()}
    assert groups(page(document.build(known, hosts.CREATED))) == [
        ("REFUSED", ["d"]),
        ("would change", ["a", "c"]),
        ("nothing to do", ["b"]),
    ]


def test_each_role_says_what_it_changes_and_why():
    known = hosts.virgin()
    known["plan"]["due"] = {"nouveau": ["no receipt"], "cuda": ["its plan is another one"]}
    text = re.sub(r"\s+", " ", page(document.build({"a": known}, hosts.CREATED)))
    assert f'write {hosts.NOUVEAU_FILE}</li></ul> <p class="why">because no receipt' in text.replace(
        "<li>run update-initramfs -u -k all</li>", ""
    )
    assert "because its plan is another one" in text  # of a role of which nothing is known yet, too
    for reason in known["plan"]["warnings"]:
        assert reason in text


def test_what_a_node_says_stays_text():
    known = hosts.virgin()
    known["results"][0]["result"]["changes"][0]["what"] = f"{HOSTILE} https://anna:hunter22@mirror/"
    known["facts"]["system"]["name"] = HOSTILE
    text = page(document.build({HOSTILE: known}, hosts.CREATED))
    assert text.count("<script>") == 1
    assert "hunter22" not in text
    assert "\x1b" not in text


@pytest.mark.parametrize(
    ("records", "together"),
    [
        ({"n1": "n1 is away", "n2": "n2 is away"}, [(["n1", "n2"], f"{HOST} is away")]),
        ({"a": "a reboot", "b": "a reboot", "c": "c"}, [(["a", "b"], "a reboot"), (["c"], "c")]),
        ({"n1": "n10 is away", "n2": "n10 is away"}, [(["n1", "n2"], "n10 is away")]),
        ({'"': 'x " y', "n2": "x n2 y"}, [(['"', "n2"], f"x {HOST} y")]),
    ],
)
def test_hosts_are_alike_up_to_their_own_names(records, together):
    assert json.loads(json.dumps(alike(records))) == [list(one) for one in together]

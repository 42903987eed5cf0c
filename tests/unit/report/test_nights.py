"""The page of the history: a picture of each figure over the nights, and what comes first."""

import re
from datetime import datetime, timezone

import pytest
from ansible_collections.gpulab.node.plugins.plugin_utils.history import told
from ansible_collections.gpulab.node.plugins.plugin_utils.history.lines import line
from ansible_collections.gpulab.node.plugins.plugin_utils.history.memory import Memory, Settings
from ansible_collections.gpulab.node.plugins.plugin_utils.history.series import new
from ansible_collections.gpulab.node.plugins.plugin_utils.report import document, nights

from unit.checks import nodes
from unit.report import runs

NOW = datetime(2026, 11, 21, 2, tzinfo=timezone.utc)


def night(day, host=None, name="a"):
    """Return the line of a night in November; a host is healthy unless told."""
    report = document.build({name: host or runs.judged(nodes.healthy("rtx4090x2"))}, f"2026-11-{day:02d}T01:00:00Z")
    return line(report, report["hosts"][0])


def of(*lines, name="a"):
    return nights.of(told.of(name, lines, NOW, 90), lines)


def rows(text):
    """Return the name and the verdict of each row, in the page's order."""
    return re.findall(r'<tr class="\w+" data-h="\d+"[^>]*><th scope="row">([^<]+)</th><td[^>]*>. ([^<]+)</td>', text)


def test_the_last_line_of_a_day_counts_and_a_day_without_a_proof_has_no_bar():
    host = of(night(1, runs.faulty("XID 79")), night(1), night(3, runs.faulty("XID 79")))
    assert list(host["verdicts"].values()) == ["ok", "fail"]
    text = nights.page([host], "2026-11-21T02:00:00Z", 90)
    assert 'class="ok" d="M0 20v-5"' in text
    assert 'class="fail" d="M2 20v-20"' in text
    assert 'aria-label="nights: 1 fit, 1 not fit"' in text


@pytest.mark.parametrize(
    ("temperatures", "path"),
    [((50, 50, 50), "M0 19h0l1 0l1 0"), ((50, 70, 60), "M0 19h0l1 -18l1 9"), ((50, None, 60), "M0 19h0l2 -9")],
)
def test_a_line_follows_its_figure(temperatures, path):
    lines = [night(1 + at) for at in range(len(temperatures))]
    for of_day, value in zip(lines, temperatures):
        of_day["gpus"] = [{**gpu, "temperature_celsius": value} for gpu in of_day["gpus"]]
    assert f'class="info" d="{path}"' in nights.page([of(*lines)], "2026-11-21T02:00:00Z", 90)


def test_a_rate_is_held_against_its_own_median():
    lines = [night(1 + at) for at in range(4)]
    for of_day, value in zip(lines, (100.0, 100.0, 100.0, 80.0)):
        of_day["gpus"] = [{**gpu, "rates": {"fast": 10.0, "slow": value}} for gpu in of_day["gpus"]]
    assert list(of(*lines)["figures"][1].values.values()) == [100, 100, 100, 80]


def test_the_gravest_come_first_and_many_that_are_fit_are_folded():
    bad, good = of(night(1, runs.faulty("XID 79"))), of(night(1))
    never = of(name="never")
    assert rows(nights.page([never, good, bad], "2026-11-21T02:00:00Z", 90)) == [
        ("a", "not fit"),
        ("never", "never proven"),
        ("a", "fit"),
    ]
    text = nights.page([good] * 40 + [bad], "2026-11-21T02:00:00Z", 90)
    assert "40 hosts are fit" in text
    assert rows(text)[0] == ("a", "not fit")
    assert len(rows(text)) == 41


def test_a_fleet_that_was_never_proven_has_a_page():
    assert rows(nights.page([of(name="new")], "2026-11-21T02:00:00Z", 90)) == [("new", "never proven")]
    assert "History" in nights.page([], "2026-11-21T02:00:00Z", 90)


def test_what_a_node_says_stays_text():
    text = nights.page([of(night(1), night(2, runs.hostile(), runs.HOSTILE), name=runs.HOSTILE)], runs.CREATED, 90)
    assert text.count("<script>") == 1
    assert "\x1b" not in text


def test_the_baseline_and_a_fall_are_marked():
    lines = [night(1 + at) for at in range(30)]
    memory = Memory(None, Settings())
    for number, of_day in enumerate(lines):
        of_day["gpus"] = [{**gpu, "rates": {"memory_gbs": 100.0 if number < 20 else 90.0}} for gpu in of_day["gpus"]]
    state = memory.before("a", lines)
    host = nights.of(told.of("a", lines, NOW, 90), lines, state)
    text = nights.page([host], "2026-11-21T02:00:00Z", 90)
    assert 'class="unknown" d="M0 7h29"' in text  # the level of 100 %, above the 90 % that are at the foot
    assert re.search(r'class="warn" d="M2[1-4] 20v-20"', text)
    assert "slowest rate: 90 to 100 % of usual; a fall is told" in text
    calm = nights.page([nights.of(told.of("a", lines[:20], NOW, 90), lines[:20], new())], "2026-11-21T02:00:00Z", 90)
    assert "v-20" not in calm


def test_what_falls_on_many_hosts_stands_above_the_table_once():
    text = nights.page([of(night(1))], "2026-11-21T02:00:00Z", 90, ["worse: a, b <slow>"])
    assert text.count("worse: a, b &lt;slow&gt;") == 1

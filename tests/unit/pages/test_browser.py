"""Every page as Chromium lays it out: on a desk, on a phone, on paper, in the dark, and by the keyboard."""

from dataclasses import replace

import pytest
from ansible_collections.gpulab.node.plugins.plugin_utils.diagnosis.model import FindingRecord
from ansible_collections.gpulab.node.plugins.plugin_utils.diagnosis.page import page as diagnosis_page
from ansible_collections.gpulab.node.plugins.plugin_utils.report import document
from ansible_collections.gpulab.node.plugins.plugin_utils.report.html import html

from unit.pages import chromium, samples
from unit.report import runs

pytestmark = [pytest.mark.slow, pytest.mark.skipif(chromium.PROGRAM is None, reason="Chromium is not installed")]
# On a machine that does nothing else 2,000 and 100; a page that hangs takes longer.
OPENS_MS, ANSWERS_MS = 20_000, 5000
CONTRAST = 4.5  # of text, at least: WCAG 2, level AA
# What stands first on each page, from the top, before anything else of the same kind.
FIRST = {
    "report": (".tiles", "nav", ".finding.fail", "table.matrix", "table.inventory"),
    "plan": (".tiles", "nav", ".finding.fail", ".finding.info", ".finding.ok", "table.inventory"),
    "diagnosis": ("nav", ".finding.fail", ".finding.warn", ".finding.ok", "table.inventory"),
    "history": (".tiles", "nav", "tr.fail", "tr.warn", "tr.unknown", ".fold"),
    "index": ("h1", "table.inventory"),
    "usage": (".tiles", ".finding.ok", ".finding.warn", "table.inventory"),
}
# Sheets of paper for so many nodes, at most.
SHEETS = {
    "report": {2: 10, 200: 15},
    "plan": {2: 4, 200: 8},
    "diagnosis": {1: 1, 200: 20},
    "history": {2: 1, 200: 5},
    "index": {2: 1, 100: 12},
    "usage": {2: 2, 200: 16},
}


@pytest.fixture(scope="module")
def browser(tmp_path_factory):
    """Return the browser of these tests."""
    found = chromium.Browser(tmp_path_factory.mktemp("profile"))
    yield found
    found.close()


@pytest.fixture
def show(browser, tmp_path):
    """Return a function that shows a page's text, and returns the browser."""

    def shown(text, **how):
        path = tmp_path / "page.html"
        path.write_text(text, encoding="utf-8")
        browser.open(path, **how)
        return browser

    return shown


def troubled():
    """Return a report in which every text of a node wants to be markup."""
    hosts = {
        "bad": runs.faulty("XID 79", "power budget exceeded"),
        "lab": runs.simulated(),
        "warm": runs.faulty("software thermal slowdown"),
        runs.HOSTILE: runs.hostile(),
        "away": runs.UNREACHABLE,
    }
    return html(document.build(hosts, runs.CREATED))


@pytest.mark.parametrize("number", [2, 60])
@pytest.mark.parametrize("name", samples.PAGES)
def test_page_fits_and_can_be_read_on_a_desk_and_on_a_phone_by_day_and_by_night(name, number, show):
    text = samples.PAGES[name](number)
    for width, dark in ((1280, False), (1280, True), (400, False), (400, True)):
        window = show(text, width=width, dark=dark)
        assert window.look("[innerWidth, document.documentElement.scrollWidth]") == [width, width]
        assert window.look("overflowing()") == []
        faint = [one for one in window.look("contrasts()") if one[0] < CONTRAST]
        assert faint == [], (width, dark)


@pytest.mark.parametrize("name", samples.PAGES)
def test_what_must_be_looked_at_stands_first(name, show):
    window = show(samples.PAGES[name](200))
    tops = [window.look(f"box('{part}').top") for part in FIRST[name]]
    assert tops == sorted(tops)


@pytest.mark.parametrize("name", samples.PAGES)
def test_no_state_is_said_by_colour_alone(name, show):
    """Each coloured cell, badge and label has a sign or a word that another severity does not have."""
    window = show(samples.PAGES[name](60))
    signs = window.look("signs()")
    assert signs
    for severity, texts in signs.items():
        others = {text for other, several in signs.items() if other != severity for text in several}
        assert not set(texts) & others, severity


@pytest.mark.parametrize("name", samples.PAGES)
def test_page_is_printed_on_few_sheets(name, show):
    for number, most in SHEETS[name].items():
        assert 0 < show(samples.PAGES[name](number)).pages() <= most, number


@pytest.mark.parametrize("name", ["report", "plan", "diagnosis", "history"])
def test_filters_are_reached_one_after_the_other_by_the_keyboard(name, show):
    window = show(samples.PAGES[name](60))
    for control in window.look("every('nav input').map(one => one.id)"):
        window.press("Tab")
        assert window.look("document.activeElement.id") == control
        assert window.look("parseFloat(getComputedStyle(document.activeElement).outlineWidth)") >= 2


@pytest.mark.parametrize("name", ["report", "plan"])
def test_a_severity_is_hidden_by_the_keyboard(name, show):
    window = show(samples.PAGES[name](60))
    assert window.look("shown('.finding.fail').length") > 0
    window.press("Tab")
    window.press(" ")
    assert window.look("shown('.finding.fail').length") == 0


def test_each_night_of_the_history_is_seen_on_a_phone_without_a_script(show):
    """A state is a bar's height, so nobody needs its colour; a date and a verdict are whole."""
    window = show(samples.history(60).replace("<script>", "<script type=none>"), width=400)
    row = "every('tr.fail')[0]"
    assert window.look(f"{row}.innerText.includes('2026-11-20 01:00:00 UTC') && {row}.innerText.includes('✗ not fit')")
    cells = f"every('td', {row}).map(cell => cell.scrollWidth - cell.clientWidth)"
    assert max(window.look(cells)) <= 0
    assert window.look(f"every('svg', {row}).map(one => one.getAttribute('aria-label').split(':')[0])") == [
        "nights",
        "hottest GPU",
        "slowest rate",
        "memory errors",
    ]
    bars = f"every('path', {row}.querySelector('svg')).map(one => [one.getAttribute('class'), one.getBBox().height])"
    assert window.look(bars) == [["ok", 5], ["fail", 20]]


def test_long_lines_of_a_pasted_text_stay_within_a_phone(show):
    text = "RuntimeError: CUDA out of memory <script>document.title = 1</script> " + "x" * 100_000
    finding = FindingRecord("error-x", "memory", text[:5000], [text[:400]] * 3, text[:5000], "nobody", None)
    document = replace(samples.diagnosed(1)["node001"], findings=[finding])
    window = show(diagnosis_page({"n" * 250: document}), width=400)
    assert window.look("[overflowing(), document.documentElement.scrollWidth]") == [[], 400]
    assert window.look("document.title.startsWith('gpulab: diagnosis of n')")


def test_a_filter_hides_what_nobody_is_left_of(show):
    window = show(samples.plan(60))
    window.look("type('search', 'node00')")
    assert window.look("document.getElementById('matching').textContent") == "9 of 60 hosts"
    assert window.look("shown('tr[data-groups]').length") == 9
    window.look("type('search', 'node001')")
    assert window.look("shown('article').length") == 1


def test_no_script_runs_but_that_of_the_page(show):
    foreign = "<script>document.body.dataset.foreign = 1</script>"
    window = show(troubled().replace("</body>", foreign + "</body>"))
    assert window.look("document.scripts.length") == 2
    assert window.look("document.getElementById('matching').textContent") == "5 of 5 hosts"  # ours ran
    assert window.look("[document.title.startsWith('gpulab: fail'), document.body.dataset.foreign ?? '']") == [True, ""]


def test_report_of_200_nodes_opens_and_answers_at_once(show):
    report = document.build(runs.fleet(200), runs.CREATED)
    window = show(html(report))
    assert window.look("performance.now()") < OPENS_MS
    bad = sum(host["verdict"] in ("fail", "warn") for host in report["hosts"])
    rows = "shown('table.matrix tbody tr[id]').length"
    assert window.look(rows) == bad
    window.look("document.getElementById('show-fit').click()")
    assert window.look(rows) == 200
    window.look("document.getElementById('show-fit').click()")
    assert window.look("timed(() => type('search', 'node01'))") < ANSWERS_MS
    hosts = "shown('table.matrix tbody tr[id]').map(row => row.id.slice(5))"
    assert window.look(hosts)[:2] == ["node010", "node015"]  # those with findings come first
    assert sorted(window.look(hosts)) == [f"node{at:03d}" for at in range(10, 20)]
    assert window.look("new Set(shown('.chip').map(one => one.dataset.h)).size") == 2  # node010 and node015
    window.look("type('search', ''), choose('group', 'rack3'), choose('model', 'NVIDIA GeForce RTX 4090')")
    chosen = [f"node{at:03d}" for at in range(1, 201) if at % 4 == 3 and at % 3 == 2 and at % 5]
    assert window.look(hosts) == chosen
    window.look("choose('group', 'all groups'), choose('model', 'all GPUs')")
    window.look("head('xids').click(), head('xids').click()")
    assert window.look(hosts)[:3] == ["node015", "node030", "node045"]
    window.look("head('host').click()")
    assert window.look(hosts)[:3] == ["node005", "node010", "node015"]

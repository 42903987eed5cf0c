"""Each format is well-formed, whatever a node calls itself, and complete."""

import base64
import hashlib
import re
from html.parser import HTMLParser
from pathlib import Path
from urllib.parse import unquote
from xml.etree import ElementTree as ET

import pytest
from ansible_collections.gpulab.node.plugins.plugin_utils.core.gpulab_version import version
from ansible_collections.gpulab.node.plugins.plugin_utils.pages import page
from ansible_collections.gpulab.node.plugins.plugin_utils.report import document, formats
from ansible_collections.gpulab.node.plugins.plugin_utils.report.html import html, index, summary

from unit.checks import nodes
from unit.report import runs


class Page(HTMLParser):
    """The elements of a page and what they refer to."""

    def __init__(self, text):
        """Parse the page."""
        super().__init__()
        self.tags, self.references, self.text = [], [], ""
        self.ids, self.policy, self.scripts, self._inside = [], "", [], ""
        self.feed(text)

    def handle_starttag(self, tag, attributes):
        """Note the element."""
        self.tags.append(tag)
        self._inside = tag
        self.ids += [value for name, value in attributes if name == "id"]
        if ("http-equiv", "Content-Security-Policy") in attributes:
            self.policy = dict(attributes)["content"]
        self.references += [(tag, value) for name, value in attributes if name in ("src", "href", "srcset", "data")]

    def handle_data(self, data):
        """Note the text."""
        if self._inside == "script":
            self.scripts.append(data)
            self._inside = ""
        else:
            self.text += data


SCRIPT = Path(page.__file__).with_name("page.js").read_text(encoding="utf-8")


@pytest.mark.parametrize(
    "text", [html(runs.compared(runs.mixed(), runs.mixed())), index([{"place": "x", "summary": summary(runs.mixed())}])]
)
def test_html_needs_no_network_and_runs_no_script_but_ours(text):
    page = Page(text)
    assert {tag for tag, _ in page.references} == {"a"}
    assert not {"link", "img", "iframe"} & set(page.tags)
    assert "@import" not in text
    assert "url(" not in text
    assert page.scripts == [SCRIPT]
    digest = base64.b64encode(hashlib.sha256(SCRIPT.encode()).digest()).decode()
    assert page.policy.startswith("default-src 'none'; ")
    assert f"script-src 'sha256-{digest}';" in page.policy


def links(page):
    """Return the places on the page that its links name."""
    return {unquote(value.removeprefix("#")) for _tag, value in page.references if value.startswith("#")}


def test_every_link_leads_somewhere():
    names = ["node1", "fe80::1", "../odd name/%41", runs.HOSTILE]
    hosts = {**dict.fromkeys(names[1:], runs.UNREACHABLE), "node1": runs.faulty("XID 79")}
    page = Page(html(document.build(hosts, runs.CREATED)))
    assert {"host-node1", "about-fe80::1", "finding-1", "check-xids"} <= links(page) <= set(page.ids)
    assert len(page.ids) == len(set(page.ids))


def test_a_finding_of_many_hosts_is_said_once():
    hosts = {f"node{at:02d}": runs.faulty("persistence mode off") for at in range(44)}
    hosts["node07"] = runs.faulty("XID 79")
    page = Page(html(document.build(hosts, runs.CREATED)))
    (summary_of,) = {r["summary"] for r in hosts["node00"]["results"] if r["severity"] == "warn"}
    assert page.text.count(summary_of) == 1
    section = page.text[page.text.index("Findings") :]
    assert section.index("xids") < section.index(summary_of)  # the gravest first
    assert "43 hosts" in section


def test_a_value_that_differs_stands_beside_its_host():
    hosts = {name: runs.judged(nodes.healthy("h100x8")) for name in ("cool", "warm", "hot")}
    for name, value in (("warm", 91), ("hot", 97)):
        (result, *_rest) = hosts[name]["results"]
        result.update(severity="warn", summary="too hot", observed=value)
    text = re.sub(r"\s+", " ", Page(html(document.build(hosts, runs.CREATED))).text)
    assert text.count("too hot") == 1
    assert "hot 97 warm 91" in text
    assert "cool 9" not in text


def test_checks_with_nothing_to_look_at_have_no_column():
    def heads(text):
        return re.findall(r"<span>([\w-]+)</span></th>", text)

    one = runs.judged(nodes.healthy("rtx4090x2"))
    skipped = {result["id"] for result in one["results"]} - {
        result["id"] for result in one["results"] if result["severity"] != "skipped"
    }
    alone = html(document.build({"a": one}, runs.CREATED))
    assert skipped
    assert not skipped & set(heads(alone))
    assert (
        f"{len(document.build({}, runs.CREATED)['checks']) - len(heads(alone))} checks had nothing to look at" in alone
    )
    with_another = html(document.build({"a": one, "b": runs.judged(nodes.healthy("h100x8"))}, runs.CREATED))
    assert skipped & set(heads(with_another))


def test_html_says_what_the_run_did():
    changed = {"changed": ["nvidia_driver : Install the driver"], "seconds": 185.0, "roles": {"nvidia_driver": 160.0}}
    hosts = {"a": {**runs.judged(nodes.healthy("h100x8")), "run": changed, "groups": ["rack1"]}, "b": runs.UNREACHABLE}
    hosts["a"]["verify"] = {"declared": {"level": "standard"}}
    report = document.build(hosts, runs.CREATED, 3725.0)
    text = re.sub(r"\s+", " ", Page(html(report)).text)
    assert f"gpulab {version()} · level standard · took 1h02m, changed 1 of 2 hosts" in text
    for word in ("3m05s", "nvidia_driver : Install the driver", "rack1", nodes.KERNEL):
        assert word in text
    assert "took" not in Page(html(runs.mixed())).text.partition("Hosts and checks")[0]  # where nobody looked


def test_index_lists_every_report_and_who_is_not_fit():
    known = {"place": "2026-11-21T010000Z", "summary": summary(runs.mixed())}
    page = Page(index([known, {"place": "2026-11-20T010000Z", "summary": None}]))
    assert [value for _tag, value in page.references] == [
        "2026-11-21T010000Z/report.html",
        "2026-11-20T010000Z/report.html",
    ]
    assert "away, bad, early, failed" in page.text


@pytest.mark.parametrize("name", [runs.HOSTILE, "<img src=x onerror=alert(1)>"])
def test_html_shows_hostile_names_as_text(name):
    report = document.build(
        {name: runs.hostile(), f"{name}2": {**runs.UNREACHABLE, "reading": {"unreachable": 1, "msg": name}}},
        runs.CREATED,
    )
    earlier = document.build({name: runs.faulty("XID 79")}, "2026-11-01T00:00:00Z")
    page = Page(html(runs.compared(report, earlier)))
    assert page.tags.count("script") == 1
    assert page.scripts == [SCRIPT]
    assert "img" not in page.tags
    assert name in page.text


def test_html_says_that_a_node_is_simulated_and_of_no_other():
    assert "are simulated" in html(runs.mixed())
    assert "are simulated" not in html(document.build({"a": runs.faulty("XID 79")}, runs.CREATED))


def test_html_shows_evidence_and_remedy_of_every_finding():
    report = runs.mixed()
    page = Page(html(report))
    for host in report["hosts"]:
        for found in document.findings(host["results"]):
            assert found["summary"] in page.text
            assert report["remedies"][found["remediation"]] in page.text
    assert "Connection refused" in page.text


def test_html_shows_each_changed_finding():
    earlier = document.build({"bad": runs.judged(nodes.healthy("h100x8"))}, "2026-11-01T00:00:00Z")
    report = runs.mixed()
    changes = runs.compared(report, earlier)["changes"]
    assert {entry["id"] for entry in changes["new"]} == {"gpu-count", "xids"}
    text = Page(html(runs.compared(report, earlier))).text
    section = text[text.index("Since 2026-11-01 00:00:00 UTC") : text.index("Findings")]
    for entry in changes["new"]:
        assert re.search(rf"{entry['host']}\s+{entry['id']}\s+{re.escape(entry['summary'])}", section)
    gone = Page(html(runs.compared(earlier, report))).text
    assert "XID 79" in gone[gone.index("Gone") : gone.index("Findings")]


def test_junit_counts_failures_errors_and_skips():
    root = ET.fromstring(formats.junit(runs.mixed()))  # noqa: S314 - our own text
    suites = {suite.get("name"): suite for suite in root}
    assert (suites["away"].get("errors"), suites["away"].get("failures")) == ("1", "0")
    bad = suites["bad"]
    assert int(bad.get("failures")) == len(bad.findall("testcase/failure")) == 2
    assert int(bad.get("skipped")) > 0
    assert suites["good"].get("failures") == "0"
    assert {case.get("name").split(" ")[0] for case in suites["good"]} >= {"gpu-count", "row-remapping"}


def test_junit_is_xml_whatever_a_host_is_called():
    report = document.build({f"n{runs.HOSTILE}": runs.hostile()}, runs.CREATED)
    (suite,) = ET.fromstring(formats.junit(report))  # noqa: S314 - our own text
    assert "<script>" in suite.get("name")


def test_simulated_gpus_are_announced_to_machines_too():
    name, run = "h", runs.judged(nodes.healthy("h100x8"))
    for announced, gauge in ((False, 0), ("simulated GPU: x8", 1)):
        run["facts"]["simulated"] = announced
        report = document.build({name: run}, runs.CREATED)
        assert f"\ngpulab_simulated {gauge}\n" in formats.prometheus(report["hosts"][0], 1795222800.0)
        (suite,) = ET.fromstring(formats.junit(report))  # noqa: S314 - our own text
        assert [found.get("value") for found in suite.iter("property")] == [announced] * gauge
        assert suite.get("tests") == str(len(suite.findall("testcase")))


LINE = re.compile(r'^(# (HELP|TYPE|Written) .*|[a-z_]+(\{([a-z_]+="([^"\\\n]|\\.)*",?)*\})? -?[0-9.]+)$')


def test_prometheus_text_is_well_formed():
    for entry in (*runs.mixed()["hosts"], *document.build({"h": runs.hostile()}, runs.CREATED)["hosts"]):
        lines = formats.prometheus(entry, 1795222800.0).splitlines()
        assert [line for line in lines if not LINE.match(line)] == []
        samples = [line.rsplit(" ", 1)[0] for line in lines if not line.startswith("#")]
        assert len(samples) == len(set(samples))


def test_prometheus_values_rank_severities():
    bad = next(host for host in runs.mixed()["hosts"] if host["name"] == "bad")
    text = formats.prometheus(bad, 1795222800.0)
    assert 'gpulab_check_severity{check="gpu-count",uuid="",bus_id=""} 5' in text
    assert 'gpulab_check_severity{check="clock",uuid="",bus_id=""} 1' in text
    assert 'gpulab_host_severity{state="verified"} 5' in text
    assert "gpulab_verified_timestamp_seconds 1795222800" in text


def test_a_host_that_was_not_judged_has_no_time_of_a_proof():
    for host in runs.mixed()["hosts"]:
        text = formats.prometheus(host, 1795222800.0)
        assert ("gpulab_verified_timestamp_seconds" in text) == (host["state"] == "verified")


def test_terminal_has_a_line_for_each_host_and_the_remedies():
    lines = formats.terminal(runs.mixed())
    assert len([line for line in lines if not line.startswith(" ")]) == 6
    assert any("gpu-count" in line and line.endswith("-> reboot") for line in lines)
    assert any(line.startswith("lab") and line.endswith("SIMULATED") for line in lines)
    assert any(line.startswith("away") and "Connection refused" in line for line in lines)


def test_no_format_has_what_is_not_for_the_machine_and_all_count_alike():
    report = runs.mixed()
    suites = list(ET.fromstring(formats.junit(report)))  # noqa: S314 - our own text
    for host in report["hosts"]:
        left_out = {one["id"] for one in host["not_for_this_machine"]} - {result["id"] for result in host["results"]}
        assert bool(left_out) is (host["state"] == "verified")
        suite = next(suite for suite in suites if suite.get("name") == host["name"])
        text = formats.prometheus(host, 0)
        named = {case.get("name", "").partition(" [")[0] for case in suite} | set(re.findall(r'check="([^"]*)"', text))
        assert left_out.isdisjoint(named)
        counted = [int(number) for number in re.findall(r"^gpulab_results\{.*\} (\d+)$", text, re.MULTILINE)]
        cases = [case for case in suite.iter("testcase") if case.get("name") != host["state"]]
        assert sum(counted) == sum(host["counts"].values()) == len(host["results"]) == len(cases)
        line = next(line for line in formats.terminal(report) if line.startswith(host["name"]))
        told = {name: int(number) for number, name in re.findall(r"(\d+) (\w+)", line)} if left_out else {}
        assert told == {name: number for name, number in host["counts"].items() if number}

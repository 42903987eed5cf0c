"""What nodes have, held against NVIDIA's bulletins: answers found by hand in the bulletins."""

import re

import advisories as maker
import pytest
from ansible_collections.gpulab.node.plugins.plugin_utils.advisories import judge, told
from ansible_collections.gpulab.node.plugins.plugin_utils.advisories.judge import Installed
from ansible_collections.gpulab.node.plugins.plugin_utils.catalog import load

CATALOG = load()
PRODUCTS = CATALOG.read("advisory_packages")
JUDGE = judge.Judge(CATALOG.read("advisories"), PRODUCTS, CATALOG.branches)


def node(driver=None, loaded=None, toolkits=None, tensorrt=(), packages=()):
    """Return facts and packages of a node; packages are (name, version) or (name, version, place)."""
    facts = {
        "driver": {"library": driver},
        "modules": {"nvidia": {"loaded": bool(loaded), "version": loaded}},
        "cuda": {"toolkits": [{"prefix": prefix, "version": version} for prefix, version in (toolkits or {}).items()]},
        "libraries": {"tensorrt": list(tensorrt)},
    }
    listed = [dict(zip(("name", "version", "place"), (*package, ""), strict=False)) for package in packages]
    return judge.installed(facts, listed, PRODUCTS)


def found(*arguments, **known):
    """Return {hole: (verdict, fixed, version)} of a node."""
    return {one.cve: (one.verdict, one.fixed, one.version) for one in JUDGE.findings(node(*arguments, **known))}


DCGM, VISION = "datacenter-gpu-manager", "/opt/venvs/vision"
# (node, what its holes are among others, holes that it has not)
NODES = {
    "a driver of before May 2026": (
        {"driver": "580.95.05"},
        {
            "CVE-2026-24187": ("affected", "580.159.03", "580.95.05"),
            "CVE-2025-33219": ("affected", "580.126.09", "580.95.05"),
        },
        {"CVE-2022-21813"},
    ),
    "the fixed driver": ({"driver": "580.159.03"}, {}, {"CVE-2026-24187", "CVE-2026-24198", "CVE-2025-33219"}),
    "one branch of 535 has a hole of its own list": (
        {"driver": "535.288.01"},
        {"CVE-2026-24187": ("affected", "535.309.01", "535.288.01")},
        {"CVE-2026-24198", "CVE-2025-33219"},  # of 580 and 595 alone, and mended in this very release
    ),
    "a branch that ended, and that the bulletin of May 2026 does not list": (
        {"driver": "590.48.01"},
        {"CVE-2026-24187": ("not stated", "", "590.48.01")},
        {"CVE-2025-33219"},
    ),
    "a branch that came after the bulletins": ({"driver": "620.70.06"}, {}, {"CVE-2026-24187"}),
    "a driver that waits for a reboot": (
        {"driver": "580.159.03", "loaded": "580.95.05"},
        {"CVE-2026-24187": ("affected", "580.159.03", "580.95.05")},
        set(),
    ),
    "two toolkits, one of them updated": (
        {"toolkits": {"/usr/local/cuda-12.6": "12.6.0", "/usr/local/cuda-13.1": "13.1.0"}},
        {"CVE-2024-0110": ("affected", "12.6.1", "12.6.0"), "CVE-2025-33228": ("affected", "13.1", "12.6.0")},
        set(),
    ),
    "the update of the toolkit": (
        {"toolkits": {"/usr/local/cuda-12.6": "12.6.1"}},
        {"CVE-2025-33228": ("affected", "13.1", "12.6.1")},
        {"CVE-2024-0110"},
    ),
    "packages of Debian": (
        {
            "packages": [
                ("nvidia-container-toolkit", "1.17.7-1"),
                ("datacenter-gpu-manager-4-core", "1:4.5.2-1~deb12u1"),
            ]
        },
        {
            "CVE-2025-23266": ("condition", "1.17.8", "1.17.7-1"),
            "CVE-2026-24260": ("affected", "1.19.1", "1.17.7-1"),
            "CVE-2026-47483": ("affected", "4.5.3", "1:4.5.2-1~deb12u1"),
        },
        set(),
    ),
    "newer packages": (
        {
            "packages": [
                ("nvidia-container-toolkit", "1.19.1-1"),
                (f"{DCGM}-4-core", "1:4.5.10-1"),
                (f"{DCGM}-exporter", "4.8.2-1"),
            ]
        },
        {},
        {"CVE-2025-23266", "CVE-2026-24260", "CVE-2026-47483"},
    ),
    "wheels": (
        {
            "packages": [
                ("tensorrt-cu12", "10.16.1.11", VISION),
                ("tensorrt-llm", "1.3.0rc14", VISION),
                ("nvidia-dali-cuda130", "2.1.0", VISION),
                ("nvidia-nvjpeg-cu12", "12.4.0.76", VISION),
            ]
        },
        {
            "CVE-2026-24227": ("affected", "11.0", "10.16.1.11"),
            "CVE-2026-24271": ("affected", "1.3.0rc15", "1.3.0rc14"),
            "CVE-2025-23274": ("affected", "13.0.0", "12.4.0.76"),
            "CVE-2025-23272": ("condition", "25.03", "12.4.0.76"),
        },
        {"CVE-2026-24180", "CVE-2026-24188", "CVE-2026-24220"},
    ),
    "nothing of NVIDIA's": ({"packages": [("bash", "5.2")]}, {}, {"CVE-2026-24187"}),
}


@pytest.mark.parametrize("name", NODES)
def test_a_node_has_the_holes_that_the_bulletins_say(name):
    known, holes, not_there = NODES[name]
    answer = found(**known)
    assert {cve: answer.get(cve) for cve in holes} == holes
    assert not answer.keys() & not_there
    assert holes or not answer


def test_packages_that_came_together_are_one_thing():
    names = ("tensorrt", "tensorrt-cu12", "tensorrt-cu12-libs")
    packages = [(name, version, VISION) for version in ("10.3.0.26", "10.16.1.11") for name in names]
    assert node(tensorrt=["10.3.0"], packages=[*packages, ("tensorrt", "10.3.0.26", "/opt/venvs/other")]) == [
        Installed("tensorrt", "libnvinfer", "10.3.0"),
        Installed("tensorrt", "tensorrt", "10.3.0.26", VISION),
        Installed("tensorrt", "tensorrt", "10.16.1.11", VISION),
        Installed("tensorrt", "tensorrt", "10.3.0.26", "/opt/venvs/other"),
    ]


def holds(sentence, fixed, version):
    """Tell whether a sentence of a bulletin concerns a version."""
    said = maker.bound(sentence)
    one = {said.kind: said.version, "fixed": fixed}
    return judge.verdict(one, version)


@pytest.mark.parametrize(
    ("sentence", "fixed", "version", "verdict"),
    [
        ("All versions prior to 1.17.7", "1.17.7", "1.17.7", "fixed"),
        ("All versions up to and including 1.17.7", "1.17.8", "1.17.7", "affected"),
        ("All versions up to and including 1.17.7", None, "1.17.8", "not stated"),
        ("All versions up to and including 1.17.7", "1.18.0", "1.17.9", "not stated"),
        ("All versions up to and including 1.17.7", "1.17.8", "1.17.8", "fixed"),
        ("All versions prior to 12.4", "12.4.1", "12.4.0", "not stated"),
        ("All versions prior to 12.4", "12.4.1", "12.3.2", "affected"),
        ("All versions prior to 5.10", "5.10", "5.9", "affected"),
        ("All versions prior to 5.9", "5.9", "5.10", "fixed"),
        ("All driver versions prior to 580.159.03", "580.159.03", "580.95.05", "affected"),
        ("All driver versions prior to 580.159.03", "580.159.03", "580.159.03-1~deb12u1", "fixed"),
        ("All driver versions prior to 580.159.03", "580.159.03", "580.159.04", "fixed"),
    ],
)
def test_the_border_is_where_the_sentence_draws_it(sentence, fixed, version, verdict):
    assert holds(sentence, fixed, version) == verdict


def test_a_hole_of_two_bulletins_stands_once_and_the_graver_word_counts():
    group = {"cves": {"CVE-2026-1": 5.0}}
    bulletins = {
        "bulletins": [
            {
                "bulletin": str(number),
                "published": "2026-01-01",
                "affects": [{**group, "ranges": [{"product": "dcgm", "upto": "4.5", **more}]}],
            }
            for number, more in enumerate([{"condition": "on Mondays"}, {}, {"condition": "on Tuesdays"}])
        ]
    }
    (one,) = judge.Judge(bulletins, PRODUCTS, {}).findings([Installed("dcgm", DCGM, "4.5")])
    assert (one.verdict, one.bulletin, one.because) == ("affected", "1", "")


ACCEPTED = {"cve": "CVE-2026-24187", "because": "nobody logs in", "until": "2026-12-31", "by": "Ada"}


@pytest.mark.parametrize(("today", "counts"), [("2026-12-31", False), ("2027-01-01", True)])
def test_what_is_accepted_counts_again_after_its_last_day(today, counts):
    findings, notes = judge.with_accepted(JUDGE.findings(node("580.95.05")), [ACCEPTED], today)
    (one,) = [one for one in findings if one.cve == "CVE-2026-24187"]
    assert one.verdict == ("affected" if counts else "accepted")
    assert one.because == ("" if counts else "nobody logs in (Ada, until 2026-12-31)")
    again = ["CVE-2026-24187 was accepted until 2026-12-31 by Ada, and counts again"]
    assert notes == (again if counts else [])


@pytest.mark.parametrize(
    ("change", "problem"),
    [
        ({}, None),
        ({"cve": "CVE-1999-0001"}, "no bulletin has CVE-1999-0001"),
        ({"until": "soon"}, "until of CVE-2026-24187 is no day as YYYY-MM-DD"),
        ({"until": ""}, "until of CVE-2026-24187 is no day as YYYY-MM-DD"),
        ({"because": " "}, "because of CVE-2026-24187 is empty"),
        ({"by": ""}, "by of CVE-2026-24187 is empty"),
    ],
)
def test_what_cannot_be_accepted_is_named(change, problem):
    assert list(judge.problems([{**ACCEPTED, **change}], JUDGE.cves)) == ([problem] if problem else [])


def test_each_thing_is_a_line_with_its_remedy():
    known = node(driver="590.48.01", packages=[("nvidia-container-toolkit", "1.17.7-1")])
    findings, _notes = judge.with_accepted(JUDGE.findings(known), [{**ACCEPTED, "cve": "CVE-2026-24260"}], "2026-11-29")
    condition, accepted, unstated = sorted(told.lines(findings, len(known)), key=lambda line: "driver" in line)
    assert condition.startswith("nvidia-container-toolkit 1.17.7-1 is affected under a condition")
    assert "CVE-2025-23266 (9.0), CVE-2025-23267 (8.5); fixed in 1.17.8: ask for a fixed one" in condition
    assert condition.endswith("[CDI mode only for versions prior to 1.17.5]")
    assert accepted == (
        "nvidia-container-toolkit 1.17.7-1 is accepted: CVE-2026-24260 (8.5); nobody logs in (Ada, until 2026-12-31)"
    )
    assert unstated.startswith("driver 590.48.01 is of a version that NVIDIA says nothing of, which counts")
    assert "fixed in no release of its branch" in unstated


def test_a_node_without_holes_says_so():
    assert list(told.lines([], 2)) == ["no known hole in 2 things of NVIDIA's"]


def test_a_line_has_the_worst_holes_and_counts_the_others():
    (line,) = told.lines(JUDGE.findings(node("535.54.03")), 1)
    scores = [float(score) for score in re.findall(r"\((\d+\.\d)\)", line)]
    assert len(scores) == told.MOST
    assert scores == sorted(scores, reverse=True)
    assert re.search(r" and \d\d more; fixed in 535.309.01: ", line)


def test_control_characters_of_a_path_are_not_shown():
    (line, *_) = told.lines(JUDGE.findings(node(packages=[("tensorrt", "10.0", "/opt/venvs/\x1b[2Jx")])), 1)
    assert "\x1b" not in line


@pytest.mark.parametrize(("today", "old"), [("2026-10-02", False), ("2026-10-03", True)])
def test_bulletins_older_than_45_days_are_told(today, old):
    line = told.age("2026-08-18", today)
    assert (line is not None) == old
    assert not old or "2026-08-18, 46 days ago" in line

"""What came back and what did not, as data and for people."""

from dataclasses import asdict, replace

from ansible_collections.gpulab.node.plugins.plugin_utils.capture.compare import Change, Comparison
from ansible_collections.gpulab.node.plugins.plugin_utils.rebuild import report

EXPECTED = [
    {
        "reason": "another release",
        "source": ["x"],
        "release": "another",
        "change": ["gone"],
        "subjects": [["packages", "lib*[0-9]*"]],
    },
    {"reason": "a new system disk", "source": ["x"], "subjects": [["disks", "disks", "*", "below"]]},
    {"reason": "a new root", "source": ["x"], "alike": r"root=\S+", "subjects": [["boot", "arguments"]]},
    {"reason": "newer packages", "source": ["x"], "change": ["changed"], "subjects": [["packages", "*", "version"]]},
]
GONE = {"section": "packages", "name": "old-tool", "why": "no package source has it"}


def change(section, *subject, how="changed", before="1", after="2"):
    return Change(section, how, list(subject), before, after)


def document(*changes, missing=()):
    comparison = Comparison(1, "node07", "then", "now", list(changes), [])
    return report.document(comparison, missing, EXPECTED)


def test_expected_differences_are_counted_by_their_reason():
    found = document(change("disks", "disks", "sda", "below", "x"), change("packages", "git amd64", "version"))
    assert found["differences"] == []
    assert found["expected"] == {"a new system disk": 1, "newer packages": 1}


def test_a_value_that_differs_in_more_than_it_may_is_named():
    root = change("boot", "arguments", before="root=UUID=1 ro quiet", after="root=UUID=2 ro quiet")
    assert document(root)["expected"] == {"a new root": 1}
    more = replace(root, after="root=UUID=2 ro")
    assert document(more)["differences"] == [asdict(more)]


def test_a_null_that_is_gone_is_no_difference():
    gone = change("gpulab", "settings", "x", how="gone", before=None, after=None)
    assert document(gone)["differences"] == []


def test_libraries_that_are_gone_are_expected_of_another_release_alone():
    gone = change("packages", "libssl3 amd64", how="gone")
    assert document(gone)["differences"] == [asdict(gone)]
    release = change("machine", "system", "version")
    found = document(gone, release)
    assert (found["differences"], found["expected"]) == ([asdict(release)], {"another release": 1})


def test_all_others_are_named():
    others = [
        change("packages", "git amd64", how="gone"),
        change("disks", "disks", "sda", "size"),
        change("users", "li"),
    ]
    assert document(*others)["differences"] == list(map(asdict, others))
    lines = report.lines(document(*others))
    assert "  OTHERWISE THAN BEFORE:" in lines
    assert "    users: user li 1 -> 2" in lines


def test_what_is_missing_is_told_once_with_its_reason():
    found = document(change("packages", "old-tool amd64", how="gone"), missing=[GONE])
    assert found["differences"] == []
    assert "      old-tool: no package source has it" in report.lines(found)


def test_a_name_in_a_name_is_another_one():
    other = change("packages", "old-tool-data all", how="gone")
    assert document(other, missing=[GONE])["differences"] == [asdict(other)]


def test_where_all_is_back_it_says_so():
    assert report.lines(document())[-1] == "  all is back"


def test_a_pattern_is_for_each_name_at_its_place():
    deeper = change("packages", "git amd64", "architecture")
    assert document(deeper)["differences"] == [asdict(deeper)]


def test_an_image_that_is_missing_is_known_by_its_names_though_a_digest_names_it():
    image = ("containers", "engines", "docker", "images", "sha256:1")
    gone = change(*image, how="gone", before={"names": ["lab/own:1"]})
    told = {"section": "containers", "name": "image lab/own:1", "why": "it was built here"}
    assert document(gone, missing=[told])["differences"] == []
    assert document(gone)["differences"] == [asdict(gone)]

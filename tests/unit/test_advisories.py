"""The program that makes catalog/advisories.yml reads NVIDIA's sentences, and stops at what it does not know."""

import copy
import hashlib
import json
import os
import subprocess

import advisories
import pytest
import yaml
from ansible_collections.gpulab.node.plugins.plugin_utils.advisories.versions import key

PACKAGES, MADE, BRANCHES = (
    yaml.safe_load((advisories.CATALOG / f"{name}.yml").read_text())
    for name in ("advisory_packages", "advisories", "driver_branches")
)
RANGES = [one for bulletin in MADE["bulletins"] for group in bulletin["affects"] for one in group["ranges"]]

# One of each shape that NVIDIA's files of the snapshot of 2026-08-18 have for products of ours on Linux
AFFECTED = [
    ("All drivers versions prior to 510.47.03", "before", "510.47.03"),
    ("All driver versions prior to 515.65.01", "before", "515.65.01"),
    ("All driver version prior to 570.172.08", "before", "570.172.08"),
    ("All driver versions prior to 390.154", "before", "390.154"),
    ("All versions prior to 390.151", "before", "390.151"),
    ("All versions prior to 2.3.4", "before", "2.3.4"),
    ("All versions prior to v1.2", "before", "1.2"),
    ("All versions prior to v1.2.1", "before", "1.2.1"),
    ("All versions prior to 12.0 Update 1", "before", "12.0.1"),
    ("All versions prior to CUDA Toolkit 11.6 Update 2", "before", "11.6.2"),
    ("All versions prior to CUDA Toolkit v12.2", "before", "12.2"),
    ("All versions prior to CUDA Toolkit 13.0", "before", "13.0"),
    ("All versions prior to nvJPEG 25.03", "before", "25.03"),
    ("All versions prior to nvJPEG 13.0.0", "before", "13.0.0"),
    ("All versions prior to nvJPEG2000 v0.7.x", "before", "0.7"),
    ("All versions prior to nvTIFF v0.3.0", "before", "0.3.0"),
    ("All versions up to and including CUDA Toolkit 12.5U1", "upto", "12.5.1"),
    ("All versions up to and including CUDA Toolkit 12.6", "upto", "12.6"),
    ("All versions up to and including v1.16.1", "upto", "1.16.1"),
    ("All versions up to and including 1.17.0", "upto", "1.17.0"),
    ("0.8.0", "upto", "0.8.0"),
    ("All versions up to CUDA Toolkit 12.8", "to", "12.8"),
    ("0.0 - 2.0", "to", "2.0"),
    ("0.0 to v1.3.0 rc14", "to", "1.3.0rc14"),
    ("0.0  to v1.3.0 rc11", "to", "1.3.0rc11"),
    ("v0 - v10.16.1", "to", "10.16.1"),
    ("0.0  to 4.8.2", "to", "4.8.2"),
]
FIXED = {
    "510.47.03": "510.47.03",
    "390.151": "390.151",
    "2.3.4 and 2.3.5 (latest)": "2.3.4",
    "11.6 Update 2": "11.6.2",
    "CUDA Toolkit v12.2": "12.2",
    "CUDA Toolkit v12.4U1": "12.4.1",
    "CUDA Toolkit 12.6": "12.6",
    "CUDA Toolkit 12.9 Update 1": "12.9.1",
    "nvJPEG2000 v0.7.x": "0.7",
    "nvTIFF v0.3.0": "0.3.0",
    "v1.16.2": "1.16.2",
    "v1.17": "1.17",
    "v1.3.0 rc15": "1.3.0rc15",
}


@pytest.mark.parametrize(("sentence", "kind", "version"), AFFECTED)
def test_a_sentence_is_read(sentence, kind, version):
    assert advisories.bound(sentence) == (kind, version, None)


def test_what_nvidia_adds_in_brackets_is_a_condition():
    sentence = "All versions up to and including 1.17.7 (CDI mode only for versions prior to 1.17.5)"
    assert advisories.bound(sentence) == ("upto", "1.17.7", "CDI mode only for versions prior to 1.17.5")


@pytest.mark.parametrize(
    "sentence",
    [
        "All driver versions",
        "All versions prior to 0.13.1 and 0.12.3",
        "All versions prior to 12.8 Update",
        "All versions that do not include commit db8e053",
        "Versions 1.0 to 2.7.2",
        "v19.11 through v24.08",
        "All driver versions prior to 580.95.05 on Ubuntu",
        "",
    ],
)
def test_a_sentence_that_nobody_has_read_yet_stops_the_making(sentence):
    with pytest.raises(advisories.UnknownError, match="a sentence"):
        advisories.bound(sentence)


@pytest.mark.parametrize(("text", "version"), FIXED.items())
def test_what_is_fixed_is_read(text, version):
    assert advisories.fixed_version(text) == version


def test_a_fixed_version_that_nobody_has_read_yet_stops_the_making():
    with pytest.raises(advisories.UnknownError, match="a fixed version"):
        advisories.fixed_version("Available the week of June 29, 2023")


def csaf(*products, about="Container Toolkit", status="final"):
    """Return a bulletin with one CVE; a product is (system, name, affected, fixed)."""
    leaves, affected, fixed = [], [], []
    for number, (system, name, *texts) in enumerate(products):
        for text, listed in zip(texts, (affected, fixed), strict=True):
            listed.append(f"{number} {text}")
            leaf = {"name": name, "product": {"name": text, "product_id": listed[-1]}}
            leaves.append({"name": system, "branches": [leaf]})
    return {
        "document": {
            "title": f"Security Bulletin: NVIDIA {about} - July 2026",
            "tracking": {
                "id": "5999",
                "status": status,
                "initial_release_date": "2026-07-01T00:00:00Z",
                "current_release_date": "2026-07-02T00:00:00Z",
            },
        },
        "product_tree": {"branches": [{"name": "NVIDIA", "branches": leaves}]},
        "vulnerabilities": [
            {
                "cve": "CVE-2026-1",
                "product_status": {"known_affected": affected, "fixed": fixed},
                "scores": [{"cvss_v3": {"baseScore": 9.0}}],
            }
        ],
    }


TOOLKIT = ("Linux", "NVIDIA Container Toolkit", "All versions up to and including 1.19.0", "1.19.1")


def read(document, digest="a", promised="a"):
    return advisories.read(document, digest, promised, PACKAGES)


def ranges(document):
    (group,) = read(document)["affects"]
    return [tuple(one) for one in group]


def test_a_bulletin_becomes_a_record():
    assert read(csaf(TOOLKIT)) == {
        "bulletin": "5999",
        "about": "Container Toolkit",
        "published": "2026-07-01",
        "revised": "2026-07-02",
        "sha256": "a",
        "affects": {(("container_toolkit", None, "upto", "1.19.0", "1.19.1", None),): {"CVE-2026-1": 9.0}},
    }


def test_a_driver_has_a_range_for_each_branch_and_the_highest_number_of_its_families():
    document = csaf(
        ("Linux(R570)", "GeForce", "All driver versions prior to 570.86.16", "570.86.16"),
        ("Linux(R570)", "Tesla", "All driver versions prior to 570.86.15", "570.86.15"),
        ("Linux(R550)", "Tesla", "All driver versions prior to 550.144.03", "550.144.03"),
        ("Windows(R570)", "GeForce", "Only on Tuesdays", "572.16"),
        ("Linux(R570 vGPU 18)", "Guest driver", "Only on Tuesdays", "570.86.16"),
        about="GPU Display Driver",
    )
    assert ranges(document) == [
        ("driver", "550", "before", "550.144.03", "550.144.03", None),
        ("driver", "570", "before", "570.86.16", "570.86.16", None),
    ]


@pytest.mark.parametrize(("fixed", "kind"), [("4.8.2", "before"), ("4.8.3", "upto")])
def test_a_span_includes_its_end_unless_that_is_fixed(fixed, kind):
    document = csaf(("All(4.8)", "DCGM Exporter", "0.0  to 4.8.2", fixed), about="DCGM Exporter")
    assert ranges(document) == [("dcgm_exporter", None, kind, "4.8.2", fixed, None)]


def test_a_driver_is_fixed_by_a_release_of_its_own_branch_alone():
    document = csaf(
        ("Linux(R550)", "Tesla", "All driver versions prior to 550.144.03", "570.86.16"), about="GPU Display Driver"
    )
    assert ranges(document) == [("driver", "550", "before", "550.144.03", None, None)]


def test_a_number_that_is_counted_otherwise_is_a_condition():
    document = csaf(
        ("Linux x86_64", "nvJPEG", "All versions prior to nvJPEG 25.03", "nvJPEG 25.03"), about="CUDA Toolkit"
    )
    ((*_, condition),) = ranges(document)
    assert condition.startswith("this number is a month")


def test_a_bulletin_of_what_gpulab_does_not_install_is_left_out_whatever_it_says():
    assert read(csaf(("Linux", "Megatron-LM", "gibberish", "?"), about="Megatron LM", status="draft"), "a", "b") is None


@pytest.mark.parametrize(
    ("change", "named"),
    [
        ({"about": "cuDNN"}, "the subject of a bulletin: 'cuDNN'"),
        ({"status": "draft"}, "the state of a bulletin: 'draft'"),
        ({"products": [("Linux", "Toaster", "1.0", "1.1")]}, "a product: 'Toaster'"),
        (
            {"products": [("Linux", "NVIDIA Container Toolkit", "Some versions", "1.19.1")]},
            "a sentence: 'Some versions'",
        ),
    ],
)
def test_what_it_does_not_know_stops_it_and_is_named(change, named):
    products = change.pop("products", [TOOLKIT])
    with pytest.raises(advisories.UnknownError) as stopped:
        read(csaf(*products, **change))
    assert str(stopped.value) == named


def test_a_title_of_another_form_stops_it():
    document = csaf(TOOLKIT)
    document["document"]["title"] = "Notice of NVIDIA"
    with pytest.raises(advisories.UnknownError, match="a title"):
        read(document)


def test_a_status_that_is_neither_affected_nor_fixed_stops_it():
    document = csaf(TOOLKIT)
    document["vulnerabilities"][0]["product_status"]["under_investigation"] = []
    with pytest.raises(advisories.UnknownError, match=r"a status: .*under_investigation"):
        read(document)


def test_a_digest_that_does_not_fit_stops_it_unless_somebody_looked_at_just_this_file():
    with pytest.raises(advisories.UnknownError, match="digest"):
        read(csaf(TOOLKIT), "a", "b")
    packages = copy.deepcopy(PACKAGES)
    packages["digests_aside"]["5999"] = "a"
    assert advisories.read(csaf(TOOLKIT), "a", "b", packages)
    with pytest.raises(advisories.UnknownError, match="digest"):
        advisories.read(csaf(TOOLKIT), "c", "b", packages)


def test_the_text_is_the_record():
    written = yaml.safe_load(advisories.text([read(csaf(TOOLKIT))], "c" * 40, "2026-07-03", 1))
    assert written["bulletins"][0]["affects"] == [
        {
            "cves": {"CVE-2026-1": 9.0},
            "ranges": [{"product": "container_toolkit", "upto": "1.19.0", "fixed": "1.19.1"}],
        }
    ]
    assert written["as_of"] == "2026-07-03"


@pytest.fixture
def make(tmp_path, monkeypatch):
    """Return a function that makes the catalog from a repository with one bulletin; it returns the status."""
    catalog = tmp_path / "catalog"
    catalog.mkdir()
    (catalog / "advisory_packages.yml").write_text(yaml.safe_dump(PACKAGES))
    monkeypatch.setattr(advisories, "CATALOG", catalog)

    def made(document, day="2026-07-03", digest=None):
        repository = tmp_path / day
        folder = repository / "2026/5999"
        folder.mkdir(parents=True)
        content = json.dumps(document).encode()
        (folder / "5999.json").write_bytes(content)
        (folder / "5999.json.sha256").write_text(digest or hashlib.sha256(content).hexdigest())
        date = f"{day}T12:00:00Z"
        who = ("-c", "user.name=a", "-c", "user.email=a@example.org", "-c", "commit.gpgsign=false")
        for argv in (("init", "-q"), ("add", "."), (*who, "commit", "-qm", "One")):
            when = {**os.environ, "GIT_COMMITTER_DATE": date, "GIT_AUTHOR_DATE": date}
            subprocess.run(["git", "-C", repository, *argv], check=True, env=when)
        return advisories.main(str(repository / ".git"))

    made.file = catalog / "advisories.yml"
    return made


def test_the_catalog_is_made_of_the_commit(make):
    assert make(csaf(TOOLKIT)) == 0
    written = yaml.safe_load(make.file.read_text())
    assert (written["as_of"], len(written["commit"]), len(written["bulletins"])) == ("2026-07-03", 40, 1)


def test_what_stops_it_is_printed_and_nothing_is_written(make, capsys):
    assert make(csaf(("Linux", "NVIDIA Container Toolkit", "Some versions", "1.19.1"))) == 1
    assert capsys.readouterr().out == "unknown: 2026/5999/5999.json: a sentence: 'Some versions'\n"
    assert not make.file.exists()


def test_the_digest_beside_a_file_has_to_be_its_own(make, capsys):
    assert make(csaf(TOOLKIT), digest="0" * 64) == 1
    assert "a digest that does not fit" in capsys.readouterr().out


def test_an_older_repository_replaces_nothing(make, capsys):
    make(csaf(TOOLKIT))
    before = make.file.read_text()
    assert make(csaf(TOOLKIT), day="2026-07-02") == 1
    assert "those of 2026-07-03 are here" in capsys.readouterr().out
    assert make.file.read_text() == before


def test_each_range_is_of_a_product_that_a_node_can_have():
    assert {one["product"] for one in RANGES} == {one["product"] for one in PACKAGES["products"]}


def test_the_floors_of_the_drivers_are_no_lower_than_what_the_bulletins_call_fixed():
    floors = {one["branch"]: one["security_floor"]["version"] for one in BRANCHES["branches"] if one["security_floor"]}
    fixed = [(one["branch"], one.get("fixed") or one["before"]) for one in RANGES if one["product"] == "driver"]
    held = [(branch, version) for branch, version in fixed if branch in floors]
    assert held
    assert not [(branch, version) for branch, version in held if key(floors[branch]) < key(version)]


def test_a_branch_without_a_floor_has_ended_or_came_after_the_bulletins():
    without = [one for one in BRANCHES["branches"] if not one["security_floor"] and not one["ended"]]
    assert not [one["branch"] for one in without if one["released"] <= MADE["as_of"]]

"""The packages of a capture on a node, whose APT answers from a script."""

import base64

import pytest
from ansible_collections.gpulab.node.plugins.module_utils.capture.sections.machine import Release
from ansible_collections.gpulab.node.plugins.module_utils.core.refusal import Refusal
from ansible_collections.gpulab.node.plugins.module_utils.packages import apt_sources
from ansible_collections.gpulab.node.plugins.module_utils.rebuild import software_apt, software_done
from ansible_collections.gpulab.node.plugins.module_utils.rebuild.software_apt import Packages
from ansible_collections.gpulab.node.plugins.module_utils.rebuild.software_asked import OfPackages

from unit.filled import filled, typed

RELEASE = filled({"id": "debian", "version": "13", "name": "Debian 13"}, Release)
LIST, LAB = "/etc/apt/sources.list", "/etc/apt/sources.list.d/lab.sources"
PIN, PROXY = "/etc/apt/preferences.d/kernel", "/etc/apt/apt.conf.d/01proxy"
CONTENTS = {
    LIST: b"deb http://mirror.example.org/debian trixie main\n",
    LAB: b"Types: deb\nURIs: https://packages.example.org/\nSuites: stable\nComponents: main\n",
    PIN: b"Package: *\nPin: version 1\nPin-Priority: 900\n",
    PROXY: b"Acquire::Retries 1;\n",
}
DPKG = "dpkg\tamd64\t1.21\tinstall\tinstalled\t\n"


def entry(path, data):
    names = {"owner": "-", "uid": 0, "group": "-", "gid": 0, "size": len(data)}
    return {"path": path, "kind": "file", "mode": "0644", **names, "data": base64.b64encode(data).decode()}


class Node:
    """A node's programs: what they were asked, and which packages no source has."""

    def __init__(self):
        """Have dpkg alone."""
        self.installed, self.unknown, self.lists, self.ran = DPKG, ["old-tool"], True, []

    def __call__(self, argv):
        """Answer a command."""
        self.ran.append(argv)
        if argv[0] == "dpkg-query":
            return 0, self.installed, ""
        if argv[:2] == ["apt-cache", "madison"]:
            return 0, "dpkg | 1.21 | x\n" if self.lists else "", ""
        if argv[0] == "dpkg" and argv[1] == "--print-architecture":
            return 0, "amd64\n", ""
        if "--simulate" in argv:
            errors = [f"E: Unable to locate package {name}" for name in self.unknown if name in argv]
            return int(bool(errors)), "", "\n".join(errors)
        return 0, "", ""

    def said(self, word):
        """Return the commands that have a word."""
        return [argv for argv in self.ran if word in argv]


@pytest.fixture
def node():
    return Node()


@pytest.fixture
def root(tmp_path, monkeypatch):
    monkeypatch.setattr("os.geteuid", lambda: 1000)
    monkeypatch.setattr(software_apt, "TRIAL", tmp_path / "trial")
    monkeypatch.setattr(software_apt, "POLICY", tmp_path / "policy-rc.d")
    (tmp_path / "etc/apt/sources.list.d").mkdir(parents=True)
    (tmp_path / "etc/os-release").write_text('ID=debian\nVERSION_ID="13"\nPRETTY_NAME="Debian 13"\n')
    (tmp_path / "etc/apt/sources.list.d/debian.sources").write_text("Types: deb\n")
    return tmp_path


@pytest.fixture
def packages(node, root):
    def make(**changes):
        section = {
            "packages": [
                {"name": name, "version": "1", "architecture": "amd64"} for name in ("git", "lib", "old-tool")
            ],
            "manual": ["git", "old-tool"],
            "holds": ["git"],
        }
        entries = [entry(path, data) for path, data in CONTENTS.items()]
        asked = {"section": section, "release": RELEASE, "managed": [], "entries": entries, "lacking": []}
        return Packages(node, typed({**asked, **changes}, OfPackages), root)

    return make


def log(**failed):
    parts = [f"== source {path}\n{failed.get('lab', '') if path == LAB else ''}\n" for path in (LIST, LAB)]
    ends = [f"== ended with {100 if path == LAB and failed else 0}\n" for path in (LIST, LAB)]
    return "".join(part + end for part, end in zip(parts, ends))


def text(root, path):
    file = root / path[1:]
    return file.read_bytes() if file.exists() else None


def test_it_says_what_differs_and_changes_nothing(packages, node, root):
    found = packages().look()
    assert set(found["files"]) == set(CONTENTS)
    assert found["names"] == ["git", "old-tool", "lib"]
    assert found["missing"] == []
    assert text(root, LIST) is None
    assert [argv[0] for argv in node.ran] == ["dpkg-query"]


def test_sources_are_tried_before_they_are_in_place(packages, root):
    argv = packages().lists()
    assert text(root, PIN) == CONTENTS[PIN]
    assert text(root, LIST) is text(root, LAB) is None
    assert (root / "trial/lab.sources").read_bytes() == CONTENTS[LAB]
    script = argv[2]
    assert f"== source {LAB}" in script
    assert f"sourcelist={root}/trial/lab.sources" in script


def test_those_that_answer_take_the_place_of_the_installers(packages, root):
    packages().lists()
    found = packages().install(log())
    assert (text(root, LIST), text(root, LAB)) == (CONTENTS[LIST], CONTENTS[LAB])
    assert not (root / "etc/apt/sources.list.d/debian.sources").exists()
    assert not (root / "trial").exists()
    assert found["install"] == ["git", "lib"]
    assert [one["name"] for one in found["missing"]] == ["old-tool"]
    assert (root / "policy-rc.d").stat().st_mode & 0o111


def test_where_a_bundle_stands_for_them_they_come_back_untried(packages, root):
    bundle = root / apt_sources.BUNDLE.lstrip("/")
    bundle.parent.mkdir(parents=True, exist_ok=True)
    bundle.write_text("Types: deb\n")
    script = packages().lists()[2]
    assert script.endswith("update")
    assert "sourcelist" not in script
    found = packages().install("")
    assert (text(root, LIST), text(root, LAB)) == (CONTENTS[LIST], CONTENTS[LAB])
    assert found["install"] == ["git", "lib"]


def test_one_that_does_not_answer_waits_and_is_told(packages, root):
    packages().lists()
    found = packages().install(log(lab="E: Failed to fetch https://packages.example.org"))
    assert (text(root, LIST), text(root, LAB)) == (CONTENTS[LIST], None)
    assert {one["name"]: one["why"] for one in found["missing"]}[LAB] == (
        "it does not answer: Failed to fetch https://packages.example.org"
    )


def test_the_transaction_asks_nothing_keeps_edited_files_and_takes_no_more_than_there_was(packages):
    argv = packages().install(log())["argv"]
    assert "--option=Dpkg::Options::=--force-confold" in argv
    assert "--option=APT::Install-Recommends=false" in argv
    assert argv[-2:] == ["git", "lib"]


def test_where_no_source_answers_it_is_refused(packages, node):
    node.lists = False
    with pytest.raises(Refusal, match=r"R060.*Temporary failure"):
        packages().install("E: Failed to fetch http://mirror  Temporary failure resolving\n")


def test_another_release_keeps_its_own_sources(packages, root):
    other = {**RELEASE, "version": "12", "name": "Debian 12"}
    host = packages(release=other)
    host.lists()
    found = host.install("")
    assert (text(root, LIST), text(root, LAB), text(root, PIN)) == (None, None, None)
    assert text(root, PROXY) == CONTENTS[PROXY]
    told = {one["name"]: one["why"] for one in found["missing"]}
    assert told[LAB] == told[PIN] == "it is for Debian 12, and the node has Debian 13"
    assert LIST not in told, "the node has the distribution's own"
    assert found["install"] == ["git"], "what it needs is chosen again"
    assert "--option=APT::Install-Recommends=true" in found["argv"]
    assert (root / "etc/apt/sources.list.d/debian.sources").exists()


def test_services_may_start_again_and_marks_are_given(packages, node, root):
    packages().install(log())
    node.installed = DPKG + "git\tamd64\t1\tinstall\tinstalled\t\nlib\tamd64\t1\tinstall\tinstalled\t\n"
    found = packages().marks(check_mode=False)
    assert not (root / "policy-rc.d").exists()
    assert node.said("apt-mark") == [["apt-mark", "hold", "git"], ["apt-mark", "auto", "lib"]]
    assert [one["what"] for one in found["changes"]] == ["apt-mark hold git", "apt-mark auto lib"]


def test_somebody_elses_policy_stays(packages, root):
    (root / "policy-rc.d").write_text("theirs")
    packages().marks(check_mode=False)
    assert (root / "policy-rc.d").read_text() == "theirs"


def test_a_hold_that_could_not_be_stays_named_when_it_is_over(packages, root):
    software_done.write(root, "20261126T021500Z")
    assert [one["name"] for one in packages(lacking=["git"]).marks(check_mode=False)["missing"]] == ["git"]
    assert packages().marks(check_mode=False)["missing"] == []


def test_once_it_is_over_only_what_was_missing_is_tried(packages, node, root):
    software_done.write(root, "20261126T021500Z")
    assert packages().look() == {"files": [], "names": [], "missing": []}
    assert packages(lacking=["old-tool"]).look()["names"] == ["old-tool"]
    node.installed = DPKG + "git\tamd64\t1\tinstall\tinstalled\t\n"
    assert packages().marks(check_mode=False)["changes"] == []

"""Which paths are of a package, and unchanged."""

import hashlib
import os
from types import SimpleNamespace

import pytest
from ansible_collections.gpulab.node.plugins.module_utils.capture import owned
from ansible_collections.gpulab.node.plugins.module_utils.capture.owned import Packages
from ansible_collections.gpulab.node.plugins.module_utils.core.node import Node

INFO = "var/lib/dpkg/info"
EDITOR = "auto\n/usr/bin/editor\neditor.1\n/usr/share/man/editor.1\n\n/x\n"


def put(root, path, text=""):
    place = root / path.lstrip("/")
    place.parent.mkdir(parents=True, exist_ok=True)
    place.write_text(text)
    return place


def md5(text):
    return hashlib.md5(text.encode(), usedforsecurity=False).hexdigest()


@pytest.fixture
def debian(tmp_path):
    """Make a system with merged /usr. Its packages were unpacked before their files changed last, as in an image."""
    put(tmp_path, "usr/bin/tool", "tool")
    (tmp_path / "bin").symlink_to("usr/bin")
    put(tmp_path, "etc/tool.conf", "mine")
    put(tmp_path, f"{INFO}/tool:amd64.list", "/.\n/bin\n/bin/tool\n/etc/tool.conf\n/usr/share/old\n")
    put(tmp_path, f"{INFO}/tool:amd64.md5sums", f"{md5('tool')}  bin/tool\n{md5('old')}  usr/share/old\n")
    put(tmp_path, "usr/share/old.distrib", "old")
    put(tmp_path, f"{INFO}/other.list", "/usr/share/old\n")
    put(tmp_path, f"{INFO}/other.md5sums", f"{md5('new')}  usr/share/old\n")
    put(tmp_path, "usr/share/old", "new")
    put(tmp_path, "var/lib/dpkg/diversions", "/usr/share/old\n/usr/share/old.distrib\nother\n")
    put(tmp_path, "var/lib/dpkg/status", f"Package: tool\nConffiles:\n /etc/tool.conf {md5('theirs')}\n")
    put(tmp_path, "var/lib/dpkg/alternatives/editor", EDITOR)
    for path in (tmp_path / INFO).glob("*.list"):
        os.utime(path, (1, 1))
    return tmp_path


def unchanged(root, path):
    return Packages(Node(root)).unchanged(path, (root / path.lstrip("/")).lstat())


def test_a_path_is_known_by_where_it_lies(debian):
    found = Packages(Node(debian))
    assert "/usr/bin/tool" in found
    assert "/bin/tool" not in found
    assert found.name("/usr/bin/tool") == "tool:amd64"


@pytest.mark.parametrize(
    ("path", "text", "is_unchanged"),
    [
        ("/usr/bin/tool", "tool", True),
        ("/usr/bin/tool", "fool", False),
        ("/etc/tool.conf", "mine", False),
        ("/etc/tool.conf", "theirs", True),
        ("/usr/share/old", "new", True),
        ("/usr/share/old.distrib", "old", True),
        ("/usr/share/old.distrib", "changed", False),
    ],
)
def test_a_file_is_compared_with_what_its_package_brought(debian, path, text, is_unchanged):
    put(debian, path, text)
    assert unchanged(debian, path) is is_unchanged


def test_a_conffile_that_was_edited_before_an_update_is_changed(debian):
    os.utime(debian / INFO / "tool:amd64.list", (2**33, 2**33))
    assert not unchanged(debian, "/etc/tool.conf")
    put(debian, "/etc/tool.conf", "theirs")
    assert unchanged(debian, "/etc/tool.conf")


@pytest.mark.parametrize(("text", "is_unchanged"), [("as ucf put it", True), ("edited", False)])
def test_a_file_that_ucf_keeps_for_a_package_is_the_packages(debian, text, is_unchanged):
    put(debian, "var/lib/ucf/hashfile", f"{md5('as ucf put it')}  /etc/ssh/sshd_config\n{md5('')}  /etc/of-nobody\n")
    put(debian, "var/lib/ucf/registry", "openssh-server \t /etc/ssh/sshd_config\n")
    put(debian, "etc/ssh/sshd_config", text)
    found = Packages(Node(debian))
    assert found.name("/etc/ssh/sshd_config") == "openssh-server"
    assert unchanged(debian, "/etc/ssh/sshd_config") is is_unchanged
    assert "/etc/of-nobody" not in found


def test_a_file_that_did_not_change_since_is_not_read(debian, monkeypatch):
    os.utime(debian / INFO / "tool:amd64.list", (2**33, 2**33))
    found = Packages(Node(debian))
    monkeypatch.setattr(owned, "digest", None)
    assert found.unchanged("/usr/bin/tool", (debian / "usr/bin/tool").lstat())


def test_links_of_alternatives_are_the_packages(debian):
    found = Packages(Node(debian))
    assert [path in found for path in ("/usr/bin/editor", "/usr/share/man/editor.1", "/x")] == [True, True, False]


@pytest.mark.parametrize(("state", "is_a_choice"), [("auto", False), ("manual", True)])
def test_where_a_link_of_alternatives_leads_is_a_choice_only_where_somebody_made_it(debian, state, is_a_choice):
    """What goes with a program follows it, whoever chose that."""
    put(debian, "var/lib/dpkg/alternatives/editor", EDITOR.replace(EDITOR.split("\n", 1)[0], state, 1))
    found = Packages(Node(debian))
    assert ("/etc/alternatives/editor" in found) is not is_a_choice
    assert "/etc/alternatives/editor.1" in found


def rpm(answer):
    """Return how a command is started on a node whose rpm answers this."""
    return lambda _argv: SimpleNamespace(output=lambda: answer)


@pytest.mark.parametrize(
    ("text", "time", "is_unchanged"),
    [("tool", 5, True), ("tool", 6, True), ("fool", 5, True), ("fool", 6, False), ("tools", 5, False)],
)
def test_rpm_has_size_and_time_too(tmp_path, text, time, is_unchanged):
    """A file of another size has changed, one of the same size and time has not, others are read."""
    os.utime(put(tmp_path, "usr/bin/tool", text), (time, time))
    digest = hashlib.sha256(b"tool").hexdigest()
    answer = f"/usr/bin/tool\t{digest}\t4\t5\t0\t\ttool\n/var/log/tool\t\t0\t5\t64\t\ttool\n"
    found = Packages(Node(tmp_path, rpm(answer)))
    assert found.unchanged("/usr/bin/tool", (tmp_path / "usr/bin/tool").lstat()) is is_unchanged
    assert "/var/log/tool" not in found


def test_a_link_of_rpms_leads_where_it_led(tmp_path):
    (tmp_path / "a").symlink_to("there")
    found = Packages(Node(tmp_path, rpm("/a\t\t5\t5\t0\tthere\ttool\n/b\t\t5\t5\t0\tthere\ttool\n")))
    assert found.unchanged("/a", (tmp_path / "a").lstat())
    (tmp_path / "b").symlink_to("elsewhere")
    assert not found.unchanged("/b", (tmp_path / "b").lstat())

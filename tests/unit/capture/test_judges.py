"""What is read of this machine itself, against what its own programs say."""

import shutil
import subprocess

import pytest
from ansible_collections.gpulab.node.plugins.module_utils.capture import people, software
from ansible_collections.gpulab.node.plugins.module_utils.core.node import Node


def said(*argv):
    if not shutil.which(argv[0]):
        pytest.skip(f"needs {argv[0]}")
    return subprocess.run(argv, check=True, capture_output=True, text=True).stdout.splitlines()


def everybody():
    """Return all numbers of users and of groups that the node knows."""
    return (
        {int(line.split(":")[2]) for line in said("getent", "--service=files", kind)} for kind in ("passwd", "group")
    )


def test_users_are_those_of_getent():
    found = people.read(Node(), *everybody())
    lines = [":".join(map(str, (one.name, one.uid, one.gid, one.gecos, one.home, one.shell))) for one in found.users]
    assert lines == [
        ":".join([*line.split(":")[:1], *line.split(":")[2:]]) for line in said("getent", "--service=files", "passwd")
    ]
    assert found.unnamed == []


def test_groups_are_those_of_getent():
    found = people.read(Node(), *everybody()).groups
    lines = [f"{one.name}:{one.gid}:{','.join(one.members)}" for one in found]
    assert lines == [
        ":".join([*line.split(":")[:1], *line.split(":")[2:]]) for line in said("getent", "--service=files", "group")
    ]


def test_groups_of_a_user_are_those_of_id():
    found = people.read(Node(), *everybody())
    names = {group.gid: group.name for group in found.groups}
    for one in found.users:
        assert {*one.groups, names[one.gid]} == {*said("id", "--groups", "--name", one.name)[0].split()}


def test_packages_are_those_of_dpkg_query():
    listed = said("dpkg-query", "-W", "-f", "${db:Status-Abbrev}\t${Package}\t${Version}\t${Architecture}\n")
    rows = [line.split("\t") for line in listed]
    found = software.read(Node()).packages
    assert sorted((one.name, one.version, one.architecture) for one in found) == sorted(
        tuple(row[1:]) for row in rows if row[0][1] not in "nc"
    )


@pytest.mark.parametrize(("what", "key"), [("showmanual", "manual"), ("showhold", "holds")])
def test_marks_are_those_of_apt_mark(what, key):
    assert sorted(getattr(software.read(Node()), key)) == sorted(said("apt-mark", what))

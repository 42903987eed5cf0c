"""The module group_members, in check mode, with the groups and users of a made node."""

from types import SimpleNamespace

import pytest
from ansible_collections.gpulab.node.plugins.modules import group_members


@pytest.fixture
def run(monkeypatch):
    """Return a function that lets a user into a group and returns (whom it added, its warnings)."""
    monkeypatch.setattr(group_members.pwd, "getpwall", lambda: [SimpleNamespace(pw_name="ann")])
    groups = [SimpleNamespace(gr_name="docker", gr_mem=["ben"]), SimpleNamespace(gr_name="video", gr_mem=["ann"])]
    monkeypatch.setattr(group_members.grp, "getgrall", lambda: groups)

    def added(group, users):
        result, warnings = {}, []
        module = SimpleNamespace(
            params={"group": group, "users": users}, check_mode=True, warn=warnings.append, exit_json=result.update
        )
        monkeypatch.setattr(group_members, "AnsibleModule", lambda **_: module)
        group_members.main()
        return result["added"], warnings

    return added


@pytest.mark.parametrize(
    ("group", "users", "added", "warned"),
    [
        ("docker", ["ann"], ["ann"], True),
        ("docker", [], [], False),
        ("video", ["ann"], [], False),
        ("render", ["ann"], ["ann"], False),
    ],
)
def test_it_warns_of_whom_it_makes_as_good_as_root(run, group, users, added, warned):
    who, warnings = run(group, users)
    assert who == added
    assert [("ann" in line, "root" in line) for line in warnings] == [(True, True)] * warned

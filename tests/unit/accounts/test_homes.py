"""Where homes are made, and where not."""

import os

import pytest
from ansible_collections.gpulab.node.plugins.module_utils.accounts import homes
from ansible_collections.gpulab.node.plugins.module_utils.core.node import Node


class Machine(Node):
    """The machine of the test, with other mounts: (place, type)."""

    def __init__(self, *mounts):
        """Take the mounts."""
        super().__init__()
        lines = (f"1 1 8:1 / {place} rw - {type_} x rw" for place, type_ in [("/", "ext4"), *mounts])
        self.mounts = "\n".join(lines)

    def text(self, path):
        """Return the mounts."""
        return self.mounts if path == "/proc/self/mountinfo" else super().text(path)


@pytest.fixture
def place(tmp_path, monkeypatch):
    """Give a place with a home that is whole, by whoever runs this test, and two that are not."""
    monkeypatch.setattr(homes, "ROOT", os.geteuid())
    for name in ("ada", "served", "stranger"):
        (tmp_path / "homes" / name).mkdir(parents=True)
    (tmp_path / "homes/ben").touch()
    return tmp_path / "homes"


def test_a_home_that_is_still_roots_is_not_whole(place):
    machine = Machine((place / "served", "nfs4"))
    found = homes.look(machine, str(place), ["ada", "ben", "served", "new"])
    assert (found.problem, found.local, found.unmade) == (None, True, {"ada"})
    assert found.names == {"ada", "ben", "served", "stranger"}


def test_a_link_on_the_way_leads_to_the_file_server(place, tmp_path):
    (tmp_path / "link").symlink_to(tmp_path)
    machine = Machine((place, "nfs4"))
    assert homes.look(machine, str(tmp_path / "link/homes"), []) == homes.Homes(local=False)
    assert homes.look(machine, str(place), []) == homes.Homes(local=False)


@pytest.mark.parametrize("lent", ["homes", "homes/ada"])
def test_no_home_is_made_where_others_may_put_a_link(place, tmp_path, lent):
    (tmp_path / lent).chmod(0o775)
    found = homes.look(Machine(), str(place / "ada"), [])
    assert found == homes.Homes(problem=f"others than root may put something into {tmp_path / lent}")


def test_a_file_is_no_place_for_homes(place):
    assert homes.look(Machine(), str(place / "ben"), []).problem == "it is no directory"
    assert homes.look(Machine(), str(place / "none"), []).problem == homes.NO_ANSWER

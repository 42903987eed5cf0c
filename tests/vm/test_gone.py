"""A file server that goes away and comes back, while the node is proven and changed."""

import json

import pytest
from test_storage import RECIPE  # noqa: F401 - the same disk

SERVER = "127.0.0.1"
SHARED = {"name": "shared", "purpose": "datasets", "mount": "/mnt/shared", "nfs": f"{SERVER}:/srv/export"}
NEW = {"name": "new", "purpose": "datasets", "mount": "/mnt/new", "nfs": f"{SERVER}:/srv/new"}
# Homes that the site mounts itself, one with a file of somebody who leaves.
SITE = f"""
mkdir -p /srv/homes/ada /srv/new /home/lab
useradd --uid 20001 --home-dir /home/lab/ada --no-create-home ada
echo "/srv/homes {SERVER}(rw,no_subtree_check,no_root_squash)" >> /etc/exports
echo "/srv/new {SERVER}(rw,no_subtree_check)" >> /etc/exports
exportfs -r
echo "{SERVER}:/srv/homes /home/lab nfs4 nofail 0 0" >> /etc/fstab
mount /home/lab
touch /home/lab/ada/work
chown -R ada: /home/lab/ada
"""
SECONDS = 900  # emulated, a task takes ten times as long as on a node
STUCK = "ps -eo stat,args | grep '^D' | grep -v manager || true"  # the kernel's own thread asks the server on and on


@pytest.fixture(scope="module")
def site(machine, play):
    """Give the node a tier and homes, all of one server."""
    machine.run(SITE)
    play("tests/vm/storage.yml", "-e", json.dumps({"storage_tiers": [SHARED]}), timeout=SECONDS)
    machine.run("cat /mnt/shared/labels /home/lab/ada/work")


@pytest.fixture(scope="module")
def gone(machine, site):  # noqa: ARG001 - the server goes away after the site is there
    machine.run("sync; systemctl stop nfs-server; sleep 65")  # so long a client asks nothing again
    assert "137" in machine.run("timeout --signal=KILL 5 ls /mnt/shared || echo $?")


@pytest.fixture
def storage(play):
    def apply(*tiers, rc=0, **more):
        wishes = json.dumps({"storage_tiers": tiers, **more})
        return play("tests/vm/storage.yml", "-e", wishes, timeout=SECONDS, rc=rc)

    return apply


def proof(play, rc):
    return play("tests/vm/storage_proof.yml", "-e", '{"proof_of": ["host"]}', timeout=SECONDS, rc=rc)


@pytest.mark.usefixtures("gone")
def test_the_proof_names_the_server_and_not_the_node(play):
    told = proof(play, 2)
    for place, export in {"/home/lab": "/srv/homes", "/mnt/shared": "/srv/export"}.items():
        assert f"{place} (nfs4 of {SERVER}:{export}) does not answer" in told
    assert "reboot" not in told


@pytest.mark.usefixtures("gone")
def test_a_second_run_changes_nothing(storage):
    assert "changed=0" in storage(SHARED).rpartition("\nRECAP")[2]


@pytest.mark.usefixtures("gone")
def test_what_the_server_may_still_get_is_not_let_go(machine, storage):
    told = storage(SHARED, rc=2, storage_state="absent")
    assert "GPULAB-H161" in told
    assert f"{SERVER}:/srv/export, which does not answer" in told
    assert "gpulab" in machine.run("cat /etc/fstab")


@pytest.mark.usefixtures("gone")
def test_a_tier_of_a_server_that_is_gone_ends_in_time(storage):
    told = storage(SHARED, NEW, rc=2)
    assert "GPULAB-H162" in told
    assert "mount /mnt/new: no answer in time" in told


@pytest.mark.usefixtures("gone")
def test_files_of_people_are_counted_past_the_server(play):
    people = json.dumps({"users_people": [{"name": "ada", "uid": 20002}]})
    told = play("playbooks/users.yml", "-e", people, timeout=SECONDS, rc=2)
    assert "GPULAB-U002" in told
    assert "'ada' has uid 20001 here, with 2 files on local disks" in told  # what the server has of them lies here, too


@pytest.mark.usefixtures("gone")
def test_nothing_is_left_that_waits(machine):
    assert machine.run(STUCK) == ""


@pytest.mark.usefixtures("gone")
def test_all_is_well_as_soon_as_the_server_is_back(machine, play, storage):
    machine.run("systemctl start nfs-server; sleep 100")  # its clients come back within a minute and a half
    machine.run("cat /mnt/shared/labels /home/lab/ada/work")
    proof(play, 0)
    storage(SHARED, NEW)
    storage(storage_state="absent")
    machine.run("[ ! -e /mnt/shared ] && [ ! -e /mnt/new ] && cat /home/lab/ada/work")

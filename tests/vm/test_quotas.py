"""Quotas on a kernel that refuses: homes on an ext4, a group's directory on an XFS, both made by the role storage."""

import json

import pytest
from test_storage import RECIPE, unchanged  # noqa: F401 - the same disk as that of the storage

TIERS = [
    {**tier, "purpose": "datasets", "format": True}
    for tier in (
        {"name": "homes", "mount": "/people", "devices": ["HOMES"], "filesystem": "ext4", "options": ["usrquota"]},
        {"name": "data", "mount": "/data", "devices": ["DATA"], "filesystem": "xfs", "options": ["prjquota"]},
    )
]
PEOPLE = {
    "storage_tiers": TIERS,
    "users_groups": [{"name": "vision", "gid": 21000}],
    "users_people": [
        {"name": "ada", "uid": 20001, "groups": ["vision"]},
        {"name": "ben", "uid": 20002, "groups": ["vision"], "quota": "40M"},
    ],
    "users_homes": "/people",
    "users_quota": {"space": "8M", "files": 100},
    "users_directories": [{"group": "vision", "path": "/data/vision", "space": "16M"}],
}
LIMITS = "repquota -u -n -v /people; repquota -P -n -v /data; lsattr -dp /data/vision; cat /etc/passwd"


@pytest.fixture(scope="module")
def disks(directory):
    """Return the files of two blank disks, by serial number."""
    found = {}
    for serial, mebibytes in {"HOMES": 128, "DATA": 400}.items():
        found[serial] = directory / f"{serial}.raw"
        with found[serial].open("wb") as file:
            file.truncate(mebibytes << 20)
    return found


@pytest.fixture
def people(play):
    """Return a function that gives the machine its people; it returns what was printed and how many changed."""

    def give(*arguments, rc=0, **more):
        wishes = json.dumps({**PEOPLE, **more})
        output = play("tests/vm/quotas.yml", "-e", wishes, *arguments, timeout=1200, rc=rc)
        return " ".join(output.split()), output.rpartition("\nRECAP")[2]

    return give


def write(name, place, mebibytes):
    """Return a command by which somebody writes a file, and then the exit status of that and what it said."""
    return f"su {name} -c 'dd if=/dev/zero of={place} bs=1M count={mebibytes} 2>&1'"


def test_homes_where_no_quota_can_be_are_refused_before_any_change(machine, people):
    before = machine.run("cat /etc/passwd; findmnt --list --noheadings --output TARGET")
    output, _ = people("--check", users_homes="/srv", rc=2)
    assert "GPULAB-U015" in output
    assert "of / has not the features quota" in output
    assert machine.run("cat /etc/passwd; findmnt --list --noheadings --output TARGET") == before


def test_who_is_over_the_quota_writes_no_more_and_others_write_on(machine, people):
    people("--check")
    people()
    assert "Disk quota exceeded" in machine.fails(write("ada", "/people/ada/large", 12))
    machine.run(write("ben", "/people/ben/large", 12))
    machine.fails("su ada -c 'for name in $(seq 200); do : > ~/$name || exit 1; done'")
    machine.run("rm -f /people/ada/[0-9]* && " + write("ben", "/data/vision/ben", 12))
    assert "No space left" in machine.fails(write("ada", "/data/vision/ada", 12))  # as XFS says it of a project
    assert machine.run("stat --format=%a:%U:%G /data/vision; systemctl is-enabled quotarpc || true").split() == [
        "2770:root:vision",
        "disabled",
    ]


def test_a_second_run_and_check_mode_change_nothing(machine, people):
    before = machine.run(LIMITS)
    assert unchanged(people()[1])
    assert unchanged(people("--check")[1])
    assert machine.run(LIMITS) == before


def test_the_proof_names_who_is_over_and_what_somebody_turned_off(machine, people, play):
    people(users_quota={"space": "4M"})
    machine.run("setquota -u ben 0 0 0 0 /people && quotaoff --project /data")
    asked = '{"proof_of": ["people"], "proof_fails_on": "warn"}'
    output = " ".join(play("tests/vm/storage_proof.yml", "-e", asked, timeout=600, rc=2).split())
    assert "ada has 8 MiB of 4 MiB in /people, 4 MiB too much" in output
    assert "ben has another quota in /people" in output
    assert "vision is not held to a quota, as nobody is on /data" in output
    assert not unchanged(people("--check")[1])
    people()
    assert unchanged(people()[1])
    assert "No space left" in machine.fails(write("ada", "/data/vision/more", 12))


def test_after_a_boot_the_quotas_hold(machine, people):
    machine.reboot()
    assert "Disk quota exceeded" in machine.fails(write("ada", "/people/ada/again", 12))
    assert unchanged(people()[1])


def test_a_directory_with_files_of_before_is_refused_with_what_to_do(machine, people):
    machine.run("mkdir /data/old && touch /data/old/file")
    directories = [{"group": "vision", "path": "/data/old", "space": "16M"}]
    output, _ = people("--check", users_directories=directories, rc=2)
    assert "run chattr -R +P -p 21000 /data/old while nobody works there" in output
    machine.run("chattr -R +P -p 21000 /data/old")
    people(users_directories=directories)
    people()


def test_quotas_are_taken_away_and_files_stay(machine, people):
    people(users_state="absent")
    machine.run(write("ada", "/people/ada/free", 12) + "; " + write("ben", "/data/vision/free", 12))
    assert "#21000" in machine.run("ls -ln /data/vision | sed 's/21000/#21000/'")
    assert machine.run("command -v setquota || echo none") == "none"
    assert unchanged(people(users_state="absent")[1])

"""What is read of a node's people, and what is done for them there."""

import json
import os
from pathlib import Path
from types import SimpleNamespace

import pytest
from ansible_collections.gpulab.node.plugins.module_utils.accounts import host
from ansible_collections.gpulab.node.plugins.module_utils.accounts.plan import Found, Step
from ansible_collections.gpulab.node.plugins.module_utils.accounts.wanted import Person, Wanted
from ansible_collections.gpulab.node.plugins.module_utils.core.mount_table import Mount
from ansible_collections.gpulab.node.plugins.module_utils.core.owned_files import FileStep
from ansible_collections.gpulab.node.plugins.module_utils.core.refusal import Refusal

CRONTAB = Step("crontab", "ben")


@pytest.fixture
def spool(monkeypatch, tmp_path):
    """Give a directory of crontabs, and a place for those of people who left; return both."""
    monkeypatch.setattr(host, "CRONTABS", str(tmp_path / "crontabs"))
    monkeypatch.setattr(host, "HANDOVER", str(tmp_path / "kept"))
    (tmp_path / "crontabs").mkdir()
    return tmp_path / "crontabs", tmp_path / "kept/ben"


def carry_out(*steps):
    host.carry_out(SimpleNamespace(), Wanted(), list(steps), Found())


def test_a_job_that_was_kept_is_never_overwritten(spool):
    crontabs, kept = spool
    for text in ("first", "", "first", "second"):
        (crontabs / "ben").write_text(text)
        carry_out(CRONTAB)
        assert not (crontabs / "ben").exists()
    found = {path.name: path.read_text() for path in kept.iterdir()}
    assert found == {"crontab": "first", "crontab.2": "", "crontab.3": "second"}
    assert {path.stat().st_mode & 0o777 for path in kept.iterdir()} == {0o600}


def test_a_job_that_went_by_itself_is_done(spool):
    carry_out(CRONTAB)
    assert not spool[1].exists()


def test_a_job_that_goes_while_the_list_of_jobs_is_read_is_none(tmp_path):
    (tmp_path / "var/spool/cron/atjobs").mkdir(parents=True)
    (tmp_path / "var/spool/cron/atjobs/a2").touch()
    uid = (tmp_path / "var/spool/cron/atjobs/a2").stat().st_uid
    node = host.Node(tmp_path)
    node.names = lambda _path: ["a1", "a2"]
    assert host.at_jobs(node, {uid: "ben"}) == {"ben": ("/var/spool/cron/atjobs/a2",)}


def test_a_number_that_somebody_had_before_another_one_stays_reserved(monkeypatch, tmp_path):
    monkeypatch.setattr(host, "RECORD", tmp_path / "users.json")
    steps = [Step("reserve", "ben", "20005"), Step("reserve", "ada", "20001")]
    host.carry_out(SimpleNamespace(), Wanted(), steps, Found(reserved={"ben": [20002], "cy": [20003]}))
    written = json.loads((tmp_path / "users.json").read_text())
    assert written == {"ada": [20001], "ben": [20002, 20005], "cy": [20003]}


def test_sshd_is_told_again_until_it_has_read_its_drop_in(monkeypatch, tmp_path):
    written, run, pending = [], [], tmp_path / "run/pending"

    def module(status):
        return SimpleNamespace(run_command=lambda command, **_input: run.append(command) or (status, "", "it failed"))

    monkeypatch.setattr(host.files, "put_own", lambda _module, path, _text: written.append((path, pending.exists())))
    step = FileStep("/etc/ssh/drop-in", None, "text")
    with pytest.raises(Refusal) as refused:
        host.put_drop_in(module(1), [step], pending)
    assert refused.value.code == "U010"
    assert written == [(Path("/etc/ssh/drop-in"), True)]
    for _next_run in range(2):
        host.put_drop_in(module(0), [], pending)
    assert run == [["systemctl", "try-reload-or-restart", "ssh.service"]] * 2
    assert not pending.exists()


def test_a_look_tells_keys_that_others_may_write_and_whom_logind_knows(monkeypatch, tmp_path):
    monkeypatch.setattr(host, "RECORD", tmp_path / "users.json")
    for place in ("etc/ssh/gpulab-keys", "run/systemd/users"):
        (tmp_path / place).mkdir(parents=True)
    names = ("ada", "ben", "cy")
    lines = (f"{name}:x:{20001 + count}:{20001 + count}::/home/{name}:/bin/sh" for count, name in enumerate(names))
    (tmp_path / "etc/passwd").write_text("\n".join(lines))
    for name, mode in (("ada", 0o644), ("ben", 0o666)):
        (tmp_path / f"etc/ssh/gpulab-keys/{name}").touch()
        (tmp_path / f"etc/ssh/gpulab-keys/{name}").chmod(mode)
    (tmp_path / "run/systemd/users/20003").touch()
    people = [Person(name, 20001 + count, state="leaving") for count, name in enumerate(names)]
    found = host.look(host.Node(tmp_path), Wanted(people=people))
    assert (found.loose_keys, found.sessions) == ({"ben"}, {"cy"})


def test_only_debian_and_ubuntu_get_people_so_far(tmp_path):
    (tmp_path / "etc").mkdir()
    (tmp_path / "etc/os-release").write_text('ID="rocky"\nPRETTY_NAME="Rocky Linux 9.6"\n')
    node = host.Node(tmp_path)
    refusal = host.problem_of_system(node)
    assert (refusal.code, refusal.cause.endswith("this is Rocky Linux 9.6.")) == ("U012", True)
    (tmp_path / "etc/debian_version").touch()
    assert host.problem_of_system(node) is None


def mount(place, root="/", type_="ext4", device="8:1"):
    return Mount(place, "/dev/sda1", type_, device, root=root)


@pytest.mark.parametrize(
    ("table", "places"),
    [
        pytest.param([mount("/"), mount("/srv", device="8:2")], ["/", "/srv"], id="two-disks"),
        pytest.param([mount("/"), mount("/again", "/srv")], ["/"], id="a-part-of-what-is-mounted"),
        pytest.param([mount("/", "/deploy"), mount("/var", "/var")], ["/", "/var"], id="only-parts-are-mounted"),
        pytest.param([mount("/srv", "/a"), mount("/again", "/a"), mount("/b", "/ab")], ["/b", "/srv"], id="once"),
        pytest.param(
            [mount("/", "/@", "btrfs"), mount("/home", "/@home", "btrfs"), mount("/top", "/", "btrfs")],
            ["/", "/home", "/top"],
            id="subvolumes",
        ),
        pytest.param([mount("/", type_="overlay"), mount("/layer", type_="overlay", device="0:9")], ["/"], id="layers"),
        pytest.param([mount("/home", type_="nfs4"), mount("/proc", type_="proc")], [], id="not-local"),
    ],
)
def test_every_part_of_a_local_disk_is_searched(table, places):
    assert host.places_to_search(table) == places


def test_a_search_knows_no_mount_of_another_machine():
    table = [mount("/"), mount("/proc", type_="proc"), mount("/a b", type_="nfs4"), mount("/a b/c", type_="fuse.sshfs")]
    assert host.without_others(table)[-3:] == ["/a b/c", "/a b", "--"]
    assert host.without_others(table[:2]) == []


@pytest.mark.parametrize(("program", "files"), [("echo 7", {7: 1}), ("echo 7; exit 1", {7: 1, 8: 1})])
def test_a_search_that_fails_proves_nobody_gone(monkeypatch, tmp_path, program, files):
    find = tmp_path / "find"
    find.write_text(f"#!/bin/sh\n{program}\n")
    find.chmod(0o755)
    monkeypatch.setenv("PATH", f"{tmp_path}:{os.environ['PATH']}")
    node = host.Node(tmp_path)
    (tmp_path / "proc/self").mkdir(parents=True)
    (tmp_path / "proc/self/mountinfo").write_text("1 0 8:1 / / rw - ext4 /dev/sda1 rw\n")
    assert host._files_of(node, {7, 8}) == files  # noqa: SLF001

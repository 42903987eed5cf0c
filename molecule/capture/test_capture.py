"""Captures of nodes on which people have lived, seen from the controller and from the nodes."""

import hashlib
import json
import subprocess
import sys
from pathlib import Path

import pytest
from scenario import EPHEMERAL, PROJECT, nodes, playbook

CAPTURES = EPHEMERAL / "captures"
CAPTURE = "playbooks/capture.yml"
CANARIES = ("CANARY-key", "CANARY-netrc", "CANARY-cron", "CANARY-token")
# What changes by itself while a node runs, and where Ansible puts its modules.
PASSING = "-path /run -o -path /tmp -o -path /var/log -o -path /var/tmp -o -path '*/.ansible' -o -path /var/lib/systemd"
TREE = f"find / -xdev \\( {PASSING} \\) -prune -o -printf '%p %y %m %U %G %s %T@ %C@ %l\\n' | cat -v"


def tree_in_quiet(host):
    """Return the node's files, and keep the copy of dpkg's list, which is made at midnight, from coming later."""
    host.check_output("systemctl stop 'dpkg-*.timer'")
    return host.check_output(TREE).splitlines()


def latest(name):
    return (CAPTURES / name / "latest").resolve()


def manifest(name):
    return json.loads((latest(name) / "manifest.json").read_text())


@pytest.fixture
def name(host):
    return host.backend.host


@pytest.fixture
def captured(name):
    return manifest(name)


@pytest.fixture
def files(captured):
    return {entry["path"]: entry for entry in captured["files"]}


@pytest.fixture
def secrets(name):
    """Return the decrypted archive: the only place for secrets."""
    return subprocess.run(
        [
            Path(sys.executable).with_name("ansible-vault"),
            *("decrypt", "--output=-", f"--vault-password-file={PROJECT}/molecule/capture/vault_password"),
            latest(name) / "secrets.vault",
        ],
        check=True,
        capture_output=True,
    ).stdout


def test_only_what_nobody_accounted_for_is_left_over(captured):
    left = {one["path"]: (one["files"], one["bytes"], one["owner"]) for one in captured["remainder"]}
    assert left.pop("/opt/vendor/stray") == (1, 1, "root")
    assert left.pop("/home/li/venv/mine.py") == (1, 14, "li")
    assert left.pop("/var/lib/docker/volumes/results/_data/results.csv") == (1, 9, "root")
    assert left == {}


def test_each_bin_has_what_belongs_in_it(captured, files):
    assert {name for name, one in captured["bins"].items() if one["files"]} == {
        *("package", "changed", "gpulab", "captured", "lock", "cache", "acknowledged"),
    }
    assert files["/etc/bash.bashrc"]["package"] == "bash", "a changed conffile"
    assert files["/home/li/thesis/one.tex"]["section"] == "paths"
    assert "/etc/modprobe.d/gpulab-nouveau.conf" not in files, "gpulab writes it again"
    assert "/usr/local/bin/start" in files
    assert {"/etc/cron.d/weekly-report", "/var/spool/cron/crontabs/li", "/home/li/.ssh/authorized_keys"} <= set(files)


def test_contents_are_those_of_the_node(host, name, files):
    plain = {path: one for path, one in files.items() if "sha256" in one}
    assert len(plain) > 50
    for path, one in plain.items():
        content = latest(name) / "files" / path[1:]
        assert hashlib.sha256(content.read_bytes()).hexdigest() == one["sha256"]
    on_node = host.check_output("find /etc /home /usr/local -xdev -type f -perm -o=r -exec sha256sum {} + | cat -v")
    sums = dict(reversed(line.split("  ", 1)) for line in on_node.splitlines())
    assert [path for path, one in plain.items() if path in sums and sums[path] != one["sha256"]] == []
    assert {"/etc/fstab", "/etc/odd/sparse", "/usr/local/bin/start", "/home/li/thesis/one.tex"} <= sums.keys() & plain


def test_people_and_their_ids_are_known(captured):
    users = {one["name"]: one for one in captured["sections"]["users"]}
    assert (users["li"]["uid"], users["instrument"]["uid"]) == (2001, 640)
    assert users["li"]["linger"]


def test_jobs_of_all_kinds_are_known(captured):
    sections = captured["sections"]
    assert {"/etc/cron.d/weekly-report", "/var/spool/cron/crontabs/li", "/etc/cron.daily/rotate-data"} <= {
        one["path"] for one in sections["cron"]
    }
    assert "lab-camera.service" in json.dumps(sections["units"])
    assert "/etc/systemd/system/cron.service.d/lab.conf" in json.dumps(sections["units"])


def test_packages_holds_pins_and_sources_are_known(captured):
    sections = captured["sections"]
    assert "cron" in json.dumps(sections["holds"])
    assert "linux-image-*" in json.dumps(sections["pins"])
    assert "packages.example.org" in json.dumps(sections["sources"])


def test_all_kinds_of_file_systems_that_fstab_has_are_known(captured):
    lines = {one["mount"]: one for one in captured["sections"]["disks"]["fstab"]}
    assert {"/data", "/scratch", "/mnt/home", "/mnt/tmp", "/mnt/bound"} <= set(lines)
    assert (lines["/mnt/home"]["source"], lines["/mnt/home"]["type"]) == ("server:/export/home", "nfs4")


def test_an_environment_is_known_by_its_lock(captured):
    (venv,) = [one for one in captured["sections"]["environments"] if one["path"] == "/home/li/venv"]
    assert any(line.startswith("six==") for line in venv["lock"])


def test_images_and_volumes_are_known(captured):
    containers = json.dumps(captured["sections"]["containers"])
    assert "lab/own:1" in containers
    assert "results" in containers


def test_odd_files_are_taken_along(files):
    assert {"/etc/odd/new\nline", "/etc/odd/\udcff\udcfe"} <= set(files)
    assert files["/etc/odd/sparse"]["sparse"]
    assert files["/etc/odd/one"]["identity"] == files["/etc/odd/two"]["identity"]
    assert "acl" in files["/etc/odd/one"]
    assert "capability" in files["/etc/odd/able"]
    assert not any(path.startswith("/mnt/bound/") for path in files), "a bind mount is met where its files lie"


def test_a_deleted_file_that_a_program_writes_is_named(captured):
    assert ("/var/tmp/.unnamed", 4096) in [(one["path"], one["bytes"]) for one in captured["open_deleted"]]


def test_secrets_are_in_the_encrypted_archive_alone(host, name, secrets):
    assert [canary for canary in CANARIES if canary.encode() not in secrets] == []
    assert b"li:$" in secrets, "the hash of a password"
    for path in CAPTURES.rglob("*"):
        assert path.is_symlink() or path.is_dir() or b"CANARY" not in path.read_bytes(), path
        assert path.is_symlink() or path.stat().st_mode & 0o077 == 0, path
    run = playbook(CAPTURE, f"--limit={name}", "-vvvv", "--diff")
    assert run.status == 0, run.output
    assert "CANARY" not in run.output
    assert "CANARY" not in host.check_output("journalctl --boot --output=cat | grep -v 'chpasswd\\|life.sh' || true")


def test_a_capture_changes_nothing_on_the_node(host, name):
    before = tree_in_quiet(host)
    run = playbook(CAPTURE, f"--limit={name}")
    assert run.status == 0, run.output
    assert run.changed[name] == 0
    assert sorted(set(before) ^ set(host.check_output(TREE).splitlines())) == []


def test_a_second_capture_stores_only_what_changed(host, name):
    first = latest(name)
    host.check_output("echo '# changed' >> /etc/hosts.allow")
    assert playbook(CAPTURE, f"--limit={name}").status == 0
    second = latest(name)
    assert first != second
    before, after = (
        {path.relative_to(one): path.stat().st_ino for path in one.glob("files/**/*") if path.is_file()}
        for one in (first, second)
    )
    new = {str(path) for path, inode in after.items() if before.get(path) != inode}
    assert "files/etc/hosts.allow" in new
    assert len(new) < 5, new
    compared = playbook("playbooks/capture_compare.yml", f"--limit={name}")
    assert compared.status == 0, compared.output
    assert "/etc/hosts.allow" in compared.output


def test_check_mode_writes_nothing_and_says_the_same(name):
    before = sorted(CAPTURES.rglob("*"))
    run = playbook(CAPTURE, f"--limit={name}", "--check")
    assert run.status == 0, run.output
    assert "/opt/vendor" in run.output
    assert sorted(CAPTURES.rglob("*")) == before


@pytest.mark.parametrize("arguments", [("--check",), ("-e", "reinstall_confirm={name}")])
def test_a_container_is_not_reinstalled_and_nothing_is_changed(host, name, arguments):
    """Its disk is another machine's: the plan is shown, and refused before the node or the controller is changed."""
    before = tree_in_quiet(host)
    run = playbook("playbooks/reinstall.yml", f"--limit={name}", *(one.format(name=name) for one in arguments))
    assert run.status == 2, run.output
    assert "GPULAB-R004" in run.output
    assert "GPULAB-R008" not in run.output
    assert run.changed[name] == 0
    assert sorted(set(before) ^ set(host.check_output(TREE).splitlines())) == []
    assert not (CAPTURES / name / "rebuild.json").exists()


def test_without_a_secret_to_encrypt_with_nothing_is_read(name, monkeypatch):
    monkeypatch.delenv("ANSIBLE_VAULT_PASSWORD_FILE", raising=False)
    before = latest(name)
    run = playbook(CAPTURE, f"--limit={name}")
    assert run.status == 2
    assert "GPULAB-R007" in run.output
    assert latest(name) == before


def test_there_is_a_capture_of_each_node():
    assert set(nodes()) <= {path.name for path in CAPTURES.iterdir()}  # an earlier run may have had more nodes

"""What the controller takes from a capture for each work, and which capture that is."""

import base64
import hashlib

import pytest
from ansible_collections.gpulab.node.plugins.module_utils.capture.sections.disks import Disks
from ansible_collections.gpulab.node.plugins.module_utils.core.refusal import Refusal
from ansible_collections.gpulab.node.plugins.module_utils.rebuild.arguments import WORKS
from ansible_collections.gpulab.node.plugins.plugin_utils.capture import rebuild_state as state
from ansible_collections.gpulab.node.plugins.plugin_utils.rebuild import source, works

from unit.captures import captured
from unit.captures.conftest import vault, vault_password  # noqa: F401 - fixtures
from unit.filled import typed

UUID = "0d3b6a4e-8f3c-4f0e-9a51-0e6a1c9cbb10"
DISK = {"root": True, "below": [{"uuid": UUID, "names": ["dm-name-rhel_gpu--1-root"]}]}
SECTIONS = {
    "disks": {"disks": [DISK], "crypttab": [{"key": "/etc/keys/data", "options": ["header=/srv/data.header"]}]},
    "packages": [{"name": "x", "version": "1"}],
}
FILES = {
    **captured.FILES,
    "/etc/kernel/cmdline": f"root=UUID={UUID.upper()}\n".encode(),
    "/etc/default/grub": b'GRUB_CMDLINE_LINUX="resume=/dev/mapper/rhel_gpu--1-root2 rd.lvm.lv=rhel_gpu-1/root"\n',
    "/etc/backup.conf": b"snapshot /dev/rhel_gpu-1/root, root=/dev/mapper/rhel_gpu--1-root2\n",
    "/etc/pam.d/sshd": b"account required pam_slurm_adopt.so\n",
    "/etc/keys/data": b"key",
    "/var/lib/dpkg/statoverride": b"",
    "/srv/large": b"0123456789",
}


@pytest.fixture
def of_capture(tmp_path, vault):  # noqa: F811
    found = captured.capture(tmp_path, vault, FILES, sections=SECTIONS, machine={"dmi_uuid": "x"})
    return source.Source(found, vault)


@pytest.mark.parametrize(
    ("path", "work"),
    [
        ("/etc/passwd", "accounts"),
        ("/etc/passwd-", works.NOTHING),
        ("/etc/ssh/ssh_host_ed25519_key", "identity"),
        ("/etc/ssh/sshd_config.d/10-lab.conf", "identity"),
        ("/var/lib/dkms/mok.key", "identity"),  # before packages, of which some are built and signed meanwhile
        ("/var/lib/shim-signed/mok/MOK.priv", "identity"),
        ("/etc/dkms/framework.conf.d/lab.conf", "identity"),
        ("/etc/ssh/moduli", works.FILES),
        ("/etc/fstab", "storage"),
        ("/etc/keys/data", "storage"),
        ("/etc/keys/other", works.FILES),
        ("/srv/data.header", "storage"),
        ("/etc/cryptsetup-keys.d/data.key", "storage"),
        ("/etc/netplan/50.yaml", "network"),
        ("/etc/network/if-up.d/x", "network"),
        ("/etc/apt/sources.list", works.SOFTWARE),
        ("/etc/systemd/system/x.service", works.SOFTWARE),
        ("/etc/systemd/logind.conf", works.FILES),
        ("/etc/os-release", works.NOTHING),
        ("/etc/gpulab-installed-by", works.NOTHING),
        ("/etc/rc2.d/S01x", works.NOTHING),
        ("/etc/initramfs-tools/conf.d/resume", works.NOTHING),
        ("/etc/lvm/devices/system.devices", works.NOTHING),
        ("/etc/motd", works.FILES),
        ("/home/wei/.bashrc", works.FILES),
    ],
)
def test_each_path_is_of_one_work(path, work):
    assert works.Works(typed(SECTIONS["disks"], Disks)).of({"path": path, "kind": "file"}) == work


def test_links_to_certificates_are_made_by_their_program():
    found = works.Works(typed({}, Disks))
    assert found.of({"path": "/etc/ssl/certs/a.pem", "kind": "link"}) == works.NOTHING
    assert found.of({"path": "/etc/ssl/certs/a.pem", "kind": "file"}) == works.FILES


def test_each_path_of_a_capture_goes_to_a_work_that_there_is(of_capture):
    known = {*WORKS, works.SOFTWARE, works.NOTHING}
    manifest = of_capture.capture.manifest
    assert {works.Works(manifest.sections.disks).of(one) for one in manifest.files} <= known


def test_small_works_get_their_contents_with_the_secret_ones(of_capture):
    asked = of_capture.asked("accounts", "root", 5)
    assert base64.b64decode(asked.contents["/etc/shadow"]) == captured.SECRETS["/etc/shadow"]


def test_files_are_judged_without_their_contents(of_capture):
    asked = of_capture.asked("files", "root", 5)
    by_path = {entry["path"]: entry for entry in asked.entries}
    assert asked.contents == {}
    key = captured.SECRETS["/root/\udcff.key"]
    assert by_path["/root/\udcff.key"]["sha256"] == hashlib.sha256(key).hexdigest()
    assert by_path["/etc/kernel/cmdline"]["names"] == [UUID]
    assert by_path["/etc/default/grub"]["names"] == ["/dev/mapper/rhel_gpu--1-root"]
    assert by_path["/etc/backup.conf"]["names"] == [], "it is no argument of a kernel, or of another volume"
    assert by_path["/etc/pam.d/sshd"]["modules"] == ["pam_slurm_adopt.so"]
    assert "dpkg-statoverride" in by_path["/var/lib/dpkg/statoverride"]["why"]
    assert "/etc/shadow" not in by_path


def test_contents_come_in_parts(of_capture, monkeypatch):
    monkeypatch.setattr(source, "AT_ONCE", 4)
    entries = of_capture.asked("files", "root", 5).entries
    large = hashlib.sha256(FILES["/srv/large"]).hexdigest()
    batches = list(of_capture.parts([large], entries))
    parts = [part for batch in batches for part in batch]
    assert b"".join(base64.b64decode(part.data) for part in parts) == FILES["/srv/large"]
    assert [(part.start, part.last) for part in parts] == [(0, False), (4, False), (8, True)]
    assert [len(batch) for batch in batches] == [1, 1, 1]


def test_a_rebuild_at_work_keeps_its_capture(tmp_path, vault):  # noqa: F811
    first = captured.capture(tmp_path, vault, made="2026-11-25T00:00:00Z").path.name
    second = captured.capture(tmp_path, vault).path.name
    of_host = tmp_path / "node07"
    assert source.chosen(of_host, "node07", None).path.name == second
    state.advance(of_host, state.State("node07", first, None, "installing"))
    assert source.chosen(of_host, "node07", None).path.name == first
    assert source.chosen(of_host, "node07", second).path.name == second
    state.advance(of_host, state.State("node07", first, None, "proven"))
    assert source.chosen(of_host, "node07", None).path.name == second


@pytest.mark.parametrize("name", [None, "20260101T000000Z", "../other"])
def test_a_host_without_such_a_capture_is_refused(tmp_path, name):
    with pytest.raises(Refusal, match="R001"):
        source.chosen(tmp_path / "node07", "node07", name)

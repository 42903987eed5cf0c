"""Media from captures: each host is planned by itself, and no node is connected to."""

from __future__ import annotations

import gzip
import json
import os
import shutil
import subprocess
import sys
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace

import pytest
import yaml
from ansible.parsing.dataloader import DataLoader
from ansible_collections.gpulab.node.plugins.action import installer_media
from ansible_collections.gpulab.node.plugins.module_utils.core.refusal import Refusal
from ansible_collections.gpulab.node.plugins.plugin_utils.capture import store
from ansible_collections.gpulab.node.plugins.plugin_utils.installer import image, media, media_parts
from ansible_collections.gpulab.node.plugins.plugin_utils.rebuild.new_system import NewFile

from unit.captures.conftest import vault, vault_password  # noqa: F401 - fixtures
from unit.installer import pe
from unit.rebuild import machine as machines
from unit.rebuild.machine import HASH, HOST_KEY, KEY, SHADOW

ROOT = Path(__file__).parents[3]
CHECK_PROGRAMS = media.check_programs
KEYS = "/home/admin/.ssh/authorized_keys"


@pytest.fixture
def machine(tmp_path):
    made = machines.Machine(tmp_path / "node")
    made.contents[KEYS] = KEY.encode()
    return made


@pytest.fixture
def capture(tmp_path, machine, vault):  # noqa: F811 - the fixture
    """Write the capture of the machine as node07's."""
    manifest = machine.document()
    secrets = {path: data for path, data in machine.contents.items() if path in (SHADOW, HOST_KEY)}
    with store.open_store(tmp_path / "captures", "node07", 14) as opened:
        for path, data in machine.contents.items():
            if path not in secrets:
                opened.put(path, data)
        opened.finish(manifest, secrets, vault)
    return machine


@pytest.fixture
def act(tmp_path, monkeypatch):
    """Return a function that runs the action for node07."""
    monkeypatch.setattr(media, "check_programs", lambda: None)

    def run(work, *, check=False, **args):
        task = SimpleNamespace(check_mode=check, async_val=0, args={"work": work, **args})
        task.args.setdefault("captures", str(tmp_path / "captures"))
        context = SimpleNamespace(remote_user=None)
        connection = SimpleNamespace(_shell=SimpleNamespace(tmpdir="/nowhere"))
        action = installer_media.ActionModule(task, connection, context, DataLoader(), None, None)
        return action.run(
            task_vars={"inventory_hostname": "node07", "ansible_user": "admin", "ansible_host": "10.0.0.7"}
        )

    return run


def codes(result):
    return [one["code"] for one in result["refusals"]]


def ready(tmp_path, **changes):
    """Return an image that is there."""
    place = tmp_path / "image"
    place.mkdir(exist_ok=True)
    for name in (image.KERNEL, image.TREE):
        (place / name).write_bytes(name.encode())
    return image.Image(place, place / image.KERNEL, place / image.TREE, {}, {}, **changes)


@pytest.mark.usefixtures("capture")
def test_a_plan_needs_no_node(act):
    result = act("plan")
    assert codes(result) == []
    assert [line.split()[0] for line in result["lines"]] == ["FROM", "WIPE", "KEEP"]
    assert (result["image"]["system"], result["image"]["firmware"]) == ("debian-12", "uefi")
    settings = result["settings"]
    assert (settings["user"], settings["server"], settings["unattended"]) == ("admin", "10.0.0.7", False)
    assert not {HASH, "canary7f3a"} & set(str(result).split())


def test_without_a_capture_there_are_no_media(act):
    assert act("plan")["refusal"]["code"] == "R001"


@pytest.mark.usefixtures("capture")
def test_what_stands_against_a_reinstall_stands_against_media(act):
    assert codes(act("plan", system="plan9")) == ["R010"]


def test_under_secure_boot_it_is_the_media_that_must_start_another_kernel(act, machine, request, monkeypatch):
    machine.sections["boot"]["secure_boot"] = "enabled"
    machine.machine["system"].update(id="ubuntu", version="24.04", codename="noble")
    request.getfixturevalue("capture")
    for here, notes in (("debian", 0), ("ubuntu", 1)):
        monkeypatch.setattr(installer_media.distro, "id", lambda here=here: here)
        result = act("plan", system="debian-13", mirror="http://own/debian")
        assert codes(result) == []
        said = f"NOTE Secure Boot is on, and the media have the boot loader of {here}"
        assert sum(line.startswith(said) for line in result["lines"]) == notes


@pytest.mark.parametrize("state", ["enabled", "disabled"])
def test_media_that_the_firmware_would_not_start_are_refused(act, machine, request, monkeypatch, state):
    machine.sections["boot"].update(secure_boot=state, sbat_level="sbat,1,2025010900\ngrub,4\n")
    request.getfixturevalue("capture")
    loader = request.getfixturevalue("tmp_path") / "loader"
    loader.write_bytes(pe.loader())
    for name in ("_SHIM", "_GRUB_CD", "_GRUB_NET"):
        monkeypatch.setattr(media, name, loader)
    monkeypatch.setattr(media, "FILES", {str(loader): "grub-signed"})
    result = act("plan")
    assert result.get("refusal", {}).get("code") == ("R038" if state == "enabled" else None)
    assert state == "disabled" or "Update the package grub-signed on this machine" in result["refusal"]["remedy"]


@pytest.mark.usefixtures("capture")
@pytest.mark.parametrize(
    ("confirmed", "hosts", "expected", "unattended"),
    [
        (None, ["node07"], [], False),
        ("node07", ["node07"], [], True),
        ("node08", ["node07"], ["R008"], True),
        ("node07", ["node07", "node08"], ["R008"], True),
    ],
)
def test_only_who_is_confirmed_by_name_is_installed_without_a_question(act, confirmed, hosts, expected, unattended):
    result = act("plan", confirmed=confirmed, hosts=hosts)
    assert codes(result) == expected
    assert result["settings"]["unattended"] == unattended


@pytest.mark.usefixtures("capture")
def test_a_missing_program_is_refused_before_an_image_is_made(act, monkeypatch):
    monkeypatch.setattr(media, "check_programs", CHECK_PROGRAMS)
    monkeypatch.setattr(media.shutil, "which", lambda _name: None)
    assert act("plan")["refusal"]["code"] == "R053"


@pytest.fixture
def made(act, tmp_path, monkeypatch):
    """Return a function that plans and writes, and returns what the media would be."""
    written = []
    monkeypatch.setattr(media, "write", lambda directory, of: written.append((directory, of)) or True)
    monkeypatch.setattr(image, "read", lambda _path: ready(tmp_path))

    def run(**args):
        settings = act("plan", **args)["settings"]
        result = act("write", hosts=[{**settings, "image": str(ready(tmp_path).path)}], directory=str(tmp_path / "m"))
        assert result["changed"], result
        return result, written[-1][1]

    return run


@pytest.mark.usefixtures("capture")
def test_the_image_starts_as_the_installer_from_a_medium(made):
    result, of = made(confirmed="node07", hosts=["node07"])
    (part,) = of.parts
    assert {"gpulab.from=media", "gpulab.refused=poweroff", "rdinit=/gpulab/init"} < set(part.entry.arguments)
    assert part.entry.machine == machines.UUID
    assert part.entry.unattended
    assert b"OPENSSH PRIVATE KEY" in gzip.decompress(part.files["gpulab/hosts/node07.cpio.gz"])
    assert "They hold private host keys" in result["lines"][1]
    assert "canary7f3a" not in json.dumps(result)


@pytest.mark.usefixtures("capture")
def test_media_without_secrets_hold_none(made):
    result, of = made(secrets=False)
    part = gzip.decompress(of.parts[0].files["gpulab/hosts/node07.cpio.gz"])
    assert b"canary7f3a" not in part
    assert b"ssh_host_ed25519_key" not in part  # nor the public half, which would not fit the new key
    assert KEY.encode() in part  # else nobody could log in
    assert len(result["lines"]) == 1
    assert not of.secrets


@pytest.mark.usefixtures("capture")
def test_people_read_how_old_the_capture_is_that_the_media_bring_back(act):
    lines = act("plan")["lines"]
    assert lines[0] == "FROM the capture of 2026-11-26T13:25:00Z: what changed on the system disk since then is lost"


def test_there_are_no_media_for_another_processor(act, request, machine):
    machine.machine["system"]["architecture"] = "aarch64"
    request.getfixturevalue("capture")
    refusal = act("plan")["refusal"]
    assert refusal["code"] == "R010"
    assert "playbook reinstall" in refusal["remedy"]


@pytest.mark.usefixtures("capture")
def test_what_is_planned_again_is_refused_again(act, tmp_path):
    settings = act("plan")["settings"]
    result = act("write", hosts=[{**settings, "system": "plan9", "image": str(ready(tmp_path).path)}])
    assert result["refusal"]["code"] == "R010"


@pytest.mark.usefixtures("capture")
def test_check_mode_without_an_image_says_that_media_would_be_written(act, tmp_path):
    settings = act("plan")["settings"]
    hosts = [{**settings, "image": str(tmp_path / "not-made")}]
    assert act("write", hosts=hosts, check=True, directory=str(tmp_path / "m"))["changed"]
    assert not (tmp_path / "m").exists()


@pytest.mark.usefixtures("capture")
def test_check_mode_looks_whether_media_are_as_planned(act, tmp_path, monkeypatch):
    monkeypatch.setattr(image, "read", lambda _path: ready(tmp_path))
    monkeypatch.setattr(media, "is_current", lambda _directory, _of: True)
    monkeypatch.setattr(media, "write", None)
    hosts = [{**act("plan")["settings"], "image": str(ready(tmp_path).path)}]
    assert not act("write", hosts=hosts, check=True)["changed"]


# The distributions' own installers


@pytest.fixture
def netboot(tmp_path, monkeypatch):
    """Return the directory of Debian's installer, for which a mirror has everything; and what it is asked for."""
    place, asked = tmp_path / "netboot", []
    place.mkdir()
    (place / "linux").write_bytes(b"LINUX")
    (place / "initrd.gz").write_bytes(b"INITRD")
    monkeypatch.setattr(installer_media.mirror, "kernel_version", lambda _path: "6.1.0-50-amd64")
    monkeypatch.setattr(installer_media.mirror, "check", lambda *args: asked.append(args) or 1)
    return str(place), asked


@pytest.mark.usefixtures("capture")
def test_debians_installer_is_preseeded_after_the_mirror_was_asked(made, netboot):
    place, asked = netboot
    _result, of = made(installer="distribution", netboot=place)
    assert asked == [("https://mirror.lab/debian", "bookworm", "6.1.0-50-amd64")]
    (part,) = of.parts
    assert part.entry.arguments[:3] == ["auto=true", "priority=critical", "preseed/file=/preseed.cfg"]
    packed = gzip.decompress(part.files["gpulab/hosts/node07.cpio.gz"])
    assert b"d-i partman/early_command string sh /gpulab/guard\n" in packed
    assert part.files[part.entry.kernel].read_bytes() == b"LINUX"
    assert part.entry.installed[0] == "--file"


@pytest.mark.usefixtures("capture", "netboot")
def test_a_mirror_that_lacks_something_stops_it_at_the_plan(act, netboot, monkeypatch):
    def refuse(*_args):
        raise Refusal("R051", "the mirror lacks anna", "use another one")

    monkeypatch.setattr(installer_media.mirror, "check", refuse)
    assert act("plan", installer="distribution", netboot=netboot[0])["refusal"]["code"] == "R051"


@pytest.mark.usefixtures("capture")
def test_debians_installer_has_to_be_there(act, tmp_path):
    result = act("plan", installer="distribution", netboot=str(tmp_path))
    assert result["refusal"]["code"] == "R053"
    assert "debian-installer-12-netboot-amd64" in result["msg"]


def test_debians_installer_unpacks_what_belongs_to_a_host(tmp_path):
    """The archive behind the initrd, read by cpio itself."""
    if not shutil.which("cpio"):
        pytest.skip("cpio is not here")
    one = NewFile(b"x\n", 0o600)
    packed = media_parts.preseed.packed({"preseed.cfg": one, "gpulab/target/etc/hostname": replace(one, mode=0o644)})
    subprocess.run(["cpio", "-idm", "--quiet"], input=gzip.decompress(packed), cwd=tmp_path, check=True)
    assert (tmp_path / "preseed.cfg").stat().st_mode & 0o777 == 0o600
    assert (tmp_path / "gpulab/target/etc/hostname").read_text() == "x\n"
    assert (tmp_path / "gpulab").stat().st_mode & 0o777 == 0o700


@pytest.mark.usefixtures("capture")
@pytest.mark.parametrize(
    ("system", "label", "names"),
    [
        ("ubuntu-24.04", "CIDATA", ["meta-data", "user-data"]),
        ("rocky-9", "OEMDRV", ["ks.cfg"]),
        ("rhel-10", "OEMDRV", ["ks.cfg"]),
    ],
)
def test_other_installers_get_a_volume_with_answers(made, system, label, names):
    _result, of = made(installer="distribution", system=system, mirror="https://mirror.lab/os")
    (volume,) = of.volumes
    assert (volume.host, volume.label, sorted(volume.files)) == ("node07", label, names)
    assert not of.parts


@pytest.mark.usefixtures("capture")
def test_answers_that_are_not_safe_are_not_written(act, monkeypatch):
    monkeypatch.setattr(media_parts.lint, "of_kickstart", lambda _text: ["autopart is there"])
    result = act("plan", installer="distribution", system="rocky-9", mirror="https://mirror.lab/os")
    assert result["refusal"]["code"] == "R055"
    assert "autopart is there" in result["msg"]


@pytest.mark.usefixtures("capture")
def test_there_is_no_image_of_rhel(act):
    assert codes(act("plan", system="rhel-9", mirror="https://mirror.lab/os")) == ["R010"]


# The playbook


@pytest.mark.slow
@pytest.mark.usefixtures("capture")
def test_the_playbook_writes_media_once_and_connects_to_nobody(tmp_path):
    try:
        media.check_programs()
    except Refusal:
        pytest.skip("xorriso, mtools or GRUB is not here")
    (tmp_path / "password").write_text("correct horse")
    away = {"ansible_host": "10.0.0.7", "ansible_port": 1, "ansible_user": "admin"}
    hosts = {"node07": away, "node08": away}  # node08 has no capture, and does not stop the other one
    inventory = tmp_path / "inventory.yml"
    inventory.write_text(yaml.safe_dump({"gpu-nodes": {"children": {"workstations": {"hosts": hosts}}}}))
    variables = {
        "capture_directory": str(tmp_path / "captures"),
        "reinstall_media_directory": str(tmp_path / "media"),
        "reinstall_media_installer": "distribution",
        "reinstall_system": "ubuntu-24.04",
        "reinstall_mirror": "https://mirror.lab/ubuntu",
    }

    def play(*arguments):
        argv = [Path(sys.executable).with_name("ansible-playbook"), "-i", inventory, "playbooks/media.yml", "-vvv"]
        done = subprocess.run(
            [*argv, f"--vault-password-file={tmp_path / 'password'}", "-e", json.dumps(variables), *arguments],
            cwd=ROOT,
            env={**os.environ, "ANSIBLE_HOME": str(tmp_path / "home")},
            capture_output=True,
            text=True,
            timeout=180,
            check=False,
        )
        return done.stdout + done.stderr

    first = play("--check")
    assert not (tmp_path / "media").exists(), first
    output = play()
    assert "GPULAB-R001" in output  # of node08
    assert (tmp_path / "media/node07.iso").stat().st_mode & 0o777 == 0o600, output
    assert "They hold private host keys" in output
    assert "canary7f3a" not in output
    before = (tmp_path / "media/node07.iso").stat().st_mtime_ns
    again = play()
    assert (tmp_path / "media/node07.iso").stat().st_mtime_ns == before
    assert "node07" in again

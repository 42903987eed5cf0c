"""The answers for the installers of Debian, Ubuntu and RHEL, and what they leave on the installed system."""

import base64
import io
import json
import re
import shutil
import subprocess
import tarfile

import pytest
import yaml
from ansible_collections.gpulab.node.plugins.plugin_utils.installer import (
    autoinstall,
    kickstart,
    lint,
    preseed,
    scripts,
)
from ansible_collections.gpulab.node.plugins.plugin_utils.rebuild.new_system import NewFile

from unit.installer import answers

MIRROR = "https://mirror.example:8443/debian/"
REPOSITORY = "https://mirror.example/rocky/9/BaseOS/x86_64/os/"
FIRMWARE = ["uefi", "bios"]


def preseeded(**changes):
    return preseed.render(answers.plan(**changes), answers.files(), MIRROR, "bookworm")


def user_data(**changes):
    return autoinstall.render(answers.plan(**changes), answers.files())["user-data"].decode()


def kickstarted(**changes):
    return kickstart.render(answers.plan(**changes), answers.files(), REPOSITORY)["ks.cfg"].decode()


def archived(text):
    """Return the tar that a document carries."""
    (packed,) = re.findall(r"<<'GPULAB_ARCHIVE'.*\n((?:.*\n)*?)GPULAB_ARCHIVE\n", text)
    return tarfile.open(fileobj=io.BytesIO(base64.b64decode(packed)), mode="r:gz")


@pytest.mark.parametrize("firmware", FIRMWARE)
def test_what_is_rendered_keeps_every_rule(firmware):
    text = preseeded(firmware=firmware)["preseed.cfg"].content.decode()
    assert list(lint.of_preseed(text)) == []
    document = yaml.safe_load(user_data(firmware=firmware))["autoinstall"]
    assert list(lint.of_autoinstall(document)) == []
    assert list(lint.of_kickstart(kickstarted(firmware=firmware))) == []


def test_the_same_plan_gives_the_same_answers():
    assert preseeded() == preseeded()
    assert user_data() == user_data()
    assert kickstarted() == kickstarted()


def test_debian_asks_the_mirror():
    lines = preseeded()["preseed.cfg"].content.decode().splitlines()
    assert {
        "d-i mirror/protocol string https",
        "d-i mirror/https/hostname string mirror.example:8443",
        "d-i mirror/https/directory string /debian",
        "d-i mirror/suite string bookworm",
        "d-i netcfg/get_hostname string node07",
        "d-i debian-installer/add-kernel-opts string console=tty0 console=ttyS0",
    } <= set(lines)


@pytest.mark.skipif(not shutil.which("debconf-set-selections"), reason="debconf is not here")
def test_debconf_takes_the_preseed_file(tmp_path):
    (tmp_path / "preseed.cfg").write_bytes(preseeded()["preseed.cfg"].content)
    done = subprocess.run(
        ["debconf-set-selections", "--checkonly", tmp_path / "preseed.cfg"],
        capture_output=True,
        text=True,
        check=False,
    )
    assert (done.returncode, done.stdout, done.stderr) == (0, "", "")


def test_debian_has_all_beside_the_preseed_file():
    found = preseeded()
    assert found["gpulab/target/etc/ssh/ssh_host_ed25519_key"].content == b"PRIVATE\n"
    assert found["preseed.cfg"].mode == 0o600
    assert {"gpulab/guard", "gpulab/finish", "gpulab/files"} < set(found)


@pytest.mark.parametrize("document", [user_data, kickstarted])
def test_the_others_carry_all_in_one_file(document):
    text = document()
    if document is user_data:
        text = yaml.safe_load(text)["autoinstall"]["early-commands"][0][2]
    with archived(text) as tar:
        names = tar.getnames()
        key = tar.getmember("target/etc/ssh/ssh_host_ed25519_key")
        assert tar.extractfile(key).read() == b"PRIVATE\n"
        assert (key.mode, key.mtime) == (0o600, 0)
        assert tar.getmember("target/home/admin/.ssh/authorized_keys").uid == 1007
    assert names[:3] == ["guard", "finish", "files"]


def test_ubuntu_installs_on_one_disk():
    storage = yaml.safe_load(user_data())["autoinstall"]["storage"]
    disks = [one for one in storage["config"] if one["type"] == "disk"]
    assert [one["match"] for one in disks] == [{"serial": "gpulab-planned-disk"}]
    assert [one["path"] for one in storage["config"] if one["type"] == "mount"] == ["/", "/boot/efi"]


def test_ubuntu_on_bios_puts_grub_on_the_disk():
    storage = yaml.safe_load(user_data(firmware="bios"))["autoinstall"]["storage"]
    assert [one["id"] for one in storage["config"] if one.get("grub_device")] == ["disk"]
    assert [one["path"] for one in storage["config"] if one["type"] == "mount"] == ["/"]


def test_ubuntu_gets_the_arguments_of_the_kernel():
    assert "update-grub" in user_data()
    assert "update-grub" not in user_data(kernel_arguments=[])


def test_rhel_names_the_disk_in_every_command():
    lines = kickstart.storage(answers.plan()).splitlines()
    assert len([line for line in lines if kickstart.DISK in line]) == len(lines) - 1  # zerombr takes none
    assert "--append" not in kickstart.storage(answers.plan(kernel_arguments=[]))
    assert "--fstype=biosboot" in kickstart.storage(answers.plan(firmware="bios"))


# The end of an installation


@pytest.fixture
def finish(tmp_path):
    """Return a function that runs finish.sh for an installed system, whose accounts and owners are only noted."""
    place, target, programs = tmp_path / "gpulab", tmp_path / "target", tmp_path / "bin"
    log = tmp_path / "log"
    for name in ("chroot", "chown"):
        programs.mkdir(exist_ok=True)
        (programs / name).write_text(f'#!/bin/sh\necho {name} "$@" >>{log}\n')
        (programs / name).chmod(0o755)
    (target / "etc/ssh").mkdir(parents=True)
    (target / "boot").mkdir()
    (target / "etc/ssh/ssh_host_rsa_key").write_text("made by the package")
    (target / "etc/hostname").write_text("debian\n")
    (target / "etc/group").write_text("root:x:0:\n")
    (target / "etc/passwd").write_text("root:x:0:0::/root:/bin/bash\n")

    def run(files=None, **changes):
        members = scripts.members(answers.plan(**changes), answers.files() if files is None else files, "x", str(place))
        for path, one in members.items():
            (place / path).parent.mkdir(parents=True, exist_ok=True)
            (place / path).write_bytes(one.content)
        subprocess.run(["sh", place / "finish", target], env={"PATH": f"{programs}:/usr/bin:/bin"}, check=True)
        return target, log.read_text().splitlines() if log.exists() else []

    return run


def test_files_are_as_they_were(finish):
    target, log = finish()
    assert (target / "etc/hostname").read_text() == "node07\n"
    key = target / "etc/ssh/ssh_host_ed25519_key"
    assert (key.read_text(), key.stat().st_mode & 0o777) == ("PRIVATE\n", 0o600)
    assert not (target / "etc/ssh/ssh_host_rsa_key").exists()
    assert (target / "home/admin/.ssh").stat().st_mode & 0o777 == 0o700
    assert f"chown 1007:1008 {target}/home/admin/.ssh" in log
    assert f"chown 1007:1008 {target}/home/admin/.ssh/authorized_keys" in log


def test_keys_of_the_package_stay_where_there_are_no_others(finish):
    target, _log = finish(files={})
    assert (target / "etc/ssh/ssh_host_rsa_key").exists()


def test_the_account_has_the_ids_that_it_had(finish):
    target, log = finish()
    assert log[0] == f"chroot {target} groupadd -g 1008 staff2"
    assert log[1] == (
        f"chroot {target} useradd -m -u 1007 -g 1008 -c The admin's own -d /home/admin -s /bin/bash"
        " -p $6$salt$hash admin"
    )


def test_an_account_without_a_password_has_none(finish):
    _target, log = finish(user={**answers.USER, "password": None})
    assert " -p ! admin" in log[1]


def test_no_account_is_made_for_root(finish):
    _target, log = finish(user={**answers.USER, "name": "root", "uid": 0})
    assert not [line for line in log if line.startswith("chroot")]


NETWORKD = {"/etc/systemd/network/10-a.network": NewFile(b"[Match]\n", 0o644)}


@pytest.mark.parametrize("there", [True, False])
def test_the_network_is_that_of_the_files(finish, tmp_path, there):
    target = tmp_path / "target"
    for path in ("etc/network/interfaces", "etc/netplan/50.yaml", *(["lib/systemd/systemd-networkd"] if there else [])):
        (target / path).parent.mkdir(parents=True)
        (target / path).write_text("iface eth0 inet dhcp\n")
    _target, log = finish(files=NETWORKD)
    assert (f"chroot {target} systemctl enable systemd-networkd" in log) == there
    assert ("dhcp" in (target / "etc/network/interfaces").read_text()) != there
    assert (target / "etc/netplan/50.yaml").exists() != there


def test_the_system_says_what_it_was_installed_by(finish):
    target, _log = finish()
    mark = json.loads((target / "etc/gpulab-installed-by").read_text())
    assert re.fullmatch(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\dZ", mark.pop("installed"))
    assert (target / "boot/gpulab-0123456789abcdef").exists()  # what GRUB on the media looks for
    assert mark == {"plan": "0123456789abcdef", "capture": "20261126T021500Z", "host": "node07"}


def test_the_scripts_need_no_more_than_busybox_has():
    """The tr of Debian's installer knows no classes of characters, and a process in the background stops debconf."""
    for name in (scripts.GUARD, scripts.FINISH):
        script = scripts.members(answers.plan(), {}, "preseed", "/gpulab")[name].content.decode()
        assert not re.search(r"\btr\s+'?\[:", script)
        assert not re.search(r"(?<![&>|0-9])&(?![&>])\s*$", script, re.MULTILINE)

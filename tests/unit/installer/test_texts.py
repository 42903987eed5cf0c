"""What the installer writes, by a plan."""

from __future__ import annotations

import json
import re

import pytest
from ansible_collections.gpulab.node.plugins.module_utils.installer import texts
from ansible_collections.gpulab.node.plugins.module_utils.installer.plan import guid, identified
from ansible_collections.gpulab.node.plugins.module_utils.installer.texts import Start

from .plans import PLAN, changed, plan

TREE = {
    "passwd": "root:x:0:0:root:/root:/bin/bash\nwww-data:x:33:33::/var/www:/usr/sbin/nologin\n",
    "group": "root:x:0:\nwww-data:x:33:\nusers:x:100:\n",
    "shadow": "root:*:20000:0:99999:7:::\n",
    "gshadow": "root:*::\n",
}
SHELL = "/bin/dash"


def test_the_id_of_a_plan_follows_from_the_rest_of_it():
    assert re.fullmatch("[0-9a-f]{16}", plan()["id"])
    assert identified(plan()) == plan()
    assert plan(hostname="other")["id"] != plan()["id"]
    assert identified(dict(reversed(PLAN.items()))) == identified(PLAN)
    assert len({guid(plan()), guid(plan(), "root"), guid(plan(hostname="other"))}) == 3


def test_the_first_partition_is_what_the_firmware_boots():
    efi = texts.partitions(plan(), "x86_64").splitlines()
    assert efi[:2] == ["label: gpt", f"label-id: {guid(plan())}"]
    assert efi[2].startswith("size=512MiB, type=C12A7328-")
    assert len(efi) == 4
    bios = texts.partitions(plan(firmware="bios"), "x86_64").splitlines()
    assert bios[2].startswith("size=2MiB, type=21686148-")


@pytest.mark.parametrize(("machine", "kind"), [("x86_64", "4F68BCE3-"), ("aarch64", "B921B045-")])
def test_the_root_partition_is_marked_for_the_processor(machine, kind):
    """By the Discoverable Partitions Specification of UAPI."""
    assert texts.partitions(plan(), machine).splitlines()[3].startswith(f"type={kind}")


def test_fstab_names_file_systems_by_uuid():
    lines = texts.fstab(plan()).splitlines()[1:]
    serial = texts.esp_serial(plan()).upper()
    assert lines[0].split()[:3] == [f"UUID={guid(plan(), 'root-fs')}", "/", "ext4"]
    assert lines[1].split()[:3] == [f"UUID={serial[:4]}-{serial[4:]}", "/boot/efi", "vfat"]
    assert len(texts.fstab(plan(firmware="bios")).splitlines()) == 2


@pytest.mark.parametrize(
    ("command_line", "started"),
    [
        ("ro gpulab.refused=reboot gpulab.from=disk", Start("reboot", "disk")),
        ("gpulab.refused=poweroff gpulab.from=media", Start("poweroff", "media")),
        ("gpulab.refused=nonsense", Start("poweroff", "media")),
        ("", Start("poweroff", "media")),
    ],
)
def test_how_it_was_started_is_read(command_line, started):
    assert texts.start(command_line) == started


def test_the_second_start_is_like_the_first():
    menu = texts.second_menu(plan(), Start("reboot", "disk"))
    (line,) = [line for line in menu.splitlines() if line.strip().startswith("linux ")]
    assert line.split()[2:] == [
        *("rdinit=/gpulab/init", "panic=60", "gpulab.refused=reboot", "gpulab.from=disk"),
        *("console=tty0", "console=ttyS0"),
    ]
    assert f"--set=root {guid(plan(), 'root-fs')}" in menu


@pytest.mark.parametrize(
    ("arguments", "serial"),
    [
        (["console=ttyS1,57600n8"], "--unit=1 --speed=57600"),
        (["console=tty0", "console=ttyS0"], "--unit=0 --speed=115200"),
        (["console=tty0"], None),
    ],
)
def test_grub_speaks_where_the_kernel_does(arguments, serial):
    given = plan(kernel_arguments=arguments)
    both = texts.grub_defaults(given) + texts.second_menu(given, Start("reboot", "disk"))
    if serial:
        assert f'GRUB_SERIAL_COMMAND="serial {serial}"' in both
        assert f"\nserial {serial}\n" in f"\n{both}"
        assert 'GRUB_TERMINAL="console serial"' in both
    else:
        assert "serial" not in both
    assert f'GRUB_CMDLINE_LINUX="{" ".join(arguments)}"' in both


def test_the_user_has_the_ids_it_had():
    user = {"uid": 1003, "gid": 1005, "group": "lab", "gecos": "A B", "password": "$6$x"}
    made = texts.accounts(changed("user", **user), TREE, SHELL)
    assert made["passwd"] == f"{TREE['passwd']}admin:x:1003:1005:A B:/home/admin:{SHELL}\n"
    assert made["group"].endswith("\nlab:x:1005:\n")
    assert made["shadow"].splitlines()[-1].startswith("admin:$6$x:")
    assert made["gshadow"].endswith("\nlab:!::\n")


def test_a_user_without_password_logs_in_by_key():
    assert texts.accounts(plan(), TREE, SHELL)["shadow"].splitlines()[-1].startswith("admin:*:")


def test_a_group_of_the_tree_is_not_made_again():
    given = changed("user", group="users", gid=100)
    assert texts.accounts(given, TREE, SHELL)["group"] == TREE["group"]
    assert list(texts.hindrances(given, TREE)) == []


def test_no_account_is_made_for_root():
    assert texts.accounts(changed("user", name="root", uid=0), TREE, SHELL) == TREE
    assert list(texts.hindrances(changed("user", name="root", uid=0), TREE)) == []


@pytest.mark.parametrize(
    ("user", "reason"),
    [
        ({"name": "www-data"}, "The user www-data (1000) cannot be made: the new system has www-data (33)."),
        ({"uid": 33}, "The user admin (33) cannot be made: the new system has www-data (33)."),
        ({"gid": 100}, "The group admin (100) cannot be made: the new system has users (100)."),
        ({"group": "users"}, "The group users (1000) cannot be made: the new system has users (100)."),
    ],
)
def test_a_user_that_the_tree_cannot_have(user, reason):
    assert list(texts.hindrances(changed("user", **user), TREE)) == [reason]


def test_the_marker_names_the_plan():
    marker = json.loads(texts.marker(plan(), "2026-11-26T03:00:00Z"))
    assert marker == {
        "plan": plan()["id"],
        "capture": "20261126T021500Z",
        "host": "node07",
        "installed": "2026-11-26T03:00:00Z",
    }

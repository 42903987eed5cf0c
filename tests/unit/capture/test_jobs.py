"""Units that no package brings: what is found, of whom, and how it is set."""

import json
from dataclasses import asdict

import pytest
from ansible_collections.gpulab.node.plugins.module_utils.capture import jobs

ETC = "/etc/systemd/system"
NOBODYS = frozenset().__contains__
SERVICE = "[Service]\nExecStart=/srv/lab\n"


def read(tree, owned=NOBODYS):
    return asdict(jobs.read(tree.node(), owned))


def units(tree, owned=NOBODYS):
    return {unit["path"]: unit for unit in read(tree, owned)["units"]}


def test_a_unit_of_no_package(tree):
    tree.file(f"{ETC}/lab.service", SERVICE).prints(
        "systemctl show --property=Id,Names,ActiveState,UnitFileState -- lab.service",
        "Id=lab.service\nNames=lab.service\nActiveState=active\nUnitFileState=enabled\n",
    )
    assert units(tree) == {
        f"{ETC}/lab.service": {
            "path": f"{ETC}/lab.service",
            "unit": "lab.service",
            "kind": "unit",
            "target": None,
            "manager": "system",
            "user": None,
            "linger": False,
            "enabled": "enabled",
            "active": "active",
            "instances": [],
            "gpulab": False,
        }
    }


def test_units_of_packages_are_left_out(tree):
    tree.file("/usr/lib/systemd/system/ssh.service", SERVICE).file(f"{ETC}/snap.service", SERVICE)
    tree.file("/usr/lib/systemd/system/hand.service", SERVICE).file(
        "/usr/local/lib/systemd/system/own.service", SERVICE
    )
    owned = {"/usr/lib/systemd/system/ssh.service", f"{ETC}/snap.service"}.__contains__
    assert [unit["unit"] for unit in read(tree, owned)["units"]] == ["own.service", "hand.service"]


def test_drop_ins_of_no_package(tree):
    tree.file(f"{ETC}/docker.service.d/proxy.conf", "[Service]\n").file(f"{ETC}/docker.service.d/proxy.conf~", "")
    tree.file(f"{ETC}/docker.service.d/package.conf", "").file(f"{ETC}/service.d/all.conf", "[Service]\n")
    tree.file("/etc/systemd/system.control/user-1001.slice.d/50-CPUQuota.conf", "[Slice]\n")
    tree.prints(
        "systemctl show", "Id=docker.service\nNames=docker.service\nActiveState=active\nUnitFileState=disabled\n"
    )
    found = units(tree, {f"{ETC}/docker.service.d/package.conf"}.__contains__)
    assert {path: (unit["unit"], unit["kind"], unit["enabled"]) for path, unit in found.items()} == {
        f"{ETC}/docker.service.d/proxy.conf": ("docker.service", "drop-in", "disabled"),
        f"{ETC}/service.d/all.conf": ("service", "drop-in", "disabled"),
        "/etc/systemd/system.control/user-1001.slice.d/50-CPUQuota.conf": ("user-1001.slice", "drop-in", "disabled"),
    }


@pytest.mark.parametrize("target", ["/dev/null", "../../../dev/null"])
def test_a_masked_unit(tree, target):
    tree.link(f"{ETC}/apt-daily.service", target)
    unit = units(tree)[f"{ETC}/apt-daily.service"]
    assert (unit["kind"], unit["enabled"]) == ("mask", "masked")


def test_an_empty_file_masks_too(tree):
    tree.file(f"{ETC}/apt-daily.service", "")
    assert units(tree)[f"{ETC}/apt-daily.service"]["kind"] == "mask"


def test_a_link_to_a_unit(tree):
    tree.link(f"{ETC}/lab.service", "/opt/lab/lab.service")
    unit = units(tree)[f"{ETC}/lab.service"]
    assert (unit["kind"], unit["target"], unit["enabled"]) == ("link", "/opt/lab/lab.service", "linked")


def test_another_name_of_a_unit_has_the_state_of_the_unit(tree):
    tree.link(f"{ETC}/display-manager.service", "/usr/lib/systemd/system/gdm.service").prints(
        "systemctl show",
        "Id=gdm.service\nNames=gdm.service display-manager.service\nActiveState=active\nUnitFileState=static\n",
    )
    unit = units(tree)[f"{ETC}/display-manager.service"]
    assert (unit["enabled"], unit["active"]) == ("static", "active")


def test_without_systemd_the_links_tell_what_is_enabled(tree):
    tree.file(f"{ETC}/lab.service", SERVICE).file(f"{ETC}/other.service", SERVICE)
    tree.file("/usr/local/lib/systemd/system/own.service", SERVICE)
    tree.link(f"{ETC}/multi-user.target.wants/lab.service", "../lab.service")
    tree.link(f"{ETC}/multi-user.target.requires/own.service", "/usr/local/lib/systemd/system/own.service")
    found = {unit["unit"]: (unit["enabled"], unit["active"]) for unit in read(tree)["units"]}
    assert found == {
        "lab.service": ("enabled", None),
        "other.service": ("disabled", None),
        "own.service": ("enabled", None),
    }


def test_instances_of_a_template(tree):
    tree.file(f"{ETC}/train@.service", SERVICE)
    for name in ("train@a.service", "train@b.service", "trainer@c.service", "train@d.timer"):
        tree.link(f"{ETC}/multi-user.target.wants/{name}", "../x")
    unit = units(tree)[f"{ETC}/train@.service"]
    assert (unit["instances"], unit["enabled"]) == (["train@a.service", "train@b.service"], "enabled")


def test_a_template_is_not_asked_for_and_no_name_is_an_option(tree):
    tree.file(f"{ETC}/a@.service", SERVICE).file(f"{ETC}/-.mount.d/x.conf", "[Mount]\n").file(
        f"{ETC}/b.service", SERVICE
    )
    tree.prints(
        "systemctl show --property=Id,Names,ActiveState,UnitFileState -- -.mount b.service",
        "Id=-.mount\nNames=-.mount\nActiveState=active\n",
    )
    assert units(tree)[f"{ETC}/-.mount.d/x.conf"]["active"] == "active"


def test_what_gpulab_writes_is_told(tree):
    tree.file(f"{ETC}/gpulab-metrics.service", f"# Written by gpulab (role monitoring)\n{SERVICE}")
    assert units(tree)[f"{ETC}/gpulab-metrics.service"]["gpulab"]


def people(tree):
    return tree.file(
        "/etc/passwd", "wei:x:1001:1001::/home/wei:/bin/sh\nmia:x:1002:1002::/srv/mia:/bin/sh\nd:x:1:1::/:\n"
    )


def test_units_of_users(tree):
    people(tree).file("/home/wei/.config/systemd/user/jupyter.service", SERVICE).file("/var/lib/systemd/linger/wei")
    tree.link("/home/wei/.config/systemd/user/default.target.wants/jupyter.service", "../jupyter.service")
    tree.file("/srv/mia/.local/share/systemd/user/sync.timer", "[Timer]\nOnBootSec=5min\n")
    tree.file("/home/ada/.config/systemd/user/far.service", SERVICE).file("/etc/systemd/user/all.service", SERVICE)
    tree.prints("systemctl show", "Id=jupyter.service\nNames=jupyter.service\nActiveState=failed\n")
    tree.file("/usr/local/lib/systemd/system/z.service", SERVICE)
    found = read(tree)
    told = ("unit", "manager", "user", "linger", "enabled", "active")
    assert [tuple(unit[name] for name in told) for unit in found["units"][1:]] == [
        ("all.service", "user", None, False, "disabled", None),
        ("sync.timer", "user", "mia", False, "disabled", None),
        ("jupyter.service", "user", "wei", True, "enabled", None),
        ("far.service", "user", "ada", False, "disabled", None),
    ]
    assert [(timer["user"], timer["schedule"], timer["activates"]) for timer in found["timers"]] == [
        ("mia", ["OnBootSec=5min"], "sync.service")
    ]


def test_a_home_on_a_server_that_may_not_answer_is_not_read(tree):
    people(tree).file("/home/wei/.config/systemd/user/jupyter.service", SERVICE)
    tree.file("/proc/self/mountinfo", "1 0 8:2 / / rw - ext4 /dev/sda2 rw\n2 1 0:4 / /home rw - nfs4 nas:/ rw\n")
    assert read(tree)["units"] == []


def test_a_drop_in_that_leads_to_a_server_is_named_and_not_read(tree):
    people(tree).file("/nfs/x.conf", "# Written by gpulab\n")
    tree.link("/home/wei/.config/systemd/user/a.service.d/x.conf", "../../../../../../nfs/x.conf")
    tree.file("/proc/self/mountinfo", "1 0 8:2 / / rw - ext4 /dev/sda2 rw\n2 1 0:4 / /nfs rw - nfs4 nas:/ rw\n")
    assert [(unit["unit"], unit["gpulab"]) for unit in read(tree)["units"]] == [("a.service", False)]


def test_timers(tree):
    tree.file(
        f"{ETC}/backup.timer",
        "[Timer]\nOnCalendar=daily\n OnCalendar = Mon 02:00 \n#OnBootSec=1\nPersistent=true\nUnit=lab-backup.service\n",
    ).file(f"{ETC}/apt-daily.timer.d/lab.conf", "[Timer]\nOnCalendar=\n").link(f"{ETC}/fstrim.timer", "/dev/null")
    tree.link(f"{ETC}/timers.target.wants/backup.timer", "../backup.timer")
    assert read(tree)["timers"] == [
        {
            "path": f"{ETC}/backup.timer",
            "unit": "backup.timer",
            "user": None,
            "enabled": "enabled",
            "active": None,
            "schedule": ["OnCalendar=daily", "OnCalendar = Mon 02:00"],
            "activates": "lab-backup.service",
        }
    ]


def test_states_of_all_unit_files(tree):
    tree.prints(
        "systemctl list-unit-files",
        "apt-daily.timer disabled enabled\nssh.service enabled enabled\nx.service masked -\na.mount static -\nb\n",
    )
    assert read(tree)["unit_states"] == {"apt-daily.timer": "disabled", "ssh.service": "enabled", "x.service": "masked"}


def test_a_node_without_systemd(tree):
    assert read(tree) == {"cron": [], "at": [], "units": [], "timers": [], "unit_states": None}


def test_texts_of_units_are_not_returned(tree):
    tree.file(f"{ETC}/lab.service", "[Service]\nEnvironment=HF_TOKEN=canary\nExecStart=/srv/lab canary\n")
    tree.file(f"{ETC}/lab.timer", "[Timer]\nOnCalendar=daily\nX-Note=canary\n")
    found = read(tree)
    assert len(found["units"]) == 2
    assert "canary" not in json.dumps(found)

"""A node is rebuilt only if it is the machine of its capture, on the planned disk, with the other disks untouched."""

import copy
import json

import pytest
from ansible_collections.gpulab.node.plugins.module_utils.capture.sections.machine import Release
from ansible_collections.gpulab.node.plugins.module_utils.core.node import Node
from ansible_collections.gpulab.node.plugins.module_utils.rebuild import present, record
from ansible_collections.gpulab.node.plugins.plugin_utils.capture import manifest as manifests
from ansible_collections.gpulab.node.plugins.plugin_utils.rebuild import gates

from unit.capture import hardware
from unit.captures import captured
from unit.filled import typed
from unit.storage import nodes

CAPTURE = "20261126T132500Z"
SYSTEM = {"id": "debian", "version": "12", "name": "Debian 12", "family": "debian"}
MACHINE = {"dmi_uuid": "4c4c4544-0031", "dmi_serial": "", "product": "R760", "system": SYSTEM}
MARKER = {"plan": "0123456789abcdef", "capture": CAPTURE, "host": "node07", "installed": "2026-11-26T14:00:00Z"}
USED = 500_000_000


@pytest.fixture
def manifest(tmp_path):
    """Return the manifest of a machine with a disk for data, of which USED bytes are used."""
    section = json.loads(json.dumps(hardware.with_data().read(tmp_path)))
    data = next(one for one in section["filesystems"] if one["mount"] == "/data")
    data.update(size=2 * nodes.TB, used=USED)
    return captured.manifest({}, {}, sections={"disks": section}, machine=copy.deepcopy(MACHINE))


@pytest.fixture
def found(manifest):
    """Return the node after its reinstall: nothing of the data is mounted."""
    section = copy.deepcopy(manifest["sections"]["disks"])
    section["filesystems"] = [one for one in section["filesystems"] if one["mount"] != "/data"]
    used = {nodes.DATA: USED}
    return {
        "machine": copy.deepcopy(MACHINE),
        "disks": section,
        "marker": json.dumps(MARKER),
        "used": used,
        "mounted": [],
    }


def judged(manifest, found, allow=(), plan=MARKER["plan"]):
    verdict = gates.judge(manifests.typed(manifest), CAPTURE, typed(found, present.Present), plan, allow)
    return [one.code for one in verdict.refusals], [one["name"] for one in verdict.said]


def disk(section, root):
    return next(one for one in section["disks"] if one["root"] is root)


def test_a_node_that_is_as_planned_passes(manifest, found):
    assert judged(manifest, found) == ([], [])


def other_machine(_manifest, found):
    found["machine"]["dmi_uuid"] = "another"


def silent_machine(manifest, found):
    manifest["machine"]["dmi_uuid"] = found["machine"]["dmi_uuid"] = ""


def now_a_container(_manifest, found):
    found["disks"]["container"] = "docker"


def other_release(_manifest, found):
    found["machine"]["system"] = {**SYSTEM, "version": "13", "name": "Debian 13"}
    found["marker"] = ""  # a person installed it


def other_plan(_manifest, found):
    found["marker"] = json.dumps({**MARKER, "plan": "f" * 16})


def other_capture(_manifest, found):
    found["marker"] = json.dumps({**MARKER, "capture": "20250101T000000Z"})


def other_host(_manifest, found):
    found["marker"] = json.dumps({**MARKER, "host": "node08"})


def damaged_marker(_manifest, found):
    found["marker"] = "{"


def installed_elsewhere(_manifest, found):
    found["marker"] = ""
    disk(found["disks"], root=True)["serial"] = "S9"


def disk_missing(_manifest, found):
    found["disks"]["disks"].remove(disk(found["disks"], root=False))


def disk_empty(_manifest, found):
    disk(found["disks"], root=False).update(type="", uuid="", label="")


def disk_formatted_again(_manifest, found):
    disk(found["disks"], root=False)["uuid"] = nodes.OTHER


def disk_has_another_label(_manifest, found):
    disk(found["disks"], root=False)["label"] = "old"


def disk_has_another_size(_manifest, found):
    disk(found["disks"], root=False)["size"] += 1


def data_is_less(_manifest, found):
    found["used"][nodes.DATA] = USED - 20_000_000


@pytest.mark.parametrize(
    ("change", "code", "allowed"),
    [
        (other_machine, "R003", "hardware"),
        (silent_machine, "R003", "hardware"),
        (now_a_container, "R003", "hardware"),
        (other_release, "R040", "release"),
        (other_plan, "R011", "disks"),
        (other_capture, "R011", "disks"),
        (other_host, "R011", "disks"),
        (damaged_marker, "R011", "disks"),
        (installed_elsewhere, "R011", "disks"),
        (disk_missing, "R012", "disks"),
        (disk_empty, "R012", "disks"),
        (disk_formatted_again, "R012", "disks"),
        (disk_has_another_label, "R012", "disks"),
        (disk_has_another_size, "R012", "disks"),
        (data_is_less, "R012", "disks"),
    ],
)
def test_what_differs_is_refused_unless_it_is_allowed_by_name(manifest, found, change, code, allowed):
    change(manifest, found)
    assert judged(manifest, found) == ([code], [])
    others = {"hardware", "release", "disks"} - {allowed}
    assert judged(manifest, found, others)[0] == [code]
    assert judged(manifest, found, [allowed]) == ([], [allowed])


def test_a_system_on_a_disk_that_was_to_be_kept_is_refused(manifest, found):
    for one in found["disks"]["disks"]:
        one["root"] = not one["root"]
    assert sorted(set(judged(manifest, found)[0])) == ["R011", "R012"]


def test_the_release_that_the_installer_was_sent_with_needs_no_other_word(manifest, found):
    other_release(manifest, found)
    found["marker"] = json.dumps(MARKER)
    assert judged(manifest, found) == ([], [])
    assert judged(manifest, found, plan=None) == (["R040"], [])
    assert "R040" in judged(manifest, found, plan="f" * 16)[0]


def test_people_may_remove_data_after_a_rebuild_mounted_it(manifest, found):
    data_is_less(manifest, found)
    found["mounted"] = ["/data"]
    assert judged(manifest, found) == ([], [])


@pytest.mark.parametrize(("kind", "used", "aside"), [("btrfs", 10, 0.5), ("xfs", 100, 50), ("ext4", 10, 0)])
def test_what_a_file_system_keeps_aside_while_it_is_mounted_is_no_data(manifest, found, kind, used, aside):
    """Btrfs and XFS count it as used then, and not as they are mounted for looking."""
    data = next(one for one in manifest["sections"]["disks"]["filesystems"] if one["mount"] == "/data")
    data.update(type=kind, used=int((used + aside) * 10**9))
    found["used"][nodes.DATA] = used * 10**9
    assert judged(manifest, found) == ([], [])
    found["used"][nodes.DATA] = int(used * 0.85 * 10**9)
    assert judged(manifest, found)[0] == ["R012"]


@pytest.mark.parametrize("kind", ["btrfs", "xfs"])
def test_a_small_file_system_that_lost_most_of_it_is_found(manifest, found, kind):
    data = next(one for one in manifest["sections"]["disks"]["filesystems"] if one["mount"] == "/data")
    data.update(type=kind, size=400 << 20, used=200 << 20)
    found["used"][nodes.DATA] = 20 << 20
    assert judged(manifest, found)[0] == ["R012"]


def test_data_that_grew_is_said(manifest, found):
    found["used"][nodes.DATA] = USED + 20_000_000
    assert judged(manifest, found) == ([], ["disks"])


def test_what_cannot_be_measured_does_not_hinder(manifest, found):
    found["used"] = {}
    assert judged(manifest, found) == ([], [])


def test_where_a_person_installed_the_planned_disk_is_enough(manifest, found):
    found["marker"] = ""
    assert judged(manifest, found, plan=None) == ([], [])


def test_a_capture_of_this_installation_has_its_marker(manifest, found):
    found["marker"] = json.dumps({**MARKER, "capture": "20250101T000000Z"})
    manifest["files"].append(captured.entry(present.MARKER, b"", sha256="0" * 64))
    assert judged(manifest, found, plan=None) == ([], [])


def test_a_disk_without_a_name_is_known_by_what_it_holds(manifest, found):
    for section in (manifest["sections"]["disks"], found["disks"]):
        disk(section, root=False).update(serial="", wwn="")
    assert judged(manifest, found) == ([], [])
    disk_formatted_again(manifest, found)
    assert judged(manifest, found)[0] == ["R012"]


def test_a_container_needs_no_disks(manifest, found):
    for section in (manifest["sections"]["disks"], found["disks"]):
        section.update(container="docker", disks=[], filesystems=[])
    for one in (manifest, found):
        one["machine"]["dmi_uuid"] = ""
    found["marker"] = ""
    assert judged(manifest, found) == ([], [])


def test_packages_are_those_that_disks_and_mounts_need(manifest):
    def needed(system="debian", version="12"):
        return gates.packages(manifests.typed(manifest), typed({"id": system, "version": version}, Release))

    packages = [{"name": name, "version": "1", "architecture": "all"} for name in ("cryptsetup", "lvm2", "nfs-common")]
    manifest["sections"]["packages"] = packages
    assert needed() == []
    section = manifest["sections"]["disks"]
    disk(section, root=False).update(type="LVM2_member")
    disk(section, root=True)["below"][0].update(type="crypto_LUKS")
    section["fstab"].append({"source": "nas:/x", "mount": "/x", "type": "nfs4", "options": []})
    assert needed() == ["lvm2", "nfs-common"]
    manifest["sections"]["packages"] = packages[2:]
    assert needed() == ["nfs-common"]
    manifest["sections"]["packages"] = packages
    disk(section, root=False).update(type="crypto_LUKS")
    assert needed() == needed("ubuntu", "24.04") == ["cryptsetup", "nfs-common"]
    assert needed(version="13") == needed("ubuntu", "26.04") == ["cryptsetup", "nfs-common", "systemd-cryptsetup"]


def test_used_bytes_of_what_is_not_mounted_are_measured_without_a_change(tmp_path):
    machine = hardware.with_data()
    machine.mountinfo = "\n".join(line for line in machine.mountinfo.splitlines() if "/data" not in line) + "\n"
    asked = []

    def call(argv):
        if argv[0] == "unshare":
            asked.append(argv)
            return 0, "4096 1000 900\n", ""
        return machine.call(argv)

    machine.read(tmp_path)
    found = present.read(Node(tmp_path), call)
    assert (found.used, found.mounted) == ({nodes.DATA: 100 * 4096}, [])
    record.add(tmp_path / str(record.PLACE).lstrip("/"), files=[record.name_of_mount("/data"), "/etc/motd"])
    assert present.read(Node(tmp_path), call).mounted == ["/data"]
    assert [argv[argv.index("sh", 5) + 1 :][:3] for argv in asked[:1]] == [["ext4", "ro,noload", "/dev/nvme1n1"]]


@pytest.mark.parametrize(
    ("kind", "option"),
    [("ext3", "noload"), ("ext4", "noload"), ("xfs", "norecovery"), ("btrfs", "rescue=nologreplay")],
)
def test_no_journal_is_replayed_on_a_disk_that_is_only_looked_at(kind, option):
    """Mounted with ro alone, a file system that was not unmounted cleanly is written to."""
    assert {"ro", option} == set(present.UNTOUCHED[kind].split(","))

"""Disks that were kept are assembled and mounted, and nothing else is done to them."""

import base64
import json
import os

import pytest
from ansible_collections.gpulab.node.plugins.module_utils.core import beneath
from ansible_collections.gpulab.node.plugins.module_utils.core.node import Node
from ansible_collections.gpulab.node.plugins.module_utils.rebuild import record, storage_host
from ansible_collections.gpulab.node.plugins.module_utils.rebuild.asked import WithDisks

from unit.capture import hardware
from unit.filled import typed
from unit.storage import nodes

pytestmark = pytest.mark.skipif(os.geteuid() != 0, reason="only root may give files away")
FSTAB = f"UUID={nodes.ROOT} / ext4 defaults 0 1\nUUID={nodes.DATA} /data ext4 noatime 0 2\n"
NOW = "UUID=new-root / ext4 defaults 0 1\n"
MAKERS = ("mkfs", "mkswap", "wipefs", "fsck", "e2fsck", "xfs_repair", "pvcreate", "vgcreate", "luksFormat", "--create")


class Done:
    """A command that ended."""

    def __init__(self, answer):
        """Keep the answer."""
        self.answer = answer

    def result(self):
        """Return it."""
        return self.answer

    def output(self):
        """Return what was printed."""
        return self.answer[1]


class Rebuilt(Node):
    """A node after its reinstall; mount adds to the table of mounts, or fails."""

    def __init__(self, root, machine):
        """Take the devices of a machine."""
        super().__init__(root, self.command)
        self.machine, self.ran, self.failing, self.gone = machine, [], set(), set()
        self.on_mount = lambda _place: None

    def command(self, argv):
        """Answer a command."""
        self.ran.append(argv)
        if argv[0] == "timeout" and argv[3] == "mount":
            return Done(self.mount(argv[4]))
        if argv[0] == "timeout":
            return Done(self.machine.call(argv))
        return Done((1, "", "it failed") if argv[0] in self.failing else (0, "", ""))

    def mount(self, place):
        """Mount a place."""
        if place in self.gone:
            return 0, "", ""  # as mount does with nofail
        if place in self.failing:
            return 32, "", f"mount: {place}: wrong fs type\n"
        self.on_mount(place)
        with (self.root / "proc/self/mountinfo").open("a") as stream:
            stream.write(f"99 22 259:11 / {place} rw - ext4 /dev/nvme1n1 rw\n")
        return 0, "", ""

    def programs(self):
        """Return the programs that ran, without those that only read."""
        words = [" ".join(argv) for argv in self.ran]
        return [one for one in words if not one.startswith("timeout") or " mount " in one]


@pytest.fixture
def machine():
    """Return a machine with a disk for data, which is not mounted."""
    found = hardware.with_data()
    found.mountinfo = "".join(line for line in found.mountinfo.splitlines(keepends=True) if "/data" not in line)
    return found


@pytest.fixture
def node(tmp_path, machine):
    root = tmp_path / "root"
    root.mkdir()
    machine.read(root)
    files = {"etc/fstab": NOW, "etc/passwd": "root:x:0:0::/root:/bin/sh\nwei:x:1500:1500::/data/wei:/bin/sh\n"}
    for name, text in {**files, "etc/group": "root:x:0:\n", "proc/swaps": "Filename\n"}.items():
        (root / name).parent.mkdir(parents=True, exist_ok=True)
        (root / name).write_text(text)
    return Rebuilt(root, machine)


@pytest.fixture
def restored(node, machine, tmp_path):
    (tmp_path / "captured").mkdir()
    section = json.loads(json.dumps(machine.read(tmp_path / "captured")))

    def restored(contents=None, *, check=False, user="root"):
        contents = {"/etc/fstab": FSTAB, **(contents or {})}
        names = {"owner": "root", "uid": 0, "group": "root", "gid": 0, "kind": "file", "mode": "0600", "size": 0}
        asked = {
            "user": user,
            "disks": section,
            "entries": [{"path": path, **names} for path in contents],
            "contents": {path: base64.b64encode(text.encode()).decode() for path, text in contents.items()},
        }
        return storage_host.restore(node, typed(asked, WithDisks), check=check, state=tmp_path / "state")

    return restored


def test_a_kept_disk_is_mounted_as_before(node, restored):
    found = restored()
    assert node.text("/etc/fstab") == f"{NOW}UUID={nodes.DATA} /data ext4 noatime 0 2".strip()
    assert {"action": "arrange", "what": "/data"} in found["changes"]
    assert found["missing"] == []
    assert not any(maker in one for one in node.programs() for maker in MAKERS)


def test_a_second_run_changes_nothing_and_leaves_what_people_did(node, restored):
    restored()
    assert not restored()["changed"]
    node.path("/etc/fstab").write_text(NOW)
    node.path("/proc/self/mountinfo").write_text("22 1 259:2 / / rw - ext4 /dev/nvme0n1p2 rw\n")
    again = restored()
    assert (again["changed"], again["missing"]) == (False, [])
    assert node.text("/etc/fstab") == NOW.strip()


def test_check_mode_tells_the_same_and_changes_nothing(node, restored, tmp_path):
    told = restored(check=True)
    assert node.text("/etc/fstab") == NOW.strip()
    assert node.programs() == []
    assert not (tmp_path / "state").exists()
    assert told["changes"] == restored()["changes"]


@pytest.mark.parametrize(
    ("where", "why"), [("failing", "mount: /data: wrong fs type"), ("gone", f"UUID={nodes.DATA} is not there")]
)
def test_what_does_not_mount_is_named_and_hinders_no_boot(node, restored, where, why):
    getattr(node, where).add("/data")
    found = restored()
    assert [(one["name"], one["why"]) for one in found["missing"]] == [("/data", why)]
    assert "noatime,nofail" in node.text("/etc/fstab")
    assert not restored()["changed"]
    getattr(node, where).clear()
    assert restored()["missing"] == []
    assert "noatime 0 2" in node.text("/etc/fstab")


def test_the_line_hinders_no_boot_while_it_is_mounted_for_the_first_time(node, restored):
    seen = []
    node.on_mount = lambda _place: seen.append(node.text("/etc/fstab"))
    restored()
    assert "noatime,nofail" in seen[0]


# Who Ansible connects as


@pytest.fixture
def home(node):
    """Let wei have a key in a home that the mount will hide."""
    path = node.path("/data/wei/.ssh/authorized_keys")
    path.parent.mkdir(parents=True)
    path.write_text("ssh-ed25519 A controller\n")

    def mounted(text):
        def hide(_place):
            path.unlink()
            path.parent.rmdir()
            if text is not None:
                path.parent.mkdir()
                path.write_text(text)

        return hide

    return mounted


@pytest.mark.parametrize(
    ("there", "after"),
    [
        (None, "ssh-ed25519 A controller"),
        ("ssh-ed25519 B wei\n", "ssh-ed25519 B wei\nssh-ed25519 A controller"),
        ("ssh-ed25519 A controller\n# mine\n", "ssh-ed25519 A controller\n# mine"),
    ],
)
def test_a_mounted_home_has_the_keys_of_the_connection(node, restored, home, there, after):
    node.on_mount = home(there)
    assert restored(user="wei")["missing"] == []
    assert node.text("/data/wei/.ssh/authorized_keys") == after
    if there is None:
        assert node.path("/data/wei/.ssh/authorized_keys").stat().st_uid == 1500


def test_a_home_that_takes_no_keys_is_not_mounted(node, restored, home, monkeypatch):
    node.on_mount = home(None)

    def let_in(*_arguments):
        raise PermissionError(13, "Permission denied")

    monkeypatch.setattr(beneath.Place, "give", let_in)
    found = restored(user="wei")
    assert ["umount", "/data"] in node.ran
    assert "could not log in" in found["missing"][0]["why"]


# Between disks and file systems


def test_arrays_are_assembled_but_never_without_a_disk(node, machine, restored, tmp_path):
    machine.holds("nvme1n1", nodes.RAID, nodes.ARRAY)
    restored_from = {"/etc/mdadm/mdadm.conf": f"ARRAY /dev/md0 UUID={nodes.MDADM}\n"}
    section_of(restored)["disks"][1].update(type="linux_raid_member", uuid=nodes.ARRAY)
    node.failing.add("/data")
    node.failing.add("mdadm")
    found = restored(restored_from)
    assert ["mdadm", "--assemble", "--scan", "--no-degraded"] in node.ran
    assert {"arrays", "/data"} == {one["name"] for one in found["missing"]}
    assert node.text("/etc/mdadm/mdadm.conf") == restored_from["/etc/mdadm/mdadm.conf"].strip()
    assert record.read(tmp_path / "state" / record.PLACE.name)["pending"] == {"/etc/mdadm/mdadm.conf"}


def section_of(restored):
    index = restored.__code__.co_freevars.index("section")
    return restored.__closure__[index].cell_contents


def test_a_volume_group_that_is_idle_is_activated(node, machine, restored):
    section_of(restored)["disks"][1].update(type="LVM2_member")
    machine.volumes = {"/dev/lab/data": False, "/dev/lab/more": False, "/dev/on/x": True}
    restored()
    assert [one for one in node.programs() if one.startswith("vgchange")] == ["vgchange --activate y lab"]


def test_what_has_a_key_is_unlocked_and_the_rest_is_named(node, restored):
    crypttab = f"data UUID={nodes.DATA} /etc/keys/data luks\nvault UUID={nodes.DATA} none luks\n"
    found = restored({"/etc/crypttab": crypttab, "/etc/keys/data": "canary-7f3a"})
    assert "systemctl start systemd-cryptsetup@data.service" in node.programs()
    assert [one["name"] for one in found["missing"]] == ["vault"]
    assert node.data("/etc/keys/data") == b"canary-7f3a"
    assert "canary" not in str(found)


def test_a_key_that_systemd_finds_by_its_name_needs_nobody_to_type(node, restored):
    crypttab = f"data UUID={nodes.DATA} none luks\n"
    found = restored({"/etc/crypttab": crypttab, "/etc/cryptsetup-keys.d/data.key": "canary-7f3a"})
    assert "systemctl start systemd-cryptsetup@data.service" in node.programs()
    assert found["missing"] == []


def test_passwords_in_options_are_not_shown(restored):
    found = restored({"/etc/fstab": "//nas/lab /lab cifs username=wei,password=canary-7f3a 0 0\n"})
    assert "canary" not in str(found)
    assert "/lab" in str(found["diff"])


@pytest.mark.parametrize(("owner", "mode", "mounted"), [(0, 0o755, True), (0, 0o1777, True), (1500, 0o755, False)])
def test_nothing_is_mounted_on_a_directory_that_people_may_replace(node, restored, owner, mode, mounted):
    node.root.chmod(mode)
    os.chown(node.root, owner, owner)
    found = restored()
    assert (["timeout", "--signal=KILL", "90", "mount", "/data"] in node.ran) is mounted
    whys = [one["why"] for one in found["missing"] if one["name"] == "/data"]
    assert whys == ([] if mounted else ["people may put another directory in its place"])

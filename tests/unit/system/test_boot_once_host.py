"""What is put on a node for its next boot, by GRUB's own program, and that all of it goes again."""

import hashlib
import shutil
import subprocess

import pytest
from ansible_collections.gpulab.node.plugins.module_utils.core.refusal import Refusal
from ansible_collections.gpulab.node.plugins.module_utils.system import boot_once_host
from ansible_collections.gpulab.node.plugins.module_utils.system.boot_once_host import BootOnce

from unit.system.test_boot_once import BOOT, Machine

EDITOR = shutil.which("grub-editenv") or shutil.which("grub2-editenv")
pytestmark = pytest.mark.skipif(EDITOR is None, reason="GRUB's programs are not installed")
NAMES = ["vmlinuz", "tree.cpio.zst", "host.cpio.gz"]
OWN = "menuentry 'memtest' {\n  linux16 /memtest\n}\n"


class Module:
    """Stands for an AnsibleModule."""

    def __init__(self, tmpdir):
        """Take its temporary directory."""
        self.tmpdir = str(tmpdir)

    @staticmethod
    def atomic_move(source, target, **_more):
        """Move as Ansible does."""
        shutil.move(source, target)


class Lab:
    """A node on which commands are noted, but for those of GRUB, which run."""

    def __init__(self, tmp_path):
        """Start with GRUB's real environment."""
        self.machine = Machine(tmp_path / "node")
        (tmp_path / "tmp").mkdir()
        self.module, self.commands, self.answers = Module(tmp_path / "tmp"), [], {}
        self.root = self.machine.root
        self.copied = tmp_path / "copied"
        self.copied.mkdir()
        self.machine.files["/proc/sys/kernel/random/boot_id"] = "boot-1"
        self.machine.files["/sys/class/block/nvme0n1p2/dev"] = "259:2"
        self.machine.files["/sys/class/block/nvme0n1p1/dev"] = "259:1"
        del self.machine.files["/boot/grub/grubenv"]

    def start(self):
        """Write the node."""
        node = self.machine.node()
        links = self.root / "dev/disk/by-uuid"
        links.mkdir(parents=True, exist_ok=True)
        for uuid, name in (("2222-bbbb", "nvme0n1p2"), ("1111-aaaa", "nvme0n1p1")):
            if not (links / uuid).is_symlink():
                (links / uuid).symlink_to(f"../../{name}")
        if not self.environment.exists():
            subprocess.run([EDITOR, self.environment, "create"], check=True)
            subprocess.run([EDITOR, self.environment, "set", "saved_entry=debian"], check=True)
        return BootOnce(node, self.call, "node07")

    def call(self, argv):
        """Run GRUB's programs, and answer for the others."""
        self.commands.append(list(argv))
        name = argv[0].rpartition("/")[2]
        if name in self.answers:
            return self.answers[name]
        if name in ("grub-editenv", "grub2-editenv", "grub-script-check"):
            done = subprocess.run(argv, capture_output=True, text=True, check=False)
            return done.returncode, done.stdout, done.stderr
        return 0, "", ""

    @property
    def environment(self):
        """Return the file with GRUB's variables."""
        return self.root / "boot/grub/grubenv"

    @property
    def menu(self):
        """Return the menu's part for the node's own entries."""
        return self.root / "boot/grub/custom.cfg"

    def listed(self):
        """Return GRUB's variables."""
        return subprocess.run([EDITOR, self.environment, "list"], check=True, capture_output=True, text=True).stdout

    def given(self, **contents):
        """Copy files to the node, and return what the module gets."""
        found = {}
        for name in NAMES:
            data = contents.get(name, name.encode())
            (self.copied / name).write_bytes(data)
            sha256 = hashlib.sha256(data).hexdigest()
            found[name] = {"sha256": sha256, "size": len(data), "source": str(self.copied / name)}
        return found

    def tree(self):
        """Return what is on the node, but for what the kernel shows."""
        return {
            str(path.relative_to(self.root)): path.read_bytes()
            for path in self.root.rglob("*")
            if path.is_file() and not path.is_relative_to(self.root / "sys")
        }


@pytest.fixture
def lab(tmp_path, monkeypatch):
    monkeypatch.setattr(boot_once_host.os, "sync", lambda: None)
    return Lab(tmp_path)


def arm(lab, boot):
    return boot.arm(lab.module, "gpulab: node07", NAMES, ["rdinit=/gpulab/init"])


def test_what_is_put_is_for_root_alone_and_a_second_time_nothing_is_copied(lab):
    boot = lab.start()
    assert boot.put(lab.given()) is True
    place = lab.root / "boot/gpulab-reinstall"
    assert place.stat().st_mode & 0o777 == 0o700
    assert {path.name: path.stat().st_mode & 0o777 for path in place.iterdir()} == dict.fromkeys(NAMES, 0o600)
    assert list(lab.copied.iterdir()) == []
    assert boot.put(lab.given()) is False
    assert boot.look()["here"] == {name: hashlib.sha256(name.encode()).hexdigest() for name in NAMES}


def test_only_what_is_missing_needs_to_come_and_what_is_of_an_earlier_plan_goes(lab):
    boot = lab.start()
    boot.put(lab.given())
    (lab.root / "boot/gpulab-reinstall/old").write_text("x")
    given = lab.given(**{"host.cpio.gz": b"new"})
    for name in NAMES[:2]:
        given[name]["source"] = None
    assert boot.put(given) is True
    assert sorted(boot.look()["here"]) == sorted(NAMES)
    assert (lab.root / "boot/gpulab-reinstall/host.cpio.gz").read_bytes() == b"new"


def test_what_arrives_damaged_is_refused_and_cannot_be_started(lab):
    boot, given = lab.start(), lab.given()
    (lab.copied / "tree.cpio.zst").write_bytes(b"other")
    with pytest.raises(Refusal, match="GPULAB-R070"):
        boot.put(given)
    with pytest.raises(Refusal, match="not on the node"):
        arm(lab, boot)
    assert "next_entry" not in lab.listed()


def test_what_is_missing_is_refused(lab):
    boot, given = lab.start(), lab.given()
    given["vmlinuz"]["source"] = None
    with pytest.raises(Refusal, match="GPULAB-R070"):
        boot.put(given)


def test_without_space_nothing_is_put(lab, monkeypatch):
    boot, given = lab.start(), lab.given()
    monkeypatch.setattr(boot_once_host, "MARGIN", 1 << 60)
    with pytest.raises(Refusal, match=r"GPULAB-R025.*MiB free"):
        boot.put(given)
    assert not (lab.root / "boot/gpulab-reinstall").exists()


def test_where_boot_is_full_the_root_takes_it(lab, monkeypatch):
    lab.machine.files["/proc/self/mountinfo"] += BOOT
    boot = lab.start()
    sizes = boot_once_host.os.statvfs

    def statvfs(path):
        found = sizes(path)
        return found if path == lab.root else type("Full", (), {"f_bavail": 1, "f_frsize": found.f_frsize})()

    monkeypatch.setattr(boot_once_host.os, "statvfs", statvfs)
    boot.put(lab.given())
    assert sorted(path.name for path in (lab.root / "gpulab-reinstall").iterdir()) == sorted(NAMES)
    arm(lab, boot)
    assert "--set=root 2222-bbbb" in lab.menu.read_text()


def test_where_grub_can_read_nothing_it_is_refused(lab):
    lab.machine.on("0:31", "btrfs")
    with pytest.raises(Refusal, match=r"GPULAB-R025.*no such place"):
        lab.start().put(lab.given())


def test_the_entry_is_chosen_once_and_the_default_stays(lab):
    lab.menu.parent.mkdir(parents=True)
    lab.menu.write_text(OWN)
    lab.menu.chmod(0o600)
    boot = lab.start()
    boot.put(lab.given())
    assert arm(lab, boot) is True
    assert sorted(lab.listed().split()) == ["next_entry=gpulab-reinstall", "saved_entry=debian"]
    text = lab.menu.read_text()
    assert text.startswith(OWN)
    assert "linux /boot/gpulab-reinstall/vmlinuz rdinit=/gpulab/init; then" in text
    assert lab.menu.stat().st_mode & 0o777 == 0o600, "it may hold a password"
    assert boot.look()["armed"] is True
    assert arm(lab, boot) is False


def test_a_node_that_cannot_start_it_once_is_not_armed(lab):
    boot = lab.start()
    boot.put(lab.given())
    lab.machine.files["/proc/cmdline"] = "root=UUID=1"
    boot = lab.start()
    with pytest.raises(Refusal, match=r"GPULAB-R024.*not started by GRUB"):
        arm(lab, boot)
    assert "next_entry" not in lab.listed()
    assert not lab.menu.exists()


def test_an_environment_that_is_not_as_it_was_set_is_taken_back(lab):
    lab.start().put(lab.given())
    before = lab.tree()
    listed = {"count": 0}

    def call(argv):
        answer = lab.call(argv)
        if argv[-1] == "list":
            listed["count"] += 1
            return (0, answer[1].replace("debian", "other"), "") if listed["count"] == 2 else answer
        return answer

    boot = BootOnce(lab.machine.node(), call, "node07")
    with pytest.raises(Refusal, match=r"GPULAB-R024.*other"):
        arm(lab, boot)
    assert "next_entry" not in lab.listed()
    assert not lab.menu.exists()
    assert set(before) - set(lab.tree()) == {f"boot/gpulab-reinstall/{name}" for name in NAMES}


@pytest.mark.skipif(not shutil.which("grub-script-check"), reason="GRUB's programs are not installed")
def test_a_menu_that_grub_cannot_read_is_taken_back(lab):
    lab.menu.parent.mkdir(parents=True)
    lab.menu.write_text("menuentry 'broken' {\n")
    boot = lab.start()
    boot.put(lab.given())
    with pytest.raises(Refusal, match=r"GPULAB-R024.*custom.cfg cannot be read"):
        arm(lab, boot)
    assert lab.menu.read_text() == "menuentry 'broken' {\n"
    assert "next_entry" not in lab.listed()


def test_all_of_it_goes_again_and_a_second_time_nothing_is_there(lab):
    lab.menu.parent.mkdir(parents=True)
    lab.menu.write_text(OWN)
    boot = lab.start()
    before = lab.tree()
    boot.put(lab.given())
    arm(lab, boot)
    boot.lock("node07 is being reinstalled", 60)
    assert boot.disarm(lab.module) is True
    after = lab.tree()
    assert after.pop("boot/grub/grubenv")
    before.pop("boot/grub/grubenv")
    assert after == before
    assert lab.listed() == "saved_entry=debian\n"
    assert boot.disarm(lab.module) is False


def test_a_choice_of_somebody_else_is_not_taken_back(lab):
    boot = lab.start()
    subprocess.run([EDITOR, lab.environment, "set", "next_entry=memtest"], check=True)
    assert boot.disarm(lab.module) is False
    assert "next_entry=memtest" in lab.listed()
    boot.put(lab.given())
    with pytest.raises(Refusal, match="memtest"):
        arm(lab, boot)


def test_disarming_a_node_without_grub_finds_nothing(lab):
    boot = lab.start()
    (lab.root / "boot/grub/grub.cfg").unlink()
    assert boot.disarm(lab.module) is False


# The lock


def test_the_lock_has_a_message_and_a_timer_that_opens_it(lab):
    boot = lab.start()
    assert boot.lock("node07 is being reinstalled", 60) is True
    assert (lab.root / "run/nologin").read_text() == "gpulab: node07 is being reinstalled\n"
    assert lab.commands[-1][:2] == ["systemd-run", f"--unit={boot_once_host.UNIT}"]
    assert "--on-active=60" in lab.commands[-1]
    assert boot.lock("node07 is being reinstalled", 900) is False
    assert "--on-active=900" in lab.commands[-1]
    assert ["systemctl", "stop", f"{boot_once_host.UNIT}.timer"] in lab.commands


def test_without_a_timer_nobody_is_locked_out(lab):
    lab.answers["systemd-run"] = (1, "", "Failed to connect to bus")
    with pytest.raises(Refusal, match=r"GPULAB-R071.*bus"):
        lab.start().lock("x", 60)
    assert not (lab.root / "run/nologin").exists()


def test_a_lock_of_somebody_else_stays(lab):
    boot = lab.start()
    (lab.root / "run").mkdir(exist_ok=True)
    (lab.root / "run/nologin").write_text("Maintenance until noon\n")
    assert boot.lock("x", 60) is False
    boot.disarm(lab.module)
    assert (lab.root / "run/nologin").read_text() == "Maintenance until noon\n"


def test_the_timer_takes_all_back_when_the_run_died(lab):
    boot = lab.start()
    before = lab.tree()
    boot.put(lab.given())
    arm(lab, boot)
    boot.lock("node07 is being reinstalled", 60)
    subprocess.run(["/bin/sh", lab.root / "run/gpulab/reinstall-release.sh"], check=True)
    assert lab.listed() == "saved_entry=debian\n"
    assert set(lab.tree()) == set(before)
    assert boot.disarm(lab.module) is False


def test_the_next_boot_of_this_system_takes_all_back_with_no_run(lab):
    """Where GRUB was gone round (kexec), what was chosen would start weeks later; the host's keys lie there as well."""
    lab.menu.parent.mkdir(parents=True)
    lab.menu.write_text(OWN)
    boot = lab.start()
    before = lab.tree()
    boot.put(lab.given())
    arm(lab, boot)
    link = lab.root / boot_once_host.BACK_LINK[1:]
    unit = link.resolve().read_text()
    assert link.resolve() == lab.root / boot_once_host.BACK_UNIT[1:]
    assert f"\nExecStart=/bin/sh {boot_once_host.BACK}\n" in unit
    subprocess.run(["/bin/sh", lab.root / boot_once_host.BACK[1:]], check=True)
    assert not link.is_symlink()
    assert set(lab.tree()) == set(before)
    assert lab.menu.read_text() == OWN
    assert lab.listed() == "saved_entry=debian\n"


def test_the_timer_leaves_what_others_chose_and_locked(lab):
    boot = lab.start()
    boot.lock("x", 60)
    subprocess.run([EDITOR, lab.environment, "set", "next_entry=memtest"], check=True)
    (lab.root / "run/nologin").write_text("Maintenance\n")
    subprocess.run(["/bin/sh", lab.root / "run/gpulab/reinstall-release.sh"], check=True)
    assert "next_entry=memtest" in lab.listed()
    assert (lab.root / "run/nologin").exists()


# The reboot


def test_only_a_node_whose_entry_is_still_chosen_is_rebooted(lab):
    boot = lab.start()
    boot.put(lab.given())
    with pytest.raises(Refusal, match="GPULAB-R024"):
        boot.reboot()
    assert not any("reboot" in command for command in lab.commands)
    arm(lab, boot)
    boot.reboot()
    assert lab.commands[-1][-2:] == ["systemctl", "reboot"]

"""Other disks leave the kernel, which a made-up /sys plays: writing 1 to a switch removes what hangs on it."""

from __future__ import annotations

import shutil

import pytest
from ansible_collections.gpulab.node.plugins.module_utils.installer.apart import InseparableError, separate

PCI = "devices/pci0000:00"


class Kernel:
    """A /sys in a directory. Its switches are files; obey plays what a kernel does after one was written."""

    def __init__(self, root):
        """Have no disk yet."""
        self.root = root
        (root / "block").mkdir(parents=True)

    def disk(self, name, place, device, size=8, switch=None):
        """Add a disk at a place below /sys; device is where its device lies, switch the file that takes it away."""
        (self.root / place).mkdir(parents=True)
        (self.root / device).mkdir(parents=True, exist_ok=True)
        (self.root / place / "device").symlink_to(self.root / device)
        (self.root / place / "size").write_text(f"{size}\n")
        (self.root / "block" / name).symlink_to(self.root / place)
        if switch:
            (self.root / switch).write_text("")

    def virtual(self, name, size):
        """Add a block device that lies on no device of its own; size in sectors."""
        (self.root / f"devices/virtual/block/{name}").mkdir(parents=True)
        (self.root / f"devices/virtual/block/{name}/size").write_text(f"{size}\n")
        (self.root / "block" / name).symlink_to(self.root / f"devices/virtual/block/{name}")

    def written(self):
        """Return the switches that were written."""
        return sorted(str(path.relative_to(self.root)) for path in self.switches() if path.read_text() == "1")

    def switches(self):
        """Return all files that take devices away."""
        return [path for path in self.root.rglob("*") if path.name in ("remove", "delete") and path.is_file()]

    def obey(self):
        """Remove the devices whose switch was written."""
        for path in self.switches():
            if path.exists() and path.read_text() == "1":
                shutil.rmtree(path.parent)
        for link in (self.root / "block").iterdir():
            if not link.exists():
                link.unlink()


@pytest.fixture
def kernel(tmp_path):
    return Kernel(tmp_path.resolve() / "sys")


@pytest.fixture
def obedient(kernel, monkeypatch):
    """Return a kernel that does what it is told, while the installer waits."""
    monkeypatch.setattr("time.sleep", lambda _seconds: kernel.obey())
    return kernel


def virtio(kernel, name, slot):
    place = f"{PCI}/0000:00:{slot}.0"
    kernel.disk(name, f"{place}/virtio{slot}/block/{name}", f"{place}/virtio{slot}", switch=f"{place}/remove")


def scsi(kernel, name, target, **more):
    host = f"{PCI}/0000:00:1f.2/ata1/host0/target0:0:{target}/0:0:{target}:0"
    kernel.disk(name, f"{host}/block/{name}", host, switch=f"{host}/delete", **more)
    (kernel.root / f"{PCI}/0000:00:1f.2/remove").write_text("")


def nvme(kernel, name, slot, controller):
    place = f"{PCI}/0000:{slot}:00.0"
    device = f"{place}/nvme/{controller}"
    kernel.disk(name, f"{device}/{name}", device, switch=f"{place}/remove")


def shared_nvme(kernel, name, number, controllers):
    """Add a drive of which the kernel uses several paths as one: the disk hangs on none of them."""
    subsystem = f"devices/virtual/nvme-subsystem/nvme-subsys{number}"
    kernel.disk(name, f"{subsystem}/{name}", subsystem)
    for slot, controller in controllers.items():
        place = f"{PCI}/0000:{slot}:00.0"
        (kernel.root / f"{place}/nvme/{controller}").mkdir(parents=True, exist_ok=True)
        if not (kernel.root / f"{place}/nvme/{controller}/device").exists():
            (kernel.root / f"{place}/nvme/{controller}/device").symlink_to(kernel.root / place)
        (kernel.root / place / "remove").write_text("")
        (kernel.root / subsystem / controller).symlink_to(kernel.root / f"{place}/nvme/{controller}")


def test_all_but_one_disk_leave(obedient):
    virtio(obedient, "vda", "02")
    virtio(obedient, "vdb", "03")
    scsi(obedient, "sda", 0)
    nvme(obedient, "nvme0n1", "05", "nvme0")
    shared_nvme(obedient, "nvme1n1", 1, {"06": "nvme1", "07": "nvme2"})
    obedient.virtual("loop0", 8)
    obedient.virtual("dm-0", 0)
    taken = separate("vdb", obedient.root)
    assert sorted(taken) == ["nvme0n1", "nvme1n1", "sda", "vda"]
    assert [len(taken[name]) for name in sorted(taken)] == [1, 2, 1, 1]
    left = {path.name for path in (obedient.root / "block").iterdir() if path.exists()} - {"nvme1n1"}
    assert left == {"vdb", "loop0", "dm-0"}


@pytest.fixture(autouse=True)
def _heads_go_with_their_controllers(monkeypatch):
    """Remove a disk of several paths with the last of them, as the kernel does."""
    obey = Kernel.obey

    def both(self):
        obey(self)
        for head in self.root.glob("devices/virtual/nvme-subsystem/*"):
            if not any(path.exists() for path in head.glob("nvme[0-9]")):
                shutil.rmtree(head)
        obey(self)

    monkeypatch.setattr(Kernel, "obey", both)


def test_a_scsi_disk_leaves_alone_on_the_controller_that_it_shares(obedient):
    scsi(obedient, "sda", 0)
    scsi(obedient, "sdb", 1)
    separate("sdb", obedient.root)
    assert {path.name for path in (obedient.root / "block").iterdir()} == {"sdb"}


@pytest.mark.parametrize("add", [nvme, lambda kernel, name, slot, one: shared_nvme(kernel, name, 0, {slot: one})])
def test_a_drive_of_which_both_disks_are_is_left_alone(kernel, add):
    nvme(kernel, "nvme0n1", "05", "nvme0") if add is nvme else add(kernel, "nvme0n1", "05", "nvme0")
    if add is nvme:
        place = f"{PCI}/0000:05:00.0/nvme/nvme0"
        kernel.disk("nvme0n2", f"{place}/nvme0n2", place)
    else:
        shared_nvme(kernel, "nvme0n2", 1, {"05": "nvme0"})
    with pytest.raises(InseparableError, match="nvme0n1 hangs on the same controller as nvme0n2"):
        separate("nvme0n2", kernel.root)
    assert kernel.written() == []


def test_the_boot_partitions_of_emmc_belong_to_the_disk(kernel):
    place = "devices/platform/mmc_host/mmc0/mmc0:0001"
    kernel.disk("mmcblk0", f"{place}/block/mmcblk0", place)
    kernel.disk("mmcblk0boot0", f"{place}/block/mmcblk0/mmcblk0boot0", f"{place}/block/mmcblk0")
    assert separate("mmcblk0", kernel.root) == {}


def test_a_disk_that_does_not_leave_is_named(kernel):
    virtio(kernel, "vda", "02")
    virtio(kernel, "vdb", "03")
    with pytest.raises(InseparableError, match="vda did not leave the kernel"):
        separate("vdb", kernel.root, seconds=0)
    assert kernel.written() == [f"{PCI}/0000:00:02.0/remove"]


def test_a_disk_without_a_switch_is_named_before_any_other_leaves(kernel):
    virtio(kernel, "vda", "02")
    virtio(kernel, "vdb", "03")
    kernel.disk("xvda", "devices/vbd-1/block/xvda", "devices/vbd-1")
    with pytest.raises(InseparableError, match="the kernel has no way to take xvda away"):
        separate("vdb", kernel.root)
    assert kernel.written() == []


def test_nothing_leaves_where_something_was_assembled(kernel):
    virtio(kernel, "vda", "02")
    virtio(kernel, "vdb", "03")
    kernel.virtual("md127", 8)
    with pytest.raises(InseparableError, match="md127 was assembled of disks"):
        separate("vdb", kernel.root)
    assert kernel.written() == []

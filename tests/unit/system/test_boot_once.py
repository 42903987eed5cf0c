"""Where GRUB can start something exactly once, and what it is told."""

import pytest
from ansible_collections.gpulab.node.plugins.module_utils.core.node import Node
from ansible_collections.gpulab.node.plugins.module_utils.system import boot_once

# As grub-mkconfig of GRUB 2.06 writes it.
MENU = """\
if [ -s $prefix/grubenv ]; then
  set have_grubenv=true
  load_env
fi
if [ "${next_entry}" ] ; then
   set default="${next_entry}"
   set next_entry=
   save_env next_entry
   set boot_once=true
else
   set default="0"
fi
if [ x$feature_timeout_style = xy ] ; then
  set timeout_style=menu
  set timeout=5
fi
if [ -f  ${config_directory}/custom.cfg ]; then
  source ${config_directory}/custom.cfg
fi
"""
ENVIRONMENT = "# GRUB Environment Block\nsaved_entry=0\n"
PLAIN = "22 1 259:2 / / rw shared:1 - ext4 /dev/nvme0n1p2 rw\n"
BOOT = "23 22 259:1 / /boot rw shared:2 - xfs /dev/nvme0n1p1 rw\n"


class Machine:
    """A machine with GRUB, whose files a test changes."""

    def __init__(self, root, of_grub="/boot/grub"):
        """Start with /boot and / on one partition."""
        self.root = root
        self.of_grub = of_grub
        self.files = {
            f"{of_grub}/grub.cfg": MENU,
            f"{of_grub}/grubenv": ENVIRONMENT.ljust(boot_once.ENVIRONMENT_SIZE, "#"),
            "/proc/cmdline": "BOOT_IMAGE=/boot/vmlinuz-6.1 root=UUID=1 ro",
            "/proc/self/mountinfo": PLAIN,
            "/sys/dev/block/259:1/partition": "1",
            "/sys/dev/block/259:2/partition": "2",
        }

    def node(self):
        """Write the files, and return the node."""
        for path, text in self.files.items():
            file = self.root / path.lstrip("/")
            file.parent.mkdir(parents=True, exist_ok=True)
            file.write_bytes(text if isinstance(text, bytes) else text.encode())
        return Node(self.root)

    def on(self, device, kind="ext4", **files):
        """Let / be on another device; files are those that the kernel has of it."""
        self.files["/proc/self/mountinfo"] = PLAIN.replace("259:2", device).replace("ext4", kind)
        self.files.update({f"/sys/dev/block/{device}/{name}": text for name, text in files.items()})


@pytest.fixture
def machine(tmp_path):
    return Machine(tmp_path)


@pytest.mark.parametrize("of_grub", boot_once.DIRECTORIES)
def test_a_plain_partition_with_the_usual_menu_will_do(tmp_path, of_grub):
    machine = Machine(tmp_path, of_grub)
    assert boot_once.directory(machine.node()) == of_grub
    assert boot_once.obstacle(machine.node()) == ""


def test_a_kernel_that_grub_did_not_start_is_no_proof_of_grub(machine):
    machine.files["/proc/cmdline"] = "root=UUID=1 ro console=ttyS0"
    assert "not started by GRUB" in boot_once.obstacle(machine.node())


def test_a_node_without_grub_is_told_so(machine):
    del machine.files["/boot/grub/grub.cfg"]
    assert "no menu of GRUB" in boot_once.obstacle(machine.node())


def test_systemd_boot_is_called_by_its_name_though_grub_lies_there(machine):
    machine.files[boot_once.LOADER] = b"\x06\0\0\0" + "systemd-boot 252\0".encode("utf-16-le")
    assert "systemd-boot" in boot_once.obstacle(machine.node())
    machine.files[boot_once.LOADER] = b"\x06\0\0\0" + "GRUB 2.12\0".encode("utf-16-le")
    assert boot_once.obstacle(machine.node()) == ""


@pytest.mark.parametrize(
    ("line", "words"),
    [
        ("   save_env next_entry\n", "next_entry"),
        ('if [ "${next_entry}" ] ; then\n', "next_entry"),
        ("  load_env\n", "next_entry"),
        ("   set boot_once=true\n", "next_entry"),
        ("  source ${config_directory}/custom.cfg\n", "custom.cfg"),
    ],
)
def test_a_menu_that_lacks_something_is_not_trusted(machine, line, words):
    machine.files["/boot/grub/grub.cfg"] = MENU.replace(line, "").replace("-f  ${config_directory}/custom.cfg", "")
    if words != "custom.cfg":
        machine.files["/boot/grub/grub.cfg"] += "source /custom.cfg\n"
    assert words in boot_once.obstacle(machine.node())


def test_a_menu_that_waits_for_a_key_is_refused(machine):
    machine.files["/boot/grub/grub.cfg"] = MENU.replace("timeout=5", "timeout=-1")
    assert "waits for a key" in boot_once.obstacle(machine.node())


@pytest.mark.parametrize(
    ("device", "kind", "files", "words"),
    [
        ("252:0", "ext4", {"dm/uuid": "LVM-abc"}, "ext4 on a logical volume,"),
        ("252:0", "ext4", {"dm/uuid": "CRYPT-LUKS2-abc"}, "crypt"),
        ("9:127", "ext4", {"md/level": "raid1"}, "ext4 on an array,"),
        ("259:0", "ext4", {"size": "1"}, "whole disk"),
        ("0:31", "btrfs", {}, "btrfs"),
        ("0:40", "zfs", {}, "zfs"),
        ("259:2", "f2fs", {}, "f2fs"),
    ],
)
def test_where_grub_cannot_write_nothing_is_started_once(machine, device, kind, files, words):
    machine.on(device, kind, **files)
    assert words in boot_once.obstacle(machine.node())


def test_the_environment_is_judged_where_it_really_lies(machine, tmp_path):
    """On some systems it is a link to the EFI system partition."""
    machine.on("252:0", **{"dm/uuid": "LVM-abc"})
    machine.files["/proc/self/mountinfo"] += "24 22 259:1 / /boot/efi rw - vfat /dev/nvme0n1p1 rw\n"
    machine.files["/boot/efi/EFI/rocky/grubenv"] = machine.files.pop("/boot/grub/grubenv")
    node = machine.node()
    (tmp_path / "boot/grub/grubenv").symlink_to("../efi/EFI/rocky/grubenv")
    assert boot_once.obstacle(node) == ""


def test_an_environment_of_another_size_is_refused(machine):
    machine.files["/boot/grub/grubenv"] = "saved_entry=0\n"
    assert "bytes" in boot_once.obstacle(machine.node())


def test_an_entry_that_somebody_else_chose_stays(machine):
    machine.files["/boot/grub/grubenv"] = "next_entry=memtest\n".ljust(boot_once.ENVIRONMENT_SIZE, "#")
    assert "memtest" in boot_once.obstacle(machine.node())
    machine.files["/boot/grub/grubenv"] = f"next_entry={boot_once.ENTRY}\n".ljust(boot_once.ENVIRONMENT_SIZE, "#")
    assert boot_once.obstacle(machine.node()) == ""


# Where the files lie


UUIDS = {"259:1": "1111-aaaa", "259:2": "2222-bbbb", "252:0": "3333-cccc"}


def test_one_file_system_has_one_place(machine):
    (place,) = boot_once.places(machine.node(), UUIDS)
    assert (place.path, place.within, place.uuid) == ("/boot/gpulab-reinstall", "/boot/gpulab-reinstall", "2222-bbbb")
    assert place.modules == ("part_gpt", "part_msdos", "ext2")


def test_boot_of_its_own_comes_first_and_the_root_is_the_other_choice(machine):
    machine.files["/proc/self/mountinfo"] += BOOT
    first, second = boot_once.places(machine.node(), UUIDS)
    assert (first.path, first.within, first.uuid) == ("/boot/gpulab-reinstall", "/gpulab-reinstall", "1111-aaaa")
    assert first.modules[-1] == "xfs"
    assert (second.path, second.within, second.uuid) == ("/gpulab-reinstall", "/gpulab-reinstall", "2222-bbbb")


def test_the_root_may_be_on_a_volume_which_grub_can_read(machine):
    machine.on("252:0", **{"dm/uuid": "LVM-abc"})
    machine.files["/proc/self/mountinfo"] += BOOT
    assert [place.modules for place in boot_once.places(machine.node(), UUIDS)] == [
        ("part_gpt", "part_msdos", "xfs"),
        ("part_gpt", "part_msdos", "lvm", "ext2"),
    ]


@pytest.mark.parametrize(
    ("below", "can"),
    [
        ({"slaves/nvme0n1p2/partition": "2"}, True),
        ({"slaves/dm-1/dm/uuid": "LVM-abc-real", "slaves/dm-1/slaves/nvme0n1p2/partition": "2"}, True),
        ({"slaves/dm-1/dm/uuid": "CRYPT-LUKS2-abc"}, False),
        ({"slaves/md127/md/level": "raid1"}, False),
        ({"slaves/dm-1/dm/uuid": "LVM-abc-real", "slaves/dm-1/slaves/dm-2/dm/uuid": "CRYPT-LUKS2-abc"}, False),
    ],
)
def test_a_volume_on_luks_or_an_array_is_none_that_grub_can_read(machine, below, can):
    machine.on("252:0", **{"dm/uuid": "LVM-abc"}, **below)
    machine.files["/proc/self/mountinfo"] += BOOT
    found = [place.path for place in boot_once.places(machine.node(), UUIDS)]
    assert found == ["/boot/gpulab-reinstall", *(["/gpulab-reinstall"] if can else [])]


@pytest.mark.parametrize(
    ("device", "kind", "files"),
    [("252:0", "ext4", {"dm/uuid": "CRYPT-x"}), ("259:2", "vfat", {}), ("0:31", "btrfs", {}), ("259:9", "ext4", {})],
)
def test_where_grub_cannot_read_or_others_could_read_secrets_nothing_is_put(machine, device, kind, files):
    machine.on(device, kind, **files)
    assert boot_once.places(machine.node(), UUIDS) == []


# The entry


def test_the_entry_loads_both_archives_or_leads_back():
    place = boot_once.Place("/boot/gpulab-reinstall", "/gpulab-reinstall", "1111-aaaa", ("part_gpt", "xfs"))
    text = boot_once.entry(place, "gpulab: node07 (plan 01'ab}{$x)", "vmlinuz", ["tree", "host"], ["rdinit=/i", "a=b"])
    assert text.splitlines() == [
        "menuentry 'gpulab: node07 (plan 01abx)' --unrestricted --id gpulab-reinstall {",
        '  if [ "${boot_once}" != true ]; then',
        "    echo 'gpulab: only a run of gpulab can start the installer.'",
        "  else",
        "    insmod part_gpt",
        "    insmod xfs",
        "    search --no-floppy --fs-uuid --set=root 1111-aaaa",
        "    if linux /gpulab-reinstall/vmlinuz rdinit=/i a=b; then",
        "      if initrd /gpulab-reinstall/tree /gpulab-reinstall/host; then",
        "        boot",
        "      fi",
        "    fi",
        "    echo 'gpulab: the installer cannot be loaded.'",
        "  fi",
        "  echo 'The usual system starts in 10 seconds.'",
        "  sleep 10",
        "  reboot",
        "}",
    ]


def test_variables_are_read_as_grub_editenv_lists_them():
    assert boot_once.variables("# GRUB Environment Block\nsaved_entry=a=b\nnext_entry=\n####") == {
        "saved_entry": "a=b",
        "next_entry": "",
    }

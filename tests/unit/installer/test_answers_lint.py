"""Each rule for the answers of an installer: what breaks it is found."""

import copy

import pytest
import yaml
from ansible_collections.gpulab.node.plugins.plugin_utils.installer import autoinstall, kickstart, lint, preseed

from unit.installer import answers

PRESEED = preseed.render(answers.plan(), answers.files(), "http://mirror.example/debian", "bookworm")
PRESEED = PRESEED["preseed.cfg"].content.decode()
AUTOINSTALL = yaml.safe_load(autoinstall.render(answers.plan(), answers.files())["user-data"])["autoinstall"]
KICKSTART = kickstart.render(answers.plan(), answers.files(), "https://mirror.example/BaseOS")["ks.cfg"].decode()


@pytest.mark.parametrize(
    ("question", "answer", "fault"),
    [
        ("partman-auto/disk", "string /dev/sda", "partman-auto/disk is answered before the guard"),
        ("partman-auto/disk", "string /dev/sda", "names a disk as the kernel does: /dev/sda"),
        ("grub-installer/bootdev", "string default", "grub-installer/bootdev is answered before the guard"),
        ("partman/early_command", "string true", "the guard does not run"),
        ("partman/early_command", "string sh /gpulab/guard; true", "the guard does not run"),
        ("partman/early_command", "string debconf-set a $(list-devices disk | head -n1)", "chooses among disks"),
        ("preseed/early_command", "string tail -f /x &", "starts a process in the background"),
        ("preseed/late_command", "string dd of=/dev/nvme0n1", "names a disk as the kernel does: /dev/nvme0n1"),
        ("partman-auto/method", "string lvm", "partman-auto/method is 'lvm'"),
        ("partman-auto/expert_recipe", "string x :: 1 2 3 linux-swap method{ swap } .", "makes swap"),
        ("partman-auto/expert_recipe", "string x :: 1 2 3 raid method{ raid } .", "makes swap, LVM, RAID"),
        ("partman-basicfilesystems/no_swap", "boolean true", "no_swap is 'true'"),
        ("grub-installer/only_debian", "boolean false", "only_debian is 'false'"),
        ("grub-installer/with_other_os", "boolean true", "with_other_os is 'true'"),
        ("grub-installer/enable_os_prober_otheros_yes", "boolean true", "enable_os_prober_otheros_yes is 'true'"),
        ("grub-installer/enable_os_prober_otheros_no", "boolean true", "enable_os_prober_otheros_no is 'true'"),
    ],
)
def test_preseed(question, answer, fault):
    rest = "".join(f"{line}\n" for line in PRESEED.splitlines() if line.split()[1] != question)
    assert fault in "\n".join(lint.of_preseed(f"{rest}d-i {question} {answer}\n"))


@pytest.mark.parametrize(
    ("question", "fault"),
    [
        ("partman/early_command", "the guard does not run"),
        ("partman-auto/expert_recipe", "there is no recipe"),
        ("grub-installer/only_debian", "only_debian is 'not answered'"),
    ],
)
def test_preseed_leaves_nothing_out(question, fault):
    rest = "".join(f"{line}\n" for line in PRESEED.splitlines() if line.split()[1] != question)
    assert fault in "\n".join(lint.of_preseed(rest))


def autoinstall_with(change):
    document = copy.deepcopy(AUTOINSTALL)
    change(document)
    return "\n".join(lint.of_autoinstall(document))


def disk(document):
    return document["storage"]["config"][0]


@pytest.mark.parametrize(
    ("change", "fault"),
    [
        (lambda d: d.pop("storage"), "there is no storage"),
        (lambda d: d["storage"].update(layout={"name": "direct"}), "has a layout"),
        (lambda d: d["storage"].update(layout={"name": "lvm", "match": {"size": "largest"}}), "has a layout"),
        (lambda d: disk(d).pop("match"), "found by something else"),
        (lambda d: disk(d).update(match={}), "found by something else"),
        (lambda d: disk(d).update(match={"size": "largest"}), "found by something else"),
        (lambda d: disk(d).update(match={"serial": "*"}), "found by something else"),
        (lambda d: disk(d).update(path="/dev/sda"), "found by something else"),
        (lambda d: d["storage"]["config"].append({"type": "disk", "id": "b", "match": {}}), "2 disks are named"),
        (lambda d: d["storage"]["config"].append({"type": "raid", "id": "md"}), "there is a raid"),
        (lambda d: d["storage"]["config"].append({"type": "partition", "device": "x"}), "is on no planned disk"),
        (lambda d: d["storage"]["config"].append({"type": "format", "fstype": "swap"}), "there is swap"),
        (lambda d: d["storage"]["config"].append({"type": "partition", "device": "disk", "flag": "swap"}), "swap"),
        (lambda d: d["storage"].pop("swap"), "swap is not switched off"),
        (lambda d: d["storage"].pop("grub"), "grub may look for other systems"),
        (lambda d: d["storage"].update(grub={"probe_additional_os": True}), "grub may look"),
        (lambda d: d["storage"]["grub"].update(install_devices=["/dev/sdb"]), "or goes to disks of its own"),
        (lambda d: d["early-commands"].pop(), "the guard is not the last"),
        (lambda d: d["early-commands"].append("true"), "the guard is not the last"),
        (lambda d: d["late-commands"].append("wipefs /dev/vdb"), "late-commands names a disk as the kernel does"),
        (lambda d: d["early-commands"].insert(0, "lsblk | head -1"), "early-commands chooses among disks"),
        (lambda d: d["packages"].append("os-prober"), "os-prober is installed"),
    ],
)
def test_autoinstall(change, fault):
    assert fault in autoinstall_with(change)


DISK = "/dev/disk/by-id/@DISK@"


@pytest.mark.parametrize(
    ("before", "after", "fault"),
    [
        (f"ignoredisk --only-use={DISK}\n", "", "ignoredisk is there 0 times"),
        (f"--only-use={DISK}", "--only-use=sda", "ignoredisk does not say"),
        (f"--only-use={DISK}", "--only-use=sda", "names a disk as the kernel does: sda"),
        (f"--only-use={DISK}", "--drives=sdb", "ignoredisk does not say"),
        (f" --drives={DISK}", "", "clearpart does not say"),
        (f" --boot-drive={DISK}", "", "bootloader does not say"),
        (f"--size=8192 --grow --ondisk={DISK}", "--size=8192 --grow", "part does not say"),
        ("part / ", "part swap --size=1\npart / ", "there is swap"),
        ("part / ", "autopart\npart / ", "autopart is there"),
        ("part / ", "raid / --device=0\npart / ", "raid is there"),
        ("text\n", "text\npart /data --ondisk=nvme1n1\n", "part does not say"),
        ("sh /run/gpulab/guard\n", "", "the guard does not run"),
        ("%pre --erroronfail", "%pre", "the guard does not run"),
        ("-os-prober\n", "", "os-prober is not left out"),
        ("-os-prober\n", "-os-prober\nos-prober\n", "os-prober is not left out"),
        ("set -e\n", "set -e\nlist-harddrives | sort | head -1\n", "chooses among disks"),
    ],
)
def test_kickstart(before, after, fault):
    assert before in KICKSTART
    assert fault in "\n".join(lint.of_kickstart(KICKSTART.replace(before, after)))

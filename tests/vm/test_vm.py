"""What only a machine with its own kernel shows of a provisioned node: what its boot loads, and that it reboots."""

import json
import re

import yaml
from golden import ROOT, WISHES, Recipe

RECIPE = Recipe(
    "provisioned",
    "bookworm",
    (
        (("tests/vm/bootable.yml", "-e", "bootable_asks_for_nouveau=true"), 600),
        # Without the proof, which a container on a kernel that is not its own does not pass; the machine does.
        (("site.yml", "-l", "gpu-nodes", "-e", f"@{WISHES}", "-e", "verify_hosts=!all"), 1800),
    ),
    ("site.yml", "playbooks", "roles", "plugins", "catalog", WISHES),
)
WISHED = yaml.safe_load((ROOT / WISHES).read_text())["tuning_overrides"]
ARGUMENT = "iommu=pt"
BLACKLIST = "etc/modprobe.d/gpulab-nouveau.conf"
# What the kernel or modprobe say of a module that was built for another kernel, or not well.
MISBUILT = re.compile(
    r"version magic|disagrees about version|unknown symbol|invalid module format|exec format", re.IGNORECASE
)


MENU = "/boot/grub/grub.cfg"


def loaded(machine):
    return machine.run("cut -d' ' -f1 /proc/modules").split()


def test_it_runs_the_stock_kernel_from_its_own_disk(machine):
    assert re.fullmatch(r"[\d.]+-\d+-amd64", machine.run("uname -r"))
    assert machine.run("findmnt --noheadings --output SOURCE /") == "/dev/vda1"
    assert machine.run("systemd-detect-virt --container || true") == "none"


def test_its_boot_asks_for_nouveau_and_does_not_get_it(machine):
    initramfs = machine.run("lsinitramfs /boot/initrd.img-$(uname -r)").splitlines()
    assert any(name.endswith("/nouveau.ko") for name in initramfs)
    assert BLACKLIST in initramfs
    journal = machine.run("journalctl --boot --output=cat --unit=systemd-modules-load")
    assert "Module 'nouveau' is deny-listed" in journal
    assert "nouveau" not in loaded(machine)


def test_asking_for_nouveau_by_name_does_not_load_it(machine):
    machine.fails("modprobe nouveau")
    assert "nouveau" not in loaded(machine)


def test_the_driver_that_dkms_built_is_the_one_of_the_running_kernel(machine):
    kernel = machine.run("uname -r")
    built = re.search(
        rf"^nvidia-current/([\d.]+), {re.escape(kernel)}, x86_64: installed", machine.run("dkms status"), re.MULTILINE
    )
    assert built
    assert machine.run("modinfo --field version nvidia-current") == built[1]
    assert machine.run("modinfo --field vermagic nvidia-current").split()[0] == kernel


def test_the_driver_refuses_to_load_only_for_want_of_a_gpu(machine):
    refusal = machine.fails("modprobe nvidia")
    log = machine.run("journalctl --dmesg --boot --output=cat")
    assert "No such device" in refusal
    assert "NVRM: No NVIDIA GPU found." in log
    assert not MISBUILT.search(refusal + log)


def test_its_own_kernel_has_the_values_of_the_plan_from_boot_on(machine):
    """The container that it was provisioned as could set none of them."""
    assert machine.run("sysctl --values vm.swappiness vm.max_map_count").split() == ["10", "1048576"]
    assert "[never]" in machine.run("cat /sys/kernel/mm/transparent_hugepage/enabled")
    assert machine.run("systemctl is-active irqbalance") == "active"


def test_a_second_run_of_site_changes_nothing(play):
    output = play("site.yml", timeout=900)
    assert re.search(r"^  vm +ok +.* changed=0\b", output.rpartition("\nRECAP")[2], re.MULTILINE)


def test_the_boot_loader_is_told_of_an_argument(machine, play):
    play("site.yml", "-e", json.dumps({"tuning_overrides": {**WISHED, "iommu": "pt"}}), timeout=900)
    assert ARGUMENT in machine.run(f"cat {MENU}")
    assert ARGUMENT not in machine.run("cat /proc/cmdline")


def test_the_role_reboots_it_and_it_comes_back_without_nouveau(machine, play):
    before = machine.boot_id()
    play("tests/vm/reboot.yml", timeout=900)
    assert machine.boot_id() != before
    assert "nouveau" not in loaded(machine)
    assert ARGUMENT in machine.run("cat /proc/cmdline").split()


def test_an_argument_that_is_no_longer_requested_goes(machine, play):
    play("site.yml", timeout=900)
    assert ARGUMENT not in machine.run(f"cat {MENU}")


def test_past_the_blacklist_nouveau_would_load(machine):
    """Without this, its absence would prove nothing."""
    machine.run("modprobe --ignore-install nouveau")
    assert "nouveau" in loaded(machine)


def test_nouveau_is_unloaded_where_nothing_uses_it(machine, play):
    play("site.yml", "--tags", "nouveau", timeout=900)
    assert "nouveau" not in loaded(machine)

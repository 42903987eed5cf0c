"""Secure Boot for real: firmware enforces it, the kernel rejects a key that is not enrolled, the console enrols it."""

import json
import re

import firmware
import pytest
import secure
from test_vm import RECIPE  # noqa: F401 - the same disk as that of the provisioned node

FIRMWARE = firmware.SECURE_BOOT
PASSWORD = "for-this-0nce"  # noqa: S105 - of this test
WISH = json.dumps({"secure_boot_mok_password": PASSWORD})
CERTIFICATE = "/var/lib/dkms/mok.pub"
REJECTED = "Key was rejected by service"
DOWN, ENTER = "\x1b[B", "\r"
# All that a run may change: packages, files of DKMS and gpulab, the modules, the firmware's variables of shim.
LOOK = """
dpkg-query --show
find /var/lib/dkms /etc/modprobe.d /lib/modules /var/lib/gpulab -type f ! -name '*.lock' -printf '%p %s %T@\n' | sort
cd /sys/firmware/efi/efivars && sha256sum Mok*
"""
# A kernel module that does nothing; DKMS builds it for each kernel, and the driver for no other any more.
PROBE = """
mkdir /usr/src/probe-1 && cd /usr/src/probe-1
echo 'obj-m := probe.o' > Makefile
printf '#include <linux/module.h>\\nMODULE_LICENSE("GPL");\\n' > probe.c
printf '%s\\n' PACKAGE_NAME=probe PACKAGE_VERSION=1 BUILT_MODULE_NAME=probe DEST_MODULE_LOCATION=/updates \\
    AUTOINSTALL=yes > dkms.conf
for driver in $(dkms status | sed -n 's/^\\(nvidia[^,]*\\),.*/\\1/p' | sort -u); do dkms remove $driver --all; done
dkms install probe/1
modprobe probe
"""
# What is left of a key that DKMS had before: it is of the same name.
SIGNED_BY_ANOTHER = """
cd /root
name='/CN=DKMS module signing key'
openssl req -new -x509 -nodes -subj "$name" -newkey rsa:2048 -keyout other.key -outform DER -out other.der
module=$(modinfo --field filename nvidia-current)
cp --archive $module before
/usr/lib/linux-kbuild-*/scripts/sign-file sha512 other.key other.der $module
"""
LATER_KERNEL = """
export DEBIAN_FRONTEND=noninteractive
apt-get update -qq
apt-get install -qq --yes --no-install-recommends linux-image-cloud-amd64 linux-headers-cloud-amd64
"""


@pytest.fixture(scope="module")
def disks(directory):
    return {secure.ESP: secure.esp(directory / "esp.raw")}


@pytest.fixture
def asks(play):
    """Return a function that runs site.yml with the password; it asks the firmware, stops, and returns what it said."""

    def ask():
        output = play("site.yml", "--diff", "-e", WISH, timeout=900, rc=2)
        assert "GPULAB-P047" in output
        assert PASSWORD not in output
        return output

    return ask


def recap(output):
    return output.rpartition("\nRECAP")[2]


def test_the_guest_says_that_the_firmware_enforces_secure_boot(machine):
    assert machine.run(f"od -An -tu1 {secure.STATE}").split()[-1] == "1"
    assert "secureboot: Secure boot enabled" in machine.run("journalctl --dmesg --boot --output=cat")
    assert "[integrity]" in machine.run("cat /sys/kernel/security/lockdown")


def test_the_kernel_rejects_the_module_that_an_unknown_key_has_signed(machine):
    assert machine.run("modinfo --field signer nvidia-current") == "DKMS module signing key"
    assert REJECTED in machine.fails("modprobe nvidia")
    assert "Loading of module with unavailable key is rejected" in machine.run("journalctl --dmesg --output=cat")


def test_the_proof_names_the_cause(play):
    output = play("playbooks/verify.yml", timeout=600, rc=2)
    assert (
        "fail secure-boot: Secure Boot is enabled and the key that signs the driver's module is not enrolled" in output
    )


def test_without_a_password_the_node_is_refused_before_any_change(machine, play):
    before = machine.run(LOOK)
    output = play("site.yml", timeout=600, rc=2)
    assert "GPULAB-P018" in output
    assert "changed=0" in recap(output)
    assert machine.run(LOOK) == before


def test_the_preview_asks_for_nothing_and_says_so(machine, play):
    before = machine.run(LOOK)
    output = play("playbooks/plan.yml", "-e", WISH, timeout=600, rc=2)
    assert "ask the firmware to enrol /var/lib/dkms/mok.pub" in output
    assert "would wait to be enrolled" in output
    assert machine.run(LOOK) == before


def test_the_role_asks_for_the_enrolment_and_stops_for_the_console(machine, asks):
    asks()
    assert machine.run("mokutil --sb-state") == "SecureBoot enabled"
    assert machine.run("mokutil --list-new | grep --count ^SHA1") == "1"
    assert "already in the enrollment request" in machine.run(f"mokutil --test-key {CERTIFICATE} || true")


def test_a_second_run_says_what_it_waits_for_and_changes_nothing(machine, play):
    before = machine.run(LOOK)
    output = play("site.yml", "-e", WISH, timeout=600, rc=2)
    assert "GPULAB-P047" in output
    assert "changed=0" in recap(output)
    assert machine.run(LOOK) == before


def test_a_console_where_nobody_presses_a_key_enrols_nothing_and_the_next_run_asks_again(machine, play, asks):
    machine.reboot(lambda: machine.wait_for_screen("Press any key to perform MOK management.*Booting in 1 second "))
    assert not machine.run("mokutil --list-new")
    assert REJECTED in machine.fails("modprobe nvidia")
    assert "GPULAB-P018" in play("site.yml", timeout=600, rc=2)
    assert f"ask the firmware once more to enrol {CERTIFICATE}" in asks()


def test_the_console_takes_the_password_only_and_enrols_the_key(machine):
    def agree():
        for shown, keys in (
            ("Press any key to perform MOK management", [ENTER]),
            ("Perform MOK management.*Enroll MOK.*Enroll hash from disk", [DOWN, ENTER]),
            (r"\[Enroll MOK\].*View key 0.*Continue", [DOWN, ENTER]),
            (r"Enroll the key\(s\)\?.*No.*Yes", [DOWN, ENTER]),
            ("Password:", [*"another-1", ENTER]),
            ("Password doesn't match.*OK", [ENTER]),
            ("Password:", [*PASSWORD, ENTER]),
            ("Perform MOK management.*Reboot", [ENTER]),
        ):
            machine.wait_for_screen(shown)
            machine.press(*keys)

    machine.reboot(agree)
    assert "is already enrolled" in machine.run(f"mokutil --test-key {CERTIFICATE} || true")
    assert not machine.run("mokutil --list-new")


def test_the_driver_now_refuses_to_load_only_for_want_of_a_gpu(machine):
    assert "No such device" in machine.fails("modprobe nvidia")
    log = machine.run("journalctl --dmesg --boot --output=cat")
    assert re.search(r"Loaded X.509 cert 'DKMS module signing key: \w+'", log)
    assert "NVRM: No NVIDIA GPU found." in log
    assert "rejected" not in log


def test_the_run_goes_on_by_itself_and_the_proof_agrees(play):
    play("site.yml", timeout=1800)  # which ends with the proof, and fails with it
    assert "changed=0" in recap(play("site.yml", timeout=900))


def test_the_proof_names_a_module_that_another_key_of_dkms_has_signed(machine, play):
    machine.run(SIGNED_BY_ANOTHER)
    assert REJECTED in machine.fails("modprobe nvidia")
    output = play("playbooks/verify.yml", timeout=600, rc=2)
    assert "fail secure-boot: Secure Boot is enabled and another key than DKMS's of now signed the module" in output
    machine.run("mv /root/before $(modinfo --field filename nvidia-current)")


def test_the_removal_says_what_only_the_console_can_take_back(machine, play):
    output = play("playbooks/remove.yml", "--tags", "secure_boot", timeout=900)
    assert f"mokutil --delete {CERTIFICATE}" in " ".join(output.split())
    machine.run(f"[ -e {CERTIFICATE} ] && [ ! -e /var/lib/gpulab/secure-boot.json ] && [ ! -e /usr/bin/mokutil ]")


def test_a_later_kernel_loads_what_the_same_key_has_signed(machine):
    """A module of the test's own: the driver would compile for an hour here."""
    machine.run(PROBE, 600)
    former, key = machine.run("uname -r; modinfo --field sig_key probe").split()
    machine.run(LATER_KERNEL, 1800)
    (later,) = {*machine.run("ls /lib/modules").split()} - {former}
    lines = [f"linux /boot/vmlinuz-{later} root=/dev/vda1 ro console=ttyS0", f"initrd /boot/initrd.img-{later}", "boot"]
    machine.run("printf '%s\\n' " + " ".join(f"'{line}'" for line in lines) + " > /boot/grub/grub.cfg")
    machine.reboot()
    assert machine.run("uname -r") == later
    assert machine.run("modinfo --field sig_key probe") == key
    machine.run("modprobe probe && grep -q '^probe ' /proc/modules")

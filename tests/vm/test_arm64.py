"""A machine for arm64, from Debian's packages to a proof: what is chosen, fetched, built and started is for arm64."""

import base64
import functools
import json
import re

import arm64
import firmware
import golden as golden_disk
import pytest
from ansible_collections.gpulab.node.plugins.module_utils.containers import first_container

FIRMWARE = firmware.ARM64
WISHES = "tests/vm/arm64.yml"
ARGUMENT = "memhp_default_state=online_movable"  # which the memory of Grace's GPUs needs
UV = "$(echo /opt/venvs/.uv/*/bin/uv)"
NUMBERS = "/opt/venvs/numbers/bin/python -c 'import numpy, platform; print(platform.machine(), numpy.arange(4).sum())'"
FOR_X86_ONLY = "nvidia-cublas-cu11==11.10.3.66"
SMALL = r"""
mkdir -p /usr/src/small-1.0
cd /usr/src/small-1.0
printf '#include <linux/module.h>\nMODULE_LICENSE("GPL");\n' > small.c
printf 'obj-m := small.o\n' > Makefile
cat > dkms.conf <<'END'
PACKAGE_NAME=small
PACKAGE_VERSION=1.0
BUILT_MODULE_NAME[0]=small
DEST_MODULE_LOCATION[0]=/updates/dkms
MAKE[0]="make -C $kernel_source_dir M=$dkms_tree/small/1.0/build"
AUTOINSTALL=yes
END
dkms install small/1.0
modprobe small
"""


@pytest.fixture(scope="module")
def golden(say):
    made = arm64.Golden()
    made.make(say)
    return made


@pytest.fixture(scope="module")
def site(play):
    return functools.partial(play, "site.yml", "-e", f"@{WISHES}", timeout=5400)


def changed(output):
    """Return how many tasks changed the machine, by the recap of a run."""
    return int(re.search(r"^  vm .* changed=(\d+)\b", output.rpartition("\nRECAP")[2], re.MULTILINE)[1])


def proof():
    """Return what the last proof found: severities by check."""
    (host,) = json.loads((golden_disk.ROOT / ".vm/report/latest/report.json").read_text())["hosts"]
    assert (host["state"], host["gpus"]) == ("verified", [])
    return {result["id"]: result["severity"] for result in host["results"]}


def test_its_firmware_has_started_debians_kernel_for_arm64(machine):
    assert machine.run("uname -m; dpkg --print-architecture").split() == ["aarch64", "arm64"]
    assert re.fullmatch(r"[\d.]+-\d+-arm64", machine.run("uname -r"))
    assert machine.run("test -d /sys/firmware/efi; findmnt --noheadings --output SOURCE /") == "/dev/vda2"


def test_the_plan_names_packages_that_debian_has_for_arm64(machine, play):
    output = play("playbooks/plan.yml", "-e", "nvidia_driver_source=distribution", timeout=1800)
    assert f"linux-headers-{machine.run('uname -r')}" in output
    assert "libnvidia-pkcs11" not in output


def test_site_provisions_it_and_proves_what_there_is(machine, site):
    install = "apt-get install --yes --quiet --no-install-recommends apparmor docker.io"
    machine.run(f"apt-get update --quiet && {install}", 1800)
    site()
    assert machine.run(NUMBERS) == "aarch64 6"
    assert machine.run("sysctl --values vm.swappiness") == "10"
    assert machine.run("systemctl is-active prometheus-node-exporter") == "active"
    found = proof()
    assert found["container-start"] == "ok"
    assert "fail" not in found.values()


def test_a_second_run_changes_nothing(site):
    assert changed(site()) == 0


def test_a_package_without_a_wheel_for_aarch64_is_refused_and_the_environment_stays(machine, site):
    wish = {"gpulab_environments": [{"name": "numbers", "packages": ["numpy", FOR_X86_ONLY]}]}
    output = site("-e", json.dumps(wish), "--tags", "environments", rc=2)
    assert "GPULAB-E" in output
    assert machine.run(NUMBERS) == "aarch64 6"


def test_uv_of_another_processor_is_fetched_again(machine, site):
    foreign = base64.b64encode(first_container.program("x86_64")).decode()
    machine.run(f"echo {foreign} | base64 --decode > {UV}")
    assert "Exec format error" in machine.fails(f"exec {UV} --version")
    wish = {"gpulab_environments": [{"name": "numbers", "packages": ["numpy", "packaging"]}]}
    site("-e", json.dumps(wish), "--tags", "environments")
    assert machine.run(f"{UV} --version").startswith("uv ")
    assert machine.run(NUMBERS) == "aarch64 6"


def test_dkms_builds_a_module_that_its_kernel_loads(machine):
    """NVIDIA's own would take hours here."""
    kernel = machine.run("uname -r")
    install = f"apt-get install --yes --quiet --no-install-recommends dkms linux-headers-{kernel}"
    machine.run(f"apt-get update --quiet && {install}", 3600)
    machine.run(SMALL, 1800)
    assert f"small/1.0, {kernel}, aarch64: installed" in machine.run("dkms status")
    assert "small" in machine.run("cut -d' ' -f1 /proc/modules").split()


def test_debian_can_install_the_driver_that_is_planned_for_arm64(machine):
    components = "sed -i 's/ main$/ main contrib non-free non-free-firmware/' /etc/apt/sources.list"
    machine.run(f"{components} && apt-get update --quiet", 900)
    names = "nvidia-open-kernel-dkms nvidia-open-kernel-support nvidia-alternative firmware-nvidia-gsp libcuda1"
    names += " libnvidia-cfg1 libnvidia-ml1 libnvidia-ptxjitcompiler1 nvidia-smi"
    pinned = " ".join(f"{name}=535.261.03-1" for name in names.split())
    assert "Inst nvidia-open-kernel-dkms" in machine.run(
        f"apt-get install --simulate {pinned} nvidia-persistenced", 600
    )


def test_an_argument_of_the_kernel_comes_with_the_next_boot(machine):
    assert ARGUMENT in machine.run("cat /boot/grub/grub.cfg")
    machine.reboot()
    assert ARGUMENT in machine.run("cat /proc/cmdline").split()


def test_it_is_captured_and_a_reinstall_is_refused_only_for_what_the_machine_lacks(machine, play, directory):
    wishes = {"capture_directory": f"{directory}/captures", "reinstall_system": "debian-12"}
    (directory / "vault").write_text("only for this test\n")
    machine.run("update-grub", 900)  # the disk was made with a menu by hand
    given = ("-e", json.dumps(wishes), "--vault-password-file", directory / "vault")
    play("playbooks/capture.yml", *given, timeout=1800)
    before = machine.boot_id()
    output = play("playbooks/reinstall.yml", *given, timeout=1800, rc=2)
    assert "WIPE" in output
    assert set(re.findall(r"GPULAB-R\d+", output)) == {"GPULAB-R003", "GPULAB-R025"}, "a UUID, and memory"
    assert machine.boot_id() == before

"""The whole reading: on a bare tree, on a simulated machine, and as a module's process with a hung driver."""

import json
import os
import resource
import shutil
import subprocess
import sys
import time

import pytest
from ansible_collections.gpulab.node.plugins.module_utils.checks.reboot import judged
from ansible_collections.gpulab.node.plugins.module_utils.core import node
from ansible_collections.gpulab.node.plugins.module_utils.facts import users
from ansible_collections.gpulab.node.plugins.module_utils.facts.collect import collect
from sim.build import build

KEYS = [
    "schema", "simulated", "system", "pci", "hardware", "kernels", "modules", "nouveau", "forbidden",
    "module_options", "driver", "cuda", "libraries", "nvml", "users_of_gpus", "filesystems", "engines", "containers",
    "network", "infiniband", "ofed", "imex", "nccl", "nccl_files", "nccl_own", "group", "monitoring", "limits",
    "services", "long_steps", "fence", "slurm", "accounts", "directory", "model_store", "work_images", "kernel_log",
    "storage", "own_files", "gpu_settings", "tuning", "data_loading", "reboot",
]  # fmt: skip
KERNEL = "6.1.0-50-amd64"


@pytest.fixture
def machine(tree):
    """Make a machine with one H100 that nouveau holds, and a driver just installed."""
    gpu = "/sys/bus/pci/devices/0000:19:00.0"
    for name, text in {"vendor": "0x10de", "device": "0x2330", "class": "0x030200"}.items():
        tree.file(f"{gpu}/{name}", text)
    tree.file(f"{gpu}/simulated", "simulated GPU: NVIDIA H100")
    tree.link(f"{gpu}/driver", "../../drivers/nouveau")
    tree.file("/proc/sys/kernel/osrelease", KERNEL)
    tree.file(f"/boot/vmlinuz-{KERNEL}").file(f"/lib/modules/{KERNEL}/modules.dep", "updates/dkms/nvidia.ko:\n")
    tree.prints("modinfo", "version: 550.2\nlicense: NVIDIA\n")
    tree.file("/etc/modprobe.d/gpulab.conf", "blacklist nouveau")
    tree.file(f"/boot/initrd.img-{KERNEL}", b"damaged")
    return tree


def test_bare_tree(tree, tmp_path):
    facts = judged(collect(tree.node(), 5, str(tmp_path / "absent.so")))
    assert list(facts) == KEYS
    assert facts["nvml"]["state"] == "absent"
    assert facts["simulated"] is False
    assert facts["reboot"] == {"reasons": [], "loadable": False}
    json.dumps(facts)


def test_parts_come_together(machine, tmp_path):
    facts = judged(collect(machine.node(), 5, str(tmp_path / "absent.so")))
    assert facts["schema"] == 1
    assert facts["simulated"] == "simulated GPU: NVIDIA H100"
    assert facts["driver"]["module_on_disk"] == "550.2"
    assert facts["kernels"][0]["initramfs"]["error"] == "ValueError: an unknown compression"
    assert facts["nouveau"]["bound"] == ["0000:19:00.0"]
    assert facts["reboot"]["reasons"] == ["nouveau holds GPU 0000:19:00.0 until a reboot"]


@pytest.mark.parametrize("mixed", [False, True])
def test_a_machine_that_lent_a_gpu_is_in_use_and_takes_no_reboot_for_it(machine, tmp_path, mixed):
    """NVIDIA/kubevirt-gpu-device-plugin#45: vfio-pci by modprobe.d, and a virtual machine that runs."""
    lent = "/sys/bus/pci/devices/0000:65:00.0"
    for name, text in {"vendor": "0x10de", "device": "0x21c4", "class": "0x030000"}.items():
        machine.file(f"{lent}/{name}", text)
    machine.link(f"{lent}/driver", "../../drivers/vfio-pci").link(f"{lent}/iommu_group", "../../kernel/iommu_groups/47")
    machine.file("/etc/modprobe.d/vfio.conf", "options vfio-pci ids=10de:21c4,10de:1aeb\n")
    machine.file("/proc/1234/comm", "qemu-system-x86").file("/proc/1234/stat", "1234 (qemu-system-x86) S 1 1234")
    machine.link("/proc/1234/fd/30", "/dev/vfio/47")
    if not mixed:
        (machine.root / "sys/bus/pci/devices/0000:19:00.0/class").write_text("0x068000")  # another device
    facts = judged(collect(machine.node(), 5, str(tmp_path / "absent.so")))
    assert [gpu["address"] for gpu in facts["pci"]["gpus"]] == ["0000:19:00.0"] * mixed
    assert facts["pci"]["lent"] == [{"address": "0000:65:00.0", "device": "10de:21c4", "driver": "vfio-pci"}]
    assert users.in_use(facts["users_of_gpus"]).startswith("qemu-system-x86 (PID 1234, ")
    assert len(facts["reboot"]["reasons"]) == mixed


def test_this_machine():
    """The real one, whatever it is."""
    facts = judged(collect(node.Node(), 5))
    assert list(facts) == KEYS
    assert facts["system"]["kernel"] == os.uname().release
    assert facts["system"]["memory_mib"] > 0
    assert facts["filesystems"][0]["mount"] == "/"
    assert [kernel["version"] for kernel in facts["kernels"] if kernel["running"]] == [os.uname().release]


def run_module(pytestconfig, environment=(), **arguments):
    """Run the module as Ansible does, with its output in a pipe; return its result and how long it took."""
    script = (
        "import sys\nfrom ansible.plugins.loader import init_plugin_loader\ninit_plugin_loader([sys.argv.pop(1)])\n"
        "import ansible.module_utils.basic as basic\nbasic._ANSIBLE_PROFILE = 'legacy'\n"
        "from ansible_collections.gpulab.node.plugins.modules import gpu_facts\ngpu_facts.main()\n"
    )
    command = [sys.executable, "-c", script, str(pytestconfig.rootpath / "collections")]
    given = json.dumps({"ANSIBLE_MODULE_ARGS": arguments})
    before = time.monotonic()
    done = subprocess.run(
        command,
        input=given,
        capture_output=True,
        check=False,
        text=True,
        timeout=120,  # a machine under load
        env={**os.environ, **dict(environment)},
    )
    assert done.stderr == ""
    return json.loads(done.stdout), time.monotonic() - before


def test_module(pytestconfig):
    result, _ = run_module(pytestconfig)
    assert result["changed"] is False
    assert list(result["ansible_facts"]["gpulab"]) == [*KEYS, "receipts"]


def test_module_in_check_mode(pytestconfig):
    result, _ = run_module(pytestconfig, _ansible_check_mode=True)
    assert result["ansible_facts"]["gpulab"]["schema"] == 1


@pytest.mark.skipif(not shutil.which("gcc"), reason="the simulation needs gcc")
def test_module_reads_eight_gpus_in_less_than_two_seconds(pytestconfig, tmp_path):
    """The level quick is this one call to the node. Of processor time: how long a busy machine takes is no figure."""
    model = pytestconfig.rootpath / "tests/sim/models/h100-sxm-8.conf"
    simulated = {"LD_LIBRARY_PATH": str(build(tmp_path)), "GPULAB_SIMULATION": str(model)}
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    result, _ = run_module(pytestconfig, simulated, timeout=60)
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    nvml = result["ansible_facts"]["gpulab"]["nvml"]
    assert (nvml["state"], len(nvml["gpus"]), len(nvml["peers"])) == ("ok", 8, 28)
    assert after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime < 2


@pytest.mark.skipif(not shutil.which("gcc"), reason="the stub needs gcc")
def test_module_with_a_hung_driver(pytestconfig, tmp_path):
    """It answers within the driver's time and a second; Python's own start is measured apart."""
    source = b"unsigned sleep(unsigned); int nvmlInit_v2(void) { sleep(60); return 0; }"
    command = ["gcc", "-shared", "-fPIC", "-x", "c", "-o", str(tmp_path / "libnvidia-ml.so.1"), "-"]
    subprocess.run(command, input=source, check=True)
    _, usual = run_module(pytestconfig)
    result, hung = run_module(pytestconfig, {"LD_LIBRARY_PATH": str(tmp_path)}, timeout=1)
    assert result["ansible_facts"]["gpulab"]["nvml"]["state"] == "unresponsive"
    assert hung - usual < max(2, 2 * usual)  # a machine under load takes its time for all else, too

"""What the tests of rollouts share: nodes with a stand-in for a driver, a change that is not one of it, the records."""

import json
import subprocess

from laboratory import ROOT

# The stand-in is not installed: what is shown is the order, the fence and the way back.
COMMON = {"nvidia_driver_state": "absent", "cuda_state": "absent", "rollout_level": "quick"}
VERSION = "580.178.04"
DRIVER = f"""
kernel=$(ls /lib/modules | tail -n 1)
mv /root/nvidia.ko /lib/modules/$kernel/nvidia.ko
touch /usr/lib/x86_64-linux-gnu/libnvidia-ml.so.{VERSION}
depmod $kernel
echo blacklist nouveau > /etc/modprobe.d/nouveau.conf
"""
UP = "until systemctl is-system-running | grep -q -e running -e degraded; do sleep 1; done"
CHANGE = {"tuning_overrides": {"vm.swappiness": 7}}
CHANGED = "grep -rqs 'vm.swappiness *= *7' /etc/sysctl.d"
FENCED = "test -e /etc/gpulab-fence -a -e /var/lib/gpulab/fence.json"


def put_a_driver(lab, names, directory):
    """Put a stand-in for a driver, which is made in a directory, on nodes; it holds from their next boot on."""
    module = directory / "nvidia.ko"
    source = ROOT / "tests/stubs/nvidia_module.c"
    subprocess.run(["cc", "-c", f'-DVERSION="{VERSION}"', "-o", module, source], check=True)
    for name in names:
        subprocess.run(["docker", "cp", "-q", module, f"{lab.name}-{name}:/root/nvidia.ko"], check=True)
        lab.node(name).run(DRIVER)


def boot_with_a_driver(lab, names, directory):
    """Boot nodes with a stand-in for a driver, which is made in a directory."""
    put_a_driver(lab, names, directory)
    restart(lab, names)


def restart(lab, names):
    """Boot nodes, and wait until they are up."""
    subprocess.run(["docker", "restart", *(f"{lab.name}-{name}" for name in names)], check=True, stdout=subprocess.PIPE)
    for name in names:
        lab.node(name).run(UP)


def wishes_of(lab, wishes):
    """Return what all runs of a test wish, with the places where they keep their rollouts."""
    directory, freeze = str(lab.directory / "rollouts"), str(lab.directory / "freeze")
    return {**COMMON, **wishes, "rollout_directory": directory, "rollout_freeze_file": freeze}


def roll(lab, wishes, *more, **further):
    """Run the rollout."""
    return start(lab, wishes, *more, **further).wait(900)


def start(lab, wishes, *more, **further):
    """Start the rollout."""
    return lab.start("playbooks/rollout.yml", "-e", json.dumps({**wishes, **CHANGE, **further}), *more)


def record(lab):
    """Return the record of the newest rollout, without its nodes."""
    return json.loads(_newest(lab).read_text())


def states(lab):
    """Return what became of each node, by the newest record."""
    files = sorted((_newest(lab).parent / "hosts").glob("*.json"))
    return {file.stem: json.loads(file.read_text())["state"] for file in files}


def _newest(lab):
    return max((lab.directory / "rollouts").glob("*/rollout.json"))

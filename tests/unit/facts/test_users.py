"""Who uses the GPUs, from a tree like /proc."""

import os
from pathlib import Path

import pytest
from ansible_collections.gpulab.node.plugins.module_utils.facts import users

OWN = 900


def process(tree, pid, parent=1, comm="python", descriptors=()):
    fields = " ".join(["0"] * 17)
    tree.file(f"/proc/{pid}/stat", f"{pid} (a (strange) name) S {parent} {fields} 12345 0 0")
    tree.file(f"/proc/{pid}/comm", comm + "\n")
    tree.directory(f"/proc/{pid}/fd")
    for number, target in enumerate(descriptors):
        tree.link(f"/proc/{pid}/fd/{number}", target)


@pytest.fixture
def node(tree):
    tree.file("/proc/stat", "cpu 1 2\nbtime 1700000000\n")
    process(tree, 1, parent=0, comm="systemd", descriptors=["/dev/null"])
    process(tree, OWN, parent=800)
    process(tree, 800, parent=700, comm="sshd")
    process(tree, 700, comm="sshd")
    return tree


def test_idle_node(node):
    assert users.read(node.node(), [], OWN) == {"state": "idle", "who": [], "sessions": []}


@pytest.mark.parametrize(
    ("device", "busy"),
    [
        ("/dev/nvidia0", True),
        ("/dev/nvidiactl", True),
        ("/dev/nvidia-uvm", True),
        ("/dev/nvidia-caps/nvidia-cap1", True),
        ("/dev/nvidia-modeset", False),
        ("/home/dev/nvidia0", False),
        ("/dev/nvme0", False),
    ],
)
def test_open_device(node, device, busy):
    process(node, 50, descriptors=["/dev/null", device])
    found = users.read(node.node(), [], OWN)
    assert found["state"] == ("busy" if busy else "idle")
    if busy:
        (who,) = found["who"]
        assert (who["pid"], who["command"], who["device"]) == (50, "python", device)
        assert who["since"] == users.timestamp(1700000000 + 12345 / os.sysconf("SC_CLK_TCK"))
        assert who["user"] == users.user_name(os.getuid())


@pytest.mark.parametrize(
    ("cgroup", "login_screen"),
    [
        ("/system.slice/lightdm.service", True),
        ("/user.slice/user-115.slice/session-c1.scope", True),
        ("/user.slice/user-1000.slice/session-2.scope", False),
        ("/system.slice/notlightdm.service", False),
        ("/system.slice/lightdm.service/x", False),
    ],
)
def test_the_login_screen_is_nobodys_work_and_somebody_at_the_desktop_is(node, cgroup, login_screen):
    """X draws the login screen and the desktop after it; who sits there is in the sessions."""
    node.link("/etc/systemd/system/display-manager.service", "/lib/systemd/system/lightdm.service")
    node.file("/run/systemd/sessions/c1", "UID=115\nUSER=lightdm\nCLASS=greeter\nTYPE=x11\n")
    process(node, 50, comm="Xorg", descriptors=["/dev/nvidia0"])
    node.file("/proc/50/cgroup", f"0::{cgroup}\n")
    found = users.read(node.node(), [], OWN)
    assert (found["state"], found["who"][0]["service"]) == (("idle", True) if login_screen else ("busy", False))
    node.file("/run/systemd/sessions/2", f"UID=1000\nUSER=ana\nCLASS=user\nTYPE=x11\nLEADER={OWN + 1}\n")
    process(node, OWN + 1, comm="lightdm")
    assert "ana at a desktop" in users.in_use(users.read(node.node(), [], OWN))


PCI = "/sys/bus/pci/devices"


def plug(tree, address, driver, group=None, *, kind="0x030200"):
    place = f"{PCI}/{address}"
    tree.file(f"{place}/vendor", "0x10de").file(f"{place}/class", kind).link(
        f"{place}/driver", f"../../drivers/{driver}"
    )
    return tree.link(f"{place}/iommu_group", f"../../../kernel/iommu_groups/{group}") if group else tree


@pytest.mark.parametrize(
    ("device", "busy"),
    [("/dev/vfio/47", True), ("/dev/vfio/noiommu-47", True), ("/dev/vfio/4", False), ("/dev/vfio/vfio", False)],
)
def test_a_virtual_machine_with_a_gpu_uses_it(node, device, busy):
    plug(node, "0000:19:00.0", "vfio-pci", group=47)
    plug(node, "0000:1a:00.0", "vfio-pci", group=4, kind="0x020000")  # its network card
    process(node, 50, comm="qemu-system-x86", descriptors=["/dev/vfio/vfio", device])
    found = users.read(node.node(), [], OWN)
    assert found["state"] == ("busy" if busy else "idle")
    assert ("a virtual machine with a GPU" in users.in_use(found)) is busy


def test_a_virtual_machine_that_has_its_gpu_by_the_device_itself(node):
    plug(node, "0000:19:00.0", "vfio-pci", group=47).directory(f"{PCI}/0000:19:00.0/vfio-dev/vfio3")
    process(node, 50, comm="qemu-system-x86", descriptors=["/dev/iommu", "/dev/vfio/devices/vfio3"])
    process(node, 51, comm="dpdk", descriptors=["/dev/vfio/devices/vfio30"])
    found = users.read(node.node(), [], OWN)
    assert [(one["pid"], one["kind"]) for one in found["who"]] == [(50, "virtual_machine")]


def test_a_group_that_cannot_be_read_may_be_a_gpus_that_is_lent(node):
    process(node, 50, comm="qemu-system-x86", descriptors=["/dev/vfio/47"])
    plug(node, "0000:19:00.0", "nvidia")
    assert users.read(node.node(), [], OWN)["state"] == "idle"
    plug(node, "0000:1a:00.0", "vfio-pci")
    assert users.read(node.node(), [], OWN)["state"] == "busy"


@pytest.mark.parametrize("part", ["mediated", "virtual function"])
def test_a_virtual_machine_with_a_part_of_a_gpu_uses_it(node, part):
    plug(node, "0000:19:00.0", "nvidia", group=9)
    if part == "mediated":
        node.link(f"{PCI}/0000:19:00.0/83b8f4f2-509f/iommu_group", "../../../kernel/iommu_groups/47")
    else:
        plug(node, "0000:19:00.4", "nvidia", group=47).link(f"{PCI}/0000:19:00.4/physfn", "../0000:19:00.0")
    process(node, 50, comm="qemu-kvm", descriptors=["/dev/vfio/47"])
    (who,) = users.read(node.node(), [], OWN)["who"]
    assert (who["pid"], who["kind"]) == (50, "process")  # it may compute on what NVML lists


def test_daemon_that_holds_the_device_is_no_work(node):
    """The kernel cuts names to 15 characters."""
    process(node, 50, comm="nvidia-persiste", descriptors=["/dev/nvidia0"])
    found = users.read(node.node(), [], OWN)
    assert found["state"] == "idle"
    assert found["who"][0]["service"] is True


def test_program_with_the_start_of_a_daemons_name_is_work(node):
    process(node, 50, comm="nvidia", descriptors=["/dev/nvidia0"])
    assert users.read(node.node(), [], OWN)["state"] == "busy"


def test_our_own_stuck_reader_is_no_user(node):
    process(node, 50, parent=OWN, descriptors=["/dev/nvidia0"])
    assert users.read(node.node(), [], OWN)["state"] == "idle"


def test_process_that_only_nvml_knows(node):
    """In another PID namespace, as in a container."""
    gpus = [
        {"index": 0, "minor": 3, "processes": [{"pid": 4711, "memory_mib": 5}]},
        {"index": 1, "error": "GPU_IS_LOST"},
    ]
    found = users.read(node.node(), gpus, OWN)
    assert found["state"] == "busy"
    unknown = {"user": None, "command": None, "since": None}
    assert found["who"] == [{**unknown, "pid": 4711, "device": "/dev/nvidia3", "kind": "process", "service": False}]


def place(tree, pid, dev, devices, namespace):
    """Give a process a mount namespace; dev is the number of the file system on its /dev."""
    tree.link(f"/proc/{pid}/ns/mnt", namespace)
    tree.file(f"/proc/{pid}/mountinfo", f"1 0 0:40 / / rw - overlay overlay rw\n2 1 {dev} / /dev rw - tmpfs tmpfs rw\n")
    for name in devices:
        tree.file(f"/proc/{pid}/root/dev/{name}")


def contained(tree, pid, dev, devices=("nvidia0", "null"), **more):
    process(tree, pid, **more)
    place(tree, pid, dev, devices, "mnt:[2]")


@pytest.fixture
def host_dev(node):
    """Return the node, with its own /dev."""
    place(node, 1, "0:5", ["mem", "nvidia0"], "mnt:[1]")
    return node


def test_a_container_that_was_given_a_gpu_counts_though_it_computes_nothing(host_dev):
    contained(host_dev, 60, "0:77", comm="sleep")
    contained(host_dev, 61, "0:77", comm="bash")
    found = users.read(host_dev.node(), [], OWN)
    assert found["state"] == "busy"
    assert [(one["pid"], one["kind"], one["device"]) for one in found["who"]] == [(60, "container", "/dev/nvidia0")]
    me = users.user_name(os.getuid())
    said = f"sleep (PID 60, user {me}, a container with a GPU) since 2023-11-14T22:15:23Z"
    assert users.in_use(found) == said


@pytest.mark.parametrize(
    ("dev", "devices"),
    [
        pytest.param("0:77", ["null", "nvidia-uvm"], id="no-gpu"),
        pytest.param("0:77", ["mem", "nvidia0"], id="all-devices-of-the-node"),
        pytest.param("0:5", ["nvidia0"], id="a-service-on-the-nodes-own-dev"),
    ],
)
def test_other_namespaces_use_no_gpu(host_dev, dev, devices):
    contained(host_dev, 60, dev, devices)
    assert users.read(host_dev.node(), [], OWN)["state"] == "idle"


def test_a_container_that_computes_is_named_once(host_dev):
    contained(host_dev, 60, "0:77", comm="bash")
    contained(host_dev, 61, "0:77", descriptors=["/dev/nvidia0"])
    found = users.read(host_dev.node(), [], OWN)
    assert [(one["pid"], one["kind"]) for one in found["who"]] == [(61, "process")]


@pytest.mark.parametrize("command", ["dcgm-exporter", "nvidia-device-p", "gpu-feature-dis", "gpu-kubelet-plu"])
def test_a_container_of_the_drivers_own_daemon_is_no_work(host_dev, command):
    contained(host_dev, 60, "0:77", comm=command)
    assert users.read(host_dev.node(), [], OWN)["state"] == "idle"


def test_a_job_of_slurm_counts_before_it_opens_a_gpu(node):
    process(node, 60, comm="slurmd")
    process(node, 61, comm="slurmstepd")
    node.file("/proc/61/cmdline", "/usr/sbin/slurmstepd\0infinity\0")  # keeps a control group, and ends with the node
    assert users.read(node.node(), [], OWN)["state"] == "idle"
    process(node, 62, comm="slurmstepd")
    node.file("/proc/62/cmdline", "slurmstepd: [4711.batch]\0\0")
    found = users.read(node.node(), [], OWN)
    assert (found["state"], [one["pid"] for one in found["who"]]) == ("busy", [62])
    assert users.in_use(found).startswith("slurmstepd: [4711.batch] (PID 62, ")


def test_processes_that_nvml_may_not_tell(node):
    gpus = [{"index": 0, "minor": 0, "processes": {"error": "NO_PERMISSION", "code": 4}}]
    assert users.read(node.node(), gpus, OWN)["state"] == "idle"


def test_process_that_may_not_be_looked_into(node, monkeypatch):
    """Root may look into every process, so the refusal is made here."""

    def iterdir(path):
        if path.parts[-3:] == ("proc", "50", "fd"):
            raise PermissionError
        return real(path)

    process(node, 50)
    real = Path.iterdir
    monkeypatch.setattr(Path, "iterdir", iterdir)
    assert users.read(node.node(), [], OWN)["state"] == "unknown"


PERSON = {"user": "alice", "since": None, "desktop": False, "logged_in": True, "commands": ["rsync"]}


def test_who_is_at_work_without_a_gpu_is_named_beside_those_with_one(node):
    process(node, 50, descriptors=["/dev/nvidia0"])
    found = {**users.read(node.node(), [], OWN), "sessions": [PERSON]}
    me = users.user_name(os.getuid())
    assert users.in_use(found) == (
        f"python (PID 50, user {me}) since 2023-11-14T22:15:23Z, alice, who is logged in (rsync)"
    )


@pytest.mark.parametrize(("state", "said"), [("idle", ""), ("unknown", "some processes could not be inspected")])
def test_who_cannot_be_looked_into_counts_as_a_user(state, said):
    assert users.in_use({"state": state, "who": [], "sessions": []}) == said

"""Filesystems and container engines."""

import errno
import time

import pytest
from ansible_collections.gpulab.node.plugins.module_utils.facts import engines as facts_engines
from ansible_collections.gpulab.node.plugins.module_utils.facts import filesystems
from ansible_collections.gpulab.node.plugins.module_utils.facts.engines import DOCKER_RIVALS, EnginesQuery
from ansible_collections.gpulab.node.plugins.module_utils.facts.filesystems import FilesystemsQuery
from ansible_collections.gpulab.node.plugins.module_utils.facts.packages import PackagesQuery

TMP = "/tmp"  # noqa: S108 - a name in a tree of the test
MOUNTINFO = """22 1 259:2 / / rw,relatime shared:1 - ext4 /dev/nvme0n1p2 rw
23 22 0:21 / /proc rw - proc proc rw
24 22 259:1 / /boot/efi rw - vfat /dev/nvme0n1p1 rw
25 22 0:30 / /run rw - tmpfs tmpfs rw
26 22 8:1 / /data\\040sets ro - xfs /dev/sda1 rw
27 22 0:50 / /home rw - nfs4 server:/home rw
28 22 0:60 / /var/lib/docker/overlay2/abc/merged rw - overlay overlay rw
garbage
29 22 0:70 / /tmp rw - tmpfs tmpfs rw
"""


@pytest.fixture
def node(tree):
    tree.file("/proc/self/mountinfo", MOUNTINFO)
    tree.file("/sys/devices/pci/nvme0n1/queue/rotational", "0\n")
    tree.directory("/sys/devices/pci/nvme0n1/nvme0n1p2")
    tree.link("/sys/dev/block/259:2", "../../devices/pci/nvme0n1/nvme0n1p2")
    tree.file("/sys/devices/pci/sda/queue/rotational", "1\n")
    tree.directory("/sys/devices/pci/sda/sda1")
    tree.link("/sys/dev/block/8:1", "../../devices/pci/sda/sda1")
    for place in ("/boot/efi", "/data sets", "/home", TMP, "/var"):
        tree.directory(place)
    return tree.node()


def test_filesystems(node):
    found = {entry["mount"]: entry for entry in FilesystemsQuery(node, 5).facts()}
    assert sorted(found) == ["/", "/boot", "/boot/efi", "/data sets", "/home", TMP, "/var"]
    assert (found["/"]["nvme"], found["/"]["rotational"]) == (True, False)
    assert (found["/data sets"]["nvme"], found["/data sets"]["rotational"]) == (False, True)
    assert (found["/home"]["nvme"], found["/home"]["rotational"]) == (None, None)
    assert found["/data sets"]["read_only"] is True
    assert found["/var"]["read_only"] is False
    assert found["/var"]["type"] == "ext4"
    assert found["/"]["responsive"] is True
    assert 0 < found["/"]["free_mib"] < found["/"]["size_mib"]


def test_a_file_system_whose_disk_fails_is_not_readable_and_ext4_counts(node, tree, monkeypatch):
    def scandir(path):
        if path.name in ("home", "data sets"):
            raise OSError(errno.EIO if path.name == "home" else errno.EACCES, "no")
        return real(path)

    real = filesystems.os.scandir
    monkeypatch.setattr(filesystems.os, "scandir", scandir)
    tree.file("/sys/fs/ext4/nvme0n1p2/errors_count", "2\n")
    found = {entry["mount"]: entry for entry in FilesystemsQuery(node, 5).facts()}
    assert [found[place]["readable"] for place in ("/", "/home", "/data sets")] == [True, False, True]
    assert [found[place]["errors"] for place in ("/", "/home", "/data sets")] == [2, None, None]


def test_dead_network_mount_is_an_answer(node, monkeypatch):
    def statvfs(path):
        if path.name == "home":
            time.sleep(60)
        return real(path)

    real = filesystems.os.statvfs
    monkeypatch.setattr(filesystems.os, "statvfs", statvfs)
    before = time.monotonic()
    found = {entry["mount"]: entry for entry in FilesystemsQuery(node, 0.5).facts()}
    assert time.monotonic() - before < 1.5
    assert found["/home"]["responsive"] is False
    assert found["/home"]["free_mib"] is None
    assert found["/var"]["responsive"] is True


def test_mount_point_that_is_gone(tree):
    tree.file("/proc/self/mountinfo", "22 1 8:1 / /gone rw - ext4 /dev/sda1 rw\n")
    (found,) = FilesystemsQuery(tree.node(), 5).facts()
    assert found["size_mib"] is None
    assert found["responsive"] is False


@pytest.mark.parametrize(
    ("text", "version"),
    [
        ("Docker version 20.10.24+dfsg1, build 297e128", "20.10.24+dfsg1"),
        ("podman version 4.3.1", "4.3.1"),
        ("containerd github.com/containerd/containerd 1.6.20~ds1 1.6.20~ds1-1+b1", "1.6.20~ds1"),
        ("containerd containerd.io v1.7.27 05044ec0a9", "1.7.27"),
        ("NVIDIA Container Toolkit CLI version 1.17.8\ncommit: f202b80a", "1.17.8"),
        ("", None),
    ],
)
def test_engine_version(text, version):
    assert facts_engines.engine_version(text) == version


def engines(tree):
    node = tree.node()
    return EnginesQuery(node, PackagesQuery(node, *DOCKER_RIVALS)).facts()


def test_engines(tree):
    tree.prints("docker --version", "Docker version 28.0.1, build 0")
    assert engines(tree) == {
        "docker": "28.0.1",
        "podman": None,
        "containerd": None,
        "nvidia_container_toolkit": None,
        "docker_rivals": [],
    }


def test_packages_that_docker_com_conflicts_with(tree):
    tree.prints(
        "rpm -qa", "".join(f"{name}\t0\t1-1\tx86_64\tRocky\n" for name in ("runc", "podman-docker", "nvidia-driver"))
    )
    assert engines(tree)["docker_rivals"] == ["podman-docker", "runc"]


def test_podman_under_dockers_name_is_no_docker(tree):
    tree.prints("docker --version", "podman version 5.4.0").prints("podman --version", "podman version 5.4.0")
    found = engines(tree)
    assert (found["docker"], found["podman"]) == (None, "5.4.0")

"""The initramfs: archives as initramfs-tools and dracut write them."""

import gzip
import lzma
import shutil
import subprocess

import pytest
from ansible_collections.gpulab.node.plugins.module_utils.facts.initramfs import InitramfsQuery

KERNEL = "6.1.0-50-amd64"
NOUVEAU = ("usr/lib/modules/6.1.0-50-amd64/kernel/drivers/gpu/drm/nouveau/nouveau.ko", b"\x7fELF" * 500)
BLACKLIST = ("etc/modprobe.d/gpulab.conf", b"blacklist nouveau\n")
OTHER = ("usr/bin/sh", b"#!" * 3001)


def cpio(*files):
    """Write a newc archive by the format's own description."""

    def padded(data):
        return data + b"\0" * (-len(data) % 4)

    archive = b""
    for name, content in [*files, ("TRAILER!!!", b"")]:
        fields = [0, 0o100644, 0, 0, 1, 0, len(content), 0, 0, 0, 0, len(name) + 1, 0]
        header = b"070701" + b"".join(b"%08X" % field for field in fields)
        archive += padded(header + name.encode() + b"\0") + padded(content)
    return archive + b"\0" * (-len(archive) % 512)


def zstd(data):
    if not shutil.which("zstd"):
        pytest.skip("no zstd here")
    return subprocess.run(["zstd", "-q"], input=data, stdout=subprocess.PIPE, check=True).stdout


def read(tree, image, name=f"/boot/initrd.img-{KERNEL}", seconds=5):
    tree.file(name, image)
    return InitramfsQuery(tree.node(), KERNEL, seconds).facts()


@pytest.mark.parametrize("compress", [bytes, gzip.compress, lzma.compress, zstd])
@pytest.mark.parametrize(
    ("files", "nouveau", "blacklist"),
    [
        ([OTHER], False, False),
        ([OTHER, NOUVEAU], True, False),
        ([NOUVEAU, BLACKLIST, OTHER], True, True),
        ([("etc/modprobe.d/gpulab.conf", b"# blacklist nouveau\n"), OTHER], False, False),
        ([("etc/elsewhere/gpulab.conf", b"blacklist nouveau\n"), OTHER], False, False),
    ],
)
def test_image(tree, compress, files, nouveau, blacklist):
    microcode = cpio(("kernel/x86/microcode/GenuineIntel.bin", b"\1" * 5000))
    found = read(tree, microcode + b"\0" * 1024 + compress(cpio(*files)))
    assert found == {
        "path": f"/boot/initrd.img-{KERNEL}",
        "nouveau": nouveau,
        "blacklist": blacklist,
        "nova": False,
        "nova_blacklist": False,
        "nvidia": False,
        "nvidia_version": None,
        "error": None,
    }


@pytest.mark.parametrize("name", ["nova-core.ko", "nova_core.ko.zst"])
@pytest.mark.parametrize("forbidden", [False, True])
def test_nova_is_found_as_nouveau_is(tree, name, forbidden):
    rules = [("etc/modprobe.d/gpulab.conf", b"blacklist nova_core\n")] if forbidden else []
    found = read(tree, cpio((f"usr/lib/modules/{KERNEL}/kernel/drivers/gpu/nova-core/{name}", b"x"), *rules))
    assert (found["nova"], found["nova_blacklist"]) == (True, forbidden)
    assert (found["nouveau"], found["blacklist"]) == (False, False)


def test_image_in_redhats_place(tree):
    assert read(tree, cpio(NOUVEAU), f"/boot/initramfs-{KERNEL}.img")["nouveau"] is True


def test_compressed_module_counts(tree):
    assert read(tree, cpio((NOUVEAU[0] + ".xz", b"x")))["nouveau"] is True


def test_kernel_without_image(tree):
    assert InitramfsQuery(tree.node(), KERNEL, 5).facts() is None


@pytest.mark.parametrize(
    ("image", "error"),
    [
        (b"not an image at all", "an unknown compression"),
        (cpio(OTHER)[:300], "a damaged cpio archive"),
        (gzip.compress(cpio(OTHER, NOUVEAU))[:100], "a damaged cpio archive"),
        (b"070701zz" + b"x" * 200, "invalid literal"),
    ],
    ids=["text", "truncated", "truncated-gzip", "garbage"],
)
def test_damaged_image_is_told(tree, image, error):
    found = read(tree, image)
    assert error in found["error"]
    assert found["nouveau"] is None
    assert found["blacklist"] is None
    assert found["nova"] is None


@pytest.mark.parametrize("image", [b"", b"\0" * 4096])
def test_empty_image_is_told(tree, image):
    """What a full disk leaves."""
    assert "an empty image" in read(tree, image)["error"]


MODULE = b"\x7fELF\0license=Dual MIT/GPL\0srcversion=5\0version=580.119.02\0vermagic=6.1\0"
WHERE = f"usr/lib/modules/{KERNEL}/updates/dkms/"


@pytest.mark.parametrize(
    ("name", "content", "version"),
    [
        ("nvidia.ko", MODULE, "580.119.02"),
        ("nvidia.ko.xz", lzma.compress(MODULE), "580.119.02"),
        ("nvidia-current-open.ko.gz", gzip.compress(MODULE), "580.119.02"),
        ("nvidia.ko.zst", b"", None),
        ("nvidia.ko", b"\x7fELF\0srcversion=5.1\0", None),
    ],
)
def test_the_drivers_module_and_its_version(tree, name, content, version):
    found = read(tree, gzip.compress(cpio((WHERE + "nvidia-drm.ko", b"x"), (WHERE + name, content), OTHER)))
    assert (found["nvidia"], found["nvidia_version"], found["error"]) == (True, version, None)


@pytest.mark.parametrize(
    "name", ["nvidia-drm.ko", "nvidia-uvm.ko.xz", "nvidiafb.ko", "typec_nvidia.ko", "nvidia.kobold"]
)
def test_other_modules_are_not_the_driver(tree, name):
    assert read(tree, cpio((WHERE + name, MODULE)))["nvidia"] is False

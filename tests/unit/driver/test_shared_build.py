"""What a build depends on, and how it goes from node to node. DKMS and sign-file are played; tar and xz are real."""

from __future__ import annotations

import shutil
import struct
import subprocess
import tarfile
from pathlib import Path

import pytest
from ansible_collections.gpulab.node.plugins.module_utils.core.files import sha256
from ansible_collections.gpulab.node.plugins.module_utils.core.node import Node
from ansible_collections.gpulab.node.plugins.module_utils.driver import mok, shared_build
from ansible_collections.gpulab.node.plugins.module_utils.driver.shared_build import ModuleBuild, NotSharedError, Packed

BUILD = ModuleBuild("nvidia-current", "535.309.01", "6.1.0-50-amd64")
HEADERS = f"lib/modules/{BUILD.kernel}/build"
MAGIC = b"~Module signature appended~\n"
CODE = b"\x7fELF " + bytes(range(256)) * 64


def signature(key):
    return key + struct.pack(">5B3xI", 0, 0, 2, 0, 0, len(key)) + MAGIC


class Machine:
    """A node whose DKMS packs and loads as the real one does."""

    def __init__(self, root, key=b"key", suffix=""):
        """Have a kernel's headers, DKMS with the module's source, gcc, and a key; suffix is that of its modules."""
        self.root, self.suffix = root, suffix
        self.node = Node(root)
        self.versions = {"gcc": "gcc 12.2.0-14", "gcc-12": "gcc-12 12.2.0-14", "ld": "ld 2.40", "dkms": "dkms-3.0.10"}
        self.signs = None
        self.load_status, self.loses = 3, False  # the module was added before
        self.put(f"{HEADERS}/.config", 'CONFIG_CC_VERSION_TEXT="gcc-12 (Debian)"\nCONFIG_MODULE_SIG_HASH="sha256"\n')
        for name in ("Module.symvers", "Makefile", "include/generated/autoconf.h", "scripts/sign-file"):
            self.put(f"{HEADERS}/{name}", name)
        self.put(f"boot/vmlinuz-{BUILD.kernel}", "an image")
        self.put("usr/src/nvidia/dkms.conf", "PACKAGE_NAME=nvidia-current")
        self.put("usr/src/nvidia/nv.c", "int nv;")
        self.put("etc/dkms/framework.conf", "# a comment\n")
        self.put("usr/sbin/dkms", "#!/bin/bash")
        self.home = root / BUILD.home.lstrip("/")
        self.home.parent.mkdir(parents=True)
        (self.home.parent / "source").symlink_to(root / "usr/src/nvidia")
        if key:
            self.put(mok.OF_DKMS.private, "private")
            self.put(mok.OF_DKMS.certificate, key.decode())

    def put(self, path, text):
        """Write a file."""
        file = self.root / path.lstrip("/")
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(text)
        return file

    def built(self, content):
        """Have the module built, compressed as the kernel's."""
        module = self.home / "x86_64/module/nvidia.ko"
        module.parent.mkdir(parents=True)
        module.write_bytes(content)
        if self.suffix:
            subprocess.run([*shared_build._COMPRESS[self.suffix], str(module)], check=True)  # noqa: SLF001

    def loaded(self):
        """Return the content of the module that DKMS has for the kernel; None where it has none."""
        found = list(self.home.glob(f"x86_64/module/nvidia.ko{self.suffix}"))
        if not found:
            return None
        if not self.suffix:
            return found[0].read_bytes()
        program = shared_build._COMPRESS[self.suffix][0]  # noqa: SLF001
        return subprocess.run([program, "-dc", str(found[0])], check=True, capture_output=True).stdout

    def __call__(self, argv, **_options):
        """Run a command."""
        if argv[1:] == ["--version"]:
            return (0, f"{self.versions[argv[0]]}\nmore\n", "") if argv[0] in self.versions else (127, "", "not found")
        if argv[0] == "dkms":
            return getattr(self, argv[1].strip("-"))(argv)
        if argv[0].endswith("sign-file") and self.signs:
            return self.signs
        if argv[0].endswith("sign-file"):
            with Path(argv[4]).open("ab") as module:
                module.write(signature(Path(self.root / mok.OF_DKMS.certificate.lstrip("/")).read_bytes()))
            return 0, "", ""
        if argv[0] == "openssl":
            self.put(mok.OF_DKMS.private, "private")
            self.put(mok.OF_DKMS.certificate, "a new key")
            return 0, "", ""
        done = subprocess.run(argv, capture_output=True, text=True, check=False)
        return done.returncode, done.stdout, done.stderr

    def help(self, _argv):
        """Say what it can do, which is not to make a key."""
        return 0, "mktarball ldtarball", ""

    def mktarball(self, argv):
        """Pack what is built."""
        with tarfile.open(argv[-1], "w:gz") as tar:
            tar.add(self.home, f"./dkms_main_tree/{BUILD.kernel}")
        return 0, "", ""

    def ldtarball(self, argv):
        """Unpack it, or leave something half done."""
        if self.load_status in (0, 3):
            shutil.unpack_archive(argv[-1], self.root / "unpacked", "gztar")
            shutil.copytree(self.root / "unpacked/dkms_main_tree" / BUILD.kernel, self.home)
            if self.loses:
                next(self.home.rglob("*.ko*")).write_bytes(b"cut sho")
        else:
            (self.home / "x86_64/module").mkdir(parents=True)
        return self.load_status, "", "Error! DKMS tree already contains: nvidia-current-535.309.01\n"


@pytest.fixture
def first(tmp_path):
    machine = Machine(tmp_path / "first", b"first")
    machine.built(CODE + signature(b"first"))
    return machine


@pytest.fixture
def second(tmp_path):
    return Machine(tmp_path / "second", b"second")


def depends(machine):
    return shared_build.digest(shared_build.inputs(BUILD, machine, machine.node, "debian"))


def pack(machine):
    directory = machine.root / "given"
    directory.mkdir()
    return shared_build.pack(BUILD, machine, directory)


def load(machine, packed):
    signer = shared_build.signer(machine.node, BUILD.kernel, "debian")
    shared_build.load(BUILD, packed, machine, machine.node, signer)


def test_nodes_alike_depend_on_the_same_whoever_they_are(first, second):
    first.put("etc/dkms/framework.conf", "# another comment\n\n")
    assert depends(first) == depends(second)


DIFFERENCES = {
    "kernel image": lambda node: node.put(f"boot/vmlinuz-{BUILD.kernel}", "another"),
    "configuration of the kernel": lambda node: node.put(f"{HEADERS}/include/generated/autoconf.h", "another"),
    "symbols of the kernel": lambda node: node.put(f"{HEADERS}/Module.symvers", "another"),
    "types of the kernel": lambda node: node.put(f"{HEADERS}/vmlinux", ""),
    "compiler of the kernel": lambda node: node.versions.update({"gcc-12": "gcc-12 12.2.0-15"}),
    "compiler": lambda node: node.versions.update(gcc="gcc 13"),
    "linker": lambda node: node.versions.update(ld="ld 2.41"),
    "version of DKMS": lambda node: node.versions.update(dkms="dkms-3.2"),
    "DKMS": lambda node: node.put("usr/sbin/dkms", "patched"),
    "configuration of DKMS": lambda node: node.put("etc/dkms/nvidia-current.conf", "MAKE=other\n"),
    "source": lambda node: node.put("usr/src/nvidia/nv.c", "int nv2;"),
    "a further source": lambda node: node.put("usr/src/nvidia/sub/nv.c", ""),
    "whether it signs": lambda node: (node.root / f"{HEADERS}/scripts/sign-file").unlink(),
}


@pytest.mark.parametrize("difference", DIFFERENCES)
def test_whatever_differs_is_another_build(first, second, difference):
    DIFFERENCES[difference](second)
    assert depends(first) != depends(second)


def test_another_module_version_or_kernel_is_another_build_even_of_the_same_files(first):
    builds = [
        BUILD,
        ModuleBuild("nvidia", BUILD.version, BUILD.kernel),
        ModuleBuild(BUILD.module, BUILD.version, "6.2"),
    ]
    builds.append(ModuleBuild(BUILD.module, "550", BUILD.kernel))
    for name in ("nvidia", "nvidia-current/550"):
        (first.root / "var/lib/dkms" / name).mkdir()
    for name in (f"nvidia/{BUILD.version}", "nvidia-current/550"):
        shutil.copytree(first.home.parent, first.root / "var/lib/dkms" / name, symlinks=True, dirs_exist_ok=True)
    shutil.copytree(first.root / HEADERS, first.root / "lib/modules/6.2/build")
    shutil.copy(first.root / f"boot/vmlinuz-{BUILD.kernel}", first.root / "boot/vmlinuz-6.2")
    inputs = [shared_build.inputs(build, first, first.node, "debian") for build in builds]
    named = ("module", "version", "kernel", "image")
    rest = [{key: value for key, value in one.items() if key not in named} for one in inputs]
    assert all(one == rest[0] for one in rest)
    assert len({shared_build.digest(one) for one in inputs}) == len(builds)


@pytest.mark.parametrize("suffix", ["", ".gz", ".xz"])
def test_a_build_is_loaded_with_the_signature_of_the_node_that_loads(tmp_path, suffix):
    first, second = Machine(tmp_path / "1", b"first", suffix), Machine(tmp_path / "2", b"second", suffix)
    first.built(CODE + signature(b"first"))
    load(second, pack(first))
    assert second.loaded() == CODE + signature(b"second")


def test_a_module_that_dkms_did_not_have_yet_is_loaded_too(first, second):
    second.load_status = 0
    load(second, pack(first))
    assert second.loaded() == CODE + signature(b"second")


def test_what_arrives_with_another_checksum_is_not_loaded(first, second):
    packed = pack(first)
    with pytest.raises(NotSharedError, match="checksum"):
        load(second, Packed(packed.file, "0" * 64))
    assert second.loaded() is None


def test_a_signature_that_the_node_cannot_replace_is_not_loaded(first, second):
    (second.root / f"{HEADERS}/scripts/sign-file").unlink()
    with pytest.raises(NotSharedError, match="sign"):
        load(second, pack(first))
    assert second.loaded() is None


def test_a_module_that_nobody_signs_is_loaded_as_it_is(tmp_path):
    first, second = Machine(tmp_path / "1"), Machine(tmp_path / "2")
    first.built(CODE)
    (second.root / f"{HEADERS}/scripts/sign-file").unlink()
    load(second, pack(first))
    assert second.loaded() == CODE


def test_a_key_in_a_token_signs_nothing_here(second):
    second.put("etc/dkms/framework.conf", "mok_signing_key=pkcs11:token\n")
    assert shared_build.signer(second.node, BUILD.kernel, "debian") is None


@pytest.mark.parametrize("fault", [{"load_status": 8}, {"loses": True}])
def test_of_a_build_that_dkms_does_not_load_whole_nothing_is_left(first, second, fault):
    vars(second).update(fault)
    with pytest.raises(NotSharedError):
        load(second, pack(first))
    assert not second.home.exists()


def test_builds_for_other_kernels_are_not_loaded(first, second):
    packed = pack(first)
    (first.root / "unpacked/dkms_main_tree/6.2/x86_64/module").mkdir(parents=True)
    with tarfile.open(packed.file, "w:gz") as tar:
        tar.add(first.home, f"./dkms_main_tree/{BUILD.kernel}")
        tar.add(first.root / "unpacked", ".")
    with pytest.raises(NotSharedError, match="others"):
        load(second, Packed(packed.file, sha256(packed.file)))


def test_a_build_without_modules_is_not_loaded(first, second):
    shutil.rmtree(first.home / "x86_64/module")
    (first.home / "x86_64/module").mkdir()
    with pytest.raises(NotSharedError, match="no modules"):
        load(second, pack(first))


def test_modules_that_are_compressed_in_an_unknown_way_are_not_loaded(first, second):
    (first.home / "x86_64/module/nvidia.ko").rename(first.home / "x86_64/module/nvidia.ko.lz4")
    with pytest.raises(NotSharedError, match="lz4"):
        load(second, pack(first))


@pytest.mark.parametrize("status", [0, 1])
def test_what_sign_file_does_not_sign_is_not_loaded(first, second, status):
    second.signs = (status, "", "no such key\n")
    with pytest.raises(NotSharedError, match="does not sign: no such key"):
        load(second, pack(first))
    assert second.loaded() is None


def test_a_node_without_a_key_makes_one_as_dkms_would(tmp_path):
    bare = Machine(tmp_path, key=None)
    shared_build.make_key(mok.OF_DKMS, bare, bare.node)
    assert (bare.root / mok.OF_DKMS.certificate.lstrip("/")).read_text() == "a new key"
    shared_build.make_key(mok.OF_DKMS, lambda *_given, **_options: pytest.fail("it has one"), bare.node)


def test_half_a_key_signs_nothing(second):
    (second.root / mok.OF_DKMS.private.lstrip("/")).unlink()
    with pytest.raises(NotSharedError, match="key"):
        shared_build.make_key(mok.OF_DKMS, second, second.node)


def test_a_module_signed_twice_is_left_without_either():
    assert shared_build.unsigned(CODE + signature(b"a") + signature(b"bc")) == CODE
    assert shared_build.unsigned(CODE) == CODE

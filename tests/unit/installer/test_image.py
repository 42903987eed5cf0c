"""An image is whole or not there; mmdebstrap and zstd are scripts, and the mirror is a directory."""

from __future__ import annotations

import fcntl
import json
import os
import subprocess
import tarfile
import threading
from dataclasses import replace
from types import SimpleNamespace

import pytest
from ansible.parsing.dataloader import DataLoader
from ansible.playbook.play_context import PlayContext
from ansible.playbook.task import Task
from ansible.template import Templar
from ansible_collections.gpulab.node.plugins.action.installer_image import ActionModule
from ansible_collections.gpulab.node.plugins.module_utils.core import processors
from ansible_collections.gpulab.node.plugins.module_utils.core.refusal import Refusal
from ansible_collections.gpulab.node.plugins.plugin_utils.catalog import Catalog
from ansible_collections.gpulab.node.plugins.plugin_utils.installer import image, recipe

from . import pe
from .newc import read as read_cpio

MMDEBSTRAP = """#!/bin/sh
echo "$@" >> {calls}
for word in "$@"; do case "$word" in */tree.tar) target=$word;; esac; done
cp {tar} "$target"
"""
TREE = {
    "boot/vmlinuz-6.1.0-56-amd64": b"kernel",
    "etc/os-release": b"ID=debian",
    "usr/lib/grub/x86_64-efi-signed/grubx64.efi.signed": pe.loader(),
    "usr/lib/grub/x86_64-efi-signed/grubnetx64.efi.signed": b"not used",
    "usr/lib/shim/shimx64.efi.signed.previous": b"not used",
}
GRUB = "usr/lib/grub/x86_64-efi-signed/grubx64.efi.signed"
ZSTD = """#!/bin/sh
for word in "$@"; do case "$word" in */tree.cpio.zst) target=$word;; esac; done
exec cat > "$target"
"""


@pytest.fixture(autouse=True)
def programs(tmp_path, monkeypatch):
    """Return a function that puts a script into the PATH; mmdebstrap and zstd are there and work."""
    place = tmp_path / "bin"
    place.mkdir()

    def put(name, text):
        (place / name).write_text(text)
        (place / name).chmod(0o755)

    tar = tmp_path / "made.tar"
    with tarfile.open(tar, "w") as archive:
        for name, content in TREE.items():
            source = tmp_path / "content"
            source.write_bytes(content)
            archive.add(source, f"./{name}")
    put("mmdebstrap", MMDEBSTRAP.format(tar=tar, calls=tmp_path / "calls"))
    put("zstd", ZSTD)
    monkeypatch.setenv("PATH", f"{place}:/usr/bin:/bin")
    monkeypatch.setattr(image, "_mode", lambda: "root")
    return put


@pytest.fixture
def made_of(tmp_path):
    """Return the recipe of Debian 12, with a mirror and a keyring that are there."""
    mirrors = tmp_path / "debian", tmp_path / "security"
    for mirror, suites in zip(mirrors, (("bookworm", "bookworm-updates"), ("bookworm-security",))):
        for suite in suites:
            (mirror / "dists" / suite).mkdir(parents=True)
            (mirror / "dists" / suite / "InRelease").write_text("signed")
    keyring = tmp_path / "keyring.gpg"
    keyring.write_text("key")
    record = Catalog().installers["debian-12"]
    addresses = tuple(mirror.as_uri() for mirror in mirrors)
    return recipe.of(record, ("x86_64", "bios"), addresses, ["firmware-bnx2x"], str(keyring))


@pytest.fixture
def directory(tmp_path):
    return tmp_path / "installers"


def refused(code, directory, made_of, space=0):
    with pytest.raises(Refusal) as refusal:
        image.make(directory, made_of, space)
    assert refusal.value.code == code
    left = [path.name for path in directory.iterdir()] if directory.is_dir() else []
    assert set(left) <= {".lock", made_of.name()}
    return refusal.value.cause


def test_an_image_is_made_once(directory, made_of, tmp_path):
    made, changed = image.make(directory, made_of, 0)
    assert changed
    assert made.kernel.read_bytes() == b"kernel"
    assert set(read_cpio(made.tree.read_bytes())) == {name.encode() for name in TREE}
    assert made.loaders == {GRUB: {"sbat": 1, "grub": 3, "grub.debian": 4}}
    assert json.loads((made.path / "recipe.json").read_text())["packages"][-1] == "firmware-bnx2x"
    again, changed = image.make(directory, made_of, 0)
    assert (again, changed) == (made, False)
    assert image.find(directory, made_of) == made
    assert len((tmp_path / "calls").read_text().splitlines()) == 1
    assert sorted(path.name for path in directory.iterdir()) == [".lock", made_of.name()]
    done = subprocess.run(["sha256sum", "--check", "--quiet", "SHA256SUMS"], cwd=made.path, check=False)
    assert done.returncode == 0


def test_the_tree_is_made_of_all_that_the_recipe_says(directory, made_of, tmp_path):
    image.make(directory, made_of, 0)
    call = (tmp_path / "calls").read_text()
    assert "--mode=root --variant=minbase --architectures=amd64" in call
    assert f"--keyring={tmp_path}/keyring.gpg" in call
    assert "--include=linux-image-amd64,grub-pc,initramfs-tools," in call
    assert ",locales,firmware-bnx2x " in call
    assert f"deb file://{tmp_path}/security bookworm-security main non-free-firmware" in call
    assert 'rm -f "$1"/etc/ssh/ssh_host_*' in call, "all machines would have the same host keys"


@pytest.mark.parametrize("field", ["codename", "architecture", "firmware", "packages", "sources", "keyring", "form"])
def test_another_recipe_is_another_image(made_of, field):
    value = getattr(made_of, field)
    other = replace(made_of, **{field: 99 if field == "form" else "uefi" if isinstance(value, str) else ("other",)})
    assert other.name() != made_of.name()


@pytest.mark.parametrize("name", ["vmlinuz", "tree.cpio.zst", "recipe.json", "loaders.json", "SHA256SUMS"])
@pytest.mark.parametrize("damage", ["changed", "gone"])
def test_a_damaged_image_is_not_used(directory, made_of, name, damage):
    made, _changed = image.make(directory, made_of, 0)
    path = made.path / name
    if damage == "gone":
        path.unlink()
    else:
        path.write_bytes(path.read_bytes()[:-1] + b"\x01")
    assert str(made.path) in refused("R035", directory, made_of)
    with pytest.raises(Refusal, match="GPULAB-R035"):
        image.find(directory, made_of)


def test_what_a_killed_run_left_is_removed(directory, made_of):
    (directory / ".newabc").mkdir(parents=True)
    (directory / ".newabc/tree.tar").write_text("half")
    assert image.find(directory, made_of) is None
    image.make(directory, made_of, 0)
    assert sorted(path.name for path in directory.iterdir()) == [".lock", made_of.name()]


def locked(directory):
    """Lock the directory as a run does that makes an image there; closing ends it."""
    directory.mkdir(exist_ok=True)
    lock = os.open(directory / ".lock", os.O_RDWR | os.O_CREAT, 0o600)
    fcntl.flock(lock, fcntl.LOCK_EX)
    return lock


def test_an_image_that_is_there_is_taken_while_another_one_is_made(directory, made_of):
    made, _changed = image.make(directory, made_of, 0)
    lock = locked(directory)
    results = []
    run = threading.Thread(target=lambda: results.append(image.make(directory, made_of, 0)), daemon=True)
    run.start()
    run.join(30)
    os.close(lock)
    assert results == [(made, False)]


def test_another_run_is_waited_for(directory, made_of, tmp_path):
    lock = locked(directory)
    results = []
    run = threading.Thread(target=lambda: results.append(image.make(directory, made_of, 0)))
    run.start()
    run.join(0.5)
    assert not results
    assert not (tmp_path / "calls").exists()
    os.close(lock)
    run.join(30)
    assert results[0][1]


@pytest.mark.parametrize("program", ["mmdebstrap", "zstd"])
def test_a_program_that_is_missing_is_named(directory, made_of, program, monkeypatch):
    which = image.shutil.which
    monkeypatch.setattr(image.shutil, "which", lambda name: None if name == program else which(name))
    assert program in refused("R030", directory, made_of)


def foreign(made_of):
    """Return the recipe for another processor than this machine's."""
    here = os.uname().machine
    return replace(made_of, architecture=next(one for one in processors.OF_IMAGES if one != here))


def test_programs_of_another_processor_have_to_start_here(programs, directory, made_of, tmp_path):
    programs("arch-test", f"#!/bin/sh\necho $1 > {tmp_path}/asked\nexit 1\n")
    other = foreign(made_of)
    debian = processors.OF_IMAGES[other.architecture]
    assert f"programs of {debian}" in refused("R037", directory, other)
    assert (tmp_path / "asked").read_text() == f"{debian}\n"
    programs("arch-test", "#!/bin/sh\nexit 0\n")
    image.make(directory, other, 0)
    assert f"--architectures={debian} " in (tmp_path / "calls").read_text()


def test_what_asks_for_that_has_to_be_here(directory, made_of, monkeypatch):
    which = image.shutil.which
    monkeypatch.setattr(image.shutil, "which", lambda name: None if name == "arch-test" else which(name))
    assert "arch-test" in refused("R030", directory, foreign(made_of))
    image.make(directory, made_of, 0)


@pytest.mark.parametrize(
    ("system", "machine"), [("debian-12", ("aarch64", "bios")), ("ubuntu-24.04", ("aarch64", "uefi"))]
)
def test_there_is_no_recipe_for_a_machine_that_the_system_does_not_start_on(system, machine):
    with pytest.raises(Refusal, match="GPULAB-R034"):
        recipe.of(Catalog().installers[system], machine, ("http://a", "http://b"), [], None)


def test_a_user_without_namespaces_cannot_make_it(programs, directory, made_of, monkeypatch):
    monkeypatch.undo()
    monkeypatch.setenv("PATH", f"{directory.parent}/bin:/usr/bin:/bin")
    monkeypatch.setattr(image.os, "geteuid", lambda: 1000)
    programs("mmdebstrap", '#!/bin/sh\n[ "$*" = "--unshare-helper true" ] && echo "E: no range" >&2\nexit 25\n')
    assert "no range" in refused("R031", directory, made_of)
    programs("mmdebstrap", "#!/bin/sh\nexit 0\n")
    assert image.check(made_of) == "unshare"


def test_a_keyring_that_is_missing_is_named(directory, made_of, tmp_path):
    (tmp_path / "keyring.gpg").unlink()
    assert str(tmp_path / "keyring.gpg") in refused("R032", directory, made_of)


def test_a_mirror_without_a_suite_is_named(directory, made_of, tmp_path):
    (tmp_path / "security/dists/bookworm-security/InRelease").unlink()
    assert f"{tmp_path}/security/dists/bookworm-security/InRelease" in refused("R033", directory, made_of)


def test_an_address_that_is_none_is_a_mirror_that_does_not_answer(directory, made_of):
    refused("R033", directory, replace(made_of, sources=("deb debian bookworm main",)))


def test_what_mmdebstrap_says_is_passed_on(programs, directory, made_of):
    programs("mmdebstrap", "#!/bin/sh\necho 'I: fetching'\necho 'E: Unable to locate package x'\nexit 25\n")
    assert refused("R034", directory, made_of) == (
        "the image of an installer cannot be made: E: Unable to locate package x."
    )


def test_a_tree_without_a_kernel_is_no_installer(directory, made_of, tmp_path):
    with tarfile.open(tmp_path / "made.tar", "w") as archive:
        archive.add(tmp_path / "content", "./etc/os-release")
    assert "the tree has 0 kernels" in refused("R034", directory, made_of)


def test_a_compressor_that_fails_leaves_no_image(programs, directory, made_of):
    programs("zstd", "#!/bin/sh\ncat > /dev/null\necho 'zstd: no space' >&2\nexit 1\n")
    assert "no space" in refused("R036", directory, made_of)


def test_space_is_needed_where_the_tree_is_made(directory, made_of):
    assert "MiB are needed" in refused("R036", directory, made_of, 1 << 60)


def test_a_place_that_cannot_be_written_to_is_named(made_of, tmp_path):
    (tmp_path / "file").write_text("")
    with pytest.raises(Refusal, match="GPULAB-R036"):
        image.make(tmp_path / "file/installers", made_of, 0)


@pytest.fixture
def act(made_of, directory):
    """Return a function that runs the action on these mirrors; to reach the node would fail."""

    def run(*, check_mode=False, **more):
        addresses = [source.split()[1] for source in made_of.sources]
        task = Task()
        task.check_mode = check_mode
        task.args = {
            "system": "debian-12",
            "firmware": "bios",
            "mirror": addresses[0],
            "security_mirror": addresses[-1],
            "keyring": made_of.keyring,
            "packages": ["firmware-bnx2x"],
            "directory": str(directory),
            **more,
        }
        connection = SimpleNamespace(_shell=SimpleNamespace(tmpdir="unused"))
        templar = Templar(loader=DataLoader(), variables={})
        return ActionModule(task, connection, PlayContext(), DataLoader(), templar, None).run(
            task_vars={"inventory_hostname": "node07"}
        )

    return run


def test_the_action_makes_an_image_and_then_finds_it(act, made_of, directory, monkeypatch):
    monkeypatch.setattr(image, "_check_space", lambda _path, _least: None)
    first, second = act(), act()
    assert (first["changed"], second["changed"]) == (True, False)
    assert first["path"] == second["path"] == str(directory / made_of.name())
    assert set(first["sums"]) == {"vmlinuz", "tree.cpio.zst", "recipe.json", "loaders.json"}
    assert first["least"]["memory"] > 1 << 30
    for name in ("kernel", "tree"):
        assert os.path.exists(first[name])  # noqa: PTH110 - a path as text


def test_check_mode_writes_nothing_and_tells_the_truth(act, made_of, directory):
    would = act(check_mode=True)
    assert (would["changed"], would["path"], would["sums"]) == (True, str(directory / made_of.name()), {})
    assert not directory.exists()
    image.make(directory, made_of, 0)
    assert act(check_mode=True)["changed"] is False


@pytest.mark.parametrize("check_mode", [False, True])
def test_the_action_refuses_with_a_code(act, tmp_path, check_mode):
    refusal = act(check_mode=check_mode, mirror=(tmp_path / "nothing").as_uri())["refusal"]
    assert refusal["code"] == "R033"


@pytest.mark.parametrize("check_mode", [False, True])
def test_an_image_whose_boot_loader_shim_revokes_is_not_used(act, made_of, directory, monkeypatch, check_mode):
    monkeypatch.setattr(image, "_check_space", lambda _path, _least: None)
    image.make(directory, made_of, 0)
    assert "refusal" not in act(check_mode=check_mode, sbat_level="sbat,1,2024010900\nshim,4\ngrub,3\n")
    refusal = act(check_mode=check_mode, sbat_level="sbat,1,2025010900\nshim,4\ngrub,5\n")["refusal"]
    assert refusal["code"] == "R038"
    assert f"node07 would not start /{GRUB} of the image" in refusal["cause"]
    assert f"Remove {directory / made_of.name()}" in refusal["remedy"]


def test_an_image_whose_boot_loader_is_none_is_not_made(directory, made_of, monkeypatch):
    monkeypatch.setattr(image.sbat, "of_loader", lambda _content: int("no loader"))
    assert f"/{GRUB} is no boot loader" in refused("R034", directory, made_of)

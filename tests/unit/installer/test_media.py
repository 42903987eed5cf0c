"""Installation media: what is in them, who may read them, and that a second run has nothing to do."""

import re
import shutil
import subprocess
from dataclasses import replace

import pytest
from ansible_collections.gpulab.node.plugins.module_utils.core.refusal import Refusal
from ansible_collections.gpulab.node.plugins.plugin_utils.installer import boot_menu, media

ENTRY = boot_menu.Entry(
    "node07",
    "4C4C4544-0042-3010-8056-B4C04F373132",
    "serial number S5GX",
    "gpulab/images/debian-12/vmlinuz",
    ("gpulab/images/debian-12/tree.cpio.zst", "gpulab/hosts/node07.cpio.gz"),
    ("rdinit=/gpulab/init", "gpulab.from=media", "console=tty0", "console=ttyS1,57600"),
    ("--fs-uuid", "6d1b3c1e-aaaa-4444-8888-000000000001"),
    unattended=True,
)
try:
    media.check_programs()
    CAN_MAKE = True
except Refusal:
    CAN_MAKE = False
makes_media = pytest.mark.skipif(not CAN_MAKE, reason="xorriso, mtools or GRUB is not here")


@pytest.fixture
def part(tmp_path):
    """Return a function that makes the part of a host; all share a tree."""
    image = tmp_path / "image"
    image.mkdir()
    (image / "vmlinuz").write_bytes(b"KERNEL" * 1000)
    (image / "tree.cpio.zst").write_bytes(b"TREE" * 100_000)

    def of(host="node07", machine=ENTRY.machine, secret=b"PRIVATE KEY", **changes):
        initrds = (ENTRY.initrds[0], f"gpulab/hosts/{host}.cpio.gz")
        entry = replace(ENTRY, host=host, machine=machine, initrds=initrds, **changes)
        files = {entry.kernel: image / "vmlinuz", initrds[0]: image / "tree.cpio.zst", initrds[1]: secret}
        return media.Part(entry, files)

    return of


def inside(iso, path):
    """Return a file of an ISO image."""
    target = iso.parent / ".extracted"
    subprocess.run(
        ["xorriso", "-osirrox", "on", "-indev", iso, "-extract", f"/{path}", target], check=True, capture_output=True
    )
    try:
        return target.read_bytes()
    finally:
        target.unlink()


@makes_media
def test_both_media_have_the_same_files(tmp_path, part):
    directory = tmp_path / "media"
    assert media.write(directory, media.Media([part()]))
    for path in ("gpulab/hosts/node07.cpio.gz", "gpulab/images/debian-12/tree.cpio.zst", "boot/grub/grub.cfg"):
        assert inside(directory / "gpulab.iso", path) == (directory / "pxe" / path).read_bytes()
    assert (directory / "pxe/gpulab/hosts/node07.cpio.gz").read_bytes() == b"PRIVATE KEY"
    signed = (directory / "pxe/grub/grub.cfg").read_text()
    assert signed == (directory / "pxe/boot/grub/grub.cfg").read_text()


@makes_media
def test_the_image_starts_by_bios_and_uefi_from_cd_and_stick(tmp_path, part):
    directory = tmp_path / "media"
    media.write(directory, media.Media([part()]))
    iso = directory / "gpulab.iso"
    told = subprocess.run(
        ["xorriso", "-indev", iso, "-report_el_torito", "plain", "-report_system_area", "plain"],
        check=True,
        capture_output=True,
        text=True,
    ).stdout
    assert re.search(r"El Torito boot img :\s+1\s+BIOS\s+y", told)
    assert re.search(r"El Torito boot img :\s+2\s+UEFI\s+y", told)
    assert "grub2-mbr" in told
    assert iso.read_bytes()[510:512] == b"\x55\xaa"  # a BIOS starts a stick by its first sector
    assert inside(iso, "boot/grub/efi.img")[510:512] == b"\x55\xaa"


@makes_media
def test_hosts_share_the_tree(tmp_path, part):
    directory = tmp_path / "media"
    media.write(directory, media.Media([part(), part("node08", "0" * 36, b"OTHER KEY")]))
    trees = [path for path in (directory / "pxe").rglob("*") if path.name.startswith("tree")]
    assert len(trees) == 1
    assert sorted(path.name for path in (directory / "pxe/gpulab/hosts").iterdir()) == [
        "node07.cfg",
        "node07.cpio.gz",
        "node08.cfg",
        "node08.cpio.gz",
    ]


@makes_media
def test_nobody_else_may_read_them(tmp_path, part):
    directory = tmp_path / "media"
    directory.mkdir(mode=0o755)
    media.write(directory, media.Media([part()]))
    for path in (directory, *directory.rglob("*")):
        assert path.stat().st_mode & 0o777 == (0o700 if path.is_dir() else 0o600), path


@makes_media
def test_a_second_run_has_nothing_to_do(tmp_path, part):
    directory = tmp_path / "media"
    assert media.write(directory, media.Media([part()]))
    before = {path: path.stat().st_mtime_ns for path in directory.rglob("*") if path.name != ".lock"}
    assert media.is_current(directory, media.Media([part()]))
    assert not media.write(directory, media.Media([part()]))
    assert before == {path: path.stat().st_mtime_ns for path in directory.rglob("*") if path.name != ".lock"}


@makes_media
@pytest.mark.parametrize("what", ["gpulab.iso", "pxe/gpulab/hosts/node07.cpio.gz", "README.txt", "media.json"])
def test_what_was_damaged_or_removed_is_written_again(tmp_path, part, what):
    directory = tmp_path / "media"
    media.write(directory, media.Media([part()]))
    (directory / what).write_bytes(b"damaged")
    assert not media.is_current(directory, media.Media([part()]))
    assert media.write(directory, media.Media([part()]))
    (directory / what).unlink()
    assert media.write(directory, media.Media([part()]))
    assert media.is_current(directory, media.Media([part()]))


@makes_media
def test_what_others_can_read_is_written_again(tmp_path, part):
    directory = tmp_path / "media"
    media.write(directory, media.Media([part()]))
    (directory / "gpulab.iso").chmod(0o644)
    assert media.write(directory, media.Media([part()]))
    assert (directory / "gpulab.iso").stat().st_mode & 0o777 == 0o600


@makes_media
def test_another_plan_or_other_hosts_replace_the_media(tmp_path, part):
    directory = tmp_path / "media"
    media.write(directory, media.Media([part()]))
    assert media.write(directory, media.Media([part(secret=b"NEW KEY")]))
    assert media.write(directory, media.Media([part("node08")]))
    assert not list(directory.rglob("node07*"))
    assert sorted(path.name for path in directory.iterdir() if path.name != ".lock") == [
        "README.txt",
        "gpulab.iso",
        "media.json",
        "pxe",
    ]


@makes_media
def test_the_same_parts_make_the_same_image(tmp_path, part):
    for name in ("one", "two"):
        media.write(tmp_path / name, media.Media([part()]))
    one, two = ((tmp_path / name / "gpulab.iso").read_bytes() for name in ("one", "two"))
    assert one == two


@makes_media
def test_what_a_killed_run_left_is_removed(tmp_path, part):
    directory = tmp_path / "media"
    (directory / ".newabc/pxe").mkdir(parents=True)
    media.write(directory, media.Media([part()]))
    assert not list(directory.glob(".new*"))


@makes_media
def test_a_program_that_fails_leaves_the_older_media(tmp_path, part, monkeypatch):
    directory = tmp_path / "media"
    media.write(directory, media.Media([part()]))
    monkeypatch.setattr(media, "_HYBRID", tmp_path / "missing")
    with pytest.raises(Refusal, match="xorriso: ") as refused:
        media.write(directory, media.Media([part(secret=b"NEW KEY")]))
    assert refused.value.code == "R054"
    assert media.is_current(directory, media.Media([part()]))
    assert not list(directory.glob(".new*"))


@makes_media
def test_the_readme_says_whether_there_are_secrets(tmp_path, part):
    directory = tmp_path / "media"
    media.write(directory, media.Media([part()]))
    assert "They hold SECRETS" in (directory / "README.txt").read_text()
    assert media.write(directory, media.Media([part()], secrets=False))
    text = (directory / "README.txt").read_text()
    assert "They hold no secrets" in text
    assert f"tftp-root={directory}/pxe" in text


@makes_media
def test_answers_for_a_distribution_are_a_volume_with_its_label(tmp_path, part):
    directory = tmp_path / "media"
    volume = media.Volume("node09", "CIDATA", {"user-data": b"#cloud-config\n", "meta-data": b"{}\n"})
    made = media.Media([], [volume])
    assert media.write(directory, made)
    assert not media.write(directory, made)
    told = subprocess.run(
        ["xorriso", "-indev", directory / "node09.iso", "-pvd_info"], check=True, capture_output=True, text=True
    ).stdout
    assert re.search(r"Volume Id\s*: CIDATA", told)
    assert inside(directory / "node09.iso", "user-data") == b"#cloud-config\n"
    assert (directory / "node09.iso").stat().st_mode & 0o777 == 0o600
    assert not (directory / "pxe").exists()
    assert "node09.iso\n  Answers for" in (directory / "README.txt").read_text()
    assert media.write(directory, media.Media([part()]))
    assert not (directory / "node09.iso").exists()


def test_a_missing_program_is_named_with_its_package(monkeypatch):
    there = shutil.which("sh")
    monkeypatch.setattr(media.shutil, "which", lambda name: None if name == "xorriso" else there)
    monkeypatch.setattr(media, "FILES", {"/nowhere/shimx64.efi.signed": "shim-signed"})
    with pytest.raises(Refusal) as refused:
        media.check_programs()
    assert refused.value.code == "R053"
    assert "xorriso, /nowhere/shimx64.efi.signed" in str(refused.value)
    assert "Install there: shim-signed xorriso" in str(refused.value)


# GRUB's menus


def test_the_machine_is_known_by_its_uuid():
    text = boot_menu.main([ENTRY, replace(ENTRY, host="node08", machine="0" * 36)])
    assert f'if [ "$machine" = "{ENTRY.machine.lower()}" ]; then\n  configfile /gpulab/hosts/node07.cfg' in text
    assert text.index("node08.cfg") < text.index("these media are not for this machine")
    assert text.endswith("exit\n")


@pytest.mark.parametrize(("unattended", "first"), [(True, "install"), (False, "disk")])
def test_a_host_that_nobody_confirmed_is_not_installed_by_itself(unattended, first):
    text = boot_menu.of_host(replace(ENTRY, unattended=unattended))
    assert re.findall(r"^set default=(\w+)$", text, re.MULTILINE) == [first]


def test_a_host_that_is_installed_starts_its_disk():
    text = boot_menu.of_host(ENTRY)
    assert "search --no-floppy --fs-uuid --set=installed 6d1b3c1e-aaaa-4444-8888-000000000001\n" in text
    found = text[text.index('if [ -n "$installed" ]') : text.index("menuentry")]
    assert "set default=disk" in found


def test_the_console_is_the_one_that_the_node_had():
    assert boot_menu.of_host(ENTRY).startswith("serial --unit=1 --speed=57600\n")
    assert not boot_menu.of_host(replace(ENTRY, arguments=("console=tty0",))).startswith("serial")


def test_a_serial_number_is_no_command_of_grub():
    text = boot_menu.of_host(replace(ENTRY, disk='serial number "; halt; $root `x` \\ ü'))
    assert 'wipe the disk with the serial number ?; halt; ?root ?x? ? ?, and no other" --id' in text

# Copyright (c) 2026 The gpulab founders
# GNU General Public License v3.0+ (see https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Write installation media: an ISO image, which is as well for a USB stick, and a folder for network boot.

    gpulab.iso   starts by BIOS and UEFI; Secure Boot accepts Debian's signed shim, GRUB and kernel in it
    pxe/         the same files, with GRUB's programs for network boot by BIOS and UEFI
    HOST.iso     answers for the installer of a distribution whose own medium has to be there as well
    README.txt   how to use both
    media.json   the hosts, and the SHA-256 of each file here, by which a later run knows that nothing is to do

All is for the owner alone, because host keys of machines are in it. What is not whole has a name with a dot before it.
"""

from __future__ import annotations

import contextlib
import getpass
import hashlib
import json
import os
import shutil
import subprocess
import tempfile
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ansible_collections.gpulab.node.plugins.module_utils.core.files import sha256
from ansible_collections.gpulab.node.plugins.plugin_utils.core.directory import LOCK, LONG, locked
from ansible_collections.gpulab.node.plugins.plugin_utils.installer import boot_menu, sbat
from ansible_collections.gpulab.node.plugins.plugin_utils.refusals import refuse

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

ISO, PXE, README, RECORD = "gpulab.iso", "pxe", "README.txt", "media.json"
_NEW, _OLD = ".new", ".old"
SECONDS = 1800  # for a program
LABEL = "GPULAB"
_GRUB = "boot/grub"
_SIGNED_PREFIX = "grub"  # where Debian's signed GRUB for network boot looks for grub.cfg
_MIB = 1 << 20
# program: the package that has it in Debian and Ubuntu
PROGRAMS = {"xorriso": "xorriso", "grub-mkimage": "grub-common", "mformat": "mtools", "mcopy": "mtools"}
FILES = {
    "/usr/lib/grub/i386-pc/boot_hybrid.img": "grub-pc-bin",
    "/usr/lib/grub/x86_64-efi-signed/gcdx64.efi.signed": "grub-efi-amd64-signed",
    "/usr/lib/grub/x86_64-efi-signed/grubnetx64.efi.signed": "grub-efi-amd64-signed",
    "/usr/lib/shim/shimx64.efi.signed": "shim-signed",
    "/usr/lib/shim/mmx64.efi.signed": "shim-signed",
}
_HYBRID, _GRUB_CD, _GRUB_NET, _SHIM, _MOK_MANAGER = map(Path, FILES)
_MODULES = (
    *("biosdisk", "normal", "minicmd", "configfile", "test", "echo", "sleep", "regexp", "smbios", "serial", "terminal"),
    *("search", "search_fs_file", "search_fs_uuid", "linux", "chain", "iso9660", "part_gpt", "part_msdos", "ext2"),
)
_README = """\
Installation media of gpulab, made for: {hosts}

{secrets}

The planned disk is wiped, and no other. The machine is switched off, and the console says why, where anything is not as
planned: another machine, not exactly one such disk, other contents on it, a disk with data that is missing.
{boot}{answers}
When all are installed, remove these media, and go on for each host:
  ansible-playbook playbooks/rebuild.yml -l HOST --ask-vault-pass
"""
_README_BOOT = """
The media know a machine by its DMI UUID. A host that the run confirmed (reinstall_confirm) is installed without a
question; any other host asks on the console, and starts what is on its disk when nobody answers. A machine that they
are not for goes on as if they were not there, and so does a host that they have installed.

gpulab.iso
  Give it to the BMC as a virtual CD, or write it to a USB stick; all that is on the stick is lost:
    dd if=gpulab.iso of=/dev/disk/by-id/usb-NAME bs=4M conv=fsync

pxe
  A folder for TFTP. dnsmasq beside a DHCP server, in dnsmasq.conf:
    port=0
    dhcp-range=192.0.2.0,proxy
    enable-tftp
    tftp-root={pxe}
    user={user}
    pxe-service=x86PC,gpulab,boot/grub/core
    pxe-service=7,gpulab,shimx64.efi
  192.0.2.0 is the network of the machines, and {user} may read the files. Where dnsmasq gives the addresses itself,
  with a range of them in dhcp-range, replace the last two lines:
    dhcp-match=set:bios,option:client-arch,0
    dhcp-match=set:uefi,option:client-arch,7
    dhcp-boot=tag:bios,boot/grub/core.0
    dhcp-boot=tag:uefi,shimx64.efi
  TFTP has no passwords: whoever is on that network can read the files. Stop it when the machines are installed.
"""
_README_ANSWERS = """
{volumes}
  Answers for the installer of the distribution. Start the machine from the distribution's own medium (Ubuntu: the live
  server), with this image beside it as a second virtual CD or USB stick; the installer finds it by its label. Ubuntu's
  asks once before it begins, RHEL's does not. The installer has its network by DHCP.
"""
_WITH_SECRETS = "They hold SECRETS: private host keys and hashes of passwords. Keep them like a key to the machines."
_WITHOUT_SECRETS = (
    "They hold no secrets: the machines get new host keys. Compare those on the console before you log in."
)


@dataclass(frozen=True)
class Part:
    """What the media have for one host: its entry, and the files that its entry names, by their paths on the media."""

    entry: boot_menu.Entry
    files: dict[str, Path | bytes]


@dataclass(frozen=True)
class Volume:
    """Answers for one host, as a distribution's installer looks for them: on a volume with this label."""

    host: str
    label: str
    files: dict[str, bytes]

    @property
    def name(self) -> str:
        """Return the name of its image."""
        return f"{self.host}.iso"


@dataclass(frozen=True)
class Media:
    """Media for some hosts; secrets says whether host keys and hashes of passwords are in them."""

    parts: Sequence[Part]
    volumes: Sequence[Volume] = ()
    secrets: bool = True

    @property
    def hosts(self) -> list[str]:
        """Return the names of the hosts, as those of files."""
        return [*(part.entry.host for part in self.parts), *(volume.host for volume in self.volumes)]


def write(directory: Path, media: Media) -> bool:
    """Write the media instead of others that were there; return whether anything was to do.

    Raises Refusal R053 where a program is missing, R054 where they cannot be written.
    """
    check_programs()
    with _writing(directory):
        directory.mkdir(parents=True, exist_ok=True)
        directory.chmod(0o700)
        with locked(directory, LONG):
            for left in (*directory.glob(f"{_NEW}*"), *directory.glob(f"{_OLD}*")):
                shutil.rmtree(left)
            wanted = _wanted(directory, media)
            if _is_there(directory, wanted):
                return False
            draft = Path(tempfile.mkdtemp(prefix=_NEW, dir=directory))
            try:
                _make(draft, media, _readme(directory, media))
                record = {**wanted, "files": _sums(draft)}
                (draft / RECORD).write_text(json.dumps(record, indent=1, sort_keys=True) + "\n", encoding="ascii")
                _own(draft)
                _replace(directory, draft)
            finally:
                shutil.rmtree(draft, ignore_errors=True)
    return True


def is_current(directory: Path, media: Media) -> bool:
    """Tell whether write has nothing to do. Raises Refusal R054."""
    with _writing(directory):
        return _is_there(directory, _wanted(directory, media))


def check_programs() -> None:
    """Look for all that makes media. Raises Refusal R053."""
    missing = {name: package for name, package in PROGRAMS.items() if not shutil.which(name)}
    missing |= {name: package for name, package in FILES.items() if not Path(name).is_file()}
    if missing:
        packages = " ".join(sorted(set(missing.values())))
        raise refuse("R053", what=", ".join(missing), way=f"Install there: {packages} (names of Debian and Ubuntu)")


def check_loaders(host: str, level: str | None) -> None:
    """Raise Refusal R038 where a machine's shim revokes a boot loader of media; level is that of the machine."""
    for path in (_SHIM, _GRUB_CD, _GRUB_NET) if level else ():
        way = f"Update the package {FILES[str(path)]} on this machine: the media get its boot loaders"
        sbat.check(host, level, str(path), sbat.of_loader(path.read_bytes()), way)


@contextlib.contextmanager
def _writing(directory: Path) -> Iterator[None]:
    try:
        yield
    except OSError as error:
        raise refuse("R054", path=directory, detail=error) from error


def _readme(directory: Path, media: Media) -> bytes:
    boot = _README_BOOT.format(pxe=(directory / PXE).absolute(), user=getpass.getuser()) if media.parts else ""
    volumes = ", ".join(one.name for one in media.volumes)
    return _README.format(
        hosts=", ".join(media.hosts),
        secrets=_WITH_SECRETS if media.secrets else _WITHOUT_SECRETS,
        boot=boot,
        answers=_README_ANSWERS.format(volumes=volumes) if volumes else "",
    ).encode()


def _wanted(directory: Path, media: Media) -> dict[str, Any]:
    """Return what the record says of these media, when these programs make them."""
    digest = hashlib.sha256()
    digest.update(_readme(directory, media))
    volumes = {f"{one.name}/{one.label}/{path}": data for one in media.volumes for path, data in one.files.items()}
    for path, content in sorted({**_contents(media.parts), **volumes}.items()):
        digest.update(f"{path}\0{_sha256(content)}\n".encode())
    for name in FILES:
        digest.update(_sha256(Path(name)).encode())
    return {"hosts": media.hosts, "made_of": digest.hexdigest(), "secrets": media.secrets}


def _is_there(directory: Path, wanted: dict[str, Any]) -> bool:
    try:
        record = json.loads((directory / RECORD).read_text(encoding="ascii"))
        files = record.pop("files")
        found = _sums(directory)
    except (OSError, ValueError, AttributeError, KeyError):
        return False
    modes = {path.stat().st_mode & 0o077 for path in (directory, *directory.rglob("*"))}
    return bool(record == wanted and files == found and modes == {0})


def _sums(directory: Path) -> dict[str, str]:
    """Return the SHA-256 of each file of the media, but for the record."""
    paths = (path for path in directory.rglob("*") if path.is_file() and path.name not in {RECORD, LOCK})
    return {str(path.relative_to(directory)): _sha256(path) for path in sorted(paths)}


def _sha256(content: Path | bytes) -> str:
    if isinstance(content, bytes):
        return hashlib.sha256(content).hexdigest()
    return sha256(content)


def _contents(parts: Sequence[Part]) -> dict[str, Path | bytes]:
    """Return what both media have, by path: the files of all hosts, of which some share theirs, and GRUB's menus."""
    found: dict[str, Path | bytes] = {f"{_GRUB}/grub.cfg": boot_menu.main([part.entry for part in parts]).encode()}
    for part in parts:
        found.update(part.files)
        found[f"{boot_menu.HOSTS}/{part.entry.host}.cfg"] = boot_menu.of_host(part.entry).encode()
    return found


def _make(draft: Path, media: Media, readme: bytes) -> None:
    with tempfile.TemporaryDirectory(prefix=f"{_NEW}-", dir=draft) as directory:
        work = Path(directory)
        if media.parts:
            _fill(draft / PXE, _contents(media.parts))
            _image(draft / ISO, draft / PXE, work)
            _for_network(draft / PXE)
        for volume in media.volumes:
            _fill(work / volume.name, volume.files)
            _xorriso("-J", "-V", volume.label, "-o", draft / volume.name, work / volume.name)
    (draft / README).write_bytes(readme)


def _fill(directory: Path, contents: Mapping[str, Path | bytes]) -> None:
    for path, content in contents.items():
        place = directory / path
        place.parent.mkdir(parents=True, exist_ok=True)
        if isinstance(content, bytes):
            place.write_bytes(content)
        else:
            shutil.copyfile(content, place)


def _image(iso: Path, common: Path, work: Path) -> None:
    """Make the ISO image of the common files, with GRUB for BIOS and UEFI, each from a CD and from a stick."""
    disk_info = work / "info"
    disk_info.write_text("gpulab\n", encoding="ascii")  # by .disk/info, Debian's signed GRUB finds its medium
    early = work / "early.cfg"
    early.write_text(
        f"search --no-floppy --file --set=root /.disk/info\nset prefix=($root)/{_GRUB}\n", encoding="ascii"
    )
    eltorito = work / "eltorito.img"
    _call("grub-mkimage", "-O", "i386-pc-eltorito", "-p", f"/{_GRUB}", "-c", early, "-o", eltorito, *_MODULES)
    esp = work / "efi.img"
    boot = {"BOOTX64.EFI": _SHIM, "grubx64.efi": _GRUB_CD, "mmx64.efi": _MOK_MANAGER}
    size = sum(path.stat().st_size for path in boot.values()) // _MIB + 2
    with esp.open("wb") as stream:
        stream.truncate(size * _MIB)
    _call("mformat", "-i", esp, "-N", "67507550", "-v", LABEL, "::")
    _call("mmd", "-i", esp, "::EFI", "::EFI/BOOT")
    for name, path in boot.items():
        _call("mcopy", "-i", esp, path, f"::EFI/BOOT/{name}")
    _xorriso(
        *(
            "-V",
            LABEL,
            "-o",
            iso,
            "-graft-points",
            "-b",
            f"{_GRUB}/eltorito.img",
            "-no-emul-boot",
            "-boot-load-size",
            "4",
            "-boot-info-table",
        ),
        *("--grub2-boot-info", "--grub2-mbr", _HYBRID, "--protective-msdos-label"),
        *("--efi-boot", f"{_GRUB}/efi.img", "-efi-boot-part", "--efi-boot-image"),
        *(f"/={common}", f"/{_GRUB}/eltorito.img={eltorito}", f"/{_GRUB}/efi.img={esp}", f"/.disk/info={disk_info}"),
    )


def _xorriso(*argv: str | Path) -> None:
    _call("xorriso", "-as", "mkisofs", "-quiet", "-r", "--set_all_file_dates", "=1", *argv)


def _for_network(common: Path) -> None:
    """Add GRUB's programs that the firmware loads over the network."""
    core = common / _GRUB / "core.0"
    _call("grub-mkimage", "-O", "i386-pc-pxe", "-p", f"/{_GRUB}", "-o", core, *_MODULES, "pxe", "tftp")
    for name, path in (("shimx64.efi", _SHIM), ("grubx64.efi", _GRUB_NET), ("mmx64.efi", _MOK_MANAGER)):
        shutil.copyfile(path, common / name)
    signed = common / _SIGNED_PREFIX
    signed.mkdir(parents=True)
    shutil.copyfile(common / _GRUB / "grub.cfg", signed / "grub.cfg")


def _call(*argv: str | Path) -> None:
    """Run a program. Raises OSError."""
    words = [str(word) for word in argv]
    # Nothing of when it was made is in the result.
    environment = {**os.environ, "SOURCE_DATE_EPOCH": "1", "MTOOLS_SKIP_CHECK": "1", "TZ": "UTC"}
    try:
        subprocess.run(words, capture_output=True, text=True, check=True, timeout=SECONDS, env=environment)
    except subprocess.CalledProcessError as error:
        lines = [line for line in error.stderr.splitlines() if line.strip()] or [f"status {error.returncode}"]
        message = f"{words[0]}: {lines[-1]}"
        raise OSError(message) from error
    except subprocess.TimeoutExpired as error:
        message = f"{words[0]} did not end in {SECONDS} seconds"
        raise OSError(message) from error


def _own(draft: Path) -> None:
    for path in (draft, *draft.rglob("*")):
        path.chmod(0o700 if path.is_dir() else 0o600)


def _replace(directory: Path, draft: Path) -> None:
    """Put the new media in the place of the old ones; the record comes last."""
    (directory / RECORD).unlink(missing_ok=True)
    with tempfile.TemporaryDirectory(prefix=_OLD, dir=directory) as old:
        for left in (directory / PXE, directory / README, *directory.glob("*.iso")):
            if left.exists():
                left.rename(Path(old) / left.name)
        made = sorted(draft.iterdir(), key=lambda path: path.name == RECORD)
        for path in made:
            path.rename(directory / path.name)

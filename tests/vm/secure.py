"""Firmware that enforces Secure Boot with the vendors' keys, and the signed boot loaders of Debian, for a machine."""

import shutil
import subprocess
from pathlib import Path

FIRMWARE = Path("/usr/share/OVMF")
LOADERS = {
    "BOOTX64.EFI": "/usr/lib/shim/shimx64.efi.signed",
    "mmx64.efi": "/usr/lib/shim/mmx64.efi.signed",
    "grubx64.efi": "/usr/lib/grub/x86_64-efi-signed/grubx64.efi.signed",
}
ESP = "ESP"  # serial number of the disk that the firmware boots from
ESP_MIB = 16
MENU = "search --no-floppy --set=root --file /boot/grub/grub.cfg\nconfigfile /boot/grub/grub.cfg\n"


def arguments(directory):
    """Return the arguments of QEMU; the firmware's variables are the machine's own, in directory."""
    variables = directory / "variables.fd"
    if not variables.exists():
        shutil.copyfile(FIRMWARE / "OVMF_VARS_4M.ms.fd", variables)
    return (
        *("-machine", "q35,smm=on", "-global", "driver=cfi.pflash01,property=secure,value=on"),
        *("-drive", f"if=pflash,format=raw,unit=0,readonly=on,file={FIRMWARE}/OVMF_CODE_4M.secboot.fd"),
        *("-drive", f"if=pflash,format=raw,unit=1,file={variables}"),
    )


def esp(path):
    """Write a disk that is one FAT file system with the boot loaders; they go on with the system's own menu."""
    with path.open("wb") as file:
        file.truncate(ESP_MIB << 20)
    menu = path.parent / "esp.cfg"
    menu.write_text(MENU)
    _run("mformat", "-i", path, "::")
    _run("mmd", "-i", path, "::EFI", "::EFI/BOOT", "::EFI/debian")
    for name, source in LOADERS.items():
        _run("mcopy", "-i", path, source, f"::EFI/BOOT/{name}")
    _run("mcopy", "-i", path, menu, "::EFI/debian/grub.cfg")  # where the signed GRUB looks
    return path


def _run(*argv):
    subprocess.run(argv, check=True, timeout=60)

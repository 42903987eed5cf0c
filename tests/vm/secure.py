"""A disk with the signed boot loaders of Debian, for a machine whose firmware enforces Secure Boot."""

import subprocess

LOADERS = {
    "BOOTX64.EFI": "/usr/lib/shim/shimx64.efi.signed",
    "mmx64.efi": "/usr/lib/shim/mmx64.efi.signed",
    "grubx64.efi": "/usr/lib/grub/x86_64-efi-signed/grubx64.efi.signed",
}
STATE = "/sys/firmware/efi/efivars/SecureBoot-8be4df61-93ca-11d2-aa0d-00e098032b8c"  # 1: enforced
ESP = "ESP"  # serial number of the disk that the firmware boots from
ESP_MIB = 16
# As grub-install writes it, but for the search, which is by UUID there.
MENU = """\
search --no-floppy --set=root --file /boot/grub/grub.cfg
set prefix=($root)/boot/grub
configfile $prefix/grub.cfg
"""


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

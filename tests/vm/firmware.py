"""What QEMU emulates: a processor, and the firmware that starts a disk there.

None of it is assumed of a machine by a test of it: that Secure Boot is enforced, or UEFI was used, is read from within.
"""

from __future__ import annotations

import shutil
from dataclasses import dataclass
from pathlib import Path

OVMF, AAVMF = Path("/usr/share/OVMF"), Path("/usr/share/AAVMF")


@dataclass(frozen=True)
class Firmware:
    """emulator is QEMU's program with the machine; code and variables are files of UEFI, of which a BIOS has none."""

    emulator: tuple[str, ...] = ("qemu-system-x86_64", "-cpu", "max")
    code: Path | None = None
    variables: Path | None = None

    def command(self, directory):
        """Return the beginning of QEMU's command; the variables are the machine's own, in its directory."""
        if self.variables is None:
            return self.emulator
        own = directory / "variables.fd"
        if not own.exists():
            shutil.copyfile(self.variables, own)
        code = f"if=pflash,format=raw,unit=0,readonly=on,file={self.code}"
        return (*self.emulator, "-drive", code, "-drive", f"if=pflash,format=raw,unit=1,file={own}")


BIOS = Firmware()
UEFI = Firmware((*BIOS.emulator, "-machine", "q35"), OVMF / "OVMF_CODE_4M.fd", OVMF / "OVMF_VARS_4M.fd")
# Enforced with the vendors' keys; without SMM it would not be.
SECURE_BOOT = Firmware(
    (*BIOS.emulator, "-machine", "q35,smm=on", "-global", "driver=cfi.pflash01,property=secure,value=on"),
    OVMF / "OVMF_CODE_4M.secboot.fd",
    OVMF / "OVMF_VARS_4M.ms.fd",
)
ARM64 = Firmware(
    # Pointer authentication takes a third of the time.
    ("qemu-system-aarch64", "-machine", "virt", "-cpu", "max,pauth=off", "-device", "virtio-rng-pci"),
    AAVMF / "AAVMF_CODE.fd",
    AAVMF / "AAVMF_VARS.fd",
)

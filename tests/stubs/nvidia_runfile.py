#!/usr/bin/env python3
"""Make stand-ins for NVIDIA's .run files: their options, records and order of work, and next to nothing inside.

    tests/stubs/nvidia_runfile.py DIRECTORY DRIVER[:FAULT]...

Each is DIRECTORY/NVIDIA-Linux-x86_64-DRIVER.run with its digest in a file .sha256 beside it. It unpacks itself and runs
its nvidia-installer (nvidia_installer.sh), as the real one does. The kernel modules, open and proprietary, are a few
lines of real C, really built by make and DKMS for the node's kernel; libraries and programs are empty. Nothing of it
drives a GPU. A FAULT spoils it: its modules are uncompilable, its installer is failing after it took the former
driver off, or it is lossy: NVIDIA's library is not in it.
"""

from __future__ import annotations

import hashlib
import io
import sys
import tarfile
from pathlib import Path

INSTALLER = Path(__file__).with_name("nvidia_installer.sh")
HEAD = """\
#!/bin/sh
# Stand-in for a .run file of NVIDIA's, made by the tests of gpulab.
set -e
extract='' target=$PWD/$(basename "$0" .run)
while [ $# -gt 0 ]; do
    case $1 in
        -x | --extract-only) extract=yes ;;
        --target) target=$2; shift ;;
        *) break ;;
    esac
    shift
done
mkdir "$target"
sed '1,/^__ARCHIVE__$/d' "$0" | tar --extract --gzip --directory="$target"
[ -n "$extract" ] || { cd "$target" && exec ./nvidia-installer "$@"; }
exit 0
__ARCHIVE__
"""
MODULE = """\
#include <linux/module.h>
static int __init stub_init(void) {{ return 0; }}
static void __exit stub_exit(void) {{ }}
module_init(stub_init);
module_exit(stub_exit);
MODULE_DESCRIPTION("Stand-in for NVIDIA's kernel module");
MODULE_LICENSE("{licence}");
MODULE_VERSION("{version}");
"""
MAKEFILE = """\
KERNEL_UNAME ?= $(shell uname -r)
modules clean:
\t$(MAKE) -C /lib/modules/$(KERNEL_UNAME)/build M=$(CURDIR) $@
"""
DKMS = """\
PACKAGE_NAME="nvidia"
PACKAGE_VERSION="{version}"
AUTOINSTALL="yes"
MAKE[0]="'make' KERNEL_UNAME=${{kernelver}} modules"
CLEAN="'make' KERNEL_UNAME=${{kernelver}} clean"
BUILT_MODULE_NAME[0]="nvidia"
DEST_MODULE_LOCATION[0]="/kernel/drivers/video"
"""
LICENCES = {"kernel": "NVIDIA", "kernel-open": "Dual MIT/GPL"}


def contents(version: str, fault: str) -> dict[str, str]:
    """Return the files in a .run file, by path."""
    files = {
        ".manifest": f"NVIDIA Accelerated Graphics Driver for Linux-x86_64\n{version}\n",
        "nvidia-installer": INSTALLER.read_text(encoding="utf-8")
        .replace("@VERSION@", version)
        .replace("@FAULT@", fault),
    }
    for directory, licence in LICENCES.items():
        spoilt = "#error spoilt\n" if fault == "uncompilable" else ""
        files[f"{directory}/nvidia/nv.c"] = MODULE.format(version=version, licence=licence) + spoilt
        files[f"{directory}/Kbuild"] = "obj-m := nvidia.o\nnvidia-y := nvidia/nv.o\n"
        files[f"{directory}/Makefile"] = MAKEFILE
        files[f"{directory}/dkms.conf"] = DKMS.format(version=version)
    return files


def archive(files: dict[str, str]) -> bytes:
    """Pack files, those at the top executable."""
    packed = io.BytesIO()
    with tarfile.open(fileobj=packed, mode="w:gz") as tar:
        for name, text in files.items():
            member = tarfile.TarInfo(name)
            member.mode, member.size = (0o644 if "/" in name else 0o755), len(text.encode())
            tar.addfile(member, io.BytesIO(text.encode()))
    return packed.getvalue()


def main() -> None:
    """Write every file and its digest."""
    directory = Path(sys.argv[1])
    directory.mkdir(parents=True, exist_ok=True)
    for wish in sys.argv[2:]:
        version, _colon, fault = wish.partition(":")
        data = HEAD.encode() + archive(contents(version, fault))
        path = directory / f"NVIDIA-Linux-x86_64-{version}.run"
        path.write_bytes(data)
        path.with_suffix(".sha256").write_text(hashlib.sha256(data).hexdigest())


if __name__ == "__main__":
    main()

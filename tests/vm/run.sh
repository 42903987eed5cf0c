#!/bin/sh
# Boots disks of nodes in QEMU with kernels of their own; see README.md. MACHINE=disks runs test_disks.py alone; arguments
# go to pytest.
set -eu
cd "$(dirname "$0")/../.."
if [ "$(id -u)" != 0 ]; then
    echo 'test-vm: run as root: the disk keeps the owners of the files of a node' >&2
    exit 1
fi
lab/setup.sh qemu-system-x86_64:qemu-system-x86 qemu-img:qemu-utils mkfs.ext4:e2fsprogs zstd:zstd \
    /usr/share/OVMF/OVMF_CODE_4M.fd:ovmf /usr/share/keyrings/debian-archive-keyring.gpg:debian-archive-keyring \
    xorriso:xorriso mcopy:mtools grub-mkimage:grub-common /usr/lib/grub/i386-pc/boot_hybrid.img:grub-pc-bin \
    /usr/lib/grub/x86_64-efi-signed/gcdx64.efi.signed:grub-efi-amd64-signed \
    /usr/lib/shim/shimx64.efi.signed:shim-signed /usr/lib/ipxe/qemu/efi-virtio.rom:ipxe-qemu \
    qemu-system-aarch64:qemu-system-arm /usr/share/AAVMF/AAVMF_CODE.fd:qemu-efi-aarch64 sfdisk:fdisk \
    update-binfmts:binfmt-support qemu-aarch64-static:qemu-user-static arch-test:arch-test
export PATH="$PWD/.venv/bin:$PATH"
exec pytest --verbose --exitfirst --durations=0 "tests/vm${MACHINE:+/test_$MACHINE.py}" "$@"

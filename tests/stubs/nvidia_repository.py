#!/usr/bin/env python3
"""Make a stand-in for NVIDIA's APT repositories: their layout, package names and signing, and next to nothing inside.

    tests/stubs/nvidia_repository.py DIRECTORY [--cuda CUDA]... DRIVER[:FAULT]...

A FAULT spoils a driver: its module is uncompilable, with uncompilable=TEXT for kernels with TEXT in their name, with
uncompilable=!TEXT for all others, it is lossy and shows one GPU only, or it is unsound and GPU 0 has memory errors, the
last two as simulated nodes can. The driver's user space is empty. The kernel module is real C, built by the node's DKMS
for the node's kernel. The CUDA toolkits are those of cuda.py, DCGM's packages those of dcgm.py. Beside these are two
packages that no node may take: a libc6 newer than any, and one that was altered after it was indexed. The key is made
on the spot; DIRECTORY/fingerprint names it. Needs gpg and gpg-agent.
"""

from __future__ import annotations

import argparse
import shutil
from pathlib import Path

import cuda
import dcgm
from deb import Package
from repository import fingerprint, public_key, signing_key, write_packages, write_release

# What NVIDIA's key for each system is called.
KEYS = {
    "debian12": "3bf863cc.pub",
    "debian13": "8793F200.pub",
    "ubuntu2204": "3bf863cc.pub",
    "ubuntu2404": "3bf863cc.pub",
    "ubuntu2604": "60DF8A40.pub",
}
ORIGIN = {"Origin": "NVIDIA", "Label": "NVIDIA CUDA", "Architecture": "amd64"}
MAKEFILE = "obj-m := nvidia.o\n"
SPOILT_KERNELS = "ccflags-y := $(if $(findstring {text},$(KERNELRELEASE)),{when})\n"
MODULE = """\
#include <linux/module.h>
static int __init stub_init(void) {{ return 0; }}
static void __exit stub_exit(void) {{ }}
module_init(stub_init);
module_exit(stub_exit);
MODULE_DESCRIPTION("Stand-in for NVIDIA's kernel module");
MODULE_LICENSE("Dual MIT/GPL");
MODULE_VERSION("{version}");
"""
# As the open modules before 580.126.09 fail on newer kernels
UNCOMPILABLE = """\
#ifdef SPOILT
int pci_resize_resource(int resource, int exclude_bars);
int spoilt(void) { return pci_resize_resource(1); }
#endif
"""
DKMS = """\
PACKAGE_NAME="nvidia"
PACKAGE_VERSION="{version}"
BUILT_MODULE_NAME[0]="nvidia"
DEST_MODULE_LOCATION[0]="/updates/dkms"
AUTOINSTALL="yes"
"""
# A driver that does not work on this machine, by the simulation's own means.
SIMULATED = {"lossy": "driver_count = 1", "unsound": "gpu.0.ecc_volatile_uncorrected = 3"}
UNIT = "[Service]\nExecStart=/usr/bin/sleep infinity\n[Install]\nWantedBy=multi-user.target\n"
# The daemon reads the nodes when it starts, and answers when it is at work.
IMEX = {
    "/etc/nvidia-imex/config.cfg": "SERVER_PORT=50000\n",
    "/lib/systemd/system/nvidia-imex.service": UNIT.replace(
        "/usr/bin/sleep infinity",
        "/bin/sh -c 'cp /etc/nvidia-imex/nodes_config.cfg /run/imex-nodes; exec sleep infinity'",
    ),
    "/usr/bin/nvidia-imex-ctl": "#!/bin/sh\nsystemctl --quiet is-active nvidia-imex && echo READY\n",
}
PERSISTENCED = {"files": {"/lib/systemd/system/nvidia-persistenced.service": UNIT}}
LIBRARY = ("libnvidia-ml1", "libnvidia-compute")
# The user space: name, dependencies, files
DEBIAN: list[tuple[str, str, dict[str, dict[str, str]]]] = [
    ("nvidia-kernel-support", "", {}),
    ("nvidia-driver-cuda", "libcuda1 libnvidia-ml1 nvidia-modprobe nvidia-persistenced", {}),
    ("libcuda1", "libnvidia-ptxjitcompiler1", {}),
    ("libnvidia-ptxjitcompiler1", "", {}),
    ("libnvidia-ml1", "", {}),
    ("nvidia-modprobe", "", {}),
    ("nvidia-persistenced", "", PERSISTENCED),
]
UBUNTU: list[tuple[str, str, dict[str, dict[str, str]]]] = [
    ("nvidia-kernel-common", "", {}),
    ("nvidia-headless-no-dkms-open", "libnvidia-compute nvidia-compute-utils", {}),
    ("libnvidia-compute", "nvidia-kernel-common", {}),
    ("nvidia-compute-utils", "", PERSISTENCED),
]
# What the real pinning package does: a record that holds every package of the driver at one version.
PINNING = "Package: libcuda1 libnvidia-* nvidia-*\nPin: version {version}-*\nPin-Priority: 1000\n"


def driver(wish: str, system: str) -> list[Package]:
    """Return the packages of one VERSION[:FAULT] for a system, with the dependencies that matter to APT."""
    version, _colon, spoiling = wish.partition(":")
    fault, _equals, text = spoiling.partition("=")
    uncompilable = fault == "uncompilable"
    when = ",-DSPOILT" if text.startswith("!") else "-DSPOILT"
    spoilt_kernels = SPOILT_KERNELS.format(text=text.lstrip("!") or ".", when=when) if uncompilable else ""
    full = f"{version}-1ubuntu1" if system.startswith("ubuntu") else f"{version}-1"
    spoilt = {
        "postinst": f"#!/bin/sh\nset -e\n/usr/local/sbin/gpulab-simulate fault '{SIMULATED.get(fault)}'\n",
        "prerm": "#!/bin/sh\nset -e\n/usr/local/sbin/gpulab-simulate heal\n",
    }
    library = {
        # The simulated NVML compares the name of this file with the loaded module's version.
        "files": {f"/usr/lib/x86_64-linux-gnu/libnvidia-ml.so.{version}": "stand-in for NVIDIA's library\n"},
        "scripts": spoilt if fault in SIMULATED else {},
    }

    def package(name: str, needs: str = "", **parts: dict[str, str]) -> Package:
        depends = ", ".join(f"{need} (= {full})" if need != "dkms" else need for need in needs.split())
        return Package(name, full, {"Depends": depends}, **parts)

    source = f"/usr/src/nvidia-{version}"
    return [
        Package(
            f"nvidia-driver-pinning-{version}",
            "1.0-1",
            {"Provides": "nvidia-driver-pinning", "Conflicts": "nvidia-driver-pinning"},
            files={"/etc/apt/preferences.d/nvidia-driver-pinning": PINNING.format(version=version)},
        ),
        package(
            "nvidia-dkms-open" if system.startswith("ubuntu") else "nvidia-kernel-open-dkms",
            "dkms nvidia-kernel-common" if system.startswith("ubuntu") else "dkms nvidia-kernel-support",
            files={
                f"{source}/dkms.conf": DKMS.format(version=version),
                f"{source}/Makefile": MAKEFILE + spoilt_kernels,
                f"{source}/nvidia.c": MODULE.format(version=version) + (UNCOMPILABLE if uncompilable else ""),
            },
            scripts={
                "postinst": f'#!/bin/sh\nset -e\n/usr/lib/dkms/common.postinst nvidia {version} "" x86_64 "$2"\n',
                "prerm": f"#!/bin/sh\ndkms remove -m nvidia -v {version} --all || :\n",
            },
        ),
        package("nvidia-fabricmanager", files={"/lib/systemd/system/nvidia-fabricmanager.service": UNIT}),
        package("nvidia-imex", files=IMEX),
        package("libnvidia-nscq"),
        *(
            package(name, needs, **(library if name in LIBRARY else parts))
            for name, needs, parts in (UBUNTU if system.startswith("ubuntu") else DEBIAN)
        ),
    ]


def main() -> None:
    """Write the repository of every system, signed by one key."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("directory", type=Path)
    parser.add_argument("drivers", nargs="*")
    parser.add_argument("--cuda", action="append", default=[])
    arguments = parser.parse_intermixed_args()
    root = arguments.directory
    shutil.rmtree(root, ignore_errors=True)
    altered = Package("nvidia-altered", "1.0-1", {})
    toolkits = [package for version in arguments.cuda for package in cuda.toolkit(version) + cuda.libraries(version)]
    toolkits += [cuda.compat(version) for version in arguments.cuda]
    # cuDNN is one for all toolkits of a CUDA major
    toolkits = list({package.file_name: package for package in [*cuda.common(), *toolkits]}.values())
    with signing_key("Stub of NVIDIA") as home:
        for system, key in KEYS.items():
            repository = root / "compute/cuda/repos" / system / "x86_64"
            packages = [package for wish in arguments.drivers for package in driver(wish, system)]
            packages += [*toolkits, *dcgm.packages(), altered, Package("libc6", "99.0-1", {})]
            index = write_packages(repository, ".", packages)
            write_release(repository, ORIGIN, {"Packages": index}, home)
            deb = repository / altered.file_name
            deb.write_bytes(deb.read_bytes()[:-1] + b"!")
            (repository / key).write_bytes(public_key(home))
        (root / "fingerprint").write_text(fingerprint(home))


if __name__ == "__main__":
    main()

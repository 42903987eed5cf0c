#!/usr/bin/env python3
"""Make stand-ins for what a Rocky node reads: its own repositories, EPEL and vendors', with next to nothing inside.

    rocky_repositories.py DIRECTORY [--cuda CUDA]... --container-toolkit VERSION --docker VERSION DRIVER[:FAULT]...

Layout, package names, dependencies, epochs, module streams and signing are the vendors'. The driver's user space is
empty; its kernel module is real C, built by the node's DKMS, but against headers that need no kernel. A FAULT spoils a
driver: its module is uncompilable, or it is lossy and shows one GPU only, as simulated nodes can. Toolkits are those
of cuda.py and container_toolkit_repository.py, Docker's are those of docker_vendor.py, and Podman knows nothing but
its version. Beside these there are a package altered after it was indexed and one that nobody signed. The keys are
made on the spot: NVIDIA's is DIRECTORY/nvidia-key, named by fingerprint, and that of all others key, named by
system-fingerprint. Needs rpmbuild, rpmsign, createrepo_c, gpg and gcc: the lab's Rocky image has them.
"""

from __future__ import annotations

import argparse
import os
import re
import shutil
import subprocess
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING

import container_toolkit_repository
import cuda
import docker_vendor
from rpm import Package, build

if TYPE_CHECKING:
    import deb

# By major version of the system: NVIDIA's key, the kernels, the last of which is installed nowhere, and whether drivers
# come in module streams.
SYSTEMS = {
    "9": ("D42D0685.pub", [("5.14.0", "503.el9"), ("5.14.0", "570.el9"), ("5.14.0", "611.el9")], True),
    "10": ("CDF6BA43.pub", [("6.12.0", "55.el10"), ("6.12.0", "124.el10"), ("6.12.0", "211.el10")], False),
}
MODULE = """\
#define MODINFO(name, text) static const char name[] __attribute__((used, section(".modinfo"))) = #name "=" text
MODINFO(version, "{version}");
MODINFO(license, "{licence}");
MODINFO(description, "Stand-in for a kernel module");
"""
# What a kernel's headers bring that DKMS looks at; "modules" is what it builds.
MAKEFILE = "modules:\n\tgcc -c -o $(M)/nvidia.ko $(M)/nvidia.c\nclean:\n\trm -f $(M)/nvidia.ko\n"
DKMS = """\
PACKAGE_NAME="nvidia"
PACKAGE_VERSION="{version}"
MAKE[0]="make -C $kernel_source_dir M=$dkms_tree/$module/$module_version/build modules"
CLEAN="true"
BUILT_MODULE_NAME[0]="nvidia"
DEST_MODULE_LOCATION[0]="/extra"
AUTOINSTALL="yes"
"""
# What CUDA's packages are called here where that is not their name on Debian.
RPM_NAMES = {
    "g++": "gcc-c++",
    "libnccl2": "libnccl",
    "libnccl-dev": "libnccl-devel",
    "libcudnn9-dev-cuda-13": "libcudnn9-devel-cuda-13",
}
# A driver that does not work on this machine, by the simulation's own means.
LOSSY = {
    "post": "/usr/local/sbin/gpulab-simulate fault 'driver_count = 1'",
    "preun": "/usr/local/sbin/gpulab-simulate heal",
}
UNIT = "[Service]\nExecStart=/usr/bin/sleep infinity\n[Install]\nWantedBy=multi-user.target\n"
PODMAN = "#!/bin/sh\n# Stand-in for Podman: no container runs here.\n[ $1 != --version ] || echo podman version 5.4.0\n"
SYSTEM, NVIDIA = "system@example.org", "nvidia@example.org"  # whose the keys are
EPEL = """\
[epel]
name=Stand-in for EPEL
baseurl=http://$stub/epel/{major}
gpgkey=file:///etc/pki/rpm-gpg/RPM-GPG-KEY-stub
gpgcheck=1
"""


def system(major: str) -> list[Package]:
    """Return the packages of the system itself."""
    packages = [Package("bash", "5", "1", tags=("Provides: /bin/sh",))]
    packages += [Package(name, "1", "1") for name in ("gcc", "gcc-c++", "make", "python3-dnf-plugin-versionlock")]
    packages.append(Package("podman", "5.4.0", "1", files={"/usr/bin/podman": PODMAN}))
    also_docker = {"/usr/bin/docker": "podman"}
    packages.append(Package("podman-docker", "5.4.0", "1", tags=("Conflicts: docker-ce",), links=also_docker))
    epel = {"/etc/yum.repos.d/epel.repo": EPEL.format(major=major)}
    packages.append(Package("epel-release", major, "1", files=epel))
    return packages


def kernel(version: str, release: str) -> list[Package]:
    """Return a kernel, its headers, and the package that needs both."""
    name = f"{version}-{release}.x86_64"
    modules, headers = f"/usr/lib/modules/{name}", f"/usr/src/kernels/{name}"
    core = Package(
        "kernel-core",
        version,
        release,
        tags=("Provides: installonlypkg(kernel)",),
        files={
            f"/boot/vmlinuz-{name}": "",
            f"{modules}/modules.builtin": "",
            f"{modules}/modules.order": "kernel/drivers/gpu/drm/nouveau/nouveau.ko\n",
            f"{modules}/kernel/drivers/gpu/drm/nouveau/nouveau.ko": compiled("nouveau"),
        },
        links={f"{modules}/build": headers},
        scripts={"post": f"depmod {name}"},
    )
    devel = Package(
        "kernel-devel",
        version,
        release,
        tags=("Provides: installonlypkg(kernel)",),
        files={f"{headers}/Makefile": MAKEFILE, f"{headers}/include/config/auto.conf": "", f"{headers}/.config": ""},
    )
    needs = tuple(f"Requires: {package} = {version}-{release}" for package in ("kernel-core", "kernel-devel"))
    return [core, devel, Package("kernel-devel-matched", version, release, tags=needs)]


def compiled(name: str) -> bytes:
    """Return a kernel module that does nothing."""
    with tempfile.TemporaryDirectory() as directory:
        source = Path(directory, f"{name}.c")
        source.write_text(MODULE.format(version="1", licence="GPL"))
        subprocess.run(["gcc", "-c", "-o", f"{directory}/{name}.ko", str(source)], check=True)
        return Path(directory, f"{name}.ko").read_bytes()


def driver(wish: str, release: str) -> list[Package]:
    """Return the packages of one VERSION[:FAULT], with the dependencies that matter to dnf."""
    version, _colon, fault = wish.partition(":")
    spoilt = "#error spoilt\n" if fault == "uncompilable" else ""

    def package(name: str, needs: str = "", *tags: str, **parts: dict[str, str]) -> Package:
        requires = [f"Requires: {need} = 3:{version}" if need != "dkms" else "Requires: dkms" for need in needs.split()]
        return Package(name, version, release, 3, (*requires, *tags), **parts)

    source = f"/usr/src/nvidia-{version}"

    def modules(name: str, licence: str, other: str) -> Package:
        return package(
            name,
            "dkms nvidia-kmod-common",
            f"Provides: nvidia-kmod = 3:{version}",
            f"Conflicts: {other}",
            files={
                f"{source}/dkms.conf": DKMS.format(version=version),
                f"{source}/nvidia.c": spoilt + MODULE.format(version=version, licence=licence),
            },
            scripts={
                "post": f"dkms add -m nvidia -v {version} || :",
                "preun": f"dkms remove -m nvidia -v {version} --all || :",
            },
        )

    # The simulated NVML compares the name of this file with the loaded module's version.
    library = {f"/usr/lib64/libnvidia-ml.so.{version}": "stand-in for NVIDIA's library\n"}
    unit = {"/usr/lib/systemd/system/nvidia-persistenced.service": UNIT}
    return [
        modules("kmod-nvidia-open-dkms", "Dual MIT/GPL", "kmod-nvidia-latest-dkms"),
        package("nvidia-kmod-common", "nvidia-kmod"),
        package("nvidia-driver-cuda", "nvidia-driver-cuda-libs nvidia-kmod-common nvidia-persistenced"),
        package("nvidia-driver-cuda-libs", "libnvidia-ml"),
        package("libnvidia-ml", files=library, scripts=LOSSY if fault == "lossy" else {}),
        package("nvidia-persistenced", files=unit),
    ]


def toolkits(versions: list[str]) -> list[list[Package]]:
    """Return the packages of CUDA; in each list they have different names."""
    made: dict[str, list[Package]] = {}
    of_debian = [
        *cuda.common(),
        *(one for version in versions for one in cuda.toolkit(version) + cuda.libraries(version)),
    ]
    for package in {package.file_name: converted(package) for package in of_debian}.values():
        made.setdefault(package.name, []).append(package)
    most = max(map(len, made.values()), default=0)
    return [[packages[number] for packages in made.values() if number < len(packages)] for number in range(most)]


def converted(package: deb.Package) -> Package:
    """Return a package of Debian as Red Hat's systems have it."""
    version, _hyphen, release = package.version.rpartition("-")
    needs = re.findall(r"([\w+.-]+)(?: \((\S+) (\S+)\))?", package.fields.get("Depends", ""))
    return Package(
        RPM_NAMES.get(package.name, package.name),
        version,
        release,
        tags=tuple(
            f"Requires: {RPM_NAMES.get(name, name)} {relation} {wanted}"
            for name, relation, wanted in needs
            if name != "python3"
        ),
        files=dict(package.files),
        scripts={
            name: package.scripts[script]
            for name, script in (("post", "postinst"), ("preun", "prerm"))
            if script in package.scripts
        },
    )


def streams(packages: list[Package]) -> str:
    """Return module metadata as NVIDIA has them: a stream per branch and flavour."""
    documents = []
    for branch in sorted({package.version.partition(".")[0] for package in packages}):
        artifacts = "".join(
            f"      - {package.nevra}\n" for package in packages if package.version.startswith(f"{branch}.")
        )
        documents.append(
            f"---\ndocument: modulemd\nversion: 2\ndata:\n  name: nvidia-driver\n  stream: {branch}-open\n"
            "  version: 20261101000000\n  context: 0123456789\n  arch: x86_64\n  summary: Stub\n  description: >-\n"
            f"    Stub\n  license:\n    module:\n    - MIT\n  artifacts:\n    rpms:\n{artifacts}...\n"
        )
    return "".join(documents)


def main() -> None:
    """Build and sign everything, for every system."""
    parser = argparse.ArgumentParser()
    parser.add_argument("directory", type=Path)
    parser.add_argument("--cuda", action="append", default=[])
    parser.add_argument("--container-toolkit", required=True)
    parser.add_argument("--docker", required=True)
    parser.add_argument("drivers", nargs="+")
    arguments = parser.parse_args()
    root = arguments.directory
    for entry in root.glob("*"):
        shutil.rmtree(entry) if entry.is_dir() else entry.unlink()
    with tempfile.TemporaryDirectory() as home:  # short enough for the agent's socket
        os.environ["GNUPGHOME"] = home
        for signer in (SYSTEM, NVIDIA):
            make_key(signer)
        key = gpg("--armor", "--export", NVIDIA)
        for major, (key_name, kernels, has_streams) in SYSTEMS.items():
            base, epel = root / "rocky" / major, root / "epel" / major
            vendor = root / f"compute/cuda/repos/rhel{major}/x86_64"
            docker = root / f"linux/rhel/{major}/x86_64/stable"
            work = Path(home, "work")
            build(system(major), "Stand-in for Rocky", work, base)
            for version, release in kernels:
                build(kernel(version, release), "Stand-in for Rocky", work, base)
            build([Package("dkms", "3.2", "1")], "Stand-in for EPEL", work, epel)
            build(docker_vendor.rpms(arguments.docker, f"1.el{major}"), "Docker", work, docker)
            versions = {version: driver(version, f"1.el{major}") for version in arguments.drivers}
            for packages in versions.values():
                build(packages, "NVIDIA", work, vendor)
            for packages in toolkits(arguments.cuda):
                build(packages, "NVIDIA", work, vendor)
            strangers = [Package(f"nvidia-{name}", "1", "1") for name in ("altered", "unsigned")]
            build(strangers, "NVIDIA", work, vendor)
            signers = {base: SYSTEM, epel: SYSTEM, vendor: NVIDIA, docker: SYSTEM}
            for repository, signer in signers.items():
                index(repository, signer)
            if has_streams:
                modules = Path(home, "modules.yaml")
                modules.write_text(streams([package for packages in versions.values() for package in packages]))
                subprocess.run(["modifyrepo_c", "--mdtype=modules", str(modules), str(vendor / "repodata")], check=True)
            altered = vendor / strangers[0].file_name
            altered.write_bytes(altered.read_bytes()[:-1] + b"!")
            for repository, signer in signers.items():
                seal(repository, signer)
            (vendor / key_name).write_bytes(key)
        containers = root / "libnvidia-container/stable/rpm/x86_64"
        packages = container_toolkit_repository.toolkit(arguments.container_toolkit)
        build([converted(package) for package in packages], "NVIDIA", work, containers)
        index(containers, NVIDIA)
        seal(containers, NVIDIA)
        (root / "libnvidia-container/gpgkey").write_bytes(key)
        (root / "nvidia-key").write_bytes(key)
        (root / "key").write_bytes(gpg("--armor", "--export", SYSTEM))
        (root / "system-fingerprint").write_text(fingerprint(SYSTEM))
        (root / "fingerprint").write_text(fingerprint(NVIDIA))
        subprocess.run(["gpgconf", "--kill", "gpg-agent"], check=True)


def index(repository: Path, signer: str) -> None:
    """Sign the packages of a repository, and write its metadata."""
    files = [str(file) for file in repository.glob("*.rpm") if "unsigned" not in file.name]
    defines = ["--define", f"_gpg_name {signer}", "--define", "__gpg /usr/bin/gpg"]
    subprocess.run(["rpmsign", *defines, "--addsign", *files], check=True)
    subprocess.run(["createrepo_c", "--quiet", str(repository)], check=True)


def seal(repository: Path, signer: str) -> None:
    """Sign the metadata of a repository."""
    gpg("--local-user", signer, "--armor", "--detach-sign", str(repository / "repodata/repomd.xml"))


def make_key(signer: str) -> None:
    """Make the key with which one signs."""
    gpg("--passphrase", "", "--quick-generate-key", f"Stub <{signer}>", "rsa2048", "sign", "never")


def fingerprint(signer: str) -> str:
    """Return the fingerprint of a key, as gpg computes it."""
    listing = gpg("--list-keys", "--with-colons", signer).decode().splitlines()
    return next(line.split(":")[9] for line in listing if line.startswith("fpr"))


def gpg(*arguments: str) -> bytes:
    """Run gpg; return what it prints."""
    return subprocess.run(["gpg", "--batch", "--quiet", *arguments], check=True, stdout=subprocess.PIPE).stdout


if __name__ == "__main__":
    main()
